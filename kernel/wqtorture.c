// SPDX-License-Identifier: GPL-2.0
/*
 * Torture test for max_active of unbound workqueues.
 *
 * Work items are queued on a few workqueues, from all nodes, while the limits of
 * the workqueues change, CPUs go offline and come back (onoff_interval), and
 * whatever else is done from outside: attributes changed in sysfs, the cpumask of
 * all unbound workqueues, or freezing. For each workqueue it is checked that
 *
 *   - no more items run than the limit in force allows: while it is changed, the
 *     higher one, and once it was lowered, no item more than before until fewer run
 *   - while fewer run and some wait, there is progress at least every @stall_ms, and
 *     none waits for four times as long while others are executed again and again
 *   - each item runs as often as it was queued, less what was cancelled, and never
 *     in two places at once
 *   - a flush returns after all that was queued before it has ended or was cancelled,
 *     also when it executes and what is pending is cancelled; so does what cancels and
 *     waits, and what is disabled doesn't run
 *
 * What is special about each of them:
 *
 *   wqtorture_storm     only three items, in every other round of the issuers, so that
 *                       flushes, cancellations and executions of one of them meet
 *   wqtorture_churn     items that do nothing, spin, sleep or queue themselves, and
 *   wqtorture_reclaim   are queued, cancelled, disabled and flushed at random; with
 *   wqtorture_freeze    a rescuer; and frozen with the system
 *   wqtorture_one       the same with limits that don't change: what is lost isn't
 *   wqtorture_few       made up for and each item too many is seen
 *   wqtorture_half      so many items that they are between half of the limit, which
 *                       changes, and all of it, and queue themselves again
 *   wqtorture_meet      items that stay until as many of them run as may, with the
 *                       limit raised and lowered and items cancelled meanwhile
 *   wqtorture_ordered   one item after the other, in the order in which they were
 *                       queued
 *   wqtorture_brief     a workqueue that is destroyed and created again
 *   wqtorture_fair_few, wqtorture_fair
 *                       as many items as can be from each CPU: with @fair, none has
 *                       less than half of its even share of the completions in
 *                       SHORT windows in a row; a window is a second and WINDOW
 *                       completions, or SHARE for each CPU if these are more
 *
 * Now and then nothing is queued on one of the first seven until all items are done,
 * and then items that stay: exactly as many as the limit allows have to run.
 *
 * What is counted when an item starts and ends is counted without a lock, and but
 * for the very end with no more order than atomic operations on one variable have,
 * so that it doesn't hide a lack of order in what it tests. Only the ordered
 * workqueue and those for shares take one there.
 *
 * With the same @seed and as many issuers on the same machine, each issuer does the same
 * to the same items in the same order, and each item does the same when it is executed
 * for the nth time and isn't made to stay. When and how fast they do it doesn't follow
 * from @seed, so they meet in other ways each time, and directors look at how they did.
 *
 * All but the ordered one and wqtorture_brief are in sysfs. The last line but one
 * that is logged at the end is "wqtorture: ... errors=N", with N = 0 for success.
 */
#define pr_fmt(fmt) fmt

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/freezer.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include <linux/torture.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

MODULE_DESCRIPTION("Torture test for max_active of unbound workqueues");
MODULE_LICENSE("GPL");

torture_param(bool, fair, true, "Check shares of CPUs; not while CPUs or cpumasks change");
torture_param(int, max_active, 16, "Highest limit to be set, 2 to 256");
torture_param(int, nissuers, -1, "Number of issuers, -1 for two on each node with CPUs");
torture_param(int, onoff_holdoff, 0, "Time after start before CPU hotplugs (s)");
torture_param(int, onoff_interval, 0, "Time between CPU hotplugs (jiffies), 0=disable");
torture_param(uint, seed, 0, "What random decisions follow from, 0 for a random one");
torture_param(int, shutdown_secs, 0, "Shutdown time (s), <= zero to disable");
torture_param(int, stall_ms, 1000, "Time without progress that is an error (ms), 100 to 60000");
torture_param(int, stat_interval, 60, "Time between statistics in the log (s), 0=disable");
torture_param(int, stutter, 0, "Number of jiffies to run/halt issuers, 0=disable");
torture_param(int, verbose, 0, "Enable verbose debugging printk()s");

static char *torture_type = "wqtorture";

#define SAMPLES		10	/* of a stalled workqueue until it is taken for stuck */
#define WINDOW		1000	/* completions within which shares are looked at */
#define SHARE		100	/* of them for each CPU at least */
#define SHORT		3	/* windows in a row: a CPU of the host may be taken away */
#define FEW		3	/* items for STORM */
#define FAIR_ROUNDS	4	/* of all items, in which each has been done */
#define MAX_SHOWN	4	/* errors of a kind that are logged */

/* issuers queue on those up to ORDERED */
enum kind { STORM, CHURN, ORDERED, HALF, MEET, BRIEF, FAIR };

static const struct target_type {
	const char	*name;
	enum kind	kind;
	unsigned int	flags;
	int		limit;		/* 0: changes at random */
} types[] = {
	{ "wqtorture_storm",	STORM,	WQ_UNBOUND | WQ_SYSFS, 2 },
	{ "wqtorture_churn",	CHURN,	WQ_UNBOUND | WQ_SYSFS },
	{ "wqtorture_reclaim",	CHURN,	WQ_UNBOUND | WQ_SYSFS | WQ_MEM_RECLAIM },
	{ "wqtorture_freeze",	CHURN,	WQ_UNBOUND | WQ_SYSFS | WQ_FREEZABLE },
	{ "wqtorture_one",	CHURN,	WQ_UNBOUND | WQ_SYSFS, 1 },
	{ "wqtorture_few",	CHURN,	WQ_UNBOUND | WQ_SYSFS, 5 },
	{ "wqtorture_half",	HALF,	WQ_UNBOUND | WQ_SYSFS },
	{ "wqtorture_meet",	MEET,	WQ_UNBOUND | WQ_SYSFS },
	{ "wqtorture_ordered",	ORDERED, WQ_UNBOUND, 1 },
	{ "wqtorture_brief",	BRIEF,	WQ_UNBOUND },
	{ "wqtorture_fair_few",	FAIR,	WQ_UNBOUND | WQ_SYSFS, 2 },
	{ "wqtorture_fair",	FAIR,	WQ_UNBOUND | WQ_SYSFS, 8 },
};

