# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034 # the loads use the variables
# What the loads on dm-crypt share: MAPPED, the device that is encrypted, and its kcryptd,
# which is gone with it: the folder KCRYPTD in sysfs, its name, and its max_active.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# unmap: close MAPPED
unmap() {
	[ ! -e $MAPPED ] || cryptsetup close wqlab-load
}

uses fio cryptsetup wipefs
devices 1 "$@"
trace
MAPPED=/dev/mapper/wqlab-load
[ ! -e $MAPPED ] || die "$MAPPED is there already: cryptsetup close wqlab-load"
undo unmap
head -c 64 /dev/urandom >"$TMP/key"
step cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 \
	--key-file "$TMP/key" --keyfile-size 64 "$1" wqlab-load

major=$(stat -L -c 0x%t $MAPPED) minor=$(stat -L -c 0x%T $MAPPED)
KCRYPTD=$(printf '%s\n' "$WORKQUEUES/kcryptd-$((major)):$((minor))-"*)
[ -d "$KCRYPTD" ] || die "kcryptd is not in sysfs, where its scope is set: it is from Linux 6.9 on"
KCRYPTD_NAME=${KCRYPTD##*/}
LIMIT=$(cat "$KCRYPTD/max_active")
