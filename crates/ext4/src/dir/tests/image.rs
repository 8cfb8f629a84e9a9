//! Puts the blocks of a directory into an image of mke2fs: `e2fsck` must find no fault, and
//! `debugfs` must find the names. Skipped, with a message, where e2fsprogs is missing.

use super::memory::{Memory, Setup, USUAL};
use crate::dir::{DirFacts, first_block, insert, lookup, remove};
use base::{BLOCK_BYTES, Ino};
use fscore::FileKind;
use ondisk::ext4::{FsSeed, HashVersion};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

fn tool(name: &str, args: &[&str]) -> Option<Output> {
    let known = ["/usr/sbin", "/sbin", "/usr/bin"].map(|dir| Path::new(dir).join(name));
    let path = known.iter().find(|path| path.exists())?;
    Some(Command::new(path).args(args).output().expect("starts"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs debugfs with commands from a file; answers what it printed.
fn debugfs(image: &str, commands: &str) -> String {
    let script = format!("{image}.commands");
    std::fs::write(&script, commands).expect("writes");
    text(&tool("debugfs", &["-w", "-f", &script, image]).expect("is there"))
}

/// The number behind `key` in the output of debugfs or dumpe2fs.
fn field<'a>(text: &'a str, key: &str) -> &'a str {
    let rest = text
        .split_once(key)
        .unwrap_or_else(|| panic!("{key} in {text}"))
        .1;
    rest.trim_start_matches([':', ' '])
        .split([' ', '\n'])
        .next()
        .expect("a word")
}

fn hex_words(uuid: &str) -> [u8; 16] {
    let digits: String = uuid.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).expect("a UUID");
    number.to_be_bytes()
}

/// Facts of directory `d` and the inode of file `f` of a new image.
fn new_image(image: &str, features: &str, setup: Setup) -> Option<(DirFacts, Ino)> {
    File::create(image)
        .expect("creates")
        .set_len(64 << 20)
        .expect("grows");
    let hash = ["legacy", "half_md4", "tea"][usize::from(setup.hash.code() % 3)];
    let made = tool(
        "mke2fs",
        &["-q", "-t", "ext4", "-b", "4096", "-O", features, image],
    )?;
    assert!(made.status.success(), "{}", text(&made));
    tool("tune2fs", &["-E", &format!("hash_alg={hash}"), image]).expect("is there");
    std::fs::write(format!("{image}.empty"), b"").expect("writes");
    let out = debugfs(
        image,
        &format!("mkdir d\nwrite {image}.empty f\nstat d\nstat f\nshow_super_stats -h\n"),
    );
    let (first, second) = out.rsplit_once("Inode:").expect("two inodes");
    let ino = Ino(field(first.rsplit_once("Inode:").expect("two").1, "")
        .parse()
        .expect("a number"));
    let file = Ino(field(second, "").parse().expect("a number"));
    let generation = field(first, "Generation").parse().expect("a number");
    let bytes = hex_words(field(&out, "Directory Hash Seed"));
    let mut hash_seed = [0; 4];
    for (word, raw) in hash_seed.iter_mut().zip(bytes.chunks(4)) {
        *word = base::bytes::get_le32(raw, 0);
    }
    let seed = FsSeed::of_uuid(&hex_words(field(&out, "Filesystem UUID")));
    let unsigned = out.contains("unsigned_directory_hash");
    let facts = DirFacts {
        folding: None,
        levels_max: 1,
        seams: &[],
        block_bytes: BLOCK_BYTES,
        ino,
        csum_seed: setup.checksums.then(|| seed.inode(ino, generation)),
        has_file_type: true,
        dir_index: true,
        hash: setup.hash.with_unsigned(unsigned),
        hash_seed,
    };
    Some((facts, file))
}

/// Puts the blocks of `dir` in the place of directory `d`.
fn store(image: &str, dir: &Memory, file: Ino, links: usize) {
    let blocks = dir.blocks.len();
    let mut commands = "expand_dir d\n".repeat(blocks - 1);
    commands += &format!(
        "set_inode_field d flags {:#x}\n",
        0x8_0000 | if dir.indexed { 0x1000 } else { 0 }
    );
    commands += &format!("set_inode_field <{file}> links_count {links}\n");
    commands += &(0..blocks)
        .map(|lblk| format!("bmap d {lblk}\n"))
        .collect::<String>();
    let out = debugfs(image, &commands);
    let places = out
        .lines()
        .filter_map(|line| line.trim().parse::<u64>().ok());
    let device = File::options().write(true).open(image).expect("opens");
    let mut stored = 0;
    for (place, block) in places.zip(&dir.blocks) {
        device
            .write_all_at(block, place * BLOCK_BYTES as u64)
            .expect("writes");
        stored += 1;
    }
    assert_eq!(stored, blocks, "{out}");
}

fn long_name(n: u32) -> String {
    format!("{n:06} {}", "\u{e4}x".repeat((n % 80) as usize))
}

fn accepted(features: &str, setup: Setup, names: u32, levels: u8) {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder
        .path()
        .join("image")
        .to_str()
        .expect("ASCII")
        .to_string();
    let Some((facts, file)) = new_image(&image, features, setup) else {
        eprintln!("skipped: no mke2fs here");
        return;
    };
    let mut dir = Memory::new(setup);
    dir.blocks = vec![first_block(&facts, Ino(2))];
    dir.facts = facts;
    for n in 0..names {
        insert(&mut dir, long_name(n).as_bytes(), file, FileKind::File).expect("inserts");
    }
    for n in (0..names).step_by(3) {
        remove(&mut dir, long_name(n).as_bytes()).expect("removes");
    }
    assert_eq!(super::structure::check(&dir).1, levels);
    let left = names - names.div_ceil(3);
    store(&image, &dir, file, 1 + left as usize);
    let check = tool("e2fsck", &["-fn", &image]).expect("is there");
    assert!(check.status.success(), "{features}: {}", text(&check));
    let listed = debugfs(&image, "ls -p /d\n");
    assert_eq!(
        listed
            .lines()
            .filter(|line| line.starts_with('/') && !line.starts_with("/0/"))
            .count() as u32,
        left + 2
    );
    let one = long_name(1);
    assert_eq!(
        listed.contains(&format!("/{one}/")),
        lookup(&dir, one.as_bytes()).expect("reads").is_some()
    );
}

#[test]
fn e2fsck_accepts() {
    let with = "metadata_csum,^metadata_csum_seed,64bit";
    let without = "^metadata_csum,^64bit";
    accepted(with, USUAL, 12, 0);
    accepted(with, USUAL, 900, 0);
    accepted(
        with,
        Setup {
            hash: HashVersion::Tea,
            ..USUAL
        },
        2000,
        0,
    );
    accepted(
        without,
        Setup {
            checksums: false,
            hash: HashVersion::Legacy,
            ..USUAL
        },
        2000,
        0,
    );
}

#[test]
fn e2fsck_accepts_two_levels() {
    accepted("metadata_csum,^metadata_csum_seed", USUAL, 15_000, 1);
}
