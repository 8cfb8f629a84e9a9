//! Forged chains of node blocks: a mount ends, either with an error or without the files that the
//! chain invents.
#![allow(clippy::disallowed_methods)]

use crate::common::{end, fork, fresh, judge, mount, pattern, try_mount};
use base::{BLOCK_BYTES, BlockNo, Rng};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{FileSystem, FsError};
use ondisk::f2fs::{BlockAddr, Features, Footer, Nid, footer, set_footer, update_inode_checksum};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;

const VOLUME_MIB: u64 = 64;
const FILES: usize = 4;

/// A volume with files that only roll-forward knows, and the blocks of the chain, in order.
fn with_chain() -> (Arc<Ram>, Vec<(u64, Footer)>) {
    let ram = fresh(VOLUME_MIB);
    let fs = mount(&ram, "");
    fs.sync().expect("checkpoint");
    let first = fs.file("first");
    fs.fsync(first, false).expect("a checkpoint of this mount");
    let mut inos = Vec::new();
    for n in 0..FILES {
        let ino = fs.file(format!("f{n}"));
        fs.write(ino, 0, &pattern(n as u64, 6 * BLOCK_BYTES))
            .expect("writes");
        fs.fsync(ino, false).expect("syncs");
        inos.push(Nid(ino.0));
    }
    let left = fork(&ram);
    fs.unmount().expect("unmounts");
    let nodes: BTreeMap<Nid, (u64, Footer)> = (left.blocks().into_iter())
        .map(|(n, block)| (n, footer(&block)))
        .filter(|(_, f)| inos.contains(&f.ino) && f.is_fsync() && f.is_inode())
        .map(|(n, f)| (f.nid, (n, f)))
        .collect();
    let chain: Vec<_> = inos.iter().map(|nid| nodes[nid]).collect();
    (left, chain)
}

fn edit(ram: &Ram, at: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let (_, block) = (ram.blocks().into_iter())
        .find(|(n, _)| *n == at)
        .expect("written");
    let mut bytes = block.to_vec();
    change(&mut bytes);
    update_inode_checksum(&mut bytes, Features::NONE, 0);
    write_block(ram, BlockNo(at).lba(), Class::Data, bytes.into()).expect("writes");
}

fn refused(ram: &Arc<Ram>, words: &[&str]) {
    match try_mount(ram, "") {
        Err(e @ FsError::Corrupt { .. }) => {
            let text = e.to_string();
            assert!(
                text.contains("disable_roll_forward"),
                "says what to do: {text}"
            );
            assert!(words.iter().all(|w| text.contains(w)), "{text}");
        }
        Err(e) => panic!("another error: {e}"),
        Ok(_) => panic!("mounted"),
    }
    let given_up = mount(ram, "disable_roll_forward");
    assert!(given_up.recovery().is_none());
    given_up.unmount().expect("unmounts");
    judge(ram);
}

#[test]
fn the_chain_comes_back_and_can_be_seen_without_being_written() {
    let (ram, chain) = with_chain();
    let before: Vec<_> = ram.blocks();
    let fs = mount(&ram, "ro");
    let report = fs.recovery().expect("a chain").clone();
    assert!(report.pending && report.inodes == FILES as u64 && report.names == FILES as u64);
    assert_eq!(
        (report.nodes_read, report.blocks),
        (chain.len() as u64, 6 * FILES as u64)
    );
    for n in 0..FILES {
        let ino = fs.find(format!("f{n}"));
        assert_eq!(fs.content(ino), pattern(n as u64, 6 * BLOCK_BYTES));
    }
    fs.unmount().expect("unmounts");
    assert!(ram.blocks() == before, "a read-only mount wrote");
    let hidden = mount(&ram, "ro,norecovery");
    assert!(hidden.lookup(hidden.root(), b"f0").is_err());
    hidden.unmount().expect("unmounts");
    let fs = mount(&ram, "");
    assert!(
        fs.recovery()
            .is_some_and(|r| !r.pending && r.inodes_made == FILES as u64)
    );
    end(&fs, &ram);
}

