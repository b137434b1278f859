// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for workqueue, included by workqueue.c. The comment before each case says what
 * is wrong if it fails.
 */
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/ctype.h>
#include <linux/debug_locks.h>
#include <linux/ktime.h>
#include <linux/prandom.h>

#define RANDOM_SEED	20231109

/* how long an item waits at most, which is longer than any case waits for an item */
#define ITEM_LIMIT	(60 * HZ)

/* when to give up on what should happen at once, sooner if something failed before */
static unsigned long patience(struct kunit *test)
{
	return test->status == KUNIT_SUCCESS ? 10 * HZ : HZ / 20;
}

#define EXPECT_SOON(test, cond)							\
do {										\
	struct kunit *__test = (test);						\
	unsigned long __end = jiffies + patience(__test);			\
	bool __done;								\
										\
	while (!(__done = (cond)) && time_before(jiffies, __end))		\
		usleep_range(1000, 2000);					\
	KUNIT_EXPECT_TRUE_MSG(__test, __done, "%s", #cond);			\
} while (0)

/*
 * Spin, also with interrupts off, until another CPU has made @cond true. Hold cpus_write_lock()
 * then: stop_machine() would keep the other CPU waiting for this one.
 */
#define SPIN_UNTIL(cond)							\
do {										\
	int __us = 0;								\
										\
	while (!(cond) && __us++ < 5000000)					\
		udelay(1);							\
} while (0)

static void destroy_wq(void *wq)
{
	destroy_workqueue(wq);
}

/* a workqueue for as long as the case takes */
static struct workqueue_struct *new_wq(struct kunit *test, unsigned int flags, int max_active)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", flags, max_active);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_wq, wq), 0);
	return wq;
}

#define WQ_KUNIT_ORDERED	(WQ_UNBOUND | __WQ_ORDERED)
/* hardly anyone else uses these pools; items of others would kick them and start ours */
#define WQ_KUNIT_PERCPU		(WQ_HIGHPRI | WQ_PERCPU)

static void set_attrs(struct kunit *test, struct workqueue_struct *wq,
		      enum wq_affn_scope scope, bool strict, int nice)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	attrs->affn_scope = scope;
	attrs->affn_strict = strict;
	attrs->nice = nice;
	attrs->ordered = wq->flags & __WQ_ORDERED;
	KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	free_workqueue_attrs(attrs);
}

/* from now on, items of @wq go to one pool for all CPUs, which few others use */
static void set_nice(struct kunit *test, struct workqueue_struct *wq, int nice)
{
	set_attrs(test, wq, WQ_AFFN_SYSTEM, false, nice);
}

/* what a work item does, and what it waits for */
struct item {
	struct work_struct	work;
	struct completion	started;
	struct completion	release;
	struct completion	*until;	/* what it waits for, made before it, or ITEM_LIMIT */
	bool			spin;	/* wait on the CPU */
	int			nr_started;
	int			nr_ended;
};

static void item_fn(struct work_struct *work)
{
	struct item *item = container_of(work, struct item, work);
	unsigned long end = jiffies + ITEM_LIMIT;
	int nice = task_nice(current);

	WRITE_ONCE(item->nr_started, item->nr_started + 1);
	complete_all(&item->started);
	if (item->until && item->spin) {
		set_user_nice(current, MAX_NICE);	/* all else on this CPU has to get on */
		while (!completion_done(item->until) && time_before(jiffies, end))
			cond_resched();
		set_user_nice(current, nice);
	} else if (item->until) {
		wait_for_completion_timeout(item->until, ITEM_LIMIT);
	}
	WRITE_ONCE(item->nr_ended, item->nr_ended + 1);
}

/* let it end and wait for that, or take it back if it was never started */
static void end_item(void *arg)
{
	struct item *item = arg;

	complete_all(&item->release);
	if (item->until)
		complete_all(item->until);
	cancel_work_sync(&item->work);
}

/* an item that ends at once */
static struct item *new_item(struct kunit *test)
{
	struct item *item = kunit_kzalloc(test, sizeof(*item), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, item);
	INIT_WORK(&item->work, item_fn);
	init_completion(&item->started);
	init_completion(&item->release);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_item, item), 0);
	return item;
}

/* an item that doesn't end before its release */
static struct item *new_waiting_item(struct kunit *test)
{
	struct item *item = new_item(test);

	item->until = &item->release;
	return item;
}

static void expect_starts(struct kunit *test, struct item *item)
{
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&item->started, patience(test)));
}

static void expect_not_started(struct kunit *test, struct item *item)
{
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&item->started, HZ / 20));
}

/* @item is inactive; as long as it is, other items of its workqueue and node have to wait too */
static void expect_waits(struct kunit *test, struct item *item)
{
	EXPECT_SOON(test, READ_ONCE(*work_data_bits(&item->work)) & WORK_STRUCT_INACTIVE);
	KUNIT_EXPECT_FALSE(test, completion_done(&item->started));
}

static void queue_and_start(struct kunit *test, struct workqueue_struct *wq, struct item *item)
{
	queue_work(wq, &item->work);
	expect_starts(test, item);
}

static struct pool_workqueue *pwq_here(struct workqueue_struct *wq)
{
	guard(rcu)();
	return unbound_pwq(wq, raw_smp_processor_id());
}

/* does any unbound pool have @nice, other than those that nobody uses any more? */
static bool nice_has_pool(int nice)
{
	struct worker_pool *pool;
	int bkt;

	kthread_flush_worker(pwq_release_worker);
	guard(mutex)(&wq_pool_mutex);
	hash_for_each(unbound_pool_hash, bkt, pool, hash_node) {
		if (pool->attrs->nice == nice)
			return true;
	}
	return false;
}

/* manage the pool, as one of its workers would, but don't create any */
static void start_managing(struct worker_pool *pool)
{
	guard(raw_spinlock_irq)(&pool->lock);
	pool->flags |= POOL_MANAGER_ACTIVE;
}

static void stop_managing(void *arg)
{
	struct worker_pool *pool = arg;

	guard(raw_spinlock_irq)(&pool->lock);
	pool->flags &= ~(POOL_MANAGER_ACTIVE | POOL_MAYDAY);
}

/* a pool whose only worker executes @busy, an item of @wq, and that creates no other one */
static struct worker_pool *take_only_worker(struct kunit *test, struct workqueue_struct *wq,
					    struct item *busy)
{
	struct worker_pool *pool;

	EXPECT_SOON(test, !nice_has_pool(-15));	/* those of other cases may have a manager */
	set_nice(test, wq, -15);	/* a pool that nobody else uses, with one worker */
	pool = pwq_here(wq)->pool;
	start_managing(pool);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, stop_managing, pool), 0);
	queue_and_start(test, wq, busy);
	return pool;
}

/* the manager of @pool has failed to create a worker for so long that it asks for help */
static void fail_to_create(struct worker_pool *pool)
{
	pool_mayday_timeout(&pool->mayday_timer);
	timer_delete_sync(&pool->mayday_timer);
}

struct flush {
	struct work_struct	work;
	struct item		*target;
	struct completion	done;
};

static void flush_fn(struct work_struct *work)
{
	struct flush *flush = container_of(work, struct flush, work);

	flush_work(&flush->target->work);
	complete_all(&flush->done);
}

static void end_flush(void *arg)
{
	struct flush *flush = arg;

	complete_all(&flush->target->release);
	flush_work(&flush->work);
}

static struct flush *start_flush(struct kunit *test, struct item *target)
{
	struct flush *flush = kunit_kzalloc(test, sizeof(*flush), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, flush);
	INIT_WORK(&flush->work, flush_fn);
	init_completion(&flush->done);
	flush->target = target;
	queue_work(system_dfl_wq, &flush->work);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_flush, flush), 0);
	return flush;
}

/* wait until a barrier is linked to the pending @target */
static void await_barrier(struct kunit *test, struct item *target)
{
	EXPECT_SOON(test, READ_ONCE(*work_data_bits(&target->work)) & WORK_STRUCT_LINKED);
}

static void expect_flushed(struct kunit *test, struct flush *flush)
{
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush->done, patience(test)));
}

static void expect_not_flushed(struct kunit *test, struct flush *flush)
{
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flush->done, HZ / 20));
}

/* a thread on another CPU that calls @fn when it's told to */
struct helper {
	void			(*fn)(void *arg);
	void			*arg;
	bool			told;
	struct completion	done;
};

static int helper_fn(void *arg)
{
	struct helper *helper = arg;

	while (!READ_ONCE(helper->told))
		cond_resched();
	helper->fn(helper->arg);
	complete_all(&helper->done);
	return 0;
}

static void end_helper(void *arg)
{
	struct helper *helper = arg;

	WRITE_ONCE(helper->told, true);
	wait_for_completion(&helper->done);
}

/* the @nr-th other CPU; the case has the first one to itself */
static struct helper *new_helper(struct kunit *test, int nr, void (*fn)(void *arg), void *arg)
{
	struct helper *helper = kunit_kzalloc(test, sizeof(*helper), GFP_KERNEL);
	int cpu;

	KUNIT_ASSERT_NOT_NULL(test, helper);
	if (num_online_cpus() <= nr)
		kunit_skip(test, "needs %d CPUs", nr + 1);
	cpu = cpumask_nth(nr, cpu_online_mask);
	helper->fn = fn;
	helper->arg = arg;
	init_completion(&helper->done);
	set_cpus_allowed_ptr(current, cpumask_of(cpumask_first(cpu_online_mask)));
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(helper_fn, helper, cpu, "kunit/%u")));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_helper, helper), 0);
	return helper;
}

/*
 * What starts a work item, and what ends a flush. Most cases have an item that only the wakeup
 * under test can start: any other item whose end would start it too is made to wait for it.
 */

/* fails if items that wait for each other hang, as a worker doesn't wake up the next one */
static void chained_items_start(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 4);
	int round, i;

	set_nice(test, wq, -9);
	/* the first round creates workers, in the second one they are idle */
	for (round = 0; round < 2; round++) {
		struct item *items[4];

		for (i = 0; i < ARRAY_SIZE(items); i++)
			items[i] = new_waiting_item(test);
		preempt_disable();
		for (i = 0; i < ARRAY_SIZE(items); i++)
			queue_work(wq, &items[i]->work);
		preempt_enable();
		for (i = 0; i < ARRAY_SIZE(items); i++)
			expect_starts(test, items[i]);
		for (i = 0; i < ARRAY_SIZE(items); i++)
			end_item(items[i]);
	}
}

/* fails if BH items wait that were left for later, or can't be cancelled where nobody may sleep */
static void bh_items_start(struct kunit *test)
{
	struct item *items[2 * BH_WORKER_RESTARTS];
	int i;

	for (i = 0; i < ARRAY_SIZE(items); i++) {
		items[i] = new_item(test);
		/* for lockdep, as no other item is executed in softirqs */
		INIT_WORK(&items[i]->work, item_fn);
	}
	local_bh_disable();
	for (i = 0; i < ARRAY_SIZE(items); i++)
		queue_work(system_bh_wq, &items[i]->work);
	local_bh_enable();
	for (i = 0; i < ARRAY_SIZE(items); i++)
		expect_starts(test, items[i]);
	local_bh_disable();
	cancel_work_sync(&items[0]->work);
	local_bh_enable();
}

/* queue two items on one CPU's pool */
static void queue_pair(struct workqueue_struct *wq, struct item *first, struct item *second)
{
	guard(preempt)();
	queue_work_on(smp_processor_id(), wq, &first->work);
	queue_work_on(smp_processor_id(), wq, &second->work);
}

static u64 sum_stat(struct workqueue_struct *wq, enum pool_workqueue_stats stat)
{
	u64 sum = 0;
	int cpu;

	guard(rcu)();
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, cpu))->stats[stat]);
	return sum;
}

/* two items on one CPU, the first of which waits for the second, and what is on record then */
static void start_pair(struct kunit *test, bool spin)
{
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_PERCPU, 0);
	u64 wakeups = 0, hogs = 0;
	int round;

	/* stay on one CPU, whose worker starts the second one anyway if it is new or still busy */
	set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
	for (round = 0; round < 20 && wakeups != 1; round++) {
		struct item *second = new_item(test), *first = new_item(test);
		u64 before = sum_stat(wq, PWQ_STAT_CM_WAKEUP);

		hogs = sum_stat(wq, PWQ_STAT_CPU_INTENSIVE);
		first->until = &second->started;
		first->spin = spin;
		queue_pair(wq, first, second);
		expect_starts(test, second);
		end_item(first);
		end_item(second);
		wakeups = sum_stat(wq, PWQ_STAT_CM_WAKEUP) - before;
	}
	KUNIT_EXPECT_EQ(test, wakeups, 1);
	if (spin) {
		KUNIT_EXPECT_GT(test, sum_stat(wq, PWQ_STAT_CPU_INTENSIVE), hogs);
		KUNIT_EXPECT_GT(test, sum_stat(wq, PWQ_STAT_CPU_TIME), 0);
	}
}

/* fails if an item isn't started when another one of its CPU sleeps */
static void item_starts_when_another_sleeps(struct kunit *test)
{
	start_pair(test, false);
}

/* fails if an item isn't started when another one keeps its CPU busy */
static void item_starts_when_another_hogs_cpu(struct kunit *test)
{
	wq_cpu_intensive_thresh_us = 1000;
	start_pair(test, true);
}

struct sleeper {
	struct work_struct	work;
	bool			irqs_off;
};

/* as if a tick came when the scheduler has told that the worker sleeps, but it doesn't yet */
static void go_to_sleep(struct work_struct *work)
{
	struct sleeper *sleeper = container_of(work, struct sleeper, work);

	wq_worker_sleeping(current);
	sleeper->irqs_off = irqs_disabled();
	wq_cpu_intensive_thresh_us = 1000;
	mdelay(jiffies_to_msecs(3));
	wq_cpu_intensive_thresh_us = jiffies_to_usecs(ITEM_LIMIT);
	wq_worker_running(current);
}

/* fails if an item is taken for a hog that doesn't keep others from being started */
static void others_are_no_hogs(struct kunit *test)
{
	struct sleeper *sleeper = kunit_kzalloc(test, sizeof(*sleeper), GFP_KERNEL);
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_waiting_item(test);

	KUNIT_ASSERT_NOT_NULL(test, sleeper);
	wq_cpu_intensive_thresh_us = 1000;
	item->spin = true;
	queue_and_start(test, wq, item);
	schedule_timeout_uninterruptible(HZ / 20);
	end_item(item);
	KUNIT_EXPECT_EQ(test, sum_stat(wq, PWQ_STAT_CPU_INTENSIVE), 0);

	wq_cpu_intensive_thresh_us = jiffies_to_usecs(ITEM_LIMIT);
	wq = new_wq(test, WQ_KUNIT_PERCPU, 0);
	INIT_WORK(&sleeper->work, go_to_sleep);
	queue_work(wq, &sleeper->work);
	flush_work(&sleeper->work);
	KUNIT_EXPECT_EQ(test, sum_stat(wq, PWQ_STAT_CPU_INTENSIVE), 0);
	KUNIT_EXPECT_FALSE(test, sleeper->irqs_off);
}

/* fails if an item isn't started when one of another pool, which it waits for, ends */
static void item_of_another_pool_starts(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);

	set_nice(test, wq, -4);
	queue_and_start(test, wq, first);
	set_nice(test, wq, -3);
	queue_work(wq, &second->work);
	expect_not_started(test, second);
	complete_all(&first->release);
	expect_starts(test, second);
}

/* fails if an ordered workqueue whose attributes change hangs, or runs two items at once */
static void item_starts_when_unplugged(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_ORDERED, 1);
	struct item *items[5];
	int i, j;

	for (i = 0; i < ARRAY_SIZE(items); i++) {
		if (i == 3)
			set_nice(test, wq, -5);
		items[i] = new_waiting_item(test);
		queue_work(wq, &items[i]->work);
	}
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		expect_starts(test, items[i]);
		schedule_timeout_uninterruptible(HZ / 20);
		for (j = i + 1; j < ARRAY_SIZE(items); j++)
			KUNIT_EXPECT_FALSE(test, completion_done(&items[j]->started));
		complete_all(&items[i]->release);
	}
}

struct wq_kind {
	const char	*name;
	unsigned int	flags;
	bool		kick;
};

static const struct wq_kind limited_kinds[] = {
	{ "per-cpu", WQ_PERCPU },
	{ "unbound", WQ_UNBOUND },
};

KUNIT_ARRAY_PARAM_DESC(limited_kind, limited_kinds, name);

/* fails if raising max_active doesn't start items that wait */
static void item_starts_when_limit_is_raised(struct kunit *test)
{
	const struct wq_kind *kind = test->param_value;
	struct workqueue_struct *wq = new_wq(test, kind->flags, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);

	if (kind->flags & WQ_UNBOUND)
		set_nice(test, wq, -7);	/* a pool that nobody else uses */
	queue_pair(wq, first, second);
	expect_starts(test, first);
	expect_not_started(test, second);
	workqueue_set_max_active(wq, 2);
	expect_starts(test, second);
}

static void set_frozen(struct workqueue_struct *wq, bool frozen)
{
	mutex_lock(&wq_pool_mutex);
	mutex_lock(&wq->mutex);
	workqueue_freezing = frozen;
	wq_adjust_max_active(wq);
	workqueue_freezing = false;
	mutex_unlock(&wq->mutex);
	mutex_unlock(&wq_pool_mutex);
}

/* fails if a workqueue starts items while it is frozen, or doesn't after it was thawed */
static void frozen_items_start(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND | WQ_FREEZABLE, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	struct item *third = new_item(test);

	queue_and_start(test, wq, first);
	queue_work(wq, &second->work);
	expect_waits(test, second);
	set_frozen(wq, true);
	end_item(first);
	queue_work(wq, &third->work);
	expect_not_started(test, second);
	expect_waits(test, third);
	set_frozen(wq, false);
	expect_starts(test, second);
	expect_starts(test, third);

	/* one for which no other has to wait */
	set_frozen(wq, true);
	reinit_completion(&third->started);
	queue_work(wq, &third->work);
	expect_waits(test, third);
	set_frozen(wq, false);
	expect_starts(test, third);
}

/* fails if an item that is queued for another pool while it executes runs twice at once */
static void executing_item_stays(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_waiting_item(test);

	queue_and_start(test, wq, item);
	set_nice(test, wq, -12);
	reinit_completion(&item->started);
	queue_work(wq, &item->work);
	expect_not_started(test, item);
	complete_all(&item->release);
	expect_starts(test, item);
}

/* fails if a per-cpu workqueue doesn't count an item that was queued again while it executes */
static void deferred_item_counts_on_cpu(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_PERCPU, 2);
	struct worker_pool *pool = per_cpu_ptr(cpu_worker_pools, 0);
	struct item *first = new_waiting_item(test), *second = new_item(test);

	queue_work_on(0, wq, &first->work);
	expect_starts(test, first);
	queue_work_on(0, wq, &first->work);
	EXPECT_SOON(test, list_empty_careful(&pool->worklist));
	queue_work_on(0, wq, &second->work);
	expect_waits(test, second);
	complete_all(&first->release);
	expect_starts(test, second);
}

struct chain {
	struct work_struct	work;
	struct workqueue_struct	*wq;
	int			nr_left;	/* how many times it is still to be executed */
};

static void chain_fn(struct work_struct *work)
{
	struct chain *chain = container_of(work, struct chain, work);

	usleep_range(1000, 2000);
	if (--chain->nr_left)
		queue_work(chain->wq, work);
}

/* fails if drain_workqueue() returns while an item of the workqueue is queued again */
static void draining_waits_for_chained_items(struct kunit *test)
{
	struct chain chain = { .wq = new_wq(test, WQ_UNBOUND, 1), .nr_left = 5 };

	INIT_WORK_ONSTACK(&chain.work, chain_fn);
	queue_work(chain.wq, &chain.work);
	drain_workqueue(chain.wq);
	KUNIT_EXPECT_EQ(test, READ_ONCE(chain.nr_left), 0);
	cancel_work_sync(&chain.work);
	destroy_work_on_stack(&chain.work);
}

/*
 * Fails if destroy_workqueue() warns of an item in flight, or draining ends early, when an item
 * ends while another one waits for its place in max_active, in a pool whose lock is taken.
 */
static void ending_item_keeps_pwq_busy(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	int here = cpumask_first(cpu_online_mask), there;
	struct pool_workqueue *pwq;
	struct worker_pool *pool;
	bool waits, empty;

	there = cpumask_next_and(here, cpu_online_mask, cpumask_of_node(cpu_to_node(here)));
	if (there >= nr_cpu_ids)
		kunit_skip(test, "needs two CPUs of a node");
	set_attrs(test, wq, WQ_AFFN_CPU, true, 0);
	set_cpus_allowed_ptr(current, cpumask_of(here));
	first->spin = true;
	queue_work_on(there, wq, &first->work);
	expect_starts(test, first);
	queue_work_on(here, wq, &second->work);
	expect_waits(test, second);

	cpus_write_lock();
	rcu_read_lock();
	pwq = unbound_pwq(wq, there);
	pool = unbound_pwq(wq, here)->pool;
	raw_spin_lock_irq(&pool->lock);
	complete_all(&first->release);
	SPIN_UNTIL(raw_spin_is_contended(&pool->lock));
	waits = raw_spin_is_contended(&pool->lock);
	empty = pwq_is_empty(pwq);
	raw_spin_unlock_irq(&pool->lock);
	rcu_read_unlock();
	cpus_write_unlock();

	KUNIT_EXPECT_TRUE(test, waits);
	KUNIT_EXPECT_FALSE(test, empty);
	expect_starts(test, second);
}

