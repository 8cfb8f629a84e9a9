//! Whether a leader waits for more callers before it closes the epoch, and how long
//! (f2fs-group-G5).
//!
//! Programs that call fsync again as soon as one has returned fall into two halves: while one half
//! is on its way to the device the other half waits, so each call takes two commits and each commit
//! serves half of the callers. A leader that waits for the other half, which comes back after a few
//! microseconds, lets one commit serve them all. That is better where a commit takes as long for
//! many callers as for few, and worse where the halves keep the device busy in turns. So both ways
//! are tried for a few commits, and the one that serves more callers in a second is kept for many;
//! then the other one is tried again, more rarely each time that it loses.
//!
//! A wait in vain ends a trial, because callers that wait for nobody would make the rest of it in
//! vain, too. Where waiting has won, one caller that is late says little: it takes two before the
//! next trial.

use base::{Nanos, Time};

/// Commits of a trial that count, and those before them, which still serve the callers of the other
/// way.
const TRIAL: u32 = 6;
const SETTLING: u32 = 2;
/// Commits between two trials: at first, and at most.
const STAY: u32 = 32;
const STAY_MAX: u32 = 1024;
/// Waits in vain that end waiting where it has won.
const IN_VAIN_MAX: u32 = 2;

/// What a leader does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Way {
    /// It commits at once.
    #[default]
    Go,
    /// It waits for the callers that are expected.
    Wait,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Go => Way::Wait,
            Way::Wait => Way::Go,
        }
    }
}

/// What was seen of callers and commits.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Callers under way when the last commit ended: those that it let go and those that waited for
    /// the next.
    expected: u64,
    /// Mean time of a commit, a moving average.
    took: Nanos,
    /// When the last commit ended.
    ended: Time,
    way: Way,
    /// Callers served in a second by each way, when it was tried last; `None`: never.
    rates: [Option<u64>; 2],
    /// Commits of this trial so far, and what those that count have served in what time.
    seen: u32,
    served: u64,
    time: Nanos,
    /// Waits in vain since the last choice.
    in_vain: u32,
    /// Commits until the next trial; 0: this is one.
    left: u32,
    /// How many there are between two trials.
    stay: u32,
}

impl Gather {
    /// Callers that the next commit should serve, and how long its leader may wait for them; `None`
    /// if it should not.
    pub fn patience(&self, waiting: u64) -> Option<(u64, Nanos)> {
        let most_are_there = 4 * waiting >= 3 * self.expected;
        if self.way == Way::Go || most_are_there {
            return None;
        }
        // Half of a commit: waiting may cost that, and what it can save is a whole one.
        Some((self.expected, Nanos(self.took.0 / 2)))
    }

    /// A leader with `before` callers has waited, and has `now`. Callers that come at a steady
    /// rate, and wait for nobody, bring half of those that are missing in that time: then waiting
    /// gains nothing, so it takes three quarters of them.
    pub fn waited(&mut self, before: u64, now: u64) {
        let missing = self.expected.saturating_sub(before);
        if 4 * now.saturating_sub(before) >= 3 * missing {
            return;
        }
        self.in_vain += 1;
        let is_trial = self.left == 0;
        if is_trial || self.in_vain == IN_VAIN_MAX {
            self.rates[Way::Wait as usize] = Some(0);
            self.choose();
        }
    }

