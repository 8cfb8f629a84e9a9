#!/bin/sh
# GNU parallel: SHARES shares of a plan on this machine, or with --sshlogin on several that see the
# same folders. What is lost is made by the same command again.
#
#     PLAN=plan.jsonl STORE=store SHARES=8 sh parallel.sh [--sshlogin host1,host2]
set -eu
seq "$SHARES" | parallel -q "$@" --halt never \
  "${VARVE:-varve}" campaign work --plan "$PLAN" --store "$STORE" --share "{}/$SHARES" --workers 1
