//! A device whose writes stay in memory: it shows what recovery would do to an image that must not
//! change.

use base::{Bytes, Lba, SECTOR_BYTES};
use blockdev::{BlockDevice, Caps, DevError, Op, Reply, Request, Ticket, check_request};
use rt::Mutex;
use std::collections::BTreeMap;

/// A device above another one, which is only read.
pub(crate) struct Overlay<D> {
    below: D,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sectors that were written.
    sectors: BTreeMap<u64, Bytes>,
    next: u64,
    done: BTreeMap<u64, Result<Reply, DevError>>,
}

impl<D: BlockDevice> Overlay<D> {
    pub fn new(below: D) -> Overlay<D> {
        Overlay {
            below,
            state: Mutex::named("overlay", State::default()),
        }
    }

    fn execute(&self, request: Request) -> Result<Reply, DevError> {
        check_request(&self.caps(), &request)?;
        match request.op {
            Op::Read { lba, sectors } => self.read(lba, sectors),
            Op::Write { lba, pieces, .. } => {
                let mut at = lba.0;
                let mut state = self.state.lock();
                for piece in pieces {
                    for from in (0..piece.bytes.len()).step_by(SECTOR_BYTES) {
                        let sector = piece.bytes.slice(from..from + SECTOR_BYTES);
                        state.sectors.insert(at, sector);
                        at += 1;
                    }
                }
                Ok(Reply::default())
            }
            // In memory nothing is volatile.
            Op::Flush => Ok(Reply::default()),
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier | Op::Discard { .. } => Err(
                DevError::misuse(None, "an image file writes, reads and flushes only"),
            ),
        }
    }

    fn read(&self, lba: Lba, sectors: u64) -> Result<Reply, DevError> {
        let ticket = self.below.submit(Request::read(lba, sectors));
        let below = self.below.wait(ticket)?;
        let state = self.state.lock();
        let range = lba.0..lba.0 + sectors;
        if state.sectors.range(range.clone()).next().is_none() {
            return Ok(below);
        }
        let mut bytes = below.into_bytes().to_vec();
        for (at, sector) in state.sectors.range(range) {
            let from = (at - lba.0) as usize * SECTOR_BYTES;
            bytes[from..from + SECTOR_BYTES].copy_from_slice(sector);
        }
        Ok(Reply {
            data: vec![bytes.into()],
            ..Reply::default()
        })
    }
}

impl<D: BlockDevice> BlockDevice for Overlay<D> {
    fn caps(&self) -> Caps {
        Caps {
            discard: false,
            ..self.below.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let result = self.execute(request);
        let mut state = self.state.lock();
        let ticket = Ticket(state.next);
        state.next += 1;
        state.done.insert(ticket.0, result);
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let done = self.state.lock().done.remove(&ticket.0);
        done.unwrap_or_else(|| Err(DevError::misuse(None, "waited for twice")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::{Class, Ram, write_block};

    #[test]
    fn writes_are_read_back_and_stay_above() {
        let ram = std::sync::Arc::new(Ram::new(1 << 20));
        write_block(&*ram, Lba(8), Class::Data, vec![1; 4096].into()).unwrap();
        let overlay = Overlay::new(ram.clone());
        write_block(&overlay, Lba(10), Class::Data, vec![2; 1024].into()).unwrap();
        let ticket = overlay.submit(Request::read(Lba(8), 8));
        let bytes = overlay.wait(ticket).unwrap().into_bytes();
        assert_eq!(
            (bytes[1023], bytes[1024], bytes[2047], bytes[2048]),
            (1, 2, 2, 1)
        );
        assert!(ram.blocks().iter().all(|(_, b)| b.iter().all(|&b| b != 2)));
    }
}
