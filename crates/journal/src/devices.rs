//! A log on a device of its own (external journal): two devices, and no order between them.
//!
//! The file system with all homes lies on one device, the log with its superblock on another. Each
//! device has a volatile cache. A cut takes both at the same moment: of what was not flushed on one
//! device it leaves any subset there, and what it leaves on one says nothing about the other. A
//! flush or a FUA write makes things durable on its own device only. So whatever the journal
//! concludes from "a flush came after" has to name the device; the plans stay as they are
//! ([`plan_of`](crate::plan_of)):
//!
//! - L1 (marks): a [`WriteMark`] counts the writes of one queue and means nothing to another. What
//!   a commit vouches for has a mark for each device ([`Marks`]), and so has every waiter; the two
//!   marks are joined only where both are one device.
//! - L2 (commit; journal-commit-K1, journal-commit-F2): the record is sent when the ordered data is
//!   flushed on the device of homes, and the log blocks before the record are flushed on that of
//!   the log. Both flushes start when all these writes have completed, run beside each other, and
//!   have both ended before the record is sent. A flush that has nothing to cover is not sent
//!   (hazards-H19). With `flush-ahead` only the device of homes is flushed: the log blocks follow
//!   the flush, non-volatile at completion and in order on their own device (journal-commit-F4),
//!   and no other order is needed.
//! - L3 (fsync; sync-F4): a commit is acknowledged when its record is durable on the device of the
//!   log; the marks that callers bring
//!   ([`Journal::commit_covering`](crate::Journal::commit_covering)) are of the device of homes,
//!   and are flushed there. An fsync that needs a commit reaches both devices; an fsync of data
//!   that was overwritten in place reaches only that of homes.
//! - L4 (home; home-M1): an image goes home at the earliest when its transaction is published, and
//!   that happens when its record is durable on the device of the log. So no cut leaves a home
//!   write on one device whose transaction is missing on the other.
//! - L5 (tail; home-M2, journal-checkpoint-C2): the superblock of the log names a later beginning
//!   only when the home writes before it are durable on the device of homes; log blocks before it
//!   are used again only when that superblock is durable on the device of the log. If the flush of
//!   a commit has not covered the home writes, the tail stays: it moves with a later commit, or
//!   with the flush of a task that needs log space.
//! - L6 (revoke; hazards-H6, hazards-H18): a freed block gets another owner only when the
//!   transaction that freed it is committed: its revoke record is durable on the device of the log
//!   before any write of the new owner is sent to that of homes. File data whose image the log may
//!   hold is written home directly only when a tail past that image is durable (track-D6).
//! - L7 (recovery; journal-replay-P3, journal-replay-P7): what was read from the log may lie only
//!   in the cache of its device, because the process died and not the power. journal-replay-P7
//!   flushes the device of the log before the first home write, and a flush of the device of homes
//!   does not replace that. The device of homes is flushed before the log is marked clean. The
//!   reader of an empty log makes it durable in the same way
//!   ([`CleanLog::make_durable`](crate::CleanLog::make_durable)).
//! - L8 (needs_recovery; ext4-mount-M1): the file system says on the device of homes that it may
//!   need recovery, durably, before the log begins, and takes that back, durably, when the log is
//!   empty. So no cut leaves an unmounted volume beside a log with transactions: where both are
//!   found they come from different times, and neither is touched.
//! - L9 (errors): the error that ended a journal is left in the log (`s_errno`), as far as the
//!   device of the log still takes that, and stays there until the log is marked clean. By then the
//!   superblock of the file system, in which the next mount has noted the error with its first
//!   transaction, is home. A log whose device is dead leaves needs_recovery on the device of homes,
//!   so that volume is not mistaken for a clean one.
//! - L10 (pairing): the volume names the UUID of its log, and a log that is written names one user,
//!   this volume. Both devices are opened by one process alone. A volume is never written without
//!   its log.
//!
//! What rests on the order of one device is refused by name ([`refusal`]).

use crate::{Home, Order, Scheme};
use block::WriteMark;

/// The device that something was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Homes: metadata and data of the file system.
    Home,
    /// The log.
    Log,
}

/// The writes that have to be flushed, by device (L1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// On the device of homes.
    pub home: WriteMark,
    /// On the device of the log.
    pub log: WriteMark,
}

impl Marks {
    /// Covers `mark` of this device as well.
    pub fn raise(&mut self, on: Device, mark: WriteMark) {
        let of_device = match on {
            Device::Home => &mut self.home,
            Device::Log => &mut self.log,
        };
        *of_device = mark.max(*of_device);
    }

    /// Covers both.
    pub fn join(&mut self, other: Marks) {
        self.raise(Device::Home, other.home);
        self.raise(Device::Log, other.log);
    }
}

/// The reason why a scheme cannot have its log on a device of its own; `None`: it can.
pub(crate) fn refusal(scheme: &Scheme) -> Option<String> {
    let why = if let Home::Remap { .. } = scheme.home {
        "home=remap points homes at pages of the log, which a device can do with its own pages only"
    } else if scheme.order == Order::Adaptive {
        "order=adaptive sends data and log in one command of one device, and weighs what that device takes for it"
    } else if scheme.is_fast() {
        "record=fast has been cut on one device with both only, and its area is in the log"
    } else if scheme.is_coalition() {
        "record=coalition logs changed bytes of homes, and that a cut leaves both fitting each other is argued for one device with both"
    } else {
        return None;
    };
    Some(format!(
        "the journal lies on a device of its own: {why}; choose scheme=jbd2 or scheme=flush-ahead"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn what_rests_on_one_device_is_refused_by_name() {
        for (preset, words) in [
            (Preset::Coalition, "record=coalition"),
            (Preset::CoalitionPaper, "record=coalition"),
            (Preset::Emmc, "record=coalition"),
            (Preset::EmmcPaper, "record=coalition"),
            (Preset::Adaptive, "order=adaptive"),
            (Preset::FastCommit, "record=fast"),
            (Preset::Jftl, "home=remap"),
            (Preset::JftlPaper, "home=remap"),
        ] {
            let why = refusal(&preset.scheme().expect("a scheme")).expect("refused");
            assert!(
                why.contains(words) && why.contains("scheme=jbd2"),
                "{preset}: {why}"
            );
        }
        let stock = Preset::Jbd2.scheme().expect("a scheme");
        assert_eq!(refusal(&stock), None);
        let ahead = Preset::FlushAhead.scheme().expect("a scheme");
        assert_eq!(refusal(&ahead), None);
        // Reliable home writes are a matter of the home device alone.
        let home = Home::CopyReliable;
        assert_eq!(refusal(&Scheme { home, ..stock }), None);
    }
}
