//! The search for free node numbers, before they run out.
//!
//! Free numbers are found by reading blocks of the NAT. Such a read, queued in the device behind
//! written-back data, takes as long as all of that data, and an operation that has to wait for it
//! is late by as much. So a background task reads ahead of the operations (Linux:
//! `f2fs_balance_fs_bg`).
//!
//! - T7 no search, whichever task makes it, gives out a number that nat-T2 holds back, because the
//!   free numbers of a block are told from those held back under the lock of the table;
//! - T8 an operation reads the NAT for a free number only if none is in memory;
//! - T9 searching ahead delays no operation: no lock is held while it reads, and without background
//!   tasks there is no search ahead.

use super::{Nat, SCAN_BLOCKS};
use crate::F2fs;
use crate::bell::LOOK;
use fscore::FsResult;

/// Free numbers below which the next are searched, in blocks of the NAT (455 numbers each): 14,560
/// numbers last 0.29 s at the 20 us that a create of 4 KiB takes in `varve paper f2fsj`, where the
/// longest read of a NAT block took 0.245 s. (Linux keeps 3,640, and searches from 455 on.)
const AHEAD_BLOCKS: u32 = 32;
const _: () = assert!(AHEAD_BLOCKS > SCAN_BLOCKS);

impl Nat {
    /// Few free numbers are in memory, and there is a block to search for more.
    fn is_low(&self) -> bool {
        self.state.lock().pool.is_low(AHEAD_BLOCKS)
    }

    /// Searches until enough free numbers are in memory, or nothing is left to search, or a flush
    /// has overtaken what was read.
    fn search_ahead(&self) -> FsResult<()> {
        let mut state = self.state.lock();
        while state.pool.is_low(AHEAD_BLOCKS) {
            let blocks = state.pool.to_search(AHEAD_BLOCKS);
            let before = state.pool.unsearched();
            state = self.load_blocks(state, &blocks)?;
            for block in blocks {
                state.search(&self.geo, block);
            }
            if state.pool.unsearched() == before {
                break;
            }
        }
        Ok(())
    }
}

impl F2fs {
    /// Before an operation: tells the task if free numbers run low. The caller holds gates at most.
    pub(crate) fn ring_for_nids(&self) {
        if self.options.timers && self.nat.is_low() {
            self.ring(&self.nat.bell);
        }
    }

    /// The task that searches ahead.
    pub(crate) fn nid_task(&self) {
        while self.pause_or(LOOK, &self.nat.bell) {
            // What cannot be read is reported to the operation that needs it.
            let _ = self.nat.search_ahead();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::journal::capture::hooks_tests::mounted_over;
    use base::Nanos;
    use fscore::{Creds, FileKind, FileSystem};
    use ondisk::f2fs::{BlockAddr, Nid};
    use rt::{Sim, SimConfig};

    /// Numbers that operations may take before they have to read.
    const ENOUGH: usize = AHEAD_BLOCKS as usize * ondisk::f2fs::NAT_PER_BLOCK;

    fn numbers_after_one_operation(more: &str, timers: bool) {
        let options = MountOptions::parse(more).expect("options");
        let (counted, fs) = mounted_over(MountOptions { timers, ..options });
        let reads = || counted.counts().commands.reads;
        let create = |name: &[u8]| {
            let made = fs.create(fs.root(), name, FileKind::File, 0o644, 0, Creds::default());
            made.expect("made");
        };
        create(b"first");
        // Time for the task.
        rt::sleep(Nanos::from_millis(1));
        assert_eq!(fs.nat.is_low(), !timers, "T9");
        let before = reads();
        for _ in 0..ENOUGH {
            fs.nat.take().expect("a number");
        }
        assert_eq!(reads() == before, timers, "T8");
        fs.stop_tasks();
    }

    /// T8, T9, of every kind of mount.
    #[test]
    fn operations_find_numbers_that_a_task_has_searched() {
        for more in [
            "scheme=f2fsj",
            "scheme=checkpoint-60",
            "scheme=page-journal",
        ] {
            for timers in [true, false] {
                let body = || numbers_after_one_operation(more, timers);
                let outcome = Sim::new(SimConfig::seeded(3)).run(body);
                if let Some(failure) = outcome.first_failure {
                    panic!("{more}: {failure} {}", outcome.replay);
                }
            }
        }
    }

    /// T7: a search ahead does not find numbers that wait; and each block is searched once,
    /// whichever search does it.
    #[test]
    fn a_search_ahead_keeps_to_the_rules_of_every_search() {
        let nat = super::super::tests::table();
        nat.begin_journal();
        let far = Nid(20 * ondisk::f2fs::NAT_PER_BLOCK as u32 + 7);
        nat.set(far, far, BlockAddr::NEW, None).expect("in use");
        nat.set(far, far, BlockAddr::NULL, None).expect("free");
        let first = nat.take().expect("searched by an operation");
        nat.search_ahead().expect("read");
        let state = nat.state.lock();
        assert!(!state.pool.is_low(AHEAD_BLOCKS));
        assert!(state.pool.has_searched(20) && !state.pool.is_free(far));
        assert!(!state.pool.is_free(first));
    }
}
