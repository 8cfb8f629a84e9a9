//! The background task that applies: it is woken by what makes work for it, and by nothing else;
//! and the one that discards.

use super::SCHEME;
use super::common::{disk, mount, sim, volume};
use base::Nanos;
use block::Queue;
use blockdev::{Op, SpecDisk};
use fscore::{FileSystem, XattrMode};
use std::sync::Arc;
use testkit::Brief;
use testkit::record::{Event, Record};
use varve_f2fs::{Cause, F2fs, MountOptions};

const RING: u32 = 64;

fn applies(fs: &F2fs, cause: Cause) -> u64 {
    fs.applies().by_cause.get(&cause).copied().unwrap_or(0)
}

/// task-W2: what is committed goes home when nothing was committed for as long as the options say,
/// counted from the last commit.
#[test]
fn what_is_left_alone_goes_home() {
    for (idle, seed) in [(10_000, 1), (500, 2)] {
        sim(seed, || {
            let disk = disk(RING, volume(RING), seed);
            let mut options = MountOptions::parse(SCHEME).expect("valid");
            options.journal.as_mut().expect("a journal").idle = Nanos::from_millis(idle);
            let fs = F2fs::mount(Queue::new(disk), options).expect("mounted");
            let ino = fs.file("f");
            for n in 0..3u8 {
                fs.setxattr(ino, b"user.x", &[n], XattrMode::Any)
                    .expect("set");
                fs.fsync(ino, false).expect("durable");
                rt::sleep(Nanos::from_millis(idle * 9 / 10));
                assert_eq!(
                    applies(&fs, Cause::Background),
                    0,
                    "task-W2: {n} is younger"
                );
            }
            rt::sleep(Nanos::from_millis(idle / 10 + 50));
            assert_eq!(applies(&fs, Cause::Background), 1, "task-W2");
            fs.check_home();
            fs.unmount().expect("unmounted");
        });
    }
}

/// task-W1: a commit that leaves little of the ring free wakes the task, though no operation
/// follows.
#[test]
fn a_commit_that_fills_the_ring_is_followed_by_an_apply() {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let fs = mount(&disk, "commit=300");
        let ino = fs.file("f");
        fs.write_home_now().expect("applied");
        let before = fs.applies().applies();
        let used = || {
            let stats = fs.journal_stats().expect("a journal");
            stats.ring_used * 2 > stats.ring_blocks
        };
        while !used() && fs.applies().applies() == before {
            fs.setxattr(ino, b"user.x", &[7; 3000], XattrMode::Any)
                .expect("set");
            fs.fsync(ino, false).expect("durable");
        }
        rt::sleep(Nanos::from_millis(50));
        assert!(applies(&fs, Cause::Ring) > 0, "task-W1: {:?}", fs.applies());
        assert!(!used(), "the ring is free again");
        fs.unmount().expect("unmounted");
    });
}

fn discards(recorded: &Record<Arc<SpecDisk>>) -> Vec<Event> {
    let mut events = recorded.take();
    events.retain(|event| matches!(event.request.op, Op::Discard { .. }));
    events
}

/// Who applies, or writes a checkpoint, does not wait for discards, and many of these are under way
/// at once.
#[test]
fn discards_are_sent_together_by_their_own_task() {
    for (scheme, seed) in [(SCHEME, 4), ("scheme=checkpoint-60", 5)] {
        sim(seed, || {
            let recorded = Arc::new(Record::new(disk(RING, volume(RING), seed)));
            let options = MountOptions::parse(scheme).expect("valid");
            let fs = F2fs::mount(Queue::new(recorded.clone()), options).expect("mounted");
            let files: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
            for name in &files {
                let ino = fs.file(name);
                fs.write(ino, 0, &[1; 1 << 17]).expect("written");
                fs.fsync(ino, false).expect("durable");
            }
            fs.write_home_now().expect("home");
            for name in files.iter().step_by(2) {
                fs.unlink(fs.root(), name.as_bytes()).expect("gone");
            }
            discards(&recorded);
            fs.write_home_now().expect("home");
            let waited = discards(&recorded);
            assert!(waited.is_empty(), "{scheme}: {waited:?}");
            rt::sleep(Nanos::from_secs(1));
            let sent = discards(&recorded);
            assert!(sent.len() >= 4, "{scheme}: {sent:?}");
            let together = sent.windows(2).filter(|two| {
                let first_ended = two[0].completed.expect("it has ended");
                two[1].submitted < first_ended
            });
            assert!(together.count() >= 3, "{scheme}: {sent:?}");
            fs.unmount().expect("unmounted");
        });
    }
}

/// FITRIM waits for discards that the task has under way, and then does all that it was asked for.
#[test]
fn trim_discards_all_beside_the_task() {
    for (scheme, seed) in [(SCHEME, 6), ("scheme=checkpoint-60", 7)] {
        let [alone, beside] = ["nodiscard", "discard"].map(|discard| {
            sim(seed, || {
                let options = MountOptions::parse(&format!("{scheme},{discard}"));
                let disk = disk(RING, volume(RING), seed);
                let fs = F2fs::mount(Queue::new(disk), options.expect("valid")).expect("mounted");
                let ino = fs.file("f");
                fs.write(ino, 0, &[1; 8 << 20]).expect("written");
                fs.write_home_now().expect("home");
                fs.unlink(fs.root(), b"f").expect("gone");
                let trimmed = fs.trim(0, u64::MAX, 4096).expect("trimmed");
                fs.unmount().expect("unmounted");
                trimmed
            })
        });
        assert!(
            beside >= alone - (1 << 20),
            "{scheme}: {beside} of {alone} bytes"
        );
    }
}
