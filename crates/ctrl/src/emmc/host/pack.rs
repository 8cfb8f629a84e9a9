//! Packed writes: one command where the entries fit, and the retries of Linux when an entry failed.

use super::{Chunks, Host, RELIABLE};
use crate::emmc::card::{Card, Command, Data, Response, status};
use crate::emmc::ext_csd::{event, field};
use crate::emmc::packed::{self, Entry, PACKED};
use crate::span;
use base::{Bytes, Lba, SECTOR_BYTES, Time};
use blockdev::{DevError, PackedWrite, Reply};

/// An entry of a packed command.
#[derive(Clone)]
struct Item {
    lba: Lba,
    sectors: u64,
    data: Vec<Bytes>,
    fua: bool,
}

/// How a packed command ended.
enum Packed {
    Done,
    /// The entry (from 0 on) that failed; those before it are done.
    Failed(usize),
}

impl Host {
    /// Sends one packed command, or several one after the other where the entries are too long for
    /// one.
    pub(super) fn pack(
        &mut self,
        card: &mut Card,
        mut t: Time,
        writes: Vec<PackedWrite>,
    ) -> (Time, Result<Reply, DevError>) {
        for command in self.commands(writes) {
            match self.packed_command(card, t, command) {
                Ok(end) => t = end,
                Err(e) => return (card.ready().max(t), Err(e)),
            }
        }
        (t, Ok(Reply::default()))
    }
    /// The entries, in order, as many to a command as its length allows, header included.
    fn commands(&self, writes: Vec<PackedWrite>) -> Vec<Vec<Item>> {
        let room = self
            .max_sectors
            .saturating_sub(self.header_sectors())
            .max(1);
        let (mut out, mut used) = (vec![Vec::new()], 0);
        for write in writes {
            let (mut at, sectors) = (write.lba, write.sectors());
            let mut chunks = Chunks::new(span::keepable(write.pieces), sectors, room);
            while let Some((n, data)) = chunks.next() {
                if used + n > room {
                    out.push(Vec::new());
                    used = 0;
                }
                used += n;
                let item = Item {
                    lba: at,
                    sectors: n,
                    data,
                    fua: write.fua,
                };
                out.last_mut().expect("begins with one").push(item);
                at = at.plus(n);
            }
        }
        out
    }
    fn header_sectors(&self) -> u64 {
        (self.header_bytes / SECTOR_BYTES) as u64
    }
    /// Sends a packed command. After a failure, the entries before the failed one are done; those
    /// from it on are sent again, at most as many times as there were entries. A single remaining
    /// entry goes unpacked, so that its own error shows.
    fn packed_command(
        &mut self,
        card: &mut Card,
        mut t: Time,
        mut items: Vec<Item>,
    ) -> Result<Time, DevError> {
        for _retry in 0..items.len() {
            if let [item] = &items[..] {
                return self.write_item(card, t, item.clone());
            }
            match self.send_packed(card, t, &items)? {
                Packed::Done => return Ok(card.ready().max(t)),
                Packed::Failed(index) => {
                    t = card.ready().max(t);
                    items.drain(..index);
                }
            }
        }
        let at = items[0].lba;
        Err(DevError::io(
            at,
            format!("the packed entry at sector {} fails at every attempt", at.0),
        ))
    }
    fn send_packed(
        &mut self,
        card: &mut Card,
        t: Time,
        items: &[Item],
    ) -> Result<Packed, DevError> {
        let flag = |fua: bool| if fua { RELIABLE } else { 0 };
        let entries: Vec<Entry> = items
            .iter()
            .map(|item| Entry {
                sbc: flag(item.fua) | item.sectors as u32,
                address: self.address(item.lba),
            })
            .collect();
        let mut data = vec![packed::encode(&entries, self.header_bytes)];
        data.extend(items.iter().flat_map(|item| item.data.iter().cloned()));
        let sectors = self.header_sectors() + items.iter().map(|i| i.sectors).sum::<u64>();
        let reliable = items.iter().filter(|i| i.fua).count() as u64;
        self.stats.writes += 1;
        self.stats.packed_commands += 1;
        self.stats.fua_writes += reliable;
        self.stats.reliable_writes += reliable;
        let at = items[0].lba;
        let armed = self.step(card, t, Command::new(23, PACKED | sectors as u32), at)?;
        let command = Command {
            index: 25,
            arg: entries[0].address,
            data: Data::Write(data),
        };
        let out = self.step(card, armed.ready, command, at)?;
        match out.response {
            Response::R1(bits) if bits & status::EXCEPTION_EVENT != 0 => {
                self.packed_status(card, at, items.len())
            }
            _ => Ok(Packed::Done),
        }
    }
    /// Asks EXT_CSD what the exception event means.
    fn packed_status(
        &mut self,
        card: &mut Card,
        at: Lba,
        entries: usize,
    ) -> Result<Packed, DevError> {
        let ext_csd = self.read_ext_csd(card, card.ready())?;
        let event = ext_csd[field::EXCEPTION_EVENTS_STATUS] & event::PACKED_FAILURE != 0;
        let (failed, index) = (
            ext_csd[field::PACKED_COMMAND_STATUS],
            usize::from(ext_csd[field::PACKED_FAILURE_INDEX]),
        );
        match (event && failed & 1 != 0, failed & 2 != 0) {
            (false, _) => Ok(Packed::Done),
            (true, true) if (1..=entries).contains(&index) => Ok(Packed::Failed(index - 1)),
            _ => Err(DevError::io(at, "the card refuses a packed command whole")),
        }
    }
    fn write_item(&mut self, card: &mut Card, t: Time, item: Item) -> Result<Time, DevError> {
        let piece = |bytes| blockdev::Piece {
            class: blockdev::Class::Data,
            bytes,
        };
        let pieces = item.data.into_iter().map(piece).collect();
        let (end, result) = self.write(card, t, item.lba, pieces, item.fua);
        result.map(|_| end)
    }
}
