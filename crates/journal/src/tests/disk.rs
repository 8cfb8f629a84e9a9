//! A device with a volatile cache that remembers everything, so that any cut can be taken
//! afterwards.
//!
//! What a cut may leave of a block: its version at the last flush or FUA write, or any later
//! version, or (per sector) a mixture of them. Nothing else.

use base::{BLOCK_BYTES, Bytes, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK};
use block::{BlockDevice, Caps, Class, DevError};
use blockdev::{Op, Reply, Request, Ticket};
use rt::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Event {
    Write {
        block: u64,
        bytes: Bytes,
        fua: bool,
        class: Class,
    },
    /// Of the whole disk, or of one of two devices on it.
    Flush(Range<u64>),
}

#[derive(Default)]
struct State {
    base: BTreeMap<u64, Bytes>,
    visible: BTreeMap<u64, Bytes>,
    events: Vec<Event>,
    replies: BTreeMap<u64, Result<Reply, DevError>>,
    tickets: u64,
    /// The power fails when so many events have happened.
    power: Option<usize>,
    broken_reads: bool,
    /// Writes of this class fail.
    broken: Option<Class>,
}

pub struct CrashDisk {
    blocks: u64,
    state: Mutex<State>,
}

impl CrashDisk {
    pub fn new(blocks: u64, content: BTreeMap<u64, Bytes>) -> CrashDisk {
        let state = State {
            base: content.clone(),
            visible: content,
            ..State::default()
        };
        CrashDisk {
            blocks,
            state: Mutex::new(state),
        }
    }
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    pub fn events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }
    pub fn len(&self) -> usize {
        self.state.lock().events.len()
    }
    pub fn visible(&self) -> BTreeMap<u64, Bytes> {
        self.state.lock().visible.clone()
    }
    pub fn content(&self, block: u64) -> Bytes {
        let state = self.state.lock();
        state.visible.get(&block).cloned().unwrap_or_else(zeros)
    }
    pub fn cut_power_at(&self, events: usize) {
        self.state.lock().power = Some(events);
    }
    pub fn break_class(&self, class: Option<Class>) {
        self.state.lock().broken = class;
    }
    pub fn break_reads(&self, broken: bool) {
        self.state.lock().broken_reads = broken;
    }
    /// One state that a cut after `cut` events may leave.
    pub fn cut(&self, cut: usize, seed: u64) -> BTreeMap<u64, Bytes> {
        let state = self.state.lock();
        cut_of(&state.base, &state.events[..cut], seed)
    }
}

pub fn zeros() -> Bytes {
    vec![0; BLOCK_BYTES].into()
}

fn cut_of(base: &BTreeMap<u64, Bytes>, events: &[Event], seed: u64) -> BTreeMap<u64, Bytes> {
    let mut rng = Rng::named(seed, "cut");
    let mood = rng.below(4);
    // By device; a block belongs to one.
    let mut flushes: BTreeMap<u64, (usize, Range<u64>)> = BTreeMap::new();
    for (n, event) in events.iter().enumerate() {
        if let Event::Flush(of) = event {
            flushes.insert(of.start, (n, of.clone()));
        }
    }
    let flushed = |n: usize, block: &u64| {
        let covers = |(at, of): &(usize, Range<u64>)| n < *at && of.contains(block);
        flushes.values().any(covers)
    };
    // By block: the versions a cut may choose from, oldest first; the first is durable.
    let mut open: BTreeMap<u64, Vec<Bytes>> = BTreeMap::new();
    let mut out = base.clone();
    for (n, event) in events.iter().enumerate() {
        let Event::Write {
            block, bytes, fua, ..
        } = event
        else {
            continue;
        };
        if *fua || flushed(n, block) {
            out.insert(*block, bytes.clone());
            open.remove(block);
        } else {
            let old = || vec![out.get(block).cloned().unwrap_or_else(zeros)];
            open.entry(*block).or_insert_with(old).push(bytes.clone());
        }
    }
    for (block, versions) in open {
        let pick = |rng: &mut Rng| match mood {
            0 => 0,
            1 => versions.len() - 1,
            _ => rng.below(versions.len() as u64) as usize,
        };
        let bytes = if mood == 3 {
            let sectors = (0..SECTORS_PER_BLOCK as usize).map(|s| {
                let v = pick(&mut rng);
                versions[v].slice(s * SECTOR_BYTES..(s + 1) * SECTOR_BYTES)
            });
            sectors.collect::<Vec<_>>().concat().into()
        } else {
            versions[pick(&mut rng)].clone()
        };
        out.insert(block, bytes);
    }
    out
}