/* fails if flush_work() hangs when an item that waits for one of another pool is cancelled */
static void flush_of_cancelled_item_ends(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	struct flush *flush;

	set_nice(test, wq, -4);
	queue_and_start(test, wq, first);
	set_nice(test, wq, -3);
	queue_work(wq, &second->work);
	flush = start_flush(test, second);
	await_barrier(test, second);
	KUNIT_EXPECT_TRUE(test, cancel_work(&second->work));
	/* and doesn't wait for the other item */
	expect_flushed(test, flush);

	/* whatever is queued on that pool ends a flush that hangs */
	complete_all(&first->release);
	queue_work(wq, &second->work);
	end_flush(flush);
}

static const struct wq_kind flushed_kinds[] = {
	{ "alone",		WQ_UNBOUND },
	{ "unbound, kicked",	WQ_UNBOUND,		true },
	{ "per-cpu, kicked",	WQ_KUNIT_PERCPU,	true },
	{ "ordered, kicked",	WQ_KUNIT_ORDERED,	true },
};

KUNIT_ARRAY_PARAM_DESC(flushed_kind, flushed_kinds, name);

/*
 * Fails if flush_work() returns while the item executes, when its next execution is cancelled,
 * maybe as soon as an item of another workqueue kicks the pool.
 */
static void flush_waits_for_execution(struct kunit *test)
{
	const struct wq_kind *kind = test->param_value;
	struct workqueue_struct *wq = new_wq(test, kind->flags, 1);
	struct workqueue_struct *other = new_wq(test, kind->flags, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	int cpu = cpumask_first(cpu_online_mask);
	struct flush *flush;

	queue_work_on(cpu, wq, &first->work);
	expect_starts(test, first);
	queue_work_on(cpu, wq, &first->work);
	flush = start_flush(test, first);
	await_barrier(test, first);
	KUNIT_EXPECT_TRUE(test, cancel_work(&first->work));
	if (kind->kick) {
		queue_work_on(cpu, other, &second->work);
		expect_starts(test, second);
	}
	expect_not_flushed(test, flush);
	complete_all(&first->release);
	expect_flushed(test, flush);
}

/* the same with an item on the worklist, where the one that executes has the CPU */
static void flush_waits_for_hog(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_PERCPU, 0);
	int cpu = cpumask_first(cpu_online_mask);
	struct item *item = new_waiting_item(test);
	struct flush *flush;

	wq_cpu_intensive_thresh_us = jiffies_to_usecs(ITEM_LIMIT);
	item->spin = true;
	queue_work_on(cpu, wq, &item->work);
	expect_starts(test, item);
	queue_work_on(cpu, wq, &item->work);
	flush = start_flush(test, item);
	await_barrier(test, item);
	KUNIT_EXPECT_TRUE(test, cancel_work(&item->work));
	/* from now on the CPU is no longer left to it */
	wq_cpu_intensive_thresh_us = 1000;
	expect_not_flushed(test, flush);
	complete_all(&item->release);
	expect_flushed(test, flush);
}

/* the same where an ordered workqueue's item executes in the old pool, and is pending in the new */
static void flush_waits_for_old_pool(struct kunit *test)
{
	struct workqueue_struct *other = new_wq(test, WQ_UNBOUND, 0);
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_ORDERED, 1);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	struct flush *before, *after;

	set_nice(test, other, -5);
	queue_and_start(test, wq, first);
	set_nice(test, wq, -5);
	queue_work(wq, &first->work);
	before = start_flush(test, first);
	await_barrier(test, first);
	KUNIT_EXPECT_TRUE(test, cancel_work(&first->work));
	after = start_flush(test, first);
	queue_and_start(test, other, second);
	expect_not_flushed(test, before);
	KUNIT_EXPECT_FALSE(test, completion_done(&after->done));
	complete_all(&first->release);
	expect_flushed(test, before);
	expect_flushed(test, after);

	/* the barrier was counted as active and isn't any longer */
	reinit_completion(&second->started);
	queue_and_start(test, wq, second);
}

struct holder {
	raw_spinlock_t		*lock;
	bool			held;
	bool			release;	/* tells it to */
};

static void hold_lock(void *arg)
{
	struct holder *holder = arg;

	raw_spin_lock_irq(holder->lock);
	WRITE_ONCE(holder->held, true);
	SPIN_UNTIL(READ_ONCE(holder->release));
	raw_spin_unlock_irq(holder->lock);
}

static void flush_item(void *arg)
{
	struct item *item = arg;

	flush_work(&item->work);
}

/*
 * Fails if flush_work() returns early when it has to wait for the lock of the pool that executes
 * an item, which is queued for another one meanwhile.
 */
static void flush_looks_again(struct kunit *test)
{
	struct holder *holder = kunit_kzalloc(test, sizeof(*holder), GFP_KERNEL);
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_ORDERED, 1);
	struct item *item = new_waiting_item(test);
	struct helper *holds, *flushes;

	KUNIT_ASSERT_NOT_NULL(test, holder);
	set_nice(test, wq, -6);		/* pools that nobody else uses */
	queue_and_start(test, wq, item);
	scoped_guard(rcu)
		holder->lock = &get_work_pool(&item->work)->lock;
	set_nice(test, wq, -5);

	/* both will spin with interrupts off */
	holds = new_helper(test, 2, hold_lock, holder);
	flushes = new_helper(test, 1, flush_item, item);
	cpus_write_lock();
	WRITE_ONCE(holds->told, true);
	EXPECT_SOON(test, READ_ONCE(holder->held));
	WRITE_ONCE(flushes->told, true);
	EXPECT_SOON(test, raw_spin_is_contended(holder->lock));
	queue_work(wq, &item->work);
	WRITE_ONCE(holder->release, true);
	cpus_write_unlock();
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flushes->done, HZ / 20));
	complete_all(&item->release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flushes->done, patience(test)));
}

/* the same for an item that has left that pool, and that another one executes meanwhile */
static void flush_follows_item(struct kunit *test)
{
	struct workqueue_struct *before = new_wq(test, WQ_UNBOUND, 0);
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_waiting_item(test);
	struct helper *flushes = new_helper(test, 1, flush_item, item);
	struct worker_pool *pool;
	unsigned long data;

	set_nice(test, before, -6);
	pool = pwq_here(before)->pool;
	queue_and_start(test, wq, item);

	cpus_write_lock();
	raw_spin_lock_irq(&pool->lock);
	data = atomic_long_xchg(&item->work.data, (unsigned long)pool->id << WORK_OFFQ_POOL_SHIFT);
	WRITE_ONCE(flushes->told, true);
	SPIN_UNTIL(raw_spin_is_contended(&pool->lock));
	atomic_long_set(&item->work.data, data);
	raw_spin_unlock_irq(&pool->lock);
	cpus_write_unlock();
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flushes->done, HZ / 20));
	complete_all(&item->release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flushes->done, patience(test)));
}

/* fails if an item for which no worker can be created waits, in spite of WQ_MEM_RECLAIM */
static void item_starts_on_rescuer(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	struct worker_pool *pool = take_only_worker(test, wq, first);

	queue_work(wq, &second->work);
	expect_not_started(test, second);
	fail_to_create(pool);
	expect_starts(test, second);
}

/*
 * A workqueue of which one item executes at a time. The first one does, and the second one
 * waits for it, on a pool that has no idle worker and creates none.
 */
struct blocked_wq {
	struct workqueue_struct	*wq;
	struct workqueue_struct	*other;
	struct worker_pool	*pool;
	struct item		*busy;		/* of @other, on the pool's only worker */
	struct item		*first;
	struct item		*second;
	struct item		*third;		/* not queued */
};

static void init_blocked_wq(struct kunit *test, struct blocked_wq *b)
{
	b->other = new_wq(test, WQ_UNBOUND, 0);
	b->wq = new_wq(test, WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	b->busy = new_waiting_item(test);
	b->first = new_waiting_item(test);
	b->second = new_item(test);
	b->third = new_item(test);
	b->pool = take_only_worker(test, b->other, b->busy);
}

static void block_second_item(struct kunit *test, struct blocked_wq *b, bool on_rescuer)
{
	set_nice(test, b->wq, on_rescuer ? -15 : -3);
	queue_work(b->wq, &b->first->work);
	if (on_rescuer)
		fail_to_create(b->pool);
	expect_starts(test, b->first);
	set_nice(test, b->wq, -3);
	queue_work(b->wq, &b->third->work);
	expect_waits(test, b->third);
	set_nice(test, b->wq, -15);
	queue_work(b->wq, &b->second->work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&b->third->work));
}

/* fails if an item isn't started when one that has got its place in max_active is cancelled */
static void item_starts_when_another_is_cancelled(struct kunit *test)
{
	struct blocked_wq b;

	init_blocked_wq(test, &b);
	block_second_item(test, &b, false);
	end_item(b.first);
	set_nice(test, b.wq, -3);
	queue_work(b.wq, &b.third->work);
	expect_waits(test, b.third);
	KUNIT_EXPECT_TRUE(test, cancel_work(&b.second->work));
	expect_starts(test, b.third);
	KUNIT_EXPECT_FALSE(test, completion_done(&b.second->started));
}

/*
 * Fails if an item that has waited for one of another pool waits on for a worker that can't be
 * created, or if the rescuer is summoned for nothing.
 */
static void item_of_another_pool_starts_on_rescuer(struct kunit *test)
{
	struct pool_workqueue *pwq;
	struct blocked_wq b;
	int failing;

	init_blocked_wq(test, &b);
	for (failing = 0; failing <= 1; failing++) {
		reinit_completion(&b.first->started);
		reinit_completion(&b.first->release);
		reinit_completion(&b.second->started);
		block_second_item(test, &b, false);
		pwq = pwq_here(b.wq);
		complete_all(&b.first->release);
		if (failing)
			expect_starts(test, b.second);
		else
			expect_not_started(test, b.second);
		KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->stats[PWQ_STAT_MAYDAY]), failing);
		/* it starts the item that no worker was created for, and is on record */
		if (!failing)
			fail_to_create(b.pool);
		expect_starts(test, b.second);
		end_item(b.first);
		end_item(b.second);
	}

	/* now there is an idle worker */
	end_item(b.busy);
	raw_spin_lock_irq(&b.pool->lock);
	KUNIT_EXPECT_FALSE(test, need_to_create_worker(b.pool));
	pwq_summon_rescuer(pwq);
	raw_spin_unlock_irq(&b.pool->lock);
	KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->stats[PWQ_STAT_MAYDAY]), 1);
}

/*
 * The same for an item after one that the rescuer executes, on another pwq of the same pool. Fails
 * if the rescuer doesn't leave another workqueue's item to the workers.
 */
static void item_of_another_pwq_starts_on_rescuer(struct kunit *test)
{
	struct item *foreign = new_item(test);
	struct blocked_wq b;

	init_blocked_wq(test, &b);
	queue_work(b.other, &foreign->work);
	block_second_item(test, &b, true);
	complete_all(&b.first->release);
	expect_starts(test, b.second);
	KUNIT_EXPECT_FALSE(test, completion_done(&foreign->started));
	end_item(b.busy);
	expect_starts(test, foreign);
}

/* fails if a flush waits for a worker that can't be created after its item was cancelled */
static void flush_of_cancelled_item_ends_on_rescuer(struct kunit *test)
{
	struct blocked_wq b;
	struct flush *flush;

	init_blocked_wq(test, &b);
	set_nice(test, b.wq, -15);
	queue_work(b.wq, &b.second->work);
	flush = start_flush(test, b.second);
	await_barrier(test, b.second);
	KUNIT_EXPECT_TRUE(test, cancel_work(&b.second->work));
	expect_not_flushed(test, flush);
	fail_to_create(b.pool);
	expect_flushed(test, flush);
	end_item(b.busy);
}

/* fails if rescuers are summoned on and on after a worker was created */
static void created_worker_ends_mayday(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_item(test);
	struct worker_pool *pool;

	set_nice(test, wq, -13);
	pool = pwq_here(wq)->pool;
	scoped_guard(raw_spinlock_irq, &pool->lock)
		pool->flags |= POOL_MAYDAY;
	/* its only worker creates another one, which may be the first to execute */
	queue_and_start(test, wq, item);
	EXPECT_SOON(test, !(READ_ONCE(pool->flags) & POOL_MAYDAY));
}

#if defined(CONFIG_SMP) && defined(CONFIG_HOTPLUG_CPU)
/* fails if an item isn't started when its CPU, which another one keeps busy, goes offline */
static void item_starts_when_cpu_goes_offline(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_KUNIT_PERCPU, 0);
	struct item *second = new_item(test), *first = new_item(test);
	int cpu = cpumask_last(cpu_online_mask);

	if (num_online_cpus() == 1)
		kunit_skip(test, "there is only one CPU");
	wq_cpu_intensive_thresh_us = 0;
	first->until = &second->started;
	first->spin = true;
	queue_work_on(cpu, wq, &first->work);
	expect_starts(test, first);
	queue_work_on(cpu, wq, &second->work);
	expect_not_started(test, second);
	KUNIT_EXPECT_EQ(test, remove_cpu(cpu), 0);
	expect_starts(test, second);
	KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
}
#endif

static unsigned long saved_thresh;

static int save_thresh(struct kunit *test)
{
	saved_thresh = wq_cpu_intensive_thresh_us;
	return 0;
}

static void restore_thresh(struct kunit *test)
{
	wq_cpu_intensive_thresh_us = saved_thresh;
}

static struct kunit_case wakeups_test_cases[] = {
	KUNIT_CASE(chained_items_start),
	KUNIT_CASE(bh_items_start),
	KUNIT_CASE(item_starts_when_another_sleeps),
	KUNIT_CASE(item_starts_when_another_hogs_cpu),
	KUNIT_CASE(others_are_no_hogs),
	KUNIT_CASE(item_of_another_pool_starts),
	KUNIT_CASE(item_starts_when_unplugged),
	KUNIT_CASE_PARAM(item_starts_when_limit_is_raised, limited_kind_gen_params),
	KUNIT_CASE(frozen_items_start),
	KUNIT_CASE(executing_item_stays),
	KUNIT_CASE(deferred_item_counts_on_cpu),
	KUNIT_CASE(draining_waits_for_chained_items),
	KUNIT_CASE(ending_item_keeps_pwq_busy),
	KUNIT_CASE(flush_of_cancelled_item_ends),
	KUNIT_CASE_PARAM(flush_waits_for_execution, flushed_kind_gen_params),
	KUNIT_CASE(flush_waits_for_hog),
	KUNIT_CASE(flush_waits_for_old_pool),
	KUNIT_CASE(flush_looks_again),
	KUNIT_CASE(flush_follows_item),
	KUNIT_CASE(item_starts_on_rescuer),
	KUNIT_CASE(item_starts_when_another_is_cancelled),
	KUNIT_CASE(item_of_another_pool_starts_on_rescuer),
	KUNIT_CASE(item_of_another_pwq_starts_on_rescuer),
	KUNIT_CASE(flush_of_cancelled_item_ends_on_rescuer),
	KUNIT_CASE(created_worker_ends_mayday),
#if defined(CONFIG_SMP) && defined(CONFIG_HOTPLUG_CPU)
	KUNIT_CASE(item_starts_when_cpu_goes_offline),
#endif
	{}
};

static struct kunit_suite wakeups_test_suite = {
	.name = "workqueue_wakeups",
	.init = save_thresh,
	.exit = restore_thresh,
	.test_cases = wakeups_test_cases,
};

/*
 * Pods: where CPUs are that come online late, or come back elsewhere, and where workers are.
 */

/* fails if a scope is taken for one whose name begins alike, or isn't known in upper case */
static void scope_names_match_exactly(struct kunit *test)
{
	static const char * const bogus[] = {
		"", "\n", "c", "cach", "cachefoo", "cache ", " cache", "cache\n\n",
		"cache\nsmt", "cpus", "smt2", "numanuma", "system-wide", "defaul",
	};
	char buf[32];
	int i;

	for (i = 0; i < WQ_AFFN_NR_TYPES; i++) {
		KUNIT_ASSERT_NOT_NULL(test, wq_affn_names[i]);
		KUNIT_EXPECT_EQ(test, parse_affn_scope(wq_affn_names[i]), i);
		snprintf(buf, sizeof(buf), "%s\n", wq_affn_names[i]);
		KUNIT_EXPECT_EQ(test, parse_affn_scope(buf), i);
		snprintf(buf, sizeof(buf), "%c%s", toupper(wq_affn_names[i][0]),
			 wq_affn_names[i] + 1);
		KUNIT_EXPECT_EQ(test, parse_affn_scope(buf), i);
		snprintf(buf, sizeof(buf), "%sx", wq_affn_names[i]);
		KUNIT_EXPECT_EQ_MSG(test, parse_affn_scope(buf), -EINVAL, "\"%s\"", buf);
	}
	for (i = 0; i < ARRAY_SIZE(bogus); i++)
		KUNIT_EXPECT_EQ_MSG(test, parse_affn_scope(bogus[i]), -EINVAL, "\"%s\"",
				    bogus[i]);
}

/* fails if a mistyped default_affinity_scope isn't refused, or has an effect */
static void bogus_default_scope_changes_nothing(struct kunit *test)
{
	enum wq_affn_scope before = wq_affn_dfl;

	KUNIT_EXPECT_EQ(test, wq_affn_dfl_set("cachefoo\n", NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, wq_affn_dfl_set("default", NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, wq_affn_dfl, before);
}

/* fails if a CPU of this machine is in two pods of a scope, or in none */
static void pods_partition_possible_cpus(struct kunit *test)
{
	int affn, pod, cpu;

	for (affn = WQ_AFFN_DFL + 1; affn < WQ_AFFN_NR_TYPES; affn++) {
		const struct wq_pod_type *pt = &wq_pod_types[affn];
		unsigned int nr_cpus = 0;

		KUNIT_ASSERT_GE(test, pt->nr_pods, 1);
		for (pod = 0; pod < pt->nr_pods; pod++) {
			KUNIT_EXPECT_FALSE(test, cpumask_empty(pt->pod_cpus[pod]));
			nr_cpus += cpumask_weight(pt->pod_cpus[pod]);
		}
		KUNIT_EXPECT_EQ(test, nr_cpus, num_possible_cpus());

		for_each_possible_cpu(cpu) {
			pod = pt->cpu_pod[cpu];
			KUNIT_ASSERT_GE(test, pod, 0);
			KUNIT_ASSERT_LT(test, pod, pt->nr_pods);
			KUNIT_EXPECT_TRUE_MSG(test, cpumask_test_cpu(cpu, pt->pod_cpus[pod]),
					      "scope %s, CPU %d", wq_affn_names[affn], cpu);
		}
	}
}

#define LATE_CPUS	64	/* of the largest machine that comes online late */
/* fewer where what looks for other mistakes makes each take many times as long */
#define NR_ORDERS	(IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KCSAN) || \
			 IS_ENABLED(CONFIG_PROVE_LOCKING) ? 20 : 1000)
#define LATE_MOVING	12	/* CPUs of the largest machine whose CPUs change places */
#define NR_MOVING	(10 * NR_ORDERS)

/* which core, cluster, LLC and node a CPU is of */
struct seat {
	int	of[WQ_TOPO_NR_LEVELS];
};

/* a machine whose CPUs come online one by one */
struct late_machine {
	const char	*name;
	int		nr_nodes;
	int		nr_llcs;	/* of a node */
	int		nr_cores;	/* of an LLC */
	int		nr_threads;	/* of a core */
	bool		apart;		/* second threads are numbered after all first ones */
	bool		clusters;	/* of two cores */
	bool		bare;		/* only the masks of cores are of more than one CPU */

	struct wq_topo	topo;
	struct seat	seats[LATE_CPUS];
	int		order[LATE_CPUS];
	int		node[LATE_CPUS];
	int		id[WQ_TOPO_NODE][LATE_CPUS];
	int		pods[LATE_CPUS];
	DECLARE_BITMAP(possible, LATE_CPUS);
	DECLARE_BITMAP(online, LATE_CPUS);
	DECLARE_BITMAP(placed, LATE_CPUS);	/* have been online */
};

static const struct late_machine late_machines[] = {
	{ "16 cores x 2", 1, 1, 16, 2, true },
	{ "16 cores x 2, siblings side by side", 1, 1, 16, 2, false },
	{ "16 cores x 2, clusters of 2", 1, 1, 16, 2, true, true },
	{ "3 sockets of 8", 3, 1, 8, 1, true },
	{ "2 sockets of 2 LLCs of 4 cores x 2", 2, 2, 4, 2, true },
	{ "one CPU", 1, 1, 1, 1, true },
	{ "4 nodes of one LLC of 4 cores x 4", 4, 1, 4, 4, true },
	{ "4 cores x 2, no LLC known", 1, 4, 1, 2, true, false, true },
};

KUNIT_ARRAY_PARAM_DESC(late_machine, late_machines, name);

/* @from, with no CPU placed */
static void set_late_machine(struct late_machine *m, const struct late_machine *from)
{
	int nr_cores = from->nr_nodes * from->nr_llcs * from->nr_cores, cpu, level;

	memcpy(m, from, sizeof(*m));
	m->topo.nr_cpus = nr_cores * m->nr_threads;
	m->topo.nr_nodes = m->nr_nodes;
	m->topo.possible = m->possible;
	m->topo.online = m->online;
	m->topo.node = m->node;
	for (level = WQ_TOPO_CORE; level < WQ_TOPO_NODE; level++)
		m->topo.id[level] = m->id[level];
	memset(m->id, -1, sizeof(m->id));
	bitmap_set(m->possible, 0, m->topo.nr_cpus);

	for (cpu = 0; cpu < m->topo.nr_cpus; cpu++) {
		int core = m->apart ? cpu % nr_cores : cpu / m->nr_threads;
		int *of = m->seats[cpu].of;

		of[WQ_TOPO_CORE] = core;
		of[WQ_TOPO_CLUSTER] = m->clusters ? core / 2 : core;
		of[WQ_TOPO_LLC] = core / m->nr_cores;
		of[WQ_TOPO_NODE] = of[WQ_TOPO_LLC] / m->nr_llcs;
		m->node[cpu] = of[WQ_TOPO_NODE];
		m->order[cpu] = cpu;
	}
}

static struct late_machine *new_late_machine(struct kunit *test)
{
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, m);
	return m;
}

