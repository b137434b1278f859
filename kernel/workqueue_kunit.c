// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for workqueue, included by workqueue.c.
 */
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/ctype.h>
#include <linux/debug_locks.h>
#include <linux/ktime.h>
#include <linux/prandom.h>

static void scope_names_match_exactly(struct kunit *test)
{
	static const char * const bogus[] = {
		"", "\n", "c", "cach", "cachefoo", "cache ", " cache", "cache\n\n",
		"cache\nsmt", "cpus", "smt2", "numanuma", "system-wide", "defaul",
	};
	char buf[32];
	int i;

	for (i = 0; i < WQ_AFFN_NR_TYPES; i++) {
		KUNIT_ASSERT_NOT_NULL(test, wq_affn_names[i]);

		KUNIT_EXPECT_EQ(test, parse_affn_scope(wq_affn_names[i]), i);
		snprintf(buf, sizeof(buf), "%s\n", wq_affn_names[i]);
		KUNIT_EXPECT_EQ(test, parse_affn_scope(buf), i);
		snprintf(buf, sizeof(buf), "%c%s", toupper(wq_affn_names[i][0]),
			 wq_affn_names[i] + 1);
		KUNIT_EXPECT_EQ(test, parse_affn_scope(buf), i);
		snprintf(buf, sizeof(buf), "%sx", wq_affn_names[i]);
		KUNIT_EXPECT_EQ_MSG(test, parse_affn_scope(buf), -EINVAL, "\"%s\"", buf);
	}
	for (i = 0; i < ARRAY_SIZE(bogus); i++)
		KUNIT_EXPECT_EQ_MSG(test, parse_affn_scope(bogus[i]), -EINVAL,
				    "\"%s\"", bogus[i]);
}

static void bogus_default_scope_changes_nothing(struct kunit *test)
{
	enum wq_affn_scope before = wq_affn_dfl;

	KUNIT_EXPECT_EQ(test, wq_affn_dfl_set("cachefoo\n", NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, wq_affn_dfl_set("default", NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, wq_affn_dfl, before);
}

/* on the machine that the test runs on, every CPU is in one pod of each scope */
static void pods_partition_possible_cpus(struct kunit *test)
{
	int affn, pod, cpu;

	for (affn = WQ_AFFN_DFL + 1; affn < WQ_AFFN_NR_TYPES; affn++) {
		const struct wq_pod_type *pt = &wq_pod_types[affn];
		unsigned int nr_cpus = 0;

		KUNIT_ASSERT_GE(test, pt->nr_pods, 1);
		for (pod = 0; pod < pt->nr_pods; pod++) {
			KUNIT_EXPECT_FALSE(test, cpumask_empty(pt->pod_cpus[pod]));
			nr_cpus += cpumask_weight(pt->pod_cpus[pod]);
		}
		KUNIT_EXPECT_EQ(test, nr_cpus, num_possible_cpus());

		for_each_possible_cpu(cpu) {
			pod = pt->cpu_pod[cpu];
			KUNIT_ASSERT_GE(test, pod, 0);
			KUNIT_ASSERT_LT(test, pod, pt->nr_pods);
			KUNIT_EXPECT_TRUE_MSG(test, cpumask_test_cpu(cpu, pt->pod_cpus[pod]),
					      "scope %s, CPU %d", wq_affn_names[affn], cpu);
		}
	}
}

#define RANDOM_SEED	20231109
#define LATE_CPUS	64	/* of the largest machine that comes online late */
/* fewer where what looks for other mistakes makes each take many times as long */
#define NR_ORDERS	(IS_ENABLED(CONFIG_KASAN) || IS_ENABLED(CONFIG_KCSAN) || \
			 IS_ENABLED(CONFIG_PROVE_LOCKING) ? 20 : 1000)
#define LATE_MOVING	12	/* CPUs of the largest machine whose CPUs change places */
#define NR_MOVING	(100 * NR_ORDERS)

/* where a CPU sits */
struct seat {
	int	core;
	int	llc;
	int	node;
};

/* a machine whose CPUs come online one by one */
struct late_machine {
	const char	*name;
	int		nr_nodes;
	int		nr_llcs;	/* of a node */
	int		nr_cores;	/* of an LLC */
	int		nr_threads;	/* of a core */
	bool		apart;		/* second threads are numbered after all first ones */
	bool		clusters;	/* of two cores */

	struct wq_topo	topo;
	struct seat	seats[LATE_CPUS];
	int		order[LATE_CPUS];
	int		node[LATE_CPUS];
	int		core[LATE_CPUS];
	int		cluster[LATE_CPUS];
	int		llc[LATE_CPUS];
	int		pods[LATE_CPUS];
	DECLARE_BITMAP(possible, LATE_CPUS);
	DECLARE_BITMAP(online, LATE_CPUS);
	DECLARE_BITMAP(placed, LATE_CPUS);
};

static const struct late_machine late_machines[] = {
	{ "16 cores x 2", 1, 1, 16, 2, true },
	{ "16 cores x 2, siblings side by side", 1, 1, 16, 2, false },
	{ "16 cores x 2, clusters of 2", 1, 1, 16, 2, true, true },
	{ "3 sockets of 8", 3, 1, 8, 1, true },
	{ "2 sockets of 2 LLCs of 4 cores x 2", 2, 2, 4, 2, true },
	{ "one CPU", 1, 1, 1, 1, true },
	{ "4 nodes of one LLC of 4 cores x 4", 4, 1, 4, 4, true },
};

/* @m as @from says, with no CPU placed */
static void set_late_machine(struct late_machine *m, const struct late_machine *from)
{
	int nr_llcs = from->nr_nodes * from->nr_llcs, nr_cores = nr_llcs * from->nr_cores;
	int cpu;

	memcpy(m, from, sizeof(*m));
	m->topo.nr_cpus = nr_cores * m->nr_threads;
	m->topo.nr_nodes = m->nr_nodes;
	m->topo.possible = m->possible;
	m->topo.online = m->online;
	m->topo.node = m->node;
	m->topo.id[WQ_TOPO_CORE] = m->core;
	m->topo.id[WQ_TOPO_CLUSTER] = m->cluster;
	m->topo.id[WQ_TOPO_LLC] = m->llc;
	bitmap_set(m->possible, 0, m->topo.nr_cpus);

	for (cpu = 0; cpu < m->topo.nr_cpus; cpu++) {
		struct seat *seat = &m->seats[cpu];

		seat->core = m->apart ? cpu % nr_cores : cpu / m->nr_threads;
		seat->llc = seat->core / m->nr_cores;
		seat->node = seat->llc / m->nr_llcs;
		m->order[cpu] = cpu;
		m->node[cpu] = seat->node;
		m->core[cpu] = -1;
		m->cluster[cpu] = -1;
		m->llc[cpu] = -1;
	}
}

/* what wq_place_cpu() does, with the masks that this machine has now */
static bool late_online(struct late_machine *m, int cpu)
{
	DECLARE_BITMAP(core, LATE_CPUS) = {};
	DECLARE_BITMAP(cluster, LATE_CPUS) = {};
	DECLARE_BITMAP(llc, LATE_CPUS) = {};
	const unsigned long *mates[WQ_TOPO_NR_LEVELS] = {
		[WQ_TOPO_CORE]	= core,
		[WQ_TOPO_CLUSTER] = cluster,
		[WQ_TOPO_LLC]	= llc,
	};
	int mate;

	__set_bit(cpu, m->online);
	__set_bit(cpu, m->placed);
	for_each_set_bit(mate, m->online, LATE_CPUS) {
		if (m->seats[mate].core == m->seats[cpu].core)
			__set_bit(mate, core);
		/* two cores, but masks without siblings where there are no clusters */
		if (m->clusters ? m->seats[mate].core / 2 == m->seats[cpu].core / 2 : mate == cpu)
			__set_bit(mate, cluster);
		if (m->seats[mate].llc == m->seats[cpu].llc)
			__set_bit(mate, llc);
	}
	return wq_topo_place(&m->topo, cpu, m->seats[cpu].node, mates);
}

/* should two CPUs share a pod, from where they sit and whether they are placed? */
static bool late_share(const struct late_machine *m, int level, int a, int b)
{
	bool placed = test_bit(a, m->placed);

	if (a == b)
		return true;
	if (level == WQ_TOPO_NODE)
		return m->seats[a].node == m->seats[b].node;
	if (level == WQ_TOPO_CPU || placed != test_bit(b, m->placed))
		return false;
	if (level == WQ_TOPO_CORE || (level == WQ_TOPO_CLUSTER && !m->clusters))
		return placed && m->seats[a].core == m->seats[b].core;
	if (level == WQ_TOPO_CLUSTER)
		return placed && m->seats[a].core / 2 == m->seats[b].core / 2;
	return placed ? m->seats[a].llc == m->seats[b].llc : m->seats[a].node == m->seats[b].node;
}

/* compare all pairs of CPUs on each level */
static bool late_pods_fit(struct kunit *test, struct late_machine *m)
{
	int level, a, b;

	for (level = WQ_TOPO_CPU; level < WQ_TOPO_NR_LEVELS; level++) {
		if (wq_layout_pods(&m->topo, level, m->pods) < 1) {
			KUNIT_FAIL(test, "%s: no pods on level %d", m->name, level);
			return false;
		}
		for (a = 0; a < m->topo.nr_cpus; a++) {
			for (b = 0; b <= a; b++) {
				bool share = m->pods[a] == m->pods[b];

				if (share == late_share(m, level, a, b))
					continue;
				KUNIT_FAIL(test, "%s, %d CPUs placed, level %d: CPUs %d and %d %s",
					   m->name, bitmap_weight(m->placed, LATE_CPUS),
					   level, b, a, share ? "share a pod" : "share none");
				return false;
			}
		}
	}
	return true;
}

/*
 * In whichever order CPUs come online, the pods fit those that have been: after the
 * last and after some CPU before, in the first orders after each. CPUs that go offline
 * and online again change nothing. Catches CPUs that aren't placed taken for cores, and
 * pods that depend on the order.
 */
static void pods_of_late_cpus(struct kunit *test)
{
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct rnd_state rnd;
	int idx, order, i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	kunit_info(test, "%d orders from seed %d\n", NR_ORDERS, RANDOM_SEED);
	prandom_seed_state(&rnd, RANDOM_SEED);

	for (idx = 0; idx < ARRAY_SIZE(late_machines); idx++) {
		for (order = 0; order < NR_ORDERS; order++) {
			int nr, check;

			set_late_machine(m, &late_machines[idx]);
			nr = m->topo.nr_cpus;
			check = prandom_u32_state(&rnd) % nr;

			/* the first ascending: by socket, or with siblings last */
			for (i = nr - 1; order && i > 0; i--) {
				int j = prandom_u32_state(&rnd) % (i + 1);

				swap(m->order[i], m->order[j]);
			}

			for (i = 0; i < nr; i++) {
				KUNIT_ASSERT_TRUE_MSG(test, late_online(m, m->order[i]),
						      "%s: CPU %d isn't new", m->name, m->order[i]);
				if ((order < 3 || i == check || i == nr - 1) &&
				    !late_pods_fit(test, m))
					return;
				cond_resched();
			}

			/* some go offline and come back */
			for (i = 0; i < nr; i += 3)
				__clear_bit(m->order[i], m->online);
			for (i = 0; i < nr; i += 3)
				KUNIT_ASSERT_FALSE_MSG(test, late_online(m, m->order[i]),
						       "%s: CPU %d is new again", m->name,
						       m->order[i]);
		}
	}
}

/* siblings that are first online together when both have been online before */
static void late_siblings_find_each_other(struct kunit *test)
{
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, m);
	set_late_machine(m, &late_machines[0]);

	KUNIT_EXPECT_TRUE(test, late_online(m, 0));
	KUNIT_EXPECT_TRUE(test, late_online(m, 17));
	__clear_bit(17, m->online);
	KUNIT_EXPECT_TRUE(test, late_online(m, 1));
	KUNIT_EXPECT_NE(test, m->core[1], m->core[17]);
	KUNIT_EXPECT_TRUE(test, late_online(m, 17));
	KUNIT_EXPECT_EQ(test, m->core[1], m->core[17]);
	late_pods_fit(test, m);
	KUNIT_EXPECT_FALSE(test, late_online(m, 17));

	/* and one of which the firmware says another node by then */
	m->seats[17].node = 0;
	m->node[17] = NUMA_NO_NODE;
	KUNIT_EXPECT_TRUE(test, late_online(m, 17));
	KUNIT_EXPECT_EQ(test, m->node[17], 0);
}

/* once @cpu is online, those that it shares with are who its masks name, and no others */
static bool late_cpu_fits(struct kunit *test, struct late_machine *m, int cpu)
{
	int level, other;

	for (level = WQ_TOPO_CORE; level < WQ_TOPO_NODE; level++) {
		int key = wq_topo_key(&m->topo, level, cpu);

		for_each_set_bit(other, m->online, LATE_CPUS) {
			bool share = wq_topo_key(&m->topo, level, other) == key;

			if (share == late_share(m, level, cpu, other))
				continue;
			KUNIT_FAIL(test, "%s, level %d: CPUs %d and %d %s", m->name, level, cpu,
				   other, share ? "share a pod" : "share none");
			return false;
		}
	}
	return true;
}

static void late_swap(struct late_machine *m, int a, int b)
{
	__clear_bit(a, m->online);
	__clear_bit(b, m->online);
	swap(m->seats[a], m->seats[b]);
}

/* CPUs change places while they are offline, also the one after whom a pod is numbered */
static void cpus_leave_pods(struct kunit *test)
{
	static const int swapped[][2] = { { 1, 2 }, { 0, 3 }, { 0, 1 }, { 2, 3 } };
	static const struct late_machine machine = { "2 LLCs of 2", 1, 2, 2, 1, true };
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int i, cpu;

	KUNIT_ASSERT_NOT_NULL(test, m);
	set_late_machine(m, &machine);
	for (cpu = 0; cpu < 4; cpu++)
		late_online(m, cpu);
	late_pods_fit(test, m);

	for (i = 0; i < ARRAY_SIZE(swapped); i++) {
		int a = swapped[i][0], b = swapped[i][1];
		bool elsewhere = m->seats[a].llc != m->seats[b].llc;

		late_swap(m, a, b);
		KUNIT_EXPECT_EQ(test, late_online(m, a), elsewhere);
		late_cpu_fits(test, m, a);
		KUNIT_EXPECT_EQ(test, late_online(m, b), elsewhere);
		late_pods_fit(test, m);
	}
}

/* a machine of up to 12 CPUs, most of which come online, go offline and change places */
static bool shuffle_late_machine(struct kunit *test, struct late_machine *m,
				 struct late_machine *random, struct rnd_state *rnd)
{
	int nr, i;

	random->name = "random machine";
	random->nr_nodes = 1 + prandom_u32_state(rnd) % 2;
	random->nr_llcs = 1 + prandom_u32_state(rnd) % 2;
	random->nr_cores = 1 + prandom_u32_state(rnd) % 3;
	random->nr_threads = 1;
	if (random->nr_nodes * random->nr_llcs * random->nr_cores <= LATE_MOVING / 2)
		random->nr_threads = 1 + prandom_u32_state(rnd) % 2;
	random->clusters = prandom_u32_state(rnd) % 2;
	set_late_machine(m, random);
	nr = m->topo.nr_cpus;

	for (i = 0; i < 3 * nr; i++) {
		int cpu = prandom_u32_state(rnd) % nr;

		/* also what CPUs share that stay online may change */
		if (!(prandom_u32_state(rnd) % 4))
			swap(m->seats[cpu], m->seats[prandom_u32_state(rnd) % nr]);
		if (__test_and_clear_bit(cpu, m->online))
			continue;
		late_online(m, cpu);
		if (!late_cpu_fits(test, m, cpu))
			return false;
	}
	/* nothing changes anymore, and all come online or back */
	for (i = 0; i < nr; i++) {
		__clear_bit(i, m->online);
		late_online(m, i);
		if (!late_cpu_fits(test, m, i))
			return false;
	}
	return late_pods_fit(test, m);
}

/* Catches pods that span CPUs which the masks of the latest one of them separate. */
static void pods_of_moving_cpus(struct kunit *test)
{
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct late_machine *random = kunit_kzalloc(test, sizeof(*random), GFP_KERNEL);
	struct rnd_state rnd;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	KUNIT_ASSERT_NOT_NULL(test, random);
	kunit_info(test, "%d machines from seed %d\n", NR_MOVING, RANDOM_SEED);
	prandom_seed_state(&rnd, RANDOM_SEED);
	for (i = 0; i < NR_MOVING && shuffle_late_machine(test, m, random, &rnd); i++)
		cond_resched();
}

struct where {
	struct work_struct	work;
	cpumask_var_t		allowed;	/* what the worker's CPUs were */
};

static void where_fn(struct work_struct *work)
{
	struct where *where = container_of(work, struct where, work);

	cpumask_copy(where->allowed, current->cpus_ptr);
}

/* an item queued on a CPU of a strict scope runs on a worker confined to its pod */
static void strict_workers_stay_in_pod(struct kunit *test)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 0);
	cpumask_var_t expected;
	struct where where;
	int affn, cpu;

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_TRUE(test, alloc_cpumask_var(&expected, GFP_KERNEL));
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&where.allowed, GFP_KERNEL));
	INIT_WORK_ONSTACK(&where.work, where_fn);

	for (affn = WQ_AFFN_DFL + 1; affn < WQ_AFFN_NR_TYPES; affn++) {
		const struct wq_pod_type *pt = &wq_pod_types[affn];

		attrs->affn_scope = affn;
		attrs->affn_strict = true;
		KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);

		for_each_cpu_and(cpu, cpu_online_mask, wq_unbound_cpumask) {
			cpumask_and(expected, pt->pod_cpus[pt->cpu_pod[cpu]], wq_unbound_cpumask);
			queue_work_on(cpu, wq, &where.work);
			flush_work(&where.work);
			KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(where.allowed, expected),
					      "scope %s, CPU %d: worker on %*pbl, not on %*pbl",
					      wq_affn_names[affn], cpu,
					      cpumask_pr_args(where.allowed),
					      cpumask_pr_args(expected));
		}
	}

	destroy_work_on_stack(&where.work);
	free_cpumask_var(where.allowed);
	free_cpumask_var(expected);
	destroy_workqueue(wq);
	free_workqueue_attrs(attrs);
}

struct ending {
	struct work_struct	work;
	struct completion	started;
	bool			end;		/* tells it to end */
	bool			ended;
};

static void ending_fn(struct work_struct *work)
{
	struct ending *ending = container_of(work, struct ending, work);

	complete(&ending->started);
	while (!READ_ONCE(ending->end))
		cpu_relax();
	WRITE_ONCE(ending->ended, true);
}

/*
 * An item ends while another one waits for its place in max_active, in a pool whose
 * lock is taken: as long as the place can't be handed on, the item is in flight.
 */
