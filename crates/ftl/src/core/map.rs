//! The map: L2P says which slot holds a unit, P2L which unit owns a slot (ftl-I1).
//!
//! Units from [`Layout::units`] on are numbers that a batch lends to copies while it makes them
//! (see `remap`); the host cannot name them, and no checkpoint holds them.

use crate::Layout;
use crate::config::{LOST, NONE};
use base::CowVec;
use std::ops::Range;

/// Both directions of the map.
#[derive(Clone)]
pub(crate) struct Map {
    l2p: CowVec<u32, 1024>,
    p2l: CowVec<u32, 1024>,
}

impl Map {
    /// A map of nothing.
    pub fn new(layout: &Layout) -> Map {
        Map {
            l2p: CowVec::new(2 * layout.units as usize, NONE),
            p2l: CowVec::new((layout.blocks * layout.slots_per_block) as usize, NONE),
        }
    }
    /// What the map says of a unit: its slot, `NONE` or `LOST`.
    pub fn at(&self, lpn: u32) -> u32 {
        *self.l2p.get(lpn as usize)
    }
    /// The slot of a unit; `None`: it holds nothing, or its content is lost.
    pub fn slot_of(&self, lpn: u32) -> Option<u32> {
        Some(self.at(lpn)).filter(|ppn| *ppn < LOST)
    }
    /// The unit that P2L names as owner of a slot; `NONE`: the slot is not valid.
    pub fn owner(&self, ppn: u32) -> u32 {
        *self.p2l.get(ppn as usize)
    }
    /// The valid ones of these slots.
    pub fn live(&self, slots: Range<u32>) -> Vec<u32> {
        slots.filter(|ppn| self.owner(*ppn) != NONE).collect()
    }
    /// The units that have an entry, ascending, with what the map says of them.
    pub fn units(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.l2p.iter_present();
        let some = all.filter(|(_, ppn)| **ppn != NONE);
        some.map(|(lpn, ppn)| (lpn as u32, *ppn))
    }
    /// The units that have a slot, ascending, with their slots.
    pub fn slots(&self) -> impl Iterator<Item = (u32, u32)> {
        self.units().filter(|(_, ppn)| *ppn < LOST)
    }
    /// Number of valid slots.
    pub fn owned(&self) -> usize {
        let all = self.p2l.iter_present();
        all.filter(|(_, lpn)| **lpn != NONE).count()
    }
    /// Lets a unit point to a slot, to `NONE` or to `LOST`.
    pub fn point(&mut self, lpn: u32, ppn: u32) {
        self.l2p.set(lpn as usize, ppn);
    }
    /// Names the owner of a slot; `NONE`: the slot is no longer valid.
    pub fn own(&mut self, ppn: u32, lpn: u32) {
        self.p2l.set(ppn as usize, lpn);
    }
}
