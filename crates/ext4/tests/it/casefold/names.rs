//! What every file system has to do with names of which case does not count, and what only an ext4
//! does.

use super::image;
use crate::common::{Image, Volume, have_tools, mount, tool};
use fscore::FileSystem;
use std::sync::Arc;
use testkit::Brief;
use testkit::casefold::folded_dir;
use testkit::casefold::{self, agree, names};

impl casefold::Casefold for Volume {
    const NOTHING_IS_ONE_NAME: bool = true;
}

/// A volume with these flags of the encoding.
fn volume(flags: &str, options: &str) -> Volume {
    Volume::of(&Arc::new(image(flags)), options)
}

#[test]
fn a_name_is_found_in_any_spelling_and_stays_as_it_was_given() {
    if have_tools() {
        for fill in [0, 700] {
            casefold::any_spelling(&volume("", ""), fill);
        }
    }
}

#[test]
fn renames_and_what_they_meet() {
    if have_tools() {
        casefold::renames(&volume("", ""));
    }
}

#[test]
fn the_flag_is_inherited_and_changes_only_while_a_directory_is_empty() {
    if have_tools() {
        let plain = Volume::of(&Arc::new(Image::new(32, &[])), "");
        casefold::the_flag(&volume("", ""), &plain);
    }
}

#[test]
fn names_that_are_not_utf8() {
    if have_tools() {
        casefold::no_utf8(&volume("", ""), &volume("strict", ""));
    }
}

#[test]
fn names_that_fold_to_dots_or_to_nothing() {
    if have_tools() {
        casefold::dots_and_nothing(&volume("", ""));
    }
}

/// Splits of the tree and a directory in its inode included. e2fsck computes each hash itself, and
/// sorts all names anew.
#[test]
fn many_names_against_a_model_and_e2fsck() {
    if !have_tools() {
        return;
    }
    for (seed, features) in [(1, "casefold"), (2, "casefold,inline_data")] {
        let image = Image::new(64, &["-O", features, "-N", "16384"]);
        let image = Arc::new(image);
        let volume = Volume::of(&image, "");
        let model = casefold::many_names(&volume, seed);
        image.store(&volume.ram);
        let out = tool("e2fsck").args(["-fyD"]).arg(&image.path).output();
        let code = out.expect("e2fsck").status.code();
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
        let (ram, fs) = image.mount("");
        agree(&*fs, fs.find("dir"), &model);
        image.end(&fs, &ram);
    }
}

/// A volume without room for a thousand files, with a tree of names or with blocks of them.
#[test]
fn full_volumes_lose_no_name() {
    if have_tools() {
        for (seed, features) in [(1, "casefold"), (2, "casefold,^dir_index")] {
            let image = Image::new(32, &["-O", features, "-N", "4096"]);
            casefold::full(&Volume::of(&Arc::new(image), ""), seed);
        }
    }
}

#[test]
fn tasks_on_the_same_names_in_other_spellings() {
    if have_tools() {
        casefold::many_writers(|| volume("", ""), 0..3);
    }
}

/// An encoding that is not known is refused by name, for reading too, as in Linux.
#[test]
fn an_unknown_encoding_is_refused() {
    if !have_tools() {
        return;
    }
    let image = image("");
    image.debugfs_write(&["ssv encoding 7"]);
    for options in ["", "ro"] {
        let refused = crate::common::try_mount(&image.load(), options);
        let said = refused.err().expect("refused").to_string();
        assert!(said.contains("encoding 7"), "{said}");
    }
}

/// A fast commit cannot tell a name that need not be spelt as its entry is, so a full commit
/// follows; after a cut it has all that was synced.
#[test]
fn names_that_fold_are_left_to_full_commits() {
    if !have_tools() {
        return;
    }
    let image = Image::new(128, &["-O", "casefold", "-J", "size=16"]);
    let (ram, fs) = image.mount("scheme=fast-commit");
    let [plain, folded] = [fs.dir("plain"), folded_dir(&*fs, "folded")];
    fs.sync().expect("syncs");
    let fast = || fs.journal().stats().fast_commits;
    for (dir, more) in [(plain, 1), (folded, 0)] {
        let before = fast();
        let file = fs.make(dir, "Name").expect("room");
        fs.fsync(file, false).expect("syncs");
        assert_eq!(fast() - before, more);
    }
    fs.unlink(folded, b"NAME").expect("there");
    let file = fs.make(folded, "nAmE").expect("room");
    fs.fsync(file, false).expect("syncs");
    let cut: blockdev::Image = ram.blocks().into_iter().collect();
    fs.unmount().expect("unmount");
    let ram = std::sync::Arc::new(cut.to_ram(128 << 20));
    let fs = mount(&ram, "");
    assert_eq!(names(&*fs, fs.find("folded")), [b"nAmE"]);
    image.end(&fs, &ram);
}
