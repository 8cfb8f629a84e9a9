//! Wild names against a model that folds.

use super::{Casefold, folded_dir, names};
use crate::brief::{Brief, errno};
use crate::names::wild_name;
use base::{Ino, Rng};
use fscore::{Errno, FileSystem};
use ondisk::Folding;
use std::collections::BTreeMap;

/// Folded names, each as it was given first, and its inode.
pub type Model = BTreeMap<Vec<u8>, (Vec<u8>, Ino)>;

/// Thousands of wild names in the directory `dir` against a model that folds (casefold-N1), over a
/// remount; then the verdict of the checkers. Answers the model.
///
/// # Panics
/// If they disagree.
pub fn many_names<V: Casefold>(volume: &V, seed: u64) -> Model {
    let folding = Folding::new(Folding::fields()).expect("known");
    let mut fs = volume.mount();
    let mut dir = folded_dir(&*fs, "dir");
    let mut rng = Rng::named(seed, "casefold");
    let mut model = Model::new();
    for n in 0..2500 {
        // Names without a folding, or with an empty one, have tests of their own: not every
        // checker of others has a hash for them.
        let name = wild_name(&mut rng);
        let key = folding.fold(&name);
        let Some(key) = key.filter(|key| V::NOTHING_IS_ONE_NAME || !key.is_empty()) else {
            continue;
        };
        let found = fs.lookup(dir, &name).ok();
        let expected = model.get(&key).map(|(_, ino)| *ino);
        assert_eq!(found, expected, "casefold-N1: {}", name.escape_ascii());
        match found {
            Some(_) if rng.below(3) == 0 => {
                fs.unlink(dir, &name).expect("there");
                model.remove(&key);
            }
            Some(_) => assert_eq!(errno(fs.make(dir, &name)), Errno::Exist),
            None => {
                let made = fs.make(dir, &name).expect("room");
                model.insert(key, (name, made));
            }
        }
        if n == 1200 {
            fs.unmount().expect("unmount");
            fs = volume.mount();
            dir = fs.find("dir");
        }
    }
    assert!(model.len() > 900, "{}", model.len());
    agree(&*fs, dir, &model);
    super::end(volume, &fs);
    model
}

/// Compares a directory with the model: the names as they were given, and what is behind each,
/// asked for in capitals where these fold to the same.
///
/// # Panics
/// If they disagree.
pub fn agree(fs: &dyn FileSystem, dir: Ino, model: &Model) {
    let folding = Folding::new(Folding::fields()).expect("known");
    let mut spelt: Vec<Vec<u8>> = model.values().map(|(name, _)| name.clone()).collect();
    spelt.sort();
    assert_eq!(names(fs, dir), spelt, "casefold-N1");
    for (key, (name, ino)) in model {
        assert_eq!(fs.lookup(dir, name).expect("there"), *ino);
        let upper = std::str::from_utf8(name).map(str::to_uppercase);
        if let Ok(upper) = upper
            && folding.fold(upper.as_bytes()).as_ref() == Some(key)
        {
            let found = fs.lookup(dir, upper.as_bytes());
            assert_eq!(found.expect("casefold-N1"), *ino, "{upper}");
        }
    }
}
