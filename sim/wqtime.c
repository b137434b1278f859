// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin of QEMU that keeps simulated time: a clock for each vCPU, and what cache lines
 * cost that move between them.
 *
 * An instruction takes insn_ps, and more while the other thread of the core is busy. Of each
 * cache line it is known who wrote it last, when it came there, and who has a copy. Who lacks
 * a copy, or must have the only one to write, waits until the line is there and for the time
 * it takes to come over, and the others' copies to go; a plain store does not wait, but its
 * line comes no sooner. Who has waited goes on for a moment, in which the line stays, and then
 * ends its turn, so that what others did meanwhile happens first. That way locks, wakeups and
 * counters put the vCPUs in order.
 *
 * Who is behind the same cache comes first: while a line that others wait for is on its way to
 * another cache, for half of that time, the CPUs of the one that it leaves still get it from
 * each other.
 *
 * A compare-and-swap takes effect when it is executed, not when its line has come over, and
 * so does not fail here where it fails on a machine: because others, whom it had to wait for,
 * have written the line since it was read. It takes nr_retries moves of the line more then.
 *
 * A vCPU that has run the same loop twice from PAUSE to PAUSE, without a store, an atomic
 * operation, an access to a device or a look at the clock, and with copies of all that it
 * read, cannot leave the loop until one of these lines is written or an interrupt comes: it
 * is parked until then, and its clock then goes on by whole rounds of the loop.
 *
 * A call of sethostname() turns it on, the next one turns it off and writes a line of JSON
 * with what was counted. That is done from the first to the last of a number of calls of
 * queue_work_on(), see "count".
 *
 * Arguments, all NAME=VALUE; times in ns, with three digits behind the point at most:
 *
 *   insn, smt     an instruction, and one while the other thread of the core is busy
 *   atomic, pause what an atomic operation, and PAUSE, take beyond that
 *   core, cluster, llc, node, far
 *                 a line from another thread of the core, another core of the cluster, of the
 *                 last-level cache, of the node, of another node
 *   keep          a CPU that has waited for a line goes on so long before others get it
 *   retries       moves of a line that others wait for as well that a compare-and-swap takes
 *                 beyond the first, a number
 *   send, ipi, wake
 *                 sending an interrupt to another CPU, its way, and leaving idle for it
 *   quantum       instructions in a turn
 *   start, seed   vCPUs start up to so many ns apart, at random
 *   cpus          file with a line for each vCPU: its core, cluster, LLC and node
 *   symbols       file with lines "KIND START END": addresses of functions, in hex. KIND is
 *                 lock or unlock, with the lock as first argument; slow, that a lock may jump
 *                 to; queue, that queues a work item; or switch, as sethostname()
 *   count         FIRST:LAST, calls of a queue function
 *   out           file that lines are added to
 */
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define MAX_CPUS	512
#define WORDS		(MAX_CPUS / 64)
#define WATCHED		8		/* lines that a spinning vCPU can read */
#define MAX_LLCS	64		/* of which it is known that they come first */
#define DEPTH		8		/* of interrupts in the middle of taking a lock */
#define MEMORY		(16ULL << 30)	/* of the guest, at most */
#define LINE_SHIFT	6
#define NO_LINE		UINT64_MAX

typedef uint64_t ps_t;

/* A cache line. One of an older epoch has not been accessed since time was turned on. */
struct line {
	ps_t		since;		/* the writer has had it since */
	uint64_t	copies[WORDS];
	uint16_t	writer;
	uint16_t	epoch;
};

/* of a line that several LLCs want: when each of them had it last, and can have it no more */
struct stays {
	ps_t		end[MAX_LLCS], leaves[MAX_LLCS];
};

struct place {
	int core, cluster, llc, node;
};

/* the nearest that two CPUs have in common */
enum distance { CORE, CLUSTER, LLC, NODE, FAR, DISTANCES };

/* an instruction that accesses memory, or a block */
struct site {
	uint64_t	pc;
	unsigned int	nr_insns;	/* of a block */
	bool		atomic, compares;
	uint64_t	moves[DISTANCES];	/* of lines */
	ps_t		waited;
};

struct taking {
	uint64_t	lock, sp, caller;
	ps_t		since;
	bool		contended;
};

