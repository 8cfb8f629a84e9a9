//! A device in memory: every write is non-volatile at completion, nothing takes time.

use crate::check::check_request;
use crate::tickets::Tickets;
use crate::{BlockDevice, Caps, Class, DevError, Op, Piece, Reply, Request, Ticket};
use base::{BLOCK_BYTES, Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use rt::Mutex;
use std::collections::BTreeMap;

/// A sparse device in memory. Blocks that were never written read as zeros and cost nothing.
pub struct Ram {
    caps: Caps,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Content by 4 KiB block number; a missing block is all zeros.
    blocks: BTreeMap<u64, Bytes>,
    done: Tickets<Result<Reply, DevError>>,
}

impl Ram {
    /// An empty device of `bytes` bytes, rounded down to 4 KiB blocks.
    pub fn new(bytes: u64) -> Ram {
        Ram {
            caps: caps(bytes),
            state: Mutex::named("ram", State::default()),
        }
    }

    /// A device with the content of `image`; a partial block at the end is cut off.
    pub fn from_image(image: &[u8]) -> Ram {
        let ram = Ram::new(image.len() as u64);
        let blocks = image.chunks_exact(BLOCK_BYTES).enumerate();
        let kept = blocks.filter(|(_, block)| !base::bytes::is_zero(block));
        ram.state.lock().blocks = kept
            .map(|(n, block)| (n as u64, Bytes::copy_from_slice(block)))
            .collect();
        ram
    }

    /// All blocks that are not zero, by ascending 4 KiB block number.
    pub fn blocks(&self) -> Vec<(u64, Bytes)> {
        self.state
            .lock()
            .blocks
            .iter()
            .map(|(n, b)| (*n, b.clone()))
            .collect()
    }

    /// The whole content as one buffer.
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.caps.sectors as usize * SECTOR_BYTES];
        for (n, block) in self.blocks() {
            let at = n as usize * BLOCK_BYTES;
            image[at..at + BLOCK_BYTES].copy_from_slice(&block);
        }
        image
    }
}

fn caps(bytes: u64) -> Caps {
    Caps {
        sectors: bytes / BLOCK_BYTES as u64 * SECTORS_PER_BLOCK,
        sector_bytes: SECTOR_BYTES as u32,
        volatile_cache: false,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(SECTOR_BYTES as u32),
        tear_granule: Some(512),
        atomic_write_bytes: SECTOR_BYTES as u32,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: None,
        max_transfer_sectors: 2048,
    }
}

impl State {
    fn execute(&mut self, caps: &Caps, request: &Request) -> Result<Reply, DevError> {
        check_request(caps, request)?;
        match &request.op {
            Op::Read { lba, sectors } => return Ok(self.read(*lba, *sectors)),
            Op::Write { lba, pieces, .. } => self.write(*lba, pieces),
            Op::Discard { lba, sectors } => self.discard(*lba, *sectors),
            Op::Pack { writes } => writes.iter().for_each(|w| self.write(w.lba, &w.pieces)),
            // REMAP is refused before it comes here: the Caps do not offer it.
            Op::Remap(_) | Op::Barrier | Op::Flush => {}
        }
        Ok(Reply::default())
    }

    fn read(&self, lba: Lba, sectors: u64) -> Reply {
        let data = split(lba, sectors).map(|part| match self.blocks.get(&part.block) {
            Some(block) => block.slice(part.from..part.to),
            None => Bytes::from_static(&ZEROS).slice(part.from..part.to),
        });
        Reply {
            data: data.collect(),
            remapped: None,
        }
    }

    fn write(&mut self, lba: Lba, pieces: &[Piece]) {
        let mut at = lba;
        for piece in pieces {
            let sectors = (piece.bytes.len() / SECTOR_BYTES) as u64;
            let mut used = 0;
            for part in split(at, sectors) {
                let bytes = piece.bytes.slice(used..used + part.to - part.from);
                used += bytes.len();
                self.put(&part, bytes);
            }
            at = at.plus(sectors);
        }
    }

    fn discard(&mut self, lba: Lba, sectors: u64) {
        for part in split(lba, sectors) {
            let zeros = Bytes::from_static(&ZEROS).slice(part.from..part.to);
            self.put(&part, zeros);
        }
    }

    fn put(&mut self, part: &Part, bytes: Bytes) {
        if bytes.len() == BLOCK_BYTES {
            self.blocks.insert(part.block, bytes);
            return;
        }
        let old = self.blocks.get(&part.block).map_or(&ZEROS[..], |b| &b[..]);
        let mut new = old.to_vec();
        new[part.from..part.to].copy_from_slice(&bytes);
        self.blocks.insert(part.block, new.into());
    }
}

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// The part of a request inside one 4 KiB block, as byte offsets.
struct Part {
    block: u64,
    from: usize,
    to: usize,
}

fn split(lba: Lba, sectors: u64) -> impl Iterator<Item = Part> {
    let end = lba.0 + sectors;
    let blocks = lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
    blocks.map(move |block| {
        let first = block * SECTORS_PER_BLOCK;
        let from = lba.0.saturating_sub(first) as usize * SECTOR_BYTES;
        let to = (end - first).min(SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
        Part { block, from, to }
    })
}

impl BlockDevice for Ram {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let result = state.execute(&self.caps, &request);
        state.done.keep(result)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.state.lock().done.fetch(ticket)?
    }
}

/// Writes one block of `class` and waits; for tests and tools.
pub fn write_block(
    device: &dyn BlockDevice,
    lba: Lba,
    class: Class,
    bytes: Bytes,
) -> Result<(), DevError> {
    device
        .wait(device.submit(Request::write(lba, class, bytes)))
        .map(|_| ())
}