struct item {
	struct delayed_work	dwork;
	struct target		*target;
	int			cpu;		/* for FAIR */
	struct rnd_state	random;		/* for its function */
	atomic_t		nr_queued;	/* counted before it is */
	atomic_t		nr_due;		/* and when it has been */
	atomic_t		nr_cancelling;	/* attempts under way */
	atomic_t		nr_cancelled;
	atomic_t		nr_run;
	atomic_t		nr_inside;	/* executions under way, at most 1 */
	atomic_t		flushing;

	/* for the watchdog alone */
	unsigned int		seen_done;
	unsigned int		nr_stalled;
	unsigned int		nr_flushing;	/* samples since when it is done */
	unsigned long		seen_started;	/* of the target, when it was seen done */
};

/* shares of the CPUs in the completions of this window, under the lock of the target */
struct shares {
	unsigned long	start;			/* in jiffies */
	unsigned int	nr;			/* of all completions */
	unsigned int	nr_cpus;		/* that have items */
	struct {
		unsigned int	nr;
		unsigned int	nr_short;	/* windows before this one, in a row */
	} of[];					/* a CPU */
};

/*
 * A workqueue under test. Its director is the only one to change its limit, so a
 * freezable workqueue has a freezable director: when that is to be frozen, so is the
 * workqueue, see doze().
 */
struct target {
	const struct target_type *type;
	struct workqueue_struct	*wq;
	struct rnd_state	*random;	/* for its director */
	struct rw_semaphore	calm;		/* STORM, CHURN: for write, nobody queues */
	wait_queue_head_t	gate;		/* MEET, fill(): items that stay */

	/* waiting: queued and neither cancelled nor started */
	atomic_long_t		nr_queued;
	atomic_long_t		nr_cancelled;
	atomic_long_t		nr_started;
	atomic_long_t		nr_ended;
	atomic_t		running;

	spinlock_t		lock;		/* guards the following for writes */
	unsigned long		nr_changes;	/* of the limit */
	int			max_active;	/* as it was set last */
	int			limit;		/* in force: that, or 0 while frozen */
	int			allowed;	/* to run; more than limit after lowering it */
	bool			changing;	/* the limit is being changed */
	bool			resting;	/* HALF: items don't queue themselves again */
	bool			held;		/* items stay ... */
	int			nr_passes;	/* ... but for so many */
	unsigned int		order_head;	/* ORDERED: order[] has what was queued */
	unsigned int		order_tail;
	struct shares		*shares;	/* FAIR */

	/* for the watchdog alone */
	unsigned long		seen_events;
	unsigned int		nr_stalled;

	unsigned int		nr_items;
	struct item		**order;	/* at most two entries for each item */
	struct item		items[] __counted_by(nr_items);
};

static int nodes[MAX_NUMNODES];			/* that have CPUs */
static int nr_nodes;

/* guards the pointers, for as long as they are followed; set once but for BRIEF */
static DEFINE_MUTEX(targets_mutex);
static struct target *targets[ARRAY_SIZE(types)];
static struct task_struct *directors[ARRAY_SIZE(types)];
static struct rnd_state director_random[ARRAY_SIZE(types)];
static struct task_struct *freezable_director;	/* stays until all targets are gone */
static struct task_struct **issuers;
static struct task_struct *watchdog_task;
static struct task_struct *stats_task;

static atomic_long_t nr_run;
static atomic_long_t nr_cancelled;
static atomic_long_t nr_waits;
static atomic_long_t nr_limits;
static atomic_long_t nr_meetings;
static atomic_long_t nr_filled;
static atomic_long_t nr_created;
static atomic_long_t nr_frozen;
static atomic_long_t nr_shares;
static atomic_t nr_errors;
static atomic_t nr_samples;

