//! Random numbers whose sum does not depend on the seed: they are dealt from a prepared deck
//! instead of being drawn. Only times between calls are drawn ([`time`]).
//!
//! An application with three fsyncs in 5 s has 72 of them in two minutes. If they were drawn, the
//! mean would be off by a tenth and a run would have to be long before it says anything; when they
//! are dealt, only the order is random.

use super::parameters::Point;
use base::{Nanos, Rng};

/// A random number in [0, 1).
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Brings the items in random order.
pub fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Draws a time from a distribution.
///
/// # Panics
/// The distribution has no points.
pub fn time(points: &[Point], rng: &mut Rng) -> Nanos {
    let at = unit(rng);
    let above = points.iter().position(|p| p.of >= at).unwrap_or(0);
    let (b, a) = (points[above], points[above.saturating_sub(1)]);
    let width = b.of - a.of;
    let part = if width > 0.0 {
        (at - a.of) / width
    } else {
        0.0
    };
    let us = f64::from(a.us) + part * (f64::from(b.us) - f64::from(a.us));
    Nanos((us * 1e3) as u64)
}

/// Largest number in a deck, as a geometric distribution has none.
const MOST: u32 = 256;

/// `count` numbers from 1 on, geometrically distributed, whose sum is `count * mean` to the nearest
/// whole number.
pub fn geometric(count: usize, mean: f64, rng: &mut Rng) -> Vec<u32> {
    let go_on = (mean - 1.0).max(0.0) / mean.max(1.0);
    let next = |n: u32, part: f64| (n + 1, part * go_on);
    deck(count, mean, (1, 1.0 - go_on), next, rng)
}

/// `count` numbers from 0 on, distributed as Poisson's, whose sum is `count * mean` to the nearest
/// whole number.
pub fn poisson(count: usize, mean: f64, rng: &mut Rng) -> Vec<u32> {
    // This is e to the power of -mean by squaring, which gives the same bits on every machine.
    let mut none = 1.0 - mean / f64::from(1 << SQUARINGS);
    (0..SQUARINGS).for_each(|_| none *= none);
    let next = |n: u32, part: f64| (n + 1, part * mean / f64::from(n + 1));
    deck(count, mean, (0, none), next, rng)
}

/// Squarings in [`poisson`]; for a mean of 1 the error is a millionth.
const SQUARINGS: u32 = 20;

/// A deck with one number for each quantile of the distribution. It begins with (number, its
/// probability), and `next` gives the pair that follows another.
fn deck(
    count: usize,
    mean: f64,
    first: (u32, f64),
    next: impl Fn(u32, f64) -> (u32, f64),
    rng: &mut Rng,
) -> Vec<u32> {
    let ((mut n, mut part), mut below, mut deck) = (first, first.1, Vec::with_capacity(count));
    for i in 0..count {
        let quantile = (i as f64 + 0.5) / count as f64;
        while below < quantile && n < MOST {
            (n, part) = next(n, part);
            below += part;
        }
        deck.push(n);
    }
    shuffle(&mut deck, rng);
    settle(&mut deck, first.0, (count as f64 * mean).round() as u64);
    deck
}

/// Changes numbers by one until they add up to `sum`, or all are `least`.
fn settle(deck: &mut [u32], least: u32, sum: u64) {
    let mut have: u64 = deck.iter().map(|n| u64::from(*n)).sum();
    while have != sum && !deck.is_empty() {
        let before = have;
        for n in deck.iter_mut() {
            if have < sum {
                (*n, have) = (*n + 1, have + 1);
            } else if have > sum && *n > least {
                (*n, have) = (*n - 1, have - 1);
            }
        }
        if have == before {
            return;
        }
    }
}

/// Deals kinds by their shares: each step takes the kind that lacks most, among those that cost no
/// more than what is left. The costs add up to `total`.
///
/// # Panics
/// No kind of cost 1 has a share.
pub fn kinds<K: Copy>(shares: &[(K, f64, u32)], total: u32) -> Vec<K> {
    let all: f64 = shares.iter().map(|(_, share, _)| share).sum();
    let mut given = vec![0.0; shares.len()];
    let (mut dealt, mut out) = (0, Vec::new());
    while dealt < total {
        let lack = |i: usize| {
            let (_, share, cost) = shares[i];
            share / all * f64::from(dealt + cost) - given[i]
        };
        let fitting = (0..shares.len()).filter(|&i| {
            let (_, share, cost) = shares[i];
            share > 0.0 && cost <= total - dealt
        });
        let next = fitting.max_by(|&a, &b| lack(a).total_cmp(&lack(b)).then(b.cmp(&a)));
        let next = next.expect("checked: a kind of cost 1 has a share");
        let (kind, _, cost) = shares[next];
        out.push(kind);
        given[next] += f64::from(cost);
        dealt += cost;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_adds_up_whatever_the_seed() {
        let of = |seed| {
            let mut rng = Rng::named(seed, "deck");
            (
                geometric(90, 2.5, &mut rng),
                poisson(90, 1.3, &mut rng),
                poisson(7, 0.0, &mut rng),
            )
        };
        let ((pages, others, none), other) = (of(1), of(2));
        let sum = |deck: &[u32]| deck.iter().sum::<u32>();
        assert_eq!((sum(&pages), sum(&other.0)), (225, 225), "apps-A3");
        assert_eq!((sum(&others), sum(&other.1)), (117, 117), "apps-A3");
        assert_ne!(pages, other.0, "the order is random");
        assert!(pages.iter().all(|n| *n >= 1) && sum(&none) == 0);
        // Poisson with mean 1.3: 27 % are 0; geometric with mean 2.5: 40 % are 1.
        let part = |deck: &[u32], n| deck.iter().filter(|x| **x == n).count();
        assert!((22..=27).contains(&part(&others, 0)), "{others:?}");
        assert!((33..=39).contains(&part(&pages, 1)), "{pages:?}");
    }

    #[test]
    fn kinds_have_their_shares_and_cost_exactly_what_there_is() {
        let shares = [('t', 0.6, 3), ('c', 0.3, 1), ('p', 0.1, 1), ('n', 0.0, 1)];
        for total in [1, 2, 3, 7, 100] {
            let dealt = kinds(&shares, total);
            let cost = |kind: char| {
                let one = shares.iter().find(|s| s.0 == kind).unwrap().2;
                dealt.iter().filter(|k| **k == kind).count() as u32 * one
            };
            assert_eq!(cost('t') + cost('c') + cost('p'), total);
            let share = 0.6 * f64::from(total);
            assert!((f64::from(cost('t')) - share).abs() <= 3.0, "{total}");
        }
    }

    #[test]
    fn times_lie_between_the_points() {
        let points = [(0.0, 100), (0.5, 200), (1.0, 1000)].map(|(of, us)| Point { of, us });
        let mut rng = Rng::named(1, "time");
        let times: Vec<u64> = (0..1000)
            .map(|_| time(&points, &mut rng).0 / 1000)
            .collect();
        assert!(times.iter().all(|us| (100..=1000).contains(us)));
        let below = times.iter().filter(|us| **us <= 200).count();
        assert!((450..=550).contains(&below), "{below}");
    }
}
