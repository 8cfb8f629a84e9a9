//! The meaning of a block that the scan meets: a table with one row per case, exactly one row for
//! every combination of facts.

use Decision::*;

/// What kind of control block it claims to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    Descriptor,
    Revoke,
    Commit,
    /// A part of a coalition transaction.
    Coalition,
    /// A descriptor, revoke, commit block or superblock of `t` where a coalition part of `t`
    /// belongs, or its commit block.
    Misplaced,
    /// A superblock: never inside a log.
    Other,
}

/// What is known of the block where the next control block of transaction `t` should stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// It has the magic number, a known type, and the number `t`.
    pub ours: bool,
    pub control: Control,
    /// Its own checksum and structure are right (a v1 commit: the checksum of the whole
    /// transaction; a coalition part: the checksum).
    pub sound: bool,
    /// An earlier block of `t` was not sound.
    pub doubted: bool,
    /// A commit or last part whose time lies before the commit time of the previous transaction.
    pub older: bool,
    /// The log has the feature ASYNC_COMMIT.
    pub async_commit: bool,
    /// The log has the feature COALITION.
    pub feature: bool,
    /// Coalition parts of `t` stand before it: a part is expected, or the commit block behind the
    /// images.
    pub begun: bool,
    /// A part: its structure is right, it is the one whose turn it is, its blocks belong to the
    /// file system, and what it announces fits the ring.
    pub possible: bool,
    /// A part: the last one.
    pub last: bool,
    /// A last part: no commit block follows.
    pub self_commit: bool,
    /// A last part: the checksums of the transaction and of each image are right.
    pub whole: bool,
    /// The log goes on behind `t`: there is a commit block of `t`, or a sound block of the next
    /// transaction. Looked for only when something of a coalition transaction is missing or
    /// damaged, and never replayed.
    pub followed: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// The log ends before `t`.
    End,
    /// The log ends before `t`, and what follows is of an older life of the ring.
    EndStale,
    /// The log ends before `t`, whose commit record is damaged; the report says so.
    EndFailedCommit,
    /// Note the images that follow.
    TakeDescriptor,
    /// Note the revoked blocks.
    TakeRevoke,
    /// Note the records of a coalition part, and the images behind the last one.
    TakePart,
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
    feature: Option<bool>,
    begun: Option<bool>,
    possible: Option<bool>,
    last: Option<bool>,
    self_commit: Option<bool>,
    whole: Option<bool>,
    followed: Option<bool>,
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
    feature: None,
    begun: None,
    possible: None,
    last: None,
    self_commit: None,
    whole: None,
    followed: None,
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
const PART: Case = Case {
    ours: Some(true),
    control: Some(Control::Coalition),
    feature: Some(true),
    ..ANY
};
const TORN: Case = Case {
    sound: Some(false),
    ..PART
};
const POSSIBLE: Case = Case {
    sound: Some(true),
    possible: Some(true),
    ..PART
};
const WHOLE: Case = Case {
    last: Some(true),
    whole: Some(true),
    ..POSSIBLE
};
const NOT_WHOLE: Case = Case {
    last: Some(true),
    whole: Some(false),
    ..POSSIBLE
};

