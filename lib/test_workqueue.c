// SPDX-License-Identifier: GPL-2.0

/*
 * Test module for stress/performance analysis of workqueue.
 *
 * In each affinity scope of @scopes, each of @nr_threads threads queues @wq_items
 * work items on one of @nr_wqs unbound workqueues, or as many as it can in @secs
 * seconds. The modes differ in how:
 *
 *   serial   one at a time, the next one when it was executed
 *   burst    @window at a time, a further one whenever one was executed
 *   fanout   as burst, but one thread unless told otherwise, and with @spread
 *            the items are queued on the online CPUs in turn
 *   sleep    as burst, and the items sleep for @sleep_us, and again as long as more
 *            of them than ever before have come to run at once lately (SETTLE)
 *   chain    one item for each thread, which queues itself again
 *   rate     @rate a second from each thread, whether or not earlier ones were
 *            executed, unless @window of them are in flight
 *
 * Each run is logged in one line of key=value words:
 *
 *   test_workqueue: scope=cache_shard mode=serial threads=72 items=3600000 ...
 *
 *   items             work items that were executed
 *   items_per_sec     those that started while all threads were queueing, over the
 *                     time in which they were: it begins when the last thread has
 *                     started and ends with @secs, or as soon as a thread has seen
 *                     all its items executed
 *   queue_*_ns        percentiles and maximum of what one queue_work() took then,
 *                     being preempted by the worker that it wakes up included
 *   start_*_ns        the same for the time from before queue_work() to the start of
 *                     the item; in mode rate, from when it was to be queued, so that
 *                     what delays the next items counts for them as well
 *   switches          context switches of the threads and of the kworkers that
 *                     executed items
 *   cpu_us            CPU time of these, a tick of each thread more or less
 *   kworkers_before   kworkers of the system before the workqueues got the scope,
 *   kworkers_peak     the most that were seen, each second,
 *   kworkers_after    when all items were executed
 *   pools             worker pools that executed items
 *   running_peak      in mode sleep, the most items that were running at once
 *   max_active        of each workqueue
 *   lost, twice       items not executed, or once too often: both must be 0
 *   clock_ns          what two readings of the clock differ by when nothing is
 *                     between them; all the times above include it
 *
 * The other ones are parameters. A percentile is never below the exact one, and
 * above it by at most 1/32. A scope that the running kernel does not have is
 * logged as "scope=NAME missing". Kworkers that a run leaves idle are there in the
 * next one: to compare scopes, load the module again with @scopes in another order.
 *
 * Loading returns when all runs are done, and a signal to the loading process ends
 * them. The module does nothing afterwards.
 *
 * Memory does not grow with the number of items. A thread takes 16 KiB for its
 * histograms and two cache lines for each item of its window, which the allocator
 * may round up to a power of two. Threads have 131072 items in flight at most.
 * With 512 CPUs that is 16 MiB by default, and less than 48 MiB in any case.
 *
 * Copyright (c) 2026 Meta Platforms, Inc. and affiliates
 * Copyright (c) 2026 Breno Leitao <leitao@debian.org>
 *
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "test_workqueue.h"

#define WQ_NAME		"bench_wq"
#define MAX_ITEMS	100000000
#define MAX_IN_FLIGHT	131072	/* of all threads: bounds memory, and the time to end */
#define STALL_SECS	30	/* without progress, until items are taken for lost */
#define SETTLE		8	/* times @sleep_us without a new peak, until items leave */
#define MAX_POOLS	16384	/* pools with an ID above are not counted */
#define WORKER_BITS	12
#define NR_WORKERS	BIT(WORKER_BITS)	/* more of them are not accounted */

enum bench_mode {
	MODE_SERIAL, MODE_BURST, MODE_FANOUT, MODE_SLEEP, MODE_CHAIN, MODE_RATE,
};

static const char * const bench_modes[] = {
	"serial", "burst", "fanout", "sleep", "chain", "rate",
};

static const char * const bench_scopes[] = {
	"cpu", "smt", "cache_shard", "cache", "numa", "system", "default",
};

#define MODES	"serial, burst, fanout, sleep, chain, rate"
#define SCOPES	"cpu, smt, cache_shard, cache, numa, system, default"

