//! The four ideas of F2FSJ, each of which can be left out to measure what it gains (paper, Fig 16).
//!
//! With none of them the journal is one of pages as in JBD2 (preset `page-journal`): whole blocks
//! in the log, one list under one lock, operations that wait while a transaction is closed, and an
//! apply that writes what the log holds.

use fscore::shell::options::one_of;
use std::fmt;

/// Which of the four ideas the journal has: each field is true if its idea is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ideas {
    /// The log holds what operations change. If false: the whole blocks of nodes, directories, NAT
    /// and SIT that they touch (section 3.2).
    pub change_records: bool,
    /// Each inode has a list of its own for what it logs. If false: all share one list under one
    /// lock (section 3.2).
    pub inode_lists: bool,
    /// Operations go on in the next epoch while those of the last one end. If false they wait, as
    /// in JBD2, until it is empty (section 3.3).
    pub planes: bool,
    /// Apply writes the latest image of a node that no later epoch has changed, or nothing;
    /// otherwise it redoes the records on the block at home (section 3.5).
    pub fast_forward: bool,
}

impl Ideas {
    /// All four: F2FSJ.
    pub const ALL: Ideas = Ideas {
        change_records: true,
        inode_lists: true,
        planes: true,
        fast_forward: true,
    };
    /// None of them: a journal of pages.
    pub const NONE: Ideas = Ideas {
        change_records: false,
        inode_lists: false,
        planes: false,
        fast_forward: false,
    };

    /// Choices in the text of a scheme.
    pub(crate) const KEYS: &str =
        "records=changes|pages, lists=inode|global, switch=open|wait, fast-forward=on|off";

    /// Each key with its value.
    fn words(self) -> [(&'static str, &'static str); 4] {
        let word = |yes: bool, left_in, left_out| if yes { left_in } else { left_out };
        [
            ("records", word(self.change_records, "changes", "pages")),
            ("lists", word(self.inode_lists, "inode", "global")),
            ("switch", word(self.planes, "open", "wait")),
            ("fast-forward", word(self.fast_forward, "on", "off")),
        ]
    }

    /// Sets one; false if the key is none of these.
    ///
    /// # Errors
    /// What is allowed as its value, if that is not.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let (place, left_in, left_out) = match key {
            "records" => (&mut self.change_records, "changes", "pages"),
            "lists" => (&mut self.inode_lists, "inode", "global"),
            "switch" => (&mut self.planes, "open", "wait"),
            "fast-forward" => (&mut self.fast_forward, "on", "off"),
            _ => return Ok(false),
        };
        match value {
            v if v == left_in => *place = true,
            v if v == left_out => *place = false,
            _ => return Err(one_of(&[left_in, left_out])),
        }
        Ok(true)
    }

    /// Where they differ from `base`, as `+records=pages`.
    pub(crate) fn fmt_beside(self, base: Ideas, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((key, value), (_, usual)) in self.words().into_iter().zip(base.words()) {
            if value != usual {
                write!(f, "+{key}={value}")?;
            }
        }
        Ok(())
    }
}

impl Default for Ideas {
    fn default() -> Self {
        Ideas::ALL
    }
}
