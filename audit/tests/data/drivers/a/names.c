// SPDX-License-Identifier: GPL-2.0
// What is asked for is in variables, members, functions and parameters.
#include <linux/workqueue.h>
#include "a.h"

static int asked = 6;
module_param(asked, int, 0444);

static int threads(void)
{
	if (asked > 3)
		return num_online_cpus();
	return 3;
}

static struct workqueue_struct *hand_on(struct a *a, const char *name, int limit)
{
	a->limit = limit;
	return alloc_workqueue("on-%s", WQ_UNBOUND, a->limit, name);
}

static int names_init(struct a *a, int given)
{
	unsigned int flags = WQ_UNBOUND;
	int most = min(num_online_cpus() + 2, 8), steps = 0;

	if (a->fast)
		flags |= WQ_HIGHPRI;
	a->local = alloc_workqueue("local", flags, most);
	a->option = alloc_workqueue("option", WQ_UNBOUND, asked);
	a->member = alloc_workqueue("member", WQ_UNBOUND, a->depth);
	a->returned = alloc_workqueue("returned", WQ_UNBOUND, threads());
	a->either = alloc_workqueue("either", a->fast ? WQ_UNBOUND : 0, a->fast ? 4 : 2);
	a->square = alloc_workqueue("square", 0, num_online_cpus());
	a->on = hand_on(a, "first", 5);
	a->onward = hand_on(a, "second", nr_cpu_ids);

	while (next(a))
		steps++;
	a->stepped = alloc_workqueue("stepped", WQ_UNBOUND, steps);
	a->lost = alloc_workqueue("lost", WQ_UNBOUND, given);
	a->odd = alloc_workqueue("odd", WQ_UNBOUND, a->sizes[2]);
	a->far = alloc_workqueue("far", WQ_UNBOUND, elsewhere(a));
	return 0;
}

int depth_init(struct a *a)
{
	a->depth = 12;
	return 0;
}