static void ending_item_keeps_pwq_busy(struct kunit *test)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	int here = cpumask_first(cpu_online_mask), there, us;
	struct ending first = {}, second = { .end = true };
	struct pool_workqueue *pwq;
	struct worker_pool *pool;
	bool waits, empty;

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	attrs->affn_scope = WQ_AFFN_CPU;
	attrs->affn_strict = true;
	KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	free_workqueue_attrs(attrs);

	there = cpumask_next_and(here, cpu_online_mask, cpumask_of_node(cpu_to_node(here)));
	if (there >= nr_cpu_ids) {
		destroy_workqueue(wq);
		kunit_skip(test, "needs two CPUs of a node");
	}
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(here)), 0);

	INIT_WORK_ONSTACK(&first.work, ending_fn);
	INIT_WORK_ONSTACK(&second.work, ending_fn);
	init_completion(&first.started);
	init_completion(&second.started);
	queue_work_on(there, wq, &first.work);
	/* its worker may have to create another one first, which this CPU can be needed for */
	wait_for_completion(&first.started);
	queue_work_on(here, wq, &second.work);
	for (us = 0; us < 5000000 &&
	     !(READ_ONCE(*work_data_bits(&second.work)) & WORK_STRUCT_INACTIVE); us += 1000)
		usleep_range(1000, 1100);

	rcu_read_lock();
	pwq = rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, there));
	pool = rcu_dereference(*per_cpu_ptr(wq->cpu_pwq, here))->pool;
	raw_spin_lock_irq(&pool->lock);
	WRITE_ONCE(first.end, true);
	for (us = 0; us < 5000000 && !READ_ONCE(first.ended); us++)
		udelay(1);
	for (us = 0; us < 5000000 && !raw_spin_is_contended(&pool->lock); us++)
		udelay(1);
	waits = raw_spin_is_contended(&pool->lock);
	empty = pwq_is_empty(pwq);
	raw_spin_unlock_irq(&pool->lock);
	rcu_read_unlock();

	KUNIT_EXPECT_TRUE(test, first.ended);
	KUNIT_EXPECT_TRUE(test, waits);
	KUNIT_EXPECT_FALSE(test, empty);
	flush_work(&second.work);
	KUNIT_EXPECT_TRUE(test, second.ended);

	set_cpus_allowed_ptr(current, cpu_possible_mask);
	destroy_work_on_stack(&first.work);
	destroy_work_on_stack(&second.work);
	destroy_workqueue(wq);
}

/*
 * A machine to lay out, arrays are indexed by CPU. Where each CPU sits is kept
 * twice, as the IDs that the layout is given and in @part and @group, so that the
 * check doesn't depend on how the layout reads the IDs.
 */
struct machine {
	struct wq_topo	topo;
	unsigned long	*possible;
	int		nr;		/* number of CPUs which exist */
	int		*core;
	int		*cluster;	/* the core, where there are no clusters */
	int		*llc;
	int		*node;
	int		*part;		/* the siblings which share LLC and node */
	int		*group;		/* the CPUs which share LLC and node */
	int		*shard;		/* result of the layout */

	/* used by the check */
	int		*part_shard;	/* part -> shard of its first CPU, -1 if not seen */
	int		*shard_cpu;	/* shard -> its first CPU, -1 if not seen */
	int		*shard_cores;	/* shard -> number of cores */
	int		*group_cores;	/* group -> number of cores */
	int		*group_shards;	/* group -> number of shards */
};

static struct machine *alloc_machine(struct kunit *test, int max_cpus)
{
	struct machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int **arrays[] = {
		&m->core, &m->cluster, &m->llc, &m->node, &m->part, &m->group, &m->shard,
		&m->part_shard, &m->shard_cpu, &m->shard_cores, &m->group_cores,
		&m->group_shards,
	};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	for (i = 0; i < ARRAY_SIZE(arrays); i++) {
		*arrays[i] = kunit_kcalloc(test, max_cpus, sizeof(int), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, *arrays[i]);
	}
	m->possible = kunit_kcalloc(test, BITS_TO_LONGS(max_cpus), sizeof(long), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m->possible);
	m->topo.nr_cpus = max_cpus;
	m->topo.nr_nodes = max_cpus;
	m->topo.possible = m->possible;
	m->topo.node = m->node;
	m->topo.id[WQ_TOPO_CORE] = m->core;
	m->topo.id[WQ_TOPO_CLUSTER] = m->cluster;
	m->topo.id[WQ_TOPO_LLC] = m->llc;
	return m;
}

static void clear_machine(struct machine *m)
{
	bitmap_zero(m->possible, m->topo.nr_cpus);
	m->nr = 0;
}

/* put @cpu in its place */
static void place_cpu(struct machine *m, int cpu, int core, int llc, int node, int part, int group)
{
	__set_bit(cpu, m->possible);
	m->nr++;
	m->core[cpu] = core;
	m->cluster[cpu] = core;
	m->llc[cpu] = llc;
	m->node[cpu] = node;
	m->part[cpu] = part;
	m->group[cpu] = group;
}

/* a machine of @nr_cores cores with one thread each on one LLC */
static void set_plain_machine(struct machine *m, int nr_cores)
{
	int cpu;

	clear_machine(m);
	for (cpu = 0; cpu < nr_cores; cpu++)
		place_cpu(m, cpu, cpu, 0, 0, cpu, 0);
}

/* the nr whose @nr_cores / nr is nearest to @size, found by trying all */
static int nearest_nr_shards(int nr_cores, int size)
{
	s64 best_dist = 0;
	int nr, best = 0;

	for (nr = 1; nr <= nr_cores; nr++) {
		s64 dist = abs(nr_cores - (s64)size * nr);	/* times nr */

		if (!best || dist * best < best_dist * nr) {
			best = nr;
			best_dist = dist;
		}
	}
	return best;
}

/*
 * What is wrong with the layout of @m in @nr_shards shards for a wanted size of
 * @size cores, NULL if nothing.
 */
static const char *layout_error(struct machine *m, int nr_shards, unsigned int size)
{
	int i, cpu, shard, checked = -1;

	if (nr_shards < 1 || nr_shards > m->nr)
		return "impossible number of shards";

	for (i = 0; i < m->topo.nr_cpus; i++) {
		m->part_shard[i] = -1;
		m->shard_cpu[i] = -1;
		m->shard_cores[i] = 0;
		m->group_cores[i] = 0;
		m->group_shards[i] = 0;
	}

	for_each_set_bit(cpu, m->possible, m->topo.nr_cpus) {
		int part = m->part[cpu], group = m->group[cpu];

		shard = m->shard[cpu];
		if (shard < 0 || shard >= nr_shards)
			return "CPU without a shard";
		if (m->part_shard[part] < 0) {
			m->part_shard[part] = shard;
			m->shard_cores[shard]++;
			m->group_cores[group]++;
		} else if (m->part_shard[part] != shard) {
			return "siblings split";
		}
		if (m->shard_cpu[shard] < 0) {
			m->shard_cpu[shard] = cpu;
			m->group_shards[group]++;
		} else if (m->group[m->shard_cpu[shard]] != group) {
			return "LLC or node crossed";
		}
	}

	for (shard = 0; shard < nr_shards; shard++) {
		int cores, shards, group;

		if (m->shard_cpu[shard] < 0)
			return "empty shard";
		group = m->group[m->shard_cpu[shard]];
		cores = m->group_cores[group];
		shards = m->group_shards[group];
		if (m->shard_cores[shard] < cores / shards ||
		    m->shard_cores[shard] > DIV_ROUND_UP(cores, shards))
			return "sizes differ by more than one core";
		if (group != checked && shards != nearest_nr_shards(cores, size))
			return "mean size not the nearest";
		checked = group;
	}
	return NULL;
}

/* returns the number of shards, negative after a failure */
static int check_layout(struct kunit *test, struct machine *m, unsigned int size,
			const char *name)
{
	int nr_shards = wq_layout_shards(&m->topo, size, m->shard);
	const char *error = layout_error(m, nr_shards, size);

	cond_resched();		/* a case has thousands of layouts */
	if (!error)
		return nr_shards;
	KUNIT_FAIL(test, "%s, %d CPUs, size %u: %s", name, m->nr, size, error);
	return -EINVAL;
}

static const unsigned int sizes[] = { 1, 2, 3, 4, 8, 16, 32, 72, 4096 };

/*
 * Machines of @nr_llcs LLCs, each with @nr_smt cores of two threads and then
 * @nr_single cores of one. @nr_shards is the number of shards of one LLC for
 * each of sizes[], worked out by hand.
 */
static const struct {
	const char	*name;
	int		nr_llcs;
	int		nr_smt;
	int		nr_single;
	bool		one_missing;	/* the second thread of core 5 is absent */
	int		nr_shards[ARRAY_SIZE(sizes)];
} machines[] = {
	{ "NVIDIA Grace", 1, 0, 72, false, { 72, 36, 24, 18, 9, 5, 2, 1, 1 } },
	{ "Intel Xeon 8321HC", 1, 26, 0, false, { 26, 13, 9, 7, 3, 2, 1, 1, 1 } },
	{ "Intel Xeon 6450C", 1, 30, 0, true, { 30, 15, 10, 8, 4, 2, 1, 1, 1 } },
	{ "Intel Xeon D-2191A", 1, 16, 0, false, { 16, 8, 5, 4, 2, 1, 1, 1, 1 } },
	{ "AMD EPYC 9D64", 11, 8, 0, false, { 8, 4, 3, 2, 1, 1, 1, 1, 1 } },
	{ "AMD Ryzen 3900X", 4, 3, 0, false, { 3, 2, 1, 1, 1, 1, 1, 1, 1 } },
	{ "12 cores", 1, 0, 12, false, { 12, 6, 4, 3, 2, 1, 1, 1, 1 } },
	{ "hybrid", 1, 8, 16, false, { 24, 12, 8, 6, 3, 2, 1, 1, 1 } },
};

/*
 * Set @m to machines[@idx], with siblings numbered next to each other or, if
 * @apart, with the second threads numbered after all the first ones.
 */
static void set_machine(struct machine *m, int idx, bool apart)
{
	int per_llc = machines[idx].nr_smt + machines[idx].nr_single;
	int nr_cores = machines[idx].nr_llcs * per_llc;
	int pass, core, thread, cpu = 0;

	clear_machine(m);
	for (pass = 0; pass <= apart; pass++) {
		for (core = 0; core < nr_cores; core++) {
			int llc = core / per_llc;
			bool smt = core % per_llc < machines[idx].nr_smt;

			for (thread = 0; thread <= smt; thread++) {
				if (apart && thread != pass)
					continue;
				if (thread && core == 5 && machines[idx].one_missing)
					cpu++;
				else
					place_cpu(m, cpu++, core, llc, 0, core, llc);
			}
		}
	}
}

/* catches siblings split, an LLC crossed, an uneven spread, a wrong number */
static void shards_of_real_machines(struct kunit *test)
{
	struct machine *m = alloc_machine(test, 256);
	int idx, apart, i;

	for (idx = 0; idx < ARRAY_SIZE(machines); idx++) {
		for (apart = 0; apart <= 1; apart++) {
			set_machine(m, idx, apart);
			for (i = 0; i < ARRAY_SIZE(sizes); i++) {
				int nr = machines[idx].nr_llcs * machines[idx].nr_shards[i];
				const char *name = machines[idx].name;

				KUNIT_EXPECT_EQ_MSG(test, check_layout(test, m, sizes[i], name),
						    nr, "%s, size %u", name, sizes[i]);
			}
		}
	}
}

/* catches an off-by-one in the number of shards or in the spread */
static void shards_of_every_size(struct kunit *test)
{
	struct machine *m = alloc_machine(test, 256);
	int nr_cores, size;

	for (nr_cores = 1; nr_cores <= 256; nr_cores++) {
		set_plain_machine(m, nr_cores);
		for (size = 1; size <= 257; size++)
			if (check_layout(test, m, size, "one LLC") < 0)
				return;
		if (check_layout(test, m, INT_MAX, "one LLC") < 0)
			return;
	}
}

/* catches an LLC or node crossed where those of siblings differ */
static void shards_of_odd_machines(struct kunit *test)
{
	struct machine *m = alloc_machine(test, 64);
	int i;

	set_plain_machine(m, 1);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		KUNIT_EXPECT_EQ(test, check_layout(test, m, sizes[i], "one CPU"), 1);

	/* 4 cores of 2 on CPUs 3, 5, 11, 13, 19 ..., the last sibling in another LLC */
	clear_machine(m);
	for (i = 0; i < 7; i++)
		place_cpu(m, i / 2 * 8 + (i % 2 ? 5 : 3), i / 2, 0, 0, i / 2, 0);
	place_cpu(m, 3 * 8 + 5, 3, 1, 0, 4, 1);
	KUNIT_EXPECT_EQ(test, check_layout(test, m, 8, "sibling outside the LLC"), 2);
	KUNIT_EXPECT_EQ(test, check_layout(test, m, 2, "sibling outside the LLC"), 3);

	/* an LLC of 8 cores that goes over two nodes */
	clear_machine(m);
	for (i = 0; i < 8; i++)
		place_cpu(m, i, i, 0, i % 2, i, i % 2);
	KUNIT_EXPECT_EQ(test, check_layout(test, m, 8, "LLC over two nodes"), 2);
	KUNIT_EXPECT_EQ(test, check_layout(test, m, 2, "LLC over two nodes"), 4);
}

#define NR_RANDOM	3000

/*
 * Set @m to a random machine: up to four nodes of up to four LLCs of up to 24
 * cores of up to four threads. In every other one the numbering is random and
 * has holes. In one of eight an LLC may go on in the next node and the last
 * thread of a core may have an LLC of its own.
 */
static void set_random_machine(struct machine *m, struct rnd_state *rnd)
{
	int nr_nodes = 1 + prandom_u32_state(rnd) % 4;
	int nr_llcs = 1 + prandom_u32_state(rnd) % 4;
	int max_cores = 1 + prandom_u32_state(rnd) % 24;
	int max_threads = 1 + prandom_u32_state(rnd) % 4;
	bool shuffle = prandom_u32_state(rnd) % 2;
	bool odd = !(prandom_u32_state(rnd) % 8);
	int core = 0, part = 0, group = 0, llc = 0, nr_llc_ids = 1, nr = 0;
	int *number = m->part_shard;	/* scratch, the check resets it */
	int i, j, t;

	clear_machine(m);
	for (i = 0; i < m->topo.nr_cpus; i++)
		number[i] = i;
	for (i = m->topo.nr_cpus - 1; shuffle && i > 0; i--) {
		j = prandom_u32_state(rnd) % (i + 1);
		swap(number[i], number[j]);
	}

	for (i = 0; i < nr_nodes * nr_llcs; i++) {
		int nr_cores = 1 + prandom_u32_state(rnd) % max_cores;
		int this_group = group++;

		/* the first LLC of a node may be the last one of the node before */
		if (i && !(odd && i % nr_llcs == 0 && prandom_u32_state(rnd) % 2))
			llc = nr_llc_ids++;

		for (j = 0; j < nr_cores && nr + max_threads <= m->topo.nr_cpus; j++) {
			int nr_threads = 1 + prandom_u32_state(rnd) % max_threads;
			bool stray = odd && nr_threads > 1 && !(prandom_u32_state(rnd) % 8);
			int this_part = part++;

			for (t = 0; t < nr_threads - stray; t++)
				place_cpu(m, number[nr++], core, llc, i / nr_llcs,
					  this_part, this_group);
			if (stray)
				place_cpu(m, number[nr++], core, nr_llc_ids++, i / nr_llcs,
					  part++, group++);
			core++;
		}
	}
}

/* catches what depends on the numbering: a wrong sort, a level left out */
static void shards_of_random_machines(struct kunit *test)
{
	struct machine *m = alloc_machine(test, 512);
	struct rnd_state rnd;
	int i;

	kunit_info(test, "%d machines from seed %d\n", NR_RANDOM, RANDOM_SEED);
	prandom_seed_state(&rnd, RANDOM_SEED);
	for (i = 0; i < NR_RANDOM; i++) {
		unsigned int size;

		set_random_machine(m, &rnd);
		size = 1 + prandom_u32_state(&rnd) % 40;
		if (check_layout(test, m, size, "random machine") < 0) {
			kunit_info(test, "this was machine %d\n", i);
			return;
		}
	}
}

/*
 * CPUs that have never been online are no cores of any shard, and those of a node
 * are one. Where only first threads are up, cores are as many as with all of them.
 */
static void shards_without_late_cpus(struct kunit *test)
{
	static const struct late_machine cases[] = {
		{ "10 cores x 2, nosmt", 1, 1, 10, 2, true },
		{ "9 CPUs up of 64", 1, 1, 64, 1, true },
		{ "2 sockets of 12 cores x 2, nosmt", 2, 1, 12, 2, true },
	};
	/* worked out by hand: CPUs that are up, shards of them, pods in all */
	static const int want[][3] = { { 10, 1, 2 }, { 9, 1, 2 }, { 24, 4, 6 } };
	struct late_machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int idx, cpu;

	KUNIT_ASSERT_NOT_NULL(test, m);
	for (idx = 0; idx < ARRAY_SIZE(cases); idx++) {
		int up = want[idx][0], nr = 0;

		set_late_machine(m, &cases[idx]);
		for (cpu = 0; cpu < up; cpu++)
			late_online(m, cpu);
		KUNIT_EXPECT_EQ_MSG(test, wq_layout_shards(&m->topo, 8, m->pods), want[idx][2],
				    "%s", m->name);
		for (cpu = 0; cpu < m->topo.nr_cpus; cpu++) {
			int mate;

			for (mate = 0; mate < cpu; mate++) {
				bool share = m->pods[mate] == m->pods[cpu];

				if (cpu < up && mate < up)
					continue;
				KUNIT_EXPECT_EQ_MSG(test, share, mate >= up &&
						    m->seats[mate].node == m->seats[cpu].node,
						    "%s, CPUs %d and %d", m->name, mate, cpu);
			}
			/* the first CPU of its shard? */
			for (mate = 0; m->pods[mate] != m->pods[cpu]; mate++)
				;
			nr += cpu < up && mate == cpu;
		}
		KUNIT_EXPECT_EQ_MSG(test, nr, want[idx][1], "%s", m->name);
	}
}

/* a machine of one LLC with clusters of so many cores each, of one thread */
static void set_clustered_machine(struct machine *m, const int *clusters, int nr_clusters)
{
	int i, j, cpu = 0;

	clear_machine(m);
	for (i = 0; i < nr_clusters; i++) {
		for (j = 0; j < clusters[i]; j++, cpu++) {
			place_cpu(m, cpu, cpu, 0, 0, cpu, 0);
			m->cluster[cpu] = i;
		}
	}
}

/*
 * What is wrong with the shards of such a machine for a wanted size of @size cores:
 * their number, a cluster that is split though it is no larger, or a shard that is
 * farther from the mean than such a cluster is large.
 */
static const char *clusters_error(struct machine *m, int nr_shards, int size,
				  const int *clusters, int nr_clusters)
{
	int i, j, cpu = 0, largest = 1;

	if (nr_shards != nearest_nr_shards(m->nr, size))
		return "mean size not the nearest";
	memset(m->shard_cores, 0, m->topo.nr_cpus * sizeof(int));
	for (i = 0; i < nr_clusters; i++) {
		bool whole = clusters[i] <= size;

		if (whole)
			largest = max(largest, clusters[i]);
		for (j = 0; j < clusters[i]; j++, cpu++) {
			if (m->shard[cpu] < 0 || m->shard[cpu] >= nr_shards)
				return "CPU without a shard";
			if (whole && m->shard[cpu] != m->shard[cpu - j])
				return "cluster split";
			m->shard_cores[m->shard[cpu]]++;
		}
	}
	for (i = 0; i < nr_shards; i++) {
		if (!m->shard_cores[i])
			return "empty shard";
		if (abs(m->shard_cores[i] * nr_shards - m->nr) > largest * nr_shards)
			return "more than a cluster from the mean";
	}
	return NULL;
}

static const struct {
	const char	*name;
	int		nr_clusters;
	int		clusters[10];
	int		nr_shards;
	int		cores[4];	/* of each shard, at a size of 8 */
} clustered[] = {
	{ "6 P cores, 2 clusters of 4 E cores", 8, { 1, 1, 1, 1, 1, 1, 4, 4 }, 2, { 6, 8 } },
	{ "4 P cores, 2 clusters of 4 E cores", 6, { 1, 1, 1, 1, 4, 4 }, 2, { 8, 4 } },
	{ "arm64, clusters of 2", 10, { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 }, 3, { 6, 8, 6 } },
	{ "arm64, clusters of 4", 5, { 4, 4, 4, 4, 4 }, 3, { 8, 4, 8 } },
	{ "a cluster as large as a shard", 3, { 8, 8, 8 }, 3, { 8, 8, 8 } },
	{ "a cluster as large as the socket", 1, { 20 }, 3, { 7, 7, 6 } },
	{ "one larger and one smaller than a shard", 2, { 10, 6 }, 2, { 8, 8 } },
};

