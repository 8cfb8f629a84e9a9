//! The device side of NVMe: fetches commands by arbitration, carries them out, and completes them.

use super::command::{Command, Completed, Op, Range, Status};
use super::cores::Cores;
use super::queue::{QueueFull, Queues};
use super::{NvmeConfig, NvmeTiming};
use crate::FlashMedia;
use crate::firmware::{Buffering, Firmware, Way, nanos};
use base::{BLOCK_BYTES, Bytes, Lba, Nanos, SECTOR_BYTES, Time, fill};
use blockdev::{Adversary, Caps, PackOrder};
use ftl::nand::Bus;
use ftl::{Ftl, FtlError};
use std::collections::VecDeque;

/// The maximum of ranges of a Dataset Management command.
pub const RANGES_MAX: usize = 256;
/// The maximum of logical blocks of a Write Zeroes command: a 0's based field of 16 bits.
pub const ZEROES_MAX: u32 = 1 << 16;

/// Set Features / Get Features that this controller knows (NVMe 1.4, 5.21.1).
pub mod feature {
    /// Arbitration: bits 0 to 2 the burst as a power of two, 7: no limit.
    pub const ARBITRATION: u8 = 0x01;
    /// Volatile Write Cache: bit 0 WCE.
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    /// Number of Queues, 0's based: submission in the low half, completion in the high one.
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
}

/// The outcome of a command before it has crossed the link.
struct Done {
    at: Time,
    data: Vec<Bytes>,
}

/// A controller over its FTL.
#[derive(Clone)]
pub struct Controller {
    config: NvmeConfig,
    timing: NvmeTiming,
    fw: Firmware,
    queues: Queues,
    cores: Cores,
    to_device: Bus,
    to_host: Bus,
    /// WCE: completed writes may be volatile.
    cache_on: bool,
    /// Commands that fail without being carried out: opcode, status.
    failing: VecDeque<(u8, Status)>,
    blocks: u64,
}

impl Controller {
    /// Puts a controller over a settled FTL of 4 KiB units.
    pub fn new(config: &NvmeConfig, timing: NvmeTiming, ftl: Ftl) -> Controller {
        let units = u64::from(ftl.layout().units);
        let buffering = Buffering {
            units,
            cache_kib: config.buffer_kib,
            cache_fifo: false,
            cache_in_turn: true,
            pack_order: PackOrder::Prefix,
        };
        Controller {
            fw: Firmware::new(buffering, timing.path(), ftl),
            queues: Queues::new(config.queues, config.queue_depth, config.arbitration_burst),
            cores: Cores::new(config.cores),
            to_device: Bus::default(),
            to_host: Bus::default(),
            cache_on: config.vwc,
            failing: VecDeque::new(),
            blocks: units * BLOCK_BYTES as u64 / u64::from(config.lba_bytes),
            config: config.clone(),
            timing,
        }
    }
    /// The configuration that it was made with.
    pub fn config(&self) -> &NvmeConfig {
        &self.config
    }
    /// Logical blocks of the namespace (NSZE).
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    pub(crate) fn firmware(&self) -> &Firmware {
        &self.fw
    }
    pub(crate) fn firmware_mut(&mut self) -> &mut Firmware {
        &mut self.fw
    }
    pub(super) fn set_adversary(&mut self, adversary: Adversary) {
        self.fw.set_adversary(adversary);
    }
    pub(super) fn power_off(self, at: Time, seed: u64, caps: &Caps) -> FlashMedia {
        self.fw.power_off(at, seed, caps)
    }
    /// Ends everything that is under way, and sets the clock to 0.
    pub(super) fn settle(&mut self) {
        self.fw.settle();
        self.queues.clear();
        self.cores = Cores::new(self.config.cores);
        (self.to_device, self.to_host) = (Bus::default(), Bus::default());
    }
    /// Does background work up to `now`; no command will come before that time.
    pub fn advance(&mut self, now: Time) {
        self.to_device.forget(now);
        self.to_host.forget(now);
        self.fw.advance(now);
    }
    /// True while completed writes may be volatile.
    pub fn cache_on(&self) -> bool {
        self.cache_on
    }
    /// Makes the next command with this opcode fail with `status` without being carried out, for
    /// tests of the layers above.
    pub fn fail_next(&mut self, opcode: u8, status: Status) {
        self.failing.push_back((opcode, status));
    }

    // Queues.

