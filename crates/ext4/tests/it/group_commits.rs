//! Group fast commits: whoever writes one tells the changes of all tasks (fast-W1), so tasks that
//! call fsync while one is under way share the next one. Each fsync that ends is followed by a cut
//! that loses all that the device may lose.

use crate::common::pattern;
use crate::data_path::{MIB, Tear, caps, new_volume_for};
use base::Ino;
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{Creds, FileKind, FileSystem};
use rt::{Mutex, Sim, SimConfig};
use varve_ext4::{Ext4, MountOptions};

const MIB_EACH: u64 = 16;
const TASKS: usize = 8;
const ROUNDS: u64 = 6;
const BLOCK: usize = 4096;

/// What a cut right behind an fsync left of the device, and how far that task's file had been
/// synced.
struct Left {
    image: Image,
    ino: Ino,
    blocks: u64,
}

struct Run {
    fast_commits: u64,
    transactions: u64,
    left: Vec<Left>,
}

fn block_of(ino: Ino, n: u64) -> Vec<u8> {
    pattern(u64::from(ino.0) << 20 | n, BLOCK)
}

/// `TASKS` tasks append to a file each and sync it, all at once.
fn synced_together(options: &'static str) -> Run {
    let start = new_volume_for(options, MIB_EACH);
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(MIB_EACH * MIB, Tear::Blocks), start, 1);
        let options = MountOptions::parse(options).expect("options");
        let fs = Ext4::mount(Queue::new(disk.clone()), options).expect("mounts");
        let (root, creds) = (fs.root(), Creds::default());
        let make = |n: usize| {
            let name = format!("file {n}");
            let made = fs.create(root, name.as_bytes(), FileKind::File, 0o644, 0, creds);
            made.expect("room").ino
        };
        let files: Vec<Ino> = (0..TASKS).map(make).collect();
        fs.sync().expect("synced");
        let before = fs.journal().stats();
        let left = Mutex::named("left", Vec::new());
        rt::scope(|scope| {
            let tasks = files.iter().map(|&ino| {
                let (fs, disk, left) = (&fs, &disk, &left);
                scope.spawn("syncs", move || {
                    for n in 0..ROUNDS {
                        let content = block_of(ino, n);
                        fs.write(ino, n * BLOCK as u64, &content).expect("room");
                        fs.fsync(ino, false).expect("synced");
                        let (image, blocks) = (disk.snapshot_lost(), n + 1);
                        left.lock().push(Left { image, ino, blocks });
                    }
                })
            });
            let tasks: Vec<_> = tasks.collect();
            tasks
                .into_iter()
                .for_each(|task| task.join().expect("no panic"));
        });
        let after = fs.journal().stats();
        fs.unmount().expect("unmounts");
        Run {
            fast_commits: after.fast_commits - before.fast_commits,
            transactions: after.transactions - before.transactions,
            left: std::mem::take(&mut *left.lock()),
        }
    });
    outcome.unwrap()
}

/// Whether a mount finds all that was synced.
fn is_there(left: Left) -> bool {
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = std::sync::Arc::new(left.image.to_ram(MIB_EACH * MIB));
        let fs = Ext4::mount(Queue::new(ram), MountOptions::default()).expect("mounts");
        let all = (0..left.blocks).all(|n| {
            let mut found = vec![0; BLOCK];
            let read = fs.read(left.ino, n * BLOCK as u64, &mut found);
            read.expect("readable") == BLOCK && found == block_of(left.ino, n)
        });
        fs.unmount().expect("unmounts");
        all
    });
    outcome.unwrap()
}

#[test]
fn one_fast_commit_serves_the_fsyncs_of_several_tasks() {
    for options in ["scheme=fast-commit", "scheme=fast-commit+adaptive"] {
        let run = synced_together(options);
        let fsyncs = TASKS as u64 * ROUNDS;
        assert_eq!(run.left.len() as u64, fsyncs);
        assert!(
            run.fast_commits > 0 && 2 * run.fast_commits <= fsyncs,
            "{options}: {} fast commits for {fsyncs} fsyncs",
            run.fast_commits
        );
        assert!(
            run.transactions <= 1,
            "{options}: {} full commits",
            run.transactions
        );
        for left in run.left {
            let what = (left.ino, left.blocks);
            assert!(is_there(left), "{options}: {what:?} is lost");
        }
    }
}