/// The table. The story of each letter:
///
/// - A: power failed before this block was written; what stands here is older, or was never a
///   control block.
/// - B: a superblock inside the log: not written by a commit.
/// - C, E: the ordinary blocks of a transaction.
/// - D, F: torn by the cut, or damaged later; only the commit block tells which.
/// - G: blocks of `t` are damaged and its "commit" is older than the transaction before it: an old
///   life of the ring that happens to carry the number.
/// - H: `t` was committed, so its blocks were durable, and now they are damaged: replaying the rest
///   would mix states.
/// - I: the ordinary end of a transaction.
/// - J: as G, found at the commit block itself.
/// - K: the commit block was torn by the cut; the transaction was never acknowledged. Reported,
///   because damage looks the same.
/// - L: with ASYNC_COMMIT a damaged commit block is expected after a cut.
///
/// Coalition transactions; none of them was acknowledged before all of it was durable:
/// - M: the power failed before all parts, or the commit block behind them, were written.
/// - N: as M, but the log goes on behind `t`, so `t` was durable: a part or the commit block was
///   lost since.
/// - O: an ordinary part.
/// - P: the ordinary end of a transaction without commit block.
/// - Q: a whole transaction of an old life of the ring that happens to carry the number
///   (hazards-H7).
/// - R: the power failed while parts and images were written, the last part was faster
///   (hazards-H14). Reported, as K.
/// - S: as R, but the log goes on: an image or a part was damaged since.
/// - T: the part was torn by the cut (hazards-H14). Reported, as K.
/// - U: as T, but the log goes on: damaged since.
/// - V: written so, for its checksum is right, but not by us: parts in wrong order, of another
///   number of parts or among stock blocks, impossible records, blocks outside the file system,
///   more images than the ring has. No cut leaves that.
/// - W: the same, the other way round: a stock block of `t` among its parts.
/// - X: the superblock lost the feature, or the log is not what it says: no cut leaves that either.
/// - Y: all parts and images are there; a commit block decides.
pub(crate) const CASES: &[Case] = &[
    Case {
        letter: 'A',
        ours: Some(false),
        begun: Some(false),
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
    Case {
        letter: 'M',
        ours: Some(false),
        begun: Some(true),
        followed: Some(false),
        decision: End,
        ..ANY
    },
    Case {
        letter: 'N',
        ours: Some(false),
        begun: Some(true),
        followed: Some(true),
        decision: Refuse,
        ..ANY
    },
    Case {
        letter: 'O',
        last: Some(false),
        decision: TakePart,
        ..POSSIBLE
    },
    Case {
        letter: 'P',
        older: Some(false),
        self_commit: Some(true),
        decision: Complete,
        ..WHOLE
    },
    Case {
        letter: 'Q',
        older: Some(true),
        decision: EndStale,
        ..WHOLE
    },
    Case {
        letter: 'R',
        followed: Some(false),
        decision: EndFailedCommit,
        ..NOT_WHOLE
    },
    Case {
        letter: 'S',
        followed: Some(true),
        decision: Refuse,
        ..NOT_WHOLE
    },
    Case {
        letter: 'T',
        followed: Some(false),
        decision: EndFailedCommit,
        ..TORN
    },
    Case {
        letter: 'U',
        followed: Some(true),
        decision: Refuse,
        ..TORN
    },
    Case {
        letter: 'V',
        sound: Some(true),
        possible: Some(false),
        decision: Refuse,
        ..PART
    },
    Case {
        letter: 'W',
        ours: Some(true),
        control: Some(Control::Misplaced),
        decision: Refuse,
        ..ANY
    },
    Case {
        letter: 'X',
        ours: Some(true),
        control: Some(Control::Coalition),
        feature: Some(false),
        decision: Refuse,
        ..ANY
    },
    Case {
        letter: 'Y',
        older: Some(false),
        self_commit: Some(false),
        decision: TakePart,
        ..WHOLE
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
            && fits(self.feature, f.feature)
            && fits(self.begun, f.begun)
            && fits(self.possible, f.possible)
            && fits(self.last, f.last)
            && fits(self.self_commit, f.self_commit)
            && fits(self.whole, f.whole)
            && fits(self.followed, f.followed)
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
        for bits in 0..4096u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            for control in [
                Control::Descriptor,
                Control::Revoke,
                Control::Commit,
                Control::Coalition,
                Control::Misplaced,
                Control::Other,
            ] {
                let facts = Facts {
                    ours: bit(0),
                    control,
                    sound: bit(1),
                    doubted: bit(2),
                    older: bit(3),
                    async_commit: bit(4),
                    feature: bit(5),
                    begun: bit(6),
                    possible: bit(7),
                    last: bit(8),
                    self_commit: bit(9),
                    whole: bit(10),
                    followed: bit(11),
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
