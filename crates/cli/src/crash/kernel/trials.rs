//! `varve crash --kernel --workload`: sequences of the explorer, one after the other in the same
//! guests.

use super::kept::Keeping;
use super::table;
use crate::args::CrashArgs;
use crate::crash::bar;
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::stop::{Part, Stop};
use base::plain;
use clap::ValueEnum;
use crash::CrashError;
use crash::program::{Broken, Kernel, Room, Tried, knows};
use crash::subject::{self, FileScript, Spec};
use rig::Bound;
use std::time::Instant;

/// A fault of Linux that we know: what it is called in results.
pub const FIRST_FSYNC: &str = "f2fs-first-fsync";

/// What came of one sequence.
pub struct Row {
    /// The sequence.
    pub script: FileScript,
    /// What was found, or why it could not run.
    pub tried: Result<Tried, String>,
    /// The name of a fault that explains all that was found.
    pub known: Option<&'static str>,
    /// It was in the store.
    pub kept: bool,
}

impl Row {
    /// States that break a promise.
    pub fn bad(&self) -> u64 {
        self.tried.as_ref().map_or(0, |tried| tried.explored.bad)
    }

    /// States that were judged.
    pub fn states(&self) -> u64 {
        self.tried.as_ref().map_or(0, |tried| tried.explored.states)
    }
}

/// The sequences of all workloads and seeds that were asked for.
pub fn scripts(args: &CrashArgs, fs: &str) -> Result<Vec<FileScript>, Failure> {
    let of_run = [
        ("--setup", args.program.setup.is_some()),
        ("--check", args.program.check.is_some()),
        ("--write-log", args.write_log.is_some()),
    ];
    if let Some((option, _)) = of_run.iter().find(|(_, given)| *given) {
        return Err(usage(format!(
            "{option} is for --run; --workload is judged by the rules"
        )));
    }
    if !knows(fs) {
        return Err(usage(format!(
            "--fs {fs}: there are rules for ext4, ext3, f2fs, xfs and btrfs; say --run and --check for others"
        )));
    }
    let mut all = Vec::new();
    for text in &args.workload {
        for text in subject::expand(text).map_err(usage)? {
            let spec = Spec::parse(&text).map_err(usage)?;
            for seed in seeds(args, &spec) {
                let script = spec.fixed(seed).ok_or_else(|| {
                    usage(format!("--workload {text}: with --kernel its operations have to be known beforehand"))
                })?;
                all.push(script);
            }
        }
    }
    Ok(all)
}

/// The seeds that make a difference.
fn seeds(args: &CrashArgs, spec: &Spec) -> Vec<u64> {
    match spec {
        Spec::Script(_) => args.seed.iter().take(1).copied().collect(),
        _ => args.seed.clone(),
    }
}

/// Tries all sequences, reports; fails if one breaks a promise. What is kept is taken.
pub fn tried(
    args: &CrashArgs,
    scripts: Vec<FileScript>,
    kernel: &mut Kernel,
    (keeping, out): (Option<&Keeping>, &OutFolder),
    stop: &Stop,
) -> Result<(), Failure> {
    let (all, since) = (scripts.len(), Instant::now());
    let bar = bar(all);
    let mut rows: Vec<Row> = Vec::new();
    for script in scripts {
        let Some(row) = row(args, script, kernel, keeping, stop)? else {
            break;
        };
        rows.push(row);
        let bad: u64 = rows.iter().map(Row::bad).sum();
        bar.set_message(format!("{bad} bad states"));
        bar.inc(1);
    }
    if let Some(keeping) = keeping {
        keeping.settle()?;
    }
    bar.finish_and_clear();
    let part = stop.signal().filter(|_| rows.len() < all);
    let part = part.map(|signal| Part::new(signal, rows.len() as u64, all as u64, "sequences"));
    let mut results = table::results(args, &rows, since.elapsed(), |row| line(args, row));
    if let Some(part) = &part {
        results["incomplete"] = part.mark().into();
    }
    let results = format!("{results:#}\n");
    out.write("results.json", &results)?;
    match args.json {
        true => say(&plain::json(&results))?,
        false => {
            // Violations name what is found on a damaged volume.
            let text = table::text(&rows, since.elapsed(), |row| line(args, row));
            say(&plain::message(&text))?;
        }
    }
    match part {
        Some(part) => Err(part.kept_in(out.path())),
        None => verdict(&rows),
    }
}

