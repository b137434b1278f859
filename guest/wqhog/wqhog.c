// SPDX-License-Identifier: GPL-2.0
/*
 * A real-time thread that takes the last CPU for itself, until the module is removed. Workers that are
 * bound to this CPU are runnable and don't run, unless the scheduler's fair server lets them.
 */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

static struct task_struct *hog;

static int loop(void *unused)
{
	while (!kthread_should_stop())
		cond_resched();
	return 0;
}

static void wqhog_exit(void)
{
	kthread_stop(hog);
}

static int __init wqhog_init(void)
{
	hog = kthread_create_on_cpu(loop, NULL, cpumask_last(cpu_online_mask), "hog/%u");
	if (IS_ERR(hog))
		return PTR_ERR(hog);
	sched_set_fifo(hog);
	wake_up_process(hog);
	return 0;
}

module_init(wqhog_init);
module_exit(wqhog_exit);
MODULE_DESCRIPTION("Leaves workers without a CPU");
MODULE_LICENSE("GPL");
