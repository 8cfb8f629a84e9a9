//! The catalogue of `cargo xtask mutants` for the translation layer: when a guard is removed, its
//! directed workload notices that within 200 states, and the code with its guards passes that
//! workload. docs/design/testing.md explains the printed lines.

mod common;

use base::{Mutant, Rng, Time};
use common::remapping::{Rig, SPLIT, SPLIT_CONFIG, TINY, TINY_CONFIG};
use common::{CONFIG, GEOMETRY};
use std::panic::{AssertUnwindSafe, catch_unwind};
use varve_ftl::nand::{Cells, FaultLevel, Geometry, Pairing};
use varve_ftl::remap::Mode;

/// States within which a mutant has to be noticed.
const STATES: u64 = 200;

/// A workload: judges states and counts them; an error is a finding.
type Workload = fn(&mut Run) -> Result<(), String>;

/// A device under a workload.
struct Run {
    rig: Rig,
    states: u64,
}

impl Run {
    fn now(&mut self) -> Result<(), String> {
        self.states += 1;
        self.rig.ftl.check();
        self.rig.model.check_now(&self.rig.ftl)
    }
    fn begin(&mut self) {
        self.rig.flush();
        self.rig.settle();
        self.rig.ftl.keep_operations(true);
    }
    /// Cuts at the start, in the middle and at the end of every operation since [`Run::begin`].
    fn everywhere(&mut self) -> Result<(), String> {
        for operation in self.rig.ftl.take_operations() {
            let (start, end) = (operation.span.start, operation.span.end);
            for at in [start, Time((start.0 + end.0) / 2), end] {
                self.cut(at).map_err(|e| format!("cut at {at}: {e}"))?;
            }
        }
        Ok(())
    }
    fn cut(&mut self, at: Time) -> Result<Rig, String> {
        self.states += 1;
        self.rig.cut(at, &mut Rng::named(at.0, "mutants"), 0)
    }
    /// Continues with the device after a cut at which everything has ended.
    fn reboot(&mut self) -> Result<(), String> {
        let late = Time(self.rig.now.0 + 1_000_000_000);
        self.rig = self.cut(late)?;
        Ok(())
    }
}

/// Runs a workload; a panic is a finding.
fn judged(rig: Rig, mutant: Option<Mutant>, workload: Workload) -> (Run, Result<(), String>) {
    let rig = rig.with(mutant);
    let mut run = Run { rig, states: 0 };
    let result = catch_unwind(AssertUnwindSafe(|| workload(&mut run)));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(text.unwrap_or_default())
    });
    (run, result)
}

/// Runs the entry of `mutant` in the catalogue, and prints its line.
fn noticed(mutant: Mutant, what: &str, property: &str, rig: Rig, workload: Workload) {
    let (clean, result) = judged(rig.clone(), None, workload);
    if let Err(e) = result {
        panic!("the code with its guard: {e}");
    }
    let (broken, result) = judged(rig, Some(mutant), workload);
    let (reached, after) = (broken.rig.reached(mutant), broken.states);
    let Err(why) = result else {
        panic!("{mutant}: not noticed in {after} states, reached {reached} times");
    };
    assert!(reached > 0, "{mutant}: no one asked for its guard");
    assert!(after <= STATES, "{mutant}: noticed after {after} states");
    println!("{mutant}: {why}");
    println!(
        "mutant|{mutant}|{what}|{reached}|{property}|{after}|{}",
        clean.states
    );
}

fn tiny() -> Rig {
    Rig::new(TINY, TINY_CONFIG).filled()
}

fn split() -> Rig {
    Rig::new(SPLIT, SPLIT_CONFIG).filled()
}

/// hazards-R2: the die of the source is far behind the die that takes the log.
#[test]
fn pair_before_source() {
    noticed(
        Mutant::PairBeforeSource,
        "long queue, remap, flush",
        "oracle: unreadable",
        tiny(),
        |run| {
            run.begin();
            (0..8).for_each(|lpn| run.rig.write(lpn));
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.rig.flush();
            run.everywhere()
        },
    );
}

