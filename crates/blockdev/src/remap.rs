//! REMAP: home addresses take over the content of journal addresses, without a copy where the
//! device can alias.
//!
//! The semantics are those of a write (`Caps::remap` says whether a device has it):
//!
//! - S1: atomically with respect to reads and to a power cut, the content of every `home` becomes
//!   what its `src` held when the command started.
//! - S2: with [`RemapMode::Share`] `src` keeps its content until it is written or discarded; with
//!   [`RemapMode::Move`] it reads as discarded afterwards.
//! - S3: visible at completion; durable after the next flush, or at completion with `fua`.
//! - S4: after a cut a whole batch is there, or nothing of it. A batch that is refused has done
//!   nothing. If a batch fails with an I/O error, as on a device that became read-only while making
//!   it durable, reads show whether it has happened.
//! - S5: the homes of a batch are distinct, and none of them is a source of the batch.
//! - S6: `expect` refuses the batch before any effect if a source holds other content.
//! - S7: where no alias can be made the device copies, unless `require_all` forbids it; a device
//!   may refuse a batch that would copy more than it has room for.
//! - S8: the command comes after every write that completed before it was submitted.
//!
//! A batch that is refused by S5, S6 or S7 answers
//! [`DevErrorKind::Misuse`](crate::DevErrorKind::Misuse) and has done nothing; to send it again
//! does not help. After [`DevErrorKind::Io`](crate::DevErrorKind::Io) the batch has happened as a
//! whole or not at all (S4).

use crate::{Caps, DevError};
use base::{Bytes, Lba, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// The new content of the homes of a batch: the pieces of each pair, and how many sectors were
/// aliased and copied.
pub(crate) type Contents = (Vec<Vec<Bytes>>, Remapped);

/// What happens to the source of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemapMode {
    /// The source keeps its content: home and source share one page.
    #[default]
    Share,
    /// The source reads as discarded afterwards (JFTL, 3.1: the journal's mapping entry is
    /// cleared).
    Move,
}

/// One home address and where its new content lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemapPair {
    /// First sector that takes over the content.
    pub home: Lba,
    /// First sector of the content.
    pub src: Lba,
    /// Sectors, at least one.
    pub sectors: u64,
    /// [`expectation`] of the content that `src` must have; `None`: any content.
    pub expect: Option<u64>,
}

/// A batch of pairs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remap {
    /// The pairs, at most [`RemapCaps::pairs_max`].
    pub pairs: Vec<RemapPair>,
    /// What happens to the sources.
    pub mode: RemapMode,
    /// Completion means non-volatile.
    pub fua: bool,
    /// Refuse the batch rather than copy a part of it.
    pub require_all: bool,
}

/// What a batch did, in sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Remapped {
    /// Sectors whose home shares a page with its source.
    pub aliased: u64,
    /// Sectors that were copied.
    pub copied: u64,
}

/// The promises of a device with REMAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemapCaps {
    /// Address and length of a pair have to be multiples of this for an alias, bytes.
    pub granule: u32,
    /// Most pairs of a batch.
    pub pairs_max: u32,
}

/// The value of [`RemapPair::expect`] for this content.
pub fn expectation(content: &[Bytes]) -> u64 {
    match content {
        [one] => base::collections::fingerprint(one),
        many => base::collections::fingerprint(&many.concat()),
    }
}

/// Refuses what no device may do: a breach of S5, too large a batch, and spans outside the device.
///
/// # Errors
/// Misuse, with the first pair that is wrong.
pub(crate) fn check(caps: &Caps, remap: &Remap) -> Result<(), DevError> {
    let at = remap.pairs.first().map(|p| p.home);
    let Some(promise) = caps.remap else {
        return Err(DevError::misuse(at, "this device has no REMAP"));
    };
    if remap.pairs.is_empty() || remap.pairs.len() > promise.pairs_max as usize {
        let why = format!(
            "{} pairs in one REMAP; it may be 1 to {}",
            remap.pairs.len(),
            promise.pairs_max
        );
        return Err(DevError::misuse(at, why));
    }
    let mut homes: Vec<(u64, u64)> = Vec::with_capacity(remap.pairs.len());
    let mut sources = homes.clone();
    for pair in &remap.pairs {
        homes.push((pair.home.0, pair.home.0 + pair.sectors));
        sources.push((pair.src.0, pair.src.0 + pair.sectors));
    }
    homes.sort_unstable();
    if let Some(w) = homes.windows(2).find(|w| w[0].1 > w[1].0) {
        let why = "S5: home twice in one REMAP";
        return Err(DevError::misuse(Some(Lba(w[1].0)), why));
    }
    sources.sort_unstable();
    let mut sources = sources.iter().peekable();
    for home in &homes {
        while sources.next_if(|s| s.1 <= home.0).is_some() {}
        if sources.peek().is_some_and(|s| s.0 < home.1) {
            let why = "S5: home and source in one REMAP";
            return Err(DevError::misuse(Some(Lba(home.0)), why));
        }
    }
    Ok(())
}

