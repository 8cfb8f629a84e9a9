//! `varve crash --dir`: runs a program of the user on a volume of ours, records its system calls,
//! and judges what a cut may leave.

mod cost;
mod explore;
mod family;
mod judges;
mod keeper;
mod lacks;
mod models;
mod outside;
mod place;
mod record;
pub mod shares;
mod taken;

use crate::args::{AckArgs, CrashArgs};
use crate::failure::{Failure, failed, tell, usage};
use crate::out::{OutFolder, say};
use crate::stop::Stop;
use ::program::call::Recording;
use ::program::findings::{Report, github, text};
use ::program::record::{list, load, save, stacks_can_be_read};
use base::plain;
use explore::Trial;
use record::Recorded;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable that names the file of acknowledgements.
const ACKS_VARIABLE: &str = "VARVE_ACKS";

/// Runs `varve ack`.
pub fn ack(args: &AckArgs) -> Result<(), Failure> {
    let file = std::env::var_os(ACKS_VARIABLE).ok_or_else(|| {
        usage("$VARVE_ACKS is not set: `varve ack` is for commands of `varve crash --dir --run`")
    })?;
    if args.text.contains('\n') {
        return Err(usage("an acknowledgement is one line"));
    }
    let name = Path::new(&file).display();
    let of_file = |e: std::io::Error| failed(format!("{name}: {e}"));
    let mut acks = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .map_err(of_file)?;
    let line = format!("{}\n", args.text);
    acks.write_all(line.as_bytes()).map_err(of_file)
}

/// What a test says of the program.
enum Outcome {
    Holds,
    /// There are findings, in words.
    Findings(String),
}

/// Records, explores, reports. It fails if a state is bad, and in another way if the test came to
/// no verdict.
pub fn dir(args: &CrashArgs) -> Result<(), Failure> {
    let mut reports = Vec::new();
    let tested = tested(args, &mut reports);
    // What was found before a failure is told, too.
    let told = match args.json && !reports.is_empty() {
        true => as_json(&reports, args.program.runs.get() > 1).and_then(|text| say(&text)),
        false => Ok(()),
    };
    match (tested, told) {
        (Ok(Outcome::Holds), told) => told.map_err(no_verdict),
        (Ok(Outcome::Findings(words)), _) => Err(failed(words)),
        (Err(why), _) => Err(no_verdict(why)),
    }
}

/// The failure of a test that came to no verdict.
pub fn no_verdict(why: Failure) -> Failure {
    match why {
        Failure::Failed(why) => Failure::Broken(why),
        other => other,
    }
}

/// What the test says. Reports that are to be printed as JSON are put into `reports`.
fn tested(args: &CrashArgs, reports: &mut Vec<Report>) -> Result<Outcome, Failure> {
    let options = &args.program;
    // What options ask for is checked before anything runs.
    judges::given(args)?;
    models::check(&options.model).map_err(usage)?;
    cost::device(args)?;
    if options.backtrace {
        stacks_can_be_read().map_err(|why| usage(format!("--backtrace: {why}")))?;
    }
    if let Some(file) = &options.keep {
        taken::check_kept(file)?;
    }
    let out = OutFolder::prepare(&args.out)?;
    let writes_nothing = options.recording.is_some() && (options.show || options.lint);
    if !writes_nothing {
        taken::check(out.path())?;
    }
    let stop = Stop::watch()?;
    let runs = match &options.recording {
        Some(file) => vec![Run::read(file)?],
        None => {
            let recorded = recorded(args, &out, &stop);
            recorded.map_err(|why| broken(args, why, &out, reports))?
        }
    };
    if options.show || options.lint || options.state.is_some() {
        runs.iter().flat_map(|run| &run.notes).for_each(tell);
        runs.iter().filter_map(Run::untested).for_each(tell);
    }
    if options.show {
        let lists: Vec<String> = runs.iter().map(|run| list(&run.recording)).collect();
        return say(&lists.join("\n")).map(|()| Outcome::Holds);
    }
    let bad = results(args, &stop, &runs, reports)?;
    let folder = args.out.display();
    let words = match (bad, runs.len()) {
        (0, _) => return Ok(Outcome::Holds),
        _ if options.state.is_some() => "the state is bad".into(),
        _ if options.lint => "not everything was synced when it was promised".into(),
        (_, 1) => format!("states are bad; {folder} has the findings"),
        (n, runs) => format!("{n} of {runs} runs have bad states; {folder} has the findings"),
    };
    Ok(Outcome::Findings(words))
}