struct cpu {
	/* the loop that it spins in */
	uint64_t	pc;		/* of its PAUSE */
	uint64_t	insns, period_insns;
	ps_t		paused_at, period;
	ps_t		yields_at;	/* if not 0, it ends its turn then */
	uint64_t	fought_for;	/* line that it read once others had written it */
	bool		pure;		/* since its latest PAUSE */
	unsigned int	nr_rounds;
	unsigned int	nr_watched;
	uint64_t	watched[WATCHED];
	int		sibling;	/* the first other thread of the core, or -1 */
	unsigned int	nr_taking;
	struct taking	taking[DEPTH];
} __attribute__((aligned(64)));

/* what happened at a lock, taken by one caller */
struct lock_stat {
	uint64_t	lock, caller;
	uint64_t	taken, contended;
	ps_t		waited, held;
};

/* who holds a lock, since when */
struct holder {
	struct lock_stat *stat;
	ps_t		since;
};

enum kind { LOCK, UNLOCK, SLOW, QUEUE, SWITCH };
static const char * const kinds[] = { "lock", "unlock", "slow", "queue", "switch" };
struct function {
	uint64_t	start, end;
	enum kind	kind;
};

static struct line *lines;
static struct cpu cpus[MAX_CPUS];
static struct place places[MAX_CPUS];
static ps_t clocks[MAX_CPUS];
static bool parked[MAX_CPUS], busy[MAX_CPUS];
static struct qemu_plugin_simtime simtime = {
	.clock = clocks, .parked = parked, .busy = busy, .boot_quantum = 100000, .quantum = 200,
};

static ps_t insn_ps = 350, smt_ps = 350, atomic_ps = 5000, pause_ps = 40000;
static ps_t way_ps[DISTANCES] = { 5000, 50000, 50000, 100000, 150000 };
static ps_t start_ps, keep_ps;
static unsigned int nr_retries;
static uint64_t seed = 1, first_call, last_call = UINT64_MAX;
static GArray *functions;
static GHashTable *sites, *lock_stats, *holders, *stays;
static struct qemu_plugin_register *rdi, *rsp;
static GByteArray *bytes;
static FILE *out;

static bool on, counting;
static uint16_t epoch;
static uint64_t nr_calls;
static ps_t first_at, last_at;
static struct {
	uint64_t	insns, pauses, parks;
} total;

/* --- Cache lines ---------------------------------------------------------- */

static enum distance distance(unsigned int one, unsigned int other)
{
	const struct place *a = &places[one], *b = &places[other];

	if (a->core == b->core)
		return CORE;
	if (a->node != b->node)
		return FAR;
	if (a->llc != b->llc)
		return NODE;
	return a->cluster == b->cluster ? CLUSTER : LLC;
}

static bool has_copy(const struct line *line, unsigned int cpu)
{
	return line->copies[cpu / 64] >> (cpu % 64) & 1;
}

static bool has_only_copy(const struct line *line, unsigned int cpu)
{
	for (unsigned int i = 0; i < WORDS; i++)
		if (line->copies[i] != (i == cpu / 64 ? 1ULL << (cpu % 64) : 0))
			return false;
	return true;
}

/* from @cpu to all that have a copy or had the only one */
static enum distance farthest(const struct line *line, unsigned int cpu)
{
	enum distance best = distance(cpu, line->writer);

	for (unsigned int i = 0; i < WORDS; i++)
		for (uint64_t rest = line->copies[i]; rest; rest &= rest - 1) {
			enum distance d = distance(cpu, i * 64 + __builtin_ctzll(rest));

			best = MAX(best, d);
		}
	return best;
}

/* a line that comes from another LLC or node is nearer where a CPU of this one has a copy */
static enum distance nearest(const struct line *line, unsigned int cpu)
{
	enum distance best = distance(cpu, line->writer);

	for (unsigned int i = 0; best >= NODE && i < WORDS; i++)
		for (uint64_t rest = line->copies[i]; rest; rest &= rest - 1) {
			enum distance d = distance(cpu, i * 64 + __builtin_ctzll(rest));

			best = MIN(best, d);
		}
	return best;
}

