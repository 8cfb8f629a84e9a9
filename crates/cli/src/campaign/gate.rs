//! The gate of determinism: one job in a hundred, the first of the plan, and every job that was
//! retried run twice. Results that differ are both kept, and neither is merged.
//!
//! A worker leaves the second run of its own result to others as long as others have work to do:
//! they come by here when they are done. The last one does what is left.

use super::hands::Ran;
use super::plan::Planned;
use super::shelf::Shelf;
use super::store::{Id, Kept, Run, Store, StoreError};
use super::work::{ATTEMPTS, Bench};
use crate::failure::{Failure, failed};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// One job in so many runs twice.
const ONE_IN: u32 = 100;

/// Whether the place of a job in the plan, or its id, asks for a second run.
pub fn is_drawn(number: u64, id: &str) -> bool {
    let draw = id
        .get(..8)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number == 1 || draw.is_some_and(|draw| draw % ONE_IN == 0)
}

/// The jobs of the whole plan, as far as the gate needs them.
#[derive(Default)]
pub struct Gate {
    drawn: Vec<Planned>,
    ids: Vec<String>,
}

/// What second runs showed.
#[derive(Default)]
pub struct Twice {
    /// Second runs made here.
    pub run: usize,
    /// Jobs with two results, each in a sentence.
    pub differ: Vec<String>,
    /// A signal ended it.
    pub stopped: bool,
}

impl Gate {
    /// Notes a job of the plan.
    pub fn note(&mut self, job: &Planned) {
        self.ids.push(job.id.clone());
        if is_drawn(job.number, &job.id) {
            self.drawn.push(job.clone());
        }
    }

    /// Runs jobs a second time, and compares.
    ///
    /// # Errors
    /// The host refuses.
    pub fn second_runs(&self, bench: &Bench<'_>, mine: &[Planned]) -> Result<Twice, Failure> {
        let store = &bench.shelf.store;
        let there = store.present(Run::First).map_err(failed)?;
        let attempted = store.attempted().map_err(failed)?;
        let others_work = self.others_work(store, &there, &attempted)?;
        let retried = mine.iter().filter(|job| attempted.contains(&job.id));
        let own_part: BTreeSet<&str> = mine.iter().map(|job| job.id.as_str()).collect();
        let mut seen = BTreeSet::new();
        let mut jobs = Vec::new();
        for job in self.drawn.iter().chain(retried) {
            if !there.contains(&Id::of(&job.id)) || !seen.insert(&job.id) {
                continue;
            }
            let own = || is_own(bench.shelf, &job.id);
            if bench.shelf.get(&job.id, Run::Second)?.is_some() {
                // Only those of this part are told again.
                if own_part.contains(job.id.as_str()) {
                    jobs.push((job, false));
                }
            } else if !others_work || !own()? {
                jobs.push((job, true));
            }
        }
        let mut twice = Twice::default();
        let run: Vec<&Planned> = jobs
            .iter()
            .filter(|(_, run)| *run)
            .map(|(job, _)| *job)
            .collect();
        let ran = bench.all("second runs", &run, |hands, job| {
            hands.let_go()?;
            let began = Instant::now();
            match hands.run(&job.task)? {
                Ran::Done(text) => {
                    bench.shelf.put(&job.id, Run::Second, began, &text)?;
                    Ok(Some(None))
                }
                Ran::Failed(why) => Ok(Some(Some(format!(
                    "job {} ({}) gave a result, and none when it ran again: {why}",
                    job.number,
                    job.task.name()
                )))),
                Ran::Stopped => Ok(None),
            }
        })?;
        for ran in ran {
            match ran {
                None => twice.stopped = true,
                Some(why) => {
                    twice.run += 1;
                    twice.differ.extend(why);
                }
            }
        }
        let mut told = BTreeSet::new();
        for job in jobs.iter().map(|(job, _)| *job).chain(mine) {
            if told.insert(job.number) {
                // A damaged one that nobody asks for is put aside, too.
                bench.shelf.get(&job.id, Run::Second)?;
                twice.differ.extend(differ(store, job)?);
            }
        }
        Ok(twice)
    }

    /// Whether a result is missing that somebody will still make.
    fn others_work(
        &self,
        store: &Store,
        there: &BTreeSet<Id>,
        attempted: &BTreeSet<String>,
    ) -> Result<bool, Failure> {
        for id in self.ids.iter().filter(|id| !there.contains(&Id::of(id))) {
            let given_up =
                attempted.contains(id) && store.attempts(id).map_err(failed)?.len() >= ATTEMPTS;
            if !given_up {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_own(shelf: &Shelf, id: &str) -> Result<bool, Failure> {
    let kept = shelf.store.get(id, Run::First).map_err(failed)?;
    Ok(kept.is_none_or(|kept| kept.by.worker == shelf.worker))
}

/// How two results of a job differ, if it has two that do: those of its two runs, or of two workers
/// that both made it. A second one that is damaged is none.
///
/// # Errors
/// The host refuses, or the first result is damaged.
pub fn differ(store: &Store, job: &Planned) -> Result<Option<String>, Failure> {
    let copies = store.copies(&job.id).map_err(failed)?;
    let mut copies = copies.iter();
    if let Some(first) = copies.next()
        && let Some(other) = copies.find(|other| other.0.text != first.0.text)
    {
        return Ok(Some(two_results(job, first, other)));
    }
    let second = match store.get(&job.id, Run::Second) {
        Ok(Some(second)) => second,
        Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let Some(first) = store.get(&job.id, Run::First).map_err(failed)? else {
        return Ok(None);
    };
    if first.text == second.text {
        return Ok(None);
    }
    let place = |run| store.place(&job.id, run).map_err(failed);
    let first = (first, place(Run::First)?);
    let second = (second, place(Run::Second)?);
    Ok(Some(two_results(job, &first, &second)))
}

fn two_results(job: &Planned, one: &(Kept, PathBuf), other: &(Kept, PathBuf)) -> String {
    let equal = one.0.text.bytes().zip(other.0.text.bytes());
    let at = equal.take_while(|(a, b)| a == b).count();
    format!(
        "job {} ({}) gave two results, which differ from byte {at} on: {} by {}, and {} by {}. Neither is merged: find what is not deterministic (a host's memory, a program of yours), then work with another --store",
        job.number,
        job.task.name(),
        one.1.display(),
        one.0.by.worker,
        other.1.display(),
        other.0.by.worker
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_and_the_first_are_drawn() {
        assert!(is_drawn(1, "00000001"));
        assert!(!is_drawn(2, "00000001"));
        assert!(is_drawn(2, "00000064ff"));
        let ids = (0..10_000u32).map(|n| super::super::store::sum(&n.to_le_bytes()));
        let drawn = ids.filter(|id| is_drawn(2, id)).count();
        assert!((60..140).contains(&drawn), "{drawn}");
    }
}
