#!/bin/sh
# Three commits of Git, each told when `git commit` has said that it is made: commits.sh setup|save CORE.FSYNC
set -e
case $1 in
setup)
    git init -q -b main .
    git config user.name A
    git config user.email a@example.org
    git config gc.auto 0
    [ "$2" = default ] || git config core.fsync "$2"
    echo 0 > file
    git add file
    git commit -q -m 0
    sync
    ;;
save)
    for n in 1 2 3; do
        echo "$n" > file
        git commit -q -a -m "$n"
        echo "commit $(git rev-parse HEAD)"
    done
    ;;
esac
