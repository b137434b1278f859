// SPDX-License-Identifier: GPL-2.0
/*
 * Benchmark of unbound workqueues.
 *
 * For every affinity scope, each of @threads producers queues @items work
 * items on one unbound workqueue, one at a time, and waits for each to
 * complete. One line is logged per scope:
 *
 *   test_workqueue: scope=cache_shard threads=72 items=3600000 items_per_sec=...
 *   queue_p50_ns=... queue_p90_ns=... queue_p95_ns=...
 *
 * items is the number of items that were executed, items_per_sec is that number
 * over the time from the start of the first producer to the end of the last,
 * queue_pNN_ns are percentiles of the time that one queue_work() took, rounded
 * up by at most 1/32. A scope that the running kernel does not have is logged as
 * "scope=NAME missing".
 *
 * The benchmark runs when the module is loaded and loading returns when it is
 * done; a signal to the loading process ends it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define MAX_ITEMS	100000000

static unsigned int threads;
module_param(threads, uint, 0444);
MODULE_PARM_DESC(threads, "Number of producers, 1 to the number of online CPUs (default 0: one per online CPU)");

static unsigned int items = 50000;
module_param(items, uint, 0444);
MODULE_PARM_DESC(items, "Work items that each producer queues, 1 to 100000000 (default 50000)");

static const char * const scopes[] = {
	"cpu", "smt", "cache_shard", "cache", "numa", "system",
};

/*
 * Log-linear histogram of nanoseconds: values below 2^HIST_SUB_BITS have a
 * bucket each, every further power of two is cut into 2^HIST_SUB_BITS equal
 * buckets. The last bucket takes everything above.
 */
#define HIST_SUB_BITS	5
#define HIST_SUB	BIT(HIST_SUB_BITS)
#define HIST_MAX_BITS	36			/* 68 seconds */
#define HIST_BUCKETS	((HIST_MAX_BITS - HIST_SUB_BITS + 1) * HIST_SUB)

struct producer {
	struct work_struct	work;
	struct completion	executed;	/* @work was executed */
	struct workqueue_struct	*wq;
	struct task_struct	*task;
	u64			start;		/* ns, first item queued */
	u64			end;		/* ns, last item executed */
	u32			nr_executed;
	u32			hist[HIST_BUCKETS];	/* ns in queue_work() */
};

static DECLARE_COMPLETION(go);
static DECLARE_COMPLETION(producer_done);

static unsigned int hist_bucket(u64 ns)
{
	unsigned int shift;

	if (ns < HIST_SUB)
		return ns;
	if (ns >> HIST_MAX_BITS)
		return HIST_BUCKETS - 1;

	shift = ilog2(ns) - HIST_SUB_BITS;
	return shift * HIST_SUB + (ns >> shift);
}

/* the largest value that @bucket holds */
static u64 hist_upper(unsigned int bucket)
{
	unsigned int shift = max(bucket / HIST_SUB, 1UL) - 1;

	return (((u64)bucket - shift * HIST_SUB + 1) << shift) - 1;
}

/* the value that @percent of the @total samples in @hist do not exceed, in ns */
static u64 hist_percentile(const u64 *hist, u64 total, unsigned int percent)
{
	u64 rank = DIV_ROUND_UP_ULL(total * percent, 100), seen = 0;
	unsigned int bucket;

	for (bucket = 0; bucket < HIST_BUCKETS - 1; bucket++) {
		seen += hist[bucket];
		if (seen >= rank)
			break;
	}
	return hist_upper(bucket);
}

static void item_fn(struct work_struct *work)
{
	struct producer *p = container_of(work, struct producer, work);

	p->nr_executed++;
	complete(&p->executed);
}

static int producer_fn(void *arg)
{
	struct producer *p = arg;
	unsigned int i;

	wait_for_completion(&go);

	p->start = ktime_get_ns();
	for (i = 0; i < items && !kthread_should_stop(); i++) {
		u64 before = ktime_get_ns();

		queue_work(p->wq, &p->work);
		p->hist[hist_bucket(ktime_get_ns() - before)]++;
		wait_for_completion(&p->executed);
	}
	p->end = ktime_get_ns();

	complete(&producer_done);

	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/*
 * Workqueue attributes are not exported to modules, the sysfs file is the
 * interface that every kernel has. Returns -EINVAL if the kernel has no @scope.
 */
static int set_scope(const char *scope)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t ret;

	file = filp_open("/sys/devices/virtual/workqueue/" KBUILD_MODNAME "/affinity_scope",
			 O_WRONLY, 0);
	if (IS_ERR(file)) {
		pr_err("cannot open the affinity_scope file of the workqueue, is sysfs mounted on /sys?\n");
		return PTR_ERR(file);
	}
	ret = kernel_write(file, scope, strlen(scope), &pos);
	filp_close(file, NULL);

	return ret < 0 ? ret : 0;
}

