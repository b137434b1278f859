# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Sourced by the scripts beside it: where things are, how they talk, how they
# wait, and a git that no configuration of the user's can disturb.
#
# A script that has to tidy up defines a function `cleanup`; it is called on
# every way out, Ctrl-C included.

set -euo pipefail
export LC_ALL=C
unset CDPATH

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# cron and systemd may set none
export HOME=${HOME:-~}
# one that is relative is none
[[ ${XDG_CACHE_HOME:-} == /* ]] || export XDG_CACHE_HOME=$HOME/.cache
CACHE=$XDG_CACHE_HOME/unbound-workqueue
# shellcheck disable=SC2034  # used by the scripts
readonly ROOT CACHE

# say MESSAGE: one line of progress, with the seconds since the script started.
say() {
	printf '[%4ds] %s\n' "$SECONDS" "$*" >&2
}

# die MESSAGE: one line saying what is wrong and what would be right.
die() {
	printf '%s: error: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# wrong MESSAGE: the same, for a script that was called wrongly.
wrong() {
	printf '%s: error: %s; %s --help says more\n' "${0##*/}" "$*" "$0" >&2
	exit 2
}

# usage: prints the comment at the head of the script.
usage() {
	sed -n '/^# Usage:/,/^$/s/^# \{0,1\}//p' "$0"
}

