#!/bin/sh
# SQLite's own speed test, speedtest1, on the extension and on the kernel's ext4 over a loop device, both on files
# of one folder: the seconds of all its tests, the best of ROUNDS by turns, and how many times as fast the extension is.
# speedtest1.c is in SQLite's source archive (below test/), as `apt-get source sqlite3` brings it. Needs root, a C
# compiler and mke2fs. OPTIONS in the environment are those of the mount, as scheme=adaptive.
# usage: speedtest1.sh FOLDER EXTENSION SQLITE3_C_FOLDER SPEEDTEST1_C [SIZE [ROUNDS]]
set -eu
if [ $# -lt 4 ]; then
    echo "usage: $0 FOLDER EXTENSION SQLITE3_C_FOLDER SPEEDTEST1_C [SIZE [ROUNDS]]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 extension=$2 sqlite=$3 source=$4 size=${5:-100} rounds=${6:-3}
case $extension in */*) ;; *) extension=./$extension ;; esac
mkdir -p "$folder/kernel"
program=$folder/speedtest1
cc -O2 -DSQLITE_USE_URI=1 -DHAVE_FDATASYNC=1 -I "$sqlite" "$here/examples/loader.c" "$source" "$sqlite/sqlite3.c" \
    -o "$program" -lpthread -ldl -lm
truncate -s 512M "$folder/kernel.img"
mke2fs -q -F -t ext4 "$folder/kernel.img"
mount -o loop "$folder/kernel.img" "$folder/kernel"
trap 'umount "$folder/kernel"; rmdir "$folder/kernel"' EXIT
trap 'exit 1' INT TERM
rm -f "$folder/varve.img"

# seconds NAME DATABASE MODE: the total of one run
seconds() {
    "$program" --journal "$2" --size "$size" "$1" >"$folder/out" || {
        cat "$folder/out" >&2
        exit 1
    }
    awk '/TOTAL/ { sub(/s$/, "", $NF); print $NF }' "$folder/out"
}
least() {
    awk -v a="$1" -v b="$2" 'BEGIN { print (a == "" || b < a) ? b : a }'
}

printf '%-10s %8s %8s %6s\n' mode kernel varve times
for mode in delete truncate wal; do
    kernel='' varve=''
    for round in $(seq "$rounds"); do
        rm -f "$folder/kernel/"*.db*
        one=$(seconds "file:$folder/kernel/$mode.db?psow=1" "$mode")
        kernel=$(least "$kernel" "$one")
        rm -f "$folder/varve.img"
        image="file:$folder/varve.img:/$mode.db?vfs=varve&create=512M${OPTIONS:+&options=$OPTIONS}"
        one=$(VARVE_EXTENSION=$extension seconds "$image" "$mode")
        varve=$(least "$varve" "$one")
    done
    awk -v m="$mode" -v k="$kernel" -v v="$varve" \
        'BEGIN { printf "%-10s %8.2f %8.2f %6.2f\n", m, k, v, k / v }'
done
