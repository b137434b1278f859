// SPDX-License-Identifier: GPL-2.0
/*
 * How many work items a rescuer gets done while no worker can be created. An unbound
 * workqueue with WQ_MEM_RECLAIM and max_active=1 has @nr items on each online CPU, which
 * queue themselves again and sleep for @us each. nr_done says how many have ended.
 *
 * A kernel creates no threads while /proc/sys/kernel/threads-max is below their number. When
 * anything is written to the parameter block, items of another workqueue take all workers that
 * are there, and stay until the module is unloaded.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

static unsigned int nr = 4;
module_param(nr, uint, 0444);
MODULE_PARM_DESC(nr, "number of work items on each CPU (default 4)");

static unsigned int us = 1000;
module_param(us, uint, 0444);
MODULE_PARM_DESC(us, "how long each sleeps, in microseconds (default 1000)");

static atomic_t nr_done;
module_param_named(nr_done, nr_done.counter, int, 0444);
MODULE_PARM_DESC(nr_done, "number of work items that have ended (read only)");

#define NR_BLOCKERS	64	/* on each CPU: more than a pool has workers */

struct item {
	struct work_struct	work;
	int			cpu;
};

static struct workqueue_struct *wq, *blocking_wq;
static struct item *items;
static struct work_struct *blockers;
static unsigned int nr_blockers;
static DECLARE_COMPLETION(unblock);
static bool stop;

static void item_fn(struct work_struct *work)
{
	struct item *item = container_of(work, struct item, work);

	usleep_range(us, us + us / 10 + 1);
	atomic_inc(&nr_done);
	if (!READ_ONCE(stop))
		queue_work_on(item->cpu, wq, &item->work);
}

static void blocker_fn(struct work_struct *work)
{
	wait_for_completion(&unblock);
}

static int block(const char *val, const struct kernel_param *kp)
{
	unsigned int i;

	if (!nr_blockers)
		return -EBUSY;
	for (i = 0; i < nr_blockers; i++)
		queue_work_on(items[i / NR_BLOCKERS * nr].cpu, blocking_wq, &blockers[i]);
	return 0;
}

static const struct kernel_param_ops block_ops = { .set = block };
module_param_cb(block, &block_ops, NULL, 0200);
MODULE_PARM_DESC(block, "written: take all workers");

static void release(void)
{
	if (wq)
		destroy_workqueue(wq);
	if (blocking_wq)
		destroy_workqueue(blocking_wq);
	kvfree(items);
	kvfree(blockers);
}

static void wqreclaim_exit(void)
{
	complete_all(&unblock);
	WRITE_ONCE(stop, true);
	release();
}

static int __init wqreclaim_init(void)
{
	unsigned int i, nr_cpus = num_online_cpus(), nr_items = nr * nr_cpus;
	int cpu;

	items = kvcalloc(nr_items, sizeof(*items), GFP_KERNEL);
	blockers = kvcalloc(NR_BLOCKERS * nr_cpus, sizeof(*blockers), GFP_KERNEL);
	wq = alloc_workqueue("wqreclaim", WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	blocking_wq = alloc_workqueue("wqreclaim_blocking", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!nr || !items || !blockers || !wq || !blocking_wq) {
		release();
		return nr ? -ENOMEM : -EINVAL;
	}
	cpu = cpumask_first(cpu_online_mask);
	for (i = 0; i < nr_items; i++) {
		items[i].cpu = cpu;
		INIT_WORK(&items[i].work, item_fn);
		if (i % nr == nr - 1)
			cpu = cpumask_next(cpu, cpu_online_mask);
	}
	for (i = 0; i < NR_BLOCKERS * nr_cpus; i++)
		INIT_WORK(&blockers[i], blocker_fn);
	nr_blockers = i;
	for (i = 0; i < nr_items; i++)
		queue_work_on(items[i].cpu, wq, &items[i].work);
	return 0;
}

module_init(wqreclaim_init);
module_exit(wqreclaim_exit);
MODULE_DESCRIPTION("Work items that a rescuer has to execute");
MODULE_LICENSE("GPL");
