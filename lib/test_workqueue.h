/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the test_workqueue benchmark that are plain computation: its
 * histogram, where its threads run and how much each of them queues. KUnit tests them, see
 * test_workqueue_kunit.c.
 */
#ifndef _TEST_WORKQUEUE_H
#define _TEST_WORKQUEUE_H

#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/topology.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#define BENCH_WINDOW	32U

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

/*
 * On which of @nr_cpus thread @nr of @nr_threads runs: they are spread evenly in the
 * order of the CPUs' numbers, which is that of caches and nodes on most machines.
 */
static inline unsigned int bench_cpu(unsigned int nr, unsigned int nr_threads,
				     unsigned int nr_cpus)
{
	return nr * nr_cpus / nr_threads;
}

/* How many items each thread has in flight by default: no more than can be active. */
static inline unsigned int bench_window(unsigned int max_active, unsigned int nr_threads)
{
	return clamp((max_active ?: WQ_DFL_ACTIVE) / nr_threads, 1U, BENCH_WINDOW);
}

/* take all CPUs but the first of each core out of @cpus */
static inline void bench_keep_cores(struct cpumask *cpus)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpus)
		if (cpumask_first_and(topology_sibling_cpumask(cpu), cpus) != cpu)
			cpumask_clear_cpu(cpu, cpus);
}

#endif /* _TEST_WORKQUEUE_H */
