//! The host side of NVMe: translates requests to commands as the block driver of a kernel does.
//!
//! Reads and writes become commands of at most MDTS, all of a request sent at once. The queues take
//! turns; a full queue is skipped, and where all are full a command waits for the first completion.
//! Discard becomes Dataset Management with Deallocate. Nothing is merged or reordered.

use super::NvmeConfig;
use super::command::{Command, Completed, Op as NvmeOp, Range};
use super::controller::{Controller, ZEROES_MAX};
use crate::span::{self, Source};
use base::{Bytes, Lba, SECTOR_BYTES, Time};
use blockdev::{Caps, Completion, DevError, DeviceStats, Op, Piece, Reply};

/// The driver of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Sectors of 512 bytes in a logical block.
    unit: u64,
    /// Most sectors of one command.
    max_sectors: u64,
    queues: u16,
    turn: u16,
    cid: u16,
    pub stats: DeviceStats,
}

impl Host {
    pub fn new(config: &NvmeConfig) -> Host {
        Host {
            unit: config.unit(),
            max_sectors: u64::from(config.max_transfer_kib) * 2,
            queues: config.queues as u16,
            turn: 0,
            cid: 0,
            stats: DeviceStats::default(),
        }
    }
    /// What the device promises through this driver.
    pub fn caps(&self, config: &NvmeConfig, sectors: u64) -> Caps {
        let granule = (config.tear_bytes > 0).then_some(config.tear_bytes);
        Caps {
            sectors,
            sector_bytes: config.lba_bytes,
            volatile_cache: config.vwc,
            fua: true,
            fua_flushes: false,
            reliable_granule: granule,
            tear_granule: granule,
            atomic_write_bytes: config.atomic_bytes(),
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: config.discard,
            remap: None,
            max_transfer_sectors: self.max_sectors,
        }
    }
    /// Carries out a legal request.
    pub fn execute(&mut self, device: &mut Controller, now: Time, op: Op) -> Completion {
        match op {
            Op::Read { lba, sectors } => self.read(device, now, lba, sectors),
            Op::Write { lba, pieces, fua } => self.write(device, now, lba, pieces, fua),
            Op::Flush => {
                self.stats.flushes += 1;
                let done = self.send(device, now, NvmeOp::Flush);
                answer(done, Lba(0), "Flush")
            }
            Op::Discard { lba, sectors } => self.discard(device, now, lba, sectors),
            // Such requests are refused before they come here, because the Caps offer none of them.
            Op::Pack { .. } | Op::Barrier | Op::Remap(_) => Completion {
                at: now,
                result: Err(DevError::misuse(None, "the device has no such command")),
            },
        }
    }
    /// Sends a command into the queue whose turn it is, or into the next one with room; if no queue
    /// has room, when one has.
    fn send(&mut self, device: &mut Controller, now: Time, op: NvmeOp) -> Completed {
        let (queue, at) = self.room(device, now);
        self.turn = (queue + 1) % self.queues;
        self.cid = self.cid.wrapping_add(1);
        device.single(queue, at, Command::new(self.cid, op))
    }
    fn room(&self, device: &mut Controller, now: Time) -> (u16, Time) {
        let mut first: Option<(Time, u16)> = None;
        for i in 0..self.queues {
            let queue = (self.turn + i) % self.queues;
            match device.room(queue, now) {
                Ok(()) => return (queue, now),
                Err(full) => {
                    let until = full.until.unwrap_or(now);
                    first = Some(first.map_or((until, queue), |f| f.min((until, queue))));
                }
            }
        }
        let (until, queue) = first.expect("there is a queue");
        // The completion makes room; later ones do not matter to this command.
        let _ = device.room(queue, until);
        (queue, until)
    }
    fn read(&mut self, device: &mut Controller, now: Time, lba: Lba, sectors: u64) -> Completion {
        let (mut data, mut end, mut done) = (Vec::new(), now, 0);
        while done < sectors {
            let n = (sectors - done).min(self.max_sectors);
            let at = lba.plus(done);
            self.stats.reads += 1;
            let op = NvmeOp::Read {
                slba: at.0 / self.unit,
                blocks: (n / self.unit) as u32,
            };
            let mut out = self.send(device, now, op);
            end = end.max(out.at);
            if !out.status.is_ok() {
                out.at = end;
                return answer(out, at, "Read");
            }
            match data.is_empty() {
                true => data = out.data,
                false => data.extend(out.data),
            }
            done += n;
        }
        Completion {
            at: end,
            result: Ok(Reply {
                data,
                remapped: None,
            }),
        }
    }
    fn write(
        &mut self,
        device: &mut Controller,
        now: Time,
        lba: Lba,
        pieces: Vec<Piece>,
        fua: bool,
    ) -> Completion {
        let mut pieces: Vec<Bytes> = span::keepable(pieces);
        let sectors = pieces.iter().map(|p| p.len() as u64).sum::<u64>() / SECTOR_BYTES as u64;
        let (mut end, mut done) = (now, 0);
        let all = std::mem::take(&mut pieces);
        while done < sectors {
            let n = (sectors - done).min(self.max_sectors);
            let at = lba.plus(done);
            let data = match n == sectors {
                true => all.clone(),
                false => Source::at(&all, done as usize * SECTOR_BYTES)
                    .take_pieces(n as usize * SECTOR_BYTES),
            };
            self.stats.writes += 1;
            self.stats.fua_writes += u64::from(fua);
            let slba = at.0 / self.unit;
            let mut out = self.send(device, now, NvmeOp::Write { slba, data, fua });
            end = end.max(out.at);
            if !out.status.is_ok() {
                out.at = end;
                return answer(out, at, "Write");
            }
            done += n;
        }
        Completion {
            at: end,
            result: Ok(Reply::default()),
        }
    }
    fn discard(
        &mut self,
        device: &mut Controller,
        now: Time,
        lba: Lba,
        sectors: u64,
    ) -> Completion {
        let most = u64::from(u32::MAX / ZEROES_MAX * ZEROES_MAX);
        let (mut slba, mut left) = (lba.0 / self.unit, sectors / self.unit);
        let mut ranges = Vec::new();
        while left > 0 {
            let blocks = left.min(most);
            ranges.push(Range {
                slba,
                blocks: blocks as u32,
            });
            (slba, left) = (slba + blocks, left - blocks);
        }
        self.stats.discards += 1;
        let done = self.send(device, now, NvmeOp::Deallocate { ranges });
        answer(done, lba, "Dataset Management")
    }
}

/// The completion of a request whose command brought no data.
fn answer(done: Completed, lba: Lba, name: &str) -> Completion {
    let status = done.status;
    let result = match status.is_ok() {
        true => Ok(Reply {
            data: done.data,
            remapped: None,
        }),
        false => {
            let why = done.why.map_or(String::new(), |why| format!(": {why}"));
            let text = format!("{name}: {} (status {:#05x}){why}", status.text(), status.0);
            Err(DevError::io(lba, text))
        }
    };
    Completion {
        at: done.at,
        result,
    }
}
