//! Directories in which case does not count (`casefold`), as every file system has to have them.
//!
//! - N1 a name is found in any spelling that folds to the same, and stays as it was given;
//! - N2 a directory takes over the flag, and only an empty one gets or loses it;
//! - N3 a strict volume takes no name that cannot be folded, another one compares its bytes;
//! - N4 a call that answers ENOSPC has changed no name, and what gives back is never refused;
//! - N5 of tasks that make the same name in other spellings one makes it.

mod busy;
mod model;

pub use busy::{full, many_writers};
pub use model::{Model, agree, many_names};

use crate::brief::{Brief, errno};
use crate::volume::Volume;
use base::Ino;
use fscore::{Creds, Errno, FileFlags, FileSystem, FsResult, RenameMode};

/// A volume that may have the feature.
pub trait Casefold: Volume {
    /// Names that fold to nothing are one name; else they are compared by their bytes.
    const NOTHING_IS_ONE_NAME: bool;

    /// Has a volume judged in which names are that cannot be folded: not every checker of others
    /// knows how.
    fn judge_odd(&self) {
        self.judge();
    }
}

/// `chattr +F`, or `-F`.
///
/// # Errors
/// Those of `set_file_flags`.
pub fn fold(fs: &dyn FileSystem, dir: Ino, on: bool) -> FsResult<()> {
    let old = fs.file_flags(dir)?;
    let bit = FileFlags::CASEFOLD.0;
    let new = if on { old.0 | bit } else { old.0 & !bit };
    fs.set_file_flags(dir, FileFlags(new))
}

/// A new directory in the root in which case does not count.
///
/// # Panics
/// If it cannot be made.
pub fn folded_dir(fs: &dyn FileSystem, name: &str) -> Ino {
    let dir = fs.dir(name);
    fold(fs, dir, true).expect("an empty directory");
    dir
}