/* catches a cluster that is split, and one of a socket that keeps all in one shard */
static void shards_of_clusters(struct kunit *test)
{
	struct machine *m = alloc_machine(test, 256);
	struct rnd_state rnd;
	int idx, i, j;

	for (idx = 0; idx < ARRAY_SIZE(clustered); idx++) {
		int cores[4] = {};

		set_clustered_machine(m, clustered[idx].clusters, clustered[idx].nr_clusters);
		KUNIT_EXPECT_EQ(test, wq_layout_shards(&m->topo, 8, m->shard),
				clustered[idx].nr_shards);
		for (i = 0; i < m->nr; i++)
			cores[m->shard[i] & 3]++;
		for (i = 0; i < clustered[idx].nr_shards; i++)
			KUNIT_EXPECT_EQ_MSG(test, cores[i], clustered[idx].cores[i], "%s, shard %d",
					    clustered[idx].name, i);
	}

	prandom_seed_state(&rnd, RANDOM_SEED);
	for (i = 0; i < NR_RANDOM; i++) {
		int nr = 1 + prandom_u32_state(&rnd) % 12;
		int size = 1 + prandom_u32_state(&rnd) % 20;
		const char *error;
		int clusters[12];

		for (j = 0; j < nr; j++)
			clusters[j] = 1 + prandom_u32_state(&rnd) % 20;
		set_clustered_machine(m, clusters, nr);
		error = clusters_error(m, wq_layout_shards(&m->topo, size, m->shard), size,
				       clusters, nr);
		if (error) {
			KUNIT_FAIL(test, "random machine %d, size %d: %s", i, size, error);
			return;
		}
	}
}

#define MANY_LLCS	16

struct late_cpus_ns {
	u64	place;
	u64	layout;
};

/*
 * All CPUs of a machine come online late, one by one, its second half being the second
 * threads of cores. The time that it takes to place them, and to lay out the pods anew
 * for 64 of them.
 */
static struct late_cpus_ns time_late_cpus(struct kunit *test, int nr_cpus)
{
	struct machine *m = alloc_machine(test, nr_cpus);
	unsigned long *llcs[MANY_LLCS], *core, *online;
	const unsigned long *mates[WQ_TOPO_NODE];
	int nr_cores = nr_cpus / 2, cpu, llc, level;
	struct late_cpus_ns ns = {};
	u64 start;

	core = kunit_kcalloc(test, BITS_TO_LONGS(nr_cpus), sizeof(long), GFP_KERNEL);
	online = kunit_kcalloc(test, BITS_TO_LONGS(nr_cpus), sizeof(long), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, core);
	KUNIT_ASSERT_NOT_NULL(test, online);
	m->topo.online = online;
	for (llc = 0; llc < MANY_LLCS; llc++) {
		llcs[llc] = kunit_kcalloc(test, BITS_TO_LONGS(nr_cpus), sizeof(long),
					  GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, llcs[llc]);
	}
	bitmap_fill(m->possible, nr_cpus);
	for (cpu = 0; cpu < nr_cpus; cpu++) {
		m->core[cpu] = -1;
		m->cluster[cpu] = -1;
		m->llc[cpu] = -1;
	}

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		llc = cpu % nr_cores / (nr_cores / MANY_LLCS);
		__set_bit(cpu, llcs[llc]);
		bitmap_zero(core, nr_cpus);
		__set_bit(cpu, core);
		__set_bit(cpu % nr_cores, core);
		for (level = WQ_TOPO_CORE; level < WQ_TOPO_LLC; level++)
			mates[level] = core;
		mates[WQ_TOPO_LLC] = llcs[llc];

		start = ktime_get_ns();
		KUNIT_ASSERT_TRUE(test, wq_topo_place(&m->topo, cpu, llc / 8, mates));
		ns.place += ktime_get_ns() - start;
		__set_bit(cpu, online);
		if ((cpu + 1) % (nr_cpus / 64))
			continue;

		start = ktime_get_ns();
		for (level = WQ_TOPO_CORE; level < WQ_TOPO_NR_LEVELS; level++)
			KUNIT_ASSERT_GT(test, wq_layout_pods(&m->topo, level, m->shard), 0);
		KUNIT_ASSERT_GT(test, wq_layout_shards(&m->topo, 8, m->shard), 0);
		ns.layout += ktime_get_ns() - start;
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, wq_layout_shards(&m->topo, 8, m->shard), nr_cores / 8);
	return ns;
}

/*
 * To place a CPU takes a few steps for each CPU that there is, and so does a layout. With
 * eight times the CPUs, that is 64 times as long for all of them, and 8 times for a layout.
 * Catches what takes steps for each pair of CPUs: 512 and 64 times as long.
 */
static void late_cpus_take_linear_time(struct kunit *test)
{
	struct late_cpus_ns few = time_late_cpus(test, 512);
	struct late_cpus_ns many = time_late_cpus(test, 8 * 512);

	kunit_info(test, "512 CPUs: %llu and %llu us, 4096: %llu and %llu us\n",
		   few.place / 1000, few.layout / 1000, many.place / 1000, many.layout / 1000);
	KUNIT_EXPECT_LT(test, many.place, 3 * 64 * few.place);
	KUNIT_EXPECT_LT(test, many.layout, 3 * 8 * few.layout);
}

static void expect_shards_fit_machine(struct kunit *test)
{
	const struct wq_pod_type *shards = &wq_pod_types[WQ_AFFN_CACHE_SHARD];
	int cpu, mate;

	for_each_online_cpu(cpu) {
		const struct cpumask *shard = shards->pod_cpus[shards->cpu_pod[cpu]];
		const struct cpumask *llc = sched_llc_mask(cpu);

		KUNIT_EXPECT_EQ(test, shards->pod_node[shards->cpu_pod[cpu]], cpu_to_node(cpu));
		for_each_cpu_and(mate, shard, cpu_online_mask) {
			KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(mate, llc));
			KUNIT_EXPECT_EQ(test, cpu_to_node(mate), cpu_to_node(cpu));
		}
#ifdef CONFIG_SCHED_SMT
		for_each_cpu(mate, cpu_smt_mask(cpu)) {
			if (cpumask_test_cpu(mate, llc) && cpu_to_node(mate) == cpu_to_node(cpu))
				KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(mate, shard));
		}
#endif
	}
}

/* on the machine that the test runs on, as far as it has CPUs to tell */
static void shards_of_this_machine(struct kunit *test)
{
	expect_shards_fit_machine(test);
}

static void bogus_shard_size_changes_nothing(struct kunit *test)
{
	static const char * const bogus[] = {
		"", "\n", "0", "-1", "abc", "8 cores", "2147483648", "99999999999",
	};
	unsigned int before = wq_cache_shard_size;
	int i;

	for (i = 0; i < ARRAY_SIZE(bogus); i++) {
		KUNIT_EXPECT_EQ_MSG(test, wq_cache_shard_size_set(bogus[i], NULL), -EINVAL,
				    "\"%s\"", bogus[i]);
		KUNIT_EXPECT_EQ(test, wq_cache_shard_size, before);
	}
}

struct blocked {
	struct work_struct	work;
	struct completion	started;
	struct completion	release;
};

static void blocked_fn(struct work_struct *work)
{
	struct blocked *blocked = container_of(work, struct blocked, work);

	complete(&blocked->started);
	wait_for_completion(&blocked->release);
}

/*
 * Catches shards that don't follow the size, and an item that was running when
 * the size changed and is lost, or runs again when it is queued again meanwhile.
 */
static void shard_size_changes_at_run_time(struct kunit *test)
{
	const struct wq_pod_type *shards = &wq_pod_types[WQ_AFFN_CACHE_SHARD];
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	unsigned int before = wq_cache_shard_size;
	struct blocked blocked;
	char buf[16];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, attrs);
	attrs->affn_scope = WQ_AFFN_CACHE_SHARD;
	KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);

	INIT_WORK_ONSTACK(&blocked.work, blocked_fn);
	init_completion(&blocked.started);
	init_completion(&blocked.release);
	queue_work(wq, &blocked.work);
	wait_for_completion(&blocked.started);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		snprintf(buf, sizeof(buf), "%u\n", sizes[i]);
		KUNIT_EXPECT_EQ(test, wq_cache_shard_size_set(buf, NULL), 0);
		KUNIT_EXPECT_EQ(test, wq_cache_shard_size, sizes[i]);
		expect_shards_fit_machine(test);
		if (sizes[i] == 1)
			KUNIT_EXPECT_EQ(test, shards->nr_pods,
					wq_pod_types[WQ_AFFN_SMT].nr_pods);
		if (sizes[i] == 4096)
			KUNIT_EXPECT_EQ(test, shards->nr_pods,
					wq_pod_types[WQ_AFFN_CACHE].nr_pods);
		KUNIT_EXPECT_EQ(test, work_busy(&blocked.work), WORK_BUSY_RUNNING);
	}

	reinit_completion(&blocked.started);
	queue_work(wq, &blocked.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&blocked.started, HZ / 20));
	complete_all(&blocked.release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&blocked.started, 10 * HZ));

	snprintf(buf, sizeof(buf), "%u", before);
	KUNIT_EXPECT_EQ(test, wq_cache_shard_size_set(buf, NULL), 0);
	flush_work(&blocked.work);
	destroy_work_on_stack(&blocked.work);
	free_workqueue_attrs(attrs);
	destroy_workqueue(wq);
}

enum { NR_LIMITED = 24 };

/* a workqueue with items that run until they are told to end */
struct limited {
	struct workqueue_struct	*wq;
	struct completion	end;		/* complete() lets one item end */
	atomic_t		nr_running;
	struct limited_item {
		struct work_struct	work;
		struct limited		*limited;
		int			nr_runs;
	} items[NR_LIMITED];
};

static void limited_fn(struct work_struct *work)
{
	struct limited_item *item = container_of(work, struct limited_item, work);
	struct limited *limited = item->limited;

	item->nr_runs++;
	atomic_inc(&limited->nr_running);
	wait_for_completion(&limited->end);
	atomic_dec(&limited->nr_running);
}

static struct limited *alloc_limited(struct kunit *test, int max_active)
{
	struct limited *limited;
	int i;

	limited = kunit_kzalloc(test, sizeof(*limited), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, limited);
	limited->wq = alloc_workqueue("kunit", WQ_UNBOUND, max_active);
	KUNIT_ASSERT_NOT_NULL(test, limited->wq);
	init_completion(&limited->end);
	for (i = 0; i < NR_LIMITED; i++) {
		INIT_WORK(&limited->items[i].work, limited_fn);
		limited->items[i].limited = limited;
	}
	return limited;
}

/* queue @nr items from @first on, on all CPUs in turns or all on one */
static void queue_limited(struct limited *limited, int first, int nr, bool all_cpus)
{
	int cpu = cpumask_first(cpu_online_mask), i;

	for (i = first; i < first + nr; i++) {
		queue_work_on(cpu, limited->wq, &limited->items[i].work);
		if (!all_cpus)
			continue;
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
}

/* slots that are in use, free or spare, less those owed; exact while nothing changes */
static int nr_slots(struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	int nr = 0;

	mutex_lock(&wq->mutex);
	nr += wq_nr_spare(wq) - atomic_read(&wq->nr_owed);
	for_each_pwq(pwq, wq)
		nr += READ_ONCE(pwq->nr_active) - READ_ONCE(pwq->nr_listed) +
		      READ_ONCE(pwq->nr_granted) + max(atomic_read(&pwq->nr_free), 0);
	mutex_unlock(&wq->mutex);

	return nr;
}

/* when to give up on what should happen at once, sooner if something failed before */
static unsigned long patience(struct kunit *test)
{
	return test->status == KUNIT_SUCCESS ? 10 * HZ : HZ / 20;
}

/* soon @nr items run, and it stays at that; no slot has been lost or made up */
static void expect_running(struct kunit *test, struct limited *limited, int nr)
{
	unsigned long end = jiffies + patience(test);
	struct workqueue_struct *wq = limited->wq;
	int in_a_row = 0;

	do {
		usleep_range(2000, 4000);
		if (atomic_read(&limited->nr_running) == nr && nr_slots(wq) == wq->max_active)
			in_a_row++;
		else
			in_a_row = 0;
	} while (in_a_row < 4 && time_before(jiffies, end));
	KUNIT_EXPECT_EQ(test, in_a_row, 4);
	KUNIT_EXPECT_EQ(test, atomic_read(&limited->nr_running), nr);
	KUNIT_EXPECT_EQ(test, nr_slots(wq), wq->max_active);
}

/* let all items end, all of which have to have run @nr_runs times */
static void free_limited(struct kunit *test, struct limited *limited, int nr_runs)
{
	unsigned long end = jiffies + patience(test);
	int i;

	for (i = 0; i < NR_LIMITED; i++)
		complete(&limited->end);
	for (i = 0; i < NR_LIMITED; i++) {
		while (work_busy(&limited->items[i].work) && time_before(jiffies, end))
			usleep_range(2000, 4000);
		KUNIT_EXPECT_FALSE_MSG(test, cancel_work(&limited->items[i].work),
				       "item %d waits", i);
		KUNIT_EXPECT_EQ_MSG(test, limited->items[i].nr_runs, nr_runs, "item %d", i);
	}
	destroy_workqueue(limited->wq);
}

static void limit_is_exact(struct kunit *test)
{
	static const int limits[] = { 1, 2, 3, 4, 8, 16 };
	struct limited *limited;
	int i, ended;

	for (i = 0; i < 2 * ARRAY_SIZE(limits); i++) {
		int limit = limits[i / 2];

		limited = alloc_limited(test, limit);
		queue_limited(limited, 0, NR_LIMITED, i % 2);
		for (ended = 0; ended <= NR_LIMITED; ended += 3) {
			expect_running(test, limited, min(limit, NR_LIMITED - ended));
			complete(&limited->end);
			complete(&limited->end);
			complete(&limited->end);
		}
		free_limited(test, limited, 1);
	}
}

static void limit_is_raised_and_lowered(struct kunit *test)
{
	struct limited *limited = alloc_limited(test, 4);
	struct workqueue_struct *wq = limited->wq;

	queue_limited(limited, 0, NR_LIMITED, true);
	expect_running(test, limited, 4);
	workqueue_set_max_active(wq, 7);
	expect_running(test, limited, 7);

	/* nothing starts before fewer than two are running */
	workqueue_set_max_active(wq, 2);
	expect_running(test, limited, 7);
	complete(&limited->end);
	expect_running(test, limited, 6);
	workqueue_set_max_active(wq, 3);
	complete(&limited->end);
	complete(&limited->end);
	expect_running(test, limited, 4);
	complete(&limited->end);
	expect_running(test, limited, 3);
	complete(&limited->end);
	expect_running(test, limited, 3);

	/* what freezing does */
	mutex_lock(&wq->mutex);
	wq->saved_max_active = 0;
	wq_adjust_max_active(wq);
	mutex_unlock(&wq->mutex);
	complete(&limited->end);
	expect_running(test, limited, 2);
	complete(&limited->end);
	complete(&limited->end);
	expect_running(test, limited, 0);
	workqueue_set_max_active(wq, 5);
	expect_running(test, limited, 5);

	/* 8 have ended */
	workqueue_set_max_active(wq, WQ_MAX_ACTIVE);
	expect_running(test, limited, NR_LIMITED - 8);
	free_limited(test, limited, 1);
}

/* there would be no end to passing slots to a pwq that waits with nothing to activate */
static void expect_nobody_waits(struct kunit *test, struct workqueue_struct *wq)
{
	struct pool_workqueue *pwq;
	int nr = 0;

	mutex_lock(&wq->mutex);
	for_each_pwq(pwq, wq)
		nr += !list_empty(&pwq->pending_node);
	mutex_unlock(&wq->mutex);
	KUNIT_EXPECT_EQ(test, nr, 0);
}

/* items that are cancelled while they wait neither keep a slot nor lose one */
static void waiting_items_can_be_cancelled(struct kunit *test)
{
	struct limited *limited = alloc_limited(test, 2);
	bool waited[6];
	int i, nr = 0;

	/* whichever two start */
	queue_limited(limited, 0, 6, true);
	expect_running(test, limited, 2);
	for (i = 0; i < 6; i++) {
		waited[i] = cancel_work(&limited->items[i].work);
		nr += waited[i];
	}
	KUNIT_EXPECT_EQ(test, nr, 4);
	expect_nobody_waits(test, limited->wq);
	expect_running(test, limited, 2);
	complete(&limited->end);
	expect_running(test, limited, 1);
	for (i = 0; i < 6; i++)
		if (waited[i])
			queue_limited(limited, i, 1, false);
	expect_running(test, limited, 2);
	for (i = 0; i < 6 && !cancel_work(&limited->items[i].work); i++)
		;
	KUNIT_EXPECT_LT(test, i, 6);
	complete(&limited->end);
	expect_running(test, limited, 2);
	queue_limited(limited, i, 1, true);
	queue_limited(limited, 6, NR_LIMITED - 6, true);
	expect_running(test, limited, 2);
	free_limited(test, limited, 1);
}

struct chain {
	struct work_struct	work;
	struct workqueue_struct	*wq;
	int			nr_left;	/* times that it is executed yet */
};

static void chain_fn(struct work_struct *work)
{
	struct chain *chain = container_of(work, struct chain, work);

	usleep_range(1000, 2000);
	if (--chain->nr_left)
		queue_work(chain->wq, work);
}

/* Catches a workqueue that is taken for empty while an item of it is queued again. */
static void draining_waits_for_chained_items(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct chain chain = { .wq = wq, .nr_left = 5 };

	KUNIT_ASSERT_NOT_NULL(test, wq);
	INIT_WORK_ONSTACK(&chain.work, chain_fn);
	queue_work(wq, &chain.work);
	drain_workqueue(wq);
	KUNIT_EXPECT_EQ(test, READ_ONCE(chain.nr_left), 0);
	cancel_work_sync(&chain.work);
	destroy_work_on_stack(&chain.work);
	destroy_workqueue(wq);
}

enum { NR_SLOT_NODES = 3, NR_NODE_POOLS = 3, NR_SLOT_ITEMS = 30 };
enum { NR_SLOT_POOLS = (NR_SLOT_NODES + 1) * NR_NODE_POOLS };

/* a pool without threads: items of its one pwq are started and ended as the case says */
struct slots_pool {
	struct worker_pool	pool;
	struct pool_workqueue	*pwq;
	struct work_struct	items[NR_SLOT_ITEMS];
	struct worker		workers[NR_SLOT_ITEMS];
};

/* an unbound workqueue with pools on made-up nodes, the last ones are on none */
struct slots {
	struct workqueue_struct	*wq;
	struct slots_pool	pools[NR_SLOT_POOLS];
	bool			started;	/* since the last check */
};

static struct slots_pool *node_pool(struct slots *slots, int node, int i)
{
	return &slots->pools[node * NR_NODE_POOLS + i];
}

static void slots_fn(struct work_struct *work)
{
	/* nobody calls it */
}

/* the timer stays pending until slots_tick() */
static void slots_timer_fn(struct timer_list *t)
{
	mod_timer(t, jiffies + 1);
}

static void free_slots(void *arg)
{
	struct slots *slots = arg;
	struct slots_pool *p;
	int i;

	timer_shutdown_sync(&slots->wq->slot_timer);
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		for (i = 0; i < NR_SLOT_ITEMS; i++)
			cancel_work(&p->items[i]);
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		kmem_cache_free(pwq_cache, p->pwq);
	free_percpu(slots->wq->cpu_pwq);
	free_node_nr_active(slots->wq);
}

static void init_slots_pool(struct slots *slots, struct slots_pool *p, int node)
{
	struct worker_pool *pool = &p->pool;
	int i;

	raw_spin_lock_init(&pool->lock);
	pool->cpu = -1;
	pool->id = -1;
	pool->node = node == NR_SLOT_NODES ? NUMA_NO_NODE : node;
	INIT_LIST_HEAD(&pool->worklist);
	INIT_LIST_HEAD(&pool->idle_list);
	hash_init(pool->busy_hash);
	pool->nr_running = 1;	/* so that nobody is woken up */
	p->pwq = kmem_cache_alloc(pwq_cache, GFP_KERNEL | __GFP_NOFAIL);
	init_pwq(p->pwq, slots->wq, pool);
	list_add_tail(&p->pwq->pwqs_node, &slots->wq->pwqs);
	for (i = 0; i < NR_SLOT_ITEMS; i++) {
		INIT_WORK(&p->items[i], slots_fn);
		INIT_LIST_HEAD(&p->workers[i].scheduled);
		p->workers[i].pool = pool;
	}
}

static struct slots *alloc_slots(struct kunit *test, int max_active)
{
	struct slots *slots = kunit_kzalloc(test, sizeof(*slots), GFP_KERNEL);
	struct workqueue_struct *wq;
	struct slots_pool *p;

	wq = kunit_kzalloc(test, struct_size(wq, node_nr_active, NR_SLOT_NODES + 1), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slots);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	slots->wq = wq;
	wq->flags = WQ_UNBOUND;
	wq->max_active = max_active;
	wq->nr_nodes = NR_SLOT_NODES;
	mutex_init(&wq->mutex);
	INIT_LIST_HEAD(&wq->pwqs);
	timer_setup(&wq->slot_timer, slots_timer_fn, 0);
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		init_slots_pool(slots, p, (p - slots->pools) / NR_NODE_POOLS);
	RCU_INIT_POINTER(wq->dfl_pwq, slots->pools[0].pwq);
	wq->cpu_pwq = alloc_percpu(struct pool_workqueue __rcu *);
	KUNIT_EXPECT_EQ(test, alloc_node_nr_active(wq), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_slots, slots), 0);
	KUNIT_ASSERT_NOT_NULL(test, wq->cpu_pwq);
	return slots;
}

