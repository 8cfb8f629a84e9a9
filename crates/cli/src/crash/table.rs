//! What `varve crash` prints.

use crate::table::framed;
use comfy_table::{CellAlignment, Table};
use lab::crash::campaign::Losses;
use lab::crash::plan::{Counts, Done};

/// The jobs of one group under one scheme.
#[derive(Clone, Default)]
pub struct Row {
    /// How much was looked at.
    pub counts: Counts,
    /// What is lost.
    pub losses: Losses,
}

/// The same workload on the same device under several schemes.
pub struct Block {
    /// The workload as it was asked for.
    pub group: String,
    /// The device.
    pub device: String,
    /// Scheme by scheme.
    pub rows: Vec<(String, Row)>,
}

/// All blocks, in the order of the jobs.
pub fn blocks(done: &[Done]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for Done { job, explored } in done {
        let (group, device, scheme) = (&job.group, &job.case.device, &job.case.scheme);
        let same = |b: &Block| b.group == *group && b.device == *device;
        let at = blocks.iter().position(same).unwrap_or_else(|| {
            blocks.push(Block {
                group: group.clone(),
                device: device.clone(),
                rows: Vec::new(),
            });
            blocks.len() - 1
        });
        let rows = &mut blocks[at].rows;
        let at = rows.iter().position(|(s, _)| s == scheme);
        let at = at.unwrap_or_else(|| {
            rows.push((scheme.clone(), Row::default()));
            rows.len() - 1
        });
        rows[at].1.counts.add(explored);
        rows[at].1.losses.add(&explored.loss());
    }
    blocks
}

/// The schemes side by side: one block of rows for each workload and device.
pub fn side_by_side(done: &[Done]) -> Table {
    let mut table = framed([
        "workload",
        "device",
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
    for Block {
        group,
        device,
        rows,
    } in blocks(done)
    {
        for (n, (scheme, Row { counts, losses })) in rows.into_iter().enumerate() {
            let first = |text: &str| {
                if n == 0 {
                    text.to_string()
                } else {
                    String::new()
                }
            };
            let mean = |sum: u64| sum as f64 / losses.states.max(1) as f64;
            table.add_row([
                first(&group),
                first(&device),
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
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
