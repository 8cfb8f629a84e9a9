//! The cost of one kind of command as a function of its size: a line fitted to measured spans, in
//! which newer samples weigh more.

use base::Nanos;

/// Weight that a sample keeps with each later one.
const DECAY: f64 = 0.9;
/// How much spread of sizes (in squared blocks times samples) it takes before the measured slope
/// outweighs the assumed one.
const SLOPE_TRUST: f64 = 16.0;
/// A single sample counts as this many times the estimate at most: garbage collection in the device
/// is real, but rare.
const OUTLIER: f64 = 3.0;
/// A sample below this share of the estimate shows that the estimate is wrong, for a command is
/// never faster than the device: older samples then lose weight.
const TOO_GOOD: f64 = 0.6;
const DISTRUST: f64 = 0.2;
/// Samples that the prior is worth at first.
const PRIOR_WEIGHT: f64 = 2.0;
/// Weight of samples from which on an estimate is no guess.
const SURE: f64 = 5.0;
/// Size classes: powers of two of blocks.
const CLASSES: usize = 12;
/// Classes between which a cost can be told from another.
const NEAR: usize = 3;

/// A cost curve. Until the first sample it is the prior; later the prior gives the ratio of slope
/// to level alone, as long as samples of one size say nothing about it.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Assumed cost of a block, in units of that of a command without any.
    slope: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    /// Decision after which a size was measured last, by class.
    seen: [Option<u64>; CLASSES],
}

/// The class of a size.
pub(crate) fn class(blocks: f64) -> usize {
    let log2 = (blocks as u64).max(1).ilog2() as usize;
    log2.min(CLASSES - 1)
}

impl Curve {
    /// A curve without samples: the prior.
    pub fn assumed(base: Nanos, per_block: Nanos) -> Curve {
        let (base, block) = (base.0 as f64, per_block.0 as f64);
        // The prior stands at one block: the size that matters most.
        let y = PRIOR_WEIGHT * (base + block);
        Curve {
            slope: block / base,
            weight: PRIOR_WEIGHT,
            x: PRIOR_WEIGHT,
            y,
            xx: PRIOR_WEIGHT,
            xy: y,
            seen: [None; CLASSES],
        }
    }

    /// Takes in that a command of `blocks` took `span` nanoseconds, after decision number `now`.
    pub fn observe(&mut self, blocks: f64, span: f64, now: u64) {
        let expected = self.estimate(blocks);
        let span = span.min(OUTLIER * expected);
        let keep = match span < TOO_GOOD * expected {
            true => DECAY * DISTRUST,
            false => DECAY,
        };
        for sum in [
            &mut self.weight,
            &mut self.x,
            &mut self.y,
            &mut self.xx,
            &mut self.xy,
        ] {
            *sum *= keep;
        }
        self.weight += 1.0;
        self.x += blocks;
        self.y += span;
        self.xx += blocks * blocks;
        self.xy += blocks * span;
        self.seen[class(blocks)] = Some(now);
    }

    /// Nanoseconds of a command of `blocks`.
    pub fn estimate(&self, blocks: f64) -> f64 {
        let (x, y) = (self.x / self.weight, self.y / self.weight);
        let assumed = self.slope * y / (1.0 + self.slope * x);
        let spread = (self.xx - self.weight * x * x).max(0.0);
        let common = self.xy - self.weight * x * y;
        let slope = (common + SLOPE_TRUST * assumed) / (spread + SLOPE_TRUST);
        (y + slope.max(0.0) * (blocks - x)).max(y / OUTLIER)
    }

    /// False as long as there are few samples.
    pub fn is_sure(&self) -> bool {
        self.weight >= SURE
    }

    /// Decisions since this size was measured; `None`: never.
    pub fn age(&self, blocks: f64, now: u64) -> Option<u64> {
        self.seen[class(blocks)].map(|at| now - at)
    }

    /// True if a size not far from this one was ever measured: by what a large command costs a
    /// small one is a guess.
    pub fn knows(&self, blocks: f64) -> bool {
        let class = class(blocks);
        let near = class.saturating_sub(NEAR)..=(class + NEAR).min(CLASSES - 1);
        self.seen[near].iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, share: f64) -> bool {
        (a - b).abs() <= share * b
    }

    #[test]
    fn learns_level_from_one_size_and_slope_from_several() {
        let mut curve = Curve::assumed(Nanos::from_millis(1), Nanos::from_millis(1));
        assert!(near(curve.estimate(3.0), 4e6, 1e-9));
        // Ten times as fast as assumed; one size alone keeps the shape.
        for n in 0..90 {
            curve.observe(1.0, 2e5, n);
        }
        assert!(near(curve.estimate(1.0), 2e5, 1e-3));
        assert!(near(curve.estimate(3.0), 4e5, 1e-3));
        // Two sizes: 100 us + 10 us a block.
        for n in 0..100 {
            let blocks = if n % 2 == 0 { 1.0 } else { 32.0 };
            curve.observe(blocks, 1e5 + 1e4 * blocks, n);
        }
        assert!(near(curve.estimate(16.0), 2.6e5, 0.05), "{curve:?}");
        assert_eq!(curve.age(32.0, 100), Some(1));
        assert_eq!(curve.age(8.0, 100), None);
        assert!(curve.knows(256.0) && !curve.knows(512.0));
    }

    #[test]
    fn one_outlier_does_not_carry_it_away_but_a_change_does() {
        let mut curve = Curve::assumed(Nanos::from_millis(1), Nanos(0));
        (0..20).for_each(|n| curve.observe(1.0, 1e6, n));
        curve.observe(1.0, 1e9, 20);
        assert!(curve.estimate(1.0) < 2e6);
        (0..60).for_each(|n| curve.observe(1.0, 5e6, 21 + n));
        assert!(near(curve.estimate(1.0), 5e6, 0.02));
    }
}
