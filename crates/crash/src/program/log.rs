//! Recordings as logs of dm-log-writes: those of a Linux kernel are read, ours are written for the
//! tools of others (`replay-log` of xfstests).
//!
//! The kernel logs a write when it is durable: one with FUA at its completion, all others when a
//! flush has ended that was sent after their completion. So in the log a write lies before the
//! first flush that covers it, and behind all flushes that were complete before it was sent.
//!
//! - G1: each state that is made of a log is one that the device may have had: entries of the log
//!   are durable behind the next flush, and open before it.
//! - Not each such state is made. A write that another one with FUA had overtaken in the log
//!   may have been on the medium before, alone; and a log says nothing of what a cut in the middle
//!   of two requests that were under way together leaves of both.
//! - G2: a mark is an acknowledgement. It is logged at once, so all that it may owe, which a flush
//!   has to have covered, lies before it.

use super::tape::{Full, Tape, disk_caps};
use super::{BLOCK, Recorded, Room};
use crate::CrashError;
use base::{Bytes, Lba, SECTOR_BYTES};
use blockdev::Image;
use blockdev::spec::Kind;
use blockdev::trace::What;
use guest::{LogEntry, LogWrites};
use ondisk::log_writes::{Entry, Head};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

const SECTOR: u64 = SECTOR_BYTES as u64;
/// What the kernel marks when the device of the log is removed: nobody was told anything.
const END: &str = "dm-log-writes-end";
/// Most bytes of a write, which are taken into memory at once. A discard has none.
const REQUEST_MAX: u64 = 1 << 30;

/// Reads a log of a device that held `start` and has `bytes` bytes. With `begin` the recording
/// begins behind the mark of that text. The content takes its size from `room`.
///
/// # Errors
/// The file is no log or a damaged one, has no such mark, or has a request outside of the device;
/// its content does not fit into the room.
pub fn read_log(
    path: &Path,
    start: Image,
    bytes: u64,
    begin: Option<&str>,
    room: Room,
) -> Result<Recorded, CrashError> {
    let host = |source: io::Error| CrashError::Host {
        doing: format!("reading {}", path.display()),
        source,
    };
    let name = path.display().to_string();
    let log = LogWrites::open(path).map_err(host)?;
    let first = match begin {
        None => None,
        Some(text) => {
            let missing = || host(io::Error::other(format!("there is no mark {text}")));
            Some(log.mark(text).ok_or_else(missing)?)
        }
    };
    let mut tape = Tape::new(start, disk_caps(bytes, true), room);
    for (nr, entry) in log.entries.iter().enumerate() {
        let (at, len) = (entry.offset, entry.len);
        if at.checked_add(len).is_none_or(|end| end > bytes) {
            let why = format!("entry {nr}: {len} bytes at {at} of a device of {bytes} bytes");
            return Err(host(io::Error::other(why)));
        }
        let data = match entry.what.data_sectors() {
            0 => None,
            _ if len > REQUEST_MAX => {
                let why = format!("entry {nr}: a write of {len} bytes, more than {REQUEST_MAX}");
                return Err(host(io::Error::other(why)));
            }
            _ => Some(Bytes::from(log.data(entry).map_err(host)?)),
        };
        if Some(nr) == first {
            tape.begin();
        } else if put(&mut tape, entry, data).is_err() {
            break;
        }
    }
    tape.recorded(&name)
}

/// Records one entry (G1, G2).
fn put(tape: &mut Tape, entry: &LogEntry, data: Option<Bytes>) -> Result<(), Full> {
    let what = &entry.what;
    match &what.mark {
        Some(text) if text == END => return Ok(()),
        Some(text) => return tape.ack(text.replace('\n', " ")),
        None => {}
    }
    if what.flush {
        tape.flush()?;
    }
    if entry.len == 0 {
        return Ok(());
    }
    let kind = match (what.discard, what.fua) {
        (true, _) => Kind::Discard,
        // A disk does not promise that such a write is whole when it is cut.
        (false, true) => Kind::Through,
        (false, false) => Kind::Normal,
    };
    let (lba, sectors) = (Lba(entry.offset / SECTOR), entry.len / SECTOR);
    tape.write(lba, sectors, kind, data)
}

