//! Control plane: epochs, and who is in them.

use super::Tx;

/// All epochs that are not committed.
pub(crate) struct Plane {}

impl Plane {
    /// Lets an operation in. It has no epoch before its first change.
    pub fn enter(&self) -> Tx<'_> {
        Tx::new(self)
    }
}
