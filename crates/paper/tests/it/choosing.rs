//! `docs/use/choosing.md` says what its runs show.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use varve_paper::emmc::choosing::{jobs, page};
use varve_paper::emmc::job::Outcomes;
use varve_paper::emmc::{
    Plan,
    job::{Job, Work},
};

/// Runs all of them, one a core at a time.
fn run_all(jobs: &BTreeMap<String, Job>) -> Outcomes {
    let jobs: Vec<_> = jobs.iter().collect();
    let next = AtomicUsize::new(0);
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let one = || {
        let mut mine = Vec::new();
        while let Some((key, job)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = job.run().unwrap_or_else(|e| panic!("{key}: {e}"));
            mine.push(((*key).clone(), outcome));
        }
        mine
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(one)).collect();
        let mine = workers.into_iter().flat_map(|w| match w.join() {
            Ok(mine) => mine,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine.collect()
    })
}

#[test]
fn the_page_says_what_its_runs_show() {
    let plan = Plan::new(true, 1, None);
    let jobs: BTreeMap<String, Job> = jobs(&plan).into_iter().map(|j| (j.key(), j)).collect();
    let made = page(&plan, &run_all(&jobs)).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/choosing.md");
    if std::env::var_os("VARVE_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let shown = std::fs::read_to_string(&path).unwrap();
    assert!(
        shown == made,
        "docs/use/choosing.md is not what its runs show (VARVE_BLESS=1 writes it anew); they show:\n{made}"
    );
}