/// Writes a recording as a log of sectors of 512 bytes. The file appears, or is replaced, as a
/// whole.
///
/// # Errors
/// There is such a file and `overwrite` is not set; the host cannot write it; the recording holds
/// what such a log has no word for (a REMAP, a barrier).
pub fn write_log(recorded: &Recorded, path: &Path, overwrite: bool) -> Result<(), CrashError> {
    rig::write_whole(path, overwrite, |file| put_all(recorded, file))?;
    Ok(())
}

fn put_all(recorded: &Recorded, file: &File) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let mut head = Head {
        entries: 0,
        sector_bytes: SECTOR as u32,
    };
    file.write_all(&head.encode())?;
    let mut acks = recorded.acks.iter().peekable();
    let mut add = |entry: &Entry, data: &[Bytes]| -> io::Result<()> {
        head.entries += 1;
        file.write_all(&entry.encode(head.sector_bytes))?;
        data.iter().try_for_each(|bytes| file.write_all(bytes))
    };
    for step in &recorded.trace.steps {
        while let Some(ack) = acks.next_if(|ack| ack.at < step.end) {
            add(&mark(&ack.text), &[])?;
        }
        match &step.what {
            What::Flush => {
                let flush = Entry {
                    flush: true,
                    ..Entry::default()
                };
                add(&flush, &[])?;
            }
            What::Barrier | What::Remap(_) => {
                return Err(io::Error::other(
                    "a log has no entry for a barrier or a REMAP",
                ));
            }
            What::Write(_) | What::Pack(_) => {}
        }
        for write in step.writes() {
            let entry = Entry {
                sector: write.lba.0,
                sectors: write.sectors,
                fua: write.kind.is_durable(),
                discard: write.kind == Kind::Discard,
                ..Entry::default()
            };
            add(&entry, &write.new)?;
        }
    }
    for ack in acks {
        add(&mark(&ack.text), &[])?;
    }
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&head.encode())?;
    file.flush()
}

fn mark(text: &str) -> Entry {
    Entry {
        mark: Some(text.into()),
        ..Entry::default()
    }
}

