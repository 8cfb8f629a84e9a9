//! Cleaning in the background, while the volume is idle or while cleaning was declared urgent: one
//! section at a time, in freezes of a few blocks each; with a journal without any freeze, beside
//! other operations.

use super::moving::{Beside, Place};
use super::{Policy, Work};
use crate::F2fs;
use crate::ops::Cause;
use crate::options::GcPolicy;
use base::Nanos;
use fscore::FsResult;
use rt::atomic::Ordering;

/// Shortest and longest time between two looks (Linux `gc_min_sleep_time`, `gc_max_sleep_time`).
const SLEEP_MIN: Nanos = Nanos::from_secs(30);
const SLEEP_MAX: Nanos = Nanos::from_secs(60);
/// After a look that found no victim (`gc_no_gc_sleep_time`).
const SLEEP_NOTHING: Nanos = Nanos::from_secs(300);
/// While cleaning is urgent (`gc_urgent_sleep_time`).
const SLEEP_URGENT: Nanos = Nanos::from_millis(500);
/// So long nothing must have happened (`gc_idle_interval`).
const IDLE: Nanos = Nanos::from_secs(5);
/// Blocks moved in one freeze.
const BATCH_BLOCKS: u32 = 64;

impl F2fs {
    /// Cleans often and as if room were short, also while operations run, until switched off
    /// (`gc_urgent` in sysfs). Needs the option `background_gc` and background tasks.
    pub fn set_gc_urgent(&self, on: bool) {
        self.gc.urgent.store(on, Ordering::Relaxed);
    }

    /// The task: returns at unmount, or when the power is cut.
    pub(crate) fn clean_when_idle(&self) {
        let mut span = SLEEP_MIN;
        loop {
            let urgent = self.gc.urgent.load(Ordering::Relaxed);
            let Some(idle) = self.sleep(if urgent { SLEEP_URGENT } else { span }) else {
                return;
            };
            if self.check_writable().is_err() || self.cp.is_disabled() {
                continue;
            }
            if !urgent && !idle {
                span = longer(span);
                continue;
            }
            span = if self.is_worthwhile() {
                shorter(span)
            } else {
                longer(span)
            };
            let policy = if urgent {
                Policy::Greedy
            } else {
                Policy::CostBenefit
            };
            match self.clean_background(policy) {
                Ok(true) => {}
                Ok(false) => span = SLEEP_NOTHING,
                // The error has latched the mount.
                Err(_) => continue,
            }
        }
    }

    /// Waits; says whether nothing happened in the last part of the time. `None`: the task is to
    /// end.
    fn sleep(&self, span: Nanos) -> Option<bool> {
        let quiet = IDLE.min(span);
        if !self.pause(Nanos(span.0 - quiet.0)) {
            return None;
        }
        let before = self.activity();
        self.pause(quiet).then(|| before == self.activity())
    }

    /// A value that changes whenever any task uses the volume.
    fn activity(&self) -> impl PartialEq + use<> {
        let io = self.queue.stats();
        (
            io,
            self.nodes.dirty(),
            self.pages.dirty_pages(),
            self.space.usage(),
        )
    }

    /// Much is free, and little of it in free segments (Linux `has_enough_invalid_blocks`): 40 %
    /// each.
    fn is_worthwhile(&self) -> bool {
        let user = self.space.usage().blocks + self.space.blocks_free();
        let invalid = user.saturating_sub(self.segs.valid_blocks());
        let free = u64::from(self.segs.free()) * u64::from(ondisk::f2fs::BLOCKS_PER_SEG);
        invalid > user * 40 / 100 && free < invalid * 40 / 100
    }

    /// Cleans one section beside the operations that go on; false if there is none worth it.
    fn clean_background(&self, policy: Policy) -> FsResult<bool> {
        let mut work = self.gc.one.lock();
        let Some(section) = self.pick(&mut work, policy) else {
            return Ok(false);
        };
        self.segs.begin_cleaning(section);
        let result = self.clean_in_steps(section, &mut work);
        if self.journal.is_some() {
            // beside-K8.
            let result = result.and_then(|()| self.free_deferred(Cause::BackgroundGc));
            self.segs.end_cleaning();
            return result.map(|()| true);
        }
        self.segs.end_cleaning();
        drop(work);
        result?;
        if self.options.gc == GcPolicy::Sync {
            self.checkpoint(Cause::BackgroundGc)?;
        }
        Ok(true)
    }

    fn clean_in_steps(&self, section: u32, work: &mut Work) -> FsResult<()> {
        let mut place = Place::start_of(section, &self.geo);
        // Stops as soon as an operation needs room, which then cleans itself.
        while !self.is_low() {
            let moved = match &self.journal {
                Some(journal) => {
                    self.reserve_journal(journal)?;
                    self.move_blocks(Beside::Anybody(journal), &mut place, BATCH_BLOCKS)
                }
                None => self.frozen(Cause::BackgroundGc, |freeze| {
                    self.move_blocks(Beside::Nobody(freeze.op()), &mut place, BATCH_BLOCKS)
                }),
            };
            let moved = moved.inspect_err(|e| self.fail(e))?;
            if self.account(Cause::BackgroundGc, &moved, place.is_end()) {
                work.stuck.insert(section);
            }
            if place.is_end() {
                break;
            }
        }
        Ok(())
    }
}

fn longer(span: Nanos) -> Nanos {
    (span + SLEEP_MIN).min(SLEEP_MAX)
}

fn shorter(span: Nanos) -> Nanos {
    Nanos(span.0.saturating_sub(SLEEP_MIN.0)).max(SLEEP_MIN)
}
