//! What the parts of the eMMC report share: seed, length, device, and the standard runs.
//!
//! A part asks for its runs here, so that two parts that need the same run have it once. The
//! standard device is `emmc-odroid-xu4` of 2 GiB with a journal of 256 MiB, which is the paper's
//! size.

use super::cards::{Card, STANDARD};
use super::job::Job;
use super::own_time::{Of, OwnTime};
use crate::{Published, Row};
use rig::{Config, Preset};
use std::path::{Path, PathBuf};
use work::RunConfig;
use work::recording::apps::APPS;
use work::recording::read_with;

/// Device profile of every part that names no other.
pub const DEVICE: &str = "emmc-odroid-xu4";
/// Bytes of the standard device.
pub const BYTES: u64 = 2 << 30;
/// Size of the journal, MiB (paper, II.B).
pub const JOURNAL_MIB: u32 = 256;
/// Timing set of published device figures: writes, reads and transfers as measured on modules of
/// the board's kind, flush and reliable write chosen to fit the paper's sentences on Fig 8. Rows
/// that do not depend on time are made with it, too.
pub const FIG8: &str = "fig8";
/// Timing set that was fitted to the paper's own results.
pub const FIT: &str = "paper-fit";
/// Cause of what a recording gives that the paper's run of the app did not: how experiments name
/// it.
pub const OTHER_CALLS: &str = "the calls of another version and user of the app";
/// The trial of that cause.
pub const COUNTED: &str = "generated calls with the baseline's published counts";
/// What generates the calls of apps, as published.toml names it.
pub const GENERATOR: &str = "generator";
/// The paper's baseline.
pub const BASE: &str = "jbd2";
/// Journal coalition as the paper describes it (IV.A): a commit block only behind a transaction
/// that logs whole blocks.
pub const COALITION: &str = "coalition-paper";
/// Flush-ahead commit alone.
pub const AHEAD: &str = "flush-ahead";
/// Both ideas as the paper describes them.
pub const BOTH: &str = "emmc-paper";
/// Journal coalition as it is read where every transaction ends with a commit block. The paper's
/// text does not say so; its Fig 12 shows a wait for metadata and one for a commit block on the
/// optimised path.
pub const COALITION_ALWAYS: &str = "coalition-paper+commit-block=on";
/// [`COALITION_ALWAYS`] with flush-ahead.
pub const BOTH_ALWAYS: &str = "emmc-paper+commit-block=on";
/// What Linux offers today, and its record in our order. The paper is older than both.
pub const FAST: &str = "fast-commit";
/// See [`FAST`].
pub const FAST_ADAPTIVE: &str = "fast-commit+adaptive";
/// What they are called in rows.
pub const FAST_WORDS: &str = "fast commits of Linux";
/// See [`FAST_WORDS`].
pub const FAST_ADAPTIVE_WORDS: &str = "fast commits in the adaptive order";
/// The schemes of the paper, in its order.
pub const PAPER_SCHEMES: [&str; 4] = [BASE, COALITION, AHEAD, BOTH];

/// Marks a row of a scheme that is newer than the paper.
pub fn marked(row: Row, scheme: &str) -> Row {
    match scheme {
        FAST | FAST_ADAPTIVE => row.noted("not in the paper: fast commits came in 2020"),
        _ => row,
    }
}

/// Apps that have a recording, with the name of its file.
const RECORDED: [(&str, &str); 2] = [
    ("facebook", "mobibench-facebook.txt.gz"),
    ("twitter", "mobibench-twitter.txt.gz"),
];
const STANDS_IN: &str = "generator stands in for the recording";

/// Length of an app run in a full and in a quick report, seconds of its recording.
const SECONDS: (u64, u64) = (120, 20);

/// The file with the recording of an app, and its name in a workload; `None`: there is none.
pub fn recording(traces: Option<&Path>, app: &str) -> Option<(PathBuf, &'static str)> {
    let (_, file) = RECORDED.iter().find(|(name, _)| *name == app)?;
    let path = traces?.join(file);
    path.is_file().then_some((path, *file))
}

