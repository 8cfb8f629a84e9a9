//! The FTL itself: what it consists of, and the paths of write, trim and flush.
//!
//! [`Ftl`] is made of owners. But for the chips (`nand`), the counters (`stats`) and the switch of
//! mutants, each field that changes is an owner, in a file of its own, which alone writes what is
//! in the field; other files ask the owner, or tell it what has happened. What needs several owners
//! is a method of [`Ftl`] and stands in the file of the work that the method does:
//!
//! | owner | what it knows |
//! |---|---|
//! | `map`, `owners` | which slot holds a unit, and which units share a slot |
//! | `blocks` | state of each block, free blocks, victims |
//! | `streams` | open blocks, and rows whose units are in memory only |
//! | `group` | the ordered group, and when the one before has ended |
//! | `numbers` | versions and operations |
//! | `evidence` | when the programs end that an erase or a flush waits for |
//! | `log`, `area` (`meta`) | records that wait, and the checkpoint that they follow |
//! | `pairs` | rows whose cells will be programmed again |
//! | `scrub` | rows to be written anew |
//! | `life` (`health`) | whether the device takes writes |

mod alloc;
mod check;
mod evidence;
mod failed;
mod gc;
mod group;
mod health;
mod log;
mod map;
mod meta;
mod mutant;
mod numbers;
mod owners;
mod pairs;
mod program;
mod read;
mod recover;
pub mod remap;
mod scrub;
mod slc;
pub(crate) mod streams;
#[cfg(test)]
mod tests;
mod verify;

pub use health::{Health, Used};
pub use mutant::MUTANTS;

use crate::blocks::Blocks;
use crate::config::NONE;
use crate::records::Trim;
use crate::types::{FtlError, FtlStats, Quiet};
use crate::{Config, Layout};
use base::{Bytes, Time};
use nand::{BlockId, Media, Nand, Operation};
use streams::{Entry, GC};

/// A flash translation layer over powered chips.
#[derive(Clone)]
pub struct Ftl {
    nand: Nand,
    config: Config,
    layout: Layout,
    map: map::Map,
    owners: owners::Owners,
    blocks: Blocks,
    streams: streams::Streams,
    group: group::Group,
    numbers: numbers::Numbers,
    evidence: evidence::Evidence,
    log: log::Log,
    area: meta::Area,
    pairs: pairs::Pairs,
    scrub: scrub::Scrub,
    life: health::Life,
    /// What everyone counts, in terms that `types` defines.
    stats: FtlStats,
    /// What quiet work has used up of the map area beside checkpoints, thousandths of a block.
    quiet_share: i64,
    switch: mutant::Switch,
}

