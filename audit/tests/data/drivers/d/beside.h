/* SPDX-License-Identifier: GPL-2.0 */
/* What drivers/c uses, beside others. */
static inline struct workqueue_struct *beside(struct c *c, int limit)
{
	return alloc_workqueue("beside", WQ_UNBOUND, limit);
}
