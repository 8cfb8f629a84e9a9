//! The file workloads of `varve compare` as scripts: equal operations on equal files in equal
//! order, below the directory of a task, with the stamps of the oracle as content.
//!
//! Reads are left out, because they change nothing that a cut could take. The writer beside
//! (`writer=`) writes to its file as long as the other task runs; a script is a list, so here it
//! writes a fixed number of times, and to a smaller file.

use super::script::FileScript;
use crate::ops::Op;
use base::{BLOCK_BYTES, Rng};
use work::workload::fsync::{Op as Kind, Sync};
use work::workload::{Background, FilesSpec, FsyncSpec};

/// Most operations of such a script. What the model keeps grows with the operations since the last
/// sync of the file system.
pub(super) const OPS_MAX: u64 = 50_000;
/// Largest file of such a script, bytes.
pub(super) const BYTES_MAX: u64 = super::text::FILE_MAX;

const DIR: &str = "/d";
const FILE: &str = "/d/file";

fn path(prefix: &str, n: u64) -> String {
    format!("{DIR}/{prefix}{n}")
}

fn write(path: &str, offset: u64, len: u64) -> Op {
    let path = path.into();
    Op::Write { path, offset, len }
}

/// Adds the operations that make a file with content.
fn make(ops: &mut Vec<Op>, path: &str, bytes: u64) {
    ops.push(Op::Create(path.into()));
    if bytes > 0 {
        ops.push(write(path, 0, bytes));
    }
}

/// Why a workload is too large for the explorer, if it is; `keys` names the parameters that decide.
pub(super) fn too_large(ops: u64, file_bytes: u64, keys: &str) -> Option<String> {
    if ops > OPS_MAX {
        return Some(format!(
            "{ops} operations; the explorer takes at most {OPS_MAX} ({keys})"
        ));
    }
    (file_bytes > BYTES_MAX).then(|| {
        let (mib, max) = (file_bytes >> 20, BYTES_MAX >> 20);
        format!("a file of {mib} MiB; the explorer takes at most {max} ({keys})")
    })
}

/// Why a `fsync:` workload is too large for the explorer, if it is.
pub(super) fn fsync_too_large(spec: &FsyncSpec) -> Option<String> {
    let count = u64::from(spec.count);
    let bytes = match spec.op {
        Kind::Append => spec.bytes * count,
        Kind::Overwrite | Kind::Random => spec.file_bytes,
        _ => spec.bytes,
    };
    too_large(4 * count + 16, bytes, "set count, size, file")
}

/// Why a `files:` workload is too large for the explorer, if it is.
pub(super) fn files_too_large(spec: &FilesSpec) -> Option<String> {
    let files = u64::from(spec.files) + u64::from(spec.transactions);
    let ops = 5 * files + 4 * u64::from(spec.transactions);
    // Every append adds at most what is missing to the largest size, and one unit.
    let bytes = spec.sizes.1 + (1 + u64::from(spec.transactions)) * 1024;
    too_large(ops, bytes, "set count, transactions, min, max")
}

/// The operations of `fsync:`.
pub(super) fn fsync(spec: &FsyncSpec, seed: u64) -> FileScript {
    let mut rng = Rng::named(seed, "workload/fsync");
    let mut ops = vec![Op::Mkdir(DIR.into())];
    prepare(spec, &mut ops);
    ops.push(Op::Sync);
    for n in 0..spec.count.into() {
        operation(spec, n, &mut rng, &mut ops);
    }
    let tasks = [ops].into_iter().chain(beside(spec.background, seed));
    FileScript::new(tasks.collect()).expect("the workload runs on any file system")
}

fn prepare(spec: &FsyncSpec, ops: &mut Vec<Op>) {
    match spec.op {
        Kind::Append => make(ops, FILE, 0),
        Kind::Overwrite | Kind::Random => make(ops, FILE, spec.file_bytes),
        Kind::Replace => make(ops, FILE, spec.bytes),
        Kind::Rename | Kind::Unlink => {
            (0..spec.count.into()).for_each(|n| make(ops, &path("f", n), spec.bytes));
        }
        Kind::Create => {}
    }
}

fn operation(spec: &FsyncSpec, n: u64, rng: &mut Rng, ops: &mut Vec<Op>) {
    let synced = |path: &str| match spec.sync {
        Sync::Fsync => Some(Op::Fsync(path.into())),
        Sync::Fdatasync => Some(Op::Fdatasync(path.into())),
        Sync::None => None,
    };
    let dir_synced = (spec.sync != Sync::None).then(|| Op::SyncDir(DIR.into()));
    match spec.op {
        Kind::Append | Kind::Overwrite | Kind::Random => {
            let slots = (spec.file_bytes / spec.bytes).max(1);
            let slot = match spec.op {
                Kind::Append => n,
                Kind::Overwrite => n % slots,
                _ => rng.below(slots),
            };
            ops.push(write(FILE, slot * spec.bytes, spec.bytes));
            ops.extend(synced(FILE));
        }
        Kind::Create => {
            make(ops, &path("f", n), spec.bytes);
            ops.extend(synced(&path("f", n)));
        }
        Kind::Replace => {
            let temporary = path("t", n);
            make(ops, &temporary, spec.bytes);
            ops.extend(synced(&temporary));
            ops.push(Op::Rename {
                from: temporary,
                to: FILE.into(),
            });
            ops.extend(dir_synced);
        }
        Kind::Rename => {
            ops.push(Op::Rename {
                from: path("f", n),
                to: path("g", n),
            });
            ops.extend(dir_synced);
        }
        Kind::Unlink => {
            ops.push(Op::Unlink(path("f", n)));
            ops.extend(dir_synced);
        }
    }
}

