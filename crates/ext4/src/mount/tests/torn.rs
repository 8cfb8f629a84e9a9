//! Superblocks of which a cut left one sector old and one new.

use super::*;
use crate::check::{Options, check};

/// Two groups, so the superblock has a backup.
const LARGE: u64 = 144 << 20;

/// Both mixtures of the sectors that a superblock had before a write and has after it.
fn mixtures(before: &Ram, after: &Ram) -> [Vec<u8>; 2] {
    let (old, new) = (block_of(before, BlockNo(0)), block_of(after, BlockNo(0)));
    [1024..1536, 1536..2048].map(|half| {
        assert_ne!(old[half.clone()], new[half.clone()], "both sectors change");
        let mut torn = old.clone();
        torn[half.clone()].copy_from_slice(&new[half]);
        torn
    })
}

fn make(fs: &Ext4, name: &[u8]) -> Ino {
    let (root, creds) = (fs.root(), Creds::default());
    let made = fs.create(root, name, FileKind::File, 0o600, 0, creds);
    made.expect("room").ino
}

/// A volume whose log holds an open file without a name.
fn with_an_orphan() -> Arc<Ram> {
    let ram = Arc::new(Ram::new(LARGE));
    make_volume(&ram, LARGE, [3; 16], LOG_BLOCKS);
    let fs = mounted(&ram, OPTIONS);
    let ino = make(&fs, b"open");
    fs.write(ino, 0, &[7; 5 * BLOCK_BYTES]).expect("room");
    fs.open(ino).expect("open");
    fs.unlink(fs.root(), b"open").expect("there");
    fs.sync().expect("synced");
    let dirty = fork(&ram);
    fs.unmount().expect("unmounts");
    dirty
}

/// Mounts and unmounts; answers the free blocks and inodes that the superblock has then.
fn settled(ram: &Arc<Ram>, torn: bool, when: &str) -> (u64, u32) {
    let fs = mounted(ram, OPTIONS);
    assert_eq!(fs.superblock_was_damaged(), torn, "{when}");
    fs.unmount().expect("unmounts");
    let read = |at: BlockNo| Ok::<_, String>(block_of(ram, at).into());
    let report = check(&read, &Options::new(LARGE / BLOCK_BYTES as u64));
    assert!(report.is_clean(), "{when}: {:?}", report.findings);
    let sb = Superblock::parse(&block_of(ram, BlockNo(0))[SUPERBLOCK_AT..]).expect(when);
    (sb.free_blocks(), sb.free_inodes())
}

/// ext4-mount-M2: the superblock is written in place while orphans are listed when a log was
/// recovered and no mount for writing follows, and at the next mount.
#[test]
fn m2_a_torn_superblock_still_leads_to_the_orphans() {
    let dirty = with_an_orphan();
    let recovered = fork(&dirty);
    let opened = journal::open(Queue::new(recovered.clone()), log_place(&dirty));
    let Ok(Opened::NeedsRecovery(log)) = opened else {
        panic!("the log is dirty");
    };
    log.foresee(None)
        .and_then(|ahead| ahead.carry_out())
        .expect("recovers");
    let read = fork(&dirty);
    mounted(&read, "ro").unmount().expect("unmounts");
    let carried = fork(&dirty);
    recover_log(&carried).expect("recovers");
    let writing = fork(&read);
    let fs = mounted(&writing, OPTIONS);
    let marked = fork(&writing);
    fs.unmount().expect("unmounts");

    let expected = settled(&dirty, false, "whole");
    for (when, before, after) in [
        ("a read-only mount", &recovered, &read),
        ("recovery alone", &recovered, &carried),
        ("the next mount", &read, &marked),
    ] {
        for torn in mixtures(before, after) {
            let cut = fork(before);
            put(&cut, BlockNo(0), torn);
            assert_eq!(settled(&cut, true, when), expected, "ext4-mount-M2: {when}");
        }
    }
}

/// ext4-mount-M2: no backup knows that the volume has errors, nor a feature that was set later.
#[test]
fn m2_a_torn_superblock_keeps_what_no_backup_has() {
    let ram = Arc::new(Ram::new(LARGE));
    make_volume(&ram, LARGE, [3; 16], LOG_BLOCKS);
    for at in [0, 32_768] {
        let mut block = block_of(&ram, BlockNo(at));
        let from = if at == 0 { SUPERBLOCK_AT } else { 0 };
        let mut sb = Superblock::parse(&block[from..]).expect("a superblock");
        match at {
            0 => sb.set_state(sb.state() | State::ERRORS),
            _ => sb.set_compat(sb.compat().without(Compat::EXT_ATTR)),
        }
        sb.encode(&mut block[from..from + 1024]);
        put(&ram, BlockNo(at), block);
    }
    let after = fork(&ram);
    let fs = mounted(&after, OPTIONS);
    let marked = fork(&after);
    fs.unmount().expect("unmounts");
    for torn in mixtures(&ram, &marked) {
        let cut = fork(&ram);
        put(&cut, BlockNo(0), torn);
        mounted(&cut, OPTIONS).unmount().expect("unmounts");
        let sb = Superblock::parse(&block_of(&cut, BlockNo(0))[SUPERBLOCK_AT..]);
        let sb = sb.expect("written anew");
        assert!(sb.state().has(State::ERRORS | State::VALID));
        assert!(sb.compat().has(Compat::EXT_ATTR));
    }
}

/// ext4-mount-M3: a larger volume lay on the device before, and where its backup was nothing has
/// been written since.
#[test]
fn m3_the_backup_of_another_volume_does_not_count() {
    let ram = Arc::new(Ram::new(LARGE));
    make_volume(&ram, LARGE, [9; 16], LOG_BLOCKS);
    make_volume(&ram, BYTES, [3; 16], LOG_BLOCKS);
    let fs = mounted(&ram, OPTIONS);
    let before = fork(&ram);
    make(&fs, b"kept");
    // The superblock is in the log and on its way home.
    fs.transact(1, |tx| fs.update_superblock(tx, |sb| sb.set_mount_count(9)))
        .expect("logged");
    fs.sync().expect("synced");
    let dirty = fork(&ram);
    fs.journal().checkpoint_all().expect("goes home");
    let home = fork(&ram);
    fs.unmount().expect("unmounts");
    for torn in mixtures(&before, &home) {
        let cut = fork(&dirty);
        put(&cut, BlockNo(0), torn);
        let fs = mounted(&cut, OPTIONS);
        fs.lookup(fs.root(), b"kept").expect("synced");
        fs.unmount().expect("unmounts");
    }
}

/// ext4-mount-M2: when an operation has failed half-way, the superblock in memory names an orphan
/// that the device does not know.
#[test]
fn m2_the_superblock_of_an_aborted_journal_stays_as_it_is() {
    let ram = volume(LOG_BLOCKS);
    let fs = mounted(&ram, OPTIONS);
    let ino = make(&fs, b"new");
    fs.open(ino).expect("open");
    fs.unlink(fs.root(), b"new").expect("there");
    let before = block_of(&ram, BlockNo(0));
    fs.fail(&FsError::corrupt("a planted error"));
    assert!(
        block_of(&ram, BlockNo(0)) == before,
        "nothing of it is committed"
    );
    fs.unmount().expect_err("failed before");
    // The journal has noted the error in its log.
    mounted(&ram, OPTIONS).unmount().expect("unmounts");
    let sb = Superblock::parse(&block_of(&ram, BlockNo(0))[SUPERBLOCK_AT..]);
    assert!(sb.expect("whole").state().has(State::ERRORS));
}
