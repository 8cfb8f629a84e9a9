#!/bin/sh
# Compiles the extension of SQLite and installs it in a folder, as varve.so. The profile is one of cargo's: dist
# (small and fast, takes minutes), release, dev.
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 FOLDER [PROFILE]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
profile=${2:-dist}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
cd "$here/../.."
cargo build --profile "$profile" -p varve-sqlite-ext
built=$profile
[ "$profile" = dev ] && built=debug
install -m 755 "$target/$built/libvarve_sqlite3.so" "$folder/varve.so"
echo "installed: $folder/varve.so"
