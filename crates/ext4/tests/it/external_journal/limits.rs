//! Logs that are refused, and the effects of a failing device.

use crate::data_path::{Disks, MIB, Tear, caps, new_pair};
use base::bytes::put_le32;
use block::{BlockDevice, Class, Queue};
use blockdev::{Image, Ram};
use fscore::{Creds, Errno, FileKind, FileSystem, FsError, FsResult};
use ondisk::ext4::{Incompat, State, Superblock};
use ondisk::jbd2;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::mkfs::{DeviceContent, LogDevice};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 * MIB;

fn creds() -> Creds {
    Creds::default()
}

fn make(fs: &Ext4, name: &str, bytes: &[u8]) -> FsResult<base::Ino> {
    let made = fs.create(
        fs.root(),
        name.as_bytes(),
        FileKind::File,
        0o644,
        0,
        creds(),
    );
    let ino = made?.ino;
    if fs.write(ino, 0, bytes)? < bytes.len() {
        return Err(Errno::NoSpc.into());
    }
    fs.fsync(ino, false)?;
    Ok(ino)
}

fn ram(image: &Image) -> Arc<Ram> {
    Arc::new(image.to_ram(BYTES))
}

fn image(ram: &Ram) -> Image {
    ram.blocks().into_iter().collect()
}

fn mount(home: &Arc<Ram>, log: Option<&Arc<Ram>>, options: &str) -> FsResult<Arc<Ext4>> {
    let log = log.map(|log| Queue::new(log.clone() as Arc<dyn BlockDevice>));
    Ext4::mount_with_journal(Queue::new(home.clone()), log, MountOptions::parse(options)?)
}

fn why(refused: FsResult<Arc<Ext4>>) -> String {
    refused.map(|_| ()).expect_err("refused").to_string()
}

/// Changes the superblock of the log.
fn edit_log(log: &Image, change: impl FnOnce(&mut jbd2::Superblock)) -> Image {
    let mut log = log.clone();
    let mut sb = jbd2::Superblock::parse(&log.block(1)).expect("a log");
    change(&mut sb);
    log.edit_block(1, |block| sb.encode(block));
    log
}

fn superblock(home: &Image) -> Superblock {
    Superblock::parse(&home.block(0)[1024..]).expect("whole")
}

/// A volume whose process died after a sync: home and log.
fn dirty() -> (Image, Image) {
    let (home, log) = new_pair(16);
    let (home, log) = (ram(&home), ram(&log));
    let fs = mount(&home, Some(&log), "scheme=jbd2").expect("mounts");
    make(&fs, "kept", b"content").expect("durable");
    let left = (image(&home), image(&log));
    fs.unmount().expect("unmounts");
    left
}

#[test]
fn schemes_that_need_one_device_are_refused_by_name() {
    let (home, log) = new_pair(16);
    let (home, log) = (ram(&home), ram(&log));
    for (scheme, words) in [
        ("coalition", "record=coalition"),
        ("coalition-paper", "record=coalition"),
        ("emmc-paper", "record=coalition"),
        ("emmc", "record=coalition"),
        ("adaptive", "order=adaptive"),
    ] {
        let why = why(mount(&home, Some(&log), &format!("scheme={scheme}")));
        let named = why.contains(words) && why.contains("device of its own");
        assert!(named && why.contains("scheme=jbd2"), "{scheme}: {why}");
    }
    // Home and log on devices that can remap, each within itself.
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let (home, log) = new_pair(16);
        let disks = Disks::new((&home, Some(&log)), &caps(BYTES, Tear::Blocks), 1);
        why(disks.mount(MountOptions::parse("scheme=jftl").expect("options")))
    });
    let why = outcome.value.expect("an answer");
    assert!(why.contains("home=remap points homes"), "{why}");
    mount(&home, Some(&log), "scheme=jbd2")
        .and_then(|fs| fs.unmount())
        .expect("untouched");
}

