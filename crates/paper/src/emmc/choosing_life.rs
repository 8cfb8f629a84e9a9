//! How long the card lasts, in the page that says which scheme to choose: by scheme and use, by
//! free space and rate of writing, and the schemes of F2FS beside those of ext4.

use super::choosing::{BASE, COLUMNS, JOURNALED, NONE, SIZE_MIB, USES, Use, job, line, per_cent};
use super::job::{Job, Outcomes, run_of};
use super::measure::gain;
use super::plan::{FIG8, Plan};
use crate::PaperError;
use report::results::Run;
use report::wear::Wear;
use rig::Fs;

/// Bytes of the card that years are told for. A modelled card that is smaller, and used to the same
/// share, lives shorter, not quite in proportion: the page says by how much.
const CARD_BYTES: f64 = 16e9;
const YEAR_SECONDS: f64 = 365.25 * 86_400.0;
/// Shares of the volume that files take when it is aged, percent.
const FULL: [u32; 3] = [50, 65, 80];
/// Operations a second, day and night.
const RATES: [f64; 3] = [0.5, 1.0, 2.0];
/// Schemes that are compared on volumes in use.
const AGED: [&str; 4] = [BASE, "coalition", "adaptive", NONE];
/// The use that they are compared with: a database is what most phones write.
const AGED_USE: usize = 1;
/// Schemes of F2FS.
const F2FS: [&str; 3] = [
    "checkpoint-60",
    "checkpoint-60+fsync_mode=nobarrier",
    "f2fsj",
];

const WEAR: &str = "
## How long the card lasts

