// SPDX-License-Identifier: GPL-2.0
/*
 * Benchmark of unbound workqueues.
 *
 * For every affinity scope, each of @threads producers queues @items work items
 * on one unbound workqueue. The modes differ in how:
 *
 *   serial   one at a time, the next one when it was executed
 *   burst    @window at a time, a further one whenever one was executed
 *   fanout   as burst, but one producer unless told otherwise, and with @spread
 *            the items are queued on the online CPUs in turn
 *   sleep    as burst, and the items sleep for @sleep_us, and again as long as more
 *            of them than ever before have come to run at once lately (SETTLE)
 *   chain    one item for each producer, which queues itself again
 *   cancel   no benchmark, but a test for a flush that hangs. With max_active=1 an
 *            item waits on the last CPU of @cpus for one that runs on the first,
 *            is flushed, and cancelled before the other ends, @items times. On
 *            kernels from 6.9 on that don't kick the pool then, the flush goes on
 *            until something else is queued there. One that takes HUNG_SECS
 *            seconds is counted as lost, and ends the run with -EIO
 *
 * Each run is logged in one line of key=value words:
 *
 *   test_workqueue: scope=cache_shard mode=serial threads=72 items=3600000 ...
 *
 *   items             work items that were executed
 *   items_per_sec     that, over the time from the first start of a producer to
 *                     the last end of one
 *   queue_*_ns        percentiles and maximum of what one queue_work() took
 *   start_*_ns        the same for the time from before queue_work() to the
 *                     start of the item
 *   kworkers_before   kworkers of the system before the workqueue got its scope,
 *   kworkers_peak     the most that were seen, every SAMPLE_MS milliseconds,
 *   kworkers_after    when all items were executed
 *   pools             worker pools that executed items
 *   running_peak      in mode sleep, the most items that were running at once
 *   max_active        as the workqueue has it
 *   lost, twice       items not executed, or once too often: both must be 0
 *   clock_ns          what two readings of the clock differ by when nothing is
 *                     between them; all the times above include it
 *   repeat            which of the repetitions it is, from 1
 *
 * The other ones are parameters. A percentile is never below the exact one, and
 * above it by at most 1/32. A scope that the running kernel does not have is
 * logged as "scope=NAME missing".
 *
 * A run with the parameters of the module is made when it is loaded, and loading
 * returns when it is done; a signal to the loading process ends it. Afterwards,
 * in debugfs:
 *
 *   test_workqueue/run      "name=value ..." written to it starts a run with the
 *                           parameters of the module but for those named. It goes
 *                           on in the background until it is done, the module is
 *                           unloaded, or the kthread "wq_bench" gets SIGINT or
 *                           SIGTERM. Reading gives "running" or "idle" and the
 *                           error that ended the last run, 0 if none.
 *   test_workqueue/results  what was measured, as CSV, the latest MAX_ROWS rows
 *
 * Memory does not grow with the number of items. A producer takes 16 KiB for its
 * histograms and two cache lines for each item of its window, which the allocator
 * may round up to a power of two. Producers have 131072 items in flight at most.
 * With 512 CPUs that is 16 MiB by default, and less than 48 MiB in any case.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "test_workqueue.h"

#define SAMPLE_MS	100	/* between looks at the kworkers */
#define STALL_SECS	30	/* without progress, until items are taken for lost */
#define HUNG_SECS	5	/* until a flush is taken for one that never ends */
#define SETTLE		8	/* times @sleep_us without a new peak, until items leave */
#define MAX_POOLS	16384	/* pools with an ID above are not counted */
#define WORKER_BITS	16
#define MAX_ROWS	512

/* Parameters are strings, so that all values go through bench_set_param(). */
static char *scopes = "cpu,smt,cache_shard,cache,numa,system";
module_param(scopes, charp, 0444);
MODULE_PARM_DESC(scopes, "Affinity scopes, a comma-separated list of " BENCH_SCOPES);

static char *mode = "serial";
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "One of " BENCH_MODES " (default serial)");

static char *threads = "0";
module_param(threads, charp, 0444);
MODULE_PARM_DESC(threads, "Number of producers (default 0: one, or except in mode fanout one per CPU of cpus)");

static char *cpus = "";
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "List of CPUs for the producers (default: all that are online)");

static char *items = "50000";
module_param(items, charp, 0444);
MODULE_PARM_DESC(items, "Work items that each producer queues, 1 to 100000000 (default 50000)");

