//! Runs jobs on a few threads. Each thread may keep a value between its jobs, such as a worker
//! process; results come in the order of the jobs, whichever thread ran which.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of threads: as many as asked for, otherwise one per core; never more than there are
/// jobs.
pub fn threads(asked: Option<NonZeroUsize>, jobs: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    asked.map_or(cores, NonZeroUsize::get).min(jobs.max(1))
}

/// Runs every job, on `threads` threads. `begin` makes the value that a thread keeps, `end` takes
/// it back.
///
/// # Errors
/// The first of `begin`, `work` or `end`, in the order of the threads; a thread that fails leaves
/// its other jobs to the rest.
pub fn ordered<J: Sync, K, R: Send, E: Send>(
    jobs: &[J],
    threads: usize,
    begin: impl Fn() -> Result<K, E> + Sync,
    work: impl Fn(&mut K, usize, &J) -> Result<R, E> + Sync,
    end: impl Fn(K) -> Result<(), E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let one_thread = || {
        let mut kept = begin()?;
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(n) else {
                return end(kept);
            };
            let result = work(&mut kept, n, job)?;
            results.lock().expect("no thread panics with it")[n] = Some(result);
        }
    };
    thread::scope(|scope| {
        // A host without room for all of them has fewer; without room for any this one works.
        let start = |_| thread::Builder::new().spawn_scoped(scope, one_thread).ok();
        let all: Vec<_> = (0..threads).map_while(start).collect();
        if all.is_empty() {
            one_thread()?;
        }
        all.into_iter()
            .try_for_each(|t| t.join().expect("a pool thread does not panic"))
    })?;
    let results = results.into_inner().expect("no thread panics with it");
    Ok(results
        .into_iter()
        .map(|r| r.expect("every job was done"))
        .collect())
}

/// [`ordered`] where a thread keeps nothing and a job always has a result.
pub fn each<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(usize, &J) -> R + Sync,
) -> Vec<R> {
    let nothing = || Ok::<(), std::convert::Infallible>(());
    let done = ordered(jobs, threads, nothing, |(), n, job| Ok(work(n, job)), Ok);
    done.unwrap_or_else(|never| match never {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<usize> = (0..50).collect();
        for threads in [1, 3, 60] {
            let squares = each(&jobs, threads, |n, job| {
                assert_eq!(n, *job);
                job * job
            });
            assert!(squares.iter().enumerate().all(|(n, s)| *s == n * n));
        }
        assert!(each(&[], 2, |_, (): &()| ()).is_empty());
    }

    #[test]
    fn a_job_that_fails_ends_the_whole() {
        let jobs = [1, 2, 3];
        let fail = |(): &mut (), _, job: &i32| (*job != 2).then_some(*job).ok_or("two");
        assert_eq!(ordered(&jobs, 2, || Ok(()), fail, Ok), Err("two"));
        assert_eq!(
            ordered(&jobs, 2, || Err("begin"), |(), _, _| Ok(()), Ok),
            Err("begin")
        );
    }

    #[test]
    fn never_more_threads_than_jobs() {
        assert_eq!(threads(NonZeroUsize::new(8), 3), 3);
        assert_eq!(threads(NonZeroUsize::new(2), 0), 1);
        assert!(threads(None, 100) >= 1);
    }
}
