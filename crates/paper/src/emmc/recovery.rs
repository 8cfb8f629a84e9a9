//! The job of section VI.G: runs PostMark, cuts the power in its phases, and sees for each cut what
//! recovery gives and what it costs.
//!
//! A cut is recovered in a simulation of its own. Its mount is timed, and so is a mount of the same
//! volume after a clean unmount, so that the difference is the cost of recovery.

use crate::PaperError;
use base::{Nanos, SECTOR_BYTES};
use crash::cuts::{PhaseCut, record_phases, second_opinions, switched_off, walk};
use report::metrics::round;
use rig::{AnyModel, HostFile, HostOptions, Media, RecoveryReport, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use work::RunConfig;
use work::life::live;

/// What to cut and recover.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecoveryJob {
    /// Stack, workload (`files:`) and seed of the run.
    pub run: RunConfig,
    /// Number of cuts in each phase.
    pub cuts: usize,
    /// The volume is unmounted and mounted again after the phase `create`.
    pub remounted: bool,
    /// Checkers judge what recovery leaves.
    pub checked: bool,
}

/// What came of all cuts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recoveries {
    /// The phases that were cut, in their order, with their length in virtual seconds.
    pub phases: Vec<(String, f64)>,
    /// One entry per cut, by ascending time.
    pub cuts: Vec<Recovery>,
    /// The checker that judged; where it was not the same for all cuts, the weaker one.
    pub checker: Checker,
}

/// The checker that judged what recovery leaves, the weaker one last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checker {
    /// None: nothing was judged, because nobody asked or recovery failed.
    #[default]
    Nobody,
    /// e2fsck.
    E2fsck,
    /// `varve fsck`, because e2fsck is not installed.
    VarveFsck,
}

/// What came of one cut.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// The phase in which the power was cut.
    pub phase: String,
    /// Moment of the cut, virtual seconds after the mount.
    pub at_s: f64,
    /// Duration of the whole mount, virtual milliseconds.
    pub mount_ms: f64,
    /// Duration of a mount of the same volume after a clean unmount, virtual milliseconds.
    pub clean_mount_ms: f64,
    /// Duration of each step of journal recovery, virtual milliseconds.
    pub steps_ms: BTreeMap<String, f64>,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Blocks that recovery wrote home.
    pub blocks_replayed: u64,
    /// Home blocks that recovery read.
    pub home_reads: u64,
    /// Commands with which it read them.
    pub home_read_commands: u64,
    /// KiB read during the mount.
    pub kib_read: u64,
    /// KiB written during the mount.
    pub kib_written: u64,
    /// What is wrong with what recovery leaves; empty if nothing is.
    pub findings: Vec<String>,
}

impl Recovery {
    /// What the cut adds to a mount, virtual milliseconds.
    pub fn recovery_ms(&self) -> f64 {
        self.mount_ms - self.clean_mount_ms
    }
}

impl Recoveries {
    fn add(&mut self, cut: Recovery, checker: Checker) {
        self.cuts.push(cut);
        self.checker = self.checker.max(checker);
    }
}

/// What was measured of a mount.
struct Mount {
    took: Nanos,
    recovery: Option<RecoveryReport>,
    kib_read: u64,
    kib_written: u64,
}

impl RecoveryJob {
    /// Runs the workload, cuts, recovers and judges.
    ///
    /// # Errors
    /// The run itself fails, or something outside of it. A remainder that cannot be recovered is a
    /// finding and no error.
    pub fn run(&self) -> Result<Recoveries, PaperError> {
        let phases = record_phases(&self.run, self.cuts, self.remounted)?;
        let folder = tempfile::tempdir().map_err(|source| PaperError::Host {
            doing: "making a folder for images".into(),
            source,
        })?;
        let seconds = |span: Nanos| round(span.0 as f64 / 1e9);
        let mut all = Recoveries {
            phases: phases
                .spans
                .iter()
                .map(|&(name, span)| (name.to_string(), seconds(span)))
                .collect(),
            ..Recoveries::default()
        };
        for cut in &phases.cuts {
            let (recovery, checker) = self.recover(cut, folder.path())?;
            all.add(recovery, checker);
        }
        Ok(all)
    }