/* what wq_place_cpu() does, with the masks that this machine has now */
static bool late_online(struct late_machine *m, int cpu)
{
	DECLARE_BITMAP(shared[WQ_TOPO_NODE], LATE_CPUS) = {};
	const unsigned long *mates[WQ_TOPO_NODE];
	int level, mate;

	__set_bit(cpu, m->online);
	__set_bit(cpu, m->placed);
	for (level = 0; level < WQ_TOPO_NODE; level++) {
		/* where there are no clusters or LLCs, masks of them may lack the siblings */
		bool alone = level > WQ_TOPO_CORE &&
			     (m->bare || (level == WQ_TOPO_CLUSTER && !m->clusters));

		for_each_set_bit(mate, m->online, LATE_CPUS)
			if (alone ? mate == cpu :
			    m->seats[mate].of[level] == m->seats[cpu].of[level])
				__set_bit(mate, shared[level]);
		mates[level] = shared[level];
	}
	return wq_topo_place(&m->topo, cpu, m->seats[cpu].of[WQ_TOPO_NODE], mates);
}

/*
 * Two that have been online share a pod iff they share the hardware, and neither does with one
 * that hasn't, but for those of nodes. Checks pairs of @cpu and others online only, if it's one.
 */
static bool late_pair_fits(const struct late_machine *m, int level, int a, int b, int cpu)
{
	bool together = m->seats[a].of[level] == m->seats[b].of[level];
	bool share = m->pods[a] == m->pods[b];

	if (cpu >= 0 && ((a != cpu && b != cpu) || !test_bit(a, m->online) ||
			 !test_bit(b, m->online)))
		return true;
	if (level == WQ_TOPO_NODE || (test_bit(a, m->placed) && test_bit(b, m->placed)))
		return share == together;
	/* those that haven't been online are no cores, and what is left of a node */
	return !share || (level == WQ_TOPO_LLC && !test_bit(a, m->placed) &&
			  !test_bit(b, m->placed));
}

/* compare all pairs, or those of @cpu */
static bool late_pods_fit(struct kunit *test, struct late_machine *m, int cpu)
{
	int level, a, b;

	/* others may have gone to another node, and will tell when they come back */
	for (level = WQ_TOPO_CORE; level < WQ_TOPO_NODE + (cpu < 0); level++) {
		if (wq_layout_pods(&m->topo, level, m->pods) < 1) {
			KUNIT_FAIL(test, "%s: no pods on level %d", m->name, level);
			return false;
		}
		for (a = 0; a < m->topo.nr_cpus; a++) {
			for (b = 0; b < a; b++) {
				if (late_pair_fits(m, level, a, b, cpu))
					continue;
				KUNIT_FAIL(test, "%s, %d CPUs placed, level %d: CPUs %d and %d",
					   m->name, bitmap_weight(m->placed, LATE_CPUS), level,
					   b, a);
				return false;
			}
		}
	}
	return true;
}

/*
 * Fails if CPUs that come online late (maxcpus=, nosmt, hot-add) are in pods that don't fit or
 * depend on their order, or if those that go offline and online again change anything.
 */
static void pods_of_late_cpus(struct kunit *test)
{
	struct late_machine *m = new_late_machine(test);
	struct rnd_state rnd;
	int order, i;

	prandom_seed_state(&rnd, RANDOM_SEED);
	for (order = 0; order < NR_ORDERS; order++) {
		int nr, check;

		set_late_machine(m, test->param_value);
		nr = m->topo.nr_cpus;
		check = prandom_u32_state(&rnd) % nr;

		/* the first ascending: by socket, or with siblings last */
		for (i = nr - 1; order && i > 0; i--) {
			int j = prandom_u32_state(&rnd) % (i + 1);

			swap(m->order[i], m->order[j]);
		}

		for (i = 0; i < nr; i++) {
			KUNIT_ASSERT_TRUE_MSG(test, late_online(m, m->order[i]),
					      "CPU %d isn't new", m->order[i]);
			if ((order < 3 || i == check || i == nr - 1) &&
			    !late_pods_fit(test, m, -1))
				return;
			cond_resched();
		}

		/* some go offline and come back */
		for (i = 0; i < nr; i += 3)
			__clear_bit(m->order[i], m->online);
		for (i = 0; i < nr; i += 3)
			KUNIT_ASSERT_FALSE_MSG(test, late_online(m, m->order[i]),
					       "CPU %d is new again", m->order[i]);
	}
}

/* one that comes online, which has to be told if any pods change */
static bool late_change_is_told(struct kunit *test, struct late_machine *m, int cpu)
{
	static int before[WQ_TOPO_NODE][LATE_CPUS];
	bool told, same = true;
	int level;

	for (level = WQ_TOPO_CORE; level < WQ_TOPO_NODE; level++)
		wq_layout_pods(&m->topo, level, before[level]);
	told = late_online(m, cpu);
	for (level = WQ_TOPO_CORE; level < WQ_TOPO_NODE; level++) {
		wq_layout_pods(&m->topo, level, m->pods);
		same &= !memcmp(before[level], m->pods, m->topo.nr_cpus * sizeof(*m->pods));
	}
	if (!told && !same)
		KUNIT_FAIL(test, "pods change with CPU %d", cpu);
	return told || same;
}

/* a machine of up to 12 CPUs, most of which come online, go offline and change places */
static bool shuffle_late_machine(struct kunit *test, struct late_machine *m,
				 struct late_machine *random, struct rnd_state *rnd)
{
	int nr, i;

	random->name = "random machine";
	random->nr_nodes = 1 + prandom_u32_state(rnd) % 2;
	random->nr_llcs = 1 + prandom_u32_state(rnd) % 2;
	random->nr_cores = 1 + prandom_u32_state(rnd) % 3;
	random->nr_threads = 1;
	if (random->nr_nodes * random->nr_llcs * random->nr_cores <= LATE_MOVING / 2)
		random->nr_threads = 1 + prandom_u32_state(rnd) % 2;
	random->clusters = prandom_u32_state(rnd) % 2;
	set_late_machine(m, random);
	nr = m->topo.nr_cpus;

	for (i = 0; i < 3 * nr; i++) {
		int cpu = prandom_u32_state(rnd) % nr, other = prandom_u32_state(rnd) % nr;

		/* also what CPUs share that stay online may change */
		if (!(prandom_u32_state(rnd) % 4))
			swap(m->seats[cpu], m->seats[other]);
		if (__test_and_clear_bit(cpu, m->online))
			continue;
		if (!late_change_is_told(test, m, cpu) || !late_pods_fit(test, m, cpu))
			return false;
	}
	/* nothing changes anymore, and all come online or back */
	for (i = 0; i < nr; i++) {
		__clear_bit(i, m->online);
		if (!late_change_is_told(test, m, i) || !late_pods_fit(test, m, i))
			return false;
	}
	return late_pods_fit(test, m, -1);
}

/* fails if a CPU that comes back elsewhere, as in virtual machines, stays in its old pod */
static void pods_of_moving_cpus(struct kunit *test)
{
	struct late_machine *m = new_late_machine(test), *random = new_late_machine(test);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, RANDOM_SEED);
	for (i = 0; i < NR_MOVING && shuffle_late_machine(test, m, random, &rnd); i++)
		cond_resched();
}

struct where {
	struct work_struct	work;
	cpumask_var_t		allowed;	/* what the worker's CPUs were */
};

static void where_fn(struct work_struct *work)
{
	struct where *where = container_of(work, struct where, work);

	cpumask_copy(where->allowed, current->cpus_ptr);
}

/* fails if an item of a strict scope runs outside the pod of the CPU that it was queued on */
static void strict_workers_stay_in_pod(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	cpumask_var_t expected;
	struct where where;
	int affn, cpu;

	KUNIT_ASSERT_TRUE(test, alloc_cpumask_var(&expected, GFP_KERNEL));
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&where.allowed, GFP_KERNEL));
	INIT_WORK_ONSTACK(&where.work, where_fn);

	for (affn = WQ_AFFN_DFL + 1; affn < WQ_AFFN_NR_TYPES; affn++) {
		const struct wq_pod_type *pt = &wq_pod_types[affn];

		set_attrs(test, wq, affn, true, 0);
		for_each_cpu_and(cpu, cpu_online_mask, wq_unbound_cpumask) {
			cpumask_and(expected, pt->pod_cpus[pt->cpu_pod[cpu]], wq_unbound_cpumask);
			queue_work_on(cpu, wq, &where.work);
			flush_work(&where.work);
			KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(where.allowed, expected),
					      "scope %s, CPU %d: worker on %*pbl, not on %*pbl",
					      wq_affn_names[affn], cpu,
					      cpumask_pr_args(where.allowed),
					      cpumask_pr_args(expected));
		}
	}

	destroy_work_on_stack(&where.work);
	free_cpumask_var(where.allowed);
	free_cpumask_var(expected);
}

static struct kunit_case pods_test_cases[] = {
	KUNIT_CASE(scope_names_match_exactly),
	KUNIT_CASE(bogus_default_scope_changes_nothing),
	KUNIT_CASE(pods_partition_possible_cpus),
	KUNIT_CASE_PARAM(pods_of_late_cpus, late_machine_gen_params),
	KUNIT_CASE(pods_of_moving_cpus),
	KUNIT_CASE(strict_workers_stay_in_pod),
	{}
};

static struct kunit_suite pods_test_suite = {
	.name = "workqueue_pods",
	.test_cases = pods_test_cases,
};

/*
 * The slots of max_active, first in workqueues as users have them.
 */

enum { NR_LIMITED = 24 };

/* a workqueue with items that run until they are told to end */
struct limited {
	struct workqueue_struct	*wq;
	struct completion	end;		/* complete() lets one item end */
	int			nr_told;	/* how many were told to end */
	struct item		*items[NR_LIMITED];
};

static struct limited *new_limited(struct kunit *test, int max_active)
{
	struct limited *limited = kunit_kzalloc(test, sizeof(*limited), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, limited);
	limited->wq = new_wq(test, WQ_UNBOUND, max_active);
	init_completion(&limited->end);
	for (i = 0; i < NR_LIMITED; i++) {
		limited->items[i] = new_item(test);
		limited->items[i]->until = &limited->end;
	}
	return limited;
}

static int nr_running(struct limited *limited)
{
	int i, nr = 0;

	for (i = 0; i < NR_LIMITED; i++)
		nr += READ_ONCE(limited->items[i]->nr_started) -
		      READ_ONCE(limited->items[i]->nr_ended);
	return nr;
}

static int nr_ended(struct limited *limited)
{
	int i, nr = 0;

	for (i = 0; i < NR_LIMITED; i++)
		nr += READ_ONCE(limited->items[i]->nr_ended);
	return nr;
}

/* queue @nr items from @first on, on all CPUs in turns or all on one */
static void queue_limited(struct limited *limited, int first, int nr, bool all_cpus)
{
	int i;

	for (i = first; i < first + nr; i++)
		queue_work_on(cpumask_nth(all_cpus ? i % num_online_cpus() : 0, cpu_online_mask),
			      limited->wq, &limited->items[i]->work);
}

static void end_limited(struct limited *limited, int nr)
{
	limited->nr_told += nr;
	while (nr--)
		complete(&limited->end);
}

/* slots that are in use, free or spare, less those owed; exact while nothing changes */
static int nr_slots(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	int nr;

	guard(mutex)(&wq->mutex);
	nr = wq_nr_spare(wq) - atomic_read(&wq->nr_owed);
	for_each_pwq(pwq, wq)
		nr += READ_ONCE(pwq->nr_active) - READ_ONCE(pwq->nr_listed) +
		      READ_ONCE(pwq->nr_granted) + max(atomic_read(&pwq->nr_free), 0);
	return nr;
}

static bool are_running(struct limited *limited, int nr)
{
	return nr_ended(limited) == limited->nr_told && nr_running(limited) == nr &&
	       nr_slots(limited->wq) == limited->wq->max_active;
}

/* soon @nr items run, and it stays at that; no slot has been lost or made up */
static void expect_running(struct kunit *test, struct limited *limited, int nr)
{
	EXPECT_SOON(test, are_running(limited, nr));
	usleep_range(8000, 12000);
	KUNIT_EXPECT_EQ(test, nr_running(limited), nr);
	KUNIT_EXPECT_EQ(test, nr_slots(limited->wq), limited->wq->max_active);
}

/* let all items end, all of which have to have run @nr_runs times */
static void free_limited(struct kunit *test, struct limited *limited, int nr_runs)
{
	int i;

	end_limited(limited, NR_LIMITED);
	for (i = 0; i < NR_LIMITED; i++) {
		EXPECT_SOON(test, !work_busy(&limited->items[i]->work));
		KUNIT_EXPECT_FALSE_MSG(test, cancel_work(&limited->items[i]->work),
				       "item %d waits", i);
		KUNIT_EXPECT_EQ_MSG(test, limited->items[i]->nr_ended, nr_runs, "item %d", i);
	}
}

/* fails if more items run at a time than max_active allows, or fewer */
static void limit_is_exact(struct kunit *test)
{
	static const int limits[] = { 1, 2, 3, 4, 8, 16 };
	int i, ended;

	for (i = 0; i < 2 * ARRAY_SIZE(limits); i++) {
		int limit = limits[i / 2];
		struct limited *limited = new_limited(test, limit);

		queue_limited(limited, 0, NR_LIMITED, i % 2);
		for (ended = 0; ended <= NR_LIMITED; ended += 3) {
			expect_running(test, limited, min(limit, NR_LIMITED - ended));
			end_limited(limited, 3);
		}
		free_limited(test, limited, 1);
	}
}

/* an item that queues itself again each time that it executes */
struct again {
	struct work_struct	work;
	struct workqueue_struct	*wq;
	struct completion	started;
	bool			end;
};

static void again_fn(struct work_struct *work)
{
	struct again *again = container_of(work, struct again, work);

	if (!READ_ONCE(again->end))
		queue_work_on(cpumask_first(cpu_online_mask), again->wq, work);
	complete_all(&again->started);
	usleep_range(500, 1000);
}

static void end_again(void *arg)
{
	struct again *again = arg;

	WRITE_ONCE(again->end, true);
	cancel_work_sync(&again->work);
}

/* fails if items that depend on each other hang since another node is never without an item */
static void dependent_items_start(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 4);
	struct again *again = kunit_kzalloc(test, sizeof(*again), GFP_KERNEL);
	struct item *items[4];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, again);
	again->wq = wq;
	init_completion(&again->started);
	INIT_WORK(&again->work, again_fn);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_again, again), 0);
	set_attrs(test, wq, WQ_AFFN_NUMA, false, 0);
	queue_work_on(cpumask_first(cpu_online_mask), wq, &again->work);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&again->started, patience(test)));
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		items[i] = new_waiting_item(test);
		queue_work_on(cpumask_last(cpu_online_mask), wq, &items[i]->work);
		expect_starts(test, items[i]);
	}
}

/* fails if workqueue_set_max_active() or freezing is ignored, or ends more than it should */
static void limit_is_raised_and_lowered(struct kunit *test)
{
	struct limited *limited = new_limited(test, 4);
	struct workqueue_struct *wq = limited->wq;

	queue_limited(limited, 0, NR_LIMITED, true);
	expect_running(test, limited, 4);
	workqueue_set_max_active(wq, 7);
	expect_running(test, limited, 7);

	/* nothing starts before fewer than two are running */
	workqueue_set_max_active(wq, 2);
	expect_running(test, limited, 7);
	end_limited(limited, 1);
	expect_running(test, limited, 6);
	workqueue_set_max_active(wq, 3);
	end_limited(limited, 2);
	expect_running(test, limited, 4);
	end_limited(limited, 1);
	expect_running(test, limited, 3);
	end_limited(limited, 1);
	expect_running(test, limited, 3);

	/* what freezing does */
	mutex_lock(&wq->mutex);
	wq->saved_max_active = 0;
	wq_adjust_max_active(wq);
	mutex_unlock(&wq->mutex);
	end_limited(limited, 1);
	expect_running(test, limited, 2);
	end_limited(limited, 2);
	expect_running(test, limited, 0);
	workqueue_set_max_active(wq, 5);
	expect_running(test, limited, 5);

	/* 8 have ended */
	workqueue_set_max_active(wq, WQ_MAX_ACTIVE);
	expect_running(test, limited, NR_LIMITED - 8);
	free_limited(test, limited, 1);
}

/* fails if items that are cancelled while they wait leave fewer to run from then on, or more */
static void waiting_items_can_be_cancelled(struct kunit *test)
{
	struct limited *limited = new_limited(test, 2);
	bool waited[6];
	int i, nr = 0;

	/* whichever two start */
	queue_limited(limited, 0, 6, true);
	expect_running(test, limited, 2);
	for (i = 0; i < 6; i++) {
		waited[i] = cancel_work(&limited->items[i]->work);
		nr += waited[i];
	}
	KUNIT_EXPECT_EQ(test, nr, 4);
	expect_running(test, limited, 2);
	end_limited(limited, 1);
	expect_running(test, limited, 1);
	for (i = 0; i < 6; i++)
		if (waited[i])
			queue_limited(limited, i, 1, false);
	expect_running(test, limited, 2);
	queue_limited(limited, 6, NR_LIMITED - 6, true);
	expect_running(test, limited, 2);
	free_limited(test, limited, 1);
}

/* fails if changing the scope of a workqueue again and again takes away from its max_active */
static void slots_of_released_pwqs_come_back(struct kunit *test)
{
	struct limited *limited = new_limited(test, NR_LIMITED);
	int i;

	for (i = 0; i < 6; i++) {
		queue_limited(limited, 4 * i, 4, true);
		expect_running(test, limited, 4);
		set_attrs(test, limited->wq, i % 2 ? WQ_AFFN_CPU : WQ_AFFN_SYSTEM, false, 0);
		expect_running(test, limited, 4);
		end_limited(limited, 4);
		expect_running(test, limited, 0);
	}
	kthread_flush_worker(pwq_release_worker);
	KUNIT_EXPECT_EQ(test, nr_slots(limited->wq), NR_LIMITED);
	queue_limited(limited, 0, NR_LIMITED, false);
	expect_running(test, limited, NR_LIMITED);
	free_limited(test, limited, 2);
}

static const bool cancelled[] = { false, true };
KUNIT_ARRAY_PARAM(cancelled, cancelled, NULL);

/*
 * Fails if flush_work() returns early when the item finds no slot as it's about to be started,
 * or if it waits for a slot itself when the item is cancelled.
 */
static void flush_waits_for_slot(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 1);
	struct workqueue_struct *other = new_wq(test, WQ_UNBOUND, 0);
	struct item *first = new_waiting_item(test), *second = new_item(test);
	struct item *busy = new_waiting_item(test), *third = new_item(test);
	struct worker_pool *pool = take_only_worker(test, other, busy);
	bool cancel = *(const bool *)test->param_value;
	struct flush *flush;

	set_nice(test, wq, -3);
	queue_and_start(test, wq, first);
	set_nice(test, wq, -15);
	queue_work(wq, &third->work);	/* finds no slot, before the others are looked at */
	queue_work(wq, &second->work);
	flush = start_flush(test, second);
	await_barrier(test, second);
	if (cancel)
		KUNIT_EXPECT_TRUE(test, cancel_work(&second->work));
	kunit_release_action(test, stop_managing, pool);
	complete_all(&busy->release);
	if (!cancel) {
		expect_waits(test, second);
		expect_not_flushed(test, flush);
		complete_all(&first->release);
	}
	expect_flushed(test, flush);
	KUNIT_EXPECT_EQ(test, completion_done(&second->started), !cancel);
	KUNIT_EXPECT_EQ(test, nr_slots(wq), 1);
	complete_all(&first->release);
}

/* fails if freezing keeps an item waiting that was queued before and is within the limit */
static void queued_items_are_not_frozen(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND | WQ_FREEZABLE, 3);
	struct workqueue_struct *other = new_wq(test, WQ_UNBOUND, 0);
	struct item *first = new_waiting_item(test), *busy = new_waiting_item(test), *items[4];
	struct worker_pool *pool = take_only_worker(test, other, busy);
	int i;

	set_nice(test, wq, -3);
	queue_and_start(test, wq, first);
	set_nice(test, wq, -15);
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		/* two are within the limit, and one is queued later */
		if (i == 3)
			set_frozen(wq, true);
		items[i] = new_item(test);
		queue_work(wq, &items[i]->work);
	}
	kunit_release_action(test, stop_managing, pool);
	complete_all(&busy->release);
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		if (i < 2)
			expect_starts(test, items[i]);
		else
			expect_waits(test, items[i]);
	}
	complete_all(&first->release);
	EXPECT_SOON(test, !atomic_read(&wq->nr_owed));
	expect_not_started(test, items[2]);

	/* a pool_workqueue that is new is frozen, too */
	set_nice(test, wq, -3);
	KUNIT_EXPECT_TRUE(test, pwq_here(wq)->frozen);
	set_frozen(wq, false);
	KUNIT_EXPECT_FALSE(test, pwq_here(wq)->frozen);
	expect_starts(test, items[2]);
	expect_starts(test, items[3]);
	EXPECT_SOON(test, nr_slots(wq) == 3);
}

/*
 * Fails if workqueues are taken for frozen while one of their items executes, or never are, or if
 * it isn't executed once more though it was queued again before, by another pool_workqueue.
 */
