//! Checks inodes: every inode that a name, the list of orphans or the superblock leads to.

use super::dirs::{self, Directory};
use super::finding::Kind;
use super::state::{File, Reason, State};
use super::tree::{self, Node};
use super::xattrs;
use base::BLOCK_BYTES;
use base::bytes::is_zero;
use ondisk::f2fs::{
    Advise, BlockAddr, FileType, Inline, InodeFields, InodeFlags, MAX_DIR_HASH_DEPTH, Nid, addr,
    max_file_blocks, verify_inode_checksum,
};

/// What is known of the inode that is walked.
pub(super) struct Walk {
    pub ino: Nid,
    pub fields: InodeFields,
    /// Blocks that were found, the inode included.
    pub blocks: u64,
    /// Last block of the file that has a place.
    pub last_block: Option<u64>,
    /// For a directory: what its entries said.
    pub dir: Option<Directory>,
    /// Blocks of the noted extent that are where it says.
    extent_blocks: u64,
}

impl Walk {
    /// Compares an address with the extent that the inode notes.
    pub fn note_extent(&mut self, file_block: u64, at: BlockAddr) {
        let ext = &self.fields.ext;
        let Some(n) = file_block.checked_sub(ext.fofs.into()) else {
            return;
        };
        if n < u64::from(ext.len) && u64::from(at) == u64::from(ext.addr) + n {
            self.extent_blocks += 1;
        }
    }
}

/// Follows everything that can be reached.
pub(super) fn scan(state: &mut State<'_>) {
    let root = state.volume.geo.root;
    state.queue.push_back((root, Reason::Root));
    state.queue.extend(
        state
            .volume
            .pack
            .orphans
            .iter()
            .map(|&ino| (ino, Reason::Orphan)),
    );
    let hidden = state
        .volume
        .sb
        .quota_inos()
        .into_iter()
        .filter(|&ino| ino != Nid(0));
    state.queue.extend(hidden.map(|ino| (ino, Reason::Hidden)));
    while let Some((ino, reason)) = state.queue.pop_front() {
        if state.files.contains_key(&ino.0) {
            seen_again(state, ino, reason);
        } else {
            first_look(state, ino, reason);
        }
    }
    if !state.files.get(&root.0).is_some_and(File::is_dir) {
        state
            .found
            .at_inode(root, Kind::Root, "is missing or no directory");
    }
}

fn seen_again(state: &mut State<'_>, ino: Nid, reason: Reason) {
    let Some(file) = state.files.get_mut(&ino.0) else {
        return;
    };
    match reason {
        Reason::Root | Reason::Hidden => {}
        Reason::Orphan => {
            let what = "listed twice, or has a name";
            state.found.at_inode(ino, Kind::Orphans, what);
        }
        Reason::Entry { parent, kind } => {
            file.names += 1;
            if file.is_dir() {
                let what = format!("the entry in inode {parent} is another one that leads to it");
                state.found.at_inode(ino, Kind::DirParents, what);
            }
            if file.orphan && file.names == 1 {
                let what = format!("inode {parent} has an entry for it");
                state.found.at_inode(ino, Kind::Orphans, what);
            }
            check_kind(state, ino, parent, kind);
        }
    }
}

/// Compares the kind that an entry says with that of the inode.
fn check_kind(state: &mut State<'_>, ino: Nid, parent: Nid, said: FileType) {
    let is = state.files[&ino.0].kind;
    if is != said {
        let what = format!("the entry in inode {parent} says {said:?}, it is {is:?}");
        state.found.at_inode(ino, Kind::DirType, what);
    }
}

fn first_look(state: &mut State<'_>, ino: Nid, reason: Reason) {
    let geo = &state.volume.geo;
    if ino == geo.node_ino || ino == geo.meta_ino {
        let what = "stands for an area of the volume, no name may lead there";
        state.found.at_inode(ino, Kind::DirTarget, what);
        return;
    }
    let Some(node) = state.node(ino, ino, 0) else {
        if let Reason::Entry { parent, .. } = reason {
            let what = format!("an entry in inode {parent} leads to it");
            state.found.at_inode(ino, Kind::DirTarget, what);
        }
        return;
    };
    state.inodes += 1;
    let fields = match InodeFields::parse(&node.block, state.volume.features) {
        Ok(fields) => fields,
        Err(e) => {
            state.found.at_inode(ino, Kind::InodeField, e.to_string());
            return;
        }
    };
    let kind = FileType::from_mode(fields.mode);
    let file = File {
        kind,
        links: fields.links,
        names: u32::from(matches!(reason, Reason::Entry { .. })),
        subdirs: 0,
        orphan: reason == Reason::Orphan,
    };
    state.files.insert(ino.0, file);
    let parent = match reason {
        Reason::Entry { parent, kind } => {
            check_kind(state, ino, parent, kind);
            if file.is_dir()
                && let Some(above) = state.files.get_mut(&parent.0)
            {
                above.subdirs += 1;
            }
            Some(parent)
        }
        Reason::Orphan => None,
        Reason::Root | Reason::Hidden => Some(ino),
    };
    check_fields(state, ino, &fields, &node);
    walk(state, ino, parent, fields, &node);
}

