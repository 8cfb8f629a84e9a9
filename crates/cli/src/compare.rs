//! `varve compare`: runs one workload under several configurations and prints the results side by
//! side.

use crate::args::{CompareArgs, RunArgs, Timers};
use crate::campaign::shelf::Shelf;
use crate::campaign::task::Task;
use crate::failure::{Failure, failed, usage};
use crate::formats::Formats;
use crate::out::{OutFolder, say};
use crate::pool;
use crate::progress::{self, shown};
use crate::shell;
use crate::stop::{Part, Stop};
use crate::table;
use crate::worker::{self, Checked, Done, Job};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use paper::emmc::plan::PAPER_SCHEMES;
use report::causes::By;
use report::results::{Results, Run, SCHEMA};
use report::timeline::{Timeline, chrome_trace};
use rig::{Config, F2fsPreset, Fs, Model, Preset, Profile, Scheduler, Scheme, Writeback};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use work::RunConfig;
use work::workload::Workload;
use work::workload::bench::room;

/// Largest device that is accepted: a simulated device costs memory for what is written to it.
const MIB_RANGE: std::ops::RangeInclusive<u64> = 16..=64 * 1024;

/// The schemes of a comparison that names none.
const SCHEMES: [&str; 8] = [
    "jbd2",
    "coalition",
    "flush-ahead",
    "emmc",
    "adaptive",
    "fast-commit",
    "fast-commit+adaptive",
    "none",
];

/// Default schemes on a device that can remap: the modes of JFTL's figures, and the one that its
/// paper leaves out.
const SCHEMES_OF_REMAP: [&str; 6] = [
    "jbd2",
    "jftl",
    "jbd2+data=journal",
    "jftl+data=journal",
    "jbd2+data=writeback",
    "jftl+data=writeback",
];

/// Blocks of 4 KiB in a MiB.
const MIB_BLOCKS: u32 = 256;

/// Runs `varve compare`.
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let what = what(args)?;
    let shelf = args.store.as_deref().map(Shelf::open).transpose()?;
    run(&args.on, &what, shelf.as_ref())
}

/// What the command line of a comparison asks for.
fn what(args: &CompareArgs) -> Result<What, Failure> {
    let workload: Workload = args.workload.parse().map_err(usage)?;
    if let Workload::Replay(_) = workload {
        return Err(usage("a recording is in a file: varve replay FILE"));
    }
    Ok(What {
        command: "compare",
        words: format!(
            "varve compare --workload {}",
            shell::word(&workload.to_string())
        ),
        recording: None,
        by: None,
        workload,
    })
}

/// The runs of a comparison, without running them: for a plan, and for the report of what others
/// ran.
pub struct Comparison {
    args: RunArgs,
    what: What,
    configs: Vec<RunConfig>,
}

impl Comparison {
    /// All that the command line asks for, checked.
    ///
    /// # Errors
    /// As of [`compare`], before it runs anything.
    pub fn of(args: &CompareArgs) -> Result<Comparison, Failure> {
        let what = what(args)?;
        let args = RunArgs {
            schemes: ungrouped(&args.on.schemes),
            ..args.on.clone()
        };
        let configs = configs(&args, &what)?;
        Ok(Comparison {
            args,
            what,
            configs,
        })
    }

    /// The jobs, in the order of the results.
    pub fn jobs(&self) -> impl Iterator<Item = Job> {
        self.configs.iter().map(|config| Job {
            config: config.clone(),
            timeline: false,
            samples: false,
        })
    }

    /// The report of runs that were made of the jobs.
    pub fn results(&self, runs: Vec<Run>, incomplete: Option<String>) -> Results {
        results(&self.args, &self.what, &self.configs, runs, incomplete)
    }
}

/// What a command runs on each file system and scheme.
pub struct What {
    /// The subcommand.
    pub command: &'static str,
    /// The command line without the options in [`RunArgs`].
    pub words: String,
    /// The workload.
    pub workload: Workload,
    /// Where its recording is, if it has one.
    pub recording: Option<PathBuf>,
    /// What the causes of writes are told by, for a recording.
    pub by: Option<By>,
}

