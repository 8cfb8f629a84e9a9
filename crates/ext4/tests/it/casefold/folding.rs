//! The folding of every character, and of strings of them, beside the tables of e2fsprogs, which
//! are those of Linux: debugfs prints the hash of a folded name.

use super::image;
use crate::common::{have_tools, tool};
use base::Rng;
use ondisk::Folding;
use ondisk::ext4::{HashVersion, dir_hash};
use std::process::Stdio;
use testkit::names::wild_name;

/// What debugfs says of each name: its major hash when it is folded, `None` where it cannot be.
fn hashes(names: &[Vec<u8>]) -> Vec<Option<u32>> {
    let image = image("");
    let mut script = Vec::new();
    for name in names {
        script.extend_from_slice(b"dx_hash -c -e utf8 -h half_md4 ");
        script.extend_from_slice(name);
        script.push(b'\n');
    }
    let path = image.dir.path().join("names");
    std::fs::write(&path, script).expect("room");
    let mut debugfs = tool("debugfs");
    debugfs.arg("-f").arg(&path).arg(&image.path);
    let out = debugfs.stderr(Stdio::null()).output().expect("debugfs");
    let mut found = Vec::new();
    for line in out.stdout.split(|&b| b == b'\n') {
        if line.starts_with(b"debugfs: ") {
            found.push(None);
        } else if line.starts_with(b"Hash of ") {
            let line = String::from_utf8_lossy(line);
            let (_, hash) = line.rsplit_once(" is 0x").expect("a hash");
            let hash = hash.split(' ').next().expect("a word");
            let last = found.last_mut().expect("after its request");
            *last = Some(u32::from_str_radix(hash, 16).expect("hexadecimal"));
        }
    }
    assert_eq!(found.len(), names.len(), "one answer for each name");
    found
}

fn agree(names: &[Vec<u8>]) {
    let folding = Folding::new(Folding::fields()).expect("known");
    let ours = |name: &Vec<u8>| {
        // Of a name that begins with a stray byte debugfs answers the hash of the bytes.
        let stray = || name.first().is_some_and(|b| matches!(b, 0x80..=0xBF));
        let folded = (folding.fold(name)).or_else(|| stray().then(|| name.clone()))?;
        Some(dir_hash(HashVersion::HalfMd4, &[0; 4], &folded).major)
    };
    let theirs = hashes(names);
    let wrong = (names.iter().zip(&theirs)).filter(|(name, hash)| ours(name) != **hash);
    let wrong: Vec<_> = wrong
        .map(|(name, _)| name.escape_ascii().to_string())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} names, as {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
}

/// The bytes of a code point, also of one that is none (a surrogate, beyond the end).
fn bytes(code: u32) -> Vec<u8> {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3F) as u8;
    match code {
        0..0x80 => vec![code as u8],
        0x80..0x800 => vec![0xC0 | (code >> 6) as u8, tail(0)],
        0x800..0x1_0000 => vec![0xE0 | (code >> 12) as u8, tail(6), tail(0)],
        _ => vec![0xF0 | (code >> 18) as u8, tail(12), tail(6), tail(0)],
    }
}

/// All code points of the planes in use, and a selection of the rest; beyond the end, too.
#[test]
fn every_character_folds_as_in_the_tables_of_linux() {
    if !have_tools() {
        return;
    }
    let used = (0x80..0x3_2000).chain(0xE_0000..0xE_1000);
    let codes = used.chain((0x3_2000..0x12_0000).step_by(997));
    // The letter before it makes a wrong fold of case visible.
    let name = |code| [b"Q".to_vec(), bytes(code)].concat();
    agree(&codes.map(name).collect::<Vec<_>>());
}

/// Marks in any order, ignorable characters between them, cut and overlong sequences.
#[test]
fn strings_fold_as_in_the_tables_of_linux() {
    if !have_tools() {
        return;
    }
    let mut rng = Rng::named(7, "casefold");
    let mut names: Vec<Vec<u8>> = (0..40_000).map(|_| wild_name(&mut rng)).collect();
    let marks: Vec<u32> = (0x300..0x370)
        .chain(0x591..0x5C0)
        .chain([0x34F, 0x200D])
        .collect();
    for _ in 0..40_000 {
        let mut name = b"Q".to_vec();
        for _ in 0..2 + rng.below(6) {
            name.extend(bytes(marks[rng.below(marks.len() as u64) as usize]));
        }
        names.push(name);
    }
    for first in 0xC0..=0xFF_u8 {
        for second in 0x80..=0xFF_u8 {
            names.push(vec![b'Q', first, second]);
            names.push(vec![b'Q', first, second, 0x80]);
            names.push(vec![b'Q', first, second, 0xBF, 0xBF, b'q']);
        }
    }
    // What debugfs would take for words of its own.
    names.retain(|name| {
        !name
            .iter()
            .any(|b| matches!(b, b' ' | b'"' | b'\\' | b'\n' | b'\t'))
    });
    agree(&names);
}
