//! `trace.json`, the page beside it and the tables of both: what a recording of block requests is
//! like, and what came of its runs. Neither holds a wall time, date, host or path, so the same file
//! gives the same bytes.

use super::counting::CountingRun;
use super::device::DeviceRun;
use super::stats::Stats;
use super::{BlockTrace, Op};
use crate::recording::Reading;
use maud::{Markup, html};
use serde::Serialize;

/// Version of the layout of `trace.json`.
pub const SCHEMA: u32 = 1;

/// The content of `trace.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// Version of this layout: [`SCHEMA`].
    pub schema: u32,
    /// Always `replay`.
    pub command: &'static str,
    /// The command line that makes this file again.
    pub reproduce: String,
    /// The recording, in words.
    pub trace: TraceWords,
    /// Figures of the recording.
    pub stats: Stats,
    /// How its addresses were mapped onto the device.
    pub folded: Folded,
    /// Chips and layer of the counting runs; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ftl: Option<String>,
    /// One counting run per policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountingRun>,
    /// The run on a device profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceRun>,
}

/// The recording, in words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TraceWords {
    /// Name of the file, without its folder.
    pub name: String,
    /// Its format.
    pub format: &'static str,
    /// Lines of the unpacked file.
    pub lines: u64,
    /// Names of its disks or files.
    pub devices: Vec<String>,
    /// What was skipped, left out and decided.
    pub reading: Reading,
}

/// How addresses were mapped onto the device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Folded {
    /// The way of folding: see [`Fold`](super::fold::Fold).
    pub fold: String,
    /// Size of the device as the host sees it, bytes.
    pub bytes: u64,
    /// What was written before the recording ran.
    pub fill: String,
    /// How often the recording ran.
    pub passes: u32,
    /// True if addresses that differ may have fallen together.
    pub overlaps: bool,
}

impl TraceWords {
    /// Describes a recording.
    pub fn of(trace: &BlockTrace) -> TraceWords {
        TraceWords {
            name: trace.name.clone(),
            format: trace.format.word(),
            lines: trace.reading.lines,
            devices: trace.devices.clone(),
            reading: trace.reading.clone(),
        }
    }
}

/// A table: its head and its rows.
pub type Table = (Vec<String>, Vec<Vec<String>>);

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_string()).collect()
}

fn optional(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{x:.3}"))
}