static char *scopes[16] = { "cpu", "smt", "cache_shard", "cache", "numa", "system" };
static int nr_scopes = 6;
module_param_array(scopes, charp, &nr_scopes, 0444);
MODULE_PARM_DESC(scopes, "Affinity scopes, of " SCOPES " (default: all but default)");

static char *mode = "serial";
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "One of " MODES " (default: serial)");

static unsigned int nr_threads;
module_param(nr_threads, uint, 0444);
MODULE_PARM_DESC(nr_threads,
		 "Number of threads to spawn (default: 0 = one, or except in mode fanout one per CPU of cpus)");

static unsigned int nr_wqs = 1;
module_param(nr_wqs, uint, 0444);
MODULE_PARM_DESC(nr_wqs, "Number of workqueues, up to nr_threads, that the threads are spread over in turn (default: 1)");

static char *cpus = "";
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "List of CPUs for the threads (default: all online ones that are not isolated)");

static unsigned int wq_items = 50000;
module_param(wq_items, uint, 0444);
MODULE_PARM_DESC(wq_items,
		 "Number of work items each thread queues, 1 to 100000000 (default: 50000)");

static unsigned int secs;
module_param(secs, uint, 0444);
MODULE_PARM_DESC(secs, "Seconds for which each thread queues in place of wq_items, 0 to 3600 (default: 0 = wq_items)");

static unsigned int window;
module_param(window, uint, 0444);
MODULE_PARM_DESC(window, "Items in flight per thread, up to 131072 / nr_threads, in modes burst, fanout, sleep and rate (default: 0 = 32, or except in mode sleep as many as max_active allows)");

static unsigned int rate = 1000;
module_param(rate, uint, 0444);
MODULE_PARM_DESC(rate, "In mode rate, work items per second and thread, 1 to 1000000 (default: 1000)");

static unsigned int work_ns;
module_param(work_ns, uint, 0444);
MODULE_PARM_DESC(work_ns, "Nanoseconds for which an item keeps its CPU busy, 0 to 100000000 (default: 0)");

static unsigned int sleep_us = 1000;
module_param(sleep_us, uint, 0444);
MODULE_PARM_DESC(sleep_us, "In mode sleep, for how long items sleep, 1 to 250000 (default: 1000)");

static unsigned int max_active;
module_param(max_active, uint, 0444);
MODULE_PARM_DESC(max_active, "max_active of each workqueue (default: 0, as alloc_workqueue() takes it)");

static bool spread = true;
module_param(spread, bool, 0444);
MODULE_PARM_DESC(spread, "In mode fanout, queue on all online CPUs in turn (default: Y)");

static int warmup = -1;
module_param(warmup, int, 0444);
MODULE_PARM_DESC(warmup, "Items that each thread queues before what is measured, 0 to 100000000 (default: -1 = a tenth of wq_items, or of secs)");

/*
 * An item is either idle, and on a list of its thread, or in flight, and then it
 * belongs to its function. In mode chain, where nothing is ever collected from the
 * list, the thread's histograms belong to it as well: an item never runs in two
 * places at once and is the only one of its thread.
 */
struct bench_item {
	struct work_struct	work;
	struct llist_node	idle;
	struct thread_ctx	*ctx;
	u64			due_at;		/* ns */
	u64			started_at;	/* ns */
	u64			nr_queued;
	u64			nr_runs;
	unsigned int		nr_twice;
} ____cacheline_aligned_in_smp;

struct thread_ctx {
	struct task_struct	*task;
	struct workqueue_struct	*wq;
	unsigned int		nr;
	unsigned int		cpu;
	unsigned int		nr_done;	/* executed, for others to see progress */
	u64			switches;
	u64			cpu_ns;
	struct llist_head	idle;		/* for the thread to collect */
	struct llist_node	*collected;
	struct completion	work_done;	/* once when idle becomes non-empty */
	struct hist		queue;		/* ns in queue_work() */
	struct hist		start;		/* ns until an item has started */
	struct bench_item	items[];	/* the window */
};

/* what a kworker that executes items had used up before the first of them */
struct worker_use {
	struct task_struct	*task;		/* set once, with a reference */
	u64			switches;
	u64			cpu_ns;
};

static enum bench_mode bench_mode;
static struct cpumask bench_cpus;		/* of the threads */
static struct cpumask bench_targets;		/* for mode fanout */
static u64 clock_ns;

