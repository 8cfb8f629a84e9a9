//! The owners of a slot: the units whose content it holds. Usually there is one, the unit in its
//! tag; after a REMAP there are several, or another one.
//!
//! P2L names one owner of each valid slot. A slot with several owners, or one whose owner took it
//! over since the last checkpoint, has a list here, with versions. Garbage collection asks these
//! lists, never the tag (hazards-R4).
//!
//! The version of an owner is what copies of the slot carry for that owner. It need not be exact:
//! any number works that is at least that of the effect which made it an owner and below that of
//! any later effect on the unit. So when a checkpoint is written, a list with one owner may be
//! dropped: the checkpoint's own number then serves as the version, because tags that are older
//! than the checkpoint are not looked at any more (remap-I14).

use super::Ftl;
use crate::config::NONE;
use base::Mutant;
use std::collections::BTreeMap;

/// An owner of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub lpn: u32,
    pub version: u64,
}

/// The slots of which P2L does not tell everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    lists: BTreeMap<u32, Vec<Owner>>,
    /// Owners beyond the first of each slot.
    extra: u32,
    /// The maximum of owners beyond the first (hazards-R15).
    cap: u32,
    /// Number of owners beyond the first that recovery found.
    found: u32,
}

impl Owners {
    /// No lists, and room for `cap` owners beyond the first of their slots.
    pub fn new(cap: u32) -> Owners {
        Owners {
            cap,
            ..Owners::default()
        }
    }
    /// The list of a slot, if it has one.
    pub fn of(&self, ppn: u32) -> Option<&[Owner]> {
        self.lists.get(&ppn).map(|l| &l[..])
    }
    /// Owners beyond the first of each slot.
    pub fn extra(&self) -> u32 {
        self.extra
    }
    /// Owners beyond the first that a batch may still add.
    pub fn room(&self) -> u32 {
        self.cap.saturating_sub(self.extra)
    }
    /// Owners beyond the first that there may be at most (remap-I16).
    pub fn most(&self) -> u32 {
        self.cap.max(self.found)
    }
    /// Ends recovery, which has set the lists.
    pub fn recovered(&mut self) {
        self.found = self.extra;
    }
    /// All lists.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[Owner])> {
        self.lists.iter().map(|(ppn, l)| (*ppn, &l[..]))
    }
    /// Gives a slot a list.
    pub fn set(&mut self, ppn: u32, list: Vec<Owner>) {
        self.extra += list.len() as u32 - 1;
        let old = self.lists.insert(ppn, list);
        debug_assert!(old.is_none(), "ftl-I1: slot {ppn} has a list already");
    }
    /// Removes a slot's list and answers it.
    pub fn take(&mut self, ppn: u32) -> Option<Vec<Owner>> {
        let list = self.lists.remove(&ppn)?;
        self.extra -= list.len() as u32 - 1;
        Some(list)
    }
    /// Drops lists with one owner, at a checkpoint.
    pub fn prune(&mut self) {
        self.lists.retain(|_, list| list.len() > 1);
    }
}