    /// Checks for room for one more command in a queue.
    ///
    /// # Errors
    /// [`QueueFull`]: as many commands are under way as the queue can have (queue-Q1).
    pub(super) fn room(&mut self, queue: u16, now: Time) -> Result<(), QueueFull> {
        self.queues.room(usize::from(queue), now)
    }
    /// Puts a command into a submission queue, to be fetched when the doorbell is rung.
    ///
    /// # Errors
    /// [`QueueFull`]: as many commands are under way as the queue can have (queue-Q1).
    ///
    /// # Panics
    /// There is no such queue: a mistake of the host that the standard answers with an asynchronous
    /// event.
    pub fn submit(&mut self, now: Time, queue: u16, command: Command) -> Result<(), QueueFull> {
        assert!(
            usize::from(queue) < self.queues.count(),
            "queue {queue} of {}",
            self.queues.count()
        );
        self.queues.push(usize::from(queue), now, command)
    }
    /// Rings the doorbells: everything that was submitted is fetched by arbitration. Answers with
    /// the completions in the order of the fetch; they reach the host by their times.
    pub fn ring(&mut self) -> Vec<Completed> {
        let mut out = Vec::new();
        while let Some((queue, submitted, command)) = self.queues.fetch() {
            let done = self.carry_out(queue as u16, submitted, command);
            self.queues.under_way(queue, done.at);
            out.push(done);
        }
        out
    }
    /// Runs one command from its submission on, through an empty queue, as [`Controller::submit`]
    /// and [`Controller::ring`] would.
    pub(super) fn single(&mut self, queue: u16, now: Time, command: Command) -> Completed {
        let done = self.carry_out(queue, now, command);
        self.queues.under_way(usize::from(queue), done.at);
        done
    }

    // Commands.

