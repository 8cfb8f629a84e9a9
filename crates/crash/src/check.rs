//! Recovery and judgement of many crash states, as fast as it can be done.
//!
//! The time of a judgement decides how many states can be looked at. So a state of a disk in memory
//! is mounted on an [`OverlayDisk`], which costs no device time, and many states share one
//! simulation. The mount is read-only but for F2FS, which rolls forward only in a mount for
//! writing. An oracle that writes (SQLite) needs a simulation and a mount for writing for each
//! state. A state that fails must not hide or blame others:
//!
//! - K1: a panic, a deadlock or a limit that is reached violates R1 of the state in which it
//!   happens. If other states shared its simulation, the state is judged once more in one of its
//!   own, which gives the words of the violation; a new simulation begins with the next state.
//! - K2: nothing outlives its state in a shared simulation. The mount has no tasks, and dropping it
//!   without an unmount is a crash by design, which frees all; what is written stays in the
//!   overlay.
//! - K3: the content of a state, and whether the first look found it good, decide whether it is
//!   looked at more deeply, so neither the order of states nor the number of workers changes a
//!   result.
//!
//! Three failures end the process and are left to the process above: a loop that calls nothing of
//! `rt`, an overflow of the stack, and a lack of memory.

mod deep;

use super::device::{Remains, Volume};
use super::oracle::Oracle;
use super::{CrashConfig, Judgement};
use crate::CrashError;
use base::collections::mix;
use base::{BLOCK_BYTES, BlockNo, Bytes, Nanos};
use blockdev::{Image, OverlayDisk};
use rig::{Fs, Mounted, fsck};
use rt::{Failure, Sim, SimConfig};
use std::cell::Cell;

/// Most states in one simulation. It bounds the work that is in vain when the caller ends early.
const PER_SIM: usize = 256;
/// Switches, or 64 times as many lock operations, after which a state counts as hanging. A recovery
/// needs a hundredth of it, and reaching it takes some milliseconds.
const IDLE_MAX: u64 = 20_000;

/// Findings of `varve fsck` that a violation quotes.
const FINDINGS_MAX: usize = 5;

/// What a checker does beside the read-only mount and the oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckOptions {
    /// One state in so many is also mounted for writing, used, unmounted and mounted again; 0:
    /// none.
    pub deep_one_in: u32,
    /// Every recovered state is also looked at by `varve fsck` (R4).
    pub fsck: bool,
}

/// What a checker has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// States judged.
    pub states: u64,
    /// Of them, those whose recovery panicked or deadlocked.
    pub died: u64,
    /// Of them, those whose recovery reached a limit of steps or of virtual time.
    pub timed_out: u64,
    /// Of them, those looked at deeply.
    pub deep: u64,
    /// Simulations that were run.
    pub sims: u64,
    /// Tasks that ran in the simulations of read-only mounts: K2 demands one for each simulation.
    pub tasks: u64,
}

/// Recovers remainders and lets an oracle judge them.
pub struct Checker<'a> {
    config: &'a CrashConfig,
    volume: &'a Volume,
    options: CheckOptions,
    checked: Cell<Checked>,
}

