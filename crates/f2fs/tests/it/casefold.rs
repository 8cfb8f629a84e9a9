//! Directories without regard to case (feature `casefold`): what Varve makes is judged by
//! fsck.f2fs, which computes folded hashes itself, and Varve reads what the other one's mkfs made.

use crate::common::{
    Image, MIB, end, fork, fresh, have_tools, judge, made, mount, options_of, options_with_ring,
    try_mount,
};
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino, Rng};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{
    Creds, Errno, FileFlags, FileKind, FileSystem, FsResult, Onlookers, RenameMode, Taking,
};
use ondisk::Folding;
use ondisk::f2fs::{self as disk, DentryLayout, dentry_hash};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::errno;
use testkit::names::wild_name;
use varve_f2fs::check::{self, Report};
use varve_f2fs::mkfs::Options;
use varve_f2fs::{F2fs, Reason};

fn volume() -> Arc<Ram> {
    made(&Options {
        casefold: true,
        ..options_of(64 * MIB)
    })
}

fn checked(ram: &Ram) -> Report {
    let blocks: BTreeMap<u64, Bytes> = ram.blocks().into_iter().collect();
    let zeros = Bytes::from(vec![0; BLOCK_BYTES]);
    let read = |block: BlockNo| Ok::<_, Infallible>(blocks.get(&block.0).unwrap_or(&zeros).clone());
    check::check(&read, &check::Options::new(64 * MIB / BLOCK_BYTES as u64))
}

/// `chattr +F`, or `-F`.
fn fold(fs: &F2fs, dir: Ino, on: bool) -> FsResult<()> {
    let old = fs.file_flags(dir)?;
    let bit = FileFlags::CASEFOLD.0;
    let new = if on { old.0 | bit } else { old.0 & !bit };
    fs.set_file_flags(dir, FileFlags(new))
}

/// A new directory in the root in which case does not count.
fn folded_dir(fs: &F2fs, name: &str) -> Ino {
    let dir = fs.make_dir(fs.root(), name.as_bytes()).expect("room");
    fold(fs, dir, true).expect("an empty directory");
    dir
}

/// The names in a directory as they are spelt, in order.
fn names(fs: &F2fs, dir: Ino) -> Vec<Vec<u8>> {
    let all = fs.readdir(dir, 0, usize::MAX).expect("reads");
    let mut all: Vec<Vec<u8>> = all.into_iter().map(|entry| entry.name).collect();
    all.retain(|name| name != b"." && name != b"..");
    all.sort();
    all
}

/// In the inode, in blocks, and with names whose hashes are known in memory.
#[test]
fn a_name_is_found_in_any_spelling_and_stays_as_it_was_given() {
    let ram = volume();
    for (options, fill) in [("", 0), ("noinline_dentry", 0), ("noinline_dentry", 700)] {
        let mut fs = mount(&ram, options);
        let dir = folded_dir(&fs, "dir");
        for n in 0..fill {
            fs.make(dir, format!("filler {n}")).expect("room");
        }
        let file = fs.make(dir, "Stra\u{df}e").expect("room");
        for again in [false, true] {
            if again {
                fs.unmount().expect("unmount");
                fs = mount(&ram, options);
            }
            for same in ["Stra\u{df}e", "STRASSE", "strasse", "stra\u{200d}\u{1e9e}e"] {
                assert_eq!(fs.lookup(dir, same.as_bytes()).expect(same), file, "{same}");
                assert_eq!(errno(fs.make(dir, same)), Errno::Exist, "{same}");
                assert_eq!(errno(fs.link(file, dir, same.as_bytes())), Errno::Exist);
            }
            assert_eq!(errno(fs.lookup(dir, b"strase")), Errno::NoEnt);
        }
        assert_eq!(names(&fs, dir).len(), fill + 1);
        assert!(names(&fs, dir).contains(&"Stra\u{df}e".as_bytes().to_vec()));
        // In the root case counts.
        fs.make(fs.root(), "A").expect("room");
        fs.make(fs.root(), "a").expect("another");
        fs.unmount().expect("unmount");
        judge(&ram);
        let fs = mount(&ram, options);
        fs.unlink(dir, b"STRASSE").expect("the same name");
        for n in 0..fill {
            let name = format!("FILLER {n}");
            fs.unlink(dir, name.as_bytes()).expect("there");
        }
        fs.rmdir(fs.root(), b"dir").expect("empty");
        for name in [b"A", b"a"] {
            fs.unlink(fs.root(), name).expect("there");
        }
        end(&fs, &ram);
    }
}

