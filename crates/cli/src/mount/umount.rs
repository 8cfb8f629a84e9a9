//! `varve umount`: takes a mount away and waits until its volume is clean.

use crate::args::UmountArgs;
use crate::failure::{Failure, failed};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = "/proc/self/mountinfo";
const TYPE: &[u8] = b"fuse.varve";

/// Runs it.
pub fn umount(args: &UmountArgs) -> Result<(), Failure> {
    let dir = find_dir(&args.dir)?;
    let image = image_of(&dir)?;
    let flags = match args.lazy {
        true => UnmountFlags::DETACH,
        false => UnmountFlags::empty(),
    };
    take_away(&dir, flags).map_err(|e| failed(format!("{}: {e}", dir.display())))?;
    if !args.lazy {
        wait_for(&image);
    }
    Ok(())
}

/// The mount point, or that of an image.
fn find_dir(word: &Path) -> Result<PathBuf, Failure> {
    word.canonicalize()
        .map_err(|e| failed(format!("{}: {e}", word.display())))
}

/// The image that is mounted there, as the table of mounts names it.
fn image_of(dir: &Path) -> Result<PathBuf, Failure> {
    let table = std::fs::read(TABLE).map_err(|e| failed(format!("{TABLE}: {e}")))?;
    let found = table
        .split(|&b| b == b'\n')
        .filter_map(|line| source_at(line, dir))
        .next_back();
    found.ok_or_else(|| {
        failed(format!(
            "{}: nothing of varve is mounted there",
            dir.display()
        ))
    })
}

/// The source of a line of the table: `36 35 98:0 / DIR OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
fn source_at(line: &[u8], dir: &Path) -> Option<PathBuf> {
    let mut words = line.split(|&b| b == b' ');
    let at = plain(words.nth(4)?);
    let mut behind = words.skip_while(|word| *word != b"-").skip(1);
    let kind = behind.next()?;
    let source = plain(behind.next()?);
    let here = at == dir.as_os_str().as_bytes() && kind == TYPE;
    here.then(|| PathBuf::from(OsString::from_vec(source)))
}

/// Without the octal escapes of the table.
fn plain(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail
            .get(..3)
            .filter(|d| d.iter().all(|b| (b'0'..b'8').contains(b)));
        match digits {
            Some(d) if byte == b'\\' => {
                let value = d.iter().fold(0u32, |n, b| n * 8 + u32::from(b - b'0'));
                out.push(value as u8);
                rest = &tail[3..];
            }
            _ => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

/// Takes the mount away: by the system call, or by `fusermount3` for who may not.
fn take_away(dir: &Path, flags: UnmountFlags) -> Result<(), String> {
    match unmount(dir, flags) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(e) => return Err(e.to_string()),
    }
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if flags.contains(UnmountFlags::DETACH) {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir).output();
    let output = output.map_err(|e| format!("fusermount3: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_string()),
    }
}

/// The process behind the mount holds a lock on the image until the volume is clean.
fn wait_for(image: &Path) {
    if let Ok(file) = File::open(image)
        && file.lock().is_ok()
    {
        let _ = file.unlock();
    }
}

/// After a signal: what the kernel holds back is written, then the mount goes, at once or, with files open, when they are closed.
pub fn let_go(dir: &Path) -> Result<(), String> {
    if let Ok(open) = File::open(dir) {
        // A failure is told by the volume itself.
        let _ = rustix::fs::syncfs(&open);
    }
    match take_away(dir, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(_) => take_away(dir, UnmountFlags::DETACH),
    }
}

/// Takes a mount away that nobody uses.
///
/// # Errors
/// Somebody does; the host refuses.
pub fn let_go_unused(dir: &Path) -> Result<(), String> {
    take_away(dir, UnmountFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_names_the_image() {
        let line =
            b"36 35 0:50 / /mnt/a\\040b rw,nosuid shared:1 - fuse.varve /i\\054mg rw,user_id=0";
        let found = source_at(line, Path::new("/mnt/a b"));
        assert_eq!(found, Some(PathBuf::from("/i,mg")));
        assert_eq!(source_at(line, Path::new("/mnt/a")), None);
        let other = b"36 35 0:50 / /mnt rw - ext4 /dev/sda rw";
        assert_eq!(source_at(other, Path::new("/mnt")), None);
    }
}
