//! Everything about one crash state, made again from case and id: reports and `--repro` show it.

use super::chips;
use super::id::Id;
use super::report::{FindingReport, ShrunkReport};
use super::repro::{Repro, ReproError};
use super::rule_of;
use super::steps::{Level, Site};
use crate::CrashError;
use crate::Loss;
use crate::campaign::{self, State};
use crate::case::{Case, Setup, StateId, Volumes};
use crate::device::{Disk, Remains};
use crate::nand::{Filmed, NandPath, logical};
use crate::traced::trace;
use base::collections::mix;
use blockdev::spec::{Kind, Write};
use blockdev::trace::{Step, What};
use blockdev::{Image, Trace};
use rig::Mounted;
use rt::Sim;

/// A crash state with its judgement.
pub struct Dossier {
    /// The line that makes it again.
    pub repro: Repro,
    /// The id of the state.
    pub id: String,
    /// Violated rules; empty if all is well.
    pub violations: Vec<String>,
    /// What the cut took.
    pub loss: Loss,
    /// The operations that had begun before the cut, a line each.
    pub story: Vec<String>,
    /// The commands around each cut, from the run to the innermost recovery.
    pub steps: Vec<Level>,
    /// Bytes of the device.
    pub bytes: u64,
    /// What the cut left; of a modelled device what a host reads after it has come up again.
    pub before: Image,
    /// What stands there after recovery and unmount.
    pub after: Image,
    /// The device is a modelled one.
    pub modelled: bool,
    /// Why recovery or unmount failed, if it did. Then [`Dossier::after`] is what stood there at
    /// that point.
    pub unrecovered: Option<String>,
}

impl Dossier {
    /// Makes a state again and judges it.
    ///
    /// # Errors
    /// The case cannot be built or run, or has no such state.
    pub fn new(
        case: &Case,
        id: impl Into<Id>,
        volumes: &mut Volumes,
    ) -> Result<Dossier, CrashError> {
        let (id, setup) = (id.into(), case.setup(volumes)?);
        id.check(&setup).map_err(CrashError::Check)?;
        match &id {
            Id::Block(id) => Dossier::of_block(case, id, &setup),
            Id::Nand(path) => Dossier::of_chips(case, path, &setup, chips::film(&setup)?),
        }
    }

    /// Makes the state of a line again and judges it.
    ///
    /// # Errors
    /// The line is of another build, or names something that does not exist.
    pub fn rerun(line: &Repro, volumes: &mut Volumes) -> Result<Dossier, ReproError> {
        line.check_build()?;
        let case_error = |e: CrashError| ReproError::Case(e.to_string());
        let setup = line.case.setup(volumes).map_err(case_error)?;
        let state_error = |why: String| ReproError::State {
            state: line.state.clone(),
            why,
        };
        let id: Id = line.state.parse().map_err(state_error)?;
        id.check(&setup).map_err(state_error)?;
        // The run is compared first: numbers of states mean nothing in another run.
        let dossier = match &id {
            Id::Block(id) => {
                line.check_run(run_of(&setup).map_err(case_error)?)?;
                Dossier::of_block(&line.case, id, &setup)
            }
            Id::Nand(path) => {
                let filmed = chips::film(&setup).map_err(case_error)?;
                line.check_run(filmed.film.fingerprint())?;
                Dossier::of_chips(&line.case, path, &setup, filmed)
            }
        };
        dossier.map_err(|e| state_error(e.to_string()))
    }

    fn of_chips(
        case: &Case,
        path: &NandPath,
        setup: &Setup,
        filmed: Filmed,
    ) -> Result<Dossier, CrashError> {
        let run = filmed.film.fingerprint();
        let again = chips::again(setup, filmed, path)?;
        let before = again.before.unwrap_or_default();
        let remains = Remains::Media(Box::new(again.media));
        let (after, unrecovered) = recover(setup, &remains, &before);
        Ok(Dossier {
            repro: Repro::new(case, run, path),
            id: path.to_string(),
            loss: again.judgement.loss,
            violations: again.judgement.violations,
            story: again.story,
            steps: again.steps,
            bytes: setup.config.stack.bytes,
            before,
            after,
            modelled: true,
            unrecovered,
        })
    }

    fn of_block(case: &Case, id: &StateId, setup: &Setup) -> Result<Dossier, CrashError> {
        let (state, judgement) = campaign::judge(setup, id)?;
        let remains = Remains::Image(state.image.clone());
        let (after, unrecovered) = recover(setup, &remains, &state.image);
        let run = state.traces.first().map_or(0, fingerprint);
        Ok(Dossier {
            repro: Repro::new(case, run, id),
            id: id.to_string(),
            loss: judgement.loss,
            violations: judgement.violations,
            story: state.oracle.story(),
            steps: levels(id, &state),
            bytes: setup.config.stack.bytes,
            before: state.image,
            after,
            modelled: false,
            unrecovered,
        })
    }

    /// The rule that the first violation names.
    pub fn rule(&self) -> &str {
        rule_of(&self.violations)
    }

    /// True if the former content of the device is part of what is wrong.
    pub fn shows_stale(&self) -> bool {
        self.loss.foreign_data || self.violations.iter().any(|v| super::rule(v) == Some("O5"))
    }

