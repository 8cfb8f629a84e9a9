//! The steps of a recording: what a replay carries out as one, and where it may stop in between.

use crate::call::{Call, Recording, What};
use crate::tree::{NodeId, PAGE};
use std::collections::BTreeSet;
use std::ops::Range;

/// Most pieces of one write. A longer one is divided into so many of about equal length.
pub const PIECES_MAX: usize = 8;

/// What a step changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Names, attributes, sizes: what a commit makes durable.
    Metadata,
    /// Content, which waits for write-back.
    Data,
    /// Nothing: a sync or an acknowledgement.
    Nothing,
}

/// A call, or a piece of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Index of the call.
    pub call: usize,
    /// The bytes of its data; empty for anything but a write.
    pub bytes: Range<usize>,
    /// What it changes.
    pub sort: Sort,
    /// It is the last step of its call.
    pub last: bool,
}

/// All steps, in order.
pub fn steps(recording: &Recording) -> Vec<Step> {
    let mut steps = Vec::new();
    for (call, made) in recording.calls.iter().enumerate() {
        let sort = match &made.what {
            What::Write { offset, data, .. } => {
                let pieces = pieces(*offset, data.len());
                steps.extend(pieces.into_iter().map(|bytes| Step {
                    call,
                    last: bytes.end == data.len(),
                    bytes,
                    sort: Sort::Data,
                }));
                continue;
            }
            What::Sync { .. } | What::SyncAll | What::Acknowledge(_) | What::Failed { .. } => {
                Sort::Nothing
            }
            _ => Sort::Metadata,
        };
        steps.push(Step {
            call,
            bytes: 0..0,
            sort,
            last: true,
        });
    }
    steps
}

/// Divides a write at bounds of pages.
fn pieces(offset: u64, len: usize) -> Vec<Range<usize>> {
    let first = (PAGE - offset % PAGE) as usize;
    let pages = len.saturating_sub(first).div_ceil(PAGE as usize);
    let each = (pages + 1).div_ceil(PIECES_MAX) * PAGE as usize;
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut to = first + each - PAGE as usize;
    while to < len {
        pieces.push(from..to);
        (from, to) = (to, to + each);
    }
    pieces.push(from..len);
    pieces
}

/// The epoch of each step (replay-B5). `all` says that a sync of one changed file makes all
/// metadata durable, as a commit of a journal does.
pub fn epochs(recording: &Recording, steps: &[Step], all: bool) -> Vec<usize> {
    let mut open = Open::default();
    let mut epoch = 0;
    let mut quiet = true;
    let mut epochs = Vec::with_capacity(steps.len());
    for step in steps {
        if quiet && step.sort != Sort::Nothing {
            epoch += 1;
        }
        epochs.push(epoch);
        if step.last {
            open.enter(&recording.calls[step.call], all);
        }
        quiet = step.sort == Sort::Nothing && open.is_empty();
    }
    epochs
}

/// What is dirty or uncommitted.
#[derive(Default)]
struct Open {
    /// Files with data that may wait.
    data: BTreeSet<NodeId>,
    /// Nodes with metadata that may wait.
    metadata: BTreeSet<NodeId>,
    /// Those of them that an fdatasync commits, too.
    sizes: BTreeSet<NodeId>,
}

impl Open {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.metadata.is_empty()
    }

    fn enter(&mut self, call: &Call, all: bool) {
        match &call.what {
            What::Create { dir, node, .. } => self.changed(&[*dir, *node]),
            What::Link { dir, node, .. } | What::Unlink { dir, node, .. } => {
                self.changed(&[*dir, *node]);
            }
            What::CreateUnnamed { node, .. }
            | What::Truncate { node, .. }
            | What::Allocate { node, .. } => self.changed(&[*node]),
            What::Rename { from, to, node, .. } => self.changed(&[from.0, to.0, *node]),
            What::SetAttribute { node, .. } => drop(self.metadata.insert(*node)),
            What::Write {
                node,
                offset,
                data,
                size_before,
            } => {
                self.data.insert(*node);
                match offset + data.len() as u64 > *size_before {
                    true => self.changed(&[*node]),
                    false => drop(self.metadata.insert(*node)),
                }
            }
            What::Sync {
                node,
                data_only,
                failed: None,
            } => {
                let changed = if *data_only {
                    &self.sizes
                } else {
                    &self.metadata
                };
                let commits = changed.contains(node);
                self.data.remove(node);
                if commits && all {
                    self.metadata.clear();
                    self.sizes.clear();
                } else if commits {
                    self.metadata.remove(node);
                    self.sizes.remove(node);
                }
            }
            What::SyncAll => *self = Open::default(),
            What::Sync { .. } | What::Acknowledge(_) | What::Failed { .. } => {}
        }
    }

    fn changed(&mut self, nodes: &[NodeId]) {
        self.metadata.extend(nodes);
        self.sizes.extend(nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_divided_at_pages() {
        let one = |range: Range<usize>| vec![range];
        assert_eq!(pieces(0, 10), one(0..10));
        assert_eq!(pieces(4090, 10), [0..6, 6..10]);
        assert_eq!(pieces(0, 4096), one(0..4096));
        assert_eq!(pieces(4000, 8192), [0..96, 96..4192, 4192..8192]);
        assert_eq!(pieces(7, 0), one(0..0));
        for (offset, len) in [(0, 1 << 20), (5, 1 << 20), (4095, 100_000), (0, 8 * 4096)] {
            let pieces = pieces(offset, len);
            assert!(pieces.len() <= PIECES_MAX + 1, "{}", pieces.len());
            assert_eq!(pieces.iter().map(|p| p.len()).sum::<usize>(), len);
            assert_eq!(pieces.last().map(|p| p.end), Some(len));
            for pair in pieces.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert_eq!((offset + pair[0].end as u64) % PAGE, 0);
            }
        }
    }
}