static void freezing_takes_a_while(struct kunit *test)
{
#ifdef CONFIG_FREEZER
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND | WQ_FREEZABLE, 1);
	struct workqueue_struct *other = new_wq(test, WQ_UNBOUND | WQ_FREEZABLE, 1);
	struct item *item = new_waiting_item(test), *last = new_waiting_item(test);
	struct pool_workqueue *first;

	queue_and_start(test, other, last);
	set_attrs(test, wq, WQ_AFFN_SYSTEM, false, 0);
	kthread_flush_worker(pwq_release_worker);
	first = list_first_entry(&wq->pwqs, struct pool_workqueue, pwqs_node);
	queue_work_on(cpumask_last(cpu_online_mask), wq, &item->work);
	expect_starts(test, item);
	queue_work_on(cpumask_first(cpu_online_mask), wq, &item->work);
	EXPECT_SOON(test, !READ_ONCE(first->nr_listed) && work_pending(&item->work));
	freeze_workqueues_begin();
	KUNIT_EXPECT_TRUE(test, freeze_workqueues_busy());
	complete_all(&item->release);
	EXPECT_SOON(test, READ_ONCE(item->nr_ended) == 2);
	KUNIT_EXPECT_TRUE(test, freeze_workqueues_busy());
	KUNIT_EXPECT_TRUE(test, wq_end_lending(other));
	complete_all(&last->release);
	EXPECT_SOON(test, !freeze_workqueues_busy());
	KUNIT_EXPECT_FALSE(test, first->lends);
	thaw_workqueues();
#else
	kunit_skip(test, "workqueues can't be frozen");
#endif
}

/* queue an item that executes once more, with a slot for it that it won't need yet */
static struct pool_workqueue *queue_again_with_slot(struct kunit *test, struct workqueue_struct *wq,
						    struct item *item)
{
	struct pool_workqueue *pwq = pwq_here(wq);
	struct work_struct *work = &item->work;
	bool first;

	KUNIT_EXPECT_FALSE(test, test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)));
	rcu_read_lock();
	raw_spin_lock_irq(&pwq->pool->lock);
	KUNIT_EXPECT_PTR_EQ(test, get_work_pool(work), pwq->pool);
	pwq->nr_in_flight[pwq->work_color]++;
	KUNIT_EXPECT_TRUE(test, pwq_tryinc_nr_active(pwq));
	insert_work(pwq, work, &pwq->pool->worklist, work_color_to_flags(pwq->work_color));
	KUNIT_EXPECT_TRUE(test, pwq_get_slot(pwq, &first));
	pwq->nr_granted++;
	kick_pool_unlock(pwq->pool);
	local_irq_enable();
	rcu_read_unlock();
	return pwq;
}

static void expect_slot_put_back(struct kunit *test, struct pool_workqueue *pwq)
{
	EXPECT_SOON(test, !READ_ONCE(pwq->nr_listed) && !READ_ONCE(pwq->nr_granted));
	KUNIT_EXPECT_EQ(test, nr_slots(pwq->wq), pwq->wq->max_active);
}

/* fails if an item that is queued again while it executes takes away from max_active for good */
static void slot_of_deferred_item_is_put_back(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_waiting_item(test);

	set_nice(test, wq, -15);
	queue_and_start(test, wq, item);
	expect_slot_put_back(test, queue_again_with_slot(test, wq, item));
}

/* the same where it's the rescuer that finds the item executing */
static void rescuer_puts_back_slot(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct item *item = new_waiting_item(test), *next = new_item(test);
	struct worker_pool *pool = take_only_worker(test, wq, item);
	struct pool_workqueue *pwq = queue_again_with_slot(test, wq, item);
	bool first;

	/* it goes on with the next one */
	queue_work(wq, &next->work);
	raw_spin_lock_irq(&pool->lock);
	KUNIT_EXPECT_TRUE(test, pwq_get_slot(pwq, &first));
	pwq->nr_granted++;
	KUNIT_EXPECT_EQ(test, pwq->nr_granted, 2);
	raw_spin_unlock_irq(&pool->lock);
	fail_to_create(pool);
	expect_starts(test, next);
	expect_slot_put_back(test, pwq);
}

/* fails if a timer of a workqueue that was destroyed runs, and crashes */
static void slot_timer_ends_with_workqueue(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct pool_workqueue *pwq;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	/* keeps the workqueue from being freed */
	mutex_lock(&wq->mutex);
	pwq = unbound_pwq(wq, -1);
	raw_spin_lock_irq(&pwq->pool->lock);
	get_pwq(pwq);
	raw_spin_unlock_irq(&pwq->pool->lock);
	mutex_unlock(&wq->mutex);

	wq_arm_slot_timer(wq);
	destroy_workqueue(wq);
	KUNIT_EXPECT_FALSE(test, timer_pending(&wq->slot_timer));
	wq_arm_slot_timer(wq);
	KUNIT_EXPECT_FALSE(test, timer_pending(&wq->slot_timer));
	timer_shutdown_sync(&wq->slot_timer);
	put_pwq_unlocked(pwq);
}

/*
 * From here on, a made-up workqueue on made-up nodes, where cases decide when items are
 * started and end. After each step, all slots have to be where the comment above struct
 * wq_node_nr_active says.
 */
enum { NR_SLOT_NODES = 3, NR_NODE_POOLS = 3, NR_SLOT_ITEMS = 30 };
enum { NR_SLOT_POOLS = (NR_SLOT_NODES + 1) * NR_NODE_POOLS };

/* a pool without threads: items of its one pwq are started and ended as the case says */
struct slots_pool {
	struct slots		*slots;
	struct worker_pool	pool;
	struct pool_workqueue	*pwq;
	struct work_struct	items[NR_SLOT_ITEMS];
	struct worker		workers[NR_SLOT_ITEMS];
};

/* an unbound workqueue with pools on made-up nodes, the last ones are on none */
struct slots {
	struct kunit		*test;
	struct slots		*next;		/* of the same case */
	struct workqueue_struct	*wq;
	struct wq_node_nr_active **nodes;
	struct slots_pool	pools[NR_SLOT_POOLS];
	struct slots_pool	*end;		/* behind the last one */
	struct list_head	more;		/* pwqs on which nothing is ever queued */
	int			stalled[NR_SLOT_NODES + 1];	/* for how many jiffies */
	bool			started;	/* since the last check */
	int			nr_checks;
};

static struct slots_pool *node_pool(struct slots *slots, int node, int i)
{
	return &slots->pools[node * NR_NODE_POOLS + i];
}

static void slots_fn(struct work_struct *work)
{
	/* nobody calls it */
}

/* the timer stays pending until slots_tick() */
static void slots_timer_fn(struct timer_list *t)
{
	mod_timer(t, jiffies + 1);
}

static void free_slots(void *arg)
{
	struct slots *slots = arg;
	struct pool_workqueue *pwq, *n;
	struct slots_pool *p;
	int i;

	timer_shutdown_sync(&slots->wq->slot_timer);
	/* what isn't as it should be might not end */
	if (slots->test->status != KUNIT_SUCCESS)
		return;
	for (p = slots->pools; p < slots->end; p++)
		for (i = 0; i < NR_SLOT_ITEMS; i++)
			cancel_work(&p->items[i]);
	for (p = slots->pools; p < slots->end; p++)
		kmem_cache_free(pwq_cache, p->pwq);
	list_for_each_entry_safe(pwq, n, &slots->more, pwqs_node)
		kmem_cache_free(pwq_cache, pwq);
	free_percpu(slots->wq->cpu_pwq);
	free_node_nr_active(slots->wq);
}

static void init_slots_pool(struct slots *slots, struct slots_pool *p, int node)
{
	struct worker_pool *pool = &p->pool;
	int i;

	p->slots = slots;
	raw_spin_lock_init(&pool->lock);
	pool->cpu = -1;
	pool->id = -1;
	pool->node = node == NR_SLOT_NODES ? NUMA_NO_NODE : node;
	INIT_LIST_HEAD(&pool->worklist);
	INIT_LIST_HEAD(&pool->idle_list);
	hash_init(pool->busy_hash);
	pool->nr_running = 1;	/* so that nobody is woken up */
	p->pwq = kmem_cache_alloc(pwq_cache, GFP_KERNEL | __GFP_NOFAIL);
	init_pwq(p->pwq, slots->wq, pool);
	list_add_tail(&p->pwq->pwqs_node, &slots->wq->pwqs);
	for (i = 0; i < NR_SLOT_ITEMS; i++) {
		INIT_WORK(&p->items[i], slots_fn);
		INIT_LIST_HEAD(&p->workers[i].scheduled);
		p->workers[i].pool = pool;
	}
}

static struct slots *new_slots(struct kunit *test, int max_active)
{
	struct slots *slots = kunit_kzalloc(test, sizeof(*slots), GFP_KERNEL);
	struct workqueue_struct *wq;
	struct slots_pool *p;

	wq = kunit_kzalloc(test, struct_size(wq, node_nr_active, NR_SLOT_NODES + 1), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slots);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	slots->test = test;
	slots->wq = wq;
	slots->nodes = wq->node_nr_active;
	slots->end = slots->pools + NR_SLOT_POOLS;
	wq->flags = WQ_UNBOUND;
	wq->max_active = max_active;
	wq->saved_max_active = max_active;
	wq->nr_nodes = NR_SLOT_NODES;
	mutex_init(&wq->mutex);
	INIT_LIST_HEAD(&wq->pwqs);
	INIT_LIST_HEAD(&slots->more);
	timer_setup(&wq->slot_timer, slots_timer_fn, 0);
	for (p = slots->pools; p < slots->end; p++)
		init_slots_pool(slots, p, (p - slots->pools) / NR_NODE_POOLS);
	RCU_INIT_POINTER(wq->dfl_pwq, slots->pools[0].pwq);
	wq->cpu_pwq = alloc_percpu(struct pool_workqueue __rcu *);
	KUNIT_EXPECT_EQ(test, alloc_node_nr_active(wq), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_slots, slots), 0);
	KUNIT_ASSERT_NOT_NULL(test, wq->cpu_pwq);
	slots->next = test->priv;
	test->priv = slots;
	return slots;
}

/* among how many nodes max_active is shared out */
static int nr_shares(void)
{
	return max(num_node_state(N_CPU), 1);
}

/* let a node own @nr of the slots that no node owns yet */
static void slots_own(struct slots *slots, int node, int nr)
{
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES];

	none->nr_owned -= nr;
	none->nr_spare -= nr;
	slots->nodes[node]->nr_owned += nr;
	slots->nodes[node]->nr_spare += nr;
}

static int slots_owned(struct slots *slots, int node)
{
	return slots->nodes[node]->nr_owned;
}

static int slots_free(struct slots_pool *p)
{
	return atomic_read(&p->pwq->nr_free);
}

static void expect_slots_free(struct slots_pool *p, int nr0, int nr1, int nr2)
{
	KUNIT_EXPECT_EQ(p->slots->test, slots_free(&p[0]), nr0);
	KUNIT_EXPECT_EQ(p->slots->test, slots_free(&p[1]), nr1);
	KUNIT_EXPECT_EQ(p->slots->test, slots_free(&p[2]), nr2);
}

static int slots_owed(struct slots *slots)
{
	return atomic_read(&slots->wq->nr_owed);
}

/* have nodes wait for as long as the case says, however long it takes */
static void slots_set_waits(struct slots *slots)
{
	unsigned long now = jiffies;
	int node;

	for (node = 0; node <= NR_SLOT_NODES; node++)
		slots->nodes[node]->served_at =
			now + (slots->stalled[node] ? -HZ - slots->stalled[node] : HZ * 3600);
}

static bool slots_queue_item(struct slots_pool *p, struct work_struct *work)
{
	struct workqueue_struct *wq = p->pwq->wq;
	int cpu = raw_smp_processor_id();

	/* no other thread of that CPU queues anything on @wq */
	rcu_assign_pointer(*per_cpu_ptr(wq->cpu_pwq, cpu), p->pwq);
	return queue_work_on(cpu, wq, work);
}

/* queue @nr items that neither wait nor execute */
static void slots_queue(struct slots_pool *p, int nr)
{
	int i;

	for (i = 0; i < NR_SLOT_ITEMS && nr; i++)
		if (!find_worker_executing_work(&p->pool, &p->items[i]))
			nr -= slots_queue_item(p, &p->items[i]);
}

/* as process_scheduled_works(), up to where the function of the first item is called */
static bool slots_process(struct worker *worker)
{
	struct work_struct *work;

	while ((work = list_first_entry_or_null(&worker->scheduled, struct work_struct, entry))) {
		if (!pwq_start_work(worker, work))
			continue;
		debug_work_deactivate(work);
		hash_add(worker->pool->busy_hash, &worker->hentry, (unsigned long)work);
		worker->current_work = work;
		worker->current_func = work->func;
		worker->current_pwq = get_work_pwq(work);
		list_del_init(&work->entry);
		set_work_pool_and_clear_pending(work, worker->pool->id, 0);
		return true;
	}
	return false;
}

/* as worker_thread(). Return: %true if the first item on the worklist has been started */
static bool slots_start(struct slots_pool *p)
{
	struct worker *worker = p->workers;
	struct work_struct *work;

	slots_set_waits(p->slots);
	guard(raw_spinlock_irq)(&p->pool.lock);
	work = list_first_entry_or_null(&p->pool.worklist, struct work_struct, entry);
	if (!work)
		return false;
	while (worker->current_work)
		worker++;
	if (assign_work(work, worker, NULL))
		return slots_process(worker);
	pwq_put_surplus(p->pwq);
	return false;
}

/* the first item that executes, from the @i-th worker on; it doesn't wait if it was queued again */
static struct worker *slots_executing(struct slots_pool *p, int i)
{
	for (; i < NR_SLOT_ITEMS; i++)
		if (p->workers[i].current_work)
			return &p->workers[i];
	return NULL;
}

/* as process_one_work() after it has called the function */
static bool slots_end_item(struct worker *worker)
{
	struct pool_workqueue *pwq = worker->current_pwq;

	slots_set_waits(container_of(worker->pool, struct slots_pool, pool)->slots);
	guard(raw_spinlock_irq)(&worker->pool->lock);
	hash_del(&worker->hentry);
	worker->current_work = NULL;
	worker->current_func = NULL;
	worker->current_pwq = NULL;
	pwq_dec_nr_in_flight(pwq, 0, true);
	return slots_process(worker);
}

/* Return: %true if there was an item to end */
static bool slots_end(struct slots_pool *p)
{
	struct worker *worker = slots_executing(p, 0);

	if (worker)
		slots_end_item(worker);
	return worker;
}

/* how many items of a pool execute */
static int slots_running(struct slots_pool *p)
{
	int i, nr = 0;

	for (i = 0; i < NR_SLOT_ITEMS; i++)
		nr += !!p->workers[i].current_work;
	return nr;
}

static int slots_all_running(struct slots *slots)
{
	struct slots_pool *p;
	int nr = 0;

	for (p = slots->pools; p < slots->end; p++)
		nr += slots_running(p);
	return nr;
}

static bool slots_armed(struct slots *slots)
{
	/* slots_timer_fn() may be at it just now */
	bool armed = timer_delete_sync(&slots->wq->slot_timer);

	if (armed)
		mod_timer(&slots->wq->slot_timer, jiffies + 1);
	return armed;
}

static const char *slots_pwq_error(struct slots_pool *p)
{
	struct pool_workqueue *pwq = p->pwq;
	int nr_executing = slots_running(p), nr = 0;
	struct work_struct *work;

	list_for_each_entry(work, &p->pool.worklist, entry) {
		if (*work_data_bits(work) & WORK_STRUCT_INACTIVE)
			return "an inactive item is on the worklist";
		nr++;
	}
	list_for_each_entry(work, &pwq->inactive_works, entry)
		if (!(*work_data_bits(work) & WORK_STRUCT_INACTIVE))
			return "an active item is inactive";
	if (pwq->nr_listed != nr)
		return "nr_listed isn't what is on the worklist";
	if (pwq->nr_active != nr + nr_executing)
		return "nr_active isn't what is on the worklist or executes";
	if (pwq->nr_granted < 0 || pwq->nr_granted > nr)
		return "more slots are granted than there are items";
	if ((slots_free(p) >= 0) == list_empty(&pwq->open_node))
		return "open isn't what is among the open ones";
	if (list_empty(&pwq->inactive_works) != list_empty(&pwq->pending_node))
		return "pending isn't what has inactive items";
	/* so no more than there are slots are open when somebody looks for one */
	if (!slots_free(p) && !nr_executing && !pwq->nr_granted)
		return "open without a slot";
	return NULL;
}

static const char *slots_error(struct slots *slots)
{
	int nr_owned = 0, nr_free = 0, nr_granted = 0, nr_counted = 0, nr_waiting = 0, node, i;
	int nr_owed = slots_owed(slots), max_active = slots->wq->max_active;
	int allowed = max_active ?: slots->wq->saved_max_active;

	for (node = 0; node <= NR_SLOT_NODES; node++) {
		struct wq_node_nr_active *nna = slots->nodes[node];
		int has = 0, free = nna->nr_spare;

		for (i = 0; i < NR_NODE_POOLS; i++) {
			struct slots_pool *p = node_pool(slots, node, i);
			const char *error = slots_pwq_error(p);

			if (error)
				return error;
			has += slots_running(p) + p->pwq->nr_granted;
			nr_granted += p->pwq->nr_granted;
			free += max(slots_free(p), 0);
		}
		if (nna->nr_spare < 0 || has + free != nna->nr_owned)
			return "a node's slots don't add up";
		if (!list_empty(&nna->pending_pwqs)) {
			if (!list_empty(&nna->open_pwqs))
				return "a pwq is open on a node that waits";
			if (free)
				return "a slot is spare on a node that waits";
			if (!nna->counted)
				return "a node that waits isn't counted";
			nr_waiting++;
		}
		nr_owned += nna->nr_owned;
		nr_free += free;
		nr_counted += nna->counted;
	}
	if (nr_waiting && nr_free && !slots_armed(slots))
		return "a slot is free elsewhere, and nobody is going to look";
	if (nr_counted != atomic_read(&slots->wq->nr_waiting))
		return "nr_waiting isn't the number of those that are counted";
	if (nr_owned != max_active + nr_owed)
		return "the nodes' slots don't add up";
	/* freezing leaves slots to what was queued before */
	if (nr_owed < 0 || (nr_owed && (nr_free || (nr_granted && max_active))))
		return "slots are owed, but could be given up";
	if (slots->started && slots_all_running(slots) + nr_granted > allowed)
		return "an item has started that may not";
	slots->started = false;
	return NULL;
}

static void expect_slots(struct slots *slots)
{
	const char *error = slots_error(slots);

	slots->nr_checks++;
	KUNIT_ASSERT_TRUE_MSG(slots->test, !error, "step %d: %s", slots->nr_checks, error);
}

/* start all that is on worklists, or find that there is no slot for it */
static void slots_start_all(struct slots *slots)
{
	struct slots_pool *p;
	bool again;

	do {
		again = false;
		for (p = slots->pools; p < slots->end; p++)
			while (!list_empty(&p->pool.worklist)) {
				slots->started |= slots_start(p);
				again = true;
			}
	} while (again);
}

/* queue and start items. Return: how many of the pool execute now */
static int slots_run(struct slots_pool *p, int nr)
{
	slots_queue(p, nr);
	slots_start_all(p->slots);
	expect_slots(p->slots);
	return slots_running(p);
}

/* end an item and start whatever may then. Return: how many of @p execute now */
static int slots_end_one(struct slots_pool *of, struct slots_pool *p)
{
	slots_end(of);
	return slots_run(p, 0);
}

static bool slots_tick(struct slots *slots)
{
	if (!timer_delete_sync(&slots->wq->slot_timer))
		return false;
	slots_set_waits(slots);
	wq_slot_timer_fn(&slots->wq->slot_timer);
	return true;
}

/* until nothing changes anymore unless an item ends or is queued, for which few ticks do */
static void slots_settle(struct slots *slots)
{
	int i = 0;

	do {
		slots_start_all(slots);
	} while (slots_tick(slots) && i++ < 10);
	expect_slots(slots);
}

static void slots_set_max_active(struct slots *slots, int max_active)
{
	guard(mutex)(&slots->wq->mutex);
	slots_set_waits(slots);
	if (max_active)
		slots->wq->saved_max_active = max_active;
	wq_set_nr_slots(slots->wq, max_active);
}

/* as the timer does before it passes on what is free */
static void slots_close_pwqs(struct slots *slots, int node)
{
	node_close_pwqs(slots->wq, slots->nodes[node]);
}

/* let no turn end for the time that it takes, or each at once */
static void slots_set_turns(struct slots *slots, u64 until)
{
	struct slots_pool *p;
	int node;

	/* not of those that haven't had one */
	for (p = slots->pools; p < slots->end; p++)
		if (p->pwq->keep_until)
			p->pwq->keep_until = until;
	for (node = 0; node <= NR_SLOT_NODES; node++)
		slots->nodes[node]->turn_until = until;
}

/* the pool of the only item that executes, which ends and lets another one start */
static int slots_next(struct slots *slots)
{
	struct slots_pool *p;

	for (p = slots->pools; p < slots->end; p++)
		if (slots_end(p)) {
			slots_start_all(slots);
			return p - slots->pools;
		}
	return -1;
}

/* everything gets its turn, and then has left nothing behind */
static void drain_slots(struct kunit *test, struct slots *slots)
{
	struct slots_pool *p;
	int nr;

	if (slots->wq->max_active < 3)
		slots_set_max_active(slots, 3);
	do {
		slots_settle(slots);
		nr = 0;
		for (p = slots->pools; p < slots->end; p++)
			nr += slots_end(p);
	} while (nr);
	/* it isn't armed anymore */
	wq_slot_timer_fn(&slots->wq->slot_timer);
	for (p = slots->pools; p < slots->end; p++) {
		KUNIT_EXPECT_EQ(test, p->pwq->nr_in_flight[0], 0);
		KUNIT_EXPECT_EQ(test, p->pwq->refcnt, 1);
		KUNIT_EXPECT_TRUE(test, list_empty(&p->pwq->inactive_works));
	}
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_waiting), 0);
}