#[test]
fn loops_are_damage() {
    let (ram, chain) = with_chain();
    let (back, itself) = (fork(&ram), fork(&ram));
    let point = |ram: &Ram, from: u64, to: u64| {
        edit(ram, from, |bytes| {
            let mut f = footer(bytes);
            f.next = BlockAddr(to as u32);
            set_footer(bytes, &f);
        });
    };
    point(&back, chain[3].0, chain[1].0);
    refused(&back, &["comes back"]);
    point(&itself, chain[2].0, chain[2].0);
    refused(&itself, &["comes back"]);
}

#[test]
fn impossible_nodes_are_damage() {
    let (ram, chain) = with_chain();
    type Change = fn(&mut Footer);
    let changes: [(&str, Change); 3] = [
        ("node 0", |f| f.nid = Nid(0)),
        ("inode 4000000000", |f| f.ino = Nid(4_000_000_000)),
        ("node 7 of itself", |f| f.set_ofs_of_node(7)),
    ];
    for (words, change) in changes {
        let ram = fork(&ram);
        edit(&ram, chain[1].0, |bytes| {
            let mut f = footer(bytes);
            change(&mut f);
            set_footer(bytes, &f);
        });
        refused(&ram, &[words]);
    }
    for (words, at, bytes) in [
        ("mode", 0, &[0x00, 0x40][..]),
        ("directory", 0x54, &[9, 9, 0, 0][..]),
        ("its name is", 0x58, &[0, 0, 0, 0][..]),
        ("beyond what can be mapped", 0x10, &[0xFF; 8][..]),
        ("block", 0x168, &[1, 0, 0, 0][..]),
    ] {
        let ram = fork(&ram);
        edit(&ram, chain[2].0, |b| {
            b[at..at + bytes.len()].copy_from_slice(bytes)
        });
        refused(&ram, &[words]);
    }
}

/// Two files of the chain name one block: the later one has it.
#[test]
fn a_block_of_two_files_is_the_later_ones() {
    let (ram, chain) = with_chain();
    let of_first = ram
        .blocks()
        .into_iter()
        .find(|(n, _)| *n == chain[0].0)
        .expect("there")
        .1;
    edit(&ram, chain[3].0, |b| {
        b[0x168..0x16C].copy_from_slice(&of_first[0x168..0x16C])
    });
    let fs = mount(&ram, "");
    let ino = fs.find(b"f3");
    assert_eq!(fs.content(ino)[..BLOCK_BYTES], pattern(0, BLOCK_BYTES));
    let ino = fs.find(b"f0");
    assert!(
        fs.content(ino)[..BLOCK_BYTES].iter().all(|&b| b == 0),
        "it lost its block"
    );
    end(&fs, &ram);
}

#[test]
fn random_bytes_in_the_chain() {
    let (ram, chain) = with_chain();
    let (mut mounted, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::named(seed, "chain");
        let ram = fork(&ram);
        let at = chain[rng.below(chain.len() as u64) as usize].0;
        edit(&ram, at, |bytes| {
            for _ in 0..1 + rng.below(4) {
                // The words that mean most: the head, the first addresses, the numbers of nodes,
                // the footer.
                let areas = [0..0x168, 0x168..0x190, 0xFD4..0xFE8, 0xFE8..0x1000];
                let area = areas[rng.below(4) as usize].clone();
                let at = area.start + rng.below(area.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
        });
        match try_mount(&ram, "") {
            Ok(fs) => {
                let _ = fs.readdir(fs.root(), 0, 100);
                let _ = fs.sync();
                let _ = fs.unmount();
                mounted += 1;
            }
            Err(FsError::Corrupt { .. } | FsError::Incompatible { .. }) => refused += 1,
            Err(e) => panic!("seed {seed}: {e}"),
        }
    }
    assert!(
        mounted > 5 && refused > 5,
        "{mounted} mounted, {refused} refused"
    );
}