    /// A commit that began at `begun` has ended `now`: it lets `released` callers go, and `left`
    /// wait for the next one.
    pub fn committed(&mut self, released: u64, left: u64, begun: Time, now: Time) {
        let took = now - begun;
        let cycle = now - std::mem::replace(&mut self.ended, now);
        self.took = match self.took {
            Nanos(0) => took,
            mean => Nanos((3 * mean.0 + took.0) / 4),
        };
        self.expected = released + left;
        // One caller alone has nobody to wait for, and of idle time nothing is learned.
        if self.expected < 2 || cycle > Nanos(4 * self.took.0) {
            return;
        }
        if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                self.try_out(self.way.other());
            }
            return;
        }
        self.seen += 1;
        if self.seen > SETTLING {
            self.served += released;
            self.time += cycle;
        }
        if self.seen == SETTLING + TRIAL {
            let rate = u128::from(self.served) * 1_000_000_000 / u128::from(self.time.0.max(1));
            self.rates[self.way as usize] = Some(rate.try_into().unwrap_or(u64::MAX));
            self.choose();
        }
    }

    fn try_out(&mut self, way: Way) {
        self.way = way;
        (self.seen, self.served, self.time) = (0, 0, Nanos(0));
        self.left = 0;
    }

    /// After a trial of this way: tries the other one if it never was, else keeps the better one.
    fn choose(&mut self) {
        self.in_vain = 0;
        let [go, wait] = self.rates;
        let (Some(go), Some(wait)) = (go, wait) else {
            return self.try_out(self.way.other());
        };
        let best = match wait > go {
            true => Way::Wait,
            false => Way::Go,
        };
        // A trial that was lost is made half as often from now on.
        self.stay = match best == self.way {
            true => STAY,
            false => (2 * self.stay).clamp(STAY, STAY_MAX),
        };
        self.way = best;
        self.left = self.stay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    /// Commits of `count`, where a commit of n callers takes `base + n * each` microseconds.
    /// Callers that are let go come back at once if they are `loyal`.
    fn run(
        gather: &mut Gather,
        count: u32,
        callers: u64,
        cost: (u64, u64),
        loyal: bool,
    ) -> Vec<u64> {
        let (mut now, mut waiting) = (Time(0), callers / 2);
        let mut served = Vec::new();
        for _ in 0..count {
            if let Some((expected, patience)) = gather.patience(waiting) {
                let before = waiting;
                match loyal {
                    true => (waiting, now) = (expected, now + Nanos(5 * US)),
                    false => now += patience,
                }
                gather.waited(before, waiting);
            }
            let begun = now;
            now += Nanos((cost.0 + waiting * cost.1) * US);
            let left = callers - waiting;
            served.push(waiting);
            gather.committed(waiting, left, begun, now);
            waiting = if left == 0 { callers / 2 } else { left };
        }
        served
    }

    #[test]
    fn a_caller_alone_never_waits() {
        let mut gather = Gather::default();
        for n in 0..100 {
            assert_eq!(gather.patience(1), None);
            gather.committed(1, 0, Time(n * 1000), Time(n * 1000 + 999));
        }
    }

    #[test]
    fn where_many_cost_as_much_as_few_one_commit_serves_all() {
        let mut gather = Gather::default();
        let served = run(&mut gather, 200, 16, (1000, 0), true);
        let all = served.iter().filter(|&&n| n == 16).count();
        assert!(all > 150, "{all} of 200 served all");
    }

    /// Each caller costs as much as the next one, and what overlaps is lost by waiting.
    #[test]
    fn where_halves_take_turns_they_are_left_to() {
        let mut gather = Gather::default();
        let mut now = Time(0);
        let mut waits = 0;
        for _ in 0..400 {
            let gathers = gather.patience(8).is_some();
            waits += u32::from(gathers);
            // Eight callers in 1 ms in turns, sixteen in 3 ms together.
            let (callers, took) = if gathers { (16, 3000) } else { (8, 1000) };
            let begun = now;
            now += Nanos(took * US);
            if gathers {
                gather.waited(8, 16);
            }
            gather.committed(callers, 16 - callers, begun, now);
        }
        assert!(waits < 60, "{waits} of 400 waited");
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut gather = Gather::default();
        let mut waits = 0;
        let mut now = Time(0);
        for _ in 0..2000 {
            if gather.patience(1).is_some() {
                gather.waited(1, 1);
                waits += 1;
            }
            let begun = now;
            now += Nanos(1000 * US);
            gather.committed(1, 1, begun, now);
        }
        assert!((3..20).contains(&waits), "{waits}");
    }

    /// A caller that was late once does not end what has won.
    #[test]
    fn where_waiting_has_won_one_wait_in_vain_says_little() {
        let mut gather = Gather::default();
        run(&mut gather, 40, 16, (1000, 0), true);
        assert!(gather.left > 0, "waiting has won");
        gather.waited(8, 8);
        assert!(gather.patience(8).is_some(), "one in vain");
        gather.waited(8, 16);
        gather.waited(8, 8);
        assert!(gather.patience(8).is_none(), "two in vain");
    }

    /// Callers that wait for nobody would make the rest of a trial in vain.
    #[test]
    fn one_wait_in_vain_ends_a_trial() {
        let mut gather = Gather::default();
        run(&mut gather, SETTLING + TRIAL, 16, (1000, 0), true);
        assert_eq!((gather.left, gather.patience(8).is_some()), (0, true));
        gather.waited(8, 8);
        assert!(gather.patience(8).is_none());
    }

    /// What is best may change: the other way is tried again.
    #[test]
    fn a_change_is_noticed() {
        let mut gather = Gather::default();
        run(&mut gather, 200, 16, (1000, 0), true);
        let served = run(&mut gather, 600, 16, (100, 1000), false);
        let alone = served.iter().rev().take(100).filter(|&&n| n == 8).count();
        assert!(alone > 80, "{alone} of the last 100 served half");
    }
}
