//! Devices with rare but allowed behaviour, in front of one that leaves any legal state at a cut.

use base::{BLOCK_BYTES, Nanos, Rng};
use block::{BlockDevice, Caps, Class, DevError};
use blockdev::{Op, Reply, Request, SpecDisk, Ticket};
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kind of odd behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Odd {
    #[default]
    Nothing,
    /// Cached home writes are carried out when the host waits for them, up to 3 ms later: behind
    /// commands that were sent meanwhile (hazards-R10).
    LateHomes,
    /// A REMAP is carried out when the host waits for it, up to 3 ms later: behind commands that
    /// were sent meanwhile (home_remap-X4, hazards-R14).
    LateRemaps,
    /// Every third REMAP fails (hazards-R24).
    RefusesRemaps,
    /// While recovery sends its first REMAP, a log write of the life before lands in the block that
    /// the first pair points at: the host was reset, the device was not (hazards-R25).
    LateLog,
}

/// A device with odd behaviour in front of another (see the head of this file).
pub struct OddDevice {
    disk: Arc<SpecDisk>,
    odd: Odd,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    tickets: u64,
    waiting: BTreeMap<u64, Late>,
    landed: bool,
}

enum Late {
    /// Sent before.
    Sent(Ticket),
    /// Not yet.
    Held(Request),
    Failed(DevError),
}

/// `disk` itself, or behind something odd.
pub fn device(disk: &Arc<SpecDisk>, odd: Odd, seed: u64) -> Arc<dyn BlockDevice> {
    if odd == Odd::Nothing {
        return disk.clone();
    }
    let state = State {
        rng: Rng::named(seed, "odd"),
        tickets: 0,
        waiting: BTreeMap::new(),
        landed: false,
    };
    Arc::new(OddDevice {
        disk: disk.clone(),
        odd,
        state: Mutex::named("odd device", state),
    })
}

impl OddDevice {
    fn late(&self, request: Request) -> Late {
        let mut state = self.state.lock();
        match (&request.op, self.odd) {
            (Op::Write { pieces, fua, .. }, Odd::LateHomes)
                if !fua && pieces.iter().all(|p| p.class == Class::Home) =>
            {
                Late::Held(request)
            }
            (Op::Remap(_), Odd::LateRemaps) => Late::Held(request),
            (Op::Remap(remap), Odd::RefusesRemaps) if state.rng.one_in(3) => {
                Late::Failed(DevError::io(remap.pairs[0].home, "this REMAP fails"))
            }
            (Op::Remap(remap), Odd::LateLog) if !state.landed => {
                state.landed = true;
                let stray = vec![0x5A; BLOCK_BYTES].into();
                let at = remap.pairs[0].src;
                let stray = self
                    .disk
                    .submit(Request::write(at, Class::JournalMetadata, stray));
                drop(state);
                // Completed before the REMAP is submitted (remap-S8).
                match self.disk.wait(stray) {
                    Ok(_) => Late::Sent(self.disk.submit(request)),
                    Err(e) => Late::Failed(e),
                }
            }
            _ => Late::Sent(self.disk.submit(request)),
        }
    }
}

impl BlockDevice for OddDevice {
    fn caps(&self) -> Caps {
        self.disk.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let late = self.late(request);
        let mut state = self.state.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.insert(ticket, late);
        Ticket(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let (late, gap) = {
            let mut state = self.state.lock();
            let gap = state.rng.below(3_000_000);
            (state.waiting.remove(&ticket.0).expect("submitted"), gap)
        };
        match late {
            Late::Sent(ticket) => self.disk.wait(ticket),
            Late::Failed(e) => Err(e),
            Late::Held(request) => {
                rt::sleep(Nanos(gap));
                self.disk.wait(self.disk.submit(request))
            }
        }
    }
}