/* @cpu gets line @nr before it leaves the LLC; 0 if not. The line is on its way then already. */
static ps_t get_before_it_leaves(unsigned int cpu, uint64_t nr, unsigned int nr_moves)
{
	unsigned int llc = places[cpu].llc;
	struct stays *s = llc < MAX_LLCS ? g_hash_table_lookup(stays, (void *)nr) : NULL;
	ps_t there;

	if (!s || !s->end[llc])
		return 0;
	there = MAX(s->end[llc], clocks[cpu]) + nr_moves * way_ps[LLC];
	if (there > s->leaves[llc])
		return 0;
	s->end[llc] = there;
	return there;
}

/* line @nr has come to @cpu as often as @nr_moves from @d, at last at @there, and leaves again */
static void comes_to_llc(unsigned int cpu, uint64_t nr, enum distance d, unsigned int nr_moves,
			 ps_t there)
{
	unsigned int llc = places[cpu].llc;
	struct stays *s;

	if (llc >= MAX_LLCS)
		return;
	s = g_hash_table_lookup(stays, (void *)nr);
	if (!s) {
		s = g_new0(struct stays, 1);
		g_hash_table_insert(stays, (void *)nr, s);
	}
	s->end[llc] = there;
	s->leaves[llc] = there + nr_moves * way_ps[d] / 2;
}

/* at @at a line is written that this round of a loop has read */
static void stop_spinning(unsigned int cpu, ps_t at)
{
	struct cpu *c = &cpus[cpu];

	c->pure = false;
	c->nr_rounds = 0;
	if (!parked[cpu])
		return;
	parked[cpu] = false;
	if (at > clocks[cpu])
		clocks[cpu] += (at - clocks[cpu] + c->period - 1) / c->period * c->period;
}

/* all copies but that of @cpu are gone at @at */
static void take_away(struct line *line, unsigned int cpu, ps_t at)
{
	uint64_t nr = line - lines;

	for (unsigned int i = 0; i < WORDS; i++) {
		for (uint64_t rest = line->copies[i]; rest; rest &= rest - 1) {
			unsigned int other = i * 64 + __builtin_ctzll(rest);

			if (other == cpu)
				continue;
			for (unsigned int j = 0; j < cpus[other].nr_watched; j++)
				if (cpus[other].watched[j] == nr) {
					stop_spinning(other, at);
					break;
				}
		}
		line->copies[i] = i == cpu / 64 ? 1ULL << (cpu % 64) : 0;
	}
}

static void wait_for_line(unsigned int cpu, struct site *site, enum distance d,
			  unsigned int nr_moves, ps_t until, bool stalls)
{
	struct cpu *c = &cpus[cpu];

	c->pure = false;
	if (counting)
		site->moves[d] += nr_moves;
	if (!stalls)
		return;
	if (counting)
		site->waited += until - clocks[cpu];
	clocks[cpu] = until;
	c->yields_at = until + keep_ps;
}

