//! What `varve crash` prints.

use crate::table::framed;
use comfy_table::{CellAlignment, Table};
use crash::campaign::{Explored, Losses};
use crash::case::Case;
use crash::plan::{Counts, Job};
use std::collections::BTreeMap;

/// The jobs of one group under one scheme.
#[derive(Clone, Default)]
pub struct Row {
    /// How much was looked at.
    pub counts: Counts,
    /// What is lost.
    pub losses: Losses,
}

/// One workload on one device under several schemes.
pub struct Block {
    /// The workload as the user gave it.
    pub group: String,
    /// The device, with the I/O scheduler in front of it if one was asked for.
    pub device: String,
    /// Scheme by scheme.
    pub rows: Vec<(String, Row)>,
}

/// The device of a case, with the I/O scheduler in front of it if one was asked for.
pub fn device(case: &Case) -> String {
    match case.scheduler {
        Some(scheduler) => format!("{}, I/O scheduler {scheduler}", case.device),
        None => case.device.clone(),
    }
}

/// Blocks that are printed one by one; of more only the sums are.
const BLOCKS_MAX: usize = 6;

/// The blocks of a campaign, as they grow.
#[derive(Default)]
pub struct Tables {
    blocks: Vec<Block>,
    /// Where the block of a workload and a device is, and in it the row of a scheme.
    places: BTreeMap<(String, String), (usize, BTreeMap<String, usize>)>,
}

impl Tables {
    /// Adds a job.
    pub fn add(&mut self, job: &Job, explored: &Explored) {
        let (group, scheme) = (&job.group, &job.case.scheme);
        let device = device(&job.case);
        let key = (group.clone(), device.clone());
        let blocks = &mut self.blocks;
        let (at, schemes) = self.places.entry(key).or_insert_with(|| {
            blocks.push(Block {
                group: group.clone(),
                device,
                rows: Vec::new(),
            });
            (blocks.len() - 1, BTreeMap::new())
        });
        let rows = &mut blocks[*at].rows;
        let at = *schemes.entry(scheme.clone()).or_insert_with(|| {
            rows.push((scheme.clone(), Row::default()));
            rows.len() - 1
        });
        rows[at].1.counts.add(explored);
        rows[at].1.losses.add(&explored.loss());
    }

    /// The schemes side by side: a table for each workload and device, or one for all of them where
    /// there are many.
    pub fn text(self) -> String {
        let shown = match self.blocks.len() > BLOCKS_MAX {
            true => vec![sum(&self.blocks)],
            false => self.blocks,
        };
        let text = |block: Block| {
            let place = match block.device.is_empty() {
                true => block.group.clone(),
                false => format!("{} on {}", block.group, block.device),
            };
            format!("{place}\n{}\n", table(block))
        };
        shown.into_iter().map(text).collect()
    }
}

/// All blocks together.
fn sum(blocks: &[Block]) -> Block {
    let mut rows: Vec<(String, Row)> = Vec::new();
    for (scheme, row) in blocks.iter().flat_map(|b| &b.rows) {
        let at = rows.iter().position(|(s, _)| s == scheme);
        let at = at.unwrap_or_else(|| {
            rows.push((scheme.clone(), Row::default()));
            rows.len() - 1
        });
        rows[at].1.counts.merge(&row.counts);
        rows[at].1.losses.add(&row.losses);
    }
    Block {
        group: format!("{} workloads and devices together", blocks.len()),
        device: String::new(),
        rows,
    }
}

fn table(block: Block) -> Table {
    let mut table = framed([
        "scheme",
        "cases",
        "cuts",
        "states",
        "equal",
        "pruned",
        "beyond",
        "bad",
        "ops lost",
        "bytes lost",
        "oldest ms",
    ]);
    for (scheme, Row { counts, losses }) in block.rows {
        let mean = |sum: u64| sum as f64 / losses.states.max(1) as f64;
        table.add_row([
            scheme,
            counts.cases.to_string(),
            counts.points.to_string(),
            counts.judged.to_string(),
            counts.deduplicated.to_string(),
            counts.pruned.to_string(),
            counts.beyond.to_string(),
            counts.violations.to_string(),
            format!("{:.2} ({})", mean(losses.ops), losses.ops_max),
            format!("{:.0} ({})", mean(losses.bytes), losses.bytes_max),
            format!("{:.2}", losses.age_max as f64 / 1e6),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
