//! A disk in memory above a shared image, for checking very many states of a crash, one after the
//! other.
//!
//! - V1: every write is non-volatile at completion and nothing takes time; what the [`Caps`] do not
//!   promise is refused, as by [`SpecDisk`](crate::SpecDisk).
//! - V2: the image below is never changed and never copied; what is written lies above it.

use crate::check::check_request;
use crate::parts::{Part, parts};
use crate::{BlockDevice, Caps, DevError, Image, Op, Remap, RemapMode, Reply, Request, Ticket};
use base::{BLOCK_BYTES, Bytes, Lba, Map, SECTOR_BYTES, fill};
use rt::Mutex;
use std::sync::Arc;

/// The device.
pub struct OverlayDisk {
    caps: Caps,
    below: Image,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Blocks written since the beginning.
    above: Map<u64, Bytes>,
    next: u64,
    /// Outcomes that wait to be fetched; there is hardly ever more than one.
    done: Vec<(u64, Result<Reply, DevError>)>,
}

impl OverlayDisk {
    /// A device of these promises with the content of `image`.
    pub fn new(caps: Caps, image: Image) -> Arc<OverlayDisk> {
        Arc::new(OverlayDisk {
            caps,
            below: image,
            state: Mutex::named("overlay disk", State::default()),
        })
    }

    /// The content of block `n`, as reads see it.
    pub fn block(&self, n: u64) -> Bytes {
        self.read_block(&self.state.lock(), n)
    }

    /// The whole content.
    pub fn image(&self) -> Image {
        let mut image = self.below.clone();
        for (n, bytes) in self.written() {
            image.set_block(n, bytes);
        }
        image
    }

    /// The blocks that were written, ascending.
    pub fn written(&self) -> Vec<(u64, Bytes)> {
        let state = self.state.lock();
        let mut blocks: Vec<_> = state.above.iter().map(|(n, b)| (*n, b.clone())).collect();
        blocks.sort_unstable_by_key(|(n, _)| *n);
        blocks
    }

    fn read_block(&self, state: &State, n: u64) -> Bytes {
        match state.above.get(&n) {
            Some(bytes) => bytes.clone(),
            None => self.below.block(n),
        }
    }

    fn execute(&self, state: &mut State, request: Request) -> Result<Reply, DevError> {
        check_request(&self.caps, &request)?;
        if let Some((lba, ..)) = request.written().iter().find(|w| w.2 && !self.caps.fua) {
            let why = "this device has no FUA: flush instead";
            return Err(DevError::misuse(Some(*lba), why));
        }
        match request.op {
            Op::Read { lba, sectors } => {
                return Ok(Reply {
                    data: self.read(state, lba, sectors),
                    ..Reply::default()
                });
            }
            Op::Write { lba, pieces, .. } => {
                self.write(state, lba, pieces.iter().map(|p| &p.bytes))
            }
            Op::Pack { writes } => {
                for w in &writes {
                    self.write(state, w.lba, w.pieces.iter().map(|p| &p.bytes));
                }
            }
            Op::Discard { lba, sectors } => {
                self.discard(state, lba, sectors);
            }
            Op::Remap(remap) => return self.remap(state, &remap),
            Op::Barrier | Op::Flush => {}
        }
        Ok(Reply::default())
    }

    fn read(&self, state: &State, lba: Lba, sectors: u64) -> Vec<Bytes> {
        let read = |part: Part| self.read_block(state, part.block).slice(part.bytes);
        parts(lba, sectors).map(read).collect()
    }

    fn discard(&self, state: &mut State, lba: Lba, sectors: u64) {
        for part in parts(lba, sectors) {
            let zeros = fill::zeros(part.bytes.len());
            self.put(state, part, zeros);
        }
    }

    fn remap(&self, state: &mut State, remap: &Remap) -> Result<Reply, DevError> {
        if remap.fua && !self.caps.fua {
            let why = "this device has no FUA: flush instead";
            return Err(DevError::misuse(None, why));
        }
        let granule = self.caps.remap.map_or(u32::MAX, |promise| promise.granule);
        let (contents, done) = remap.contents(granule, |lba, n| Ok(self.read(state, lba, n)))?;
        for (pair, content) in remap.pairs.iter().zip(contents) {
            self.write(state, pair.home, content.iter());
        }
        if remap.mode == RemapMode::Move {
            for (lba, sectors) in remap.sources() {
                self.discard(state, lba, sectors);
            }
        }
        Ok(Reply {
            remapped: Some(done),
            ..Reply::default()
        })
    }