/// Writes that the test is broken in the place of results of an earlier run, which would be taken
/// for those of this one. What a signal ended is not broken.
fn broken(args: &CrashArgs, why: Failure, out: &OutFolder, reports: &mut Vec<Report>) -> Failure {
    let options = &args.program;
    let writes_none = options.show || options.lint || options.state.is_some();
    let Failure::Failed(words) = &why else {
        return why;
    };
    if writes_none {
        return why;
    }
    let run = args.run.as_deref().unwrap_or("a recording");
    let report = Report::broken(run, words);
    // Why there is no verdict matters more than that it could not be written.
    let _ = explore::written(&report, out);
    if options.github {
        let _ = say(&github(&report));
    }
    reports.push(report);
    why
}

/// A recording, the file that keeps it, and what is to be told of how it was made.
struct Run {
    file: PathBuf,
    recording: Recording,
    notes: Vec<String>,
    /// Faults that never came about.
    unmet: Vec<String>,
}

impl Run {
    /// What was asked for with `--fail` and not seen, if so.
    fn untested(&self) -> Option<String> {
        (!self.unmet.is_empty()).then(|| {
            format!(
                "--fail {}: no such call was made, so nothing is known of it; --show lists the calls",
                self.unmet.join(", ")
            )
        })
    }

    fn read(file: &Path) -> Result<Run, Failure> {
        let name = file.display();
        let bytes = std::fs::read(file).map_err(|e| failed(format!("{name}: {e}")))?;
        Ok(Run {
            file: file.into(),
            recording: load(&bytes).map_err(|e| failed(format!("{name}: {e}")))?,
            notes: Vec::new(),
            unmet: Vec::new(),
        })
    }
}

/// Explores all recordings and tells what was found; the number of bad ones. Reports that are to be
/// printed as JSON are put into `reports`.
fn results(
    args: &CrashArgs,
    stop: &Arc<Stop>,
    runs: &[Run],
    reports: &mut Vec<Report>,
) -> Result<usize, Failure> {
    let (mut bad, mut broke) = (0, None);
    for (nr, run) in runs.iter().enumerate() {
        let out = match runs.len() > 1 {
            true => {
                let out = OutFolder::prepare(&args.out.join(format!("run-{}", nr + 1)))?;
                taken::check(out.path())?;
                out
            }
            false => OutFolder::prepare(&args.out)?,
        };
        let why = match result(args, stop, run, &out, reports) {
            Ok(One::Holds) => continue,
            Ok(One::Bad) => {
                bad += 1;
                continue;
            }
            Ok(One::NoVerdict(why)) => failed(why),
            Err(why @ Failure::Failed(_)) => broken(args, why, &out, reports),
            Err(why) => return Err(why),
        };
        // What is found in other runs is found.
        broke.into_iter().for_each(tell);
        broke = Some(why);
    }
    match broke {
        Some(why) if bad > 0 => tell(why),
        Some(why) => return Err(why),
        None => {}
    }
    Ok(bad)
}

/// What one recording shows.
enum One {
    Holds,
    Bad,
    /// Not everything could be looked at, for this reason, and nothing is bad so far.
    NoVerdict(String),
}

/// One document: the report, or an array of those of several runs.
fn as_json(reports: &[Report], several: bool) -> Result<String, Failure> {
    let text = match reports {
        _ if several => serde_json::to_string_pretty(reports).map(|text| text + "\n"),
        [report] => Ok(report.json().map_err(failed)?),
        _ => Ok(String::new()),
    };
    Ok(plain::json(&text.map_err(failed)?))
}