#define wqtorture_err(t, fmt, ...)						\
do {										\
	static atomic_t nr_shown;						\
										\
	atomic_inc(&nr_errors);							\
	if (atomic_fetch_add_unless(&nr_shown, 1, MAX_SHOWN) < MAX_SHOWN)	\
		pr_alert("%s: !!! %s: " fmt "\n", torture_type, (t)->type->name,\
			 ##__VA_ARGS__);					\
} while (0)

/* @number: of whoever decides; each has a sequence of its own that no other one uses */
static void seed_random(struct rnd_state *random, unsigned int number)
{
	prandom_seed_state(random, hash_64((u64)number << 32 | seed, 32));
}

static unsigned int random_below(struct rnd_state *random, unsigned int ceil)
{
	return reciprocal_scale(prandom_u32_state(random), ceil);
}

static void nap(struct rnd_state *random, unsigned int max_ms)
{
	unsigned int us = random_below(random, max_ms * USEC_PER_MSEC) + 1;

	usleep_range(us, us + 100);
}

static int random_cpu(struct rnd_state *random, const struct cpumask *mask)
{
	unsigned int nr = random_below(random, cpumask_weight(mask) ?: 1);
	unsigned int cpu = cpumask_nth(nr, mask);

	return cpu < nr_cpu_ids ? cpu : WORK_CPU_UNBOUND;
}

/* One node, all CPUs, also those that are offline, or the one that this is. */
static int random_issue_cpu(struct rnd_state *random)
{
	int node;

	switch (random_below(random, 4)) {
	case 0:
		node = nodes[random_below(random, nr_nodes)];
		return random_cpu(random, cpumask_of_node(node));
	case 1:
		return random_cpu(random, cpu_possible_mask);
	default:
		return WORK_CPU_UNBOUND;
	}
}

/* --- What may run --------------------------------------------------------- */

/* what is in force now has been written */
static void limit_changed(struct target *t)
{
	lockdep_assert_held(&t->lock);

	/* pairs with begin_item(), see there */
	smp_store_release(&t->nr_changes, t->nr_changes + 1);
}

static void thaw(struct target *t)
{
	lockdep_assert_held(&t->lock);

	if (t->limit)
		return;
	WRITE_ONCE(t->limit, t->max_active);
	WRITE_ONCE(t->allowed, max(t->allowed, t->limit));
	limit_changed(t);
}

/*
 * The freezer sets the limit of freezable workqueues to 0, then wakes up tasks that
 * are to be frozen, which is the only thing that ends this sleep early. What was
 * queued before and is within the limit may still be executed, and nothing else until the
 * freezer gives the limit back, before which it says that it is not freezing any longer.
 */
static void doze(struct target *t, unsigned int max_ms)
{
	unsigned long timeout = msecs_to_jiffies(random_below(t->random, max_ms)) + 1;

	if (!schedule_timeout_interruptible(timeout) || !freezing(current))
		return;
	spin_lock(&t->lock);
	WRITE_ONCE(t->limit, 0);
	spin_unlock(&t->lock);
	atomic_long_inc(&nr_frozen);

	try_to_freeze();

	spin_lock(&t->lock);
	thaw(t);
	spin_unlock(&t->lock);
}

static void set_limit(struct target *t, int limit)
{
	spin_lock(&t->lock);
	WRITE_ONCE(t->changing, true);
	WRITE_ONCE(t->allowed, max(t->allowed, limit));
	limit_changed(t);
	spin_unlock(&t->lock);

	workqueue_set_max_active(t->wq, limit);

	spin_lock(&t->lock);
	WRITE_ONCE(t->changing, false);
	t->max_active = limit;
	WRITE_ONCE(t->limit, limit);
	limit_changed(t);
	spin_unlock(&t->lock);
	atomic_long_inc(&nr_limits);
}

/* what is queued meanwhile counts, so it may be too many, but not too few */
static long nr_waiting(struct target *t)
{
	long nr = atomic_long_read(&t->nr_started) + atomic_long_read(&t->nr_cancelled);

	smp_rmb();	/* pairs with what queues an item, which it starts after */
	return atomic_long_read(&t->nr_queued) - nr;
}

/* items that wait until they have ended, where they are executed */
static int nr_waiting_for_themselves(struct target *t)
{
	unsigned int i;
	int nr = 0;

	for (i = 0; i < t->nr_items; i++)
		nr += atomic_read(&t->items[i].nr_inside) && work_pending(&t->items[i].dwork.work);
	return nr;
}

/* whether no item can be started, as the limit is reached or none waits */
static bool is_full(struct target *t)
{
	return atomic_read(&t->running) >= READ_ONCE(t->limit) || nr_waiting(t) <= 0;
}

static void check_order(struct target *t, struct item *item)
{
	struct item *first = NULL;

	if (t->order_head != t->order_tail)
		first = t->order[t->order_head++ % (2 * t->nr_items)];
	if (first != item)
		wqtorture_err(t, "item %td runs before item %td", item - t->items,
			      first ? first - t->items : -1);
}

/*
 * @running items have been seen to run, which are more than were allowed to after
 * @nr_changes of the limit. Both say nothing if it has changed since.
 */
static void check_running(struct target *t, int running, unsigned long nr_changes)
{
	spin_lock(&t->lock);
	if (t->nr_changes == nr_changes) {
		if (!t->limit && !freezing(freezable_director))
			thaw(t);
		if (running > t->allowed)
			wqtorture_err(t, "%d run and %d may, limit %d", running, t->allowed,
				      t->limit);
	}
	spin_unlock(&t->lock);
}

static void begin_item(struct item *item)
{
	struct target *t = item->target;
	unsigned long nr_changes;
	int allowed, running;

	/* pairs with set_limit() and thaw(): what was allowed then or later is seen */
	nr_changes = smp_load_acquire(&t->nr_changes);
	allowed = READ_ONCE(t->allowed);

	if (atomic_inc_return(&item->nr_inside) != 1)
		wqtorture_err(t, "item %td runs in two places at once", item - t->items);

	atomic_long_inc(&t->nr_started);
	running = atomic_inc_return_relaxed(&t->running);
	if (running > allowed)
		check_running(t, running, nr_changes);
	if (t->type->kind == ORDERED) {
		spin_lock(&t->lock);
		check_order(t, item);
		spin_unlock(&t->lock);
	}
}

static void check_shares(struct target *t, struct item *item)
{
	struct shares *s = t->shares;
	unsigned int i;

	s->of[item->cpu].nr++;
	if (++s->nr < max(WINDOW, s->nr_cpus * SHARE) || time_before(jiffies, s->start + HZ))
		return;
	atomic_long_inc(&nr_shares);
	for (i = 0; i < s->nr_cpus; i++) {
		int cpu = t->items[i].cpu;

		if (s->of[cpu].nr * s->nr_cpus * 2 >= s->nr) {
			s->of[cpu].nr_short = 0;
		} else if (++s->of[cpu].nr_short == SHORT) {
			wqtorture_err(t, "CPU %d had %u of %u completions, %u CPUs share them", cpu,
				      s->of[cpu].nr, s->nr, s->nr_cpus);
			s->of[cpu].nr_short = 0;
		}
		s->of[cpu].nr = 0;
	}
	s->nr = 0;
	s->start = jiffies;
}

static void end_item(struct item *item)
{
	struct target *t = item->target;

	/* first, lest those who are active but don't run yet are too many */
	atomic_dec(&t->running);
	if (READ_ONCE(t->allowed) > READ_ONCE(t->limit) && !READ_ONCE(t->changing)) {
		spin_lock(&t->lock);
		if (t->allowed > t->limit && !t->changing)
			WRITE_ONCE(t->allowed, t->allowed - 1);
		spin_unlock(&t->lock);
	}
	if (t->shares && fair) {
		spin_lock(&t->lock);
		check_shares(t, item);
		spin_unlock(&t->lock);
	}

	atomic_inc(&item->nr_run);
	atomic_long_inc(&nr_run);
	atomic_dec(&item->nr_inside);
	/* pairs with is_idle(): who sees the end sees what the item has queued */
	atomic_long_fetch_inc_release(&t->nr_ended);
}

/* --- Items ---------------------------------------------------------------- */

/* true if @item was not pending already and is not disabled; @delay in jiffies */
static bool queue_item(struct item *item, int cpu, unsigned long delay)
{
	struct target *t = item->target;

	/* It may run and end before the function returns. */
	atomic_inc(&item->nr_queued);
	atomic_long_inc(&t->nr_queued);
	if (queue_delayed_work_on(cpu, t->wq, &item->dwork, delay)) {
		/* pairs with who waits for that often: the item is pending, or was */
		atomic_inc_return_release(&item->nr_due);
		return true;
	}
	atomic_dec(&item->nr_queued);
	atomic_long_dec(&t->nr_queued);
	return false;
}

/* to be followed by cancelled() */
static struct item *cancelling(struct item *item)
{
	atomic_inc(&item->nr_cancelling);
	return item;
}

/* account for what a function that cancels cancelling(@item) has returned */
static void cancelled(struct item *item, bool pending)
{
	if (pending) {
		atomic_inc(&item->nr_cancelled);
		atomic_long_inc(&item->target->nr_cancelled);
		atomic_long_inc(&nr_cancelled);
	}
	/* pairs with flush_item(): who doesn't see it any more sees the above */
	atomic_dec_return_release(&item->nr_cancelling);
}

/* how often @item was cancelled or may have been, never too few */
static int nr_cancels(struct item *item)
{
	int nr = atomic_read_acquire(&item->nr_cancelling);

	/* afterwards, as what is being cancelled is cancelled later */
	return nr + atomic_read(&item->nr_cancelled);
}

/* what was counted: @nr_due before a call that waits for that often, @nr_cancels after it */
static void check_done(struct item *item, const char *what, int nr_due, int nr_cancels)
{
	int nr_done = nr_cancels + atomic_read(&item->nr_run);

	atomic_long_inc(&nr_waits);
	if (nr_done < nr_due)
		wqtorture_err(item->target, "item %td is %s, but %d of %d times it is not done",
			      item - item->target->items, what, nr_due - nr_done, nr_due);
}

/* @cancel: cancel_delayed_work_sync() or disable_delayed_work_sync() */
static void cancel_and_wait(struct item *item, bool (*cancel)(struct delayed_work *))
{
	int nr_due = atomic_read_acquire(&item->nr_due);

	cancelled(item, cancel(&cancelling(item)->dwork));
	check_done(item, "cancelled", nr_due, nr_cancels(item));
}

/*
 * One at a time: while a flush has taken the item off its timer and not yet queued it,
 * another one doesn't find it.
 */
static void flush_item(struct item *item)
{
	int nr_due;

	if (atomic_xchg(&item->flushing, 1))
		return;
	nr_due = atomic_read_acquire(&item->nr_due);
	flush_delayed_work(&item->dwork);
	check_done(item, "flushed", nr_due, nr_cancels(item));
	atomic_set_release(&item->flushing, 0);
}

/*
 * @item must not be disabled, not even by cancel_delayed_work_sync(): whether it was
 * queued isn't told then.
 */
static void modify_item(struct item *item, struct rnd_state *random, unsigned long delay)
{
	struct target *t = item->target;

	atomic_inc(&item->nr_queued);
	atomic_long_inc(&t->nr_queued);
	/* the timer of a CPU that is offline doesn't run */
	cancelled(item, mod_delayed_work_on(delay ? WORK_CPU_UNBOUND : random_issue_cpu(random),
					    t->wq, &cancelling(item)->dwork, delay));
	/* as in queue_item() */
	atomic_inc_return_release(&item->nr_due);
}

static void queue_in_order(struct item *item, struct rnd_state *random)
{
	struct target *t = item->target;

	spin_lock(&t->lock);
	if (queue_item(item, random_issue_cpu(random), 0))
		t->order[t->order_tail++ % (2 * t->nr_items)] = item;
	spin_unlock(&t->lock);
}

/* the latest entry is the one that was pending */
static void cancel_in_order(struct item *item)
{
	struct target *t = item->target;
	unsigned int i, nr = 2 * t->nr_items;
	bool pending;

	spin_lock(&t->lock);
	pending = cancel_delayed_work(&cancelling(item)->dwork);
	cancelled(item, pending);
	if (pending) {
		for (i = t->order_tail - 1; t->order[i % nr] != item && i != t->order_head; i--)
			;
		for (; i + 1 != t->order_tail; i++)
			t->order[i % nr] = t->order[(i + 1) % nr];
		t->order_tail--;
	}
	spin_unlock(&t->lock);
}

static bool may_leave(struct target *t)
{
	bool leave;

	spin_lock(&t->lock);
	leave = !t->held || t->nr_passes;
	if (t->held && t->nr_passes)
		t->nr_passes--;
	spin_unlock(&t->lock);
	return leave;
}

static void work_at_random(struct item *item)
{
	struct rnd_state *random = &item->random;

	switch (random_below(random, 8)) {
	case 0:
		udelay(random_below(random, 50) + 1);
		break;
	case 1:
	case 2:
		nap(random, 3);
		break;
	case 3:
		schedule();
		break;
	case 4:
		if (!torture_must_stop_irq())
			queue_item(item, random_issue_cpu(random), 0);
		break;
	}
}

static void item_fn(struct work_struct *work)
{
	struct item *item = container_of(to_delayed_work(work), struct item, dwork);
	struct target *t = item->target;
	struct rnd_state *random = &item->random;

	begin_item(item);
	switch (t->type->kind) {
	case STORM:
	case CHURN:
	case HALF:
		if (READ_ONCE(t->held)) {
			wait_event(t->gate, may_leave(t));
			break;
		}
		fallthrough;
	case BRIEF:
		work_at_random(item);
		if (t->type->kind == HALF && !READ_ONCE(t->resting) && !torture_must_stop_irq())
			queue_item(item, random_issue_cpu(random), 0);
		break;
	case ORDERED:
		if (!random_below(random, 4))
			nap(random, 2);
		break;
	case MEET:
		wait_event(t->gate, may_leave(t));
		break;
	case FAIR:
		nap(random, 5);
		if (!torture_must_stop_irq())
			queue_item(item, item->cpu, 0);
		break;
	}
	end_item(item);
}

/* --- Targets -------------------------------------------------------------- */

static void free_target(struct target *t)
{
	if (t) {
		kvfree(t->shares);
		kfree(t->order);
		kvfree(t);
	}
}

static struct target *create_target(int slot)
{
	const struct target_type *type = &types[slot];
	struct rnd_state *random = &director_random[slot];
	int limit = type->limit ?: random_below(random, max_active) + 1;
	int cpu = cpumask_first(cpu_online_mask), nr_cpus = num_online_cpus();
	unsigned int i, nr_items = 4 * max_active;
	struct target *t;

	if (type->kind == FAIR)
		nr_items = nr_cpus * (limit + 2);
	else if (type->kind == STORM)
		nr_items = FEW;
	t = kvzalloc(struct_size(t, items, nr_items), GFP_KERNEL);
	if (!t)
		return NULL;
	t->nr_items = nr_items;
	t->type = type;
	t->random = random;
	spin_lock_init(&t->lock);
	init_rwsem(&t->calm);
	init_waitqueue_head(&t->gate);
	t->max_active = limit;
	t->limit = limit;
	t->allowed = limit;
	for (i = 0; i < nr_items; i++) {
		t->items[i].target = t;
		prandom_seed_state(&t->items[i].random, prandom_u32_state(random));
		t->items[i].cpu = cpu;
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
		INIT_DELAYED_WORK(&t->items[i].dwork, item_fn);
	}
	if (type->kind == FAIR) {
		t->shares = kvzalloc(struct_size(t->shares, of, nr_cpu_ids), GFP_KERNEL);
		if (t->shares) {
			t->shares->nr_cpus = nr_cpus;
			t->shares->start = jiffies;
		}
	}
	t->order = kcalloc(2 * nr_items, sizeof(*t->order), GFP_KERNEL);
	if (t->order && (t->shares || type->kind != FAIR))
		t->wq = type->kind == ORDERED ?
			alloc_ordered_workqueue("%s", 0, type->name) :
			alloc_workqueue("%s", type->flags, limit, type->name);
	if (!t->wq) {
		free_target(t);
		return NULL;
	}
	return t;
}

static void open_gate(struct target *t)
{
	spin_lock(&t->lock);
	WRITE_ONCE(t->held, false);
	spin_unlock(&t->lock);
	wake_up_all(&t->gate);
}

static void close_gate(struct target *t)
{
	spin_lock(&t->lock);
	WRITE_ONCE(t->held, true);
	t->nr_passes = 0;
	spin_unlock(&t->lock);
}

/* Items queue themselves, so what has ended is read before what was queued. */
static bool is_idle(struct target *t)
{
	long nr = atomic_long_read(&t->nr_ended) + atomic_long_read(&t->nr_cancelled);

	smp_rmb();	/* pairs with end_item() */
	return atomic_long_read(&t->nr_queued) == nr;
}

/*
 * Time is counted in samples of the watchdog. Before the next one, a work item that has
 * nothing to do with max_active has run on each CPU. So time for which the machine or a
 * virtual CPU of it stood or was busy is not counted.
 */
static bool is_late(int first_sample, int times_stall_ms)
{
	return atomic_read(&nr_samples) - first_sample > times_stall_ms * SAMPLES;
}

/* false when that takes too long */
static bool await_idle(struct target *t)
{
	int first_sample = atomic_read(&nr_samples);

	while (!is_idle(t) && !is_late(first_sample, 10))
		schedule_timeout_uninterruptible(1);
	return is_idle(t);
}

/* nobody queues any more; what is queued is given time to run unless in a @hurry */
static void destroy_target(struct target *t, bool hurry)
{
	unsigned int i;

	open_gate(t);
	if (!hurry && !await_idle(t)) {
		wqtorture_err(t, "%ld items wait and %d run at the end, limit %d",
			      nr_waiting(t), atomic_read(&t->running), t->limit);
		/* so that there is an end */
		for (i = 0; i < t->nr_items; i++) {
			struct item *item = &t->items[i];

			cancelled(item, cancel_delayed_work_sync(&cancelling(item)->dwork));
		}
	}
	destroy_workqueue(t->wq);

	for (i = 0; i < t->nr_items; i++) {
		struct item *item = &t->items[i];
		int expected = atomic_read(&item->nr_queued) - atomic_read(&item->nr_cancelled);

		if (atomic_read(&item->nr_run) != expected)
			wqtorture_err(t, "item %u ran %d times, not %d", i,
				      atomic_read(&item->nr_run), expected);
	}
}

/* --- Those that disturb --------------------------------------------------- */

/* true when the target is full, false when that took too long, which is an error */
static bool await_full(struct target *t)
{
	int first_sample = atomic_read(&nr_samples);
	bool full;

	do {
		full = is_full(t);
		if (!full)
			schedule_timeout_uninterruptible(1);
	} while (!full && !is_late(first_sample, 3) && !torture_must_stop());
	return full;
}

static void change_meeting(struct target *t)
{
	switch (random_below(t->random, 4)) {
	case 0:
	case 1:
		set_limit(t, random_below(t->random, max_active) + 1);
		break;
	case 2: {
		struct item *item = &t->items[random_below(t->random, t->nr_items)];

		cancelled(item, cancel_delayed_work(&cancelling(item)->dwork));
		break;
	}
	case 3:
		spin_lock(&t->lock);
		t->nr_passes = random_below(t->random, atomic_read(&t->running) + 1);
		spin_unlock(&t->lock);
		wake_up_all(&t->gate);
		break;
	}
}

/*
 * Items that stay until the limit is reached or all of them are there. So they
 * depend on each other, and a single one that is not started is noticed.
 */
static void meet(struct target *t)
{
	int i, nr = random_below(t->random, t->nr_items) + 1;
	int cpu = random_issue_cpu(t->random);
	bool spread = random_below(t->random, 2);
	bool full = true;

	close_gate(t);
	for (i = 0; i < nr; i++)
		queue_item(&t->items[i], spread ? random_issue_cpu(t->random) : cpu, 0);
	for (i = random_below(t->random, 8); full && i; i--) {
		full = await_full(t);
		nap(t->random, 5);
		change_meeting(t);
	}
	if (full)
		await_full(t);
	open_gate(t);
	flush_workqueue(t->wq);
	if (!is_idle(t))
		wqtorture_err(t, "%ld items wait and %d run after a flush", nr_waiting(t),
			      atomic_read(&t->running));
	atomic_long_inc(&nr_meetings);
}

/*
 * With all slots free, as many items as the limit allows run and no others, wherever
 * the slots were when the last item ended. So none has been lost or made up before.
 */
static void fill(struct target *t)
{
	int limit = t->max_active;
	int i;

	down_write(&t->calm);
	if (!await_idle(t)) {
		wqtorture_err(t, "%ld items wait and %d run with none queued, limit %d",
			      nr_waiting(t), atomic_read(&t->running), limit);
		goto out;
	}
	close_gate(t);
	for (i = 0; i < t->nr_items && nr_waiting(t) < 2 * limit + nr_nodes; i++)
		queue_item(&t->items[i], random_issue_cpu(t->random), 0);
	if (!await_full(t) && !torture_must_stop())
		wqtorture_err(t, "%d run and %ld wait on an idle workqueue, %d for themselves, limit %d",
			      atomic_read(&t->running), nr_waiting(t),
			      nr_waiting_for_themselves(t), limit);
	nap(t->random, 5);	/* so that one too many would start */
	open_gate(t);
	await_idle(t);
	atomic_long_inc(&nr_filled);
out:
	up_write(&t->calm);
}

/* @t is idle */
static void queue_half(struct target *t)
{
	int i;

	WRITE_ONCE(t->resting, false);
	for (i = 0; i < max_active / 2; i++)
		queue_item(&t->items[i], random_issue_cpu(t->random), 0);
}

static void keep_half(struct target *t)
{
	set_limit(t, max_active / 2 + random_below(t->random, max_active / 2 + 1));
	doze(t, 50);
	if (random_below(t->random, 32))
		return;
	WRITE_ONCE(t->resting, true);
	fill(t);
	if (!torture_must_stop())
		queue_half(t);
}

static void live_briefly(int slot)
{
	struct rnd_state *random = &director_random[slot];
	struct target *t = create_target(slot);
	unsigned int i;

	if (!t) {
		nap(random, 100);
		return;
	}
	mutex_lock(&targets_mutex);
	targets[slot] = t;
	mutex_unlock(&targets_mutex);

	for (i = 0; i < t->nr_items; i++)
		queue_item(&t->items[i], random_issue_cpu(random), 0);
	if (random_below(random, 2))
		set_limit(t, random_below(random, max_active) + 1);
	destroy_target(t, random_below(random, 2));

	mutex_lock(&targets_mutex);
	targets[slot] = NULL;
	mutex_unlock(&targets_mutex);
	free_target(t);
	atomic_long_inc(&nr_created);
}

static int wqtorture_director(void *arg)
{
	const struct target_type *type = arg;
	int slot = type - types;
	struct target *t = targets[slot];

	if (type->flags & WQ_FREEZABLE)
		set_freezable();
	do {
		switch (type->kind) {
		case STORM:
		case CHURN:
			if (!type->limit)
				set_limit(t, random_below(t->random, max_active) + 1);
			doze(t, type->limit ? 500 : 50);
			if (!(type->flags & WQ_FREEZABLE) &&
			    (type->limit || !random_below(t->random, 32)))
				fill(t);
			break;
		case HALF:
			keep_half(t);
			break;
		case MEET:
			meet(t);
			break;
		case BRIEF:
			live_briefly(slot);
			nap(&director_random[slot], 20);
			break;
		default:
			break;
		}
	} while (!torture_must_stop());
	torture_kthread_stopping("wqtorture_director");
	return 0;
}

static void issue(struct item *item, struct rnd_state *random)
{
	bool storm = item->target->type->kind == STORM;
	unsigned int what = random_below(random, storm ? 12 : 32);

	/* items are disabled by 1 to 3, or modified, see there */
	if (item->target->type->limit && !storm && what >= 1 && what <= 3) {
		modify_item(item, random, random_below(random, 3));
		return;
	}
	switch (what) {
	case 0:
		cancelled(item, cancel_delayed_work(&cancelling(item)->dwork));
		break;
	case 1:
		cancel_and_wait(item, cancel_delayed_work_sync);
		break;
	case 2:
		cancelled(item, disable_delayed_work(&cancelling(item)->dwork));
		enable_delayed_work(&item->dwork);
		break;
	case 3:
		cancel_and_wait(item, disable_delayed_work_sync);
		if (atomic_read(&item->nr_inside))
			wqtorture_err(item->target, "item %td runs, but is disabled",
				      item - item->target->items);
		enable_delayed_work(&item->dwork);
		break;
	case 4:
		flush_item(item);
		break;
	case 5:
		if (!random_below(random, 16))
			flush_workqueue(item->target->wq);
		break;
	case 6:
	case 7:
		queue_item(item, WORK_CPU_UNBOUND, random_below(random, 3));
		break;
	default:
		queue_item(item, random_issue_cpu(random), 0);
		break;
	}
}

static void issue_in_order(struct item *item, struct rnd_state *random)
{
	switch (random_below(random, 32)) {
	case 0:
	case 1:
		cancel_in_order(item);
		break;
	case 2:
		flush_item(item);
		break;
	default:
		queue_in_order(item, random);
		break;
	}
}

static int wqtorture_issuer(void *arg)
{
	int node = nodes[(long)arg % nr_nodes];
	struct rnd_state random;
	struct target *t;
	int i, slot;

	seed_random(&random, ARRAY_SIZE(types) + (long)arg);
	do {
		do {
			slot = random_below(&random, ARRAY_SIZE(types));
		} while (types[slot].kind > ORDERED);
		if (random_below(&random, 2))
			slot = 0;	/* STORM */

		/*
		 * Fails when all are offline, and is undone when they go. If one goes
		 * meanwhile, the scheduler may leave the thread elsewhere, and RT warns.
		 */
		cpus_read_lock();
		set_cpus_allowed_ptr(current, cpumask_of_node(node));
		cpus_read_unlock();
		t = targets[slot];
		down_read(&t->calm);
		for (i = random_below(&random, 2 * max_active); i; i--) {
			struct item *item = &t->items[random_below(&random, t->nr_items)];

			if (types[slot].kind == ORDERED)
				issue_in_order(item, &random);
			else
				issue(item, &random);
		}
		up_read(&t->calm);
		nap(&random, 5);
		stutter_wait("wqtorture_issuer");
	} while (!torture_must_stop());
	torture_kthread_stopping("wqtorture_issuer");
	return 0;
}

/* --- The watchdog and the log --------------------------------------------- */

/*
 * No item waits for ever while others are executed, wherever it was queued. How long it
 * may depends on how many wait, so all could have been executed FAIR_ROUNDS times. And
 * no flush of an item that is done goes on.
 */
static void watch_items(struct target *t)
{
	unsigned long nr_started = atomic_long_read(&t->nr_started);
	unsigned int i;

	for (i = 0; i < t->nr_items; i++) {
		struct item *item = &t->items[i];
		unsigned int nr_done;

		nr_done = atomic_read(&item->nr_run) + atomic_read(&item->nr_cancelled);
		if (nr_done == atomic_read(&item->nr_queued) || nr_done != item->seen_done ||
		    !READ_ONCE(t->limit)) {
			item->nr_stalled = 0;
			item->seen_started = nr_started;
		} else if (++item->nr_stalled >= 4 * SAMPLES &&
			   nr_started - item->seen_started >= FAIR_ROUNDS * t->nr_items) {
			wqtorture_err(t, "item %u isn't done for %u ms, %lu others are", i,
				      item->nr_stalled * stall_ms / SAMPLES,
				      nr_started - item->seen_started);
			item->nr_stalled = 0;
			item->seen_started = nr_started;
		}
		item->seen_done = nr_done;

		if (nr_done != atomic_read(&item->nr_queued) || !atomic_read(&item->flushing))
			item->nr_flushing = 0;
		else if (++item->nr_flushing == 4 * SAMPLES)
			wqtorture_err(t, "item %u is done for %d ms, but is still flushed", i,
				      4 * stall_ms);
	}
}

static void watch(struct target *t)
{
	unsigned long nr_events;

	/* starts and ends of items, and of changes */
	nr_events = 2 * atomic_long_read(&t->nr_started) - atomic_read(&t->running) +
		READ_ONCE(t->nr_changes);
	if (is_full(t) || t->seen_events != nr_events)
		t->nr_stalled = 0;
	else if (++t->nr_stalled == SAMPLES)
		wqtorture_err(t, "%ld items wait for %d ms, %d for themselves, while %d run, limit %d",
			      nr_waiting(t), stall_ms, nr_waiting_for_themselves(t),
			      atomic_read(&t->running), READ_ONCE(t->limit));
	t->seen_events = nr_events;
	watch_items(t);
}

static void nop_fn(struct work_struct *unused)
{
}

static DEFINE_PER_CPU(struct work_struct, nop_work);

static void run_on_each_cpu(void)
{
	int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		INIT_WORK(per_cpu_ptr(&nop_work, cpu), nop_fn);
		queue_work_on(cpu, system_percpu_wq, per_cpu_ptr(&nop_work, cpu));
	}
	for_each_online_cpu(cpu)
		flush_work(per_cpu_ptr(&nop_work, cpu));
	cpus_read_unlock();
}

