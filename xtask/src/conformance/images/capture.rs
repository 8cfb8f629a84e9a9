//! The volumes of a test of e2fsprogs: what its script hands to e2fsck.

use super::super::e2fsprogs::{fresh, name_of, output, run_in};
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most states that are kept of a volume; some scripts have it checked more than thirty times.
const STATES_MAX: usize = 12;
/// Seconds after which a script is ended.
const SECONDS_MAX: &str = "120";

/// Stands in the place of e2fsck: copies the volume that it is to check, then runs e2fsck.
const STAND_IN: &str = r#"#!/bin/bash
volume=
for word in "$@"; do [ -f "$word" ] && volume=$word; done
number=$(($(ls "$VARVE_STATES" | wc -l) + 1))
if [ -n "$volume" ] && [ $number -le VARVE_MAX ]; then
    cp --sparse=always "$volume" "$VARVE_STATES/$number"
fi
exec e2fsck "$@"
"#;

/// Does what `test_one` of the package does, with the installed tools. `test_config` names the
/// tools of the package's own build, so they are named again after it.
const DRIVER: &str = r#"
cmd_dir=$SRCDIR
. "$SRCDIR/test_config"
unset LD_LIBRARY_PATH DYLD_LIBRARY_PATH
FSCK=$VARVE_FSCK E2FSCK=$(command -v e2fsck)
MKE2FS=mke2fs TUNE2FS=tune2fs DEBUGFS=debugfs DUMPE2FS=dumpe2fs RESIZE2FS=resize2fs
E2IMAGE=e2image CHATTR=chattr LSATTR=lsattr E2UNDO=e2undo E2MMPSTATUS="dumpe2fs -m"
DEBUGFS_EXE=$(command -v debugfs) RESIZE2FS_EXE=$(command -v resize2fs)
E2IMAGE_EXE=$(command -v e2image) E2UNDO_EXE=$(command -v e2undo)
TEST_BITS=$(command -v e2fsck)
CRCSUM=cksum SIZEOF_TIME_T=8 QUOTA=y SKIP_UNLINK=true SKIP_SLOW_TESTS=yes
TMPFILE=$PWD/volume
: > "$TMPFILE"
test_description=$(cat "$test_dir/name" 2>/dev/null)
if [ -f "$test_dir/script" ]; then
    . "$test_dir/script"
elif [ -f "$SRCDIR/defaults/${test_name%%_*}_script" ]; then
    . "$SRCDIR/defaults/${test_name%%_*}_script"
fi
"#;

/// The states of the volume of a test, in order. If the script of the test hands none over, the
/// image that comes with the test, or what the script has left.
pub fn states(test: &Path, place: &Path) -> Result<Vec<PathBuf>> {
    let source = test.parent().unwrap_or(test);
    let states = fresh(&place.join("states"))?;
    let stand_in = place.join("e2fsck");
    let text = STAND_IN.replace("VARVE_MAX", &STATES_MAX.to_string());
    fs::write(&stand_in, text).map_err(|e| e.to_string())?;
    run_in(place, "chmod", &["+x", &stand_in.to_string_lossy()])?;
    // The scripts expect these defaults of mke2fs.
    let defaults = fs::read_to_string(source.join("mke2fs.conf.in"));
    fs::write(
        place.join("mke2fs.conf"),
        defaults.map_err(|e| e.to_string())?,
    )
    .map_err(|e| e.to_string())?;
    // The outcome of the script is not asked: it compares words, and other versions print others.
    output(
        Command::new("timeout")
            .args([SECONDS_MAX, "bash", "-c", DRIVER])
            .current_dir(place)
            .env("SRCDIR", source)
            .env("test_dir", test)
            .env("test_name", name_of(test))
            .env("VARVE_FSCK", &stand_in)
            .env("VARVE_STATES", &states),
    )?;
    let mut found: Vec<PathBuf> = (1..=STATES_MAX)
        .map(|n| states.join(n.to_string()))
        .filter(|path| path.exists())
        .collect();
    if found.is_empty() {
        let left = place.join("volume");
        let some = fs::metadata(&left).is_ok_and(|file| file.len() > 0);
        if test.join("image.gz").exists() {
            found.push(unpacked(test, place)?);
        } else if some {
            found.push(left);
        }
    }
    Ok(found)
}

/// The image that comes with a test.
pub fn unpacked(test: &Path, place: &Path) -> Result<PathBuf> {
    let image = place.join("image");
    let from = test.join("image.gz");
    let text = format!("gzip -dc < '{}' > '{}'", from.display(), image.display());
    run_in(place, "sh", &["-c", &text])?;
    Ok(image)
}
