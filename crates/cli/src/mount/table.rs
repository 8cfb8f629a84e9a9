//! Reads the mounts of Varve from the kernel's table of mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/self/mountinfo";
const TYPE: &[u8] = b"fuse.varve";

/// A mount of Varve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// `MAJOR:MINOR`: equal for all places where one process is mounted, and for no others.
    pub device: String,
    /// The directory it is mounted on.
    pub at: PathBuf,
    /// The image.
    pub source: PathBuf,
    /// The mount is writable there.
    pub writable: bool,
    /// Options that the kernel enforces at this place: `nosuid`, `noatime` and so on.
    pub words: Vec<String>,
}

/// All mounts of Varve in this mount namespace, the oldest first.
///
/// # Errors
/// The table cannot be read.
pub fn ours() -> Result<Vec<Line>, String> {
    let bytes = fs::read(TABLE).map_err(|e| format!("{TABLE}: {e}"))?;
    Ok(lines(&bytes).collect())
}

/// The mount on `dir`; if there are several, the last one, which hides the others.
///
/// # Errors
/// The table cannot be read.
pub fn on(dir: &Path) -> Result<Option<Line>, String> {
    Ok(ours()?.into_iter().rfind(|line| line.at == dir))
}

/// A process in another mount namespace that has the device mounted: its number and its name.
pub fn elsewhere(device: &str) -> Option<(u32, String)> {
    let here = fs::read_link("/proc/self/ns/mnt").ok()?;
    let has_it = |pid: &u32| -> io::Result<bool> {
        let there = fs::read_link(format!("/proc/{pid}/ns/mnt"))?;
        let table = fs::read(format!("/proc/{pid}/mountinfo"))?;
        Ok(there != here && lines(&table).any(|line| line.device == device))
    };
    let all = fs::read_dir("/proc").ok()?.flatten();
    let pid = all
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| has_it(pid).unwrap_or(false))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim_end().to_string()))
}

/// Whether a background process still has the image for a mount that is already removed, because it
/// writes what is left.
pub fn is_ending(image: &Path) -> bool {
    let there = ours().is_ok_and(|all| all.iter().any(|line| line.source == image));
    !there && (serving(image).unwrap_or_default().iter()).any(|pid| *pid != std::process::id())
}

/// Processes in the background that serve the image.
fn serving(image: &Path) -> io::Result<Vec<u32>> {
    let line = [
        b"varve",
        &b"mount"[..],
        b"--daemon",
        image.as_os_str().as_bytes(),
    ];
    let serves = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.split(|&b| b == 0).take(line.len()).eq(line))
    };
    let pids = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter(serves).collect())
}

fn lines(table: &[u8]) -> impl Iterator<Item = Line> {
    table.split(|&b| b == b'\n').filter_map(line)
}

/// A line of the table: `36 35 98:0 / DIR OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
fn line(text: &[u8]) -> Option<Line> {
    let mut words = text.split(|&b| b == b' ').skip(2);
    let device = std::str::from_utf8(words.next()?).ok()?.to_string();
    let at = plain(words.nth(1)?);
    let options = words.next()?;
    let mut behind = words.skip_while(|word| *word != b"-").skip(1);
    let kind = behind.next()?;
    let source = plain(behind.next()?);
    // Either the mount or the whole file system may be read-only.
    let is_writable = |options: &[u8]| options.split(|&b| b == b',').next() == Some(b"rw");
    let writable = is_writable(options) && behind.next().is_some_and(is_writable);
    let words = String::from_utf8_lossy(options);
    (kind == TYPE).then(|| Line {
        words: words.split(',').map(String::from).collect(),
        device,
        at,
        source,
        writable,
    })
}

/// Without the octal escapes of the table.
fn plain(word: &[u8]) -> PathBuf {
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
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_image_place_and_device() {
        let text =
            b"36 35 0:50 / /mnt/a\\040b rw,nosuid shared:1 - fuse.varve /i\\054mg rw,user_id=0";
        let found = line(text).expect("a line");
        assert_eq!(
            (found.source, found.at),
            ("/i,mg".into(), "/mnt/a b".into())
        );
        assert_eq!((found.device.as_str(), found.writable), ("0:50", true));
        let read_only = b"36 35 0:50 / /mnt rw,nosuid - fuse.varve /img ro,user_id=0";
        assert!(!line(read_only).expect("a line").writable);
        assert_eq!(line(b"36 35 0:50 / /mnt rw - ext4 /dev/sda rw"), None);
    }
}