static int wqtorture_watchdog(void *unused)
{
	int i;

	do {
		schedule_timeout_interruptible(msecs_to_jiffies(stall_ms / SAMPLES));
		run_on_each_cpu();
		atomic_inc(&nr_samples);
		mutex_lock(&targets_mutex);
		for (i = 0; i < ARRAY_SIZE(targets); i++)
			if (targets[i])
				watch(targets[i]);
		mutex_unlock(&targets_mutex);
	} while (!kthread_should_stop());
	return 0;
}

static void print_stats(void)
{
	pr_alert("%s: nodes=%d items=%ld cancelled=%ld waits=%ld limits=%ld meetings=%ld filled=%ld created=%ld frozen=%ld shares=%ld errors=%d\n",
		 torture_type, nr_nodes, atomic_long_read(&nr_run),
		 atomic_long_read(&nr_cancelled), atomic_long_read(&nr_waits),
		 atomic_long_read(&nr_limits), atomic_long_read(&nr_meetings),
		 atomic_long_read(&nr_filled), atomic_long_read(&nr_created),
		 atomic_long_read(&nr_frozen), atomic_long_read(&nr_shares),
		 atomic_read(&nr_errors));
}

static int wqtorture_stats(void *unused)
{
	do {
		schedule_timeout_interruptible(stat_interval * HZ);
		print_stats();
		torture_shutdown_absorb("wqtorture_stats");
	} while (!torture_must_stop());
	torture_kthread_stopping("wqtorture_stats");
	return 0;
}

