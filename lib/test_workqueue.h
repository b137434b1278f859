/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the test_workqueue benchmark that are plain computation: its
 * histogram and its parameters. KUnit tests them, see test_workqueue_kunit.c.
 */
#ifndef _TEST_WORKQUEUE_H
#define _TEST_WORKQUEUE_H

#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/workqueue.h>

/*
 * Log-linear histogram of nanoseconds: values below 2^HIST_SUB_BITS have a
 * bucket each, every further power of two is cut into 2^HIST_SUB_BITS equal
 * buckets. The last bucket takes everything above.
 */
#define HIST_SUB_BITS	5
#define HIST_SUB	BIT(HIST_SUB_BITS)
#define HIST_MAX_BITS	36			/* 68 seconds */
#define HIST_BUCKETS	((HIST_MAX_BITS - HIST_SUB_BITS + 1) * HIST_SUB)

struct hist {
	u64	total;			/* number of samples */
	u64	max;			/* the largest of them */
	u64	count[HIST_BUCKETS];
};

static inline unsigned int hist_bucket(u64 ns)
{
	unsigned int shift;

	if (ns < HIST_SUB)
		return ns;
	if (ns >> HIST_MAX_BITS)
		return HIST_BUCKETS - 1;

	shift = ilog2(ns) - HIST_SUB_BITS;
	return shift * HIST_SUB + (ns >> shift);
}

/* the largest value that @bucket holds, but for the last one which has no end */
static inline u64 hist_upper(unsigned int bucket)
{
	unsigned int shift = max(bucket / HIST_SUB, 1UL) - 1;

	return (((u64)bucket - shift * HIST_SUB + 1) << shift) - 1;
}

static inline void hist_add(struct hist *hist, u64 ns)
{
	hist->total++;
	hist->max = max(hist->max, ns);
	hist->count[hist_bucket(ns)]++;
}

static inline void hist_merge(struct hist *to, const struct hist *from)
{
	unsigned int bucket;

	to->total += from->total;
	to->max = max(to->max, from->max);
	for (bucket = 0; bucket < HIST_BUCKETS; bucket++)
		to->count[bucket] += from->count[bucket];
}

/*
 * The value that @permille of the samples do not exceed: not below the exact
 * one, and above it by at most 1/HIST_SUB and never above the largest sample.
 */
static inline u64 hist_percentile(const struct hist *hist, unsigned int permille)
{
	u64 rank = DIV_ROUND_UP_ULL(hist->total * permille, 1000), seen = 0;
	unsigned int bucket;

	for (bucket = 0; bucket < HIST_BUCKETS - 1; bucket++) {
		seen += hist->count[bucket];
		if (seen >= rank)
			return min(hist_upper(bucket), hist->max);
	}
	return hist->max;
}

enum bench_mode {
	MODE_SERIAL,
	MODE_BURST,
	MODE_FANOUT,
	MODE_SLEEP,
	MODE_CHAIN,
	MODE_CANCEL,
};

static const char * const bench_modes[] = {
	[MODE_SERIAL]	= "serial",
	[MODE_BURST]	= "burst",
	[MODE_FANOUT]	= "fanout",
	[MODE_SLEEP]	= "sleep",
	[MODE_CHAIN]	= "chain",
	[MODE_CANCEL]	= "cancel",
};

/* in the order in which they are measured */
static const char * const bench_scopes[] = {
	"cpu", "smt", "cache_shard", "cache", "numa", "system", "default",
};

#define BENCH_MODES	"serial, burst, fanout, sleep, chain, cancel"
#define BENCH_SCOPES	"cpu, smt, cache_shard, cache, numa, system, default"
#define BENCH_MAX_ITEMS	100000000
#define BENCH_WINDOW	32

/*
 * Items in flight, of all producers: bounds memory, and the time that it takes to
 * end a run.
 */
#define BENCH_MAX_IN_FLIGHT	131072

struct bench_params {
	unsigned int	scopes;		/* bit N: bench_scopes[N] */
	unsigned int	mode;
	unsigned int	threads;	/* 0: the default of the mode */
	unsigned int	items;
	unsigned int	window;		/* 0: the default of the mode */
	unsigned int	work_ns;
	unsigned int	sleep_us;
	unsigned int	max_active;
	unsigned int	strict;
	unsigned int	spread;
	unsigned int	warmup;
	unsigned int	repeat;
	struct cpumask	cpus;		/* empty: all online CPUs */
};

static const struct {
	const char	*name;
	size_t		offset;
	unsigned int	min;
	unsigned int	max;
} bench_numbers[] = {
#define BENCH_NUMBER(name, min, max)	{ #name, offsetof(struct bench_params, name), min, max }
	BENCH_NUMBER(threads, 0, 0),		/* up to the number of CPUs */
	BENCH_NUMBER(items, 1, BENCH_MAX_ITEMS),
	BENCH_NUMBER(window, 0, BENCH_MAX_IN_FLIGHT),
	BENCH_NUMBER(work_ns, 0, 100000000),
	BENCH_NUMBER(sleep_us, 1, 250000),
	BENCH_NUMBER(max_active, 0, WQ_MAX_ACTIVE),
	BENCH_NUMBER(strict, 0, 1),
	BENCH_NUMBER(spread, 0, 1),
	BENCH_NUMBER(warmup, 0, BENCH_MAX_ITEMS),
	BENCH_NUMBER(repeat, 1, 1000),
#undef BENCH_NUMBER
};

