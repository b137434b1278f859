// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the histogram and the parameters of test_workqueue.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sort.h>

#include "test_workqueue.h"

/* every bucket ends where the next one begins and is narrow for what it holds */
static void buckets_have_no_gaps(struct kunit *test)
{
	unsigned int bucket;
	u64 lower, upper;

	for (bucket = 0, lower = 0; bucket < HIST_BUCKETS; bucket++, lower = upper + 1) {
		upper = hist_upper(bucket);
		KUNIT_EXPECT_EQ_MSG(test, hist_bucket(lower), bucket, "lower %llu", lower);
		KUNIT_EXPECT_EQ_MSG(test, hist_bucket(upper), bucket, "upper %llu", upper);
		KUNIT_EXPECT_LE(test, (upper - lower) * HIST_SUB, lower);
	}
	KUNIT_EXPECT_EQ(test, upper, BIT_ULL(HIST_MAX_BITS) - 1);
	for (lower = upper + 1; lower; lower <<= 1)
		KUNIT_EXPECT_EQ(test, hist_bucket(lower), HIST_BUCKETS - 1);
}

static int cmp_u64(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* against the percentiles of the sorted samples, of up to @bits bits each */
static void check_percentiles(struct kunit *test, unsigned int nr, unsigned int bits)
{
	static const unsigned int permille[] = { 1, 500, 900, 950, 990, 999, 1000 };
	struct hist *hist = kunit_kzalloc(test, sizeof(*hist), GFP_KERNEL);
	u64 *samples = kunit_kcalloc(test, nr, sizeof(*samples), GFP_KERNEL);
	struct rnd_state rnd;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, hist);
	KUNIT_ASSERT_NOT_NULL(test, samples);
	prandom_seed_state(&rnd, nr + bits);
	for (i = 0; i < nr; i++) {
		u64 sample = (u64)prandom_u32_state(&rnd) << 32 | prandom_u32_state(&rnd);

		samples[i] = sample >> (64 - 1 - prandom_u32_state(&rnd) % bits);
		hist_add(hist, samples[i]);
	}
	sort(samples, nr, sizeof(*samples), cmp_u64, NULL);

	KUNIT_EXPECT_EQ(test, hist->total, nr);
	KUNIT_EXPECT_EQ(test, hist->max, samples[nr - 1]);
	for (i = 0; i < ARRAY_SIZE(permille); i++) {
		u64 exact = samples[DIV_ROUND_UP(nr * permille[i], 1000) - 1];
		u64 found = hist_percentile(hist, permille[i]);

		KUNIT_EXPECT_GE_MSG(test, found, exact, "%u of %u samples", permille[i], nr);
		if (exact >> HIST_MAX_BITS)
			KUNIT_EXPECT_EQ(test, found, hist->max);
		else
			KUNIT_EXPECT_LE_MSG(test, found, exact + exact / HIST_SUB,
					    "%u of %u samples", permille[i], nr);
	}
}

static void percentiles_are_near_exact_ones(struct kunit *test)
{
	static const unsigned int numbers[] = { 1, 2, 3, 10, 999, 1000, 1001, 20000 };
	struct hist *hist = kunit_kzalloc(test, sizeof(*hist), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, hist);
	KUNIT_EXPECT_EQ(test, hist_percentile(hist, 999), 0);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		check_percentiles(test, numbers[i], 5);
		check_percentiles(test, numbers[i], 30);
		check_percentiles(test, numbers[i], 40);
	}
}

/* samples of two histograms that are merged are as those of one */
static void merge_adds_up(struct kunit *test)
{
	struct hist *hists = kunit_kcalloc(test, 3, sizeof(*hists), GFP_KERNEL);
	struct rnd_state rnd;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, hists);
	prandom_seed_state(&rnd, 3);
	for (i = 0; i < 1000; i++) {
		u64 sample = prandom_u32_state(&rnd) >> prandom_u32_state(&rnd) % 32;

		hist_add(&hists[i % 2], sample);
		hist_add(&hists[2], sample);
	}
	hist_add(&hists[1], U64_MAX);
	hist_add(&hists[2], U64_MAX);
	hist_merge(&hists[0], &hists[1]);
	KUNIT_EXPECT_MEMEQ(test, &hists[0], &hists[2], sizeof(*hists));
}

static int set_params(struct bench_params *params, const char *words)
{
	char buf[128];

	strscpy(buf, words);
	return bench_set_params(params, buf);
}