impl Ftl {
    fn bare(mut nand: Nand, config: Config) -> Result<Ftl, FtlError> {
        let layout = Layout::new(&config, nand.geometry()).map_err(FtlError::Config)?;
        if let Some(slc) = &config.slc {
            nand.set_slc(slc.mode(&layout));
        }
        let (own, dies) = (config.housekeeping, nand.geometry().dies());
        let mut ftl = Ftl {
            map: map::Map::new(&layout),
            owners: owners::Owners::new((layout.units / 4).max(64)),
            blocks: Blocks::new(layout, own, (dies, config.lanes), |b| {
                nand.is_bad(BlockId(b))
            }),
            streams: streams::Streams::new(&config),
            group: Default::default(),
            numbers: Default::default(),
            evidence: Default::default(),
            log: Default::default(),
            area: meta::Area::none(),
            pairs: Default::default(),
            scrub: Default::default(),
            life: Default::default(),
            stats: FtlStats::default(),
            quiet_share: 0,
            switch: Default::default(),
            nand,
            config,
            layout,
        };
        ftl.unpair_map_areas();
        Ok(ftl)
    }
    /// Sizes and addresses.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Data bytes of a NAND page.
    pub fn page_bytes(&self) -> u32 {
        self.nand.geometry().page_bytes
    }
    /// Counters since the FTL was made.
    pub fn stats(&self) -> FtlStats {
        let nand = self.nand.stats();
        FtlStats {
            reads: nand.reads,
            programs: nand.programs,
            erases: nand.erases,
            ..self.stats
        }
    }
    /// Tells that no cut will come before `now`, so that older undo records can be dropped.
    pub fn advance(&mut self, now: Time) {
        self.nand.advance(now);
        self.evidence.advance(now);
    }
    /// Cuts the power and answers what the chips hold then. The FTL does nothing at the cut.
    pub fn power_off(self, at: Time, seed: u64) -> Media {
        self.nand.power_off(at, seed)
    }
    /// With `on`, keeps every program and erase from now on for [`Ftl::take_operations`]; else
    /// stops keeping them.
    pub fn keep_operations(&mut self, on: bool) {
        self.nand.keep_operations(on);
    }
    /// The programs and erases since the last call, in the order of issue.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.nand.take_operations()
    }
    /// The die of an operation.
    pub fn die_of(&self, operation: &Operation) -> u32 {
        self.nand.geometry().die_of(operation.block)
    }
    /// Operations on the chips that a cut could still undo or tear.
    pub fn undo_len(&self) -> usize {
        self.nand.undo_len()
    }
    /// Access to the chips, for tests that make them fail.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// Accepts a unit at `now`; volatile until a flush. A bounded step of garbage collection comes
    /// first, and where no block could be opened otherwise (ftl-I6), whole victims are emptied. If
    /// the unit filled a row, answers when the program of that row ends.
    ///
    /// # Errors
    /// Out of range, or the device is read-only.
    pub fn write(&mut self, now: Time, lpn: u32, data: Bytes) -> Result<Option<Time>, FtlError> {
        assert_eq!(
            data.len(),
            self.layout.unit_bytes as usize,
            "a write is one whole unit"
        );
        self.writable(lpn)?;
        self.checkpoint_if_due(now)?;
        self.background_step(now)?;
        self.scrub_step(now)?;
        if self.needs_no_program(&data) {
            self.stats.zero_unit();
            self.trim(now, lpn..lpn + 1)?;
            return Ok(None);
        }
        self.make_way_in_group(now, lpn)?;
        self.stats.host_unit();
        let stream = self.stream_for(&data);
        let programmed = self.put(now, stream, Entry::host(lpn, data))?;
        self.rescue(now)?;
        Ok(programmed)
    }
    /// True if the unit was written and not trimmed since.
    pub fn is_mapped(&self, lpn: u32) -> bool {
        self.map.at(lpn) != NONE
    }
    /// The mapped units, ascending.
    pub fn mapped(&self) -> impl Iterator<Item = u32> {
        let all = self.map.units().map(|(lpn, _)| lpn);
        all.filter(|lpn| *lpn < self.layout.units)
    }
    /// Forgets the content of units; they read as zeros at once, durably so after a flush.
    ///
    /// # Errors
    /// Out of range, or the device is read-only.
    pub fn trim(&mut self, now: Time, lpns: std::ops::Range<u32>) -> Result<(), FtlError> {
        if lpns.is_empty() {
            return Ok(());
        }
        self.writable(lpns.end - 1)?;
        let now = self.end_group_before_trim(now)?;
        // Number of the operation, or the lower one that a unit which leaves its slot waits for.
        let mut since = None;
        for lpn in lpns.clone() {
            if self.map.at(lpn) != NONE {
                let accept = since.unwrap_or_else(|| self.numbers.accept());
                let waited = self.leave(lpn);
                since = Some(waited.map_or(accept, |waited| waited.min(accept)));
                self.map.point(lpn, NONE);
            }
        }
        if let Some(accept) = since {
            // The version is taken after buffered writes of these units were dropped, so that those
            // can no longer get a greater one.
            let record = Trim {
                first: lpns.start,
                count: lpns.len() as u32,
                version: self.numbers.next_version(),
            };
            if self.log.trim(record, accept) >= self.log_page_records() {
                self.write_log(now)?;
            }
        }
        Ok(())
    }
    /// Makes everything accepted so far durable; answers when it is.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn flush(&mut self, now: Time) -> Result<Time, FtlError> {
        self.issue_host(now)?;
        loop {
            self.rescue(now)?;
            if self.streams.row(GC).is_some_and(|row| row.is_host()) {
                self.issue(now, GC)?;
                continue;
            }
            self.close_pairs(now, false)?;
            if self.streams.failed().is_none() {
                break;
            }
        }
        self.write_log(now)?;
        Ok(self.evidence.after_flush(now))
    }
    /// Remembers the counters before quiet work, which costs no virtual time and changes no
    /// counter.
    pub fn begin_quiet(&self) -> Quiet {
        Quiet {
            stats: self.stats,
            nand: self.nand.stats(),
            map_share: self.map_share(),
        }
    }
    /// Ends quiet work: all of it is durable and over, and the clock of the chips starts again at
    /// 0.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn end_quiet(&mut self, quiet: Quiet) -> Result<(), FtlError> {
        let done = self.flush(Time(0));
        self.settle();
        self.stats = quiet.stats;
        self.quiet_share += self.map_share() - quiet.map_share;
        self.nand.set_stats(quiet.nand);
        done.map(|_| ())
    }
    /// Ends every operation that is under way, and starts the clock of the chips again at 0.
    pub fn settle(&mut self) {
        self.nand.settle();
        self.settle_evidence();
        self.area.settle();
        self.group.settle();
        self.streams.settle();
    }

    pub(crate) fn writable(&self, lpn: u32) -> Result<(), FtlError> {
        if lpn >= self.layout.units {
            return Err(FtlError::OutOfRange(lpn.into()));
        }
        self.alive()
    }
}
