//! What a device that remaps by itself does with the home writes of its client's ext4.
//!
//! The client logs a block in its journal and later writes it home. The device recognises the
//! content and shares the page, or fails to. This wrapper reads the journal as it is written (where
//! it lies, and which blocks are logged in it) and compares, write by write, with the blocks that
//! the device says it has shared.
//!
//! - H1: commands reach the device unchanged, in their order, and one at a time, so what the device
//!   tells of behind a write was shared by that write.
//! - H2: nothing that a client writes ends more than the counting: a journal that makes no sense,
//!   or has more parts than [`PARTS_MAX`], is not followed, and of the blocks that it names those
//!   that the device has are kept, so memory is bounded by the device.
//!
//! - H3: a block counts as remapped only if the device has named it. A write may hold logged blocks
//!   and others, and the device may have shared one of the others in place of a logged one.
//!
//! A device with a volatile cache shares when it writes back, so the figures are of use only for
//! devices without one ([`Homes::follows`]). Only file systems with blocks of 4 KiB are followed,
//! because that is the unit that devices share.

use base::bytes::is_zero;
use base::{BLOCK_BYTES, Bytes, Map, SECTORS_PER_BLOCK, Set, Time};
use blockdev::{BlockDevice, Caps, DevError, Op, Reply, Request, Ticket};
use ondisk::ext4::{self, ExtentEntries, ExtentNode};
use ondisk::jbd2::{self, BlockKind, DescriptorReader, Format, Header, Revoke};
use rt::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Most levels of the extent tree of a journal that are followed.
const DEPTH_MAX: u16 = 2;
/// Most parts of a journal that is followed. Each write is looked up in them, and the client says
/// how many there are; `mke2fs` makes a handful.
const PARTS_MAX: usize = 1024;

/// Home writes, in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HomeWrites {
    /// Of logged blocks that are neither escaped nor zeros: the device shared the logged copy, or
    /// held the content already.
    pub remapped: u64,
    /// Of the same blocks: the device programmed them.
    pub missed: u64,
    /// Of logged blocks that begin as a block of the journal does. Their copy in the journal is
    /// escaped and differs from them, so it cannot be shared.
    pub escaped: u64,
    /// Of blocks that no transaction has logged, or whose log was revoked.
    pub unlogged: u64,
    /// Zeros.
    pub zeros: u64,
}

impl HomeWrites {
    /// Part of the home writes that could become remaps which did; none without such writes.
    pub fn share(&self) -> Option<f64> {
        let all = self.remapped + self.missed;
        (all > 0).then(|| self.remapped as f64 / all as f64)
    }

    /// The counts since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &HomeWrites) -> HomeWrites {
        HomeWrites {
            remapped: self.remapped - earlier.remapped,
            missed: self.missed - earlier.missed,
            escaped: self.escaped - earlier.escaped,
            unlogged: self.unlogged - earlier.unlogged,
            zeros: self.zeros - earlier.zeros,
        }
    }
}

impl fmt::Display for HomeWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HomeWrites {
            remapped,
            missed,
            escaped,
            unlogged,
            zeros,
        } = self;
        write!(f, "{remapped} remapped, {missed} missed")?;
        if let Some(share) = self.share() {
            write!(f, " ({:.2} % remapped)", 100.0 * share)?;
        }
        write!(
            f,
            "; {escaped} escaped, {unlogged} not in the journal, {zeros} zeros"
        )
    }
}

type Shared = dyn Fn() -> Vec<u64> + Send + Sync;
type Peek = dyn Fn(u64) -> Bytes + Send + Sync;

/// A device, and what became of the home writes.
pub struct Homes {
    device: Arc<dyn BlockDevice>,
    shared: Box<Shared>,
    peek: Box<Peek>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    journal: Option<Journal>,
    /// Blocks whose newest copy is in the log, and whether that is escaped.
    logged: Map<u64, bool>,
    counts: HomeWrites,
}

/// Where a journal is, in blocks of the device, and how its blocks are written.
struct Journal {
    /// Its parts in the order of the log.
    parts: Vec<Range<u64>>,
    format: Format,
}

