//! The content of a device, in a form that is cheap to copy.

use crate::{Class, Ram, write_block};
use base::collections::mix;
use base::{BLOCK_BYTES, Bytes, Lba, SECTORS_PER_BLOCK, fill};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// 4 KiB blocks in one shared chunk.
const CHUNK: u64 = 16;
/// Chunks in one shared region (4 MiB).
const REGION: u64 = 64;

/// A block that is not all zeros.
#[derive(Clone)]
struct Slot {
    bytes: Bytes,
    /// Fingerprint of `bytes`.
    print: u64,
}

type Chunk = [Option<Slot>; CHUNK as usize];
type Region = [Option<Arc<Chunk>>; REGION as usize];

/// Content by 4 KiB block; blocks that were never written are zeros and cost nothing. Clones share
/// what neither side has changed since: the first change of a clone copies the references to 64
/// chunks and to 16 blocks.
#[derive(Clone, Default)]
pub struct Image {
    regions: BTreeMap<u64, Arc<Region>>,
    /// Sum over all blocks of a digest of (number, content).
    sum: u64,
}

impl Image {
    /// All zeros.
    pub fn new() -> Image {
        Image::default()
    }
    /// An image of `bytes`; a partial block at the end is filled up with zeros.
    pub fn from_bytes(bytes: &[u8]) -> Image {
        let mut image = Image::new();
        for (n, chunk) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let mut block = chunk.to_vec();
            block.resize(BLOCK_BYTES, 0);
            image.set_block(n as u64, block.into());
        }
        image
    }
    /// The content of block `n`, 4096 bytes.
    pub fn block(&self, n: u64) -> Bytes {
        self.slot(n)
            .map_or_else(|| fill::zeros(BLOCK_BYTES), |slot| slot.bytes.clone())
    }
    fn slot(&self, n: u64) -> Option<&Slot> {
        let region = self.regions.get(&(n / (CHUNK * REGION)))?;
        let chunk = region[(n / CHUNK % REGION) as usize].as_ref()?;
        chunk[(n % CHUNK) as usize].as_ref()
    }
    /// True if block `n` is all zeros.
    pub fn is_zero(&self, n: u64) -> bool {
        self.slot(n).is_none()
    }
    /// [`fill::fingerprint`] of block `n`, without reading it.
    pub fn print(&self, n: u64) -> u64 {
        self.slot(n).map_or(0, |slot| slot.print)
    }
    /// Replaces block `n`.
    ///
    /// # Panics
    /// If `bytes` are not 4096.
    pub fn set_block(&mut self, n: u64, bytes: Bytes) {
        let print = fill::fingerprint(&bytes);
        self.set_known(n, bytes, print);
    }
    /// Gives all these blocks one content, whose fingerprint is made once.
    ///
    /// # Panics
    /// If `bytes` are not 4096.
    pub fn set_blocks(&mut self, blocks: impl IntoIterator<Item = u64>, bytes: &Bytes) {
        let print = fill::fingerprint(bytes);
        for n in blocks {
            self.set_known(n, bytes.clone(), print);
        }
    }
    /// Replaces block `n`; `print` is its fingerprint.
    ///
    /// # Panics
    /// If `bytes` are not 4096.
    pub(crate) fn set_known(&mut self, n: u64, bytes: Bytes, print: u64) {
        assert_eq!(bytes.len(), BLOCK_BYTES, "an image has 4 KiB blocks");
        let old = self.print(n);
        if print == 0 && old == 0 {
            return;
        }
        let region = self.regions.entry(n / (CHUNK * REGION));
        let region = region.or_insert_with(|| Arc::new([const { None }; REGION as usize]));
        let chunk = &mut Arc::make_mut(region)[(n / CHUNK % REGION) as usize];
        let chunk = chunk.get_or_insert_with(|| Arc::new([const { None }; CHUNK as usize]));
        let slot = (print != 0).then_some(Slot { bytes, print });
        Arc::make_mut(chunk)[(n % CHUNK) as usize] = slot;
        self.sum = replaced(self.sum, n, old, print);
    }
    /// [`Image::content_hash`] of this image if these blocks had content with these fingerprints;
    /// no block comes twice.
    pub(crate) fn hash_with(&self, prints: impl Iterator<Item = (u64, u64)>) -> u64 {
        let sum = |sum, (n, print)| replaced(sum, n, self.print(n), print);
        mix(prints.fold(self.sum, sum))
    }
    /// Changes block `n` in place.
    pub fn edit_block(&mut self, n: u64, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.block(n).to_vec();
        change(&mut bytes);
        self.set_block(n, bytes.into());
    }
    /// All blocks that are not zero, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        self.blocks_in(0..u64::MAX)
    }
    /// The blocks with a number in `range` that are not zero.
    pub fn blocks_in(
        &self,
        range: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        const BLOCKS: u64 = CHUNK * REGION;
        let regions = self
            .regions
            .range(range.start / BLOCKS..range.end.div_ceil(BLOCKS));
        let chunks = regions.flat_map(|(r, region)| (r * REGION..).zip(region.iter()));
        let there = chunks.filter_map(|(c, chunk)| Some((c, chunk.as_ref()?)));
        let slots = there.flat_map(|(c, chunk)| (c * CHUNK..).zip(chunk.iter()));
        slots
            .filter(move |(n, _)| range.contains(n))
            .filter_map(|(n, slot)| slot.as_ref().map(|slot| (n, slot.bytes.clone())))
    }
    /// A hash of the whole content: equal contents have equal hashes, whatever their history.
    pub fn content_hash(&self) -> u64 {
        mix(self.sum)
    }
    /// A RAM device of `bytes` bytes with this content.
    ///
    /// # Panics
    /// If the content ends beyond `bytes`.
    pub fn to_ram(&self, bytes: u64) -> Ram {
        let ram = Ram::new(bytes);
        for (n, block) in self.blocks() {
            let lba = Lba(n * SECTORS_PER_BLOCK);
            write_block(&ram, lba, Class::Data, block).expect("the image is not larger");
        }
        ram
    }
}

