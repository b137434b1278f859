// SPDX-License-Identifier: GPL-2.0
// What is asked for is there to be read.
#include <linux/workqueue.h>
#include "a.h"

static int plain_init(struct a *a)
{
	a->each = alloc_workqueue("each", WQ_MEM_RECLAIM, 0);
	a->one = alloc_workqueue("one", WQ_UNBOUND, 1);
	a->eight = alloc_workqueue("eight-%s", WQ_UNBOUND | WQ_SYSFS, A_EIGHT, a->name);
	a->all = alloc_workqueue("all", WQ_UNBOUND, 0);
	a->many = alloc_workqueue("many", WQ_UNBOUND, A_MANY(2));
	a->last = alloc_workqueue("last", A_FLAGS(WQ_UNBOUND), A_LAST);
	a->counted = alloc_workqueue("counted", 0, A_SINGLE);
	a->soft = alloc_workqueue("soft", WQ_BH, 0);
	a->inorder = alloc_ordered_workqueue("inorder-%d", WQ_FREEZABLE, a->id);
	a->single = create_singlethread_workqueue("single");
	a->legacy = create_workqueue("legacy");
	a->frozen = create_freezable_workqueue("frozen");
	a->depth = 99;
	return 0;
}
