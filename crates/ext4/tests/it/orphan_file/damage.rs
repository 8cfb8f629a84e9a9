//! A mount refuses a damaged orphan file, with a message that names it, before it has changed
//! anything; e2fsck and Varve's checker find the damage, too.

use super::view::View;
use super::{file, image, orphan};
use crate::common::{Image, check_ram, fork, have_tools, mount, said, tool, try_mount};
use base::bytes::put_le32;
use base::{BLOCK_BYTES, Ino};
use blockdev::Ram;
use fscore::FileSystem;
use ondisk::ext4::Inode;
use std::sync::Arc;

/// A recovered volume with two orphans in its orphan file, and a file that is not an orphan.
struct Waiting {
    image: Image,
    ram: Arc<Ram>,
    orphans: [Ino; 2],
    stays: Ino,
}

fn waiting() -> Waiting {
    let image = image(16, 2, &[]);
    let (ram, fs) = image.mount("commit=600");
    let stays = file(&fs, "stays");
    let orphans = [orphan(&fs, "a", 9000), orphan(&fs, "b", 100)];
    fs.sync().expect("sync");
    let cut = fork(&ram);
    fs.unmount().expect("unmounts");
    mount(&cut, "ro").unmount().expect("unmounts");
    Waiting {
        image,
        ram: cut,
        orphans,
        stays,
    }
}

/// True if the exit code of e2fsck has the bit for errors that are left.
fn e2fsck_complains(image: &Image) -> bool {
    let out = tool("e2fsck").arg("-fn").arg(&image.path).output();
    out.expect("e2fsck")
        .status
        .code()
        .is_some_and(|code| code & 4 != 0)
}

type Damage<'a> = &'a dyn Fn(&mut View);

/// Checks that the mount is refused with these words and changes no block, and that both checkers
/// find something.
fn judge(start: &Waiting, wanted: &str, change: Damage<'_>) -> Result<(), String> {
    let ram = fork(&start.ram);
    let mut view = View::of(&ram);
    change(&mut view);
    view.store(&ram);
    start.image.store(&ram);
    let found = (!check_ram(&ram).is_clean(), e2fsck_complains(&start.image));
    let before = ram.image();
    let Err(error) = try_mount(&ram, "") else {
        return Err(format!("{wanted}: mounted"));
    };
    let block = |n: usize| n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES;
    let after = ram.image();
    let changed: Vec<usize> = (0..before.len() / BLOCK_BYTES)
        .filter(|n| before[block(*n)] != after[block(*n)])
        .collect();
    let refused = error.to_string().contains(wanted);
    match refused && changed.is_empty() && found == (true, true) {
        true => Ok(()),
        false => Err(format!(
            "{wanted}: {error}; changed {changed:?}; found {found:?}"
        )),
    }
}

