//! One workload on one stack, simulated: what a worker process does.

use crate::fsck::{self, Verdict};
use crate::life::live;
use crate::metrics::{Latencies, micros, round};
use crate::results::{Device, Flash, LatencyTable, Run};
use crate::workload::sqlite::{self, Transaction};
use crate::workload::{SqliteSpec, Workload};
use crate::{RunConfig, RunError};
use ::sqlite::Registration;
use base::{BLOCK_BYTES, Nanos, SECTORS_PER_BLOCK, Time};
use rig::{AnyModel, Class, DeviceStats, FlashStats, Stack};
use std::collections::BTreeMap;
use std::path::Path;

/// A finished run.
pub struct Finished {
    /// The figures.
    pub run: Run,
    /// The device after unmounting.
    pub model: AnyModel,
}

/// Where the database lies.
pub const DATABASE: &str = "/test.db";

/// Runs the workload and checks what remains: `PRAGMA integrity_check`, and every row against the oracle.
/// `progress` gets (done, all) transactions now and then.
///
/// # Errors
/// Whatever went wrong, first failure first.
pub fn run(config: &RunConfig, progress: &mut dyn FnMut(u64, u64)) -> Result<Finished, RunError> {
    let workload: Workload = config.workload.parse()?;
    let Workload::Sqlite(spec) = &workload;
    let model = config.stack.format()?;
    let transactions = sqlite::transactions(spec, config.seed);
    let life = live(config, model, |stack, sqlite| {
        measure(stack, sqlite, spec, &transactions, progress)
    })?;
    let timing = config.stack.profile()?.timing().to_string();
    let run = life
        .value
        .into_run(config, &workload, timing, life.trace_hash);
    let model = life.model;
    Ok(Finished { run, model })
}

/// Everything taken while the workload ran.
struct Taken {
    start: Reading,
    end: Reading,
    ops: Latencies,
    fsyncs: Latencies,
}

