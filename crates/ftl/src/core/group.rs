//! Ordered groups: of the units of a group a cut leaves a prefix, although their rows are
//! programmed on several dies at once.
//!
//! Each tag carries the number of the newest group, and either the index of the unit in it or a
//! mark that says whether the unit was written while the group was open or after it had ended.
//! Recovery looks at the newest group that it finds. If that group ended (a unit marked so, a TRIM
//! or a REMAP is durable) all of it is durable. Else its units count up to the first index that is
//! missing; those behind it are dropped, and the units' older contents, which no erase can have
//! taken yet, count again.
//!
//! Invariants:
//! - I10 (one at a time): a group begins, and units after it are programmed, only when every
//!   program of the group before has ended. So at most one group is incomplete at a cut, and it is
//!   the newest.
//! - I11 (no hole without a cut): no unit is in a group twice, a unit copied meanwhile keeps its
//!   place in the group, a dropped one leaves padding with its place; a TRIM, a REMAP and a
//!   checkpoint begin another group. So an index is missing only if its program did not end. A copy
//!   that is programmed when its group has ended has no place in it: its tag is the proof that the
//!   group has ended, and then the places that TRIMs, REMAP and checkpoints leave without a trace
//!   are not missed.
//!
//! The erase gate (ftl-I2) holds unchanged: an erase starts after the programs of all operations up
//! to the one that freed the block have ended, and by then those programs are a prefix of the
//! group.

use super::{Ftl, FtlError};
use crate::tag::{GroupMark, MEMBERS_MAX};
use base::{Set, Time};
use std::collections::BTreeSet;

/// The group being written, or the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Its number; 0: there was none.
    id: u32,
    /// Units that have joined it.
    next: u16,
    open: bool,
    /// When all programs of the group before, or of this one if it has ended, have ended (I10).
    not_before: Time,
    members: Set<u32>,
}

impl Group {
    /// The state after recovery has found groups up to number `newest`.
    fn after(newest: u32) -> Group {
        Group {
            id: newest.wrapping_add(1),
            ..Group::default()
        }
    }
    /// The state in which recovery programs copies while group `newest` is incomplete: the copies
    /// must not say that it has ended (I10).
    fn incomplete(newest: u32) -> Group {
        Group {
            id: newest,
            open: true,
            ..Group::default()
        }
    }
    /// Takes up the state after a cut that left `found`; `copies` says whether recovery programs
    /// copies before its checkpoint.
    pub fn resume(&mut self, found: &Found, copies: bool) {
        *self = match copies && !found.ended && !found.indexes.is_empty() {
            true => Group::incomplete(found.newest),
            false => Group::after(found.newest),
        };
    }
    /// Ends recovery: no map refers any more to units that an incomplete group must not leave.
    pub fn recovered(&mut self) {
        if self.open {
            *self = Group::after(self.id);
        }
    }
    /// True if units have joined the open group.
    fn has_members(&self) -> bool {
        self.open && self.next > 0
    }
    /// True while a group is open.
    pub fn is_open(&self) -> bool {
        self.open
    }
    /// Number and mark for the tag of a unit that is programmed now, with its place in a group if
    /// it has one.
    pub fn mark(&self, place: Option<(u32, u16)>) -> (u32, GroupMark) {
        match place {
            Some((id, index)) if self.open && id == self.id => (id, GroupMark::Member(index)),
            _ if self.open => (self.id, GroupMark::During),
            _ => (self.id, GroupMark::After),
        }
    }
    /// When a row whose units have these places may be programmed (I10). What is programmed after a
    /// group shows that the group has ended, and so do copies of units that were in it (I11).
    pub fn start_of(&self, now: Time, mut places: impl Iterator<Item = (u32, u16)>) -> Time {
        match self.open && places.all(|(id, _)| id == self.id) {
            true => now,
            false => self.after_previous(now),
        }
    }
    /// The earliest time after `now` at which the group before has ended.
    pub fn after_previous(&self, now: Time) -> Time {
        now.max(self.not_before)
    }
    /// Notes that every program is over and the clock is at 0.
    pub fn settle(&mut self) {
        self.not_before = Time(0);
    }
    /// The place in the open group of a unit that is being put into the host stream.
    pub fn join(&mut self, lpn: u32) -> Option<(u32, u16)> {
        if !self.open {
            return None;
        }
        self.members.insert(lpn);
        self.next += 1;
        Some((self.id, self.next - 1))
    }
    fn restart(&mut self, not_before: Time) {
        self.id = self.id.wrapping_add(1);
        self.next = 0;
        self.open = true;
        self.not_before = self.not_before.max(not_before);
        self.members.clear();
    }
}

