/* SPDX-License-Identifier: GPL-2.0 */
/* What an audit reads of a kernel's header; none of it is one. */
enum wq_flags {
	WQ_BH = 1 << 0,
	WQ_UNBOUND = 1 << 1,
	WQ_FREEZABLE = 1 << 2,
	WQ_MEM_RECLAIM = 1 << 3, /* alloc_workqueue("in a comment", 0, 1) */
	WQ_HIGHPRI = 1 << 4,
	WQ_SYSFS = 1 << 6,
	__WQ_ORDERED = 1 << 17,
	__WQ_LEGACY = 1 << 18,
};

enum wq_consts {
	WQ_MAX_ACTIVE = 512,
	WQ_UNBOUND_MAX_ACTIVE = WQ_MAX_ACTIVE,
	WQ_DFL_ACTIVE = WQ_MAX_ACTIVE / 2,
	WQ_DFL_MIN_ACTIVE = 8,
};

struct workqueue_struct *alloc_workqueue(const char *fmt, unsigned int flags, int max_active, ...);
