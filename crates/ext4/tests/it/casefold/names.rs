//! Operations on names of which case does not count.

use super::{fold, folded_dir, image};
use crate::common::{have_tools, mount};
use base::{Ino, Rng};
use fscore::{Creds, Errno, FileFlags, FileKind, FileSystem, RenameMode};
use ondisk::Folding;
use std::collections::BTreeMap;
use testkit::Brief;
use testkit::brief::errno;
use testkit::names::wild_name;
use varve_ext4::Ext4;

/// The names in a directory as they are spelt, in order.
fn names(fs: &Ext4, dir: Ino) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut from = 0;
    loop {
        let part = fs.readdir(dir, from, 100).expect("reads");
        let Some(last) = part.last() else { break };
        from = last.next;
        all.extend(part.into_iter().map(|entry| entry.name));
    }
    all.retain(|name| name != b"." && name != b"..");
    all.sort();
    all
}

#[test]
fn a_name_is_found_in_any_spelling_and_stays_as_it_was_given() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    let dir = folded_dir(&fs, "dir");
    let file = fs.make(dir, "Stra\u{df}e").expect("room");
    for same in ["Stra\u{df}e", "STRASSE", "strasse", "stra\u{200d}\u{1e9e}e"] {
        assert_eq!(fs.lookup(dir, same.as_bytes()).expect(same), file, "{same}");
        assert_eq!(errno(fs.make(dir, same)), Errno::Exist, "{same}");
        assert_eq!(
            errno(fs.mkdir(dir, same.as_bytes(), 0o755, Creds::default())),
            Errno::Exist
        );
        assert_eq!(
            errno(fs.link(file, dir, same.as_bytes())),
            Errno::Exist,
            "{same}"
        );
    }
    assert_eq!(errno(fs.lookup(dir, b"strase")), Errno::NoEnt);
    assert_eq!(names(&fs, dir), ["Stra\u{df}e".as_bytes()]);
    // In the root case counts.
    fs.make(fs.root(), "A").expect("room");
    fs.make(fs.root(), "a").expect("another");
    fs.unlink(dir, b"STRASSE").expect("the same name");
    assert!(names(&fs, dir).is_empty());
    image.end(&fs, &ram);
}

#[test]
fn renames_and_what_they_meet() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    let dir = folded_dir(&fs, "dir");
    let [a, b] = ["Alpha", "Beta"].map(|name| fs.make(dir, name).expect("room"));
    let rename =
        |from: &str, to: &str, mode| fs.rename(dir, from.as_bytes(), dir, to.as_bytes(), mode);
    // As in Linux: both names are that of one inode, so nothing happens.
    rename("alpha", "ALPHA", RenameMode::Replace).expect("nothing to do");
    assert_eq!(names(&fs, dir), [b"Alpha".to_vec(), b"Beta".to_vec()]);
    assert_eq!(
        errno(rename("alpha", "BETA", RenameMode::NoReplace)),
        Errno::Exist
    );
    rename("ALPHA", "beta", RenameMode::Exchange).expect("both are there");
    assert_eq!(fs.lookup(dir, b"alpha").expect("there"), b);
    // The place of the target keeps its spelling.
    rename("BETA", "alpha", RenameMode::Replace).expect("replaces");
    assert_eq!(names(&fs, dir), [b"Alpha"]);
    assert_eq!(fs.lookup(dir, b"ALPHA").expect("there"), a);
    rename("alpha", "Gamma", RenameMode::Replace).expect("moves");
    assert_eq!(names(&fs, dir), [b"Gamma"]);
    // Between directories of both kinds.
    fs.make(fs.root(), "gamma").expect("room");
    fs.rename(fs.root(), b"gamma", dir, b"GAMMA", RenameMode::Replace)
        .expect("replaces");
    fs.rename(dir, b"gamma", fs.root(), b"Gamma", RenameMode::Replace)
        .expect("moves");
    assert!(names(&fs, dir).is_empty() && fs.lookup(fs.root(), b"gamma").is_err());
    image.end(&fs, &ram);
}

/// A directory takes over the flag; only an empty one gets or loses it.
#[test]
fn the_flag_is_inherited_and_changes_only_while_a_directory_is_empty() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    let dir = folded_dir(&fs, "dir");
    let below = fs.make_dir(dir, "Below").expect("room");
    assert!(
        fs.file_flags(below)
            .expect("flags")
            .has(FileFlags::CASEFOLD)
    );
    let file = fs.make(below, "File").expect("room");
    assert!(!fs.file_flags(file).expect("flags").has(FileFlags::CASEFOLD));
    assert_eq!(errno(fold(&fs, below, false)), Errno::NotEmpty);
    assert_eq!(errno(fold(&fs, dir, false)), Errno::NotEmpty);
    assert_eq!(errno(fold(&fs, fs.root(), true)), Errno::NotEmpty);
    assert_eq!(errno(fold(&fs, file, true)), Errno::NotSup);
    fs.unlink(below, b"FILE").expect("there");
    fold(&fs, below, false).expect("empty");
    fs.make(below, "x").expect("room");
    fs.make(below, "X").expect("another");
    fs.unlink(below, b"x").expect("there");
    fs.unlink(below, b"X").expect("there");
    fs.rmdir(dir, b"BELOW").expect("there");
    image.end(&fs, &ram);

    let plain = crate::common::Image::new(32, &[]);
    let (_, fs) = plain.mount("");
    let dir = fs.dir("dir");
    assert_eq!(
        errno(fold(&fs, dir, true)),
        Errno::NotSup,
        "without the feature"
    );
    fs.unmount().expect("unmount");
}

