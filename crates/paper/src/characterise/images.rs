//! Images of metadata blocks, built from the log, and how much each transaction changed of them.

use super::{Logged, ReadError, Transaction};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use ondisk::jbd2::{Format, Segment, post_image_checksum};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction did to a block that it logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its home.
    pub home: BlockNo,
    /// Bytes in which its image differs from the previous one (characterise-X3).
    pub modified: u32,
    /// True if it was logged as a full image.
    pub full: bool,
    /// True if it is file data (`data=journal`).
    pub data: bool,
}

/// The newest image of each block that was logged.
pub struct Images<'a> {
    at_mount: &'a dyn Fn(BlockNo) -> Bytes,
    now: BTreeMap<u64, Bytes>,
    logged: BTreeSet<u64>,
}

impl<'a> Images<'a> {
    /// No image yet; `at_mount` tells what each home held at the mount.
    pub fn new(at_mount: &'a dyn Fn(BlockNo) -> Bytes) -> Images<'a> {
        Images {
            at_mount,
            now: BTreeMap::new(),
            logged: BTreeSet::new(),
        }
    }

    /// The newest image of a block.
    pub fn get(&self, home: BlockNo) -> Bytes {
        let logged = self.now.get(&home.0).cloned();
        logged.unwrap_or_else(|| (self.at_mount)(home))
    }

    /// Takes note of a write to a home, `offset` in bytes. If the block was never logged, the write
    /// changes its image past the log; otherwise it brings an image home that the log had.
    pub fn written(&mut self, home: BlockNo, offset: usize, bytes: &[u8]) {
        if self.logged.contains(&home.0) {
            return;
        }
        let mut image = self.get(home).to_vec();
        let end = (offset + bytes.len()).min(BLOCK_BYTES);
        image[offset.min(end)..end].copy_from_slice(&bytes[..end - offset.min(end)]);
        self.now.insert(home.0, image.into());
    }

    /// Applies a transaction; returns what it changed of each block, in the order of homes.
    ///
    /// # Errors
    /// A block that deltas describe does not have the checksum that the log foretells
    /// (characterise-X2).
    pub fn take(
        &mut self,
        format: &Format,
        transaction: &Transaction,
    ) -> Result<Vec<Change>, ReadError> {
        let mut after: BTreeMap<u64, After> = BTreeMap::new();
        for logged in &transaction.logged {
            let home = logged.home();
            let block = after.entry(home.0).or_insert_with(|| After {
                bytes: self.get(home),
                full: false,
                data: false,
                post_crc: None,
            });
            block.apply(logged);
        }
        let mut changes = Vec::with_capacity(after.len());
        for (home, block) in after {
            block.check(format, home, transaction)?;
            let home = BlockNo(home);
            changes.push(Change {
                home,
                modified: differing(&self.get(home), &block.bytes),
                full: block.full,
                data: block.data,
            });
            self.now.insert(home.0, block.bytes);
            self.logged.insert(home.0);
        }
        Ok(changes)
    }
}

/// A block as it is after the transaction.
struct After {
    bytes: Bytes,
    full: bool,
    data: bool,
    post_crc: Option<u32>,
}

impl After {
    fn apply(&mut self, logged: &Logged) {
        match logged {
            // Within one transaction a full image is the final content of its block
            // (docs/format/coalition.md).
            Logged::Image { bytes, data, .. } => {
                self.bytes = bytes.clone();
                self.data = *data;
                self.full = true;
                self.post_crc = None;
            }
            Logged::Delta {
                segments, post_crc, ..
            } if !self.full => {
                self.bytes = patched(&self.bytes, segments);
                self.post_crc = Some(*post_crc);
            }
            Logged::Delta { .. } => {}
        }
    }

