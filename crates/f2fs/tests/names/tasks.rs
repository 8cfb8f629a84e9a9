//! Many tasks on the same few names, under random schedules: no deadlock, no lost inode, a clean image.

use crate::common::mount;
use crate::volumes::features;
use crate::walk::walk;
use base::Rng;
use base::{BlockNo, Bytes};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{Creds, Errno, FileKind, FileSystem, FsError, FsResult, RenameMode};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_f2fs::F2fs;

/// What may be answered when somebody else was quicker.
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

fn worker(fs: &F2fs, mut rng: Rng, steps: u32) -> u32 {
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

#[test]
fn many_tasks_on_few_names() {
    let (good, judge) = features(64, "");
    let fs = mount(&good, "");
    for name in [b"p", b"q"] {
        fs.mkdir(fs.root(), name, 0o755, Creds::default())
            .expect("mkdir");
    }
    fs.unmount().expect("unmount");
    let blocks: Vec<(u64, Bytes)> = good.blocks().into_iter().collect();
    for seed in 0..6 {
        let blocks = blocks.clone();
        let ram = Sim::new(SimConfig::random(seed)).run(move || {
            // Devices belong to the world they were made in.
            let ram = Arc::new(Ram::new(64 << 20));
            for (n, block) in blocks {
                write_block(&ram, BlockNo(n).lba(), Class::Data, block).expect("in range");
            }
            let fs = mount(&ram, "");
            let done: Vec<u32> = rt::scope(|s| {
                let tasks: Vec<_> = (0..4u64)
                    .map(|n| {
                        let fs = &fs;
                        s.spawn("worker", move || {
                            worker(fs, Rng::named(seed * 100 + n, "worker"), 60)
                        })
                    })
                    .collect();
                tasks
                    .into_iter()
                    .map(|task| task.join().expect("no panic"))
                    .collect()
            });
            assert!(done.iter().sum::<u32>() > 50, "work was done: {done:?}");
            walk(&fs, 3);
            fs.unmount().expect("unmount");
            ram
        });
        judge.judge(&ram.unwrap());
    }
}
