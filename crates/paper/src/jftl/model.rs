//! The time model: one die does one operation at a time, so a run takes the sum of its chip
//! operations, and bandwidths follow by arithmetic from counts.
//!
//! A 4 KiB block is 8 pages of 120 us (100 us program, 20 us transfer); in steady state each page
//! also carries 1/32 of an erase of 2 ms.

use super::job::{Job, Outcomes, run_of};
use super::measure::{blocks, ratio};
use super::plan::{Mode, Plan};
use super::published;
use crate::PaperError;
use crate::{Row, Section, number};
use report::results::{Flash, Run};

const FIGURE: &str = "Model";
/// Program and transfer of a page of 512 bytes, seconds (nandsim with the values of the paper).
pub const PROGRAM_S: f64 = 120e-6;
/// Read and transfer of a page of 512 bytes, seconds.
pub const READ_S: f64 = 50e-6;
/// Erase of a block, seconds.
pub const ERASE_S: f64 = 2e-3;
/// Pages of a 4 KiB block.
const PAGES: u64 = 8;
/// Size of the journal, MiB, for large transactions.
const JOURNAL_MIB: u32 = 32;
/// Number of tags that a descriptor of JBD holds, which has no checksums.
const TAGS_JBD: f64 = 506.0;

const MODES: [Mode; 3] = [Mode::Ordered, Mode::Journaled, Mode::JournaledJftl];

/// The state of the device before a run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Fresh,
    Steady,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Fresh => "fresh device",
            State::Steady => "steady state without copies",
        }
    }
}

fn job(plan: &Plan, state: State, mode: Mode) -> Job {
    let mib: u32 = plan.pick(48, 24);
    let text = match state {
        State::Fresh => format!("bonnie:phase=block,mib={mib}"),
        // The writes are in order, so that erase blocks become invalid as a whole; they go on until
        // each block that is written has been erased before.
        State::Steady => {
            let warm =
                (3 * super::plan::BYTES / (u64::from(mib) << 20) + 1) * (u64::from(mib) << 8);
            let fill = "order=sequential,fill=write";
            format!("jobs:file={mib}m,warm={warm},every=0,{fill}")
        }
    };
    // The arithmetic has no processor; one per cent of the table is the least that a host may cost.
    let mut stack = plan.stack(mode);
    stack.device = format!("{},host.cpu_percent=1", stack.device);
    Job::Run(plan.config(super::recovery::untimed(stack, JOURNAL_MIB), &text))
}

/// The jobs: large transactions on a fresh device and in steady state.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |state| MODES.map(|mode| job(plan, state, mode));
    [State::Fresh, State::Steady]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// The parts of the time of a run, seconds.
struct Parts {
    host: f64,
    erases: f64,
    map: f64,
    copies: f64,
    reads: f64,
    all: f64,
}

impl Parts {
    fn of(run: &Run) -> Parts {
        let none = Flash::default();
        let flash = run.flash.as_ref().unwrap_or(&none);
        let copies = (PAGES * flash.gc_copies) as f64;
        Parts {
            host: super::measure::host_programs(run) as f64 * PROGRAM_S,
            erases: flash.erases as f64 * ERASE_S,
            map: flash.map_programs as f64 * PROGRAM_S,
            copies: copies * PROGRAM_S,
            reads: flash.reads as f64 * READ_S,
            all: run.virtual_seconds,
        }
    }

    /// Time that the host's own blocks cause: their programs, and in steady state their erases.
    fn caused(&self, state: State) -> f64 {
        let erases = match state {
            // Our layer erases each block when it opens it, also fresh from the factory; the
            // model's fresh device does not.
            State::Fresh => self.erases,
            State::Steady => 0.0,
        };
        self.all - self.map - self.copies - self.reads - erases
    }

    fn sum(&self) -> f64 {
        self.host + self.erases + self.map + self.copies + self.reads
    }
}

