//! Transparent remapping: a write whose content is already programmed somewhere shares that page
//! instead of being programmed.
//!
//! A host that journals data writes each block twice, to its log and later home, and does not say
//! so. The device keeps an index, by content, of what was programmed lately, and turns a write that
//! repeats such content into a REMAP of one pair. It needs to know nothing of file systems.
//!
//! Invariants:
//! - T1: a hash finds, bytes decide (hazards-R21): a unit is shared only after its content was read
//!   from the chips, from the row that is being filled, or from a copy in memory of what was
//!   programmed, and compared with the write byte by byte.
//! - T2: the index is volatile and only a hint: if it is lost or has wrong entries, the only loss
//!   is programs that are not saved.
//! - T3: a shared unit is as durable as a programmed one would be: volatile until the flush, or
//!   durable at completion of a write that promises so.
//! - T4: the index is bounded: the newest units that were programmed, as many as the window holds.
//!
//! A comparison with the chips reads all pages of a unit, which takes a good part of the time that
//! the program would have taken. With copies in memory it takes none.

mod copies;

use super::Firmware;
use base::{BLOCK_BYTES, Bytes, Map, Mutant, Rng, Time, bytes::is_zero};
use blockdev::TransparentStats;
use copies::Copies;
use ftl::FtlError;
use ftl::remap::{Batch, Mode, Pair, RemapError};
use std::collections::VecDeque;

/// A keyed 128-bit hash of a unit's content.
type Digest = u128;

/// The index of what was programmed lately, by content.
#[derive(Clone)]
pub(crate) struct Transparent {
    /// Units that the index holds at most (T4).
    window: usize,
    key: [u64; 4],
    /// Number of bits of the hash that count; fewer than 128 only in tests.
    bits: u32,
    by_content: Map<Digest, u32>,
    by_unit: Map<u32, Digest>,
    /// Units in the order in which they were added, including those that have left the index since.
    order: VecDeque<(u32, Digest)>,
    copies: Copies,
    stats: TransparentStats,
    /// Units that were shared and not asked for since; `None`: nobody wants to know.
    shared: Option<Vec<u32>>,
}

impl Transparent {
    /// An empty index of `window` units, with room for copies of `copies` units.
    pub fn new(window: usize, copies: usize) -> Transparent {
        let mut rng = Rng::named(0, "transparent remapping");
        Transparent {
            window: window.max(1),
            key: [(); 4].map(|()| rng.next_u64()),
            bits: 128,
            by_content: Map::default(),
            by_unit: Map::default(),
            order: VecDeque::new(),
            copies: Copies::new(copies),
            stats: TransparentStats::default(),
            shared: None,
        }
    }
    /// With `on`, keeps which units are shared from now on.
    pub fn keep_shared(&mut self, on: bool) {
        self.shared = on.then(Vec::new);
    }
    /// The units that were shared since the last call, in the order of their writes.
    pub fn take_shared(&mut self) -> Vec<u32> {
        self.shared.as_mut().map_or_else(Vec::new, std::mem::take)
    }
    /// Lets only `bits` bits of the hash count.
    pub fn shorten(&mut self, bits: u32) {
        self.bits = bits.min(128);
    }
    pub fn stats(&self) -> TransparentStats {
        self.stats
    }
    /// Two lanes of multiply-and-fold over words of eight bytes, each with a key of its own.
    fn digest(&self, data: &[u8]) -> Digest {
        let fold = |a: u64, b: u64| {
            let wide = u128::from(a) * u128::from(b);
            (wide >> 64) as u64 ^ wide as u64
        };
        let [k0, k1, k2, k3] = self.key;
        let (mut a, mut b) = (k0, k1);
        for word in data.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes"));
            a = fold(a ^ word, k2 | 1).wrapping_add(k0);
            b = fold(b.rotate_left(23) ^ word, k3 | 1).wrapping_add(k1);
        }
        let all = u128::from(fold(a, b | 1) ^ a) << 64 | u128::from(fold(b, a | 1) ^ b);
        match self.bits {
            128 => all,
            bits => all & ((1 << bits) - 1),
        }
    }
    /// Notes that a unit has this content on flash now.
    fn remember(&mut self, unit: u32, digest: Digest) {
        self.forget(unit);
        self.by_content.insert(digest, unit);
        self.by_unit.insert(unit, digest);
        self.order.push_back((unit, digest));
        while self.by_unit.len() > self.window {
            let Some((unit, digest)) = self.order.pop_front() else {
                break;
            };
            if self.by_unit.get(&unit) == Some(&digest) {
                self.forget(unit);
            }
        }
        if self.order.len() > 2 * self.window + 64 {
            let by_unit = &self.by_unit;
            self.order.retain(|(u, d)| by_unit.get(u) == Some(d));
        }
    }
    /// Notes that a unit has other content from now on.
    fn forget(&mut self, unit: u32) {
        self.copies.drop_of(unit);
        if let Some(digest) = self.by_unit.remove(&unit)
            && self.by_content.get(&digest) == Some(&unit)
        {
            self.by_content.remove(&digest);
        }
    }
}

