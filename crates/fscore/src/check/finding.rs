//! What a check finds: a kind, whose number and name never change, the place, and the facts.

use base::{BlockNo, Ino};
use std::fmt;

/// A kind of findings; [`kinds!`](crate::kinds) makes the kinds of a file system.
pub trait FindingKind: Copy {
    /// What stands before the number, so that kinds of two file systems are told apart.
    const LETTER: char;
    /// A block cannot be read.
    const UNREADABLE: Self;
    /// Its number.
    fn number(self) -> u16;
    /// Its name.
    fn name(self) -> &'static str;
}

/// Makes the enum `Kind` of a file system's findings from one list: each kind has a number, a name,
/// and an advice what to do about it. Among them is `Unreadable`.
///
/// With the list comes a test: numbers ascend, and no name stands twice.
#[macro_export]
macro_rules! kinds {
    (
        $(#[$attr:meta])*
        letter $letter:literal;
        $($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, $advice:literal;)*
    ) => {
        $(#[$attr])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Kind { $($(#[$doc])* $kind = $number,)* }

        impl Kind {
            /// All of them, by number.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// Its number.
            pub const fn number(self) -> u16 {
                self as u16
            }
            /// Its name, e.g. `link-count`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),* }
            }
            /// What to do about it.
            pub const fn advice(self) -> &'static str {
                match self { $(Kind::$kind => $advice),* }
            }
        }

        impl $crate::check::FindingKind for Kind {
            const LETTER: char = $letter;
            const UNREADABLE: Kind = Kind::Unreadable;
            fn number(self) -> u16 {
                Kind::number(self)
            }
            fn name(self) -> &'static str {
                Kind::name(self)
            }
        }

        #[cfg(test)]
        #[test]
        fn numbers_and_names_are_unique_and_in_order() {
            for pair in Kind::ALL.windows(2) {
                assert!(pair[0].number() < pair[1].number(), "{pair:?}");
            }
            let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|k| k.name()).collect();
            assert_eq!(names.len(), Kind::ALL.len());
        }
    };
}

/// One finding. It has the places that say something about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding<K> {
    /// What it is.
    pub kind: K,
    /// The block group that it concerns.
    pub group: Option<u64>,
    /// The inode that it concerns.
    pub ino: Option<Ino>,
    /// The node that it concerns, if not the inode.
    pub nid: Option<u64>,
    /// The segment that it concerns.
    pub segment: Option<u64>,
    /// The block of the device in which it lies.
    pub block: Option<BlockNo>,
    /// The facts.
    pub what: String,
}

impl<K> Finding<K> {
    /// A finding without a place.
    pub fn new(kind: K, what: impl Into<String>) -> Finding<K> {
        Finding {
            kind,
            group: None,
            ino: None,
            nid: None,
            segment: None,
            block: None,
            what: what.into(),
        }
    }
    /// The finding, at this block group.
    #[must_use]
    pub fn group(mut self, group: impl Into<u64>) -> Finding<K> {
        self.group = Some(group.into());
        self
    }
    /// The finding, at this inode.
    #[must_use]
    pub fn ino(mut self, ino: impl Into<u64>) -> Finding<K> {
        self.ino = Some(Ino(ino.into() as u32));
        self
    }
    /// The finding, at this node. The node of the inode that was named already adds nothing.
    #[must_use]
    pub fn nid(mut self, nid: impl Into<u64>) -> Finding<K> {
        let nid = nid.into();
        self.nid = Some(nid).filter(|nid| self.ino.is_none_or(|ino| u64::from(ino.0) != *nid));
        self
    }
    /// The finding, at this segment.
    #[must_use]
    pub fn segment(mut self, segment: impl Into<u64>) -> Finding<K> {
        self.segment = Some(segment.into());
        self
    }
    /// The finding, at this block of the device.
    #[must_use]
    pub fn block(mut self, block: impl Into<u64>) -> Finding<K> {
        self.block = Some(BlockNo(block.into()));
        self
    }
}

impl<K: FindingKind> fmt::Display for Finding<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{} {}",
            K::LETTER,
            self.kind.number(),
            self.kind.name()
        )?;
        let places = [
            ("group", self.group),
            ("inode", self.ino.map(|ino| ino.0.into())),
            ("node", self.nid),
            ("segment", self.segment),
            ("block", self.block.map(|block| block.0)),
        ];
        let mut before = " (";
        for (what, place) in places {
            if let Some(number) = place {
                write!(f, "{before}{what} {number}")?;
                before = ", ";
            }
        }
        let after = if before == ", " { ")" } else { "" };
        write!(f, "{after}: {}", self.what)
    }
}

/// The findings of a check, at most as many as asked for.
#[derive(Debug)]
pub struct Findings<K> {
    limit: usize,
    /// Those that are kept, in the order in which they were met.
    pub list: Vec<Finding<K>>,
    /// How many came after the limit was reached.
    pub beyond: u64,
}

impl<K> Findings<K> {
    /// No findings yet; the first `limit` will be kept.
    pub const fn new(limit: usize) -> Findings<K> {
        Findings {
            limit,
            list: Vec::new(),
            beyond: 0,
        }
    }
    /// Adds a finding about an inode.
    pub fn at_inode(&mut self, ino: impl Into<u64>, kind: K, what: impl Into<String>) {
        self.add(Finding::new(kind, what).ino(ino));
    }
    /// Adds a finding about a block of the device.
    pub fn at_block(&mut self, block: impl Into<u64>, kind: K, what: impl Into<String>) {
        self.add(Finding::new(kind, what).block(block));
    }
    /// Adds a finding about a segment.
    pub fn at_segment(&mut self, segment: impl Into<u64>, kind: K, what: impl Into<String>) {
        self.add(Finding::new(kind, what).segment(segment));
    }
    /// Keeps or counts a finding.
    pub fn add(&mut self, finding: Finding<K>) {
        if self.list.len() < self.limit {
            self.list.push(finding);
        } else {
            self.beyond += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    kinds! {
        /// Kinds for this test.
        letter 'T';
        /// Too many or too few names.
        LinkCount = 308, "link-count", "count again";
        /// A block cannot be read.
        Unreadable = 901, "unreadable", "copy what can be read";
    }

    #[test]
    fn a_finding_says_kind_place_and_facts() {
        let at = |f: fn(Finding<Kind>) -> Finding<Kind>| {
            f(Finding::new(Kind::LinkCount, "2 names, 3 links")).to_string()
        };
        for (text, place) in [
            (at(|f| f), ""),
            (at(|f| f.block(99u32).ino(12u32)), " (inode 12, block 99)"),
            (
                at(|f| f.ino(12u32).nid(12u32).segment(4u32)),
                " (inode 12, segment 4)",
            ),
            (at(|f| f.nid(7u32).group(0u32)), " (group 0, node 7)"),
        ] {
            assert_eq!(text, format!("T308 link-count{place}: 2 names, 3 links"));
        }
    }

    #[test]
    fn findings_beyond_the_limit_are_counted() {
        let mut found = Findings::new(1);
        (0..3).for_each(|_| found.add(Finding::new(Kind::Unreadable, "dark")));
        assert_eq!((found.list.len(), found.beyond), (1, 2));
        assert_eq!(found.list[0].kind.advice(), "copy what can be read");
    }
}
