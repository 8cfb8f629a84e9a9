//! An image as the file that a program works on. Every write, discard and sync of the program is
//! recorded.
//!
//! Commands are recorded in the order in which they are carried out, and a sync covers what was
//! written before it, so the recording can be cut like that of a device.
//!
//! - D1: a write of a part of a sector writes the rest of the sector as it was, because a device
//!   has no smaller unit.

use super::Room;
use super::tape::{Full, Recorded, Tape, disk_caps};
use crate::CrashError;
use base::{Lba, SECTOR_BYTES};
use blockdev::spec::Kind;
use blockdev::{Caps, Image};
use rt::Mutex;
use serve::file::{Content, OneFile};
use std::sync::Arc;
use vfs::{Errno, FsResult, Vfs};

const SECTOR: u64 = SECTOR_BYTES as u64;

impl From<Full> for vfs::FsError {
    fn from(_: Full) -> vfs::FsError {
        Errno::Io.into()
    }
}

/// An image, and what was done to it.
pub struct RecordedDevice {
    caps: Caps,
    bytes: u64,
    tape: Mutex<Tape>,
}

impl RecordedDevice {
    /// Offers `image`, which has `bytes` bytes, as a device with a volatile cache, without order,
    /// of which a cut leaves each sector old or new. The recording takes what is left of `room`.
    pub fn new(image: Image, bytes: u64, room: Room) -> RecordedDevice {
        let caps = disk_caps(bytes, false);
        let tape = Tape::new(image, caps.clone(), room);
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
    ///
    /// # Errors
    /// A command did not fit into the room (tape-D2).
    pub fn recorded(&self) -> Result<Recorded, CrashError> {
        self.tape.lock().recorded("$VARVE_DEVICE")
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
        Ok(tape.write(Lba(first), sectors, Kind::Normal, Some(whole.into()))?)
    }

    fn clear(&self, lba: Lba, sectors: u64) -> FsResult<()> {
        let mut tape = self.tape.lock();
        Ok(tape.write(lba, sectors, Kind::Discard, None)?)
    }

    fn flush(&self) -> FsResult<()> {
        Ok(self.tape.lock().flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::trace::What;
    use serve::file::DEVICE;
    use vfs::{FallocateMode, FileSystem};

    fn of(image: Image, bytes: u64, room: Room) -> OneFile<RecordedDevice> {
        OneFile::new(Arc::new(RecordedDevice::new(image, bytes, room)))
    }

    fn device() -> OneFile<RecordedDevice> {
        of(Image::from_bytes(&[7; 8192]), 8192, Room::new(1 << 20))
    }

    #[test]
    fn tape_d2_what_does_not_fit_fails_and_all_behind_it() {
        let device = of(Image::new(), 1 << 20, Room::new(20_000));
        for block in 0..2 {
            let n = device.write(DEVICE, block * 4096, &[1; 4096]).unwrap();
            assert_eq!(n, 4096);
        }
        device.fsync(DEVICE, false).unwrap();
        device.recorded().unwrap();
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
        let why = device.recorded().unwrap_err().to_string();
        assert!(
            why.contains("3 writes and syncs") && why.contains("--memory"),
            "{why}"
        );
    }

    #[test]
    fn tape_d2_syncs_and_discards_take_room_too() {
        let endless =
            |device: OneFile<RecordedDevice>,
             command: &dyn Fn(&OneFile<RecordedDevice>) -> FsResult<()>| {
                let done = (0..10_000).take_while(|_| command(&device).is_ok()).count();
                assert!(done > 1 && device.recorded().is_err(), "{done}");
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
        let steps = device.recorded().unwrap().trace.steps;
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
        assert_eq!(
            device.recorded().unwrap().trace.steps[0].writes()[0].kind,
            Kind::Discard
        );
        assert!(device.fallocate(DEVICE, punch, 100, 4096).is_err());
    }
}
