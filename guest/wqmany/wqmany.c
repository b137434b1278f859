// SPDX-License-Identifier: GPL-2.0
/* Unbound workqueues in great number, as long as it is loaded. */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static unsigned int nr = 1;
module_param(nr, uint, 0444);
MODULE_PARM_DESC(nr, "number of workqueues");

static struct workqueue_struct **wqs;

static void wqmany_exit(void)
{
	unsigned int i;

	for (i = 0; i < nr && wqs[i]; i++)
		destroy_workqueue(wqs[i]);
	vfree(wqs);
}

static int __init wqmany_init(void)
{
	unsigned int i;

	wqs = vcalloc(nr, sizeof(*wqs));
	if (!wqs)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		wqs[i] = alloc_workqueue("wqmany_%u", WQ_UNBOUND, 0, i);
		if (!wqs[i]) {
			wqmany_exit();
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

module_init(wqmany_init);
module_exit(wqmany_exit);
MODULE_DESCRIPTION("Unbound workqueues in great number");
MODULE_LICENSE("GPL");
