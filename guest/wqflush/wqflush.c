// SPDX-License-Identifier: GPL-2.0
/*
 * Does a flush return while the work item executes? X executes and is queued again. It is
 * flushed, which waits behind what is pending, and grabbed, which takes that away. Then an
 * item of the same pool starts, so that a worker runs all that is on the worklist.
 *
 * When 1 is written to the parameter run, this is tried for each kind of workqueue,
 * way to flush and way to grab, and each logs
 *
 *   wqflush: KIND FLUSH GRAB waits|early|hangs
 *
 * The kinds are named after where the pending item is: inactive, as the limit is reached,
 * or on the worklist. For unbound_worklist, one CPU's workers must be those of workqueue
 * wqflush_one: write 1 to its cpumask in sysfs. Two CPUs are needed, 0 and another one.
 *
 * Does a flush end when the item that it waits for is cancelled? The item waits for one of
 * another pool, as the limit is reached, and nothing else happens on its own pool. Kernels from
 * 6.9 on hang that don't kick the pool then. When other_pool is written to the parameter run,
 * this is tried, and logged as
 *
 *   wqflush: other_pool flush_work cancel ends|hangs
 *
 * CPU 0 and the last one must be of one node, and have pools of their own: write cpu to
 * affinity_scope of workqueue wqflush_two.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#define LIMIT_MS	10000	/* for what has to happen */
#define GRACE_MS	50	/* for what must not */
#define TRIES		20	/* for a hog to be grabbed from before it's seen to be one */

enum place {
	INACTIVE,
	WORKLIST,		/* behind a worker that has the CPU */
	WORKLIST_UNBOUND,	/* as there is no CPU for the workers */
	WORKLIST_BH,
};

static const struct kind {
	const char	*name;
	unsigned int	flags;
	int		max_active;
	enum place	place;
} kinds[] = {
	{ "unbound",		WQ_UNBOUND, 1, INACTIVE },
	{ "unbound_worklist",	WQ_UNBOUND | WQ_SYSFS, 0, WORKLIST_UNBOUND },
	{ "percpu",		WQ_PERCPU, 1, INACTIVE },
	{ "percpu_worklist",	WQ_PERCPU, 0, WORKLIST },
	{ "ordered",		0, 1, INACTIVE },
	{ "bh",			WQ_BH | (__WQ_BH_ALLOWS & WQ_PERCPU), 0, WORKLIST_BH },
};

static const char * const flushes[] = { "flush_work", "flush_delayed_work" };
static const char * const grabs[] = { "cancel", "cancel_sync", "disable", "modify" };

static struct workqueue_struct *two;
static struct workqueue_struct *wqs[ARRAY_SIZE(kinds)];
static struct workqueue_struct *others[ARRAY_SIZE(kinds)];	/* for what kicks the pool */

struct trial {
	struct delayed_work	x;
	struct work_struct	y;
	enum place		place;
	const char		*flush;
	bool			spin;		/* X keeps the CPU */
	bool			leave;		/* a BH one ends */
	bool			grabbed;
	struct completion	started;
	struct completion	release;
	struct completion	flush_now;
	struct completion	flushed;
	struct completion	cancel_now;
	struct completion	cancelled;
};

static void x_fn(struct work_struct *work)
{
	struct trial *t = container_of(to_delayed_work(work), struct trial, x);

	complete(&t->started);
	while (READ_ONCE(t->spin))
		cpu_relax();
	if (t->place == WORKLIST_BH)
		while (!READ_ONCE(t->leave))
			cpu_relax();
	else
		wait_for_completion(&t->release);
}

static void y_fn(struct work_struct *work)
{
}

static int flush_fn(void *arg)
{
	struct trial *t = arg;

	wait_for_completion(&t->flush_now);
	if (t->flush == flushes[0])
		flush_work(&t->x.work);
	else
		flush_delayed_work(&t->x);
	complete(&t->flushed);
	return 0;
}

static int cancel_fn(void *arg)
{
	struct trial *t = arg;

	wait_for_completion(&t->cancel_now);
	cancel_delayed_work_sync(&t->x);
	complete(&t->cancelled);
	return 0;
}

