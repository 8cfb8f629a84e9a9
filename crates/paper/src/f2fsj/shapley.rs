//! The Shapley value: the share of each of four ideas in what all of them gain together.
//!
//! Ideas help and hinder each other, so what one of them gains depends on which of the others are
//! there. The Shapley value of an idea is the mean of what it adds, over all orders in which the
//! four can be added. The four values sum up to the whole gain.

/// Number of ideas.
pub(super) const PLAYERS: usize = 4;
/// Number of sets of ideas.
pub(super) const SETS: usize = 1 << PLAYERS;

/// For each idea whether it is in the set.
pub(super) fn members(set: usize) -> [bool; PLAYERS] {
    std::array::from_fn(|n| set & (1 << n) != 0)
}

fn factorial(n: usize) -> f64 {
    (1..=n).product::<usize>() as f64
}

/// The Shapley value of each idea. `worth[set]` is the worth of a set, in whose number bit `n`
/// stands for idea `n`.
pub(super) fn values(worth: &[f64; SETS]) -> [f64; PLAYERS] {
    std::array::from_fn(|player| {
        let bit = 1 << player;
        let without = (0..SETS).filter(|set| set & bit == 0);
        let added = without.map(|set| {
            let before = set.count_ones() as usize;
            // This is the number of orders in which exactly these came before.
            let orders = factorial(before) * factorial(PLAYERS - 1 - before);
            orders / factorial(PLAYERS) * (worth[set | bit] - worth[set])
        });
        added.sum()
    })
}

/// What the whole loses when an idea is left out, for each idea.
pub(super) fn left_out(worth: &[f64; SETS]) -> [f64; PLAYERS] {
    std::array::from_fn(|player| worth[SETS - 1] - worth[(SETS - 1) & !(1 << player)])
}

/// What each idea adds when no other is there.
pub(super) fn alone(worth: &[f64; SETS]) -> [f64; PLAYERS] {
    std::array::from_fn(|player| worth[1 << player] - worth[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(worth: impl Fn([bool; PLAYERS]) -> f64) -> [f64; SETS] {
        std::array::from_fn(|set| worth(members(set)))
    }

    fn near(found: [f64; PLAYERS], wanted: [f64; PLAYERS]) {
        for (f, w) in found.iter().zip(wanted) {
            assert!((f - w).abs() < 1e-12, "{found:?}, wanted {wanted:?}");
        }
    }

    /// One left glove and three right ones, where a pair is worth 1: Shapley's own example, with
    /// four players (3/4 and 1/12 each).
    #[test]
    fn the_glove_game() {
        let gloves = game(|has| f64::from(has[0] && (has[1] || has[2] || has[3])));
        near(values(&gloves), [0.75, 1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0]);
        near(left_out(&gloves), [1.0, 0.0, 0.0, 0.0]);
        near(alone(&gloves), [0.0; 4]);
    }

    #[test]
    fn where_nothing_depends_on_the_others_all_three_measures_agree() {
        let each = [0.4, 0.3, 0.0, -0.1];
        let sums = game(|has| {
            let there = has.iter().zip(each).filter(|(has, _)| **has);
            7.0 + there.map(|(_, worth)| worth).sum::<f64>()
        });
        near(values(&sums), each);
        near(left_out(&sums), each);
        near(alone(&sums), each);
    }

    #[test]
    fn the_values_sum_up_to_the_whole_gain() {
        let mut rng = base::Rng::named(1, "shapley");
        let any: [f64; SETS] = std::array::from_fn(|_| rng.below(1000) as f64);
        let sum: f64 = values(&any).iter().sum();
        assert!((sum - (any[SETS - 1] - any[0])).abs() < 1e-9);
    }
}