/// Runs each file system and scheme in a worker process, and reports.
pub fn run(args: &RunArgs, what: &What, shelf: Option<&Shelf>) -> Result<(), Failure> {
    let workload = &what.workload;
    let args = &RunArgs {
        schemes: ungrouped(&args.schemes),
        ..args.clone()
    };
    let configs = configs(args, what)?;
    let out = OutFolder::prepare(&args.out)?;
    // What cannot be written is said before anything runs.
    let trace = args.trace_out.as_deref().map(Trace::begin).transpose()?;
    let formats = Formats::begin(args)?;
    let jobs = pool::threads(args.jobs, configs.len());
    let stop = Stop::watch()?;
    let done = run_all(&stop, &configs, jobs, args, shelf)?;
    let part = stop.part(done.len(), configs.len(), "runs")?;
    let runs = done.iter().map(|d| d.run.clone()).collect();
    let results = results(args, what, &configs, runs, part.as_ref().map(Part::mark));
    out.write("results.json", &results.to_json())?;
    out.write("index.html", &report::page(&results))?;
    if let Some(trace) = trace {
        trace.write(&timelines(&done))?;
    }
    formats.write(&done, &results.reproduce)?;
    if args.json {
        say(&results.to_json())?;
    } else {
        let runs = &results.runs;
        let more = [table::kinds(runs), table::fsync_parts(runs)];
        say(&format!("{}\n", table::summary(runs)))?;
        for table in more.into_iter().flatten() {
            say(&format!("{table}\n"))?;
        }
        for (run, by) in runs.iter().zip(what.by.iter().cycle()) {
            say(&format!("{}\n", table::causes(run, *by)))?;
        }
        for answer in report::verdict::answers(runs) {
            say(&format!("{} {}\n", answer.asked, answer.answer))?;
        }
        for note in report::notes::told(runs) {
            say(&format!("note: {note}\n"))?;
        }
        let timing = runs.first().map_or("", |r| r.timing.as_str());
        let scheduler = configs.first().and_then(|c| c.stack.scheduler);
        let page = out.path().join("index.html");
        say(&format!(
            "gains are over the first row; times are those of the device, timing {timing}, I/O scheduler {}; docs/use/figures.md explains the figures\n\
             report: {}\nagain: {}\n",
            scheduler.unwrap_or_default(),
            page.display(),
            results.reproduce
        ))?;
    }
    judge(&done, workload, args.json)?;
    part.map_or(Ok(()), |part| Err(part.kept_in(out.path())))
}

fn results(
    args: &RunArgs,
    what: &What,
    configs: &[RunConfig],
    runs: Vec<Run>,
    incomplete: Option<String>,
) -> Results {
    Results {
        schema: SCHEMA,
        command: what.command.into(),
        seed: args.seed,
        profile: args.profile().into(),
        reproduce: reproduce(args, what, configs),
        incomplete,
        runs,
    }
}

/// The file of a time line.
struct Trace<'a> {
    path: &'a Path,
    file: File,
}

impl Trace<'_> {
    fn begin(path: &Path) -> Result<Trace<'_>, Failure> {
        let file = File::create(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        Ok(Trace { path, file })
    }

    fn write(mut self, runs: &[(String, Timeline)]) -> Result<(), Failure> {
        let written = self.file.write_all(chrome_trace(runs).as_bytes());
        written.map_err(|e| failed(format!("{}: {e}", self.path.display())))
    }
}

/// The time lines of runs, by their names.
fn timelines(done: &[Done]) -> Vec<(String, Timeline)> {
    let one = |d: &Done| {
        let name = format!("{}/{}", d.run.fs, d.run.scheme);
        d.timeline.clone().map(|timeline| (name, timeline))
    };
    done.iter().filter_map(one).collect()
}

/// One configuration per file system and scheme, everything validated before anything runs.
fn configs(args: &RunArgs, what: &What) -> Result<Vec<RunConfig>, Failure> {
    let profile = Profile::open(args.profile()).map_err(usage)?;
    let mib = args.size.unwrap_or(profile.capacity_bytes() >> 20);
    if !MIB_RANGE.contains(&mib) {
        let (low, high) = (MIB_RANGE.start(), MIB_RANGE.end());
        return Err(usage(format!(
            "--size {mib} MiB; it may be {low} to {high}"
        )));
    }
    if args.journal.is_some()
        && args.schemes.iter().all(|s| s == "none")
        && !args.schemes.is_empty()
    {
        return Err(usage(
            "--journal with `none` only, which has no journal; leave it out, or add another scheme",
        ));
    }
    let kinds =
        (args.fs.iter().map(|fs| fs.parse().map_err(usage))).collect::<Result<Vec<Fs>, _>>()?;
    for scheme in &args.schemes {
        homeless(scheme, &kinds)?;
    }
    let mut configs = Vec::new();
    for fs in kinds {
        for scheme in schemes(args, fs, &profile, mib)? {
            let mut stack = Config::new(Preset::default(), args.profile(), args.seed);
            stack.fs = fs;
            stack
                .set_scheme(&scheme)
                .map_err(|e| usage(with_comma_hint(e.to_string(), &scheme, &args.schemes)))?;
            (stack.timing, stack.bytes) = (args.timing.clone(), mib << 20);
            stack.timers = args.timers == Timers::On;
            (stack.scheduler, stack.writeback) = host(args, &profile)?;
            // Beside configurations with a journal, F2FS without one ignores the size; alone it
            // gets it, and is refused.
            let refused = args.fs.len() == 1 && !args.schemes.iter().any(|s| has_journal(s));
            let wanted = fs != Fs::F2fs || has_journal(&scheme) || refused;
            let journal = args.journal.filter(|_| wanted);
            stack.journal_blocks = journal.map(|mib| mib.saturating_mul(MIB_BLOCKS));
            stack.check().map_err(usage)?;
            let workload = what.workload.to_string();
            let config = RunConfig {
                stack,
                workload,
                seed: args.seed,
                recording: what.recording.clone(),
            };
            room::check(&config).map_err(usage)?;
            if configs.contains(&config) {
                let scheme = config.stack.scheme_text();
                return Err(usage(format!("{fs}/{scheme} is asked for twice")));
            }
            configs.push(config);
        }
    }
    Ok(configs)
}

