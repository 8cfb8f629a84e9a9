//! A device on a file or block device of the host.

use crate::check::check_request;
use crate::tickets::Tickets;
use crate::{BlockDevice, Caps, DevError, Op, Reply, Request, Ticket};
use base::{BLOCK_BYTES, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use rt::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A host file as a device: positioned reads and writes, `fdatasync` as flush. A FUA write is a write and an `fdatasync`,
/// so [`Caps::fua`] is not claimed.
pub struct HostFile {
    file: File,
    caps: Caps,
    done: Mutex<Tickets<Result<Reply, DevError>>>,
}

impl HostFile {
    /// Uses an open file; its length, rounded down to 4 KiB, is the capacity.
    ///
    /// # Errors
    /// When the length cannot be found out.
    pub fn new(file: File) -> io::Result<HostFile> {
        let bytes = file.metadata()?.len();
        let caps = Caps {
            sectors: bytes / BLOCK_BYTES as u64 * SECTORS_PER_BLOCK,
            sector_bytes: SECTOR_BYTES as u32,
            volatile_cache: true,
            fua: false,
            reliable_granule: None,
            tear_granule: Some(512),
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: false,
            remap: None,
            max_transfer_sectors: 2048,
        };
        Ok(HostFile {
            file,
            caps,
            done: Mutex::named("host file", Tickets::default()),
        })
    }

    fn execute(&self, request: &Request) -> Result<Reply, DevError> {
        check_request(&self.caps, request)?;
        let fail = |lba: Lba, doing: &str, e: io::Error| DevError::io(lba, format!("{doing}: {e}"));
        match &request.op {
            Op::Read { lba, sectors } => {
                let mut buf = vec![0; *sectors as usize * SECTOR_BYTES];
                let read = self
                    .file
                    .read_exact_at(&mut buf, lba.0 * SECTOR_BYTES as u64);
                read.map_err(|e| fail(*lba, "read of the host file", e))?;
                return Ok(Reply {
                    data: vec![buf.into()],
                    ..Reply::default()
                });
            }
            Op::Write { lba, pieces, fua } => {
                let mut at = lba.0 * SECTOR_BYTES as u64;
                for piece in pieces {
                    let wrote = self.file.write_all_at(&piece.bytes, at);
                    wrote.map_err(|e| fail(*lba, "write to the host file", e))?;
                    at += piece.bytes.len() as u64;
                }
                if *fua {
                    self.sync(*lba)?;
                }
            }
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier => {
                return Err(DevError::misuse(
                    None,
                    "a host file has neither packs nor barriers nor REMAP",
                ));
            }
            Op::Flush => self.sync(Lba(0))?,
            Op::Discard { lba, .. } => {
                return Err(DevError::misuse(Some(*lba), "a host file does not discard"));
            }
        }
        Ok(Reply::default())
    }

    fn sync(&self, lba: Lba) -> Result<(), DevError> {
        self.file
            .sync_data()
            .map_err(|e| DevError::io(lba, format!("sync of the host file: {e}")))
    }
}

impl BlockDevice for HostFile {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let result = self.execute(&request);
        self.done.lock().keep(result)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.done.lock().fetch(ticket)?
    }
}
