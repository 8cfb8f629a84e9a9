//! Changes one node block, or one page of a directory, and logs the change: each method of [`Edit`]
//! changes bytes and makes the record that says so. A record that the change itself makes costs
//! neither a copy of the block nor a comparison.
//!
//! - E1 the records of an edit, redone on the block before it, give the block after it, except for
//!   what writing the block sets (f2fs-journal-I3). Builds with assertions redo every record on a
//!   copy, and compare at the end;
//! - E2 attributes, addresses, node numbers and bytes that stay have no record: most operations put
//!   all attributes of an inode and change three of them, and redo of a slot of a directory that is
//!   NEW makes zeros of the page, so that a second record of the slot would cost the entries;
//! - E3 without a journal the bytes change alike.
//!
//! A change that has no method here is found by comparing the whole block
//! ([`Edit::by_comparing`]).

use super::redo;
use super::{Check, Emit, as_written, changed_fields};
use ondisk::f2fs as disk;
use ondisk::f2fs::journal::{Content, Record, attr};
use ondisk::f2fs::{
    BlockAddr, Dentry, DentryLayout, Features, FileType, Footer, INODE_NID_SLOT0, InodeFields, Nid,
    addr, addr_slot0, footer, nid_slot, set_addr, set_nid_slot,
};
use std::ops::Range;

/// The attributes of a block of zeros.
static NO_ATTRS: [u8; attr::BYTES] = [0; attr::BYTES];

/// What a block is.
#[derive(Clone, Copy)]
enum What {
    Node(Footer),
    /// A page of a directory.
    Page(Nid, u32),
}

/// A block that an operation changes.
pub(crate) struct Edit<'a> {
    block: &'a mut [u8],
    what: What,
    features: Features,
    /// `None`: without a journal.
    log: Option<Emit<'a>>,
    compared: bool,
}

