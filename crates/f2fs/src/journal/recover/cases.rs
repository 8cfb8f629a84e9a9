//! Decides what the state of a journal means at mount: a table of cases, of which exactly one fits
//! every combination of facts.
//!
//! A is the epoch that the checkpoint pack contains, E the last one of the chain of whole
//! transactions A + 1, A + 2, ... How each case comes about:
//!
//! - A: no copy of the journal superblock can be read: where the ring begins and which of its
//!   transactions count is not known;
//! - B: the copies are sound, but of another volume: a device that was put together of two;
//! - C: the copies do not fit the description in the F2FS superblock: length, block size or
//!   version;
//! - D: software that does not know the journal (a kernel, or this implementation with the journal
//!   switched off) wrote checkpoints after the journal had been left empty. Nothing is lost; the
//!   ring begins anew;
//! - E: as D, but with epochs in the ring: they changed a state of the volume that no longer
//!   exists. They are lost, and never replayed;
//! - F: the ring ends where the pack does: nothing was committed since;
//! - G: as F; what stands behind that place is of an older life of the ring (another incarnation);
//! - H: as F; the first transaction was being written when the power failed. It was never
//!   acknowledged;
//! - I: the ordinary crash: whole transactions, and behind them nothing of this lap;
//! - J: as I, and behind the transactions stands a block of an older life of the ring;
//! - K, L, M: as I; the last transaction was being written: its descriptor (K), its records (L) or
//!   its commit block (M) is missing;
//! - N: a descriptor or commit block whose checksum is right has impossible content. No cut leaves
//!   that;
//! - O: a hole: a block of a later epoch than E + 1 is there, and it was written only when E + 1
//!   was durable. This is damage of the medium: acknowledged operations are lost, so the volume may
//!   not be written before its user has decided;
//! - P, Q: as O, on a journal that was used without barriers: a power cut can leave that. The chain
//!   ends at E;
//! - R: a record of the chain contradicts itself or the volume, in a transaction whose checksums
//!   are right;
//! - S: a record of the chain is of a kind that is not supported here;
//! - T, U: as H and as I to M, but the last transaction is whole, and data that it maps is not, and
//!   nothing of a later epoch is there: the power failed before the flush behind both (scan-S4). It
//!   was never acknowledged;
//! - V: as U, but a block of a later epoch is there, so the data was durable: damage of the medium.
//!   All of it is redone, because what the file system says of itself is sound.

use Chain::*;
use Content::*;
use Decision::*;
use Front::*;

/// What the two copies of the journal superblock say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Supers {
    /// At least one copy is sound and fits the volume.
    Fit,
    /// No copy is sound.
    Damaged,
    /// The copies belong to another volume.
    Foreign,
    /// The copies describe another ring: length, block size, version.
    Misfit,
}

/// The transactions A + 1 to E.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chain {
    /// There is no transaction behind the pack: E = A.
    Empty,
    /// There is at least one, and all records are possible.
    Sound,
    /// A record is impossible.
    Damaged,
    /// A record is of a kind that is not supported.
    Unsupported,
}

/// What stands where transaction E + 1 would begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// Nothing of this lap.
    Unwritten,
    /// A sound block of another incarnation follows.
    Stale,
    /// A damaged descriptor, or blocks of a transaction without its descriptor.
    TornDescriptor,
    /// A sound descriptor; a block of records is missing.
    TornRecords,
    /// Everything but the commit block is there.
    TornCommit,
    /// A block whose checksum is right and whose content is impossible.
    Impossible,
}

/// The data of which the last whole transaction has checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// It is what was written, or there is none.
    Whole,
    /// It is not, and nothing shows that it ever was durable. The transaction is not counted in the
    /// chain.
    Torn,
    /// It is not, though it was durable.
    Altered,
}

/// What is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub supers: Supers,
    /// The pack carries the applied mark of its own version and of this volume.
    pub stamped: bool,
    /// The journal superblock says that the ring was left empty.
    pub idle: bool,
    pub chain: Chain,
    pub front: Front,
    /// A sound block of this incarnation, of an epoch behind E + 1, is somewhere in the ring.
    pub beyond: bool,
    pub content: Content,
    /// Commits were ordered by flushes.
    pub barrier: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// The pack is the newest state.
    Nothing,
    /// Redo the chain.
    Replay,
    /// Forget what is in the ring.
    Restart,
    /// Redo the chain, for mounts that only read; refuse others.
    RefuseWrite,
    /// Refuse, unless the mount wants no recovery.
    Refuse,
}

/// One row; an empty list matches all.
pub(crate) struct Case {
    pub letter: char,
    supers: &'static [Supers],
    stamped: &'static [bool],
    idle: &'static [bool],
    chain: &'static [Chain],
    front: &'static [Front],
    beyond: &'static [bool],
    content: &'static [Content],
    barrier: &'static [bool],
    pub decision: Decision,
    /// What was found.
    what: &'static str,
    /// What to do about it; empty if there is nothing to do.
    todo: &'static str,
}

