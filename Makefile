# SPDX-License-Identifier: GPL-2.0
#
# make local       measure this host, with the kernel that it runs (as root)
# make bench       obtain, apply, build, boot, measure, report: stock, patched, mainline
# make sim         the same kernels on a MACHINE with many CPUs, in simulated time
# make audit       read what all callers in a kernel's source ask of max_active
# make report      report again, of several hosts in one with FILES="A.json B.json"
# make doctor      what is here, what is missing and what that prevents
#
# make test        prove the project, and one slice of make test-full
# make test-quick  a few minutes: before each commit
# make test-full   all slices of tests/slices.toml; goes on where it was interrupted
# make check       checkpatch, sparse, W=1, kernel-doc, Coccinelle and Sphinx on the series; each
#                  patch compiles, and all of them in each configuration of configs/gates.toml
# make each        build, boot and test each patch by itself, with lockdep
#
# make tree        a git tree in build/tree/BASE with one commit per patch, to edit in
# make refresh     write patches/BASE back from that tree
# make clean       remove build/, but for work of yours; the cache and local/ stay
#
# BASE=6.12    a file in bases/
# KSRC=PATH    for all that builds: a kernel source of yours in place of the base's, a git
#              tree, a directory or a tarball, none of which is written to
# ARCH=arm64   the architecture to build for, if not this host's: x86_64 or arm64
# QUICK=1      for local and bench: little is measured, to see it work
# WATCH=30     for local: load nothing, record the load that the host has for 30 s
# MACHINE=NAME for sim: a file of machines/ (grace-72)
# SLICE=NAME   for test and test-full: which slice; SLICE=none leaves it out of test
# SIZES=1,2,4  for local, bench and sim: shard sizes to measure
#
# Whatever fails, make itself ends with 2 and prints the status as "Error 1": 1 failed, 2 wrong
# usage, 77 skipped.

FILES ?= $(wildcard build/bench.json local/*.json)

# option NAME,VALUE: as a shell takes it, whatever is in it; nothing without a value
option = $(if $(2),--$(1) '$(subst ','\'',$(2))')
base = $(call option,base,$(BASE))
source = $(base) $(call option,ksrc,$(KSRC))
sizes = $(call option,sizes,$(SIZES))
quick = $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: help local bench sim audit report doctor test test-quick test-full check each tree refresh clean

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

local:
	@scripts/wqlab local $(quick) $(sizes) $(call option,watch,$(WATCH))

sim:
	@scripts/wqlab sim $(source) $(sizes) $(call option,machine,$(MACHINE))

audit:
	@scripts/audit $(source)

bench:
	@scripts/wqlab bench $(source) $(quick) $(sizes)

report:
	@scripts/wqlab report $(subst ',\',$(FILES))

doctor:
	@scripts/wqlab doctor

test:
	@scripts/pytest $(source)

test-quick test-full:
	@scripts/pytest $(source) --tier $(@:test-%=%)

check:
	@scripts/pytest $(source) tests/patches --tier full -k 'checkpatch or warning or sparse or remark or finding or compiles or gate or mails'

each:
	@scripts/pytest $(source) tests/patches --tier full

tree:
	@scripts/series tree $(source)

refresh:
	@scripts/series refresh $(base)

clean:
	@scripts/series clean
