#!/bin/bash
# df(1): a mount of Varve has the name of its file system.
/bin/df "$@" | sed "s/fuse\.varve/$FSTYP/"
exit "${PIPESTATUS[0]}"
