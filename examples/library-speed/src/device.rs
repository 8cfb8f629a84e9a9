//! The device of both sides: memory, or a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, RwLock};

/// Bytes of a device.
pub const BYTES: u64 = 512 << 20;

/// A device. A clone is the same one.
#[derive(Clone)]
pub enum Device {
    Memory(Arc<RwLock<Vec<u8>>>),
    File(Arc<File>),
}

/// A new device of zeros, in memory or in a file of `folder`.
pub fn made(folder: Option<&Path>, which: usize) -> Result<Device, String> {
    let Some(folder) = folder else {
        return Ok(Device::Memory(Arc::new(RwLock::new(vec![
            0;
            BYTES as usize
        ]))));
    };
    let path = folder.join(format!("volume-{which}.img"));
    let shown = |e| format!("{}: {e}", path.display());
    let _ = std::fs::remove_file(&path);
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(shown)?;
    // The host allocates its blocks now and not in the middle of a load.
    let zeros = vec![0; 1 << 20];
    for at in (0..BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, at).map_err(shown)?;
    }
    file.sync_all().map_err(shown)?;
    Ok(Device::File(Arc::new(file)))
}

impl Device {
    /// Makes the host forget what it keeps of a file in memory.
    pub fn forget(&self) -> Result<(), String> {
        let Device::File(file) = self else {
            return Ok(());
        };
        file.sync_all().map_err(|e| e.to_string())?;
        let all = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(file, 0, None, all).map_err(|e| e.to_string())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match self {
            Device::Memory(bytes) => {
                let bytes = bytes.read().map_err(|_| io::ErrorKind::Other)?;
                let at = offset as usize;
                let there = bytes.get(at..at + buf.len());
                buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Device::File(file) => file.read_exact_at(buf, offset),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Device::Memory(bytes) => {
                let mut bytes = bytes.write().map_err(|_| io::ErrorKind::Other)?;
                let at = offset as usize;
                let there = bytes.get_mut(at..at + data.len());
                there
                    .ok_or(io::ErrorKind::UnexpectedEof)?
                    .copy_from_slice(data);
                Ok(())
            }
            Device::File(file) => file.write_all_at(data, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Device::Memory(_) => Ok(()),
            Device::File(file) => file.sync_data(),
        }
    }
}

impl varve::Device for Device {
    fn bytes(&self) -> u64 {
        BYTES
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write(offset, data)
    }
    fn flush(&self) -> io::Result<()> {
        self.sync()
    }
}

impl fs_ext4::block_io::BlockDevice for Device {
    fn size_bytes(&self) -> u64 {
        BYTES
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> fs_ext4::error::Result<()> {
        Ok(self.read(offset, buf)?)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> fs_ext4::error::Result<()> {
        Ok(self.write(offset, data)?)
    }
    fn flush(&self) -> fs_ext4::error::Result<()> {
        Ok(self.sync()?)
    }
    fn is_writable(&self) -> bool {
        true
    }
}
