//! Chooses which block garbage collection empties next: the policies, and the lists that make a
//! choice cheap.
//!
//! Closed blocks are in two orders at once: by number of valid slots (a *bucket* per number, inside
//! it by the time of the last invalidation) and by the time of closing. Both are linked lists over
//! block numbers, so that an invalidation costs a constant number of steps, and a choice of the
//! greedy policy at most one step per bucket plus [`TIES_MAX`]. Other policies look at as many
//! blocks as they say; those by time of closing pass over blocks without an invalid slot as well.
//!
//! The real FTL and [`crate::counting`] both ask this code through `blocks`, which puts blocks with
//! a failed program, and those that `wear` wants moved, before its choice.

use crate::config::NONE;
use crate::types::BlockInfo;
use base::Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The maximum of blocks with equally many valid slots that are compared by wear.
const TIES_MAX: usize = 4096;

/// How the victim of garbage collection is chosen. Ties go to the block with fewer erases. No
/// policy takes a block whose slots are all valid (ftl-I7).
///
/// In a profile and on the command line: `greedy`, `fifo`, `d-choices`, `d-choices:4`,
/// `cost-benefit`, `windowed`, `windowed:32`, `random`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Policy {
    /// The fewest valid slots.
    #[default]
    Greedy,
    /// The block closed first; one without an invalid slot goes to the end of the queue, as if it
    /// had been copied.
    Fifo,
    /// The fewest valid slots among this many blocks drawn at random (with repetition).
    Choices(u32),
    /// Greatest (1 - u) age / 2u, where u is the valid share and age the operations since the block
    /// last lost a slot (Kawaguchi, Nishioka and Motoda, USENIX 1995).
    CostBenefit,
    /// The fewest valid slots among this many blocks, those closed first.
    Windowed(u32),
    /// Any block, at random.
    Random,
}

/// Blocks drawn by `d-choices` without a number.
const CHOICES: u32 = 10;
/// Blocks looked at by `windowed` without a number.
const WINDOW: u32 = 64;

impl FromStr for Policy {
    type Err = String;

    fn from_str(s: &str) -> Result<Policy, String> {
        let (word, number) = match s.split_once(':') {
            Some((word, n)) => (word, Some(n)),
            None => (s, None),
        };
        let count = |default| match number.map(str::parse::<u32>) {
            None => Ok(default),
            Some(Ok(n)) if (1..=65_536).contains(&n) => Ok(n),
            Some(_) => Err(format!("policy '{s}': the number may be 1 to 65536")),
        };
        match (word, number) {
            ("greedy", None) => Ok(Policy::Greedy),
            ("fifo", None) => Ok(Policy::Fifo),
            ("d-choices", _) => count(CHOICES).map(Policy::Choices),
            ("cost-benefit", None) => Ok(Policy::CostBenefit),
            ("windowed", _) => count(WINDOW).map(Policy::Windowed),
            ("random", None) => Ok(Policy::Random),
            _ => Err(format!(
                "policy '{s}'; there are greedy, fifo, d-choices:N, cost-benefit, windowed:N, random"
            )),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Greedy => f.write_str("greedy"),
            Policy::Fifo => f.write_str("fifo"),
            Policy::Choices(d) => write!(f, "d-choices:{d}"),
            Policy::CostBenefit => f.write_str("cost-benefit"),
            Policy::Windowed(w) => write!(f, "windowed:{w}"),
            Policy::Random => f.write_str("random"),
        }
    }
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(s: String) -> Result<Policy, String> {
        s.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.to_string()
    }
}

/// Ends of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List {
    head: NONE,
    tail: NONE,
};

/// A block's neighbours in one list.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

const ALONE: Link = Link {
    prev: NONE,
    next: NONE,
};

impl List {
    fn push(&mut self, links: &mut [Link], block: u32) {
        links[block as usize] = Link {
            prev: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = block,
            tail => links[tail as usize].next = block,
        }
        self.tail = block;
    }
    fn remove(&mut self, links: &mut [Link], block: u32) {
        let Link { prev, next } = std::mem::replace(&mut links[block as usize], ALONE);
        match prev {
            NONE => self.head = next,
            prev => links[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => links[next as usize].prev = prev,
        }
    }
    fn iter(self, links: &[Link]) -> impl Iterator<Item = u32> {
        let some = |block: u32| (block != NONE).then_some(block);
        std::iter::successors(some(self.head), move |b| some(links[*b as usize].next))
    }
}

/// The closed blocks of one pool.
#[derive(Clone, Debug)]
struct Lists {
    /// By number of valid slots.
    buckets: Vec<List>,
    /// By time of closing.
    closed: List,
    count: u32,
}

/// What is known of a closed block.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its bucket; `NONE`: the block is not closed.
    bucket: u32,
    pool: u8,
    /// When it last lost a slot, or was closed.
    touched: u64,
}