/// hazards-R3: a batch of two log pages.
#[test]
fn half_batch() {
    noticed(
        Mutant::HalfBatch,
        "batch of two log pages",
        "oracle: all or nothing",
        split(),
        |run| {
            run.begin();
            run.rig.remap(&[(48, 0, 45)], Mode::Share);
            run.rig.flush();
            run.everywhere()
        },
    );
}

/// Overwrites and collects until everything has moved.
fn churn(run: &mut Run, keep: &[u32]) {
    let units = run.rig.config.units as u32;
    for round in 0..4 {
        for lpn in (round..units).step_by(3).filter(|l| !keep.contains(l)) {
            run.rig.write(lpn);
            run.rig.ftl.collect_idle(run.rig.now, 8).unwrap();
        }
        run.rig.flush();
    }
}

/// hazards-R4: the slot is collected when both units own it.
#[test]
fn collect_by_tag() {
    noticed(
        Mutant::CollectByTag,
        "remap, collection",
        "oracle: zeros",
        tiny(),
        |run| {
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.rig.flush();
            churn(run, &[6, 7, 40, 41]);
            run.now()
        },
    );
}

/// hazards-R5: blocks are collected and opened while records are in memory.
#[test]
fn erase_before_owners() {
    noticed(
        Mutant::EraseBeforeOwners,
        "remap, collection without a flush",
        "oracle: lost",
        tiny(),
        |run| {
            let pairs: Vec<(u32, u32, u32)> = (0..8).map(|i| (40 + i, 2 * i, 1)).collect();
            run.rig.remap(&pairs, Mode::Share);
            run.begin();
            for lpn in (0..16).map(|i| (2 * i + 1) % 32).chain(50..60) {
                run.rig.write(lpn);
                run.rig.ftl.collect_idle(run.rig.now, 4).unwrap();
            }
            let late = Time(run.rig.now.0 + 100_000_000);
            run.cut(late).map(|_| ())
        },
    );
}

/// hazards-R6: a unit is copied, then written again, and the newer write is programmed first.
#[test]
fn copy_is_newer() {
    let rig = Rig::new(GEOMETRY, CONFIG).filled();
    noticed(
        Mutant::CopyIsNewer,
        "copy in the buffer, newer write",
        "oracle: older",
        rig,
        |run| {
            let rng = &mut Rng::named(6, "copies");
            for _ in 0..40 {
                for _ in 0..100 {
                    run.rig.write(rng.below(600) as u32);
                    run.rig.ftl.collect_idle(run.rig.now, 1).unwrap();
                }
                run.rig.flush();
                run.reboot()?;
            }
            Ok(())
        },
    );
}

/// hazards-R7: the checkpoint at the end of recovery, and another cut.
#[test]
fn checkpoint_one_owner() {
    noticed(
        Mutant::CheckpointOneOwner,
        "remap, recovery, recovery",
        "oracle: zeros",
        tiny(),
        |run| {
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.rig.flush();
            run.reboot()?;
            run.reboot()
        },
    );
}

/// hazards-R8.
#[test]
fn count_owners() {
    noticed(
        Mutant::CountOwners,
        "remap, overwrite of the source",
        "ftl-I1",
        tiny(),
        |run| {
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.rig.write(6);
            run.now()
        },
    );
}

/// hazards-R11: a list that is sent again after its source was overwritten.
#[test]
fn ignore_expect() {
    noticed(
        Mutant::IgnoreExpect,
        "remap, overwrite, the same remap",
        "oracle: newer",
        tiny(),
        |run| {
            let expect = run.rig.expectation(6, 2);
            assert!(run.rig.remap_expecting(40, 6, 2, expect), "as expected");
            run.rig.write(7);
            run.rig.remap_expecting(40, 6, 2, expect);
            run.now()
        },
    );
}

/// hazards-R15.
#[test]
fn no_alias_cap() {
    noticed(
        Mutant::NoAliasCap,
        "remap of more than the cap",
        "remap-I16",
        tiny(),
        |run| {
            run.rig.ftl.set_alias_cap(3);
            run.rig.remap(&[(40, 6, 6)], Mode::Share);
            run.now()
        },
    );
}