#[test]
fn renames_and_what_they_meet() {
    let ram = volume();
    let fs = mount(&ram, "");
    let dir = folded_dir(&fs, "dir");
    let [a, b] = ["Alpha", "Beta"].map(|name| fs.make(dir, name).expect("room"));
    let rename =
        |from: &str, to: &str, mode| fs.rename(dir, from.as_bytes(), dir, to.as_bytes(), mode);
    // As in Linux: both names are that of one inode, so nothing happens.
    rename("alpha", "ALPHA", RenameMode::Replace).expect("nothing to do");
    assert_eq!(names(&fs, dir), [b"Alpha".to_vec(), b"Beta".to_vec()]);
    let refused = rename("alpha", "BETA", RenameMode::NoReplace);
    assert_eq!(errno(refused), Errno::Exist);
    rename("ALPHA", "beta", RenameMode::Exchange).expect("both are there");
    assert_eq!(fs.lookup(dir, b"alpha").expect("there"), b);
    // The place of the target keeps its spelling.
    rename("BETA", "alpha", RenameMode::Replace).expect("replaces");
    assert_eq!(names(&fs, dir), [b"Alpha"]);
    assert_eq!(fs.lookup(dir, b"ALPHA").expect("there"), a);
    rename("alpha", "Gamma", RenameMode::Replace).expect("moves");
    assert_eq!(names(&fs, dir), [b"Gamma"]);
    // Between directories of both kinds.
    let root = fs.root();
    fs.make(root, "gamma").expect("room");
    let moved = fs.rename(root, b"gamma", dir, b"GAMMA", RenameMode::Replace);
    moved.expect("replaces");
    let moved = fs.rename(dir, b"gamma", root, b"Gamma", RenameMode::Replace);
    moved.expect("moves");
    assert!(names(&fs, dir).is_empty() && fs.lookup(root, b"gamma").is_err());
    end(&fs, &ram);
}

/// A directory takes over the flag; only an empty one gets or loses it.
#[test]
fn the_flag_is_inherited_and_changes_only_while_a_directory_is_empty() {
    let ram = volume();
    let fs = mount(&ram, "");
    let dir = folded_dir(&fs, "dir");
    let below = fs.make_dir(dir, b"Below").expect("room");
    let has = |ino| fs.file_flags(ino).expect("flags").has(FileFlags::CASEFOLD);
    let file = fs.make(below, "File").expect("room");
    assert!(has(below) && !has(file));
    assert_eq!(fs.ignores_case(below), Some(true));
    assert_eq!(fs.ignores_case(fs.root()), Some(false));
    for full in [below, dir, fs.root()] {
        assert_eq!(errno(fold(&fs, full, !has(full))), Errno::NotEmpty);
    }
    assert_eq!(errno(fold(&fs, file, true)), Errno::NotSup);
    fs.unlink(below, b"FILE").expect("there");
    fold(&fs, below, false).expect("empty");
    for name in ["x", "X"] {
        fs.make(below, name).expect("room");
    }
    end(&fs, &ram);

    let plain = fresh(64);
    let fs = mount(&plain, "");
    let dir = fs.make_dir(fs.root(), b"dir").expect("room");
    assert_eq!(errno(fold(&fs, dir, true)), Errno::NotSup);
    assert_eq!(fs.ignores_case(dir), None);
    fs.unmount().expect("unmount");
}