/// What comes of a sequence, or came of it before; `None` if a signal ended it.
fn row(
    args: &CrashArgs,
    script: FileScript,
    kernel: &mut Kernel,
    keeping: Option<&Keeping>,
    stop: &Stop,
) -> Result<Option<Row>, Failure> {
    let began = Instant::now();
    if let Some((tried, known)) = keeping.map_or(Ok(None), |keeping| keeping.get(&script))? {
        let stopped = stop.signal().is_some();
        let (tried, kept) = (Ok(tried), true);
        return Ok((!stopped).then_some(Row {
            script,
            tried,
            known,
            kept,
        }));
    }
    let tried = one(args, &script, false, kernel, stop);
    let known = match &tried {
        Ok(tried) if only_lost(tried) => known(args, &script, kernel, stop),
        _ => None,
    };
    // What a signal broke off is no result.
    if stop.signal().is_some() {
        return Ok(None);
    }
    if let (Some(keeping), Ok(tried)) = (keeping, &tried) {
        keeping.put(&script, tried, known.is_some(), began)?;
    }
    Ok(Some(Row {
        script,
        tried: tried.map_err(|e| e.to_string()),
        known,
        kept: false,
    }))
}

fn one(
    args: &CrashArgs,
    script: &FileScript,
    decoy: bool,
    kernel: &mut Kernel,
    stop: &Stop,
) -> Result<Tried, CrashError> {
    let bound = Bound {
        prune: false,
        ..args.reach().bound()
    };
    let room = Room::new(args.memory << 20);
    kernel.try_script(script, decoy, (&bound, room), &|_, _| {
        stop.signal().is_none()
    })
}

/// Whether states are bad, and nothing but what a sync owes is broken in them: a volume that cannot
/// be mounted or checked, or that shows what never was, is another fault.
fn only_lost(tried: &Tried) -> bool {
    let mut rules = tried.broken.iter().flat_map(Broken::rules);
    // The first four rules of the oracle of files.
    let is_owed = |rule: &str| matches!(rule.as_bytes(), [b'O', b'1'..=b'4']);
    tried.explored.bad > 0 && rules.all(is_owed)
}

/// The fault that explains what a sequence has shown. In F2FS the first fsync behind a mount or a
/// checkpoint does not wait for its node; so if all is well as soon as the sync of another file
/// comes before each, it is that.
fn known(
    args: &CrashArgs,
    script: &FileScript,
    kernel: &mut Kernel,
    stop: &Stop,
) -> Option<&'static str> {
    if args.kernel.fs.as_deref() != Some("f2fs") {
        return None;
    }
    let again = one(args, script, true, kernel, stop).ok()?;
    (again.explored.bad == 0 && again.explored.states > 0).then_some(FIRST_FSYNC)
}

/// The command that shows again what a sequence has shown first.
fn line(args: &CrashArgs, row: &Row) -> Option<String> {
    let broken = row.tried.as_ref().ok()?.broken.first()?;
    let script = quoted(&format!("script:{}", broken.prefix));
    Some(format!("{} --workload {script}", options(args)))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The command without its workload: all that decides what is looked at.
pub fn options(args: &CrashArgs) -> String {
    let value = |value: Option<clap::builder::PossibleValue>| {
        value.map_or(String::new(), |v| v.get_name().to_string())
    };
    let machine = value(
        args.kernel
            .kernel
            .and_then(|engine| engine.to_possible_value()),
    );
    let mode = value(args.mode.to_possible_value());
    let mut line = format!(
        "varve crash --kernel {machine} --fs {} --size {} --mode {mode} --draws {} --subset {} --torn {} --states {}",
        args.kernel.fs.as_deref().unwrap_or_default(),
        args.program.size,
        args.draws,
        args.subset,
        args.torn,
        args.states,
    );
    if let Some(mkfs) = &args.kernel.mkfs {
        line += &format!(" --mkfs {}", quoted(mkfs));
    }
    if !args.kernel.mount.is_empty() {
        line += &format!(" --mount {}", args.kernel.mount);
    }
    line
}

fn verdict(rows: &[Row]) -> Result<(), Failure> {
    let failures = rows.iter().filter(|row| row.tried.is_err()).count();
    if failures > 0 {
        return Err(failed(format!(
            "{failures} of {} sequences did not run",
            rows.len()
        )));
    }
    if rows
        .iter()
        .all(|row| row.tried.as_ref().is_ok_and(|t| t.explored.writes == 0))
    {
        return Err(failed("nothing was written to the device"));
    }
    let bad = rows.iter().filter(|row| row.bad() > 0).count();
    let known = rows.iter().filter(|row| row.known.is_some()).count();
    match (bad, known) {
        (0, _) => say("no promise was broken\n"),
        (bad, 0) => Err(failed(format!(
            "{bad} of {} sequences break a promise",
            rows.len()
        ))),
        (bad, known) => Err(failed(format!(
            "{bad} of {} sequences break a promise, {known} of them by {FIRST_FSYNC}",
            rows.len()
        ))),
    }
}
