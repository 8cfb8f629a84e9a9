//! Where orphans are named, and that every reader of the volume ends them.

use super::view::View;
use super::{file, free, image, orphan};
use crate::common::{Image, check_ram, fork, have_tools, mount, said};
use base::{BlockNo, Bytes, Ino};
use blockdev::Ram;
use fscore::{Creds, FileSystem, SetAttr};
use std::sync::Arc;
use varve_ext4::check::{Options, Report, check};
use varve_ext4::mkfs::Kind;

/// Runs the checker on a mounted volume.
fn check_in_use(ram: &Ram) -> Report {
    let bytes = ram.image();
    let read = |at: BlockNo| {
        Ok::<_, String>(Bytes::copy_from_slice(
            &bytes[at.0 as usize * 4096..][..4096],
        ))
    };
    let options = Options {
        in_use: true,
        ..Options::new(bytes.len() as u64 / 4096)
    };
    check(&read, &options)
}

/// e2fsck replays and ends the orphans, and finds no fault afterwards.
fn ended_by_e2fsck(image: &Image, cut: &Ram) -> Arc<Ram> {
    image.store(cut);
    let (code, text) = image.fsck_repair();
    assert!(code.is_some_and(|code| code < 2), "{text}");
    image.fsck();
    image.load()
}

/// A mount for writing by Varve ends the orphans.
fn ended_by_us(image: &Image, cut: &Ram) -> Arc<Ram> {
    let ram = fork(cut);
    mount(&ram, "").unmount().expect("unmounts");
    image.judge(&ram);
    ram
}

#[test]
fn an_orphan_takes_a_slot_and_leaves_it_with_the_handle_that_ends_it() {
    if !have_tools() {
        return;
    }
    for scheme in ["", "scheme=emmc", "data=journal"] {
        let image = image(16, 2, &[]);
        let (ram, fs) = image.mount(scheme);
        fs.sync().expect("sync");
        fs.journal().checkpoint_all().expect("goes home");
        assert!(View::of(&ram).is_marked(), "orphan-O5: from the mount on");
        let before = free(&fs);
        let inos = [orphan(&fs, "a", 9000), orphan(&fs, "b", 0)];
        let unnamed = fs.tmpfile(fs.root(), 0o600, Creds::default());
        let unnamed = unnamed.expect("tmpfile").ino;
        let home = |fs: &varve_ext4::Ext4| {
            fs.sync().expect("sync");
            fs.journal().checkpoint_all().expect("goes home");
            View::of(&ram)
        };
        let view = home(&fs);
        assert_eq!(view.named(), [inos[0], inos[1], unnamed]);
        assert_eq!(view.slots()[1], [], "one task, one block");
        assert_eq!((view.list(), view.sb.last_orphan()), (vec![], Ino(0)));
        assert_eq!(view.inode(inos[0]).deletion_time(), 0);
        assert_eq!(check_in_use(&ram).orphans, 3);
        // A truncation comes and goes within its operation; a link ends an orphan; a slot is used
        // again.
        let small = SetAttr {
            size: Some(10),
            ..SetAttr::default()
        };
        fs.setattr(inos[0], &small).expect("truncate");
        fs.link(unnamed, fs.root(), b"named").expect("link");
        fs.release(inos[1]).expect("close");
        let late = orphan(&fs, "late", 1);
        assert_eq!(home(&fs).named(), [inos[0], late]);
        fs.release(late).expect("close");
        fs.release(inos[0]).expect("close");
        fs.release(unnamed).expect("close");
        let view = home(&fs);
        assert_eq!(view.named(), []);
        assert!(view.is_marked());
        fs.unlink(fs.root(), b"named").expect("unlink");
        assert_eq!(free(&fs), before);
        fs.unmount().expect("unmounts");
        assert!(!View::of(&ram).is_marked());
        image.judge(&ram);
    }
}

/// Orphans are ended by a mount and by e2fsck, but not by a read-only mount.
#[test]
fn orphans_of_a_cut_are_ended_by_whoever_comes() {
    if !have_tools() {
        return;
    }
    let image = image(16, 2, &[]);
    let (ram, fs) = image.mount("commit=600");
    let stays = file(&fs, "stays");
    fs.write(stays, 0, &[7; 5000]).expect("write");
    fs.sync().expect("sync");
    let before = free(&fs);
    let inos: Vec<Ino> = (0..21)
        .map(|n| orphan(&fs, &format!("f{n}"), n * 3000))
        .collect();
    fs.sync().expect("sync");
    let cut = fork(&ram);
    fs.unmount().expect("unmounts");

    for ended in [ended_by_us(&image, &cut), ended_by_e2fsck(&image, &cut)] {
        let fs = mount(&ended, "ro");
        assert_eq!(free(&fs), before);
        assert_eq!(fs.getattr(stays).expect("there").size, 5000);
        assert!(inos.iter().all(|&ino| fs.getattr(ino).is_err()));
        assert_eq!(View::of(&ended).named(), []);
        assert!(!View::of(&ended).is_marked());
    }
    // Read-only: the log is replayed; the orphans stay, which is allowed, and the mark with them.
    let fs = mount(&cut, "ro");
    assert_eq!(free(&fs).1, before.1 - 21);
    fs.unmount().expect("unmounts");
    let view = View::of(&cut);
    assert_eq!(view.named().len(), 21);
    assert!(view.is_marked());
    let report = check_in_use(&cut);
    assert!(
        report.is_clean() && report.orphans == 21,
        "{}",
        said(&report)
    );
    let report = check_ram(&cut);
    assert!(report.needs_recovery && !report.is_clean());
    // A superblock that came from its backup has no mark.
    let mut unmarked = view;
    unmarked.change_sb(|sb| {
        sb.set_ro_compat(
            sb.ro_compat()
                .without(ondisk::ext4::RoCompat::ORPHAN_PRESENT),
        );
    });
    unmarked.store(&cut);
    let report = said(&check_in_use(&cut));
    assert!(
        report.contains("21 inodes in it, and marked as empty"),
        "{report}"
    );
    let ended = ended_by_us(&image, &cut);
    assert_eq!(free(&mount(&ended, "ro")), before);
}