/* let a node own @nr of the slots that no node owns yet */
static void slots_own(struct slots *slots, int node, int nr)
{
	struct wq_node_nr_active *none = slots->wq->node_nr_active[NR_SLOT_NODES];
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[node];

	none->nr_owned -= nr;
	none->nr_spare -= nr;
	nna->nr_owned += nr;
	nna->nr_spare += nr;
}

static int slots_owned(struct slots *slots, int node)
{
	return slots->wq->node_nr_active[node]->nr_owned;
}

static bool slots_queue_item(struct slots_pool *p, struct work_struct *work)
{
	struct workqueue_struct *wq = p->pwq->wq;
	int cpu = raw_smp_processor_id();

	/* no other thread of that CPU queues anything on @wq */
	rcu_assign_pointer(*per_cpu_ptr(wq->cpu_pwq, cpu), p->pwq);
	return queue_work_on(cpu, wq, work);
}

/* queue @nr items that neither wait nor execute */
static void slots_queue(struct slots_pool *p, int nr)
{
	int i;

	for (i = 0; i < NR_SLOT_ITEMS && nr; i++)
		if (!find_worker_executing_work(&p->pool, &p->items[i]))
			nr -= slots_queue_item(p, &p->items[i]);
}

/* as process_scheduled_works(), up to where the function of the first item is called */
static bool slots_process(struct worker *worker)
{
	struct work_struct *work;

	while ((work = list_first_entry_or_null(&worker->scheduled, struct work_struct, entry))) {
		if (!pwq_start_work(worker, work))
			continue;
		debug_work_deactivate(work);
		hash_add(worker->pool->busy_hash, &worker->hentry, (unsigned long)work);
		worker->current_work = work;
		worker->current_func = work->func;
		worker->current_pwq = get_work_pwq(work);
		list_del_init(&work->entry);
		set_work_pool_and_clear_pending(work, worker->pool->id, 0);
		return true;
	}
	return false;
}

/* as worker_thread(). Return: %true if the first item on the worklist has been started */
static bool slots_start(struct slots_pool *p)
{
	struct worker *worker = p->workers;
	struct work_struct *work;

	guard(raw_spinlock_irq)(&p->pool.lock);
	work = list_first_entry_or_null(&p->pool.worklist, struct work_struct, entry);
	if (!work)
		return false;
	while (worker->current_work)
		worker++;
	if (assign_work(work, worker, NULL))
		return slots_process(worker);
	pwq_put_surplus(p->pwq);
	return false;
}

/* the first item that executes, from the @i-th worker on; it doesn't wait if it was queued again */
static struct worker *slots_executing(struct slots_pool *p, int i)
{
	for (; i < NR_SLOT_ITEMS; i++)
		if (p->workers[i].current_work)
			return &p->workers[i];
	return NULL;
}

/* as process_one_work() after it has called the function */
static bool slots_end_item(struct worker *worker)
{
	struct pool_workqueue *pwq = worker->current_pwq;

	guard(raw_spinlock_irq)(&worker->pool->lock);
	hash_del(&worker->hentry);
	worker->current_work = NULL;
	worker->current_func = NULL;
	worker->current_pwq = NULL;
	pwq_dec_nr_in_flight(pwq, 0, true);
	return slots_process(worker);
}

/* Return: %true if there was an item to end */
static bool slots_end(struct slots_pool *p)
{
	struct worker *worker = slots_executing(p, 0);

	if (worker)
		slots_end_item(worker);
	return worker;
}

/* how many items of @nr_pools pools execute */
static int slots_running(struct slots_pool *p, int nr_pools)
{
	int i, nr = 0;

	for (; nr_pools; p++, nr_pools--)
		for (i = 0; i < NR_SLOT_ITEMS; i++)
			nr += !!p->workers[i].current_work;
	return nr;
}

/* start all that is on worklists, or find that there is no slot for it */
static void slots_start_all(struct slots *slots)
{
	struct slots_pool *p;
	bool again;

	do {
		again = false;
		for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
			while (!list_empty(&p->pool.worklist)) {
				slots->started |= slots_start(p);
				again = true;
			}
	} while (again);
}

/* queue and start items. Return: how many of the pool execute now */
static int slots_run(struct slots *slots, struct slots_pool *p, int nr)
{
	slots_queue(p, nr);
	slots_start_all(slots);
	return slots_running(p, 1);
}

static bool slots_armed(struct slots *slots)
{
	/* slots_timer_fn() may be at it just now */
	bool armed = timer_delete_sync(&slots->wq->slot_timer);

	if (armed)
		mod_timer(&slots->wq->slot_timer, jiffies + 1);
	return armed;
}

static bool slots_tick(struct slots *slots)
{
	if (!timer_delete_sync(&slots->wq->slot_timer))
		return false;
	wq_slot_timer_fn(&slots->wq->slot_timer);
	return true;
}

/* until nothing changes anymore unless an item ends or is queued, for which few ticks do */
static void slots_settle(struct slots *slots)
{
	int i = 0;

	do {
		slots_start_all(slots);
	} while (slots_tick(slots) && i++ < 10);
}

static void slots_set_max_active(struct slots *slots, int max_active)
{
	mutex_lock(&slots->wq->mutex);
	wq_set_nr_slots(slots->wq, max_active);
	mutex_unlock(&slots->wq->mutex);
}

/* as the timer does before it passes on what is free */
static void slots_close_pwqs(struct slots *slots, int node)
{
	node_close_pwqs(slots->wq, slots->wq->node_nr_active[node]);
}

/* let no turn end for the time that it takes, or each at once */
static void slots_set_turns(struct slots *slots, u64 until)
{
	struct slots_pool *p;
	int node;

	/* not of those that haven't had one */
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		if (p->pwq->keep_until)
			p->pwq->keep_until = until;
	for (node = 0; node <= NR_SLOT_NODES; node++)
		slots->wq->node_nr_active[node]->turn_until = until;
}

static const char *slots_pwq_error(struct slots_pool *p)
{
	struct pool_workqueue *pwq = p->pwq;
	int nr_executing = slots_running(p, 1);
	bool is_open = atomic_read(&pwq->nr_free) >= 0;
	struct work_struct *work;
	int nr = 0;

	list_for_each_entry(work, &p->pool.worklist, entry) {
		if (*work_data_bits(work) & WORK_STRUCT_INACTIVE)
			return "an inactive item is on the worklist";
		nr++;
	}
	list_for_each_entry(work, &pwq->inactive_works, entry)
		if (!(*work_data_bits(work) & WORK_STRUCT_INACTIVE))
			return "an active item is inactive";
	if (pwq->nr_listed != nr)
		return "nr_listed isn't what is on the worklist";
	if (pwq->nr_active != nr + nr_executing)
		return "nr_active isn't what is on the worklist or executes";
	if (pwq->nr_granted < 0 || pwq->nr_granted > nr)
		return "more slots are granted than there are items";
	if (is_open == list_empty(&pwq->open_node))
		return "open isn't what is among the open ones";
	if (list_empty(&pwq->inactive_works) != list_empty(&pwq->pending_node))
		return "pending isn't what has inactive items";
	/* so no more than there are slots are open when somebody looks for one */
	if (!atomic_read(&pwq->nr_free) && !nr_executing && !pwq->nr_granted)
		return "open without a slot";
	return NULL;
}

static const char *slots_error(struct slots *slots)
{
	int nr_owned = 0, nr_free = 0, nr_granted = 0, nr_counted = 0, nr_waiting = 0, node, i;
	struct workqueue_struct *wq = slots->wq;
	int nr_owed = atomic_read(&wq->nr_owed);

	for (node = 0; node <= NR_SLOT_NODES; node++) {
		struct wq_node_nr_active *nna = wq->node_nr_active[node];
		struct slots_pool *p = node_pool(slots, node, 0);
		int has = slots_running(p, NR_NODE_POOLS), free = nna->nr_spare;

		for (i = 0; i < NR_NODE_POOLS; i++, p++) {
			struct pool_workqueue *pwq = p->pwq;
			const char *error = slots_pwq_error(p);

			if (error)
				return error;
			has += pwq->nr_granted;
			nr_granted += pwq->nr_granted;
			free += max(atomic_read(&pwq->nr_free), 0);
		}
		if (nna->nr_spare < 0 || has + free != nna->nr_owned)
			return "a node's slots don't add up";
		if (!list_empty(&nna->pending_pwqs)) {
			if (!list_empty(&nna->open_pwqs))
				return "a pwq is open on a node that waits";
			if (free)
				return "a slot is spare on a node that waits";
			if (!nna->counted)
				return "a node that waits isn't counted";
			nr_waiting++;
		}
		nr_owned += nna->nr_owned;
		nr_free += free;
		nr_counted += nna->counted;
	}
	if (nr_waiting && nr_free && !slots_armed(slots))
		return "a slot is free elsewhere, and nobody is going to look";
	if (nr_counted != atomic_read(&wq->nr_waiting))
		return "nr_waiting isn't the number of those that are counted";
	if (nr_owned != wq->max_active + nr_owed)
		return "the nodes' slots don't add up";
	if (nr_owed < 0 || (nr_owed && nr_free + nr_granted))
		return "slots are owed, but could be given up";
	if (slots->started && slots_running(slots->pools, NR_SLOT_POOLS) > wq->max_active)
		return "an item has started that may not";
	slots->started = false;
	return NULL;
}

static void expect_slots(struct kunit *test, struct slots *slots, const char *what, int step)
{
	const char *error = slots_error(slots);

	KUNIT_ASSERT_TRUE_MSG(test, !error, "%s, step %d: %s", what, step, error);
}

/* everything gets its turn, and then has left nothing behind */
static void drain_slots(struct kunit *test, struct slots *slots)
{
	struct slots_pool *p;
	int nr;

	if (slots->wq->max_active < 3)
		slots_set_max_active(slots, 3);
	do {
		slots_settle(slots);
		expect_slots(test, slots, "drain", 0);
		nr = 0;
		for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
			nr += slots_end(p);
	} while (nr);
	/* it isn't armed anymore */
	wq_slot_timer_fn(&slots->wq->slot_timer);
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++) {
		KUNIT_EXPECT_EQ(test, p->pwq->nr_in_flight[0], 0);
		KUNIT_EXPECT_EQ(test, p->pwq->refcnt, 1);
		KUNIT_EXPECT_TRUE(test, list_empty(&p->pwq->inactive_works));
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_owed), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_waiting), 0);
}

/* nothing waits while a slot is free anywhere */
static void expect_all_used(struct kunit *test, struct slots *slots, int step)
{
	int nr_waiting = 0, nr_running;
	struct slots_pool *p;

	slots_settle(slots);
	expect_slots(test, slots, "settle", step);
	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		nr_waiting += !list_empty(&p->pwq->inactive_works);
	nr_running = slots_running(slots->pools, NR_SLOT_POOLS);
	if (nr_waiting)
		KUNIT_ASSERT_GE_MSG(test, nr_running, slots->wq->max_active, "step %d", step);
}

enum { SLOTS_LISTED, SLOTS_WAITS, SLOTS_DEFERRED, SLOTS_NR_PLACES };

/* Return: where the item was that has been cancelled, %SLOTS_NR_PLACES if it wasn't pending */
static int slots_cancel(struct slots_pool *p, struct work_struct *work)
{
	bool inactive = *work_data_bits(work) & WORK_STRUCT_INACTIVE;
	int nr = list_count_nodes(&p->pwq->inactive_works);

	if (!cancel_work(work))
		return SLOTS_NR_PLACES;
	if (!inactive)
		return SLOTS_LISTED;
	return list_count_nodes(&p->pwq->inactive_works) < nr ? SLOTS_WAITS : SLOTS_DEFERRED;
}

/* something to do, which is more for one pool at each time. There are times with less to do */
static void slots_random_step(struct slots *slots, struct rnd_state *rnd, int step,
			      int *nr_cancelled)
{
	static const int limits[] = { 1, 1, 2, 3, 5, 8, 16, 40, 100, WQ_MAX_ACTIVE, 0 };
	u32 what = prandom_u32_state(rnd) % 300, ends = step / 500 % 2 ? 105 : 85;
	struct slots_pool *p = &slots->pools[prandom_u32_state(rnd) % NR_SLOT_POOLS];
	u32 i = prandom_u32_state(rnd) % NR_SLOT_ITEMS;
	struct worker *worker;

	if (prandom_u32_state(rnd) % 2)
		p = &slots->pools[step / 200 % NR_SLOT_POOLS];

	if (what == 0) {
		/* often just what executes, or a little less */
		int nr = slots_running(slots->pools, NR_SLOT_POOLS) - i % 3;

		i %= 2 * ARRAY_SIZE(limits);
		slots_set_max_active(slots, i < ARRAY_SIZE(limits) ? limits[i] : max(nr, 0));
	} else if (what < 5) {
		slots_tick(slots);
	} else if (what < 25) {
		nr_cancelled[slots_cancel(p, &p->items[i % 5])]++;
	} else if (what < 25 + ends) {
		worker = slots_executing(p, i) ?: slots_executing(p, 0);
		if (worker)
			slots->started |= slots_end_item(worker);
	} else if (what < 210) {
		slots->started |= slots_start(p);
	} else {
		slots_queue_item(p, &p->items[i % 5]);
	}
}

/*
 * Catches slots that get lost or are made up, that are free while an item waits, and
 * pwqs that wait without an item that does or the other way round.
 */
static void slots_add_up(struct kunit *test)
{
	int nr_cancelled[SLOTS_NR_PLACES + 1] = {}, seed, step;

	for (seed = RANDOM_SEED; seed < RANDOM_SEED + 10; seed++) {
		struct slots *slots = alloc_slots(test, 4);
		struct rnd_state rnd;

		prandom_seed_state(&rnd, seed);
		for (step = 0; step < 4000; step++) {
			slots_random_step(slots, &rnd, step, nr_cancelled);
			expect_slots(test, slots, "random", step);
			if (step % 1000 == 999)
				expect_all_used(test, slots, step);
		}
		drain_slots(test, slots);
	}
	for (step = 0; step < SLOTS_NR_PLACES; step++)
		KUNIT_EXPECT_GT_MSG(test, nr_cancelled[step], 5, "place %d", step);
}

struct slots_racer {
	struct slots_pool	*pool;
	unsigned long		end;		/* jiffies */
	struct completion	done;
};

static int slots_race_fn(void *arg)
{
	struct slots_racer *racer = arg;
	struct slots_pool *p = racer->pool;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, RANDOM_SEED + raw_smp_processor_id());
	while (time_before(jiffies, racer->end)) {
		slots_queue(p, prandom_u32_state(&rnd) % 4);
		if (prandom_u32_state(&rnd) % 8 == 0)
			cancel_work(&p->items[prandom_u32_state(&rnd) % 4]);
		while (slots_start(p))
			;
		while (prandom_u32_state(&rnd) % 4 && slots_end(p))
			;
		cond_resched();
	}
	complete(&racer->done);
	return 0;
}

/* Catches slots that get lost or are made up when they are put back and taken at once. */
static void slots_add_up_in_races(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct slots_racer racers[NR_SLOT_POOLS];
	unsigned long end = jiffies + 2 * HZ;
	int cpu, nr = 0, i = 0;
	bool armed;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");

	slots->wq->slot_timer.function = wq_slot_timer_fn;
	for_each_online_cpu(cpu) {
		struct slots_racer *racer = &racers[nr];
		struct task_struct *task;

		/* two on each node */
		racer->pool = node_pool(slots, nr / 2, nr % 2);
		racer->end = end;
		init_completion(&racer->done);
		task = kthread_run_on_cpu(slots_race_fn, racer, cpu, "kunit_slots/%u");
		KUNIT_EXPECT_FALSE(test, IS_ERR(task));
		if (IS_ERR(task) || ++nr == 2 * (NR_SLOT_NODES + 1))
			break;
	}
	while (time_before(jiffies, end)) {
		slots_set_max_active(slots, i++ % 12);
		usleep_range(500, 1500);
	}
	for (i = 0; i < nr; i++)
		wait_for_completion(&racers[i].done);

	armed = timer_delete_sync(&slots->wq->slot_timer);
	slots->wq->slot_timer.function = slots_timer_fn;
	if (armed)
		mod_timer(&slots->wq->slot_timer, jiffies + 1);
	expect_slots(test, slots, "race", 0);
	expect_all_used(test, slots, 0);
	drain_slots(test, slots);
}

/* Catches a share of another size, and slots that max_active is raised by and nobody finds. */
static void slots_of_no_node_are_shared_out(struct kunit *test)
{
	int share = DIV_ROUND_UP(12, num_online_nodes());
	struct slots *slots = alloc_slots(test, 12);

	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 12);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 0, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), share);
	expect_slots(test, slots, "first", 0);

	slots_set_max_active(slots, 20);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 20 - share);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, NR_SLOT_NODES, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 20 - share);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 0, 1), 15), 15);
	expect_slots(test, slots, "raised", 0);
	drain_slots(test, slots);

	/* before what another node has, which it keeps */
	slots = alloc_slots(test, 8);
	slots_own(slots, 0, 4);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 0), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 4);
	expect_slots(test, slots, "before", 0);
	drain_slots(test, slots);
}

