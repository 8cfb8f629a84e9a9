//! The page of many comparisons: what equal configurations have in common over their seeds.

use crate::results::{Results, Run};
use crate::shell::{scrolled, whole};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Rows of the page; all runs stand in the tables beside it.
const ROWS_MAX: usize = 2000;

const HEAD: [&str; 10] = [
    "fs/scheme",
    "device",
    "timing",
    "workload",
    "runs",
    "ops/s",
    "least",
    "most",
    "fsync p50 us",
    "p99 us",
];

/// What distinguishes two rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    workload: String,
    device: String,
    timing: String,
    fs: String,
    scheme: String,
}

/// The figures of a row over its runs.
#[derive(Clone, Copy, Default)]
struct Sum {
    runs: u32,
    ops: f64,
    ops_min: f64,
    ops_max: f64,
    p50: f64,
    p99: f64,
}

impl Sum {
    fn add(&mut self, run: &Run) {
        let rate = run.ops_per_s;
        self.ops_min = if self.runs == 0 {
            rate
        } else {
            self.ops_min.min(rate)
        };
        self.ops_max = self.ops_max.max(rate);
        self.runs += 1;
        self.ops += rate;
        self.p50 += run.latency_us.fsync.p50;
        self.p99 += run.latency_us.fsync.p99;
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / f64::from(self.runs.max(1))
    }
}

/// Many comparisons. It holds sums, so its size is that of what differs in more than the seed.
#[derive(Default)]
pub struct Sweep {
    rows: BTreeMap<Key, Sum>,
    runs: u64,
    comparisons: u64,
    incomplete: Option<String>,
}

impl Sweep {
    /// Adds a comparison.
    pub fn add(&mut self, results: &Results) {
        self.comparisons += 1;
        self.incomplete.clone_from(&results.incomplete);
        for run in &results.runs {
            self.runs += 1;
            let key = Key {
                workload: run.workload.clone(),
                device: run.device.profile.clone(),
                timing: run.timing.clone(),
                fs: run.fs.clone(),
                scheme: run.scheme.clone(),
            };
            self.rows.entry(key).or_default().add(run);
        }
    }

    /// The page.
    pub fn page(&self) -> String {
        let (runs, comparisons) = (self.runs, self.comparisons);
        let left_out = self.rows.len().saturating_sub(ROWS_MAX);
        let body = html! {
            h1 { (runs) " runs in " (comparisons) " comparisons" }
            @if let Some(why) = &self.incomplete { p.bad { "Incomplete: " (why) "." } }
            p.note {
                "Each row is the mean over the runs that differ in no column shown, as in their seed. "
                "Each run stands in runs.parquet and runs.csv, each comparison in results.json."
            }
            (scrolled(&self.table()))
            @if left_out > 0 { p.note { (left_out) " more rows are only in the tables." } }
        };
        whole("Varve: a campaign of comparisons", "", &body)
    }

    fn table(&self) -> Markup {
        html! {
            table {
                thead { tr {
                    @for head in HEAD { th scope="col" { (head) } }
                } }
                tbody {
                    @for (key, sum) in self.rows.iter().take(ROWS_MAX) {
                        tr {
                            th scope="row" { (key.fs) "/" (key.scheme) }
                            td { (key.device) } td { (key.timing) } td { (key.workload) } td { (sum.runs) }
                            td { (format!("{:.1}", sum.mean(sum.ops))) }
                            td { (format!("{:.1}", sum.ops_min)) }
                            td { (format!("{:.1}", sum.ops_max)) }
                            td { (format!("{:.0}", sum.mean(sum.p50))) }
                            td { (format!("{:.0}", sum.mean(sum.p99))) }
                        }
                    }
                }
            }
        }
    }
}
