# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034 # the jobs use the variables
# What the jobs share. File descriptor 3 is the port to the host.

WQ=/sys/devices/virtual/workqueue/writeback
BENCH_WQ=/sys/devices/virtual/workqueue/bench_wq
PARAMETERS=/sys/module/workqueue/parameters
DEBUG=/sys/kernel/debug

# fail REASON: end the job, with a reason for the host
fail() {
	echo "$*" >/reason
	exit 1
}

# ask WORDS: have the host do something, and wait until it answers, for at most 120 seconds:
#
#   hold              look at this machine's memory
#   qmp NAME JSON     give QEMU this command, with these arguments
ask() {
	echo "ask $*" >&3
	# shellcheck disable=SC3045 # busybox has it
	read -r -t 120 answer <&3 || fail "no answer from the host"
	[ "$answer" = go ] || fail "the host answered \"$answer\""
}

# released: wait until no pool is being released, for about 30 seconds
released() {
	releaser=$(grep -lx pool_workqueue_release /proc/[0-9]*/comm 2>/dev/null)
	[ -n "$releaser" ] || fail "nothing releases pools"
	tries=300
	until grep -q '^State:.S' "${releaser%comm}status"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "pools are being released for 30 seconds"
		sleep 0.1
	done
}

# hold: have the host look at this machine's memory, once no pool is being released. That is done
# with wq_pool_mutex held, and wq_verify.py can't tell then what is wrong.
hold() {
	released
	ask hold
}

# bench PARAMETER...: run test_workqueue with these parameters
bench() {
	insmod /modules/test_workqueue.ko "$@" 2>/error ||
		fail "test_workqueue $*: $(head -n 1 /error)"
	rmmod test_workqueue || fail "test_workqueue cannot be unloaded"
}

# strict_bench PARAMETER...: the same, with affinity_strict as soon as can be, and ended after a while
strict_bench() {
	insmod /modules/test_workqueue.ko secs=60 "$@" 2>/error &
	until [ "$(put "$BENCH_WQ/affinity_strict" 1)" = ok ]; do
		[ -d /proc/$! ] || fail "test_workqueue $*: $(head -n 1 /error)"
		sleep 0.01
	done
	sleep 0.2
	kill $! || fail "test_workqueue $*: $(head -n 1 /error)"
	wait $! || :
}

# bench_in_turn ITEMS PARAMETER...: run test_workqueue with so many work items and these parameters,
# every other time with affinity_strict and a tenth of them to warm up; counts in $runs
bench_in_turn() {
	items=$1
	shift
	if [ $((runs % 2)) = 0 ]; then
		bench "$@" wq_items="$items" scopes=smt,cache_shard
	else
		strict_bench "$@" warmup=$((items / 10)) scopes=cache_shard
	fi
	runs=$((runs + 1))
}

# lockdep_is_silent: fail if lockdep has found something, which it logs, and then stops looking
lockdep_is_silent() {
	! grep -qs 'debug_locks: *0$' /proc/lockdep_stats || fail "lockdep has found something"
}

# logged MODULE: of the kernel log on stdin, what a module has said
logged() {
	sed -n "s/^\(<[0-9]*>\)\{0,1\}\(\[[^]]*\] \)\{0,1\}\($1: *.*\)\$/\3/p"
}

# uptime: seconds since this machine was started
uptime() {
	cut -d . -f 1 /proc/uptime
}

# argument NAME: what follows NAME= on the kernel command line, up to a space
argument() {
	tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p"
}

# put FILE VALUE: write VALUE (escapes such as \n allowed) with one write() and
# print "ok", or why the kernel refused it
put() {
	# shellcheck disable=SC3037 # busybox has it, and unlike printf it says what failed
	if error=$({ echo -ne "$2" >"$1"; } 2>&1); then
		echo ok
	else
		echo "${error##*: }"
	fi
}