static void access_line(unsigned int cpu, struct site *site, uint64_t nr, bool store)
{
	struct line *line = &lines[nr];
	struct cpu *c = &cpus[cpu];
	unsigned int nr_moves = 1;
	enum distance d;
	ps_t there;

	if (line->epoch != epoch) {
		memset(line, 0, sizeof(*line));
		line->epoch = epoch;
		line->writer = cpu;
		line->copies[cpu / 64] = 1ULL << (cpu % 64);
		return;
	}
	there = line->since > clocks[cpu] ? line->since : clocks[cpu];
	if (!store) {
		if (!has_copy(line, cpu)) {
			bool waits = there > clocks[cpu];
			ps_t before;

			d = nearest(line, cpu);
			c->fought_for = waits ? nr : NO_LINE;
			before = waits && d >= NODE ? get_before_it_leaves(cpu, nr, 1) : 0;
			if (before) {
				wait_for_line(cpu, site, LLC, 1, before, true);
			} else {
				wait_for_line(cpu, site, d, 1, there + way_ps[d], true);
				line->copies[cpu / 64] |= 1ULL << (cpu % 64);
			}
		}
		/* a line too many makes the loop one that is not parked */
		if (c->pure) {
			unsigned int i = 0;

			while (i < c->nr_watched && c->watched[i] != nr)
				i++;
			if (i == WATCHED)
				c->pure = false;
			else if (i == c->nr_watched)
				c->watched[c->nr_watched++] = nr;
		}
		return;
	}
	c->pure = false;
	if (line->writer == cpu && has_only_copy(line, cpu)) {
		if (clocks[cpu] > line->since)
			line->since = clocks[cpu];
	} else {
		bool waits = there > clocks[cpu];
		ps_t before;

		d = farthest(line, cpu);
		if (site->compares && c->fought_for == nr)
			nr_moves += nr_retries;
		c->fought_for = NO_LINE;
		before = waits && d >= NODE ? get_before_it_leaves(cpu, nr, nr_moves) : 0;
		if (before) {
			wait_for_line(cpu, site, LLC, nr_moves, before, site->atomic);
		} else {
			there += nr_moves * way_ps[d];
			wait_for_line(cpu, site, d, nr_moves, there, site->atomic);
			if (waits && d >= NODE)
				comes_to_llc(cpu, nr, d, nr_moves, there);
			take_away(line, cpu, there);
			line->writer = cpu;
			line->since = there;
		}
	}
	if (site->atomic)
		clocks[cpu] += atomic_ps;
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *address;
	struct site *site = data;
	bool store;
	uint64_t pa;

	store = qemu_plugin_mem_is_store(info);
	if (site->atomic && !store)	/* its store follows */
		return;
	address = qemu_plugin_get_hwaddr(info, vaddr);
	if (!address)
		return;
	if (qemu_plugin_hwaddr_is_io(address)) {
		cpus[cpu].pure = false;
		return;
	}
	pa = qemu_plugin_hwaddr_phys_addr(address);
	if (pa < MEMORY)
		access_line(cpu, site, pa >> LINE_SHIFT, store);
}

/* --- Instructions --------------------------------------------------------- */

static void on_block(unsigned int cpu, void *data)
{
	struct site *site = data;
	int sibling = cpus[cpu].sibling;

	clocks[cpu] += site->nr_insns * (sibling >= 0 && busy[sibling] ? smt_ps : insn_ps);
	cpus[cpu].insns += site->nr_insns;
	if (cpus[cpu].yields_at && clocks[cpu] >= cpus[cpu].yields_at) {
		cpus[cpu].yields_at = 0;
		qemu_plugin_simtime_yield();
	}
	if (counting)
		total.insns += site->nr_insns;
}

static void on_pause(unsigned int cpu, void *data)
{
	struct site *site = data;
	struct cpu *c = &cpus[cpu];
	bool same;

	if (!on) {
		qemu_plugin_simtime_yield();
		return;
	}
	clocks[cpu] += pause_ps;
	if (counting)
		total.pauses++;
	same = c->pure && c->pc == site->pc && c->period_insns == c->insns &&
	       c->period == clocks[cpu] - c->paused_at;
	c->nr_rounds = same ? c->nr_rounds + 1 : 0;
	c->pc = site->pc;
	c->period_insns = c->insns;
	c->period = clocks[cpu] - c->paused_at;
	c->paused_at = clocks[cpu];
	c->insns = 0;
	if (c->nr_rounds >= 2) {
		parked[cpu] = true;
		if (counting)
			total.parks++;
		/* what it read in this round is what it waits for: the list stays */
	} else {
		c->nr_watched = 0;
	}
	c->pure = true;
}

static void on_clock(unsigned int cpu, void *data)
{
	cpus[cpu].pure = false;
}

static uint64_t read_register(struct qemu_plugin_register *reg)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_register(reg, bytes) > 0)
		memcpy(&value, bytes->data, MIN(bytes->len, sizeof(value)));
	return value;
}

static uint64_t read_memory(uint64_t vaddr)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_memory_vaddr(vaddr, bytes, sizeof(value)))
		memcpy(&value, bytes->data, sizeof(value));
	return value;
}

/* --- Locks ---------------------------------------------------------------- */

static guint hash_stat(gconstpointer key)
{
	const struct lock_stat *stat = key;

	return (stat->lock >> 3) * 31 + stat->caller;
}

static gboolean same_stat(gconstpointer a, gconstpointer b)
{
	const struct lock_stat *one = a, *other = b;

	return one->lock == other->lock && one->caller == other->caller;
}

