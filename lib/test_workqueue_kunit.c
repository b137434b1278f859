// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the histogram and the threads of test_workqueue.
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

/* from one thread to the next it is as many CPUs everywhere, or one more */
static void threads_are_spread(struct kunit *test)
{
	unsigned int nr_cpus, nr_threads, nr, cpu, next;

	for (nr_cpus = 1; nr_cpus <= 80; nr_cpus++) {
		for (nr_threads = 1; nr_threads <= nr_cpus; nr_threads++) {
			KUNIT_EXPECT_EQ(test, bench_cpu(0, nr_threads, nr_cpus), 0);
			for (nr = 0, cpu = 0; nr < nr_threads; nr++, cpu = next) {
				next = nr + 1 < nr_threads ?
					bench_cpu(nr + 1, nr_threads, nr_cpus) : nr_cpus;
				KUNIT_EXPECT_GE_MSG(test, next, cpu + nr_cpus / nr_threads,
						    "%u of %u", nr_threads, nr_cpus);
				KUNIT_EXPECT_LE_MSG(test, next,
						    cpu + DIV_ROUND_UP(nr_cpus, nr_threads),
						    "%u of %u", nr_threads, nr_cpus);
			}
		}
	}
}

/* one CPU of each core is left, the first */
static void cores_are_kept_once(struct kunit *test)
{
	struct cpumask *cpus = kunit_kzalloc(test, sizeof(*cpus), GFP_KERNEL);
	unsigned int cpu, first;

	KUNIT_ASSERT_NOT_NULL(test, cpus);
	cpumask_copy(cpus, cpu_online_mask);
	bench_keep_cores(cpus);
	for_each_online_cpu(cpu) {
		first = cpumask_first_and(topology_sibling_cpumask(cpu), cpu_online_mask);
		KUNIT_EXPECT_EQ(test, cpumask_test_cpu(cpu, cpus), cpu == first);
	}
	/* a sibling stands for its core where the first of it is not to be used */
	first = cpumask_first(cpu_online_mask);
	if (cpumask_weight(topology_sibling_cpumask(first)) > 1) {
		cpu = cpumask_next(first, topology_sibling_cpumask(first));
		cpumask_copy(cpus, topology_sibling_cpumask(first));
		cpumask_clear_cpu(first, cpus);
		bench_keep_cores(cpus);
		KUNIT_EXPECT_TRUE(test, cpumask_equal(cpus, cpumask_of(cpu)));
	}
}

static void default_window_fits_max_active(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, bench_window(0, 1), BENCH_WINDOW);
	KUNIT_EXPECT_EQ(test, bench_window(0, WQ_DFL_ACTIVE / 4), 4);
	KUNIT_EXPECT_EQ(test, bench_window(0, WQ_DFL_ACTIVE + 1), 1);
	KUNIT_EXPECT_EQ(test, bench_window(WQ_MAX_ACTIVE, 1), BENCH_WINDOW);
	KUNIT_EXPECT_EQ(test, bench_window(11, 2), 5);
	KUNIT_EXPECT_EQ(test, bench_window(1, 2), 1);
}

static struct kunit_case test_workqueue_test_cases[] = {
	KUNIT_CASE(buckets_have_no_gaps),
	KUNIT_CASE(percentiles_are_near_exact_ones),
	KUNIT_CASE(merge_adds_up),
	KUNIT_CASE(threads_are_spread),
	KUNIT_CASE(cores_are_kept_once),
	KUNIT_CASE(default_window_fits_max_active),
	{}
};

static struct kunit_suite test_workqueue_test_suite = {
	.name = "test_workqueue",
	.test_cases = test_workqueue_test_cases,
};

kunit_test_suite(test_workqueue_test_suite);

MODULE_DESCRIPTION("KUnit tests for test_workqueue");
MODULE_LICENSE("GPL");
