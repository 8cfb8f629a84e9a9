//! The id of a crash state at either seam, as one type, because lines and reports name both kinds.

use crate::Target;
use crate::case::{Setup, StateId};
use crate::nand::NandPath;
use std::fmt;
use std::str::FromStr;

/// Names a crash state of a case. A text that begins with a letter names one of the chips.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Id {
    /// A state of a disk in memory.
    Block(StateId),
    /// A state of a modelled device.
    Nand(NandPath),
}

impl Id {
    /// Number of cuts: that of the run, and those of recoveries.
    pub fn depth(&self) -> usize {
        match self {
            Id::Block(id) => id.0.len(),
            Id::Nand(path) => path.0.len(),
        }
    }

    /// Refuses an id of the seam that the device does not have.
    ///
    /// # Errors
    /// The text says which ids the device has.
    pub fn check(&self, setup: &Setup) -> Result<(), String> {
        match (self, &setup.config.target) {
            (Id::Block(_), Target::Spec(_)) | (Id::Nand(_), Target::Profile(_)) => Ok(()),
            (Id::Block(id), Target::Profile(_)) => Err(format!(
                "{id} names a cut of a disk in memory; the device is a modelled one, whose cuts are n17b, n17i0, n17a or t1000"
            )),
            (Id::Nand(path), Target::Spec(_)) => Err(format!(
                "{path} names a cut of a modelled device; the device is a disk in memory, whose cuts are MOMENT.CHOICE"
            )),
        }
    }
}

impl From<&StateId> for Id {
    fn from(id: &StateId) -> Id {
        Id::Block(id.clone())
    }
}

impl From<&NandPath> for Id {
    fn from(path: &NandPath) -> Id {
        Id::Nand(path.clone())
    }
}

impl From<&Id> for Id {
    fn from(id: &Id) -> Id {
        id.clone()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Block(id) => id.fmt(f),
            Id::Nand(path) => path.fmt(f),
        }
    }
}

impl FromStr for Id {
    type Err = String;
    fn from_str(text: &str) -> Result<Id, String> {
        match text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            true => text
                .parse()
                .map(Id::Nand)
                .map_err(|e: crate::nand::NandIdError| e.to_string()),
            false => text.parse().map(Id::Block),
        }
    }
}
