//! From a recording to its result: states, judges, findings, mends.

use super::keeper::Keeper;
use super::{cost, judges, models};
use crate::args::CrashArgs;
use crate::failure::{Failure, failed, tell, usage};
use crate::out::OutFolder;
use crate::progress::shown;
use crate::stop::{Part, Stop};
use ::program::apply::complete;
use ::program::call::Recording;
use ::program::device;
use ::program::explain::explain;
use ::program::explore::{Ask, Bad, Explored, Job, OfModel, Progress, Verdicts, explore};
use ::program::findings::{
    Context, Finding, Report, Told, gather, junit, of_device, page, plainly, save_trees,
};
use ::program::judge::process::Patience;
use ::program::judge::{JudgeSpec, Settings, build, fits, place};
use ::program::lint::lint;
use ::program::mend::{Suggestion, Terms, suggest};
use ::program::posix::Posix;
use ::program::state::{Bound, GoOn, Judge, Model, Verdict, acknowledged};
use base::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Where syncs of SQLite are chosen.
const SQLITE: &str =
    "mend: the syncs of SQLite are its own: PRAGMA synchronous=EXTRA makes those that it needs";

/// Why findings of model `device` have no mend.
const OF_DEVICE: &str = "mend: what model device finds is there without any cut: no sync mends it, only what the program does with the error";

/// Groups of bad states of which one is kept, for each model.
const GROUPS_MAX: usize = 64;

/// How often a tree is judged to see how long that takes.
const JUDGED: usize = 3;

/// What a trial costs, in seconds on one core.
pub struct Measured {
    /// Distinct trees.
    pub trees: u64,
    /// To make them.
    pub making: f64,
    /// To judge one.
    pub judging: f64,
}

/// What is needed to explore a recording.
pub struct Trial<'a> {
    args: &'a CrashArgs,
    stop: &'a Arc<Stop>,
    recording: &'a Recording,
    models: Vec<Box<dyn Model>>,
    posix: Posix,
    specs: Vec<JudgeSpec>,
    settings: Settings,
    bound: Bound,
    /// What the report says beside the findings.
    notes: Vec<String>,
    /// What is known of trees before, and which others are judged.
    known: Verdicts,
    ask: Ask,
    /// Why not everything is known, if not.
    incomplete: Option<String>,
    /// The folder of the judges' folders, and who removes it if nobody is left to.
    _room: tempfile::TempDir,
    _keeper: Option<Keeper>,
}