/* what the module of the same name in mainline calls them */
module_param_named(nr_threads, threads, charp, 0444);
MODULE_PARM_DESC(nr_threads, "The same as threads");
module_param_named(wq_items, items, charp, 0444);
MODULE_PARM_DESC(wq_items, "The same as items");

static char *window = "0";
module_param(window, charp, 0444);
MODULE_PARM_DESC(window, "Items in flight per producer, up to 131072 / threads, in modes burst, fanout and sleep (default 0: 32, or except in mode sleep as many as max_active allows)");

static char *work_ns = "0";
module_param(work_ns, charp, 0444);
MODULE_PARM_DESC(work_ns, "Time for which an item keeps its CPU busy, 0 to 100000000 (default 0)");

static char *sleep_us = "1000";
module_param(sleep_us, charp, 0444);
MODULE_PARM_DESC(sleep_us, "Time for which an item sleeps in mode sleep, 1 to 250000 (default 1000)");

static char *max_active = "0";
module_param(max_active, charp, 0444);
MODULE_PARM_DESC(max_active, "max_active of the workqueue (default 0: that of the kernel)");

static char *strict = "0";
module_param(strict, charp, 0444);
MODULE_PARM_DESC(strict, "affinity_strict of the workqueue, 0 or 1 (default 0)");

static char *spread = "1";
module_param(spread, charp, 0444);
MODULE_PARM_DESC(spread, "In mode fanout, queue on all online CPUs in turn, 0 or 1 (default 1)");

static char *warmup = "0";
module_param(warmup, charp, 0444);
MODULE_PARM_DESC(warmup, "Items that each producer queues before it measures, 0 to 100000000 (default 0)");

static char *repeat = "1";
module_param(repeat, charp, 0444);
MODULE_PARM_DESC(repeat, "Number of runs for each scope, 1 to 1000 (default 1)");

/*
 * An item is either idle, and on a list of its producer, or in flight, and
 * then it belongs to its function. In mode chain, where nothing is ever collected
 * from the list, the producer's histograms belong to it as well: an item never
 * runs in two places at once and is the only one of its producer.
 */
struct item {
	struct work_struct	work;
	struct llist_node	idle;
	struct producer		*producer;
	u64			queued_at;	/* ns */
	u64			started_at;	/* ns */
	unsigned int		nr_queued;
	unsigned int		nr_runs;
	unsigned int		nr_twice;
} ____cacheline_aligned_in_smp;

struct producer {
	struct run		*run;
	struct task_struct	*task;
	unsigned int		cpu;
	unsigned int		nr_items;	/* to be queued */
	unsigned int		nr_done;	/* executed, for others to see progress */
	u64			start;		/* ns */
	u64			end;		/* ns */
	struct llist_head	idle;		/* for the producer to collect */
	struct llist_node	*collected;
	struct completion	executed;	/* once when idle becomes non-empty */
	struct hist		queue;		/* ns in queue_work() */
	struct hist		latency;	/* ns from queue_work() to the start */
	struct item		items[];	/* the window */
};

/*
 * Whoever makes a run owns it until it is handed to the controller by setting
 * active_run. Items and producers refer to it, so it is freed when its producers
 * have been stopped and its workqueue has been destroyed.
 */
struct run {
	struct bench_params	params;
	struct cpumask		targets;	/* for mode fanout */
	struct workqueue_struct	*wq;
	struct file		*scope_file;
	u64			max_active;
	struct completion	go;
	struct completion	done;		/* nr_busy has become 0 */
	atomic_t		nr_busy;	/* producers */
	atomic_t		nr_running;	/* items, in mode sleep */
	atomic_t		running_peak;
	u64			peak_at;	/* ns, when running_peak rose last */
	bool			stop;		/* items and producers come to an end */
	DECLARE_BITMAP(pools, MAX_POOLS);
	DECLARE_BITMAP(workers, BIT(WORKER_BITS)); /* by hash, whose pool is known */
	struct hist		queue;
	struct hist		latency;
	struct producer		*producers[];
};

enum {
	ROW_THREADS, ROW_ITEMS, ROW_ITEMS_PER_SEC,
	ROW_QUEUE,
	ROW_START = ROW_QUEUE + 6,
	ROW_KWORKERS_BEFORE = ROW_START + 6, ROW_KWORKERS_PEAK, ROW_KWORKERS_AFTER,
	ROW_POOLS, ROW_RUNNING_PEAK, ROW_MAX_ACTIVE, ROW_LOST, ROW_TWICE, ROW_CLOCK,
	ROW_REPEAT, ROW_WINDOW, ROW_WORK, ROW_SLEEP, ROW_STRICT, ROW_SPREAD, ROW_WARMUP,
	ROW_VALUES
};

