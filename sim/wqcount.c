// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin of QEMU that counts instructions: of each call of some functions a line of JSON, with
 * those that its vCPU executed from entry to return. What it calls is in there, and so are
 * interrupts, and other tasks while it sleeps.
 *
 * The vCPUs take turns as in sim/qemu.diff while simulated time is off, so that with -icount
 * the same guest gives the same counts.
 *
 * Arguments, all NAME=VALUE; addresses in hex:
 *
 *   symbols       file with lines "NAME START END": functions
 *   forget        address, at which QEMU forgets what it has translated: with many vCPUs it is
 *                 slow at forgetting block by block, when the guest reuses memory with code
 *   out           file that lines are added to
 */
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define DEPTH		8		/* of such calls within each other */
#define SPINS		64		/* before others run */

struct function {
	char		name[64];
	uint64_t	start, end;
};

struct call {
	const struct function *function;
	uint64_t	sp;		/* at entry, where the return address is */
	uint64_t	insns;
};

struct cpu {
	uint64_t	insns, pauses;
	unsigned int	nr_calls;
	struct call	calls[DEPTH];
};

static struct qemu_plugin_simtime simtime = { .boot_quantum = 100000 };
static struct qemu_plugin_scoreboard *cpus;
static qemu_plugin_u64 insns;
static struct qemu_plugin_register *rsp;
static GArray *functions;
static GByteArray *bytes;
static uint64_t forget;
static FILE *out;

static uint64_t read_sp(void)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (qemu_plugin_read_register(rsp, bytes) > 0)
		memcpy(&value, bytes->data, MIN(bytes->len, sizeof(value)));
	return value;
}

static void on_entry(unsigned int cpu, void *data)
{
	struct cpu *c = qemu_plugin_scoreboard_find(cpus, cpu);
	struct call *call;

	if (c->nr_calls == DEPTH)
		return;
	call = &c->calls[c->nr_calls++];
	call->function = data;
	call->sp = read_sp();
	call->insns = c->insns;
}

static void on_return(unsigned int cpu, void *data)
{
	struct cpu *c = qemu_plugin_scoreboard_find(cpus, cpu);
	uint64_t sp;

	if (!c->nr_calls)
		return;
	sp = read_sp();
	/* calls above have ended elsewhere: their task has moved to another vCPU */
	for (unsigned int i = c->nr_calls; i--;) {
		struct call *call = &c->calls[i];

		if (call->function != data || call->sp != sp)
			continue;
		fprintf(out, "{\"function\":\"%s\",\"cpu\":%u,\"instructions\":%" PRIu64 "}\n",
			call->function->name, cpu, c->insns - call->insns);
		fflush(out);
		c->nr_calls = i;
		break;
	}
}

/* who spins for long lets others run; whether there are any is to be looked up in all vCPUs */
static void on_pause(unsigned int cpu, void *data)
{
	struct cpu *c = qemu_plugin_scoreboard_find(cpus, cpu);

	if (++c->pauses % SPINS == 0)
		qemu_plugin_simtime_yield();
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void after_reset(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

static void on_forget(unsigned int cpu, void *data)
{
	if (forget)
		qemu_plugin_reset((qemu_plugin_id_t)data, after_reset);
	forget = 0;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t nr_insns = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, insns,
							  nr_insns);
	for (size_t i = 0; i < nr_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint8_t code[2] = { 0 };
		size_t size = qemu_plugin_insn_size(insn);

		qemu_plugin_insn_data(insn, code, sizeof(code));
		if (size == 2 && code[0] == 0xf3 && code[1] == 0x90)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pause,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (pc == forget)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_forget,
							       QEMU_PLUGIN_CB_NO_REGS, (void *)id);
		for (unsigned int j = 0; j < functions->len; j++) {
			struct function *f = &g_array_index(functions, struct function, j);

			if (pc == f->start)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry,
								       QEMU_PLUGIN_CB_R_REGS, f);
			else if (pc > f->start && pc < f->end && size == 1 && code[0] == 0xc3)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return,
								       QEMU_PLUGIN_CB_R_REGS, f);
		}
	}
}

static void on_init(qemu_plugin_id_t id, unsigned int cpu)
{
	g_autoptr(GArray) all = qemu_plugin_get_registers();

	for (unsigned int i = 0; i < all->len; i++) {
		qemu_plugin_reg_descriptor *reg =
			&g_array_index(all, qemu_plugin_reg_descriptor, i);

		if (!strcmp(reg->name, "rsp"))
			rsp = reg->handle;
	}
}

static bool read_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	struct function f;

	if (!file)
		return false;
	while (fscanf(file, "%63s %" SCNx64 " %" SCNx64, f.name, &f.start, &f.end) == 3)
		g_array_append_val(functions, f);
	fclose(file);
	return true;
}

static bool set(const char *name, const char *value)
{
	if (!strcmp(name, "symbols"))
		return read_symbols(value);
	if (!strcmp(name, "forget"))
		return (forget = g_ascii_strtoull(value, NULL, 16));
	if (!strcmp(name, "out"))
		return (out = fopen(value, "a"));
	return false;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	simtime.nr = info->system.smp_vcpus;
	simtime.clock = g_new0(uint64_t, simtime.nr);
	simtime.parked = g_new0(bool, simtime.nr);
	simtime.busy = g_new0(bool, simtime.nr);
	cpus = qemu_plugin_scoreboard_new(sizeof(struct cpu));
	insns = qemu_plugin_scoreboard_u64_in_struct(cpus, struct cpu, insns);
	functions = g_array_new(false, false, sizeof(struct function));
	bytes = g_byte_array_new();
	out = stderr;
	for (int i = 0; i < argc; i++) {
		g_auto(GStrv) words = g_strsplit(argv[i], "=", 2);

		if (!words[0] || !words[1] || !set(words[0], words[1])) {
			fprintf(stderr, "wqcount: %s: wrong argument\n", argv[i]);
			return -1;
		}
	}
	qemu_plugin_simtime(&simtime);
	qemu_plugin_register_vcpu_init_cb(id, on_init);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
