#!/bin/sh
# SQLite on the extension against SQLite on the kernel's ext4 over a loop device, both on files of one
# folder: transactions of one row in a second, the best of ROUNDS, and how many times as fast. The same program
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

# best NAME COMMAND...: the best of the rounds
best() {
    name=$1
    shift
    top=0
    for round in $(seq "$rounds"); do
        rate=$("$@")
        [ "$rate" -gt "$top" ] && top=$rate
    done
    eval "$name=$top"
}

for mode in delete truncate wal; do
    best "kernel_$mode" "$program" "file:$folder/kernel/$mode.db?psow=1" "$mode" "$count"
done
cc -O2 -DHAVE_FDATASYNC=1 -I "$sqlite" "$here/examples/transactions.c" "$sqlite/sqlite3.c" -o "$program-plain" \
    -lpthread -ldl -lm
for mode in delete truncate wal; do
    best "varve_$mode" "$program-plain" "$image" "$mode" "$count" "$extension"
done
best varve_batch "$program" "$image" delete "$count" "$extension"
# The same by a process that another one serves.
mkfifo "$folder/hold"
"$program-plain" "file:$folder/varve.img:/first.db?vfs=varve" delete 1 "$extension" hold \
    <"$folder/hold" >"$folder/first" &
exec 3>"$folder/hold"
until [ -s "$folder/first" ]; do sleep 0.1; done
for mode in delete wal; do
    best "served_$mode" "$program-plain" "$image" "$mode" "$count" "$extension"
done
exec 3>&-
wait
rm "$folder/hold"
ratio() {
    awk -v a="$2" -v b="$3" -v name="$1" 'BEGIN { printf "%-10s %8d %8d %6.2f\n", name, b, a, a / b }'
}
printf '%-10s %8s %8s %6s\n' mode kernel varve times
ratio delete "$varve_delete" "$kernel_delete"
ratio truncate "$varve_truncate" "$kernel_truncate"
ratio wal "$varve_wal" "$kernel_wal"
ratio batch "$varve_batch" "$kernel_delete"
ratio "delete, 2" "$served_delete" "$kernel_delete"
ratio "wal, 2" "$served_wal" "$kernel_wal"
