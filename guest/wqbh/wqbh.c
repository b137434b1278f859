// SPDX-License-Identifier: GPL-2.0
/*
 * Do work items of BH workqueues start? Nobody waits for a worker there: a softirq executes ten
 * items at a time and raises itself again for the rest. When the module is inserted, it tries this
 * in a workqueue of each kind, and logs how many items have started in time:
 *
 *   wqbh: KIND many STARTED    of NR_ITEMS, which are queued while softirqs are off
 *   wqbh: KIND again STARTED   of one, which is queued and cancelled while softirqs are off, so
 *                              that they find nothing to do, and then is queued again
 *   wqbh: KIND far STARTED     of NR_ITEMS, which are queued for the last CPU from the first one
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#define NR_ITEMS	25
#define LIMIT_MS	2000

static const struct kind {
	const char	*name;
	unsigned int	flags;
} kinds[] = {
	{ "bh",		WQ_BH | (__WQ_BH_ALLOWS & WQ_PERCPU) },
	{ "bh_highpri",	WQ_BH | (__WQ_BH_ALLOWS & WQ_PERCPU) | WQ_HIGHPRI },
};

static struct work_struct items[NR_ITEMS];
static atomic_t nr_started;

static void item_fn(struct work_struct *work)
{
	atomic_inc(&nr_started);
}

/* a flush would kick the pool */
static int started(int nr)
{
	int i, found;

	for (i = 0; i < LIMIT_MS && atomic_read(&nr_started) < nr; i++)
		usleep_range(1000, 2000);
	found = atomic_read(&nr_started);
	for (i = 0; i < NR_ITEMS; i++)
		cancel_work_sync(&items[i]);
	atomic_set(&nr_started, 0);
	return found;
}

static int queue_many(struct workqueue_struct *wq, int cpu)
{
	int i;

	local_bh_disable();
	for (i = 0; i < NR_ITEMS; i++)
		queue_work_on(cpu, wq, &items[i]);
	local_bh_enable();
	return started(NR_ITEMS);
}

static int queue_again(struct workqueue_struct *wq, int cpu)
{
	local_bh_disable();
	queue_work_on(cpu, wq, &items[0]);
	cancel_work(&items[0]);
	local_bh_enable();
	queue_work_on(cpu, wq, &items[0]);
	return started(1);
}

static void wqbh_exit(void)
{
}

static int __init wqbh_init(void)
{
	int i, first = cpumask_first(cpu_online_mask), last = cpumask_last(cpu_online_mask);
	struct workqueue_struct *wq;

	for (i = 0; i < NR_ITEMS; i++)
		INIT_WORK(&items[i], item_fn);
	set_cpus_allowed_ptr(current, cpumask_of(first));
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		wq = alloc_workqueue("wqbh", kinds[i].flags, 0);
		if (!wq)
			return -ENOMEM;
		pr_info("%s many %d\n", kinds[i].name, queue_many(wq, first));
		pr_info("%s again %d\n", kinds[i].name, queue_again(wq, first));
		pr_info("%s far %d\n", kinds[i].name, queue_many(wq, last));
		destroy_workqueue(wq);
	}
	return 0;
}

module_init(wqbh_init);
module_exit(wqbh_exit);
MODULE_DESCRIPTION("Tells whether work items of BH workqueues start");
MODULE_LICENSE("GPL");