static void good_params_are_taken(struct kunit *test)
{
	struct bench_params *params = kunit_kzalloc(test, sizeof(*params), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, params);
	KUNIT_EXPECT_EQ(test, 0, set_params(params, "scopes=cache,cpu mode=burst threads=1\n"));
	KUNIT_EXPECT_EQ(test, 0, set_params(params, "cpus=0 items=100000000 window=131072"));
	KUNIT_EXPECT_EQ(test, 0, set_params(params, " work_ns=100000000  sleep_us=250000\t"));
	KUNIT_EXPECT_EQ(test, 0, set_params(params, "max_active=512 strict=1\nspread=1 "));
	KUNIT_EXPECT_EQ(test, 0, set_params(params, "warmup=0 repeat=0x3e8"));
	KUNIT_EXPECT_EQ(test, params->scopes, BIT(0) | BIT(3));
	KUNIT_EXPECT_EQ(test, params->mode, MODE_BURST);
	KUNIT_EXPECT_EQ(test, params->threads, 1);
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&params->cpus, cpumask_of(0)));
	KUNIT_EXPECT_EQ(test, params->items, 100000000);
	KUNIT_EXPECT_EQ(test, params->window, 131072);
	KUNIT_EXPECT_EQ(test, params->work_ns, 100000000);
	KUNIT_EXPECT_EQ(test, params->sleep_us, 250000);
	KUNIT_EXPECT_EQ(test, params->max_active, 512);
	KUNIT_EXPECT_EQ(test, params->strict, 1);
	KUNIT_EXPECT_EQ(test, params->spread, 1);
	KUNIT_EXPECT_EQ(test, params->warmup, 0);
	KUNIT_EXPECT_EQ(test, params->repeat, 1000);

	KUNIT_EXPECT_EQ(test, 0, set_params(params, ""));
	KUNIT_EXPECT_EQ(test, 0, set_params(params, "items=2 items=1 cpus="));
	KUNIT_EXPECT_EQ(test, params->items, 1);
	KUNIT_EXPECT_TRUE(test, cpumask_empty(&params->cpus));

	/* each name is where its constant says */
	for (i = 0; i < ARRAY_SIZE(bench_modes); i++) {
		KUNIT_EXPECT_EQ(test, 0, bench_set_param(params, "mode", bench_modes[i]));
		KUNIT_EXPECT_EQ(test, params->mode, i);
	}
	for (i = 0; i < ARRAY_SIZE(bench_scopes); i++) {
		KUNIT_EXPECT_EQ(test, 0, bench_set_param(params, "scopes", bench_scopes[i]));
		KUNIT_EXPECT_EQ(test, params->scopes, BIT(i));
	}
}

static void bad_params_are_refused(struct kunit *test)
{
	static const char * const bad[] = {
		"scopes=", "scopes=cach", "scopes=cachefoo", "scopes=cpu,", "scopes=,cpu",
		"scopes=cpu,,smt", "scopes=Cache", "mode=", "mode=ser", "mode=burst,chain",
		"mode=0", "threads=-1", "threads=4294967296", "threads=1000000", "threads=x",
		"cpus=x", "cpus=3-1", "cpus=-1", "cpus=1000000", "items=0", "items=100000001",
		"items=", "items=1k", "items=1.5", "items=-1", "window=-1", "window=131073",
		"work_ns=100000001", "work_ns=-1", "sleep_us=0", "sleep_us=250001",
		"max_active=-1", "max_active=1000000", "strict=2", "strict=y", "spread=2",
		"warmup=100000001", "repeat=0", "repeat=1001", "item=1", "items", "=", "=1",
	};
	struct bench_params *params = kunit_kzalloc(test, sizeof(*params), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, params);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, set_params(params, bad[i]), -EINVAL, "\"%s\"", bad[i]);
	KUNIT_EXPECT_EQ(test, set_params(params, "items=1 repeat=0"), -EINVAL);
	KUNIT_EXPECT_EQ(test, set_params(params, "repeat=0 items=1"), -EINVAL);
}

static void params_fit_the_cpus(struct kunit *test)
{
	struct bench_params *params = kunit_kzalloc(test, sizeof(*params), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, params);
	params->window = 8;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&params->cpus, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->threads, num_possible_cpus());
	KUNIT_EXPECT_EQ(test, params->window, 1);
	params->threads++;
	KUNIT_EXPECT_EQ(test, -EINVAL, bench_check_params(params, cpu_possible_mask));

	params->mode = MODE_FANOUT;
	params->threads = 0;
	params->window = 8;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->threads, 1);
	KUNIT_EXPECT_EQ(test, params->window, 8);
	params->threads = num_possible_cpus();
	params->window = BENCH_MAX_IN_FLIGHT / params->threads;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	params->window++;
	KUNIT_EXPECT_EQ(test, -EINVAL, bench_check_params(params, cpu_possible_mask));
	params->threads = 1;

	/* by default, no more than can be active, but in mode sleep */
	params->window = 0;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->window, 32);
	params->window = 0;
	params->max_active = 5;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->window, 5);
	params->mode = MODE_SLEEP;
	params->window = 0;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->window, 32);
	params->mode = MODE_CANCEL;
	params->threads = 0;
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, params->threads, 1);
	KUNIT_EXPECT_EQ(test, params->window, 1);
	KUNIT_EXPECT_EQ(test, params->max_active, 1);
	params->mode = MODE_FANOUT;

	/* CPUs that are not online, which here are all but the first */
	if (num_possible_cpus() > 1)
		KUNIT_EXPECT_EQ(test, -EINVAL, bench_check_params(params, cpumask_of(0)));
	cpumask_copy(&params->cpus, cpumask_of(0));
	KUNIT_EXPECT_EQ(test, 0, bench_check_params(params, cpumask_of(0)));
	params->threads = 2;
	KUNIT_EXPECT_EQ(test, -EINVAL, bench_check_params(params, cpumask_of(0)));
}

static struct kunit_case test_workqueue_test_cases[] = {
	KUNIT_CASE(buckets_have_no_gaps),
	KUNIT_CASE(percentiles_are_near_exact_ones),
	KUNIT_CASE(merge_adds_up),
	KUNIT_CASE(good_params_are_taken),
	KUNIT_CASE(bad_params_are_refused),
	KUNIT_CASE(params_fit_the_cpus),
	{}
};

static struct kunit_suite test_workqueue_test_suite = {
	.name = "test_workqueue",
	.test_cases = test_workqueue_test_cases,
};

kunit_test_suite(test_workqueue_test_suite);

MODULE_DESCRIPTION("KUnit tests for test_workqueue");
MODULE_LICENSE("GPL");
