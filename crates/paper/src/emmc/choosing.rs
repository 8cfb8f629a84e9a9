//! Which scheme to choose: measured on small workloads, and said in words that follow the figures.
//! The section of the report and `docs/use/choosing.md` are the same text (`tests/choosing.rs`), so
//! that the advice cannot differ from what was measured.

use super::choosing_life;
use super::job::{Job, Outcomes, run_of};
use super::measure::gain;
use super::plan::{FIG8, FIT, Plan};
use super::sens_device::{CARDS, Card, MARGIN};
use crate::PaperError;
use crate::Section;
use std::fmt::Write as _;

pub(super) const BASE: &str = "jbd2";
/// Schemes whose logs Linux can replay, the simplest first.
const STOCK: [&str; 5] = [BASE, "flush-ahead", ORDERED, "fast-commit", FAST];
/// The stock record with the order of `adaptive`.
const ORDERED: &str = "jbd2+order=adaptive";
/// Fast commits with that order.
const FAST: &str = "fast-commit+adaptive";
/// Every journaled scheme, the simplest first: among equal ones the first is named first.
pub(super) const JOURNALED: [&str; 9] = [
    BASE,
    "coalition",
    "flush-ahead",
    "emmc",
    "coalition-paper",
    ORDERED,
    "fast-commit",
    FAST,
    "adaptive",
];
/// The scheme that promises nothing.
pub(super) const NONE: &str = "none";
/// Schemes for which it matters what a cut leaves of a pack (docs/results/cost-table.md); for the
/// others the figures of the ordinary card count there, too.
const PACKERS: [&str; 5] = ["flush-ahead", "emmc", ORDERED, FAST, "adaptive"];
const PACK_CARDS: [&str; 2] = ["packs keep any subset", "no packs"];

/// A use of storage: what people call it, and the workload for it.
pub(super) struct Use {
    pub name: &'static str,
    pub workload: &'static str,
}

pub(super) const USES: [Use; 11] = [
    Use {
        name: "database, rollback journal",
        workload: "sqlite:prefill=50,insert=15,update=15,delete=0,journal=truncate",
    },
    Use {
        name: "database, write-ahead log",
        workload: "sqlite:prefill=50,insert=20,update=20,delete=0,journal=wal",
    },
    Use {
        name: "small new files",
        workload: "fsync:op=create,count=40",
    },
    Use {
        name: "files replaced by rename",
        workload: "fsync:op=replace,count=25",
    },
    Use {
        name: "appends of 4 KiB",
        workload: "fsync:op=append,count=40",
    },
    Use {
        name: "appends of 4 KiB by four programs",
        workload: "jobs:procs=4,file=160k,order=sequential,fill=none,count=40",
    },
    Use {
        name: "random writes of 4 KiB by four programs",
        workload: "jobs:procs=4,file=640k,order=random,count=60",
    },
    Use {
        name: "overwriting in place, fdatasync",
        workload: "fsync:op=overwrite,file=160k,count=40,sync=fdatasync",
    },
    Use {
        name: "names only: unlink, fsync of the directory",
        workload: "fsync:op=unlink,count=40",
    },
    Use {
        name: "large files, 1 MiB a fsync",
        workload: "fsync:op=append,size=1m,count=12",
    },
    Use {
        name: "many files, no fsync",
        workload: "files:count=40,transactions=80,sync=off",
    },
];

/// A column of the tables: a card under a timing set.
pub(super) struct Column {
    card: &'static Card,
    timing: &'static str,
    head: &'static str,
}

const fn column(n: usize, timing: &'static str, head: &'static str) -> Column {
    Column {
        card: &CARDS[n],
        timing,
        head,
    }
}

pub(super) static COLUMNS: [Column; 8] = [
    column(0, FIG8, "ordinary card"),
    column(1, FIG8, "cheap flush"),
    column(2, FIG8, "expensive flush"),
    column(4, FIG8, "packs keep any subset"),
    column(5, FIG8, "no packs"),
    column(7, FIG8, "cache off"),
    column(0, FIT, "`paper-fit`"),
    column(4, FIT, "`paper-fit`, any subset"),
];

/// Size of the volume, MiB.
pub(super) const SIZE_MIB: u64 = 128;

pub(super) fn job(plan: &Plan, column: &Column, workload: &str, scheme: &str) -> Job {
    let same = PACK_CARDS.contains(&column.card.name) && !PACKERS.contains(&scheme);
    let card = if same { &CARDS[0] } else { column.card };
    let mut stack = plan.stack(scheme, column.timing);
    stack.device = card.device(column.timing);
    stack.bytes = SIZE_MIB << 20;
    stack.journal_blocks = None;
    stack.timers = false;
    plan.on(stack, workload)
}

