#!/bin/sh
# SQLite on the extension against SQLite on the kernel's ext4 over a loop device, both on files of one
# folder: transactions of one row in a second, the median of ROUNDS by turns, and how many times as fast. The same program
# and the same SQLite; `batch` is compiled with batches of writes, against DELETE, and the last two lines are of a process
# that another one serves. Needs root, a C compiler and mke2fs.
# OPTIONS in the environment are those of the mount, as scheme=adaptive.
# usage: bench.sh FOLDER EXTENSION SQLITE3_C_FOLDER [COUNT [ROUNDS]]
set -eu
if [ $# -lt 3 ]; then
    echo "usage: $0 FOLDER EXTENSION SQLITE3_C_FOLDER [COUNT [ROUNDS]]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 extension=$2 sqlite=$3 count=${4:-500} rounds=${5:-3}
program=$folder/transactions
cc -O2 -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE -DHAVE_FDATASYNC=1 -I "$sqlite" \
    "$here/examples/transactions.c" "$sqlite/sqlite3.c" -o "$program" -lpthread -ldl -lm
mkdir -p "$folder/kernel"
truncate -s 256M "$folder/kernel.img"
mke2fs -q -F -t ext4 "$folder/kernel.img"
mount -o loop "$folder/kernel.img" "$folder/kernel"
trap 'umount "$folder/kernel"; rmdir "$folder/kernel"' EXIT
trap 'exit 1' INT TERM
rm -f "$folder/varve.img"
image="file:$folder/varve.img:/t.db?vfs=varve&create=256M${OPTIONS:+&options=$OPTIONS}"

cc -O2 -DHAVE_FDATASYNC=1 -I "$sqlite" "$here/examples/transactions.c" "$sqlite/sqlite3.c" -o "$program-plain" \
    -lpthread -ldl -lm

# note NAME COMMAND...: one more rate
note() {
    name=$1
    shift
    rate=$("$@")
    eval "$name=\"\${$name:-} $rate\""
}
median() {
    echo "$1" | tr -s ' ' '\n' | sed '/^$/d' | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# By turns, so that other work of the machine hits all alike.
for round in $(seq "$rounds"); do
    for mode in delete truncate wal; do
        note "kernel_$mode" "$program" "file:$folder/kernel/$mode.db?psow=1" "$mode" "$count"
        note "varve_$mode" "$program-plain" "$image" "$mode" "$count" "$extension"
    done
    note varve_batch "$program" "$image" delete "$count" "$extension"
    # A process that another one serves.
    mkfifo "$folder/hold"
    "$program-plain" "file:$folder/varve.img:/first.db?vfs=varve${OPTIONS:+&options=$OPTIONS}" delete 1 \
        "$extension" hold <"$folder/hold" >"$folder/first" &
    exec 3>"$folder/hold"
    until [ -s "$folder/first" ]; do sleep 0.1; done
    for mode in delete wal; do
        note "served_$mode" "$program-plain" "$image" "$mode" "$count" "$extension"
    done
    exec 3>&-
    wait
    rm "$folder/hold" "$folder/first"
done
ratio() {
    awk -v a="$(median "$2")" -v b="$(median "$3")" -v name="$1" 'BEGIN { printf "%-10s %8d %8d %6.2f\n", name, b, a, a / b }'
}
printf '%-10s %8s %8s %6s\n' mode kernel varve times
ratio delete "$varve_delete" "$kernel_delete"
ratio truncate "$varve_truncate" "$kernel_truncate"
ratio wal "$varve_wal" "$kernel_wal"
ratio batch "$varve_batch" "$kernel_delete"
ratio "delete, 2" "$served_delete" "$kernel_delete"
ratio "wal, 2" "$served_wal" "$kernel_wal"