static void drain_all_slots(struct kunit *test)
{
	struct slots *slots;

	for (slots = test->priv; slots && test->status == KUNIT_SUCCESS; slots = slots->next)
		drain_slots(test, slots);
}

/* something to do, which is more for one pool at each time. There are times with less to do */
static void slots_random_step(struct slots *slots, struct rnd_state *rnd, int step)
{
	static const int limits[] = { 1, 1, 2, 3, 5, 8, 16, 40, 100, WQ_MAX_ACTIVE, 0 };
	u32 what = prandom_u32_state(rnd) % 300, ends = step / 500 % 2 ? 105 : 85;
	struct slots_pool *p = &slots->pools[prandom_u32_state(rnd) % NR_SLOT_POOLS];
	u32 i = prandom_u32_state(rnd) % NR_SLOT_ITEMS;
	struct worker *worker;

	if (prandom_u32_state(rnd) % 2)
		p = &slots->pools[step / 200 % NR_SLOT_POOLS];

	if (what == 0) {
		/* often just what executes, or a little less */
		int nr = slots_all_running(slots) - i % 3;

		i %= 2 * ARRAY_SIZE(limits);
		slots_set_max_active(slots, i < ARRAY_SIZE(limits) ? limits[i] : max(nr, 0));
	} else if (what < 5) {
		slots_tick(slots);
	} else if (what < 25) {
		cancel_work(&p->items[i % 5]);
	} else if (what < 25 + ends) {
		worker = slots_executing(p, i) ?: slots_executing(p, 0);
		if (worker)
			slots->started |= slots_end_item(worker);
	} else if (what < 210) {
		slots->started |= slots_start(p);
	} else {
		slots_queue_item(p, &p->items[i % 5]);
	}
}

/* nothing waits while a slot is free anywhere */
static void expect_all_used(struct slots *slots)
{
	struct slots_pool *p;
	int nr_waiting = 0;

	slots_settle(slots);
	for (p = slots->pools; p < slots->end; p++)
		nr_waiting += !list_empty(&p->pwq->inactive_works);
	if (nr_waiting)
		KUNIT_ASSERT_GE(slots->test, slots_all_running(slots), slots->wq->max_active);
}

/*
 * Fails if after whatever has been done, more or fewer items than max_active run from then on,
 * or some wait though others could run.
 */
static void slots_add_up(struct kunit *test)
{
	int seed, step;

	for (seed = RANDOM_SEED; seed < RANDOM_SEED + 10; seed++) {
		struct slots *slots = new_slots(test, 4);
		struct rnd_state rnd;

		prandom_seed_state(&rnd, seed);
		for (step = 0; step < 4000; step++) {
			slots_random_step(slots, &rnd, step);
			expect_slots(slots);
			if (step % 1000 == 999)
				expect_all_used(slots);
		}
	}
}

/* fails if max_active is split among nodes in other shares, or raising it is of no use */
static void slots_of_no_node_are_shared_out(struct kunit *test)
{
	int share = DIV_ROUND_UP(12, nr_shares());
	int raised = DIV_ROUND_UP(20, nr_shares());
	struct slots *slots = new_slots(test, 12);

	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 12);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 0, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), share);
	slots_set_max_active(slots, 20);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 20 - share);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, NR_SLOT_NODES, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 20 - share);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 0, 1), 15),
			min(15, share - 1 + raised));

	/* before what another node has, which it keeps */
	slots = new_slots(test, 8);
	slots_own(slots, 0, 4);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 4);
}

/* fails if a node takes slots from one with as few, or waits for a tick though one has more */
static void slots_are_taken_from_nodes_with_more(struct kunit *test)
{
	int share = DIV_ROUND_UP(6, nr_shares());
	struct slots *slots = new_slots(test, 6);

	slots_own(slots, 0, 4);
	slots_own(slots, 1, 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 2), 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 1), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 1), 2 + min(4, share));

	slots = new_slots(test, 4);
	slots_own(slots, 0, 2);
	slots_own(slots, 1, 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 3), 2);
	KUNIT_EXPECT_TRUE(test, slots_tick(slots));
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 0), 3);

	/* one that has any doesn't look if the timer does soon, and one that has none does */
	slots = new_slots(test, 6);
	slots_own(slots, 0, 5);
	slots_own(slots, 1, 1);
	mod_timer(&slots->wq->slot_timer, jiffies + 1);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 2), 1);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 2, 0), 1), 1);
}

/* fails if a slot goes to a node that should not have it yet, or one is passed over */
static void next_node_has_less(struct kunit *test)
{
	static const struct {
		bool	waits;		/* does the node that has the slot? */
		bool	turn;		/* is its turn not over? */
		bool	any;		/* may the slot go to any other one? */
		int	share;		/* slots of each node if all have as many */
		int	here, there;	/* slots of both nodes */
		bool	moves;
		bool	stalled;	/* has the other one waited for long? */
	} slot[] = {
		{ false, false, false, 1, 1, 0, true },
		{ false, false, false, 1, 2, 1, true },
		{ false, false, false, 2, 2, 2, false },
		{ false, false, false, 2, 1, 2, false },
		{ false, false, true,  2, 2, 2, true },
		{ false, false, true,  2, 1, 2, true },
		{ false, true,  false, 2, 2, 1, true },
		{ true,  false, false, 1, 1, 0, true },
		{ true,  false, false, 1, 2, 1, false },
		{ true,  false, false, 3, 3, 1, true },
		{ true,  false, true,  2, 2, 2, false },
		{ true,  true,  false, 1, 1, 0, false },
		{ true,  true,  true,  3, 3, 1, false },
		{ true,  true,  false, 2, 3, 1, true },
		{ true,  true,  true,  1, 2, 1, false },
		{ true,  true,  false, 1, 2, 0, true },
		{ false, false, false, 4, 1, 7, true,  true },
		{ true,  false, false, 2, 2, 2, true,  true },
		{ true,  true,  false, 2, 2, 2, false, true },
		{ true,  true,  false, 1, 2, 2, false, true },
	};
	struct slots *slots = new_slots(test, 1);
	struct workqueue_struct *wq = slots->wq;
	struct wq_node_nr_active *here = slots->nodes[1], *there, *next;
	struct list_head *waits_here = &node_pool(slots, 1, 0)->pwq->pending_node, *waits_there;
	int node, i;

	/* as if some waited */
	for (i = 0; i < ARRAY_SIZE(slot) * (NR_SLOT_NODES + 1); i++) {
		typeof(slot[0]) *s = &slot[i / (NR_SLOT_NODES + 1)];

		node = i % (NR_SLOT_NODES + 1);
		there = slots->nodes[node];
		if (there == here)
			continue;
		waits_there = &node_pool(slots, node, 0)->pwq->pending_node;
		raw_spin_lock_irq(&here->lock);
		list_add(waits_there, &there->pending_pwqs);
		if (s->waits)
			list_add(waits_here, &here->pending_pwqs);
		here->counted = s->waits;
		atomic_set(&wq->nr_waiting, 1 + s->waits);
		here->turn_until = s->turn ? U64_MAX : 0;
		wq->max_active = s->share * nr_shares();
		here->nr_owned = s->here;
		there->nr_owned = s->there;
		slots->stalled[node] = s->stalled;
		slots_set_waits(slots);
		next = node_next_waiting(wq, here, s->any);
		list_del_init(waits_there);
		list_del_init(waits_here);
		there->nr_owned = 0;
		/* its turn has been set */
		KUNIT_EXPECT_TRUE(test, here->turn_until);
		raw_spin_unlock_irq(&here->lock);
		KUNIT_EXPECT_PTR_EQ_MSG(test, next, s->moves ? there : NULL, "slot %d, node %d",
					i / (NR_SLOT_NODES + 1), node);
	}
	/* there is nothing to drain */
	test->priv = NULL;
}

/* fails if a node that waits is left out, or waits much longer than a turn */
static void nodes_take_turns(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	u64 before, after, until;
	int node, i, j;

	slots_own(slots, 0, 1);
	for (node = 0; node <= NR_SLOT_NODES; node++)
		slots_run(node_pool(slots, node, 0), 20);

	/* it stays as long as the turn lasts, and then moves on from node to node */
	slots_set_turns(slots, U64_MAX);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, slots_next(slots), 0);
		KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 1);
	}
	for (node = 0, i = 0; i < 3 * (NR_SLOT_NODES + 1); i++) {
		slots_set_turns(slots, 0);
		/* clocks of CPUs may differ */
		migrate_disable();
		before = local_clock();
		KUNIT_EXPECT_EQ(test, slots_next(slots), node * NR_NODE_POOLS);
		after = local_clock();
		migrate_enable();
		/* it moves on again if a virtual CPU stands still for a turn */
		for (j = 0; j <= NR_SLOT_NODES; j++) {
			node = (node + 1) % (NR_SLOT_NODES + 1);
			if (after - before < 200 * NSEC_PER_USEC || slots_owned(slots, node))
				break;
		}
		KUNIT_EXPECT_EQ(test, slots_owned(slots, node), 1);
		until = slots->nodes[node]->turn_until;
		KUNIT_EXPECT_GE(test, until, before + 200 * NSEC_PER_USEC);
		KUNIT_EXPECT_LE(test, until, after + 200 * NSEC_PER_USEC);
		expect_slots(slots);
	}

	/* from those that have more, until they'd have less */
	slots = new_slots(test, 6);
	slots_own(slots, 0, 5);
	slots_own(slots, 1, 1);
	slots_run(node_pool(slots, 0, 0), 20);
	slots_run(node_pool(slots, 1, 0), 20);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), max(5 - i, 3));
		slots_set_turns(slots, 0);
		slots->nodes[1]->turn_until = U64_MAX;
		slots_end_one(node_pool(slots, 0, 0), node_pool(slots, 0, 0));
		KUNIT_EXPECT_EQ(test, slots_all_running(slots), 6);
		/* that of one that had any isn't set anew */
		KUNIT_EXPECT_EQ(test, slots->nodes[1]->turn_until, U64_MAX);
	}

	/* past one whose turn is over, to one that has none */
	slots = new_slots(test, 5);
	slots_own(slots, 0, 3);
	slots_own(slots, 1, 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 0, 0), 3), 3);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 20), 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 2, 0), 1), 0);
	slots_set_turns(slots, 0);
	KUNIT_EXPECT_EQ(test, slots_end_one(node_pool(slots, 0, 0), node_pool(slots, 2, 0)), 1);
}

/*
 * Fails if a node whose items depend on one that waits for a slot never gets that slot from
 * another node, which owns fewer or as many and is always busy.
 */
static void stalled_node_gets_slot(struct kunit *test)
{
	struct slots *slots = new_slots(test, 8);
	struct slots_pool *busy = node_pool(slots, 0, 0), *p = node_pool(slots, 1, 0);
	unsigned long before = jiffies;
	int i, j;

	slots_own(slots, 0, 1);
	slots_own(slots, 1, 7);
	slots_run(busy, 1);
	slots_queue(p, 8);
	while (!list_empty(&p->pool.worklist))
		slots_start(p);
	/* since when it waits, and later when it was passed a slot */
	KUNIT_EXPECT_TRUE(test, time_in_range(slots->nodes[1]->served_at, before, jiffies));
	/* even if it has nothing that waits for a moment */
	KUNIT_EXPECT_TRUE(test, cancel_work(&p->items[7]));
	slots_queue_item(p, &p->items[7]);
	slots_start(p);
	KUNIT_EXPECT_FALSE(test, time_in_range(slots->nodes[1]->served_at, before, jiffies));
	for (i = 0; i < 3; i++) {
		slots->stalled[1] = i == 2;
		slots_tick(slots);
		/* it queues itself again */
		slots_queue_item(busy, &busy->items[0]);
		slots_start(busy);
		slots_end(busy);
		KUNIT_EXPECT_EQ(test, slots_running(busy), i < 2);
		if (i == 2)
			KUNIT_EXPECT_TRUE(test, time_in_range(slots->nodes[1]->served_at, before,
							      jiffies));
		KUNIT_EXPECT_EQ(test, slots_run(p, 0), 7 + (i == 2));
	}

	/* also from a node that waits itself, to which it doesn't go back at once */
	slots = new_slots(test, 4);
	slots_own(slots, 0, 2);
	slots_own(slots, 1, 2);
	slots_run(node_pool(slots, 0, 0), 20);
	slots_run(node_pool(slots, 1, 0), 20);
	for (i = 0; i < 2; i++) {
		slots_set_turns(slots, 0);
		slots->stalled[1] = true;
		slots_end_one(node_pool(slots, 0, 0), node_pool(slots, 0, 0));
		KUNIT_EXPECT_EQ(test, slots_owned(slots, 1), 3 + i);
		KUNIT_EXPECT_EQ(test, slots_running(node_pool(slots, 1, 0)), 3 + i);
	}

	/* and from one whose items take long, too */
	slots = new_slots(test, 1);
	slots_own(slots, 0, 1);
	for (i = 0; i < 2; i++) {
		slots_run(node_pool(slots, i, 0), 10);
		slots->stalled[i] = true;
	}
	for (i = 0; i < 4; i++) {
		slots_set_turns(slots, 0);
		KUNIT_EXPECT_EQ(test, slots_next(slots), i % 2 * NR_NODE_POOLS);
		expect_slots(slots);
	}

	/* of two, the one that has waited longer */
	for (i = 1; i <= 2; i++) {
		slots = new_slots(test, 3);
		for (j = 0; j < 3; j++)
			slots_own(slots, j, 1);
		for (j = 0; j < 3; j++) {
			slots_run(node_pool(slots, j, 0), 2);
			slots->stalled[j] = j == i ? 2 : 1;
		}
		slots_set_turns(slots, 0);
		slots_end(node_pool(slots, 0, 0));
		KUNIT_EXPECT_EQ(test, slots_owned(slots, i), 2);
	}
}

/* how many are before @pwq in line on its node, -1 if it isn't in line */
static int slots_before(struct pool_workqueue *pwq)
{
	struct pool_workqueue *other;
	int nr = 0;

	list_for_each_entry(other, &pwq_nna(pwq)->pending_pwqs, pending_node) {
		if (other == pwq)
			return nr;
		nr++;
	}
	return -1;
}

/* two pools of a node with one slot, which the first one uses, so that the second one waits */
static struct slots_pool *new_waiting_pool(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);

	slots_own(slots, 0, 1);
	slots_run(&slots->pools[0], 1);
	slots_run(&slots->pools[1], 1);
	return slots->pools;
}

/* fails if an item that is queued anew each time waits for ever, or overtakes the others */
static void requeued_item_keeps_its_place(struct kunit *test)
{
	struct pool_workqueue *others = kunit_kcalloc(test, 17, sizeof(*others), GFP_KERNEL);
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = slots->pools;
	unsigned long since, before = jiffies;
	struct wq_node_nr_active *nna;
	int i, j;

	/* in front of those that have waited less long */
	KUNIT_ASSERT_NOT_NULL(test, others);
	slots_own(slots, 0, 1);
	for (i = 0; i < 3; i++)
		slots_run(&p[i], i ? 1 : 2);
	since = jiffies;
	KUNIT_EXPECT_TRUE(test, time_in_range(p[1].pwq->waits_since, before, since));
	p[0].pwq->waits_since = since;
	p[2].pwq->waits_since = since + 2;
	for (i = 0; i < 6; i++) {
		p[1].pwq->waits_since = since + i % 3 * 2 - 1;
		KUNIT_EXPECT_TRUE(test, cancel_work(&p[1].items[0]));
		slots_run(&p[1], 1);
		KUNIT_EXPECT_EQ(test, slots_before(p[1].pwq), i % 3);
	}

	/* as if it had begun to wait when it was passed a slot while others waited */
	before = jiffies;
	p[0].pwq->waits_since = before - 1;
	KUNIT_EXPECT_EQ(test, slots_end_one(&p[0], &p[0]), 1);
	KUNIT_EXPECT_EQ(test, slots_end_one(&p[0], &p[2]), 1);
	KUNIT_EXPECT_TRUE(test, time_in_range(p[0].pwq->waits_since, before, jiffies));

	/* but not after its item was started */
	slots_run(&p[0], 2);
	KUNIT_EXPECT_EQ(test, slots_end_one(&p[2], &p[1]), 1);
	p[1].pwq->waits_since = before - 1;
	slots_run(&p[1], 2);
	KUNIT_EXPECT_EQ(test, slots_before(p[1].pwq), 1);

	/* if it's on the worklist at first, as nothing else waits then */
	p = new_waiting_pool(test);
	slots = p->slots;
	p[1].pwq->waits_since--;
	timer_delete_sync(&slots->wq->slot_timer);
	KUNIT_EXPECT_TRUE(test, cancel_work(&p[1].items[0]));
	/* the timer is going to see that the node doesn't wait anymore */
	KUNIT_EXPECT_TRUE(test, slots_armed(slots));
	for (i = 2; i > 0; i--)
		slots_queue(&p[i], 1);
	for (i = 2; i > 0; i--)
		KUNIT_EXPECT_FALSE(test, slots_start(&p[i]));
	KUNIT_EXPECT_EQ(test, slots_before(p[1].pwq), 0);

	/* unless it finds a slot then */
	p = new_waiting_pool(test);
	KUNIT_EXPECT_TRUE(test, cancel_work(&p[1].items[0]));
	slots_end(&p[0]);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 1), 1);
	slots_run(&p[0], 1);
	p[1].pwq->waits_since = p[0].pwq->waits_since - 1;
	slots_run(&p[1], 2);
	KUNIT_EXPECT_EQ(test, slots_before(p[1].pwq), 1);

	/* and unless it comes after many others */
	slots = new_slots(test, 1);
	p = slots->pools;
	nna = slots->nodes[0];
	for (i = 15; i <= 16; i++) {
		for (j = 0; j <= i; j++) {
			others[j].waits_since = since + (j == i ? 1 : -1);
			list_add_tail(&others[j].pending_node, &nna->pending_pwqs);
		}
		p->pwq->waits_since = since;
		p->pwq->keeps_place = true;
		raw_spin_lock_irq(&p->pool.lock);
		raw_spin_lock(&nna->lock);
		pwq_wait_in_line(p->pwq, nna);
		KUNIT_EXPECT_EQ(test, slots_before(p->pwq), i == 15 ? 15 : 17);
		INIT_LIST_HEAD(&nna->pending_pwqs);
		INIT_LIST_HEAD(&p->pwq->pending_node);
		raw_spin_unlock(&nna->lock);
		raw_spin_unlock_irq(&p->pool.lock);
	}
}

/* fails if a pwq with no slot granted is passed over, or is looked for among too many others */
static void next_pwq_has_no_slot(struct kunit *test)
{
	struct pool_workqueue *pwqs = kunit_kcalloc(test, 17, sizeof(*pwqs), GFP_KERNEL), *next[3];
	struct slots *slots = new_slots(test, 1);
	struct wq_node_nr_active *nna = slots->nodes[0];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, pwqs);
	raw_spin_lock_irq(&nna->lock);
	for (i = 0; i < 17; i++) {
		pwqs[i].nr_granted = 1;
		list_add_tail(&pwqs[i].pending_node, &nna->pending_pwqs);
	}
	for (i = 0; i < ARRAY_SIZE(next); i++) {
		next[i] = node_next_pending(nna);
		pwqs[16 - i].nr_granted = 0;
	}
	INIT_LIST_HEAD(&nna->pending_pwqs);
	raw_spin_unlock_irq(&nna->lock);
	KUNIT_EXPECT_PTR_EQ(test, next[0], &pwqs[0]);
	KUNIT_EXPECT_PTR_EQ(test, next[1], &pwqs[0]);
	KUNIT_EXPECT_PTR_EQ(test, next[2], &pwqs[15]);
}

/*
 * Fails if an item that queues itself again each time that it executes takes the slot that is
 * reserved for another one.
 */
static void deferred_item_waits_for_others(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = slots->pools;

	slots_run(p, 1);
	slots_queue_item(p, &p->items[0]);
	slots_queue_item(p, &p->items[1]);
	slots_start_all(slots);
	KUNIT_EXPECT_PTR_EQ(test, p->workers[0].current_work, &p->items[0]);
	slots_end(p);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 1);
	KUNIT_EXPECT_PTR_EQ(test, slots_executing(p, 0)->current_work, &p->items[1]);
	/* and then has its turn */
	KUNIT_EXPECT_EQ(test, slots_end_one(p, p), 1);
	KUNIT_EXPECT_PTR_EQ(test, slots_executing(p, 0)->current_work, &p->items[0]);
}

/* fails if new slots aren't passed on at once, or never if whoever raises max_active can't */
static void raised_limit_is_passed_on(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);

	slots_run(node_pool(slots, 0, 0), 1);
	slots_settle(slots);
	slots_set_max_active(slots, 2);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	slots_run(node_pool(slots, 1, 0), 3);
	timer_delete_sync(&slots->wq->slot_timer);
	slots_set_max_active(slots, 3);
	KUNIT_EXPECT_TRUE(test, slots_armed(slots));
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 0), 2);
}

