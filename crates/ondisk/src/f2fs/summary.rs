//! Summary blocks: the owner of each block of a segment, and in two of them journals of NAT and
//! SIT.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 512 x 7 | `entries` | nid le32, version u8, `ofs_in_node` le16 |
//! | 3584 | 507 | `journal` | see [`put_nat_journal`] |
//! | 4091 | u8 | `entry_type` | 0 data, 1 node |
//! | 4092 | le32 | `check_sum` | 0: no version of the format fills it |
//!
//! Journals: count le16, then at most 38 NAT entries (nid le32, [`NatEntry`]) or 6 SIT entries
//! (segment le32, [`SitEntry`]). An entry in a journal takes precedence over the one in the table.
//! The checkpoint keeps the NAT journal in the summary of the hot data log, the SIT journal in that
//! of the cold data log.

use super::nat::NAT_ENTRY_BYTES;
use super::sit::SIT_ENTRY_BYTES;
use super::{BLOCK_BYTES, BLOCKS_PER_SEG, NatEntry, Nid, SegNo, SitEntry};
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};

/// Bytes of an entry.
pub const SUMMARY_BYTES: usize = 7;
/// Bytes of a journal.
pub const JOURNAL_BYTES: usize = 507;
/// Bytes behind the journal.
pub const SUMMARY_FOOTER_BYTES: usize = 5;
/// Entries of a NAT journal.
pub const NAT_JOURNAL_MAX: usize = 38;
/// Entries of a SIT journal.
pub const SIT_JOURNAL_MAX: usize = 6;

const WHAT: &str = "f2fs summary block";
const JOURNAL_AT: usize = BLOCKS_PER_SEG as usize * SUMMARY_BYTES;
const KIND_AT: usize = JOURNAL_AT + JOURNAL_BYTES;

/// Owner of a block. For a node block: the nid, the rest 0. For a data block: its direct node, the
/// version of that nid, and the slot in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// The node itself, or the node that has the data block's address.
    pub nid: Nid,
    /// Version of that nid ([`NatEntry::version`]).
    pub version: u8,
    /// Slot in the node.
    pub ofs_in_node: u16,
}

impl Summary {
    /// Decodes an entry; bytes that are missing count as 0.
    pub fn parse(raw: &[u8]) -> Summary {
        match raw.get(..SUMMARY_BYTES) {
            Some(raw) => Summary {
                nid: Nid(get_le32(raw, 0)),
                version: raw[4],
                ofs_in_node: get_le16(raw, 5),
            },
            None => Summary::default(),
        }
    }
    /// Its bytes.
    pub fn encode(self) -> [u8; SUMMARY_BYTES] {
        let mut raw = [0; SUMMARY_BYTES];
        put_le32(&mut raw, 0, self.nid.0);
        raw[4] = self.version;
        put_le16(&mut raw, 5, self.ofs_in_node);
        raw
    }
}

/// What a summary block describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SummaryKind {
    /// A segment of data.
    Data = 0,
    /// A segment of nodes.
    Node = 1,
}

/// A summary block.
#[derive(Clone, PartialEq, Eq)]
pub struct SummaryBlock {
    raw: Vec<u8>,
}

impl SummaryBlock {
    /// A block without owners.
    pub fn blank(kind: SummaryKind) -> SummaryBlock {
        let mut raw = vec![0; BLOCK_BYTES];
        raw[KIND_AT] = kind as u8;
        SummaryBlock { raw }
    }
    /// Takes the bytes of a block; what they say is not checked.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(block: &[u8]) -> Result<SummaryBlock, Corrupt> {
        Ok(SummaryBlock {
            raw: Corrupt::need(WHAT, block, BLOCK_BYTES)?.to_vec(),
        })
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.raw
    }
    /// Owner of block `i` of the segment; the empty entry if `i` is not below 512.
    pub fn entry(&self, i: u32) -> Summary {
        summary_entry(&self.raw, i)
    }
    /// Sets the owner of block `i`.
    ///
    /// # Panics
    /// `i` is not below 512.
    pub fn set_entry(&mut self, i: u32, summary: Summary) {
        assert!(i < BLOCKS_PER_SEG, "a segment has 512 blocks");
        let at = i as usize * SUMMARY_BYTES;
        self.raw[at..at + SUMMARY_BYTES].copy_from_slice(&summary.encode());
    }
    /// What the block describes; `None` if it says neither.
    pub fn kind(&self) -> Option<SummaryKind> {
        summary_kind(&self.raw)
    }
    /// Sets what the block describes.
    pub fn set_kind(&mut self, kind: SummaryKind) {
        self.raw[KIND_AT] = kind as u8;
    }
    /// The journal's bytes.
    pub fn journal(&self) -> &[u8] {
        &self.raw[JOURNAL_AT..KIND_AT]
    }
    /// The journal's bytes, to change.
    pub fn journal_mut(&mut self) -> &mut [u8] {
        &mut self.raw[JOURNAL_AT..KIND_AT]
    }
    /// Entries of the journal, read as one of the NAT.
    pub fn nat_journal(&self) -> impl Iterator<Item = (Nid, NatEntry)> {
        nat_journal(self.journal())
    }
    /// Entries of the journal, read as one of the SIT.
    pub fn sit_journal(&self) -> impl Iterator<Item = (SegNo, SitEntry)> {
        sit_journal(self.journal())
    }
    /// Makes the journal one of the NAT; see [`put_nat_journal`].
    pub fn set_nat_journal(&mut self, entries: &[(Nid, NatEntry)]) {
        put_nat_journal(self.journal_mut(), entries);
    }
    /// Makes the journal one of the SIT; see [`put_sit_journal`].
    pub fn set_sit_journal(&mut self, entries: &[(SegNo, SitEntry)]) {
        put_sit_journal(self.journal_mut(), entries);
    }
}

