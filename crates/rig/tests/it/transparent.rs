//! Transparent remapping below our ext4 with `data=journal`: every home write repeats what the log
//! holds, and shares its page, except for escaped blocks and blocks that were never logged. The
//! file system does not know of the remapping.
// What is measured is printed: no task runs here that could wait.
#![allow(clippy::disallowed_macros)]

use base::Rng;
use block::Class;
use blockdev::{Clock, FlashStats};
use rt::{Sim, SimConfig};
use varve_rig::{Config, Data, Preset, Stack};
use vfs::{Creds, FileKind};

/// First word of a block of the log (JBD2): a logged block that begins with it is escaped.
const MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// Content that no other block has.
fn block(n: u64, escaped: bool) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    Rng::named(n, "content").fill(&mut bytes);
    if escaped {
        bytes[..4].copy_from_slice(&MAGIC);
    }
    bytes
}

struct Counts {
    /// Blocks sent home and to the log.
    home: u64,
    log: u64,
    flash: FlashStats,
    /// Blocks that were to be escaped and went home.
    escaped: u64,
}

fn play(device: &'static str, one_home_in: u64) -> Counts {
    let outcome = Sim::new(SimConfig::seeded(3)).run(move || {
        let mut config = Config::new(Preset::Jbd2, device, 3);
        (config.data, config.bytes) = (Data::Journal, 64 << 20);
        (config.timers, config.journal_blocks) = (false, Some(1024));
        let model = config.format().expect("formats");
        let stack = Stack::mount(model, &config, Clock::Runtime).expect("mounts");
        let (fs, mut escaped) = (stack.fs.seam(), 0);
        let journal = stack.fs.journal().expect("ext4 has one");
        let before = stack.device.flash_stats().expect("flash below");
        let sent = |class| stack.queue.stats().blocks_written(class);
        let of = |classes: &[Class]| classes.iter().map(|c| sent(*c)).sum::<u64>();
        let (homes, logs) = (
            [Class::Home, Class::Data],
            [
                Class::JournalData,
                Class::JournalMetadata,
                Class::JournalDescriptor,
                Class::JournalCommit,
                Class::JournalRevoke,
                Class::JournalSuperblock,
            ],
        );
        let (home, log) = (of(&homes), of(&logs));
        for n in 0..40u64 {
            let name = format!("f{n}");
            let creds = Creds {
                uid: 0,
                gid: 0,
                umask: 0,
            };
            let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
            let ino = made.expect("room").ino;
            for i in 0..6 {
                let is = (n * 6 + i) % 11 == 5;
                escaped += u64::from(is);
                fs.write(ino, i * 4096, &block(n << 8 | i, is))
                    .expect("written");
            }
            fs.fsync(ino, false).expect("durable");
            if n % one_home_in == 0 {
                journal.checkpoint_all().expect("goes home");
            }
        }
        journal.checkpoint_all().expect("goes home");
        let after = stack.device.flash_stats().expect("flash below");
        let counts = Counts {
            home: of(&homes) - home,
            log: of(&logs) - log,
            flash: after.since(&before),
            escaped,
        };
        drop(fs);
        let model = stack.unmount().expect("unmounts");
        let again = Stack::mount(model, &config, Clock::Runtime).expect("mounts");
        read_back(&again);
        again.unmount().expect("unmounts");
        counts
    });
    outcome.unwrap()
}

/// Every block of every file holds what was written.
fn read_back(stack: &Stack) {
    let fs = &stack.fs.seam();
    for n in 0..40u64 {
        let name = format!("f{n}");
        let ino = fs.lookup(fs.root(), name.as_bytes()).expect("is there");
        for i in 0..6 {
            let mut got = vec![0; 4096];
            fs.read(ino, i * 4096, &mut got).expect("reads");
            let want = block(n << 8 | i, (n * 6 + i) % 11 == 5);
            assert!(got == want, "block {i} of file {n}");
        }
    }
}

#[test]
fn all_home_writes_but_escaped_ones_share_the_page_of_the_log() {
    for one_home_in in [1, 7] {
        let plain = play("nandsim-2007", one_home_in);
        let shared = play("nandsim-2007,transparent=true", one_home_in);
        assert_eq!((plain.home, plain.log), (shared.home, shared.log));
        let t = shared.flash.transparent;
        println!(
            "home {} (escaped {}), log {}, {t:?}, zeros {}, programs {} and {}",
            shared.home,
            shared.escaped,
            shared.log,
            shared.flash.zero_units,
            plain.flash.programs,
            shared.flash.programs
        );
        assert_eq!(t.matched + t.unchanged, shared.home - shared.escaped);
        assert_eq!(t.different, 0);
        assert_eq!(t.programmed, shared.log + shared.escaped);
    }
}