const ANY: Case = Case {
    letter: '?',
    supers: &[],
    stamped: &[],
    idle: &[],
    chain: &[],
    front: &[],
    beyond: &[],
    content: &[],
    barrier: &[],
    decision: Refuse,
    what: "",
    todo: "",
};
/// The journal is known to belong to this pack.
const OURS: Case = Case {
    supers: &[Supers::Fit],
    stamped: &[true],
    ..ANY
};
/// Nothing behind what the pack says.
const EMPTY: Case = Case {
    chain: &[Empty],
    beyond: &[false],
    // Without a chain no data is compared.
    content: &[Whole, Altered],
    decision: Nothing,
    ..OURS
};
/// The crash.
const CRASH: Case = Case {
    chain: &[Sound],
    beyond: &[false],
    content: &[Whole],
    decision: Replay,
    ..OURS
};
const TORN: &[Front] = &[TornDescriptor, TornRecords, TornCommit];
const POSSIBLE: &[Front] = &[Unwritten, Stale, TornDescriptor, TornRecords, TornCommit];

const GIVE_UP: &str =
    "`ro,norecovery` shows the last checkpoint, `disable_roll_forward` gives up what came after it";

/// The table.
pub(crate) const CASES: &[Case] = &[
    Case {
        letter: 'A',
        supers: &[Supers::Damaged],
        what: "both copies of the journal superblock are damaged",
        todo: GIVE_UP,
        ..ANY
    },
    Case {
        letter: 'B',
        supers: &[Supers::Foreign],
        what: "the journal belongs to another volume",
        todo: "put the right device back, or: `ro,norecovery` shows the last checkpoint, `disable_roll_forward` gives up what came after it",
        ..ANY
    },
    Case {
        letter: 'C',
        supers: &[Supers::Misfit],
        what: "the journal is not the one that the F2FS superblock describes",
        todo: GIVE_UP,
        ..ANY
    },
    Case {
        letter: 'D',
        supers: &[Supers::Fit],
        stamped: &[false],
        idle: &[true],
        decision: Restart,
        what: "another implementation wrote the volume after the journal was left empty; the journal begins anew",
        ..ANY
    },
    Case {
        letter: 'E',
        supers: &[Supers::Fit],
        stamped: &[false],
        idle: &[false],
        decision: Restart,
        what: "another implementation wrote the volume while the journal held epochs; they are lost: they belong to a state that was \
               overwritten",
        todo: "run fsck; unmount cleanly before the volume is mounted without its journal",
        ..ANY
    },
    Case {
        letter: 'F',
        front: &[Unwritten],
        what: "nothing was committed after the last checkpoint",
        ..EMPTY
    },
    Case {
        letter: 'G',
        front: &[Stale],
        what: "nothing was committed after the last checkpoint; what is in the ring is of an older life of it",
        ..EMPTY
    },
    Case {
        letter: 'H',
        front: TORN,
        what: "nothing was committed after the last checkpoint; the first transaction is torn, and was never acknowledged",
        ..EMPTY
    },
    Case {
        letter: 'I',
        front: &[Unwritten],
        what: "the volume was not unmounted; its transactions are whole",
        ..CRASH
    },
    Case {
        letter: 'J',
        front: &[Stale],
        what: "the volume was not unmounted; its transactions are whole, and what follows is of an older life of the ring",
        ..CRASH
    },
    Case {
        letter: 'K',
        front: &[TornDescriptor],
        what: "the volume was not unmounted; the descriptor of the last transaction is torn, and it was never acknowledged",
        ..CRASH
    },
    Case {
        letter: 'L',
        front: &[TornRecords],
        what: "the volume was not unmounted; records of the last transaction are torn, and it was never acknowledged",
        ..CRASH
    },
    Case {
        letter: 'M',
        front: &[TornCommit],
        what: "the volume was not unmounted; the last transaction has no commit block, and was never acknowledged",
        ..CRASH
    },
    Case {
        letter: 'N',
        chain: &[Empty, Sound],
        front: &[Impossible],
        what: "a block of the journal has the right checksum, and says what cannot be",
        todo: GIVE_UP,
        ..OURS
    },
    Case {
        letter: 'O',
        chain: &[Empty, Sound],
        front: POSSIBLE,
        beyond: &[true],
        barrier: &[true],
        decision: RefuseWrite,
        what: "the journal has a hole: a transaction is damaged that was durable before the next one was written",
        todo: "mount read-only to copy what is there (the state before the hole); `disable_roll_forward` gives up what came after \
               the last checkpoint",
        ..OURS
    },
    Case {
        letter: 'P',
        chain: &[Empty],
        front: POSSIBLE,
        beyond: &[true],
        barrier: &[false],
        decision: Nothing,
        what: "the journal was used without barriers, and its first transaction did not survive the power cut: what came after the last \
               checkpoint is lost",
        todo: "use barriers unless the device keeps its cache",
        ..OURS
    },
    Case {
        letter: 'Q',
        chain: &[Sound],
        front: POSSIBLE,
        beyond: &[true],
        barrier: &[false],
        decision: Replay,
        what: "the journal was used without barriers, and a transaction did not survive the power cut: what came after it is lost",
        todo: "use barriers unless the device keeps its cache",
        ..OURS
    },
    Case {
        letter: 'R',
        chain: &[Damaged],
        what: "a record of the journal cannot be, though the checksums of its transaction are right",
        todo: GIVE_UP,
        ..OURS
    },
    Case {
        letter: 'S',
        chain: &[Unsupported],
        what: "a record of the journal is of a kind that is not supported here",
        todo: "mount it with the implementation that wrote it, or: `ro,norecovery` shows the last checkpoint",
        ..OURS
    },
    Case {
        letter: 'T',
        front: POSSIBLE,
        content: &[Torn],
        what: "nothing was committed after the last checkpoint; data of the first transaction did not survive the power cut, and it was \
               never acknowledged",
        ..EMPTY
    },
    Case {
        letter: 'U',
        front: POSSIBLE,
        content: &[Torn],
        what: "the volume was not unmounted; data of the last transaction did not survive the power cut, and it was never acknowledged",
        ..CRASH
    },
    Case {
        letter: 'V',
        front: POSSIBLE,
        content: &[Altered],
        what: "the volume was not unmounted; data of the last transaction is damaged, though it was durable before the power cut",
        todo: "the medium lost what it had promised to keep: restore the file that has this block from a copy",
        ..CRASH
    },
];