impl Firmware {
    /// Starts sharing content, with an index of `window` units and copies of `copies` units.
    pub fn share_content(&mut self, window: usize, copies: usize) {
        self.transparent = Some(Transparent::new(window, copies));
    }
    pub fn shares_content(&self) -> bool {
        self.transparent.is_some()
    }
    pub fn transparent_mut(&mut self) -> Option<&mut Transparent> {
        self.transparent.as_mut()
    }
    /// Notes that units have other content from now on.
    pub(super) fn forget_content(&mut self, mut units: std::ops::Range<u32>) {
        let Some(index) = &mut self.transparent else {
            return;
        };
        if units.len() > index.by_unit.len() {
            let mut gone: Vec<u32> = index.by_unit.keys().copied().collect();
            gone.retain(|unit| units.contains(unit));
            gone.into_iter().for_each(|unit| index.forget(unit));
        } else {
            units.by_ref().for_each(|unit| index.forget(unit));
        }
    }
    /// Lets the unit share the page of one with this content, from `t` on; `false`: the unit must
    /// be programmed.
    pub(super) fn try_share(&mut self, t: Time, unit: u32, data: &Bytes) -> Result<bool, FtlError> {
        let Some(index) = &mut self.transparent else {
            return Ok(false);
        };
        // The translation layer handles zeros in a way of its own.
        if is_zero(data) {
            index.forget(unit);
            return Ok(false);
        }
        let digest = index.digest(data);
        let Some(&src) = index.by_content.get(&digest) else {
            return self.must_program(unit, digest, data);
        };
        // T1: hash to find, bytes to confirm (hazards-R21).
        let equal = match index.copies.of(src) {
            Some(copy) => copy == *data,
            None => {
                let (found, read) = self.ftl.read(t, src..src + 1);
                self.path_free = self.path_free.max(read);
                found.is_ok_and(|found| found[0] == *data)
            }
        };
        if !equal && !self.ftl.mutant(Mutant::ShareByHash) {
            self.count(|stats| stats.different += 1);
            return self.must_program(unit, digest, data);
        }
        if src == unit {
            self.count(|stats| stats.unchanged += 1);
            self.note_shared(unit);
            return Ok(true);
        }
        let pairs = [Pair {
            home: unit,
            src,
            len: 1,
            expect: None,
        }];
        let batch = Batch {
            pairs: &pairs,
            mode: Mode::Share,
            require_all: true,
        };
        match self.ftl.remap(self.path_free, batch) {
            Ok(_) => {
                self.unlogged = true;
                self.forget_content(unit..unit + 1);
                self.count(|stats| stats.matched += 1);
                self.note_shared(unit);
                Ok(true)
            }
            Err(RemapError::Ftl(e)) => Err(e),
            // The FTL refused, e.g. for want of room for another owner. T2: then the unit is
            // programmed, and nothing is lost.
            Err(_) => self.must_program(unit, digest, data),
        }
    }
    fn must_program(&mut self, unit: u32, digest: Digest, data: &Bytes) -> Result<bool, FtlError> {
        if let Some(index) = &mut self.transparent {
            index.remember(unit, digest);
            index.copies.keep(unit, data);
            index.stats.programmed += 1;
        }
        Ok(false)
    }
    fn note_shared(&mut self, unit: u32) {
        let index = self.transparent.as_mut();
        if let Some(shared) = index.and_then(|index| index.shared.as_mut()) {
            shared.push(unit);
        }
    }
    fn count(&mut self, add: impl FnOnce(&mut TransparentStats)) {
        if let Some(index) = &mut self.transparent {
            add(&mut index.stats);
        }
    }
}

/// Units in so many MiB.
pub(crate) const fn window(mib: u32) -> usize {
    (mib as usize) << 20 >> BLOCK_BYTES.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_bounded_and_knows_the_newest() {
        let mut index = Transparent::new(3, 2);
        for unit in 0..1000 {
            index.remember(unit % 7, u128::from(unit));
            assert!(index.by_unit.len() <= 3 && index.by_content.len() <= 3);
            assert!(index.order.len() <= 3 * 2 + 64);
            assert_eq!(index.by_content.get(&u128::from(unit)), Some(&(unit % 7)));
        }
        index.forget(999 % 7);
        assert_eq!(index.by_content.get(&999), None);
        assert_eq!(index.by_content.len(), 2);
    }

    #[test]
    fn the_hash_sees_every_word_and_its_place() {
        let index = Transparent::new(1, 0);
        let base = vec![7u8; BLOCK_BYTES];
        let mut seen = base::Set::default();
        assert!(seen.insert(index.digest(&base)));
        for at in 0..BLOCK_BYTES {
            let mut other = base.clone();
            other[at] ^= 1 << (at % 8);
            assert!(seen.insert(index.digest(&other)), "byte {at}");
        }
    }
}