/// The host: its I/O scheduler, which is that of the profile's Linux unless another one was asked
/// for, and when it writes back.
fn host(
    args: &RunArgs,
    profile: &Profile,
) -> Result<(Option<Scheduler>, Option<Writeback>), Failure> {
    let scheduler = match &args.scheduler {
        Some(text) => text.parse().map_err(usage)?,
        None => profile.scheduler(),
    };
    let writeback = args.writeback.as_ref().map(|text| text.parse());
    if args.writeback.is_some() && args.timers == Timers::Off {
        return Err(usage(
            "--writeback with --timers off, which ends write-back by time",
        ));
    }
    Ok((Some(scheduler), writeback.transpose().map_err(usage)?))
}

/// The scheme of a text, if it is one.
fn known(text: &str) -> Option<Scheme> {
    let mut config = Config::new(Preset::default(), "", 0);
    config.set_scheme(text).ok().map(|()| config.scheme)
}

/// True for a scheme of F2FS with a journal.
fn has_journal(text: &str) -> bool {
    matches!(known(text), Some(Scheme::F2fs(scheme)) if scheme.journal().is_some())
}

/// Refuses a scheme that none of the file systems knows.
fn homeless(scheme: &str, kinds: &[Fs]) -> Result<(), Failure> {
    // What cannot be read is refused with its reason later.
    let Some(known) = known(scheme) else {
        return Ok(());
    };
    if kinds.iter().any(|fs| known.fits(*fs)) {
        return Ok(());
    }
    let of = if known.fits(Fs::F2fs) {
        "F2FS: add --fs f2fs"
    } else {
        "ext4 and ext3: add --fs ext4"
    };
    Err(usage(format!("`{scheme}` is a scheme of {of}")))
}

/// The schemes with each group of them by its members: `paper` stands for the systems that the eMMC
/// paper compares.
pub fn ungrouped(schemes: &[String]) -> Vec<String> {
    let members = |scheme: &String| match scheme.as_str() {
        "paper" => PAPER_SCHEMES.map(String::from).to_vec(),
        _ => vec![scheme.clone()],
    };
    schemes.iter().flat_map(members).collect()
}

/// The schemes of a file system that were asked for, or those that say most of the device.
fn schemes(args: &RunArgs, fs: Fs, profile: &Profile, mib: u64) -> Result<Vec<String>, Failure> {
    if !args.schemes.is_empty() {
        let fits = |text: &&String| known(text).is_none_or(|s| s.fits(fs));
        let chosen: Vec<String> = args.schemes.iter().filter(fits).cloned().collect();
        if chosen.is_empty() {
            return Err(usage(format!(
                "none of the schemes is one of {fs}; leave {fs} out, or add one"
            )));
        }
        return Ok(chosen);
    }
    let device = profile.build(Some(mib << 20), None).map_err(usage)?;
    let names: Vec<&str> = match (fs, device.caps().remap) {
        (Fs::F2fs, _) => F2fsPreset::ALL.iter().map(|p| p.word()).collect(),
        (_, Some(_)) => SCHEMES_OF_REMAP.to_vec(),
        (_, None) => SCHEMES.to_vec(),
    };
    Ok(names.into_iter().map(String::from).collect())
}

/// Mount options have commas between the choices; here a comma begins another scheme.
fn with_comma_hint(why: String, scheme: &str, schemes: &[String]) -> String {
    let bare_choice = scheme.split('+').all(|item| item.contains('='));
    if bare_choice && schemes.len() > 1 {
        return format!(
            "scheme `{scheme}`: {why} (a comma begins another scheme, `+` joins the choices of one)"
        );
    }
    why
}