impl std::fmt::Debug for SummaryBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SummaryBlock")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

/// Owner of block `i` in the bytes of a summary block; the empty entry if there is no such one.
pub fn summary_entry(block: &[u8], i: u32) -> Summary {
    if i >= BLOCKS_PER_SEG {
        return Summary::default();
    }
    Summary::parse(block.get(i as usize * SUMMARY_BYTES..).unwrap_or_default())
}

/// What the bytes of a summary block say they describe; `None` if neither or too short.
pub fn summary_kind(block: &[u8]) -> Option<SummaryKind> {
    match block.get(KIND_AT)? {
        0 => Some(SummaryKind::Data),
        1 => Some(SummaryKind::Node),
        _ => None,
    }
}

/// Entries that a journal says it has; more than fit means that it is damaged. 0 if it is too
/// short.
pub fn journal_count(journal: &[u8]) -> u16 {
    if journal.len() < 2 {
        0
    } else {
        get_le16(journal, 0)
    }
}

/// Entries of a NAT journal in its order, at most 38.
pub fn nat_journal(journal: &[u8]) -> impl Iterator<Item = (Nid, NatEntry)> {
    let entries = records(journal, 4 + NAT_ENTRY_BYTES, NAT_JOURNAL_MAX);
    entries.map(|raw| (Nid(get_le32(raw, 0)), NatEntry::parse(&raw[4..])))
}

/// Entries of a SIT journal in its order, at most 6.
pub fn sit_journal(journal: &[u8]) -> impl Iterator<Item = (SegNo, SitEntry)> {
    let entries = records(journal, 4 + SIT_ENTRY_BYTES, SIT_JOURNAL_MAX);
    entries.map(|raw| (SegNo(get_le32(raw, 0)), SitEntry::from_bytes(&raw[4..])))
}

fn records(journal: &[u8], bytes: usize, max: usize) -> impl Iterator<Item = &[u8]> {
    let count = usize::from(journal_count(journal)).min(max);
    journal
        .get(2..)
        .unwrap_or_default()
        .chunks_exact(bytes)
        .take(count)
}

/// Writes a NAT journal; bytes behind it become 0.
///
/// # Panics
/// More than 38 entries, or `journal` has not 507 bytes.
pub fn put_nat_journal(journal: &mut [u8], entries: &[(Nid, NatEntry)]) {
    assert!(
        entries.len() <= NAT_JOURNAL_MAX,
        "a NAT journal has room for 38 entries"
    );
    begin(journal, entries.len());
    let places = journal[2..].chunks_exact_mut(4 + NAT_ENTRY_BYTES);
    for (place, (nid, entry)) in places.zip(entries) {
        put_le32(place, 0, nid.0);
        place[4..].copy_from_slice(&entry.encode());
    }
}

/// Writes a SIT journal; bytes behind it become 0.
///
/// # Panics
/// More than 6 entries, or `journal` has not 507 bytes.
pub fn put_sit_journal(journal: &mut [u8], entries: &[(SegNo, SitEntry)]) {
    assert!(
        entries.len() <= SIT_JOURNAL_MAX,
        "a SIT journal has room for 6 entries"
    );
    begin(journal, entries.len());
    let places = journal[2..].chunks_exact_mut(4 + SIT_ENTRY_BYTES);
    for (place, (seg, entry)) in places.zip(entries) {
        put_le32(place, 0, seg.0);
        place[4..].copy_from_slice(&entry.to_bytes());
    }
}

fn begin(journal: &mut [u8], count: usize) {
    assert_eq!(journal.len(), JOURNAL_BYTES, "a journal has 507 bytes");
    journal.fill(0);
    put_le16(journal, 0, count as u16);
}
