//! Figs 6 and 9: how many bytes of the logged metadata were modified, per block and per commit. A
//! block is compared with its previous image in the log (characterise-X3).

use super::characterised::{all, baseline, digits, percent, traffic};
use super::job::{Job, Outcomes};
use super::measure::mean;
use super::plan::{COALITION, FIG8, Plan, Source};
use super::{characterised, published};
use crate::PaperError;
use crate::characterise::{Distribution, Role, Traffic};
use crate::{Published, Row, Section};
use base::BLOCK_BYTES;
use report::plot::{self, At, Mark, Says};
use std::collections::BTreeMap;

/// Bytes that the header of a coalition block leaves for records.
const ROOM: usize = BLOCK_BYTES - ondisk::jbd2::COALITION_HEADER_BYTES;

/// The jobs of Fig 6.
pub fn jobs_of_blocks(plan: &Plan) -> Vec<Job> {
    baseline(plan)
}

/// Makes the section of Fig 6.
///
/// # Errors
/// A run is missing.
pub fn blocks(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let apps = all(plan, outcomes)?;
    let table = published()?;
    let item = "logged metadata blocks with less than 1 % of their bytes modified";
    let mut together = Distribution::default();
    let generated = apps.iter().filter(|(s, _)| s.is_generated());
    generated.for_each(|(_, t)| together.merge(&t.modified));
    let share = together.below(BLOCK_BYTES as f64 / 100.0);
    let mut rows = vec![
        Row::judged(table.get("Fig 6", item, None), share)
            .because(&most_modified(&apps))
            .noted("all blocks of the eight generated apps together"),
    ];
    for (source, t) in &apps {
        rows.push(source.ours("Fig 6", item, "fraction", t.below_one_percent()));
    }
    rows.push(Row::ours(
        "Fig 6",
        "logged metadata blocks that came out as they had been",
        "fraction",
        together.below(1.0),
    ));
    let lines: Vec<_> = apps
        .iter()
        .map(|(s, t)| (s.name(), t.modified.cdf(1.0)))
        .collect();
    let drawn = plot::cdf(
        "Modified bytes of a logged metadata block",
        "bytes of 4096",
        &lines,
    );
    let percent = BLOCK_BYTES as f64 / 100.0;
    let marks = table.get("Fig 6", item, None).mark(None, At::X(percent));
    let marks: Vec<_> = marks.into_iter().collect();
    Ok(Section {
        title: "Fig 6: modified bytes of the metadata blocks in the journal".into(),
        words: vec![
            "Every block that the baseline logs, read back from the log and compared byte by byte with its previous image there, or, the \
             first time, with what its home held at the mount. Bytes that were written with the value they had do not count."
                .into(),
            "A block that is new (a directory that grows, a node of an extent tree) is compared with what the device held there, zeros or \
             an older use: so creations count in full."
                .into(),
        ],
        rows,
        tables: vec![by_role(&apps)],
        plots: vec![("1 stands for 0 and 1 bytes.".into(), drawn.beside(&marks))],
    })
}

