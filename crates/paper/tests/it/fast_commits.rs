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
