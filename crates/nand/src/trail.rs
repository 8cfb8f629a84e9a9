//! A record of programs and erases with their times, for explorers that cut the power inside each
//! operation.

use crate::{BlockId, Span};

base::words! {
    /// Why the layer above changes the medium. The chips ignore it; it names operations in a trail.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum Cause {
        /// Units that the host wrote.
        #[default]
        Host => "host data",
        /// Control blocks of a journal that the host wrote.
        Control => "journal control",
        /// Copies of garbage collection.
        Collection => "garbage collection",
        /// Copies that even out wear.
        Wear => "wear levelling",
        /// Copies out of blocks with one bit per cell.
        Fold => "SLC folding",
        /// The map: a checkpoint.
        Map => "map",
        /// The log behind the map.
        Log => "map log",
    }
}

/// A program or an erase, as it was scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// When the array works.
    pub span: Span,
    /// Erase block.
    pub block: BlockId,
    /// The page that is programmed; `None`: the block is erased.
    pub page: Option<u32>,
    /// Why the operation was made.
    pub cause: Cause,
}

/// The operations since they were last taken, if they are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    kept: Option<Vec<Operation>>,
    pub cause: Cause,
}

impl Trail {
    pub fn keep(&mut self, on: bool) {
        self.kept = on.then(Vec::new);
    }
    pub fn take(&mut self) -> Vec<Operation> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }
    pub fn note(&mut self, span: Span, block: BlockId, page: Option<u32>) {
        let cause = self.cause;
        if let Some(kept) = &mut self.kept {
            kept.push(Operation {
                span,
                block,
                page,
                cause,
            });
        }
    }
}
