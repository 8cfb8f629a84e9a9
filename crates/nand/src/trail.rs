//! A record of programs and erases with their times, for explorers that cut the power inside each
//! operation.

use crate::{BlockId, Span};

/// Why the layer above changes the medium. The chips ignore it; it names operations in a trail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Cause {
    /// Units that the host wrote.
    #[default]
    Host,
    /// Control blocks of a journal that the host wrote.
    Control,
    /// Copies of garbage collection.
    Collection,
    /// Copies that even out wear.
    Wear,
    /// Copies out of blocks with one bit per cell.
    Fold,
    /// The map: a checkpoint.
    Map,
    /// The log behind the map.
    Log,
}

impl Cause {
    /// A word for reports.
    pub const fn word(self) -> &'static str {
        match self {
            Cause::Host => "host data",
            Cause::Control => "journal control",
            Cause::Collection => "garbage collection",
            Cause::Wear => "wear levelling",
            Cause::Fold => "SLC folding",
            Cause::Map => "map",
            Cause::Log => "map log",
        }
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
