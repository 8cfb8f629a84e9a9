//! Makes an image file with an ext4, writes a file durably, and checks the image.

#![allow(clippy::disallowed_macros)] // A program in the real world, which prints.

use std::io::Write;
use varve::{Disk, Format, Volume};

fn main() -> varve::Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = Disk::create(folder.path().join("card.img"), 64 << 20)?;
    disk.format(&Format::ext4().label("card"))?;
    let volume = Volume::mount(&disk, "")?;
    let mut file = volume.create("/log.txt")?;
    file.write_all(b"booted\n")?;
    file.sync_all()?;
    drop(file);
    volume.unmount()?;
    println!("clean: {}", disk.check()?.is_clean());
    Ok(())
}