/// The jobs: every scheme with every use and column.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for column in &COLUMNS {
        for used in &USES {
            let schemes = JOURNALED.into_iter().chain([NONE]);
            all.extend(schemes.map(|s| job(plan, column, used.workload, s)));
        }
    }
    all.extend(choosing_life::jobs(plan));
    all
}

/// Gains over the baseline by use, column and scheme: those of [`JOURNALED`], then [`NONE`].
struct Measured(Vec<Vec<[f64; JOURNALED.len() + 1]>>);

/// The best of some schemes: all that are equal, the simplest first, and the gain of that one.
struct Best {
    names: Vec<&'static str>,
    gain: f64,
}

impl Measured {
    fn take(plan: &Plan, outcomes: &Outcomes) -> Result<Measured, PaperError> {
        let mut uses = Vec::new();
        for used in &USES {
            let mut columns = Vec::new();
            for column in &COLUMNS {
                let run = |scheme| run_of(outcomes, &job(plan, column, used.workload, scheme));
                let base = run(BASE)?;
                let mut gains = [0.0; JOURNALED.len() + 1];
                for (place, scheme) in gains.iter_mut().zip(JOURNALED.into_iter().chain([NONE])) {
                    *place = gain(run(scheme)?, base);
                }
                columns.push(gains);
            }
            uses.push(columns);
        }
        Ok(Measured(uses))
    }

    fn gain(&self, used: usize, column: usize, scheme: &str) -> f64 {
        let place = JOURNALED.iter().position(|s| *s == scheme);
        self.0[used][column][place.unwrap_or(JOURNALED.len())]
    }

