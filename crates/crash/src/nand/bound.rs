//! Which cuts of a run or of a recovery are looked at: the bound of an exploration of the chips.

use super::film::Film;
use super::id::{NandId, Spot, inside};
use base::{Nanos, Rng, Time};

/// Where the power is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// Before, inside and after each program and erase of the chips.
    Operations,
    /// Every so many ns of virtual time.
    Every(Nanos),
    /// At so many moments of virtual time, drawn evenly.
    Moments(usize),
    /// Exactly these. An id that the run does not have is an error.
    List(Vec<NandId>),
}

/// How far one run is explored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NandBound {
    /// Where to cut.
    pub cuts: Cuts,
    /// Number of places inside of each operation.
    pub places: u32,
    /// Number of seeds at each place inside of an operation; a seed draws what tears, and how.
    pub seeds: u32,
    /// Takes so many of the cuts, drawn evenly; `None`: takes them in order.
    pub random: Option<usize>,
    /// Most cuts of one run; those beyond are counted and not judged.
    pub cuts_max: usize,
    /// Levels of recoveries that are cut: 1 those of states, 2 also those of their states.
    pub nested: u32,
    /// Number of states of each run whose recovery is cut, drawn evenly.
    pub nested_states: usize,
    /// Most cuts of one recovery.
    pub nested_cuts_max: usize,
    /// Seeds all that a bound draws.
    pub seed: u64,
}

impl Default for NandBound {
    /// Every operation is cut before, after, and at three places inside with two seeds each;
    /// recoveries are not cut.
    fn default() -> NandBound {
        NandBound {
            cuts: Cuts::Operations,
            places: 3,
            seeds: 2,
            random: None,
            cuts_max: usize::MAX,
            nested: 0,
            nested_states: 4,
            nested_cuts_max: 200,
            seed: 0,
        }
    }
}

impl NandBound {
    /// The bound for the recoveries at this depth, which begins with 1.
    pub(super) fn of_recovery(&self, depth: u32) -> NandBound {
        let cuts = match &self.cuts {
            Cuts::List(_) => Cuts::Operations,
            other => other.clone(),
        };
        NandBound {
            cuts,
            random: Some(self.nested_cuts_max),
            seed: self.seed ^ u64::from(depth) << 32,
            ..self.clone()
        }
    }
    /// Chooses the cuts of a run after `from`, by ascending time; cuts in the device's own recovery
    /// come first. Answers also how many the bound leaves out.
    pub fn choose(&self, film: &Film, from: Time) -> (Vec<(Time, NandId)>, u64) {
        let mut all = match &self.cuts {
            Cuts::List(ids) => {
                let known = ids.iter().filter_map(|id| Some((id.time(film)?, *id)));
                return (in_order(known.collect()), 0);
            }
            Cuts::Operations => self.operations(film),
            Cuts::Every(step) => every(*step, from, film.end),
            Cuts::Moments(n) => self.moments(*n, from, film.end),
        };
        all.retain(|(at, id)| id.power_up || *at > from);
        let mut all = in_order(all);
        let counted = all.len();
        let most = self.random.unwrap_or(usize::MAX).min(self.cuts_max);
        if self.random.is_some() && counted > most {
            let mut rng = Rng::named(self.seed, "crash/nand cuts");
            draw(&mut all, most, &mut rng);
        }
        all.truncate(most);
        let beyond = (counted - all.len()) as u64;
        (all, beyond)
    }

    fn operations(&self, film: &Film) -> Vec<(Time, NandId)> {
        let mut all = Vec::new();
        for power_up in [true, false] {
            for (n, op) in film.operations(power_up).iter().enumerate() {
                let mut cut = |at, spot, seed| {
                    let id = NandId {
                        power_up,
                        spot,
                        seed,
                    };
                    all.push((at, id));
                };
                cut(op.span.start, Spot::Before(n), 0);
                for place in 0..self.places {
                    for seed in 0..u64::from(self.seeds) {
                        cut(inside(op.span, place), Spot::Inside(n, place), seed);
                    }
                }
                cut(op.span.end, Spot::After(n), 0);
            }
        }
        all
    }

    fn moments(&self, wanted: usize, from: Time, end: Time) -> Vec<(Time, NandId)> {
        let mut rng = Rng::named(self.seed, "crash/nand moments");
        let len = end.0.saturating_sub(from.0).max(1);
        let drawn = (0..wanted).map(|_| {
            let at = Time(from.0 + 1 + rng.below(len));
            // The id contains the seed, so 32 bits keep it short.
            moment(at, rng.next_u64() >> 32)
        });
        drawn.collect()
    }
}

fn every(step: Nanos, from: Time, end: Time) -> Vec<(Time, NandId)> {
    let step = step.0.max(1);
    let times = (1..).map(|n| from.0.saturating_add(step.saturating_mul(n)));
    let times = times.take_while(|at| *at <= end.0);
    times.map(|at| moment(Time(at), 0)).collect()
}

fn moment(at: Time, seed: u64) -> (Time, NandId) {
    let id = NandId {
        power_up: false,
        spot: Spot::Moment(at),
        seed,
    };
    (at, id)
}

fn in_order(mut all: Vec<(Time, NandId)>) -> Vec<(Time, NandId)> {
    all.sort_by_key(|(at, id)| (!id.power_up, *at, *id));
    all
}

/// Keeps `n` of the items, drawn evenly, in their order.
pub(super) fn draw<T>(items: &mut Vec<T>, n: usize, rng: &mut Rng) {
    let mut left = items.len() as u64;
    let mut wanted = (n as u64).min(left);
    items.retain(|_| {
        let keep = rng.below(left) < wanted;
        left -= 1;
        wanted -= u64::from(keep);
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_has_its_size_and_order() {
        let mut rng = Rng::named(1, "test");
        let mut items: Vec<u32> = (0..100).collect();
        draw(&mut items, 10, &mut rng);
        assert_eq!(items.len(), 10);
        assert!(items.is_sorted());
        draw(&mut items, 20, &mut rng);
        assert_eq!(items.len(), 10);
    }

    #[test]
    fn regular_moments_end_with_the_run() {
        let at: Vec<u64> = every(Nanos(10), Time(5), Time(36))
            .iter()
            .map(|(t, _)| t.0)
            .collect();
        assert_eq!(at, [15, 25, 35]);
    }
}