const NOWHERE: Place = Place {
    bucket: NONE,
    pool: 0,
    touched: 0,
};

/// The closed blocks, ordered for a choice.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    policy: Policy,
    rng: Rng,
    places: Vec<Place>,
    by_valid: Vec<Link>,
    by_age: Vec<Link>,
    pools: [Lists; 2],
}

impl Victims {
    /// The state in which no block is closed.
    pub fn new(policy: Policy, seed: u64, blocks: u32, slots_per_block: u32) -> Victims {
        let lists = || Lists {
            buckets: vec![EMPTY; slots_per_block as usize + 1],
            closed: EMPTY,
            count: 0,
        };
        Victims {
            policy,
            rng: Rng::named(seed, "victims"),
            places: vec![NOWHERE; blocks as usize],
            by_valid: vec![ALONE; blocks as usize],
            by_age: vec![ALONE; blocks as usize],
            pools: [lists(), lists()],
        }
    }
    /// Adds a block that is closed now, or was found closed.
    pub fn insert(&mut self, pool: usize, block: u32, valid: u32, now: u64) {
        let place = &mut self.places[block as usize];
        assert_eq!(place.bucket, NONE, "ftl-I7: block {block} is closed twice");
        *place = Place {
            bucket: valid,
            pool: pool as u8,
            touched: now,
        };
        let lists = &mut self.pools[pool];
        lists.buckets[valid as usize].push(&mut self.by_valid, block);
        lists.closed.push(&mut self.by_age, block);
        lists.count += 1;
    }
    /// Removes a block that is not closed any more; without effect if it was not closed.
    pub fn remove(&mut self, block: u32) {
        let place = std::mem::replace(&mut self.places[block as usize], NOWHERE);
        if place.bucket != NONE {
            let lists = &mut self.pools[usize::from(place.pool)];
            lists.buckets[place.bucket as usize].remove(&mut self.by_valid, block);
            lists.closed.remove(&mut self.by_age, block);
            lists.count -= 1;
        }
    }
    /// Notes the number of valid slots that a closed block has now.
    pub fn shift(&mut self, block: u32, valid: u32, now: u64) {
        let place = &mut self.places[block as usize];
        let old = std::mem::replace(&mut place.bucket, valid);
        assert_ne!(old, NONE, "ftl-I7: block {block} is not closed");
        place.touched = now;
        let lists = &mut self.pools[usize::from(place.pool)];
        lists.buckets[old as usize].remove(&mut self.by_valid, block);
        lists.buckets[valid as usize].push(&mut self.by_valid, block);
    }
    /// Valid slots of a closed block, as the lists have it.
    pub fn valid_of(&self, block: u32) -> Option<u32> {
        let bucket = self.places[block as usize].bucket;
        (bucket != NONE).then_some(bucket)
    }
    /// Bytes of memory that the lists take.
    pub fn memory_bytes(&self) -> u64 {
        let links = self.by_valid.capacity() + self.by_age.capacity();
        let buckets = self.pools.iter().map(|p| p.buckets.capacity());
        let places = self.places.capacity() * size_of::<Place>();
        (places + links * size_of::<Link>() + buckets.sum::<usize>() * size_of::<List>()) as u64
    }
    /// Bytes of memory that the lists of such a device would take.
    pub fn memory_needed(blocks: u32, slots_per_block: u32) -> u64 {
        let per_block = size_of::<Place>() + 2 * size_of::<Link>();
        let buckets = 2 * (u64::from(slots_per_block) + 1) * size_of::<List>() as u64;
        u64::from(blocks) * per_block as u64 + buckets
    }
    /// The closed blocks of a pool, in the order of closing.
    pub fn closed(&self, pool: usize) -> impl Iterator<Item = u32> {
        self.pools[pool].closed.iter(&self.by_age)
    }
    /// The victim that the policy chooses among the blocks with less than `full` valid slots
    /// (ftl-I7).
    pub fn choose(
        &mut self,
        pool: usize,
        full: u32,
        blocks: &[BlockInfo],
        now: u64,
    ) -> Option<u32> {
        let chosen = match self.policy {
            Policy::Greedy => None,
            Policy::Fifo => self.oldest(pool, full),
            Policy::Choices(d) => self.drawn(pool, full, d, blocks),
            Policy::CostBenefit => self.best_ratio(pool, full, blocks, now),
            Policy::Windowed(w) => self.in_window(pool, full, w, blocks),
            Policy::Random => self.drawn(pool, full, 1, blocks),
        };
        // A policy that saw no block worth collecting must not stop collection: ftl-I6.
        chosen.or_else(|| self.fewest_valid(pool, full, blocks))
    }
    /// The fewest valid slots; among equals the least worn, then the lowest number.
    pub fn fewest_valid(&self, pool: usize, full: u32, blocks: &[BlockInfo]) -> Option<u32> {
        let buckets = &self.pools[pool].buckets;
        let below = buckets.len().min(full as usize);
        let bucket = buckets[..below].iter().find(|b| b.head != NONE)?;
        let ties = bucket.iter(&self.by_valid).take(TIES_MAX);
        ties.min_by_key(|b| (blocks[*b as usize].erases, *b))
    }
    fn oldest(&mut self, pool: usize, full: u32) -> Option<u32> {
        let lists = &mut self.pools[pool];
        for _ in 0..lists.count {
            let head = lists.closed.head;
            if self.places[head as usize].bucket < full {
                return Some(head);
            }
            lists.closed.remove(&mut self.by_age, head);
            lists.closed.push(&mut self.by_age, head);
        }
        None
    }
    fn in_window(&mut self, pool: usize, full: u32, w: u32, blocks: &[BlockInfo]) -> Option<u32> {
        // From here on the head of the queue is worth collecting.
        self.oldest(pool, full)?;
        let window = self.closed(pool).take(w as usize);
        let valid = |b: u32| self.places[b as usize].bucket;
        window
            .filter(|b| valid(*b) < full)
            .min_by_key(|b| (valid(*b), blocks[*b as usize].erases, *b))
    }
    fn drawn(&mut self, pool: usize, full: u32, d: u32, blocks: &[BlockInfo]) -> Option<u32> {
        let mut best: Option<(u32, u32, u32)> = None;
        let mut found = 0;
        // Most blocks are closed, so few draws miss; if all draws miss, the caller falls back.
        for _ in 0..d.saturating_mul(16).max(64) {
            let block = self.rng.below(self.places.len() as u64) as u32;
            let place = self.places[block as usize];
            if place.bucket == NONE || usize::from(place.pool) != pool {
                continue;
            }
            if place.bucket < full {
                let key = (place.bucket, blocks[block as usize].erases, block);
                best = Some(best.map_or(key, |b| b.min(key)));
            }
            found += 1;
            if found >= d && best.is_some() {
                break;
            }
        }
        best.map(|(.., block)| block)
    }
    fn best_ratio(&self, pool: usize, full: u32, blocks: &[BlockInfo], now: u64) -> Option<u32> {
        let buckets = &self.pools[pool].buckets;
        let slots = buckets.len() as u128 - 1;
        let below = buckets.len().min(full as usize);
        // A bucket is in the order of the last loss, so its head is its oldest.
        let heads = (1u128..)
            .zip(&buckets[1..below])
            .filter(|(_, b)| b.head != NONE);
        let scored = heads.map(|(valid, bucket)| {
            let age = now.saturating_sub(self.places[bucket.head as usize].touched) + 1;
            (
                (slots.saturating_sub(valid)) * u128::from(age),
                valid,
                bucket.head,
            )
        });
        let better = |a: &(u128, u128, u32), b: &(u128, u128, u32)| {
            // a.0 / a.1 against b.0 / b.1, without a division.
            let by_ratio = (a.0 * b.1).cmp(&(b.0 * a.1));
            let erases = |x: &(u128, u128, u32)| blocks[x.2 as usize].erases;
            by_ratio.then(erases(b).cmp(&erases(a))).then(b.2.cmp(&a.2))
        };
        scored.max_by(better).map(|(.., block)| block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::State;

    fn info(valid: u32, erases: u32) -> BlockInfo {
        BlockInfo {
            state: State::Closed,
            valid,
            erases,
            filled: 8,
            freed_at: 0,
            failing: false,
        }
    }

    /// Blocks of 8 slots, closed in the order of their numbers at times 10, 20, ...
    fn closed(policy: Policy, blocks: &[BlockInfo]) -> Victims {
        let mut victims = Victims::new(policy, 1, blocks.len() as u32, 8);
        for (i, b) in blocks.iter().enumerate() {
            victims.insert(0, i as u32, b.valid, 10 * (i as u64 + 1));
        }
        victims
    }

    fn all() -> [Policy; 6] {
        use Policy::{Choices, CostBenefit, Fifo, Greedy, Random, Windowed};
        [Greedy, Fifo, Choices(3), CostBenefit, Windowed(4), Random]
    }

    #[test]
    fn words_and_policies_are_each_others_inverse() {
        for policy in all() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("d-choices".parse(), Ok(Policy::Choices(10)));
        for bad in [
            "",
            "lru",
            "d-choices:0",
            "greedy:3",
            "windowed:70000",
            "windowed:x",
        ] {
            assert!(bad.parse::<Policy>().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_policy_takes_a_block_whose_slots_are_all_valid() {
        let mut blocks = vec![info(8, 0); 20];
        for policy in all() {
            assert_eq!(
                closed(policy, &blocks).choose(0, 8, &blocks, 1000),
                None,
                "ftl-I7: {policy}"
            );
        }
        // Every policy finds the only block worth collecting, wherever it is.
        blocks[17].valid = 7;
        for policy in all() {
            let chosen = closed(policy, &blocks).choose(0, 8, &blocks, 1000);
            assert_eq!(chosen, Some(17), "ftl-I6: {policy}");
        }
    }

    #[test]
    fn each_policy_takes_what_its_name_says() {
        let blocks = [(7, 5), (3, 9), (2, 5), (2, 4), (2, 4), (6, 0)].map(|(v, e)| info(v, e));
        let pick = |policy| closed(policy, &blocks).choose(0, 8, &blocks, 70);
        assert_eq!(
            pick(Policy::Greedy),
            Some(3),
            "ties: fewer erases, lower number"
        );
        assert_eq!(pick(Policy::Fifo), Some(0));
        assert_eq!(pick(Policy::Windowed(2)), Some(1));
        assert_eq!(pick(Policy::Windowed(3)), Some(2));
        // Ages 61, 51, 41, 31, 21, 11: (8 - 2) / 2 x 41 is more than (8 - 3) / 3 x 51.
        assert_eq!(pick(Policy::CostBenefit), Some(2));
        // A great age outweighs one valid slot more.
        let mut victims = closed(Policy::CostBenefit, &blocks);
        [2, 3, 4].into_iter().for_each(|b| victims.shift(b, 2, 69));
        assert_eq!(victims.choose(0, 8, &blocks, 70), Some(1));
    }

    #[test]
    fn draws_are_those_of_the_seed() {
        let blocks = vec![info(4, 0); 50];
        let draw = |seed| {
            let mut victims = Victims::new(Policy::Random, seed, 50, 8);
            (0..50).for_each(|b| victims.insert(0, b, 4, 0));
            (0..20)
                .map(|_| victims.choose(0, 8, &blocks, 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn lists_follow_every_change() {
        let mut rng = Rng::named(5, "lists");
        let mut blocks = vec![info(8, 0); 40];
        let mut victims = Victims::new(Policy::Greedy, 0, 40, 8);
        let mut inside = [false; 40];
        for now in 0..20_000 {
            let b = rng.below(40) as usize;
            if !inside[b] {
                blocks[b].valid = 1 + rng.below(8) as u32;
                blocks[b].erases = rng.below(5) as u32;
                victims.insert(b % 2, b as u32, blocks[b].valid, now);
                inside[b] = true;
            } else if blocks[b].valid > 1 && rng.one_in(2) {
                blocks[b].valid -= 1;
                victims.shift(b as u32, blocks[b].valid, now);
            } else {
                victims.remove(b as u32);
                inside[b] = false;
            }
            let pool = b % 2;
            let mine = (pool..40)
                .step_by(2)
                .filter(|i| inside[*i] && blocks[*i].valid < 8);
            let best = mine.min_by_key(|i| (blocks[*i].valid, blocks[*i].erases, *i));
            assert_eq!(
                victims.choose(pool, 8, &blocks, now),
                best.map(|i| i as u32)
            );
        }
    }
}