impl Remap {
    /// The sources as separate runs of sectors, ascending: what a move discards.
    pub fn sources(&self) -> Vec<(Lba, u64)> {
        let spans = self.pairs.iter().map(|p| (p.src.0, p.src.0 + p.sectors));
        let mut spans: Vec<(u64, u64)> = spans.collect();
        spans.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match out.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => out.push((from, to)),
            }
        }
        let run = |(from, to): (u64, u64)| (Lba(from), to - from);
        out.into_iter().map(run).collect()
    }

    /// The runs of sectors that the batch changes: the homes, and for a move the sources too.
    pub fn changed(&self) -> Vec<(Lba, u64)> {
        let homes = self.pairs.iter().map(|p| (p.home, p.sectors));
        let gone = match self.mode {
            RemapMode::Share => Vec::new(),
            RemapMode::Move => self.sources(),
        };
        homes.chain(gone).collect()
    }

    /// The new content of the homes, for a device that can alias whatever is aligned to its
    /// granule: S6 and S7. `read` answers the content of a run of sectors in any pieces.
    ///
    /// # Errors
    /// Misuse, with the first pair that is wrong.
    pub(crate) fn contents(
        &self,
        granule: u32,
        mut read: impl FnMut(Lba, u64) -> Result<Vec<Bytes>, DevError>,
    ) -> Result<Contents, DevError> {
        let mut done = Remapped::default();
        let mut contents = Vec::with_capacity(self.pairs.len());
        let unit = (u64::from(granule) / SECTOR_BYTES as u64).max(1);
        for pair in &self.pairs {
            let content = read(pair.src, pair.sectors)?;
            if pair.expect.is_some_and(|is| is != expectation(&content)) {
                let why = "S6: the source of a REMAP holds other content than expected";
                return Err(DevError::misuse(Some(pair.src), why));
            }
            let numbers = [pair.home.0, pair.src.0, pair.sectors];
            match numbers.iter().all(|n| n.is_multiple_of(unit)) {
                true => done.aliased += pair.sectors,
                false if self.require_all => {
                    let why = format!("S7: a REMAP aliases multiples of {granule} bytes only");
                    return Err(DevError::misuse(Some(pair.home), why));
                }
                false => done.copied += pair.sectors,
            }
            contents.push(content);
        }
        Ok((contents, done))
    }
}

impl RemapPair {
    /// A pair of whole blocks of `bytes` bytes each.
    pub fn new(home: Lba, src: Lba, bytes: usize) -> RemapPair {
        RemapPair {
            home,
            src,
            sectors: (bytes / SECTOR_BYTES) as u64,
            expect: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ram;
    use crate::{BlockDevice, Request, check_request};

    fn caps() -> Caps {
        let remap = Some(RemapCaps {
            granule: 4096,
            pairs_max: 3,
        });
        Caps {
            remap,
            ..Ram::new(1 << 20).caps()
        }
    }

    fn pair(home: u64, src: u64) -> RemapPair {
        RemapPair::new(Lba(home), Lba(src), 4096)
    }

    fn checked(pairs: Vec<RemapPair>) -> Result<(), DevError> {
        let remap = Remap {
            pairs,
            ..Remap::default()
        };
        check_request(&caps(), &Request::remap(remap))
    }

    #[test]
    fn a_batch_of_distinct_homes_passes() {
        checked(vec![pair(8, 64), pair(0, 80), pair(24, 64)]).expect("legal");
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_it() {
        for (pairs, why) in [
            (vec![], "1 to 3"),
            (vec![pair(0, 64); 4], "1 to 3"),
            (vec![pair(0, 64), pair(4, 80)], "S5: home twice"),
            (vec![pair(0, 64), pair(64, 80)], "S5: home and source"),
            (vec![pair(0, 4)], "S5: home and source"),
            (vec![pair(0, 2048)], "beyond the device"),
            (vec![pair(u64::MAX - 2, 0)], "beyond the device"),
        ] {
            let e = checked(pairs.clone()).expect_err(why).to_string();
            assert!(e.contains(why), "{pairs:?}: {e}");
        }
        let without = Caps {
            remap: None,
            ..caps()
        };
        let remap = Remap {
            pairs: vec![pair(0, 64)],
            ..Remap::default()
        };
        let e = check_request(&without, &Request::remap(remap)).expect_err("no REMAP");
        assert!(e.to_string().contains("no REMAP"), "{e}");
    }

    #[test]
    fn sources_are_runs_apart() {
        let remap = Remap {
            pairs: vec![pair(0, 72), pair(8, 64), pair(16, 64), pair(24, 100)],
            ..Remap::default()
        };
        assert_eq!(remap.sources(), [(Lba(64), 16), (Lba(100), 8)]);
    }
}
