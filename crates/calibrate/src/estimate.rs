//! A measured time with its interval.

use serde::Serialize;

/// The median of some measured times with an interval that contains the device's own median with
/// 95 % confidence. Medians, because a collection of garbage or another program makes single
/// commands long, and says nothing about the command.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The median, microseconds.
    pub us: f64,
    /// Lower end, microseconds.
    pub low: f64,
    /// Upper end, microseconds.
    pub high: f64,
    /// Number of times.
    pub samples: u64,
}

/// Half the number of standard deviations that 95 % of a normal distribution lie within: the ranks
/// of the interval's ends are so many roots of the number of samples from the median's.
const RANKS: f64 = 0.98;

impl Estimate {
    /// Of these times, microseconds; `None` if there are none.
    pub fn of(mut times: Vec<f64>) -> Option<Estimate> {
        times.sort_unstable_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let middle = last as f64 / 2.0;
        let away = RANKS * (times.len() as f64).sqrt();
        let at = |rank: f64| times[rank.clamp(0.0, last as f64) as usize];
        let us = (at(middle) + at((middle + 0.5).floor())) / 2.0;
        Some(Estimate {
            us,
            low: at((middle - away).floor()),
            high: at((middle + away).ceil()),
            samples: times.len() as u64,
        })
    }
    /// From the percentiles of a distribution (percent, microseconds; ascending), as another
    /// program printed them, and the number of times behind it. `None` if there are none.
    pub fn of_percentiles(percentiles: &[(f64, f64)], samples: u64) -> Option<Estimate> {
        let away = 100.0 * RANKS / (samples.max(1) as f64).sqrt();
        Some(Estimate {
            us: between(percentiles, 50.0)?,
            low: between(percentiles, 50.0 - away)?,
            high: between(percentiles, 50.0 + away)?,
            samples,
        })
    }
    /// Half of the interval's length, microseconds.
    pub(crate) fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The value at `percent` on the straight lines between the given points; the first or last point
/// where it lies outside.
fn between(points: &[(f64, f64)], percent: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if percent <= first.0 {
        return Some(first.1);
    }
    let Some(pair) = points.windows(2).find(|p| percent <= p[1].0) else {
        return Some(last.1);
    };
    let (from, to) = (pair[0], pair[1]);
    let share = (percent - from.0) / (to.0 - from.0).max(f64::MIN_POSITIVE);
    Some(from.1 + share * (to.1 - from.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_long_times_do_not_move_the_median() {
        let mut times = vec![100.0; 40];
        times.extend([9000.0; 5]);
        let e = Estimate::of(times).unwrap();
        assert_eq!((e.us, e.low, e.high, e.samples), (100.0, 100.0, 100.0, 45));
        assert_eq!(Estimate::of(Vec::new()), None);
        let one = Estimate::of(vec![7.0]).unwrap();
        assert_eq!((one.us, one.low, one.high), (7.0, 7.0, 7.0));
        assert_eq!(Estimate::of(vec![1.0, 3.0]).unwrap().us, 2.0);
    }

    #[test]
    fn the_interval_contains_the_true_median_nineteen_times_of_twenty() {
        let mut rng = base::Rng::named(1, "interval");
        let inside = (0..1000)
            .filter(|_| {
                let times = (0..31).map(|_| rng.below(1_000_000) as f64).collect();
                let e = Estimate::of(times).unwrap();
                (e.low..=e.high).contains(&500_000.0)
            })
            .count();
        assert!((930..=990).contains(&inside), "{inside} of 1000");
    }

    #[test]
    fn percentiles_of_another_program_give_the_same() {
        let points: Vec<(f64, f64)> = (1..10)
            .map(|p| (f64::from(p) * 10.0, f64::from(p)))
            .collect();
        let e = Estimate::of_percentiles(&points, 98 * 98).unwrap();
        assert_eq!(e.us, 5.0);
        assert!((e.low - 4.9).abs() < 1e-9 && (e.high - 5.1).abs() < 1e-9);
        assert_eq!(Estimate::of_percentiles(&[], 5), None);
        let few = Estimate::of_percentiles(&points, 1).unwrap();
        assert_eq!((few.low, few.high), (1.0, 9.0));
    }
}
