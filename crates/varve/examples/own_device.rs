//! Mounts a volume on a block device that the program brings: here a file of the host.

#![allow(clippy::disallowed_macros)] // A program in the real world, which prints.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use varve::{Device, Disk, Format, Volume};

struct Stick(File, u64);

impl Device for Stick {
    fn bytes(&self) -> u64 {
        self.1
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn main() -> varve::Result<()> {
    let file = tempfile::tempfile()?;
    file.set_len(32 << 20)?;
    let disk = Disk::device(Stick(file, 32 << 20))?;
    disk.format(&Format::ext4())?;
    let volume = Volume::mount(&disk, "cache=1")?;
    volume.write("/settings", "volume=11")?;
    volume.sync()?;
    println!("{} bytes free", volume.space()?.free);
    Ok(volume.unmount()?)
}