impl Homes {
    /// Follows the ext4 on `device`. `shared` tells the blocks that the device did not have to
    /// program since the last call, because it found or held their content; `peek` is the content
    /// of a block as a read would see it, at no cost for the device.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        shared: impl Fn() -> Vec<u64> + Send + Sync + 'static,
        peek: impl Fn(u64) -> Bytes + Send + Sync + 'static,
    ) -> Homes {
        let homes = Homes {
            device,
            shared: Box::new(shared),
            peek: Box::new(peek),
            state: Mutex::named("homes", State::default()),
        };
        homes.state.lock().journal = homes.find();
        homes
    }

    /// Whether a journal was found on a device that shares at once.
    pub fn follows(&self) -> bool {
        self.state.lock().journal.is_some() && !self.device.caps().volatile_cache
    }

    /// Home writes so far.
    pub fn counts(&self) -> HomeWrites {
        self.state.lock().counts
    }

    /// The parts of the journal, in blocks of 4 KiB; none if none is followed.
    pub fn journal(&self) -> Vec<Range<u64>> {
        let state = self.state.lock();
        let journal = state.journal.as_ref();
        journal.map_or_else(Vec::new, |journal| journal.parts.clone())
    }

    /// The journal that the superblock names, if there is one that can be followed (H2).
    fn find(&self) -> Option<Journal> {
        let head = (self.peek)(0);
        let superblock = ext4::Superblock::parse(head.get(1024..2048)?).ok()?;
        if superblock.block_bytes() as usize != BLOCK_BYTES || superblock.journal_ino().0 == 0 {
            return None;
        }
        let words = superblock.journal_backup();
        let root: Vec<u8> = words[..15].iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut parts = Vec::new();
        self.extents(&root, DEPTH_MAX, &mut parts)?;
        let first = parts.first()?.start;
        let log = jbd2::Superblock::parse(&(self.peek)(first)).ok()?;
        let format = Format::of(&log);
        (format.block_bytes == BLOCK_BYTES).then_some(Journal { parts, format })
    }

    /// Blocks of the device.
    fn blocks(&self) -> u64 {
        self.device.caps().sectors / SECTORS_PER_BLOCK
    }

    /// Collects the extents of a node and of those below.
    fn extents(&self, node: &[u8], depth: u16, parts: &mut Vec<Range<u64>>) -> Option<()> {
        let node = ExtentNode::parse(node).ok()?;
        let blocks = self.blocks();
        match node.entries {
            ExtentEntries::Leaf(all) => {
                for extent in all {
                    if parts.len() == PARTS_MAX {
                        return None;
                    }
                    let start = extent.physical.0;
                    let end = start.checked_add(u64::from(extent.len));
                    parts.push(start..end.filter(|end| *end <= blocks)?);
                }
                Some(())
            }
            ExtentEntries::Index(_) if depth == 0 => None,
            ExtentEntries::Index(all) => all.iter().try_for_each(|index| {
                (index.child.0 < blocks)
                    .then(|| self.extents(&(self.peek)(index.child.0), depth - 1, parts))?
            }),
        }
    }
}

impl State {
    /// Learns from a block of the journal of a device of so many `blocks`. Logged blocks never look
    /// like one of its own.
    fn learn(&mut self, bytes: &[u8], blocks: u64) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let Ok(header) = Header::parse(bytes) else {
            return;
        };
        match header.kind {
            BlockKind::Descriptor => {
                if let Ok(tags) = DescriptorReader::parse(journal.format, bytes) {
                    let tags = tags.filter(|tag| tag.block.0 < blocks);
                    self.logged
                        .extend(tags.map(|tag| (tag.block.0, tag.escaped)));
                }
            }
            BlockKind::Revoke => {
                if let Ok(revoke) = Revoke::parse(&journal.format, bytes) {
                    for block in revoke.blocks {
                        self.logged.remove(&block.0);
                    }
                }
            }
            BlockKind::SuperblockV1 | BlockKind::SuperblockV2 => {
                // A mount may switch checksums or wide blocks on.
                if let Ok(log) = jbd2::Superblock::parse(bytes) {
                    journal.format = Format::of(&log);
                }
            }
            _ => {}
        }
    }

    /// Sorts a block that is written; tells whether it could become a remap.
    fn sort(&mut self, (block, bytes): (u64, &[u8]), blocks: u64) -> bool {
        let Some(journal) = &self.journal else {
            return false;
        };
        if journal.parts.iter().any(|part| part.contains(&block)) {
            self.learn(bytes, blocks);
            return false;
        }
        match self.logged.get(&block) {
            _ if is_zero(bytes) => self.counts.zeros += 1,
            None => self.counts.unlogged += 1,
            Some(true) => self.counts.escaped += 1,
            Some(false) => return true,
        }
        false
    }
}

