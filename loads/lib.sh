# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034 # the loads use the variables
# What the loads share. A load says what it `uses` and which `devices` it overwrites, sets up
# what it needs, each `step` behind the `undo` that takes it back, and makes its cases with
# `measure`. However it ends, but by SIGKILL, what was set up is taken back.
#
# It prints
#
#   > CASE                what was run
#   figures KEY=VALUE...  what it came to; wqlab/results/metrics.py says what they are
#   missing TEXT          what is not measured, and why
#
# and exits with status 0, or 1 and a line of error. Its parameters are in the environment;
# those that all have:
#
#   FORCE          not empty: devices that hold something are overwritten too
#   EVERY          seconds between two looks at the number of kworkers
#   TRACE_SECS     for how long it is traced which work items run, of each case; 0 for not at all
#   TRACE_KB       memory for that, on each CPU

set -eu
umask 077
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
[ -e /run/udev/control ] || export DM_DISABLE_UDEV=1

WORKQUEUES=/sys/devices/virtual/workqueue
PARAMETERS=/sys/module/workqueue/parameters
TRACE=/sys/kernel/tracing/instances/wqlab-load
END_LIMIT=30 # seconds for what runs in the background to end
CHILDREN=
UNDO=

die() {
	echo "${0##*/}: error: $*" >&2
	exit 1
}

# --- what is set up, and taken back --------------------------------------------------------

# undo COMMAND...: to be run at the end, last one first. Given before what it undoes, as the two
# may be interrupted in between, it does nothing where there is nothing to undo.
undo() {
	UNDO="$*
$UNDO"
}

clean() {
	status=$?
	trap '' INT TERM HUP
	set +e
	for child in $CHILDREN; do
		stop "$child"
	done
	while read -r line; do
		if ! eval "$line" >"$TMP/undo" 2>&1; then
			echo "${0##*/}: error: $line: $(tail -n 1 "$TMP/undo")" >&2
			status=1
		fi
	done <<-END
		$UNDO
	END
	rm -rf "$TMP"
	exit "$status"
}

# stop CHILD: end it, at the latest after END_LIMIT
stop() {
	kill "$1" 2>/dev/null
	(
		sleep $END_LIMIT
		kill -KILL "$1"
	) >/dev/null 2>&1 &
	wait "$1" 2>/dev/null
	kill $! 2>/dev/null
}

[ "$(id -u)" = 0 ] || die "only root can set this up: try sudo"
TMP=$(mktemp -d "${TMPDIR:-/tmp}/wqlab-load.XXXXXX")
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# step COMMAND...: what has to succeed
step() {
	"$@" >"$TMP/step" 2>&1 || die "$*: $(grep -i error "$TMP/step" || grep . "$TMP/step" | tail -n 1)"
}

# uses PROGRAM...
uses() {
	for program; do
		command -v "$program" >/dev/null || die "no $program: scripts/setup load installs what all loads run"
	done
}

# put VALUE FILE: write to a file of the kernel; fails where the kernel does not take it
put() {
	{ echo "$1" >"$2"; } 2>/dev/null
}

unmount() {
	! grep -q " $1 " /proc/mounts || umount "$1"
}

# folder NAME: a place to mount something
folder() {
	mkdir "$TMP/$1"
	undo unmount "$TMP/$1"
}

# --- devices --------------------------------------------------------------------------------

# parts DEVICE: itself and its partitions, as the kernel calls them
parts() {
	name=$(basename "$1")
	echo "$name"
	for part in "/sys/class/block/$name/$name"*/partition; do
		[ ! -e "$part" ] || basename "$(dirname "$part")"
	done
}

# user DEVICE: what uses it, or nothing
user() {
	cut -d ' ' -f 1,2 /proc/mounts | grep ^/ | while read -r source where; do
		echo "$(readlink -f "$source") mounted on $where"
	done >"$TMP/users"
	sed -n 's/^\(\/[^ \t]*\).*/\1 swapped to/p' /proc/swaps >>"$TMP/users"
	for name in $(parts "$1"); do
		sed -n "s|^/dev/$name |$name is |p" "$TMP/users"
		for holder in "/sys/class/block/$name/holders"/*; do
			[ ! -e "$holder" ] || echo "$name is held by ${holder##*/}"
		done
	done | head -n 1
}

# devices NUMBER DEVICE...: may be overwritten, and are left without a signature of ours
devices() {
	number=$1
	shift
	[ $# -eq "$number" ] || die "$# devices are given, $number are needed: they are overwritten"
	seen=' '
	for device; do
		[ -b "$device" ] || die "$device is not a block device"
		real=$(readlink -f "$device")
		case $seen in *" $real "*) die "$device is given twice" ;; esac
		seen="$seen$real "
		used=$(user "$real")
		[ -z "$used" ] || die "$device is in use: $used"
		step wipefs -n --noheadings -O TYPE "$device"
		holds=$(tr '\n' ' ' <"$TMP/step" | tr -s ' ')
		[ -z "$holds" ] || [ -n "${FORCE:-}" ] ||
			die "$device holds something (${holds% }): --force overwrites it"
	done
	for device; do
		undo wipefs -q -a "$device"
	done
}

# --- what is measured -----------------------------------------------------------------------

# scope SCOPE FILE: set it; fails where the kernel has no such scope. One that has not takes
# cache_shard for cache.
scope() {
	if ! put "$1" "$2" || [ "$(cut -d ' ' -f 1 "$2")" != "$1" ]; then
		echo "missing scope $1: this kernel does not have it"
		return 1
	fi
}

