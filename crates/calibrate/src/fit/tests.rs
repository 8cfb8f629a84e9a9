//! Steps of a fit that its outcome shows in rare cases only.

use super::*;
use crate::fields::{number, path};

/// What a profile's model shows.
fn shown(device: &str, bytes: u64) -> Seen {
    let profile = Profile::parse(device).unwrap();
    let wanted = Wanted {
        area: 64 << 20,
        depth: false,
        durable: true,
        discard: false,
    };
    let plan = Plan::of(profile.build(None, None).unwrap().caps(), wanted);
    predict(&profile, &plan, BURST_AREA, bytes).unwrap()
}

#[test]
fn a_size_of_the_cache_that_is_not_found_again_is_taken_back() {
    // No burst fills this one.
    let seen = shown("emmc-odroid-xu4,card.cache_kib=32768", 256 << 20);
    let text = Profile::text_of("emmc-odroid-xu4").unwrap();
    let mut problem = Problem::new(&text, &[], &seen).unwrap();
    let name = problem.sort.cache.expect("it has a cache");
    let path = path(&problem.table, &problem.set, name);
    let of_template = number(&problem.origin, &path);
    // As an earlier round may have done.
    put(&mut problem.table, &path, Value::Integer(64));
    assert_eq!(problem.find_cache().unwrap(), None);
    assert!(of_template.is_some());
    assert_eq!(number(&problem.table, &path), of_template);
}

#[test]
fn so_many_measurements_are_left_out_and_no_more() {
    let mut seen = shown("loop-like", 64 << 20);
    let single: Vec<Probe> = seen.keys().copied().filter(|p| !p.is_burst()).collect();
    let wrong = Probe::Flush { kib: 16 };
    if let Some(flush) = seen.get_mut(&wrong) {
        let us = flush.us * 5.0;
        (flush.us, flush.low, flush.high) = (us, us, us);
    }
    let text = Profile::text_of("loop-like").unwrap();
    for (before, after) in [(OUTLIERS - 1, OUTLIERS), (OUTLIERS, OUTLIERS)] {
        let mut problem = Problem::new(&text, &[], &seen).unwrap();
        // Those that earlier rounds of the same fit have left out.
        let others = single.iter().filter(|probe| **probe != wrong);
        problem.left_out = others.take(before).copied().collect();
        let places = problem.places(problem.sort.main);
        problem.without_outliers(&places).unwrap();
        assert_eq!(problem.left_out.len(), after);
        assert_eq!(problem.left_out.contains(&wrong), before < OUTLIERS);
    }
}
