# SPDX-License-Identifier: GPL-2.0
#
# make bench    obtain, apply, build, boot, measure, report: the main job
# make test     prove the project
# make tree     a git tree in build/tree/BASE with one commit per patch, to edit in
# make refresh  write patches/BASE back from that tree
# make kunit    the KUnit suite on User Mode Linux
# make check    checkpatch, sparse, W=1 and kernel-doc on the series
# make clean    remove build/; what is in the cache stays
#
# BASE=6.12     a file in bases/
# ARCH=x86_64   the architecture to build for
# KSRC=DIR      for bench: a kernel source of yours to use instead of the base, a
#               git tree or an unpacked directory, neither is written to

BASE ?= 6.12
ARCH ?= x86_64
KSRC ?=
export ARCH

.PHONY: help bench test tree refresh kunit check clean

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

bench:
	@scripts/bench --base '$(BASE)' $(if $(KSRC),--ksrc '$(KSRC)')

test:
	@scripts/test --base '$(BASE)'

tree:
	@scripts/tree --base '$(BASE)'

refresh:
	@scripts/refresh --base '$(BASE)'

kunit:
	@scripts/setup && scripts/kunit --base '$(BASE)'

check:
	@scripts/setup && scripts/check --base '$(BASE)'

clean:
	rm -rf build