/// Lets `change` edit a node block of a volume with these `features`, and hands its records to
/// `log`. Answers what `change` does, and whether blocks were compared.
///
/// # Panics
/// In builds with assertions: E1 does not hold.
pub(crate) fn node<R>(
    block: &mut [u8],
    features: Features,
    mut log: impl FnMut(&Record<'_>),
    change: impl FnOnce(&mut Edit<'_>) -> R,
) -> (R, bool) {
    let foot = footer(block);
    let mut check = Check::begin(block);
    let mut see = |record: &Record<'_>| {
        Check::see(&mut check, record, |block, record| {
            redo::node(block, foot.nid, foot.ino, features, record)
        });
        log(record);
    };
    let mut edit = Edit {
        block,
        what: What::Node(foot),
        features,
        log: Some(&mut see),
        compared: false,
    };
    let answer = (change(&mut edit), edit.compared);
    Check::end(check, block, |redone| as_written(redone, block));
    answer
}

/// As [`node`](fn@node), for a page of directory `dir`.
///
/// # Panics
/// As [`node`](fn@node).
pub(crate) fn page<R>(
    block: &mut [u8],
    (dir, page): (Nid, u32),
    mut log: impl FnMut(&Record<'_>),
    change: impl FnOnce(&mut Edit<'_>) -> R,
) -> (R, bool) {
    let mut check = Check::begin(block);
    let mut see = |record: &Record<'_>| {
        Check::see(&mut check, record, |block, record| {
            redo::dir_block(block, dir, page, record)
        });
        log(record);
    };
    let mut edit = Edit {
        block,
        what: What::Page(dir, page),
        features: Features::default(),
        log: Some(&mut see),
        compared: false,
    };
    let answer = (change(&mut edit), edit.compared);
    Check::end(check, block, |_| {});
    answer
}

impl<'a> Edit<'a> {
    /// A node block of a volume without a journal, or one that is no node yet (E3).
    pub fn unlogged(block: &'a mut [u8], features: Features) -> Edit<'a> {
        Edit {
            what: What::Node(footer(block)),
            block,
            features,
            log: None,
            compared: false,
        }
    }

    /// The bytes as they are now.
    pub fn bytes(&self) -> &[u8] {
        self.block
    }

    fn log(&mut self, record: &Record<'_>) {
        if let Some(log) = &mut self.log {
            log(record);
        }
    }

    /// The node that is edited, and whether it is a directory's.
    fn of_node(&self) -> (Nid, bool) {
        match self.what {
            What::Node(foot) => (foot.nid, !foot.is_cold()),
            What::Page(..) => panic!("E1: a page of a directory is edited as a node"),
        }
    }

    /// How records of entries name the block.
    fn place(&self) -> u32 {
        match self.what {
            What::Node(_) => Record::INLINE,
            What::Page(_, page) => page,
        }
    }

    /// Lets `change` do what it likes to the block, and finds out what it did.
    pub fn by_comparing<R>(&mut self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let Some(log) = &mut self.log else {
            return change(self.block);
        };
        let mut before = self.block.to_vec();
        let answer = change(self.block);
        self.compared = true;
        match self.what {
            What::Node(_) => super::node(&mut before, self.block, self.features, log),
            What::Page(dir, page) => super::dir_block(&mut before, self.block, (dir, page), log),
        }
        answer
    }

    /// Lets `change` set attributes of an inode and the numbers of its nodes, and nothing else.
    pub fn attrs(&mut self, change: impl FnOnce(&mut [u8])) {
        if self.log.is_none() {
            return change(self.block);
        }
        let mut before = [0; attr::BYTES];
        before.copy_from_slice(&self.block[..attr::BYTES]);
        let nids: [Nid; 5] = std::array::from_fn(|n| nid_slot(self.block, INODE_NID_SLOT0 + n));
        change(self.block);
        let mask = changed_fields(&before, self.block);
        if mask != 0 {
            let fields = &attr::packed(self.block, mask)[..];
            self.log(&Record::InodeAttr { mask, fields });
        }
        for (word, was) in (INODE_NID_SLOT0..).zip(nids) {
            self.log_child(word, was);
        }
    }

    /// All attributes and node numbers of an inode.
    pub fn put_fields(&mut self, fields: &InodeFields) {
        let features = self.features;
        self.attrs(|block| fields.encode_into(block, features));
    }

    /// The attributes of a new inode, whose block is zeros.
    pub fn new_inode(&mut self, fields: &InodeFields) {
        fields.encode_into(self.block, self.features);
        if self.log.is_some() {
            let mask = changed_fields(&NO_ATTRS, self.block) & !attr::NAME;
            let packed = attr::packed(self.block, mask);
            self.log(&Record::InodeNew {
                mask,
                fields: &packed,
                name: fields.name.as_bytes(),
            });
        }
    }

    /// Bytes of a node, of which those at both ends that stay are not logged.
    pub fn put_bytes(&mut self, content: Content, at: usize, bytes: &[u8]) {
        let was = &self.block[at..at + bytes.len()];
        let differ = |(was, is): (&u8, &u8)| was != is;
        let (first, last) = {
            let mut pairs = was.iter().zip(bytes);
            (pairs.clone().position(differ), pairs.rposition(differ))
        };
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        let at = at + first;
        let bytes = &bytes[first..=last];
        self.block[at..at + bytes.len()].copy_from_slice(bytes);
        let (nid, _) = self.of_node();
        self.log(&Record::Bytes {
            content,
            nid,
            at: at as u16,
            bytes,
        });
    }

    /// The word of a node that names another one.
    pub fn put_child(&mut self, word: usize, child: Nid) {
        let was = nid_slot(self.block, word);
        set_nid_slot(self.block, word, child);
        self.log_child(word, was);
    }

    fn log_child(&mut self, word: usize, was: Nid) {
        let child = nid_slot(self.block, word);
        if child != was {
            let (parent, _) = self.of_node();
            let slot = word as u16;
            self.log(&Record::NodePtr {
                parent,
                slot,
                child,
            });
        }
    }

    /// Addresses in the slots from `slot` on.
    pub fn put_addrs(&mut self, slot: u16, addrs: &[BlockAddr]) {
        let word = addr_slot0(self.block) + usize::from(slot);
        let mut from = 0;
        while from < addrs.len() {
            let first = addrs[from];
            let mut end = from;
            // E2: a slot that stays ends the run.
            while let Some(&next) = addrs.get(end)
                && follows(first, end - from, next)
                && addr(self.block, word + end) != next
            {
                set_addr(self.block, word + end, next);
                end += 1;
            }
            if end > from {
                self.log_run(slot + from as u16, (end - from) as u16, first);
            }
            from = end.max(from + 1);
        }
    }

    fn log_run(&mut self, slot: u16, count: u16, addr: BlockAddr) {
        let (nid, dir) = self.of_node();
        self.log(&Record::MapRun {
            nid,
            slot,
            count,
            addr,
            dir,
        });
    }

    /// Words of a node, in their order, which led to blocks, or in an inode to nodes as well: they
    /// lead to nothing any more. Holes between two of them are in the run of these.
    pub fn clear_words(&mut self, words: &[usize]) {
        let is_inode = footer(self.block).is_inode();
        let addrs = match is_inode {
            true => words.partition_point(|&word| word < INODE_NID_SLOT0),
            false => words.len(),
        };
        let (addrs, children) = words.split_at(addrs);
        for &word in addrs {
            set_addr(self.block, word, BlockAddr::NULL);
        }
        let slot0 = addr_slot0(self.block);
        let block = &*self.block;
        let is_hole = |word| addr(block, word) == BlockAddr::NULL;
        let runs: Vec<Range<usize>> = addrs
            .chunk_by(|a, b| (a + 1..*b).all(is_hole))
            .map(|run| run[0]..run[run.len() - 1] + 1)
            .collect();
        for run in runs {
            let slot = (run.start - slot0) as u16;
            self.log_run(slot, run.len() as u16, BlockAddr::NULL);
        }
        for &word in children {
            self.put_child(word, Nid(0));
        }
    }

    /// An entry of a directory, at `slot`, which has room for it.
    pub fn put_entry(&mut self, layout: &DentryLayout, slot: usize, entry: &Dentry<'_>) {
        disk::put(self.block, layout, slot, entry);
        let block = self.place();
        self.log(&Record::DentSet {
            block,
            slot: slot as u16,
            hash: entry.hash,
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name,
        });
    }

    /// The entry at `slot` goes: its slots are free, and hold what they held.
    pub fn clear_entry(&mut self, layout: &DentryLayout, slot: usize) {
        let slots = disk::clear(self.block, layout, slot);
        let block = self.place();
        self.log(&Record::DentClear {
            block,
            slot: slot as u16,
            slots: slots as u8,
        });
    }

    /// The entry at `slot` stands for another inode.
    pub fn set_target(&mut self, layout: &DentryLayout, slot: usize, ino: Nid, kind: FileType) {
        disk::set_target(self.block, layout, slot, ino, kind);
        let block = self.place();
        self.log(&Record::DentIno {
            block,
            slot: slot as u16,
            kind,
            ino,
        });
    }
}

/// `addr` continues the run that begins with `first`, `n` slots behind it.
fn follows(first: BlockAddr, n: usize, addr: BlockAddr) -> bool {
    match first {
        BlockAddr::NULL | BlockAddr::NEW => addr == first,
        _ => n == 0 || first.is_data() && first.checked_add(n as u32) == Some(addr),
    }
}
