//! Section 5.3: `git clone`, `cp -r` and `make` on a source tree, as operation lists on a synthetic
//! one ([`bench::tree`](work::workload::bench)).

use super::Plan;
use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Host, Measured};
use super::micro::OFTEN;
use super::scale::{CORES, FLAT_DEVICE};
use super::sized::gain;
use super::system::{Size, System};
use super::{published, xfs_rows};
use crate::PaperError;
use crate::{Experiment, Row, Section, number};
use work::RunConfig;

const FIGURE: &str = "5.3 commands";
const SYSTEMS: [System; 6] = [
    System::Checkpoint60,
    System::Checkpoint1,
    System::Checkpoint5Bg,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];
/// Systems that published values compare; commands also run on them with causes varied.
const COMPARED: [System; 3] = [System::Checkpoint60, System::F2fsj, System::Ext4];
/// CPU time of one compilation in microseconds: about that of a kernel's source on a fast core.
const COMPILE_US: u64 = 200_000;

base::words! {
    /// A command of the section.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Command {
        Clone => "git clone",
        Copy => "cp -r",
        Make => "make",
        MakeWithCpu => "make, 200 ms of compiler a source",
        CloneWithoutPack => "git clone, without the pack",
        CopyWithoutPack => "cp -r, without the pack",
    }
}

/// Number of source files in the paper's tree.
const PAPER_FILES: u32 = 74_000;

fn files(plan: &Plan) -> u32 {
    plan.pick(1500, 300, 40)
}

impl Command {
    fn systems(self) -> &'static [System] {
        match self {
            Command::Clone | Command::Copy | Command::Make => &SYSTEMS,
            _ => &COMPARED,
        }
    }

    /// The workload. The paper clones 4.7 GB and copies 3.9 GB of a kernel whose files have 1.2 GB,
    /// so the rest is the pack.
    fn workload(self, plan: &Plan) -> String {
        let files = files(plan);
        match self {
            Command::Clone => format!("tree:op=clone,files={files},pack=290"),
            Command::Copy => format!("tree:op=cp,files={files},pack=225"),
            Command::CloneWithoutPack => format!("tree:op=clone,files={files},pack=0"),
            Command::CopyWithoutPack => format!("tree:op=cp,files={files},pack=0"),
            Command::Make => format!("tree:op=make,files={files},build=30"),
            Command::MakeWithCpu => {
                format!("tree:op=make,files={files},build=30,cpu={COMPILE_US}")
            }
        }
    }

    /// The command with a cause varied, and the cause.
    fn varied(self) -> (Command, &'static str) {
        match self {
            Command::Clone | Command::CloneWithoutPack => {
                (Command::CloneWithoutPack, "the pack of the repository")
            }
            Command::Copy | Command::CopyWithoutPack => {
                (Command::CopyWithoutPack, "the pack of the repository")
            }
            Command::Make | Command::MakeWithCpu => {
                (Command::MakeWithCpu, "the compiler's own time")
            }
        }
    }

    /// The gain that the paper gives: `a` is F2FSJ's run.
    fn gain(self, a: &Measured, b: &Measured) -> (&'static str, f64) {
        let (what, found) = match self {
            Command::Clone | Command::CloneWithoutPack => ("speed", gain(b.seconds, a.seconds)),
            _ => ("time", gain(a.seconds, b.seconds)),
        };
        (what, found.unwrap_or(0.0))
    }

    fn job(self, plan: &Plan, system: System) -> BenchJob {
        let size = Size {
            shorter: PAPER_FILES / files(plan),
            ..plan.size()
        };
        BenchJob {
            run: RunConfig {
                stack: system.stack(FLAT_DEVICE, size, plan.seed),
                workload: self.workload(plan),
                seed: plan.seed,
                recording: None,
            },
            host: Host::cores(CORES),
        }
    }
}