/*
 * Items may wait for each other, if they aren't more than max_active. Catches a slot that
 * some pool keeps for itself.
 */
static void slots_are_found_anywhere(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, NR_SLOT_ITEMS);
	struct slots_pool *p, *other;

	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++) {
		for (other = slots->pools; other < slots->pools + NR_SLOT_POOLS; other++)
			slots_queue(other, 1);
		slots_settle(slots);
		for (other = slots->pools; other < slots->pools + NR_SLOT_POOLS; other++)
			KUNIT_EXPECT_TRUE(test, slots_end(other));
		expect_slots(test, slots, "spread", p - slots->pools);
		slots_queue(p, NR_SLOT_ITEMS);
		slots_settle(slots);
		KUNIT_EXPECT_EQ(test, slots_running(p, 1), NR_SLOT_ITEMS);
		expect_slots(test, slots, "gathered", p - slots->pools);
		while (slots_end(p))
			;
	}
	drain_slots(test, slots);
}

/* Catches a node that takes from one that has as few, or doesn't from one that has more. */
static void slots_are_taken_from_nodes_with_more(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 6);

	slots_own(slots, 0, 4);
	slots_own(slots, 1, 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 0), 2), 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 1), 1), 1);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 1),
			2 + min(4, DIV_ROUND_UP(6, num_online_nodes())));
	expect_slots(test, slots, "more", 0);

	slots = alloc_slots(test, 4);
	slots_own(slots, 0, 2);
	slots_own(slots, 1, 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 0), 3), 2);
	expect_slots(test, slots, "as many", 0);
	KUNIT_EXPECT_TRUE(test, slots_tick(slots));
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(node_pool(slots, 1, 0), 1), 3);
	expect_slots(test, slots, "tick", 0);

	/* one that has any doesn't look if the timer does soon, and one that has none does */
	slots = alloc_slots(test, 6);
	slots_own(slots, 0, 5);
	slots_own(slots, 1, 1);
	mod_timer(&slots->wq->slot_timer, jiffies + 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 0), 2), 1);
	expect_slots(test, slots, "soon", 0);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 2, 0), 1), 1);
	expect_slots(test, slots, "none", 0);
	drain_slots(test, slots);
}

/* Catches a slot that moves to a node that has as many, or stays although one has fewer. */
static void slots_move_to_nodes_with_less(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct slots_pool *here = node_pool(slots, 0, 0), *there = node_pool(slots, 1, 0);

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, here, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, there, 1), 0);
	slots_end(here);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(there, 1), 1);
	KUNIT_EXPECT_NE(test, slots->wq->node_nr_active[1]->turn_until, 0);
	expect_slots(test, slots, "to one that has none", 0);
	/* and back, although its turn isn't over: nothing waits there */
	KUNIT_EXPECT_EQ(test, slots_run(slots, here, 1), 0);
	slots_set_turns(slots, U64_MAX);
	slots_end(there);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(here, 1), 1);
	expect_slots(test, slots, "back", 0);

	slots = alloc_slots(test, 2);
	here = node_pool(slots, 0, 0);
	there = node_pool(slots, 1, 0);
	slots_own(slots, 0, 1);
	slots_own(slots, 1, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, here, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, there, 2), 1);
	/* it collects nothing, and closes all */
	KUNIT_EXPECT_TRUE(test, slots_tick(slots));
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	slots_end(here);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&here->pwq->nr_free), 1);
	expect_slots(test, slots, "to one that has as many", 0);
	KUNIT_EXPECT_TRUE(test, slots_tick(slots));
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(there, 1), 2);
	expect_slots(test, slots, "to one that has as many", 1);

	slots = alloc_slots(test, 4);
	here = node_pool(slots, 0, 0);
	there = node_pool(slots, 1, 0);
	slots_own(slots, 0, 3);
	slots_own(slots, 1, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, here, 3), 3);
	KUNIT_EXPECT_EQ(test, slots_run(slots, there, 3), 1);
	slots_end(here);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(there, 1), 2);
	slots_end(here);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(there, 1), 2);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 2);
	expect_slots(test, slots, "to one that has fewer", 0);
	drain_slots(test, slots);
}

/* Catches conditions of node_next_waiting() that are wrong. */
static void next_node_has_less(struct kunit *test)
{
	static const struct {
		bool	waits;		/* does the node that has the slot? */
		bool	turn;		/* is its turn not over? */
		bool	any;		/* may the slot go to any other one? */
		int	share;		/* slots of each node if all have as many */
		int	here, there;	/* slots of both nodes */
		bool	moves;
	} slot[] = {
		{ false, false, false, 1, 1, 0, true },
		{ false, false, false, 1, 2, 1, true },
		{ false, false, false, 2, 2, 2, false },
		{ false, false, false, 2, 1, 2, false },
		{ false, false, true,  2, 2, 2, true },
		{ false, false, true,  2, 1, 2, true },
		{ false, true,  false, 2, 2, 1, true },
		{ true,  false, false, 1, 1, 0, true },
		{ true,  false, false, 1, 2, 1, false },
		{ true,  false, false, 3, 3, 1, true },
		{ true,  false, true,  2, 2, 2, false },
		{ true,  true,  false, 1, 1, 0, false },
		{ true,  true,  true,  3, 3, 1, false },
		{ true,  true,  false, 2, 3, 1, true },
		{ true,  true,  true,  1, 2, 1, false },
		{ true,  true,  false, 1, 2, 0, true },
	};
	struct slots *slots = alloc_slots(test, 1);
	struct workqueue_struct *wq = slots->wq;
	struct wq_node_nr_active *here = wq->node_nr_active[1], *next;
	bool looks_later;
	int there, i;

	/* as if some waited */
	for (i = 0; i < ARRAY_SIZE(slot) * (NR_SLOT_NODES + 1); i++) {
		there = i % (NR_SLOT_NODES + 1);
		if (there == 1)
			continue;
		raw_spin_lock_irq(&here->lock);
		list_add(&node_pool(slots, there, 0)->pwq->pending_node,
			 &wq->node_nr_active[there]->pending_pwqs);
		if (slot[i / 4].waits)
			list_add(&node_pool(slots, 1, 0)->pwq->pending_node, &here->pending_pwqs);
		here->counted = slot[i / 4].waits;
		atomic_set(&wq->nr_waiting, 1 + here->counted);
		here->turn_until = slot[i / 4].turn ? U64_MAX : 0;
		wq->max_active = slot[i / 4].share * num_online_nodes();
		here->nr_owned = slot[i / 4].here;
		wq->node_nr_active[there]->nr_owned = slot[i / 4].there;
		next = node_next_waiting(wq, here, slot[i / 4].any);
		list_del_init(&node_pool(slots, there, 0)->pwq->pending_node);
		list_del_init(&node_pool(slots, 1, 0)->pwq->pending_node);
		wq->node_nr_active[there]->nr_owned = 0;
		looks_later = here->turn_until > 0;
		raw_spin_unlock_irq(&here->lock);
		KUNIT_EXPECT_PTR_EQ_MSG(test, next,
					slot[i / 4].moves ? wq->node_nr_active[there] : NULL,
					"slot %d, node %d", i / 4, there);
		KUNIT_EXPECT_TRUE_MSG(test, looks_later, "slot %d, node %d", i / 4, there);
	}
	wq->max_active = 1;
}

/* the pool of the only item that executes, which ends and lets another one start */
static int slots_next(struct slots *slots)
{
	struct slots_pool *p;

	for (p = slots->pools; p < slots->pools + NR_SLOT_POOLS; p++)
		if (slots_end(p)) {
			slots_start_all(slots);
			return p - slots->pools;
		}
	return -1;
}

/* Catches turns of nodes of the wrong length, and nodes that are left out. */
static void nodes_take_turns(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	u64 before, after, until;
	int node, i;

	slots_own(slots, 0, 1);
	for (node = 0; node <= NR_SLOT_NODES; node++)
		slots_run(slots, node_pool(slots, node, 0), 20);

	/* it stays as long as the turn lasts, and then moves on from node to node */
	slots_set_turns(slots, U64_MAX);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, slots_next(slots), 0);
		KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 1);
	}
	for (i = 0; i < 3 * (NR_SLOT_NODES + 1); i++) {
		slots_set_turns(slots, 0);
		/* clocks of CPUs may differ */
		migrate_disable();
		before = local_clock();
		node = i % (NR_SLOT_NODES + 1);
		KUNIT_EXPECT_EQ(test, slots_next(slots), node * NR_NODE_POOLS);
		after = local_clock();
		migrate_enable();
		node = (i + 1) % (NR_SLOT_NODES + 1);
		KUNIT_EXPECT_EQ(test, slots_owned(slots, node), 1);
		until = slots->wq->node_nr_active[node]->turn_until;
		KUNIT_EXPECT_GE(test, until, before + 200 * NSEC_PER_USEC);
		KUNIT_EXPECT_LE(test, until, after + 200 * NSEC_PER_USEC);
		expect_slots(test, slots, "turn", i);
	}

	/* from those that have more, until they'd have less */
	slots = alloc_slots(test, 6);
	slots_own(slots, 0, 5);
	slots_own(slots, 1, 1);
	slots_run(slots, node_pool(slots, 0, 0), 20);
	slots_run(slots, node_pool(slots, 1, 0), 20);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), max(5 - i, 3));
		slots_set_turns(slots, 0);
		slots->wq->node_nr_active[1]->turn_until = U64_MAX;
		slots_end(node_pool(slots, 0, 0));
		slots_start_all(slots);
		KUNIT_EXPECT_EQ(test, slots_running(slots->pools, NR_SLOT_POOLS), 6);
		/* that of one that had any isn't set anew */
		KUNIT_EXPECT_EQ(test, slots->wq->node_nr_active[1]->turn_until, U64_MAX);
		expect_slots(test, slots, "level", i);
	}
	drain_slots(test, slots);
}

/*
 * Catches turns of the wrong length and ones that go on when they shouldn't. The first
 * item of all has taken its slot and isn't part of a turn.
 */
static void slots_are_kept_for_a_turn(struct kunit *test)
{
	static const int turns[][2] = { { 0, 1 + 17 }, { 1, 17 }, { 0, 12 }, { 1, 13 } };
	struct slots *slots = alloc_slots(test, 1);
	int i, j;

	slots_own(slots, 0, 1);
	/* what is left of turns that are over */
	for (i = 0; i < 2; i++)
		slots->pools[i].pwq->nr_keep = 7;
	for (i = 0; i < 2; i++)
		slots_run(slots, &slots->pools[i], NR_SLOT_ITEMS);
	for (i = 0; i < ARRAY_SIZE(turns); i++) {
		for (j = 0; j < turns[i][1]; j++) {
			slots_set_turns(slots, U64_MAX);
			KUNIT_ASSERT_EQ_MSG(test, slots_next(slots), turns[i][0],
					    "turn %d, item %d", i, j);
		}
	}
	KUNIT_EXPECT_EQ(test, slots_next(slots), -1);

	/* the time of a turn is over, or max_active is set, with each item */
	for (j = 0; j < 2; j++) {
		slots_run(slots, &slots->pools[0], 1);
		slots_run(slots, &slots->pools[1], 10);
		slots_run(slots, &slots->pools[0], 9);
		for (i = 0; i < 20; i++) {
			slots_set_turns(slots, j ? U64_MAX : local_clock() - 1);
			if (j) {
				slots_set_max_active(slots, 0);
				slots_set_max_active(slots, 1);
			}
			KUNIT_EXPECT_EQ(test, slots_next(slots), i % 2);
		}
		expect_slots(test, slots, "turns", j);
	}
	drain_slots(test, slots);

	/* for one that hasn't found that there's no slot as well */
	slots = alloc_slots(test, 1);
	slots_own(slots, 0, 1);
	slots_queue(&slots->pools[0], 2);
	KUNIT_EXPECT_TRUE(test, slots_start(&slots->pools[0]));
	slots_queue(&slots->pools[1], 1);
	KUNIT_EXPECT_FALSE(test, slots_start(&slots->pools[1]));
	slots->pools[0].pwq->nr_keep = 5;
	slots->pools[0].pwq->keep_until = U64_MAX;
	slots_end(&slots->pools[0]);
	KUNIT_EXPECT_EQ(test, slots->pools[0].pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, slots->pools[0].pwq->nr_keep, 4);
	expect_slots(test, slots, "listed", 0);
	drain_slots(test, slots);
}

/* Catches turns that last too long or too short, or end when max_active is raised. */
static void turns_take_their_time(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct slots_pool *p = node_pool(slots, 0, 0);
	u64 before, after;

	slots_own(slots, 0, 4);
	slots_run(slots, p, NR_SLOT_ITEMS);
	/* clocks of CPUs may differ */
	migrate_disable();
	before = local_clock();
	slots_end(p);
	after = local_clock();
	migrate_enable();
	KUNIT_EXPECT_GE(test, p->pwq->keep_until, before + 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_LE(test, p->pwq->keep_until, after + 100 * NSEC_PER_USEC);

	/* as many more for each slot that it has */
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 4 * 16);
	slots_set_max_active(slots, 5);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(p, 1), 5);
	expect_slots(test, slots, "raised", 0);
	slots_set_max_active(slots, 4);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 0);

	/* those that haven't been used yet as well: two of three, before the last is passed */
	slots = alloc_slots(test, 1);
	p = node_pool(slots, 0, 0);
	slots_own(slots, 0, 1);
	slots_run(slots, node_pool(slots, 0, 1), 1);
	slots_run(slots, p, 5);
	slots_set_max_active(slots, 4);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 3);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 2 * 16);
	drain_slots(test, slots);
}

struct slots_setter {
	struct slots		*slots;
	int			limit;		/* 3, and later 2, tells it to set that */
	struct completion	done;
};

static int slots_set_fn(void *arg)
{
	struct slots_setter *setter = arg;
	int limit;

	for (limit = 3; limit > 1; limit--) {
		while (READ_ONCE(setter->limit) > limit)
			cond_resched();
		slots_set_max_active(setter->slots, limit);
		complete(&setter->done);
	}
	return 0;
}

/*
 * Whoever lowers max_active ends the turn of each pool with its lock held, after
 * which none can begin with a slot that is owed.
 */
static void turns_end_when_limit_is_lowered(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];
	struct slots_pool *last = &slots->pools[NR_SLOT_POOLS - 1];
	struct slots_setter setter = { .slots = slots, .limit = 4 };
	int here = cpumask_first(cpu_online_mask), us;
	int there = cpumask_next(here, cpu_online_mask);
	int kept_before, kept_meanwhile;
	bool done_meanwhile;

	if (there >= nr_cpu_ids)
		kunit_skip(test, "needs two CPUs");

	init_completion(&setter.done);
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(here)), 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(slots_set_fn, &setter, there,
							   "kunit_slots/%u")));

	/* it can't take anything away */
	last->pwq->nr_keep = 5;
	raw_spin_lock_irq(&nna->lock);
	WRITE_ONCE(setter.limit, 3);
	for (us = 0; us < 5000000 && READ_ONCE(slots->wq->max_active) != 3; us++)
		udelay(1);
	mdelay(5);
	kept_before = READ_ONCE(last->pwq->nr_keep);
	raw_spin_unlock_irq(&nna->lock);
	wait_for_completion(&setter.done);
	KUNIT_EXPECT_EQ(test, kept_before, 5);
	KUNIT_EXPECT_EQ(test, slots->wq->max_active, 3);
	KUNIT_EXPECT_EQ(test, last->pwq->nr_keep, 0);

	/* it has done that, but can't end the last turn */
	last->pwq->nr_keep = 5;
	raw_spin_lock_irq(&last->pool.lock);
	WRITE_ONCE(setter.limit, 2);
	for (us = 0; us < 5000000 && READ_ONCE(slots->wq->max_active) != 2; us++)
		udelay(1);
	mdelay(5);
	kept_meanwhile = READ_ONCE(last->pwq->nr_keep);
	done_meanwhile = completion_done(&setter.done);
	raw_spin_unlock_irq(&last->pool.lock);
	wait_for_completion(&setter.done);
	KUNIT_EXPECT_EQ(test, kept_meanwhile, 5);
	KUNIT_EXPECT_FALSE(test, done_meanwhile);
	KUNIT_EXPECT_EQ(test, slots->wq->max_active, 2);
	KUNIT_EXPECT_EQ(test, last->pwq->nr_keep, 0);
	expect_slots(test, slots, "lowered", 0);

	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* another CPU that does something when it's told */
struct slots_helper {
	void			(*fn)(struct slots_pool *p);
	struct slots_pool	*pool;
	bool			told;
	struct completion	done;
};

static int slots_helper_fn(void *arg)
{
	struct slots_helper *helper = arg;

	while (!READ_ONCE(helper->told))
		cond_resched();
	helper->fn(helper->pool);
	complete(&helper->done);
	return 0;
}

static void slots_start_helper(struct kunit *test, struct slots_helper *helper,
			       struct slots_pool *p, void (*fn)(struct slots_pool *p))
{
	int here = cpumask_first(cpu_online_mask);
	int there = cpumask_next(here, cpu_online_mask);

	if (there >= nr_cpu_ids)
		kunit_skip(test, "needs two CPUs");

	helper->fn = fn;
	helper->pool = p;
	helper->told = false;
	init_completion(&helper->done);
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(here)), 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(slots_helper_fn, helper, there,
							   "kunit_slots/%u")));
}

static void slots_end_helper(struct slots_helper *helper)
{
	wait_for_completion(&helper->done);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void slots_do_start(struct slots_pool *p)
{
	slots_start(p);
}

/* a worker that has parked its item, which may be cancelled, searches without a lock */
static void parked_item_keeps_pool(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct wq_node_nr_active *none = slots->wq->node_nr_active[NR_SLOT_NODES];
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct slots_helper helper;
	int refcnt, us;

	slots_own(slots, 1, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 1, 0), 1), 1);
	slots_queue(p, 1);
	refcnt = p->pwq->refcnt;
	slots_start_helper(test, &helper, p, slots_do_start);

	raw_spin_lock_irq(&none->lock);
	WRITE_ONCE(helper.told, true);
	for (us = 0; us < 1000000 && READ_ONCE(p->pwq->refcnt) == refcnt; us++)
		udelay(1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->pwq->refcnt), refcnt + 1);
	raw_spin_unlock_irq(&none->lock);
	slots_end_helper(&helper);
	KUNIT_EXPECT_EQ(test, p->pwq->refcnt, refcnt);
	expect_slots(test, slots, "parked", 0);
	drain_slots(test, slots);
}

static void slots_do_work(struct slots_pool *p)
{
	unsigned long end = jiffies + HZ;

	while (time_before(jiffies, end)) {
		slots_queue(p, 1);
		slots_start(p);
		slots_end(p);
		cond_resched();
	}
}

/* Catches slots that get lost or are made up when a pwq is closed that puts or takes them. */
static void slots_add_up_when_closed(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 2);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct slots_helper helper;

	slots_own(slots, 0, 2);
	slots_start_helper(test, &helper, p, slots_do_work);
	WRITE_ONCE(helper.told, true);
	while (!completion_done(&helper.done)) {
		slots_close_pwqs(slots, 0);
		udelay(1);
	}
	slots_end_helper(&helper);
	slots_start_all(slots);
	expect_slots(test, slots, "closed", 0);
	drain_slots(test, slots);
}

static void slots_do_search(struct slots_pool *p)
{
	node_search_slots(p->pwq->wq, &p->pool, pwq_nna(p->pwq));
}

