/* SPDX-License-Identifier: GPL-2.0 */
/* A function that allocates for drivers of all folders. */
static inline struct workqueue_struct *
far_away(struct c *c, int limit)
{
	return alloc_workqueue("far-away", WQ_UNBOUND, limit);
}