static void on_lock(unsigned int cpu, void *data)
{
	struct cpu *c = &cpus[cpu];
	struct taking *taking;

	if (!on || c->nr_taking == DEPTH)
		return;
	taking = &c->taking[c->nr_taking++];
	taking->lock = read_register(rdi);
	taking->sp = read_register(rsp);
	taking->caller = read_memory(taking->sp);
	taking->since = clocks[cpu];
	taking->contended = false;
}

static void on_slow(unsigned int cpu, void *data)
{
	struct cpu *c = &cpus[cpu];

	if (on && c->nr_taking)
		c->taking[c->nr_taking - 1].contended = true;
}

/* A function that takes a lock returns, or one that it calls. */
static void on_return(unsigned int cpu, void *data)
{
	struct cpu *c = &cpus[cpu];
	struct taking *taking;
	struct lock_stat key, *stat;
	struct holder *holder;

	if (!on || !c->nr_taking)
		return;
	taking = &c->taking[c->nr_taking - 1];
	if (read_register(rsp) != taking->sp)
		return;
	c->nr_taking--;
	if (!counting)
		return;
	key.lock = taking->lock;
	key.caller = taking->caller;
	stat = g_hash_table_lookup(lock_stats, &key);
	if (!stat) {
		stat = g_new0(struct lock_stat, 1);
		stat->lock = key.lock;
		stat->caller = key.caller;
		g_hash_table_add(lock_stats, stat);
	}
	stat->taken++;
	stat->contended += taking->contended;
	stat->waited += clocks[cpu] - taking->since;
	holder = g_hash_table_lookup(holders, (void *)key.lock);
	if (!holder) {
		holder = g_new0(struct holder, 1);
		g_hash_table_insert(holders, (void *)key.lock, holder);
	}
	holder->stat = stat;
	holder->since = clocks[cpu];
}

static void on_unlock(unsigned int cpu, void *data)
{
	struct holder *holder;

	if (!counting)
		return;
	holder = g_hash_table_lookup(holders, (void *)read_register(rdi));
	if (holder && holder->stat) {
		holder->stat->held += clocks[cpu] - holder->since;
		holder->stat = NULL;
	}
}

/* --- What is counted ------------------------------------------------------ */

static void on_queue(unsigned int cpu, void *data)
{
	if (!on)
		return;
	nr_calls++;
	if (nr_calls == first_call) {
		first_at = clocks[cpu];
		counting = true;
	} else if (nr_calls == last_call) {
		last_at = clocks[cpu];
		counting = false;
	}
}

static void clear_site(gpointer key, gpointer value, gpointer data)
{
	struct site *site = value;

	memset(site->moves, 0, sizeof(site->moves));
	site->waited = 0;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;	/* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void turn_on(void)
{
	uint64_t state;

	state = seed + ++epoch;		/* no run is like another */
	for (int i = 0; i < simtime.nr; i++) {
		struct cpu *c = &cpus[i];

		clocks[i] = start_ps ? next_random(&state) % start_ps : 0;
		c->pure = false;
		c->nr_rounds = c->nr_watched = c->nr_taking = 0;
		c->insns = c->yields_at = 0;
		c->fought_for = NO_LINE;
	}
	nr_calls = first_at = last_at = 0;
	memset(&total, 0, sizeof(total));
	g_hash_table_foreach(sites, clear_site, NULL);
	g_hash_table_remove_all(lock_stats);
	g_hash_table_remove_all(holders);
	g_hash_table_remove_all(stays);
	on = true;
	simtime.on = true;
	qemu_plugin_simtime_yield();
}

static void write_site(gpointer key, gpointer value, gpointer data)
{
	static const uint64_t none[DISTANCES];
	struct site *site = value;
	const char **comma = data;

	if (!memcmp(site->moves, none, sizeof(none)))
		return;
	fprintf(out, "%s[%" PRIu64 ",%" PRIu64, *comma, site->pc, site->waited);
	for (enum distance d = 0; d < DISTANCES; d++)
		fprintf(out, ",%" PRIu64, site->moves[d]);
	fprintf(out, "]");
	*comma = ",";
}

static void write_lock(gpointer key, gpointer value, gpointer data)
{
	struct lock_stat *stat = value;
	const char **comma = data;

	fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
		*comma, stat->lock, stat->caller, stat->taken, stat->contended, stat->waited,
		stat->held);
	*comma = ",";
}