impl Ftl {
    /// The owners of a valid slot, with the versions that copies of it carry.
    pub(crate) fn owners_of(&self, ppn: u32) -> Vec<Owner> {
        if let Some(list) = self.owners.of(ppn) {
            return list.to_vec();
        }
        let lpn = self.map.owner(ppn);
        if lpn == NONE {
            return Vec::new();
        }
        let version = match self.buffered(ppn) {
            Some(entry) => entry.birth.unwrap_or(self.numbers.version()),
            None => {
                let own = self.fetch(ppn).filter(|(tag, _)| tag.lpn == lpn);
                own.map_or(self.area.version(), |(tag, _)| tag.birth)
            }
        };
        vec![Owner { lpn, version }]
    }
    /// The owners of a slot other than `lpn`.
    pub(crate) fn other_owners(&self, ppn: u32, lpn: u32) -> Vec<Owner> {
        let list = self.owners.of(ppn).unwrap_or_default().iter();
        list.filter(|o| o.lpn != lpn).copied().collect()
    }
    /// The owner that a copy's tag names: the one that came last, because a REMAP made that the
    /// long-lived one.
    pub(crate) fn preferred(list: &[Owner], tag_lpn: u32) -> Owner {
        let best = list.iter().max_by_key(|o| (o.version, o.lpn != tag_lpn));
        *best.expect("a valid slot has an owner")
    }
    /// Adds `owner`, which has left its own slot, to the owners of a programmed slot.
    pub(crate) fn share(&mut self, ppn: u32, owner: Owner) {
        let mut list = self.owners_of(ppn);
        self.owners.take(ppn);
        list.push(owner);
        self.owners.set(ppn, list);
        self.map.point(owner.lpn, ppn);
    }
    /// Lets a unit leave its slot; the last owner to leave frees it (hazards-R8). If the slot is
    /// still in memory, answers the number of the operation that brought it: an erase that waits
    /// for that evidence now has to wait for the operation for which the unit leaves (ftl-I2).
    pub(crate) fn leave(&mut self, lpn: u32) -> Option<u64> {
        let ppn = self.map.slot_of(lpn)?;
        let noted = self.log.forget_owner(lpn);
        let mut left = self.owners.take(ppn).unwrap_or_default();
        left.retain(|o| o.lpn != lpn);
        let Some(first) = left.first() else {
            let buffered = self.drop_buffered(ppn);
            self.map.own(ppn, NONE);
            let block = self.layout.place(ppn).0;
            self.blocks.lose(block, self.numbers.accepted());
            return noted.into_iter().chain(buffered).min();
        };
        let next = Ftl::preferred(&left, first.lpn);
        self.map.own(ppn, next.lpn);
        if self.mutant(Mutant::CountOwners) {
            self.blocks.miscount(self.layout.place(ppn).0);
        }
        // While the row is in memory its tag can still change, so it is made to name an owner that
        // stays.
        let mut buffered = None;
        let mut natural = false;
        if let Some(entry) = self.buffered_mut(ppn) {
            buffered = Some(entry.accept);
            if entry.lpn == lpn {
                (entry.lpn, entry.birth) = (next.lpn, Some(next.version));
            }
            natural = left.len() == 1 && entry.lpn == left[0].lpn;
        }
        if !natural {
            self.owners.set(ppn, left);
        }
        noted.into_iter().chain(buffered).min()
    }
    /// Lets the other owners of `from` follow to `to`, after a copy was put there for one of its
    /// owners. They need a record, and the erase of `from` waits for that record as it does for the
    /// copy.
    pub(crate) fn follow(&mut self, from: u32, to: u32, tagged: Owner) {
        let (others, accept) = (self.owners_of(from), self.numbers.accepted());
        if others.is_empty() {
            return;
        }
        let mut list = vec![tagged];
        for owner in others {
            let waited = self.leave(owner.lpn);
            self.map.point(owner.lpn, to);
            let accept = waited.map_or(accept, |w| w.min(accept));
            self.log.owner(owner.lpn, accept);
            list.push(owner);
        }
        self.owners.set(to, list);
    }
    /// True if a slot has an owner by a batch that is not in the log yet: copies of the slot would
    /// show a part of the batch.
    pub(crate) fn has_unlogged_owner(&self, ppn: u32) -> bool {
        let batches = self.log.batches();
        let fresh = |o: &Owner| batches.iter().any(|b| b.version == o.version);
        !batches.is_empty() && self.owners.of(ppn).is_some_and(|l| l.iter().any(fresh))
    }
    /// Sets the number of owners beyond the first that all slots together may have; past it REMAP
    /// copies (hazards-R15).
    pub fn set_alias_cap(&mut self, most: u32) {
        self.owners.cap = most;
    }
    /// Owners beyond the first of all slots.
    pub fn aliases(&self) -> u32 {
        self.owners.extra()
    }
}
