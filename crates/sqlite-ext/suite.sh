#!/bin/sh
# SQLite's own tests on the extension, and the same files on the host's file system: every case that fails in
# an image and not on the host has to stand in tests/suite/expected.txt, with its reason, and every line there has to
# come true. SOURCE is SQLite's source archive, configured (`apt-get source sqlite3`, then ./configure
# --with-tcl=/usr/lib/tcl8.6); its `testfixture` is built below FOLDER once. FOLDER should lie in memory (/dev/shm): the
# tests sync a hundred thousand times. Needs root, which gives the tests to `nobody`, because they refuse to run
# as root; a C compiler, make, Tcl's headers and e2fsck.
# Without arguments the source is what VARVE_SQLITE_SOURCE names, and the extension is built.
# usage: suite.sh [FOLDER EXTENSION SOURCE [FILE...]]
set -eu
if [ $# -eq 0 ] && [ -n "${VARVE_SQLITE_SOURCE:-}" ]; then
    cargo build --quiet --release --package varve-sqlite-ext
    place=$(mktemp -d /dev/shm/varve-sqlite.XXXXXX)
    trap 'rm -rf "$place"' EXIT
    set -- "$place" "${CARGO_TARGET_DIR:-target}/release/libvarve_sqlite3.so" "$VARVE_SQLITE_SOURCE"
fi
if [ $# -lt 3 ]; then
    echo "usage: $0 [FOLDER EXTENSION SOURCE [FILE...]]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
suite=$here/tests/suite
mkdir -p "$1"
folder=$(cd "$1" && pwd) extension=$(realpath "$2") source=$(realpath "$3")
shift 3
[ $# -gt 0 ] || set -- $(sed '/^#/d; s/^[a-z]*://' "$suite/files.txt")
plain=" $(sed -n 's/^plain://p' "$suite/files.txt") "
batch=" $(sed -n 's/^batch://p' "$suite/files.txt") "

# built NAME OPTIONS: SQLite's test program, with the shim and another name.
built() {
    [ ! -x "$folder/$1" ] || return 0
    [ -f "$source/Makefile" ] || { echo "$source: run ./configure --with-tcl=/usr/lib/tcl8.6 there" >&2; exit 2; }
    make -s -C "$source" sqlite3.c
    make -s -C "$source" -W sqlite3.c testfixture OPTS="-O1 -DSQLITE_EXTRA_INIT=varve_suite_init -rdynamic $2" \
        TLIBS="-lm -lz -ldl -lpthread -L$folder -lshim -Wl,-rpath,$folder" >"$folder/make.log" 2>&1 ||
        { tail -20 "$folder/make.log" >&2; exit 1; }
    mv "$source/testfixture" "$folder/$1"
}
[ "$folder/libshim.so" -nt "$suite/shim.c" ] ||
    cc -O1 -fPIC -shared -I/usr/include/tcl8.6 "$suite/shim.c" -o "$folder/libshim.so"
built testfixture ""
for file in "$@"; do
    case $batch in *" $file "*) built testfixture-batch -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE ;; esac
done
cp "$extension" "$folder/varve.so"
chmod 755 "$folder" "$folder/varve.so"

# run WHERE FILE: the output of one file in an empty folder, as nobody
run() {
    rm -rf "$folder/run" "$folder/image"
    mkdir -m 777 "$folder/run" "$folder/image"
    fixture=$folder/testfixture
    set -- "$1" "$2" VARVE_EXTENSION="$folder/varve.so" VARVE_SUITE_FOLDER="$folder/run/testdir"
    [ "$1" = host ] || set -- "$@" VARVE_SUITE_IMAGE="$folder/image/app.img"
    case $plain in *" $2 "*) set -- "$@" VARVE_SUITE_PLAIN=1 ;; esac
    case $batch in *" $2 "*) set -- "$@" VARVE_SUITE_BATCH=1 && fixture=$fixture-batch ;; esac
    where=$1 file=$2
    shift 2
    (cd "$folder/run" && env "$@" setpriv --reuid=nobody --regid=nogroup --clear-groups \
        timeout "${LIMIT:-900}" "$fixture" "$suite/run.tcl" "$source/test/$file") \
        >"$folder/$where-$file.out" 2>&1 || true
    [ "$where" = host ] || checked >"$folder/fsck.out" 2>&1 ||
        echo "! e2fsck expected: nothing" >>"$folder/$where-$file.out"
}
# A process that ends by exit has written all it was told to, most of it to the log alone. So the log goes home first,
# and the check that changes nothing looks at what it was for.
checked() {
    { e2fsck -p "$folder/image/app.img" || [ $? -eq 1 ]; } && e2fsck -fn "$folder/image/app.img"
}
# The cases that failed, and how it ended, if it did not.
failures() {
    sed -n -e 's/^!Failures on these tests: //p' "$1" | tr ' ' '\n' | sed '/^$/d'
    sed -n -e 's/^! \(e2fsck\) expected.*/\1/p' "$1"
    grep -q '^[0-9]* errors out of ' "$1" || echo "no-end"
}
cases() {
    sed -n -e 's/^[0-9]* errors out of \([0-9]*\) tests.*/\1/p' "$1" | tail -1
}

all=0 bad=0
: >"$folder/news"
for file in "$@"; do
    run host "$file"
    run image "$file"
    failures "$folder/host-$file.out" | sort -u >"$folder/host"
    failures "$folder/image-$file.out" | sort -u >"$folder/image-failures"
    comm -13 "$folder/host" "$folder/image-failures" | sed "s/^/$file /" >"$folder/ours"
    count=$(cases "$folder/image-$file.out")
    all=$((all + ${count:-0}))
    bad=$((bad + $(wc -l <"$folder/ours")))
    echo "$file: ${count:-no end} cases ($(cases "$folder/host-$file.out") on the host), $(wc -l <"$folder/ours") fail here alone"
    sed -n "/^#/d; s/^\($file [^ ]*\).*/\1/p" "$suite/expected.txt" | sort -u >"$folder/expected"
    sort -u "$folder/ours" | comm -23 - "$folder/expected" | sed 's/$/: fails here and not on the host/' >>"$folder/news"
    sort -u "$folder/ours" | comm -13 - "$folder/expected" | sed 's/$/: is expected to fail, and does not/' >>"$folder/news"
done
echo "$all cases, of which $bad fail in an image and not on the host"
if [ -s "$folder/news" ]; then
    cat "$folder/news"
    exit 1
fi
