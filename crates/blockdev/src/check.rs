//! The checks that every device makes before it executes a request.

use crate::{Caps, DevError, Op, Piece, Request};
use base::{Lba, SECTOR_BYTES};

/// Refuses what no device of `caps` can do: out of range, empty, or not a whole number of sectors.
pub fn check_request(caps: &Caps, request: &Request) -> Result<(), DevError> {
    for (lba, sectors) in request.spans() {
        check_span(caps, lba, sectors)?;
    }
    for (lba, pieces, _) in request.written() {
        check_pieces(caps, lba, pieces)?;
    }
    match &request.op {
        Op::Pack { .. } => check_pack(caps, request),
        Op::Remap(remap) => crate::remap::check(caps, remap),
        Op::Discard { lba, .. } if !caps.discard => {
            Err(DevError::misuse(Some(*lba), "this device does not discard"))
        }
        Op::Barrier if !caps.barrier => {
            Err(DevError::misuse(None, "this device has no cache barrier"))
        }
        _ => Ok(()),
    }
}

fn check_span(caps: &Caps, lba: Lba, sectors: u64) -> Result<(), DevError> {
    let unit = u64::from(caps.sector_bytes) / SECTOR_BYTES as u64;
    if sectors == 0 || !lba.0.is_multiple_of(unit) || !sectors.is_multiple_of(unit) {
        return Err(not_whole(caps, lba, sectors));
    }
    let end = lba.0.checked_add(sectors);
    if end.is_none_or(|end| end > caps.sectors) {
        let why = format!(
            "{sectors} sectors end beyond the device of {} sectors",
            caps.sectors
        );
        return Err(DevError::misuse(Some(lba), why));
    }
    Ok(())
}

fn not_whole(caps: &Caps, lba: Lba, sectors: u64) -> DevError {
    let why = format!(
        "{sectors} sectors are not a positive multiple of {} bytes",
        caps.sector_bytes
    );
    DevError::misuse(Some(lba), why)
}

fn check_pieces(caps: &Caps, lba: Lba, pieces: &[Piece]) -> Result<(), DevError> {
    let sectors = pieces
        .iter()
        .map(|p| p.bytes.len() / SECTOR_BYTES)
        .sum::<usize>() as u64;
    let whole = |p: &Piece| p.bytes.len().is_multiple_of(SECTOR_BYTES);
    if pieces.iter().all(whole) {
        Ok(())
    } else {
        Err(not_whole(caps, lba, sectors))
    }
}

fn check_pack(caps: &Caps, request: &Request) -> Result<(), DevError> {
    let mut spans = request.spans();
    let at = spans.first().map(|s| s.0);
    let Some(packed) = caps.packed else {
        return Err(DevError::misuse(at, "this device has no packed writes"));
    };
    let sectors: u64 = spans.iter().map(|s| s.1).sum();
    if spans.is_empty() || spans.len() > usize::from(packed.writes_max) {
        let why = format!(
            "{} writes in one pack; it may be 1 to {}",
            spans.len(),
            packed.writes_max
        );
        return Err(DevError::misuse(at, why));
    }
    if sectors > caps.max_transfer_sectors {
        let why = format!(
            "a pack of {sectors} sectors; one command takes {}",
            caps.max_transfer_sectors
        );
        return Err(DevError::misuse(at, why));
    }
    spans.sort_unstable();
    let twice = spans.windows(2).find(|w| w[0].0.plus(w[0].1) > w[1].0);
    match twice {
        Some(w) => Err(DevError::misuse(
            Some(w[1].0),
            "written twice in one pack (hazards-H8)",
        )),
        None => Ok(()),
    }
}