/* what a search has in hand, and nobody finds, when max_active is lowered */
static void found_slots_are_given_up(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct wq_node_nr_active *none = slots->wq->node_nr_active[NR_SLOT_NODES];
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];
	int us, nr = DIV_ROUND_UP(4, num_online_nodes()), nr_spare;
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct slots_helper helper;

	slots_start_helper(test, &helper, p, slots_do_search);
	raw_spin_lock_irq(&p->pool.lock);
	raw_spin_lock(&nna->lock);
	WRITE_ONCE(helper.told, true);
	for (us = 0; us < 1000000 && READ_ONCE(none->nr_owned) == 4; us++)
		udelay(1);
	slots->wq->max_active -= nr;
	atomic_set(&slots->wq->nr_owed, nr);
	raw_spin_unlock(&nna->lock);
	/* it waits for the pool's lock to pass them on */
	for (us = 0; us < 100000 && !raw_spin_is_contended(&p->pool.lock); us++)
		udelay(1);
	raw_spin_lock(&nna->lock);
	nr_spare = nna->nr_spare;
	raw_spin_unlock(&nna->lock);
	raw_spin_unlock_irq(&p->pool.lock);
	slots_end_helper(&helper);
	KUNIT_EXPECT_EQ(test, nr_spare, 0);
	expect_slots(test, slots, "found", 0);
	drain_slots(test, slots);
}

static void slots_do_raise(struct slots_pool *p)
{
	mutex_lock(&p->pwq->wq->mutex);
	wq_set_nr_slots(p->pwq->wq, p->pwq->wq->max_active + 2);
	mutex_unlock(&p->pwq->wq->mutex);
}

/* what max_active is raised by, but isn't to be used as yet more slots are owed */
static void raising_gives_up_slots(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct wq_node_nr_active *none = slots->wq->node_nr_active[NR_SLOT_NODES];
	struct slots_pool *p = node_pool(slots, NR_SLOT_NODES, 0);
	struct slots_helper helper;
	int us, nr_spare;

	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 4), 4);
	expect_slots(test, slots, "run", 0);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_owed), 3);
	slots_start_helper(test, &helper, p, slots_do_raise);

	/* whose lock is taken to pass them on */
	raw_spin_lock_irq(&slots->pools[0].pool.lock);
	WRITE_ONCE(helper.told, true);
	for (us = 0; us < 1000000 && !raw_spin_is_contended(&slots->pools[0].pool.lock); us++)
		udelay(1);
	raw_spin_lock(&none->lock);
	nr_spare = none->nr_spare;
	raw_spin_unlock(&none->lock);
	raw_spin_unlock_irq(&slots->pools[0].pool.lock);
	slots_end_helper(&helper);
	KUNIT_EXPECT_EQ(test, nr_spare, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_owed), 1);
	expect_slots(test, slots, "raised", 0);
	drain_slots(test, slots);
}

static void slots_do_end(struct slots_pool *p)
{
	slots_end(p);
}

/* a slot that moves to a node where nothing waits anymore doesn't open a pwq of another one */
static void slots_open_where_they_are_owned(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct wq_node_nr_active *here = slots->wq->node_nr_active[0];
	struct wq_node_nr_active *there = slots->wq->node_nr_active[1];
	struct slots_pool *p = node_pool(slots, 0, 0), *gone = node_pool(slots, 1, 0);
	struct slots_helper helper;
	int us;

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, gone, 1), 0);
	slots_start_helper(test, &helper, p, slots_do_end);
	slots_close_pwqs(slots, 0);

	raw_spin_lock_irq(&gone->pool.lock);
	raw_spin_lock(&there->lock);
	WRITE_ONCE(helper.told, true);
	for (us = 0; us < 1000000 && READ_ONCE(here->nr_owned); us++)
		udelay(1);
	/* as cancelling does */
	list_del_init(&gone->pwq->pending_node);
	raw_spin_unlock(&there->lock);
	raw_spin_unlock_irq(&gone->pool.lock);
	KUNIT_EXPECT_EQ(test, slots_cancel(gone, &gone->items[0]), SLOTS_WAITS);
	slots_end_helper(&helper);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 1), 1);
	KUNIT_EXPECT_EQ(test, there->nr_spare, 1);
	expect_slots(test, slots, "moved", 0);
	drain_slots(test, slots);
}

/* Catches pools that are left out, or come before it's their turn. */
static void slots_are_given_in_order(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	int i;

	slots_own(slots, 0, 1);
	slots_run(slots, &slots->pools[0], 1);
	for (i = 1; i < NR_NODE_POOLS; i++)
		slots_run(slots, &slots->pools[i], 5);
	slots_run(slots, &slots->pools[0], 4);
	for (i = 0; i < 5 * NR_NODE_POOLS; i++) {
		slots_set_turns(slots, 0);
		KUNIT_EXPECT_EQ_MSG(test, slots_next(slots), i % NR_NODE_POOLS, "item %d", i);
		/* who comes late is the last in line */
		if (i == 2 * NR_NODE_POOLS)
			slots_run(slots, &slots->pools[0], 1);
	}
	KUNIT_EXPECT_EQ(test, slots_next(slots), 0);
	expect_slots(test, slots, "order", i);
}

/* Catches shares that are too large or too small, and a pool that all others take from. */
static void slots_are_shared(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 8 * 8 * 8);
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];
	struct slots_pool *p;
	int i, nr;

	/* what is spare */
	slots_own(slots, 0, 8 * 8 * 8);
	for (i = 0; i < NR_NODE_POOLS; i++) {
		nr = nna->nr_spare;
		slots_run(slots, &slots->pools[i], 1);
		KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[i].pwq->nr_free), nr / 8 - 1);
	}
	expect_slots(test, slots, "spare", 0);

	/* what two of the pools hold: half of what the one had that opened first, and the other */
	slots = alloc_slots(test, 2 * 11);
	nna = slots->wq->node_nr_active[0];
	slots_own(slots, 0, 2 * 11);
	nna->nr_spare = 0;
	for (i = 0; i < 2; i++) {
		p = &slots->pools[i];
		raw_spin_lock_irq(&p->pool.lock);
		raw_spin_lock(&nna->lock);
		pwq_open(p->pwq, 5);
		pwq_open(p->pwq, 6);
		raw_spin_unlock(&nna->lock);
		raw_spin_unlock_irq(&p->pool.lock);
	}
	p = &slots->pools[2];
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[0].pwq->nr_free), 5);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[1].pwq->nr_free), 11);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 6), 7);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[0].pwq->nr_free), 5);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[1].pwq->nr_free), 5);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->pwq->nr_free), 5);

	/* one that has used all that it had stays open */
	for (i = 0; i < 5; i++)
		slots_run(slots, &slots->pools[0], 1);
	slots_run(slots, p, 6);
	expect_slots(test, slots, "taken", 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[0].pwq->nr_free), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->pools[1].pwq->nr_free), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->pwq->nr_free), 2);
	drain_slots(test, slots);
}

/*
 * Catches max_active that is lowered at the expense of what executes although slots are
 * free, and slots that are used although they are owed.
 */
static void slots_are_given_up(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 24);
	struct slots_pool *p = node_pool(slots, 0, 0), *waiting = node_pool(slots, 0, 1);
	atomic_t *nr_owed = &slots->wq->nr_owed;
	struct wq_node_nr_active *nna;
	int i;

	/* 4 execute, and others are spare on two nodes or held by a pwq */
	slots_own(slots, 0, 16);
	slots_own(slots, 1, 8);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 6), 6);
	slots_end(p);
	slots_end(p);
	KUNIT_EXPECT_GT(test, atomic_read(&p->pwq->nr_free), 0);
	for (i = 23; i >= 4; i--) {
		slots_set_max_active(slots, i);
		KUNIT_EXPECT_EQ(test, atomic_read(nr_owed), 0);
		expect_slots(test, slots, "free", i);
	}
	KUNIT_EXPECT_EQ(test, slots_running(p, 1), 4);

	/* one is granted, but not used yet */
	KUNIT_EXPECT_EQ(test, slots_run(slots, waiting, 2), 0);
	slots_end(p);
	KUNIT_EXPECT_EQ(test, waiting->pwq->nr_granted, 1);
	waiting->pwq->nr_keep = 7;
	slots_set_max_active(slots, 3);
	KUNIT_EXPECT_EQ(test, waiting->pwq->nr_granted, 0);
	KUNIT_EXPECT_EQ(test, waiting->pwq->nr_keep, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(nr_owed), 0);
	expect_slots(test, slots, "granted", 0);
	KUNIT_EXPECT_FALSE(test, slots_start(waiting));

	/* the rest is owed until items end, or it's raised again */
	slots_set_max_active(slots, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(nr_owed), 3);
	raw_spin_lock_irq(&waiting->pool.lock);
	KUNIT_EXPECT_FALSE(test, pwq_accept_slot(waiting->pwq));
	raw_spin_unlock_irq(&waiting->pool.lock);
	slots_end(p);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(nr_owed), 1);
	expect_slots(test, slots, "owed", 0);
	slots_end(p);
	slots_settle(slots);
	KUNIT_EXPECT_EQ(test, atomic_read(nr_owed), 0);
	KUNIT_EXPECT_EQ(test, slots_running(waiting, 1), 0);
	slots_end(p);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(waiting, 1), 1);
	expect_slots(test, slots, "paid", 0);
	drain_slots(test, slots);

	/* as if max_active were lowered by one of two that are about to be passed on */
	slots = alloc_slots(test, 3);
	waiting = node_pool(slots, 0, 1);
	nna = slots->wq->node_nr_active[0];
	slots_own(slots, 0, 3);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 0, 0), 1), 1);
	nna->nr_spare -= 2;
	KUNIT_EXPECT_EQ(test, slots_run(slots, waiting, 2), 0);
	nna->nr_spare += 2;
	slots->wq->max_active--;
	atomic_inc(&slots->wq->nr_owed);
	node_pass_spare(slots->wq, &waiting->pool, nna);
	expect_slots(test, slots, "one of two", 0);
	drain_slots(test, slots);
}

/* Catches a slot that is left free although it is owed, where nothing waits. */
static void owed_slots_are_not_left(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 2);
	struct slots_pool *p = node_pool(slots, 0, 0);

	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 2), 2);
	slots_set_max_active(slots, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_owed), 1);
	slots_end(p);
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_owed), 0);
	expect_slots(test, slots, "paid", 0);
	slots_end(p);
	expect_slots(test, slots, "free", 0);
	drain_slots(test, slots);
}

/* Catches a slot that is used where nothing waits anymore, or gets lost when it's refused. */
static void slots_are_refused(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct slots_pool *p = slots->pools, *gone = &slots->pools[1], *next = &slots->pools[2];
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, next, 1), 0);

	/* as if its items were cancelled when the slot was on its way: the next one gets it */
	raw_spin_lock_irq(&nna->lock);
	list_add(&gone->pwq->pending_node, &nna->pending_pwqs);
	raw_spin_unlock_irq(&nna->lock);
	slots_end(p);
	raw_spin_lock_irq(&gone->pool.lock);
	pwq_update_pending(gone->pwq);
	raw_spin_unlock_irq(&gone->pool.lock);
	expect_slots(test, slots, "passed on", 0);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(next, 1), 1);
	drain_slots(test, slots);
}

/*
 * An item that is queued again while it executes. Catches one that holds a slot until then,
 * or has none when it's started.
 */
static void slots_are_for_deferred_items(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 2);
	struct slots_pool *p = node_pool(slots, 0, 0), *other = node_pool(slots, 0, 1);
	struct worker *worker;

	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	worker = slots_executing(p, 0);
	KUNIT_EXPECT_TRUE(test, slots_queue_item(p, &p->items[0]));
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_FALSE(test, list_empty(&worker->scheduled));
	KUNIT_EXPECT_EQ(test, p->pwq->nr_active, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, other, 2), 1);
	expect_slots(test, slots, "deferred", 0);

	/* it waits for its turn like all others, or is started when it's that */
	KUNIT_EXPECT_FALSE(test, slots_end_item(worker));
	KUNIT_EXPECT_TRUE(test, list_empty(&worker->scheduled));
	expect_slots(test, slots, "waits", 0);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(other, 1), 2);
	slots_set_turns(slots, 0);
	slots_end(other);
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(p, 1), 1);
	expect_slots(test, slots, "started", 0);
	while (slots_end(other))
		slots_start_all(slots);
	worker = slots_executing(p, 0);
	KUNIT_EXPECT_TRUE(test, slots_queue_item(p, &p->items[0]));
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_TRUE(test, slots_end_item(worker));
	expect_slots(test, slots, "again", 0);

	worker = slots_executing(p, 0);
	KUNIT_EXPECT_TRUE(test, slots_queue_item(p, &p->items[0]));
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, slots_cancel(p, &p->items[0]), SLOTS_DEFERRED);
	expect_slots(test, slots, "cancelled", 0);
	KUNIT_EXPECT_FALSE(test, slots_end_item(worker));
	drain_slots(test, slots);
}

/* Catches items that wait although it's those of another workqueue that find no slot. */
static void slots_of_others_are_used(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1), *others = alloc_slots(test, 1);
	struct slots_pool *p = node_pool(slots, 0, 0), *other = node_pool(others, 0, 0);
	struct worker *worker;

	/* both on the same pool */
	other->pwq->pool = &p->pool;
	slots_own(slots, 0, 1);
	slots_own(others, 0, 1);
	slots_queue_item(p, &p->items[0]);
	KUNIT_EXPECT_TRUE(test, slots_start(p));
	slots_queue_item(p, &p->items[1]);
	slots_queue_item(other, &other->items[0]);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_listed, 1);
	KUNIT_ASSERT_TRUE(test, slots_start(p));
	worker = &p->workers[1];

	/* one that waits as well, but whose first item has got a slot */
	slots_queue_item(other, &other->items[1]);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	slots_queue_item(other, &other->items[2]);
	KUNIT_EXPECT_EQ(test, slots_cancel(p, &p->items[1]), SLOTS_WAITS);
	KUNIT_ASSERT_TRUE(test, list_empty(&p->pwq->pending_node));
	slots_queue_item(p, &p->items[1]);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 1);
	slots_end_item(worker);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_granted, 1);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, other->pwq->nr_listed, 1);
	KUNIT_EXPECT_TRUE(test, slots_start(p));
	while (slots_end(p))
		while (slots_start(p))
			;
	expect_slots(test, slots, "pool", 0);
	expect_slots(test, others, "other", 0);
}

/* Catches slots that are taken while they are on their way to a pool that waits. */
static void slots_are_not_taken_on_their_way(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 2);
	struct slots_pool *waiting = node_pool(slots, 0, 1), *other = node_pool(slots, 0, 2);
	struct slots_pool *there = node_pool(slots, 1, 0);
	struct wq_node_nr_active *none = slots->wq->node_nr_active[NR_SLOT_NODES];
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];

	/* as if a search, or who raises max_active, had one in hand when others look */
	slots_own(slots, 0, 2);
	KUNIT_EXPECT_EQ(test, slots_run(slots, node_pool(slots, 0, 0), 1), 1);
	slots_queue(other, 1);
	slots_queue(waiting, 1);
	nna->nr_spare--;
	KUNIT_EXPECT_FALSE(test, slots_start(waiting));
	nna->nr_spare++;
	none->nr_owned++;
	none->nr_spare++;
	slots->wq->max_active++;
	KUNIT_EXPECT_FALSE(test, slots_start(other));
	KUNIT_EXPECT_EQ(test, slots_owned(slots, NR_SLOT_NODES), 1);
	none->nr_owned--;
	none->nr_spare--;
	slots->wq->max_active--;
	KUNIT_EXPECT_EQ(test, slots_run(slots, there, 1), 0);
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 2);
	/* a node that has no more than its share keeps it for a turn */
	slots_set_turns(slots, U64_MAX);
	slots->wq->max_active = 2 * num_online_nodes();
	node_pass_spare(slots->wq, &other->pool, nna);
	slots->wq->max_active = 2;
	slots_start_all(slots);
	KUNIT_EXPECT_EQ(test, slots_running(waiting, 1), 1);
	expect_slots(test, slots, "passed on", 0);
	drain_slots(test, slots);
}

/*
 * Catches slots that stay free while another node waits, as they were taken in between
 * by a pool that has more than it needs.
 */
static void slots_are_not_left_on_their_way(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 2 * 16);
	struct slots_pool *p = node_pool(slots, 0, 0), *there = node_pool(slots, 1, 0);
	struct wq_node_nr_active *nna = slots->wq->node_nr_active[0];

	slots_own(slots, 0, 16);
	slots_own(slots, 1, 16);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 16), 16);
	KUNIT_EXPECT_EQ(test, slots_run(slots, there, NR_SLOT_ITEMS), 16);
	slots_run(slots, node_pool(slots, 1, 1), 1);
	slots_settle(slots);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	while (slots_end(p))
		;
	KUNIT_EXPECT_EQ(test, slots_owned(slots, 0), 16);

	/* the timer has collected them, and passes on what is left then */
	timer_delete_sync(&slots->wq->slot_timer);
	slots_close_pwqs(slots, 0);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	node_pass_spare(slots->wq, &p->pool, nna);
	slots_start_all(slots);
	expect_slots(test, slots, "passed on", 0);
	drain_slots(test, slots);
}

/* Catches a timer that runs too late, too soon or for nothing. */
static void slot_timer_runs_within_a_tick(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 4);
	struct slots_pool *p = node_pool(slots, 0, 0);
	unsigned long before, after, expires;
	struct timer_list *timer;

	/* nothing waits, and it leaves alone what is open */
	slots_own(slots, 0, 4);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	slots_close_pwqs(slots, 0);
	slots_end(p);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	wq_slot_timer_fn(&slots->wq->slot_timer);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->pwq->nr_free), 1);
	expect_slots(test, slots, "nothing waits", 0);

	/* a node has waited, and has found enough */
	slots = alloc_slots(test, 4);
	p = node_pool(slots, 0, 0);
	timer = &slots->wq->slot_timer;
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	KUNIT_EXPECT_EQ(test, atomic_read(&slots->wq->nr_waiting), 1);
	slots_close_pwqs(slots, 0);
	slots_end(p);
	KUNIT_EXPECT_FALSE(test, slots_armed(slots));
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	expect_slots(test, slots, "has waited", 0);

	/* within a tick, whoever arms it again */
	local_irq_disable();
	before = jiffies;
	wq_arm_slot_timer(slots->wq);
	expires = timer->expires;
	after = jiffies;
	local_irq_enable();
	KUNIT_EXPECT_TRUE(test, time_after_eq(expires, before + 1));
	KUNIT_EXPECT_TRUE(test, time_before_eq(expires, after + 1));
	expires = jiffies + 10 * HZ;
	mod_timer(timer, expires);
	wq_arm_slot_timer(slots->wq);
	KUNIT_EXPECT_EQ(test, timer->expires, expires);
	drain_slots(test, slots);
}

/* Catches a barrier that is taken for a work item that needs a slot. */
static void barriers_take_no_slots(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct pool_workqueue *pwq = p->pwq;
	struct worker *worker = &p->workers[NR_SLOT_ITEMS - 1];
	struct wq_barrier barr;

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	slots_queue(p, 2);
	raw_spin_lock_irq(&p->pool.lock);
	insert_wq_barrier(pwq, &barr, &p->items[2], NULL);
	raw_spin_unlock_irq(&p->pool.lock);
	/* it stays, without the item that it waited for */
	KUNIT_EXPECT_EQ(test, slots_cancel(p, &p->items[2]), SLOTS_LISTED);

	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, pwq->nr_listed, 0);
	raw_spin_lock_irq(&p->pool.lock);
	KUNIT_EXPECT_PTR_EQ(test, &barr.work, list_first_entry_or_null(&p->pool.worklist,
								       struct work_struct, entry));
	KUNIT_EXPECT_TRUE(test, assign_work(&barr.work, worker, NULL));
	KUNIT_EXPECT_EQ(test, pwq->nr_listed, 0);
	KUNIT_EXPECT_TRUE(test, pwq_start_work(worker, &barr.work));
	KUNIT_EXPECT_EQ(test, pwq->nr_active, 1);
	list_del_init(&barr.work.entry);
	pwq_dec_nr_in_flight(pwq, *work_data_bits(&barr.work), true);
	raw_spin_unlock_irq(&p->pool.lock);
	debug_work_deactivate(&barr.work);
	destroy_work_on_stack(&barr.work);
	expect_slots(test, slots, "barrier", 0);
	drain_slots(test, slots);
}

