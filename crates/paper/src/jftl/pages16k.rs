//! Where remap loses: with records of a few pairs, each made durable by itself, because a large
//! page is programmed for each record.

use super::bare::{BareJob, Home, Sample};
use super::job::{Job, Outcomes, samples_of};
use super::plan::{DEVICE, Plan};
use crate::PaperError;
use crate::{Row, Section, number};

const FIGURE: &str = "Large pages";
/// Device profiles by ascending size of their pages.
const DEVICES: [&str; 3] = [DEVICE, "raw-slc", "raw-tlc"];
const PAIRS: [u64; 5] = [1, 2, 4, 16, 256];
const HOMES: [Home; 4] = [Home::Copy, Home::CopyLater, Home::Remap, Home::RemapFua];

fn job(plan: &Plan, device: &str, pairs: u64, home: Home) -> Job {
    Job::Bare(BareJob {
        device: device.into(),
        bytes: 64 << 20,
        journal: 2048,
        homes: 4096,
        pairs,
        home,
        transactions: plan.pick(200, 40),
        samples: 1,
        seed: plan.seed,
    })
}

const HEAD: [&str; 15] = [
    "device",
    "page (B)",
    "pairs",
    "pages: copy, flushed",
    "copy until flush",
    "remap until flush",
    "remap with FUA",
    "saved: FUA over flushed copy",
    "FUA over copy until flush",
    "until flush, both",
    "by arithmetic",
    "s: copy, flushed",
    "copy until flush",
    "remap until flush",
    "remap with FUA",
];

/// The jobs: each page size with each size of a record and each way home.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for device in DEVICES {
        for pairs in PAIRS {
            all.extend(HOMES.map(|home| job(plan, device, pairs, home)));
        }
    }
    all
}

/// Pages that REMAP saves, computed: a record has 12 bytes per pair behind a header of 32 bytes, in
/// pages of its own.
fn arithmetic(pairs: u64, page: u32) -> f64 {
    let fits = u64::from((page - 32) / 12);
    pairs as f64 * 4096.0 / f64::from(page) - pairs.div_ceil(fits) as f64
}

fn words() -> Vec<String> {
    vec![
            "Transactions of 1 to 256 blocks on a bare device: log, flush, then home by a copy with or without a flush of its own, by a REMAP that waits for \
             the next transaction's flush, or by a REMAP with FUA. The pages that remapping saves are those of a copy less those of REMAP, map \
             pages included, each transaction. By arithmetic a REMAP that is made durable by itself saves pairs x 4096 / page pages and costs the \
             pages of its record: on 16 KiB pages -0.75 for one pair, 0 for four. A copy that is flushed at once pads its page as the record does, so against \
             it one pair breaks even; against a copy that waits for the next flush the record costs what it saves or more."
                .into(),
        ]
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Large pages: where remap loses".into(),
        words: words(),
        ..Section::default()
    };
    let mut lines = Vec::new();
    for device in DEVICES {
        for pairs in PAIRS {
            let of = |home| -> Result<&Sample, PaperError> {
                let samples = samples_of(outcomes, &job(plan, device, pairs, home))?;
                samples
                    .first()
                    .ok_or_else(|| PaperError::Check("no sample".into()))
            };
            let (copy, later) = (of(Home::Copy)?, of(Home::CopyLater)?);
            let (ride, fua) = (of(Home::Remap)?, of(Home::RemapFua)?);
            let saved =
                |a: &Sample, b: &Sample| a.pages_per_transaction() - b.pages_per_transaction();
            let by = arithmetic(pairs, copy.page_bytes);
            let which = format!("{} B pages, {pairs} pairs", copy.page_bytes);
            for (item, measured) in [
                (
                    "pages saved by REMAP with FUA over a flushed copy, a transaction",
                    saved(copy, fua),
                ),
                (
                    "pages saved by REMAP with FUA over a copy until flush, a transaction",
                    saved(later, fua),
                ),
                (
                    "pages saved by REMAP until flush over a copy until flush, a transaction",
                    saved(later, ride),
                ),
            ] {
                section
                    .rows
                    .push(Row::ours(FIGURE, item, "pages", measured).of(&which));
            }
            let mut line = vec![
                device.to_string(),
                copy.page_bytes.to_string(),
                pairs.to_string(),
            ];
            line.extend(
                [
                    copy.pages_per_transaction(),
                    later.pages_per_transaction(),
                    ride.pages_per_transaction(),
                    fua.pages_per_transaction(),
                    saved(copy, fua),
                    saved(later, fua),
                    saved(later, ride),
                    by,
                    copy.seconds,
                    later.seconds,
                    ride.seconds,
                    fua.seconds,
                ]
                .map(number),
            );
            lines.push(line);
        }
    }
    section.tables.push((
        "Pages programmed for a transaction".into(),
        HEAD.map(String::from).into(),
        lines,
    ));
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::arithmetic;

    #[test]
    fn the_arithmetic_is_that_of_the_notes() {
        for (page, saved) in [
            (512, [7.0, 15.0, 31.0, 127.0]),
            (2048, [1.0, 3.0, 7.0, 31.0]),
            (4096, [0.0, 1.0, 3.0, 15.0]),
            (16384, [-0.75, -0.5, 0.0, 3.0]),
        ] {
            let found = [1, 2, 4, 16].map(|pairs| arithmetic(pairs, page));
            assert_eq!(found, saved, "{page}");
        }
    }
}
