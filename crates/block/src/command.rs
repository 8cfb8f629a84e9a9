//! Turns gathered writes into commands: sort, split, merge, pack.

use crate::plug::Write;
use blockdev::Caps;

/// One write command.
pub(crate) enum Command {
    Single(Write),
    /// Two or more.
    Pack(Vec<Write>),
}

impl Command {
    pub fn writes(&self) -> &[Write] {
        match self {
            Command::Single(write) => std::slice::from_ref(write),
            Command::Pack(writes) => writes,
        }
    }
}

/// Sorts by address, splits what is longer than one transfer, joins writes that touch, of equal
/// flags, as long as they fit one command. Also answers how many were joined. No sector may occur
/// twice.
pub(crate) fn merge(mut writes: Vec<Write>, caps: &Caps) -> (Vec<Write>, u64) {
    writes.sort_by_key(|w| w.lba);
    let limit = caps.max_transfer_sectors;
    let mut out: Vec<Write> = Vec::with_capacity(writes.len());
    let mut joined = 0;
    for write in writes.into_iter().flat_map(|w| split(w, caps)) {
        match out.last_mut() {
            Some(last)
                if last.lba.plus(last.sectors) == write.lba
                    && last.fua == write.fua
                    && last.sectors + write.sectors <= limit =>
            {
                last.sectors += write.sectors;
                last.pieces.extend(write.pieces);
                joined += 1;
            }
            last => {
                let apart = last.is_none_or(|l| l.lba.plus(l.sectors) <= write.lba);
                debug_assert!(apart, "sector {} is written twice in one plug", write.lba);
                out.push(write);
            }
        }
    }
    (out, joined)
}

/// Cuts a write into transfers that the device takes.
fn split(write: Write, caps: &Caps) -> Vec<Write> {
    let unit = (u64::from(caps.sector_bytes) / base::SECTOR_BYTES as u64).max(1);
    let limit = (caps.max_transfer_sectors / unit * unit).max(unit);
    let mut rest = write;
    let mut out = Vec::new();
    while rest.sectors > limit {
        let tail = rest.split_off(limit);
        out.push(std::mem::replace(&mut rest, tail));
    }
    out.push(rest);
    out
}

/// Puts writes into packs, in their order, as many into each as it takes; a pack with one entry is
/// a plain write. No sector occurs twice in a pack (hazards-H8): the device is free to join such
/// entries, and so to bring them out of order.
pub(crate) fn pack(writes: Vec<Write>, caps: &Caps) -> Vec<Command> {
    let writes_max = caps.packed.map_or(1, |p| usize::from(p.writes_max));
    let mut packs: Vec<Vec<Write>> = Vec::new();
    for write in writes {
        let fits = |pack: &Vec<Write>| {
            let sectors: u64 = pack.iter().map(|w| w.sectors).sum();
            let twice = pack.iter().any(|w| w.overlaps(&write));
            pack.len() < writes_max
                && sectors + write.sectors <= caps.max_transfer_sectors
                && (!twice || rt::mutant(base::Mutant::PackTwice))
        };
        match packs.last_mut() {
            Some(pack) if fits(pack) => pack.push(write),
            _ => packs.push(vec![write]),
        }
    }
    let command = |mut pack: Vec<Write>| match (pack.len(), pack.pop()) {
        (1, Some(only)) => Command::Single(only),
        (_, last) => {
            pack.extend(last);
            Command::Pack(pack)
        }
    };
    packs.into_iter().map(command).collect()
}
