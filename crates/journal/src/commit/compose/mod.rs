//! Composes the bytes of a transaction: which log blocks it takes and what they hold. Does no I/O.

mod coalition;
mod delta;
mod full;

pub(crate) use coalition::{Coalition, coalition};
pub(crate) use delta::delta_bytes;
pub(crate) use full::full;

use base::{Bytes, Tid};
use block::Class;
use ondisk::jbd2::{Commit, Format, escape, needs_escape};

/// One log block and how it is counted.
pub(crate) type LogImage = (Class, Bytes);

/// The log blocks of one transaction, in log order.
pub(crate) struct Composed {
    pub blocks: Vec<LogImage>,
    /// Number of the block without which recovery does not recognise the transaction.
    pub record: usize,
    /// Checksums in the record say whether the transaction is complete (journal-commit-F6).
    pub commits_itself: bool,
    /// Bytes of the records of a coalition.
    pub record_bytes: u64,
    /// Where the images lie among the blocks, in their order, if a home can be pointed there: the
    /// log holds the very bytes that home has to hold (home_remap-X2). Empty for a coalition.
    pub plain: Vec<Option<u32>>,
}

/// An image as it goes to the log, and whether it is escaped: one that begins with the magic number
/// could pass for a control block of a later life of the ring (hazards-H10).
fn escaped(image: &Bytes) -> (Bytes, bool) {
    if !needs_escape(image) || rt::mutant(base::Mutant::NoEscape) {
        return (image.clone(), false);
    }
    let mut copy = image.to_vec();
    escape(&mut copy);
    (copy.into(), true)
}

/// The log blocks of a transaction of full images, its commit record last.
pub(crate) fn full_transaction(
    format: &Format,
    named: (Tid, CommitTime),
    images: &[crate::transaction::Image],
) -> Vec<LogImage> {
    full(format, named, images, &[], false).blocks
}

/// Seconds and nanoseconds since 1970.
pub(crate) type CommitTime = (u64, u32);

/// The time of a commit that follows one of time `last`. It never goes back, even if the clock
/// does, because recovery takes a transaction that is older than the one before it for one of an
/// older life of the ring (hazards-H7).
pub(crate) fn commit_time(last: CommitTime) -> CommitTime {
    let now = rt::wall();
    (u64::try_from(now.secs).unwrap_or(0), now.nanos).max(last)
}

/// The commit record.
fn commit_record(format: &Format, tid: Tid, (secs, nanos): CommitTime) -> Bytes {
    let mut block = vec![0; format.block_bytes];
    Commit {
        tid,
        secs,
        nanos,
        transaction_crc: None,
    }
    .encode(format, &mut block);
    block.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_times_never_go_back() {
        let now = commit_time((0, 0));
        assert!(now.0 > 0 && commit_time(now) >= now);
        let ahead = (now.0 + 1000, 5);
        assert_eq!(commit_time(ahead), ahead);
    }
}