/* fails if pools keep a slot much longer than a turn while others wait, or for one item only */
static void slots_are_kept_for_a_turn(struct kunit *test)
{
	/* the first item of all has taken its slot and isn't part of a turn */
	static const int turns[][2] = { { 0, 1 + 17 }, { 1, 17 }, { 0, 12 }, { 1, 13 } };
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = slots->pools;
	int i, j;

	slots_own(slots, 0, 1);
	for (i = 0; i < 2; i++)
		p[i].pwq->nr_keep = 7;	/* what is left of turns that are over */
	for (i = 0; i < 2; i++)
		slots_run(&p[i], NR_SLOT_ITEMS);
	for (i = 0; i < ARRAY_SIZE(turns); i++) {
		for (j = 0; j < turns[i][1]; j++) {
			slots_set_turns(slots, U64_MAX);
			KUNIT_ASSERT_EQ_MSG(test, slots_next(slots), turns[i][0],
					    "turn %d, item %d", i, j);
		}
	}
	KUNIT_EXPECT_EQ(test, slots_next(slots), -1);

	/* the time of a turn is over, or max_active is set, with each item */
	for (j = 0; j < 2; j++) {
		slots_run(&p[0], 1);
		slots_run(&p[1], 10);
		slots_run(&p[0], 9);
		for (i = 0; i < 20; i++) {
			slots_set_turns(slots, j ? U64_MAX : local_clock() - 1);
			if (j) {
				slots_set_max_active(slots, 0);
				slots_set_max_active(slots, 1);
			}
			KUNIT_EXPECT_EQ(test, slots_next(slots), i % 2);
		}
		expect_slots(slots);
	}

	/* for one that hasn't found that there's no slot as well */
	slots = new_slots(test, 1);
	p = slots->pools;
	slots_own(slots, 0, 1);
	slots_queue(&p[0], 2);
	KUNIT_EXPECT_TRUE(test, slots_start(&p[0]));
	slots_queue(&p[1], 1);
	KUNIT_EXPECT_FALSE(test, slots_start(&p[1]));
	p[0].pwq->nr_keep = 5;
	p[0].pwq->keep_until = U64_MAX;
	slots_end(&p[0]);
	KUNIT_EXPECT_EQ(test, p[0].pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, p[0].pwq->nr_keep, 4);
}

/* fails if turns last too long or too short, or end when max_active is raised */
static void turns_take_their_time(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct slots_pool *p = node_pool(slots, 0, 0);
	u64 before, after;

	slots_own(slots, 0, 4);
	slots_run(p, NR_SLOT_ITEMS);
	migrate_disable();
	before = local_clock();
	slots_end(p);
	after = local_clock();
	migrate_enable();
	KUNIT_EXPECT_GE(test, p->pwq->keep_until, before + 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_LE(test, p->pwq->keep_until, after + 100 * NSEC_PER_USEC);

	/* as many more for each slot that it has */
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 4 * 16);
	slots_set_max_active(slots, 5);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 5);
	slots_set_max_active(slots, 4);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 0);

	/* those that haven't been used yet as well: two of three, before the last is passed */
	slots = new_slots(test, 1);
	p = node_pool(slots, 0, 0);
	slots_own(slots, 0, 1);
	slots_run(node_pool(slots, 0, 1), 1);
	slots_run(p, 5);
	slots_set_max_active(slots, 4);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 3);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 2 * 16);
}

/* so that it is open, and not the last one in line */
static void slots_open_twice(struct slots_pool *p, int nr, int more)
{
	struct wq_node_nr_active *nna = pwq_nna(p->pwq);

	guard(raw_spinlock_irq)(&p->pool.lock);
	guard(raw_spinlock)(&nna->lock);
	pwq_open(p->pwq, nr);
	pwq_open(p->pwq, more);
}

/* the pwqs of more CPUs of the node, open and without free slots, before any other one */
static void slots_open_more(struct slots_pool *p, int nr)
{
	struct wq_node_nr_active *nna = pwq_nna(p->pwq);
	struct pool_workqueue *pwq;

	while (nr--) {
		pwq = kmem_cache_alloc(pwq_cache, GFP_KERNEL | __GFP_NOFAIL);
		init_pwq(pwq, p->slots->wq, &p->pool);
		list_add(&pwq->open_node, &nna->open_pwqs);
		atomic_set(&pwq->nr_free, 0);
		list_add(&pwq->pwqs_node, &p->slots->more);
	}
}

/* fails if pools of a node take locks for each item, as one holds what all of them need */
static void slots_are_shared(struct kunit *test)
{
	struct slots *slots = new_slots(test, 8 * 8 * 8);
	struct slots_pool *p = slots->pools;
	int i, nr;

	/* what is spare */
	slots_own(slots, 0, 8 * 8 * 8);
	for (i = 0; i < NR_NODE_POOLS; i++) {
		nr = slots->nodes[0]->nr_spare;
		slots_run(&p[i], 1);
		KUNIT_EXPECT_EQ(test, slots_free(&p[i]), nr / 8 - 1);
	}

	/* what two of the pools hold: half of what the one had that opened first, and the other */
	slots = new_slots(test, 2 * 11);
	p = slots->pools;
	slots_own(slots, 0, 2 * 11);
	slots->nodes[0]->nr_spare = 0;
	slots_open_twice(&p[0], 5, 6);
	slots_open_twice(&p[1], 5, 6);
	KUNIT_EXPECT_EQ(test, slots_run(&p[2], 1), 1);
	expect_slots_free(p, 5, 11, 5);
	KUNIT_EXPECT_EQ(test, slots_run(&p[2], 6), 7);
	expect_slots_free(p, 5, 5, 5);

	/* one that has used all that it had stays open */
	slots_run(&p[0], 5);
	slots_run(&p[2], 6);
	expect_slots_free(p, 0, 2, 2);

	/* as does one that is behind more of these than are skipped */
	slots_open_more(p, 16 + 2);
	slots_run(&p[0], 1);
	expect_slots_free(p, 0, 2, 1);
}

/* as the first worker of a node whose work item has to wait */
static void slots_search(struct slots_pool *p)
{
	scoped_guard(preempt)
		node_search_slots(p->pwq->wq, pwq_nna(p->pwq));
	node_pass_spare(p->pwq->wq, &p->pool, pwq_nna(p->pwq));
}

/* fails if slots of a node's own pools are left free while it waits, or takes others' slots */
static void slots_left_open_are_found(struct kunit *test)
{
	struct slots *slots = new_slots(test, 3);
	struct slots_pool *p = node_pool(slots, 0, 0), *waiting = node_pool(slots, 0, 1);
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES], *nna = slots->nodes[0];

	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	/* as if a search had skipped the pwq that holds the other one */
	nna->nr_spare--;
	none->nr_spare--;
	slots_queue(waiting, 1);
	KUNIT_EXPECT_FALSE(test, slots_start(waiting));
	none->nr_spare++;
	slots_open_twice(p, 0, 1);
	slots_search(waiting);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 1);
	KUNIT_EXPECT_EQ(test, slots_run(waiting, 0), 1);

	/* an item goes to the worklist of one that is open, as it may find a slot there */
	KUNIT_EXPECT_EQ(test, slots_run(waiting, 3), 2);
	slots_open_twice(p, 0, 0);
	slots_queue(p, 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 1);
	slots_close_pwqs(slots, 0);
	slots_run(p, 0);

	/* the timer goes on where there are more than can be closed at a time */
	slots_open_more(p, num_possible_cpus() + 16);
	timer_delete_sync(&slots->wq->slot_timer);
	wq_slot_timer_fn(&slots->wq->slot_timer);
	KUNIT_EXPECT_TRUE(test, slots_armed(slots));
	KUNIT_EXPECT_TRUE(test, slots_tick(slots));
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	expect_slots(slots);
}

/* fails if lowering max_active lets fewer run than it could, or more start */
static void slots_are_given_up(struct kunit *test)
{
	struct slots *slots = new_slots(test, 24);
	struct slots_pool *p = node_pool(slots, 0, 0), *waiting = node_pool(slots, 0, 1);
	struct wq_node_nr_active *nna;

	/* 4 execute, and others are spare on two nodes or held by a pwq */
	slots_own(slots, 0, 16);
	slots_own(slots, 1, 8);
	KUNIT_EXPECT_EQ(test, slots_run(p, 6), 6);
	slots_end(p);
	slots_end(p);
	slots_set_max_active(slots, 4);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 0);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 4);

	/* one is granted, but not used yet */
	KUNIT_EXPECT_EQ(test, slots_run(waiting, 2), 0);
	slots_end(p);
	KUNIT_EXPECT_EQ(test, waiting->pwq->nr_granted, 1);
	slots_set_max_active(slots, 3);
	KUNIT_EXPECT_EQ(test, waiting->pwq->nr_granted, 0);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 0);
	KUNIT_EXPECT_FALSE(test, slots_start(waiting));

	/* the rest is owed until items end, or it's raised again */
	slots_set_max_active(slots, 0);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 3);
	raw_spin_lock_irq(&waiting->pool.lock);
	KUNIT_EXPECT_FALSE(test, pwq_accept_slot(waiting->pwq));
	raw_spin_unlock_irq(&waiting->pool.lock);
	slots_end(p);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 1);
	slots_end(p);
	slots_settle(slots);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 0);
	KUNIT_EXPECT_EQ(test, slots_running(waiting), 0);
	KUNIT_EXPECT_EQ(test, slots_end_one(p, waiting), 1);

	/* as if max_active were lowered by one of two that are about to be passed on */
	slots = new_slots(test, 3);
	waiting = node_pool(slots, 0, 1);
	nna = slots->nodes[0];
	slots_own(slots, 0, 3);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 0, 0), 1), 1);
	nna->nr_spare -= 2;
	slots_queue(waiting, 2);
	slots_start_all(slots);
	nna->nr_spare += 2;
	slots->wq->max_active--;
	atomic_inc(&slots->wq->nr_owed);
	node_pass_spare(slots->wq, &waiting->pool, nna);
	expect_slots(slots);
}

/* fails if one more than max_active runs after that was lowered, where nothing waits */
static void owed_slots_are_not_left(struct kunit *test)
{
	struct slots *slots = new_slots(test, 2);
	struct slots_pool *p = node_pool(slots, 0, 0);

	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(p, 2), 2);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 1);
	KUNIT_EXPECT_EQ(test, slots_end_one(p, p), 1);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 0);
	KUNIT_EXPECT_EQ(test, slots_end_one(p, p), 0);
}

/* fails if cancelling an item that is about to get a slot costs one, or hangs those behind it */
static void slots_are_refused(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = slots->pools, *gone = &p[1], *next = &p[2];
	struct wq_node_nr_active *nna = slots->nodes[0];

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(next, 1), 0);

	/* as if its items were cancelled when the slot was on its way: the next one gets it */
	raw_spin_lock_irq(&nna->lock);
	list_add(&gone->pwq->pending_node, &nna->pending_pwqs);
	raw_spin_unlock_irq(&nna->lock);
	slots_end(p);
	raw_spin_lock_irq(&gone->pool.lock);
	pwq_update_pending(gone->pwq);
	raw_spin_unlock_irq(&gone->pool.lock);
	KUNIT_EXPECT_EQ(test, slots_run(next, 0), 1);
}

/* fails if items wait though only those of another workqueue on their pool find no slot */
static void slots_of_others_are_used(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1), *others = new_slots(test, 1);
	struct slots_pool *p = node_pool(slots, 0, 0), *other = node_pool(others, 0, 0);
	struct worker *worker;

	other->pwq->pool = &p->pool;
	slots_own(slots, 0, 1);
	slots_own(others, 0, 1);
	slots_queue_item(p, &p->items[0]);
	KUNIT_EXPECT_TRUE(test, slots_start(p));
	slots_queue_item(p, &p->items[1]);
	slots_queue_item(other, &other->items[0]);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_listed, 1);
	KUNIT_ASSERT_TRUE(test, slots_start(p));
	worker = &p->workers[1];

	/* one that waits as well, but whose first item has got a slot */
	slots_queue_item(other, &other->items[1]);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	slots_queue_item(other, &other->items[2]);
	KUNIT_EXPECT_TRUE(test, cancel_work(&p->items[1]));
	KUNIT_ASSERT_TRUE(test, list_empty(&p->pwq->pending_node));
	slots_queue_item(p, &p->items[1]);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 1);
	slots_end_item(worker);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_granted, 1);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_listed, 1);
	KUNIT_EXPECT_TRUE(test, slots_start(p));
	while (slots_end(p))
		while (slots_start(p))
			;
	expect_slots(slots);
	expect_slots(others);
}

/* fails if pools that come late take slots away that are on their way to one that waits */
static void slots_are_not_taken_on_their_way(struct kunit *test)
{
	struct slots *slots = new_slots(test, 2);
	struct slots_pool *waiting = node_pool(slots, 0, 1), *other = node_pool(slots, 0, 2);
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES], *nna = slots->nodes[0];
	struct slots_pool *there = node_pool(slots, 1, 0);

	/* as if a search, or who raises max_active, had one in hand when others look */
	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 0, 0), 1), 1);
	slots_queue(node_pool(slots, 0, 0), 1);
	slots_queue(other, 1);
	slots_queue(waiting, 1);
	nna->nr_spare--;
	KUNIT_EXPECT_FALSE(test, slots_start(waiting));
	none->nr_owned++;
	none->nr_spare++;
	slots->wq->max_active++;
	KUNIT_EXPECT_FALSE(test, slots_start(other));
	nna->nr_spare++;
	KUNIT_EXPECT_FALSE(test, slots_start(node_pool(slots, 0, 0)));
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 1);
	none->nr_owned--;
	none->nr_spare--;
	slots->wq->max_active--;
	slots_queue(there, 1);
	KUNIT_EXPECT_FALSE(test, slots_start(there));
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 2);
	/* a node that has no more than its share keeps it for a turn */
	slots_set_turns(slots, U64_MAX);
	slots->wq->max_active = 2 * nr_shares();
	node_pass_spare(slots->wq, &other->pool, nna);
	slots->wq->max_active = 2;
	KUNIT_EXPECT_EQ(test, slots_run(waiting, 0), 1);
}

/*
 * Fails if slots stay free while another node waits, as a pool has taken more than it needs in
 * between.
 */
static void slots_are_not_left_on_their_way(struct kunit *test)
{
	struct slots *slots = new_slots(test, 2 * 16);
	struct slots_pool *p = node_pool(slots, 0, 0), *there = node_pool(slots, 1, 0);

	slots_own(slots, 0, 16);
	slots_own(slots, 1, 16);
	KUNIT_EXPECT_EQ(test, slots_run(p, 16), 16);
	KUNIT_EXPECT_EQ(test, slots_run(there, NR_SLOT_ITEMS), 16);
	slots_run(node_pool(slots, 1, 1), 1);
	slots_settle(slots);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	while (slots_end(p))
		;
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 16);

	/* the timer has collected them, and passes on what is left then */
	timer_delete_sync(&slots->wq->slot_timer);
	slots_close_pwqs(slots, 0);
	slots_queue(p, 1);
	slots_start_all(slots);
	node_pass_spare(slots->wq, &p->pool, slots->nodes[0]);
	slots_start_all(slots);
	expect_slots(slots);
}

/* fails if an idle system has a timer that runs, or free slots wait for longer than a tick */
static void slot_timer_runs_within_a_tick(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct slots_pool *p = node_pool(slots, 0, 0);
	unsigned long before, after, expires;
	struct timer_list *timer;

	/* nothing waits, and it leaves alone what is open */
	slots_own(slots, 0, 4);
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	slots_close_pwqs(slots, 0);
	slots_end(p);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	wq_slot_timer_fn(&slots->wq->slot_timer);
	KUNIT_EXPECT_EQ(test, slots_free(p), 1);

	/* a node has waited, and has found enough before the timer runs */
	slots = new_slots(test, 4);
	p = node_pool(slots, 0, 0);
	timer = &slots->wq->slot_timer;
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	KUNIT_EXPECT_TRUE(test, timer_delete_sync(timer));
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_waiting), 1);
	slots_close_pwqs(slots, 0);
	slots_end(p);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);

	/* within a tick, whoever arms it again */
	local_irq_disable();
	before = jiffies;
	wq_arm_slot_timer(slots->wq);
	expires = timer->expires;
	after = jiffies;
	local_irq_enable();
	/* a timer runs at the first tick after it expires */
	KUNIT_EXPECT_TRUE(test, time_in_range(expires, before, after));
	expires = jiffies + 10 * HZ;
	mod_timer(timer, expires);
	wq_arm_slot_timer(slots->wq);
	KUNIT_EXPECT_EQ(test, timer->expires, expires);
}

/* fails if slots pile up in a pool that gets no worker for them while another one waits */
static void slots_do_not_pile_up(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct slots_pool *stuck = node_pool(slots, 0, 1), *other = node_pool(slots, 0, 2);
	int i;

	slots_own(slots, 0, 4);
	KUNIT_EXPECT_EQ(test, slots_run(p, 4), 4);
	KUNIT_EXPECT_EQ(test, slots_run(stuck, 4), 0);
	KUNIT_EXPECT_EQ(test, slots_run(other, 4), 0);
	for (i = 0; i < 4; i++) {
		slots_end(p);
		slots_start(other);
	}
	KUNIT_EXPECT_EQ(test, stuck->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, slots_running(other), 3);
	expect_slots(slots);
}

/* fails if waiting items keep workers busy one by one, or too many are moved under a lock */
static void slots_are_not_there_for_many(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct work_struct *work;
	int i = 0;

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	slots_queue(p, 20);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&p->pwq->inactive_works), 1 + 16);
	list_for_each_entry(work, &p->pwq->inactive_works, entry)
		KUNIT_EXPECT_PTR_EQ(test, work, &p->items[++i]);
	/* those that are queued from now on aren't listed, on other pools of the node neither */
	slots_queue(p, 1);
	slots_queue(node_pool(slots, 0, 1), 1);
	slots_queue(node_pool(slots, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 3);
	KUNIT_EXPECT_EQ(test, node_pool(slots, 0, 1)->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, node_pool(slots, 1, 0)->pwq->nr_listed, 1);
	/* those that are listed yet have no slots, and one of them gets the next */
	slots_end(p);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 16);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 3);
	expect_slots(slots);
}

/* two walks along a worklist: of the mayday timer and of the rescuer of another workqueue */
struct walks {
	struct worker_pool	*pool;
	struct pool_workqueue	*rescued;
	int			nr_pauses[2];	/* that the other CPU has seen */
	int			nr_wrong;	/* of those, where none should be */
	bool			taken;		/* since the last walk began */
	bool			end;
};

/* in each pause, queue the next work item anew, and in every seventh come across the cursor */
static void watch_walks(void *arg)
{
	struct list_head *seen = NULL;
	struct walks *walks = arg;
	struct worker worker = { .pool = walks->pool };

	while (!READ_ONCE(walks->end)) {
		struct pool_workqueue *pwq;
		struct work_struct *work;
		bool may = false;
		int nr = 0;

		guard(raw_spinlock_irq)(&walks->pool->lock);
		list_for_each_entry(work, &walks->pool->worklist, entry) {
			if (work->func == mayday_cursor_func)
				break;
			may = ++nr >= WORKLIST_BATCH &&
			      !(*work_data_bits(work) & WORK_STRUCT_LINKED);
			if (may)
				nr = 0;
		}
		if (list_entry_is_head(work, &walks->pool->worklist, entry)) {
			seen = NULL;
			continue;
		}
		if (seen == work->entry.prev)
			continue;
		seen = work->entry.prev;
		pwq = get_work_pwq(work);
		walks->nr_wrong += !may || !pwq || !(*work_data_bits(work) & WORK_STRUCT_INACTIVE);
		if (!list_is_last(&work->entry, &walks->pool->worklist))
			list_move_tail(work->entry.next, &walks->pool->worklist);
		if (++walks->nr_pauses[work == &walks->rescued->mayday_cursor] % 7)
			continue;

		/* as worker_thread() */
		if (pwq && !assign_work(work, &worker, NULL))
			pwq_put_surplus(pwq);
		walks->taken = list_empty(&work->entry);
	}
}

/*
 * Fails if interrupts are off while the mayday timer or a rescuer goes past any number of work
 * items, or if one of them doesn't get to the last one.
 */
static void long_walks_pause(struct kunit *test)
{
	const int nr_items = 4 * WORKLIST_BATCH + 10;
	struct slots_pool *p = node_pool(new_slots(test, 1), 0, 0);
	struct workqueue_struct *wq = kunit_kzalloc(test, sizeof(*wq), GFP_KERNEL);
	struct work_struct *items = kunit_kcalloc(test, nr_items, sizeof(*items), GFP_KERNEL);
	struct worker rescuer = { .task = current, .pool = &p->pool, .rescue_wq = wq };
	unsigned long end = jiffies + patience(test);
	struct walks walks = { .pool = &p->pool };
	struct pool_workqueue *pwq;
	struct work_struct cursor;
	struct helper *helper;
	bool more = true;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, items);
	helper = new_helper(test, 1, watch_walks, &walks);
	pwq = kmem_cache_alloc(pwq_cache, GFP_KERNEL | __GFP_NOFAIL);
	init_pwq(pwq, wq, &p->pool);
	walks.rescued = pwq;
	INIT_LIST_HEAD(&wq->maydays);
	INIT_LIST_HEAD(&rescuer.scheduled);
	wq->rescuer = &rescuer;
	timer_setup(&p->pool.mayday_timer, slots_timer_fn, 0);
	p->pool.nr_running = 0;
	for (i = 0; i < nr_items; i++) {
		items[i].func = slots_fn;
		atomic_long_set(&items[i].data, WORK_STRUCT_PENDING | WORK_STRUCT_PWQ |
				(unsigned long)(i == nr_items - 1 ? pwq : p->pwq) |
				(i % 2 ? 0 : WORK_STRUCT_LINKED));
		list_add_tail(&items[i].entry, &p->pool.worklist);
	}

	WRITE_ONCE(helper->told, true);
	while (more && time_before(jiffies, end)) {
		walks.taken = false;
		pool_mayday_timeout(&p->pool.mayday_timer);
		guard(raw_spinlock_irq)(&p->pool.lock);
		KUNIT_EXPECT_EQ(test, list_empty(&pwq->mayday_node), walks.taken);
		list_del_init(&pwq->mayday_node);

		KUNIT_EXPECT_TRUE(test, assign_rescuer_work(pwq, &rescuer));
		list_move_tail(&items[nr_items - 1].entry, &p->pool.worklist);
		list_del_init(&pwq->mayday_cursor.entry);
		more = min(walks.nr_pauses[0], walks.nr_pauses[1]) < 20;
	}
	WRITE_ONCE(walks.end, true);
	wait_for_completion(&helper->done);
	timer_shutdown_sync(&p->pool.mayday_timer);

	/* a rescuer leaves the timer's cursor alone; if it doesn't, don't warn as well */
	rescuer.rescue_wq = NULL;
	init_mayday_cursor(&cursor, pwq);
	list_add(&cursor.entry, &p->pool.worklist);
	scoped_guard(raw_spinlock_irq, &p->pool.lock)
		KUNIT_EXPECT_TRUE(test, assign_rescuer_work(pwq, &rescuer));
	KUNIT_EXPECT_FALSE(test, list_empty(&cursor.entry));

	INIT_LIST_HEAD(&p->pool.worklist);
	kmem_cache_free(pwq_cache, pwq);
	KUNIT_EXPECT_GE(test, walks.nr_pauses[0], 20);
	KUNIT_EXPECT_GE(test, walks.nr_pauses[1], 20);
	KUNIT_EXPECT_EQ(test, walks.nr_wrong, 0);
	KUNIT_EXPECT_EQ(test, p->pwq->refcnt, 1);
}

