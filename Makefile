# SPDX-License-Identifier: GPL-2.0
#
# make bench    obtain, apply, build, boot, measure, report: the main job
# make report   report again, of several machines in one with FILES="A.json B.json"
# make test     prove the project
# make debian   the benchmark module on Debian's own kernel, without the series
# make tree     a git tree in build/tree/BASE with one commit per patch, to edit in
# make refresh  write patches/BASE back from that tree
# make kunit    the KUnit suite on User Mode Linux
# make torture  wqtorture on kernels with lockdep, KASAN and KCSAN, SECS=60 on each machine
# make each     build and boot each patch by itself, with lockdep
# make models   search the models further than make test does: minutes, up to 8 GB
# make check    checkpatch, sparse, W=1 and kernel-doc on the series
# make clean    remove build/; what is in the cache stays
#
# BASE=6.12     a file in bases/
# ARCH=x86_64   the architecture to build for
# KSRC=DIR      for bench: a kernel source of yours to use instead of the base, a
#               git tree or an unpacked directory, neither is written to
# SIZES=1,2,4   for bench: shard sizes to measure
# QUICK=1       for bench: one boot of each kernel and few items, to see it work

BASE ?= 6.12
ARCH ?= x86_64
KSRC ?=
SECS ?= 60
SIZES ?=
QUICK ?=
export ARCH SIZES

FILES ?= $(wildcard build/bench.json build/local-*.json)

.PHONY: help bench report test debian tree refresh kunit each torture models check clean

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

bench:
	@scripts/bench --base '$(BASE)' $(if $(KSRC),--ksrc '$(KSRC)') $(if $(QUICK),--quick)

report:
	@scripts/setup && scripts/report $(FILES)

test:
	@scripts/test --base '$(BASE)'

debian:
	@scripts/setup && scripts/debian --base '$(BASE)'

tree:
	@scripts/tree --base '$(BASE)'

refresh:
	@scripts/refresh --base '$(BASE)'

kunit:
	@scripts/setup && scripts/kunit --base '$(BASE)'

each:
	@scripts/setup && scripts/each --base '$(BASE)'

torture:
	@scripts/setup && scripts/torture --base '$(BASE)' --secs '$(SECS)'

models:
	@scripts/setup && "$${XDG_CACHE_HOME:-$$HOME/.cache}/unbound-workqueue/venv/bin/python" \
		-m pytest -v tests/test_models.py --large-models

check:
	@scripts/setup && scripts/check --base '$(BASE)'

clean:
	rm -rf build