#[test]
fn the_wrong_log_is_refused() {
    let (home, log) = dirty();
    let other = |uuid, user| {
        let device = LogDevice {
            size_bytes: 8 * MIB,
            block_bytes: 4096,
            uuid,
            user,
            time: rt::WallTime { secs: 1, nanos: 0 },
        };
        let ram = Arc::new(Ram::new(BYTES));
        let plan = device.plan().expect("a journal");
        plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
            .expect("written");
        ram
    };
    let before = home.content_hash();
    let home = ram(&home);
    let refused = |log: &Arc<Ram>| why(mount(&home, Some(log), "scheme=jbd2"));
    let words = refused(&other([8; 16], [3; 16]));
    assert!(
        words.contains(&"08".repeat(16)) && words.contains(&"07".repeat(16)),
        "{words}"
    );
    let words = refused(&other([7; 16], [4; 16]));
    assert!(
        words.contains("serve this volume alone") && words.contains(&"04".repeat(16)),
        "{words}"
    );
    let words = refused(&ram(&edit_log(&log, |sb| sb.set_users_count(2))));
    assert!(words.contains("names 2 users"), "{words}");
    let words = refused(&ram(&edit_log(&log, |sb| sb.set_first(1))));
    assert!(words.contains("holds the superblock of the log"), "{words}");
    // A volume is not a journal.
    let words = refused(&ram(&image(&home)));
    assert!(words.contains("journal_dev"), "{words}");
    // Cut off.
    let short = Arc::new(Ram::new(2 * MIB));
    for (n, block) in log.blocks().filter(|(n, _)| *n < 512) {
        let lba = base::BlockNo(n).lba();
        blockdev::write_block(&short, lba, Class::Data, block).expect("in range");
    }
    let words = refused(&short);
    assert!(words.contains("claims 1040 blocks"), "{words}");
    assert_eq!(image(&home).content_hash(), before, "nothing was written");
    let fs = mount(&home, Some(&ram(&log)), "scheme=jbd2").expect("its own");
    fs.find(b"kept");
    fs.unmount().expect("unmounts");
}

#[test]
fn without_its_log_a_volume_is_only_read_and_only_if_it_was_unmounted() {
    let (dirty, _) = dirty();
    let (clean, _) = new_pair(16);
    for (home, options, words) in [
        (&dirty, "scheme=jbd2", "must be recovered first"),
        (&dirty, "ro", "must be recovered first"),
        (&clean, "scheme=jbd2", "mount read-only"),
    ] {
        let why = why(mount(&ram(home), None, options));
        let uuid = why.contains(&"07".repeat(16));
        assert!(
            why.contains(words) && uuid && why.contains("tune2fs"),
            "{why}"
        );
    }
    let fs = mount(&ram(&clean), None, "ro").expect("read-only");
    fs.unmount().expect("unmounts");
}

/// devices-L8.
#[test]
fn a_log_of_another_time_is_refused() {
    let (_, log) = dirty();
    let (home, _) = new_pair(16);
    let (home_ram, log_ram) = (ram(&home), ram(&log));
    for options in ["scheme=jbd2", "ro"] {
        let why = why(mount(&home_ram, Some(&log_ram), options));
        assert!(why.contains("different times"), "{why}");
    }
    let same = |ram: &Ram, before: &Image| image(ram).content_hash() == before.content_hash();
    assert!(same(&home_ram, &home) && same(&log_ram, &log));
}

#[test]
fn a_log_that_is_too_small_is_refused_with_the_size_that_would_do() {
    let (home, log) = new_pair(16);
    let small = edit_log(&log, |sb| sb.set_blocks_count(64));
    let why = why(mount(&ram(&home), Some(&ram(&small)), "scheme=jbd2"));
    assert!(why.contains("the log has 64 blocks"), "{why}");
}

/// The device of the log fails all writes of some kind: the commit fails, nothing is acknowledged
/// (devices-L3), changes are refused, and reading goes on. When the device works again, what was
/// synced is there, and the volume says that there was an error (devices-L9).
#[test]
fn a_log_that_cannot_be_written_ends_changing_and_loses_nothing() {
    for class in [
        Class::JournalDescriptor,
        Class::JournalMetadata,
        Class::JournalCommit,
        Class::JournalSuperblock,
    ] {
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let (home, log) = new_pair(16);
            let disks = Disks::new((&home, Some(&log)), &caps(BYTES, Tear::Blocks), 1);
            let options = |text| MountOptions::parse(text).expect("options");
            let fs = disks
                .mount(options("scheme=jbd2,errors=remount-ro"))
                .expect("mounts");
            let dead = disks.log.clone().expect("a log");
            if class != Class::JournalSuperblock {
                make(&fs, "kept", b"content").expect("durable");
            }
            dead.fail_writes(Some(class));
            let failed = make(&fs, "lost", b"more").expect_err("no commit");
            assert!(
                matches!(failed, FsError::Aborted { .. } | FsError::Io { .. }),
                "{failed}"
            );
            let refused = make(&fs, "later", b"more").expect_err("over");
            assert!(matches!(refused, FsError::Aborted { .. }), "{refused}");
            fs.readdir(fs.root(), 0, 10).expect("reading goes on");
            let _ = fs.unmount();
            let left = superblock(&disks.home.visible());
            assert!(left.incompat().has(Incompat::RECOVER), "not whole");

            dead.heal();
            let fs = disks.mount(options("scheme=jbd2")).expect("recovers");
            if class != Class::JournalSuperblock {
                let ino = fs.find(b"kept");
                let mut bytes = [0; 7];
                fs.read(ino, 0, &mut bytes).expect("readable");
                assert_eq!(&bytes, b"content");
            }
            fs.unmount().expect("unmounts");
            let left = superblock(&disks.home.visible());
            let noted = left.state().has(State::ERRORS);
            // If the superblock of the log cannot be written, the error cannot be noted there.
            assert_eq!(noted, class != Class::JournalSuperblock, "{class:?}");
            let log = jbd2::Superblock::parse(&dead.visible().block(1)).expect("a log");
            assert_eq!((log.is_clean(), log.errno()), (true, 0));
        });
        let failure = outcome.first_failure;
        assert!(failure.is_none(), "{class:?}: {failure:?}");
    }
}