/// File content per time that the host's blocks cause, MB/s.
fn caused_rate(state: State, run: &Run) -> f64 {
    let content = run.mb_per_s.unwrap_or(0.0) * run.virtual_seconds;
    ratio(content, Parts::of(run).caused(state))
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let mut section = Section {
        title: "Model: bandwidth by arithmetic".into(),
        words: words(),
        ..Section::default()
    };
    let mut lines = Vec::new();
    for state in [State::Fresh, State::Steady] {
        let runs = MODES.map(|mode| run_of(outcomes, &job(plan, state, mode)));
        let [ordered, journaled, remapped] = runs;
        let (ordered, journaled, remapped) = (ordered?, journaled?, remapped?);
        let judged = |item: &str, measured: f64| {
            Row::judged(table.get(FIGURE, item, None), measured).of(state.name())
        };
        let own = format!("ordered, {}", state.name());
        let caused_rate = |run| caused_rate(state, run);
        let cause = |run| cause(state, run);
        let rate = caused_rate(ordered);
        section
            .rows
            .push(Row::judged(table.get(FIGURE, &own, None), rate).because(&cause(ordered)));
        section.rows.push(
            judged(
                "journaled over ordered, large transactions",
                ratio(caused_rate(journaled), rate),
            )
            .because(&cause(journaled)),
        );
        let tags = tags(remapped);
        section.rows.push(
            judged(
                "journaled with JFTL over ordered, times 1 + 1/T",
                ratio(caused_rate(remapped), rate) * (1.0 + 1.0 / tags),
            )
            .because(&cause(remapped))
            .noted(&format!("T = {tags}")),
        );
        for (mode, run) in MODES.iter().zip([ordered, journaled, remapped]) {
            section.rows.push(left(*mode, state, run));
            lines.push(line(*mode, state, run));
        }
    }
    let head = [
        "state",
        "mode",
        "MB/s",
        "MB/s caused by the host",
        "programs for the host",
        "map pages",
        "units copied",
        "pages read",
        "erases",
        "s: host",
        "s: erases",
        "s: map",
        "s: copies",
        "s: reads",
        "s: all",
    ];
    section.tables.push((
        "Where the time goes".into(),
        head.map(String::from).into(),
        lines,
    ));
    Ok(section)
}

fn words() -> Vec<String> {
    vec![
        "What the chips do one after another must take the sum of their times, and what a run needs beyond that is an error of the simulator. \
         Subtracted before the bandwidth is compared: pages that hold the map (checkpoints, map log, summaries), copies of garbage collection, \
         and reads; the table has each. Erases belong to what the host causes in steady state; on the fresh device they are \
         subtracted too, because the layer erases each block when it opens it, even one from the factory."
            .into(),
    ]
}

/// Number of tags that a descriptor holds on this file system.
fn tags(run: &Run) -> f64 {
    const TAGS_V3: f64 = 253.0;
    if run.fs == "ext3" { TAGS_JBD } else { TAGS_V3 }
}

/// The row of the share of a run's time that no chip operation accounts for.
fn left(mode: Mode, state: State, run: &Run) -> Row {
    let parts = Parts::of(run);
    let measured = ratio(parts.all - parts.sum(), parts.all);
    let item = "part of the time that no chip operation accounts for";
    Row::ours(FIGURE, item, "fraction", measured).of(&format!("{}, {}", mode.word(), state.name()))
}

fn cause(state: State, run: &Run) -> String {
    let parts = Parts::of(run);
    let content = run.mb_per_s.unwrap_or(0.0) * run.virtual_seconds * 1e6 / 4096.0;
    format!(
        "{} blocks of content; {} blocks in the log beside them; {} s of {} s are caused by the host, chip operations account for {} s, {} s of them erases",
        number(content),
        number(blocks(
            run,
            &[
                "journal_metadata",
                "journal_descriptor",
                "journal_commit",
                "journal_superblock"
            ]
        ) as f64),
        number(parts.caused(state)),
        number(parts.all),
        number(parts.sum()),
        number(parts.erases),
    )
}

fn line(mode: Mode, state: State, run: &Run) -> Vec<String> {
    let none = Flash::default();
    let flash = run.flash.as_ref().unwrap_or(&none);
    let parts = Parts::of(run);
    let mut line = vec![state.name().to_string(), mode.word().to_string()];
    let values = [
        run.mb_per_s.unwrap_or(0.0),
        caused_rate(state, run),
        super::measure::host_programs(run) as f64,
        flash.map_programs as f64,
        flash.gc_copies as f64,
        flash.reads as f64,
        flash.erases as f64,
        parts.host,
        parts.erases,
        parts.map,
        parts.copies,
        parts.reads,
        parts.all,
    ];
    line.extend(values.map(number));
    line
}