/// Refuses a folder of recordings from which a report would be made in silence without them: one
/// that has none, and a recording of which a line is at fault or in which nothing is synced.
///
/// # Errors
/// What is wrong, with the name of the file.
pub fn check_recordings(folder: &Path) -> Result<(), String> {
    let there = RECORDED.map(|(app, _)| recording(Some(folder), app));
    if there.iter().all(Option::is_none) {
        let [(_, one), (_, other)] = RECORDED;
        return Err(format!("there is neither {one} nor {other}"));
    }
    for (path, file) in there.into_iter().flatten() {
        let (recording, _) = read_with(&path, true).map_err(|e| e.to_string())?;
        if !recording.calls.iter().any(|call| call.op.is_sync()) {
            return Err(format!("{file} has no fsync; was it cut short?"));
        }
    }
    Ok(())
}

/// What a report runs, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// True for a quick report: fewer and shorter runs.
    pub quick: bool,
    /// Seed of every random stream.
    pub seed: u64,
    /// Folder of recordings, if there is one.
    pub traces: Option<PathBuf>,
    /// Length of an app run, seconds of its recording.
    pub seconds: u64,
    /// The timing sets of rows that depend on time.
    pub timings: [&'static str; 2],
}

/// When the calls of an application start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// At the recorded times: for characterisation.
    Recorded,
    /// After the application's own time multiplied by this factor: for performance.
    Busy(f64),
    /// One directly after the other.
    None,
}

impl Pace {
    /// The recorded own time of the application, without its pauses.
    pub const BUSY: Pace = Pace::Busy(1.0);

    fn words(self) -> String {
        match self {
            Pace::Recorded => "pace=recorded".into(),
            Pace::Busy(think) => format!("pace=busy,think={think}"),
            Pace::None => "pace=none".into(),
        }
    }
}

impl Plan {
    /// The plan of `varve paper emmc`.
    pub fn new(quick: bool, seed: u64, traces: Option<PathBuf>) -> Plan {
        Plan {
            quick,
            seed,
            traces,
            seconds: if quick { SECONDS.1 } else { SECONDS.0 },
            timings: [FIG8, FIT],
        }
    }

    /// The standard stack: [`DEVICE`] with [`BYTES`] and [`JOURNAL_MIB`].
    ///
    /// # Panics
    /// `scheme` names no scheme. Schemes are literals of the code.
    pub fn stack(&self, scheme: &str, timing: &str) -> Config {
        let mut stack = Config::new(Preset::default(), DEVICE, self.seed);
        stack
            .set_scheme(scheme)
            .expect("figures name schemes that are");
        stack.timing = Some(timing.into());
        stack.bytes = BYTES;
        stack.journal_blocks = Some(JOURNAL_MIB << 8);
        stack
    }

    /// The job that runs any workload on the standard stack.
    pub fn workload(&self, text: &str, scheme: &str, timing: &str) -> Job {
        self.on(self.stack(scheme, timing), text)
    }

    /// The job that runs any workload on any stack.
    pub fn on(&self, stack: Config, text: &str) -> Job {
        Job::Run(RunConfig {
            stack,
            workload: text.into(),
            seed: self.seed,
            recording: None,
        })
    }

    /// The job of the standard run of a generated app.
    pub fn app(&self, app: &str, scheme: &str, timing: &str, pace: Pace) -> Job {
        self.workload(&self.app_text(app, pace), scheme, timing)
    }

    /// The workload that [`Plan::app`] runs.
    pub fn app_text(&self, app: &str, pace: Pace) -> String {
        format!("app:{app},seconds={},{}", self.seconds, pace.words())
    }

    /// The eight apps, each followed by its recording where there is one.
    pub fn sources(&self) -> Vec<Source> {
        let mut all = Vec::new();
        for app in APPS {
            let recording = self.recording(app);
            let recorded = RECORDED.iter().any(|(name, _)| *name == app);
            all.push(Source {
                app,
                recording: None,
                note: (recorded && recording.is_none()).then_some(STANDS_IN),
            });
            if recording.is_some() {
                let note = None;
                all.push(Source {
                    app,
                    recording,
                    note,
                });
            }
        }
        all
    }

    /// The file with the recording of an app.
    fn recording(&self, app: &str) -> Option<PathBuf> {
        recording(self.traces.as_deref(), app).map(|(path, _)| path)
    }

