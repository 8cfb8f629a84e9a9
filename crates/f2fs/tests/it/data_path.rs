//! Cases of file content that the fuzz test does not reach: huge offsets, the move out of the
//! inode, full disks, failing writes, many tasks.

use crate::common::{MIB, caps, end, fresh, mount, pattern};
use base::{Ino, Nanos};
use block::{Class, Queue};
use blockdev::{Image, SpecDisk};
use fscore::{Errno, FallocateMode, FileSystem};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, InPlace, MountOptions};

const BLOCK: u64 = 4096;
/// `i_advise` of an inode, and its bit for blocks behind the end that are meant.
const ADVISE_AT: usize = 2;
const KEEP_SIZE: u8 = ondisk::f2fs::Advise::KEEP_SIZE.0;
/// Blocks of the largest file.
const BLOCKS_MAX: u64 = 2 * 1018 + 2 * 1018 * 1018 + 1018 * 1018 * 1018;

fn image(mib: u64) -> Image {
    fresh(mib).blocks().into_iter().collect()
}

/// Runs `work` on a mounted volume over a device that a cut may leave in any legal state.
fn on_disk<R: Send + 'static>(
    mib: u64,
    options: &str,
    seed: u64,
    work: impl FnOnce(&Arc<SpecDisk>, &Arc<F2fs>) -> R + Send + 'static,
) -> R {
    on_image(image(mib), mib, options, seed, work)
}

/// The same on what is there.
fn on_image<R: Send + 'static>(
    start: Image,
    mib: u64,
    options: &str,
    seed: u64,
    work: impl FnOnce(&Arc<SpecDisk>, &Arc<F2fs>) -> R + Send + 'static,
) -> R {
    let options = MountOptions::parse(options).expect("options");
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(mib * MIB), start, seed);
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        let answer = work(&disk, &fs);
        fs.unmount().expect("unmounts");
        answer
    });
    outcome.unwrap()
}

/// Mounts what a cut left and reads a file of the root.
fn after_cut(left: Image, mib: u64, name: &str) -> Vec<u8> {
    let ram = Arc::new(left.to_ram(mib * MIB));
    let fs = mount(&ram, "");
    let ino = fs.find(name);
    let content = fs.content(ino);
    end(&fs, &ram);
    content
}

/// A checkpoint that writes no data: fsync of a directory.
fn checkpoint(fs: &F2fs) {
    fs.fsync(fs.root(), false).expect("checkpoint");
}

fn read_at(fs: &F2fs, ino: Ino, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xEE; len];
    let n = fs.read(ino, offset, &mut buf).expect("read");
    buf.truncate(n);
    buf
}

#[test]
fn each_level_of_the_node_tree_holds_data() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let ino = fs.file("sparse");
    let d = 1018;
    let indexes = [
        0,
        872,
        900,
        900 + d,
        900 + 2 * d,
        900 + 2 * d + d * d,
        900 + 2 * d + 2 * d * d,
        900 + 2 * d + 2 * d * d + 5 * d * d + 17 * d,
        BLOCKS_MAX - 1,
    ];
    for (n, index) in indexes.into_iter().enumerate() {
        let at = index * BLOCK + 4000;
        let wrote = fs.write(ino, at, &[n as u8 + 1; 96]);
        assert_eq!(wrote.expect("written"), 96);
    }
    let most = BLOCKS_MAX * BLOCK;
    assert_eq!(fs.getattr(ino).expect("attr").size, most);
    for beyond in [
        fs.write(ino, most, b"x").map(drop),
        fs.resize(ino, most + 1),
    ] {
        assert_eq!(beyond.expect_err("too large").errno(), Errno::FBig);
    }
    let check = |fs: &F2fs| {
        for (n, index) in indexes.into_iter().enumerate() {
            let page = read_at(fs, ino, index * BLOCK, 4096);
            assert!(page[..4000].iter().all(|&b| b == 0), "page {index}");
            assert!(page[4000..].iter().all(|&b| b == n as u8 + 1));
            let hole = read_at(fs, ino, (index + 7) * BLOCK, 10);
            assert!(hole.iter().all(|&b| b == 0));
        }
    };
    check(&fs);
    end(&fs, &ram);
    let fs = mount(&ram, "");
    check(&fs);
    let extents = fs.file_extents(ino, 0, 100).expect("extents");
    let offsets: Vec<u64> = extents.iter().map(|e| e.offset / BLOCK).collect();
    assert_eq!(offsets, indexes);
    assert!(extents.iter().all(|e| e.len == BLOCK && e.block.is_some()));
    fs.resize(ino, 900 * BLOCK + 4001).expect("cut");
    assert_eq!(read_at(&fs, ino, 900 * BLOCK + 3999, 9), [0, 3]);
    let used = fs.getattr(ino).expect("attr").sectors / 8;
    assert!((3..=5).contains(&used), "{used} blocks are left");
    end(&fs, &ram);
}

