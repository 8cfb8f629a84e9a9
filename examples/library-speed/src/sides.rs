//! The two libraries behind one interface.

use crate::device::Device;
use fs_ext4::Filesystem;
use std::sync::Arc;
use varve::{Disk, Format, Volume};

/// A mounted volume.
pub trait Side {
    fn name(&self) -> &'static str;
    fn mkdir(&self, path: &str) -> Result<(), String>;
    /// Makes an empty file; `durable`: before it answers.
    fn create(&self, path: &str, durable: bool) -> Result<(), String>;
    fn unlink(&self, path: &str, durable: bool) -> Result<(), String>;
    /// The size of a file, found by its path.
    fn look_up(&self, path: &str) -> Result<u64, String>;
    /// A file to read and write.
    fn open<'a>(&'a self, path: &str) -> Result<Box<dyn Open + 'a>, String>;
    fn end(self: Box<Self>) -> Result<(), String>;
}

/// An open file.
pub trait Open {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), String>;
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, String>;
    /// Makes its content durable.
    fn sync(&self) -> Result<(), String>;
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// Formats a device. Both sides have the same file system, made by Varve, which the other one reads
/// as any ext4.
pub fn formatted(device: Device) -> Result<(), String> {
    let disk = Disk::device(device).map_err(text)?;
    disk.format(&Format::ext4()).map_err(text)
}

/// Mounts: 0 is Varve, 1 the other one.
pub fn mounted(which: usize, device: Device) -> Result<Box<dyn Side>, String> {
    let disk = Disk::device(device.clone()).map_err(text)?;
    match which {
        0 => {
            let volume = Volume::mount(&disk, "").map_err(text)?;
            Ok(Box::new(Ours { disk, volume }))
        }
        _ => {
            drop(disk);
            let fs = Filesystem::mount(Arc::new(device)).map_err(text)?;
            Ok(Box::new(Theirs { fs }))
        }
    }
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

struct Ours {
    disk: Disk,
    volume: Volume,
}

impl Side for Ours {
    fn name(&self) -> &'static str {
        "varve"
    }
    fn mkdir(&self, path: &str) -> Result<(), String> {
        self.volume.create_dir(path).map_err(text)
    }
    fn create(&self, path: &str, durable: bool) -> Result<(), String> {
        let file = self.volume.create(path).map_err(text)?;
        if durable {
            file.sync_all().map_err(text)?;
        }
        file.close().map_err(text)
    }
    fn unlink(&self, path: &str, durable: bool) -> Result<(), String> {
        self.volume.remove_file(path).map_err(text)?;
        match durable {
            true => self.volume.sync_dir("/d").map_err(text),
            false => Ok(()),
        }
    }
    fn look_up(&self, path: &str) -> Result<u64, String> {
        Ok(self.volume.metadata(path).map_err(text)?.len())
    }
    fn open<'a>(&'a self, path: &str) -> Result<Box<dyn Open + 'a>, String> {
        let mut options = varve::OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = options.open(&self.volume, path).map_err(text)?;
        Ok(Box::new(file))
    }
    fn end(self: Box<Self>) -> Result<(), String> {
        self.volume.unmount().map_err(text)?;
        match self.disk.check().map_err(text)?.is_clean() {
            true => Ok(()),
            false => Err("the check finds damage".into()),
        }
    }
}

impl Open for varve::File {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        self.write_all_at(data, offset).map_err(text)
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, String> {
        self.read_at(buf, offset).map_err(text)
    }
    fn sync(&self) -> Result<(), String> {
        self.sync_data().map_err(text)
    }
    fn close(self: Box<Self>) -> Result<(), String> {
        varve::File::close(*self).map_err(text)
    }
}

struct Theirs {
    fs: Filesystem,
}

struct TheirFile<'a> {
    fs: &'a Filesystem,
    inode: u32,
}

impl Side for Theirs {
    fn name(&self) -> &'static str {
        "rust-fs-ext4"
    }
    fn mkdir(&self, path: &str) -> Result<(), String> {
        self.fs.apply_mkdir(path, 0o755).map(drop).map_err(text)
    }
    fn create(&self, path: &str, _durable: bool) -> Result<(), String> {
        self.fs.apply_create(path, 0o644).map(drop).map_err(text)
    }
    fn unlink(&self, path: &str, _durable: bool) -> Result<(), String> {
        self.fs.apply_unlink(path).map_err(text)
    }
    fn look_up(&self, path: &str) -> Result<u64, String> {
        let inode = self.fs.lookup_path_bytes(path.as_bytes()).map_err(text)?;
        Ok(self.fs.stat_ino(inode).map_err(text)?.size)
    }
    fn open<'a>(&'a self, path: &str) -> Result<Box<dyn Open + 'a>, String> {
        let found = self.fs.lookup_path_bytes(path.as_bytes());
        let made = found.or_else(|_| self.fs.apply_create(path, 0o644));
        let inode = made.map_err(text)?;
        Ok(Box::new(TheirFile {
            fs: &self.fs,
            inode,
        }))
    }
    fn end(self: Box<Self>) -> Result<(), String> {
        self.fs.finish().map_err(text)
    }
}

impl Open for TheirFile<'_> {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        let written = self.fs.apply_pwrite_ino(self.inode, offset, data);
        written.map(drop).map_err(text)
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, String> {
        self.fs.read_ino(self.inode, offset, buf).map_err(text)
    }
    fn sync(&self) -> Result<(), String> {
        self.fs.flush().map_err(text)
    }
    fn close(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}