impl Case {
    fn matches(&self, f: &Facts) -> bool {
        fn fits<T: PartialEq>(pattern: &[T], value: &T) -> bool {
            pattern.is_empty() || pattern.contains(value)
        }
        fits(self.supers, &f.supers)
            && fits(self.stamped, &f.stamped)
            && fits(self.idle, &f.idle)
            && fits(self.chain, &f.chain)
            && fits(self.front, &f.front)
            && fits(self.beyond, &f.beyond)
            && fits(self.content, &f.content)
            && fits(self.barrier, &f.barrier)
    }

    /// The message: what, where, what to do.
    pub fn message(&self, place: &str) -> String {
        let (letter, what, todo) = (self.letter, self.what, self.todo);
        match todo {
            "" => format!("journal, case {letter}: {what} ({place})"),
            _ => format!("journal, case {letter}: {what} ({place}); {todo}"),
        }
    }

    /// True if the user should be told of it.
    pub fn is_notable(&self) -> bool {
        !self.todo.is_empty() || self.decision == Restart
    }
}

/// The case that applies.
pub(crate) fn classify(facts: &Facts) -> &'static Case {
    let case = CASES.iter().find(|c| c.matches(facts));
    case.expect("the table covers every combination; a test enumerates them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Facts> {
        let mut all = Vec::new();
        for bits in 0..16u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            for supers in [
                Supers::Fit,
                Supers::Damaged,
                Supers::Foreign,
                Supers::Misfit,
            ] {
                for chain in [Empty, Sound, Damaged, Unsupported] {
                    for front in [
                        Unwritten,
                        Stale,
                        TornDescriptor,
                        TornRecords,
                        TornCommit,
                        Impossible,
                    ] {
                        all.extend([Whole, Torn, Altered].map(|content| Facts {
                            supers,
                            stamped: bit(0),
                            idle: bit(1),
                            chain,
                            front,
                            beyond: bit(2),
                            content,
                            barrier: bit(3),
                        }));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_combination_has_exactly_one_case() {
        let mut used = BTreeSet::new();
        for facts in all() {
            let hits: Vec<char> = CASES
                .iter()
                .filter(|c| c.matches(&facts))
                .map(|c| c.letter)
                .collect();
            assert_eq!(hits.len(), 1, "{facts:?} matches {hits:?}");
            used.insert(hits[0]);
        }
        assert_eq!(used.len(), CASES.len(), "a case that nothing reaches");
        assert!(CASES.is_sorted_by_key(|c| c.letter));
    }

    /// What must never be, whatever the rows say.
    #[test]
    fn nothing_is_replayed_that_is_not_known_to_be_ours_and_whole() {
        for facts in all() {
            let decision = classify(&facts).decision;
            let ours = facts.supers == Supers::Fit && facts.stamped;
            let replays = matches!(decision, Replay | RefuseWrite);
            assert!(!replays || ours, "{facts:?}");
            assert!(
                !replays || matches!(facts.chain, Sound | Empty),
                "{facts:?}"
            );
            let hole = facts.beyond && facts.barrier && ours;
            let writes = matches!(decision, Replay | Nothing | Restart);
            assert!(!hole || !writes, "a hole is written over: {facts:?}");
            let restarts = decision == Restart;
            assert!(!restarts || !ours, "epochs of ours are lost: {facts:?}");
        }
    }

    #[test]
    fn messages_say_what_where_and_what_to_do() {
        for case in CASES {
            let text = case.message("ring block 7");
            assert!(
                text.contains("ring block 7") && text.contains(&format!("case {}", case.letter))
            );
            let refuses = matches!(case.decision, Refuse | RefuseWrite);
            assert!(!refuses || !case.todo.is_empty(), "{text}");
            assert!(!refuses || case.is_notable());
        }
    }
}