/// The blocks of a write: its number, and whole content. What covers a part of a block only is left
/// out.
fn blocks_of(op: &Op) -> Vec<(u64, Bytes)> {
    let Op::Write { lba, pieces, .. } = op else {
        return Vec::new();
    };
    if !lba.0.is_multiple_of(SECTORS_PER_BLOCK) {
        return Vec::new();
    }
    let all = match &pieces[..] {
        [one] => one.bytes.clone(),
        many => Bytes::from(
            many.iter()
                .flat_map(|piece| piece.bytes.to_vec())
                .collect::<Vec<u8>>(),
        ),
    };
    let first = lba.0 / SECTORS_PER_BLOCK;
    let whole = (0..all.len() / BLOCK_BYTES).map(|n| n * BLOCK_BYTES);
    whole
        .map(|at| {
            (
                first + (at / BLOCK_BYTES) as u64,
                all.slice(at..at + BLOCK_BYTES),
            )
        })
        .collect()
}

/// Whether a command may change where the journal is: it changes the superblock.
fn moves(op: &Op) -> bool {
    match op {
        Op::Write { lba, .. } | Op::Discard { lba, .. } => lba.0 < SECTORS_PER_BLOCK,
        _ => false,
    }
}

/// Whether this is the first block of a journal. `mke2fs` may write it behind the superblock.
fn is_head(bytes: &Bytes) -> bool {
    let kind = Header::parse(bytes).map(|header| header.kind);
    matches!(kind, Ok(BlockKind::SuperblockV1 | BlockKind::SuperblockV2))
}