impl<'a> Checker<'a> {
    /// A checker for states of runs of `config` on `volume`, without deeper looks.
    pub fn new(config: &'a CrashConfig, volume: &'a Volume) -> Checker<'a> {
        Checker::with(config, volume, CheckOptions::default())
    }

    /// A checker for states of runs of `config` on `volume` that also does what `options` ask for.
    pub fn with(config: &'a CrashConfig, volume: &'a Volume, options: CheckOptions) -> Checker<'a> {
        Checker {
            config,
            volume,
            options,
            checked: Cell::default(),
        }
    }

    /// What was done so far.
    pub fn checked(&self) -> Checked {
        self.checked.get()
    }

    fn count(&self, change: impl FnOnce(&mut Checked)) {
        let mut checked = self.checked.get();
        change(&mut checked);
        self.checked.set(checked);
    }

    /// Judges states of one cut one after the other. `each` is called with the index of the state
    /// and its judgement; it ends the work by `false`. States of one simulation share the counts of
    /// how often the guards of mutants were reached, so these stand in one judgement of each, and
    /// only their sum has a meaning.
    ///
    /// # Errors
    /// The host or the device failed. What is wrong with a state is a violation in its judgement.
    pub fn check(
        &self,
        oracle: &dyn Oracle,
        states: &[Image],
        each: &mut dyn FnMut(usize, Judgement) -> bool,
    ) -> Result<(), CrashError> {
        let quick = self.volume.caps().is_some() && !oracle.writes();
        let per_sim = if quick { PER_SIM } else { 1 };
        for (batch, images) in states.chunks(per_sim).enumerate() {
            let judged = match quick {
                true => self.quick(oracle, images),
                false => vec![self.full(oracle, &images[0])?],
            };
            for (n, (image, mut judgement)) in images.iter().zip(judged).enumerate() {
                // A closer look at a state that is bad already would tell nothing new.
                if judgement.violations.is_empty() && self.wants_deep(image) {
                    self.deepen(oracle, image, &mut judgement)?;
                }
                self.count(|c| c.states += 1);
                if !each(batch * per_sim + n, judgement) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether the state is one of the sample for the closer look (K3).
    fn wants_deep(&self, image: &Image) -> bool {
        let one_in = u64::from(self.options.deep_one_in);
        one_in > 0 && mix(image.content_hash()).is_multiple_of(one_in)
    }

    /// Judges states in as few simulations as possible: after one that failed the next begins
    /// behind the state that it failed in.
    fn quick(&self, oracle: &dyn Oracle, images: &[Image]) -> Vec<Judgement> {
        let mut judged = Vec::with_capacity(images.len());
        while judged.len() < images.len() {
            let rest = &images[judged.len()..];
            let (mut done, failure) = self.simulate(oracle, rest);
            let Some(why) = failure else {
                judged.extend(done);
                break;
            };
            if done.len() > rest.len() {
                // All states had ended well and the run failed as a whole, for example because its
                // stack was too deep. So each state is judged by itself.
                done.pop();
                judged.extend(rest.iter().map(|image| self.alone(oracle, image, None)));
                break;
            }
            let partial = done.pop();
            let guilty = &rest[done.len()];
            judged.append(&mut done);
            judged.push(match rest.len() {
                1 => self.blame(partial.unwrap_or_default(), &why),
                _ => self.alone(oracle, guilty, Some(&why)),
            });
        }
        judged
    }

    /// Judges one state in its own simulation (K1). `before` is how it failed behind other states.
    fn alone(&self, oracle: &dyn Oracle, image: &Image, before: Option<&Failure>) -> Judgement {
        let (mut done, failure) = self.simulate(oracle, std::slice::from_ref(image));
        let mut judgement = match done.is_empty() {
            true => Judgement::default(),
            false => done.swap_remove(0),
        };
        match (failure, before) {
            (Some(why), _) => return self.blame(judgement, &why),
            (None, Some(before)) => judgement
                .violations
                .push(format!("R1: recovery, only behind other states: {before}")),
            (None, None) => {}
        }
        judgement
    }

    fn blame(&self, mut judgement: Judgement, why: &Failure) -> Judgement {
        self.count(|c| match why {
            Failure::Limit { .. } | Failure::NoProgress { .. } => c.timed_out += 1,
            _ => c.died += 1,
        });
        judgement.violations.push(format!("R1: recovery: {why}"));
        judgement
    }

    /// Recovers and judges states one after the other until one fails. Then the last judgement
    /// holds what was found of that state before it failed; it is empty if all states had ended
    /// well.
    fn simulate(&self, oracle: &dyn Oracle, images: &[Image]) -> (Vec<Judgement>, Option<Failure>) {
        self.count(|c| c.sims += 1);
        let mut sim = self.sim();
        sim.no_progress_limit = IDLE_MAX;
        let mut done = Vec::with_capacity(images.len() + 1);
        done.push(Judgement::default());
        let outcome = Sim::new(sim).run(|| {
            for image in images {
                // The limits count from the last progress of time, so each state begins with a step
                // of the clock.
                rt::sleep(Nanos(1));
                let current = done.last_mut().expect("never empty");
                if let Err(why) = self.one(oracle, image, current) {
                    current.violations.push(format!("R1: recovery: {why}"));
                }
                done.push(Judgement::default());
            }
        });
        self.count(|c| c.tasks += outcome.tasks);
        if outcome.first_failure.is_none() {
            done.pop();
        }
        if let Some(first) = done.first_mut() {
            first.reached = outcome.reached;
        }
        (done, outcome.first_failure)
    }

    fn sim(&self) -> SimConfig {
        SimConfig {
            policy: rt::Policy::Fifo,
            quiet: true,
            ..self.config.sim(self.config.seed)
        }
    }

    /// Recovers and judges one state, and forgets it (K2).
    fn one(
        &self,
        oracle: &dyn Oracle,
        image: &Image,
        judgement: &mut Judgement,
    ) -> Result<(), CrashError> {
        let caps = self.volume.caps().expect("a disk in memory").clone();
        let disk = OverlayDisk::new(caps, image.clone());
        // A read-only mount of F2FS does not roll forward, so it is mounted for writing; the
        // overlay keeps the writes off the state.
        let read_only = self.config.stack.fs != Fs::F2fs;
        // It is dropped and not unmounted, so no task may run behind it.
        let options = self.config.mount_options().timers(None, None);
        let options = options.read_only(read_only);
        let mounted = Mounted::on(disk.clone(), options, vfs::WritebackPolicy::off())?;
        oracle.judge(&mounted.vfs, judgement);
        drop(mounted);
        if self.options.fsck {
            let mut report = self.fsck(|n| disk.block(n), true);
            // A read-only mount uses the backup of a torn superblock and leaves orphans where they
            // are (ext4-mount-M2). Such a volume is looked at after a mount for writing has
            // repaired it.
            if !report.words.is_empty() && (report.torn || report.orphans) {
                let (options, policy) = (self.config.mount_options(), vfs::WritebackPolicy::off());
                Mounted::on(disk.clone(), options, policy)?.unmount()?;
                report = self.fsck(|n| disk.block(n), false);
            }
            enter(&report, judgement);
        }
        Ok(())
    }

    /// What is wrong with a recovered volume. `in_use` says that it was not unmounted.
    fn fsck(&self, block: impl Fn(u64) -> Bytes, in_use: bool) -> Report {
        match self.config.stack.fs {
            Fs::Ext4 | Fs::Ext3 => self.fsck_ext(block, in_use),
            Fs::F2fs => self.fsck_f2fs(block),
        }
    }

    fn fsck_ext(&self, block: impl Fn(u64) -> Bytes, in_use: bool) -> Report {
        let options = fsck::ext::Options {
            in_use,
            limit: FINDINGS_MAX,
            ..fsck::ext::Options::new(self.config.stack.bytes / BLOCK_BYTES as u64)
        };
        let read = |n: BlockNo| Ok::<_, std::convert::Infallible>(block(n.0));
        let found = fsck::ext::check(&read, &options);
        let findings = found.findings;
        Report {
            orphans: found.orphans > 0,
            torn: findings
                .iter()
                .any(|f| f.kind == fsck::ext::Kind::Superblock),
            words: findings.iter().map(ToString::to_string).collect(),
        }
    }

    fn fsck_f2fs(&self, block: impl Fn(u64) -> Bytes) -> Report {
        let read = |n: BlockNo| Ok::<_, std::convert::Infallible>(block(n.0));
        let blocks = self.config.stack.bytes / BLOCK_BYTES as u64;
        let report = fsck::check(Fs::F2fs, &read, blocks, FINDINGS_MAX);
        let damage = report.findings.iter().filter(|f| !f.is_notice);
        Report {
            torn: report.torn_superblock,
            orphans: false,
            words: damage.map(ToString::to_string).collect(),
        }
    }

    /// Judges one state by a mount for writing, which some oracles and modelled devices need.
    fn full(&self, oracle: &dyn Oracle, image: &Image) -> Result<Judgement, CrashError> {
        let disk = self.volume.attach(&Remains::Image(image.clone()), 0)?;
        let mut judgement = Judgement::default();
        let (outcome, reached) = self.life(&disk, |mounted| {
            oracle.judge(&mounted.vfs, &mut judgement);
            Ok(())
        });
        judgement.reached = reached;
        match outcome {
            Err(why) => judgement.violations.push(format!("R1: recovery: {why}")),
            Ok(Remains::Image(left)) if self.options.fsck => {
                enter(&self.fsck(|n| left.block(n), false), &mut judgement);
            }
            Ok(_) => {}
        }
        Ok(judgement)
    }
}

/// What `varve fsck` finds in a volume.
#[derive(Default)]
struct Report {
    /// Its findings, in words.
    words: Vec<String>,
    /// One of them says that a superblock cannot be used.
    torn: bool,
    /// The volume has orphans that the next mount for writing ends.
    orphans: bool,
}

/// Enters the findings as violations of R4.
fn enter(report: &Report, judgement: &mut Judgement) {
    let words = report.words.iter();
    let words = words.map(|finding| format!("R4: varve fsck: {finding}"));
    judgement.violations.extend(words);
}
