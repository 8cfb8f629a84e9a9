//! Figures of docs/results/fast-commit.md that no command of the program prints: how long the mount
//! behind a cut takes, and how many bytes the record of one fsync has.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use crash::cuts::switched_off;
use rig::{Config, Preset};
use vfs::OpenFlags;
use work::RunConfig;
use work::RunError;
use work::life::live;
use work::run::sync_home;

const DEVICES: [&str; 3] = ["emmc-odroid-xu4", "ufs-generic", "nvme-980pro"];
const SCHEMES: [&str; 5] = [
    "jbd2",
    "fast-commit",
    "fast-commit+adaptive",
    "emmc",
    "adaptive",
];
/// No multiple of the blocks of any area, so that fast commits wait at the end.
const FSYNCS: u64 = 307;

/// What a load does between two fsyncs.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// A file grows by a block.
    Append,
    /// One of 20 files grows by a block.
    Spread,
    /// A new file of 4 KiB.
    Create,
}

#[derive(Debug)]
struct Row {
    mount_ms: f64,
    clean_ms: f64,
    fast_replayed: u64,
    transactions_replayed: u64,
    kib_read: u64,
    /// Records of the run: fast commits, or else transactions.
    records: u64,
    blocks: u64,
    bytes: u64,
    full: u64,
}

fn wrong(what: &str) -> RunError {
    RunError::Check(what.into())
}

/// Runs the load, cuts the power behind its last fsync, and mounts.
fn measured(device: &str, scheme: &str, load: Load) -> Row {
    let mut stack = Config::new(Preset::Jbd2, device, 5);
    stack.bytes = 64 << 20;
    stack.set_scheme(scheme).expect("a scheme");
    let run = RunConfig {
        stack,
        workload: "fsync".into(),
        seed: 5,
        recording: None,
    };
    let model = run.stack.format().expect("a device");
    let life = live(&run, model, |stack, _| {
        sync_home(stack)?;
        let before = stack.fs.journal_stats();
        for n in 0..FSYNCS {
            let path = match load {
                Load::Append => "/file".to_string(),
                Load::Spread => format!("/file{}", n % 20),
                Load::Create => format!("/file{n}"),
            };
            let flags = OpenFlags::WRITE | OpenFlags::CREATE;
            let file = stack.vfs.open(&path, flags, 0o644)?;
            let at = match load {
                Load::Append => n * 4096,
                Load::Spread => n / 20 * 4096,
                Load::Create => 0,
            };
            file.write_at(at, &[(n % 250) as u8 + 1; 4096])?;
            file.fsync()?;
            file.close()?;
        }
        let after = stack.fs.journal_stats();
        let media = stack.device.snapshot(run.seed);
        Ok((before, after, media.ok_or_else(|| wrong("no power"))?))
    });
    let (before, after, media) = life.expect("a run").value;
    let (fast, full) = (
        after.fast_commits - before.fast_commits,
        after.transactions - before.transactions,
    );
    let records = if fast > 0 { fast } else { full };
    let blocks = match fast {
        0 => after.parts_logged - before.parts_logged,
        _ => after.fast_blocks - before.fast_blocks,
    };
    let bytes = match fast {
        0 => after.record_bytes - before.record_bytes,
        _ => after.fast_bytes - before.fast_bytes,
    };
    let model = run.stack.attach(media).expect("the same device");
    let life = live(&run, model, |stack, _| {
        let kib_read = stack.queue.stats().sectors_read / 2;
        let report = stack.fs.journal_recovery();
        let report = report.ok_or_else(|| wrong("nothing to recover"))?;
        let replayed = (report.fast_commits, report.transactions);
        Ok((stack.mount_took, kib_read, replayed, rt::now()))
    });
    let life = life.expect("a mount");
    let (took, kib_read, (fast_replayed, transactions_replayed), at) = life.value;
    let rest = run.stack.attach(switched_off(life.model, at));
    let rest = rest.expect("the same device");
    let clean = live(&run, rest, |stack, _| Ok(stack.mount_took)).expect("a mount");
    let ms = |span: base::Nanos| span.0 as f64 / 1e6;
    Row {
        mount_ms: ms(took),
        clean_ms: ms(clean.value),
        fast_replayed,
        transactions_replayed,
        kib_read,
        records,
        blocks,
        bytes,
        full,
    }
}

#[test]
fn fast_commits_are_replayed_in_a_mount_and_their_bytes_are_counted() {
    let row = measured(DEVICES[0], "fast-commit", Load::Append);
    assert!(
        row.fast_replayed > 0 && row.mount_ms > row.clean_ms,
        "{row:?}"
    );
    assert!(
        row.records <= row.blocks && row.bytes < row.blocks * 4096,
        "{row:?}"
    );
}

/// Tasks that sync at the same time.
const TASKS: u64 = 8;
/// Rounds of each: new files, and an fsync of the last one.
const ROUNDS: u64 = 12;

