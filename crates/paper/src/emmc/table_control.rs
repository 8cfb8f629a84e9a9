//! Table 3 and the numbers of III.C: syncs, control blocks and metadata blocks of a commit, and
//! what the creation of a file dirties.

use super::characterised::{all, baseline, digits, percent};
use super::job::{Job, Outcome, Outcomes, outcome};
use super::measure::mean;
use super::plan::{COUNTED, FIG8, GENERATOR, OTHER_CALLS, Plan, Source};
use super::published;
use crate::PaperError;
use crate::characterise::Traffic;
use crate::{Experiment, Row, Section, Table};
use base::BLOCK_BYTES;
use ondisk::jbd2::{Format, JournalCompat, JournalIncompat};

const CONTROL: &str = "control blocks over journal blocks";
const SYNCS: &str = "fsyncs in 5 s";
/// Bytes of a tag without 64-bit blocks and checksums.
const TAG_BYTES: f64 = 8.0;
const FITTED: &str = "the generator was fitted to it: no prediction";

/// The jobs: each app at its own pace under the baseline, and one creation.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = baseline(plan);
    all.push(creation(plan));
    all
}

fn creation(plan: &Plan) -> Job {
    Job::Creation(plan.stack("jbd2", FIG8), plan.seed)
}

/// Makes the section of this table.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let apps = all(plan, outcomes)?;
    let table = published()?;
    let mut rows: Vec<Row> = Vec::new();
    for (source, t) in &apps {
        let row = syncs(&table, source, t);
        rows.push(match source.is_generated() {
            true => row,
            false => row.shown_by(
                table.get("Table 3", SYNCS, Some(source.app)),
                counted(&apps, source, |t| t.syncs_in_5_s().round()),
            ),
        });
    }
    for (source, t) in &apps {
        let of = table.get("Table 3", CONTROL, Some(source.app));
        let row = source.row(of, t.control_ratio_mean);
        let row = row.because(&cause_of_control(t, of.value.unwrap_or_default()));
        rows.push(match source.is_generated() {
            true => row.noted(FITTED),
            false => row.shown_by(of, counted(&apps, source, |t| t.control_ratio_mean)),
        });
    }
    for (source, t) in &apps {
        let item = "control blocks over journal blocks, of all commits together";
        rows.push(source.ours("Table 3", item, "fraction", t.control_ratio()));
    }
    rows.extend(numbers(&table, &apps, outcome(outcomes, &creation(plan))?)?);
    Ok(Section {
        title: "Table 3 and III.C: syncs and control blocks".into(),
        words: words(),
        rows,
        tables: vec![per_app(&apps)],
        plots: Vec::new(),
    })
}

/// The experiment of a recording's row: the generated app in its place.
fn counted(
    apps: &[(Source, &Traffic)],
    source: &Source,
    of: impl Fn(&Traffic) -> f64,
) -> Experiment {
    let generated = apps.iter().find(|(s, _)| s.app == source.app);
    let value = generated.map_or(f64::NAN, |(_, t)| of(t));
    Experiment::on(OTHER_CALLS).fitted(COUNTED, value)
}

fn words() -> Vec<String> {
    vec![
        "fsync and fdatasync calls of the whole run, per five seconds, as whole calls (the paper gives no fractions). Its values for Gmail \
         and Netflix stand apart from the table in the text that we have; 3 and 4 are the likely order."
            .into(),
        "The control block ratio is (descriptors + commit blocks) / (descriptors + metadata + commit blocks) of each commit, as the paper \
         defines it for one journal record, and the mean over the commits; revoke blocks stand on neither side. The ratio of all commits \
         together is below it where commits differ in size."
            .into(),
    ]
}

fn syncs(table: &Table, source: &Source, t: &Traffic) -> Row {
    let exact = t.syncs_in_5_s();
    source
        .row(table.get("Table 3", SYNCS, Some(source.app)), exact.round())
        .noted(&match source.is_generated() {
            true => format!("exactly {exact:.1}; {FITTED}"),
            false => format!("exactly {exact:.1}"),
        })
        .because(&format!(
            "{} calls in {:.1} s",
            t.syncs, t.run.virtual_seconds
        ))
}

