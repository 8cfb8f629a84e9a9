//! Sets of small numbers: the parts of a cut that are kept or lost.

/// A set of numbers below a length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub fn none(len: usize) -> Bits {
        Bits {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// All numbers below `len`.
    pub fn all(len: usize) -> Bits {
        let mut bits = Bits::none(len);
        (0..len).for_each(|at| bits.set(at));
        bits
    }

    /// Adds a number.
    pub fn set(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Whether a number is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.words[at / 64] & 1 << (at % 64) != 0
    }

    /// Adds all of another set.
    pub fn add(&mut self, other: &Bits) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Takes all of another set out.
    pub fn remove(&mut self, other: &Bits) {
        for (word, less) in self.words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
    }

    /// The numbers that are not in the set.
    pub fn others(&self) -> Bits {
        let mut bits = Bits::all(self.len);
        bits.remove(self);
        bits
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let at = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (at < 64).then_some(index * 64 + at)
            })
        })
    }
}