/// Prepares, runs and measures the transactions, checks the table.
fn measure(
    stack: &Stack,
    sqlite: &Registration,
    spec: &SqliteSpec,
    transactions: &[Transaction],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Taken, RunError> {
    let db = sqlite.open(DATABASE)?;
    sqlite::prepare(&db, spec)?;
    let start = Reading::take(stack);
    stack.vfs.record_syncs();
    let (mut ops, mut done) = (Latencies::default(), 0);
    sqlite::run(&db, transactions, |took| {
        ops.add(took);
        done += 1;
        if done % PROGRESS_EVERY == 0 {
            progress(done, transactions.len() as u64);
        }
    })?;
    let end = Reading::take(stack);
    let mut fsyncs = Latencies::default();
    stack
        .vfs
        .take_syncs()
        .iter()
        .for_each(|sync| fsyncs.add(sync.took));
    check_table(&db, transactions)?;
    db.close().map_err(|(_, e)| e)?;
    Ok(Taken {
        start,
        end,
        ops,
        fsyncs,
    })
}

/// Transactions between two calls of the progress function.
const PROGRESS_EVERY: u64 = 16;

fn check_table(db: &rusqlite::Connection, transactions: &[Transaction]) -> Result<(), RunError> {
    if let Some(findings) = sqlite::integrity(db)? {
        return Err(RunError::Check(format!(
            "PRAGMA integrity_check says: {findings}"
        )));
    }
    let (found, wanted) = (
        sqlite::read_table(db)?,
        sqlite::table_after(transactions, transactions.len()),
    );
    if found != wanted {
        let what = format!(
            "the table has {} rows that differ from the {} written",
            found.len(),
            wanted.len()
        );
        return Err(RunError::Check(what));
    }
    Ok(())
}

/// All counters at one moment; what the measured part did is the difference of two.
struct Reading {
    at: Time,
    sectors: BTreeMap<Class, u64>,
    device: DeviceStats,
    flash: Option<FlashStats>,
    waits: BTreeMap<&'static str, Nanos>,
}

impl Reading {
    fn take(stack: &Stack) -> Reading {
        let journal = stack.fs.journal().stats();
        let mut waits = journal.waits;
        waits.extend(journal.steps);
        Reading {
            at: rt::now(),
            sectors: stack.queue.stats().sectors_written,
            device: stack.device.device_stats().unwrap_or_default(),
            flash: stack.device.flash_stats(),
            waits,
        }
    }
}

impl Taken {
    fn into_run(
        self,
        config: &RunConfig,
        workload: &Workload,
        timing: String,
        trace_hash: u64,
    ) -> Run {
        let span = self.end.at - self.start.at;
        let seconds = span.0 as f64 / 1e9;
        let ops = self.ops.count();
        let blocks = self.blocks();
        let all: u64 = blocks.values().sum();
        let journal: u64 = blocks
            .iter()
            .filter(|(class, _)| class.starts_with("journal"))
            .map(|(_, n)| n)
            .sum();
        Run {
            fs: config.stack.fs.to_string(),
            scheme: config.stack.scheme_text(),
            device: self.device(&config.stack.device),
            timing,
            workload: workload.to_string(),
            virtual_seconds: round(seconds),
            ops,
            ops_per_s: if span.0 == 0 {
                0.0
            } else {
                round(ops as f64 / seconds)
            },
            latency_us: LatencyTable {
                op: self.ops.summary(),
                fsync: self.fsyncs.summary(),
                fsync_cdf: self.fsyncs.cdf(),
            },
            journal_block_ratio: if all == 0 {
                0.0
            } else {
                round(journal as f64 / all as f64)
            },
            blocks,
            flash: self.flash(),
            waits_us: self.waits(),
            trace_hash: format!("{trace_hash:016x}"),
        }
    }

    fn blocks(&self) -> BTreeMap<String, u64> {
        let sectors = |reading: &Reading, class| reading.sectors.get(&class).copied().unwrap_or(0);
        let blocks = Class::ALL.iter().map(|&class| {
            let written = sectors(&self.end, class) - sectors(&self.start, class);
            (
                class.name().to_string(),
                written.div_ceil(SECTORS_PER_BLOCK),
            )
        });
        blocks.filter(|(_, n)| *n > 0).collect()
    }

    fn device(&self, profile: &str) -> Device {
        Device {
            profile: profile.into(),
            commands: self.end.device.since(&self.start.device),
        }
    }

    fn flash(&self) -> Option<Flash> {
        let (a, b) = (self.start.flash?, self.end.flash?);
        let host_pages = b.host_pages - a.host_pages;
        let programs = b.programs - a.programs;
        let programmed = programs * u64::from(b.page_bytes);
        let hosted = host_pages * BLOCK_BYTES as u64;
        Some(Flash {
            host_pages,
            programs,
            erases: b.erases - a.erases,
            gc_copies: b.gc_copies - a.gc_copies,
            map_programs: b.map_programs - a.map_programs,
            write_amplification: if hosted == 0 {
                0.0
            } else {
                round(programmed as f64 / hosted as f64)
            },
        })
    }

    fn waits(&self) -> BTreeMap<String, f64> {
        let earlier = |cause| self.start.waits.get(cause).copied().unwrap_or_default();
        let waits = self
            .end
            .waits
            .iter()
            .map(|(&cause, span)| (cause.to_string(), micros(span.0 - earlier(cause).0)));
        waits.filter(|(_, us)| *us > 0.0).collect()
    }
}

/// Writes the image of a finished run to `folder` and asks `e2fsck -fn` about it.
///
/// # Errors
/// The image cannot be written, or the checker cannot be run.
pub fn second_opinion(model: &AnyModel, folder: &Path) -> Result<Verdict, RunError> {
    let image = folder.join("image");
    rig::write_image(model, &image)?;
    let verdict = fsck::e2fsck_check(&image);
    let host = |source| RunError::Host {
        doing: "running e2fsck".into(),
        source,
    };
    let verdict = verdict.map_err(host)?;
    // A folder that stays behind is swept by its owner; the image is large, so it goes at once.
    std::fs::remove_file(&image).map_err(|source| RunError::Host {
        doing: "removing the image".into(),
        source,
    })?;
    Ok(verdict)
}