/// The device of the homes fails writes of metadata: what is in the log stays there (devices-L9),
/// and is brought home once the device works again.
#[test]
fn a_home_that_cannot_be_written_keeps_the_log() {
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let (home, log) = new_pair(16);
        let disks = Disks::new((&home, Some(&log)), &caps(BYTES, Tear::Blocks), 1);
        let options = |text| MountOptions::parse(text).expect("options");
        let mounted = disks.mount(options("scheme=jbd2,errors=remount-ro"));
        let fs = mounted.expect("mounts");
        disks.home.fail_writes(Some(Class::Home));
        make(&fs, "kept", b"content").expect("its data and the log are written");
        let failed = fs.journal().checkpoint_all().expect_err("no home write");
        assert!(failed.to_string().contains("write"), "{failed}");
        let _ = make(&fs, "later", b"more").expect_err("over");
        let _ = fs.unmount();
        let dead = disks.log.clone().expect("a log");
        let log = jbd2::Superblock::parse(&dead.visible().block(1)).expect("a log");
        assert!(!log.is_clean(), "nothing else has what was synced");
        let left = superblock(&disks.home.visible());
        assert!(left.incompat().has(Incompat::RECOVER), "not whole");
        let _ = disks
            .mount(options("scheme=jbd2"))
            .map(drop)
            .expect_err("still dead");

        disks.home.heal();
        let fs = disks.mount(options("scheme=jbd2")).expect("recovers");
        let ino = fs.find(b"kept");
        let mut bytes = [0; 7];
        fs.read(ino, 0, &mut bytes).expect("readable");
        assert_eq!(&bytes, b"content");
        fs.unmount().expect("unmounts");
        let left = superblock(&disks.home.visible());
        assert!(left.state().has(State::ERRORS), "e2fsck is to look at it");
    });
    outcome.unwrap();
}

#[test]
fn a_full_disk_changes_nothing_else() {
    let (home, log) = new_pair(16);
    let (home, log) = (ram(&home), ram(&log));
    let fs = mount(&home, Some(&log), "scheme=jbd2").expect("mounts");
    let mut made = 0;
    let full = loop {
        match make(&fs, &format!("f{made}"), &[made as u8; 300_000]) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
        assert!(made < 100, "a volume of 16 MiB");
    };
    assert_eq!(full.errno(), Errno::NoSpc, "{full}");
    fs.unmount().expect("unmounts");
    let fs = mount(&home, Some(&log), "scheme=jbd2").expect("mounts");
    for n in 0..made {
        let name = format!("f{n}");
        let ino = fs.find(name);
        let mut byte = [0];
        fs.read(ino, 299_999, &mut byte).expect("readable");
        assert_eq!(byte[0], n as u8);
    }
    fs.unmount().expect("unmounts");
}

/// Every byte of both superblocks of the log is flipped: each mount gives an answer without a
/// panic, and writes nothing to the volume if it is refused.
#[test]
fn damaged_superblocks_of_the_log_are_refused_or_survived() {
    let (home, log) = dirty();
    let before = home.content_hash();
    let mut refused = 0;
    for (block, bytes) in [(0, 1024..2048), (1, 0..1024)] {
        for at in bytes.step_by(3) {
            let mut bad = log.clone();
            bad.edit_block(block, |b| b[at] ^= 0x41);
            let (home, bad) = (ram(&home), ram(&bad));
            match mount(&home, Some(&bad), "scheme=jbd2") {
                Ok(fs) => fs.unmount().expect("unmounts"),
                Err(_) => {
                    refused += 1;
                    assert_eq!(
                        image(&home).content_hash(),
                        before,
                        "block {block}, byte {at}"
                    );
                }
            }
        }
    }
    assert!(refused > 300, "{refused}: the log has a checksum");
    // A block size that no device has.
    let mut bad = log;
    bad.edit_block(0, |b| put_le32(b, 1024 + 0x18, 40));
    assert!(mount(&ram(&home), Some(&ram(&bad)), "scheme=jbd2").is_err());
}