#[test]
fn small_content_lies_in_the_inode_and_leaves_it_when_it_grows() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let ino = fs.file("small");
    let mut now = pattern(1, 3000);
    fs.write(ino, 0, &now).expect("written");
    let inline = |fs: &F2fs| fs.file_extents(ino, 0, 9).expect("extents")[0].inline;
    assert!(inline(&fs));
    fs.resize(ino, 100).expect("cut");
    fs.resize(ino, 2000).expect("grown");
    now.truncate(100);
    now.resize(2000, 0);
    assert!(inline(&fs) && fs.content(ino) == now);
    fs.unmount().expect("unmounts");
    let fs = mount(&ram, "");
    assert!(fs.content(ino) == now);
    fs.write(ino, 3999, b"!").expect("written");
    now.resize(3999, 0);
    now.push(b'!');
    assert!(!inline(&fs) && fs.content(ino) == now);
    end(&fs, &ram);
    let fs = mount(&ram, "");
    assert!(fs.content(ino) == now);
    // Growing by truncation moves it, too.
    let other = fs.file("other");
    fs.write(other, 0, b"abc").expect("written");
    fs.resize(other, 1 << 20).expect("grown");
    assert_eq!(read_at(&fs, other, 0, 5), *b"abc\0\0");
    end(&fs, &ram);
}

/// file-D2: the block is sent with the inode that names it.
#[test]
fn inline_content_survives_its_move_and_a_checkpoint() {
    let left = on_disk(64, "", 1, |disk, fs| {
        let ino = fs.file("f");
        fs.write(ino, 0, &[7; 100]).expect("written");
        fs.fsync(ino, false).expect("durable");
        fs.write(ino, 5000, &[8; 100]).expect("written");
        checkpoint(fs);
        disk.snapshot_lost()
    });
    let content = after_cut(left, 64, "f");
    assert!(content.len() >= 100 && content[..100] == [7; 100]);
}

/// file-D4: what a truncation zeroes goes out of place, together with the size.
#[test]
fn a_cut_after_a_truncation_shows_the_old_end_or_the_new_one() {
    for seed in 0..6 {
        let states = on_disk(64, "", seed, move |disk, fs| {
            let ino = fs.file("f");
            fs.write(ino, 0, &[7; 6000]).expect("written");
            fs.fsync(ino, false).expect("durable");
            fs.resize(ino, 1000).expect("cut");
            rt::sleep(Nanos::from_millis(seed * 2));
            let before = disk.snapshot(seed);
            checkpoint(fs);
            fs.resize(ino, 6000).expect("grown");
            checkpoint(fs);
            [before, disk.snapshot_lost()]
        });
        let [before, behind] = states;
        let seen = after_cut(before, 64, "f");
        assert!(
            seen == [7; 6000] || seen == [7; 1000],
            "{} bytes, mixed",
            seen.len()
        );
        let seen = after_cut(behind, 64, "f");
        assert_eq!(seen.len(), 6000);
        assert!(seen[..1000] == [7; 1000] && seen[1000..] == [0; 5000]);
    }
}

