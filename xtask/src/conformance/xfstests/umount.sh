#!/bin/bash
# umount(8) as xfstests calls it: Varve's mounts are clean when it returns.
real=/bin/umount
[ $# = 1 ] || exec $real "$@"
at=$1
[ -b "$at" ] && at=$(/bin/findmnt -rnc -S "$at" -o TARGET | tail -1)
[ "$(/bin/findmnt -rnc -M "${at:-$1}" -o FSTYPE | tail -1)" = fuse.varve ] || exec $real "$@"
said=$("$VARVE" umount "$at" 2>&1)
code=$?
# Of a volume that was shut down on purpose the kernel says nothing.
case "$said" in *"was shut down"*) exit 0 ;; esac
[ -z "$said" ] || echo "$said" >&2
exit $code
