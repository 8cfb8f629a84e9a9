//! Recovery of one remainder (what a sampled cut left), and whether it keeps the promises.
//!
//! A remainder is mounted for writing in a simulation of its own, the oracle compares, the volume
//! is used once more and unmounted, and outside checkers are asked if the caller wants them.

use super::device::{Disk, Volume};
use super::files::FileOracle;
use super::full;
use super::loss::Loss;
use super::oracle::Oracle;
use super::rules::Terms;
use super::run::{Cut, TaskLog};
use super::{CrashConfig, Opinion};
use crate::CrashError;
use crate::cuts::{Tree, differences, walk};
use rig::Mounted;
use rt::Sim;
use std::path::Path;
use std::sync::Arc;
use vfs::{FsResult, OpenFlags, Vfs};
use work::fsck::{self, Verdict};

/// What was found of one remainder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judgement {
    /// Violated rules, each with its name and what was found; empty: none.
    pub violations: Vec<String>,
    /// What is gone of all tasks, promised or not.
    pub loss: Loss,
    /// An outside checker was asked that is not installed.
    pub unchecked: bool,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

/// Judges the cuts of one run, and follows its tasks from cut to cut.
pub struct Judge<'a> {
    config: &'a CrashConfig,
    volume: &'a Volume,
    oracle: FileOracle,
}

impl<'a> Judge<'a> {
    /// A judge for the cuts of one run that left these logs. Cuts have to come by ascending time.
    pub fn new(config: &'a CrashConfig, volume: &'a Volume, logs: &'a [TaskLog]) -> Judge<'a> {
        Judge {
            config,
            volume,
            oracle: FileOracle::new(logs.to_vec(), Terms::of(config)),
        }
    }

    /// Recovers the remainder of `cut` and judges it.
    ///
    /// # Errors
    /// The host or the device has failed, for example at writing an image file. What is wrong with
    /// the remainder is a violation in the judgement.
    pub fn judge(&mut self, cut: &Cut, opinion: Opinion<'_>) -> Result<Judgement, CrashError> {
        self.oracle.advance_to(&cut.progress);
        let seed = self.config.seed;
        let disk = self.volume.attach(&cut.remains, seed)?;
        let mut judgement = Judgement::default();
        let mut tree = None;
        let life = self.life(disk.clone(), |mounted| {
            if opinion.wants_tree() {
                tree = Some(walk(&mounted.vfs)?);
            }
            self.oracle.judge(&mounted.vfs, &mut judgement);
            epilogue(&mounted.vfs)?;
            mounted.fs.check();
            Ok(())
        });
        judgement.reached = life.1;
        if let Err(why) = life.0 {
            judgement.violations.push(format!("R1: recovery: {why}"));
            return Ok(judgement);
        }
        self.second_opinions(cut, &disk, tree, opinion, &mut judgement)?;
        Ok(judgement)
    }

    /// Mounts, runs `body` and unmounts, in a simulation of its own.
    fn life(
        &self,
        disk: Disk,
        body: impl FnOnce(&Mounted) -> Result<(), CrashError>,
    ) -> (Result<(), String>, rt::Reached) {
        let config = self.config;
        let mut sim = config.sim(config.seed);
        sim.policy = rt::Policy::Fifo;
        sim.quiet = true;
        let outcome = Sim::new(sim).run(|| {
            let options = config.mount_options();
            let mounted = Mounted::on(disk.device(), options, vfs::WritebackPolicy::off())?;
            let outcome = body(&mounted).and_then(|()| Ok(mounted.unmount()?));
            if outcome.is_err() {
                disk.power_off();
                rt::power_cut();
            }
            outcome
        });
        let value = match (outcome.first_failure, outcome.value) {
            (_, Some(Err(e))) => Err(e.to_string()),
            (Some(failure), _) => Err(failure.to_string()),
            (None, Some(Ok(()))) => Ok(()),
            (None, None) => Err("no value".into()),
        };
        (value, outcome.reached)
    }

    fn second_opinions(
        &self,
        cut: &Cut,
        recovered: &Disk,
        tree: Option<Tree>,
        opinion: Opinion<'_>,
        judgement: &mut Judgement,
    ) -> Result<(), CrashError> {
        let host = |source| CrashError::Host {
            doing: format!("running {}", fsck::checker(self.config.stack.fs)),
            source,
        };
        let bytes = self.config.stack.bytes;
        if let Some(folder) = opinion.folder() {
            let ours = folder.join("recovered");
            recovered.write_image(bytes, &ours)?;
            match fsck::check(self.config.stack.fs, &ours).map_err(host)? {
                Verdict::Clean => {}
                Verdict::NotInstalled => judgement.unchecked = true,
                Verdict::Repaired(words) | Verdict::Findings(words) => {
                    judgement.violations.push(format!(
                        "R2: {} after recovery: {words}",
                        fsck::checker(self.config.stack.fs)
                    ))
                }
            }
        }
        let (Opinion::Replay(folder), Some(ours)) = (opinion, tree) else {
            return Ok(());
        };
        let path = folder.join("replayed");
        self.volume
            .attach(&cut.remains, 0)?
            .write_image(bytes, &path)?;
        match fsck::e2fsck_repair(&path).map_err(host)? {
            Verdict::NotInstalled => judgement.unchecked = true,
            Verdict::Findings(words) => judgement
                .violations
                .push(format!("R3: e2fsck -fy gives up: {words}")),
            Verdict::Clean | Verdict::Repaired(_) => match self.tree_of(&path) {
                Ok(theirs) => judgement.violations.extend(differences(&ours, &theirs)),
                Err(why) => judgement
                    .violations
                    .push(format!("R3: what e2fsck leaves cannot be read: {why}")),
            },
        }
        Ok(())
    }

    fn tree_of(&self, image: &Path) -> Result<Tree, String> {
        let disk = self.volume.load(image).map_err(|e| e.to_string())?;
        let mut tree = Tree::new();
        let life = self.life(disk, |mounted| {
            tree = walk(&mounted.vfs)?;
            Ok(())
        });
        life.0.map(|()| tree)
    }
}

/// Shows that the volume is of use after recovery: something new is made, synced and removed. On a
/// volume that was filled the filler is given back first, to have the room for it.
pub(super) fn epilogue(vfs: &Arc<Vfs>) -> FsResult<()> {
    full::give_back(vfs)?;
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let file = vfs.open("/after the cut", flags, 0o600)?;
    let written = file
        .write_at(0, &[0x5A; 3 * 4096])
        .and_then(|_| file.fsync());
    file.close()?;
    written?;
    vfs.unlink("/after the cut")
}