impl Results {
    /// The text of the file.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data");
        text + "\n"
    }

    /// Table with the figures of the recording.
    pub fn about(&self) -> Table {
        about(&self.stats)
    }

    /// Table with one row per policy; absent without counting runs.
    pub fn policies(&self) -> Option<Table> {
        let head = [
            "policy",
            "write amp.",
            "host units",
            "GC copies",
            "wear copies",
            "padded",
            "programs",
            "erases",
            "block erases min / mean / max",
        ];
        let row = |r: &CountingRun| {
            vec![
                r.policy.clone(),
                optional(r.write_amplification),
                r.host_units.to_string(),
                r.gc_units.to_string(),
                r.wear_units.to_string(),
                r.padded_units.to_string(),
                r.programs.to_string(),
                r.erases.to_string(),
                format!("{} / {:.2} / {}", r.erases_min, r.erases_mean, r.erases_max),
            ]
        };
        let rows: Vec<Vec<String>> = self.counted.iter().map(row).collect();
        (!rows.is_empty()).then(|| (texts(&head), rows))
    }

    /// Table with one row per kind of request; absent without a run on a profile.
    pub fn latencies(&self) -> Option<Table> {
        let device = self.device.as_ref()?;
        let head = texts(&[
            "latency, us",
            "mean",
            "p50",
            "p90",
            "p95",
            "p99",
            "p99.9",
            "max",
        ]);
        let row = |op: Op| {
            let l = device.latency_us.get(op.word())?;
            let all = [l.mean, l.p50, l.p90, l.p95, l.p99, l.p99_9, l.max];
            let figures = all.iter().map(|us| format!("{us:.0}"));
            Some(
                std::iter::once(op.word().to_string())
                    .chain(figures)
                    .collect(),
            )
        };
        let rows = Op::ALL.into_iter().filter_map(row).collect();
        Some((head, rows))
    }

    /// Table with the figures of the run on a profile; absent without one.
    pub fn figures(&self) -> Option<Table> {
        let d = self.device.as_ref()?;
        let mut rows = vec![
            ["requests/s".into(), format!("{:.1}", d.requests_per_s)],
            ["MiB/s".into(), format!("{:.2}", d.mib_per_s)],
            ["virtual seconds".into(), format!("{:.3}", d.seconds)],
            ["most under way at once".into(), d.depth_max.to_string()],
            ["commands: reads".into(), d.commands.reads.to_string()],
            ["commands: writes".into(), d.commands.writes.to_string()],
            ["commands: flushes".into(), d.commands.flushes.to_string()],
            ["commands: discards".into(), d.commands.discards.to_string()],
            ["FUA by a flush".into(), d.fua_by_flush.to_string()],
            ["discards left out".into(), d.discards_left_out.to_string()],
        ];
        if let Some(f) = &d.flash {
            rows.extend([
                ["write amp.".into(), optional(d.write_amplification)],
                ["page programs".into(), f.programs.to_string()],
                ["page reads".into(), f.reads.to_string()],
                ["block erases".into(), f.erases.to_string()],
                ["GC copies, 4 KiB".into(), f.gc_copies.to_string()],
            ]);
        }
        let rows = rows.into_iter().map(Vec::from).collect();
        let head = vec![
            format!("{}, timing {}", d.profile, d.timing),
            "value".into(),
        ];
        Some((head, rows))
    }

    /// `index.html`: the same tables on a page of its own.
    pub fn page(&self) -> String {
        let tables = [self.policies(), self.latencies(), self.figures()];
        let title = format!("varve replay {}", self.trace.name);
        let body = html! {
            h1 { (title) }
            p { "Again: " code { (self.reproduce) } }
            p { (self.place()) }
            (markup(&self.about()))
            @for table in tables.iter().flatten() { (markup(table)) }
        };
        report::whole(&title, "", &body)
    }

    /// How the addresses came onto the device, in a sentence.
    pub fn place(&self) -> String {
        let f = &self.folded;
        let together = match f.overlaps {
            true => "; the recording is larger, so addresses that differ fall together",
            false => "",
        };
        format!(
            "addresses fold={} onto {} MiB{together}; filled before: {}; passes: {}",
            f.fold,
            f.bytes >> 20,
            f.fill,
            f.passes
        )
    }
}

fn markup((head, rows): &Table) -> Markup {
    report::scrolled(&html! {
        table {
            thead { tr { @for h in head { th scope="col" { (h) } } } }
            tbody { @for row in rows { (report::row(row)) } }
        }
    })
}

/// Table of the figures of a recording.
pub fn about(stats: &Stats) -> Table {
    let head = texts(&[
        "requests",
        "count",
        "MiB",
        "unaligned to 4 KiB",
        "sequential",
    ]);
    let mut rows: Vec<Vec<String>> = Op::ALL
        .into_iter()
        .filter_map(|op| {
            let kind = stats.kinds.get(op.word())?;
            Some(vec![
                op.word().into(),
                kind.requests.to_string(),
                format!("{:.1}", kind.sectors as f64 / 2048.0),
                kind.unaligned.to_string(),
                kind.sequential.to_string(),
            ])
        })
        .collect();
    let mut more = |name: &str, value: String| {
        rows.push(vec![
            name.into(),
            value,
            String::new(),
            String::new(),
            String::new(),
        ]);
    };
    more("FUA writes", stats.fua.to_string());
    more("disks or files", stats.devices.to_string());
    more("seconds", format!("{:.3}", stats.seconds));
    more("preparing requests", stats.preparing.to_string());
    more("footprint, MiB", (stats.footprint_bytes >> 20).to_string());
    more("4 KiB units written", stats.units_written.to_string());
    more("writes of such a unit", format!("{:.2}", stats.rewrites()));
    (head, rows)
}