static void turn_off(void)
{
	const char *comma = "";

	on = counting = false;
	simtime.on = false;
	qemu_plugin_simtime_yield();
	fprintf(out, "{\"calls\":%" PRIu64 ",\"first_ps\":%" PRIu64 ",\"last_ps\":%" PRIu64
		",\"insns\":%" PRIu64 ",\"pauses\":%" PRIu64 ",\"parks\":%" PRIu64 ",\"sites\":[",
		nr_calls, first_at, last_at, total.insns, total.pauses, total.parks);
	g_hash_table_foreach(sites, write_site, &comma);
	comma = "";
	fprintf(out, "],\"locks\":[");
	g_hash_table_foreach(lock_stats, write_lock, &comma);
	fprintf(out, "]}\n");
	fflush(out);
}

static void on_switch(unsigned int cpu, void *data)
{
	if (on)
		turn_off();
	else
		turn_on();
}

/* --- Translation ---------------------------------------------------------- */

/* Code that was translated while it was off is not kept when it is turned on, and vice versa. */

/* the opcode behind prefixes, NULL if there is none */
static const uint8_t *opcode(const uint8_t *code, size_t size, bool *locked)
{
	*locked = false;
	for (; size; code++, size--) {
		if (*code == 0xf0)
			*locked = true;
		else if (!memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3", *code, 10) &&
			 (*code & 0xf0) != 0x40)
			return code;
	}
	return NULL;
}

static struct site *site_of(uint64_t pc)
{
	struct site *site = g_hash_table_lookup(sites, (void *)pc);

	if (!site) {
		site = g_new0(struct site, 1);
		site->pc = pc;
		g_hash_table_insert(sites, (void *)pc, site);
	}
	return site;
}

static void translate_in_function(struct qemu_plugin_insn *insn, uint64_t pc, bool returns)
{
	for (unsigned int i = 0; i < functions->len; i++) {
		struct function *f = &g_array_index(functions, struct function, i);
		static const qemu_plugin_vcpu_udata_cb_t at_entry[] = {
			[LOCK] = on_lock, [UNLOCK] = on_unlock, [SLOW] = on_slow, [QUEUE] = on_queue,
			[SWITCH] = on_switch,
		};

		if (pc < f->start || pc >= f->end || !(on || f->kind == SWITCH))
			continue;
		if (pc == f->start)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, at_entry[f->kind],
							       QEMU_PLUGIN_CB_R_REGS, NULL);
		if (returns && (f->kind == LOCK || f->kind == SLOW))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return,
							       QEMU_PLUGIN_CB_R_REGS, NULL);
	}
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr_insns = qemu_plugin_tb_n_insns(tb);

	if (on) {
		struct site *block = g_new0(struct site, 1);	/* lives as long as the code */

		block->nr_insns = nr_insns;
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	}
	for (size_t i = 0; i < nr_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint8_t code[16] = { 0 };
		size_t size = qemu_plugin_insn_data(insn, code, sizeof(code));
		struct site *site = site_of(pc);
		const uint8_t *op;
		bool locked;

		op = opcode(code, size, &locked);
		if (!op)
			continue;
		/* XCHG with memory locks by itself */
		site->atomic = locked || ((op[0] == 0x86 || op[0] == 0x87) && op[1] < 0xc0);
		site->compares = op[0] == 0x0f && (op[1] == 0xb0 || op[1] == 0xb1);
		if (size == 2 && code[0] == 0xf3 && code[1] == 0x90)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pause,
							       QEMU_PLUGIN_CB_NO_REGS, site);
		translate_in_function(insn, pc, op[0] == 0xc3);
		if (!on)
			continue;
		if (op[0] == 0x0f && (op[1] == 0x31 || (op[1] == 0x01 && op[2] == 0xf9)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_clock,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, site);
	}
}

static void on_init(qemu_plugin_id_t id, unsigned int cpu)
{
	g_autoptr(GArray) all = qemu_plugin_get_registers();
	const struct { const char *name; struct qemu_plugin_register **reg; } wanted[] = {
		{ "rdi", &rdi }, { "rsp", &rsp },
	};

	for (unsigned int i = 0; i < all->len; i++) {
		qemu_plugin_reg_descriptor *reg =
			&g_array_index(all, qemu_plugin_reg_descriptor, i);

		for (size_t j = 0; j < G_N_ELEMENTS(wanted); j++)
			if (!strcmp(reg->name, wanted[j].name))
				*wanted[j].reg = reg->handle;
	}
}