/// Explores one recording and tells the result. It fails if there is no report.
fn result(
    args: &CrashArgs,
    stop: &Arc<Stop>,
    run: &Run,
    out: &OutFolder,
    reports: &mut Vec<Report>,
) -> Result<One, Failure> {
    let one = |is_bad| if is_bad { One::Bad } else { One::Holds };
    let told: Vec<String> = run.notes.iter().cloned().chain(run.untested()).collect();
    let trial = Trial::new(args, stop, &run.recording, &told)?;
    if let Some(state) = &args.program.state {
        let (words, is_bad) = trial.again(state, out)?;
        return say(&plain::message(&words)).map(|()| one(is_bad));
    }
    if args.program.lint {
        let words = trial.lint()?;
        return match words.is_empty() {
            true => say("everything was synced at each acknowledgement\n").map(|()| One::Holds),
            false => say(&plain::message(&(words.join("\n") + "\n"))).map(|()| One::Bad),
        };
    }
    let (mut report, short) = trial.run(&again(args, &run.file), out)?;
    let is_bad = report.is_bad();
    let short = match short {
        Some(Failure::Failed(why)) => Some(why),
        Some(signal) => {
            tell_report(args, report, reports)?;
            return Err(signal);
        }
        None => run.untested(),
    };
    let short = short.or((!report.is_whole()).then(|| GAVE_UP.into()));
    if !is_bad && short.is_some() {
        report.error.clone_from(&short);
        explore::written(&report, out)?;
    }
    let told = tell_report(args, report, reports);
    match (is_bad, short) {
        (true, short) => {
            short.into_iter().for_each(tell);
            told.unwrap_or_else(tell);
            Ok(One::Bad)
        }
        (false, Some(why)) => Ok(One::NoVerdict(why)),
        (false, None) => told.map(|()| One::Holds),
    }
}

const GAVE_UP: &str = "a model gave up, so that not everything was looked at";

/// Prints a report, or keeps it for one document of all.
fn tell_report(args: &CrashArgs, report: Report, reports: &mut Vec<Report>) -> Result<(), Failure> {
    let mut said = match args.json {
        true => Ok(()),
        false if args.program.github => say(&for_people(&text(&report))),
        false => say(&text(&report)),
    };
    if args.program.github {
        said = said.and(say(&github(&report)));
    }
    if args.json {
        reports.push(report);
    }
    said
}

/// A text for people, in which GitHub's runner looks for no commands: a judge may repeat what a
/// file holds. The word that ends this is a hash of the text, so the text cannot say it.
fn for_people(text: &str) -> String {
    let word = &crate::campaign::store::sum(text.as_bytes())[..32];
    format!("::stop-commands::{word}\n{text}\n::{word}::\n")
}

/// The command line that makes a state of this recording again, but for the state.
fn again(args: &CrashArgs, file: &Path) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let mut words = format!(
        "varve crash --dir --recording {}",
        quoted(&file.to_string_lossy())
    );
    let options = &args.program;
    let judges = args.judge.iter().map(|judge| ("--judge", judge));
    let checks = options.check.iter().map(|check| ("--check", check));
    let servers = options
        .check_server
        .iter()
        .map(|check| ("--check-server", check));
    for (option, text) in judges.chain(checks).chain(servers) {
        words.push_str(&format!(" {option} {}", quoted(text)));
    }
    words + " --state"
}

/// Runs the command as often as is asked for; each recording is kept.
fn recorded(args: &CrashArgs, out: &OutFolder, stop: &Arc<Stop>) -> Result<Vec<Run>, Failure> {
    let Some(command) = &args.run else {
        return Err(usage(
            "what to run is missing: say --run COMMAND, or --recording FILE for one that was kept",
        ));
    };
    let runs = args.program.runs.get();
    if runs > 1 && args.program.keep.is_some() {
        return Err(usage("--keep takes one recording: leave --runs out"));
    }
    let mut all = Vec::new();
    for nr in 1..=runs {
        let Recorded {
            recording,
            notes,
            unmet,
        } = record::record(args, command, stop)?;
        let name = match runs {
            1 => String::from("recording"),
            _ => format!("recording-{nr}"),
        };
        let file = (args.program.keep.clone()).unwrap_or_else(|| out.path().join(name));
        let bytes = save(&recording).map_err(failed)?;
        std::fs::write(&file, bytes).map_err(|e| failed(format!("{}: {e}", file.display())))?;
        all.push(Run {
            file,
            recording,
            notes,
            unmet,
        });
    }
    Ok(all)
}