/// Number of writes of the writer beside.
const BESIDE: u64 = 256;
/// Blocks of its file. They are fewer than in `compare`, whose 16 MiB are for measuring speed.
const BESIDE_BLOCKS: u64 = 64;
/// Writes between two of its fdatasyncs.
const BESIDE_SYNC: u64 = 64;

fn beside(background: Background, seed: u64) -> Option<Vec<Op>> {
    let pause = background.pause()?;
    let (file, block) = ("/background", BLOCK_BYTES as u64);
    let mut rng = Rng::named(seed, "workload/background");
    let mut ops = Vec::new();
    make(&mut ops, file, BESIDE_BLOCKS * block);
    ops.push(Op::Fsync(file.into()));
    for n in 1..=BESIDE {
        ops.push(write(file, rng.below(BESIDE_BLOCKS) * block, block));
        if n % BESIDE_SYNC == 0 {
            ops.push(Op::Fdatasync(file.into()));
        }
        ops.push(Op::Pause(pause.0));
    }
    Some(ops)
}

/// The choices of PostMark, made as the workload makes them.
struct PostMark<'a> {
    spec: &'a FilesSpec,
    rng: Rng,
    live: Vec<(u64, u64)>,
    next: u64,
    ops: Vec<Op>,
}

/// The operations of `files:`.
pub(super) fn files(spec: &FilesSpec, seed: u64) -> FileScript {
    let mut run = PostMark {
        spec,
        rng: Rng::named(seed, "workload/files"),
        live: Vec::new(),
        next: 0,
        ops: vec![Op::Mkdir(DIR.into()), Op::Sync],
    };
    (0..spec.files).for_each(|_| run.create());
    run.ops.push(Op::Sync);
    for _ in 0..spec.transactions {
        match run.rng.below(2) {
            0 => drop(run.pick()),
            _ => run.append(),
        }
        match run.rng.below(2) {
            0 => run.create(),
            _ => run.delete(),
        }
    }
    run.ops.push(Op::Sync);
    while !run.live.is_empty() {
        run.delete();
    }
    run.ops.push(Op::Sync);
    let tasks = [run.ops].into_iter().chain(beside(spec.background, seed));
    FileScript::new(tasks.collect()).expect("the workload runs on any file system")
}

/// Unit of the length of an append, bytes.
const APPEND_UNIT: u64 = 512;

impl PostMark<'_> {
    fn pick(&mut self) -> Option<usize> {
        match self.live.len() {
            0 => None,
            len => Some(self.rng.below(len as u64) as usize),
        }
    }

    fn synced(&mut self, path: String) {
        if self.spec.sync {
            self.ops.push(Op::Fsync(path));
        }
    }

    fn create(&mut self) {
        let (min, max) = self.spec.sizes;
        let bytes = min + self.rng.below(max - min + 1);
        let file = path("", self.next);
        self.live.push((self.next, bytes));
        self.next += 1;
        make(&mut self.ops, &file, bytes);
        self.synced(file);
    }

    fn append(&mut self) {
        let Some(at) = self.pick() else { return };
        let (n, old) = self.live[at];
        let room = self.spec.sizes.1.saturating_sub(old);
        let bytes = (1 + self.rng.below(room / APPEND_UNIT + 1)) * APPEND_UNIT;
        self.live[at].1 = old + bytes;
        self.ops.push(write(&path("", n), old, bytes));
        self.synced(path("", n));
    }

    fn delete(&mut self) {
        let Some(at) = self.pick() else { return };
        let (n, _) = self.live.swap_remove(at);
        self.ops.push(Op::Unlink(path("", n)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use super::*;

    fn fixed(text: &str, seed: u64) -> FileScript {
        Spec::parse(text).unwrap().fixed(seed).unwrap()
    }

    #[test]
    fn the_operations_are_those_of_the_workload() {
        let text = "fsync:op=replace,size=100,count=2,sync=fdatasync";
        assert_eq!(
            fixed(text, 1).to_string(),
            "mkdir /d; create /d/file; write /d/file 0+100; sync; \
             create /d/t0; write /d/t0 0+100; fdatasync /d/t0; rename /d/t0 /d/file; syncdir /d; \
             create /d/t1; write /d/t1 0+100; fdatasync /d/t1; rename /d/t1 /d/file; syncdir /d"
        );
        assert_eq!(
            fixed("fsync:op=append,size=5000,count=2,sync=none", 1).to_string(),
            "mkdir /d; create /d/file; sync; write /d/file 0+5000; write /d/file 5000+5000"
        );
        let random = "fsync:op=random,count=5,file=64k";
        assert_eq!(fixed(random, 1), fixed(random, 1));
        assert_ne!(fixed(random, 1), fixed(random, 2));
        let beside = fixed("fsync:op=create,count=1,writer=4096", 1);
        assert_eq!(beside.tasks().len(), 2);
    }

    #[test]
    fn all_files_of_postmark_go_in_the_end() {
        let script = fixed("files:count=5,transactions=20,max=2000,sync=on", 3);
        let of = |verb: &str| {
            let ops = script.tasks()[0].iter();
            ops.filter(|op| op.to_string().starts_with(verb)).count()
        };
        assert_eq!(of("create"), of("unlink"));
        assert!(of("create") > 5 && of("fsync") > of("create"), "{script}");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for (text, words) in [
            (
                "fsync:count=1000000",
                "operations; the explorer takes at most",
            ),
            (
                "fsync:op=overwrite,file=1024m,count=1",
                "a file of 1024 MiB",
            ),
            ("files:count=100000", "set count, transactions"),
        ] {
            let e = Spec::parse(text).unwrap_err().to_string();
            assert!(e.contains(words), "{text}: {e}");
        }
    }
}