    /// The job of the standard run of an app or of its recording.
    pub fn run(&self, source: &Source, scheme: &str, timing: &str, pace: Pace) -> Job {
        self.on_card(source, scheme, (&STANDARD, timing), pace)
    }

    /// The job of the standard run on another card.
    pub fn on_card(
        &self,
        source: &Source,
        scheme: &str,
        (card, timing): (&Card, &str),
        pace: Pace,
    ) -> Job {
        let mut config = self.unpaced(source, scheme, (card, timing));
        config.workload = format!("{},{}", config.workload, pace.words());
        Job::Run(config)
    }

    /// The job of an app with a given own time, on these schemes; the first is the baseline.
    pub fn own_time(
        &self,
        source: &Source,
        schemes: &[&str],
        on: (&Card, &str),
        share: f64,
    ) -> Job {
        let runs = schemes.iter().map(|s| self.unpaced(source, s, on));
        Job::OwnTime(OwnTime {
            runs: runs.collect(),
            share,
            of: Of::Recording,
        })
    }

    /// The run of an app or of its recording, without a pace in its workload.
    fn unpaced(&self, source: &Source, scheme: &str, (card, timing): (&Card, &str)) -> RunConfig {
        let file = source.recording.as_ref().and_then(|path| path.file_name());
        let workload = match file {
            None => format!("app:{},seconds={}", source.app, self.seconds),
            Some(name) => format!("replay:file={}", name.to_string_lossy()),
        };
        let mut stack = self.stack(scheme, timing);
        stack.device = card.device();
        RunConfig {
            stack,
            workload,
            seed: self.seed,
            recording: source.recording.clone(),
        }
    }
}

/// The source of the calls of an app: its generator or its recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Source {
    /// Name of the app.
    pub app: &'static str,
    /// File of its recording; `None` means the generator.
    pub recording: Option<PathBuf>,
    /// What a reader of the app's rows has to know.
    pub note: Option<&'static str>,
}

impl Source {
    /// The `of` of rows with this source.
    pub fn name(&self) -> String {
        match self.recording {
            None => self.app.into(),
            Some(_) => format!("{} (recording)", self.app),
        }
    }

    /// A shorter name, for plots.
    pub fn short(&self) -> String {
        match self.recording {
            None => self.app.into(),
            Some(_) => format!("{} rec.", self.app),
        }
    }

    /// True for the eight generated apps, over which a mean is taken.
    pub fn is_generated(&self) -> bool {
        self.recording.is_none()
    }

    /// The row of a value of this app beside the published one.
    pub fn row(&self, published: &Published, measured: f64) -> Row {
        self.mark(Row::judged(published, measured))
    }

    /// The row of a value of this app that the paper does not have.
    pub fn ours(&self, figure: &str, item: &str, unit: &str, measured: f64) -> Row {
        self.mark(Row::ours(figure, item, unit, measured))
    }

    fn mark(&self, row: Row) -> Row {
        let mut row = row.of(&self.name());
        if self.is_generated() {
            row = row.made_with(GENERATOR);
        }
        match self.note {
            Some(note) => row.noted(note),
            None => row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Work;

    #[test]
    fn the_same_run_has_the_same_key_and_another_has_not() {
        let plan = Plan::new(true, 1, None);
        let key = |scheme, timing, pace| plan.app("chrome", scheme, timing, pace).key();
        let one = key("jbd2", FIG8, Pace::BUSY);
        assert_eq!(one, key("jbd2", FIG8, Pace::Busy(1.0)));
        for other in [
            key("emmc", FIG8, Pace::BUSY),
            key("jbd2", FIT, Pace::BUSY),
            key("jbd2", FIG8, Pace::Busy(2.0)),
            key("jbd2", FIG8, Pace::Recorded),
            Plan::new(false, 1, None)
                .app("chrome", "jbd2", FIG8, Pace::BUSY)
                .key(),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn every_scheme_of_the_figures_stands_on_the_standard_device() {
        let plan = Plan::new(true, 1, None);
        let others = [COALITION_ALWAYS, BOTH_ALWAYS, "adaptive", "none"];
        let others = others.into_iter().chain([FAST, FAST_ADAPTIVE]);
        for scheme in PAPER_SCHEMES.into_iter().chain(others) {
            for timing in plan.timings {
                plan.stack(scheme, timing).check().unwrap();
            }
        }
    }
}