static const char * const row_keys[ROW_VALUES] = {
	"threads", "items", "items_per_sec",
	"queue_p50_ns", "queue_p90_ns", "queue_p95_ns",
	"queue_p99_ns", "queue_p999_ns", "queue_max_ns",
	"start_p50_ns", "start_p90_ns", "start_p95_ns",
	"start_p99_ns", "start_p999_ns", "start_max_ns",
	"kworkers_before", "kworkers_peak", "kworkers_after",
	"pools", "running_peak", "max_active", "lost", "twice", "clock_ns",
	"repeat", "window", "work_ns", "sleep_us", "strict", "spread", "warmup",
};

struct row {
	const char	*scope;
	const char	*mode;
	u64		value[ROW_VALUES];
};

/*
 * @start_lock serializes those who start a run: there is one workqueue of that
 * name in sysfs. While active_run is set, the run belongs to the controller, which
 * alone clears it. @lock guards rows, nr_rows and last_error. It is taken while a
 * file of debugfs is read, so no file is read while it is held.
 */
static DEFINE_MUTEX(start_lock);
static DEFINE_MUTEX(lock);
static DECLARE_WAIT_QUEUE_HEAD(changed);	/* active_run */
static struct run *active_run;
static int last_error;
static struct row rows[MAX_ROWS];		/* row N is in N % MAX_ROWS */
static unsigned long nr_rows;
static struct bench_params module_params;
static struct task_struct *controller;
static struct dentry *debugfs_dir;
static u64 clock_ns;

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

/*
 * The name of a worker is what a module can learn about its pool. It is read once
 * for each worker, so that a scope with many workers isn't slower for that. A worker
 * which is taken for another one matters if it is the only one of its pool.
 */
static void note_pool(struct run *run)
{
	unsigned long worker = hash_ptr(current, WORKER_BITS);
	unsigned int pool;

	if (test_bit(worker, run->workers))
		return;
	set_bit(worker, run->workers);
	if (sscanf(current->comm, "kworker/u%u:", &pool) == 1 && pool < MAX_POOLS &&
	    !test_bit(pool, run->pools))
		set_bit(pool, run->pools);
}

static void work(struct run *run, u64 start)
{
	unsigned int running, peak;
	u64 settle_ns = (u64)run->params.sleep_us * SETTLE * NSEC_PER_USEC;

	while (ktime_get_ns() - start < run->params.work_ns && !READ_ONCE(run->stop))
		cpu_relax();

	if (run->params.mode != MODE_SLEEP || READ_ONCE(run->stop))
		return;
	running = atomic_inc_return(&run->nr_running);
	peak = atomic_read(&run->running_peak);
	while (running > peak) {
		if (atomic_try_cmpxchg(&run->running_peak, &peak, running)) {
			WRITE_ONCE(run->peak_at, ktime_get_ns());
			break;
		}
	}
	/* None leaves while others are starting, however slowly workers are created. */
	do {
		usleep_range(run->params.sleep_us, run->params.sleep_us + 1);
	} while (ktime_get_ns() < READ_ONCE(run->peak_at) + settle_ns && !READ_ONCE(run->stop));
	atomic_dec(&run->nr_running);
}

/* returns what queue_work() took; @item belongs to its function from then on */
static u64 queue_item(struct item *item, int cpu)
{
	u64 before;

	item->nr_queued++;
	before = ktime_get_ns();
	item->queued_at = before;
	queue_work_on(cpu, item->producer->run->wq, &item->work);
	return ktime_get_ns() - before;
}

static void item_fn(struct work_struct *work_struct)
{
	u64 start = ktime_get_ns();
	struct item *item = container_of(work_struct, struct item, work);
	struct producer *p = item->producer;

	if (item->nr_runs == item->nr_queued) {
		item->nr_twice++;	/* and it may be on the idle list already */
		return;
	}
	item->nr_runs++;
	item->started_at = start;
	note_pool(p->run);
	work(p->run, start);

	if (p->run->params.mode == MODE_CHAIN) {
		hist_add(&p->latency, start - item->queued_at);
		WRITE_ONCE(p->nr_done, p->nr_done + 1);
		if (item->nr_runs < p->nr_items && !READ_ONCE(p->run->stop)) {
			hist_add(&p->queue, queue_item(item, WORK_CPU_UNBOUND));
			return;
		}
	}
	/* one for each batch, as otherwise all workers would fight for its lock */
	if (llist_add(&item->idle, &p->idle))
		complete(&p->executed);
}

