// SPDX-License-Identifier: GPL-2.0
// A workqueue with the name of another one's, and an item that flushes one of that.
#include <linux/workqueue.h>

static void fourth(struct work_struct *work)
{
	struct c *c = container_of(work, struct c, fourth);

	flush_work(&c->b->third);
}

static int same_init(struct c *c)
{
	INIT_WORK(&c->fourth, fourth);
	c->other = alloc_workqueue("elsewhere", WQ_UNBOUND, 2);
	queue_work(c->other, &c->fourth);
	return 0;
}
