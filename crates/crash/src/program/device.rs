//! An image as the file that a program works on. Every write, discard and sync of the program is
//! recorded.
//!
//! Commands are recorded in the order in which they are carried out, and a sync covers what was
//! written before it, so the recording can be cut like that of a device.
//!
//! - D1: a write of a part of a sector writes the rest of the sector as it was, because a device
//!   has no smaller unit.
//! - D2: the recording stays within its room. The first command that does not fit fails, and so do
//!   all behind it, so the recording has no gap.

use super::Room;
use crate::CrashError;
use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use blockdev::spec::{Kind, Write};
use blockdev::trace::{Step, What};
use blockdev::{Caps, Class, Image, Trace};
use rt::Mutex;
use serve::file::{Content, OneFile};
use std::sync::Arc;
use vfs::{Errno, FsResult, Vfs};

const BLOCK: u64 = base::BLOCK_BYTES as u64;
const SECTOR: u64 = SECTOR_BYTES as u64;
/// Upper bounds of memory in bytes: of a command without its content, of a block of the image, and
/// of one more reference to a block.
const COMMAND_KEPT: u64 = 512;
const BLOCK_KEPT: u64 = BLOCK + 256;
const ENTRY_KEPT: u64 = 64;
/// Time from the begin of a command to that of the next; the command is in flight meanwhile.
const SPAN: u64 = 10;

/// An image, and what was done to it.
pub struct RecordedDevice {
    caps: Caps,
    bytes: u64,
    tape: Mutex<Tape>,
}

struct Tape {
    image: Image,
    trace: Trace,
    clock: u64,
    room: Room,
    /// A command did not fit into the room.
    over: bool,
}

impl RecordedDevice {
    /// Offers `image`, which has `bytes` bytes, as a device with a volatile cache, without order,
    /// of which a cut leaves each sector old or new. The recording takes what is left of `room`.
    pub fn new(image: Image, bytes: u64, room: Room) -> RecordedDevice {
        let caps = Caps {
            sectors: bytes / SECTOR,
            sector_bytes: SECTOR_BYTES as u32,
            volatile_cache: true,
            fua: false,
            fua_flushes: false,
            reliable_granule: None,
            tear_granule: Some(SECTOR_BYTES as u32),
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            remap: None,
            discard: true,
            max_transfer_sectors: u64::MAX,
        };
        let trace = Trace {
            start: image.clone(),
            caps: caps.clone(),
            steps: Vec::new(),
        };
        let tape = Tape {
            image,
            trace,
            clock: SPAN,
            room,
            over: false,
        };
        RecordedDevice {
            caps,
            bytes,
            tape: Mutex::named("tape", tape),
        }
    }

    /// A directory with the image as its only file, for a front door.
    pub fn mounted(self: &Arc<RecordedDevice>) -> Arc<Vfs> {
        OneFile::new(self.clone()).mounted()
    }

    /// What was written and synced so far.
    pub fn trace(&self) -> Trace {
        self.tape.lock().trace.clone()
    }

    /// Succeeds if everything was recorded.
    ///
    /// # Errors
    /// A command did not fit into the room (D2).
    pub fn complete(&self) -> Result<(), CrashError> {
        let tape = self.tape.lock();
        if !tape.over {
            return Ok(());
        }
        let steps = tape.trace.steps.len();
        let what = format!("the recording of $VARVE_DEVICE, {steps} writes and syncs by now,");
        Err(tape.room.error(what))
    }

    /// The promises of the device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }
}

impl Content for RecordedDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> FsResult<()> {
        self.tape.lock().read(offset, buf);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> FsResult<()> {
        let mut tape = self.tape.lock();
        // The rest of the first and the last sector is written as it was (D1).
        let first = offset / SECTOR;
        let sectors = (offset + data.len() as u64).div_ceil(SECTOR) - first;
        let mut whole = vec![0; (sectors * SECTOR) as usize];
        tape.read(first * SECTOR, &mut whole);
        let from = (offset - first * SECTOR) as usize;
        whole[from..from + data.len()].copy_from_slice(data);
        tape.write(Lba(first), sectors, Kind::Normal, Some(whole.into()))
    }