impl<'a> Trial<'a> {
    /// Puts together what options ask for.
    pub fn new(
        args: &'a CrashArgs,
        stop: &'a Arc<Stop>,
        recording: &'a Recording,
        told: &[String],
    ) -> Result<Trial<'a>, Failure> {
        let models = models::models(&args.program.model, recording.has_failures());
        let mut models = models.map_err(usage)?;
        let asked = Arc::clone(stop);
        let go_on: GoOn = Arc::new(move || asked.signal().is_none());
        models
            .iter_mut()
            .for_each(|model| model.while_asked(&go_on));
        let jobs = crate::pool::threads(args.jobs, usize::MAX);
        let temp = std::env::temp_dir();
        let bytes = (args.program.size << 20).saturating_mul(jobs as u64);
        let (folder, _) = place(Path::new("/dev/shm"), &temp, bytes);
        let room = tempfile::Builder::new()
            .prefix("varve-judges-")
            .tempdir_in(&folder);
        let room = room.map_err(|e| failed(format!("{}: {e}", folder.display())))?;
        let mut keeper = Keeper::start();
        if let Some(keeper) = &mut keeper {
            keeper.folder(room.path());
        }
        let asked = Arc::clone(stop);
        let settings = Settings {
            place: room.path().into(),
            patience: Patience {
                timeout: Nanos(args.timeout.saturating_mul(1_000_000_000)),
                stop: Arc::new(move || asked.signal().is_some()),
            },
            notes: Arc::default(),
        };
        let mut notes = vec![String::from(
            "one recording is one schedule of the program; --runs N records several",
        )];
        notes.extend(of_mappings(recording));
        notes.extend(told.iter().cloned());
        let mut specs = judges::given(args)?;
        for spec in &specs {
            fits(spec, recording).map_err(usage)?;
        }
        if specs.is_empty() {
            specs = judges::fitting(recording, &settings);
            let found = specs.iter().map(ToString::to_string).collect::<Vec<_>>();
            notes.push(match found.is_empty() {
                true => {
                    "without --check, --check-server or --judge every tree is taken for good".into()
                }
                false => format!(
                    "no judge was named; by the files that are there: {}",
                    found.join("; ")
                ),
            });
        }
        Ok(Trial {
            args,
            stop,
            recording,
            posix: models::rules(&models),
            models,
            specs,
            settings,
            bound: Bound {
                states_max: args.states.into(),
                total_max: args.program.states_total,
                parts_max: args.subset as usize,
            },
            notes,
            known: Verdicts::default(),
            ask: Ask::All,
            incomplete: None,
            _room: room,
            _keeper: keeper,
        })
    }

    /// The same with what shares have judged, and nothing else; `incomplete` says what lacks of it.
    #[must_use]
    pub fn with(self, known: Verdicts, incomplete: Option<String>) -> Trial<'a> {
        Trial {
            known,
            ask: Ask::Nobody,
            incomplete,
            ..self
        }
    }

    /// Adds what judges of other processes had to tell.
    pub fn tell_also(&self, notes: Vec<String>) {
        self.settings.notes.lock().extend(notes);
    }

    /// Judges the trees of one share, the one with this number from 0, of so many; and what the
    /// judges had to tell.
    pub fn share(mut self, index: u64, count: u64) -> Result<(Explored, Vec<String>), Failure> {
        self.ask = Ask::Share { index, count };
        let explored = self.unbroken()?;
        let notes = self.settings.notes.lock().iter().cloned().collect();
        Ok((explored, notes))
    }

    /// What it costs to make all trees and to judge one. The trees before and after the run are
    /// judged, so that a judge that rejects these is known before anything is planned.
    pub fn measured(mut self) -> Result<Measured, Failure> {
        self.ask = Ask::Nobody;
        let began = Instant::now();
        let explored = self.unbroken()?;
        if !explored.complete {
            return Err(failed(
                "the trees were not made to their end, so nothing is planned",
            ));
        }
        let making = began.elapsed().as_secs_f64();
        let mut judge = self.judge().map_err(failed)?;
        let (after, told) = (
            complete(self.recording),
            acknowledged(self.recording, self.recording.calls.len()),
        );
        // The first time it may have to read its program from a disk.
        let mut seconds = f64::INFINITY;
        for _ in 0..JUDGED {
            let began = Instant::now();
            judge.judge(&after, &told).map_err(failed)?;
            seconds = seconds.min(began.elapsed().as_secs_f64());
        }
        Ok(Measured {
            trees: explored.trees,
            making,
            judging: seconds,
        })
    }

    fn judge(&self) -> Result<Box<dyn Judge>, ::program::state::JudgeError> {
        build(&self.specs, self.recording, &self.settings)
    }

    /// What was unsynced at acknowledgements.
    pub fn lint(&self) -> Result<Vec<String>, Failure> {
        let lints = lint(&self.posix, self.recording).map_err(failed)?;
        Ok(lints.iter().map(ToString::to_string).collect())
    }

    /// Explores, and writes the result into the folder. Beside the report it answers why the report
    /// has not all that was asked for, if that is so.
    pub fn run(
        mut self,
        again: &str,
        out: &OutFolder,
    ) -> Result<(Report, Option<Failure>), Failure> {
        let explored = self.explored()?;
        self.notes.extend(left_out(&explored));
        let signal = self.stop.signal().filter(|_| !explored.complete);
        let part = signal.map(|signal| Part::of_unknown(signal, explored.judged, "trees"));
        let mut short = part.as_ref().map(|part| part.kept_in(out.path()));
        // What a judge found before it broke stays found, and the report says that it is a part.
        if let Some(why) = &explored.broken {
            self.incomplete = Some(format!(
                "{why}; {} trees were judged by then",
                explored.judged
            ));
            short = short.or_else(|| Some(failed(why)));
        }
        let findings = self.explained(&explored);
        if self.args.program.suggest && explored.complete {
            match self.suggested() {
                Ok(words) => self.notes.extend(words),
                // What was found stays found.
                Err(why) => {
                    let (note, why) = self.without_suggestion(why, out);
                    self.notes.push(note);
                    short = Some(why);
                }
            }
        }
        self.notes
            .extend(self.settings.notes.lock().iter().cloned());
        let context = Context {
            run: self
                .args
                .run
                .clone()
                .unwrap_or_else(|| "a recording".into()),
            judges: self.specs.iter().map(ToString::to_string).collect(),
            again: again.into(),
            lint: self.lint()?,
            notes: std::mem::take(&mut self.notes),
            incomplete: part.as_ref().map(Part::mark).or(self.incomplete.take()),
        };
        let report = Report::new(context, self.recording, &explored, &findings);
        written(&report, out)?;
        self.save_findings(&findings, out)?;
        Ok((report, short))
    }

    /// What to say in the report and at the end if the search for syncs has failed.
    fn without_suggestion(&self, why: Failure, out: &OutFolder) -> (String, Failure) {
        match self.stop.signal() {
            // What fails then, fails because of that.
            Some(signal) => {
                let name = crate::stop::name(signal);
                let folder = out.path().display();
                let kept = format!(
                    "the findings are complete, {folder} has them; syncs were not suggested"
                );
                (
                    format!("--suggest: {name} came before an answer was found"),
                    Failure::Stopped(signal, kept),
                )
            }
            None => (format!("--suggest: {why}"), why),
        }
    }

    /// The exploration, of which nothing counts if a judge broke.
    fn unbroken(&self) -> Result<Explored, Failure> {
        let mut explored = self.explored()?;
        explored
            .broken
            .take()
            .map_or(Ok(explored), |why| Err(failed(why)))
    }

    fn explored(&self) -> Result<Explored, Failure> {
        let job = Job {
            recording: self.recording,
            models: &self.models,
            bound: &self.bound,
            jobs: crate::pool::threads(self.args.jobs, usize::MAX),
            groups_max: GROUPS_MAX,
            known: &self.known,
            ask: self.ask,
        };
        let bar = bar();
        let go_on = |progress: Progress| {
            bar.set_position(progress.states);
            bar.set_message(format!("{} trees, {} bad", progress.judged, progress.bad));
            self.stop.signal().is_none()
        };
        let explored = explore(&job, &|| self.judge(), &go_on);
        bar.finish_and_clear();
        explored.map_err(|e| match self.stop.signal() {
            // What fails then, fails because of that.
            Some(signal) => {
                Failure::Stopped(signal, "nothing was judged, nothing is written".into())
            }
            None => failed(e),
        })
    }

    /// Findings with their reasons; without one where the judge cannot be asked again.
    fn explained(&self, explored: &Explored) -> Vec<Finding> {
        let mut judge = None;
        gather(explored, &mut |model, bad: &Bad| {
            if explored.models[model].name == device::NAME {
                return of_device(self.recording, bad);
            }
            if self.stop.signal().is_some() {
                return plainly(bad);
            }
            if judge.is_none() {
                judge = self.judge().ok().map(|judge| explored.remembering(judge));
            }
            let Some(judge) = &mut judge else {
                return plainly(bad);
            };
            let mut judging = |tree: &_, told: &[&str]| judge.judge(tree, told);
            match explain(&self.posix, self.recording, &bad.state, &mut judging) {
                Ok(found) => Told {
                    mend: found.mend(self.recording),
                    key: found.key,
                    sentence: found.sentence,
                    why: found.why,
                    state: found.state,
                    lost: found.lost,
                    kept: found.kept,
                    promise: found.promise,
                    lacks: found.lacks.iter().map(ToString::to_string).collect(),
                    without_cut: false,
                },
                Err(e) => {
                    tell(format!("a finding without its reason: {e}"));
                    plainly(bad)
                }
            }
        })
    }

    /// Syncs to add and to leave out, in words.
    fn suggested(&self) -> Result<Vec<String>, Failure> {
        let mut judge = self.judge().map_err(failed)?;
        // No sync mends what is there without any cut.
        let models = self.models.iter().map(AsRef::as_ref);
        let models: Vec<&dyn Model> = models.filter(|m| m.name() != device::NAME).collect();
        if models.is_empty() {
            return Ok(vec![OF_DEVICE.into()]);
        }
        let go_on = || self.stop.signal().is_none();
        let terms = Terms {
            recording: self.recording,
            models: &models,
            bound: &self.bound,
            posix: &self.posix,
            go_on: &go_on,
        };
        let found = suggest(&terms, &mut |tree, told| judge.judge(tree, told));
        let found = found.map_err(failed)?;
        let cost = cost::words(self.recording, &found, cost::device(self.args)?);
        let Suggestion {
            added,
            unmended,
            needless,
            ..
        } = found;
        let mut words: Vec<String> = Vec::new();
        let others = match unmended.is_empty() {
            true => "",
            false => ", for the other findings",
        };
        words.extend(added.iter().map(|add| format!("mend: add {add}{others}")));
        words.extend(
            unmended
                .iter()
                .map(|left| format!("no added sync mends this recording: {}", left.sentence)),
        );
        let sqlite = |spec: &JudgeSpec| matches!(spec, JudgeSpec::Sqlite(_));
        if !(added.is_empty() && unmended.is_empty()) && self.specs.iter().any(sqlite) {
            words.push(SQLITE.into());
        }
        if self.models.iter().any(|model| model.name() == device::NAME) {
            words.push(OF_DEVICE.into());
        }
        words.extend(needless.iter().map(|sync| format!("sync: {sync}")));
        if words.is_empty() {
            words.push("mend: nothing is to be added or left out".into());
        }
        words.extend(cost.map_err(|e| failed(format!("the cost of the syncs: {e}")))?);
        Ok(words)
    }

    fn save_findings(&self, findings: &[Finding], out: &OutFolder) -> Result<(), Failure> {
        for (finding, number) in findings.iter().zip(1..) {
            let folder = out.path().join(format!("finding-{number}"));
            // That of an earlier result.
            let _ = std::fs::remove_dir_all(&folder);
            let made = std::fs::create_dir_all(&folder);
            made.map_err(|e| failed(format!("{}: {e}", folder.display())))?;
            save_trees(self.recording, finding, &folder).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes one state again and judges it; what is to be told, and whether it is bad.
    pub fn again(&self, text: &str, out: &OutFolder) -> Result<(String, bool), Failure> {
        let state = models::again(self.recording, text).map_err(usage)?;
        let told = acknowledged(self.recording, self.recording.calls.len());
        let told = &told[..state.acknowledged.min(told.len())];
        let mut judge = self.judge().map_err(failed)?;
        let verdict = judge.judge(&state.tree, told).map_err(failed)?;
        let folder = out.path().join("state");
        let _ = std::fs::remove_dir_all(&folder);
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|e| failed(format!("{}: {e}", folder.display())))?;
        ::program::judge::folder::save(&state.tree, &folder.join("after"), &folder)
            .map_err(failed)?;
        let lost: Vec<String> = state
            .lost
            .iter()
            .map(|part| format!("lost: {part}\n"))
            .collect();
        let head = format!(
            "{} calls, {} acknowledgements; the tree is in {}\n{}",
            state.calls,
            state.acknowledged,
            folder.join("after").display(),
            lost.concat()
        );
        Ok(match verdict {
            Verdict::Good => (format!("{head}good\n"), false),
            Verdict::Bad(why) => (format!("{head}bad: {why}\n"), true),
        })
    }
}

