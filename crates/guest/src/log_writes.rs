//! Reads the log of device mapper's `log-writes` target, and makes the images that it describes.
//!
//! Format (Documentation/admin-guide/device-mapper/log-writes.rst, all little endian): sector 0 has
//! magic u64, version u64, entries u64, sector size u32. From sector 1 on there are entries of one
//! sector each (place u64, sectors u64, flags u64, length of a mark u64, and then the text of the
//! mark), each followed by its data unless it is a discard. Writes are logged when a flush (or a
//! FUA write) that covers them is done, so every prefix of the log is a state that a power cut
//! could have left.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const ENTRIES_MAX: u64 = 1 << 24;

/// A log.
pub struct LogWrites {
    file: File,
    /// What was logged, in order.
    pub entries: Vec<LogEntry>,
}

/// One entry of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogEntry {
    /// Where the write goes on the device, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The write was preceded by a flush of the device's cache.
    pub flush: bool,
    /// The write was durable when it completed (FUA).
    pub fua: bool,
    /// The entry is a discard; it has no data.
    pub discard: bool,
    /// The file system marked the write as metadata.
    pub metadata: bool,
    /// A mark that a user of the log set, and its text.
    pub mark: Option<String>,
    /// Where the data lies in the log, in bytes.
    at: u64,
}

impl LogWrites {
    /// Reads the log.
    ///
    /// # Errors
    /// The file cannot be read or is no log.
    pub fn open(path: &Path) -> io::Result<LogWrites> {
        let file = File::open(path)?;
        let mut head = [0; 32];
        file.read_exact_at(&mut head, 0)?;
        let word = |bytes: &[u8], n: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[n * 8..n * 8 + 8]);
            u64::from_le_bytes(raw)
        };
        let (count, sector) = (word(&head, 2), word(&head, 3) & 0xffff_ffff);
        if word(&head, 0) != MAGIC
            || word(&head, 1) != 1
            || count > ENTRIES_MAX
            || !matches!(sector, 512 | 4096)
        {
            return Err(io::Error::other(format!(
                "{}: no log of dm-log-writes",
                path.display()
            )));
        }
        let mut at = sector;
        let mut entries = Vec::new();
        let mut raw = vec![0; sector as usize];
        for _ in 0..count {
            file.read_exact_at(&mut raw, at)?;
            let (place, sectors, flags, mark) =
                (word(&raw, 0), word(&raw, 1), word(&raw, 2), word(&raw, 3));
            let flag = |bit: u64| flags & bit != 0;
            let text = raw.get(32..32 + mark as usize).filter(|_| flag(8));
            let entry = LogEntry {
                offset: place * sector,
                len: sectors * sector,
                flush: flag(1),
                fua: flag(2),
                discard: flag(4),
                metadata: flag(16),
                mark: text.map(|text| {
                    String::from_utf8_lossy(text)
                        .trim_end_matches('\0')
                        .to_string()
                }),
                at: at + sector,
            };
            at += sector
                + if entry.discard || flag(8) {
                    0
                } else {
                    entry.len
                };
            entries.push(entry);
        }
        Ok(LogWrites { file, entries })
    }

    /// The data of an entry.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn data(&self, entry: &LogEntry) -> io::Result<Vec<u8>> {
        let mut data = vec![0; entry.len as usize];
        if !entry.discard {
            self.file.read_exact_at(&mut data, entry.at)?;
        }
        Ok(data)
    }

    /// Applies the entries of `range` to `image`. Discarded blocks become zeros, as in a file under
    /// a disk of User Mode Linux.
    ///
    /// # Errors
    /// The log cannot be read or the image not be written.
    pub fn replay(&self, range: std::ops::Range<usize>, image: &File) -> io::Result<()> {
        for entry in &self.entries[range] {
            if entry.len > 0 {
                image.write_all_at(&self.data(entry)?, entry.offset)?;
            }
        }
        Ok(())
    }
}