    fn recover(&self, cut: &PhaseCut, folder: &Path) -> Result<(Recovery, Checker), PaperError> {
        let mut found = Recovery {
            phase: cut.phase.into(),
            at_s: round(cut.at.0 as f64 / 1e9),
            ..Recovery::default()
        };
        let model = self.run.stack.attach(cut.media.clone())?;
        let repaired = folder.join("repaired");
        if self.checked {
            rig::write_image(&model, &repaired)?;
        }
        let life = live(&self.run, model, |stack, _| {
            let mount = measured(stack);
            let tree = match self.checked {
                true => Some(walk(&stack.vfs)?),
                false => None,
            };
            Ok((mount, tree, rt::now()))
        });
        let life = match life {
            Ok(life) => life,
            Err(why) => {
                found.findings.push(format!("R1: recovery fails: {why}"));
                return Ok((found, Checker::Nobody));
            }
        };
        let (mount, tree, at) = life.value;
        let mut checker = Checker::Nobody;
        if let Some(tree) = tree {
            let opinions = second_opinions(&self.run, &tree, &life.model, &repaired, folder)?;
            checker = Checker::E2fsck;
            found.findings = opinions.violations;
            if opinions.unchecked {
                checker = Checker::VarveFsck;
                found.findings = own_check(&life.model, folder)?;
            }
        }
        let clean = self.clean_mount(switched_off(life.model, at))?;
        found.take(&mount, clean);
        Ok((found, checker))
    }

    /// Duration of a mount without recovery.
    fn clean_mount(&self, media: Media) -> Result<Nanos, PaperError> {
        let model = self.run.stack.attach(media)?;
        let life = live(&self.run, model, |stack, _| Ok(measured(stack)))?;
        match life.value.recovery {
            None => Ok(life.value.took),
            Some(_) => Err(PaperError::Check(
                "a volume that was unmounted needs recovery".into(),
            )),
        }
    }
}

fn measured(stack: &rig::Stack) -> Mount {
    let stats = stack.queue.stats();
    let kib = |sectors: u64| sectors * SECTOR_BYTES as u64 / 1024;
    Mount {
        took: stack.mount_took,
        recovery: stack.fs.journal_recovery().cloned(),
        kib_read: kib(stats.sectors_read),
        kib_written: kib(stats.sectors_written.values().sum()),
    }
}

impl Recovery {
    fn take(&mut self, mount: &Mount, clean: Nanos) {
        let ms = |span: Nanos| round(span.0 as f64 / 1e6);
        self.mount_ms = ms(mount.took);
        self.clean_mount_ms = ms(clean);
        self.kib_read = mount.kib_read;
        self.kib_written = mount.kib_written;
        if let Some(report) = &mount.recovery {
            self.transactions = report.transactions;
            self.blocks_replayed = report.blocks_replayed;
            self.home_reads = report.home_reads;
            self.home_read_commands = report.home_read_commands;
            let steps = report.spans.each().into_iter();
            self.steps_ms = steps
                .map(|(step, span)| (step.to_string(), ms(span)))
                .collect();
        }
    }
}

/// The findings of `varve fsck`.
fn own_check(model: &AnyModel, folder: &Path) -> Result<Vec<String>, PaperError> {
    let image = folder.join("own");
    rig::write_image(model, &image)?;
    let host = |source| PaperError::Host {
        doing: "checking the image".into(),
        source,
    };
    let file =
        HostFile::open(&image, &HostOptions::read()).map_err(|e| host(std::io::Error::other(e)))?;
    let now = WallTime { secs: 0, nanos: 0 };
    let checked = rig::fsck::fsck(&file, false, now, 16)
        .map_err(|e| PaperError::Check(format!("varve fsck: {e}")))?;
    let findings = checked.report.findings.iter();
    Ok(findings.map(|f| format!("varve fsck: {f}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cut whose recovery fails is judged by nobody, and e2fsck judged the others all the same.
    #[test]
    fn the_checker_of_all_cuts_is_named_and_not_that_of_the_last() {
        use Checker::{E2fsck, Nobody, VarveFsck};
        for (cuts, all) in [
            (vec![E2fsck, Nobody], E2fsck),
            (vec![Nobody, E2fsck], E2fsck),
            (vec![E2fsck, VarveFsck, E2fsck], VarveFsck),
            (vec![Nobody, Nobody], Nobody),
        ] {
            let mut recoveries = Recoveries::default();
            for checker in &cuts {
                recoveries.add(Recovery::default(), *checker);
            }
            assert_eq!(recoveries.checker, all, "{cuts:?}");
            assert_eq!(recoveries.cuts.len(), cuts.len());
        }
    }
}