#[test]
fn damage_is_refused_by_name() {
    if !have_tools() {
        return;
    }
    let start = waiting();
    let [a, b] = start.orphans;
    let inodes = View::of(&start.ram).sb.inodes_count();
    let own = View::of(&start.ram).sb.orphan_file_ino();
    let file_inode = |change: fn(&mut Inode)| move |v: &mut View| v.change_inode(own, change);
    let unused = Ino(inodes - 1);
    let cases: [(&str, Damage<'_>); 16] = [
        ("whole blocks", &file_inode(|i| i.set_size(8193 * 4096))),
        ("the inode is reserved", &|v| {
            v.change_sb(|sb| sb.set_orphan_file_ino(Ino(8)));
        }),
        ("not in use", &|v| {
            v.change_sb(|sb| sb.set_orphan_file_ino(unused));
        }),
        ("magic", &|v| v.change_block(|b| put_le32(b, 4088, 5), true)),
        ("checksum", &|v| v.change_block(|b| b[4092] ^= 1, false)),
        ("is none of a file", &|v| v.set_slot(5, inodes + 1)),
        ("is none of a file", &|v| v.set_slot(5, u32::MAX)),
        ("is none of a file", &|v| v.set_slot(5, 2)),
        ("is none of a file", &|v| v.set_slot(5, 8)),
        ("is none of a file", &|v| v.set_slot(5, own.0)),
        ("is in the orphan file twice", &|v| v.set_slot(1021, a.0)),
        ("is not in use", &|v| v.set_slot(5, unused.0)),
        ("on the list of orphans as well", &|v| {
            v.change_sb(|sb| sb.set_last_orphan(b));
        }),
        ("whole blocks", &file_inode(|i| i.set_size(5000))),
        (
            "no data at its block 2",
            &file_inode(|i| i.set_size(3 * 4096)),
        ),
        ("no regular file", &file_inode(|i| i.set_mode(0o040_700))),
    ];
    let judged = cases.map(|(wanted, change)| judge(&start, wanted, change));
    let wrong: Vec<String> = judged.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A file that is in use and has a name is truncated to its size, which changes nothing; such a
    // slot is therefore accepted.
    let mut view = View::of(&start.ram);
    view.set_slot(5, start.stays.0);
    view.store(&start.ram);
    let fs = mount(&start.ram, "");
    assert!(fs.getattr(start.stays).is_ok() && fs.getattr(a).is_err() && fs.getattr(b).is_err());
    fs.unmount().expect("unmounts");
    start.image.store(&start.ram);
    start.image.fsck();
}

/// An inode that is free by its bitmap would be freed a second time, and its blocks with it.
#[test]
fn an_orphan_that_is_marked_free_is_refused() {
    if !have_tools() {
        return;
    }
    let start = waiting();
    let [a, _] = start.orphans;
    start.image.store(&start.ram);
    start.image.debugfs_write(&[&format!("freei <{a}>")]);
    let error = try_mount(&start.image.load(), "").err().expect("refused");
    assert!(error.to_string().contains("is marked free"), "{error}");
}

/// A user who could open the orphan file could truncate it, and slots would then be written into
/// blocks of other files.
#[test]
fn no_name_leads_to_the_orphan_file() {
    if !have_tools() {
        return;
    }
    let image = image(16, 2, &[]);
    image.debugfs_write(&["ln <12> name"]);
    let ram = image.load();
    assert_eq!(View::of(&ram).sb.orphan_file_ino(), Ino(12));
    let fs = mount(&ram, "");
    let error = fs.lookup(fs.root(), b"name").expect_err("refused");
    assert!(error.to_string().contains("the orphan file"), "{error}");
    drop(fs);
    assert!(!check_ram(&ram).is_clean());
}

/// The medium does not hold what was written, so nothing is written over it.
#[test]
fn a_slot_that_changed_under_a_mount_ends_it() {
    if !have_tools() {
        return;
    }
    let start = waiting();
    mount(&start.ram, "").unmount().expect("unmounts");
    let fs = mount(&start.ram, "");
    let mut view = View::of(&start.ram);
    view.set_slot(0, 99);
    view.store(&start.ram);
    let ino = file(&fs, "f");
    fs.open(ino).expect("open");
    let error = fs.unlink(fs.root(), b"f").expect_err("refused");
    assert!(error.to_string().contains("(orphan-O4)"), "{error}");
    assert!(fs.failed().is_some());
}

#[test]
fn the_mark_without_the_file_and_the_file_without_a_journal_are_found() {
    if !have_tools() {
        return;
    }
    for (feature, words) in [
        ("-orphan_file", "orphan_present without an orphan file"),
        ("-has_journal", "an orphan file without a journal"),
    ] {
        let image = image(16, 2, &[]);
        image.debugfs_write(&["feature orphan_present", &format!("feature {feature}")]);
        let found = said(&check_ram(&image.load()));
        assert!(found.contains(words), "{feature}: {found}");
        assert!(e2fsck_complains(&image), "{feature}");
    }
}

/// Damage in an orphan file without orphans, on a volume where nothing else is wrong.
#[test]
fn an_empty_file_that_is_damaged_is_found() {
    if !have_tools() {
        return;
    }
    let image = image(16, 2, &[]);
    let own = View::of(&image.load()).sb.orphan_file_ino();
    let cases: [(&str, Damage<'_>); 5] = [
        ("part of a block", &|v| {
            v.change_inode(own, |i| i.set_size(4097));
        }),
        ("a hole at the end", &|v| {
            v.change_inode(own, |i| i.set_size(3 * 4096));
        }),
        ("a directory", &|v| {
            v.change_inode(own, |i| i.set_mode(0o040_700));
        }),
        ("magic", &|v| v.change_block(|b| put_le32(b, 4088, 5), true)),
        ("checksum", &|v| v.change_block(|b| b[4092] ^= 1, false)),
    ];
    for (what, change) in cases {
        let ram = image.load();
        let mut view = View::of(&ram);
        change(&mut view);
        view.store(&ram);
        assert!(e2fsck_complains(&Image::of(&ram)), "{what}");
        assert!(!check_ram(&ram).is_clean(), "{what}");
    }
}