/// hazards-R16: home and source have different places in their pages.
#[test]
fn alias_whole_page() {
    noticed(
        Mutant::AliasWholePage,
        "remap of the second unit of a page",
        "oracle: neighbour",
        tiny(),
        |run| {
            run.rig.remap(&[(40, 7, 1), (42, 9, 2)], Mode::Share);
            run.now()
        },
    );
}

/// Two bits per cell, on chips where a cut takes earlier pages along and leaves marginal ones.
fn paired() -> Rig {
    let geometry = Geometry {
        pairing: Pairing::Dist3,
        blocks_per_plane: 16,
        pages_per_block: 8,
        nop: 1,
        ..TINY
    };
    Rig::on(geometry, TINY_CONFIG, Cells::at(FaultLevel::L3)).filled()
}

/// hazards-R17: a flush between the two pages of a word line, and cuts while the later one is
/// programmed.
#[test]
fn flush_half_pairs() {
    noticed(
        Mutant::FlushHalfPairs,
        "write, flush, write on a part with two bits per cell",
        "oracle: lost",
        paired(),
        |run| {
            run.begin();
            for lpn in 0..12 {
                run.rig.write(lpn);
                run.rig.flush();
            }
            run.everywhere()
        },
    );
}

/// hazards-R18: the last pages before a cut read well at the mount, and not for long.
#[test]
fn trust_last_page() {
    let rig = Rig::on(TINY, TINY_CONFIG, Cells::at(FaultLevel::L3)).filled();
    noticed(
        Mutant::TrustLastPage,
        "write, cut, recovery, reads",
        "oracle: unreadable",
        rig,
        |run| {
            run.begin();
            for lpn in 0..12 {
                run.rig.write(lpn);
                run.rig.flush();
            }
            for operation in run.rig.ftl.take_operations() {
                let (start, end) = (operation.span.start, operation.span.end);
                for at in [Time((start.0 + end.0) / 2), end] {
                    let mut next = run.cut(at)?;
                    // A cell that a brown-out has left marginal can be read 63 times.
                    for lpn in (0..70 * 12).map(|i| i % 12) {
                        let (read, now) = next.ftl.read(next.now, lpn..lpn + 1);
                        next.now = now;
                        read.map_err(|e| {
                            format!("cut at {at} of {operation:?}, read after recovery: {e}")
                        })?;
                    }
                    next.model.check_now(&next.ftl)?;
                }
            }
            Ok(())
        },
    );
}

/// hazards-R19.
#[test]
fn unwritten_keeps_home() {
    noticed(
        Mutant::UnwrittenKeepsHome,
        "trim, remap",
        "oracle: older",
        tiny(),
        |run| {
            run.rig.trim(6..7);
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.now()
        },
    );
}

/// hazards-R20.
#[test]
fn write_through_alias() {
    noticed(
        Mutant::WriteThroughAlias,
        "remap, overwrite of the source",
        "oracle: newer",
        tiny(),
        |run| {
            run.rig.remap(&[(40, 6, 2)], Mode::Share);
            run.rig.write(6);
            run.now()
        },
    );
}

/// hazards-R22: recovery, a write, recovery.
#[test]
fn version_regresses() {
    noticed(
        Mutant::VersionRegresses,
        "recovery, write, recovery",
        "oracle: older",
        tiny(),
        |run| {
            (0..12).for_each(|_| run.rig.write(6));
            run.rig.flush();
            run.reboot()?;
            run.rig.write(6);
            run.rig.flush();
            run.reboot()
        },
    );
}

/// hazards-R23: small batches until the log is full.
#[test]
fn log_full_drops() {
    noticed(
        Mutant::LogFullDrops,
        "many small batches",
        "oracle: older",
        tiny(),
        |run| {
            for i in 0..60 {
                run.rig.remap(&[(40 + i % 8, 2 * (i % 16), 1)], Mode::Share);
                run.rig.flush();
                if i % 5 == 4 {
                    run.cut(run.rig.now)?;
                }
            }
            Ok(())
        },
    );
}