impl State {
    /// On the device that has these blocks, by their own numbers.
    fn execute(&mut self, request: &Request, of: &Range<u64>) -> Result<Reply, DevError> {
        if self.power.is_some_and(|p| self.events.len() >= p) {
            return Err(DevError::power_lost());
        }
        match &request.op {
            Op::Read { lba, .. } if self.broken_reads => {
                return Err(DevError::io(*lba, "cannot be read"));
            }
            Op::Read { lba, sectors } => {
                let first = of.start + lba.0 / SECTORS_PER_BLOCK;
                let blocks = first..first + sectors / SECTORS_PER_BLOCK;
                let read = |b| self.visible.get(&b).cloned().unwrap_or_else(zeros);
                return Ok(Reply {
                    data: blocks.map(read).collect(),
                    ..Reply::default()
                });
            }
            Op::Write { lba, pieces, fua } => {
                let mut block = of.start + lba.0 / SECTORS_PER_BLOCK;
                for piece in pieces {
                    if self.broken == Some(piece.class) {
                        return Err(DevError::io(*lba, "worn out"));
                    }
                    for part in 0..piece.bytes.len() / BLOCK_BYTES {
                        let at = part * BLOCK_BYTES;
                        let bytes = piece.bytes.slice(at..at + BLOCK_BYTES);
                        self.visible.insert(block, bytes.clone());
                        let class = piece.class;
                        self.events.push(Event::Write {
                            block,
                            bytes,
                            fua: *fua,
                            class,
                        });
                        block += 1;
                    }
                }
            }
            Op::Flush => self.events.push(Event::Flush(of.clone())),
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier => {
                return Err(DevError::misuse(None, "not offered"));
            }
            Op::Discard { .. } => {}
        }
        Ok(Reply::default())
    }
}

impl CrashDisk {
    fn caps_of(blocks: u64) -> Caps {
        Caps {
            sectors: blocks * SECTORS_PER_BLOCK,
            sector_bytes: SECTOR_BYTES as u32,
            volatile_cache: true,
            fua: true,
            fua_flushes: false,
            reliable_granule: Some(SECTOR_BYTES as u32),
            tear_granule: Some(512),
            atomic_write_bytes: SECTOR_BYTES as u32,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: false,
            remap: None,
            max_transfer_sectors: 2048,
        }
    }
    fn submit_to(&self, request: &Request, of: &Range<u64>) -> Ticket {
        let mut state = self.state.lock();
        let ticket = state.tickets;
        state.tickets += 1;
        let reply = state.execute(request, of);
        state.replies.insert(ticket, reply);
        Ticket(ticket)
    }
}

impl BlockDevice for CrashDisk {
    fn caps(&self) -> Caps {
        CrashDisk::caps_of(self.blocks)
    }
    fn submit(&self, request: Request) -> Ticket {
        self.submit_to(&request, &(0..self.blocks))
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let reply = self.state.lock().replies.remove(&ticket.0);
        reply.expect("each ticket is waited for once")
    }
}

/// One of two devices on a disk: a flush of one does not flush the other, and a cut takes both at
/// the same moment.
pub struct Half {
    pub disk: Arc<CrashDisk>,
    pub blocks: Range<u64>,
}

impl BlockDevice for Half {
    fn caps(&self) -> Caps {
        CrashDisk::caps_of(self.blocks.end - self.blocks.start)
    }
    fn submit(&self, request: Request) -> Ticket {
        self.disk.submit_to(&request, &self.blocks)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.disk.wait(ticket)
    }
}