/// What the records of a run with groups take. One record serves the fsyncs of a group, and holds
/// all that all tasks have changed.
#[derive(Debug)]
struct Groups {
    fsyncs: u64,
    records: u64,
    /// Records of more than one block.
    long: u64,
    /// Blocks of the log for these records.
    blocks: u64,
    /// Bytes of tags, or of deltas and full images.
    bytes: u64,
    /// Full images among the blocks.
    images: u64,
    /// Transactions that were committed in full beside fast commits.
    full: u64,
    /// Blocks that the device got, of all classes.
    all: u64,
    seconds: f64,
}

/// Eight tasks make `files` new files a round, each with 4 KiB, and sync the last one.
fn grouped(device: &str, scheme: &str, files: u64) -> Groups {
    let mut stack = Config::new(Preset::Jbd2, device, 5);
    stack.bytes = 256 << 20;
    stack.set_scheme(scheme).expect("a scheme");
    let run = RunConfig {
        stack,
        workload: "fsync".into(),
        seed: 5,
        recording: None,
    };
    let model = run.stack.format().expect("a device");
    let life = live(&run, model, |stack, _| {
        for task in 0..TASKS {
            stack.vfs.mkdir(format!("/{task}"), 0o755)?;
        }
        sync_home(stack)?;
        let (before, begun) = (stack.fs.journal_stats(), rt::now());
        let written = stack.queue.stats().blocks_written_total();
        let vfs = &stack.vfs;
        rt::scope(|scope| {
            let tasks = (0..TASKS).map(|task| {
                scope.spawn("maker", move || -> Result<(), RunError> {
                    for n in 0..ROUNDS * files {
                        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
                        let path = format!("/{task}/file{n}");
                        let file = vfs.open(&path, flags, 0o644)?;
                        file.write_at(0, &[task as u8 + 1; 4096])?;
                        if n % files == files - 1 {
                            file.fsync()?;
                        }
                        file.close()?;
                    }
                    Ok(())
                })
            });
            let tasks: Vec<_> = tasks.collect();
            let ends = tasks.into_iter().map(|task| task.join().expect("no panic"));
            ends.collect::<Result<Vec<_>, _>>()
        })?;
        let seconds = (rt::now() - begun).0 as f64 / 1e9;
        let all = stack.queue.stats().blocks_written_total() - written;
        Ok((before, stack.fs.journal_stats(), all, seconds))
    });
    let (before, after, all, seconds) = life.expect("a run").value;
    let full = after.transactions - before.transactions;
    let images = after.fulls_logged - before.fulls_logged;
    let is_fast = after.fast_commits > before.fast_commits;
    let coalitions = (
        full,
        after.coalitions_long - before.coalitions_long,
        after.parts_logged - before.parts_logged + images,
        after.record_bytes - before.record_bytes,
    );
    let fast = (
        after.fast_commits - before.fast_commits,
        after.fast_long - before.fast_long,
        after.fast_blocks - before.fast_blocks,
        after.fast_bytes - before.fast_bytes,
    );
    let (records, long, blocks, bytes) = if is_fast { fast } else { coalitions };
    Groups {
        fsyncs: TASKS * ROUNDS,
        records,
        long,
        blocks,
        bytes,
        images: if is_fast { 0 } else { images },
        full: if is_fast { full } else { 0 },
        all,
        seconds,
    }
}

#[test]
fn many_new_files_of_a_group_fill_several_blocks_of_a_fast_commit() {
    let row = grouped(DEVICES[0], "fast-commit", 16);
    assert!(row.long > 0 && row.records < row.fsyncs, "{row:?}");
    assert!(row.blocks >= row.records + row.long, "{row:?}");
    let row = grouped(DEVICES[0], "emmc", 16);
    assert!(row.long > 0 && row.records < row.fsyncs, "{row:?}");
}

#[test]
#[ignore = "figures of docs/results/fast-commit.md"]
fn figures_of_groups() {
    for device in DEVICES {
        for files in [1, 4, 16, 64] {
            for scheme in &SCHEMES[1..] {
                let r = grouped(device, scheme, files);
                let each = |n: u64| n as f64 / r.fsyncs as f64;
                println!(
                    "| `{device}` | {files} | `{scheme}` | {} | {} | {} | {:.2} | {:.0} | {:.2} | {} | {:.2} | {:.0} |",
                    r.records,
                    r.long,
                    r.blocks,
                    each(r.blocks),
                    each(r.bytes),
                    each(r.images),
                    r.full,
                    each(r.all),
                    r.fsyncs as f64 / r.seconds,
                );
            }
        }
    }
}

#[test]
#[ignore = "figures of docs/results/fast-commit.md"]
fn figures() {
    for load in [Load::Append, Load::Spread, Load::Create] {
        for device in DEVICES {
            for scheme in SCHEMES {
                let r = measured(device, scheme, load);
                println!(
                    "| {load:?} | `{device}` | `{scheme}` | {:.2} | {} + {} | {} | {} | {} | {:.2} | {:.0} |",
                    r.mount_ms - r.clean_ms,
                    r.transactions_replayed,
                    r.fast_replayed,
                    r.kib_read,
                    r.full,
                    r.records,
                    r.blocks as f64 / r.records as f64,
                    r.bytes as f64 / r.records as f64,
                );
            }
        }
    }
}
