//! What a block met in the scan means: one row per case, exactly one row for every combination of facts.

use Decision::*;

/// What kind of control block it claims to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    Descriptor,
    Revoke,
    Commit,
    /// A superblock: never inside a log.
    Other,
}

/// What is known of the block where the next control block of transaction `t` should stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// It has the magic number, a known type, and the number `t`.
    pub ours: bool,
    pub control: Control,
    /// Its own checksum and structure are right (a v1 commit: the checksum of the whole transaction).
    pub sound: bool,
    /// An earlier block of `t` was not sound.
    pub doubted: bool,
    /// A commit whose time lies before the commit time of the previous transaction.
    pub older: bool,
    /// The log has the feature ASYNC_COMMIT.
    pub async_commit: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// The log ends before `t`.
    End,
    /// The log ends before `t`, and what follows is of an older life of the ring.
    EndStale,
    /// The log ends before `t`, whose commit record is damaged: say so.
    EndFailedCommit,
    /// Note the images that follow.
    TakeDescriptor,
    /// Note the revoked blocks.
    TakeRevoke,
    /// Go on, but decide about `t` at its commit block.
    Doubt,
    /// `t` is complete.
    Complete,
    /// Refuse: a transaction that counts as committed is damaged.
    Refuse,
}

/// One row; `None` matches both.
pub(crate) struct Case {
    pub letter: char,
    ours: Option<bool>,
    control: Option<Control>,
    sound: Option<bool>,
    doubted: Option<bool>,
    older: Option<bool>,
    async_commit: Option<bool>,
    pub decision: Decision,
}

const ANY: Case = Case {
    letter: '?',
    ours: None,
    control: None,
    sound: None,
    doubted: None,
    older: None,
    async_commit: None,
    decision: End,
};
const DESCRIPTOR: Case = Case {
    ours: Some(true),
    control: Some(Control::Descriptor),
    ..ANY
};
const REVOKE: Case = Case {
    ours: Some(true),
    control: Some(Control::Revoke),
    ..ANY
};
const COMMIT: Case = Case {
    ours: Some(true),
    control: Some(Control::Commit),
    ..ANY
};
const DOUBTED: Case = Case {
    doubted: Some(true),
    ..COMMIT
};
const TRUSTED: Case = Case {
    doubted: Some(false),
    ..COMMIT
};
const DAMAGED: Case = Case {
    sound: Some(false),
    ..TRUSTED
};

/// The table. The story of each letter:
///
/// - A: power failed before this block was written; what stands here is older, or was never a control block.
/// - B: a superblock inside the log: not written by a commit.
/// - C, E: the ordinary blocks of a transaction.
/// - D, F: torn by the cut, or damaged later; only the commit block tells which.
/// - G: blocks of `t` are damaged and its "commit" is older than the transaction before it: an old life of the ring that
///   happens to carry the number.
/// - H: `t` was committed, so its blocks were durable, and now they are damaged: replaying the rest would mix states.
/// - I: the ordinary end of a transaction.
/// - J: as G, found at the commit block itself.
/// - K: the commit block was torn by the cut; the transaction was never acknowledged. Reported, because damage looks the same.
/// - L: with ASYNC_COMMIT a damaged commit block is expected after a cut.
pub(crate) const CASES: &[Case] = &[
    Case {
        letter: 'A',
        ours: Some(false),
        decision: End,
        ..ANY
    },
    Case {
        letter: 'B',
        ours: Some(true),
        control: Some(Control::Other),
        decision: End,
        ..ANY
    },
    Case {
        letter: 'C',
        sound: Some(true),
        decision: TakeDescriptor,
        ..DESCRIPTOR
    },
    Case {
        letter: 'D',
        sound: Some(false),
        decision: Doubt,
        ..DESCRIPTOR
    },
    Case {
        letter: 'E',
        sound: Some(true),
        decision: TakeRevoke,
        ..REVOKE
    },
    Case {
        letter: 'F',
        sound: Some(false),
        decision: Doubt,
        ..REVOKE
    },
    Case {
        letter: 'G',
        older: Some(true),
        decision: EndStale,
        ..DOUBTED
    },
    Case {
        letter: 'H',
        older: Some(false),
        decision: Refuse,
        ..DOUBTED
    },
    Case {
        letter: 'I',
        sound: Some(true),
        decision: Complete,
        ..TRUSTED
    },
    Case {
        letter: 'J',
        older: Some(true),
        decision: EndStale,
        ..DAMAGED
    },
    Case {
        letter: 'K',
        older: Some(false),
        async_commit: Some(false),
        decision: EndFailedCommit,
        ..DAMAGED
    },
    Case {
        letter: 'L',
        older: Some(false),
        async_commit: Some(true),
        decision: End,
        ..DAMAGED
    },
];

impl Case {
    fn matches(&self, f: &Facts) -> bool {
        fn fits<T: PartialEq>(pattern: Option<T>, value: T) -> bool {
            pattern.is_none_or(|p| p == value)
        }
        fits(self.ours, f.ours)
            && fits(self.control, f.control)
            && fits(self.sound, f.sound)
            && fits(self.doubted, f.doubted)
            && fits(self.older, f.older)
            && fits(self.async_commit, f.async_commit)
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

    #[test]
    fn every_combination_has_exactly_one_case() {
        let mut used = std::collections::BTreeSet::new();
        for bits in 0..32u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            for control in [
                Control::Descriptor,
                Control::Revoke,
                Control::Commit,
                Control::Other,
            ] {
                let facts = Facts {
                    ours: bit(0),
                    control,
                    sound: bit(1),
                    doubted: bit(2),
                    older: bit(3),
                    async_commit: bit(4),
                };
                let hits: Vec<char> = CASES
                    .iter()
                    .filter(|c| c.matches(&facts))
                    .map(|c| c.letter)
                    .collect();
                assert_eq!(hits.len(), 1, "{facts:?} matches {hits:?}");
                used.insert(hits[0]);
            }
        }
        assert_eq!(used.len(), CASES.len(), "a case that nothing reaches");
        assert!(CASES.is_sorted_by_key(|c| c.letter));
    }
}