    fn write<'a>(&self, state: &mut State, lba: Lba, pieces: impl Iterator<Item = &'a Bytes>) {
        let mut at = lba;
        for bytes in pieces {
            let sectors = (bytes.len() / SECTOR_BYTES) as u64;
            let mut rest = bytes.clone();
            for part in parts(at, sectors) {
                let new = rest.split_to(part.bytes.len());
                self.put(state, part, new);
            }
            at = at.plus(sectors);
        }
    }

    fn put(&self, state: &mut State, part: Part, bytes: Bytes) {
        if bytes.len() == BLOCK_BYTES {
            state.above.insert(part.block, bytes);
            return;
        }
        let mut new = self.read_block(state, part.block).to_vec();
        new[part.bytes].copy_from_slice(&bytes);
        state.above.insert(part.block, new.into());
    }
}

impl BlockDevice for OverlayDisk {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let result = self.execute(&mut state, request);
        let ticket = state.next;
        state.next += 1;
        state.done.push((ticket, result));
        Ticket(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let mut state = self.state.lock();
        let found = state.done.iter().position(|(n, _)| *n == ticket.0);
        match found {
            Some(n) => state.done.swap_remove(n).1,
            None => {
                let why = format!("{ticket:?} was never submitted, or was waited for before");
                Err(DevError::misuse(None, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn caps() -> Caps {
        Caps {
            fua: false,
            discard: true,
            ..crate::Ram::new(1 << 20).caps()
        }
    }

    fn run(disk: &OverlayDisk, request: Request) -> Result<Bytes, DevError> {
        disk.wait(disk.submit(request)).map(Reply::into_bytes)
    }

    /// V2: the image on which the disk was made stays as it was.
    #[test]
    fn writes_lie_above_the_image() {
        let below = Image::from_bytes(&[7; 3 * BLOCK_BYTES]);
        let disk = OverlayDisk::new(caps(), below.clone());
        let sector = fill::filled(9, SECTOR_BYTES);
        run(&disk, Request::write(Lba(9), Class::Data, sector)).unwrap();
        let got = run(&disk, Request::read(Lba(8), 16)).unwrap();
        assert_eq!((got[0], got[512], got[1024], got[4096]), (7, 9, 7, 7));
        run(&disk, Request::discard(Lba(15), 2)).unwrap();
        let got = run(&disk, Request::read(Lba(14), 4)).unwrap();
        assert_eq!((got[0], got[512], got[1024], got[1536]), (7, 0, 0, 7));
        let image = disk.image();
        assert_eq!((image.block(1)[512], below.block(1)[512]), (9, 7));
        assert_eq!(disk.block(1), image.block(1));
        let numbers: Vec<u64> = disk.written().into_iter().map(|(n, _)| n).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn remaps_lie_above_the_image() {
        let remap = Some(crate::RemapCaps {
            granule: 4096,
            pairs_max: 8,
        });
        let caps = Caps { remap, ..caps() };
        let below = Image::from_bytes(&[7; 3 * BLOCK_BYTES]);
        let disk = OverlayDisk::new(caps, below.clone());
        let remap = Remap {
            pairs: vec![crate::RemapPair::new(Lba(64), Lba(8), BLOCK_BYTES)],
            mode: RemapMode::Move,
            ..Remap::default()
        };
        let fua = Remap {
            fua: true,
            ..remap.clone()
        };
        let refused = run(&disk, Request::remap(fua)).unwrap_err();
        assert!(refused.to_string().contains("no FUA"));
        run(&disk, Request::remap(remap)).unwrap();
        assert_eq!(disk.block(8), below.block(1));
        assert!(base::bytes::is_zero(&disk.block(1)) && !below.is_zero(1));
    }

    /// V1: what is not promised is refused.
    #[test]
    fn what_is_not_promised_is_refused() {
        let disk = OverlayDisk::new(caps(), Image::new());
        let block = fill::filled(1, BLOCK_BYTES);
        let fua = Request::write_fua(Lba(0), Class::Data, block);
        assert!(run(&disk, fua).unwrap_err().to_string().contains("no FUA"));
        assert!(run(&disk, Request::barrier()).is_err());
        assert!(run(&disk, Request::read(Lba(2048), 1)).is_err());
        let ticket = disk.submit(Request::read(Lba(0), 1));
        assert!(disk.wait(ticket).is_ok() && disk.wait(ticket).is_err());
        assert!(disk.written().is_empty());
    }
}
