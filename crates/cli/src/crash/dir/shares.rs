//! A recording of `--dir` whose trees are judged in shares, by jobs of a campaign, and one report
//! of all of them.

use super::explore::{Measured, Trial};
use super::record::{self, Recorded};
use super::{Run, again, cost, judges, models, no_verdict};
use crate::args::CrashArgs;
use crate::campaign::share::{Found, Origin};
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::stop::Stop;
use ::program::explore::Verdicts;
use ::program::findings::text;
use ::program::record::save;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options that say what is done with a single recording at once.
fn check(args: &CrashArgs) -> Result<(), Failure> {
    let options = &args.program;
    let alone = [
        (options.show, "--show"),
        (options.lint, "--lint"),
        (options.github, "--github"),
        (options.state.is_some(), "--state"),
        (options.runs.get() > 1, "--runs"),
    ];
    if let Some((_, name)) = alone.iter().find(|(given, _)| *given) {
        return Err(usage(format!(
            "{name} is not for a plan: its jobs judge the states of one recording"
        )));
    }
    judges::given(args)?;
    models::check(&options.model).map_err(usage)?;
    cost::device(args).map(drop)
}

/// The file of the recording that a plan is made of: the one that is named, or one of the command,
/// which is kept under a name of its content, and the run. `name` makes that of its bytes.
///
/// # Errors
/// The command cannot be recorded; an option is not for a plan.
pub fn recording(
    args: &CrashArgs,
    name: impl Fn(&[u8]) -> PathBuf,
) -> Result<(PathBuf, Option<Origin>), Failure> {
    check(args)?;
    if let Some(file) = &args.program.recording {
        return Ok((file.clone(), None));
    }
    let command = args.run.as_deref().ok_or_else(|| {
        usage(
            "what to run is missing: say --run COMMAND, or --recording FILE for one that was kept",
        )
    })?;
    if let Some(file) = &args.program.keep {
        super::taken::check_kept(file)?;
    }
    let stop = Stop::watch()?;
    let Recorded {
        recording,
        notes,
        unmet,
    } = record::record(args, command, &stop)?;
    if let Some(fault) = unmet.first() {
        return Err(failed(format!(
            "--fail {fault}: no such call was made, so nothing is planned"
        )));
    }
    notes.iter().for_each(crate::failure::tell);
    let bytes = save(&recording).map_err(failed)?;
    let file = args.program.keep.clone().unwrap_or_else(|| name(&bytes));
    std::fs::write(&file, bytes).map_err(|e| failed(format!("{}: {e}", file.display())))?;
    let origin = Origin {
        run: command.into(),
        notes,
        kept: args.program.keep.is_some(),
    };
    Ok((file, Some(origin)))
}

/// What the trial of this recording costs.
///
/// # Errors
/// It cannot be read; the judge rejects what no cut has touched.
pub fn measured(args: &CrashArgs, file: &Path) -> Result<Measured, Failure> {
    let (run, stop) = (Run::read(file)?, Stop::watch()?);
    Trial::new(args, &stop, &run.recording, &run.notes)?.measured()
}

/// Judges the trees of a share, the one with this number from 0, of so many.
///
/// # Errors
/// As of `crash --dir`; a signal ended it.
pub fn share(args: &CrashArgs, file: &Path, index: u64, count: u64) -> Result<Found, Failure> {
    let (run, stop) = (Run::read(file)?, Stop::watch()?);
    let trial = Trial::new(args, &stop, &run.recording, &run.notes)?;
    let (explored, notes) = trial.share(index, count)?;
    match explored.complete {
        true => Ok(Found {
            trees: explored.verdicts.said(),
            notes,
        }),
        false => Err(failed("a signal ended it")),
    }
}

/// As before a run of one process: what others have made is not written over.
///
/// # Errors
/// Names of results are taken.
pub fn check_taken(folder: &Path) -> Result<(), Failure> {
    super::taken::check(folder)
}

/// What all shares together know.
#[derive(Default)]
pub struct Known {
    /// What was said of the trees.
    pub verdicts: Verdicts,
    /// What judges had to tell.
    pub notes: Vec<String>,
    /// The run that was recorded for the plan.
    pub origin: Option<Origin>,
}

/// Writes and prints the report of all shares, as `crash --dir` does of a recording.
///
/// # Errors
/// A state is bad; as of `crash --dir`.
pub fn report(
    args: &CrashArgs,
    file: &Path,
    known: Known,
    incomplete: Option<String>,
    out: &OutFolder,
) -> Result<(), Failure> {
    let (mut run, stop): (Run, Arc<Stop>) = (Run::read(file)?, Stop::watch()?);
    run.notes = known.origin.map_or_else(Vec::new, |origin| origin.notes);
    let trial = Trial::new(args, &stop, &run.recording, &run.notes)?;
    trial.tell_also(known.notes);
    let missing = incomplete.is_some();
    let (report, short) = trial
        .with(known.verdicts, incomplete)
        .run(&again(args, file), out)?;
    say(&text(&report))?;
    match short {
        Some(why) => Err(why),
        None if report.is_bad() => Err(failed(format!(
            "states are bad; {} has the findings",
            out.path().display()
        ))),
        None if !missing && !report.is_whole() => Err(no_verdict(failed(super::GAVE_UP))),
        None => Ok(()),
    }
}
