#!/bin/bash
# findmnt(8): a mount of Varve has the name of its file system.
words=()
for word in "$@"; do
	[ "$word" = "$FSTYP" ] && word=fuse.varve
	words+=("$word")
done
/bin/findmnt "${words[@]}" | sed "s/fuse\.varve/$FSTYP/"
exit "${PIPESTATUS[0]}"
