/* SPDX-License-Identifier: GPL-2.0 */
#define A_EIGHT (4 * \
		 2)
#define A_MANY(n) (num_possible_cpus() * (n))
#ifdef CONFIG_A
#define A_FLAGS(more) (WQ_SYSFS | (more))
#else
#define A_FLAGS(more) (more)
#endif

enum { A_NONE, A_SINGLE };
enum { A_FIRST = 3, A_SECOND, A_LAST };

#define A_HIDDEN(name) alloc_workqueue(name, WQ_UNBOUND, 2)