/// Writes a report as files.
pub fn written(report: &Report, out: &OutFolder) -> Result<(), Failure> {
    out.write("results.json", &report.json().map_err(failed)?)?;
    out.write("junit.xml", &junit(report).map_err(failed)?)?;
    out.write("index.html", &page(report))
}

/// What the bound left out, by model: what is said to hold, holds for the states that were made.
fn left_out(explored: &Explored) -> Option<String> {
    let left = |model: &OfModel| model.counts.beyond > 0;
    let models = explored.models.iter().filter(|model| left(model));
    let models: Vec<String> = models
        .map(|model| format!("{} of {}", model.counts.beyond, model.name))
        .collect();
    (!models.is_empty()).then(|| {
        format!(
            "not all states were made, at most {} were left out: --states and --states-total make more, a shorter run needs fewer",
            models.join(", ")
        )
    })
}

/// What is not looked at of a program that writes through shared mappings.
fn of_mappings(recording: &Recording) -> Option<String> {
    let count = recording.written_back();
    (count > 0).then(|| {
        format!(
            "{count} writes are pages of shared mappings that the kernel wrote back, at the latest at an msync; it may write a page sooner, as soon as a store has changed it, and states with that are not among those that were looked at"
        )
    })
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{pos} states, {msg}, {elapsed}")
        .expect("the template is valid");
    shown("crash", ProgressBar::new_spinner().with_style(style))
}
