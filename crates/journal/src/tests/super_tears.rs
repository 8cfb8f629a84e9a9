//! log_super-J1, log_super-J4: cuts every write of the journal superblock, in the lives of a log
//! under all presets that copy homes, between any two of its sectors.

use super::disk::Event;
use super::*;
use crate::Preset;
use base::{SECTOR_BYTES, SECTORS_PER_BLOCK};
use block::Class;

/// Where the superblock lies.
const HOME: u64 = 1;

/// Commits, moves the tail, stops; starts again, commits and ends with an error; recovers.
fn lives(preset: Preset, checksum_v3: bool) -> Rig {
    let rig = Rig::new(60, 24);
    let options = || Options {
        scheme: preset.scheme(),
        checksum_v3,
        ..quiet()
    };
    for last in [false, true] {
        let journal = rig.start(options());
        for n in 0..12 {
            let mut handle = journal.start(2).expect("room");
            let block = rig.first().plus(n % 4);
            handle.create(block, filled(n as u8)).expect("credit");
            if n % 3 == 2 {
                handle.forget(rig.first().plus(3)).expect("credit");
            }
            journal
                .commit(handle.finish().expect("runs"))
                .expect("commits");
        }
        match last {
            false => journal.stop().expect("stops"),
            true => crash(&journal),
        }
    }
    rig.recover().expect("recovers");
    rig
}

#[test]
fn j4_a_cut_between_two_sectors_leaves_the_old_superblock_or_the_new_one() {
    let presets = [
        Preset::Jbd2,
        Preset::FlushAhead,
        Preset::Coalition,
        Preset::CoalitionPaper,
        Preset::Emmc,
        Preset::EmmcPaper,
        Preset::Adaptive,
    ];
    for (preset, checksum_v3) in presets.into_iter().flat_map(|p| [(p, true), (p, false)]) {
        let rig = lives(preset, checksum_v3);
        let (mut old, mut writes, mut seen) = (empty_log(24), 0, Vec::new());
        for event in rig.disk.events() {
            let Event::Write {
                block: HOME,
                bytes: new,
                fua,
                class,
            } = event
            else {
                continue;
            };
            assert!(
                fua && class == Class::JournalSuperblock,
                "log_super-J1: {preset}"
            );
            let states = [&old, &new].map(|s| Superblock::parse(s).expect("sound"));
            for cut in 0..=SECTORS_PER_BLOCK as usize {
                for (first, then) in [(&new, &old), (&old, &new)] {
                    let at = cut * SECTOR_BYTES;
                    let torn = [&first[..at], &then[at..]].concat();
                    let found = Superblock::parse(&torn).expect("log_super-J4: never torn");
                    assert!(
                        states.contains(&found),
                        "log_super-J4: {preset}, sector {cut}"
                    );
                }
            }
            writes += 1;
            let sb = Superblock::parse(&new).expect("sound");
            seen.push((sb.is_clean(), sb.errno()));
            old = new;
        }
        // It began, its tail moved, it ended, ended with an error, and was recovered.
        assert!(writes > 5, "{preset}: {writes}");
        for kind in [(false, 0), (true, 0), (false, -5)] {
            assert!(seen.contains(&kind), "{preset}: {seen:?}");
        }
    }
}