fn check_fields(state: &mut State<'_>, ino: Nid, fields: &InodeFields, node: &Node) {
    let mut add = |kind, what: String| state.found.at_inode(ino, kind, what);
    if let Err(e) = verify_inode_checksum(&node.block, state.volume.features, state.volume.seed) {
        add(Kind::InodeChecksum, e.to_string());
    }
    if FileType::from_mode(fields.mode) == FileType::Unknown {
        add(
            Kind::InodeField,
            format!("mode {:o} is of no type", fields.mode),
        );
    }
    let most = max_file_blocks() * BLOCK_BYTES as u64;
    if fields.size > most {
        add(
            Kind::InodeSize,
            format!("{} bytes; a file has at most {most}", fields.size),
        );
    }
    let whole = fields.size.is_multiple_of(BLOCK_BYTES as u64);
    if fields.is_dir() && !fields.inline.has(Inline::DENTRY) && !whole {
        add(
            Kind::InodeSize,
            format!("{} bytes; a directory has whole blocks", fields.size),
        );
    }
    if fields.is_symlink() && fields.size == 0 && !state.files[&ino.0].orphan {
        add(
            Kind::InodeSize,
            "a symbolic link without a target".to_string(),
        );
    }
    if fields.is_dir() && fields.current_depth > MAX_DIR_HASH_DEPTH {
        add(
            Kind::InodeField,
            format!("{} levels of a directory; at most 63", fields.current_depth),
        );
    }
    if fields.flags.has(InodeFlags::CASEFOLD) && state.volume.folding.is_none() {
        let what = "names without regard to case, without feature casefold";
        add(Kind::InodeField, what.to_string());
    }
    check_inline(state, ino, fields, node);
}

/// What lies in the inode instead of addresses; and content that is not understood.
fn check_inline(state: &mut State<'_>, ino: Nid, fields: &InodeFields, node: &Node) {
    let mut add = |kind, what: String| state.found.at_inode(ino, kind, what);
    let inline = fields.inline.has(Inline::DATA) || fields.inline.has(Inline::DENTRY);
    if inline && addr(&node.block, fields.addr_slot0()) != BlockAddr::NULL {
        add(
            Kind::Inline,
            "the first address is not 0 beside inline contents".to_string(),
        );
    }
    let room = fields.inline_data_range().len();
    if fields.inline.has(Inline::DATA) && fields.size > room as u64 {
        add(
            Kind::Inline,
            format!(
                "{} bytes are said to lie in the inode; {room} fit",
                fields.size
            ),
        );
    }
    let unmarked = fields.inline.has(Inline::DATA) && !fields.inline.has(Inline::DATA_EXIST);
    if unmarked && !is_zero(&node.block[fields.inline_data_range()]) {
        let what = "data lies in the inode, which says that there is none";
        add(Kind::Inline, what.to_string());
    }
    let encrypted = fields.advise.has(Advise::ENCRYPT);
    if fields.is_symlink() && fields.inline.has(Inline::DATA) && !encrypted {
        let target = &node.block[fields.inline_data_range()];
        let size = target.len().min(fields.size as usize);
        if target[..size].contains(&0) {
            let what = format!("a NUL within the {size} bytes of the target");
            add(Kind::Inline, what);
        }
    }
    let contents = [Advise::ENCRYPT, Advise::VERITY]
        .into_iter()
        .any(|a| fields.advise.has(a));
    if contents || fields.flags.has(InodeFlags::COMPRESS) {
        add(
            Kind::Unsupported,
            "an encrypted, verity or compressed file".to_string(),
        );
    }
}

fn walk(state: &mut State<'_>, ino: Nid, parent: Option<Nid>, fields: InodeFields, node: &Node) {
    let dir = fields.is_dir().then(|| Directory::new(parent));
    let mut walk = Walk {
        ino,
        fields,
        blocks: 1,
        last_block: None,
        dir,
        extent_blocks: 0,
    };
    xattrs::check(state, &mut walk, node);
    let inline = walk.fields.inline;
    if walk.fields.is_dir() && inline.has(Inline::DENTRY) {
        dirs::check_inline(state, &mut walk, &node.block);
    } else if has_addresses(&walk.fields) {
        tree::follow(state, &mut walk, node);
    }
    check_extent(state, &walk);
    if walk.fields.is_dir() {
        dirs::finish(state, &mut walk);
    }
    if walk.blocks != walk.fields.blocks && !walk.fields.flags.has(InodeFlags::COMPRESS) {
        let what = format!(
            "{} blocks are noted, {} found",
            walk.fields.blocks, walk.blocks
        );
        state.found.at_inode(ino, Kind::InodeBlocks, what);
    }
}

fn has_addresses(fields: &InodeFields) -> bool {
    let kind = fields.is_dir() || fields.is_regular() || fields.is_symlink();
    kind && !fields.inline.has(Inline::DATA)
}

/// The run of blocks that the inode notes is where the addresses say; one without addresses notes
/// none.
fn check_extent(state: &mut State<'_>, walk: &Walk) {
    let ext = walk.fields.ext;
    if walk.extent_blocks != u64::from(ext.len) {
        let what = format!(
            "blocks {} and {} more are said to lie at {}; {} of them do",
            ext.fofs,
            ext.len.saturating_sub(1),
            ext.addr,
            walk.extent_blocks
        );
        state.found.at_inode(walk.ino, Kind::Extent, what);
    }
}
