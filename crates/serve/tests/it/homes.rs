//! What becomes of home writes, told by a journal that the test writes.

use crate::jftl::Ext4;
use base::{BLOCK_BYTES, BlockNo, Bytes, Lba, Rng, Tid};
use blockdev::{BlockDevice, Class, Clock, Modelled, Request};
use ctrl::AnyModel;
use ondisk::jbd2::{self, DescriptorWriter, Format, Revoke, Tag};
use std::sync::Arc;
use varve_serve::{HomeWrites, Homes};

struct Host {
    homes: Homes,
    /// The first block of the journal, and its format.
    log: u64,
    format: Format,
}

fn over(model: AnyModel) -> Homes {
    let device = Arc::new(Modelled::new(model, Clock::Unpaced));
    let (counted, looked) = (device.clone(), device.clone());
    (device.with_model_mut(|model| model.keep_shared(true))).expect("power");
    let shared = move || {
        let shared = counted.with_model_mut(AnyModel::take_shared);
        shared.expect("power")
    };
    let peek = move |block| looked.with_model(|m| m.visible(block)).expect("power");
    Homes::new(device, shared, peek)
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let ext4 = Ext4::new(folder.path(), "homes");
        let model = ext4.model();
        let log = *ext4.journal[0].start();
        let superblock = jbd2::Superblock::parse(&model.visible(log)).unwrap();
        Host {
            homes: over(model),
            log,
            format: Format::of(&superblock),
        }
    }

    fn run(&self, request: Request) {
        let ticket = self.homes.submit(request);
        self.homes.wait(ticket).unwrap();
    }

    fn read(&self, block: u64) -> Vec<u8> {
        let ticket = self.homes.submit(Request::read(Lba(block * 8), 8));
        self.homes.wait(ticket).unwrap().into_bytes().to_vec()
    }

    fn write(&self, block: u64, bytes: Bytes) {
        self.run(Request::write(Lba(block * 8), Class::Data, bytes));
    }

    /// Logs blocks with this content, from block `at` of the journal on.
    fn log(&self, at: u64, blocks: &[(u64, Bytes)]) {
        let tid = Tid(9);
        let mut writer = DescriptorWriter::new(self.format, tid);
        for (block, content) in blocks {
            let escaped = jbd2::needs_escape(content);
            let mut image = content.to_vec();
            if escaped {
                jbd2::escape(&mut image);
            }
            writer.push(Tag::of(&self.format, tid, BlockNo(*block), &image, escaped));
            self.write(self.log + at + writer.tags().len() as u64, image.into());
        }
        let mut descriptor = vec![0; BLOCK_BYTES];
        writer.encode(&mut descriptor);
        self.write(self.log + at, descriptor.into());
    }

    fn counts(&self) -> [u64; 5] {
        let HomeWrites {
            remapped,
            missed,
            escaped,
            unlogged,
            zeros,
        } = self.homes.counts();
        [remapped, missed, escaped, unlogged, zeros]
    }
}

fn content(n: u64) -> Bytes {
    let mut bytes = vec![0; BLOCK_BYTES];
    Rng::named(n, "content").fill(&mut bytes);
    bytes.into()
}

fn magic(n: u64) -> Bytes {
    let mut bytes = content(n).to_vec();
    bytes[..4].copy_from_slice(&jbd2::MAGIC.to_be_bytes());
    bytes.into()
}

#[test]
fn each_home_write_is_counted_as_what_it_was() {
    let host = Host::new();
    assert!(host.homes.follows());
    let blocks = [(9000, content(1)), (9001, content(2)), (9002, magic(3))];
    host.log(1, &blocks);
    assert_eq!(host.counts(), [0; 5], "the journal is no home");
    host.write(9000, content(1));
    assert_eq!(host.counts(), [1, 0, 0, 0, 0], "the device shares the copy");
    host.write(9000, content(1));
    assert_eq!(host.counts(), [2, 0, 0, 0, 0], "and holds it already");
    host.write(9001, content(77));
    assert_eq!(host.counts(), [2, 1, 0, 0, 0], "stored after the commit");
    host.write(9002, magic(3));
    assert_eq!(host.counts(), [2, 1, 1, 0, 0], "its copy is escaped");
    host.write(9100, content(4));
    assert_eq!(host.counts(), [2, 1, 1, 1, 0], "never logged");
    host.write(9001, vec![0; BLOCK_BYTES].into());
    assert_eq!(host.counts(), [2, 1, 1, 1, 1]);
    // Several blocks in one command.
    host.log(5, &[(9200, content(5)), (9201, content(6))]);
    host.write(9200, [content(5), content(6)].concat().into());
    assert_eq!(host.counts(), [4, 1, 1, 1, 1]);
    assert_eq!(host.homes.counts().share(), Some(0.8));
}

