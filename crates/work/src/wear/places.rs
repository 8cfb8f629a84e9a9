//! Where the data of a recording goes when the recording goes on.
//!
//! A database writes some pages with every transaction and others now and then. Of the latter a
//! short recording shows a part, and a longer one shows others: to repeat the recording at the same
//! places would make the data look hotter than it is, and collection cheaper. How many places there
//! are is estimated as one estimates species by a catch (Chao 1984): by those seen once and those
//! seen twice. What was written that seldom goes to any of them, the rest stays where it was.
//! Neighbours stay neighbours: a file that was written from end to end goes elsewhere as a whole.

use super::keep::Command;
use base::collections::mix;
use base::{BLOCK_BYTES, Lba, Map, SECTORS_PER_BLOCK, Set};
use rig::{Class, Op, Piece, Request};

/// A place written so often, or more seldom, is one of those that a recording shows a part of.
const SELDOM: u32 = 2;
/// Tries to find a run of stored units of the length wanted.
const TRIES: u64 = 16;

/// Where data goes in a repetition.
#[derive(Clone)]
pub(super) struct Places {
    /// Runs of units that move as a whole: first unit, number, and where the run begins in this
    /// repetition.
    runs: Vec<(u32, u32, u32)>,
    /// Units that they may go to.
    pool: Vec<u32>,
    /// Units that hold something.
    mapped: Set<u32>,
    seed: u64,
}

impl Places {
    /// Data goes where it went in the measured part.
    pub fn same() -> Places {
        Places {
            runs: Vec::new(),
            pool: Vec::new(),
            mapped: Set::default(),
            seed: 1,
        }
    }
    /// Data goes anywhere among the units that hold something.
    pub fn anywhere(commands: &[Command], mapped: &[u32]) -> Places {
        Places {
            runs: runs(counts(commands).into_keys().collect()),
            pool: mapped.to_vec(),
            mapped: mapped.iter().copied().collect(),
            ..Places::same()
        }
    }
    /// What was written seldom goes to as many places as there seem to be, among those `mapped`.
    pub fn estimated(commands: &[Command], mapped: &[u32]) -> Places {
        let counts = counts(commands);
        let with = |n: u32| counts.values().filter(|count| **count == n).count() as u64;
        let mut pool: Vec<u32> = (counts.iter().filter(|(_, count)| **count <= SELDOM))
            .map(|(unit, _)| *unit)
            .collect();
        let others: Vec<u32> = (mapped.iter().copied())
            .filter(|unit| !counts.contains_key(unit))
            .collect();
        let unseen = unseen(with(1), with(2)).min(others.len() as u64);
        let mut places = Places {
            runs: runs(pool.clone()),
            mapped: mapped.iter().copied().collect(),
            ..Places::same()
        };
        // One of each so many others: which ones does not matter, where they lie may.
        let mut chosen = Set::default();
        while (chosen.len() as u64) < unseen {
            chosen.insert(others[(places.draw() % others.len() as u64) as usize]);
        }
        pool.extend(chosen);
        pool.sort_unstable();
        places.pool = pool;
        places
    }
    fn draw(&mut self) -> u64 {
        self.seed = mix(self.seed.wrapping_add(1));
        self.seed
    }
    /// Another repetition begins.
    pub fn turn(&mut self) {
        for at in 0..self.runs.len() {
            let (_, units, _) = self.runs[at];
            if let Some(to) = self.place_for(units) {
                self.runs[at].2 = to;
            }
        }
    }
    /// A run of so many units that hold something, which begins at one of the pool.
    fn place_for(&mut self, units: u32) -> Option<u32> {
        (0..TRIES).find_map(|_| {
            let at = self.draw() % self.pool.len().max(1) as u64;
            let to = *self.pool.get(at as usize)?;
            let fits = (to..to.checked_add(units)?).all(|unit| self.mapped.contains(&unit));
            fits.then_some(to)
        })
    }
    /// The request as this repetition gives it.
    pub fn of(&self, request: &Request) -> Request {
        let mut request = request.clone();
        match &mut request.op {
            Op::Write { lba, pieces, .. } => *lba = self.elsewhere(*lba, pieces),
            Op::Pack { writes } => {
                // Places of a pack must differ, so that only a pack of one write moves.
                if let [write] = &mut writes[..] {
                    write.lba = self.elsewhere(write.lba, &write.pieces);
                }
            }
            _ => {}
        }
        request
    }
    /// Where a write of file data goes, if all of it lies in one run.
    fn elsewhere(&self, lba: Lba, pieces: &[Piece]) -> Lba {
        let Some((first, units)) = data(lba, pieces) else {
            return lba;
        };
        let next = self.runs.partition_point(|run| run.0 <= first);
        match next.checked_sub(1).map(|at| self.runs[at]) {
            Some((from, length, to)) if first + units <= from + length => {
                Lba(u64::from(to + first - from) * SECTORS_PER_BLOCK)
            }
            _ => lba,
        }
    }
}