/* --- Arguments ------------------------------------------------------------ */

static bool wrong(const char *what, const char *why)
{
	fprintf(stderr, "wqtime: %s: %s\n", what, why);
	return false;
}

static bool read_cpus(const char *path)
{
	FILE *file = fopen(path, "r");
	struct place *p = places;
	int nr = 0;

	if (!file)
		return wrong(path, "cannot be read");
	while (nr < MAX_CPUS && fscanf(file, "%d %d %d %d", &p->core, &p->cluster, &p->llc,
				       &p->node) == 4) {
		p++;
		nr++;
	}
	fclose(file);
	if (nr < simtime.nr)
		return wrong(path, "lacks vCPUs");
	for (int i = 0; i < nr; i++) {
		cpus[i].sibling = -1;
		for (int j = 0; j < nr && cpus[i].sibling < 0; j++)
			if (i != j && places[i].core == places[j].core)
				cpus[i].sibling = j;
	}
	return true;
}

static bool read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	struct function f;
	char kind[16];

	if (!file)
		return wrong(path, "cannot be read");
	while (fscanf(file, "%15s %" SCNx64 " %" SCNx64, kind, &f.start, &f.end) == 3)
		for (f.kind = 0; f.kind < G_N_ELEMENTS(kinds); f.kind++)
			if (!strcmp(kind, kinds[f.kind])) {
				g_array_append_val(functions, f);
				break;
			}
	fclose(file);
	return true;
}

static bool set(const char *name, const char *value)
{
	const struct { const char *name; ps_t *ps; } times[] = {
		{ "insn", &insn_ps }, { "smt", &smt_ps }, { "atomic", &atomic_ps },
		{ "pause", &pause_ps }, { "core", &way_ps[CORE] },
		{ "cluster", &way_ps[CLUSTER] }, { "llc", &way_ps[LLC] },
		{ "node", &way_ps[NODE] }, { "far", &way_ps[FAR] },
		{ "send", &simtime.send_ps }, { "ipi", &simtime.ipi_ps },
		{ "wake", &simtime.wake_ps }, { "start", &start_ps }, { "keep", &keep_ps },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
		if (!strcmp(name, times[i].name)) {
			*times[i].ps = g_ascii_strtod(value, NULL) * 1000 + 0.5;
			return true;
		}
	if (!strcmp(name, "quantum"))
		simtime.quantum = atoi(value);
	else if (!strcmp(name, "retries"))
		nr_retries = g_ascii_strtod(value, NULL) + 0.5;
	else if (!strcmp(name, "seed"))
		seed = g_ascii_strtoull(value, NULL, 10);
	else if (!strcmp(name, "count"))
		return sscanf(value, "%" SCNu64 ":%" SCNu64, &first_call, &last_call) == 2 ||
		       wrong(value, "not FIRST:LAST");
	else if (!strcmp(name, "cpus"))
		return read_cpus(value);
	else if (!strcmp(name, "symbols"))
		return read_symbols(value);
	else if (!strcmp(name, "out"))
		return (out = fopen(value, "a")) || wrong(value, "cannot be written");
	else
		return wrong(name, "no such argument");
	return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	size_t size = (MEMORY >> LINE_SHIFT) * sizeof(*lines);

	simtime.nr = info->system.smp_vcpus;
	if (simtime.nr > MAX_CPUS)
		return -!wrong("vCPUs", "too many");
	functions = g_array_new(false, false, sizeof(struct function));
	sites = g_hash_table_new(NULL, NULL);
	lock_stats = g_hash_table_new_full(hash_stat, same_stat, g_free, NULL);
	holders = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	stays = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	bytes = g_byte_array_new();
	out = stderr;
	for (int i = 0; i < argc; i++) {
		g_auto(GStrv) words = g_strsplit(argv[i], "=", 2);

		if (!words[0] || !words[1] || !set(words[0], words[1]))
			return -1;
	}
	/* touched where the guest touches its own */
	lines = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (lines == MAP_FAILED)
		return -!wrong("memory", "cannot be had");
	qemu_plugin_simtime(&simtime);
	qemu_plugin_register_vcpu_init_cb(id, on_init);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
