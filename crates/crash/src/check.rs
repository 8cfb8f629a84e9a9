//! Recovery and judgement of many remainders of one kind, fast.
//!
//! A state of a disk in memory is recovered by a read-only mount on an [`OverlayDisk`], without
//! device time, and looked at; many states share one simulation. What fails in it is the property
//! of one state:
//!
//! - K1: a panic, deadlock or limit inside of a state is a violation of R1 of that state, in the
//!   words that it gives alone in a simulation of its own; the next state begins a new one.
//! - K2: nothing outlives its state: a read-only mount has no tasks, and dropping it, a crash by
//!   design, frees it.
//! - K3: which states are looked at more deeply depends on their content alone, so neither on their
//!   order nor on who works on them.
//!
//! A loop that calls nothing of `rt`, an overflow of the stack and a lack of memory end the
//! process, and are its parent's business.

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

/// States in one simulation: bounds what is done in vain when whoever asks wants no more.
const PER_SIM: usize = 256;
/// Switches, or 64 times as many lock operations, after which a state counts as hanging: a hundred
/// times what a recovery needs, some milliseconds.
const IDLE_MAX: u64 = 20_000;

/// Findings of `varve fsck` that are quoted.
const FINDINGS_MAX: usize = 5;

/// What to do beside the read-only mount and the oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckOptions {
    /// One state in so many is also mounted for writing, used, unmounted and mounted again; 0:
    /// none.
    pub deep_one_in: u32,
    /// Every recovered state is also looked at by `varve fsck` (R4).
    pub fsck: bool,
}

/// What was done so far.
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
    /// Simulations.
    pub sims: u64,
    /// Tasks that ran in those of read-only mounts: one each.
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
    /// For remainders of runs of `config` on `volume`.
    pub fn new(config: &'a CrashConfig, volume: &'a Volume) -> Checker<'a> {
        Checker::with(config, volume, CheckOptions::default())
    }

    /// The same, with options.
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

    /// Judges remainders of one cut one by one; `each` is told its number and the judgement, and
    /// ends the work with `false`. How often guards of mutants were reached stands in some of the
    /// judgements: their sum counts.
    ///
    /// # Errors
    /// Something that is no property of a remainder failed.
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
                // A state that is bad already would only say so again.
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

    /// K3.
    fn wants_deep(&self, image: &Image) -> bool {
        let one_in = u64::from(self.options.deep_one_in);
        one_in > 0 && mix(image.content_hash()).is_multiple_of(one_in)
    }

    /// Judges states in as few simulations as possible.
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
                // The run was bad as a whole, e.g. its stack too deep: each state has to answer for
                // itself.
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

    /// Judges one state in a simulation of its own (K1). `before`: how it failed behind others.
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

    /// Recovers and judges states one after the other, as far as it goes. With a failure the last
    /// judgement is what was found of the guilty state until then; if all states have ended well by
    /// then, an empty one.
    fn simulate(&self, oracle: &dyn Oracle, images: &[Image]) -> (Vec<Judgement>, Option<Failure>) {
        self.count(|c| c.sims += 1);
        let mut sim = self.sim();
        sim.no_progress_limit = IDLE_MAX;
        let mut done = Vec::with_capacity(images.len() + 1);
        done.push(Judgement::default());
        let outcome = Sim::new(sim).run(|| {
            for image in images {
                // Time is what tells progress from a loop, and the limits of a state begin anew
                // with it.
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
        // A read-only mount leaves roll-forward undone; the overlay keeps its writes off the state.
        let read_only = self.config.stack.fs != Fs::F2fs;
        // And it is dropped, not unmounted: nothing may go on behind it.
        let options = self.config.mount_options().timers(None, None);
        let options = options.read_only(read_only);
        let mounted = Mounted::on(disk.clone(), options, vfs::WritebackPolicy::off())?;
        oracle.judge(&mounted.vfs, judgement);
        drop(mounted);
        if self.options.fsck {
            let mut report = self.fsck(|n| disk.block(n), true);
            // A read-only mount believes the backup of a torn superblock and leaves orphans where
            // they are (ext4-mount-M2): such a volume counts once a mount for writing has settled
            // it.
            if !report.words.is_empty() && (report.torn || report.orphans) {
                let (options, policy) = (self.config.mount_options(), vfs::WritebackPolicy::off());
                Mounted::on(disk.clone(), options, policy)?.unmount()?;
                report = self.fsck(|n| disk.block(n), false);
            }
            enter(&report, judgement);
        }
        Ok(())
    }

    /// What is wrong with a recovered volume. `in_use`: it was not unmounted.
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

    /// Judges one state by a mount that can be written.
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
    /// Its findings.
    words: Vec<String>,
    /// Among them a superblock that cannot be used.
    torn: bool,
    /// It has orphans that wait for a mount that may write.
    orphans: bool,
}

/// R4.
fn enter(report: &Report, judgement: &mut Judgement) {
    let words = report.words.iter();
    let words = words.map(|finding| format!("R4: varve fsck: {finding}"));
    judgement.violations.extend(words);
}