/// The runs of neighbours among some units, each at its own place.
fn runs(mut units: Vec<u32>) -> Vec<(u32, u32, u32)> {
    units.sort_unstable();
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for unit in units {
        match runs.last_mut() {
            Some((first, length, _)) if *first + *length == unit => *length += 1,
            _ => runs.push((unit, 1, unit)),
        }
    }
    runs
}

/// First unit and number of units of a write of file data in whole units.
fn data(lba: Lba, pieces: &[Piece]) -> Option<(u32, u32)> {
    let bytes: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
    let whole =
        bytes.is_multiple_of(BLOCK_BYTES) && lba.0.is_multiple_of(SECTORS_PER_BLOCK) && bytes > 0;
    let data = pieces.iter().all(|piece| piece.class == Class::Data);
    let first = u32::try_from(lba.0 / SECTORS_PER_BLOCK).ok()?;
    (whole && data).then_some((first, (bytes / BLOCK_BYTES) as u32))
}

/// How often the commands write the units of file data.
fn counts(commands: &[Command]) -> Map<u32, u32> {
    let mut counts = Map::default();
    for command in commands {
        for (lba, pieces, _) in command.request.written() {
            let (first, units) = data(lba, pieces).unwrap_or((0, 0));
            for unit in first..first + units {
                *counts.entry(unit).or_default() += 1;
            }
        }
    }
    counts
}

/// Places that were not seen, if `once` were seen once and `twice` twice. Without any seen twice
/// all that there are may be among them.
fn unseen(once: u64, twice: u64) -> u64 {
    match (once, twice) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        (once, twice) => once * once / (2 * twice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Bytes, Nanos};

    fn write(unit: u64) -> Command {
        let bytes = Bytes::from(vec![1; BLOCK_BYTES]);
        Command {
            request: Request::write(Lba(unit * SECTORS_PER_BLOCK), Class::Data, bytes),
            after: Nanos(0),
            ended: 0,
        }
    }

    /// 1500 writes to any of 4096 units show 1257 of them, and from that follow 4096.
    #[test]
    fn the_places_that_a_part_did_not_show_are_estimated() {
        let mut seed = 1;
        let commands: Vec<Command> = (0..1500)
            .map(|_| {
                seed = mix(seed + 1);
                write(1000 + seed % 4096)
            })
            .collect();
        let mapped: Vec<u32> = (0..16_000).collect();
        let places = Places::estimated(&commands, &mapped);
        let counts = counts(&commands);
        let often = counts.values().filter(|n| **n > SELDOM).count();
        let all = (places.pool.len() + often) as f64;
        assert!((all / 4096.0 - 1.0).abs() < 0.15, "{all}");
        let shown = counts.len();
        assert!((1150..1350).contains(&shown), "{shown}");
    }

    fn place(places: &Places, command: &Command) -> u64 {
        match places.of(&command.request).op {
            Op::Write { lba, .. } => lba.0 / SECTORS_PER_BLOCK,
            _ => panic!("a write stays one"),
        }
    }

    #[test]
    fn what_is_written_often_stays_and_what_is_written_seldom_moves_with_its_neighbours() {
        let mut commands: Vec<Command> = [20, 21, 22, 40].into_iter().map(write).collect();
        commands.extend((0..9).map(|_| write(7)));
        let mapped: Vec<u32> = (0..5000).collect();
        let mut places = Places::estimated(&commands, &mapped);
        let mut seen: [Set<u64>; 3] = Default::default();
        for _ in 0..20 {
            places.turn();
            let at = [0, 1, 2, 3, 4].map(|n| place(&places, &commands[n]));
            assert_eq!((at[1], at[2]), (at[0] + 1, at[0] + 2), "neighbours");
            for (seen, at) in seen.iter_mut().zip([at[0], at[3], at[4]]) {
                seen.insert(at);
            }
        }
        assert!(seen[0].len() > 10 && seen[1].len() > 10, "{seen:?}");
        assert_eq!(seen[2], Set::from_iter([7]));
    }

    #[test]
    fn the_same_places_are_those_of_the_commands() {
        let commands: Vec<Command> = (0..10).map(write).collect();
        let mut same = Places::same();
        same.turn();
        for (n, command) in commands.iter().enumerate() {
            assert_eq!(place(&same, command), n as u64);
        }
    }
}