/* Catches items without slots that keep workers busy one by one, or too many under a lock. */
static void slots_are_not_there_for_many(struct kunit *test)
{
	struct slots *slots = alloc_slots(test, 1);
	struct slots_pool *p = node_pool(slots, 0, 0);
	struct work_struct *work;
	int i = 0;

	slots_own(slots, 0, 1);
	KUNIT_EXPECT_EQ(test, slots_run(slots, p, 1), 1);
	slots_queue(p, 20);
	KUNIT_EXPECT_FALSE(test, slots_start(p));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&p->pwq->inactive_works), 1 + 16);
	list_for_each_entry(work, &p->pwq->inactive_works, entry)
		KUNIT_EXPECT_PTR_EQ(test, work, &p->items[++i]);
	/* those that are queued from now on aren't listed, on other pools of the node neither */
	slots_queue(p, 1);
	slots_queue(node_pool(slots, 0, 1), 1);
	slots_queue(node_pool(slots, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 3);
	KUNIT_EXPECT_EQ(test, node_pool(slots, 0, 1)->pwq->nr_listed, 0);
	KUNIT_EXPECT_EQ(test, node_pool(slots, 1, 0)->pwq->nr_listed, 1);
	expect_slots(test, slots, "parked", 0);
	/* those that are listed yet have no slots, and one of them gets the next */
	slots_end(p);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_keep, 16);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_granted, 1);
	KUNIT_EXPECT_EQ(test, p->pwq->nr_listed, 3);
	expect_slots(test, slots, "granted", 0);
	drain_slots(test, slots);
}

/* Catches pwqs that take the slots with them when they are replaced. */
static void slots_of_released_pwqs_come_back(struct kunit *test)
{
	struct limited *limited = alloc_limited(test, NR_LIMITED);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int i;

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	for (i = 0; i < 6; i++) {
		queue_limited(limited, 4 * i, 4, true);
		expect_running(test, limited, 4);
		attrs->affn_scope = i % 2 ? WQ_AFFN_CPU : WQ_AFFN_SYSTEM;
		KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(limited->wq, attrs), 0);
		expect_running(test, limited, 4);
		while (atomic_read(&limited->nr_running)) {
			complete(&limited->end);
			usleep_range(1000, 2000);
		}
		reinit_completion(&limited->end);
	}
	kthread_flush_worker(pwq_release_worker);
	KUNIT_EXPECT_EQ(test, nr_slots(limited->wq), NR_LIMITED);
	queue_limited(limited, 0, NR_LIMITED, false);
	expect_running(test, limited, NR_LIMITED);
	free_workqueue_attrs(attrs);
	free_limited(test, limited, 2);
}

static struct kunit_case workqueue_test_cases[] = {
	KUNIT_CASE(scope_names_match_exactly),
	KUNIT_CASE(bogus_default_scope_changes_nothing),
	KUNIT_CASE(pods_partition_possible_cpus),
	KUNIT_CASE(pods_of_late_cpus),
	KUNIT_CASE(late_siblings_find_each_other),
	KUNIT_CASE(cpus_leave_pods),
	KUNIT_CASE(pods_of_moving_cpus),
	KUNIT_CASE(strict_workers_stay_in_pod),
	KUNIT_CASE(ending_item_keeps_pwq_busy),
	KUNIT_CASE(shards_of_real_machines),
	KUNIT_CASE_SLOW(shards_of_every_size),
	KUNIT_CASE(shards_of_odd_machines),
	KUNIT_CASE(shards_of_random_machines),
	KUNIT_CASE(shards_without_late_cpus),
	KUNIT_CASE(shards_of_clusters),
	KUNIT_CASE(late_cpus_take_linear_time),
	KUNIT_CASE(shards_of_this_machine),
	KUNIT_CASE(bogus_shard_size_changes_nothing),
	KUNIT_CASE(shard_size_changes_at_run_time),
	KUNIT_CASE_SLOW(limit_is_exact),
	KUNIT_CASE(limit_is_raised_and_lowered),
	KUNIT_CASE(waiting_items_can_be_cancelled),
	KUNIT_CASE(draining_waits_for_chained_items),
	KUNIT_CASE(slots_add_up),
	KUNIT_CASE(slots_add_up_in_races),
	KUNIT_CASE(slots_of_no_node_are_shared_out),
	KUNIT_CASE(slots_are_found_anywhere),
	KUNIT_CASE(slots_are_taken_from_nodes_with_more),
	KUNIT_CASE(slots_move_to_nodes_with_less),
	KUNIT_CASE(next_node_has_less),
	KUNIT_CASE(nodes_take_turns),
	KUNIT_CASE(slots_are_kept_for_a_turn),
	KUNIT_CASE(turns_take_their_time),
	KUNIT_CASE(turns_end_when_limit_is_lowered),
	KUNIT_CASE(parked_item_keeps_pool),
	KUNIT_CASE(slots_add_up_when_closed),
	KUNIT_CASE(found_slots_are_given_up),
	KUNIT_CASE(raising_gives_up_slots),
	KUNIT_CASE(slots_open_where_they_are_owned),
	KUNIT_CASE(slots_are_given_in_order),
	KUNIT_CASE(slots_are_shared),
	KUNIT_CASE(slots_are_given_up),
	KUNIT_CASE(owed_slots_are_not_left),
	KUNIT_CASE(slots_are_refused),
	KUNIT_CASE(slots_are_for_deferred_items),
	KUNIT_CASE(slots_of_others_are_used),
	KUNIT_CASE(slots_are_not_taken_on_their_way),
	KUNIT_CASE(slots_are_not_left_on_their_way),
	KUNIT_CASE(slot_timer_runs_within_a_tick),
	KUNIT_CASE(barriers_take_no_slots),
	KUNIT_CASE(slots_are_not_there_for_many),
	KUNIT_CASE(slots_of_released_pwqs_come_back),
	{}
};

static struct kunit_suite workqueue_test_suite = {
	.name = "workqueue",
	.test_cases = workqueue_test_cases,
};

/* longer than any case is patient: an item that waits doesn't give up before */
#define STEP_LIMIT	(60 * HZ)

/* What an item does, and what it waits for. */
struct step {
	struct work_struct	work;
	struct completion	started;
	struct completion	*until;	/* what it waits for, or STEP_LIMIT */
	bool			spin;	/* wait on the CPU */
};

static void step_fn(struct work_struct *work)
{
	struct step *step = container_of(work, struct step, work);
	unsigned long end = jiffies + STEP_LIMIT;
	int nice = task_nice(current);

	complete_all(&step->started);
	if (!step->until)
		return;
	if (!step->spin) {
		wait_for_completion_timeout(step->until, STEP_LIMIT);
		return;
	}
	set_user_nice(current, MAX_NICE);	/* all else on this CPU has to get on */
	while (!completion_done(step->until) && time_before(jiffies, end))
		cond_resched();
	set_user_nice(current, nice);
}

static void init_step(struct step *step, struct completion *until)
{
	INIT_WORK_ONSTACK(&step->work, step_fn);
	init_completion(&step->started);
	step->until = until;
	step->spin = false;
}

/* let it end and wait for that, or take it back if it was never started */
static void end_step(struct step *step)
{
	if (step->until)
		complete_all(step->until);
	cancel_work_sync(&step->work);
	destroy_work_on_stack(&step->work);
}

static bool has_started(struct kunit *test, struct step *step)
{
	return wait_for_completion_timeout(&step->started, patience(test));
}

/* it has found no slot: the next one of its node to be queued, on any pool, waits as well */
static void expect_waits(struct kunit *test, struct step *step)
{
	unsigned long end = jiffies + patience(test);

	while (!(READ_ONCE(*work_data_bits(&step->work)) & WORK_STRUCT_INACTIVE) &&
	       time_before(jiffies, end))
		usleep_range(1000, 2000);
	KUNIT_EXPECT_TRUE(test, *work_data_bits(&step->work) & WORK_STRUCT_INACTIVE);
	KUNIT_EXPECT_FALSE(test, completion_done(&step->started));
}

static void set_nice(struct kunit *test, struct workqueue_struct *wq, int nice)
{
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();

	KUNIT_ASSERT_NOT_NULL(test, attrs);
	attrs->affn_scope = WQ_AFFN_SYSTEM;
	attrs->nice = nice;
	attrs->ordered = wq->flags & __WQ_ORDERED;
	KUNIT_EXPECT_EQ(test, apply_workqueue_attrs(wq, attrs), 0);
	free_workqueue_attrs(attrs);
}

/* items which have to run at the same time: each worker wakes up the next one */
static void start_chained_items(struct kunit *test, struct workqueue_struct *wq)
{
	struct completion release;
	struct step steps[4];
	int i;

	init_completion(&release);
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		init_step(&steps[i], &release);
	preempt_disable();
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		queue_work(wq, &steps[i].work);
	preempt_enable();
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		KUNIT_EXPECT_TRUE(test, has_started(test, &steps[i]));
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		end_step(&steps[i]);
}

static void chained_items_start(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 4);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	set_nice(test, wq, -9);
	/* workers are created, then they are there and idle */
	start_chained_items(test, wq);
	start_chained_items(test, wq);
	destroy_workqueue(wq);
}

/* hardly anyone else uses these pools, an item of whom would start ours */
static struct workqueue_struct *alloc_percpu_workqueue(void)
{
	return alloc_workqueue("kunit", WQ_HIGHPRI | WQ_PERCPU, 0);
}

/* queue two items, the first of which waits for the second, on one CPU's pool */
static void queue_pair(struct workqueue_struct *wq, struct step *first, struct step *second)
{
	preempt_disable();
	queue_work_on(smp_processor_id(), wq, &first->work);
	queue_work_on(smp_processor_id(), wq, &second->work);
	preempt_enable();
}

static void start_pair(struct kunit *test, struct workqueue_struct *wq, bool spin)
{
	struct step first, second;

	init_step(&second, NULL);
	init_step(&first, &second.started);
	first.spin = spin;
	queue_pair(wq, &first, &second);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	end_step(&first);
	end_step(&second);
}

static void item_starts_when_another_sleeps(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_percpu_workqueue();

	KUNIT_ASSERT_NOT_NULL(test, wq);
	/* a worker that was just created starts the second one anyway */
	start_pair(test, wq, false);
	start_pair(test, wq, false);
	destroy_workqueue(wq);
}

static void item_starts_when_another_hogs_cpu(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_percpu_workqueue();
	unsigned long thresh = wq_cpu_intensive_thresh_us;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	wq_cpu_intensive_thresh_us = 1000;
	/* as above */
	start_pair(test, wq, true);
	start_pair(test, wq, true);
	wq_cpu_intensive_thresh_us = thresh;
	destroy_workqueue(wq);
}

/* an item that has to wait for one on another pool */
static void item_of_another_pool_starts(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct step first, second;
	struct completion release;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	set_nice(test, wq, -3);
	queue_work(wq, &second.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
}

/* items of an ordered workqueue, which changes its pool: all start, one after the other */
static void item_starts_when_unplugged(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("kunit", 0);
	struct completion release;
	struct step steps[5];
	int i, j;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		if (i == 3)
			set_nice(test, wq, -5);
		init_step(&steps[i], &release);
		queue_work(wq, &steps[i].work);
	}
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		KUNIT_EXPECT_TRUE(test, has_started(test, &steps[i]));
		schedule_timeout_uninterruptible(HZ / 20);
		for (j = i + 1; j < ARRAY_SIZE(steps); j++)
			KUNIT_EXPECT_FALSE(test, completion_done(&steps[j].started));
		complete(&release);
	}
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		end_step(&steps[i]);
	destroy_workqueue(wq);
}

struct flush {
	struct work_struct	work;
	struct work_struct	*target;
	struct completion	done;
};

static void flush_fn(struct work_struct *work)
{
	struct flush *flush = container_of(work, struct flush, work);

	flush_work(flush->target);
	complete(&flush->done);
}

static void start_flush(struct flush *flush, struct work_struct *target)
{
	INIT_WORK_ONSTACK(&flush->work, flush_fn);
	init_completion(&flush->done);
	flush->target = target;
	queue_work(system_dfl_wq, &flush->work);
}

/* until what is pending has a barrier */
static void await_barrier(struct kunit *test, struct work_struct *target)
{
	unsigned long end = jiffies + patience(test);

	while (!(*work_data_bits(target) & WORK_STRUCT_LINKED) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE(test, *work_data_bits(target) & WORK_STRUCT_LINKED);
}

static void end_flush(struct flush *flush)
{
	flush_work(&flush->work);
	destroy_work_on_stack(&flush->work);
}

/* an item that waits for one of another pool is flushed and meanwhile cancelled */
static void flush_of_cancelled_item_ends(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct step first, second;
	struct completion release;
	struct flush flush;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	set_nice(test, wq, -3);
	queue_work(wq, &second.work);

	start_flush(&flush, &second.work);
	await_barrier(test, &second.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&second.work));
	/* and doesn't wait for the other item */
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush.done, patience(test)));
	complete_all(&release);

	/* whatever is queued on that pool ends a flush that hangs */
	queue_work(wq, &second.work);
	end_flush(&flush);
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
}

/*
 * An item that executes and is pending is flushed and then cancelled. The flush waits
 * for the execution, also when an item of @other, if any, has kicked the pool.
 */
static void flush_executing(struct kunit *test, struct workqueue_struct *wq,
			    struct workqueue_struct *other)
{
	int cpu = cpumask_first(cpu_online_mask);
	struct completion release;
	struct step first, second;
	struct flush flush;

	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_work_on(cpu, wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	queue_work_on(cpu, wq, &first.work);

	start_flush(&flush, &first.work);
	await_barrier(test, &first.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&first.work));
	if (other) {
		queue_work_on(cpu, other, &second.work);
		KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	}
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flush.done, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush.done, patience(test)));
	end_flush(&flush);
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
	if (other)
		destroy_workqueue(other);
}

static void flush_waits_for_execution(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);

	KUNIT_ASSERT_NOT_NULL(test, wq);
	flush_executing(test, wq, NULL);
}

static void flush_waits_when_pool_is_kicked(struct kunit *test)
{
	static const unsigned int flags[] = { WQ_UNBOUND, WQ_HIGHPRI | WQ_PERCPU };
	struct workqueue_struct *wq, *other;
	int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		wq = alloc_workqueue("kunit", flags[i], 1);
		other = alloc_workqueue("kunit_other", flags[i], 0);
		KUNIT_ASSERT_NOT_NULL(test, wq);
		KUNIT_ASSERT_NOT_NULL(test, other);
		flush_executing(test, wq, other);
	}
	wq = alloc_ordered_workqueue("kunit", 0);
	other = alloc_ordered_workqueue("kunit_other", 0);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	flush_executing(test, wq, other);
}

/* the same with an item on the worklist, where the one that executes has the CPU */
static void flush_waits_for_hog(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_percpu_workqueue();
	unsigned long thresh = wq_cpu_intensive_thresh_us;
	int cpu = cpumask_first(cpu_online_mask);
	struct completion release;
	struct flush flush;
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	wq_cpu_intensive_thresh_us = jiffies_to_usecs(STEP_LIMIT);
	init_completion(&release);
	init_step(&step, &release);
	step.spin = true;
	queue_work_on(cpu, wq, &step.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));
	queue_work_on(cpu, wq, &step.work);

	start_flush(&flush, &step.work);
	await_barrier(test, &step.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&step.work));
	/* from now on the CPU is no longer left to it */
	wq_cpu_intensive_thresh_us = 1000;
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flush.done, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush.done, patience(test)));
	wq_cpu_intensive_thresh_us = thresh;
	end_flush(&flush);
	end_step(&step);
	destroy_workqueue(wq);
}

/* an ordered workqueue's item executes in the old pool, is pending in the new one, and cancelled */
static void flush_waits_for_old_pool(struct kunit *test)
{
	struct workqueue_struct *other = alloc_workqueue("kunit_other", WQ_UNBOUND, 0);
	struct workqueue_struct *wq = alloc_ordered_workqueue("kunit", 0);
	struct flush before, after;
	struct step first, second;
	struct completion release;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	set_nice(test, other, -5);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	set_nice(test, wq, -5);
	queue_work(wq, &first.work);

	start_flush(&before, &first.work);
	await_barrier(test, &first.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&first.work));
	start_flush(&after, &first.work);
	queue_work(other, &second.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&before.done, HZ / 20));
	KUNIT_EXPECT_FALSE(test, completion_done(&after.done));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&before.done, patience(test)));
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&after.done, patience(test)));

	/* the barrier was counted as active and isn't any longer */
	reinit_completion(&second.started);
	queue_work(wq, &second.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	end_flush(&before);
	end_flush(&after);
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

struct holder {
	raw_spinlock_t		*lock;
	bool			held;
	bool			release;	/* tells it to */
};

static int hold_lock_fn(void *arg)
{
	struct holder *holder = arg;
	int us;

	raw_spin_lock_irq(holder->lock);
	WRITE_ONCE(holder->held, true);
	for (us = 0; us < 5000000 && !READ_ONCE(holder->release); us++)
		udelay(1);
	raw_spin_unlock_irq(holder->lock);
	return 0;
}

static int flush_thread_fn(void *arg)
{
	struct flush *flush = arg;

	flush_work(flush->target);
	complete(&flush->done);
	return 0;
}

/* a flush waits for the lock of the pool that executes an item, which is queued for another one */
static void flush_looks_again(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("kunit", 0);
	int here = cpumask_first(cpu_online_mask), us;
	int there = cpumask_last(cpu_online_mask);
	int other = cpumask_next(here, cpu_online_mask);
	struct holder holder = {};
	struct completion release;
	struct flush flush = {};
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	if (num_online_cpus() < 3) {
		destroy_workqueue(wq);
		kunit_skip(test, "needs three CPUs");
	}
	/* both of the others will spin with interrupts off */
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(other)), 0);
	set_nice(test, wq, -6);		/* pools that nobody else uses */
	init_completion(&release);
	init_step(&step, &release);
	queue_work(wq, &step.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));
	rcu_read_lock();
	holder.lock = &get_work_pool(&step.work)->lock;
	rcu_read_unlock();
	set_nice(test, wq, -5);

	init_completion(&flush.done);
	flush.target = &step.work;
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(hold_lock_fn, &holder, there,
							   "kunit_hold/%u")));
	for (us = 0; us < 5000000 && !READ_ONCE(holder.held); us += 1000)
		usleep_range(1000, 1100);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(flush_thread_fn, &flush, here,
							   "kunit_flush/%u")));
	for (us = 0; us < 5000000 && !raw_spin_is_contended(holder.lock); us += 1000)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_TRUE(test, raw_spin_is_contended(holder.lock));
	queue_work(wq, &step.work);
	WRITE_ONCE(holder.release, true);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flush.done, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush.done, patience(test)));
	end_step(&step);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	destroy_workqueue(wq);
}

/* an item that executes is queued for another pool: it stays, and isn't started twice */
static void executing_item_stays(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 0);
	struct completion release;
	struct worker_pool *pool;
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&step, &release);
	queue_work(wq, &step.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));
	rcu_read_lock();
	pool = get_work_pool(&step.work);
	rcu_read_unlock();

	set_nice(test, wq, -12);
	reinit_completion(&step.started);
	queue_work(wq, &step.work);
	rcu_read_lock();
	KUNIT_EXPECT_PTR_EQ(test, pool, get_work_pool(&step.work));
	rcu_read_unlock();
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&step.started, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));

	/* it has ended, and moves to the other pool */
	flush_work(&step.work);
	queue_work(wq, &step.work);
	flush_work(&step.work);
	rcu_read_lock();
	KUNIT_EXPECT_PTR_NE(test, pool, get_work_pool(&step.work));
	rcu_read_unlock();
	end_step(&step);
	destroy_workqueue(wq);
}