# options VALUED FLAGS WORD...: sets the variable NAME to VALUE for each `--NAME VALUE` or
# `--NAME=VALUE`, and to true for each `--NAME`, as the script knows them, and WORDS to the words
# that are left, which are all behind a `--`.
options() {
	local valued=$1 flags=$2 name
	shift 2

	WORDS=()
	while (($#)); do
		name=${1#--} name=${name%%[= ]*}
		if [[ $1 == -- ]]; then
			WORDS+=("${@:2}")
			return
		elif [[ $1 == -h || $1 == --help ]]; then
			usage
			exit 0
		elif [[ $1 != -* ]]; then
			WORDS+=("$1")
		elif [[ $1 == "--$name" && " $flags " == *" $name "* ]]; then
			printf -v "$name" true
		elif [[ $1 == "--$name="?* && " $valued " == *" $name "* ]]; then
			printf -v "$name" %s "${1#*=}"
		elif [[ ($1 == "--$name" || $1 == "--$name=") && " $valued " == *" $name "* ]]; then
			[[ $1 != *= && -n ${2:-} ]] || wrong "--$name needs a value"
			printf -v "$name" %s "$2"
			shift
		else
			wrong "there is no option $1"
		fi
		shift
	done
}

TIMED_PID=
_on_exit() {
	local status=$?

	trap '' INT TERM HUP
	if [[ -n $TIMED_PID ]]; then
		kill "$TIMED_PID" 2>/dev/null || :
		wait "$TIMED_PID" 2>/dev/null || :
	fi
	if declare -F cleanup >/dev/null; then
		cleanup || :
	fi
	exit "$status"
}
trap _on_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# timed LABEL SECONDS COMMAND...: runs a command with a time limit, and says
# every ten seconds that it is still at it. The command's status is returned,
# 124 when the time ran out.
timed() {
	local label=$1 limit=$2 begin=$SECONDS shown=$SECONDS status=0
	shift 2

	say "$label"
	timeout -k 10 "$limit" "$@" &
	TIMED_PID=$!
	while kill -0 "$TIMED_PID" 2>/dev/null; do
		sleep 0.05
		if ((SECONDS - shown >= 10)); then
			shown=$SECONDS
			say "$label ... $((SECONDS - begin)) s"
		fi
	done
	wait "$TIMED_PID" || status=$?
	TIMED_PID=
	if ((status == 124)); then
		say "$label: stopped after the limit of $limit s"
	fi
	return "$status"
}

# lock NAME: holds the cache's lock NAME until the script ends.
lock() {
	local fd

	if ! mkdir -p "$CACHE" 2>/dev/null || ! { exec {fd}>"$CACHE/$1.lock"; } 2>/dev/null; then
		die "nothing can be written to the cache, $CACHE: set XDG_CACHE_HOME to where it can"
	fi
	if ! flock -n "$fd"; then
		say "waiting for another run that holds $CACHE/$1.lock"
		flock -w 1800 "$fd" ||
			die "$CACHE/$1.lock is still held after 1800 s: end the other run, then try again"
	fi
}

# list_bases: the bases there are, oldest first.
list_bases() {
	find "$ROOT/bases" -maxdepth 1 -type f -printf '%f\n' | sort -V
}

# list_series: those that there are patches for, oldest first.
list_series() {
	local base

	for base in $(list_bases); do
		[[ ! -d $ROOT/patches/$base ]] || echo "$base"
	done
}

# load_base BASE: sets MINIMUM and NEWEST, the versions that its series is known to fit and was
# tried on, and what else the file has.
# shellcheck disable=SC2034
load_base() {
	local known

	if [[ $1 != */* && -f $ROOT/bases/$1 ]]; then
		# shellcheck disable=SC1090
		. "$ROOT/bases/$1"
		return
	fi
	known=$(list_bases | paste -sd ' ')
	wrong "unknown base '$1': the bases are: $known"
}

# older_than VERSION OTHER: of kernels.
older_than() {
	[[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]
}

# git_env: from here on git reads no configuration but a repository's own, the
# settings below win over that one, and every commit has the same committer
# and date, so that commit ids can be reproduced and no identity is needed.
git_env() {
	local setting dirs='' n=0
	local settings=(
		am.keepcr=false am.threeWay=false
		apply.ignoreWhitespace=no apply.whitespace=nowarn
		color.ui=false commit.gpgSign=false
		core.attributesFile=/dev/null core.autocrlf=false
		core.bigFileThreshold=512m core.commentChar='#'
		core.eol=lf core.excludesFile=/dev/null
		core.fsmonitor=false core.hooksPath=/dev/null
		core.quotePath=true core.safecrlf=false
		diff.algorithm=histogram diff.context=3 diff.indentHeuristic=true
		diff.interHunkContext=0 diff.mnemonicPrefix=false
		diff.noprefix=false diff.orderFile=/dev/null diff.relative=false
		diff.renames=false diff.suppressBlankEmpty=false
		gc.auto=0 maintenance.auto=false
		i18n.commitEncoding=UTF-8 i18n.logOutputEncoding=UTF-8
		log.showSignature=false mailinfo.scissors=false
		rebase.autoStash=false rebase.updateRefs=false rerere.enabled=false
		tag.gpgSign=false
	)

	# The user's leave to read trees that belong to somebody else stays.
	dirs=$(git config --get-all safe.directory 2>/dev/null) || :
	while IFS= read -r setting; do
		[[ -z $setting ]] || settings+=("safe.directory=$setting")
	done <<<"$dirs"

	# shellcheck disable=SC2046
	unset $(git rev-parse --local-env-vars)
	unset GIT_EXTERNAL_DIFF GIT_DIFF_OPTS GIT_TEMPLATE_DIR GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE
	for setting in "${settings[@]}"; do
		export "GIT_CONFIG_KEY_$n=${setting%%=*}" "GIT_CONFIG_VALUE_$n=${setting#*=}"
		n=$((n + 1))
	done
	export GIT_CONFIG_COUNT=$n GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
	export GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0
	export GIT_EDITOR=true GIT_SEQUENCE_EDITOR=true GIT_PAGER=cat
	export GIT_COMMITTER_NAME=unbound-workqueue
	export GIT_COMMITTER_EMAIL=unbound-workqueue@localhost
	export GIT_COMMITTER_DATE='2024-11-17T00:00:00+00:00'
}

# commit_base MESSAGE: commits what is in the current repository's index as
# its base, with a fixed author, and tags it `base`.
commit_base() {
	git commit -q --no-verify --cleanup=verbatim \
		--author="$GIT_COMMITTER_NAME <$GIT_COMMITTER_EMAIL>" \
		--date="$GIT_COMMITTER_DATE" -m "$1" &&
		git tag base
}

# Proxies, under the names that apt and git know; sudo would drop them.
PROXIES=()
for name in http https ftp all no; do
	capitals=${name^^}_PROXY
	name+=_proxy
	if [[ -n ${!name:-${!capitals:-}} ]]; then
		export "$name=${!name:-${!capitals}}"
		PROXIES+=("$name=${!name}")
	fi
done
unset name capitals

# find_python: prints the newest Python of the machine that is new enough. One of an
# environment that is in use is none of the machine's.
find_python() {
	local name path=${PATH//"$CACHE/venv/bin:"/}

	for name in python3 python3.{20..11}; do
		name=$(PATH=$path command -v "$name") || continue
		if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			echo "$name"
			return
		fi
	done
	die "Python 3.11 or newer is needed, and python3 here is $(python3 -V 2>&1 || :)"
}

# read_series DIR [FIT...]: sets PATCHES to the patches of DIR, in order. A folder of DIR has some of
# them in another form, under the same names, for other kernels. It is used where the command FIT,
# which is given its patches, says that they fit.
# shellcheck disable=SC2034
read_series() {
	local series=$1 folder other i
	shift

	mapfile -t PATCHES < <(find "$series" -maxdepth 1 -name '*.patch' 2>/dev/null | sort)
	(($#)) || return 0
	while IFS= read -r folder; do
		"$@" "$folder"/*.patch &>/dev/null || continue
		for i in "${!PATCHES[@]}"; do
			other=$folder/${PATCHES[i]##*/}
			[[ ! -e $other ]] || PATCHES[i]=$other
		done
	done < <(other_forms "$series")
}

# other_forms DIR: the folders of DIR with patches in another form.
other_forms() {
	find "$1" -mindepth 2 -maxdepth 2 -name '*.patch' -printf '%h\n' 2>/dev/null | sort -u
}

# subjects PATCH...: of each patch its subject, in one line.
subjects() {
	awk '
		FNR == 1 { head = 1 }
		!head { next }
		/^Subject: / { subject = $0; sub(/^Subject: (\[PATCH[^]]*\] )?/, "", subject); folded = 1; next }
		/^ / && folded { subject = subject $0; next }
		{ folded = 0 }
		/^$/ { print subject; head = 0 }' "$@"
}

# list_parts DIR: a line for each part of the series in DIR: its number, its name, and the numbers
# of its first and its last patch. DIR/parts has a line for each as well: its number, its name,
# and the subject of its last patch. The next one begins behind that.
list_parts() {
	local file=$1/parts PATCHES titles title number name last=0 first i before=0
	local shown=${1#"$ROOT"/}/parts

	[[ -f $file ]] || die "$shown is missing: it names the parts of a series"
	read_series "$1"
	mapfile -t titles < <(subjects "${PATCHES[@]}")
	while read -r number name title; do
		[[ $number =~ ^[1-9][0-9]*$ && -n $title ]] ||
			die "$shown: '$number $name $title' is not the number, the name and the last subject of a part"
		((number > before)) || die "$shown: part $number comes after part $before"
		first=$((last + 1))
		for ((i = last; i < ${#titles[@]}; i++)); do
			[[ ${titles[i]} != "$title" ]] || break
		done
		((i < ${#titles[@]})) ||
			die "$shown: no patch behind those of the parts before $number has the subject '$title'"
		last=$((i + 1)) before=$number
		echo "$number $name $first $last"
	done <"$file"
	((last == ${#titles[@]})) ||
		die "$shown: '${titles[last]}' and what comes after it are in no part"
}

# in_order N,...: the numbers in order.
in_order() {
	tr , '\n' <<<"$1" | sort -n | paste -sd ,
}

# am TREE PATCH...: commits the patches in TREE. On failure TREE is left
# without them, and AM_ERROR says which one it was and why.
am() {
	local tree=$1 log subject
	shift
	log=$(git -C "$tree" am -q --keep-non-patch --no-scissors "$@" 2>&1) && return

	subject=$(git -C "$tree" am --show-current-patch=raw 2>/dev/null | subjects) || :
	git -C "$tree" am --abort &>/dev/null || :
	[[ -z $subject ]] || subject=" at '$subject'"
	# shellcheck disable=SC2034
	AM_ERROR="git am failed$subject: $(head -n 1 <<<"$log")"
	return 1
}

# python_program NAME WORD...: becomes the program NAME, a Python package in ROOT. Once its options
# are found to be right, scripts/setup installs what it needs.
python_program() {
	local python

	python=$(find_python)
	# what root leaves under sudo, its caller could not remove
	[[ -z ${SUDO_UID:-} ]] || export PYTHONDONTWRITEBYTECODE=1
	# files are UTF-8 whatever the locale; -P: nothing is taken from the folder that this is called in
	export PYTHONPATH=$ROOT PYTHONUTF8=1 WQ_SETUP=$ROOT/scripts/setup
	exec "$python" -P -m "$@"
}
