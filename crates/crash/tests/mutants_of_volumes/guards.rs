//! The catalogue of `cargo xtask mutants` for the file system: each guard, removed, is noticed
//! within 200 cuts, and the code with its guards passes the same cuts.

use base::Mutant;
use varve_crash::cells::Cell;
use varve_crash::ops::{Op, Stress};
use varve_crash::{CrashConfig, Depth, Script, Tally, Target, Volume, explore, small_volume};

/// Cuts within which a mutant has to be noticed.
const CUTS: usize = 200;
const PER_RUN: usize = 20;

/// A workload that reaches a guard.
struct Reaches {
    scheme: &'static str,
    name: &'static str,
    script: fn(u64) -> Script,
    /// Ask `e2fsck -fn` of one cut in so many; 0: of none.
    check_one_in: usize,
}

impl Reaches {
    fn explore(&self, mutant: Option<Mutant>) -> Tally {
        let mut stack = small_volume(self.scheme.parse().expect("a scheme"), "emmc-odroid-xu4", 1);
        stack.journal_blocks = Some(1024);
        let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
        let volume = Volume::new(&stack, &target).expect("a volume");
        let folder = tempfile::tempdir().expect("a folder");
        let mut sum = Tally::default();
        let mut seed = 0;
        while sum.cuts < CUTS && (mutant.is_none() || sum.is_clean()) {
            let script = (self.script)(seed);
            let mut config = CrashConfig::new(stack.clone(), target.clone(), seed, script, PER_RUN);
            config.mutant = mutant;
            let depth = Depth {
                folder: (self.check_one_in > 0).then_some(folder.path()),
                check_one_in: self.check_one_in,
                until_found: mutant.is_some(),
                ..Depth::default()
            };
            sum.add(explore(&config, &volume, &depth).expect("a run"));
            seed += 1;
        }
        sum
    }

    /// Proves what the catalogue says of `mutant`, and says it.
    fn notices(&self, mutant: Mutant) {
        let clean = self.explore(None);
        assert!(clean.is_clean(), "with its guard: {}", clean.words());
        let broken = self.explore(Some(mutant));
        let reached = broken.reached.get(&mutant).copied().unwrap_or(0);
        assert!(reached > 0, "{mutant}: no one asked for its guard");
        let words = broken.words();
        let found = broken.bad.first().map(|(_, why)| why.join(" "));
        let found = found.or(broken.failure);
        let found =
            found.unwrap_or_else(|| panic!("{mutant}: not noticed, reached {reached} times"));
        let rule: String = found
            .split(|c: char| !c.is_ascii_alphanumeric())
            .find(|w| {
                let mut c = w.chars();
                matches!(c.next(), Some('O' | 'R')) && c.next().is_some_and(|c| c.is_ascii_digit())
            })
            .unwrap_or("run")
            .into();
        let after = broken.first_bad.unwrap_or(broken.cuts);
        println!("{mutant}: {words}");
        println!(
            "mutant|{mutant}|{}, {}|{reached}|{rule}|{after}|{}",
            self.scheme, self.name, clean.cuts
        );
    }
}

fn mixed(stress: Stress) -> Script {
    Script::Mixed {
        tasks: 3,
        ops: 50,
        stress,
        free: None,
    }
}

/// hazards-H9: orphans are listed in the superblock all the time, and it changes between the
/// commits.
#[test]
fn superblock_direct() {
    let workload = Reaches {
        scheme: "emmc",
        name: "orphans",
        script: |_| mixed(Stress::Reuse),
        check_one_in: 4,
    };
    workload.notices(Mutant::SuperblockDirect);
}

/// hazards-H17: overwriting in place with fsync, several tasks joining each other's commits: no
/// ordered data, so the early flush of a commit that one joins may have begun before the own data
/// was complete.
#[test]
fn ack_at_commit() {
    let workload = Reaches {
        scheme: "flush-ahead",
        name: "overwrite in place",
        script: |_| Script::Fixed((0..4).map(overwrites).collect()),
        check_one_in: 0,
    };
    workload.notices(Mutant::AckAtCommit);
}

/// Writes in place and changes the inode, so that the fsync has something to commit.
fn overwrites(task: u64) -> Vec<Op> {
    let path = || "/f".to_string();
    let write = || Op::Write {
        path: path(),
        offset: 0,
        len: 24 * 512,
    };
    let round = |n: u64| {
        let perm = 0o600 + (n % 8) as u16;
        [
            Op::Chmod { path: path(), perm },
            write(),
            Op::Fsync(path()),
            Op::Pause(1 + task * 70_000 * (n % 5)),
        ]
    };
    let start = [Op::Create(path()), write(), Op::Fsync(path())];
    start.into_iter().chain((0..30).flat_map(round)).collect()
}

/// hazards-H18: files are made, synced and removed, and their blocks used again.
#[test]
fn reuse_before_commit() {
    let workload = Reaches {
        scheme: "jbd2",
        name: "reuse of freed blocks",
        script: |_| Script::Fixed(vec![recycle(0), recycle(1)]),
        check_one_in: 0,
    };
    workload.notices(Mutant::ReuseBeforeCommit);
}

/// A synced file is removed, and another one is written over its blocks, before anything commits
/// the removal.
fn recycle(task: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for n in 0..25 {
        let (old, new) = ("/old".to_string(), format!("/new{n}"));
        let write = |path: &String| Op::Write {
            path: path.clone(),
            offset: 0,
            len: 40 * 512,
        };
        ops.extend([Op::Create(old.clone()), write(&old), Op::Fsync(old.clone())]);
        ops.extend([Op::Unlink(old), Op::Create(new.clone()), write(&new)]);
        ops.push(Op::Pause(2_000_000 + task * 500_000));
        ops.push(Op::Unlink(new));
    }
    ops
}

/// hazards-H22: the superblock is written in place at mount and unmount, and torn there.
#[test]
fn no_superblock_fallback() {
    let workload = Reaches {
        scheme: "jbd2",
        name: "mount and unmount",
        script: |_| Script::Fixed(vec![Vec::new()]),
        check_one_in: 0,
    };
    workload.notices(Mutant::NoSuperblockFallback);
}
