//! REMAP: units take over the content of other units (JFTL, 3.1).

use crate::core::{Ftl, FtlError};
use base::{Bytes, Time};
use thiserror::Error;

/// What happens to the source of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// It keeps its content: both units share one slot.
    #[default]
    Share,
    /// It reads as trimmed afterwards (JFTL, 3.1: the journal's entry of the map is cleared).
    Move,
}

/// A run of units and where their new content lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// First unit that takes over the content.
    pub home: u32,
    /// First unit of the content.
    pub src: u32,
    /// Units, at least one.
    pub len: u32,
    /// `base::collections::fingerprint` of the content of the source; `None`: whatever it is.
    pub expect: Option<u64>,
}

/// A batch: all of it or nothing, at once and after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The pairs; homes are distinct, and none of them is a source.
    pub pairs: &'a [Pair],
    /// What happens to the sources.
    pub mode: Mode,
    /// Refuse rather than copy a part of it.
    pub require_all: bool,
}

/// What a batch came to, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remapped {
    /// Units that share a slot with their source.
    pub aliased: u64,
    /// Units that were copied.
    pub copied: u64,
}

/// Why a batch was refused; nothing has happened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RemapError {
    /// A unit beyond the end of the device, or a pair without units.
    #[error("pair {index}: units beyond the device, or none")]
    Range {
        /// Place in the batch.
        index: usize,
    },
    /// A home twice, or a unit that is both home and source.
    #[error("pair {index}: its home is another home or a source of the batch")]
    Overlap {
        /// Place in the batch.
        index: usize,
    },
    /// The source holds something else than was expected.
    #[error("pair {index}: the source holds other content than expected")]
    Expect {
        /// Place in the batch.
        index: usize,
    },
    /// More pairs than one batch can hold.
    #[error("a batch of {pairs} pairs; at most {most}")]
    TooBig {
        /// Pairs of the batch.
        pairs: usize,
        /// Most that fit.
        most: usize,
    },
    /// Not all of it could share slots, and `require_all` was set.
    #[error("{units} units could only be copied")]
    WouldCopy {
        /// How many.
        units: u64,
    },
    /// The translation layer cannot write, or a source cannot be read.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

impl Ftl {
    /// Most pairs of a batch.
    pub fn remap_pairs_max(&self) -> usize {
        16 * 1024
    }

    /// Carries out a batch; volatile until a flush. Units that cannot share a slot are copied.
    ///
    /// # Errors
    /// [`RemapError`]; then nothing of the batch has happened.
    pub fn remap(&mut self, now: Time, batch: Batch<'_>) -> Result<Remapped, RemapError> {
        let content = self.check_batch(&batch)?;
        let units = content.len() as u64;
        if batch.require_all {
            return Err(RemapError::WouldCopy { units });
        }
        for (home, bytes) in content {
            self.write(now, home, bytes)?;
        }
        if batch.mode == Mode::Move {
            for pair in batch.pairs {
                self.trim(now, pair.src..pair.src + pair.len)?;
            }
        }
        Ok(Remapped {
            aliased: 0,
            copied: units,
        })
    }

    /// The homes with their new content, if the batch is legal.
    fn check_batch(&self, batch: &Batch<'_>) -> Result<Vec<(u32, Bytes)>, RemapError> {
        let (pairs, most) = (batch.pairs.len(), self.remap_pairs_max());
        if pairs > most {
            return Err(RemapError::TooBig { pairs, most });
        }
        let units = self.layout.units;
        let inside =
            |first: u32, len: u32| len > 0 && first.checked_add(len).is_some_and(|e| e <= units);
        let mut taken = base::Set::default();
        for pair in batch.pairs {
            if inside(pair.src, pair.len) {
                taken.extend(pair.src..pair.src + pair.len);
            }
        }
        let mut all = Vec::new();
        for (index, pair) in batch.pairs.iter().enumerate() {
            if !inside(pair.home, pair.len) || !inside(pair.src, pair.len) {
                return Err(RemapError::Range { index });
            }
            let mut bytes = Vec::with_capacity(pair.len as usize);
            for i in 0..pair.len {
                if !taken.insert(pair.home + i) {
                    return Err(RemapError::Overlap { index });
                }
                bytes.push(self.content(pair.src + i)?);
            }
            if pair
                .expect
                .is_some_and(|e| e != base::collections::fingerprint(&bytes.concat()))
            {
                return Err(RemapError::Expect { index });
            }
            all.extend((pair.home..).zip(bytes));
        }
        Ok(all)
    }
}