A card is worn out when its blocks have been erased as often as they are rated. The table says how many times as many operations as with `jbd2` it does until then, on
the ordinary card: what is compared is equal work, so a scheme is not blamed for being faster ([wear and life](figures.md#wear-and-life)). A page is
programmed whole, and what has to be durable at one moment cannot wait for more. So a scheme saves erases in two ways: its log holds fewer blocks (coalition), and fewer
moments of a commit need something durable (`adaptive`, which sends data and log with FUA and no flush between them). Journals that remap save the second copy, too,
where the device can ([jftl](../results/paper-jftl.md)). The first column has `jbd2` in years: a card of 16 GB on which one operation a second goes on day and night. The volume is
fresh, so that nothing has to be collected; the next table has fuller ones. All years on this page are those of the modelled card of 128 MiB times the ratio of the sizes. A real card of 16 GB
lives about a fifth shorter than that, because on a small one a larger share of the blocks is the map's or spare ([by how much](figures.md#wear-and-life)).
";

const AGED_WORDS: &str = "
## How long it lasts when it is full

Years of a card of 16 GB under a database with a write-ahead log, by the share of the volume that old files take (`aged=`) and by transactions a second, day and night. What was
written anywhere once is data for the card until it is discarded, and then collection copies it: the fuller the volume, the more. Half the rate is twice the life. Where the
figure is in brackets, a run so short leaves it open within them ([how it is known](figures.md#wear-and-life)).
";

const F2FS_WORDS: &str = "
## F2FS

The same card and uses with F2FS instead of ext4: operations a second over `jbd2` on ext4, and how many times as many operations the card does until it is worn out. F2FS writes
data and node blocks of an fsync side by side and no log, so it programs less; `nobarrier` does not wait until they are durable, and loses what is in the card's cache
at a cut. The volume is fresh: F2FS cleans segments when it is full ([F2FS](f2fs.md)), which these runs do not reach.
";

/// The jobs beyond those of the other tables.
pub(super) fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for percent in FULL {
        all.extend(AGED.map(|scheme| aged(plan, percent, scheme)));
    }
    for used in &USES {
        all.extend(F2FS.map(|scheme| f2fs(plan, used, scheme)));
    }
    all
}

fn aged(plan: &Plan, percent: u32, scheme: &str) -> Job {
    let workload = format!("{},aged={percent}", USES[AGED_USE].workload);
    job(plan, &COLUMNS[0], &workload, scheme)
}

fn f2fs(plan: &Plan, used: &Use, scheme: &str) -> Job {
    let mut stack = plan.stack(BASE, FIG8);
    stack.fs = Fs::F2fs;
    stack.set_scheme(scheme).expect("these are schemes of F2FS");
    (stack.bytes, stack.journal_blocks, stack.timers) = (SIZE_MIB << 20, None, false);
    plan.on(stack, used.workload)
}

/// The sections of the page.
///
/// # Errors
/// A run is missing.
pub(super) fn text(plan: &Plan, outcomes: &Outcomes) -> Result<String, PaperError> {
    let mut text = wear(plan, outcomes)?;
    text.push_str(&full(plan, outcomes)?);
    text.push_str(&by_f2fs(plan, outcomes)?);
    Ok(text)
}

/// Years of the large card at so many operations a second.
fn years(wear: &Wear, rate: f64) -> Option<f64> {
    let larger = CARD_BYTES / (SIZE_MIB << 20) as f64;
    Some(wear.ops? * larger / rate / YEAR_SECONDS)
}

/// Years in few digits.
fn short(years: f64) -> String {
    match years {
        y if y >= 10.0 => format!("{y:.0}"),
        y => format!("{y:.1}"),
    }
}

/// The work until the card is worn out, over that of `base`.
fn work(run: &Run, base: &Run) -> String {
    let ops = |run: &Run| run.wear.and_then(|wear| wear.ops);
    match (ops(run), ops(base)) {
        (Some(work), Some(base)) => format!("{:.2}", work / base),
        _ => "-".into(),
    }
}

fn wear(plan: &Plan, outcomes: &Outcomes) -> Result<String, PaperError> {
    let schemes: Vec<&str> = JOURNALED.into_iter().skip(1).chain([NONE]).collect();
    let mut text = String::from(WEAR);
    let heads: Vec<String> = schemes.iter().map(|s| format!("`{s}`")).collect();
    line(
        &mut text,
        &format!("\n| use | `{BASE}`, years | {} |", heads.join(" | ")),
    );
    line(
        &mut text,
        &format!("|---|---|{}", "---|".repeat(schemes.len())),
    );
    for used in &USES {
        let run = |scheme| run_of(outcomes, &job(plan, &COLUMNS[0], used.workload, scheme));
        let base = run(BASE)?;
        let lives = base.wear.and_then(|wear| years(&wear, 1.0));
        let mut cells = vec![lives.map_or("-".into(), short)];
        for scheme in &schemes {
            cells.push(work(run(scheme)?, base));
        }
        line(
            &mut text,
            &format!("| {} | {} |", used.name, cells.join(" | ")),
        );
    }
    Ok(text)
}

fn full(plan: &Plan, outcomes: &Outcomes) -> Result<String, PaperError> {
    let mut text = String::from(AGED_WORDS);
    let heads: Vec<String> = (AGED.iter())
        .flat_map(|s| RATES.map(|rate| format!("`{s}`, {rate}/s")))
        .collect();
    line(&mut text, &format!("\n| volume | {} |", heads.join(" | ")));
    line(&mut text, &format!("|---|{}", "---|".repeat(heads.len())));
    for percent in [0].into_iter().chain(FULL) {
        let mut cells = Vec::new();
        for scheme in AGED {
            let job = match percent {
                0 => job(plan, &COLUMNS[0], USES[AGED_USE].workload, scheme),
                _ => aged(plan, percent, scheme),
            };
            let wear = run_of(outcomes, &job)?.wear;
            cells.extend(RATES.map(|rate| wear.map_or("-".into(), |wear| cell(&wear, rate))));
        }
        let volume = match percent {
            0 => "fresh".to_string(),
            _ => format!("{percent} % full"),
        };
        line(&mut text, &format!("| {volume} | {} |", cells.join(" | ")));
    }
    Ok(text)
}

/// Years at a rate, with the range in which a short run leaves them.
fn cell(wear: &Wear, rate: f64) -> String {
    let Some(years) = years(wear, rate) else {
        return "-".into();
    };
    let share = |part: f64| wear.years.map_or(0.0, |all| part / all * years);
    match wear.years_range {
        Some((low, high)) => format!(
            "{} ({} to {})",
            short(years),
            short(share(low)),
            short(share(high))
        ),
        None => short(years),
    }
}

fn by_f2fs(plan: &Plan, outcomes: &Outcomes) -> Result<String, PaperError> {
    let mut text = String::from(F2FS_WORDS);
    let heads: Vec<String> = (F2FS.iter())
        .flat_map(|s| [format!("`{s}`"), "work until worn".into()])
        .collect();
    line(&mut text, &format!("\n| use | {} |", heads.join(" | ")));
    line(&mut text, &format!("|---|{}", "---|".repeat(heads.len())));
    for used in &USES {
        let base = run_of(outcomes, &job(plan, &COLUMNS[0], used.workload, BASE))?;
        let mut cells = Vec::new();
        for scheme in F2FS {
            let run = run_of(outcomes, &f2fs(plan, used, scheme))?;
            cells.extend([per_cent(gain(run, base)), work(run, base)]);
        }
        line(
            &mut text,
            &format!("| {} | {} |", used.name, cells.join(" | ")),
        );
    }
    Ok(text)
}
