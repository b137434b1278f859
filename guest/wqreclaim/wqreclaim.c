// SPDX-License-Identifier: GPL-2.0
/*
 * How many work items a rescuer gets done while no worker can be created. An unbound
 * workqueue with WQ_MEM_RECLAIM and max_active=1 has @nr items on each online CPU, which
 * queue themselves again and sleep for @us each. nr_done says how many have ended. A kernel
 * creates no threads while /proc/sys/kernel/threads-max is below their number.
 */
#include <linux/atomic.h>
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

struct item {
	struct work_struct	work;
	int			cpu;
};

static struct workqueue_struct *wq;
static struct item *items;
static unsigned int nr_items;
static bool stop;

static void item_fn(struct work_struct *work)
{
	struct item *item = container_of(work, struct item, work);

	usleep_range(us, us + us / 10 + 1);
	atomic_inc(&nr_done);
	if (!READ_ONCE(stop))
		queue_work_on(item->cpu, wq, &item->work);
}

static void wqreclaim_exit(void)
{
	WRITE_ONCE(stop, true);
	destroy_workqueue(wq);
	kvfree(items);
}

static int __init wqreclaim_init(void)
{
	unsigned int i;
	int cpu;

	items = kvcalloc(nr * num_online_cpus(), sizeof(*items), GFP_KERNEL);
	wq = alloc_workqueue("wqreclaim", WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	if (!items || !wq) {
		if (wq)
			destroy_workqueue(wq);
		kvfree(items);
		return -ENOMEM;
	}
	for_each_online_cpu(cpu)
		for (i = 0; i < nr && nr_items < nr * num_online_cpus(); i++, nr_items++) {
			items[nr_items].cpu = cpu;
			INIT_WORK(&items[nr_items].work, item_fn);
		}
	for (i = 0; i < nr_items; i++)
		queue_work_on(items[i].cpu, wq, &items[i].work);
	return 0;
}

module_init(wqreclaim_init);
module_exit(wqreclaim_exit);
MODULE_DESCRIPTION("Work items that a rescuer has to execute");
MODULE_LICENSE("GPL");