static struct workqueue_struct **wqs;		/* nr_wqs of them */
static struct thread_ctx **threads;		/* nr_threads of them */
static struct worker_use workers[NR_WORKERS];	/* by hash */
static DECLARE_BITMAP(pools, MAX_POOLS);
static DECLARE_WAIT_QUEUE_HEAD(threads_done);	/* nr_busy is 0 */
static struct completion go;

/* of a run; what all threads and items read is not where they write */
static struct {
	unsigned int	nr_items;	/* that each thread queues, or */
	u64		ns;		/* how long, if not 0 */
	bool		stop;		/* threads and items come to an end */
	atomic64_t	start;		/* ns, S64_MAX until the last thread has started */
	atomic64_t	end;		/* ns, S64_MAX until the first thread is done */
	u64		peak_at;	/* ns, when running_peak rose last */
	atomic_t	nr_starting ____cacheline_aligned_in_smp;	/* threads */
	atomic_t	nr_busy;	/* threads */
	atomic_t	nr_running;	/* items, in mode sleep */
	atomic_t	running_peak;
} run;

static unsigned int nr_kworkers(void)
{
	struct task_struct *task;
	unsigned int nr = 0;

	rcu_read_lock();
	for_each_process(task)
		nr += !!(task->flags & PF_WQ_WORKER);
	rcu_read_unlock();
	return nr;
}

/* the lowest mean of some short series, so that interrupts don't matter */
static u64 measure_clock(void)
{
	u64 best = U64_MAX;
	int i, j;

	for (i = 0; i < 32; i++) {
		u64 sum = 0;

		for (j = 0; j < 256; j++) {
			u64 before = ktime_get_ns();

			sum += ktime_get_ns() - before;
		}
		best = min(best, sum / 256);
	}
	return best;
}

static u64 nr_switches(struct task_struct *task)
{
	return READ_ONCE(task->nvcsw) + READ_ONCE(task->nivcsw);
}

/*
 * Account the worker that executes an item, and its pool, of which its name is what a
 * module can learn. It is done once for each worker, so that a scope with many of
 * them isn't slower for that.
 */
static void note_worker(void)
{
	unsigned long slot = hash_ptr(current, WORKER_BITS);
	struct worker_use *use;
	unsigned int i, pool;

	for (i = 0; i < NR_WORKERS; i++) {
		struct task_struct *task;

		use = &workers[(slot + i) % NR_WORKERS];
		task = READ_ONCE(use->task);
		if (task == current)
			return;
		if (!task && !cmpxchg(&use->task, NULL, current))
			goto first;
	}
	return;
first:
	get_task_struct(current);
	use->switches = nr_switches(current);
	use->cpu_ns = current->se.sum_exec_runtime;
	if (sscanf(current->comm, "kworker/u%u:", &pool) == 1 && pool < MAX_POOLS)
		set_bit(pool, pools);
}

/* whether what happens at @ns is measured, which has to be over */
static bool in_window(u64 ns)
{
	return ns >= atomic64_read(&run.start) && ns < atomic64_read(&run.end);
}

/* whether a thread that has queued @nr items is to queue another one */
static bool more(unsigned int nr)
{
	if (READ_ONCE(run.stop))
		return false;
	return run.ns ? ktime_get_ns() < atomic64_read(&run.end) : nr < run.nr_items;
}

static void work(u64 start)
{
	u64 settle_ns = (u64)sleep_us * SETTLE * NSEC_PER_USEC;
	int running, peak;

	while (ktime_get_ns() - start < work_ns && !READ_ONCE(run.stop))
		cpu_relax();

	if (bench_mode != MODE_SLEEP || READ_ONCE(run.stop))
		return;
	running = atomic_inc_return(&run.nr_running);
	peak = atomic_read(&run.running_peak);
	while (running > peak) {
		if (atomic_try_cmpxchg(&run.running_peak, &peak, running)) {
			WRITE_ONCE(run.peak_at, ktime_get_ns());
			break;
		}
	}
	/* None leaves while others are starting, however slowly workers are created. */
	do {
		usleep_range(sleep_us, sleep_us + 1);
	} while (ktime_get_ns() < READ_ONCE(run.peak_at) + settle_ns && !READ_ONCE(run.stop));
	atomic_dec(&run.nr_running);
}

