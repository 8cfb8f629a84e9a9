#!/bin/sh
# Compiles libvarve and installs it below a folder: lib/libvarve.so (a link to libvarve.so.1), lib/libvarve.a, include/varve.h,
# lib/pkgconfig/varve.pc. The profile is one of cargo's: dist (small and fast, takes minutes), release, dev.
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 PREFIX [PROFILE]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
profile=${2:-dist}
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
cd "$here/../.."
cargo build --profile "$profile" -p varve-capi
built=$profile
[ "$profile" = dev ] && built=debug
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 "$here/include/varve.h" "$prefix/include/varve.h"
install -m 644 "$target/$built/libvarve.a" "$prefix/lib/libvarve.a"
# The loader looks for the name with the version of the interface, the linker for the one without.
soname=$(sed -n 's/.*VARVE_ABI_VERSION: u32 = \([0-9]*\);/libvarve.so.\1/p' "$here/src/lib.rs")
install -m 755 "$target/$built/libvarve.so" "$prefix/lib/$soname"
ln -sf "$soname" "$prefix/lib/libvarve.so"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
cat > "$prefix/lib/pkgconfig/varve.pc" <<END
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: varve
Description: ext4, ext3 and F2FS in user space, safe against cuts of power
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lvarve
Libs.private: -lpthread -ldl -lm -lrt -lgcc_s
END
echo "installed in $prefix"
