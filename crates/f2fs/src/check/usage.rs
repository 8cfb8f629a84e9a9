//! Which blocks of the main area the check reached, and whether the summaries name the right
//! owners.

use super::finding::{Finding, Kind};
use super::state::State;
use super::tables::SegmentSummary;
use ondisk::f2fs::{
    BlockAddr, Nid, SegNo, Summary, SummaryKind, VALID_MAP_BYTES, bits, summary_entry, summary_kind,
};

/// Blocks of a segment that were reached, as the valid map of the SIT has them; and of which kinds
/// they are.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub map: [u8; VALID_MAP_BYTES],
    pub data: bool,
    pub nodes: bool,
}

/// A block that some structure names: where it lies, and which owner it belongs to.
pub(super) struct Claim {
    pub addr: BlockAddr,
    pub kind: SummaryKind,
    pub owner: Summary,
    pub ino: Nid,
}

impl State<'_> {
    /// Notes that a block is in use. False, with a finding, if it lies outside or was reached
    /// before: it is not to be followed.
    pub fn claim(&mut self, claim: &Claim) -> bool {
        let finding = |kind, what: String| {
            Finding::new(kind, what)
                .ino(claim.ino)
                .nid(claim.owner.nid)
                .block(claim.addr)
        };
        let Some(seg) = self.volume.geo.segno(claim.addr) else {
            self.found.add(finding(
                Kind::AddressOutside,
                "is no block of the main area".to_string(),
            ));
            return false;
        };
        let offset = self.volume.geo.offset_in_seg(claim.addr);
        let blank = Reached {
            map: [0; VALID_MAP_BYTES],
            data: false,
            nodes: false,
        };
        let reached = self.reached.entry(seg.0).or_insert(blank);
        match claim.kind {
            SummaryKind::Data => reached.data = true,
            SummaryKind::Node => reached.nodes = true,
        }
        if bits::set_bit(&mut reached.map, offset as usize) {
            self.found.add(finding(
                Kind::SharedBlock,
                "belongs to something else, too".to_string(),
            ));
            return false;
        }
        self.check_summary(claim, seg, offset);
        true
    }

    fn check_summary(&mut self, claim: &Claim, seg: SegNo, offset: u32) {
        let finding = |kind, what: String| {
            let finding = Finding::new(kind, what).ino(claim.ino).nid(claim.owner.nid);
            finding.segment(seg).block(claim.addr)
        };
        let block = match self.tables.summary(seg, self.found) {
            SegmentSummary::Open(log, block) => {
                if log.is_node() != (claim.kind == SummaryKind::Node) {
                    let what = format!("the {log} log holds a {} block", word(claim.kind));
                    self.found.add(finding(Kind::SummaryKind, what));
                }
                block
            }
            SegmentSummary::Closed(block) => {
                if let Some(bytes) = &block
                    && summary_kind(bytes) != Some(claim.kind)
                {
                    let what = format!("the summary is not one of {} blocks", word(claim.kind));
                    self.found.add(finding(Kind::SummaryKind, what));
                }
                block
            }
            SegmentSummary::None => None,
        };
        let Some(block) = block else {
            return;
        };
        let said = summary_entry(&block, offset);
        let same = match claim.kind {
            SummaryKind::Data => said == claim.owner,
            SummaryKind::Node => said.nid == claim.owner.nid,
        };
        if !same {
            let what = format!(
                "the summary says node {} version {} slot {}, it is node {} version {} slot {}",
                said.nid,
                said.version,
                said.ofs_in_node,
                claim.owner.nid,
                claim.owner.version,
                claim.owner.ofs_in_node
            );
            self.found.add(finding(Kind::SummaryOwner, what));
        }
    }
}

fn word(kind: SummaryKind) -> &'static str {
    match kind {
        SummaryKind::Data => "data",
        SummaryKind::Node => "node",
    }
}