/// A strict volume refuses names that cannot be folded; another one compares their bytes.
#[test]
fn names_that_are_not_utf8() {
    if !have_tools() {
        return;
    }
    let bad: [&[u8]; 5] = [
        b"A\xff",
        b"A\xc3",
        b"\x80A",
        b"\xed\xa0\x80",
        b"\xe0\x80\xaf",
    ];
    let lenient = image("");
    let (ram, fs) = lenient.mount("");
    let dir = folded_dir(&fs, "dir");
    for name in bad {
        let ino = fs.make(dir, name).expect("room");
        assert_eq!(fs.lookup(dir, name).expect("there"), ino);
        let lower = name.to_ascii_lowercase();
        if lower != name {
            assert_eq!(errno(fs.lookup(dir, &lower)), Errno::NoEnt);
            fs.make(dir, lower).expect("another name");
        }
        assert_eq!(errno(fs.make(dir, name)), Errno::Exist);
    }
    lenient.end(&fs, &ram);

    let strict = image("strict");
    let (ram, fs) = strict.mount("");
    let dir = folded_dir(&fs, "dir");
    fs.make(dir, "good").expect("room");
    for name in bad {
        assert_eq!(errno(fs.make(dir, name)), Errno::Inval);
        assert_eq!(errno(fs.lookup(dir, name)), Errno::Inval);
        let renamed = fs.rename(dir, b"good", dir, name, RenameMode::Replace);
        assert_eq!(errno(renamed), Errno::Inval);
        fs.make(fs.root(), name)
            .expect("where case counts any bytes are a name");
        fs.unlink(fs.root(), name).expect("there");
    }
    strict.end(&fs, &ram);
}

/// Names that fold to `.`, to `..` and to nothing are names like others.
#[test]
fn names_that_fold_to_dots_or_to_nothing() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    let dir = folded_dir(&fs, "dir");
    for name in [".\u{200d}", "\u{feff}..", "\u{200b}"] {
        assert_eq!(errno(fs.lookup(dir, name.as_bytes())), Errno::NoEnt);
        let ino = fs.make(dir, name).expect("room");
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), ino);
    }
    assert_eq!(
        errno(fs.make(dir, "\u{200c}")),
        Errno::Exist,
        "folds to nothing, too"
    );
    assert_eq!(fs.lookup(dir, b".").expect("itself"), dir);
    assert_eq!(fs.lookup(dir, b"..").expect("above"), fs.root());
    assert_eq!(names(&fs, dir).len(), 3);
    image.end(&fs, &ram);
}

/// Thousands of wild names against a model that folds, over remounts; splits of the tree and a
/// directory in its inode included. e2fsck computes each hash itself.
#[test]
fn many_names_against_a_model_and_e2fsck() {
    if !have_tools() {
        return;
    }
    let folding = Folding::new(Folding::fields()).expect("known");
    for (seed, features) in [(1, "casefold"), (2, "casefold,inline_data")] {
        let image = crate::common::Image::new(64, &["-O", features, "-N", "16384"]);
        let ram = image.load();
        let mut fs = mount(&ram, "");
        let mut dir = folded_dir(&fs, "dir");
        let mut rng = Rng::named(seed, "casefold");
        let mut model: BTreeMap<Vec<u8>, (Vec<u8>, Ino)> = BTreeMap::new();
        for n in 0..2500 {
            // e2fsck 1.47.0 computes no hash for others, and calls their index damaged.
            let name = wild_name(&mut rng);
            let Some(key) = folding.fold(&name) else {
                continue;
            };
            let found = fs.lookup(dir, &name).ok();
            assert_eq!(
                found,
                model.get(&key).map(|(_, ino)| *ino),
                "{}",
                name.escape_ascii()
            );
            match found {
                Some(_) if rng.below(3) == 0 => {
                    fs.unlink(dir, &name).expect("there");
                    model.remove(&key);
                }
                Some(_) => assert_eq!(errno(fs.make(dir, &name)), Errno::Exist),
                None => {
                    let kind = FileKind::File;
                    let made = fs.create(dir, &name, kind, 0o644, 0, Creds::default());
                    model.insert(key, (name, made.expect("room").ino));
                }
            }
            if n == 1200 {
                fs.unmount().expect("unmount");
                fs = mount(&ram, "");
                dir = fs.find("dir");
            }
        }
        let mut spelt: Vec<Vec<u8>> = model.values().map(|(name, _)| name.clone()).collect();
        spelt.sort();
        assert!(spelt.len() > 900, "{}", spelt.len());
        assert_eq!(names(&fs, dir), spelt);
        image.end(&fs, &ram);
        // e2fsck sorts all names anew.
        let out = crate::common::tool("e2fsck")
            .args(["-fyD"])
            .arg(&image.path)
            .output();
        let code = out.expect("e2fsck").status.code();
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
        let (ram, fs) = image.mount("");
        let dir = fs.find("dir");
        for (name, ino) in model.values() {
            let upper = String::from_utf8_lossy(name).to_uppercase();
            assert_eq!(fs.lookup(dir, name).expect("there"), *ino);
            if std::str::from_utf8(name).is_ok()
                && folding.fold(upper.as_bytes()) == folding.fold(name)
            {
                assert_eq!(fs.lookup(dir, upper.as_bytes()).expect("there"), *ino);
            }
        }
        image.end(&fs, &ram);
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
    let image = crate::common::Image::new(128, &["-O", "casefold", "-J", "size=16"]);
    let (ram, fs) = image.mount("scheme=fast-commit");
    let [plain, folded] = [fs.dir("plain"), folded_dir(&fs, "folded")];
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
    assert_eq!(names(&fs, fs.find("folded")), [b"nAmE"]);
    image.end(&fs, &ram);
}