    /// The schemes of `among` that are within [`MARGIN`] of the best of them.
    fn best(&self, used: usize, column: usize, among: &[&'static str]) -> Best {
        let of = |s: &&'static str| 1.0 + self.gain(used, column, s);
        let most = among.iter().map(of).fold(0.0, f64::max);
        let close = |s: &&&'static str| of(s) >= most * (1.0 - MARGIN);
        let names: Vec<&'static str> = among.iter().filter(close).copied().collect();
        let gain = names.first().map_or(0.0, |s| self.gain(used, column, s));
        Best { names, gain }
    }

    /// By how much `scheme` is below the best of `among` in its worst case, with the use and column
    /// of that.
    fn worst(&self, scheme: &str, among: &[&'static str]) -> (f64, usize, usize) {
        let mut worst = (0.0, 0, 0);
        for used in 0..USES.len() {
            for column in 0..COLUMNS.len() {
                let of = |s: &str| 1.0 + self.gain(used, column, s);
                let most = among.iter().map(|s| of(s)).fold(0.0, f64::max);
                let lost = 1.0 - of(scheme) / most;
                if lost > worst.0 {
                    worst = (lost, used, column);
                }
            }
        }
        worst
    }
}

pub(super) fn per_cent(gain: f64) -> String {
    // Adding zero turns -0 into 0.
    let rounded = (gain * 100.0).round() + 0.0;
    format!("{rounded:+.0} %")
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    names.join(" or ")
}

/// The text of a cell: the best schemes and their gain.
fn cell(best: &Best) -> String {
    match best.names.contains(&BASE) {
        true => "no difference".into(),
        false => format!("{} {}", quoted(&best.names[..1]), per_cent(best.gain)),
    }
}

/// The lowest and the highest of some gains.
fn range(gains: &[f64]) -> String {
    let low = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let high = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match per_cent(low) == per_cent(high) {
        true => per_cent(low),
        false => format!("{} to {}", per_cent(low), per_cent(high)),
    }
}

const HEAD: &str = "# Which scheme to choose

All journaled schemes keep the same promises ([guarantees.md](guarantees.md)); they differ in what a sync costs and in who can read
the log after a crash. Sentences and tables below are made from runs (`crates/paper/src/emmc/choosing.rs`): a test makes them anew and fails where this
page says something else; `VARVE_BLESS=1` writes it. `varve paper emmc --only choosing` has the same as a section of its report. Gains are
over `jbd2` on the same card, in operations a second; less than 2 % is no difference, and of schemes that are equal the simplest is named.
It is about ext4; F2FS stands in a table of its own, and [f2fsj.md](f2fsj.md#when-it-is-faster) says when it is faster with a journal.
A card that is none of these can be measured ([My card](my-card.md)); then `varve compare --device ./card.toml` decides.
";

/// The last sentence of "In short".
const FIRST_A_MOUNT: &str = "\
- **Before e2fsck sees a log with fast commits, mount the volume once or run `varve recover`.** e2fsck 1.47 may otherwise lose the full commit, the fast commits behind it, or the whole volume
  ([what others lose](../results/fast-commit.md#what-it-risks)). A boot script that runs e2fsck first does just that.
";

const TOOLS: &str = "
## Before speed

- **Another program may have to recover the volume** (Linux, e2fsck, a rescue system): take a scheme with `record=full` or `record=fast`: `jbd2`,
  `flush-ahead`, `jbd2+order=adaptive`, `fast-commit`, `fast-commit+adaptive`. Fast commits are for the recovery of Linux itself (from 5.10):
  e2fsck 1.47 may lose them and what lies before them ([fast-commit.md](../results/fast-commit.md#what-it-risks)). Coalition logs are refused by others while they are not empty; after an unmount, or a recovery by
  Varve, everybody reads the volume ([coalition.md](../format/coalition.md)).
- **The card does not protect stored data** (`WR_REL_SET` off), or leaves garbage in a sector that it was writing and has no reliable writes: no scheme is safe. A cut may
  damage data that was synced long ago, or the one superblock of the log, and the mount is refused by name then. Coalitions log whole blocks first there, and lose most
  of what they save.
- **Data may be lost**: `none` has no promise at all after a cut, and is not always faster.
";

/// Makes the page.
///
/// # Errors
/// A run is missing.
pub fn page(plan: &Plan, outcomes: &Outcomes) -> Result<String, PaperError> {
    let measured = Measured::take(plan, outcomes)?;
    let mut text = String::from(HEAD);
    text.push_str("\n## In short\n\n");
    for rule in rules(&measured) {
        line(&mut text, &format!("- {rule}"));
    }
    text.push_str(FIRST_A_MOUNT);
    text.push_str(TOOLS);
    text.push_str("\n## By use\n\n");
    for n in 0..USES.len() {
        line(&mut text, &format!("- {}", by_use(&measured, n)));
    }
    text.push_str("\n## By card\n\n");
    for n in 0..COLUMNS.len() {
        line(&mut text, &format!("- {}", by_card(&measured, n)));
    }
    table(&mut text, "The best of all journaled schemes", |used, c| {
        cell(&measured.best(used, c, &JOURNALED))
    });
    table(&mut text, "The best with a stock log", |used, c| {
        cell(&measured.best(used, c, &STOCK))
    });
    table(
        &mut text,
        "`none` over the best journaled scheme",
        |used, c| {
            let best = JOURNALED.iter().map(|s| measured.gain(used, c, s));
            let best = best.fold(f64::NEG_INFINITY, f64::max);
            per_cent((1.0 + measured.gain(used, c, NONE)) / (1.0 + best) - 1.0)
        },
    );
    text.push_str(&choosing_life::text(plan, outcomes)?);
    text.push_str(&reproduce());
    Ok(text)
}

pub(super) fn line(text: &mut String, words: &str) {
    writeln!(text, "{words}").expect("a text takes all");
}

fn table(text: &mut String, title: &str, of: impl Fn(usize, usize) -> String) {
    let heads: Vec<&str> = COLUMNS.iter().map(|c| c.head).collect();
    line(text, &format!("\n## {title}\n"));
    line(text, &format!("| use | {} |", heads.join(" | ")));
    line(text, &format!("|---|{}", "---|".repeat(heads.len())));
    for (n, used) in USES.iter().enumerate() {
        let cells: Vec<String> = (0..COLUMNS.len()).map(|c| of(n, c)).collect();
        line(text, &format!("| {} | {} |", used.name, cells.join(" | ")));
    }
}

/// The rules that name one scheme for all uses: with any log, and with a stock log.
fn rules(measured: &Measured) -> Vec<String> {
    let mut rules = Vec::new();
    for (whose, among) in [
        ("Varve alone has to replay the log", &JOURNALED[..]),
        ("Linux has to replay the log", &STOCK[..]),
    ] {
        let score = |s: &&str| {
            let gains = measured.0.iter().flatten().count() as f64;
            let all = (0..USES.len()).flat_map(|u| (0..COLUMNS.len()).map(move |c| (u, c)));
            all.map(|(u, c)| measured.gain(u, c, s)).sum::<f64>() / gains
        };
        let best = among
            .iter()
            .copied()
            .max_by(|a, b| score(a).total_cmp(&score(b)));
        let best = best.unwrap_or(BASE);
        let (lost, used, column) = measured.worst(best, among);
        let risk = match lost < MARGIN {
            true => "nowhere more than 2 % behind another one".to_string(),
            false => format!(
                "at worst {:.0} % behind the best ({}, {})",
                lost * 100.0,
                USES[used].name,
                COLUMNS[column].head
            ),
        };
        rules.push(format!(
            "{whose}: `{best}`, {} on the mean over uses and cards, {risk}.",
            per_cent(score(&best))
        ));
    }
    let cells = USES.len() * COLUMNS.len();
    let all = (0..USES.len()).flat_map(|u| (0..COLUMNS.len()).map(move |c| (u, c)));
    let beaten = all.filter(|&(u, c)| {
        let best = JOURNALED.iter().map(|s| measured.gain(u, c, s));
        let best = best.fold(f64::NEG_INFINITY, f64::max);
        1.0 + measured.gain(u, c, NONE) > (1.0 + best) * (1.0 + MARGIN)
    });
    rules.push(format!(
        "No journal at all is ahead of the best journaled scheme in {} of {cells} cases below.",
        beaten.count()
    ));
    rules
}

/// The best scheme somewhere, and the words for that place.
type At<'a> = (Best, &'a str);

/// Says which scheme is best most often, with its gains there; where it is another; and where there
/// is no difference.
fn often(bests: &[At<'_>]) -> String {
    let (same, differ): (Vec<&At<'_>>, Vec<&At<'_>>) =
        bests.iter().partition(|(b, _)| b.names.contains(&BASE));
    let count = |scheme: &str| {
        let here = differ.iter().filter(|(b, _)| b.names.contains(&scheme));
        here.count()
    };
    let mut first = BASE;
    for scheme in JOURNALED {
        if count(scheme) > count(first) {
            first = scheme;
        }
    }
    let (with, without): (Vec<&At<'_>>, Vec<&At<'_>>) =
        differ.iter().partition(|(b, _)| b.names.contains(&first));
    let mut all: Vec<String> = Vec::new();
    if !with.is_empty() {
        let gains: Vec<f64> = with.iter().map(|(b, _)| b.gain).collect();
        all.push(format!("`{first}` ({})", range(&gains)));
    }
    let others = without
        .iter()
        .map(|(b, place)| format!("{place}: {}", cell(b)));
    all.extend(others);
    let places: Vec<&str> = same.iter().map(|(_, place)| *place).collect();
    match (places.len() == bests.len(), places.is_empty()) {
        (true, _) => all.push("no difference".into()),
        (_, false) => all.push(format!("no difference: {}", places.join(", "))),
        (_, true) => {}
    }
    all.join("; ")
}

fn by_use(measured: &Measured, used: usize) -> String {
    let bests: Vec<(Best, &str)> = COLUMNS
        .iter()
        .enumerate()
        .map(|(c, column)| (measured.best(used, c, &JOURNALED), column.head))
        .collect();
    format!("**{}**: {}.", USES[used].name, often(&bests))
}

fn by_card(measured: &Measured, column: usize) -> String {
    let bests: Vec<(Best, &str)> = USES
        .iter()
        .enumerate()
        .map(|(u, used)| (measured.best(u, column, &JOURNALED), used.name))
        .collect();
    format!("**{}**: {}.", COLUMNS[column].head, often(&bests))
}

fn reproduce() -> String {
    let mut text = String::from(
        "\n## The runs\n\nColumns are device strings, rows workloads of\n\n    varve compare --scheduler none --size 128 --timers off --timing TIMING --device CARD --workload USE \\\n        \
         --schemes jbd2,coalition,flush-ahead,emmc,coalition-paper,jbd2+order=adaptive,fast-commit,fast-commit+adaptive,adaptive,none\n\n| column | timing | card |\n|---|---|---|\n",
    );
    for column in &COLUMNS {
        let device = column.card.device(column.timing);
        line(
            &mut text,
            &format!("| {} | `{}` | `{device}` |", column.head, column.timing),
        );
    }
    text.push_str("\n| use | workload |\n|---|---|\n");
    for used in &USES {
        line(
            &mut text,
            &format!("| {} | `{}` |", used.name, used.workload),
        );
    }
    text
}

/// Makes the section, with the words and tables of the page.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Which scheme to choose".into(),
        ..Section::default()
    };
    let plain = |text: &str| text.replace(['`', '*'], "");
    let text = page(plan, outcomes)?;
    let mut lines = text.lines().peekable();
    let (mut title, mut paragraph) = (String::new(), String::new());
    while let Some(words) = lines.next() {
        if words.starts_with('|') {
            let cells = |row: &str| -> Vec<String> {
                let row = row.trim_matches('|').split('|');
                row.map(|cell| plain(cell.trim())).collect()
            };
            let head = cells(words);
            // This skips the line below the head of a table.
            lines.next();
            let mut body = Vec::new();
            while let Some(row) = lines.next_if(|l| l.starts_with('|')) {
                body.push(cells(row));
            }
            section.tables.push((title.clone(), head, body));
            continue;
        }
        if let Some(head) = words.strip_prefix("## ") {
            title = plain(head);
            continue;
        }
        let ends = words.is_empty() || words.starts_with('-') || words.starts_with('#');
        if ends && !paragraph.is_empty() {
            section.words.push(std::mem::take(&mut paragraph));
        }
        if !words.is_empty() && !words.starts_with('#') {
            let words = plain(words.trim_start_matches("- ").trim());
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(&words);
        }
    }
    Ok(section)
}
