//! Devices of the caller's: one that works, one that fails, one that lies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve::{Device, Disk, Error, Format, Volume};

/// Bytes in memory, of which `real` exist.
struct Memory {
    content: rt::Mutex<Vec<u8>>,
    says: u64,
    broken: Arc<AtomicBool>,
    flushes: Arc<AtomicU64>,
    sector: u32,
}

impl Memory {
    fn new(real: usize) -> Memory {
        Memory {
            content: rt::Mutex::named("memory", vec![0xEE; real]),
            says: real as u64,
            broken: Arc::default(),
            flushes: Arc::default(),
            sector: 512,
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.broken.load(Relaxed) {
            true => Err(io::Error::other("the cable is out")),
            false => Ok(()),
        }
    }
}

impl Device for Memory {
    fn bytes(&self) -> u64 {
        self.says
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.check()?;
        let content = self.content.lock();
        let end = offset as usize + buf.len();
        let part = content.get(offset as usize..end);
        buf.copy_from_slice(part.ok_or_else(|| io::Error::other("behind the end"))?);
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.content.lock()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Relaxed);
        self.check()
    }
    fn sector_bytes(&self) -> u32 {
        self.sector
    }
}

#[test]
fn a_volume_lives_on_it_and_a_sync_flushes() {
    let device = Memory::new(16 << 20);
    let flushes = device.flushes.clone();
    let disk = Disk::device(device).unwrap();
    disk.format(&Format::ext4().overwrite(true)).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    let file = volume.create("/f").unwrap();
    file.write_all_at(&[7; 100_000], 0).unwrap();
    let before = flushes.load(Relaxed);
    file.sync_all().unwrap();
    assert!(flushes.load(Relaxed) > before, "a sync without a flush");
    file.close().unwrap();
    assert_eq!(volume.read("/f").unwrap(), vec![7; 100_000]);
    volume.unmount().unwrap();
    let check = disk.check().unwrap();
    assert!(check.is_clean(), "{check:?}");
}

#[test]
fn what_it_says_when_it_fails_reaches_the_caller() {
    let device = Memory::new(16 << 20);
    let broken = device.broken.clone();
    let disk = Disk::device(device).unwrap();
    disk.format(&Format::ext4().overwrite(true)).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    let file = volume.create("/f").unwrap();
    file.write_all_at(b"x", 0).unwrap();
    broken.store(true, Relaxed);
    let e = file.sync_all().unwrap_err();
    assert_eq!(e.errno(), 5, "{e}");
    assert!(e.to_string().contains("the cable is out"), "{e}");
    drop(file);
    let not = volume.unmount().unwrap_err();
    assert_eq!(not.error.errno(), 5, "{not}");
}

#[test]
fn one_that_lies_about_its_size_is_refused() {
    let mut device = Memory::new(8 << 20);
    device.says = 16 << 20;
    let e = Disk::device(device).unwrap_err();
    assert!(matches!(e, Error::Device(_)), "{e}");
    assert!(
        e.to_string()
            .contains("the last 4096 of them cannot be read"),
        "{e}"
    );
    let mut device = Memory::new(16 << 20);
    device.sector = 520;
    let e = Disk::device(device).unwrap_err();
    assert!(e.to_string().contains("520 bytes"), "{e}");
    let e = Disk::device(Memory::new(4096)).unwrap_err();
    assert!(e.to_string().contains("too short"), "{e}");
}
