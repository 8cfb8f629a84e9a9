//! Block devices of the caller's, and what the file system sees of them.

use base::{Bytes, Lba, SECTOR_BYTES};
use blockdev::check_request;
use blockdev::{BlockDevice, Caps, Class, DevError, Op, Piece, Reply, Request, Ticket};
use rt::Mutex;
use std::collections::BTreeMap;
use std::io;

/// A block device of the caller's: a USB stick, the flash of a board, a file in a container.
///
/// Offsets and lengths are bytes and multiples of [`sector_bytes`](Device::sector_bytes). The
/// threads of a mount call it, several at once, so it takes `&self`.
///
/// What is written may be volatile until [`flush`](Device::flush) answers `Ok`, and of a write that
/// a cut of power interrupts each sector is old or new. A device that promises less than that keeps
/// no file system alive.
pub trait Device: Send + Sync + 'static {
    /// The size, bytes. It must not change; what lies behind the last whole 4 KiB stays unused.
    fn bytes(&self) -> u64;
    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    /// Whatever failed; the file system tells its caller.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// As [`read_at`](Device::read_at).
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes all writes that have ended non-volatile.
    ///
    /// # Errors
    /// As [`read_at`](Device::read_at). Nothing since the last flush counts as durable then.
    fn flush(&self) -> io::Result<()>;
    /// Bytes of a sector: 512 or 4096.
    fn sector_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }
    /// Whether [`discard`](Device::discard) does anything.
    fn can_discard(&self) -> bool {
        false
    }
    /// The content of these bytes is no longer needed.
    ///
    /// # Errors
    /// As [`read_at`](Device::read_at).
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let _ = (offset, bytes);
        Ok(())
    }
}

/// A [`Device`] as the stack sees it. Requests are carried out in the thread that submits them.
pub(crate) struct Adapter<D> {
    device: D,
    caps: Caps,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    next: u64,
    replies: BTreeMap<u64, Result<Reply, DevError>>,
}

impl<D: Device> Adapter<D> {
    /// Refuses a device whose sectors no file system here has.
    pub fn new(device: D) -> Result<Adapter<D>, String> {
        let sector_bytes = device.sector_bytes();
        if ![512, 4096].contains(&sector_bytes) {
            return Err(format!(
                "sectors of {sector_bytes} bytes; there are 512 and 4096"
            ));
        }
        let bytes = device.bytes() / base::BLOCK_BYTES as u64 * base::BLOCK_BYTES as u64;
        let caps = Caps {
            sectors: bytes / SECTOR_BYTES as u64,
            sector_bytes,
            volatile_cache: true,
            fua: false,
            fua_flushes: false,
            reliable_granule: None,
            tear_granule: Some(sector_bytes),
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: device.can_discard(),
            remap: None,
            max_transfer_sectors: 2048,
        };
        Ok(Adapter {
            device,
            caps,
            done: Mutex::named("device of the caller", Done::default()),
        })
    }

    fn execute(&self, request: &Request) -> Result<Reply, DevError> {
        check_request(&self.caps, request)?;
        match &request.op {
            Op::Read { lba, sectors } => self.read(*lba, *sectors),
            Op::Write { lba, pieces, .. } => self.write(*lba, pieces),
            Op::Discard { lba, sectors } => {
                let done = self.device.discard(at(*lba), sectors * SECTOR_BYTES as u64);
                done.map(|()| Reply::default())
                    .map_err(failed("discarding", *lba))
            }
            Op::Flush => {
                let done = self.device.flush();
                done.map(|()| Reply::default())
                    .map_err(failed("flushing", Lba(0)))
            }
            // The Caps offer none of these, and the check above refuses them.
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier => {
                Err(DevError::misuse(None, "this device has no such command"))
            }
        }
    }

    fn read(&self, lba: Lba, sectors: u64) -> Result<Reply, DevError> {
        let mut data = vec![0; sectors as usize * SECTOR_BYTES];
        let read = self.device.read_at(at(lba), &mut data);
        read.map_err(failed("reading", lba))?;
        Ok(Reply {
            data: vec![data.into()],
            remapped: None,
        })
    }

    /// A merged write has pieces; neighbours go to the device in one call, because flash is slow on
    /// many small ones.
    fn write(&self, lba: Lba, pieces: &[Piece]) -> Result<Reply, DevError> {
        let joined;
        let data: &[u8] = match pieces {
            [one] => &one.bytes,
            many => {
                joined = many
                    .iter()
                    .map(|p| &p.bytes[..])
                    .collect::<Vec<_>>()
                    .concat();
                &joined
            }
        };
        let written = self.device.write_at(at(lba), data);
        written.map_err(failed("writing", lba))?;
        Ok(Reply::default())
    }
}

fn at(lba: Lba) -> u64 {
    lba.0 * SECTOR_BYTES as u64
}

fn failed(doing: &'static str, lba: Lba) -> impl FnOnce(io::Error) -> DevError {
    move |e| DevError::io(lba, format!("{doing} at byte {}: {e}", at(lba)))
}

impl<D: Device> BlockDevice for Adapter<D> {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let reply = self.execute(&request);
        let mut done = self.done.lock();
        let ticket = done.next;
        done.next += 1;
        done.replies.insert(ticket, reply);
        Ticket(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let unknown = || DevError::misuse(None, format!("{ticket:?} was waited for before"));
        let kept = self.done.lock().replies.remove(&ticket.0);
        kept.unwrap_or_else(|| Err(unknown()))
    }
}

/// Reads `bytes` bytes, a multiple of 4096, from `offset`, which is one too.
pub(crate) fn read(device: &dyn BlockDevice, offset: u64, bytes: u64) -> Result<Bytes, DevError> {
    let sector = SECTOR_BYTES as u64;
    let request = Request::read(Lba(offset / sector), bytes / sector);
    Ok(device.wait(device.submit(request))?.into_bytes())
}

/// Writes whole blocks of 4096 bytes at `offset`.
pub(crate) fn write(device: &dyn BlockDevice, offset: u64, data: &[u8]) -> Result<(), DevError> {
    let bytes = Bytes::copy_from_slice(data);
    let request = Request::write(Lba(offset / SECTOR_BYTES as u64), Class::Home, bytes);
    device.wait(device.submit(request)).map(|_| ())
}