fn cause_of_control(t: &Traffic, published: f64) -> String {
    let metadata = t.metadata.mean();
    let wanted = if published > 0.0 {
        2.0 / published - 2.0
    } else {
        0.0
    };
    format!(
        "a commit logs {metadata:.2} metadata blocks (median {}) beside {:.2} control blocks; the published ratio stands for at least {wanted:.2} \
         beside 2",
        t.metadata.at(0.5),
        t.control.mean(),
    )
}

fn numbers(
    table: &Table,
    apps: &[(Source, &Traffic)],
    creation: &Outcome,
) -> Result<Vec<Row>, PaperError> {
    let Outcome::Creation(creation) = creation else {
        return Err(PaperError::Check("a creation gave something else".into()));
    };
    let get = |figure, item| table.get(figure, item, None);
    let dirtied: Vec<_> = creation.roles.iter().map(|role| role.name()).collect();
    let bits = |incompat| {
        let none = JournalCompat::NONE;
        Format::new(BLOCK_BYTES, none, JournalIncompat(incompat), &[0; 16]).tags_per_descriptor()
    };
    let v3 = bits((JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3).0);
    let plain = bits(0);
    let used = apps.iter().map(|(_, t)| t.commit_block_bytes).max();
    let capacity = "metadata blocks that one descriptor can index";
    let (useful, indexed) = (
        get("III.C.2", "useful bytes of a commit block"),
        get("III.C.2", capacity),
    );
    Ok(vec![
        Row::judged(
            get("III.C.1", "metadata blocks that a file creation dirties"),
            creation.roles.len() as f64,
        )
        .noted(&format!("an empty file in a directory with room: {}", dirtied.join(", "))),
        metadata(get("III.C.2", "metadata blocks per commit, mean over the apps"), apps),
        Row::judged(useful, used.unwrap_or(0) as f64)
        .because("the last byte of the block that is not zero is the 60th, as in Linux")
        .shown_by(useful, Experiment::on("fields that the paper does not count").computed(
            "without type and size of the checksum with their padding (4) and the commit time (12)",
            used.unwrap_or(0) as f64 - 16.0,
        )),
        Row::judged(indexed, plain as f64)
            .shown_by(indexed, Experiment::on("bytes that the paper does not count").computed(
                "without the header (12), the UUID behind the first tag (16) and Linux's room for one more tag and UUID",
                BLOCK_BYTES as f64 / TAG_BYTES,
            ))
            .noted("tags of 8 bytes, as of the paper's kernel without 64-bit blocks and checksums"),
        Row::ours("III.C.2", capacity, "blocks", v3 as f64)
            .of("64-bit blocks, checksums v3")
            .noted("tags of 16 bytes: what mke2fs makes today"),
    ])
}

/// The row of the mean over the apps, each with the same weight; its note has the mean weighted by
/// syncs.
fn metadata(published: &crate::Published, apps: &[(Source, &Traffic)]) -> Row {
    let generated: Vec<_> = apps.iter().filter(|(s, _)| s.is_generated()).collect();
    let means: Vec<f64> = generated.iter().map(|(_, t)| t.metadata.mean()).collect();
    let rates: Vec<f64> = generated.iter().map(|(_, t)| t.syncs_in_5_s()).collect();
    let weighted: f64 = means.iter().zip(&rates).map(|(m, r)| m * r).sum();
    let weighted = weighted / rates.iter().sum::<f64>();
    Row::judged(published, mean(&means))
        .made_with(GENERATOR)
        .noted(&format!(
            "every app counts the same; weighted by syncs {weighted:.2}"
        ))
        .because("3.3 is about what Table 3 stands for with Google Map alone")
}

fn per_app(apps: &[(Source, &Traffic)]) -> crate::Listed {
    let head = [
        "app",
        "commits",
        "syncs",
        "fdatasync",
        "metadata blocks in a commit",
        "control blocks",
        "control ratio, mean",
        "of all together",
        "data blocks per sync",
    ];
    let line = |(source, t): &(Source, &Traffic)| {
        vec![
            source.name(),
            t.commits.to_string(),
            t.syncs.to_string(),
            t.data_syncs.to_string(),
            digits(t.metadata.mean(), 2),
            digits(t.control.mean(), 2),
            percent(t.control_ratio_mean),
            percent(t.control_ratio()),
            digits(t.data_per_sync(), 2),
        ]
    };
    (
        "The baseline's commits".into(),
        head.map(String::from).into(),
        apps.iter().map(line).collect(),
    )
}
