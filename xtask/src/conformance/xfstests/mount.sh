#!/bin/bash
# mount(8) as xfstests calls it: the two devices under test go to Varve, everything else to the kernel.
real=/bin/mount
[ $# -eq 0 ] && { $real | sed "s/type fuse\.varve/type $FSTYP/"; exit; }
given=("$@")
type= options= plain=1 words=()
while [ $# -gt 0 ]; do
	case "$1" in
	-t) type=$2; shift 2 ;;
	-t*) type=${1#-t}; shift ;;
	-o) options=$options,$2; shift 2 ;;
	-o*) options=$options,${1#-o}; shift ;;
	-r | --read-only) options=$options,ro; shift ;;
	-w | --rw) options=$options,rw; shift ;;
	-*) plain=0; shift ;;
	*) words+=("$1"); shift ;;
	esac
done
case ",$options," in *,bind,* | *,rbind,* | *,move,*) plain=0 ;; esac
options=${options#,}
under_test() { [ "$1" = "$TEST_DEV" ] || [ "$1" = "$SCRATCH_DEV" ]; }
is_ours() { [ "$(/bin/findmnt -rnc -M "$1" -o FSTYPE | tail -1)" = fuse.varve ]; }
# The tests compare what is printed, and do not expect to be told of the transport.
ours() {
	local said code
	said=$("$VARVE" mount "$@" 2>&1)
	code=$?
	[ -z "$said" ] || echo "$said" | sed '/: requests come over io_uring$/d' >&2
	exit $code
}

[ $plain = 1 ] || exec $real "${given[@]}"
case ",$options," in
*,remount,*)
	at=${words[-1]}
	[ -b "$at" ] && at=$(/bin/findmnt -rnc -S "$at" -o TARGET | tail -1)
	is_ours "$at" && ours "$at" -o "$options"
	;;
*)
	if [ ${#words[@]} = 2 ] && under_test "${words[0]}" && [ "${type:-$FSTYP}" = "$FSTYP" ]; then
		# At a second place the options are those of the first one.
		if [ -n "$(/bin/findmnt -rnc -S "${words[0]}" -o TARGET)" ]; then
			case ",$options," in *,ro,*) options=ro ;; *) options= ;; esac
			ours "${words[@]}" -o "$options"
		fi
		ours "${words[@]}" -o "allow_other,dev,suid,$VARVE_OPTIONS,$options"
	fi
	;;
esac
exec $real "${given[@]}"