/// Homes-H3: in one write a logged block is programmed, because another content than the logged one
/// is stored, and blocks that nobody logged are shared. Counted by hand.
#[test]
fn h3_a_write_of_homes_and_others_counts_the_homes_alone() {
    let host = Host::new();
    host.log(1, &[(9000, content(1)), (9001, content(2))]);
    // Content that the device has: of no logged block.
    host.write(9500, content(7));
    assert_eq!(host.counts(), [0, 0, 0, 1, 0]);
    // 9000 as logged: shared. 9001 anew: programmed. 9002 and 9003 as 9500: shared, not logged.
    let mixed = [content(1), content(99), content(7), content(7)];
    host.write(9000, mixed.concat().into());
    assert_eq!(host.counts(), [1, 1, 0, 3, 0]);
    // Now both as logged, and the others are new to the device: two shared and two programmed.
    let mixed = [content(1), content(2), content(101), content(102)];
    host.write(9000, mixed.concat().into());
    assert_eq!(host.counts(), [3, 1, 0, 5, 0]);
}

#[test]
fn what_is_revoked_is_not_in_the_journal() {
    let host = Host::new();
    host.log(1, &[(9000, content(1))]);
    let revoke = Revoke {
        tid: Tid(10),
        blocks: vec![BlockNo(9000)],
    };
    let mut block = vec![0; BLOCK_BYTES];
    revoke.encode(&host.format, &mut block);
    host.write(host.log + 5, block.into());
    host.write(9000, content(2));
    assert_eq!(host.counts(), [0, 0, 0, 1, 0]);
}

/// Homes-H2: whatever a client writes, nothing worse comes of it than that nothing is followed.
#[test]
fn a_journal_that_makes_no_sense_is_not_followed() {
    let host = Host::new();
    host.log(1, &[(9000, content(1))]);
    // A descriptor, a revoke block and a superblock of nonsense behind their heads.
    for kind in [1u32, 2, 3, 4, 5, 6, 77] {
        let mut bytes = magic(u64::from(kind)).to_vec();
        bytes[4..8].copy_from_slice(&kind.to_be_bytes());
        host.write(host.log + 6, bytes.into());
    }
    host.write(9000, content(1));
    assert_eq!(host.counts()[0], 1, "still followed");
    // A superblock whose journal lies beyond the device, and none at all.
    let mut head = host.read(0);
    head[1024 + 0x10c + 12 + 8..][..4].copy_from_slice(&[0xff; 4]);
    for bytes in [head, vec![0x55; BLOCK_BYTES], vec![0; BLOCK_BYTES]] {
        host.write(0, bytes.into());
        assert!(!host.homes.follows() && host.homes.journal().is_empty());
    }
    host.write(9000, content(3));
    assert_eq!(host.counts()[..3], [1, 0, 0]);
}

/// What was logged in the journal of another file system is not in that of this one.
#[test]
fn another_journal_knows_nothing_of_the_former_one() {
    let host = Host::new();
    host.log(1, &[(9000, content(1))]);
    let head = host.read(0);
    host.write(0, vec![0x55; BLOCK_BYTES].into());
    assert!(!host.homes.follows());
    host.write(0, head.into());
    assert!(host.homes.follows());
    host.write(9000, content(1));
    let [remapped, missed, _, unlogged, _] = host.counts();
    assert_eq!((remapped, missed), (0, 0));
    assert!(unlogged > 0);
}

/// A mount may switch wide numbers of blocks on, which makes tags longer.
#[test]
fn the_format_of_the_journal_is_followed() {
    const INCOMPAT_AT: usize = 0x28;
    const WIDE: u8 = 2;
    let mut host = Host::new();
    let mut log = host.read(host.log);
    assert_eq!(log[INCOMPAT_AT + 3] & WIDE, 0);
    log[INCOMPAT_AT + 3] |= WIDE;
    host.format = Format::of(&jbd2::Superblock::parse(&log).unwrap());
    host.write(host.log, log.into());
    let blocks = [1, 2, 3].map(|n| (9000 + n, content(n)));
    host.log(1, &blocks);
    for (block, content) in blocks {
        host.write(block, content);
    }
    assert_eq!(host.counts(), [3, 0, 0, 0, 0]);
}

/// `mke2fs` in a guest may write the superblock before the journal.
#[test]
fn a_file_system_that_is_made_meanwhile_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let ext4 = Ext4::new(folder.path(), "made");
    let full = ext4.model();
    let blank = crate::jftl::profile().build(Some(64 << 20), None).unwrap();
    let homes = over(blank);
    let log = *ext4.journal[0].start();
    for block in [0, log] {
        assert!(!homes.follows());
        let request = Request::write(Lba(block * 8), Class::Data, full.visible(block));
        let ticket = homes.submit(request);
        homes.wait(ticket).unwrap();
    }
    assert!(homes.follows());
}
