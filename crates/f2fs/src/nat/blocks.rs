//! NAT blocks in memory: a bounded number, evicted by the second-chance rule.

use base::{Bytes, Map};

struct Slot {
    block: u32,
    bytes: Bytes,
    used: bool,
}

/// Contents of NAT blocks, as their current copies have them.
pub(super) struct Blocks {
    slots: Vec<Slot>,
    places: Map<u32, usize>,
    hand: usize,
    most: usize,
}

impl Blocks {
    /// Bytes of the blocks.
    pub fn memory(&self) -> u64 {
        (self.slots.len() * base::BLOCK_BYTES) as u64
    }

    pub fn new(most: usize) -> Blocks {
        Blocks {
            slots: Vec::new(),
            places: Map::default(),
            hand: 0,
            most,
        }
    }

    pub fn has(&self, block: u32) -> bool {
        self.places.contains_key(&block)
    }

    pub fn get(&mut self, block: u32) -> Option<&Bytes> {
        let slot = &mut self.slots[*self.places.get(&block)?];
        slot.used = true;
        Some(&slot.bytes)
    }

    pub fn put(&mut self, block: u32, bytes: Bytes) {
        let slot = Slot {
            block,
            bytes,
            used: true,
        };
        if let Some(&place) = self.places.get(&block) {
            self.slots[place] = slot;
            return;
        }
        if self.slots.len() < self.most {
            self.places.insert(block, self.slots.len());
            self.slots.push(slot);
            return;
        }
        // Ends: each step clears a mark.
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.slots.len();
        }
        self.places.remove(&self.slots[self.hand].block);
        self.places.insert(block, self.hand);
        self.slots[self.hand] = slot;
        self.hand = (self.hand + 1) % self.slots.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_small_and_keeps_what_is_used() {
        let mut blocks = Blocks::new(4);
        for n in 0..100 {
            blocks.put(n, base::fill::filled(n as u8, 4096));
            assert!(n == 0 || blocks.get(1).is_some(), "used each time");
            assert_eq!(blocks.get(n).expect("just put")[0], n as u8);
        }
        assert_eq!((blocks.slots.len(), blocks.places.len()), (4, 4));
        let mut places = blocks.places.iter();
        assert!(places.all(|(&block, &place)| blocks.slots[place].block == block));
    }
}