static void raise_limit(struct kunit *test, unsigned int flags)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", flags, 1);
	struct step first, second;
	struct completion release;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	if (flags & WQ_UNBOUND)
		set_nice(test, wq, -7);	/* a pool that nobody else uses */
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_pair(wq, &first, &second);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started, HZ / 20));
	workqueue_set_max_active(wq, 2);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
}

static void item_starts_when_limit_is_raised(struct kunit *test)
{
	raise_limit(test, WQ_PERCPU);
	raise_limit(test, WQ_UNBOUND);
}

/* what freezing does, and thawing */
static void set_frozen(struct workqueue_struct *wq, bool frozen)
{
	mutex_lock(&wq->mutex);
	wq->saved_max_active = !frozen;
	wq_adjust_max_active(wq);
	mutex_unlock(&wq->mutex);
}

/* items that were queued before, of which one found no slot, and one that was meanwhile */
static void frozen_items_start(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct step first, second, third;
	struct completion release;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	init_step(&third, NULL);
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	queue_work(wq, &second.work);
	expect_waits(test, &second);
	set_frozen(wq, true);
	complete_all(&release);
	flush_work(&first.work);
	queue_work(wq, &third.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started, HZ / 20));
	expect_waits(test, &third);
	set_frozen(wq, false);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	KUNIT_EXPECT_TRUE(test, has_started(test, &third));

	/* one for which no other has to wait */
	set_frozen(wq, true);
	reinit_completion(&third.started);
	queue_work(wq, &third.work);
	expect_waits(test, &third);
	set_frozen(wq, false);
	KUNIT_EXPECT_TRUE(test, has_started(test, &third));
	end_step(&first);
	end_step(&second);
	end_step(&third);
	destroy_workqueue(wq);
}

#ifdef CONFIG_FREEZER
static void item_starts_when_thawed(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND | WQ_FREEZABLE, 0);
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_step(&step, NULL);
	freeze_workqueues_begin();
	queue_work(wq, &step.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&step.started, HZ / 20));
	thaw_workqueues();
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));
	end_step(&step);
	destroy_workqueue(wq);
}
#endif

/* manage the pool, as one of its workers would, but don't create any */
static void set_manager(struct worker_pool *pool, bool active)
{
	raw_spin_lock_irq(&pool->lock);
	if (active)
		pool->flags |= POOL_MANAGER_ACTIVE;
	else
		pool->flags &= ~(POOL_MANAGER_ACTIVE | POOL_MAYDAY);
	raw_spin_unlock_irq(&pool->lock);
}

/* a pool whose only worker executes an item of @wq until @release, and that creates none */
static struct worker_pool *take_only_worker(struct kunit *test, struct workqueue_struct *wq,
					    struct step *busy, struct completion *release)
{
	struct worker_pool *pool;

	set_nice(test, wq, -15);	/* a pool that nobody else uses, with one worker */
	rcu_read_lock();
	pool = unbound_pwq(wq, raw_smp_processor_id())->pool;
	rcu_read_unlock();
	set_manager(pool, true);
	init_completion(release);
	init_step(busy, release);
	queue_work(wq, &busy->work);
	KUNIT_EXPECT_TRUE(test, has_started(test, busy));
	return pool;
}

/* the manager of @pool has failed to create a worker for so long that it asks for help */
static void fail_to_create(struct worker_pool *pool)
{
	pool_mayday_timeout(&pool->mayday_timer);
	timer_delete_sync(&pool->mayday_timer);
}

/* queue an item that executes once more, with a slot for it that it won't need yet */
static struct pool_workqueue *queue_again_with_slot(struct kunit *test, struct workqueue_struct *wq,
						    struct step *step)
{
	struct work_struct *work = &step->work;
	struct pool_workqueue *pwq;
	bool first;

	KUNIT_EXPECT_FALSE(test, test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work)));
	rcu_read_lock();
	pwq = unbound_pwq(wq, raw_smp_processor_id());
	raw_spin_lock_irq(&pwq->pool->lock);
	KUNIT_EXPECT_PTR_EQ(test, get_work_pool(work), pwq->pool);
	pwq->nr_in_flight[pwq->work_color]++;
	KUNIT_EXPECT_TRUE(test, pwq_tryinc_nr_active(pwq));
	insert_work(pwq, work, &pwq->pool->worklist, work_color_to_flags(pwq->work_color));
	KUNIT_EXPECT_TRUE(test, pwq_get_slot(pwq, &first));
	pwq->nr_granted++;
	kick_pool_unlock(pwq->pool);
	local_irq_enable();
	rcu_read_unlock();
	return pwq;
}

static void expect_none_granted(struct kunit *test, struct pool_workqueue *pwq)
{
	unsigned long end = jiffies + patience(test);

	while ((READ_ONCE(pwq->nr_listed) || READ_ONCE(pwq->nr_granted)) &&
	       time_before(jiffies, end))
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->nr_listed), 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->nr_granted), 0);
}

/* another worker finds that an item executes yet, and puts back the slot that there was for it */
static void slot_of_deferred_item_is_put_back(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 0);
	struct completion release;
	struct pool_workqueue *pwq;
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&step, &release);
	set_nice(test, wq, -15);
	queue_work(wq, &step.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &step));
	pwq = queue_again_with_slot(test, wq, &step);
	expect_none_granted(test, pwq);
	KUNIT_EXPECT_EQ(test, nr_slots(wq), wq->max_active);
	end_step(&step);
	destroy_workqueue(wq);
}

/* so does the rescuer */
static void rescuer_puts_back_slot(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct completion release;
	struct pool_workqueue *pwq;
	struct worker_pool *pool;
	struct step step;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	pool = take_only_worker(test, wq, &step, &release);
	pwq = queue_again_with_slot(test, wq, &step);
	KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->nr_granted), 1);
	fail_to_create(pool);
	expect_none_granted(test, pwq);
	KUNIT_EXPECT_EQ(test, nr_slots(wq), wq->max_active);
	set_manager(pool, false);
	end_step(&step);
	destroy_workqueue(wq);
}

/* without slots, an item that waits for its own execution to end counts nevertheless */
static void deferred_item_counts_on_cpu(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_PERCPU, 2);
	unsigned long end = jiffies + patience(test);
	struct completion release;
	struct worker_pool *pool;
	struct step first, second;
	bool listed;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	queue_work_on(0, wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	queue_work_on(0, wq, &first.work);
	pool = per_cpu_ptr(cpu_worker_pools, 0);
	do {
		usleep_range(1000, 2000);
		raw_spin_lock_irq(&pool->lock);
		listed = !list_empty(&pool->worklist);
		raw_spin_unlock_irq(&pool->lock);
	} while (listed && time_before(jiffies, end));
	queue_work_on(0, wq, &second.work);
	expect_waits(test, &second);
	complete(&release);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
}

/* by then, what is free needn't be passed on anymore, and nobody can arm it again */
static void slot_timer_ends_with_workqueue(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct pool_workqueue *pwq;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	/* keeps the workqueue from being freed */
	mutex_lock(&wq->mutex);
	pwq = unbound_pwq(wq, -1);
	raw_spin_lock_irq(&pwq->pool->lock);
	get_pwq(pwq);
	raw_spin_unlock_irq(&pwq->pool->lock);
	mutex_unlock(&wq->mutex);

	wq_arm_slot_timer(wq);
	destroy_workqueue(wq);
	KUNIT_EXPECT_FALSE(test, timer_pending(&wq->slot_timer));
	wq_arm_slot_timer(wq);
	KUNIT_EXPECT_FALSE(test, timer_pending(&wq->slot_timer));
	timer_shutdown_sync(&wq->slot_timer);
	put_pwq_unlocked(pwq);
}

/* one that is flushed and finds no slot when it's about to be started: they stay together */
static void flush_waits_for_slot(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct workqueue_struct *other = alloc_workqueue("kunit_other", WQ_UNBOUND, 0);
	struct completion release, release_busy;
	struct step first, second, busy;
	struct worker_pool *pool;
	struct flush flush;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	pool = take_only_worker(test, other, &busy, &release_busy);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	set_nice(test, wq, -3);
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	set_nice(test, wq, -15);
	queue_work(wq, &second.work);
	start_flush(&flush, &second.work);
	await_barrier(test, &second.work);

	set_manager(pool, false);
	complete_all(&release_busy);
	expect_waits(test, &second);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&flush.done, HZ / 20));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&flush.done, patience(test)));
	KUNIT_EXPECT_TRUE(test, completion_done(&second.started));
	end_step(&first);
	end_step(&second);
	end_step(&busy);
	end_flush(&flush);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

/* one that has got a slot but not started is cancelled and makes room for one of another pool */
static void item_starts_when_another_is_cancelled(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND, 1);
	struct workqueue_struct *other = alloc_workqueue("kunit_other", WQ_UNBOUND, 0);
	struct completion release, release_busy;
	struct step first, second, third, busy;
	struct worker_pool *pool;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	pool = take_only_worker(test, other, &busy, &release_busy);
	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	init_step(&third, NULL);

	set_nice(test, wq, -3);		/* a pool of the same node as that one */
	queue_work(wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	queue_work(wq, &third.work);
	expect_waits(test, &third);
	set_nice(test, wq, -15);
	queue_work(wq, &second.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&third.work));
	complete_all(&release);
	flush_work(&first.work);

	set_nice(test, wq, -3);
	queue_work(wq, &third.work);
	expect_waits(test, &third);
	KUNIT_EXPECT_TRUE(test, cancel_work(&second.work));
	KUNIT_EXPECT_TRUE(test, has_started(test, &third));
	KUNIT_EXPECT_FALSE(test, completion_done(&second.started));

	set_manager(pool, false);
	complete_all(&release_busy);
	end_step(&first);
	end_step(&second);
	end_step(&third);
	end_step(&busy);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

/* an item for which there is no worker, nor a way to get one */
static void item_starts_on_rescuer(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct completion release;
	struct step first, second;
	struct worker_pool *pool;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	pool = take_only_worker(test, wq, &first, &release);
	init_step(&second, NULL);
	queue_work(wq, &second.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started, HZ / 20));
	fail_to_create(pool);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));

	set_manager(pool, false);
	end_step(&first);
	end_step(&second);
	destroy_workqueue(wq);
}

/*
 * An item that is activated by one of another pool, for a pool that has no idle worker:
 * the rescuer is summoned if, and only if, none can be created.
 */
static void item_of_another_pool_starts_on_rescuer(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	struct workqueue_struct *other = alloc_workqueue("kunit_other", WQ_UNBOUND, 0);
	struct completion release, release_busy;
	struct step first, second, third, busy;
	struct pool_workqueue *pwq;
	struct worker_pool *pool;
	int failing;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	pool = take_only_worker(test, other, &busy, &release_busy);

	for (failing = 0; failing <= 1; failing++) {
		init_completion(&release);
		init_step(&first, &release);
		init_step(&second, NULL);
		init_step(&third, NULL);
		set_nice(test, wq, -3);
		queue_work(wq, &first.work);
		KUNIT_EXPECT_TRUE(test, has_started(test, &first));
		queue_work(wq, &third.work);
		expect_waits(test, &third);
		set_nice(test, wq, -15);
		queue_work(wq, &second.work);
		rcu_read_lock();
		pwq = unbound_pwq(wq, raw_smp_processor_id());
		rcu_read_unlock();
		complete_all(&release);
		if (failing)
			KUNIT_EXPECT_TRUE(test, has_started(test, &second));
		else
			KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started,
									     HZ / 20));
		KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->stats[PWQ_STAT_MAYDAY]), failing);
		/* it starts the item that no worker was created for, and is on record */
		if (!failing)
			fail_to_create(pool);
		KUNIT_EXPECT_TRUE(test, has_started(test, &second));
		end_step(&first);
		end_step(&second);
		end_step(&third);
	}

	/* now there is an idle worker */
	complete_all(&release_busy);
	flush_work(&busy.work);
	raw_spin_lock_irq(&pool->lock);
	KUNIT_EXPECT_FALSE(test, need_to_create_worker(pool));
	pwq_summon_rescuer(pwq);
	raw_spin_unlock_irq(&pool->lock);
	KUNIT_EXPECT_EQ(test, READ_ONCE(pwq->stats[PWQ_STAT_MAYDAY]), 1);
	set_manager(pool, false);
	end_step(&busy);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

/* an item that is activated by the rescuer's own one, but on another pwq of that pool */
static void item_of_another_pwq_starts_on_rescuer(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	struct workqueue_struct *other = alloc_workqueue("kunit_other", WQ_UNBOUND, 0);
	struct completion release, release_busy;
	struct step first, second, third, busy;
	struct worker_pool *pool;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	KUNIT_ASSERT_NOT_NULL(test, other);
	pool = take_only_worker(test, other, &busy, &release_busy);

	init_completion(&release);
	init_step(&first, &release);
	init_step(&second, NULL);
	init_step(&third, NULL);
	set_nice(test, wq, -15);
	queue_work(wq, &first.work);
	fail_to_create(pool);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	set_nice(test, wq, -3);
	queue_work(wq, &third.work);
	expect_waits(test, &third);
	set_nice(test, wq, -15);	/* @second gets another pwq of the same pool */
	queue_work(wq, &second.work);
	KUNIT_EXPECT_TRUE(test, cancel_work(&third.work));
	complete_all(&release);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));

	set_manager(pool, false);
	complete_all(&release_busy);
	end_step(&first);
	end_step(&second);
	end_step(&third);
	end_step(&busy);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

#if defined(CONFIG_SMP) && defined(CONFIG_HOTPLUG_CPU)
/* an item that waits for one on a CPU that goes offline */
static void item_starts_when_cpu_goes_offline(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_percpu_workqueue();
	unsigned long thresh = wq_cpu_intensive_thresh_us;
	int cpu = cpumask_last(cpu_online_mask);
	struct step first, second;

	KUNIT_ASSERT_NOT_NULL(test, wq);
	if (num_online_cpus() == 1) {
		destroy_workqueue(wq);
		kunit_skip(test, "there is only one CPU");
	}
	wq_cpu_intensive_thresh_us = 0;
	init_step(&second, NULL);
	init_step(&first, &second.started);
	first.spin = true;
	queue_work_on(cpu, wq, &first.work);
	KUNIT_EXPECT_TRUE(test, has_started(test, &first));
	queue_work_on(cpu, wq, &second.work);
	KUNIT_EXPECT_FALSE(test, wait_for_completion_timeout(&second.started, HZ / 20));
	KUNIT_EXPECT_EQ(test, remove_cpu(cpu), 0);
	KUNIT_EXPECT_TRUE(test, has_started(test, &second));
	KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
	end_step(&first);
	end_step(&second);
	wq_cpu_intensive_thresh_us = thresh;
	destroy_workqueue(wq);
}
#endif

/* lock @pool, which nobody else uses, and kick it */
static bool kick(struct worker_pool *pool)
{
	bool kicked;

	raw_spin_lock_irq(&pool->lock);
	kicked = kick_pool_unlock(pool);
	local_irq_enable();
	return kicked;
}

static void worker_is_picked_once(struct kunit *test)
{
	struct worker_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	struct worker *worker = kunit_kzalloc(test, sizeof(*worker), GFP_KERNEL);
	struct pool_workqueue *pwq = kmem_cache_zalloc(pwq_cache, GFP_KERNEL);
	struct work_struct work;

	KUNIT_ASSERT_NOT_NULL(test, pool);
	KUNIT_ASSERT_NOT_NULL(test, worker);
	KUNIT_ASSERT_NOT_NULL(test, pwq);
	KUNIT_ASSERT_EQ(test, init_worker_pool(pool), 0);
	pool->attrs->affn_strict = true;
	pwq->pool = pool;
	worker->pool = pool;
	worker->task = current;
	worker->flags = WORKER_PREP;
	atomic_long_set(&work.data, (unsigned long)pwq | WORK_STRUCT_PENDING | WORK_STRUCT_PWQ);

	list_add(&work.entry, &pool->worklist);
	KUNIT_EXPECT_FALSE_MSG(test, kick(pool), "no worker is idle");

	raw_spin_lock_irq(&pool->lock);
	worker_enter_idle(worker);
	raw_spin_unlock_irq(&pool->lock);
	KUNIT_EXPECT_TRUE(test, kick(pool));
	KUNIT_EXPECT_FALSE_MSG(test, kick(pool), "it's on its way");

	raw_spin_lock_irq(&pool->lock);
	worker_leave_idle(worker);
	worker_enter_idle(worker);
	list_del(&work.entry);
	raw_spin_unlock_irq(&pool->lock);
	KUNIT_EXPECT_FALSE_MSG(test, kick(pool), "there is no work");

	list_add(&work.entry, &pool->worklist);
	KUNIT_EXPECT_TRUE(test, kick(pool));

	free_workqueue_attrs(pool->attrs);
	ida_destroy(&pool->worker_ida);
	kmem_cache_free(pwq_cache, pwq);
}

#ifdef CONFIG_PROVE_LOCKING
/* the last case of all, when each wakeup has been seen */
static void lockdep_has_no_complaint(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, debug_locks);
}
#endif

/* most cases start an item by another one of the wakeups that there are */
static struct kunit_case wakeups_test_cases[] = {
	KUNIT_CASE(worker_is_picked_once),
	KUNIT_CASE(chained_items_start),
	KUNIT_CASE(item_starts_when_another_sleeps),
	KUNIT_CASE(item_starts_when_another_hogs_cpu),
	KUNIT_CASE(item_of_another_pool_starts),
	KUNIT_CASE(flush_of_cancelled_item_ends),
	KUNIT_CASE(flush_waits_for_execution),
	KUNIT_CASE(flush_waits_when_pool_is_kicked),
	KUNIT_CASE(flush_waits_for_hog),
	KUNIT_CASE(flush_waits_for_old_pool),
	KUNIT_CASE(flush_looks_again),
	KUNIT_CASE(slot_of_deferred_item_is_put_back),
	KUNIT_CASE(rescuer_puts_back_slot),
	KUNIT_CASE(deferred_item_counts_on_cpu),
	KUNIT_CASE(slot_timer_ends_with_workqueue),
	KUNIT_CASE(flush_waits_for_slot),
	KUNIT_CASE(executing_item_stays),
	KUNIT_CASE(item_starts_when_unplugged),
	KUNIT_CASE(item_starts_when_limit_is_raised),
	KUNIT_CASE(frozen_items_start),
#ifdef CONFIG_FREEZER
	KUNIT_CASE(item_starts_when_thawed),
#endif
	KUNIT_CASE(item_starts_when_another_is_cancelled),
	KUNIT_CASE(item_starts_on_rescuer),
	KUNIT_CASE(item_of_another_pool_starts_on_rescuer),
	KUNIT_CASE(item_of_another_pwq_starts_on_rescuer),
#if defined(CONFIG_SMP) && defined(CONFIG_HOTPLUG_CPU)
	KUNIT_CASE(item_starts_when_cpu_goes_offline),
#endif
#ifdef CONFIG_PROVE_LOCKING
	KUNIT_CASE(lockdep_has_no_complaint),
#endif
	{}
};

static struct kunit_suite wakeups_test_suite = {
	.name = "workqueue_wakeups",
	.test_cases = wakeups_test_cases,
};

kunit_test_suites(&workqueue_test_suite, &wakeups_test_suite);
