//! Random programs: what is explored is allowed and the other way round, and what was synced is not
//! old.

use crate::script::{BOUND, Script, content, states};
use base::{Rng, Set};
use varve_program::posix::{Belief, Grain, Posix, RULES};
use varve_program::state::Bound;

/// Some calls on a few names.
pub fn program(rng: &mut Rng, calls: usize) -> Script {
    let mut script = Script::new().with_file("a", &[b'a'; 600]);
    script.mkdir("d");
    while script.len() < calls {
        let recording = script.recording();
        let name = |rng: &mut Rng| ["a", "b", "d/c", "d/e"][rng.below(4) as usize];
        let (one, other) = (name(rng), name(rng));
        let (there, free) = (script.has(one), !script.has(other));
        let fill = [b'0' + recording.calls.len() as u8; 700];
        match (rng.below(12), there) {
            (0..=2, true) => {
                let offset = rng.below(3) * 400;
                let len = rng.below(700) as usize + 1;
                script.write(one, offset, &fill[..len]);
            }
            (3, true) => drop(script.truncate(one, rng.below(900))),
            (4, true) => drop(script.zero(one, 100, 400)),
            (5, true) => drop(script.chmod(one, 0o600 + rng.below(8) as u16)),
            // Of two names of one file POSIX moves none, so that is no call.
            (6, true) if !script.is_same(one, other) => drop(script.rename(one, other)),
            (7, true) if free => drop(script.link(one, other)),
            (8, true) => drop(script.unlink(one)),
            (9, true) if rng.one_in(3) => drop(script.fsync(one)),
            (9, true) if rng.one_in(2) => drop(script.failed_fsync(one)),
            (9, true) => drop(script.fdatasync(one)),
            (10, _) if rng.one_in(3) => drop(script.fsync("d")),
            (10, _) => drop(script.fsync("")),
            (11, _) => drop(script.ack("x")),
            (_, false) => drop(script.create(one)),
            _ => (),
        }
    }
    script
}

fn models() -> Vec<Posix> {
    let mut models = vec![Posix::default(), Posix::new(&[], Grain::Sector)];
    models.extend(Belief::ALL.map(|belief| Posix::new(&[belief], Grain::Page)));
    models.push(Posix::new(&Belief::ALL, Grain::Sector));
    models
}

#[test]
fn what_is_explored_is_allowed() {
    let bound = Bound {
        states_max: 60,
        total_max: u64::MAX,
        ..BOUND
    };
    for seed in 0..60 {
        let recording = program(&mut Rng::named(seed, "programs"), 14).recording();
        for model in models() {
            for state in states(&model, &recording, &bound) {
                let allowed = model.allows(&recording, state.calls, &state.tree);
                assert_eq!(allowed, Ok(()), "seed {seed}, {model}, {}", state.line);
            }
        }
    }
}

#[test]
fn what_is_allowed_is_explored() {
    let all = Bound {
        states_max: 1 << 16,
        total_max: u64::MAX,
        parts_max: 8,
    };
    let few = Bound {
        states_max: 200,
        total_max: u64::MAX,
        parts_max: 2,
    };
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..40 {
        let script = program(&mut Rng::named(seed, "small"), 8);
        let recording = script.recording();
        for model in models() {
            let mut cut = model.cut(&recording, recording.calls.len()).unwrap();
            if cut.len() > 8 {
                continue;
            }
            let mut legal = Set::default();
            for state in states(&model, &recording, &all) {
                legal.insert((state.tree.hash(), state.acknowledged));
            }
            legal.retain(|(_, told)| *told == cut.acknowledged());
            // The last states of a recording without an acknowledgement at its end are those of all
            // cuts before; what a sync there has made illegal is told by the sets themselves.
            let parts = cut.len();
            let mut now = Set::default();
            for set in 0..1_u32 << parts {
                let lost = cut.close((0..parts).filter(|at| set >> at & 1 == 1));
                now.insert(cut.tree(&lost).hash());
            }
            assert!(
                now.iter()
                    .all(|hash| legal.contains(&(*hash, cut.acknowledged())))
            );
            for row in RULES {
                let weak = model.clone().without(row.rule);
                for state in states(&weak, &recording, &few) {
                    let allowed = model.allows(&recording, recording.calls.len(), &state.tree);
                    let expected = now.contains(&state.tree.hash());
                    let ended = recording.calls.last().map(|call| &call.what);
                    if allowed.is_ok() != expected && !is_sync(ended) {
                        panic!(
                            "seed {seed}, {model} without {}: {} {allowed:?}",
                            row.name, state.line
                        );
                    }
                    *if expected { &mut taken } else { &mut refused } += 1;
                }
            }
        }
    }
    assert!(refused > 1000 && taken > 1000, "{refused} {taken}");
}

fn is_sync(what: Option<&varve_program::call::What>) -> bool {
    use varve_program::call::What;
    matches!(what, Some(What::Sync { .. } | What::SyncAll))
}

#[test]
fn after_a_sync_exactly_the_synced_content_is_allowed() {
    let model = Posix::default();
    let (mut old, mut new) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::named(seed, "synced");
        let mut script = Script::new()
            .with_file("a", &[1; 5000])
            .with_file("b", &[2; 300]);
        for call in 0..6_u8 {
            let name = ["a", "b"][rng.below(2) as usize];
            if rng.one_in(4) {
                script.truncate(name, rng.below(9000));
            } else {
                script.write(name, rng.below(6000), &[call + 3; 500]);
            }
        }
        let before = script.len();
        script.fdatasync("a").ack("synced");
        let recording = script.recording();
        let mut cut = model.cut(&recording, before).unwrap();
        let whole = cut.tree(&cut.close([]));
        for state in states(&model, &recording, &BOUND) {
            let same = content(&state.tree, "a") == content(&whole, "a");
            let allowed = model.allows(&recording, recording.calls.len(), &state.tree);
            assert_eq!(
                allowed.is_ok(),
                same,
                "seed {seed}, {}: {allowed:?}",
                state.line
            );
            assert!(
                same || state.acknowledged == 0,
                "seed {seed}, {}",
                state.line
            );
            *if same { &mut new } else { &mut old } += 1;
        }
    }
    assert!(old > 300 && new > 300, "{old} {new}");
}