impl BlockDevice for Homes {
    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        // H1.
        let mut state = self.state.lock();
        let blocks = blocks_of(&request.op);
        let heads = state.journal.is_none() && blocks.iter().any(|(_, bytes)| is_head(bytes));
        let moves = heads || moves(&request.op);
        let all = self.blocks();
        let mut could = Vec::new();
        for (block, bytes) in &blocks {
            if state.sort((*block, bytes), all) {
                could.push(*block);
            }
        }
        // Of who wrote to the device beside this wrapper.
        (self.shared)();
        let ticket = self.device.submit(request);
        // H3.
        let shared: Set<u64> = (self.shared)().into_iter().collect();
        let did = could.iter().filter(|block| shared.contains(block)).count();
        state.counts.remapped += did as u64;
        state.counts.missed += (could.len() - did) as u64;
        if moves {
            let found = self.find();
            let parts = |journal: &Option<Journal>| journal.as_ref().map(|j| j.parts.clone());
            if parts(&found) != parts(&state.journal) {
                state.logged.clear();
                state.journal = found;
            }
        }
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.device.wait(ticket)
    }

    fn due(&self, ticket: Ticket) -> Option<Time> {
        self.device.due(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{BlockNo, Lba, Tid};
    use blockdev::{Class, Ram};
    use ondisk::ext4::Extent;
    use ondisk::jbd2::{ChecksumMode, DescriptorWriter, Tag};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// H2: a client that names blocks without end takes no more memory than the device has blocks.
    #[test]
    fn blocks_that_the_device_has_not_are_not_kept() {
        let format = Format {
            block_bytes: BLOCK_BYTES,
            wide_blocks: true,
            checksum: ChecksumMode::None,
            seed: 0,
        };
        let part = 0..10;
        let mut state = State {
            journal: Some(Journal {
                parts: vec![part],
                format,
            }),
            ..State::default()
        };
        let mut writer = DescriptorWriter::new(format, Tid(1));
        for block in [99, 100, 1 << 40] {
            let tag = Tag::of(&format, Tid(1), BlockNo(block), &[0; BLOCK_BYTES], false);
            writer.push(tag);
        }
        let mut descriptor = vec![0; BLOCK_BYTES];
        writer.encode(&mut descriptor);
        assert!(!state.sort((1, &descriptor), 100));
        assert_eq!(state.logged.keys().collect::<Vec<_>>(), [&99]);
    }

    /// H2: each write is looked up in the parts, and a client may name very many.
    #[test]
    fn a_journal_of_too_many_parts_is_not_followed() {
        let leaf = |parts: usize| {
            let all = (0..parts as u32).map(|n| Extent {
                logical: n,
                len: 1,
                physical: BlockNo(u64::from(n) * 2),
                unwritten: false,
            });
            let node = ExtentNode {
                depth: 0,
                max: ExtentNode::block_max(1 << 16),
                generation: 0,
                entries: ExtentEntries::Leaf(all.collect()),
            };
            let mut block = vec![0; 1 << 16];
            node.encode(&mut block);
            block
        };
        let homes = Homes::new(Arc::new(Ram::new(64 << 20)), Vec::new, |_| Bytes::new());
        for (parts, followed) in [(PARTS_MAX, true), (PARTS_MAX + 1, false)] {
            let mut found = Vec::new();
            let all = homes.extents(&leaf(parts), DEPTH_MAX, &mut found);
            assert_eq!((all.is_some(), found.len()), (followed, PARTS_MAX));
        }
    }

    /// H2: nothing outside of the device is looked at, and a tree that leads to itself ends.
    #[test]
    fn h2_a_journal_outside_of_the_device_or_without_end_is_not_followed() {
        let node = |depth, entries| {
            let node = ExtentNode {
                depth,
                max: 4,
                generation: 0,
                entries,
            };
            let mut block = vec![0; BLOCK_BYTES];
            node.encode(&mut block);
            block
        };
        let index = |child| {
            ExtentEntries::Index(vec![ondisk::ext4::ExtentIndex {
                logical: 0,
                child: BlockNo(child),
            }])
        };
        let blocks = 64 << 20 >> 12;
        let circle = Bytes::from(node(1, index(7)));
        let peek = move |block| {
            assert!(block < blocks, "a look behind the device");
            circle.clone()
        };
        let homes = Homes::new(Arc::new(Ram::new(64 << 20)), Vec::new, peek);
        let follows = |root: &[u8]| homes.extents(root, DEPTH_MAX, &mut Vec::new()).is_some();
        let leaf = |first: u64| {
            ExtentEntries::Leaf(vec![Extent {
                logical: 0,
                len: 2,
                physical: BlockNo(first),
                unwritten: false,
            }])
        };
        assert!(follows(&node(0, leaf(blocks - 2))));
        assert!(!follows(&node(0, leaf(blocks - 1))), "its end lies behind");
        assert!(!follows(&node(1, index(blocks))), "a node behind");
        assert!(!follows(&node(2, index(7))), "a circle");
    }

    /// A device that is busy while it takes a command.
    #[derive(Default)]
    struct Busy {
        taken: Mutex<Vec<u64>>,
        is_taking: AtomicBool,
        met: AtomicBool,
    }

    impl BlockDevice for Busy {
        fn caps(&self) -> Caps {
            Ram::new(64 << 20).caps()
        }
        fn submit(&self, request: Request) -> Ticket {
            if self.is_taking.swap(true, Ordering::SeqCst) {
                self.met.store(true, Ordering::SeqCst);
            }
            rt::sleep(base::Nanos(1_000_000));
            let lba = request.span().map_or(0, |(lba, _)| lba.0);
            self.taken.lock().push(lba);
            self.is_taking.store(false, Ordering::SeqCst);
            Ticket(0)
        }
        fn wait(&self, _: Ticket) -> Result<Reply, DevError> {
            unreachable!("nobody waits")
        }
    }

    /// H1: what the count grows by during a command is of that command alone.
    #[test]
    fn h1_commands_reach_the_device_one_at_a_time() {
        let busy = Arc::new(Busy::default());
        let homes = Arc::new(Homes::new(busy.clone(), Vec::new, |_| Bytes::new()));
        let tasks: Vec<_> = (0..4u64)
            .map(|task| {
                let homes = homes.clone();
                rt::spawn("writes", move || {
                    for n in 0..8 {
                        let lba = Lba(8 * (100 * task + n));
                        let bytes = Bytes::from(vec![1; BLOCK_BYTES]);
                        homes.submit(Request::write(lba, Class::Data, bytes));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert!(!busy.met.load(Ordering::SeqCst), "two at a time");
        // Those of each task in their order.
        let taken = busy.taken.lock();
        for task in 0..4 {
            let own: Vec<u64> = (taken.iter().copied())
                .filter(|lba| lba / 800 == task)
                .collect();
            assert_eq!(
                own,
                (0..8).map(|n| 8 * (100 * task + n)).collect::<Vec<_>>()
            );
        }
    }
}
