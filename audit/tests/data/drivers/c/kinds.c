// SPDX-License-Identifier: GPL-2.0
// Arguments that depend on types and nodes, words of coccinelle as names, and other ways to call.
#include <linux/workqueue.h>
#include <made/far.h>
#include "../d/beside.h"

static int kinds_init(struct c *c, int most)
{
	int virtual = 4, format = 3;

	c->size = alloc_workqueue("size", WQ_UNBOUND, sizeof(c->bits) * 2);
	c->type = alloc_workqueue("type", WQ_UNBOUND, min_t(typeof(c->most), 4, 8));
	c->cast = alloc_workqueue("cast", WQ_UNBOUND, (typeof(c->most))5);
	c->shift = alloc_workqueue("shift", WQ_UNBOUND, 1 << (3 - virtual));
	c->words = alloc_workqueue("words", WQ_UNBOUND, virtual + format);
	c->nodes = alloc_workqueue("nodes", WQ_UNBOUND, num_online_nodes() * 2);
	c->paren = (alloc_workqueue)("paren", WQ_UNBOUND, virtual);
	c->far = far_away(c, 6);
	c->beside = beside(c, 7);
	c->other = hand_on(c, "not the one of names.c", 8);
	return use(alloc_workqueue);
}

static const struct operations operations = {
	.allocate = alloc_workqueue,
	.away = far_away,
	.alloc_workqueue = NULL,
};

#if 0 /* never */
static int dead_init(struct c *c)
{
	c->dead = alloc_workqueue("dead", WQ_UNBOUND, 9);
#ifdef CONFIG_C
	c->dead = alloc_workqueue("dead too", WQ_UNBOUND, 9);
#endif
}
#elif defined(CONFIG_C)
static int live_init(struct c *c)
{
	c->live = alloc_workqueue("live", WQ_UNBOUND, 2);
}
#endif
#if 1
static int always_init(struct c *c)
{
	c->always = alloc_workqueue("always", WQ_UNBOUND, 3);
}
#elif defined(CONFIG_C)
static int second_init(struct c *c)
{
	c->dead = alloc_workqueue("dead elif", WQ_UNBOUND, 9);
}
#else
static int third_init(struct c *c)
{
	c->dead = alloc_workqueue("dead else", WQ_UNBOUND, 9);
}
#endif
#if (0) && defined(CONFIG_C)
static int fourth_init(struct c *c)
{
	c->dead = alloc_workqueue("dead in parentheses", WQ_UNBOUND, 9);
}
#endif
EXPORT_SYMBOL_GPL(alloc_workqueue);
