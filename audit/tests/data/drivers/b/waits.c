// SPDX-License-Identifier: GPL-2.0
// Items that wait.
#include <linux/workqueue.h>

static void first(struct work_struct *work)
{
	struct b *b = container_of(work, struct b, first);

	wait_for_completion(&b->done);
}

static void second(struct work_struct *work)
{
	struct b *b = container_of(work, struct b, second);

	complete(&b->done);
	wait_for_completion_timeout(&b->hardware, HZ);
}

static void third(struct work_struct *work)
{
	struct b *b = container_of(work, struct b, third);

	flush_work(&b->second);
}

static irqreturn_t interrupt(int irq, void *data)
{
	struct b *b = data;

	complete(&b->hardware);
	return IRQ_HANDLED;
}

static int waits_init(struct b *b)
{
	INIT_WORK(&b->first, first);
	INIT_WORK(&b->second, second);
	INIT_WORK(&b->third, third);
	b->both = alloc_workqueue("both", WQ_UNBOUND, 1);
	b->other = alloc_workqueue("other", WQ_UNBOUND, 2);
	queue_work(b->both, &b->first);
	queue_work(b->both, &b->second);
	queue_delayed_work(b->other, &b->third, 1);
	return 0;
}
