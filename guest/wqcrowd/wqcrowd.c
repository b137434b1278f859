// SPDX-License-Identifier: GPL-2.0
/*
 * A crowd of work items that wait for the slots of one unbound workqueue of the default
 * affinity scope. A step is written to the parameter step:
 *
 *   queue   one item runs until it is told to end, and @nr are queued behind it on all
 *           online CPUs in turns. max_active is one
 *   cancel  all that wait are cancelled by one CPU
 *   raise   max_active becomes WQ_MAX_ACTIVE, so that many of them are activated
 *   lower   max_active becomes one again
 *   end     the first one ends, and all others are executed
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static unsigned int nr = 10000;
module_param(nr, uint, 0444);
MODULE_PARM_DESC(nr, "number of work items that wait (default 10000)");

static struct workqueue_struct *wq;
static struct work_struct *items;
static DECLARE_COMPLETION(end);

static void first_fn(struct work_struct *work)
{
	wait_for_completion(&end);
}
static DECLARE_WORK(first, first_fn);

static void item_fn(struct work_struct *work)
{
}

static void queue_all(void)
{
	unsigned int i, cpu = cpumask_first(cpu_online_mask);

	queue_work(wq, &first);
	for (i = 0; i < nr; i++) {
		queue_work_on(cpu, wq, &items[i]);
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
}

static void end_all(void)
{
	complete(&end);
	flush_workqueue(wq);
}

static int set_step(const char *step, const struct kernel_param *kp)
{
	unsigned int i;

	if (!wq)
		return -EBUSY;
	if (sysfs_streq(step, "queue"))
		queue_all();
	else if (sysfs_streq(step, "cancel"))
		for (i = 0; i < nr; i++)
			cancel_work(&items[i]);
	else if (sysfs_streq(step, "raise"))
		workqueue_set_max_active(wq, WQ_MAX_ACTIVE);
	else if (sysfs_streq(step, "lower"))
		workqueue_set_max_active(wq, 1);
	else if (sysfs_streq(step, "end"))
		end_all();
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops step_ops = { .set = set_step };
module_param_cb(step, &step_ops, NULL, 0200);
MODULE_PARM_DESC(step, "queue, cancel, raise, lower or end");

static void wqcrowd_exit(void)
{
	destroy_workqueue(wq);
	vfree(items);
}

static int __init wqcrowd_init(void)
{
	unsigned int i;

	items = vcalloc(nr, sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		INIT_WORK(&items[i], item_fn);
	wq = alloc_workqueue("wqcrowd", WQ_UNBOUND, 1);
	if (!wq) {
		vfree(items);
		return -ENOMEM;
	}
	return 0;
}

module_init(wqcrowd_init);
module_exit(wqcrowd_exit);
MODULE_DESCRIPTION("A crowd of work items that wait");
MODULE_LICENSE("GPL");