/// A strict volume refuses names that cannot be folded; another one compares their bytes. Names
/// that fold to `.`, to `..` or to nothing are names like others, the last ones by their bytes.
#[test]
fn names_that_are_not_utf8_and_names_that_fold_to_dots() {
    if !have_tools() {
        return;
    }
    let bad: [&[u8]; 4] = [b"A\xff", b"A\xc3", b"\x80A", b"\xe0\x80\xaf"];
    let ram = Image::new(64, &["-O", "casefold", "-C", "utf8"]).load();
    let fs = mount(&ram, "");
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
    for name in [".\u{200d}", "\u{feff}..", "\u{200b}", "\u{200c}"] {
        assert_eq!(errno(fs.lookup(dir, name.as_bytes())), Errno::NoEnt);
        let ino = fs.make(dir, name).expect("room");
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), ino);
    }
    // Where nothing is known of the names, all entries are looked at, the dots too.
    folded_dir(&fs, "empty");
    fs.unmount().expect("unmount");
    let fs = mount(&ram, "");
    let empty = fs.find("empty");
    for name in [".\u{200d}", "\u{feff}.."] {
        assert_eq!(errno(fs.lookup(empty, name.as_bytes())), Errno::NoEnt);
    }
    assert_eq!(fs.lookup(dir, b".").expect("itself"), dir);
    assert_eq!(fs.lookup(dir, b"..").expect("above"), fs.root());
    fs.unmount().expect("unmount");
    let report = checked(&ram);
    assert!(report.findings.is_empty(), "{:?}", report.findings);

    let ram = Image::new(64, &["-O", "casefold", "-C", "utf8:strict"]).load();
    let fs = mount(&ram, "");
    let dir = folded_dir(&fs, "dir");
    fs.make(dir, "good").expect("room");
    for name in bad {
        assert_eq!(errno(fs.make(dir, name)), Errno::Inval);
        assert_eq!(errno(fs.lookup(dir, name)), Errno::Inval);
        let renamed = fs.rename(dir, b"good", dir, name, RenameMode::Replace);
        assert_eq!(errno(renamed), Errno::Inval);
        let elsewhere = fs.make(fs.root(), name);
        elsewhere.expect("where case counts any bytes are a name");
    }
    end(&fs, &ram);
}

