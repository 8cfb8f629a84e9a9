//! Commands that transfer data, and erasing.

use super::{Card, Outcome, State, status};
use crate::emmc::ext_csd::field;
use crate::emmc::packed;
use crate::firmware::{PackEntry, Way};
use crate::span::Source;
use base::{Bytes, Lba, SECTOR_BYTES, Time};

use super::BYTE_ADDRESS_LIMIT;

impl Card {
    /// The sector that a data command names.
    pub(super) fn address(&mut self, arg: u32, blocks: u64) -> Option<Lba> {
        let sector = match self.sectors > BYTE_ADDRESS_LIMIT {
            true => u64::from(arg),
            false if !arg.is_multiple_of(SECTOR_BYTES as u32) => {
                self.fail(status::ADDRESS_ERROR, "the address is no multiple of 512");
                return None;
            }
            false => u64::from(arg) / SECTOR_BYTES as u64,
        };
        let unit = self.ext_csd.unit_sectors();
        if !sector.is_multiple_of(unit) {
            self.fail(status::ADDRESS_ERROR, "the address is no multiple of 4 KiB");
            return None;
        }
        if !blocks.is_multiple_of(unit) {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is no multiple of 4 KiB",
            );
            return None;
        }
        if blocks > self.sectors || sector > self.sectors - blocks {
            self.fail(status::OUT_OF_RANGE, "the transfer ends beyond the card");
            return None;
        }
        Some(Lba(sector))
    }
    pub(super) fn read_multiple(
        &mut self,
        t: Time,
        arg: u32,
        blocks: u64,
        armed: Option<u32>,
    ) -> Outcome {
        let announced = armed.map_or(0, |a| u64::from(a & 0xFFFF));
        if announced != 0 && announced != blocks || blocks == 0 {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is not as long as CMD23 said",
            );
            return self.r1(t);
        }
        self.read(t, arg, blocks, announced == 0)
    }
    pub(super) fn read(&mut self, t: Time, arg: u32, blocks: u64, open_ended: bool) -> Outcome {
        let Some(lba) = self.address(arg, blocks) else {
            return self.r1(t);
        };
        let (data, end) = self.fw.read(t + self.timing.read(), lba, blocks);
        let data = data.unwrap_or_else(|e| {
            self.fail_with(&e);
            Vec::new()
        });
        let out = Outcome {
            data,
            ..self.r1(end)
        };
        if open_ended {
            self.state = State::Sending;
        }
        out
    }
    pub(super) fn write(
        &mut self,
        t: Time,
        arg: u32,
        data: Vec<Bytes>,
        announced: Option<u64>,
        sbc: u32,
    ) -> Outcome {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let blocks = (bytes / SECTOR_BYTES) as u64;
        let whole = data.iter().all(|d| d.len().is_multiple_of(SECTOR_BYTES));
        if !whole || blocks == 0 || announced.is_some_and(|n| n != blocks) {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is not as long as announced",
            );
            return self.r1(t);
        }
        let Some(lba) = self.address(arg, blocks) else {
            return self.r1(t);
        };
        let way = match self.way(sbc, lba, blocks) {
            Ok(way) => way,
            Err(why) => {
                self.fail(status::ERROR, why);
                return self.r1(t);
            }
        };
        let end = self.fw.write(t, lba, data, way).unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        });
        let out = self.r1(end);
        self.state = State::Programming;
        out
    }
    /// The kind of write that the CMD23 argument `sbc` asks for.
    fn way(&self, sbc: u32, lba: Lba, blocks: u64) -> Result<Way, &'static str> {
        let reliable = sbc & packed::RELIABLE != 0;
        if reliable && !self.ext_csd.en_rel_wr() {
            let group = u64::from(self.ext_csd.get(field::REL_WR_SEC_C));
            let one = blocks == self.ext_csd.unit_sectors();
            if !one && (blocks != group || !lba.0.is_multiple_of(group)) {
                return Err("a legacy reliable write is one sector, or REL_WR_SEC_C aligned ones");
            }
        }
        // The reliable bit takes precedence over the forced one.
        Ok(match (reliable, sbc & packed::FORCED != 0) {
            (true, _) => Way::Reliable,
            (false, true) => Way::Through,
            (false, false) if self.ext_csd.cache_on() => Way::Cached,
            (false, false) => Way::Through,
        })
    }
    /// CMD23: what the next CMD18 or CMD25 is.
    pub(super) fn arm(&mut self, arg: u32) {
        let is_packed = arg & packed::PACKED != 0;
        if !is_packed {
            self.armed = Some(arg);
            return;
        }
        self.ext_csd.packed_ended(None);
        let header = (self.ext_csd.packed_header_bytes() / SECTOR_BYTES) as u32;
        if self.ext_csd.packed_writes_max() == 0 {
            self.fail(
                status::ERROR,
                "no packed commands: MAX_PACKED_WRITES is 0 or PACKED_EVENT_EN is not set",
            );
        } else if arg & !(packed::PACKED | packed::COUNT) != 0 || arg & packed::COUNT <= header {
            self.fail(
                status::ERROR,
                "CMD23 of a packed command has no flags and more blocks than the header",
            );
        } else {
            self.armed = Some(arg);
        }
    }
    /// CMD25 behind a packed CMD23: a header, then the data of its entries one after the other.
    pub(super) fn write_packed(
        &mut self,
        t: Time,
        arg: u32,
        data: Vec<Bytes>,
        sbc: u32,
    ) -> Outcome {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let announced = (sbc & packed::COUNT) as usize * SECTOR_BYTES;
        if bytes != announced || !data.iter().all(|d| d.len().is_multiple_of(SECTOR_BYTES)) {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is not as long as announced",
            );
            self.ext_csd.packed_ended(Some(None));
            return self.r1(t);
        }
        let mut source = Source::new(&data);
        let header_bytes = self.ext_csd.packed_header_bytes();
        let header = source.take(header_bytes);
        let payload = ((bytes - header_bytes) / SECTOR_BYTES) as u64;
        let entries = match packed::decode(&header, payload, self.ext_csd.packed_writes_max()) {
            Ok(entries) => entries,
            Err(e) => {
                self.fail(status::ERROR, &e.to_string());
                self.ext_csd.packed_ended(Some(e.index()));
                return self.r1(t);
            }
        };
        if entries[0].address != arg {
            self.fail(status::ERROR, "CMD25 names another address than entry 1");
            self.ext_csd.packed_ended(Some(None));
            return self.r1(t);
        }
        let mut list = Vec::with_capacity(entries.len());
        let mut failed = None;
        for (i, entry) in entries.iter().enumerate() {
            let pieces = source.take_pieces(entry.blocks() as usize * SECTOR_BYTES);
            match self.packed_entry(entry) {
                Some((lba, way)) => list.push(PackEntry { lba, pieces, way }),
                None => {
                    failed = Some(i + 1);
                    break;
                }
            }
        }
        // Entries before the first one that cannot be carried out are done; that one and those
        // behind it are not.
        let (end, error) = self.fw.write_pack(t, header_bytes, list);
        if let Some((i, e)) = &error {
            failed = Some(i + 1);
            self.why = Some(e.to_string());
        }
        if let Some(index) = failed {
            self.ext_csd.packed_ended(Some(Some(index)));
        }
        let out = self.r1(end);
        self.state = State::Programming;
        out
    }
    /// Place and kind of an entry. A faulty entry shows in the packed status alone, not in R1; the
    /// host asks for that status.
    fn packed_entry(&mut self, entry: &packed::Entry) -> Option<(Lba, Way)> {
        let before = self.errors;
        let lba = self.address(entry.address, entry.blocks());
        self.errors = before;
        let lba = lba?;
        match self.way(entry.sbc, lba, entry.blocks()) {
            Ok(way) => Some((lba, way)),
            Err(why) => {
                self.why = Some(why.into());
                None
            }
        }
    }
    pub(super) fn erase_bound(&mut self, t: Time, index: u8, arg: u32) -> Outcome {
        // CMD36 names the last sector; with 4 KiB sectors this may be any 512-byte block inside the
        // last one.
        let unit = self.ext_csd.unit_sectors() as u32;
        let bytes = match self.sectors > BYTE_ADDRESS_LIMIT {
            true => unit,
            false => unit * SECTOR_BYTES as u32,
        };
        let last = if index == 36 && unit > 1 { unit - 1 } else { 0 };
        let arg = if last > 0 { arg / bytes * bytes } else { arg };
        let Some(lba) = self.address(arg, u64::from(unit)) else {
            return self.r1(t);
        };
        let lba = lba.plus(u64::from(last));
        match (index, self.erase) {
            (35, (None, None)) => self.erase.0 = Some(lba),
            (36, (Some(_), None)) => self.erase.1 = Some(lba),
            _ => {
                self.erase = (None, None);
                self.fail(
                    status::ERASE_SEQ_ERROR,
                    "CMD35, CMD36 and CMD38 come in this order",
                );
            }
        }
        self.r1(t)
    }
    /// CMD38. Argument 0: erase groups; 1: TRIM; 3: DISCARD.
    pub(super) fn erase(&mut self, t: Time, arg: u32) -> Outcome {
        let (Some(first), Some(last)) = std::mem::take(&mut self.erase) else {
            self.fail(status::ERASE_SEQ_ERROR, "CMD38 without CMD35 and CMD36");
            return self.r1(t);
        };
        let group = u64::from(self.ext_csd.get(field::HC_ERASE_GRP_SIZE)) * 1024;
        let (from, to) = match arg {
            0 => (
                first.0 / group * group,
                ((last.0 / group + 1) * group).min(self.sectors),
            ),
            _ => (first.0, last.0 + 1),
        };
        if from >= to || !matches!(arg, 0 | 1 | 3) {
            self.fail(
                status::ERASE_PARAM,
                "the range to erase is empty, or the argument is not supported",
            );
            return self.r1(t);
        }
        let cache_on = self.ext_csd.cache_on();
        let done = self.fw.discard(t, Lba(from), to - from, arg != 3);
        // Without a cache there is no flush to wait for.
        let done = done.and_then(|end| {
            if cache_on {
                Ok(end)
            } else {
                self.fw.flush(end)
            }
        });
        let end = done.unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        });
        let out = self.r1(end);
        self.state = State::Programming;
        out
    }
}