/*
 * Queue @item on @cpu, which was to happen at @due, 0 for now, and add to @hist what that
 * took. The item belongs to its function from then on.
 */
static void queue_item(struct bench_item *item, int cpu, u64 due, struct hist *hist)
{
	u64 before, after;

	item->nr_queued++;
	before = ktime_get_ns();
	item->due_at = due ?: before;
	queue_work_on(cpu, item->ctx->wq, &item->work);
	after = ktime_get_ns();
	if (hist && in_window(before))
		hist_add(hist, after - before);
}

/* @ctx has seen that @item was executed */
static void note_item(struct thread_ctx *ctx, struct bench_item *item)
{
	if (in_window(item->started_at))
		hist_add(&ctx->start, item->started_at - item->due_at);
	WRITE_ONCE(ctx->nr_done, ctx->nr_done + 1);
}

static void bench_work_fn(struct work_struct *work_struct)
{
	u64 start = ktime_get_ns();
	struct bench_item *item = container_of(work_struct, struct bench_item, work);
	struct thread_ctx *ctx = item->ctx;

	if (item->nr_runs == item->nr_queued) {
		item->nr_twice++;	/* and it may be on the idle list already */
		return;
	}
	item->nr_runs++;
	item->started_at = start;
	note_worker();
	work(start);

	if (bench_mode == MODE_CHAIN) {
		note_item(ctx, item);
		if (more(item->nr_runs)) {
			queue_item(item, WORK_CPU_UNBOUND, 0, &ctx->queue);
			return;
		}
	}
	/* one for each batch, as otherwise all workers would fight for its lock */
	if (llist_add(&item->idle, &ctx->idle))
		complete(&ctx->work_done);
}

/* wait for an idle item and take it, NULL if the run is to stop */
static struct bench_item *take_item(struct thread_ctx *ctx)
{
	struct bench_item *item;

	if (!ctx->collected) {
		wait_for_completion(&ctx->work_done);
		ctx->collected = llist_del_all(&ctx->idle);
	}
	if (READ_ONCE(run.stop))
		return NULL;
	item = llist_entry(ctx->collected, struct bench_item, idle);
	ctx->collected = ctx->collected->next;
	if (item->nr_runs && bench_mode != MODE_CHAIN)
		note_item(ctx, item);
	return item;
}

/* in mode rate, when @ctx is to queue its item @nr: not all threads do at once */
static u64 wait_until_due(struct thread_ctx *ctx, unsigned int nr)
{
	u64 turn = div_u64((u64)ctx->nr * NSEC_PER_SEC, nr_threads);
	u64 due = atomic64_read(&run.start) + div_u64(nr * (u64)NSEC_PER_SEC + turn, rate);
	ktime_t at = ns_to_ktime(due);

	while (ktime_get_ns() < due && !READ_ONCE(run.stop)) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_hrtimeout_range(&at, 0, HRTIMER_MODE_ABS);
	}
	return due;
}

static void produce(struct thread_ctx *ctx)
{
	bool in_turn = bench_mode == MODE_FANOUT && spread;
	bool chain = bench_mode == MODE_CHAIN;
	int cpu = in_turn ? ctx->cpu : WORK_CPU_UNBOUND;
	struct bench_item *item;
	unsigned int i;
	u64 due = 0;

	for (i = 0; chain ? !i : more(i); i++) {
		if (bench_mode == MODE_RATE)
			due = wait_until_due(ctx, i);
		item = take_item(ctx);
		if (!item)
			return;
		if (in_turn) {
			cpu = cpumask_next(cpu, &bench_targets);
			if (cpu >= nr_cpu_ids)
				cpu = cpumask_first(&bench_targets);
		}
		queue_item(item, cpu, due, chain ? NULL : &ctx->queue);
		cond_resched();
	}
	for (i = 0; i < window; i++)
		if (!take_item(ctx))
			return;
}