const _: () = assert!(BLOCK.is_multiple_of(SECTOR), "blocks are whole sectors");

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use blockdev::spec::Write as Wrote;

    /// Two writes, a flush, an acknowledgement, a write with FUA, a discard, an acknowledgement.
    fn recorded() -> Recorded {
        let mut tape = Tape::new(Image::new(), disk_caps(1 << 20, true), Room::new(1 << 20));
        let bytes = |n: u8, len: usize| Some(Bytes::from(vec![n; len]));
        let done = [
            tape.write(Lba(9), 3, Kind::Normal, bytes(1, 1536)),
            tape.write(Lba(16), 8, Kind::Normal, bytes(2, 4096)),
            tape.flush(),
            tape.ack("row 1".into()),
            tape.write(Lba(32), 8, Kind::Through, bytes(3, 4096)),
            tape.write(Lba(16), 4, Kind::Discard, None),
            tape.ack("row 2".into()),
        ];
        assert!(done.iter().all(Result::is_ok));
        tape.recorded("a test").unwrap()
    }

    fn steps(recorded: &Recorded) -> Vec<(u64, u64, Option<Kind>, Vec<u8>)> {
        let told = |write: &Wrote| {
            let new: Vec<u8> = write.new.concat();
            (write.lba.0, write.sectors, Some(write.kind), new)
        };
        let steps = recorded.trace.steps.iter();
        steps
            .map(|step| match step.writes() {
                [write] => told(write),
                _ => (0, 0, None, Vec::new()),
            })
            .collect()
    }

    fn written() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        write_log(&recorded(), &path, false).unwrap();
        (folder, path)
    }

    fn read(path: &Path, bytes: u64, begin: Option<&str>) -> Result<Recorded, CrashError> {
        read_log(path, Image::new(), bytes, begin, Room::new(1 << 20))
    }

    #[test]
    fn what_was_written_is_read() {
        let (_folder, path) = written();
        let back = read(&path, 1 << 20, None).unwrap();
        assert_eq!(steps(&back), steps(&recorded()));
        assert_eq!(back.acks, recorded().acks);
    }

    #[test]
    fn a_file_that_exists_is_replaced_as_a_whole_and_only_where_that_is_wanted() {
        let (folder, path) = written();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, b"mine").unwrap();
        let why = write_log(&recorded(), &path, false).unwrap_err();
        assert!(why.to_string().contains("--force replaces it"), "{why}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        let mut odd = recorded();
        odd.trace.steps[1].what = What::Barrier;
        let why = write_log(&odd, &path, true).unwrap_err();
        assert!(why.to_string().contains("no entry for a barrier"), "{why}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        write_log(&recorded(), &path, true).unwrap();
        assert!(std::fs::read(&path).unwrap() == whole);
        // No part of a file is left.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// G2: what the kernel marks by itself is no acknowledgement.
    #[test]
    fn the_kernels_own_mark_at_the_end_is_owed_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tape = Tape::new(Image::new(), disk_caps(1 << 20, true), Room::new(1 << 20));
        tape.write(Lba(8), 8, Kind::Normal, Some(vec![1; 4096].into()))
            .unwrap();
        tape.ack("row".into()).unwrap();
        tape.ack(END.into()).unwrap();
        write_log(&tape.recorded("a test").unwrap(), &path, false).unwrap();
        let back = read(&path, 1 << 20, None).unwrap();
        let texts: Vec<&str> = back.acks.iter().map(|ack| &ack.text[..]).collect();
        assert_eq!(texts, ["row"]);
    }

    #[test]
    fn a_recording_begins_behind_its_mark() {
        let (_folder, path) = written();
        let back = read(&path, 1 << 20, Some("row 1")).unwrap();
        assert_eq!(steps(&back), steps(&recorded())[3..]);
        let texts: Vec<&str> = back.acks.iter().map(|ack| &ack.text[..]).collect();
        assert_eq!(texts, ["row 2"]);
        let start = &back.trace.start;
        assert_eq!((start.block(1)[512], start.block(2)[0]), (1, 2));
        let why = read(&path, 1 << 20, Some("row 3")).unwrap_err().to_string();
        assert!(why.contains("no mark row 3"), "{why}");
    }

    #[test]
    fn requests_beyond_the_device_and_cut_logs_are_refused() {
        let (_folder, path) = written();
        let why = read(&path, 16 << 10, None).unwrap_err().to_string();
        assert!(why.contains("entry 4: 4096 bytes at 16384"), "{why}");
        let bytes = std::fs::read(&path).unwrap();
        // Behind the head, inside of an entry, inside of the data of the last write.
        for len in [512, 700, bytes.len() - 2000] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let why = read(&path, 1 << 20, None).unwrap_err().to_string();
            assert!(why.contains("entry"), "{len}: {why}");
        }
    }

    /// Real disks are trimmed by gigabytes.
    #[test]
    fn a_discard_is_as_long_as_the_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let bytes = 3u64 << 30;
        let mut tape = Tape::new(Image::new(), disk_caps(bytes, true), Room::new(1 << 20));
        tape.write(Lba(8), 8, Kind::Normal, Some(vec![1; 4096].into()))
            .unwrap();
        tape.write(Lba(0), bytes / SECTOR, Kind::Discard, None)
            .unwrap();
        write_log(&tape.recorded("a test").unwrap(), &path, false).unwrap();
        let back = read(&path, bytes, None).unwrap();
        assert_eq!(steps(&back)[1].1, bytes / SECTOR);
        let why = read(&path, bytes - 512, None).unwrap_err().to_string();
        assert!(why.contains("entry 1:"), "{why}");
    }

    #[test]
    fn tape_d2_a_log_without_room_is_refused() {
        let (_folder, path) = written();
        let full = read_log(&path, Image::new(), 1 << 20, None, Room::new(9000));
        let why = full.unwrap_err().to_string();
        assert!(why.contains("--memory"), "{why}");
    }
}
