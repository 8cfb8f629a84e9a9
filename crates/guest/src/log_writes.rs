//! Reads the log of device mapper's `log-writes` target, and makes the images that it describes.
//!
//! The format is [`ondisk::log_writes`]. Writes are logged when a flush that covers them is done,
//! or when they are durable by themselves (FUA), so every prefix of the log is a state that a power
//! cut could have left.

use ondisk::log_writes::{Entry, Head};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

const ENTRIES_MAX: u64 = 1 << 24;

/// A log.
pub struct LogWrites {
    file: File,
    /// What was logged, in order.
    pub entries: Vec<LogEntry>,
}

/// One entry of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// What it says; its places and lengths are sectors of the log's size.
    pub what: Entry,
    /// Where the write goes on the device, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Where the data lies in the log, in bytes.
    at: u64,
}

impl LogWrites {
    /// Reads the log.
    ///
    /// # Errors
    /// The file cannot be read, or is no log or a damaged one.
    pub fn open(path: &Path) -> io::Result<LogWrites> {
        let told = |why: String| io::Error::other(format!("{}: {why}", path.display()));
        // To open a pipe waits for who writes into it.
        let kind = std::fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(told("it is neither a file nor a block device".into()));
        }
        let mut file = File::open(path)?;
        // A block device has no length among its attributes.
        let bytes = file.seek(SeekFrom::End(0))?;
        let mut head = [0; Head::BYTES];
        read(&file, &mut head, 0, bytes).map_err(|why| told(format!("its head: {why}")))?;
        let head = Head::parse(&head).map_err(|e| told(e.to_string()))?;
        if head.entries > ENTRIES_MAX {
            return Err(told(format!("a log of {} entries", head.entries)));
        }
        let sector = u64::from(head.sector_bytes);
        let mut at = sector;
        let mut entries = Vec::new();
        let mut raw = vec![0; sector as usize];
        for nr in 0..head.entries {
            let of_entry = |why: String| told(format!("entry {nr}: {why}"));
            read(&file, &mut raw, at, bytes).map_err(of_entry)?;
            let what = Entry::parse(&raw).map_err(|e| of_entry(e.to_string()))?;
            let in_bytes = |sectors: u64| {
                let bytes = sectors.checked_mul(sector);
                bytes.ok_or_else(|| of_entry(format!("{sectors} sectors")))
            };
            let entry = LogEntry {
                offset: in_bytes(what.sector)?,
                len: in_bytes(what.sectors)?,
                at: at + sector,
                what,
            };
            let next = in_bytes(entry.what.data_sectors())?.checked_add(entry.at);
            // The data is taken into memory by its length, so a length has to be true.
            at = next.ok_or_else(|| of_entry("its data ends behind all files".into()))?;
            if at > bytes {
                return Err(of_entry(cut_short("its data", at, bytes)));
            }
            entries.push(entry);
        }
        Ok(LogWrites { file, entries })
    }

    /// The place of the first mark with this text.
    pub fn mark(&self, text: &str) -> Option<usize> {
        let is = |e: &LogEntry| e.what.mark.as_deref() == Some(text);
        self.entries.iter().position(is)
    }

    /// The data of an entry. Discarded blocks are zeros, as in a file under a disk of a guest.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn data(&self, entry: &LogEntry) -> io::Result<Vec<u8>> {
        let mut data = vec![0; entry.len as usize];
        if entry.what.data_sectors() > 0 {
            self.file.read_exact_at(&mut data, entry.at)?;
        }
        Ok(data)
    }

    /// Applies the entries of `range` to `image`.
    ///
    /// # Errors
    /// The log cannot be read or the image not be written.
    pub fn replay(&self, range: std::ops::Range<usize>, image: &File) -> io::Result<()> {
        for entry in &self.entries[range] {
            if entry.len > 0 && entry.what.mark.is_none() {
                image.write_all_at(&self.data(entry)?, entry.offset)?;
            }
        }
        Ok(())
    }
}

/// Fills `buf` from byte `at` of a log of `bytes` bytes.
fn read(file: &File, buf: &mut [u8], at: u64, bytes: u64) -> Result<(), String> {
    let end = at.saturating_add(buf.len() as u64);
    if end > bytes {
        return Err(cut_short("it", end, bytes));
    }
    file.read_exact_at(buf, at).map_err(|e| e.to_string())
}

fn cut_short(what: &str, end: u64, bytes: u64) -> String {
    format!("the log is cut short: {what} reaches to byte {end}, the log has {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_whose_data_is_not_there_is_refused_before_memory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let head = Head {
            entries: 1,
            sector_bytes: 512,
        };
        let entry = Entry {
            sectors: 2,
            ..Entry::default()
        };
        let mut log = head.encode();
        log.resize(512, 0);
        log.extend(entry.encode(512));
        log.resize(log.len() + 1024, 7);
        std::fs::write(&path, &log).unwrap();
        let whole = LogWrites::open(&path).unwrap();
        assert_eq!(whole.data(&whole.entries[0]).unwrap(), [7; 1024]);
        log.pop();
        std::fs::write(&path, &log).unwrap();
        let e = LogWrites::open(&path).err().unwrap().to_string();
        let short =
            "entry 0: the log is cut short: its data reaches to byte 2048, the log has 2047";
        assert!(e.contains(short), "{e}");
    }

    #[test]
    fn a_log_that_is_cut_short_says_where() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let head = Head {
            entries: 2,
            sector_bytes: 512,
        };
        let mut log = head.encode();
        log.resize(512, 0);
        for _ in 0..2 {
            log.extend(Entry::default().encode(512));
        }
        for (len, says) in [
            (0, "its head: the log is cut short"),
            (Head::BYTES - 1, "its head: the log is cut short"),
            (
                600,
                "entry 0: the log is cut short: it reaches to byte 1024, the log has 600 bytes",
            ),
            (
                1535,
                "entry 1: the log is cut short: it reaches to byte 1536",
            ),
        ] {
            std::fs::write(&path, &log[..len]).unwrap();
            let e = LogWrites::open(&path).err().unwrap().to_string();
            assert!(e.contains(says), "{len}: {e}");
        }
        std::fs::write(&path, &log).unwrap();
        assert_eq!(LogWrites::open(&path).unwrap().entries.len(), 2);
    }

    #[test]
    fn a_pipe_and_a_folder_are_refused_before_they_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let (mode, kind) = (0o600.into(), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for path in [&pipe, dir.path()] {
            let e = LogWrites::open(path).err().unwrap().to_string();
            assert!(e.contains("neither a file nor a block device"), "{e}");
        }
    }
}
