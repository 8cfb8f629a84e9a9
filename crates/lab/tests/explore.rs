//! The explorer end to end: one run, all its cuts, one oracle.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::Bound;
use varve_lab::crash::campaign::explore_subject;
use varve_lab::crash::cells::Cell;
use varve_lab::crash::{CrashConfig, Script, Target, Volume, small_volume, subject};

#[test]
fn a_small_mix_keeps_its_promises_under_every_preset() {
    for scheme in ["jbd2", "flush-ahead", "coalition", "emmc", "adaptive"] {
        let mut stack = small_volume(scheme.parse().unwrap(), "emmc-odroid-xu4", 1);
        stack.journal_blocks = Some(1024);
        let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
        let volume = Volume::new(&stack, &target).unwrap();
        let config = CrashConfig::new(stack, target, 3, Script::Fixed(Vec::new()), 0);
        let mix = subject::parse("mix").unwrap();
        let bound = Bound::default();
        let begun = std::time::Instant::now();
        let explored = explore_subject(&config, &volume, mix.as_ref(), &bound).unwrap();
        assert_eq!(explored.failure, None);
        assert!(explored.judged > 50, "{explored:?}");
        assert!(explored.findings.is_empty(), "{:?}", explored.findings);
        eprintln!(
            "{scheme}: {} judged, {} points, {} enumerated in {:?}",
            explored.judged,
            explored.points,
            explored.enumerated,
            begun.elapsed()
        );
    }
}