    fn check(&self, format: &Format, home: u64, of: &Transaction) -> Result<(), ReadError> {
        let Some(wanted) = self.post_crc else {
            return Ok(());
        };
        if post_image_checksum(format, &self.bytes) == wanted {
            return Ok(());
        }
        let what = format!(
            "block {home} with the deltas of transaction {} has another checksum than they say",
            of.tid
        );
        Err(ReadError::Layout(what))
    }
}

fn patched(image: &[u8], segments: &[Segment]) -> Bytes {
    let mut image = image.to_vec();
    for segment in segments {
        let from = usize::from(segment.offset);
        image[from..from + segment.bytes.len()].copy_from_slice(&segment.bytes);
    }
    image.into()
}

/// Number of bytes in which two images of a block differ.
pub fn differing(a: &[u8], b: &[u8]) -> u32 {
    if a == b {
        return 0;
    }
    a.iter().zip(b).filter(|(a, b)| a != b).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Tid;
    use ondisk::jbd2::{JournalCompat, JournalIncompat};

    fn format() -> Format {
        Format::new(
            BLOCK_BYTES,
            JournalCompat::NONE,
            JournalIncompat::NONE,
            &[5; 16],
        )
    }

    fn image(changes: &[(usize, u8)]) -> Bytes {
        let mut image = vec![7; BLOCK_BYTES];
        changes.iter().for_each(|&(at, byte)| image[at] = byte);
        image.into()
    }

    fn transaction(logged: Vec<Logged>) -> Transaction {
        let mut transaction = Transaction::new(Tid(1));
        transaction.logged = logged;
        transaction
    }

    fn full(home: u64, bytes: Bytes) -> Logged {
        Logged::Image {
            home: BlockNo(home),
            bytes,
            data: false,
        }
    }

    fn delta(home: u64, after: &Bytes, segments: &[(u16, &'static [u8])]) -> Logged {
        let segment = |&(offset, bytes): &(u16, &'static [u8])| Segment {
            offset,
            bytes: Bytes::from_static(bytes),
        };
        Logged::Delta {
            home: BlockNo(home),
            post_crc: post_image_checksum(&format(), after),
            segments: segments.iter().map(segment).collect(),
        }
    }

    #[test]
    fn a_block_is_compared_with_its_previous_image_or_with_its_home() {
        let at_mount = |_| image(&[]);
        let mut images = Images::new(&at_mount);
        let mut modified = |logged: Vec<Logged>| -> Vec<(u64, u32, bool)> {
            let changes = images.take(&format(), &transaction(logged)).unwrap();
            let triple = |c: &Change| (c.home.0, c.modified, c.full);
            changes.iter().map(triple).collect()
        };
        let two = image(&[(0, 1), (4095, 2)]);
        assert_eq!(modified(vec![full(9, two.clone())]), [(9, 2, true)]);
        assert_eq!(modified(vec![full(9, two.clone())]), [(9, 0, true)]);
        // The delta stores a byte that has this value already: it is logged but not modified.
        let three = image(&[(0, 1), (5, 8), (4095, 2)]);
        let bytes: &'static [u8] = &[7, 8];
        let both = vec![delta(9, &three, &[(4, bytes)]), full(4, image(&[]))];
        assert_eq!(modified(both), [(4, 0, true), (9, 1, false)]);
    }

    #[test]
    fn a_block_split_over_two_deltas_is_checked_when_it_is_whole() {
        let at_mount = |_| image(&[]);
        let mut images = Images::new(&at_mount);
        let after = image(&[(1, 1), (2, 2)]);
        let logged = vec![
            delta(3, &after, &[(1, &[1])]),
            delta(3, &after, &[(2, &[2])]),
        ];
        let changes = images.take(&format(), &transaction(logged)).unwrap();
        assert_eq!(changes[0].modified, 2);
        assert_eq!(images.get(BlockNo(3)), after);
    }

    #[test]
    fn a_delta_on_another_base_is_noticed() {
        let at_mount = |_| image(&[(9, 9)]);
        let mut images = Images::new(&at_mount);
        let logged = vec![delta(3, &image(&[(1, 1)]), &[(1, &[1])])];
        let e = images.take(&format(), &transaction(logged)).unwrap_err();
        assert!(e.to_string().contains("block 3"), "{e}");
    }

    #[test]
    fn a_write_past_the_log_is_the_base_of_a_block_that_was_never_logged() {
        let at_mount = |_| image(&[]);
        let mut images = Images::new(&at_mount);
        images.written(BlockNo(0), 8, &[1, 2]);
        assert_eq!(images.get(BlockNo(0)), image(&[(8, 1), (9, 2)]));
        let logged = vec![full(0, image(&[(8, 3)]))];
        images.take(&format(), &transaction(logged)).unwrap();
        images.written(BlockNo(0), 9, &[9]);
        assert_eq!(images.get(BlockNo(0)), image(&[(8, 3)]));
    }
}