/// The sum after the content of block `n` changed from fingerprint `old` to `new`.
fn replaced(sum: u64, n: u64, old: u64, new: u64) -> u64 {
    let digest = |print| match print {
        0 => 0,
        print => mix(print ^ mix(n + 1)),
    };
    sum.wrapping_sub(digest(old)).wrapping_add(digest(new))
}

impl FromIterator<(u64, Bytes)> for Image {
    fn from_iter<I: IntoIterator<Item = (u64, Bytes)>>(blocks: I) -> Image {
        let mut image = Image::new();
        blocks
            .into_iter()
            .for_each(|(n, bytes)| image.set_block(n, bytes));
        image
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        self.sum == other.sum && self.blocks().eq(other.blocks())
    }
}

impl Eq for Image {}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Image {:016x} of {} blocks",
            self.content_hash(),
            self.blocks().count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Bytes {
        fill::filled(byte, BLOCK_BYTES)
    }

    #[test]
    fn the_hash_depends_on_the_content_only() {
        let mut a = Image::new();
        let empty = a.content_hash();
        for n in [3, 70, 3000] {
            a.set_block(n, block(n as u8));
        }
        let mut b: Image = [(3000, block(9)), (70, block(70)), (3, block(3))]
            .into_iter()
            .collect();
        assert_ne!(a.content_hash(), b.content_hash());
        b.set_block(3000, block(3000_u64 as u8));
        assert_eq!((a.content_hash(), &a), (b.content_hash(), &b));
        let swapped: Image = [
            (3, block(70)),
            (70, block(3)),
            (3000, block(3000_u64 as u8)),
        ]
        .into_iter()
        .collect();
        assert_ne!(swapped.content_hash(), a.content_hash());
        for n in [3, 70, 3000] {
            a.set_block(n, block(0));
        }
        assert_eq!(a.content_hash(), empty);
        assert_eq!(a, Image::new());
    }

    #[test]
    fn clones_share_nothing_that_changes() {
        let mut a = Image::from_bytes(&vec![7; 3 * BLOCK_BYTES + 1]);
        let b = a.clone();
        a.edit_block(1, |bytes| bytes[5] = 1);
        assert_eq!((a.block(1)[5], b.block(1)[5]), (1, 7));
        assert_eq!((b.block(3)[0], b.block(3)[1], b.block(4)[0]), (7, 0, 0));
        assert_eq!(b.blocks().map(|(n, _)| n).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(b.blocks_in(1..3).count(), 2);
        assert!(b.is_zero(4) && !b.is_zero(0));
        assert_eq!(a.to_ram(1 << 20).blocks(), a.blocks().collect::<Vec<_>>());
    }
}