/// Names the roles with the most modified bytes, as measured.
fn most_modified(apps: &[(Source, &Traffic)]) -> String {
    let mut sums: BTreeMap<Role, Distribution> = BTreeMap::new();
    for (_, t) in apps {
        for (role, sum) in &t.roles {
            sums.entry(*role).or_default().merge(&sum.modified);
        }
    }
    let limit = BLOCK_BYTES as f64 / 100.0;
    let above = |d: &Distribution| d.count() as f64 * (1.0 - d.below(limit));
    let all: f64 = sums.values().map(above).sum();
    let mut shares: Vec<(Role, f64)> = sums.iter().map(|(r, d)| (*r, above(d) / all)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = shares.iter().take(3);
    let words: Vec<_> = words
        .map(|(role, share)| format!("{} {}", role.name(), percent(*share)))
        .collect();
    format!("of the blocks with more: {}", words.join(", "))
}

fn by_role(apps: &[(Source, &Traffic)]) -> crate::Listed {
    let mut roles: BTreeMap<Role, (u64, u64, Distribution)> = BTreeMap::new();
    let mut commits = 0;
    for (_, t) in apps.iter().filter(|(s, _)| s.is_generated()) {
        commits += t.commits;
        for (role, sum) in &t.roles {
            let entry = roles.entry(*role).or_default();
            entry.0 += sum.blocks;
            entry.1 += sum.unchanged;
            entry.2.merge(&sum.modified);
        }
    }
    let line = |(role, (blocks, unchanged, modified)): (&Role, &(u64, u64, Distribution))| {
        vec![
            role.name().to_string(),
            digits(*blocks as f64 / commits.max(1) as f64, 2),
            digits(modified.mean(), 1),
            modified.at(0.5).to_string(),
            modified.at(0.95).to_string(),
            percent(*unchanged as f64 / (*blocks).max(1) as f64),
        ]
    };
    let head = [
        "block",
        "in a commit",
        "modified bytes, mean",
        "median",
        "95th percentile",
        "unchanged",
    ];
    (
        "Logged blocks by what they are, the eight generated apps together".into(),
        head.map(String::from).into(),
        roles.iter().map(line).collect(),
    )
}

/// The jobs of Fig 9: the baseline, and coalition to see what really goes into its records.
pub fn jobs_of_commits(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let coalition = sources
        .iter()
        .map(|source| characterised::job(plan, source, COALITION, FIG8));
    baseline(plan).into_iter().chain(coalition).collect()
}

/// Makes the section of Fig 9.
///
/// # Errors
/// A run is missing.
pub fn commits(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let apps = all(plan, outcomes)?;
    let table = published()?;
    let item = "modified metadata of a commit over a block of 4 KiB, median over all commits";
    let mut together = Distribution::default();
    let generated = apps.iter().filter(|(s, _)| s.is_generated());
    generated.for_each(|(_, t)| together.merge(&t.modified_per_commit));
    let share = |bytes: f64| bytes / BLOCK_BYTES as f64;
    let median = share(together.at(0.5).into());
    let mut rows = vec![
        Row::judged(table.get("Fig 9", item, None), median)
            .noted("all commits of the eight generated apps together"),
    ];
    let mut lines = Vec::new();
    let mut fits = Vec::new();
    for (source, t) in &apps {
        let commits = &t.modified_per_commit;
        let half = share(commits.at(0.5).into());
        rows.push(source.ours("Fig 9", item, "fraction", half));
        let coalition = traffic(plan, outcomes, source, (COALITION, FIG8))?;
        let fit = coalition.record_bytes.below(ROOM as f64 + 1.0);
        if source.is_generated() {
            fits.push(fit);
        }
        lines.push(vec![
            source.name(),
            digits(commits.mean(), 0),
            commits.at(0.5).to_string(),
            commits.at(0.95).to_string(),
            commits.at(1.0).to_string(),
            digits(coalition.record_bytes.mean(), 0),
            digits(coalition.record_bytes.at(0.95).into(), 0),
            digits(coalition.fulls.mean(), 2),
            percent(fit),
        ]);
    }
    rows.push(Row::ours(
        "Fig 9",
        "commits whose records fit one coalition block, mean over the apps",
        "fraction",
        mean(&fits),
    ));
    let cdfs: Vec<_> = apps
        .iter()
        .map(|(s, t)| (s.name(), t.modified_per_commit.cdf(1.0)))
        .collect();
    let drawn = plot::cdf("Modified metadata of a commit", "bytes", &cdfs);
    let head = [
        "app",
        "modified bytes, mean",
        "median",
        "95th percentile",
        "largest",
        "coalition records, mean bytes",
        "95th percentile",
        "full images",
        "records fit one block",
    ];
    Ok(Section {
        title: "Fig 9: modified metadata of a commit".into(),
        words: vec![
            "The sum of Fig 6 over the blocks of each commit. Beside it what journal coalition really logs for the same calls: a record has \
             the modified words with their places, a checksum, and a block that is new goes in as a full image behind the records."
                .into(),
            "The paper derives from its Netflix run an upper bound of the modified bytes; the formula is lost with the page that we have, so \
             it is not compared."
                .into(),
        ],
        rows,
        tables: vec![(
            "Bytes of a commit".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: vec![(
            "A line an app. A published median of at most so much is half of the commits, or more, at or below it.".into(),
            drawn.beside(half(table.get("Fig 9", item, None)).as_slice()),
        )],
    })
}

/// A published median of at most so much, as half of the commits or more at or below it.
fn half(published: &Published) -> Option<Mark> {
    let median = published.value? * BLOCK_BYTES as f64;
    let mark = published.mark(None, At::X(median))?;
    Some(Mark {
        says: Says::Least(0.5),
        ..mark
    })
}