# workers NICE: one line "POOL CPULIST" for each unbound pool whose kworkers
# have that nice value. A strict pool's workers may run on its pod only.
workers() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v nice="$1" '
	/\(kworker\/u/ {
		pid = $1
		pool = $0
		sub(/^.*\(kworker\/u/, "", pool)
		sub(/:.*$/, "", pool)
		sub(/^.*\) /, "")
		if ($17 != nice)
			next
		status = "/proc/" pid "/status"
		while ((getline line < status) > 0)
			if (sub(/^Cpus_allowed_list:[ \t]*/, "", line))
				print pool, line
		close(status)
	}' | sort -u
}

# confined SCOPE: make the writeback workqueue strict in SCOPE and print
# "pods SCOPE CPULIST ...", one list per pool that serves it. That includes its
# fallback pool, which spans all CPUs and is a pool of its own unless a pod does
# too.
#
# Pools that are no longer used die some time later. So that they are never
# counted, each call makes its pools with a nice value that no other pool has.
nice=0
confined() {
	nice=$((nice + 1))
	[ $nice -ne 20 ] || nice=-19
	[ $nice -ne 0 ] || fail "no nice value left"
	put $WQ/affinity_scope "$1" >/dev/null
	scope=$(cat $WQ/affinity_scope)
	if [ "${scope%% *}" != "$1" ]; then
		echo "pods $1 unknown"
		return
	fi
	echo 1 >$WQ/affinity_strict
	echo $nice >$WQ/nice
	echo "pods $1 $(workers $nice | cut -d ' ' -f 2 | tr '\n' ' ')"
}

# settled [CPULIST ...]: the workqueue that confined() has made strict was changed
# by other means; once the pools that it has left have died, print "settled CPULIST
# ..." with those it has. Where a work item may keep one, say which it shall have:
# about two seconds are given to it then.
settled() {
	released
	want=$(echo "$*" | tr ' ' '\n' | sort)
	tries=0
	while have=$(workers $nice | cut -d ' ' -f 2 | sort) && [ -n "$want" ] && [ "$have" != "$want" ]; do
		[ $tries -lt 20 ] || break
		sleep 0.1
		tries=$((tries + 1))
	done
	echo "settled $(echo "$have" | tr '\n' ' ')"
}

# kernel_messages: what the kernel said about workqueues since the last call, but for frames of stacks
kernel_messages() {
	dmesg -c | sed -n 's/^\(<[0-9]*>\)\{0,1\}\(\[[^]]*\] \)\{0,1\}\(.*workqueue.*\)$/kernel \3/p' |
		grep -v '^kernel Command line:\|^kernel Kernel command line:\|^kernel  .*+0x'
}

# can_fail: have allocations of processes fail that ask for it, in a kernel with configs/fault, and
# have kmemleak wait for leaks; end the job in any other kernel
can_fail() {
	if [ ! -e /proc/self/fail-nth ] || [ ! -e $DEBUG/kmemleak ]; then
		echo "skipped no fault injection or no kmemleak in this kernel"
		exit 0
	fi
	for attr in failslab fail_page_alloc; do
		echo N >$DEBUG/$attr/ignore-gfp-wait
		echo Y >$DEBUG/$attr/task-filter
		echo 0 >$DEBUG/$attr/verbose
		echo -1 >$DEBUG/$attr/times
	done
	echo 0 >$DEBUG/fail_page_alloc/min-order
	echo N >$DEBUG/fail_page_alloc/ignore-gfp-highmem
	echo scan=off >$DEBUG/kmemleak
}

# fail_in PERCENT: of the allocations of processes with make-it-fail. A single one that fails doesn't
# get through kvmalloc(), which then tries vmalloc().
fail_in() {
	echo "$1" >$DEBUG/failslab/probability
	echo "$1" >$DEBUG/fail_page_alloc/probability
}

# leaks: "leak TEXT" for each line of what kmemleak has found
leaks() {
	# an object is reported when it is some seconds old and two scans have missed it
	sleep 6
	echo scan >$DEBUG/kmemleak
	sleep 1
	echo scan >$DEBUG/kmemleak
	sed 's/^/leak /' $DEBUG/kmemleak
}