    fn carry_out(&mut self, queue: u16, submitted: Time, command: Command) -> Completed {
        let Command { cid, nsid, op } = command;
        let cost = match &op {
            Op::Read { .. } => self.timing.read_us,
            _ => self.timing.write_us,
        };
        let ready = submitted + nanos(self.timing.request_us);
        let (fetched, t) = self.cores.work(ready, nanos(cost));
        self.fw.busy_until(t);
        let (status, why, done) = match self.refused(nsid, &op) {
            Some(status) => (
                status,
                None,
                Done {
                    at: t,
                    data: Vec::new(),
                },
            ),
            None => self.judged(t, op),
        };
        self.fw.busy_until(done.at);
        Completed {
            queue,
            cid,
            status,
            why,
            fetched,
            at: done.at,
            data: done.data,
        }
    }
    /// The status of a command that is refused without being carried out.
    fn refused(&mut self, nsid: u32, op: &Op) -> Option<Status> {
        if !self.failing.is_empty()
            && let Some(i) = self
                .failing
                .iter()
                .position(|(code, _)| *code == op.opcode())
        {
            return self.failing.remove(i).map(|(_, status)| status);
        }
        // Flush may name all namespaces.
        if nsid != 1 && !(nsid == u32::MAX && matches!(op, Op::Flush)) {
            return Some(Status::INVALID_NAMESPACE);
        }
        let whole = |ranges: &[Range]| ranges.iter().all(|r| self.inside(r.slba, r.blocks.into()));
        let ok = |fits: bool| (!fits).then_some(Status::LBA_OUT_OF_RANGE);
        match op {
            Op::Flush => None,
            Op::Other(_) => Some(Status::INVALID_OPCODE),
            Op::Deallocate { .. } if !self.config.discard => Some(Status::INVALID_OPCODE),
            Op::Deallocate { ranges } if ranges.is_empty() || ranges.len() > RANGES_MAX => {
                Some(Status::INVALID_FIELD)
            }
            Op::Deallocate { ranges } => ok(whole(ranges)),
            Op::WriteZeroes { slba, blocks, .. } => match *blocks {
                1..=ZEROES_MAX => ok(self.inside(*slba, (*blocks).into())),
                _ => Some(Status::INVALID_FIELD),
            },
            Op::Read { slba, blocks } => {
                self.refused_transfer(*slba, u64::from(*blocks) * u64::from(self.config.lba_bytes))
            }
            Op::Write { slba, data, .. } => {
                let sectors = |piece: &Bytes| piece.len().is_multiple_of(SECTOR_BYTES);
                match data.iter().all(sectors) {
                    true => {
                        let bytes = data.iter().map(|p| p.len() as u64).sum();
                        self.refused_transfer(*slba, bytes)
                    }
                    false => Some(Status::INVALID_FIELD),
                }
            }
        }
    }
    fn refused_transfer(&self, slba: u64, bytes: u64) -> Option<Status> {
        let (block, most) = (
            u64::from(self.config.lba_bytes),
            u64::from(self.config.max_transfer_kib) * 1024,
        );
        if bytes == 0 || bytes > most || !bytes.is_multiple_of(block) {
            return Some(Status::INVALID_FIELD);
        }
        (!self.inside(slba, bytes / block)).then_some(Status::LBA_OUT_OF_RANGE)
    }
    fn inside(&self, slba: u64, blocks: u64) -> bool {
        slba.checked_add(blocks)
            .is_some_and(|end| end <= self.blocks)
    }
    fn lba(&self, slba: u64) -> Lba {
        Lba(slba * self.config.unit())
    }
    fn judged(&mut self, t: Time, op: Op) -> (Status, Option<String>, Done) {
        let read = matches!(op, Op::Read { .. });
        match self.run(t, op) {
            Ok(done) => (Status::SUCCESS, None, done),
            Err(e) => {
                let status = match &e {
                    FtlError::ReadOnly(_) => Status::WRITE_PROTECTED,
                    _ if read => Status::UNRECOVERED_READ,
                    _ => Status::WRITE_FAULT,
                };
                (
                    status,
                    Some(e.to_string()),
                    Done {
                        at: t,
                        data: Vec::new(),
                    },
                )
            }
        }
    }
    /// Carries out a legal command that a core has processed by `t`.
    fn run(&mut self, t: Time, op: Op) -> Result<Done, FtlError> {
        let mut data = Vec::new();
        let at = match op {
            Op::Flush => self.fw.flush(t)?,
            Op::Read { slba, blocks } => {
                let sectors = u64::from(blocks) * self.config.unit();
                // nvme-V1: cached copies first, in the order in which commands were fetched.
                let (read, ready) = self.fw.read(t, self.lba(slba), sectors);
                data = read?;
                let cost = self.crossing(sectors * SECTOR_BYTES as u64);
                self.to_host.reserve(ready, cost) + cost
            }
            Op::Write { slba, data, fua } => {
                let bytes = data.iter().map(|p| p.len() as u64).sum();
                let cost = self.crossing(bytes);
                let arrived = self.to_device.reserve(t, cost) + cost;
                // nvme-V3.
                self.store(arrived, slba, data, fua)?
            }
            Op::WriteZeroes {
                slba,
                blocks,
                deallocate,
                fua,
            } => self.zero(t, slba, blocks, deallocate, fua)?,
            Op::Deallocate { ranges } => {
                let mut end = t;
                for r in ranges.iter().filter(|r| r.blocks > 0) {
                    let sectors = u64::from(r.blocks) * self.config.unit();
                    // nvme-V4
                    end = self.fw.discard(end, self.lba(r.slba), sectors, true)?;
                }
                match self.cache_on {
                    true => end,
                    // nvme-V6
                    false => self.fw.flush(end)?,
                }
            }
            Op::Other(_) => t,
        };
        Ok(Done { at, data })
    }
    fn crossing(&self, bytes: u64) -> Nanos {
        nanos(self.timing.link_us_per_kib * bytes as f64 / 1024.0)
    }
    fn store(
        &mut self,
        arrived: Time,
        slba: u64,
        data: Vec<Bytes>,
        fua: bool,
    ) -> Result<Time, FtlError> {
        let way = match (fua, self.cache_on) {
            (true, _) => Way::Reliable,
            (false, true) => Way::Cached,
            (false, false) => Way::Through,
        };
        self.fw.write_back_until(arrived);
        let end = self.fw.write(arrived, self.lba(slba), data, way)?;
        Ok(end)
    }
    /// Write Zeroes: without DEAC or with FUA zeros are written, in one piece at a time; else the
    /// blocks are deallocated.
    fn zero(
        &mut self,
        t: Time,
        slba: u64,
        blocks: u32,
        deallocate: bool,
        fua: bool,
    ) -> Result<Time, FtlError> {
        let bytes = u64::from(blocks) * u64::from(self.config.lba_bytes);
        if deallocate && self.config.discard && !fua && self.cache_on {
            let sectors = bytes / SECTOR_BYTES as u64;
            return self.fw.discard(t, self.lba(slba), sectors, true);
        }
        let t = t + nanos(self.timing.deallocate_us);
        let whole = bytes as usize / BLOCK_BYTES;
        let mut pieces = vec![fill::zeros(BLOCK_BYTES); whole];
        let rest = bytes as usize % BLOCK_BYTES;
        if rest > 0 {
            pieces.push(fill::zeros(rest));
        }
        self.store(t, slba, pieces, fua)
    }

    // Features.

    /// Get Features; `None`: unknown.
    pub fn feature(&self, id: u8) -> Option<u32> {
        match id {
            feature::ARBITRATION => Some(match self.config.arbitration_burst {
                0 => 7,
                burst => burst.ilog2().min(6),
            }),
            feature::VOLATILE_WRITE_CACHE => Some(u32::from(self.cache_on)),
            feature::NUMBER_OF_QUEUES => {
                let n = self.config.queues - 1;
                Some(n | n << 16)
            }
            _ => None,
        }
    }
    /// Set Features of the write cache. For hosts that know the consequences: the promises in
    /// [`Caps`] stay those of the profile. Before the cache is switched off, it is written back
    /// (nvme-V5). Answers when that is done.
    ///
    /// # Errors
    /// The device is read-only.
    pub fn set_write_cache(&mut self, now: Time, on: bool) -> Result<Time, FtlError> {
        let end = match self.cache_on && !on {
            true => self.fw.flush(now)?,
            false => now,
        };
        self.cache_on = on;
        Ok(end)
    }
}