#[test]
fn what_the_file_has_no_slot_for_goes_on_the_list() {
    if !have_tools() {
        return;
    }
    const SLOTS: usize = 254;
    let image = image(16, 1, &["-b", "1024"]);
    let (ram, fs) = image.mount("commit=600");
    fs.sync().expect("sync");
    let before = free(&fs);
    let dir = fs.mkdir(fs.root(), b"dir", 0o700, Creds::default());
    let mut inos = vec![dir.expect("mkdir").ino];
    fs.open(inos[0]).expect("open");
    fs.rmdir(fs.root(), b"dir").expect("rmdir");
    inos.extend((1..SLOTS + 30).map(|n| orphan(&fs, &format!("f{n}"), 1 + n % 3000)));
    let home = || {
        fs.sync().expect("sync");
        fs.journal().checkpoint_all().expect("goes home");
        View::of(&ram)
    };
    let view = home();
    assert_eq!(view.named(), inos[..SLOTS]);
    let listed: Vec<Ino> = inos[SLOTS..].iter().rev().copied().collect();
    assert_eq!(view.list(), listed);
    assert_eq!(check_in_use(&ram).orphans, (SLOTS + 30) as u64);
    let cut = fork(&ram);
    for ended in [ended_by_us(&image, &cut), ended_by_e2fsck(&image, &cut)] {
        assert_eq!(free(&mount(&ended, "ro")), before);
    }
    // Orphans are removed from both places in any order; a free slot is used again before the list.
    let mut rng = base::Rng::named(1, "order");
    for _ in 0..100 {
        let at = rng.below(inos.len() as u64) as usize;
        fs.release(inos.swap_remove(at)).expect("close");
    }
    inos.push(orphan(&fs, "late", 10));
    let view = home();
    assert!(view.named().contains(inos.last().expect("pushed")));
    let mut all = [view.named(), view.list()].concat();
    all.sort_unstable();
    inos.sort_unstable();
    assert_eq!(all, inos);
    for ino in inos {
        fs.release(ino).expect("close");
    }
    assert_eq!(free(&fs), before);
    image.end(&fs, &ram);
}

/// Without a log nothing orders slot and inode, and the mark is not set (orphan-O7).
#[test]
fn without_a_log_orphans_go_on_the_list() {
    if !have_tools() {
        return;
    }
    let image = image(16, 2, &[]);
    let (ram, fs) = image.mount("scheme=none");
    let ino = orphan(&fs, "f", 100);
    fs.sync().expect("sync");
    let view = View::of(&ram);
    assert_eq!((view.list(), view.named()), (vec![ino], vec![]));
    assert!(!view.is_marked());
    image.end(&fs, &ram);
}

/// Without checksums the tail of a block stays as mke2fs made it, which is how e2fsck finds it
/// empty.
#[test]
fn without_checksums_the_tail_stays() {
    if !have_tools() {
        return;
    }
    let image = image(16, 2, &["-O", "^metadata_csum"]);
    let (ram, fs) = image.mount("commit=600");
    let before = free(&fs);
    for n in 0..3 {
        orphan(&fs, &format!("f{n}"), 5000);
    }
    fs.sync().expect("sync");
    let cut = fork(&ram);
    for ended in [ended_by_us(&image, &cut), ended_by_e2fsck(&image, &cut)] {
        assert_eq!(free(&mount(&ended, "ro")), before);
    }
    image.end(&fs, &ram);
}

#[test]
fn volumes_without_the_file_have_the_list() {
    let ram = crate::common::fresh(Kind::Ext4, 16);
    let fs = mount(&ram, "");
    let ino = orphan(&fs, "f", 100);
    fs.sync().expect("sync");
    fs.journal().checkpoint_all().expect("goes home");
    let view = View::of(&ram);
    assert_eq!(view.list(), [ino]);
    assert!(!view.is_marked());
    fs.unmount().expect("unmounts");
}
