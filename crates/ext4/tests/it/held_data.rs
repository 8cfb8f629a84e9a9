//! Data that an fsync holds back to send it ahead of the log in one command (`adaptive`, packs that
//! keep a prefix): its failures concern only its file, and nothing stays held back.

use crate::common::cut_disk::{MIB, Tear, new_volume};
use base::{Ino, Nanos, Time};
use block::{Caps, Class, Queue};
use blockdev::{PackOrder, Packed, SpecDisk};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

const MIB_OF_VOLUME: u64 = 16;

/// The promises of a device whose packs leave a prefix at a cut.
fn caps() -> Caps {
    Caps {
        packed: Some(Packed {
            order: PackOrder::Prefix,
            writes_max: 8,
        }),
        ..crate::common::cut_disk::caps(MIB_OF_VOLUME * MIB, Tear::Blocks)
    }
}

struct Life {
    disk: Arc<SpecDisk>,
    queue: Arc<Queue>,
    fs: Arc<Ext4>,
}

impl Life {
    fn create(&self, name: &[u8]) -> Ino {
        let root = self.fs.root();
        self.fs.make(root, name).expect("the journal runs")
    }

    fn held(&self) -> u64 {
        let choices = self.fs.journal().stats().choices;
        let held = choices
            .iter()
            .filter(|((what, _), _)| *what == "data-with-log");
        held.map(|(_, n)| n).sum()
    }
}

fn live(body: impl FnOnce(&Life) + Send + 'static) {
    let start = new_volume(MIB_OF_VOLUME);
    let options = MountOptions::parse("scheme=adaptive").expect("options");
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(), start, 1);
        let queue = Queue::new(disk.clone());
        let fs = Ext4::mount(queue.clone(), options).expect("mounts");
        let life = Life { disk, queue, fs };
        body(&life);
        life.fs.unmount().expect("the journal has not been aborted");
    });
    outcome.unwrap();
}

/// journal-commit-F7: an overwrite in place that cannot be written is reported once, as an error of
/// that file; the transaction in whose pack it was commits.
#[test]
fn an_overwrite_that_fails_in_the_pack_is_no_failure_of_the_commit() {
    live(|life| {
        let file = life.create(b"f");
        life.fs.write(file, 0, &[1; 4096]).expect("written");
        life.fs.fsync(file, false).expect("synced");
        rt::sleep(Nanos::from_millis(20));
        let other = life.create(b"other");
        life.fs.write(file, 0, &[2; 4096]).expect("written");
        let held = life.held();
        life.disk.fail_writes(Some(Class::Data));
        let error = life.fs.fsync(file, false).expect_err("no data was written");
        assert!(life.held() > held, "the data was held back");
        assert_eq!(error.errno(), fscore::Errno::Io, "{error}");
        life.disk.heal();
        life.fs.fsync(file, false).expect("it was reported");
        life.fs.fsync(other, false).expect("an innocent file");
        life.create(b"later");
    });
}

/// An fsync that has an old error to report still sends what it held back.
#[test]
fn an_fsync_that_reports_an_old_error_leaves_nothing_unsent() {
    live(|life| {
        let file = life.create(b"f");
        life.fs.write(file, 0, &[1; 8192]).expect("written");
        life.fs.fsync(file, false).expect("synced");
        rt::sleep(Nanos::from_millis(20));
        life.fs.write(file, 0, &[2; 4096]).expect("written");
        life.disk.fail_writes(Some(Class::Data));
        life.fs.writeback(Time(u64::MAX)).expect("sent");
        rt::sleep(Nanos::from_millis(5));
        life.fs.writeback(Time(u64::MAX)).expect("landed");
        life.disk.heal();
        life.queue.flush().expect("a healthy device");
        rt::sleep(Nanos::from_millis(20));
        life.fs.write(file, 4096, &[3; 4096]).expect("written");
        let (before, held) = (life.queue.stats().write_commands, life.held());
        life.fs.fsync(file, false).expect_err("an old error");
        assert!(life.held() > held, "the data was held back");
        assert!(life.queue.stats().write_commands > before, "and is sent");
    });
}