/* on a CPU that X doesn't need; it waits until it is told to go on */
static bool start(int (*fn)(void *), void *arg)
{
	return !IS_ERR(kthread_run_on_cpu(fn, arg, cpumask_last(cpu_online_mask), "wqflush/%u"));
}

/* a barrier is linked behind what is pending, or no longer, in time */
static bool await_barrier(struct work_struct *work, bool there)
{
	ktime_t end = ktime_add_ms(ktime_get(), LIMIT_MS);

	while (!(READ_ONCE(*work_data_bits(work)) & WORK_STRUCT_LINKED) == there) {
		if (ktime_after(ktime_get(), end))
			return false;
		cpu_relax();
		if (!preempt_count())
			cond_resched();
	}
	return true;
}

static bool grab(struct trial *t, const char *how)
{
	if (how == grabs[0])
		return cancel_delayed_work(&t->x);
	if (how == grabs[1]) {
		complete(&t->cancel_now);
		return await_barrier(&t->x.work, false);
	}
	if (how == grabs[2])
		return disable_delayed_work(&t->x);
	return mod_delayed_work(system_wq, &t->x, 600 * HZ);
}

static struct trial *alloc_trial(const struct kind *kind, const char *flush)
{
	struct trial *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	INIT_DELAYED_WORK(&t->x, x_fn);
	INIT_WORK(&t->y, y_fn);
	t->place = kind->place;
	t->flush = flush;
	t->spin = kind->place == WORKLIST;
	init_completion(&t->started);
	init_completion(&t->release);
	init_completion(&t->flush_now);
	init_completion(&t->flushed);
	init_completion(&t->cancel_now);
	init_completion(&t->cancelled);
	if (start(flush_fn, t) && start(cancel_fn, t))
		return t;
	return NULL;	/* a thread may have it */
}

/* flush, grab, and have a worker run what is on the worklist; whether the flush returns */
static bool flush_returns(struct trial *t, int i, const char *how)
{
	const struct cpumask *last = cpumask_of(cpumask_last(cpu_online_mask));
	bool atomic = t->place == WORKLIST_UNBOUND, early;

	/* a BH one that spins, on CPU 0, must not keep us from ending it */
	set_cpus_allowed_ptr(current, atomic ? cpumask_of(0) : last);
	queue_delayed_work_on(0, wqs[i], &t->x, 0);
	wait_for_completion(&t->started);
	if (atomic)
		preempt_disable();
	queue_delayed_work_on(0, wqs[i], &t->x, 0);
	complete(&t->flush_now);
	t->grabbed = await_barrier(&t->x.work, true) && grab(t, how);
	queue_work_on(0, others[i], &t->y);
	if (atomic)
		preempt_enable();

	WRITE_ONCE(t->spin, false);
	if (t->place != WORKLIST_BH)
		flush_work(&t->y);
	early = wait_for_completion_timeout(&t->flushed, msecs_to_jiffies(GRACE_MS));
	if (early)
		complete(&t->flushed);
	return early;
}

static bool has_ended(struct trial *t)
{
	complete_all(&t->release);
	WRITE_ONCE(t->leave, true);
	complete(&t->cancel_now);
	return wait_for_completion_timeout(&t->flushed, msecs_to_jiffies(LIMIT_MS)) &&
	       wait_for_completion_timeout(&t->cancelled, msecs_to_jiffies(LIMIT_MS));
}

static const char *try(int i, const char *flush, const char *how)
{
	struct trial *t = alloc_trial(&kinds[i], flush);
	const char *verdict;
	bool early, ended;

	if (!t)
		return "untried";
	early = flush_returns(t, i, how);
	ended = has_ended(t);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	if (!ended) {
		__module_get(THIS_MODULE);	/* somebody still uses it */
		return "hangs";
	}
	verdict = !t->grabbed ? "untried" : early ? "early" : "waits";
	if (how == grabs[2] && t->grabbed)
		enable_delayed_work(&t->x);
	cancel_delayed_work_sync(&t->x);
	flush_work(&t->y);
	kfree(t);
	return verdict;
}

/* two items, of which the second waits for the first */
struct pair {
	struct work_struct	first;
	struct work_struct	second;
	struct completion	started;
	struct completion	release;
	struct completion	flush_now;
	struct completion	flushed;
};