/* wait for an idle item and take it, NULL if the run is to stop */
static struct item *take_item(struct producer *p)
{
	struct item *item;

	if (!p->collected) {
		wait_for_completion(&p->executed);
		p->collected = llist_del_all(&p->idle);
	}
	if (READ_ONCE(p->run->stop))
		return NULL;
	item = llist_entry(p->collected, struct item, idle);
	p->collected = p->collected->next;
	if (item->nr_runs && p->run->params.mode != MODE_CHAIN) {
		hist_add(&p->latency, item->started_at - item->queued_at);
		WRITE_ONCE(p->nr_done, p->nr_done + 1);
	}
	return item;
}

static void produce(struct producer *p)
{
	struct run *run = p->run;
	bool spread = run->params.mode == MODE_FANOUT && run->params.spread;
	bool chain = run->params.mode == MODE_CHAIN;
	unsigned int i, nr = chain ? 1 : p->nr_items;
	int cpu = spread ? p->cpu : WORK_CPU_UNBOUND;
	struct item *item;
	u64 ns;

	for (i = 0; i < nr; i++) {
		item = take_item(p);
		if (!item)
			return;
		if (spread) {
			cpu = cpumask_next(cpu, &run->targets);
			if (cpu >= nr_cpu_ids)
				cpu = cpumask_first(&run->targets);
		}
		ns = queue_item(item, cpu);
		if (!chain)
			hist_add(&p->queue, ns);
		cond_resched();
	}
	for (i = 0; i < run->params.window; i++)
		if (!take_item(p))
			return;
}