static int bench_kthread_fn(void *arg)
{
	struct thread_ctx *ctx = arg;

	wait_for_completion(&go);
	/* The last one to start is the first to queue. */
	if (atomic_dec_and_test(&run.nr_starting)) {
		u64 start = ktime_get_ns();

		if (run.ns)
			atomic64_set(&run.end, start + run.ns);
		atomic64_set_release(&run.start, start);	/* the end is set */
	}
	while (atomic64_read_acquire(&run.start) == S64_MAX && !READ_ONCE(run.stop)) {
		cpu_relax();
		cond_resched();
	}

	produce(ctx);
	atomic64_cmpxchg(&run.end, S64_MAX, ktime_get_ns());
	ctx->switches = nr_switches(current);
	ctx->cpu_ns = current->se.sum_exec_runtime;
	if (atomic_dec_and_test(&run.nr_busy))
		wake_up(&threads_done);

	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void forget_workers(void)
{
	int i;

	for (i = 0; i < NR_WORKERS; i++)
		if (workers[i].task)
			put_task_struct(workers[i].task);
	memset(workers, 0, sizeof(workers));
	bitmap_zero(pools, MAX_POOLS);
}

/* no item is in flight, no thread is there */
static void reset_run(unsigned int nr_items, u64 ns)
{
	unsigned int i, j;

	init_completion(&go);
	run.nr_items = nr_items;
	run.ns = ns;
	run.stop = false;
	atomic64_set(&run.start, S64_MAX);
	atomic64_set(&run.end, S64_MAX);
	atomic_set(&run.nr_starting, nr_threads);
	atomic_set(&run.nr_busy, nr_threads);
	atomic_set(&run.running_peak, 0);
	forget_workers();

	for (i = 0; i < nr_threads; i++) {
		struct thread_ctx *ctx = threads[i];

		ctx->nr_done = 0;
		memset(&ctx->queue, 0, sizeof(ctx->queue));
		memset(&ctx->start, 0, sizeof(ctx->start));
		init_llist_head(&ctx->idle);
		ctx->collected = NULL;
		init_completion(&ctx->work_done);
		for (j = 0; j < window; j++) {
			struct bench_item *item = &ctx->items[j];

			item->nr_queued = 0;
			item->nr_runs = 0;
			item->nr_twice = 0;
			llist_add(&item->idle, &ctx->idle);
		}
		complete(&ctx->work_done);
	}
}

/* wait for the threads; -EINTR if the run was ended, -EIO if it is stuck */
static int watch_threads(u64 *kworkers_peak)
{
	unsigned long progress_at = jiffies;
	u64 nr_done, last_nr_done = 0;
	unsigned int i;
	long ret;

	do {
		ret = wait_event_freezable_timeout(threads_done, !atomic_read(&run.nr_busy), HZ);
		if (ret < 0)
			return -EINTR;
		*kworkers_peak = max_t(u64, *kworkers_peak, nr_kworkers());

		for (i = 0, nr_done = 0; i < nr_threads; i++)
			nr_done += READ_ONCE(threads[i]->nr_done);
		if (nr_done != last_nr_done)
			progress_at = jiffies;
		last_nr_done = nr_done;
		if (!ret && time_after(jiffies, progress_at + STALL_SECS * HZ)) {
			pr_err("no item was executed for %u seconds\n", STALL_SECS);
			return -EIO;
		}
	} while (!ret);
	return 0;
}

static int run_threads(unsigned int nr_items, u64 ns, u64 *kworkers_peak)
{
	unsigned int i, nr;
	int ret = 0;

	reset_run(nr_items, ns);
	for (nr = 0; nr < nr_threads; nr++) {
		struct thread_ctx *ctx = threads[nr];

		ctx->task = kthread_create_on_cpu(bench_kthread_fn, ctx, ctx->cpu, "wq_bench/%u");
		if (IS_ERR(ctx->task)) {
			ret = PTR_ERR(ctx->task);
			pr_err("cannot create thread %u: %pe\n", nr, ctx->task);
			break;
		}
		wake_up_process(ctx->task);
	}

	if (!ret) {
		complete_all(&go);
		ret = watch_threads(kworkers_peak);
	}

	/* let none wait: for the start, or for an item that doesn't come */
	WRITE_ONCE(run.stop, true);
	complete_all(&go);
	for (i = 0; i < nr; i++)
		complete_all(&threads[i]->work_done);
	while (nr--)
		kthread_stop(threads[nr]->task);

	/* The last functions may not have returned. On an error it is for free_bench(). */
	for (i = 0; i < nr_wqs && !ret; i++)
		flush_workqueue(wqs[i]);
	return ret;
}

static char line[1000];		/* the log takes a little more */
static size_t line_len;

static void add_value(const char *key, s64 value)
{
	line_len += scnprintf(line + line_len, sizeof(line) - line_len, " %s=%lld", key, value);
}

static void add_percentiles(const char *what, const struct hist *hist)
{
	static const struct {
		const char *name;
		unsigned int permille;
	} shares[] = {
		{ "p50", 500 }, { "p90", 900 }, { "p95", 950 }, { "p99", 990 }, { "p999", 999 },
		{ "max", 1000 },
	};
	char key[32];
	int i;

	for (i = 0; i < ARRAY_SIZE(shares); i++) {
		scnprintf(key, sizeof(key), "%s_%s_ns", what, shares[i].name);
		add_value(key, hist_percentile(hist, shares[i].permille));
	}
}

/* log what the threads have seen */
static void report(const char *scope, u64 before, u64 peak)
{
	u64 ns = max(atomic64_read(&run.end) - atomic64_read(&run.start), 1LL);
	u64 items = 0, queued = 0, twice = 0, switches = 0, cpu_ns = 0, after = nr_kworkers();
	static struct hist queue, start;
	unsigned int i, j;

	memset(&queue, 0, sizeof(queue));
	memset(&start, 0, sizeof(start));
	for (i = 0; i < nr_threads; i++) {
		struct thread_ctx *ctx = threads[i];

		hist_merge(&queue, &ctx->queue);
		hist_merge(&start, &ctx->start);
		switches += ctx->switches;
		cpu_ns += ctx->cpu_ns;
		for (j = 0; j < window; j++) {
			items += ctx->items[j].nr_runs;
			queued += ctx->items[j].nr_queued;
			twice += ctx->items[j].nr_twice;
		}
	}
	for (i = 0; i < NR_WORKERS; i++) {
		struct worker_use *use = &workers[i];

		if (use->task) {
			switches += nr_switches(use->task) - use->switches;
			cpu_ns += use->task->se.sum_exec_runtime - use->cpu_ns;
		}
	}

	line_len = scnprintf(line, sizeof(line), "scope=%s mode=%s", scope, mode);
	add_value("threads", nr_threads);
	add_value("wqs", nr_wqs);
	add_value("items", items);
	add_value("items_per_sec", mul_u64_u64_div_u64(start.total, NSEC_PER_SEC, ns));
	add_percentiles("queue", &queue);
	add_percentiles("start", &start);
	add_value("switches", switches);
	add_value("cpu_us", div_u64(cpu_ns, NSEC_PER_USEC));
	add_value("kworkers_before", before);
	add_value("kworkers_peak", max3(before, peak, after));
	add_value("kworkers_after", after);
	add_value("pools", bitmap_weight(pools, MAX_POOLS));
	add_value("running_peak", atomic_read(&run.running_peak));
	add_value("max_active", max_active ?: WQ_DFL_ACTIVE);
	add_value("lost", queued - items);
	add_value("twice", twice);
	add_value("clock_ns", clock_ns);
	add_value("secs", secs);
	add_value("window", window);
	add_value("rate", bench_mode == MODE_RATE ? rate : 0);
	add_value("work_ns", work_ns);
	add_value("sleep_us", bench_mode == MODE_SLEEP ? sleep_us : 0);
	add_value("spread", bench_mode == MODE_FANOUT && spread);
	add_value("warmup", warmup);
	pr_info("%s\n", line);
}

/* of workqueue @nr; where there is one, it has no number */
static void wq_name(char *name, size_t size, unsigned int nr)
{
	if (nr)
		scnprintf(name, size, WQ_NAME "_%u", nr);
	else
		strscpy(name, WQ_NAME, size);
}

/*
 * Workqueue attributes are not exported to modules, the sysfs file is the interface
 * that every kernel has. Returns -EINVAL if the kernel has no @scope. One which lacks
 * cache_shard may take the word for the scope that it starts with, so look what came
 * of it.
 */
static int set_affn_scope(unsigned int nr, const char *scope)
{
	char name[32], path[80], buf[32];
	struct file *file;
	loff_t pos = 0;
	ssize_t len;

	wq_name(name, sizeof(name), nr);
	scnprintf(path, sizeof(path), "/sys/bus/workqueue/devices/%s/affinity_scope", name);
	file = filp_open(path, O_RDWR, 0);
	if (IS_ERR(file)) {
		pr_err("cannot open %s: %pe, is sysfs mounted on /sys?\n", path, file);
		return PTR_ERR(file);
	}
	len = kernel_write(file, scope, strlen(scope), &pos);
	pos = 0;
	if (len >= 0)
		len = kernel_read(file, buf, sizeof(buf) - 1, &pos);
	filp_close(file, NULL);
	if (len < 0)
		return len;
	buf[len] = '\0';
	buf[strcspn(buf, "\n ")] = '\0';
	return strcmp(buf, scope) ? -EINVAL : 0;
}

static int run_bench(const char *scope)
{
	u64 before = nr_kworkers(), peak = 0;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < nr_wqs && !ret; i++)
		ret = set_affn_scope(i, scope);
	if (ret == -EINVAL) {
		pr_info("scope=%s missing\n", scope);
		return 0;
	}
	if (!ret && warmup < 0)
		ret = run_threads(0, (u64)secs * (NSEC_PER_SEC / 10), &peak);
	else if (!ret && warmup)
		ret = run_threads(warmup, 0, &peak);
	if (!ret)
		ret = run_threads(wq_items, (u64)secs * NSEC_PER_SEC, &peak);
	if (!ret)
		report(scope, before, peak);
	return ret;
}

