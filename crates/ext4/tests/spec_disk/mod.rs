//! A device that takes time, caches writes, and leaves after a cut whatever the `spec` adversary likes.
#![allow(dead_code, missing_docs)]

use base::{BLOCK_BYTES, Bytes, Lba, Nanos, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use blockdev::spec::{Kind, Ledger, Write};
use blockdev::{
    BlockDevice, Caps, Class, DevError, Op, Ram, Reply, Request, Ticket, check_request, write_block,
};
use rt::Mutex;
use std::collections::BTreeMap;

const COMMAND: Nanos = Nanos(20_000);
const PER_BLOCK: Nanos = Nanos(5_000);
/// Most that a command may take longer than another one, ns.
const JITTER: u64 = 600_000;
const FLUSH: Nanos = Nanos(150_000);

/// What the adversary may do to one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tear {
    /// Blocks are old or new.
    Blocks,
    /// Sectors are old, new or garbage, but those of FUA writes old or new.
    Sectors,
}

pub struct SpecDisk {
    caps: Caps,
    state: Mutex<State>,
}

struct State {
    blocks: BTreeMap<u64, Bytes>,
    ledger: Ledger,
    /// Commands overlap and overtake each other: each takes as long as it likes.
    rng: Rng,
    done: BTreeMap<u64, (Time, Result<Reply, DevError>)>,
    tickets: u64,
    /// Writes of file data fail from now on.
    broken_data: bool,
}

pub type Content = BTreeMap<u64, Bytes>;

impl SpecDisk {
    pub fn new(bytes: u64, content: Content, tear: Tear, seed: u64) -> SpecDisk {
        let atomic = match tear {
            Tear::Blocks => BLOCK_BYTES,
            Tear::Sectors => SECTOR_BYTES,
        };
        let caps = Caps {
            sectors: bytes / SECTOR_BYTES as u64,
            sector_bytes: SECTOR_BYTES as u32,
            volatile_cache: true,
            fua: true,
            reliable_granule: Some(SECTOR_BYTES as u32),
            tear_granule: None,
            atomic_write_bytes: atomic as u32,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: true,
            max_transfer_sectors: 256,
        };
        let state = State {
            blocks: content,
            ledger: Ledger::new(u64::MAX),
            rng: Rng::named(seed, "spec disk"),
            done: BTreeMap::new(),
            tickets: 0,
            broken_data: false,
        };
        SpecDisk {
            caps,
            state: Mutex::named("spec disk", state),
        }
    }

    pub fn break_data(&self, broken: bool) {
        self.state.lock().broken_data = broken;
    }

    /// What a cut at this moment may leave.
    pub fn cut(&self, seed: u64) -> Content {
        let state = self.state.lock();
        let visible = |n| state.blocks.get(&n).cloned().unwrap_or_else(zeros);
        let drawn = state.ledger.draw(rt::now(), seed, &self.caps, visible);
        let mut blocks = state.blocks.clone();
        blocks.extend(drawn);
        blocks
    }
}

pub fn zeros() -> Bytes {
    fill::zeros(BLOCK_BYTES)
}

/// A RAM device with this content.
pub fn ram(bytes: u64, content: &Content) -> Ram {
    let ram = Ram::new(bytes);
    for (n, block) in content {
        let lba = Lba(n * SECTORS_PER_BLOCK);
        write_block(&ram, lba, Class::Data, block.clone()).expect("fits");
    }
    ram
}

impl State {
    /// Enters each 4 KiB block as a write of its own: the adversary may keep any subset of them.
    fn write(&mut self, kind: Kind, lba: Lba, bytes: &[Bytes], (start, end): (Time, Time)) {
        let mut block = lba.0 / SECTORS_PER_BLOCK;
        for piece in bytes {
            assert!(piece.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
            for at in (0..piece.len()).step_by(BLOCK_BYTES) {
                let new = piece.slice(at..at + BLOCK_BYTES);
                let old = self.blocks.insert(block, new.clone());
                self.ledger.write(Write {
                    start,
                    end,
                    kind,
                    lba: Lba(block * SECTORS_PER_BLOCK),
                    sectors: SECTORS_PER_BLOCK,
                    new: if kind == Kind::Discard {
                        Vec::new()
                    } else {
                        vec![new]
                    },
                    prev: old.map(|old| (block, old)).into_iter().collect(),
                });
                block += 1;
            }
        }
    }

    fn execute(&mut self, caps: &Caps, request: &Request) -> (Time, Result<Reply, DevError>) {
        let now = rt::now();
        self.ledger.advance(now);
        if let Err(e) = check_request(caps, request) {
            return (now, Err(e));
        }
        let blocks = request.span().map_or(0, |(_, n)| n / SECTORS_PER_BLOCK);
        let start = now;
        let mut end = start + COMMAND + Nanos(PER_BLOCK.0 * blocks) + Nanos(self.rng.below(JITTER));
        let mut reply = Reply::default();
        match &request.op {
            Op::Read { lba, .. } => {
                let first = lba.0 / SECTORS_PER_BLOCK;
                let read = |n| self.blocks.get(&n).cloned().unwrap_or_else(zeros);
                reply.data = (first..first + blocks).map(read).collect();
            }
            Op::Write { lba, pieces, fua } => {
                let data = pieces.iter().any(|p| p.class == Class::Data);
                if data && self.broken_data {
                    return (end, Err(DevError::io(*lba, "worn out")));
                }
                let kind = if *fua { Kind::Fua } else { Kind::Normal };
                let bytes: Vec<Bytes> = pieces.iter().map(|p| p.bytes.clone()).collect();
                self.write(kind, *lba, &bytes, (start, end));
            }
            Op::Discard { lba, .. } => {
                let bytes = vec![zeros(); blocks as usize];
                self.write(Kind::Discard, *lba, &bytes, (start, end));
            }
            Op::Pack { .. } | Op::Barrier => {
                return (now, Err(DevError::misuse(None, "not offered")));
            }
            Op::Flush => {
                end += FLUSH;
                self.ledger.flush(start, end);
            }
        }
        (end, Ok(reply))
    }
}

impl BlockDevice for SpecDisk {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let done = state.execute(&self.caps, &request);
        let ticket = state.tickets;
        state.tickets += 1;
        state.done.insert(ticket, done);
        Ticket(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let (at, result) = self
            .state
            .lock()
            .done
            .remove(&ticket.0)
            .expect("waited for once");
        rt::sleep_until(at);
        result
    }
}