static void print_parameters(const char *tag)
{
	pr_alert("%s:--- %s: fair=%d max_active=%d nissuers=%d onoff_holdoff=%d onoff_interval=%d seed=%u shutdown_secs=%d stall_ms=%d stat_interval=%d stutter=%d verbose=%d\n",
		 torture_type, tag, fair, max_active, nissuers, onoff_holdoff, onoff_interval,
		 seed, shutdown_secs, stall_ms, stat_interval, stutter, verbose);
}

/* --- Start and end -------------------------------------------------------- */

static void wqtorture_cleanup(void)
{
	int i;

	if (torture_cleanup_begin())
		return;

	for (i = 0; issuers && i < nissuers; i++)
		torture_stop_kthread(wqtorture_issuer, issuers[i]);
	kfree(issuers);
	issuers = NULL;
	for (i = 0; i < ARRAY_SIZE(directors); i++)
		torture_stop_kthread(wqtorture_director, directors[i]);
	for (i = 0; i < ARRAY_SIZE(targets); i++)
		if (targets[i])
			destroy_target(targets[i], false);
	torture_stop_kthread(wqtorture_watchdog, watchdog_task);
	torture_stop_kthread(wqtorture_stats, stats_task);
	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		free_target(targets[i]);
		targets[i] = NULL;
	}
	if (freezable_director)
		put_task_struct(freezable_director);

	print_stats();
	if (atomic_read(&nr_errors))
		print_parameters("End of test: FAILURE");
	else if (torture_onoff_failures())
		print_parameters("End of test: HOTPLUG");
	else
		print_parameters("End of test: SUCCESS");
	torture_cleanup_end();
}