static int run_all(void)
{
	int i, ret = 0;

	for (i = 0; i < nr_scopes && !ret; i++)
		ret = signal_pending(current) ? -EINTR : run_bench(scopes[i]);
	return ret;
}

/* The threads are gone. Items that are still queued are not worth executing. */
static void free_bench(void)
{
	unsigned int i, j;

	for (i = 0; i < nr_threads && threads[i]; i++)
		for (j = 0; j < window; j++)
			cancel_work_sync(&threads[i]->items[j].work);
	for (i = 0; wqs && i < nr_wqs && wqs[i]; i++)
		destroy_workqueue(wqs[i]);
	kfree(wqs);
	for (i = 0; i < nr_threads; i++)
		kvfree(threads[i]);
	kvfree(threads);
	forget_workers();
}

static int setup_threads(void)
{
	static struct cpumask on;
	unsigned int i, j;

	threads = kvcalloc(nr_threads, sizeof(*threads), GFP_KERNEL);
	if (!threads) {
		nr_threads = 0;
		return -ENOMEM;
	}
	cpumask_copy(&on, &bench_cpus);
	bench_keep_cores(&on);
	if (cpumask_weight(&on) < nr_threads)
		cpumask_copy(&on, &bench_cpus);

	for (i = 0; i < nr_threads; i++) {
		unsigned int cpu = cpumask_nth(bench_cpu(i, nr_threads, cpumask_weight(&on)), &on);
		struct thread_ctx *ctx;

		ctx = kvzalloc_node(struct_size(ctx, items, window), GFP_KERNEL, cpu_to_node(cpu));
		if (!ctx)
			return -ENOMEM;
		threads[i] = ctx;
		ctx->nr = i;
		ctx->cpu = cpu;
		for (j = 0; j < window; j++) {
			ctx->items[j].ctx = ctx;
			INIT_WORK(&ctx->items[j].work, bench_work_fn);
		}
	}
	return 0;
}