# in_scope SCOPE FOLDER: the same for a workqueue of sysfs, strictly in SCOPE-strict
in_scope() {
	scope "${1%-strict}" "$2/affinity_scope" || return 1
	strict=0
	case $1 in *-strict) strict=1 ;; esac
	put $strict "$2/affinity_strict"
}

kworkers() {
	cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^kworker/u' || :
}

trace() {
	[ "$TRACE_SECS" -gt 0 ] || return 0
	undo untrace
	if ! mkdir "$TRACE" 2>/dev/null; then
		echo "missing peak: the kernel has no trace events in /sys/kernel/tracing"
		TRACE_SECS=0
		return 0
	fi
	echo 0 >"$TRACE/tracing_on"
	echo "$TRACE_KB" >"$TRACE/buffer_size_kb"
	echo counter >"$TRACE/trace_clock" # in the order in which it happened on all CPUs
	echo nohash-ptr >"$TRACE/trace_options"
	for event in queue_work execute_start execute_end; do
		echo 1 >"$TRACE/events/workqueue/workqueue_$event/enable"
	done
}

untrace() {
	[ ! -d "$TRACE" ] || rmdir "$TRACE"
}

# peak NAMES: from the trace, the most items of workqueues with such names (a pattern of awk) that
# were running at once. What runs is told by the worker: a function may free its item.
peak() {
	lost=$(cat "$TRACE"/per_cpu/cpu*/stats |
		awk '/^(overrun|dropped events):/ { n += $NF } END { print n }')
	if [ "$lost" -gt 0 ]; then
		echo "missing peak: $lost events of the trace are lost: TRACE_KB=$TRACE_KB is too little" >&3
		return
	fi
	awk -v names="^($1)" '
	/ workqueue_queue_work: / {
		item = workqueue = $0
		sub(/^.* struct=/, "", item)
		sub(/ .*/, "", item)
		sub(/^.* workqueue=/, "", workqueue)
		sub(/ .*/, "", workqueue)
		of[item] = workqueue
	}
	/ workqueue_execute_(start|end): / {
		match($0, /-[0-9]+ +\[/)
		worker = substr($0, RSTART, RLENGTH)
	}
	/ workqueue_execute_start: / {
		item = $0
		sub(/^.* struct /, "", item)
		sub(/:.*/, "", item)
		if (of[item] ~ names) {
			items++
			if (++now > most)
				most = now
			running[worker] = 1
		}
	}
	/ workqueue_execute_end: / && worker in running {
		now--
		delete running[worker]
	}
	END { if (items) printf " peak=%d traced=%d", most, items }' "$TRACE/trace"
}

# machine: ticks of all CPUs, those of them that did nothing, and context switches
machine() {
	awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; idle = $5 + $6 }
	/^ctxt / { print all, idle, $2 }' /proc/stat
}

# measure CASE NAMES LIMIT FIO-OPTION...: run fio, and print its figures. NAMES are the
# workqueues whose running items are counted, and LIMIT is their max_active; '' for none.
measure() {
	echo "> $1"
	names=$2 limit=$3
	shift 3
	(
		while :; do
			kworkers
			sleep "$EVERY"
		done
	) >"$TMP/kworkers" 2>/dev/null &
	CHILDREN=$!
	before=$(machine)
	if [ -n "$names" ] && [ "$TRACE_SECS" -gt 0 ]; then
		echo >"$TRACE/trace"
		echo 1 >"$TRACE/tracing_on"
		(
			sleep "$TRACE_SECS"
			echo 0 >"$TRACE/tracing_on"
		) >/dev/null 2>&1 & # a sleep outlives it, and must not hold up who reads what is printed
		CHILDREN="$CHILDREN $!"
	fi
	fio --minimal --group_reporting --thread --time_based "$@" >"$TMP/fio" 2>"$TMP/error" &
	fio=$! others=$CHILDREN
	CHILDREN="$fio $CHILDREN"
	wait "$fio" || die "fio: $(cat "$TMP/error" "$TMP/fio" | grep -v '^[0-9];' | tail -n 1)"
	after=$(machine)
	CHILDREN=$others
	for child in $others; do
		kill "$child" 2>/dev/null || :
		wait "$child" 2>/dev/null || :
	done
	CHILDREN=
	[ ! -d "$TRACE" ] || echo 0 >"$TRACE/tracing_on"
	exec 3>&1
	ran=
	[ -z "$names" ] || [ "$TRACE_SECS" -eq 0 ] || ran=$(peak "$names")
	exec 3>&-
	most=$(sort -n "$TMP/kworkers" | tail -n 1)
	grep '^3;' "$TMP/fio" | awk -F ';' -v "machine=$before $after" \
		-v "more=${most:+ kworkers=$most}$ran${limit:+ limit=$limit}" '
	{
		reads += $8 * $9 / 1000
		writes += $49 * $50 / 1000
		read += $7
		written += $48
	}
	END {
		split(machine, at, " ")
		printf "figures"
		if (read)
			printf " read_mib=%.3f", read / 1024
		if (written)
			printf " write_mib=%.3f", written / 1024
		if (at[4] > at[1])
			printf " cpu_percent=%.2f", 100 - 100 * (at[5] - at[2]) / (at[4] - at[1])
		if (reads + writes)
			printf " switches_per_io=%.3f", (at[6] - at[3]) / (reads + writes)
		print more
	}'
}