/// Thousands of wild names against a model that folds, over remounts. fsck.f2fs computes each hash
/// itself.
#[test]
fn many_names_against_a_model_and_fsck() {
    let folding = Folding::new(Folding::fields()).expect("known");
    for (seed, options) in [(1, ""), (2, "noinline_dentry")] {
        let ram = volume();
        let mut fs = mount(&ram, options);
        let mut dir = folded_dir(&fs, "dir");
        let mut rng = Rng::named(seed, "casefold");
        let mut model: BTreeMap<Vec<u8>, (Vec<u8>, Ino)> = BTreeMap::new();
        for n in 0..2500 {
            // Names without a folding, or with an empty one, have tests of their own.
            let name = wild_name(&mut rng);
            let Some(key) = folding.fold(&name).filter(|key| !key.is_empty()) else {
                continue;
            };
            let found = fs.lookup(dir, &name).ok();
            let expected = model.get(&key).map(|(_, ino)| *ino);
            assert_eq!(found, expected, "{}", name.escape_ascii());
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
                fs = mount(&ram, options);
                dir = fs.find("dir");
            }
        }
        let mut spelt: Vec<Vec<u8>> = model.values().map(|(name, _)| name.clone()).collect();
        spelt.sort();
        assert!(spelt.len() > 900, "{}", spelt.len());
        assert_eq!(names(&fs, dir), spelt);
        end(&fs, &ram);
        let report = checked(&ram);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

fn put(ram: &Ram, n: u64, block: Vec<u8>) {
    write_block(ram, BlockNo(n).lba(), Class::Data, block.into()).expect("in range");
}

/// Gives the entry of a name another name of the same length, and a hash.
fn respell(ram: &Ram, name: &[u8], new: &[u8], hash: u32) {
    let mut changed = 0;
    for (n, bytes) in ram.blocks() {
        let mut block = bytes.to_vec();
        let found = disk::iter(&block, &DentryLayout::BLOCK, 0)
            .filter_map(Result::ok)
            .find(|(_, entry)| entry.name == name)
            .map(|(slot, entry)| (slot, entry.ino, entry.kind));
        if let Some((slot, ino, kind)) = found {
            let entry = disk::Dentry {
                hash,
                ino,
                kind,
                name: new,
            };
            disk::put(&mut block, &DentryLayout::BLOCK, slot, &entry);
            put(ram, n, block);
            changed += 1;
        }
    }
    assert!(changed > 0, "the name is there");
}

/// Names that are the same without regard to case, and one that a strict volume does not take.
#[test]
fn twins_and_names_of_strict_volumes_are_found_by_the_checker() {
    if !have_tools() {
        return;
    }
    for (flags, name, hash, word) in [
        (
            "utf8",
            &b"ABC"[..],
            disk::folded_hash(b"abc"),
            "without regard to case",
        ),
        ("utf8", b"A\xff\xff", dentry_hash(b"A\xff\xff"), ""),
        (
            "utf8:strict",
            b"A\xff\xff",
            dentry_hash(b"A\xff\xff"),
            "no UTF-8",
        ),
    ] {
        let ram = Image::new(64, &["-O", "casefold", "-C", flags]).load();
        let fs = mount(&ram, "noinline_dentry");
        let dir = folded_dir(&fs, "dir");
        for name in ["abc", "abd"] {
            fs.make(dir, name).expect("room");
        }
        end(&fs, &ram);
        respell(&ram, b"abd", name, hash);
        let found = checked(&ram).findings;
        let of_word = |f: &check::Finding| !word.is_empty() && f.what.contains(word);
        assert_eq!(found.iter().any(of_word), !word.is_empty(), "{found:?}");
        // The inode keeps the name that it was made with, which is no finding.
        assert_eq!(found.is_empty(), word.is_empty(), "{found:?}");
    }
}

/// A name under the hash of another one, as another version of Unicode would put it, is found
/// unless the volume forbids the search. What is removed then is that name, and no other one's
/// place is forgotten.
#[test]
fn a_name_under_another_hash_is_searched_for() {
    let good = volume();
    let fs = mount(&good, "noinline_dentry");
    let dir = folded_dir(&fs, "dir");
    let [stray, other] = ["Stray", "Other"].map(|name| fs.make(dir, name).expect("room"));
    fs.unmount().expect("unmount");
    respell(&good, b"Stray", b"Stray", dentry_hash(b"other"));
    let found = checked(&good).findings;
    assert!(found.iter().any(|f| f.what.contains("hash")), "{found:?}");
    let only_by_hash = mount(&fork(&good), "lookup_mode=perf");
    assert_eq!(errno(only_by_hash.lookup(dir, b"stray")), Errno::NoEnt);
    for lookups in [1, 40] {
        let ram = fork(&good);
        let fs = mount(&ram, "");
        for _ in 0..lookups {
            assert_eq!(fs.lookup(dir, b"STRAY").expect("found"), stray);
            assert_eq!(errno(fs.lookup(dir, b"missing")), Errno::NoEnt);
        }
        assert_eq!(errno(fs.make(dir, "stray")), Errno::Exist);
        fs.unlink(dir, b"sTRAY").expect("there");
        assert_eq!(fs.lookup(dir, b"OTHER").expect("there"), other);
        assert_eq!(names(&fs, dir), [b"Other"]);
        end(&fs, &ram);
    }
    for copy in [0, 1] {
        let block = good.blocks().into_iter().find(|(n, _)| *n == copy);
        let mut block = block.expect("a superblock").1.to_vec();
        // `s_encoding_flags`: no search beyond the hash.
        block[1024 + 2760] = 2;
        put(&good, copy, block);
    }
    let fs = mount(&good, "");
    assert_eq!(errno(fs.lookup(dir, b"stray")), Errno::NoEnt);
    fs.unmount().expect("unmount");
    let fs = mount(&good, "lookup_mode=compat");
    assert_eq!(fs.lookup(dir, b"stray").expect("found"), stray);
    fs.unmount().expect("unmount");
}

/// An encoding that is not known is refused by name, for reading too, as in Linux.
#[test]
fn an_unknown_encoding_is_refused() {
    let ram = volume();
    for copy in [0, 1] {
        let block = ram.blocks().into_iter().find(|(n, _)| *n == copy);
        let mut block = block.expect("a superblock").1.to_vec();
        block[1024 + 2758] = 7;
        put(&ram, copy, block);
    }
    for options in ["", "ro"] {
        let refused = try_mount(&ram, options).err().expect("refused").to_string();
        assert!(refused.contains("encoding 7"), "{refused}");
    }
    let found = checked(&ram).findings;
    assert!(
        found.iter().any(|f| f.what.contains("encoding 7")),
        "{found:?}"
    );
}

/// The flag of a directory changes behind the last checkpoint: what is synced then stays, however
/// roll-forward would have compared the names (sync-Y8).
#[test]
fn a_flag_that_no_checkpoint_has_costs_no_synced_file() {
    for (on, names) in [
        (false, [&b"x"[..], b"X"]),
        (false, [b"x", b"a\xff"]),
        (true, [b"x", b"Y"]),
    ] {
        for options in ["", "fsync_mode=strict"] {
            let ram = volume();
            let fs = mount(&ram, options);
            let dir = fs.make_dir(fs.root(), b"dir").expect("room");
            fold(&fs, dir, !on).expect("empty");
            fs.sync().expect("syncs");
            fold(&fs, dir, on).expect("empty");
            let files = names.map(|name| {
                let file = fs.make(dir, name).expect("room");
                fs.fsync(file, false).expect("syncs");
                file
            });
            assert_eq!(fs.fsync_checkpoints().get(&Reason::Folding), Some(&1));
            let cut = fork(&ram);
            drop(fs);
            let fs = mount(&cut, "");
            for (name, file) in names.into_iter().zip(files) {
                assert_eq!(fs.lookup(dir, name).expect("synced"), file);
            }
            end(&fs, &cut);
        }
    }
}

/// A removal asks nobody whether the name is known, because that is asked for a name as it is
/// spelt: the inode may be known by another spelling (grace-G2).
#[test]
fn who_knows_a_name_by_another_spelling_is_not_asked() {
    for (ram, asks) in [(volume(), false), (fresh(64), true)] {
        let fs = mount(&ram, "");
        fs.make(fs.root(), "name").expect("room");
        let what = Taking::Unlink(fs.root(), b"name");
        assert_eq!(fs.take_name(what, Onlookers::NONE).is_some(), asks);
        end(&fs, &ram);
    }
}

/// Roll-forward puts a directory aside whose name a synced file took: the name that it gets is one
/// that a strict volume takes.
#[test]
fn a_name_is_not_cut_within_a_character() {
    if !have_tools() {
        return;
    }
    for long in [
        "\u{e4}".repeat(127),
        "x".to_string() + &"\u{e4}".repeat(127),
    ] {
        let ram = Image::new(64, &["-O", "casefold", "-C", "utf8:strict"]).load();
        let fs = mount(&ram, "");
        let dir = folded_dir(&fs, "dir");
        fs.make_dir(dir, long.as_bytes()).expect("room");
        fs.sync().expect("syncs");
        fs.rmdir(dir, long.as_bytes()).expect("empty");
        let file = fs.make(dir, &long).expect("room");
        fs.fsync(file, false).expect("syncs");
        let cut = fork(&ram);
        drop(fs);
        let fs = mount(&cut, "");
        assert_eq!(fs.lookup(dir, long.as_bytes()).expect("synced"), file);
        assert_eq!(names(&fs, dir).len(), 2);
        end(&fs, &cut);
    }
}

/// What an fsync made durable is found in any spelling after a cut: by roll-forward, and from the
/// journal of F2FSJ.
#[test]
fn names_that_were_synced_are_there_after_a_cut() {
    for journal in [false, true] {
        let options = match journal {
            false => options_of(64 * MIB),
            true => options_with_ring(64, 512),
        };
        let ram = made(&Options {
            casefold: true,
            ..options
        });
        let fs = mount(&ram, "");
        let dir = folded_dir(&fs, "dir");
        let gone = fs.make(dir, "Gone").expect("room");
        fs.sync().expect("syncs");
        fs.unlink(dir, b"GONE").expect("the same name");
        let file = fs.make(dir, "gOnE").expect("room");
        let other = fs.make(dir, "\u{c4}rger").expect("room");
        for synced in [file, other] {
            fs.fsync(synced, false).expect("syncs");
        }
        assert_ne!(gone, file);
        let cut = fork(&ram);
        drop(fs);
        let fs = mount(&cut, "");
        assert_eq!(fs.lookup(dir, b"gone").expect("synced"), file);
        let name = "a\u{308}RGER".as_bytes();
        assert_eq!(fs.lookup(dir, name).expect("synced"), other);
        end(&fs, &cut);
        assert!(checked(&cut).findings.is_empty());
    }
}
