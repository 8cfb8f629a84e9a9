//! Directories without regard to case (feature `casefold`): what Varve makes is judged by
//! fsck.f2fs, which computes folded hashes itself, and Varve reads what the other one's mkfs made.

use crate::common::{
    Image, MIB, Volume, end, fork, fresh, have_tools, made, mount, options_of, options_with_ring,
    try_mount,
};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{Errno, FileSystem, Onlookers, Taking};
use ondisk::f2fs::{self as disk, DentryLayout, dentry_hash};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::errno;
use testkit::casefold::{self, Casefold, fold, folded_dir, names};
use varve_f2fs::Reason;
use varve_f2fs::check::{self, Report};
use varve_f2fs::mkfs::Options;

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

impl casefold::Casefold for Volume {
    const NOTHING_IS_ONE_NAME: bool = false;

    /// fsck.f2fs knows no hash of such names.
    fn judge_odd(&self) {
        let report = checked(&self.ram);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// In the inode, in blocks, and with names whose hashes are known in memory.
#[test]
fn a_name_is_found_in_any_spelling_and_stays_as_it_was_given() {
    let ram = volume();
    for (options, fill) in [("", 0), ("noinline_dentry", 0), ("noinline_dentry", 700)] {
        casefold::any_spelling(&Volume::new(ram.clone(), options), fill);
    }
}

#[test]
fn renames_and_what_they_meet() {
    casefold::renames(&Volume::new(volume(), ""));
}

#[test]
fn the_flag_is_inherited_and_changes_only_while_a_directory_is_empty() {
    let [folded, plain] = [volume(), fresh(64)].map(|ram| Volume::new(ram, ""));
    casefold::the_flag(&folded, &plain);
}

#[test]
fn names_that_are_not_utf8() {
    if have_tools() {
        let [lenient, strict] = ["utf8", "utf8:strict"].map(|encoding| {
            let image = Image::new(64, &["-O", "casefold", "-C", encoding]);
            Volume::of(&image, "")
        });
        casefold::no_utf8(&lenient, &strict);
    }
}

#[test]
fn names_that_fold_to_dots_or_to_nothing() {
    casefold::dots_and_nothing(&Volume::new(volume(), ""));
}

/// fsck.f2fs computes each hash itself.
#[test]
fn many_names_against_a_model_and_fsck() {
    for (seed, options) in [(1, ""), (2, "noinline_dentry")] {
        let volume = Volume::new(volume(), options);
        casefold::many_names(&volume, seed);
        volume.judge_odd();
    }
}

/// With checkpoints, and with a journal.
#[test]
fn full_volumes_lose_no_name() {
    for (seed, options) in [(1, options_of(64 * MIB)), (2, options_with_ring(64, 512))] {
        let ram = made(&Options {
            casefold: true,
            ..options
        });
        casefold::full(&Volume::new(ram, ""), seed);
    }
}

#[test]
fn tasks_on_the_same_names_in_other_spellings() {
    casefold::many_writers(|| Volume::new(volume(), ""), 0..3);
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
        let dir = folded_dir(&*fs, "dir");
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
    let dir = folded_dir(&*fs, "dir");
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
        assert_eq!(names(&*fs, dir), [b"Other"]);
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
            fold(&*fs, dir, !on).expect("empty");
            fs.sync().expect("syncs");
            fold(&*fs, dir, on).expect("empty");
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
        let dir = folded_dir(&*fs, "dir");
        fs.make_dir(dir, long.as_bytes()).expect("room");
        fs.sync().expect("syncs");
        fs.rmdir(dir, long.as_bytes()).expect("empty");
        let file = fs.make(dir, &long).expect("room");
        fs.fsync(file, false).expect("syncs");
        let cut = fork(&ram);
        drop(fs);
        let fs = mount(&cut, "");
        assert_eq!(fs.lookup(dir, long.as_bytes()).expect("synced"), file);
        assert_eq!(names(&*fs, dir).len(), 2);
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
        let dir = folded_dir(&*fs, "dir");
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