static void first_fn(struct work_struct *work)
{
	struct pair *p = container_of(work, struct pair, first);

	complete(&p->started);
	wait_for_completion(&p->release);
}

static int flush_second_fn(void *arg)
{
	struct pair *p = arg;

	wait_for_completion(&p->flush_now);
	flush_work(&p->second);
	complete(&p->flushed);
	return 0;
}

static const char *try_other_pool(void)
{
	int last = cpumask_last(cpu_online_mask);
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	bool cancelled, ends;

	if (!p)
		return "untried";
	INIT_WORK(&p->first, first_fn);
	INIT_WORK(&p->second, y_fn);
	init_completion(&p->started);
	init_completion(&p->release);
	init_completion(&p->flush_now);
	init_completion(&p->flushed);
	if (!start(flush_second_fn, p)) {
		kfree(p);
		return "untried";
	}
	queue_work_on(0, two, &p->first);
	wait_for_completion(&p->started);
	queue_work_on(last, two, &p->second);
	complete(&p->flush_now);
	cancelled = await_barrier(&p->second, true) && cancel_work(&p->second);
	complete(&p->release);
	ends = wait_for_completion_timeout(&p->flushed, msecs_to_jiffies(LIMIT_MS));
	if (!ends) {
		queue_work_on(last, two, &p->second);	/* kicks the pool */
		wait_for_completion(&p->flushed);
	}
	flush_workqueue(two);
	kfree(p);
	return !cancelled ? "untried" : ends ? "ends" : "hangs";
}

static int run(const char *val, const struct kernel_param *kp)
{
	const char *verdict;
	int i, flush, how, n, again;

	if (!wqs[ARRAY_SIZE(kinds) - 1])
		return -EBUSY;
	if (sysfs_streq(val, "other_pool")) {
		pr_info("other_pool %s %s %s\n", flushes[0], grabs[0], try_other_pool());
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		for (flush = 0; flush < ARRAY_SIZE(flushes); flush++)
			for (how = 0; how < ARRAY_SIZE(grabs); how++) {
				/* who waits for a BH one keeps the CPU that we need */
				if (kinds[i].place == WORKLIST_BH && how == 1)
					continue;
				/*
				 * one seen to be a hog before it is grabbed tells nothing,
				 * nor does one that could not be grabbed
				 */
				n = kinds[i].place == WORKLIST ? TRIES : 1;
				again = TRIES;
				do {
					verdict = try(i, flushes[flush], grabs[how]);
				} while (!strcmp(verdict, "untried") ? --again :
					 !strcmp(verdict, "waits") && --n);
				pr_info("%s %s %s %s\n", kinds[i].name, flushes[flush],
					grabs[how], verdict);
			}
	return 0;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "written: try all, or with other_pool that alone");

static void wqflush_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (wqs[i])
			destroy_workqueue(wqs[i]);
		if (others[i] && others[i] != wqs[i])
			destroy_workqueue(others[i]);
	}
	if (two)
		destroy_workqueue(two);
}

static int __init wqflush_init(void)
{
	int i;

	if (cpumask_last(cpu_online_mask) == 0)
		return -ENODEV;
	two = alloc_workqueue("wqflush_two", WQ_UNBOUND | WQ_SYSFS, 1);
	if (!two)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct kind *kind = &kinds[i];

		if (!kind->flags) {
			wqs[i] = alloc_ordered_workqueue("wqflush", 0);
			others[i] = alloc_ordered_workqueue("wqflush_other", 0);
		} else {
			wqs[i] = alloc_workqueue(kind->flags & WQ_SYSFS ? "wqflush_one" : "wqflush",
						 kind->flags, kind->max_active);
			others[i] = kind->max_active == 1 ?
				    alloc_workqueue("wqflush_other", kind->flags, 0) : wqs[i];
		}
		if (!wqs[i] || !others[i]) {
			wqflush_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

module_init(wqflush_init);
module_exit(wqflush_exit);
MODULE_DESCRIPTION("Tells whether a flush returns while the work item executes, or hangs");
MODULE_LICENSE("GPL");