    /// The finding for `results.json` and the page.
    pub fn report(&self) -> FindingReport {
        FindingReport {
            state: self.id.clone(),
            rule: self.rule().into(),
            violations: self.violations.clone(),
            loss: self.loss,
            line: self.repro.to_string(),
            story: self.story.clone(),
            steps: self.steps.clone(),
            shrunk: None,
            folder: None,
        }
    }

    /// The steps as a table for a terminal.
    pub fn steps_text(&self) -> String {
        let levels: Vec<String> = self.steps.iter().map(Level::to_string).collect();
        levels.join("\n")
    }
}

/// A state of a smaller case.
pub struct Shrunk {
    /// Everything about it.
    pub dossier: Dossier,
    /// Number of operations of its workload; `None` if it is no script.
    pub ops: Option<usize>,
    /// States that were judged to find it.
    pub states: u64,
    /// The search ended by itself, and not by its budget.
    pub complete: bool,
}

impl Shrunk {
    /// The smaller case for `results.json` and the page.
    pub fn report(&self) -> ShrunkReport {
        ShrunkReport {
            line: self.dossier.repro.to_string(),
            workload: self.dossier.repro.case.workload.clone(),
            ops: self.ops,
            state: self.dossier.id.clone(),
            violations: self.dossier.violations.clone(),
            steps: self.dossier.steps.clone(),
            states: self.states,
            complete: self.complete,
        }
    }
}

/// The fingerprint of the run of a case.
///
/// # Errors
/// The case does not run.
pub(super) fn run_of(setup: &Setup) -> Result<u64, CrashError> {
    if chips::is_modelled(setup) {
        return Ok(chips::film(setup)?.film.fingerprint());
    }
    let run = trace(&setup.config, &setup.volume, setup.subject.as_ref())?;
    Ok(fingerprint(&run.trace))
}

/// A digest of all commands with their times, addresses and classes. Equal runs have equal digests.
pub fn fingerprint(trace: &Trace) -> u64 {
    trace.steps.iter().fold(1, |sum, step| {
        let sum = add(sum, step.start.0);
        add(add(sum, step.end.0), of_step(step))
    })
}

fn add(sum: u64, word: u64) -> u64 {
    mix(sum.rotate_left(7) ^ word)
}

fn of_step(step: &Step) -> u64 {
    let classes = step.classes.iter().fold(0, |sum, c| add(sum, *c as u64));
    let one = |sum, write: &Write| {
        let kind = match write.kind {
            Kind::Normal => 1,
            Kind::Fua => 2,
            Kind::Through => 3,
            Kind::Discard => 4,
            Kind::Remap { durable } => 5 + u64::from(durable),
        };
        add(add(add(sum, kind), write.lba.0), write.sectors)
    };
    let what = match &step.what {
        What::Write(write) => one(5, write),
        What::Pack(writes) => writes.iter().fold(6, |sum, write| one(sum, write)),
        What::Remap(done) => {
            let sum = done.pairs.iter().fold(9, |sum, pair| add(sum, pair.src.0));
            done.writes.iter().fold(sum, |sum, part| one(sum, part))
        }
        What::Flush => 7,
        What::Barrier => 8,
    };
    add(classes, what)
}

fn levels(id: &StateId, state: &State) -> Vec<Level> {
    let numbers = id.0.iter().map(|(point, _)| *point);
    let cuts = state.traces.iter().zip(&state.cuts).zip(&state.images);
    let all = cuts.zip(numbers).enumerate();
    all.map(|(level, (((trace, at), image), point))| {
        let site = Site {
            of: match level {
                0 => "run".into(),
                1 => "recovery".into(),
                n => format!("recovery number {n}"),
            },
            point,
            at: *at,
            trace,
            image,
            told: match level {
                0 => state.oracle.timeline(),
                _ => Vec::new(),
            },
        };
        site.level()
    })
    .collect()
}

/// Mounts and unmounts, as the next life does. `image` is the answer if the device does not come
/// up.
fn recover(setup: &Setup, remains: &Remains, image: &Image) -> (Image, Option<String>) {
    let disk = match setup.volume.attach(remains, setup.config.seed) {
        Ok(disk) => disk,
        Err(e) => return (image.clone(), Some(e.to_string())),
    };
    let mut sim = setup.config.sim(setup.config.seed);
    sim.policy = rt::Policy::Fifo;
    sim.quiet = true;
    let outcome = Sim::new(sim).run(|| {
        let options = setup.config.mount_options();
        let mounted = Mounted::on(disk.device(), options, vfs::WritebackPolicy::off());
        let outcome = mounted.and_then(Mounted::unmount);
        if outcome.is_err() {
            // The content stays as it is; only what is under way ends.
            rt::power_cut();
        }
        outcome.map_err(|e| e.to_string())
    });
    let why = match (outcome.first_failure, outcome.value) {
        (_, Some(Err(why))) => Some(why),
        (Some(failure), _) => Some(failure.to_string()),
        _ => None,
    };
    match &disk {
        Disk::Spec(disk) => (disk.visible(), why),
        Disk::Modelled(device) => {
            let left = device.with_model(logical);
            (left.unwrap_or_else(|| image.clone()), why)
        }
    }
}
