//! Applies an [`Exact`] state to a cut: what it may say about the cut, and what it means for each
//! sector.
//!
//! - E1: what the state says about a write counts only where packs, barriers and the FIFO cache
//!   leave the write free: so an exact state cannot leave what the Caps and the table of
//!   [`spec`](super) allow.
//! - E2: a text that says more than the cut leaves open is refused, with the reason.
//! - E3: a REMAP is named by its first part and kept or lost as a whole; its other parts cannot be
//!   named.

use super::draw::{Draw, granule_of, granules};
use super::exact::{Exact, Form, Named, Rest};
use super::order::Fate;
use super::{Entry, Kind};

impl Draw<'_> {
    /// Whether a free write is kept; `None` if it is neither kept nor lost as a whole.
    pub(super) fn named_whole(&self, place: usize) -> Option<bool> {
        let rest = self.rest_kept();
        match self.forms[place] {
            None => Some(rest),
            Some(Form::Other) => Some(!rest),
            Some(_) => None,
        }
    }

    fn rest_kept(&self) -> bool {
        self.exact.is_some_and(|e| e.rest == Rest::Kept)
    }

    fn granule(&self, place: usize, lba: u64) -> u64 {
        granule_of(self.caps, &self.entry(place).write, lba)
    }

    /// Whether this sector of a free write is kept.
    pub(super) fn named_kept(&self, place: usize, lba: u64) -> bool {
        let rest = self.rest_kept();
        let granule = || self.granule(place, lba);
        match self.forms[place] {
            None => rest,
            Some(Form::Other) => !rest,
            Some(Form::Head(n) | Form::GarbageAt(n)) => granule() < n,
            Some(Form::Tail(n)) => granule() >= n,
            Some(Form::Only(n)) => granule() == n,
            Some(Form::But(n)) => granule() != n,
            Some(Form::Garbage) => false,
        }
    }

    /// Whether this sector of a free write, which may be garbage, is garbage.
    pub(super) fn named_garbled(&self, place: usize, lba: u64) -> bool {
        match self.forms[place] {
            Some(Form::Garbage) => true,
            Some(Form::GarbageAt(n)) => self.granule(place, lba) == n,
            _ => false,
        }
    }

    /// E2: why the cut cannot leave what the state says.
    pub(super) fn refusal(&self) -> Option<String> {
        let exact = self.exact?;
        let named = || exact.named.iter().find_map(|named| self.named(named));
        named()
            .or_else(|| self.structure(exact))
            .or_else(|| self.collateral_refusal(exact))
    }

    fn place(&self, id: u64) -> Option<usize> {
        let entries = &self.ledger.entries;
        let place = entries.partition_point(|e| e.id < id);
        entries.get(place).filter(|e| e.id == id).map(|_| place)
    }

    /// The write `id`, if it is free (E1); else why not.
    fn free(&self, id: u64) -> Result<&Entry, String> {
        if id >= self.ledger.next_id {
            return Err(format!("write {id} has not begun at this cut"));
        }
        let Some(place) = self.place(id) else {
            return Err(format!("write {id} is durable at this cut"));
        };
        match self.fates.of[place] {
            // E3.
            Fate::Free if !self.entry(place).leads() => Err(format!(
                "write {id} is a part of the REMAP at write {}",
                self.entry(place).lead
            )),
            Fate::Free => Ok(self.entry(place)),
            Fate::Durable => Err(format!("write {id} is durable at this cut")),
            Fate::Sure => Err(format!(
                "write {id} is on the medium for sure: packs, barriers or the FIFO cache are past it"
            )),
            Fate::Lost => Err(format!(
                "write {id} is lost for sure: packs, barriers or the FIFO cache are not as far as it"
            )),
        }
    }

    fn named(&self, named: &Named) -> Option<String> {
        let id = named.first;
        let entry = match (self.free(id), self.free(named.last)) {
            (Ok(entry), Ok(_)) => entry,
            (Err(why), _) | (_, Err(why)) => return Some(why),
        };
        let (_, count) = granules(self.caps, &entry.write);
        let most = |n: u64, most: u64| {
            (n > most).then(|| format!("write {id} has {count} granules, none at {n}"))
        };
        match named.form {
            Form::Other => None,
            Form::Head(n) | Form::Tail(n) => most(n, count),
            Form::Only(n) | Form::But(n) => most(n, count - 1),
            Form::Garbage | Form::GarbageAt(_) if !self.may_garble(&entry.write) => Some(format!(
                "write {id} leaves no garbage: the device promises old or new"
            )),
            Form::Garbage => None,
            Form::GarbageAt(n) => most(n, count - 1),
        }
    }

    fn structure(&self, exact: &Exact) -> Option<String> {
        let open = &self.fates.open;
        for (pack, executed) in &exact.packs {
            match open.packs.iter().find(|p| p.0 == *pack) {
                None => return Some(format!("no pack is in flight whose first write is {pack}")),
                Some((_, n)) if executed > n => {
                    return Some(format!("the pack at write {pack} has {n} entries"));
                }
                Some(_) => {}
            }
        }
        if exact.epoch.is_some_and(|passed| passed > open.barriers) {
            return Some(format!("the number of open barriers is {}", open.barriers));
        }
        match exact.queue {
            Some(_) if !self.caps.cache_fifo => Some("the cache of this device is no FIFO".into()),
            Some(queue) if queue.written > open.queue => Some(format!(
                "the number of writes in the FIFO cache is {}",
                open.queue
            )),
            _ => None,
        }
    }

    fn collateral_refusal(&self, exact: &Exact) -> Option<String> {
        let id = exact.collateral?;
        if self.caps.no_collateral {
            return Some("this device damages no other sectors".into());
        }
        match self.free(id) {
            Ok(e) if matches!(e.write.kind, Kind::Normal | Kind::Through) => None,
            Ok(_) => Some(format!("write {id} damages nothing around it")),
            Err(why) => Some(why),
        }
    }
}