/// The command line that makes the same runs again, defaults spelled out, as a shell reads it.
fn reproduce(args: &RunArgs, what: &What, configs: &[RunConfig]) -> String {
    let unique = |words: Vec<String>| {
        let mut seen: Vec<String> = Vec::new();
        words.into_iter().for_each(|w| {
            if !seen.contains(&w) {
                seen.push(w);
            }
        });
        seen.join(",")
    };
    let fs = unique(configs.iter().map(|c| c.stack.fs.to_string()).collect());
    let schemes = unique(configs.iter().map(|c| c.stack.scheme_text()).collect());
    let timing = args
        .timing
        .as_ref()
        .map_or_else(String::new, |t| format!(" --timing {t}"));
    let journal = args
        .journal
        .map_or_else(String::new, |mib| format!(" --journal {mib}"));
    let timers = if args.timers == Timers::On {
        ""
    } else {
        " --timers off"
    };
    let scheduler = configs.first().and_then(|c| c.stack.scheduler);
    let scheduler = scheduler.map_or_else(String::new, |s| format!(" --scheduler {s}"));
    let writeback = args.writeback.as_ref();
    let writeback = writeback.map_or_else(String::new, |w| format!(" --writeback {w}"));
    format!(
        "{} --fs {fs} --device {} --schemes {schemes} --seed {} --size {}{journal}{timing}{scheduler}{writeback}{timers}",
        what.words,
        shell::word(args.profile()),
        args.seed,
        configs.first().map_or(0, |c| c.stack.bytes >> 20)
    )
}

/// Runs all configurations, `jobs` at once. The order of the results is that of the configurations;
/// after a signal those are missing that were not complete.
fn run_all(
    stop: &Stop,
    configs: &[RunConfig],
    jobs: usize,
    args: &RunArgs,
    shelf: Option<&Shelf>,
) -> Result<Vec<Done>, Failure> {
    let screen = MultiProgress::new();
    let bars: Vec<ProgressBar> = configs
        .iter()
        .map(|config| {
            if progress::draws() {
                screen.add(bar(config))
            } else {
                bar(config)
            }
        })
        .collect();
    let done = pool::each(configs, jobs, |n, config| {
        if stop.signal().is_some() {
            return None;
        }
        let job = Job {
            config: config.clone(),
            timeline: args.trace_out.is_some(),
            samples: Formats::wanted(args),
        };
        let done = one(stop, &job, shelf, |done, all| {
            bars[n].set_length(all);
            bars[n].set_position(done);
        });
        bars[n].finish();
        Some(done)
    });
    let done = done.into_iter().flatten();
    match stop.signal() {
        None => done.collect(),
        // What failed then, failed because of that.
        Some(_) => Ok(done.flatten().collect()),
    }
}

/// One run, in a worker process or from the store.
fn one(
    stop: &Stop,
    job: &Job,
    shelf: Option<&Shelf>,
    progress: impl Fn(u64, u64),
) -> Result<Done, Failure> {
    let stack = &job.config.stack;
    let what = format!("{}/{}", stack.fs, stack.scheme_text());
    let task = Task::compare(job);
    let text = Shelf::result(shelf, &task, || {
        worker::run_in_process(stop, "worker", &what, task.text(), progress)
    })?;
    serde_json::from_str(&text).map_err(|e| failed(format!("result of {what}: {e}")))
}

fn bar(config: &RunConfig) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix:>12} [{bar:40}] {pos}/{len} operations, {eta} left")
            .expect("the template is valid")
            .progress_chars("=> ");
    let bar = ProgressBar::new(0).with_style(style);
    let name = format!("{}/{}", config.stack.fs, config.stack.scheme_text());
    bar.set_prefix(name.clone());
    shown(&name, bar)
}

/// What the checkers said; findings are a failure of the command.
fn judge(done: &[Done], workload: &Workload, quiet: bool) -> Result<(), Failure> {
    let name = |d: &Done| format!("{}/{}", d.run.fs, d.run.scheme);
    for d in done {
        if let Checked::Findings(words) = &d.checked {
            return Err(failed(format!(
                "{} finds fault with {}:\n{words}",
                d.checker,
                name(d)
            )));
        }
    }
    if !quiet {
        let content = match workload {
            Workload::Sqlite(_) => "integrity_check ok, all rows as written",
            Workload::Fsync(_) | Workload::Files(_) | Workload::Bench(_) => {
                "names, sizes and content as written"
            }
            Workload::Replay(_) | Workload::App(_) => "names and sizes as recorded",
        };
        let checkers: BTreeSet<&str> = done.iter().map(|d| d.checker.as_str()).collect();
        let words = checkers.into_iter().map(|checker| {
            let mut its = done.iter().filter(|d| d.checker == checker);
            match its.all(|d| d.checked == Checked::Clean) {
                true => format!("{checker} clean"),
                false => format!("{checker} not installed, so the images were not checked by it"),
            }
        });
        let words = words.collect::<Vec<_>>().join(", ");
        say(&format!("checked after every run: {content}, {words}\n"))?;
    }
    Ok(())
}