impl Ftl {
    /// Begins an ordered group: until [`Ftl::end_group`] every unit written joins it. Answers from
    /// when on its units can be programmed.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn begin_group(&mut self, now: Time) -> Result<Time, FtlError> {
        let start = if self.group.has_members() {
            self.flush(now)?
        } else {
            now
        };
        self.group.restart(start);
        Ok(self.group.after_previous(now))
    }
    /// Ends the group, all of which has been flushed by `end`.
    pub fn end_group(&mut self, end: Time) {
        self.group.open = false;
        self.group.not_before = self.group.not_before.max(end);
    }
    /// Units that have joined the open group.
    pub fn group_units(&self) -> u32 {
        if self.group.open {
            u32::from(self.group.next)
        } else {
            0
        }
    }
    /// Makes sure that `lpn` can join the open group (I11), by beginning another group if need be.
    pub(crate) fn make_way_in_group(&mut self, now: Time, lpn: u32) -> Result<(), FtlError> {
        let group = &self.group;
        if group.open && (group.next >= MEMBERS_MAX || group.members.contains(&lpn)) {
            self.begin_group(now)?;
        }
        Ok(())
    }
    /// Ends the group before a TRIM, because recovery takes the TRIM as proof that the group has
    /// ended (I11).
    pub(crate) fn end_group_before_trim(&mut self, now: Time) -> Result<Time, FtlError> {
        if self.group.has_members() {
            self.begin_group(now)
        } else {
            Ok(now)
        }
    }
    /// Begins another group after a checkpoint, because recovery will not look at units from before
    /// the checkpoint.
    pub(crate) fn group_after_checkpoint(&mut self) {
        if self.group.has_members() {
            self.group.restart(self.evidence.after_programs(Time(0)));
        }
    }
}

/// What recovery finds of ordered groups.
#[derive(Debug, Default)]
pub(crate) struct Found {
    newest: u32,
    seen: bool,
    ended: bool,
    first_prog: u64,
    indexes: BTreeSet<u16>,
}

impl Found {
    /// Notes the tag of a unit programmed after the checkpoint.
    pub fn note(&mut self, id: u32, mark: GroupMark, prog: u64) {
        if !self.seen || id > self.newest {
            *self = Found {
                newest: id,
                seen: true,
                first_prog: u64::MAX,
                ..Found::default()
            };
        }
        if id == self.newest {
            match mark {
                GroupMark::After => self.ended = true,
                GroupMark::During => {}
                GroupMark::Member(index) => {
                    self.indexes.insert(index);
                    self.first_prog = self.first_prog.min(prog);
                }
            }
        }
    }
    /// Notes a TRIM.
    pub fn note_trim(&mut self, version: u64) {
        self.ended |= version > self.first_prog;
    }
    /// The newest group.
    #[cfg(test)]
    pub fn newest(&self) -> u32 {
        self.newest
    }
    /// True if a unit with this tag is part of what the cut left.
    pub fn counts(&self, id: u32, mark: GroupMark) -> bool {
        match mark {
            GroupMark::Member(index) if id == self.newest && !self.ended => {
                u32::from(index) < self.whole()
            }
            _ => true,
        }
    }
    /// Number of units of the newest group before the first that is missing.
    fn whole(&self) -> u32 {
        let mut indexes = self.indexes.iter().zip(0u16..);
        let hole = indexes.find(|(found, want)| **found != *want);
        hole.map_or(self.indexes.len() as u32, |(_, want)| u32::from(want))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(marks: &[(u32, GroupMark)]) -> Found {
        let mut found = Found::default();
        for (i, (id, mark)) in marks.iter().enumerate() {
            found.note(*id, *mark, 100 + i as u64);
        }
        found
    }

    #[test]
    fn only_the_newest_group_can_have_a_hole() {
        use GroupMark::{After, During, Member};
        let holes = [(7, Member(0)), (7, Member(1)), (7, Member(3)), (7, During)];
        let f = found(&holes);
        assert_eq!(
            [0, 1, 3].map(|i| f.counts(7, Member(i))),
            [true, true, false]
        );
        assert!(f.counts(6, Member(9)) && f.counts(7, During));
        let ended = found(&[&holes[..], &[(7, After)]].concat());
        assert!(ended.counts(7, Member(3)));
        let older = found(&[&holes[..], &[(8, During)]].concat());
        assert!(older.counts(7, Member(3)) && older.newest() == 8);
        let mut trimmed = found(&holes);
        trimmed.note_trim(99);
        assert!(!trimmed.counts(7, Member(3)), "a TRIM before the group");
        trimmed.note_trim(500);
        assert!(trimmed.counts(7, Member(3)), "a TRIM after it");
        assert!(!found(&[(1, Member(1))]).counts(1, Member(1)), "no first");
    }
}