#[test]
fn a_full_disk_refuses_at_the_call_and_keeps_what_it_took() {
    for options in ["", "mode=lfs", "ipu_policy=0"] {
        let ram = fresh(64);
        let fs = mount(&ram, options);
        let ino = fs.file("big");
        let mut content = Vec::new();
        let refused = loop {
            let data = pattern(content.len() as u64, 150_000);
            match fs.write(ino, content.len() as u64, &data) {
                Ok(n) => content.extend(&data[..n]),
                Err(e) => break e,
            }
        };
        assert_eq!(refused.errno(), Errno::NoSpc, "{options}: {refused}");
        let free = fs.statfs().expect("statfs").blocks_free;
        assert!(free <= 1, "{options}: {free} blocks are free");
        fs.fsync(ino, false).expect("what was acknowledged fits");
        // Overwriting takes no space.
        for round in 0..3 {
            for at in (0..content.len()).step_by(700_000) {
                let new = pattern(at as u64 + round, 5000.min(content.len() - at));
                let n = fs.write(ino, at as u64, &new);
                assert_eq!(n.expect("overwritten"), new.len(), "{options}");
                content[at..at + new.len()].copy_from_slice(&new);
            }
            fs.fsync(ino, false).expect("durable");
        }
        assert!(fs.content(ino) == content, "{options}");
        end(&fs, &ram);
        let fs = mount(&ram, options);
        assert!(fs.content(ino) == content, "{options}");
        fs.resize(ino, 0).expect("cut");
        fs.sync().expect("synced");
        let n = fs.write(ino, 0, &content[..1_000_000]);
        assert_eq!(n.expect("room again"), 1_000_000);
        end(&fs, &ram);
    }
}

#[test]
fn fallocate_reserves_and_a_refusal_leaves_the_rest_usable() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let ino = fs.file("f");
    let free = fs.statfs().expect("statfs").blocks_free;
    let keep = FallocateMode::KeepSize;
    fs.fallocate(ino, keep, 0, 1 << 20).expect("reserved");
    assert_eq!(fs.getattr(ino).expect("attr").size, 0);
    let now = fs.statfs().expect("statfs").blocks_free;
    assert!(free - now >= 256, "{free} {now}");
    let all = fs.fallocate(ino, FallocateMode::Allocate, 0, 1 << 30);
    assert_eq!(all.expect_err("too much").errno(), Errno::NoSpc);
    assert_eq!(fs.statfs().expect("statfs").blocks_free, 0);
    let attr = fs.getattr(ino).expect("attr");
    assert_eq!(attr.size, 0, "fallocate-A1");
    // What is reserved can be written.
    let size = 4 << 20;
    assert!(attr.sectors * 512 > size);
    let n = fs.write(ino, size - 5000, &[1; 5000]);
    assert_eq!(n.expect("room"), 5000);
    fs.fsync(ino, false).expect("durable");
    fs.fallocate(ino, FallocateMode::PunchHole, 0, size - 5000)
        .expect("punched");
    fs.resize(ino, size).expect("what lies behind the end goes");
    let now = fs.statfs().expect("statfs").blocks_free;
    assert!(now > free - 20, "{now} of {free} came back");
    assert!(read_at(&fs, ino, size - 5000, 5000) == [1; 5000]);
    end(&fs, &ram);
}

/// fallocate-A1: without the mark, recovery takes the blocks behind the end for content.
#[test]
fn blocks_of_a_refused_allocation_make_no_file_longer_after_a_cut() {
    for mode in [FallocateMode::Allocate, FallocateMode::ZeroRange] {
        let left = on_disk(64, "", 4, move |disk, fs| {
            let ino = fs.file("f");
            fs.write(ino, 0, &[1; 5000]).expect("written");
            fs.sync().expect("a checkpoint");
            let all = fs.fallocate(ino, mode, 0, 1 << 30);
            assert_eq!(all.expect_err("too much").errno(), Errno::NoSpc);
            assert_eq!(fs.getattr(ino).expect("attr").size, 5000, "{mode:?}");
            fs.write(ino, 5000, &[2; 100]).expect("behind the end");
            fs.fsync(ino, false).expect("durable");
            disk.snapshot_lost()
        });
        let first = match mode {
            FallocateMode::Allocate => [1; 5000],
            _ => [0; 5000],
        };
        let expected = [&first[..], &[2; 100]].concat();
        assert!(after_cut(left, 64, "f") == expected, "{mode:?}");
    }
}