static void slots_do_work(void *arg)
{
	unsigned long end = jiffies + 2 * HZ;
	struct slots_pool *p = arg;

	while (time_before(jiffies, end)) {
		slots_queue(p, 1);
		slots_start(p);
		slots_end(p);
		cond_resched();
	}
}

/* fails if slots get lost when one CPU takes and puts them and another takes them away */
static void slots_add_up_when_closed(struct kunit *test)
{
	struct slots *slots = new_slots(test, 2);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct helper *helper = new_helper(test, 1, slots_do_work, p);

	slots_own(slots, 0, 2);
	WRITE_ONCE(helper->told, true);
	while (!completion_done(&helper->done)) {
		slots_close_pwqs(slots, 0);
		udelay(1);
	}
	slots_start_all(slots);
	expect_slots(slots);
}

static void slots_do_start(void *arg)
{
	slots_start(arg);
}

/* as if slots were free while items wait for them, which they are for up to a tick */
static void slots_raise(struct slots *slots, int nr)
{
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES];

	slots->wq->max_active += nr;
	slots->wq->saved_max_active += nr;
	none->nr_owned += nr;
	none->nr_spare += nr;
}

/* fails if freezing lends more slots to what is queued than are free, or fewer */
static void frozen_slots_are_used_up(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct slots_pool *p = slots->pools, *other = node_pool(slots, 1, 0);

	/* to what is on worklists */
	slots_queue(p, 3);
	slots_queue(other, 2);
	slots_set_max_active(slots, 0);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 3);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 3);
	KUNIT_EXPECT_EQ(test, slots_run(other, 0), 1);

	/* each is given up, though another item waits, and one that is queued now */
	slots_queue(&p[1], 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&p[1].pool.worklist));
	KUNIT_EXPECT_EQ(test, slots_end_one(p, other), 1);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 3);
	KUNIT_EXPECT_EQ(test, slots_end_one(other, other), 0);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 2);
	slots_set_max_active(slots, 5);
	KUNIT_EXPECT_EQ(test, slots_run(other, 0), 1);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 0), 1);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 2, 0), 1), 1);

	/* to what was parked as slots were just being given up, but to worklists first */
	slots = new_waiting_pool(test)->slots;
	p = slots->pools;
	other = node_pool(slots, 1, 0);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 2), 0);
	slots_queue_item(other, &other->items[0]);
	slots_raise(slots, 3);
	slots_set_max_active(slots, 0);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 0), 2);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 4);

	/* what is lent is taken away again if fewer may run when it's thawed */
	slots = new_slots(test, 4);
	p = slots->pools;
	slots_queue(p, 3);
	slots_set_max_active(slots, 0);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 1);

	/* no more execute if more did than may */
	slots = new_slots(test, 3);
	p = slots->pools;
	slots_own(slots, 0, 3);
	KUNIT_EXPECT_EQ(test, slots_run(&p[0], 3), 3);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 1), 0);
	slots_set_max_active(slots, 2);
	slots_set_max_active(slots, 0);
	KUNIT_EXPECT_EQ(test, slots_run(&p[1], 0), 0);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 3);
}

/* fails if freezing keeps an item waiting that was queued again before while it executed */
static void deferred_item_is_not_frozen(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct slots_pool *p = slots->pools;
	int i;

	/* but not if the slot is in use elsewhere, or workqueues are taken for frozen already */
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
		slots_queue_item(p, slots_executing(p, 0)->current_work);
		slots_start_all(slots);
		slots_set_max_active(slots, 0);
		if (i == 1)
			slots->wq->saved_max_active = 0;
		if (i == 2)
			p->pwq->lends = false;
		KUNIT_ASSERT_EQ(test, slots_end_one(p, p), !i);
		KUNIT_EXPECT_EQ(test, slots_owed(slots), !i);
		if (!i) {
			/* nor if it was queued later */
			slots_queue_item(p, slots_executing(p, 0)->current_work);
			KUNIT_EXPECT_EQ(test, slots_end_one(p, p), 0);
		}
		slots_set_max_active(slots, 1);
		slots_settle(slots);
		KUNIT_EXPECT_EQ(test, slots_end_one(p, p), 0);
	}
}

/*
 * Fails if a pool is freed while a worker looks for slots for a parked item, which is cancelled.
 */
static void parked_item_keeps_pool(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES];
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct helper *helper = new_helper(test, 1, slots_do_start, p);
	int refcnt;

	slots_own(slots, 1, 1);
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, 1, 0), 1), 1);
	slots_queue(p, 1);
	refcnt = p->pwq->refcnt;

	cpus_write_lock();
	raw_spin_lock_irq(&none->lock);
	WRITE_ONCE(helper->told, true);
	SPIN_UNTIL(READ_ONCE(p->pwq->refcnt) != refcnt);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->pwq->refcnt), refcnt + 1);
	raw_spin_unlock_irq(&none->lock);
	cpus_write_unlock();
	end_helper(helper);
	KUNIT_EXPECT_EQ(test, p->pwq->refcnt, refcnt);
	expect_slots(slots);
}

static void slots_do_search(void *arg)
{
	slots_search(arg);
}

static void slots_do_raise(void *arg)
{
	struct slots *slots = arg;

	slots_set_max_active(slots, slots->wq->max_active + 2);
}

/* the spare slots of a node while the helper waits for @lock, to pass on what it has */
static int slots_spare_meanwhile(struct wq_node_nr_active *nna, raw_spinlock_t *lock)
{
	SPIN_UNTIL(raw_spin_is_contended(lock));
	guard(raw_spinlock)(&nna->lock);
	return nna->nr_spare;
}

/*
 * Fails if lowering max_active lets more run, as what a search or raising has in hand isn't
 * counted.
 */
static void slots_in_hand_are_given_up(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES], *nna = slots->nodes[0];
	int nr = DIV_ROUND_UP(4, nr_shares()), nr_spare;
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct helper *helper = new_helper(test, 1, slots_do_search, p);

	cpus_write_lock();
	raw_spin_lock_irq(&p->pool.lock);
	raw_spin_lock(&nna->lock);
	WRITE_ONCE(helper->told, true);
	SPIN_UNTIL(READ_ONCE(none->nr_owned) != 4);
	slots->wq->max_active -= nr;
	atomic_set(&slots->wq->nr_owed, nr);
	raw_spin_unlock(&nna->lock);
	nr_spare = slots_spare_meanwhile(nna, &p->pool.lock);
	raw_spin_unlock_irq(&p->pool.lock);
	cpus_write_unlock();
	end_helper(helper);
	KUNIT_EXPECT_EQ(test, nr_spare, 0);
	expect_slots(slots);

	/* what max_active is raised by, but isn't to be used as yet more slots are owed */
	slots = new_slots(test, 4);
	none = slots->nodes[NR_SLOT_NODES];
	KUNIT_EXPECT_EQ(test, slots_run(node_pool(slots, NR_SLOT_NODES, 0), 4), 4);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 3);
	helper = new_helper(test, 1, slots_do_raise, slots);
	/* whose lock is taken to pass them on */
	p = slots->pools;
	cpus_write_lock();
	raw_spin_lock_irq(&p->pool.lock);
	WRITE_ONCE(helper->told, true);
	nr_spare = slots_spare_meanwhile(none, &p->pool.lock);
	raw_spin_unlock_irq(&p->pool.lock);
	cpus_write_unlock();
	end_helper(helper);
	KUNIT_EXPECT_EQ(test, nr_spare, 0);
	KUNIT_EXPECT_EQ(test, slots_owed(slots), 1);
	expect_slots(slots);
}

/* fails if a whole node waits for one worker that searches, as nobody else will look */
static void search_is_not_relied_on(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct wq_node_nr_active *none = slots->nodes[NR_SLOT_NODES];
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct helper *helper = new_helper(test, 1, slots_do_start, p);
	bool got, armed;

	slots_queue(p, 1);
	cpus_write_lock();
	raw_spin_lock_irq(&none->lock);
	WRITE_ONCE(helper->told, true);
	SPIN_UNTIL(raw_spin_is_contended(&none->lock));
	/* let it find what it can, but not pass that on */
	got = raw_spin_trylock(&p->pool.lock);
	raw_spin_unlock(&none->lock);
	SPIN_UNTIL(raw_spin_is_contended(&p->pool.lock));
	armed = READ_ONCE(slots->wq->slot_timer.expires);
	raw_spin_unlock_irq(&p->pool.lock);
	cpus_write_unlock();
	end_helper(helper);
	KUNIT_EXPECT_TRUE(test, got);
	KUNIT_EXPECT_TRUE(test, armed);
	KUNIT_EXPECT_EQ(test, slots_run(p, 0), 1);
}

static void slots_do_end(void *arg)
{
	slots_end(arg);
}

/* fails if a slot that moves to a node where nothing waits anymore opens a pwq of another one */
static void slots_open_where_they_are_owned(struct kunit *test)
{
	struct slots *slots = new_slots(test, 1);
	struct wq_node_nr_active *here = slots->nodes[0], *there = slots->nodes[1];
	struct slots_pool *p = node_pool(slots, 0, 0), *gone = node_pool(slots, 1, 0);
	struct helper *helper = new_helper(test, 1, slots_do_end, p);

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(p, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(gone, 1), 0);
	slots_close_pwqs(slots, 0);

	cpus_write_lock();
	raw_spin_lock_irq(&gone->pool.lock);
	raw_spin_lock(&there->lock);
	WRITE_ONCE(helper->told, true);
	SPIN_UNTIL(!READ_ONCE(here->nr_owned));
	/* as cancelling does */
	list_del_init(&gone->pwq->pending_node);
	raw_spin_unlock(&there->lock);
	raw_spin_unlock_irq(&gone->pool.lock);
	cpus_write_unlock();
	KUNIT_EXPECT_TRUE(test, cancel_work(&gone->items[0]));
	end_helper(helper);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 1), 1);
	KUNIT_EXPECT_EQ(test, there->nr_spare, 1);
	expect_slots(slots);
}

static void slots_do_lower(void *arg)
{
	struct slots *slots = arg;

	slots_set_max_active(slots, slots->wq->max_active - 1);
}

/*
 * Fails if more items run than a lower max_active allows, as a turn goes on with a slot that is
 * owed: turns end with the lock of each pool held, after everything else.
 */
static void turns_end_when_limit_is_lowered(struct kunit *test)
{
	struct slots *slots = new_slots(test, 4);
	struct slots_pool *last = &slots->pools[NR_SLOT_POOLS - 1];
	raw_spinlock_t *locks[] = { &slots->nodes[0]->lock, &last->pool.lock };
	int i, kept_meanwhile;
	bool done_meanwhile;

	/* it can't take anything away, or has done that, but can't end the last turn */
	for (i = 0; i < ARRAY_SIZE(locks); i++) {
		struct helper *helper = new_helper(test, 1, slots_do_lower, slots);

		last->pwq->nr_keep = 5;
		cpus_write_lock();
		raw_spin_lock_irq(locks[i]);
		WRITE_ONCE(helper->told, true);
		SPIN_UNTIL(READ_ONCE(slots->wq->max_active) == 3 - i);
		mdelay(5);
		kept_meanwhile = READ_ONCE(last->pwq->nr_keep);
		done_meanwhile = completion_done(&helper->done);
		raw_spin_unlock_irq(locks[i]);
		cpus_write_unlock();
		end_helper(helper);
		KUNIT_EXPECT_EQ(test, kept_meanwhile, 5);
		KUNIT_EXPECT_FALSE(test, done_meanwhile);
		KUNIT_EXPECT_EQ(test, slots->wq->max_active, 3 - i);
		KUNIT_EXPECT_EQ(test, last->pwq->nr_keep, 0);
	}
	expect_slots(slots);
}

static struct kunit_case max_active_test_cases[] = {
	KUNIT_CASE_SLOW(limit_is_exact),
	KUNIT_CASE(dependent_items_start),
	KUNIT_CASE(limit_is_raised_and_lowered),
	KUNIT_CASE(waiting_items_can_be_cancelled),
	KUNIT_CASE(slots_of_released_pwqs_come_back),
	KUNIT_CASE_PARAM(flush_waits_for_slot, cancelled_gen_params),
	KUNIT_CASE(slot_of_deferred_item_is_put_back),
	KUNIT_CASE(rescuer_puts_back_slot),
	KUNIT_CASE(slot_timer_ends_with_workqueue),
	KUNIT_CASE(slots_add_up),
	KUNIT_CASE(slots_of_no_node_are_shared_out),
	KUNIT_CASE(slots_are_taken_from_nodes_with_more),
	KUNIT_CASE(next_node_has_less),
	KUNIT_CASE(nodes_take_turns),
	KUNIT_CASE(stalled_node_gets_slot),
	KUNIT_CASE(next_pwq_has_no_slot),
	KUNIT_CASE(requeued_item_keeps_its_place),
	KUNIT_CASE(deferred_item_waits_for_others),
	KUNIT_CASE(raised_limit_is_passed_on),
	KUNIT_CASE(queued_items_are_not_frozen),
	KUNIT_CASE(freezing_takes_a_while),
	KUNIT_CASE(frozen_slots_are_used_up),
	KUNIT_CASE(deferred_item_is_not_frozen),
	KUNIT_CASE(slots_are_kept_for_a_turn),
	KUNIT_CASE(turns_take_their_time),
	KUNIT_CASE(slots_are_shared),
	KUNIT_CASE(slots_left_open_are_found),
	KUNIT_CASE(slots_are_given_up),
	KUNIT_CASE(owed_slots_are_not_left),
	KUNIT_CASE(slots_are_refused),
	KUNIT_CASE(slots_of_others_are_used),
	KUNIT_CASE(slots_are_not_taken_on_their_way),
	KUNIT_CASE(slots_are_not_left_on_their_way),
	KUNIT_CASE(slots_do_not_pile_up),
	KUNIT_CASE(slot_timer_runs_within_a_tick),
	KUNIT_CASE(slots_are_not_there_for_many),
	KUNIT_CASE(long_walks_pause),
	KUNIT_CASE(slots_add_up_when_closed),
	KUNIT_CASE(parked_item_keeps_pool),
	KUNIT_CASE(slots_in_hand_are_given_up),
	KUNIT_CASE(search_is_not_relied_on),
	KUNIT_CASE(slots_open_where_they_are_owned),
	KUNIT_CASE(turns_end_when_limit_is_lowered),
	{}
};

static struct kunit_suite max_active_test_suite = {
	.name = "workqueue_max_active",
	.exit = drain_all_slots,
	.test_cases = max_active_test_cases,
};

/*
 * Wakeups: a worker that is about to be woken up isn't woken up again, and no pool->lock is
 * held meanwhile.
 */

/* the pool of this CPU, which nobody else uses and whose workers all went idle by themselves */
static struct worker_pool *idle_pool(struct kunit *test, struct workqueue_struct *wq)
{
	struct item *item = new_item(test);
	struct worker_pool *pool;

	set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
	set_attrs(test, wq, WQ_AFFN_CPU, true, -11);
	pool = pwq_here(wq)->pool;
	queue_and_start(test, wq, item);
	EXPECT_SOON(test, READ_ONCE(pool->nr_idle) > 1 && !READ_ONCE(pool->picked));
	return pool;
}

/* fails if a burst wakes up a worker for each item, as one is woken up that is on its way */
static void burst_wakes_up_worker_once(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *first = new_item(test), *second = new_item(test);
	struct worker_pool *pool = idle_pool(test, wq);
	bool busy, idle;

	preempt_disable();
	queue_work_on(smp_processor_id(), wq, &first->work);
	queue_work_on(smp_processor_id(), wq, &second->work);
	raw_spin_lock_irq(&pool->lock);
	busy = kick_pool_unlock(pool);
	local_irq_enable();
	preempt_enable();
	KUNIT_EXPECT_FALSE_MSG(test, busy, "it's on its way");

	expect_starts(test, first);
	expect_starts(test, second);
	end_item(first);
	end_item(second);
	raw_spin_lock_irq(&pool->lock);
	idle = kick_pool_unlock(pool);
	local_irq_enable();
	KUNIT_EXPECT_FALSE_MSG(test, idle, "there is no work");
}

/* fails if the same goes for one that was just created, or that leaves interrupts off */
static void created_worker_is_picked(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct worker_pool *pool = idle_pool(test, wq);
	struct worker *worker, *picked;

	start_managing(pool);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, stop_managing, pool), 0);
	sched_set_fifo_low(current);	/* it isn't to run yet */
	worker = create_worker(pool);
	picked = pool->picked;
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	sched_set_normal(current, 0);
	KUNIT_EXPECT_NOT_NULL(test, worker);
	KUNIT_EXPECT_PTR_EQ(test, picked, worker);
}

/* fails if a worker that should preempt who unlocks its pool waits for a tick */
static void worker_preempts_at_once(struct kunit *test)
{
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct worker_pool *pool = idle_pool(test, wq);
	unsigned long irq_flags;
	struct worker *worker;
	bool started[2];
	int i;

	if (!preempt_model_full())
		kunit_skip(test, "needs preemption");
	/* in the fair class, one that has had more than its share wouldn't preempt */
	scoped_guard(mutex, &wq_pool_attach_mutex)
		for_each_pool_worker(worker, pool)
			sched_set_fifo_low(worker->task);
	for (i = 0; i < ARRAY_SIZE(started); i++) {
		struct item *item = new_item(test);

		/* have its queueing not kick the pool */
		scoped_guard(raw_spinlock_irq, &pool->lock)
			pool->nr_running++;
		queue_work(wq, &item->work);
		raw_spin_lock_irqsave(&pool->lock, irq_flags);
		pool->nr_running--;
		if (i)
			kick_pool_unlock_irqrestore(pool, irq_flags);
		else
			kick_pool_unlock_irq(pool);
		started[i] = completion_done(&item->started);
		end_item(item);
	}
	scoped_guard(mutex, &wq_pool_attach_mutex)
		for_each_pool_worker(worker, pool)
			sched_set_normal(worker->task, pool->attrs->nice);
	KUNIT_EXPECT_TRUE(test, started[0]);
	KUNIT_EXPECT_TRUE(test, started[1]);
}

#ifdef CONFIG_PROVE_LOCKING
/* fails if lockdep has found a deadlock, in any of the cases so far */
static void lockdep_has_no_complaint(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, debug_locks);
}
#endif

static struct kunit_case picked_test_cases[] = {
	KUNIT_CASE(burst_wakes_up_worker_once),
	KUNIT_CASE(created_worker_is_picked),
	KUNIT_CASE(worker_preempts_at_once),
#ifdef CONFIG_PROVE_LOCKING
	KUNIT_CASE(lockdep_has_no_complaint),
#endif
	{}
};

static struct kunit_suite picked_test_suite = {
	.name = "workqueue_picked",
	.test_cases = picked_test_cases,
};

/*
 * Shards of caches: what wq_layout_shards() makes of machines of all kinds, by a check that
 * knows nothing of how it does that.
 */

#define MAX_CPUS	4096

/*
 * Arrays are indexed by CPU. Where each CPU sits is kept twice, as the IDs that the layout is
 * given and in @part and @group, so that the check doesn't depend on how it reads the IDs.
 */
struct machine {
	struct wq_topo	topo;
	DECLARE_BITMAP(possible, MAX_CPUS);
	int		nr;			/* number of CPUs which exist */
	int		core[MAX_CPUS];
	int		cluster[MAX_CPUS];	/* the core, where there are no clusters */
	int		llc[MAX_CPUS];
	int		node[MAX_CPUS];
	int		part[MAX_CPUS];		/* the siblings which share LLC and node */
	int		group[MAX_CPUS];	/* the CPUs which share LLC and node */
	int		shard[MAX_CPUS];	/* result of the layout */

	/* used by the check */
	int		part_shard[MAX_CPUS];	/* part -> shard of its first CPU, -1 if not seen */
	int		shard_cpu[MAX_CPUS];	/* shard -> its first CPU, -1 if not seen */
	int		shard_cores[MAX_CPUS];	/* shard -> number of cores */
	int		group_cores[MAX_CPUS];	/* group -> number of cores */
	int		group_shards[MAX_CPUS];	/* group -> number of shards */
	int		cluster_cpu[MAX_CPUS];	/* cluster -> its first CPU, -1 if not seen */
	int		cluster_cores[MAX_CPUS]; /* cluster -> cores in the group of that */
};

static struct machine *new_machine(struct kunit *test, int max_cpus)
{
	struct machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->topo.nr_cpus = max_cpus;
	m->topo.nr_nodes = max_cpus;
	m->topo.possible = m->possible;
	m->topo.node = m->node;
	m->topo.id[WQ_TOPO_CORE] = m->core;
	m->topo.id[WQ_TOPO_CLUSTER] = m->cluster;
	m->topo.id[WQ_TOPO_LLC] = m->llc;
	return m;
}

