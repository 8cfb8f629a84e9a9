//! Names as a directory hashes and compares them.
//!
//! In a directory without regard to case (feature `casefold`) names are compared, and hashed, as
//! they fold. A name that has no folding, or folds to nothing, is compared by its bytes, as in
//! Linux. A kernel with other rules of Unicode may have put a name under another hash: unless
//! volume or mount ([`LookupMode`]) forbid it, such a *stray* is searched for in the whole
//! directory.

use super::Shape;
use crate::F2fs;
use crate::options::LookupMode;
use fscore::shell::names::is_dot;
use fscore::{Errno, FsResult};
use ondisk::Folding;
use ondisk::f2fs::{Dentry, dentry_hash, folded_hash};

/// A name that is looked for.
#[derive(Debug)]
pub(super) struct Sought<'a> {
    name: &'a [u8],
    pub hash: u32,
    /// What it folds to; `None` if only the same bytes are the same name.
    folded: Option<(&'a Folding, Vec<u8>)>,
}

impl<'a> Sought<'a> {
    /// `folding`: that of the directory.
    fn new(folding: Option<&'a Folding>, name: &'a [u8]) -> Sought<'a> {
        let folded = folding
            .filter(|_| !is_dot(name))
            .and_then(|folding| Some((folding, folding.fold(name)?)))
            .filter(|(_, folded)| !folded.is_empty());
        let hash = match &folded {
            Some((_, folded)) => folded_hash(folded),
            None => dentry_hash(name),
        };
        Sought { name, hash, folded }
    }

    /// True if an entry with this name is the one.
    pub fn is(&self, found: &[u8]) -> bool {
        let folded = |(folding, folded): &(&Folding, Vec<u8>)| {
            !is_dot(found) && folding.is_same(folded, found)
        };
        found == self.name || self.folded.as_ref().is_some_and(folded)
    }

    /// True if strays have to be searched for.
    pub fn has_strays(&self, mode: LookupMode) -> bool {
        let by_volume = |(folding, _): &(&Folding, Vec<u8>)| {
            mode == LookupMode::Compat || folding.searches_all()
        };
        mode != LookupMode::Perf && self.folded.as_ref().is_some_and(by_volume)
    }
}

/// The hash under which a directory with this folding puts a name.
pub(crate) fn name_hash(folding: Option<&Folding>, name: &[u8]) -> u32 {
    Sought::new(folding, name).hash
}

/// Bytes that two names share exactly if they are the same one in a directory with this folding.
pub(crate) fn identity(folding: &Folding, name: &[u8]) -> Vec<u8> {
    match folding.fold(name).filter(|folded| !folded.is_empty()) {
        Some(folded) => folded,
        None => [&[0], name].concat(),
    }
}

/// True if an entry does not stand under the hash of its name.
pub(super) fn is_stray(folding: Option<&Folding>, entry: &Dentry<'_>) -> bool {
    entry.hash != name_hash(folding, entry.name)
}

impl F2fs {
    /// How the directory compares names; `None`: by their bytes.
    pub(super) fn folding_of(&self, shape: &Shape) -> Option<&Folding> {
        self.folding.as_deref().filter(|_| shape.casefold)
    }

    /// # Errors
    /// EINVAL for a name that is no UTF-8, in such a directory of a strict volume, as in Linux.
    pub(super) fn sought<'a>(&'a self, shape: &Shape, name: &'a [u8]) -> FsResult<Sought<'a>> {
        let folding = self.folding_of(shape);
        match folding.is_some_and(|folding| folding.refuses(name)) {
            true => Err(Errno::Inval.into()),
            false => Ok(Sought::new(folding, name)),
        }
    }
}
