//! Write amplification over time on a device that is 70 to 95 % full, with copies home and with
//! remap. There is no file system, so that utilisation alone decides.

use super::bare::{BareJob, Home, Sample};
use super::job::{Job, Outcomes, samples_of};
use super::measure::ratio;
use super::plan::{DEVICE, Plan};
use crate::PaperError;
use crate::beside::without_published;
use crate::{Row, Section, number};
use report::plot;

const FIGURE: &str = "Write amplification";
/// Live blocks as a share of the blocks of the chips, per cent.
const UTILISATIONS: [u64; 4] = [70, 80, 90, 95];
/// Over-provisioning of the device, low enough that all of [`UTILISATIONS`] can be reached.
const OVER_PROVISIONING: f64 = 0.04;
/// Bytes that the device exports.
const BYTES: u64 = 32 << 20;
/// Blocks of the journal.
const JOURNAL: u64 = 512;
/// Blocks logged by one transaction.
const PAIRS: u64 = 16;
const HOMES: [Home; 2] = [Home::Copy, Home::Remap];

fn job(plan: &Plan, utilisation: u64, home: Home) -> Job {
    let units = BYTES / base::BLOCK_BYTES as u64;
    let chips = units as f64 * (1.0 + OVER_PROVISIONING);
    let live = (chips * utilisation as f64 / 100.0) as u64;
    Job::Bare(BareJob {
        device: format!("{DEVICE},ftl.over_provisioning={OVER_PROVISIONING}"),
        bytes: BYTES,
        journal: JOURNAL,
        homes: live.min(units) - JOURNAL,
        pairs: PAIRS,
        home,
        // A sample is the time in which a quarter of the device is written home.
        transactions: units / PAIRS / 4,
        samples: plan.pick(16, 4),
        seed: plan.seed,
    })
}

fn utilisations(plan: &Plan) -> &'static [u64] {
    plan.pick(&UTILISATIONS, &[70, 90])
}

/// The jobs: each utilisation, by copies and by remap.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |u: &u64| HOMES.map(|home| job(plan, *u, home));
    utilisations(plan).iter().flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Write amplification on a full device".into(),
        words: vec![
            "No file system: transactions of 16 random blocks are logged (descriptor and commit block besides) and come home, by a copy or by REMAP, \
             on nandsim-2007 with 4 % of spare blocks. Utilisation is live addresses, journal included, over blocks of the chips; a remapped home \
             shares a page with the journal until the journal goes round, so with remap fewer pages are live. A sample is a quarter of the \
             device written home; rows are means of the last quarter of the samples."
                .into(),
        ],
        ..Section::default()
    };
    let mut lines = Vec::new();
    let mut groups = Vec::new();
    let mut series: Vec<(String, Vec<f64>)> =
        HOMES.map(|h| (h.name().to_string(), Vec::new())).into();
    for utilisation in utilisations(plan) {
        let mut ends = Vec::new();
        for (home, line) in HOMES.into_iter().zip(&mut series) {
            let samples = samples_of(outcomes, &job(plan, *utilisation, home))?;
            let end = last(samples);
            let of = format!("{utilisation} %, {}", home.name());
            let amplification = end.amplification();
            section.rows.push(
                Row::ours(
                    FIGURE,
                    "bytes programmed over bytes the host wrote",
                    "ratio",
                    amplification,
                )
                .of(&of),
            );
            section.rows.push(
                Row::ours(
                    FIGURE,
                    "4 KiB programmed for each block that came home",
                    "ratio",
                    end.per_block(),
                )
                .of(&of),
            );
            line.1.push(end.per_block());
            ends.push(end.per_block());
            lines.push(over_time(*utilisation, home, samples));
        }
        let gain = ratio(ends[0], ends[1]);
        let item = "programs of copying over programs of remapping";
        section
            .rows
            .push(Row::ours(FIGURE, item, "ratio", gain).of(&format!("{utilisation} %")));
        groups.push(format!("{utilisation} %"));
    }
    let title = "4 KiB programmed for each block that came home, by utilisation";
    let drawn = plot::grouped_bars(title, "blocks", &groups, &series);
    let caption = without_published(title, "it measures no full device");
    section.plots.push((caption, drawn));
    let samples = plan.pick(16, 4);
    let head = ["utilisation", "home"].into_iter().map(String::from);
    section.tables.push((
        "4 KiB programmed for each block that came home, sample by sample".into(),
        head.chain((1..=samples).map(|n| n.to_string())).collect(),
        lines,
    ));
    Ok(section)
}

fn over_time(utilisation: u64, home: Home, samples: &[Sample]) -> Vec<String> {
    let mut line = vec![format!("{utilisation} %"), home.name().to_string()];
    line.extend(samples.iter().map(|s| number(s.per_block())));
    line
}

/// The last quarter of the samples, added up.
fn last(samples: &[Sample]) -> Sample {
    let from = samples.len() - (samples.len() / 4).max(1);
    let mut sum = Sample::default();
    for s in &samples[from..] {
        sum.programs += s.programs;
        sum.map += s.map;
        sum.host += s.host;
        sum.copies += s.copies;
        sum.erases += s.erases;
        sum.transactions += s.transactions;
        sum.blocks += s.blocks;
        sum.seconds += s.seconds;
        sum.page_bytes = s.page_bytes;
    }
    sum
}