static void clear_machine(struct machine *m)
{
	bitmap_zero(m->possible, m->topo.nr_cpus);
	m->nr = 0;
}

static void place_cpu(struct machine *m, int cpu, int core, int llc, int node, int part, int group)
{
	__set_bit(cpu, m->possible);
	m->nr++;
	m->core[cpu] = core;
	m->cluster[cpu] = core;
	m->llc[cpu] = llc;
	m->node[cpu] = node;
	m->part[cpu] = part;
	m->group[cpu] = group;
}

/* a machine of @nr_cores cores with one thread each on one LLC */
static void set_plain_machine(struct machine *m, int nr_cores)
{
	int cpu;

	clear_machine(m);
	for (cpu = 0; cpu < nr_cores; cpu++)
		place_cpu(m, cpu, cpu, 0, 0, cpu, 0);
}

/* the nr whose @nr_cores / nr is nearest to @size, found by trying all */
static int nearest_nr_shards(int nr_cores, int size)
{
	s64 best_dist = 0;
	int nr, best = 0;

	for (nr = 1; nr <= nr_cores; nr++) {
		s64 dist = abs(nr_cores - (s64)size * nr);	/* times nr */

		if (!best || dist * best < best_dist * nr) {
			best = nr;
			best_dist = dist;
		}
	}
	return best;
}

/* what is wrong with the shard of a CPU, and add it to what is counted */
static const char *cpu_error(struct machine *m, int nr_shards, int cpu)
{
	int part = m->part[cpu], group = m->group[cpu], cluster = m->cluster[cpu];
	int shard = m->shard[cpu];

	if (shard < 0 || shard >= nr_shards)
		return "CPU without a shard";
	if (m->cluster_cpu[cluster] < 0)
		m->cluster_cpu[cluster] = cpu;
	if (m->part_shard[part] < 0) {
		m->part_shard[part] = shard;
		m->shard_cores[shard]++;
		m->group_cores[group]++;
		m->cluster_cores[cluster] += m->group[m->cluster_cpu[cluster]] == group;
	} else if (m->part_shard[part] != shard) {
		return "siblings split";
	}
	if (m->shard_cpu[shard] < 0) {
		m->shard_cpu[shard] = cpu;
		m->group_shards[group]++;
	} else if (m->group[m->shard_cpu[shard]] != group) {
		return "LLC or node crossed";
	}
	return NULL;
}

/* what is wrong with the layout for a wanted size of @size cores, NULL if nothing */
static const char *layout_error(struct machine *m, int nr_shards, unsigned int size)
{
	int i, cpu, shard, checked = -1, largest = 1;

	if (nr_shards < 1 || nr_shards > m->nr)
		return "impossible number of shards";

	for (i = 0; i < m->topo.nr_cpus; i++) {
		m->part_shard[i] = -1;
		m->shard_cpu[i] = -1;
		m->shard_cores[i] = 0;
		m->group_cores[i] = 0;
		m->group_shards[i] = 0;
		m->cluster_cpu[i] = -1;
		m->cluster_cores[i] = 0;
	}
	for_each_set_bit(cpu, m->possible, m->topo.nr_cpus) {
		const char *error = cpu_error(m, nr_shards, cpu);

		if (error)
			return error;
	}

	/* those that are no larger than a shard aren't split, and may make shards uneven */
	for_each_set_bit(cpu, m->possible, m->topo.nr_cpus) {
		int cores = m->cluster_cores[m->cluster[cpu]];
		int first = m->cluster_cpu[m->cluster[cpu]];

		if (cores > size)
			continue;
		if (m->group[first] == m->group[cpu] && m->shard[first] != m->shard[cpu])
			return "cluster split";
		largest = max(largest, cores);
	}

	for (shard = 0; shard < nr_shards; shard++) {
		int cores, shards, group, off;

		if (m->shard_cpu[shard] < 0)
			return "empty shard";
		group = m->group[m->shard_cpu[shard]];
		cores = m->group_cores[group];
		shards = m->group_shards[group];
		off = abs(m->shard_cores[shard] * shards - cores);
		if (largest == 1 && off >= shards)
			return "sizes differ by more than one core";
		if (off > largest * shards)
			return "more than a cluster from the mean";
		if (group != checked && shards != nearest_nr_shards(cores, size))
			return "mean size not the nearest";
		checked = group;
	}
	return NULL;
}

/* returns the number of shards, negative after a failure */
static int check_layout(struct kunit *test, struct machine *m, unsigned int size,
			const char *name)
{
	int nr_shards = wq_layout_shards(&m->topo, size, m->shard);
	const char *error = layout_error(m, nr_shards, size);

	cond_resched();		/* a case has thousands of layouts */
	if (!error)
		return nr_shards;
	KUNIT_FAIL(test, "%s, %d CPUs, size %u: %s", name, m->nr, size, error);
	return -EINVAL;
}

static const unsigned int sizes[] = { 1, 2, 3, 4, 8, 16, 32, 72, 4096 };

/*
 * Machines of @nr_llcs LLCs, each with @nr_smt cores of two threads and then @nr_single
 * cores of one. @nr_shards is the number of shards of one LLC for each of sizes[], worked
 * out by hand.
 */
struct real_machine {
	const char	*name;
	int		nr_llcs;
	int		nr_smt;
	int		nr_single;
	bool		one_missing;	/* the second thread of core 5 is absent */
	int		nr_shards[ARRAY_SIZE(sizes)];
};

static const struct real_machine real_machines[] = {
	{ "NVIDIA Grace", 1, 0, 72, false, { 72, 36, 24, 18, 9, 5, 2, 1, 1 } },
	{ "Intel Xeon 8321HC", 1, 26, 0, false, { 26, 13, 9, 7, 3, 2, 1, 1, 1 } },
	{ "Intel Xeon 6450C", 1, 30, 0, true, { 30, 15, 10, 8, 4, 2, 1, 1, 1 } },
	{ "Intel Xeon D-2191A", 1, 16, 0, false, { 16, 8, 5, 4, 2, 1, 1, 1, 1 } },
	{ "AMD EPYC 9D64", 11, 8, 0, false, { 8, 4, 3, 2, 1, 1, 1, 1, 1 } },
	{ "AMD Ryzen 3900X", 4, 3, 0, false, { 3, 2, 1, 1, 1, 1, 1, 1, 1 } },
	{ "12 cores", 1, 0, 12, false, { 12, 6, 4, 3, 2, 1, 1, 1, 1 } },
	{ "hybrid", 1, 8, 16, false, { 24, 12, 8, 6, 3, 2, 1, 1, 1 } },
	{ "one CPU", 1, 0, 1, false, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
};

KUNIT_ARRAY_PARAM_DESC(real_machine, real_machines, name);

/* siblings are numbered next to each other or, if @apart, the second ones after all first ones */
static void set_real_machine(struct machine *m, const struct real_machine *real, bool apart)
{
	int per_llc = real->nr_smt + real->nr_single;
	int pass, core, thread, cpu = 0;

	clear_machine(m);
	for (pass = 0; pass <= apart; pass++) {
		for (core = 0; core < real->nr_llcs * per_llc; core++) {
			int llc = core / per_llc;
			bool smt = core % per_llc < real->nr_smt;

			for (thread = 0; thread <= smt; thread++) {
				if (apart && thread != pass)
					continue;
				if (thread && core == 5 && real->one_missing)
					cpu++;
				else
					place_cpu(m, cpu++, core, llc, 0, core, llc);
			}
		}
	}
}

/* fails if shards of a real machine split siblings, cross caches, are uneven or too many */
static void shards_of_real_machines(struct kunit *test)
{
	const struct real_machine *real = test->param_value;
	struct machine *m = new_machine(test, 256);
	int apart, i;

	for (apart = 0; apart <= 1; apart++) {
		set_real_machine(m, real, apart);
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			KUNIT_EXPECT_EQ(test, check_layout(test, m, sizes[i], real->name),
					real->nr_llcs * real->nr_shards[i]);
	}
}

/* fails if shards of some size are too many by one, or one has a core too many */
static void shards_of_every_size(struct kunit *test)
{
	struct machine *m = new_machine(test, 256);
	int nr_cores, size;

	for (nr_cores = 1; nr_cores <= 256; nr_cores++) {
		set_plain_machine(m, nr_cores);
		for (size = 1; size <= 257; size++)
			if (check_layout(test, m, size, "one LLC") < 0)
				return;
		if (check_layout(test, m, INT_MAX, "one LLC") < 0)
			return;
	}
}

/*
 * Up to four nodes of up to four LLCs of up to 24 cores of up to four threads. In every other
 * machine the numbering is random and has holes, or there are clusters. In one of eight an LLC
 * may go on in the next node and the last thread of a core may have an LLC of its own.
 */
static void set_random_machine(struct machine *m, struct rnd_state *rnd)
{
	int nr_nodes = 1 + prandom_u32_state(rnd) % 4;
	int nr_llcs = 1 + prandom_u32_state(rnd) % 4;
	int max_cores = 1 + prandom_u32_state(rnd) % 24;
	int max_threads = 1 + prandom_u32_state(rnd) % 4;
	bool shuffle = prandom_u32_state(rnd) % 2;
	bool odd = !(prandom_u32_state(rnd) % 8);
	int max_cluster = odd ? 1 : 1 + prandom_u32_state(rnd) % 2 * 11;
	int core = 0, part = 0, group = 0, llc = 0, nr_llc_ids = 1, nr = 0;
	int *number = m->part_shard;	/* scratch, the check resets it */
	int i, j, t;

	clear_machine(m);
	for (i = 0; i < m->topo.nr_cpus; i++)
		number[i] = i;
	for (i = m->topo.nr_cpus - 1; shuffle && i > 0; i--) {
		j = prandom_u32_state(rnd) % (i + 1);
		swap(number[i], number[j]);
	}

	for (i = 0; i < nr_nodes * nr_llcs; i++) {
		int nr_cores = 1 + prandom_u32_state(rnd) % max_cores;
		int this_group = group++, cluster = core, left = 0;

		/* the first LLC of a node may be the last one of the node before */
		if (i && !(odd && i % nr_llcs == 0 && prandom_u32_state(rnd) % 2))
			llc = nr_llc_ids++;

		for (j = 0; j < nr_cores && nr + max_threads <= m->topo.nr_cpus; j++, core++) {
			int nr_threads = 1 + prandom_u32_state(rnd) % max_threads;
			bool stray = odd && nr_threads > 1 && !(prandom_u32_state(rnd) % 8);
			int this_part = part++;

			if (!left--) {
				cluster = core;
				left = prandom_u32_state(rnd) % max_cluster;
			}
			for (t = 0; t < nr_threads - stray; t++, nr++) {
				place_cpu(m, number[nr], core, llc, i / nr_llcs, this_part,
					  this_group);
				m->cluster[number[nr]] = cluster;
			}
			if (stray)
				place_cpu(m, number[nr++], core, nr_llc_ids++, i / nr_llcs,
					  part++, group++);
		}
	}
}

/* fails if shards depend on how CPUs are numbered, or on what a level below the LLC looks like */
static void shards_of_random_machines(struct kunit *test)
{
	struct machine *m = new_machine(test, 512);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, RANDOM_SEED);
	for (i = 0; i < 6000; i++) {
		set_random_machine(m, &rnd);
		if (check_layout(test, m, 1 + prandom_u32_state(&rnd) % 40, "random machine") < 0) {
			kunit_info(test, "this was machine %d from seed %d\n", i, RANDOM_SEED);
			return;
		}
	}
}

struct clustered {
	const char	*name;
	int		nr_clusters;
	int		clusters[10];	/* how many cores each has */
	int		nr_shards;
	int		cores[4];	/* of each shard, at a size of 8 */
};

static const struct clustered clustered_machines[] = {
	{ "6 P cores, 2 clusters of 4 E cores", 8, { 1, 1, 1, 1, 1, 1, 4, 4 }, 2, { 6, 8 } },
	{ "4 P cores, 2 clusters of 4 E cores", 6, { 1, 1, 1, 1, 4, 4 }, 2, { 8, 4 } },
	{ "arm64, clusters of 2", 10, { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 }, 3, { 6, 8, 6 } },
	{ "arm64, clusters of 4", 5, { 4, 4, 4, 4, 4 }, 3, { 8, 4, 8 } },
	{ "a cluster as large as a shard", 3, { 8, 8, 8 }, 3, { 8, 8, 8 } },
	{ "a cluster as large as the socket", 1, { 20 }, 3, { 7, 7, 6 } },
	{ "one larger and one smaller than a shard", 2, { 10, 6 }, 2, { 8, 8 } },
};

KUNIT_ARRAY_PARAM_DESC(clustered, clustered_machines, name);

/* fails if cores that share an L2 cache are split, or all of a socket are one shard */
static void shards_of_clusters(struct kunit *test)
{
	const struct clustered *clustered = test->param_value;
	struct machine *m = new_machine(test, 64);
	int i, j, cpu = 0;

	for (i = 0; i < clustered->nr_clusters; i++) {
		for (j = 0; j < clustered->clusters[i]; j++, cpu++) {
			place_cpu(m, cpu, cpu, 0, 0, cpu, 0);
			m->cluster[cpu] = i;
		}
	}
	KUNIT_EXPECT_EQ(test, check_layout(test, m, 8, clustered->name), clustered->nr_shards);
	for (i = 0; i < clustered->nr_shards; i++)
		KUNIT_EXPECT_EQ(test, m->shard_cores[i], clustered->cores[i]);
}

/* fails if CPUs that aren't online (nosmt, maxcpus=) are counted as cores and spoil the shards */
static void shards_without_late_cpus(struct kunit *test)
{
	static const struct {
		int	up, nr_cpus, nr_nodes;
		int	nr_pods, nr_cores;	/* in all, of each shard: worked out by hand */
	} cases[] = {
		{ 10, 20, 1, 2, 10 },
		{ 9, 64, 1, 2, 9 },
		{ 24, 48, 2, 6, 6 },
	};
	struct machine *m = new_machine(test, 64);
	int i, cpu;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int up = cases[i].up, cores[64] = {};

		clear_machine(m);
		for (cpu = 0; cpu < cases[i].nr_cpus; cpu++) {
			int node = cpu % up * cases[i].nr_nodes / up;
			bool late = cpu >= up;

			place_cpu(m, cpu, late ? -1 : cpu, late ? -1 : node, node, 0, 0);
		}
		KUNIT_ASSERT_EQ(test, wq_layout_shards(&m->topo, 8, m->shard), cases[i].nr_pods);
		for (cpu = 0; cpu < up; cpu++)
			cores[m->shard[cpu]]++;
		for (cpu = 0; cpu < cases[i].nr_cpus; cpu++) {
			int want = 0;

			if (cpu < up)
				want = cases[i].nr_cores;
			KUNIT_EXPECT_EQ_MSG(test, cores[m->shard[cpu]], want, "case %d, CPU %d", i,
					    cpu);
		}
	}
}

/* the shortest of several times that a layout takes */
static u64 layout_ns(struct kunit *test, int nr_cpus)
{
	struct machine *m = new_machine(test, nr_cpus);
	u64 best = U64_MAX;
	int i;

	set_plain_machine(m, nr_cpus);
	for (i = 0; i < 10; i++) {
		u64 start = ktime_get_ns();

		KUNIT_ASSERT_EQ(test, wq_layout_shards(&m->topo, 8, m->shard), nr_cpus / 8);
		best = min(best, ktime_get_ns() - start);
		cond_resched();
	}
	return best;
}

/*
 * Fails if booting takes long with thousands of CPUs: each pair of them would take 64 times as
 * long.
 */
static void layout_takes_linear_time(struct kunit *test)
{
	KUNIT_EXPECT_LT(test, layout_ns(test, 4096), 3 * 8 * layout_ns(test, 512));
}

/* fails if a mistyped shard size isn't refused, or has an effect */
static void bogus_shard_size_changes_nothing(struct kunit *test)
{
	static const char * const bogus[] = {
		"", "\n", "0", "-1", "abc", "8 cores", "2147483648", "99999999999",
	};
	unsigned int before = wq_cache_shard_size;
	int i;

	for (i = 0; i < ARRAY_SIZE(bogus); i++) {
		KUNIT_EXPECT_EQ_MSG(test, wq_cache_shard_size_set(bogus[i], NULL), -EINVAL,
				    "\"%s\"", bogus[i]);
		KUNIT_EXPECT_EQ(test, wq_cache_shard_size, before);
	}
}

static void expect_shards_fit_machine(struct kunit *test)
{
	const struct wq_pod_type *shards = &wq_pod_types[WQ_AFFN_CACHE_SHARD];
	int cpu, mate;

	for_each_online_cpu(cpu) {
		const struct cpumask *shard = shards->pod_cpus[shards->cpu_pod[cpu]];
		const struct cpumask *llc = sched_llc_mask(cpu);

		KUNIT_EXPECT_EQ(test, shards->pod_node[shards->cpu_pod[cpu]], cpu_to_node(cpu));
		for_each_cpu_and(mate, shard, cpu_online_mask) {
			KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(mate, llc));
			KUNIT_EXPECT_EQ(test, cpu_to_node(mate), cpu_to_node(cpu));
		}
#ifdef CONFIG_SCHED_SMT
		for_each_cpu(mate, cpu_smt_mask(cpu)) {
			if (cpumask_test_cpu(mate, llc) && cpu_to_node(mate) == cpu_to_node(cpu))
				KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(mate, shard));
		}
#endif
	}
}

/* those of CPUs that are online: others are cores of no shard */
static int nr_online_pods(const struct wq_pod_type *pt)
{
	int pod, nr = 0;

	for (pod = 0; pod < pt->nr_pods; pod++)
		nr += cpumask_intersects(pt->pod_cpus[pod], cpu_online_mask);
	return nr;
}

static void set_shard_size(struct kunit *test, unsigned int size)
{
	char buf[16];

	snprintf(buf, sizeof(buf), "%u\n", size);
	KUNIT_EXPECT_EQ(test, wq_cache_shard_size_set(buf, NULL), 0);
	KUNIT_EXPECT_EQ(test, wq_cache_shard_size, size);
	expect_shards_fit_machine(test);
}

/*
 * Fails if shards of this machine don't fit it or don't follow the size, or if an item that was
 * running when that changed is lost, or runs twice at once when it is queued again meanwhile.
 */
static void shard_size_changes_at_run_time(struct kunit *test)
{
	const struct wq_pod_type *shards = &wq_pod_types[WQ_AFFN_CACHE_SHARD];
	struct workqueue_struct *wq = new_wq(test, WQ_UNBOUND, 0);
	struct item *item = new_waiting_item(test);
	unsigned int before = wq_cache_shard_size;
	bool given = wq_cache_shard_size_given;
	int i;

	expect_shards_fit_machine(test);
	set_attrs(test, wq, WQ_AFFN_CACHE_SHARD, false, 0);
	queue_and_start(test, wq, item);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		set_shard_size(test, sizes[i]);
		if (sizes[i] == 1)
			KUNIT_EXPECT_EQ(test, nr_online_pods(shards),
					nr_online_pods(&wq_pod_types[WQ_AFFN_SMT]));
		if (sizes[i] == 4096)
			KUNIT_EXPECT_EQ(test, shards->nr_pods, wq_pod_types[WQ_AFFN_CACHE].nr_pods);
		KUNIT_EXPECT_EQ(test, work_busy(&item->work), WORK_BUSY_RUNNING);
	}

	reinit_completion(&item->started);
	queue_work(wq, &item->work);
	expect_not_started(test, item);
	complete_all(&item->release);
	expect_starts(test, item);
	set_shard_size(test, before);
	wq_cache_shard_size_given = given;
}

/* fails if a workqueue has no pods, or others, where there was no memory for shards */
static void cache_stands_in_for_shards(struct kunit *test)
{
	struct wq_pod_type *shards = &wq_pod_types[WQ_AFFN_CACHE_SHARD], pt = {};
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int nr = shards->nr_pods;

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	attrs->affn_scope = WQ_AFFN_CACHE_SHARD;
	scoped_guard(mutex, &wq_pool_mutex) {
		KUNIT_EXPECT_PTR_EQ(test, wqattrs_pod_type(attrs), shards);
		shards->nr_pods = 0;
		KUNIT_EXPECT_PTR_EQ(test, wqattrs_pod_type(attrs), &wq_pod_types[WQ_AFFN_CACHE]);
		shards->nr_pods = nr;

		/* that is how those are left that there was no memory for */
		KUNIT_EXPECT_EQ(test, init_pod_type(&pt, WQ_AFFN_CACHE_SHARD, 1), 0);
		free_pod_type(&pt);
		KUNIT_EXPECT_NULL(test, memchr_inv(&pt, 0, sizeof(pt)));
	}
	free_workqueue_attrs(attrs);
}

static struct kunit_case shards_test_cases[] = {
	KUNIT_CASE_PARAM(shards_of_real_machines, real_machine_gen_params),
	KUNIT_CASE_SLOW(shards_of_every_size),
	KUNIT_CASE(shards_of_random_machines),
	KUNIT_CASE_PARAM(shards_of_clusters, clustered_gen_params),
	KUNIT_CASE(shards_without_late_cpus),
	KUNIT_CASE(layout_takes_linear_time),
	KUNIT_CASE(bogus_shard_size_changes_nothing),
	KUNIT_CASE(shard_size_changes_at_run_time),
	KUNIT_CASE(cache_stands_in_for_shards),
	{}
};

static struct kunit_suite shards_test_suite = {
	.name = "workqueue_shards",
	.test_cases = shards_test_cases,
};

/* the last one also says what lockdep has found in all others */
kunit_test_suites(&wakeups_test_suite, &pods_test_suite, &max_active_test_suite,
		  &shards_test_suite, &picked_test_suite);