static int producer_fn(void *arg)
{
	struct producer *p = arg;

	wait_for_completion(&p->run->go);
	p->start = ktime_get_ns();
	produce(p);
	p->end = ktime_get_ns();
	if (atomic_dec_and_test(&p->run->nr_busy))
		complete(&p->run->done);

	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* no item of @run is in flight, no producer is there */
static void reset_run(struct run *run, unsigned int nr_items)
{
	unsigned int i, j;

	init_completion(&run->go);
	init_completion(&run->done);
	atomic_set(&run->nr_busy, run->params.threads);
	atomic_set(&run->running_peak, 0);
	run->stop = false;
	bitmap_zero(run->pools, MAX_POOLS);
	bitmap_zero(run->workers, BIT(WORKER_BITS));

	for (i = 0; i < run->params.threads; i++) {
		struct producer *p = run->producers[i];

		p->nr_items = nr_items;
		p->nr_done = 0;
		memset(&p->queue, 0, sizeof(p->queue));
		memset(&p->latency, 0, sizeof(p->latency));
		init_llist_head(&p->idle);
		p->collected = NULL;
		init_completion(&p->executed);
		for (j = 0; j < run->params.window; j++) {
			struct item *item = &p->items[j];

			item->nr_queued = 0;
			item->nr_runs = 0;
			item->nr_twice = 0;
			llist_add(&item->idle, &p->idle);
		}
		complete(&p->executed);
	}
}

/* wait for the producers; -EINTR if the run was ended, -EIO if it is stuck */
static int watch_producers(struct run *run, u64 *kworkers_peak)
{
	unsigned long progress_at = jiffies;
	u64 nr_done, last_nr_done = 0;
	unsigned int i;
	long ret;

	do {
		ret = wait_for_completion_interruptible_timeout(&run->done,
								msecs_to_jiffies(SAMPLE_MS));
		if (ret < 0 || kthread_should_stop())
			return -EINTR;
		*kworkers_peak = max_t(u64, *kworkers_peak, nr_kworkers());

		for (i = 0, nr_done = 0; i < run->params.threads; i++)
			nr_done += READ_ONCE(run->producers[i]->nr_done);
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

static int run_producers(struct run *run, unsigned int nr_items, u64 *kworkers_peak)
{
	unsigned int i, nr;
	int ret = 0;

	reset_run(run, nr_items);
	for (nr = 0; nr < run->params.threads; nr++) {
		struct producer *p = run->producers[nr];

		p->task = kthread_create_on_cpu(producer_fn, p, p->cpu, "wq_bench/%u");
		if (IS_ERR(p->task)) {
			ret = PTR_ERR(p->task);
			pr_err("cannot create producer %u: %pe\n", nr, p->task);
			break;
		}
		wake_up_process(p->task);
	}

	if (!ret) {
		complete_all(&run->go);
		ret = watch_producers(run, kworkers_peak);
	}

	/* let none wait: for the start, or for an item that doesn't come */
	WRITE_ONCE(run->stop, true);
	complete_all(&run->go);
	for (i = 0; i < nr; i++)
		complete_all(&run->producers[i]->executed);
	while (nr--)
		kthread_stop(run->producers[nr]->task);

	/* The last functions may not have returned. On an error it is for free_run(). */
	if (!ret)
		flush_workqueue(run->wq);
	return ret;
}

static void add_row(const struct row *row)
{
	static char line[1000];		/* the log takes a little more; for the controller */
	size_t len;
	int i;

	len = scnprintf(line, sizeof(line), "scope=%s mode=%s", row->scope, row->mode);
	for (i = 0; i < ROW_VALUES; i++)
		len += scnprintf(line + len, sizeof(line) - len, " %s=%llu",
				 row_keys[i], row->value[i]);
	pr_info("%s\n", line);

	mutex_lock(&lock);
	rows[nr_rows++ % MAX_ROWS] = *row;
	mutex_unlock(&lock);
}

static void percentiles(const struct hist *hist, u64 *value)
{
	static const unsigned int permille[] = { 500, 900, 950, 990, 999 };
	int i;

	for (i = 0; i < ARRAY_SIZE(permille); i++)
		value[i] = hist_percentile(hist, permille[i]);
	value[i] = hist->max;
}

/* complete @row with what the producers of @run have seen */
static void fill_row(struct run *run, struct row *row)
{
	const struct bench_params *params = &run->params;
	u64 start = U64_MAX, end = 0, *value = row->value;
	unsigned int i, j;

	memset(&run->queue, 0, sizeof(run->queue));
	memset(&run->latency, 0, sizeof(run->latency));
	for (i = 0; i < params->threads; i++) {
		struct producer *p = run->producers[i];

		start = min(start, p->start);
		end = max(end, p->end);
		hist_merge(&run->queue, &p->queue);
		hist_merge(&run->latency, &p->latency);
		for (j = 0; j < params->window; j++) {
			value[ROW_ITEMS] += p->items[j].nr_runs;
			value[ROW_LOST] += p->items[j].nr_queued - p->items[j].nr_runs;
			value[ROW_TWICE] += p->items[j].nr_twice;
		}
	}
	value[ROW_ITEMS_PER_SEC] = div64_u64(value[ROW_ITEMS] * USEC_PER_SEC,
					     max(div_u64(end - start, NSEC_PER_USEC), 1ULL));
	percentiles(&run->queue, &value[ROW_QUEUE]);
	percentiles(&run->latency, &value[ROW_START]);
	value[ROW_POOLS] = bitmap_weight(run->pools, MAX_POOLS);
	value[ROW_RUNNING_PEAK] = atomic_read(&run->running_peak);
	value[ROW_MAX_ACTIVE] = run->max_active;
	value[ROW_CLOCK] = clock_ns;
	value[ROW_THREADS] = params->threads;
	value[ROW_WINDOW] = params->window;
	value[ROW_WORK] = params->work_ns;
	value[ROW_SLEEP] = params->mode == MODE_SLEEP ? params->sleep_us : 0;
	value[ROW_STRICT] = params->strict;
	value[ROW_SPREAD] = params->mode == MODE_FANOUT && params->spread;
	value[ROW_WARMUP] = params->warmup;
}

/*
 * Workqueue attributes are not exported to modules, the sysfs files are the
 * interface that every kernel has. They are opened by the process that starts a
 * run, because a kthread need not see the file systems that it sees.
 */
static struct file *open_attr(const char *name, int flags)
{
	struct file *file;
	char path[80];

	scnprintf(path, sizeof(path), "/sys/devices/virtual/workqueue/" KBUILD_MODNAME "/%s", name);
	file = filp_open(path, flags, 0);
	if (IS_ERR(file))
		pr_err("cannot open %s: %pe, is sysfs mounted on /sys?\n", path, file);
	return file;
}

/* the first word of an attribute */
static int read_attr(struct file *file, char *buf, size_t size)
{
	loff_t pos = 0;
	ssize_t len = kernel_read(file, buf, size - 1, &pos);

	if (len < 0)
		return len;
	buf[len] = '\0';
	buf[strcspn(buf, "\n ")] = '\0';
	return 0;
}

static int write_attr(struct file *file, const char *value)
{
	loff_t pos = 0;
	ssize_t len = kernel_write(file, value, strlen(value), &pos);

	return len < 0 ? len : 0;
}

/*
 * Returns -EINVAL if the kernel has no @scope. One which lacks cache_shard may
 * take the word for the scope that it starts with, so look what came of it.
 */
static int set_scope(struct run *run, const char *scope)
{
	char buf[32];
	int ret;

	ret = write_attr(run->scope_file, scope) ?: read_attr(run->scope_file, buf, sizeof(buf));
	if (ret)
		return ret;
	return strcmp(buf, scope) ? -EINVAL : 0;
}

/* for mode cancel */
struct cancel {
	struct work_struct	first;		/* runs until it is let go */
	struct work_struct	second;		/* waits for the first to end */
	struct work_struct	flush;		/* flushes the second */
	struct completion	started;
	struct completion	go;
	struct completion	flushed;
};

static void first_fn(struct work_struct *work)
{
	struct cancel *c = container_of(work, struct cancel, first);

	complete(&c->started);
	wait_for_completion(&c->go);
}

static void second_fn(struct work_struct *work)
{
}

static void flush_fn(struct work_struct *work)
{
	struct cancel *c = container_of(work, struct cancel, flush);

	flush_work(&c->second);
	complete(&c->flushed);
}

/* whether a flush of an item that is cancelled while it waits comes to an end */
static bool flush_ends(struct run *run, struct cancel *c)
{
	int cpu = cpumask_first(&run->params.cpus), other = cpumask_last(&run->params.cpus);
	unsigned long end = jiffies + HUNG_SECS * HZ;

	queue_work_on(cpu, run->wq, &c->first);
	wait_for_completion(&c->started);
	queue_work_on(other, run->wq, &c->second);
	schedule_work(&c->flush);
	while (!(READ_ONCE(*work_data_bits(&c->second)) & WORK_STRUCT_LINKED) &&
	       time_before(jiffies, end))
		usleep_range(100, 200);
	cancel_work(&c->second);
	complete(&c->go);
	if (wait_for_completion_timeout(&c->flushed, HUNG_SECS * HZ))
		return true;

	pr_err("a flush of an item that was cancelled had not ended after %u seconds\n", HUNG_SECS);
	queue_work_on(other, run->wq, &c->second);
	wait_for_completion(&c->flushed);
	return false;
}

static int run_cancel(struct run *run, struct row *row)
{
	u64 *items = &row->value[ROW_ITEMS], *lost = &row->value[ROW_LOST];
	struct cancel c;

	INIT_WORK_ONSTACK(&c.first, first_fn);
	INIT_WORK_ONSTACK(&c.second, second_fn);
	INIT_WORK_ONSTACK(&c.flush, flush_fn);
	init_completion(&c.started);
	init_completion(&c.go);
	init_completion(&c.flushed);
	run->producers[0]->start = ktime_get_ns();
	while (*items < run->params.items && !*lost &&
	       !signal_pending(current) && !kthread_should_stop()) {
		*lost = !flush_ends(run, &c);
		flush_workqueue(run->wq);
		flush_work(&c.flush);
		++*items;
	}
	run->producers[0]->end = ktime_get_ns();
	destroy_work_on_stack(&c.first);
	destroy_work_on_stack(&c.second);
	destroy_work_on_stack(&c.flush);
	if (*lost)
		return -EIO;
	return *items < run->params.items ? -EINTR : 0;
}

static int run_scope(struct run *run, const char *scope, unsigned int nr)
{
	struct row row = {
		.scope = scope,
		.mode = bench_modes[run->params.mode],
		.value = { [ROW_REPEAT] = nr, [ROW_KWORKERS_BEFORE] = nr_kworkers() },
	};
	u64 *peak = &row.value[ROW_KWORKERS_PEAK];
	int ret;

	ret = set_scope(run, scope);
	if (ret == -EINVAL) {
		pr_info("scope=%s missing\n", scope);
		return 0;
	}
	if (!ret && run->params.mode == MODE_CANCEL) {
		ret = run_cancel(run, &row);
	} else {
		if (!ret && run->params.warmup)
			ret = run_producers(run, run->params.warmup, peak);
		if (!ret)
			ret = run_producers(run, run->params.items, peak);
	}
	if (ret && ret != -EIO)
		return ret;
	row.value[ROW_KWORKERS_AFTER] = nr_kworkers();
	*peak = max(*peak, row.value[ROW_KWORKERS_AFTER]);
	fill_row(run, &row);
	add_row(&row);
	return ret;
}

static int do_run(struct run *run)
{
	unsigned int nr;
	int i, ret;

	for (nr = 1; nr <= run->params.repeat; nr++) {
		for (i = 0; i < ARRAY_SIZE(bench_scopes); i++) {
			if (!(run->params.scopes & BIT(i)))
				continue;
			if (signal_pending(current) || kthread_should_stop())
				return -EINTR;
			ret = run_scope(run, bench_scopes[i], nr);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Its producers are gone. Items that are still queued are not worth executing. */
static void free_run(struct run *run)
{
	unsigned int i, j;

	for (i = 0; i < run->params.threads && run->producers[i]; i++)
		for (j = 0; j < run->params.window; j++)
			cancel_work_sync(&run->producers[i]->items[j].work);
	if (!IS_ERR_OR_NULL(run->scope_file))
		filp_close(run->scope_file, NULL);
	if (run->wq)
		destroy_workqueue(run->wq);
	for (i = 0; i < run->params.threads; i++)
		kvfree(run->producers[i]);
	kvfree(run);
}

/* the parts of a workqueue that are the same for all scopes */
static int setup_workqueue(struct run *run)
{
	struct file *file;
	char buf[16];
	int ret;

	run->wq = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND | WQ_SYSFS, run->params.max_active);
	if (!run->wq)
		return -ENOMEM;
	run->scope_file = open_attr("affinity_scope", O_RDWR);
	if (IS_ERR(run->scope_file))
		return PTR_ERR(run->scope_file);

	file = open_attr("affinity_strict", O_WRONLY);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = write_attr(file, run->params.strict ? "1" : "0");
	filp_close(file, NULL);
	if (ret)
		return ret;

	file = open_attr("max_active", O_RDONLY);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = read_attr(file, buf, sizeof(buf)) ?: kstrtou64(buf, 10, &run->max_active);
	filp_close(file, NULL);
	return ret;
}

static struct run *make_run(const struct bench_params *params)
{
	unsigned int i, j, cpu;
	struct run *run;
	int ret = -ENOMEM;

	run = kvzalloc(struct_size(run, producers, params->threads), GFP_KERNEL);
	if (!run)
		return ERR_PTR(-ENOMEM);
	run->params = *params;
	cpumask_copy(&run->targets, cpu_online_mask);

	cpu = cpumask_first(&params->cpus);
	for (i = 0; i < params->threads; i++) {
		struct producer *p;

		p = kvzalloc_node(struct_size(p, items, params->window), GFP_KERNEL,
				  cpu_to_node(cpu));
		if (!p)
			goto err;
		run->producers[i] = p;
		p->run = run;
		p->cpu = cpu;
		for (j = 0; j < params->window; j++) {
			p->items[j].producer = p;
			INIT_WORK(&p->items[j].work, item_fn);
		}
		cpu = cpumask_next(cpu, &params->cpus);
	}
	ret = setup_workqueue(run);
	if (ret)
		goto err;
	return run;
err:
	free_run(run);
	return ERR_PTR(ret);
}

/* start a run with @params, which are changed */
static int start_run(struct bench_params *params)
{
	struct run *run;
	int ret;

	cpus_read_lock();
	ret = bench_check_params(params, cpu_online_mask);
	cpus_read_unlock();
	if (ret)
		return ret;
	ret = mutex_lock_interruptible(&start_lock);
	if (ret)
		return ret;
	if (READ_ONCE(active_run)) {
		ret = -EBUSY;
		goto out;
	}
	run = make_run(params);
	if (IS_ERR(run)) {
		ret = PTR_ERR(run);
		goto out;
	}
	smp_store_release(&active_run, run);	/* all of it is there */
	wake_up_all(&changed);
out:
	mutex_unlock(&start_lock);
	return ret;
}

static int controller_fn(void *unused)
{
	int ret;

	allow_signal(SIGINT);
	allow_signal(SIGTERM);
	while (!kthread_should_stop()) {
		if (wait_event_interruptible(changed,
					     READ_ONCE(active_run) || kthread_should_stop())) {
			flush_signals(current);
			continue;
		}
		if (!READ_ONCE(active_run))
			continue;

		ret = do_run(active_run);
		free_run(active_run);
		flush_signals(current);

		mutex_lock(&lock);
		last_error = ret;
		smp_store_release(&active_run, NULL);	/* last_error is set */
		mutex_unlock(&lock);
		wake_up_all(&changed);
	}
	return 0;
}

static ssize_t run_write(struct file *file, const char __user *ubuf, size_t count, loff_t *ppos)
{
	struct bench_params *params;
	char *words;
	int ret;

	if (count >= PAGE_SIZE)
		return -E2BIG;
	words = memdup_user_nul(ubuf, count);
	if (IS_ERR(words))
		return PTR_ERR(words);
	params = kmemdup(&module_params, sizeof(module_params), GFP_KERNEL);
	ret = -ENOMEM;
	if (params)
		ret = bench_set_params(params, words) ?: start_run(params);
	kfree(params);
	kfree(words);
	return ret ?: count;
}

static int run_show(struct seq_file *m, void *unused)
{
	mutex_lock(&lock);
	if (READ_ONCE(active_run))
		seq_puts(m, "running\n");
	else
		seq_printf(m, "idle %d\n", last_error);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_STORE_ATTRIBUTE(run);

static int results_show(struct seq_file *m, void *unused)
{
	unsigned long nr;
	int i;

	seq_puts(m, "scope,mode");
	for (i = 0; i < ROW_VALUES; i++)
		seq_printf(m, ",%s", row_keys[i]);
	seq_putc(m, '\n');

	mutex_lock(&lock);
	for (nr = nr_rows > MAX_ROWS ? nr_rows - MAX_ROWS : 0; nr < nr_rows; nr++) {
		const struct row *row = &rows[nr % MAX_ROWS];

		seq_printf(m, "%s,%s", row->scope, row->mode);
		for (i = 0; i < ROW_VALUES; i++)
			seq_printf(m, ",%llu", row->value[i]);
		seq_putc(m, '\n');
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(results);

static int __init set_module_params(void)
{
	const struct {
		const char *name;
		const char *value;
	} args[] = {
		{ "scopes", scopes }, { "mode", mode }, { "threads", threads },
		{ "cpus", cpus }, { "items", items }, { "window", window },
		{ "work_ns", work_ns }, { "sleep_us", sleep_us },
		{ "max_active", max_active }, { "strict", strict },
		{ "spread", spread }, { "warmup", warmup }, { "repeat", repeat },
	};
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(args); i++) {
		ret = bench_set_param(&module_params, args[i].name, args[i].value);
		if (ret)
			return ret;
	}
	return 0;
}

static void stop_controller(void)
{
	kthread_stop(controller);
	/* it may have ended without a look at the last run */
	if (active_run)
		free_run(active_run);
}

static int __init test_workqueue_init(void)
{
	struct bench_params *params;
	int ret;

	ret = set_module_params();
	if (ret)
		return ret;
	clock_ns = measure_clock();

	params = kmemdup(&module_params, sizeof(module_params), GFP_KERNEL);
	if (!params)
		return -ENOMEM;
	controller = kthread_run(controller_fn, NULL, "wq_bench");
	if (IS_ERR(controller)) {
		ret = PTR_ERR(controller);
		goto out;
	}
	ret = start_run(params);
	if (!ret) {
		/* pairs with the release of controller_fn(), for last_error */
		ret = wait_event_interruptible(changed, !smp_load_acquire(&active_run));
		ret = ret ? -EINTR : last_error;
	}
	if (ret) {
		stop_controller();
		goto out;
	}

	/* Not before, as files that are open can't keep a module that fails to load. */
	debugfs_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0600, debugfs_dir, NULL, &run_fops);
	debugfs_create_file("results", 0444, debugfs_dir, NULL, &results_fops);
out:
	kfree(params);
	return ret;
}
module_init(test_workqueue_init);

static void __exit test_workqueue_exit(void)
{
	debugfs_remove(debugfs_dir);
	stop_controller();
}
module_exit(test_workqueue_exit);

MODULE_DESCRIPTION("Benchmark of unbound workqueues");
MODULE_LICENSE("GPL");