static int setup_workqueues(void)
{
	char name[32];
	unsigned int i;

	wqs = kcalloc(nr_wqs, sizeof(*wqs), GFP_KERNEL);
	if (!wqs)
		return -ENOMEM;
	for (i = 0; i < nr_wqs; i++) {
		wq_name(name, sizeof(name), i);
		wqs[i] = alloc_workqueue("%s", WQ_UNBOUND | WQ_SYSFS, max_active, name);
		if (!wqs[i])
			return -ENOMEM;
	}
	/* Neighbours get different ones, and each gets work from all over the machine. */
	for (i = 0; i < nr_threads; i++)
		threads[i]->wq = wqs[i % nr_wqs];
	return 0;
}

static int check_numbers(void)
{
	const struct {
		const char *name;
		s64 value;
		s64 min;
		s64 max;
	} numbers[] = {
		{ "wq_items", wq_items, 1, MAX_ITEMS },
		{ "secs", secs, 0, 3600 },
		{ "window", window, 0, MAX_IN_FLIGHT },
		{ "rate", rate, 1, 1000000 },
		{ "work_ns", work_ns, 0, 100000000 },
		{ "sleep_us", sleep_us, 1, 250000 },
		{ "max_active", max_active, 0, WQ_MAX_ACTIVE },
		{ "warmup", warmup, -1, MAX_ITEMS },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (numbers[i].value < numbers[i].min || numbers[i].value > numbers[i].max) {
			pr_err("%s=%lld is not in %lld to %lld\n", numbers[i].name,
			       numbers[i].value, numbers[i].min, numbers[i].max);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_names(void)
{
	int i;

	i = match_string(bench_modes, ARRAY_SIZE(bench_modes), mode);
	if (i < 0) {
		pr_err("mode=%s is not one of " MODES "\n", mode);
		return i;
	}
	bench_mode = i;

	for (i = 0; i < nr_scopes; i++) {
		if (match_string(bench_scopes, ARRAY_SIZE(bench_scopes), scopes[i]) < 0) {
			pr_err("scopes=%s is not one of " SCOPES "\n", scopes[i]);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_cpus(void)
{
	if (cpulist_parse(cpus, &bench_cpus)) {
		pr_err("cpus=%s is not a list of CPUs like 0-3,8, from 0 to %u\n",
		       cpus, nr_cpu_ids - 1);
		return -EINVAL;
	}
	cpus_read_lock();
	cpumask_copy(&bench_targets, cpu_online_mask);
	cpus_read_unlock();
	if (cpumask_empty(&bench_cpus)) {
		rcu_read_lock();	/* cpusets may replace that mask */
		cpumask_and(&bench_cpus, &bench_targets, housekeeping_cpumask(HK_TYPE_DOMAIN));
		rcu_read_unlock();
	}
	if (cpumask_empty(&bench_cpus))
		cpumask_copy(&bench_cpus, &bench_targets);
	if (!cpumask_subset(&bench_cpus, &bench_targets)) {
		pr_err("cpus=%s is not within the online CPUs %*pbl\n", cpus,
		       cpumask_pr_args(&bench_targets));
		return -EINVAL;
	}
	return 0;
}

/* check what was given, and settle what depends on other parameters */
static int check_params(void)
{
	unsigned int nr_cpus;
	int ret;

	ret = check_numbers() ?: check_names() ?: check_cpus();
	if (ret)
		return ret;

	nr_cpus = cpumask_weight(&bench_cpus);
	nr_threads = min(nr_threads ?: bench_mode == MODE_FANOUT ? 1 : nr_cpus, nr_cpus);
	if (bench_mode == MODE_SERIAL || bench_mode == MODE_CHAIN)
		window = 1;
	if (!nr_wqs || nr_wqs > nr_threads) {
		pr_err("nr_wqs=%u is not in 1 to %u, for %u threads\n", nr_wqs, nr_threads,
		       nr_threads);
		return -EINVAL;
	}
	/* Only in mode sleep the limit is what is measured. */
	if (!window)
		window = bench_mode == MODE_SLEEP ?
			min(BENCH_WINDOW, MAX_IN_FLIGHT / nr_threads) :
			bench_window(max_active, DIV_ROUND_UP(nr_threads, nr_wqs));
	if (window > MAX_IN_FLIGHT / nr_threads) {
		pr_err("window=%u is not in 0 to %u, for %u threads\n", window,
		       MAX_IN_FLIGHT / nr_threads, nr_threads);
		return -EINVAL;
	}
	if (warmup < 0 && !secs)
		warmup = wq_items / 10;
	return 0;
}

static int __init test_workqueue_init(void)
{
	int ret;

	ret = check_params();
	if (ret)
		return ret;
	clock_ns = measure_clock();

	ret = setup_threads() ?: setup_workqueues() ?: run_all();
	free_bench();
	return ret;
}
module_init(test_workqueue_init);

/* so that it can be unloaded, to be loaded again */
static void __exit test_workqueue_exit(void)
{
}
module_exit(test_workqueue_exit);

MODULE_AUTHOR("Breno Leitao <leitao@debian.org>");
MODULE_DESCRIPTION("Stress/performance benchmark for workqueue subsystem");
MODULE_LICENSE("GPL");
