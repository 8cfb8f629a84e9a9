//! `varve mount -o remount,...`: changes the options of a mount that stays.

use super::table::{self, Line};
use crate::failure::{Failure, failed, usage};
use fuse::{Options, REMOUNT_XATTR};
use rustix::fs::getxattr;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::path::Path;

/// Bytes of the longest reason.
const REASON_BYTES_MAX: usize = 4096;

/// The word that asks for it.
const WORD: &str = "remount";

/// The other words, if `remount` is among the words of `text`.
pub fn words(text: &str) -> Option<String> {
    let all: Vec<&str> = text.split(',').map(str::trim).collect();
    all.contains(&WORD).then(|| {
        let rest: Vec<&str> = all.into_iter().filter(|word| *word != WORD).collect();
        rest.join(",")
    })
}

/// Remounts. If the mount becomes read-only, the kernel's side changes first, so that the kernel
/// refuses while files are open for writing, and writes what it holds back; if the mount becomes
/// writable, the kernel's side changes last.
pub fn remount(dir: &Path, text: &str) -> Result<(), Failure> {
    let dir = dir
        .canonicalize()
        .map_err(|e| failed(format!("{}: {e}", dir.display())))?;
    let of_dir = |e: String| failed(format!("{}: {e}", dir.display()));
    let line = table::on(&dir).map_err(failed)?;
    let line = line.ok_or_else(|| of_dir("nothing of varve is mounted there".into()))?;
    let asked = Options::parse(text).map_err(usage)?;
    let writable = match text
        .split(',')
        .rfind(|word| matches!(word.trim(), "ro" | "rw"))
    {
        Some(_) => !asked.read_only,
        None => line.writable,
    };
    if !writable {
        set_kernel(&line, text, false).map_err(of_dir)?;
    }
    if let Err(why) = set_daemon(&dir, text) {
        if line.writable && !writable {
            // Restores the kernel's side; that the volume is not read-only is reported below.
            let _ = set_kernel(&line, "", true);
        }
        return Err(of_dir(why));
    }
    match writable {
        true => set_kernel(&line, text, true).map_err(of_dir),
        false => Ok(()),
    }
}

/// Tells the process behind the mount.
fn set_daemon(dir: &Path, text: &str) -> Result<(), String> {
    let name = format!("{REMOUNT_XATTR}{text}");
    let mut reason = vec![0; REASON_BYTES_MAX];
    match getxattr(dir, &name, &mut reason) {
        Ok(0) => Ok(()),
        Ok(n) => Err(String::from_utf8_lossy(&reason[..n]).into_owned()),
        Err(Errno::RANGE | Errno::NAMETOOLONG) => {
            Err("so many options at once are too long; remount in several steps".into())
        }
        Err(Errno::NODATA) => Err("only the superuser can remount".into()),
        Err(Errno::OPNOTSUPP) => Err(
            "a mount with `noxattr` cannot change its options; unmount it and mount it anew".into(),
        ),
        Err(e) => Err(format!("the process behind the mount: {e}")),
    }
}

/// Tells the kernel: `ro` and `rw`, and what it sees to by itself.
fn set_kernel(line: &Line, text: &str, writable: bool) -> Result<(), String> {
    let mut flags = MountFlags::empty();
    let words = line.words.iter().map(String::as_str);
    for word in words.chain(text.split(',').map(str::trim)) {
        let (flag, on) = match word {
            "nosuid" => (MountFlags::NOSUID, true),
            "suid" => (MountFlags::NOSUID, false),
            "nodev" => (MountFlags::NODEV, true),
            "dev" => (MountFlags::NODEV, false),
            "noexec" => (MountFlags::NOEXEC, true),
            "exec" => (MountFlags::NOEXEC, false),
            "noatime" => (MountFlags::NOATIME, true),
            "relatime" | "strictatime" | "atime" => (MountFlags::NOATIME, false),
            _ => continue,
        };
        flags.set(flag, on);
    }
    flags.set(MountFlags::RDONLY, !writable);
    mount_remount(&line.at, flags, "").map_err(|e| match e {
        Errno::BUSY => "files are open for writing there".to_string(),
        e => e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_found_and_taken_out() {
        assert_eq!(words("ro,remount,commit=3").as_deref(), Some("ro,commit=3"));
        assert_eq!(words("remount").as_deref(), Some(""));
        assert_eq!(words("ro,remounts"), None);
    }
}