/// fallocate-A1: a checkpoint comes between two of the operations that allocate.
#[test]
fn an_allocation_under_way_makes_no_file_longer_after_two_cuts() {
    for mode in [FallocateMode::Allocate, FallocateMode::ZeroRange] {
        let left = on_disk(64, "", 4, move |disk, fs| {
            let ino = fs.file("f");
            fs.write(ino, 0, &[1; 100]).expect("written");
            fs.fsync(ino, false).expect("durable");
            let other = Arc::clone(fs);
            let task = rt::spawn("allocate", move || {
                other.fallocate(ino, mode, 100, 10 << 20)
            });
            let middle = (0..10_000).find_map(|_| {
                rt::sleep(base::Nanos(1000));
                checkpoint(fs);
                let attr = fs.getattr(ino).expect("attr");
                (attr.sectors > 2000 && attr.size == 100).then(|| disk.snapshot_lost())
            });
            task.join().expect("no panic").expect("room");
            let attr = fs.getattr(ino).expect("attr");
            assert_eq!(attr.size, 100 + (10 << 20));
            middle.expect("a checkpoint in the middle")
        });
        let left = on_image(left, 64, "", 4, |disk, fs| {
            let ino = fs.find("f");
            for n in 0..3 {
                fs.write(ino, 100 + 50 * n, &[2; 50])
                    .expect("behind the end");
                fs.fsync(ino, false).expect("durable");
            }
            disk.snapshot_lost()
        });
        let expected = [&[1; 100][..], &[2; 150]].concat();
        assert!(after_cut(left, 64, "f") == expected, "{mode:?}");
    }
}

/// slots-S1: blocks behind the end that are as the checkpoint has them, without the mark that says
/// that they are meant (another program may have left them so), are no content of a file that was
/// synced since.
#[test]
fn blocks_that_no_sync_has_changed_make_no_file_longer_after_a_cut() {
    let (left, ino) = on_disk(64, "", 4, |disk, fs| {
        let ino = fs.file("f");
        fs.write(ino, 0, &[1; 100]).expect("written");
        fs.fallocate(ino, FallocateMode::KeepSize, 0, 1 << 20)
            .expect("room");
        checkpoint(fs);
        (disk.snapshot_lost(), ino)
    });
    let mut unmarked = left.clone();
    let mut marks = 0;
    for (n, block) in left.blocks() {
        let footer = ondisk::f2fs::footer(&block);
        if (footer.nid.0, footer.ino.0) == (ino.0, ino.0) && block[ADVISE_AT] & KEEP_SIZE != 0 {
            unmarked.edit_block(n, |block| block[ADVISE_AT] &= !KEEP_SIZE);
            marks += 1;
        }
    }
    assert!(marks > 0, "the inode is there");
    let left = on_image(unmarked, 64, "", 4, |disk, fs| {
        let ino = fs.find("f");
        fs.write(ino, 100, &[2; 50]).expect("behind the end");
        fs.fsync(ino, false).expect("durable");
        disk.snapshot_lost()
    });
    let expected = [&[1; 100][..], &[2; 50]].concat();
    assert!(after_cut(left, 64, "f") == expected, "slots-S1");
}