/// The jobs: each command on each system.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |command: Command| {
        let systems = command.systems().iter();
        systems.map(move |system| Job::Bench(command.job(plan, *system)))
    };
    Command::ALL.into_iter().flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let of = |command: Command, system| measured(outcomes, &command.job(plan, system));
    let others = [System::Checkpoint60, System::Ext4];
    let mut rows = Vec::new();
    for command in [Command::Clone, Command::Copy, Command::Make] {
        for other in others {
            let (a, b) = (of(command, System::F2fsj)?, of(command, other)?);
            let (what, found) = command.gain(a, b);
            let (varied, cause) = command.varied();
            let (_, changed) = varied.gain(of(varied, System::F2fsj)?, of(varied, other)?);
            let item = format!("{}: {what}, F2FSJ over {}", command.word(), other.name());
            let published = table.get(FIGURE, &item, None);
            let row = Row::judged(published, found);
            let why = format!(
                "{}; {}; {}",
                why(command),
                parts(System::F2fsj, a),
                parts(other, b)
            );
            let experiment = Experiment::on(cause).with(varied.word(), changed);
            let mut row = row.because(&why).shown_by(published, experiment);
            if other == System::Checkpoint60 {
                let (_, often) = command.gain(a, of(command, System::Checkpoint1)?);
                let often = Experiment::on(OFTEN).with("after 1 s instead of 60", often);
                row = row.shown_by(published, often);
            }
            rows.push(row);
        }
    }
    for command in Command::ALL {
        let a = of(command, System::F2fsj)?;
        for &other in command.systems() {
            let judged = [Command::Clone, Command::Copy, Command::Make].contains(&command);
            let known = judged && others.contains(&other);
            if other == System::F2fsj || known {
                continue;
            }
            let found = gain(a.seconds, of(command, other)?.seconds).unwrap_or(0.0);
            let item = format!("{}: time, F2FSJ over {}", command.word(), other.name());
            rows.push(Row::ours(FIGURE, &item, "gain", found));
        }
    }
    rows.extend(xfs_rows(&table, FIGURE));
    Ok(Section {
        title: "5.3: commands on a source tree".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![seconds(plan, outcomes)?],
        plots: Vec::new(),
    })
}

fn seconds(plan: &Plan, outcomes: &Outcomes) -> Result<crate::Listed, PaperError> {
    let mut lines = Vec::new();
    for command in Command::ALL {
        let mut line = vec![command.word().to_string()];
        for system in SYSTEMS {
            line.push(match command.systems().contains(&system) {
                true => number(measured(outcomes, &command.job(plan, system))?.seconds),
                false => String::new(),
            });
        }
        lines.push(line);
    }
    let mut head = vec!["command".to_string()];
    head.extend(SYSTEMS.map(System::name));
    Ok(("Seconds".into(), head, lines))
}

/// Says what a run consisted of.
fn parts(system: System, found: &Measured) -> String {
    let blocks: u64 = found.blocks.values().sum();
    let data = found.blocks.get("data").copied().unwrap_or(0);
    format!(
        "{}: {} s, {} blocks of which {data} are data, {} s inside of checkpoints",
        system.name(),
        number(found.seconds),
        blocks,
        number(found.checkpoints.inside_s)
    )
}

fn why(command: Command) -> &'static str {
    match command {
        Command::Clone | Command::CloneWithoutPack => {
            "the paper's clone comes over a network, whose time is in it and not in ours; the pack is written once and synced, and the drive takes the \
             same time for it on each system"
        }
        Command::Copy | Command::CopyWithoutPack => {
            "most of the time is reading and writing content, which is the same on each system; the paper's tree fits its memory"
        }
        Command::Make | Command::MakeWithCpu => {
            "the paper does not say what part of its time waits for files; ours is the calls alone, most of them reads of headers in the cache"
        }
    }
}

const WORDS: [&str; 3] = [
    "Operation lists on a synthetic tree with the file sizes of a kernel (docs/use/workloads.md), fewer files than the 74,000 of the paper's kernel, and intervals as much shorter; the pack of the \
     repository makes up the 4.7 GB that are cloned and the 3.9 GB that are copied, in proportion.",
    "The programs' own CPU time is not charged, but in the row of make that says so; what part of the published times it is, is not published. The tree is in no cache when a run \
     begins; nothing is synced at the end.",
    "The drive has its SLC area off (docs/design/models.md, N7).",
];