static void report(const char *scope, const struct producer *producers, u64 *hist)
{
	u64 start = U64_MAX, end = 0, total = 0;
	unsigned int i, bucket;

	memset(hist, 0, HIST_BUCKETS * sizeof(*hist));
	for (i = 0; i < threads; i++) {
		start = min(start, producers[i].start);
		end = max(end, producers[i].end);
		total += producers[i].nr_executed;
		for (bucket = 0; bucket < HIST_BUCKETS; bucket++)
			hist[bucket] += producers[i].hist[bucket];
	}

	pr_info("scope=%s threads=%u items=%llu items_per_sec=%llu queue_p50_ns=%llu queue_p90_ns=%llu queue_p95_ns=%llu\n",
		scope, threads, total,
		div64_u64(total * USEC_PER_SEC, max(div_u64(end - start, NSEC_PER_USEC), 1ULL)),
		hist_percentile(hist, total, 50), hist_percentile(hist, total, 90),
		hist_percentile(hist, total, 95));
}

/* start the producers, wait for them, stop them; on a signal stop them early */
static int run_producers(struct workqueue_struct *wq, struct producer *producers)
{
	unsigned int cpu, done, nr = 0;
	int ret = 0;

	reinit_completion(&go);
	reinit_completion(&producer_done);

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct producer *p = &producers[nr];

		if (nr == threads)
			break;
		memset(p, 0, sizeof(*p));
		INIT_WORK(&p->work, item_fn);
		init_completion(&p->executed);
		p->wq = wq;
		p->task = kthread_create_on_cpu(producer_fn, p, cpu, KBUILD_MODNAME "/%u");
		if (IS_ERR(p->task)) {
			ret = PTR_ERR(p->task);
			break;
		}
		wake_up_process(p->task);
		nr++;
	}
	cpus_read_unlock();
	if (!ret && nr < threads) {
		pr_err("CPUs went offline, only %u left for %u producers\n", nr, threads);
		ret = -ENODEV;
	}
	complete_all(&go);

	for (done = 0; !ret && done < nr; done++)
		ret = wait_for_completion_interruptible(&producer_done);
	while (nr--)
		kthread_stop(producers[nr].task);

	return ret;
}

static int __init test_workqueue_init(void)
{
	struct workqueue_struct *wq;
	struct producer *producers;
	unsigned int i;
	u64 *hist;
	int ret;

	if (!threads)
		threads = num_online_cpus();
	if (threads > num_online_cpus()) {
		pr_err("threads=%u is not in 1 to %u, the number of online CPUs\n",
		       threads, num_online_cpus());
		return -EINVAL;
	}
	if (!items || items > MAX_ITEMS) {
		pr_err("items=%u is not in 1 to %u\n", items, MAX_ITEMS);
		return -EINVAL;
	}

	producers = kvcalloc(threads, sizeof(*producers), GFP_KERNEL);
	hist = kvcalloc(HIST_BUCKETS, sizeof(*hist), GFP_KERNEL);
	wq = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND | WQ_SYSFS, 0);
	ret = -ENOMEM;
	if (!producers || !hist || !wq)
		goto out;

	for (i = 0; i < ARRAY_SIZE(scopes); i++) {
		ret = set_scope(scopes[i]);
		if (ret == -EINVAL) {
			pr_info("scope=%s missing\n", scopes[i]);
			ret = 0;
			continue;
		}
		if (ret)
			break;
		ret = run_producers(wq, producers);
		if (ret)
			break;
		report(scopes[i], producers, hist);
	}
out:
	if (wq)
		destroy_workqueue(wq);
	kvfree(hist);
	kvfree(producers);
	return ret;
}
module_init(test_workqueue_init);

static void __exit test_workqueue_exit(void)
{
}
module_exit(test_workqueue_exit);

MODULE_DESCRIPTION("Benchmark of unbound workqueues");
MODULE_LICENSE("GPL");