#[test]
fn a_failed_write_is_reported_once_and_written_again() {
    for options in ["", "ipu_policy=0"] {
        let left = on_disk(64, options, 3, |disk, fs| {
            let ino = fs.file("f");
            fs.write(ino, 0, &[1; 9000]).expect("written");
            fs.fsync(ino, false).expect("durable");
            disk.fail_writes(Some(Class::Data));
            fs.write(ino, 0, &[2; 9000]).expect("in the cache");
            fs.writeback(rt::now() + Nanos(1)).expect("sent");
            rt::sleep(Nanos::from_millis(50));
            assert_eq!(fs.fsync(ino, false).expect_err("EIO").errno(), Errno::Io);
            assert_eq!(fs.content(ino), [2; 9000], "still in the cache");
            assert_eq!(fs.dirty_pages(), 3, "dirty again");
            disk.heal();
            fs.fsync(ino, false)
                .expect("reported once, and written now");
            assert_eq!(fs.failed(), None);
            disk.snapshot_lost()
        });
        assert!(after_cut(left, 64, "f") == [2; 9000], "{options}");
    }
}

#[test]
fn tasks_share_a_file() {
    const TASKS: u64 = 6;
    const ROUNDS: u64 = 40;
    for seed in 0..3 {
        let seen = on_disk(64, "cache=1", seed, move |_, fs| {
            let ino = fs.file("f");
            rt::scope(|s| {
                for task in 0..TASKS {
                    s.spawn("writer", move || {
                        let mut rng = base::Rng::named(seed, &format!("writer {task}"));
                        for round in 0..ROUNDS {
                            // Every task has its bytes in each stretch of 600.
                            let at = (round * TASKS + task) * 100;
                            fs.write(ino, at, &[task as u8 + 1; 100]).expect("written");
                            match rng.below(5) {
                                0 => fs.fsync(ino, rng.one_in(2)).expect("durable"),
                                1 => fs.writeback(rt::now() + Nanos(1)).expect("sent"),
                                2 => drop(read_at(fs, ino, rng.below(20_000), 5000)),
                                _ => rt::sleep(Nanos::from_micros(rng.below(300))),
                            }
                        }
                    });
                }
                s.spawn("checkpoints", || {
                    for _ in 0..10 {
                        rt::sleep(Nanos::from_millis(1));
                        fs.sync().expect("synced");
                    }
                });
            });
            fs.content(ino)
        });
        let expected = (0..ROUNDS * TASKS).flat_map(|n| [(n % TASKS) as u8 + 1; 100]);
        assert!(seen == expected.collect::<Vec<u8>>(), "seed {seed}");
    }
}

/// Which log, and whether in place: what the figures of write-back say.
#[test]
fn placement_follows_the_policy() {
    let run = |options: &str, name: &'static str, pages: u64| {
        let ram = fresh(64);
        let fs = mount(&ram, options);
        let ino = fs.file(name);
        fs.write(ino, 0, &vec![1; (pages * BLOCK) as usize])
            .expect("written");
        fs.fsync(ino, false).expect("durable");
        let first = fs.data_stats();
        fs.write(ino, 0, &vec![2; (pages * BLOCK) as usize])
            .expect("written");
        fs.fsync(ino, false).expect("durable");
        let again = fs.data_stats();
        fs.unmount().expect("unmounts");
        let moved: u64 =
            again.out_of_place.iter().sum::<u64>() - first.out_of_place.iter().sum::<u64>();
        let [hot, warm, cold] = first.out_of_place;
        (
            [hot - first.dentry, warm, cold],
            again.in_place,
            moved + first.dentry - again.dentry,
        )
    };
    assert_eq!(
        run("", "f", 8),
        ([8, 0, 0], 8, 0),
        "small volume, small write"
    );
    assert_eq!(run("", "f", 40), ([0, 40, 0], 40, 0), "small volume");
    assert_eq!(run("", "f.mp4", 40), ([0, 0, 40], 40, 0), "cold by name");
    assert_eq!(run("", "f.db", 40), ([40, 0, 0], 40, 0), "hot by name");
    assert_eq!(run("mode=lfs", "f", 8), ([8, 0, 0], 0, 8));
    let fsync = format!("ipu_policy={}", InPlace::FSYNC.0);
    assert_eq!(run(&fsync, "f", 8), ([8, 0, 0], 8, 0), "fsync of few");
    assert_eq!(run(&fsync, "f", 9), ([9, 0, 0], 0, 9), "fsync of many");
}
