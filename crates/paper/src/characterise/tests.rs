//! The reader against the run's own figures.

mod log;

use super::*;
use rig::{Config, JournalStats, Stack};
use vfs::OpenFlags;
use work::RunConfig;
use work::RunError;
use work::life::live_through;

fn config(scheme: &str, workload: &str) -> RunConfig {
    let mut stack = Config::new(rig::Preset::default(), "emmc-odroid-xu4", 5);
    stack.set_scheme(scheme).unwrap();
    stack.bytes = 256 << 20;
    RunConfig {
        stack,
        workload: workload.into(),
        seed: 5,
        recording: None,
    }
}

fn logged(traffic: &Traffic) -> Vec<(String, u64)> {
    let journal = |class: &str| {
        class == "coalition" || (class.starts_with("journal_") && class != "journal_superblock")
    };
    let blocks = traffic.run.blocks.iter();
    blocks
        .filter(|(class, _)| journal(class))
        .map(|(class, n)| (class.clone(), *n))
        .collect()
}

/// characterise-X1, characterise-X2: the reader finds what the queue counted by class and what the
/// journal says it committed.
#[test]
fn the_log_read_back_agrees_with_the_runs_own_figures() {
    let sqlite = "sqlite:insert=15,update=10,delete=5";
    for (scheme, workload) in [
        ("jbd2", sqlite),
        ("coalition", sqlite),
        ("coalition-paper", sqlite),
        ("flush-ahead", sqlite),
        ("emmc", sqlite),
        ("adaptive", sqlite),
        ("jbd2+data=journal", "fsync:op=append,count=20"),
        ("emmc+data=journal", "fsync:op=append,count=20"),
        ("jbd2", "files:count=40,transactions=40,sync=on"),
        ("emmc", "files:count=40,transactions=40,sync=on"),
    ] {
        let found = traffic(&config(scheme, workload)).unwrap();
        let read: Vec<_> = found.blocks.clone().into_iter().collect();
        assert_eq!(read, logged(&found), "{scheme} {workload}");
        assert_eq!(found.commits, found.run.commits, "{scheme} {workload}");
        assert!(found.commits > 0, "{scheme} {workload}");
        let metadata: u64 = found
            .metadata
            .0
            .iter()
            .map(|(v, n)| u64::from(*v) * n)
            .sum();
        assert_eq!(found.modified.count(), metadata, "{scheme} {workload}");
    }
}

/// The ring wraps many times, so that older lives lie under newer ones, and the tail moves.
#[test]
fn a_log_that_wraps_is_read_to_its_end() {
    for scheme in ["jbd2", "emmc"] {
        let mut config = config(scheme, "fsync:op=create,count=400");
        config.stack.journal_blocks = Some(1024);
        let found = traffic(&config).unwrap();
        let read: Vec<_> = found.blocks.clone().into_iter().collect();
        assert_eq!(read, logged(&found), "{scheme}");
        let all: u64 = read.iter().map(|(_, n)| n).sum();
        assert!(
            scheme == "emmc" || all > 2048,
            "{scheme}: {all} blocks do not wrap"
        );
    }
}

/// The times of the commands and the steps of the commit plan are two views of the same waits.
#[test]
fn the_waits_agree_with_the_steps_of_the_commit_plan() {
    // Steps include the host's own time and commands do not, so the host here takes next to none.
    let mut config = config("jbd2", "sqlite:insert=20,update=20,delete=0");
    config.stack.device.push_str(",host.cpu_percent=1");
    let found = traffic(&config).unwrap();
    let paths = &found.paths;
    assert_eq!((paths.paths + paths.without), found.syncs);
    let mean = |sum: u64| sum as f64 / 1e3 / found.syncs as f64;
    let part = |name: &str| found.run.fsync_us.get(name).copied().unwrap_or(0.0);
    for (name, sum) in [
        ("data", paths.all.data),
        ("log", paths.all.log),
        ("flush", paths.all.flush),
        ("commit-record", paths.all.record),
    ] {
        let (here, there) = (mean(sum), part(name));
        assert!(
            (here / there - 1.0).abs() < 0.05,
            "{name}: {here} us, {there} us"
        );
    }
}