    fn clear(&self, lba: Lba, sectors: u64) -> FsResult<()> {
        let mut tape = self.tape.lock();
        tape.write(lba, sectors, Kind::Discard, None)
    }

    fn flush(&self) -> FsResult<()> {
        self.tape.lock().flush()
    }
}

impl Tape {
    fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let from = (at % BLOCK) as usize;
            let n = rest.len().min(base::BLOCK_BYTES - from);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&self.image.block(at / BLOCK)[from..from + n]);
            at += n as u64;
            rest = later;
        }
    }

    /// Takes room for a command with `content` bytes of its own that changes `blocks` blocks (D2).
    fn take(&mut self, content: u64, blocks: u64) -> FsResult<()> {
        match (self.room).take(COMMAND_KEPT + content + blocks * BLOCK_KEPT) {
            true => Ok(()),
            false => {
                self.over = true;
                Err(Errno::Io.into())
            }
        }
    }

    /// Records a write of whole sectors; a discard has no content.
    fn write(&mut self, lba: Lba, sectors: u64, kind: Kind, new: Option<Bytes>) -> FsResult<()> {
        let end = lba.0 + sectors;
        let blocks = lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
        let prev: Vec<(u64, Bytes)> = match new {
            Some(_) => blocks.map(|n| (n, self.image.block(n))).collect(),
            // A discard changes only blocks that are not zeros already.
            None => self.image.blocks_in(blocks).collect(),
        };
        // The former content is kept, too; it was part of the image and has its room already.
        let changed = prev.len() as u64;
        match &new {
            Some(bytes) => self.take(bytes.len() as u64, changed)?,
            // A discard may cut a block at each of its ends, which then needs room of its own.
            None => self.take(changed * ENTRY_KEPT, 2)?,
        }
        for &(n, _) in &prev {
            let first = (n * SECTORS_PER_BLOCK).max(lba.0);
            let last = ((n + 1) * SECTORS_PER_BLOCK).min(end);
            let to = ((first % SECTORS_PER_BLOCK) * SECTOR) as usize;
            let from = ((first - lba.0) * SECTOR) as usize;
            let len = ((last - first) * SECTOR) as usize;
            self.image.edit_block(n, |block| match &new {
                Some(bytes) => block[to..to + len].copy_from_slice(&bytes[from..from + len]),
                None => block[to..to + len].fill(0),
            });
        }
        let (start, end) = self.span();
        let write = Write {
            start,
            end,
            kind,
            lba,
            sectors,
            new: new.into_iter().collect(),
            prev,
        };
        let classes = vec![Class::Data; write.new.len()];
        self.keep(What::Write(Arc::new(write)), classes, (start, end));
        Ok(())
    }

    fn span(&mut self) -> (Time, Time) {
        let start = self.clock;
        self.clock += SPAN;
        (Time(start), Time(start + SPAN - 1))
    }

    fn keep(&mut self, what: What, classes: Vec<Class>, (start, end): (Time, Time)) {
        self.trace.steps.push(Step {
            start,
            end,
            what,
            classes,
        });
    }

    fn flush(&mut self) -> FsResult<()> {
        self.take(0, 0)?;
        let span = self.span();
        self.keep(What::Flush, Vec::new(), span);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serve::file::DEVICE;
    use vfs::{FallocateMode, FileSystem};

    fn of(image: Image, bytes: u64, room: Room) -> OneFile<RecordedDevice> {
        OneFile::new(Arc::new(RecordedDevice::new(image, bytes, room)))
    }

    fn device() -> OneFile<RecordedDevice> {
        of(Image::from_bytes(&[7; 8192]), 8192, Room::new(1 << 20))
    }

    #[test]
    fn d2_what_does_not_fit_fails_and_all_behind_it() {
        let device = of(Image::new(), 1 << 20, Room::new(20_000));
        for block in 0..2 {
            let n = device.write(DEVICE, block * BLOCK, &[1; 4096]).unwrap();
            assert_eq!(n, 4096);
        }
        device.fsync(DEVICE, false).unwrap();
        device.complete().unwrap();
        let errno = |result: FsResult<()>| result.unwrap_err().errno();
        assert_eq!(
            errno(device.write(DEVICE, 8192, &[1; 4096]).map(drop)),
            Errno::Io
        );
        // There would be room for these.
        assert_eq!(errno(device.fsync(DEVICE, false)), Errno::Io);
        assert_eq!(errno(device.sync()), Errno::Io);
        let punch = FallocateMode::PunchHole;
        assert_eq!(errno(device.fallocate(DEVICE, punch, 0, 512)), Errno::Io);
        let mut buf = [9; 2];
        device.read(DEVICE, 8191, &mut buf).unwrap();
        assert_eq!(buf, [1, 0], "nothing of it was carried out");
        assert_eq!(device.trace().steps.len(), 3);
        let why = device.complete().unwrap_err().to_string();
        assert!(
            why.contains("3 writes and syncs") && why.contains("--memory"),
            "{why}"
        );
    }

    #[test]
    fn d2_syncs_and_discards_take_room_too() {
        let endless =
            |device: OneFile<RecordedDevice>,
             command: &dyn Fn(&OneFile<RecordedDevice>) -> FsResult<()>| {
                let done = (0..10_000).take_while(|_| command(&device).is_ok()).count();
                assert!(done > 1 && device.complete().is_err(), "{done}");
            };
        let device = || of(Image::new(), 8192, Room::new(1 << 20));
        endless(device(), &|d| d.fsync(DEVICE, true));
        endless(device(), &|d| {
            d.fallocate(DEVICE, FallocateMode::PunchHole, 0, 8192)
        });
        endless(device(), &|d| d.write(DEVICE, 0, &[1]).map(drop));
    }

    #[test]
    fn what_is_written_is_read_and_kept_in_whole_sectors() {
        let device = device();
        assert_eq!(device.write(DEVICE, 1000, &[1; 30]).unwrap(), 30);
        device.fsync(DEVICE, true).unwrap();
        let mut buf = [0; 40];
        assert_eq!(device.read(DEVICE, 995, &mut buf).unwrap(), 40);
        let expected = [&[7; 5][..], &[1; 30], &[7; 5]].concat();
        assert_eq!(buf[..], expected);
        let steps = device.trace().steps;
        let [write] = steps[0].writes() else {
            panic!("one write")
        };
        assert_eq!((write.lba, write.sectors), (Lba(1), 2));
        assert_eq!((write.new[0][487], write.new[0][488]), (7, 1));
        assert!(matches!(steps[1].what, What::Flush));
        assert!(steps[0].end < steps[1].start);
    }

    #[test]
    fn the_end_of_the_device_is_its_end() {
        let device = device();
        assert_eq!(device.write(DEVICE, 8190, &[1; 30]).unwrap(), 2);
        assert_eq!(
            device.write(DEVICE, 8192, &[1]).unwrap_err().errno(),
            Errno::NoSpc
        );
        let mut buf = [9; 4];
        assert_eq!(device.read(DEVICE, 8190, &mut buf).unwrap(), 2);
        assert_eq!(buf, [1, 1, 9, 9]);
        assert_eq!(device.read(DEVICE, u64::MAX, &mut buf).unwrap(), 0);
    }

    #[test]
    fn a_hole_reads_as_zeros_and_is_a_discard() {
        let device = device();
        let punch = FallocateMode::PunchHole;
        device.fallocate(DEVICE, punch, 512, 4096).unwrap();
        let mut buf = [1; 8192];
        device.read(DEVICE, 0, &mut buf).unwrap();
        assert_eq!((buf[511], buf[512], buf[4607], buf[4608]), (7, 0, 0, 7));
        assert_eq!(device.trace().steps[0].writes()[0].kind, Kind::Discard);
        assert!(device.fallocate(DEVICE, punch, 100, 4096).is_err());
    }
}