/// The names in a directory as they are spelt, in order.
///
/// # Panics
/// If it cannot be read.
pub fn names(fs: &dyn FileSystem, dir: Ino) -> Vec<Vec<u8>> {
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

fn end<V: Volume>(volume: &V, fs: &V::Fs) {
    V::check(fs);
    fs.unmount().expect("unmount");
    volume.judge();
}

/// N1, among `fill` other names, before and behind a remount. The volume is left as it was.
///
/// # Panics
/// If it is not so.
pub fn any_spelling(volume: &impl Casefold, fill: usize) {
    let mut fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    for n in 0..fill {
        fs.make(dir, format!("filler {n}")).expect("room");
    }
    let file = fs.make(dir, "Stra\u{df}e").expect("room");
    for again in [false, true] {
        if again {
            fs.unmount().expect("unmount");
            fs = volume.mount();
        }
        for same in ["Stra\u{df}e", "STRASSE", "strasse", "stra\u{200d}\u{1e9e}e"] {
            let made = fs.mkdir(dir, same.as_bytes(), 0o755, Creds::default());
            assert_eq!(errno(made), Errno::Exist, "{same}");
            assert_eq!(fs.lookup(dir, same.as_bytes()).expect(same), file, "{same}");
            assert_eq!(errno(fs.make(dir, same)), Errno::Exist, "{same}");
            let linked = fs.link(file, dir, same.as_bytes());
            assert_eq!(errno(linked), Errno::Exist, "{same}");
        }
        assert_eq!(errno(fs.lookup(dir, b"strase")), Errno::NoEnt);
    }
    assert_eq!(names(&*fs, dir).len(), fill + 1);
    assert!(names(&*fs, dir).contains(&"Stra\u{df}e".as_bytes().to_vec()));
    // In the root case counts.
    for name in ["A", "a"] {
        fs.file(name);
    }
    end(volume, &fs);
    let fs = volume.mount();
    fs.unlink(dir, b"STRASSE").expect("the same name");
    for n in 0..fill {
        let name = format!("FILLER {n}");
        fs.unlink(dir, name.as_bytes()).expect("there");
    }
    assert!(names(&*fs, dir).is_empty());
    fs.rmdir(fs.root(), b"dir").expect("empty");
    for name in [b"A", b"a"] {
        fs.unlink(fs.root(), name).expect("there");
    }
    end(volume, &fs);
}

/// N1 for renames, which may meet their own name and those of others.
///
/// # Panics
/// If it is not so.
pub fn renames(volume: &impl Casefold) {
    let fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    let [a, b] = ["Alpha", "Beta"].map(|name| fs.make(dir, name).expect("room"));
    let rename =
        |from: &str, to: &str, mode| fs.rename(dir, from.as_bytes(), dir, to.as_bytes(), mode);
    // As in Linux: both names are that of one inode, so nothing happens.
    rename("alpha", "ALPHA", RenameMode::Replace).expect("nothing to do");
    assert_eq!(names(&*fs, dir), [b"Alpha".to_vec(), b"Beta".to_vec()]);
    let refused = rename("alpha", "BETA", RenameMode::NoReplace);
    assert_eq!(errno(refused), Errno::Exist);
    rename("ALPHA", "beta", RenameMode::Exchange).expect("both are there");
    assert_eq!(fs.lookup(dir, b"alpha").expect("there"), b);
    // The place of the target keeps its spelling.
    rename("BETA", "alpha", RenameMode::Replace).expect("replaces");
    assert_eq!(names(&*fs, dir), [b"Alpha"]);
    assert_eq!(fs.lookup(dir, b"ALPHA").expect("there"), a);
    rename("alpha", "Gamma", RenameMode::Replace).expect("moves");
    assert_eq!(names(&*fs, dir), [b"Gamma"]);
    // Between directories of both kinds.
    let root = fs.root();
    fs.file("gamma");
    let moved = fs.rename(root, b"gamma", dir, b"GAMMA", RenameMode::Replace);
    moved.expect("replaces");
    let moved = fs.rename(dir, b"gamma", root, b"Gamma", RenameMode::Replace);
    moved.expect("moves");
    assert!(names(&*fs, dir).is_empty() && fs.lookup(root, b"gamma").is_err());
    end(volume, &fs);
}

/// N2; `plain` is without the feature.
///
/// # Panics
/// If it is not so.
pub fn the_flag<V: Casefold>(volume: &V, plain: &V) {
    let fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    let below = fs.make_dir(dir, "Below").expect("room");
    let has = |ino| fs.file_flags(ino).expect("flags").has(FileFlags::CASEFOLD);
    let file = fs.make(below, "File").expect("room");
    assert!(has(below) && !has(file), "N2");
    assert_eq!(fs.ignores_case(below), Some(true));
    assert_eq!(fs.ignores_case(fs.root()), Some(false));
    for full in [below, dir, fs.root()] {
        assert_eq!(errno(fold(&*fs, full, !has(full))), Errno::NotEmpty, "N2");
    }
    assert_eq!(errno(fold(&*fs, file, true)), Errno::NotSup);
    fs.unlink(below, b"FILE").expect("there");
    fold(&*fs, below, false).expect("empty");
    for name in ["x", "X"] {
        fs.make(below, name).expect("case counts again");
    }
    for name in [b"x", b"X"] {
        fs.unlink(below, name).expect("there");
    }
    fs.rmdir(dir, b"BELOW").expect("there");
    end(volume, &fs);

    let fs = plain.mount();
    let dir = fs.dir("dir");
    let refused = fold(&*fs, dir, true);
    assert_eq!(errno(refused), Errno::NotSup, "without the feature");
    assert_eq!(fs.ignores_case(dir), None);
    end(plain, &fs);
}

/// Names that are no UTF-8.
const BAD: [&[u8]; 5] = [
    b"A\xff",
    b"A\xc3",
    b"\x80A",
    b"\xed\xa0\x80",
    b"\xe0\x80\xaf",
];

/// N3; `strict` refuses such names.
///
/// # Panics
/// If it is not so.
pub fn no_utf8<V: Casefold>(lenient: &V, strict: &V) {
    let fs = lenient.mount();
    let dir = folded_dir(&*fs, "dir");
    for name in BAD {
        let ino = fs.make(dir, name).expect("room");
        assert_eq!(fs.lookup(dir, name).expect("there"), ino, "N3");
        let lower = name.to_ascii_lowercase();
        if lower != name {
            assert_eq!(errno(fs.lookup(dir, &lower)), Errno::NoEnt, "N3");
            fs.make(dir, lower).expect("another name");
        }
        assert_eq!(errno(fs.make(dir, name)), Errno::Exist);
    }
    V::check(&fs);
    fs.unmount().expect("unmount");
    lenient.judge_odd();

    let fs = strict.mount();
    let dir = folded_dir(&*fs, "dir");
    fs.make(dir, "good").expect("room");
    for name in BAD {
        assert_eq!(errno(fs.make(dir, name)), Errno::Inval, "N3");
        assert_eq!(errno(fs.lookup(dir, name)), Errno::Inval, "N3");
        let renamed = fs.rename(dir, b"good", dir, name, RenameMode::Replace);
        assert_eq!(errno(renamed), Errno::Inval, "N3");
        // Where case counts any bytes are a name.
        fs.file(name);
        fs.unlink(fs.root(), name).expect("there");
    }
    end(strict, &fs);
}

/// Names that fold to `.`, to `..` and to nothing are names like others.
///
/// # Panics
/// If it is not so.
pub fn dots_and_nothing<V: Casefold>(volume: &V) {
    let fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    let empty = folded_dir(&*fs, "empty");
    for name in [".\u{200d}", "\u{feff}..", "\u{200b}"] {
        assert_eq!(errno(fs.lookup(dir, name.as_bytes())), Errno::NoEnt);
        let ino = fs.make(dir, name).expect("room");
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), ino);
    }
    let nothing = fs.make(dir, "\u{200c}").map(drop);
    match V::NOTHING_IS_ONE_NAME {
        true => assert_eq!(errno(nothing), Errno::Exist, "folds to nothing, too"),
        false => nothing.expect("another name"),
    }
    V::check(&fs);
    fs.unmount().expect("unmount");
    let fs = volume.mount();
    // Where nothing is known of the names, all entries are looked at, the dots too.
    for name in [".\u{200d}", "\u{feff}.."] {
        assert_eq!(errno(fs.lookup(empty, name.as_bytes())), Errno::NoEnt);
    }
    assert_eq!(fs.lookup(dir, b".").expect("itself"), dir);
    assert_eq!(fs.lookup(dir, b"..").expect("above"), fs.root());
    let kept = if V::NOTHING_IS_ONE_NAME { 3 } else { 4 };
    assert_eq!(names(&*fs, dir).len(), kept);
    V::check(&fs);
    fs.unmount().expect("unmount");
    volume.judge_odd();
}