/// Blocks change by equally many bytes whether the log holds them whole or as deltas, except for
/// times of day.
#[test]
fn images_and_deltas_tell_of_the_same_changes() {
    let work = "sqlite:insert=20,update=0,delete=0";
    let full = traffic(&config("jbd2", work)).unwrap();
    let deltas = traffic(&config("emmc", work)).unwrap();
    assert_eq!(full.commits, deltas.commits);
    let (a, b) = (
        full.modified_per_commit.mean(),
        deltas.modified_per_commit.mean(),
    );
    assert!(
        (a / b - 1.0).abs() < 0.1,
        "{a} bytes as images, {b} as deltas"
    );
    assert!(deltas.fulls.mean() < 0.5 && deltas.record_bytes.mean() > b);
    assert!(full.roles[&Role::InodeTable].blocks > 0);
}

/// The journal's own figures agree with what is in its log.
#[test]
fn the_journals_own_figures_are_those_of_its_log() {
    for scheme in ["jbd2", "coalition", "emmc"] {
        let config = config(scheme, "files:sync=on");
        let session = Session::new(&config.stack).unwrap();
        let between = session.between();
        let model = config.stack.format().unwrap();
        let life = live_through(&config, model, &between, |stack, _| churn(stack)).unwrap();
        let stats = life.value;
        let mut commits = session.commits().unwrap();
        // The unmount commits after the reading, so those commits are left out.
        commits.truncate(stats.transactions as usize);
        let sum = |of: &dyn Fn(&Commit) -> u64| commits.iter().map(of).sum::<u64>();
        let blocks = |full| {
            sum(&|c| {
                c.changes
                    .iter()
                    .filter(|change| change.full == full)
                    .count() as u64
            })
        };
        assert_eq!(commits.len() as u64, stats.transactions, "{scheme}");
        assert_eq!(blocks(true), stats.fulls_logged, "{scheme}");
        assert_eq!(
            blocks(false),
            stats.deltas_logged + stats.cumulatives_logged,
            "{scheme}"
        );
        assert_eq!(
            sum(&|c| c.transaction.revoked.len() as u64),
            stats.revokes_logged,
            "{scheme}"
        );
        assert_eq!(
            sum(&|c| c.transaction.count(Part::Coalition)),
            stats.parts_logged,
            "{scheme}"
        );
        // Of a revoke record the journal counts the blocks, but not the head of 12 bytes.
        let heads = |c: &Commit| match c.transaction.count(Part::Coalition) {
            0 => 0,
            _ => 12 * u64::from(!c.transaction.revoked.is_empty()),
        };
        assert_eq!(
            sum(&|c| c.transaction.record_bytes - heads(c)),
            stats.record_bytes,
            "{scheme}"
        );
        assert!(
            stats.transactions >= 40 && stats.revokes_logged > 0,
            "{scheme}"
        );
    }
}

/// Directories that grow and go, so that there are new blocks, revoked blocks and many deltas.
fn churn(stack: &Stack) -> Result<JournalStats, RunError> {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    for round in 0..20 {
        let dir = format!("/d{round}");
        stack.vfs.mkdir(&dir, 0o755)?;
        for n in 0..10 {
            let file = stack.vfs.open(format!("{dir}/{n}"), flags, 0o644)?;
            file.write_at(0, &[round; 3000])?;
            file.close()?;
        }
        stack.vfs.sync()?;
        for n in 0..10 {
            stack.vfs.unlink(format!("{dir}/{n}"))?;
        }
        stack.vfs.rmdir(&dir)?;
        stack.vfs.sync()?;
    }
    Ok(stack.fs.journal_stats())
}
