// SPDX-License-Identifier: GPL-2.0
// Items that flush others, which may have to wait for memory.
#include <linux/workqueue.h>

static void helper(struct e *e)
{
	flush_work(&e->plain);
}

static void reclaim(struct work_struct *work)
{
	struct e *e = container_of(work, struct e, reclaim);

	helper(e);
	flush_workqueue(e->without);
	flush_delayed_work(&e->late);
	flush_scheduled_work();
	flush_workqueue(system_unbound_wq);
	/* none of these is one */
	flush_work(&e->both);
	flush_work(&e->never);
	flush_work(&e->too);
	cancel_work_sync(&e->plain);
	flush_workqueue(e->with);
	flush_workqueue(e->legacy);
	flush_workqueue(e->either);
	flush_workqueue(e->unknown);
	flush_workqueue(e->twice);
}

static void not_for_sure(struct work_struct *work)
{
	struct e *e = container_of(work, struct e, either);

	flush_workqueue(e->without);
}

static void early(struct e *e)
{
	flush_workqueue(e->without);
}

static int flushes_init(struct e *e)
{
	INIT_WORK(&e->reclaim, reclaim);
	INIT_WORK(&e->either, not_for_sure);
	INIT_WORK(&e->old, not_for_sure);
	INIT_WORK(&e->both, not_for_sure);
	e->with = alloc_workqueue("with", WQ_MEM_RECLAIM, 2);
	e->without = alloc_workqueue("without", WQ_HIGHPRI, 2);
	e->twice = alloc_workqueue("twice", WQ_MEM_RECLAIM, 2);
	e->twice = alloc_workqueue("again", WQ_HIGHPRI, 2);
	e->legacy = create_workqueue("old");
	e->either = alloc_workqueue("perhaps", e->fast ? WQ_MEM_RECLAIM : 0, 2);
	queue_work(e->with, &e->reclaim);
	queue_work(e->with, &e->too);
	queue_work(e->either, &e->either);
	queue_work(e->legacy, &e->old);
	queue_work(e->without, &e->both);
	queue_work(e->with, &e->both);
	schedule_work(&e->plain);
	queue_delayed_work(e->without, &e->late, HZ);
	return 0;
}
