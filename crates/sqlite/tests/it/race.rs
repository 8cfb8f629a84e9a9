//! The search for races of SQLite's write-ahead log, on the SQLite of this build.

#[path = "../../examples/wal_race/search.rs"]
mod search;

use rt::{DELAYS, Policy, SimConfig};
use search::{Shape, search};
use varve_sqlite::Points;

/// SQLite 3.51.1 loses rows or the database in one of 440 of these schedules (`cargo xtask
/// sqlite-race`); versions from 3.51.3 on are mended.
#[test]
fn no_stall_between_a_header_and_a_checkpoint_loses_a_row() {
    for seed in 0..300 {
        let policy = Policy::Stalls {
            one_in: 100,
            below: 5_000_000,
        };
        let config = SimConfig {
            policy,
            ..SimConfig::seeded(seed)
        };
        let (why, points) = search(config, Shape::default());
        assert_eq!(why, None, "seed {seed}");
        assert!(points > 500, "no schedule: {points} points");
    }
}

fn with_mutexes() -> Shape {
    Shape {
        points: Points::Mutexes,
        ..Shape::default()
    }
}

/// As above, with SQLite's mutexes among the points.
#[test]
fn no_stall_at_a_mutex_of_sqlite_loses_a_row() {
    for seed in 0..100 {
        let policy = Policy::Stalls {
            one_in: 100,
            below: 5_000_000,
        };
        let config = SimConfig {
            policy,
            ..SimConfig::seeded(seed)
        };
        assert_eq!(search(config, with_mutexes()).0, None, "seed {seed}");
    }
}

/// Points of a run in which nothing is put off.
fn points(shape: Shape) -> u64 {
    let config = SimConfig {
        policy: Policy::Delays([u64::MAX; DELAYS]),
        ..SimConfig::seeded(1)
    };
    let (why, points) = search(config, shape);
    assert_eq!(why, None);
    points
}

/// Another connection may run where SQLite enters and leaves its mutexes, if that is asked for, and
/// nowhere else.
#[test]
fn mutexes_of_sqlite_are_points_where_they_are_asked_for() {
    let before = points(Shape::default());
    let all = points(with_mutexes());
    assert!(all > before + 500, "{before} and {all}");
    assert_eq!(points(Shape::default()), before, "they stay points");
}
