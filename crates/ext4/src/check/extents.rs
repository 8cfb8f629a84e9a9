//! Checks extent trees.

use super::finding::Kind;
use super::mapping::Walker;
use ondisk::ext4::{ExtentEntries, ExtentNode, INLINE_EXTENTS_MAX, verify_extent_checksum};

/// What the node above says about a node.
struct Place {
    /// Levels below it; `None` for the root.
    depth: Option<u16>,
    /// The block it lies in; `None` for the root.
    block: Option<u64>,
    /// First block of the file that it covers.
    first: u64,
    /// One past the last block of the file that it covers.
    end: u64,
}

/// Walks the tree whose root is the block area of the inode.
pub(super) fn walk(walker: &mut Walker<'_, '_>, area: &[u8]) {
    let root = Place {
        depth: None,
        block: None,
        first: 0,
        end: 1 << 32,
    };
    node(walker, area, &root);
}

/// Checks a node and those below it. The recursion is at most five levels deep, because the depth
/// goes down by one each time.
fn node(walker: &mut Walker<'_, '_>, bytes: &[u8], place: &Place) {
    let node = match ExtentNode::parse(bytes) {
        Ok(node) => node,
        Err(e) => return walker.finding(Kind::ExtentNode, place.block, e.to_string()),
    };
    let room = match place.block {
        Some(_) => ExtentNode::block_max(walker.volume.block_bytes()),
        None => INLINE_EXTENTS_MAX,
    };
    // Two records may be kept free for a checksum.
    if node.max > room || node.max + 2 < room {
        let what = format!("eh_max = {}, where {room} records fit", node.max);
        return walker.finding(Kind::ExtentNode, place.block, what);
    }
    if place.depth.is_some_and(|depth| depth != node.depth) {
        let what = format!(
            "eh_depth = {} below a node of depth {}",
            node.depth,
            place.depth.unwrap_or(0) + 1
        );
        return walker.finding(Kind::ExtentOrder, place.block, what);
    }
    if let (Some(seed), Some(_)) = (walker.seed, place.block)
        && let Err(e) = verify_extent_checksum(seed, bytes)
    {
        walker.finding(Kind::ExtentChecksum, place.block, e.to_string());
    }
    match &node.entries {
        ExtentEntries::Leaf(extents) => {
            let begins = extents.first().map(|e| u64::from(e.logical));
            let ends = extents.last().map_or(0, |e| e.logical_end());
            check_range(walker, place, begins, ends);
            for e in extents {
                walker.data(e.logical.into(), e.physical.0, e.len.into(), !e.unwritten);
            }
        }
        ExtentEntries::Index(records) => {
            let begins = records.first().map(|r| u64::from(r.logical));
            check_range(walker, place, begins, 0);
            for (n, record) in records.iter().enumerate() {
                let next = records.get(n + 1).map_or(place.end, |r| r.logical.into());
                let child = Place {
                    depth: Some(node.depth - 1),
                    block: Some(record.child.0),
                    first: record.logical.into(),
                    end: next,
                };
                descend(walker, &child);
            }
        }
    }
}

fn descend(walker: &mut Walker<'_, '_>, place: &Place) {
    let block = place.block.expect("a child lies in a block");
    if let Some(bytes) = walker.node(block) {
        node(walker, &bytes, place);
    }
}

/// Checks that a node begins where the record above it says, and ends before the next one begins.
fn check_range(walker: &mut Walker<'_, '_>, place: &Place, begins: Option<u64>, ends: u64) {
    if place.block.is_none() {
        return;
    }
    match begins {
        None => walker.finding(Kind::ExtentNode, place.block, "a leaf without records"),
        Some(begins) if begins != place.first => {
            let what = format!(
                "begins at block {begins} of the file, the record above it at {}",
                place.first
            );
            walker.finding(Kind::ExtentOrder, place.block, what);
        }
        Some(_) if ends > place.end => {
            let what = format!(
                "ends at block {ends} of the file, where the next node begins at {}",
                place.end
            );
            walker.finding(Kind::ExtentOrder, place.block, what);
        }
        Some(_) => {}
    }
}