/* the index in @names of what @word is up to a comma or its end */
static inline int bench_find(const char * const *names, int nr, const char *word)
{
	size_t len = strcspn(word, ",");
	int i;

	for (i = 0; i < nr; i++)
		if (len == strlen(names[i]) && !strncmp(word, names[i], len))
			return i;
	return -EINVAL;
}

static inline int bench_set_scopes(struct bench_params *params, const char *value)
{
	const char *word = value;
	int i;

	params->scopes = 0;
	while (word) {
		i = bench_find(bench_scopes, ARRAY_SIZE(bench_scopes), word);
		if (i < 0) {
			pr_err("scopes=%.64s is not a comma-separated list of " BENCH_SCOPES "\n",
			       value);
			return -EINVAL;
		}
		params->scopes |= BIT(i);
		word = strchr(word, ',');
		if (word)
			word++;
	}
	return 0;
}

/* A bad value is logged with what would be right, @params is undefined then. */
static inline int bench_set_param(struct bench_params *params, const char *name, const char *value)
{
	unsigned int number, max;
	int i;

	if (!strcmp(name, "scopes"))
		return bench_set_scopes(params, value);

	if (!strcmp(name, "mode")) {
		i = bench_find(bench_modes, ARRAY_SIZE(bench_modes), value);
		if (i < 0 || strchr(value, ',')) {
			pr_err("mode=%.64s is not one of " BENCH_MODES "\n", value);
			return -EINVAL;
		}
		params->mode = i;
		return 0;
	}

	/* whether they are online is for bench_check_params() to see */
	if (!strcmp(name, "cpus")) {
		if (!cpulist_parse(value, &params->cpus))
			return 0;
		pr_err("cpus=%.64s is not a list of CPUs like 0-3,8, from 0 to %u\n",
		       value, nr_cpu_ids - 1);
		return -EINVAL;
	}

	for (i = 0; i < ARRAY_SIZE(bench_numbers); i++) {
		if (strcmp(name, bench_numbers[i].name))
			continue;
		max = bench_numbers[i].max ?: nr_cpu_ids;
		if (kstrtouint(value, 0, &number) || number < bench_numbers[i].min ||
		    number > max) {
			pr_err("%s=%.64s is not in %u to %u\n", name, value,
			       bench_numbers[i].min, max);
			return -EINVAL;
		}
		*(unsigned int *)((void *)params + bench_numbers[i].offset) = number;
		return 0;
	}
	pr_err("%.64s=%.64s is not a parameter of this module\n", name, value);
	return -EINVAL;
}

/* take the words of @words, each "name=value"; it is cut into pieces meanwhile */
static inline int bench_set_params(struct bench_params *params, char *words)
{
	char *word, *value;
	int ret;

	while ((word = strsep(&words, " \t\n"))) {
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (!value) {
			pr_err("%.64s is not of the form name=value\n", word);
			return -EINVAL;
		}
		*value++ = '\0';
		ret = bench_set_param(params, word, value);
		if (ret)
			return ret;
	}
	return 0;
}

/* settle what depends on other parameters and on the CPUs that are @online */
static inline int bench_check_params(struct bench_params *params, const struct cpumask *online)
{
	unsigned int nr_cpus;

	if (cpumask_empty(&params->cpus))
		cpumask_copy(&params->cpus, online);
	if (!cpumask_subset(&params->cpus, online)) {
		pr_err("cpus=%*pbl is not within the online CPUs %*pbl\n",
		       cpumask_pr_args(&params->cpus), cpumask_pr_args(online));
		return -EINVAL;
	}

	if (params->mode == MODE_CANCEL) {
		params->threads = 1;
		params->max_active = 1;
	}
	nr_cpus = cpumask_weight(&params->cpus);
	if (params->threads > nr_cpus) {
		pr_err("threads=%u is not in 0 to %u, the number of CPUs for producers\n",
		       params->threads, nr_cpus);
		return -EINVAL;
	}
	if (!params->threads)
		params->threads = params->mode == MODE_FANOUT ? 1 : nr_cpus;
	if (params->mode != MODE_BURST && params->mode != MODE_FANOUT &&
	    params->mode != MODE_SLEEP)
		params->window = 1;
	/* Only in mode sleep the limit is what is measured. */
	if (!params->window)
		params->window = params->mode == MODE_SLEEP ? BENCH_WINDOW :
			clamp((params->max_active ?: WQ_DFL_ACTIVE) / params->threads,
			      1U, (unsigned int)BENCH_WINDOW);
	if (params->window > BENCH_MAX_IN_FLIGHT / params->threads) {
		pr_err("window=%u is not in 0 to %u, for %u producers\n", params->window,
		       BENCH_MAX_IN_FLIGHT / params->threads, params->threads);
		return -EINVAL;
	}
	return 0;
}

#endif /* _TEST_WORKQUEUE_H */
