//! The search for races of SQLite's write-ahead log, on the SQLite of this build.

#[path = "../../examples/wal_race/search.rs"]
mod search;

use rt::{Policy, SimConfig};
use search::{Shape, search};

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
