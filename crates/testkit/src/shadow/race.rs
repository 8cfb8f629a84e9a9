//! Many tasks on the same few names, without a shadow: a call succeeds, or fails with an error that
//! another task's change of the names explains (ENOENT, EEXIST, ...), and with no other.

use base::Rng;
use fscore::{Creds, Errno, FileKind, FileSystem, FsError, FsResult, RenameMode};

/// Number of tasks.
const TASKS: u64 = 4;
/// Number of operations of each task.
const STEPS: u32 = 60;

/// Lets tasks loose on four names in each of the directories `p` and `q` of the root, which must be
/// there. Returns the number of operations that succeeded.
///
/// # Panics
/// An answer is not explained by what other tasks did.
pub fn race(fs: &dyn FileSystem, seed: u64) -> u32 {
    rt::scope(|s| {
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                s.spawn("worker", move || {
                    worker(fs, Rng::named(seed * 100 + n, "worker"), STEPS)
                })
            })
            .collect();
        let ends = tasks.into_iter().map(|task| task.join());
        ends.map(|done| done.expect("no panic")).sum()
    })
}

/// True for a success, false for an error that another task explains.
fn tolerate<T>(result: FsResult<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(FsError::Posix(
            Errno::NoEnt
            | Errno::Exist
            | Errno::NotEmpty
            | Errno::IsDir
            | Errno::NotDir
            | Errno::Inval
            | Errno::Perm
            | Errno::Stale,
        )) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn worker(fs: &dyn FileSystem, mut rng: Rng, steps: u32) -> u32 {
    let root = fs.root();
    let dirs: Vec<_> = [&b"p"[..], b"q"]
        .iter()
        .map(|name| fs.lookup(root, name).expect("there"))
        .collect();
    let creds = Creds::default();
    let mut done = 0;
    for _ in 0..steps {
        let (a, b) = (dirs[rng.below(2) as usize], dirs[rng.below(2) as usize]);
        let (x, y) = ([b'a' + rng.below(4) as u8], [b'a' + rng.below(4) as u8]);
        done += u32::from(match rng.below(10) {
            0 | 1 => tolerate(fs.create(a, &x, FileKind::File, 0o600, 0, creds)),
            2 => tolerate(fs.mkdir(a, &x, 0o700, creds)),
            3 => tolerate(fs.unlink(a, &x)),
            4 => tolerate(fs.rmdir(a, &x)),
            5 => tolerate(fs.lookup(a, &x).and_then(|ino| fs.link(ino, b, &y))),
            6 => tolerate(fs.readdir(a, 0, 100)),
            7 => tolerate(fs.rename(a, &x, b, &y, RenameMode::Exchange)),
            _ => tolerate(fs.rename(a, &x, b, &y, RenameMode::Replace)),
        });
    }
    done
}
