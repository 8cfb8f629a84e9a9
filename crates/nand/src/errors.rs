//! Bit errors and wear-out: a draw depends only on the seed, its page or block, and the erases,
//! reads and age of that block, never on the order of other draws.

use crate::cells::{BitErrors, Cells};
use crate::media::Frail;
use crate::power::Effect;
use crate::{BlockId, Cell, Nand, PageAddr, Span};
use base::Time;
use base::collections::mix;

/// Share of the blocks that have failed when the rated number of erases is reached: 1 %.
const RATED_QUANTILE: f64 = 0.01;

/// An arbitrary constant (digits of pi), because `mix` maps 0 to 0 and keys must not begin there.
const PLACES: u64 = 0x243F_6A88_85A3_08D3;
const LIVES: u64 = 0x1319_8A2E_0370_7344;
const READS: u64 = 0xA409_3822_299F_31D0;

/// One in this many flips comes and goes with each read.
const NOISE: f64 = 32.0;

/// What the error correction reports of a read (as MEMREAD of Linux MTD does).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrected {
    /// Most flipped bits in one codeword; they are corrected. Meaningless if the page is
    /// uncorrectable.
    pub max_bitflips: u32,
    /// True if the page should be written anew, because many bits of it flip or its block was read
    /// very often.
    pub refresh: bool,
}

impl Corrected {
    pub(crate) const CLEAN: Corrected = Corrected {
        max_bitflips: 0,
        refresh: false,
    };
}

/// A number in [0, 1) out of 64 bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Number of flipped bits of a codeword: a Poisson draw of this mean, which equals the binomial one
/// at such rates. Counts up to `most + 1`.
fn flips(mean: f64, most: u32, draw: u64) -> u32 {
    if mean > f64::from(most) * 4.0 + 32.0 {
        return most + 1;
    }
    let (mut share, mut n) = (libm::exp(-mean), 0);
    let (mut sum, want) = (share, unit(draw));
    while sum < want && n <= most {
        n += 1;
        share *= mean / f64::from(n);
        sum += share;
    }
    n
}

impl BitErrors {
    /// The raw bit error rate of a page, per bit.
    pub fn rate(&self, erases: u32, reads: u32, hours: f64) -> f64 {
        self.floor
            + self.per_cycle * libm::pow(f64::from(erases), self.cycle_exponent)
            + self.per_read * f64::from(reads)
            + self.per_hour * hours
    }
}

impl Cells {
    /// The erase from which on a block fails, and whether it fails in a program instead of the
    /// erase; `None`: wear is off.
    pub(crate) fn life(&self, rated: u32, block: BlockId) -> Option<(u32, bool)> {
        let wear = self.wear?;
        let draw = mix(self.seed ^ mix(u64::from(block.0) ^ PLACES));
        // Inverse of 1 - exp(-(n / scale)^shape), where the rated quantile lies at `rated`.
        let root = |share: f64| libm::pow(-libm::log(1.0 - share), 1.0 / wear.shape);
        let life = f64::from(rated) * root(unit(draw)) / root(RATED_QUANTILE);
        Some((life.clamp(1.0, 4e9) as u32, draw & 1 == 1))
    }
}

impl Nand {
    /// The errors of a read that begins at `span.start`. They change the medium, so they are
    /// entered in the undo log.
    pub(crate) fn disturb(&mut self, at: PageAddr, span: Span) -> Corrected {
        let clock = self.media.clock.saturating_add(span.start.0);
        let (errors, seed) = (self.cells.errors, self.cells.seed);
        let pages = self.media.geometry.page_bytes;
        let Some(known) = self.media.block(at.block) else {
            return Corrected::CLEAN;
        };
        if errors.is_none() && known.frail.is_empty() {
            return Corrected::CLEAN;
        }
        let block = self.media.block_mut(at.block);
        let old = block.cells[at.page as usize].clone();
        let frail = block.frail.get(&at.page).copied();
        let undo = Effect::Sense {
            at,
            old: old.clone(),
            frail,
            reads: block.reads,
        };
        let mut said = Corrected::CLEAN;
        let mut lost = false;
        if let (Some(e), Cell::Written(_)) = (&errors, &old) {
            let hours = clock.saturating_sub(block.born) as f64 / 3.6e12;
            let rate = e.rate(block.wear, block.reads, hours) * if block.weak { 10.0 } else { 1.0 };
            let words = pages.div_ceil(e.ecc.codeword_bytes);
            let mean = rate * f64::from(e.ecc.codeword_bytes.min(pages)) * 8.0;
            let place = u64::from(at.block.0) << 32 | u64::from(at.page);
            // The weak cells of a page are the same until the next erase, and more of them flip as
            // the rate grows; each read adds noise of its own.
            let life = mix(u64::from(block.wear) ^ LIVES);
            let page = mix(seed ^ mix(place ^ PLACES) ^ life);
            let noise = mix(page ^ mix(u64::from(block.reads) ^ READS));
            let most = e.ecc.strength;
            let worst = (0..words).map(|word| {
                let word = u64::from(word);
                let steady = flips(mean, most, mix(page.wrapping_add(word)));
                steady + flips(mean / NOISE, most, mix(noise.wrapping_add(word)))
            });
            said.max_bitflips = worst.max().unwrap_or(0);
            lost = said.max_bitflips > e.ecc.strength;
            said.refresh = said.max_bitflips >= e.ecc.threshold() || block.reads >= e.reads_budget;
        }
        if errors.is_some() {
            block.reads = block.reads.saturating_add(1);
        }
        if let Some(frail) = frail {
            let all = &mut block.frail;
            lost |= frail.reads == 0;
            said.refresh = true;
            said.max_bitflips = said.max_bitflips.max(errors.map_or(1, |e| e.ecc.strength));
            match lost {
                true => drop(all.remove(&at.page)),
                false => {
                    let reads = frail.reads - 1;
                    all.insert(at.page, Frail { reads, ..frail });
                }
            }
        }
        if lost {
            block.cells[at.page as usize] = Cell::Torn;
            said.refresh = false;
        }
        self.undo.push(span, undo);
        said
    }
    /// Time since the medium was made, for retention.
    pub(crate) fn absolute(&self, at: Time) -> u64 {
        self.media.clock.saturating_add(at.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_have_the_mean_they_are_asked_for() {
        for mean in [0.0, 0.5, 3.0, 20.0] {
            let all: u64 = (0..4000).map(|i| u64::from(flips(mean, 64, mix(i)))).sum();
            let got = all as f64 / 4000.0;
            assert!((got - mean).abs() < 0.1 + mean * 0.03, "{got} for {mean}");
        }
        assert_eq!(flips(1e9, 8, 1), 9, "hopeless");
    }

    #[test]
    fn one_block_in_a_hundred_fails_by_the_rating_and_old_ones_follow() {
        let cells = Cells {
            wear: Some(crate::Wear { shape: 6.0 }),
            seed: 3,
            ..Cells::default()
        };
        let lives: Vec<u32> = (0..20_000)
            .map(|b| cells.life(3000, BlockId(b)).unwrap().0)
            .collect();
        let early = lives.iter().filter(|l| **l <= 3000).count();
        assert!((140..260).contains(&early), "{early} of 20000");
        let half = lives.iter().filter(|l| **l <= 6000).count();
        assert!(
            (8_000..12_000).contains(&half),
            "{half}: the median is about twice the rating"
        );
        assert_eq!(cells.life(3000, BlockId(7)), cells.life(3000, BlockId(7)));
    }
}
