//! What a PAGE record contains of a node, and how redo changes a node by it (pages-J2).
//!
//! In the image the footer says which node it is and nothing else, the checksum is zero, and slots
//! of a directory say NULL or NEW.

use base::{BLOCK_BYTES, Bytes};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{Block, PageKind, Record};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BlockAddr, FOOTER_AT, Features, Footer, Inline, InodeFields, NODE_COLD, Nid,
    NodeKind, addr, addr_slot0, footer, set_addr, set_footer,
};
use std::ops::Range;

/// Where the checksum of an inode stands.
const CHECKSUM: Range<usize> = 0x170..0x174;

/// Words of a node that name blocks of a directory; none in other nodes.
pub(in crate::journal) fn dir_slots(block: &[u8], features: Features) -> Range<usize> {
    let foot = footer(block);
    match foot.kind() {
        NodeKind::Direct if !foot.is_cold() => 0..ADDRS_PER_BLOCK as usize,
        NodeKind::Inode => match InodeFields::parse(block, features) {
            Ok(fields)
                if fields.is_dir()
                    && !fields.inline.has(Inline::DATA)
                    && !fields.inline.has(Inline::DENTRY) =>
            {
                let first = fields.addr_slot0();
                first..first + fields.addrs_per_inode() as usize
            }
            _ => 0..0,
        },
        _ => 0..0,
    }
}

/// The node as a PAGE record has it.
pub(in crate::journal) fn of_node(block: &[u8], features: Features) -> Bytes {
    let mut image = block.to_vec();
    let foot = footer(block);
    set_footer(&mut image, &identity(&foot));
    if foot.is_inode() && 4 * addr_slot0(block) >= CHECKSUM.end {
        image[CHECKSUM].fill(0);
    }
    for at in dir_slots(block, features) {
        if addr(block, at) != BlockAddr::NULL {
            set_addr(&mut image, at, BlockAddr::NEW);
        }
    }
    image.into()
}

/// A footer that says which node it is, and nothing else.
fn identity(foot: &Footer) -> Footer {
    let mut plain = Footer {
        nid: foot.nid,
        ino: foot.ino,
        flags: foot.flags & NODE_COLD,
        ..Footer::default()
    };
    plain.set_ofs_of_node(foot.ofs_of_node());
    plain
}

/// True if the record leaves nothing of what a node or directory page was before: redo may begin
/// with it, from zeros.
pub(in crate::journal) fn is_whole(record: &Record<'_>, features: Features) -> bool {
    match record {
        Record::Page {
            what: PageKind::Node,
            block,
            ..
        } => dir_slots(block.0, features).is_empty(),
        Record::Page { what, .. } => *what == PageKind::Dentries,
        _ => false,
    }
}

/// Makes of node `nid` of inode `ino`, or of zeros, what the image says.
///
/// # Errors
/// The image is another node's.
pub(in crate::journal) fn put_node(
    block: &mut [u8],
    nid: Nid,
    ino: Nid,
    features: Features,
    image: &[u8; BLOCK_BYTES],
) -> Result<(), &'static str> {
    let (was, said) = (footer(block), footer(image));
    if (said.nid, said.ino) != (nid, ino) {
        return Err("it is the image of another node");
    }
    if said != identity(&said) {
        return Err("its footer says more than which node it is");
    }
    if (nid == ino) != said.is_inode() {
        return Err("an inode and no other node has offset 0");
    }
    let fresh = was.nid == Nid(0);
    if !fresh && (was.nid, was.ino, was.ofs_of_node()) != (nid, ino, said.ofs_of_node()) {
        return Err("the block is another node");
    }
    let slots = dir_slots(image, features);
    let stay = !fresh && dir_slots(block, features) == slots;
    let mut places = vec![BlockAddr::NULL; slots.len()];
    for (place, at) in places.iter_mut().zip(slots.clone()) {
        let here = addr(block, at);
        *place = match addr(image, at) {
            BlockAddr::NULL => BlockAddr::NULL,
            _ if stay && here.is_data() => here,
            _ => BlockAddr::NEW,
        };
    }
    block[..FOOTER_AT].copy_from_slice(&image[..FOOTER_AT]);
    if fresh {
        set_footer(block, &said);
    }
    for (place, at) in places.into_iter().zip(slots) {
        set_addr(block, at, place);
    }
    Ok(())
}

/// A PAGE record.
///
/// # Errors
/// The image is no block.
pub(super) fn record_of(
    what: PageKind,
    number: u32,
    page: u32,
    image: &[u8],
) -> FsResult<Record<'_>> {
    let block = image.try_into().map_err(|_| {
        let (what, len) = (what.word(), image.len());
        FsError::corrupt(format!(
            "pages-J1: an image of {len} bytes, {what} {number}"
        ))
    })?;
    Ok(Record::Page {
        what,
        number,
        page,
        block: Block(block),
    })
}
