//! Random rows of tags that no kernel would write: a replay answers each of them with blocks or
//! with a reason, never with a panic.

use super::*;
use crate::mkfs::{self, DeviceContent, JournalSize, MkfsOptions};
use base::Rng;
use blockdev::{Image, Ram};
use fscore::{Creds, FileSystem};
use ondisk::ext4::{FastCommitName, SUPERBLOCK_AT};
use rt::{Sim, SimConfig};

pub(super) const BYTES: u64 = 16 << 20;
const ROWS: u64 = 900;
/// Inode numbers that the rows name: reserved ones, those in use, and some that are free.
const INODES: u64 = 40;

/// A volume with files, a directory and a link.
pub(super) fn volume() -> Image {
    volume_of(false)
}

/// Such a volume; in its directory case may not count.
pub(super) fn volume_of(casefold: bool) -> Image {
    let time = rt::WallTime { secs: 1, nanos: 0 };
    let mut options = MkfsOptions::new(BYTES, [3; 16], [5; 16], time);
    options.journal = JournalSize::Blocks(1024);
    options.casefold = casefold;
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = Arc::new(Ram::new(BYTES));
        let plan = mkfs::plan(&options).expect("a volume");
        plan.write(&Queue::new(device.clone()), DeviceContent::Zeros)
            .expect("written");
        let fs = Ext4::mount(Queue::new(device.clone()), MountOptions::default()).expect("mounts");
        let who = Creds::default();
        for n in 0..10u64 {
            let name = format!("file {n}");
            let file = fs
                .create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, who)
                .expect("room");
            for page in 0..n {
                fs.write(file.ino, page * 8192, &[7; 4096]).expect("room");
            }
        }
        let dir = fs.mkdir(fs.root(), b"dir", 0o755, who).expect("room");
        if casefold {
            let flag = fscore::FileFlags(dir.flags.0 | fscore::FileFlags::CASEFOLD.0);
            fs.set_file_flags(dir.ino, flag).expect("empty");
        }
        fs.symlink(dir.ino, b"link", b"target", who).expect("room");
        fs.unmount().expect("unmounts");
        device.blocks().into_iter().collect::<Image>()
    });
    assert!(
        outcome.first_failure.is_none(),
        "{:?}",
        outcome.first_failure
    );
    outcome.value.expect("a volume")
}

fn number(rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => rng.next_u64() as u32,
        1 => u32::MAX - rng.below(3) as u32,
        _ => rng.below(64) as u32,
    }
}

fn ino(rng: &mut Rng) -> Ino {
    match rng.below(20) {
        0 => Ino(number(rng)),
        _ => Ino(rng.below(INODES) as u32),
    }
}

fn name(rng: &mut Rng) -> FastCommitName {
    let name = match rng.below(8) {
        0 => b"dir".to_vec(),
        1 => vec![rng.next_u64() as u8; rng.below(300) as usize],
        n => format!("file {n}").into_bytes(),
    };
    FastCommitName {
        parent: match rng.below(3) {
            0 => ino(rng),
            _ => disk::ROOT_INO,
        },
        ino: ino(rng),
        name,
    }
}

fn extent(rng: &mut Rng) -> Extent {
    let physical = match rng.below(6) {
        0 => rng.next_u64() >> 16,
        _ => rng.below(BYTES / 4096),
    };
    let most = [4, 0x7FFF][rng.below(2) as usize];
    Extent {
        logical: number(rng),
        len: 1 + rng.below(most) as u32,
        physical: BlockNo(physical),
        unwritten: rng.one_in(3),
    }
}

/// The fields of an existing inode with some of them changed, or random bytes.
fn fields(rng: &mut Rng, table: &[u8]) -> Vec<u8> {
    let from = rng.below(INODES) as usize * 256;
    let mut raw = table[from..from + 256].to_vec();
    for _ in 0..rng.below(4) {
        let at = rng.below(256) as usize;
        raw[at] = rng.next_u64() as u8;
    }
    if rng.one_in(6) {
        rng.fill(&mut raw);
    }
    raw.truncate(128 + rng.below(129) as usize);
    raw
}

fn row(rng: &mut Rng, table: &[u8]) -> Vec<FastCommitTag> {
    let tag = |rng: &mut Rng| match rng.below(7) {
        0 | 1 => FastCommitTag::AddRange(ino(rng), extent(rng)),
        2 => FastCommitTag::DelRange(ino(rng), number(rng), number(rng)),
        3 => FastCommitTag::Create(name(rng)),
        4 => FastCommitTag::Link(name(rng)),
        5 => FastCommitTag::Unlink(name(rng)),
        _ => FastCommitTag::Inode(ino(rng), fields(rng, table)),
    };
    let most = [1, 3, 40][rng.below(3) as usize];
    let len = 1 + rng.below(most);
    (0..len).map(|_| tag(rng)).collect()
}

#[test]
fn every_row_is_answered() {
    let image = volume();
    let sb = Superblock::parse(&image.block(0)[SUPERBLOCK_AT as usize..]).expect("a volume");
    let desc = disk::GroupDesc::parse(&image.block(1), sb.desc_bytes()).expect("a group");
    let table: Vec<u8> = (0..4)
        .flat_map(|n| image.block(desc.inode_table().0 + n).to_vec())
        .collect();
    let (mut replayed, mut refused) = (0, 0);
    for seed in 0..ROWS {
        let tags = row(&mut Rng::named(seed, "fast commits"), &table);
        let shown = format!("{tags:?}");
        let ending = [Ending::Freed, Ending::Orphan][seed as usize % 2];
        let (sb, image) = (sb.clone(), image.clone());
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let queue = Queue::new(Arc::new(image.to_ram(BYTES)));
            replay(&queue, &sb, &MountOptions::default(), (tags, ending))
        });
        let failure = outcome.first_failure;
        assert!(failure.is_none(), "row {seed}: {failure:?}\n{shown}");
        match outcome.value.expect("an answer") {
            Ok(blocks) => replayed += u64::from(!blocks.is_empty()),
            Err(_) => refused += 1,
        }
    }
    assert!(replayed > 10 && refused > 100, "{replayed}, {refused}");
}

/// A row with very many ranges of one file takes no more work than its tags.
#[test]
fn a_long_row_takes_no_longer_than_its_tags() {
    let mut list = BTreeMap::new();
    for n in 0..200_000 {
        let extent = Extent {
            logical: n * 2,
            len: 1,
            physical: BlockNo(n.into()),
            unwritten: false,
        };
        cut(&mut list, extent.logical.into(), extent.logical_end());
        list.insert(extent.logical, extent);
    }
    cut(&mut list, 0, 199_999 * 2);
    assert_eq!(list.len(), 1);
}