static int __init check_parameters(void)
{
	if (max_active >= 2 && max_active <= 256 && stall_ms >= 100 && stall_ms <= 60000 &&
	    nissuers >= -1 && nissuers <= 4096)
		return 0;
	pr_alert("%s: max_active=%d is not in 2 to 256, stall_ms=%d not in 100 to 60000, or nissuers=%d not in -1 to 4096\n",
		 torture_type, max_active, stall_ms, nissuers);
	return -EINVAL;
}

static int __init start_tasks(void)
{
	int i, j, ret;

	ret = torture_create_kthread(wqtorture_watchdog, NULL, watchdog_task);
	if (ret)
		return ret;
	/* before there is a director, for whom nobody else queues */
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].kind == HALF)
			queue_half(targets[i]);
		for (j = 0; types[i].kind == FAIR && j < targets[i]->nr_items; j++)
			queue_item(&targets[i]->items[j], targets[i]->items[j].cpu, 0);
	}
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].kind == ORDERED || types[i].kind == FAIR)
			continue;
		ret = torture_create_kthread(wqtorture_director, (void *)&types[i], directors[i]);
		if (ret)
			return ret;
		if (types[i].flags & WQ_FREEZABLE)
			freezable_director = get_task_struct(directors[i]);
	}
	for (i = 0; i < nissuers; i++) {
		ret = torture_create_kthread(wqtorture_issuer, (void *)(long)i, issuers[i]);
		if (ret)
			return ret;
	}
	if (stat_interval > 0)
		ret = torture_create_kthread(wqtorture_stats, NULL, stats_task);
	if (!ret && onoff_interval > 0)
		ret = torture_onoff_init(onoff_holdoff * HZ, onoff_interval, NULL);
	if (!ret && shutdown_secs > 0)
		ret = torture_shutdown_init(shutdown_secs, wqtorture_cleanup);
	if (!ret && stutter > 0)
		ret = torture_stutter_init(stutter, stutter);
	return ret;
}

static int __init wqtorture_init(void)
{
	int i, node, ret = check_parameters();

	if (ret)
		return ret;
	if (!torture_init_begin(torture_type, verbose))
		return -EBUSY;

	for_each_node_state(node, N_CPU)
		nodes[nr_nodes++] = node;
	if (nissuers < 0)
		nissuers = 2 * nr_nodes;
	seed = seed ?: get_random_u32() ?: 1;
	for (i = 0; i < ARRAY_SIZE(types); i++)
		seed_random(&director_random[i], i);
	print_parameters("Start of test");

	ret = -ENOMEM;
	issuers = kcalloc(nissuers, sizeof(*issuers), GFP_KERNEL);
	if (!issuers)
		goto unwind;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].kind == BRIEF)
			continue;
		targets[i] = create_target(i);
		if (!targets[i])
			goto unwind;
	}
	ret = start_tasks();
	if (torture_init_error(ret))
		goto unwind;
	torture_init_end();
	return 0;

unwind:
	atomic_inc(&nr_errors);
	torture_init_end();
	wqtorture_cleanup();
	return ret;
}

module_init(wqtorture_init);
module_exit(wqtorture_cleanup);
