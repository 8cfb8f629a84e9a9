//! Writes the state after epoch T: directory pages, then nodes, each to a new place.

use super::images::{Images, PageSlot};
use crate::F2fs;
use crate::fault;
use crate::journal::Epoch;
use crate::journal::pages::image::dir_slots;
use crate::nat::{MovedNode, NatChange};
use crate::segs::BlockMap;
use base::cost::f2fs as cost;
use base::{BlockNo, Bytes, Ino, Mutant};
use block::{Batch, Class, Plug};
use bytes::BytesMut;
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs::{
    BlockAddr, Log, NODE_DENTRY, NODE_FSYNC, NatEntry, Nid, SegNo, Summary, addr, addr_slot0,
    footer, set_addr, set_footer, update_inode_checksum,
};
use std::collections::BTreeMap;

/// Blocks of one submission.
const PLUG_BLOCKS: usize = 256;

/// A directory page that was written: its slot, and its place.
#[derive(Clone, Copy, Debug)]
struct Placed {
    slot: u16,
    to: BlockAddr,
}

/// What was written, and what the NAT is to say.
#[derive(Default)]
pub(super) struct Written {
    pub nat: BTreeMap<Nid, NatChange>,
    pub moved: Vec<MovedNode>,
    /// Nodes that are gone, or came and went: nothing was written of them.
    pub dead: u64,
    pub dentries: u64,
    placed: BTreeMap<Nid, Vec<Placed>>,
}

/// Sends blocks and waits for their writes.
struct Sender<'f> {
    fs: &'f F2fs,
    plug: Plug,
    batches: Vec<Batch>,
}

impl<'f> Sender<'f> {
    fn new(fs: &'f F2fs) -> Self {
        Sender {
            fs,
            plug: fs.queue.plug(),
            batches: Vec::new(),
        }
    }

    fn add(&mut self, at: BlockAddr, class: Class, block: Bytes) {
        self.plug.write(BlockNo(at.into()).lba(), class, block);
        if self.plug.len() >= PLUG_BLOCKS {
            self.send();
        }
    }

    fn send(&mut self) {
        rt::charge_each(cost::META_BLOCK, self.plug.len() as u64);
        let plug = std::mem::replace(&mut self.plug, self.fs.queue.plug());
        self.batches.push(plug.submit());
    }

    /// f2fs-checkpoint-C2: all of it has landed.
    fn land(mut self) -> FsResult<()> {
        self.send();
        let mut first = Ok(());
        for batch in self.batches {
            first = first.and(batch.wait());
        }
        first.map_err(fault::device("writing home"))
    }
}

impl F2fs {
    /// Directory pages, then nodes. When it returns all of that has landed.
    pub(super) fn write_home(
        &self,
        images: &mut Images<'_, '_>,
        target: Epoch,
    ) -> FsResult<Written> {
        let mut written = Written::default();
        let mut sender = Sender::new(self);
        self.drop_gone_pages(images)?;
        let pages: Vec<(Nid, u32)> = images.fold.pages.keys().copied().collect();
        for (dir, page) in pages {
            if let Some(slot) = images.locate(dir, page)? {
                let image = images.page(dir, page, &slot)?;
                self.place_dir_page(
                    images,
                    target,
                    (dir, page),
                    &slot,
                    image,
                    &mut written,
                    &mut sender,
                )?;
            }
        }
        for &nid in written.placed.keys() {
            images.fold.touch(nid);
        }
        for nid in self.in_order(images, &mut written)? {
            self.place_home_node(images, nid, &mut written, &mut sender)?;
        }
        sender.land()?;
        Ok(written)
    }

    fn home_maps(&self) -> impl Fn(SegNo) -> BlockMap + '_ {
        |seg| self.segs.home_map(seg)
    }

    /// apply-A3: what slots that became NULL had at home.
    fn drop_gone_pages(&self, images: &mut Images<'_, '_>) -> FsResult<()> {
        for gone in std::mem::take(&mut images.fold.gone) {
            let node = images.home_node(gone.nid)?;
            let first = addr_slot0(&node) + usize::from(gone.slot);
            // A directory whose entries lay in the inode at home had no blocks: these bytes are no
            // addresses.
            let slots = dir_slots(&node, self.features);
            for at in first..first + usize::from(gone.count) {
                let addr = addr(&node, at);
                if slots.contains(&at) && addr.is_data() {
                    // It may have gone before, in an earlier epoch.
                    images.fold.give_up(addr, self.home_maps());
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn place_dir_page(
        &self,
        images: &mut Images<'_, '_>,
        target: Epoch,
        (dir, page): (Nid, u32),
        slot: &PageSlot,
        image: Bytes,
        written: &mut Written,
        sender: &mut Sender<'_>,
    ) -> FsResult<()> {
        let owner = Summary {
            nid: slot.nid,
            version: self.version_at(images, slot.nid)?,
            ofs_in_node: slot.slot,
        };
        let placed = self.segs.allocate(Log::HotData, BlockAddr::NULL, owner)?;
        images.fold.take(placed.addr, self.home_maps());
        if let Some(home) = slot.home {
            images.fold.give_up(home, self.home_maps());
        }
        sender.add(placed.addr, Class::Dentry, image);
        written.dentries += 1;
        let at = Placed {
            slot: slot.slot,
            to: placed.addr,
        };
        written.placed.entry(slot.nid).or_default().push(at);
        // apply-A7 (hazards-F71).
        let lives = self.retarget_page(Ino(dir.0), page.into(), slot.home, placed.addr, target)?;
        match lives {
            true => Ok(()),
            false => self.segs.invalidate(placed.addr),
        }
    }

    /// Live takes the new place of a directory page, if the page lives; its old place is given up
    /// then.
    fn retarget_page(
        &self,
        dir: Ino,
        page: u64,
        from: Option<BlockAddr>,
        to: BlockAddr,
        target: Epoch,
    ) -> FsResult<bool> {
        let inode = match self.inodes.get(dir) {
            Some(inode) => inode,
            None => match self.inode(dir) {
                Ok(inode) => inode,
                Err(e) if e.errno() == Errno::Stale => return Ok(false),
                Err(e) => return Err(e),
            },
        };
        let mut tree = inode.tree.lock();
        let gone = || inode.core().gone;
        if gone() || !inode.is_dir() {
            return Ok(false);
        }
        let slot = match self.find_slot(&inode, &mut tree, page) {
            Ok(slot) => slot,
            // Freed while we looked: its node is not there any more.
            Err(FsError::Corrupt { .. }) if gone() => return Ok(false),
            Err(e) => return Err(e),
        };
        let journal = self.journal.as_ref().expect("apply is of a journal");
        let lives = slot.filter(|slot| match from {
            Some(from) => slot.addr == from,
            // Born since home; or dropped and born again behind T.
            None => slot.addr == BlockAddr::NEW && journal.stamps.dropped(dir, page) <= target,
        });
        let Some(slot) = lives else {
            return Ok(false);
        };
        if rt::mutant(Mutant::F2fsjKeepOldPlace) {
            return Ok(true);
        }
        self.retarget_slot(slot.nid, slot.slot, to)?;
        tree.forget(page, page + 1);
        match from {
            Some(from) => self.segs.invalidate(from).map(|()| true),
            None => Ok(true),
        }
    }

    /// The version of a node after T.
    fn version_at(&self, images: &mut Images<'_, '_>, nid: Nid) -> FsResult<u8> {
        let changed = images.fold.nodes.get(&nid).and_then(|node| node.version);
        match changed {
            Some(version) => Ok(version),
            None => Ok(images.home_entry(nid)?.version),
        }
    }

    /// Touched nodes that are in use after T, in the order in which they are written: indirect
    /// ones, those of directories, those of files; by number. The others leave the NAT.
    fn in_order(&self, images: &mut Images<'_, '_>, written: &mut Written) -> FsResult<Vec<Nid>> {
        let touched: Vec<Nid> = images.fold.nodes.keys().copied().collect();
        let mut alive = Vec::with_capacity(touched.len());
        for nid in touched {
            let from = images.home_entry(nid)?;
            let node = &images.fold.nodes[&nid];
            let unborn = node.from_home && !from.addr.is_data();
            if node.alive && !unborn {
                alive.push((self.rank(images, nid)?, nid));
                continue;
            }
            if node.alive && !node.records.is_empty() {
                return Err(FsError::corrupt(format!(
                    "f2fs-journal-I3: node {nid} is changed, and was never made"
                )));
            }
            written.dead += 1;
            let version = node.version.unwrap_or(from.version);
            let to = NatEntry {
                version,
                ino: Nid(0),
                addr: BlockAddr::NULL,
            };
            if unborn {
                // Cleaning wanted it moved, and it has been freed since.
                continue;
            }
            written.nat.insert(nid, NatChange { from, to });
            if from.addr.is_data() {
                images.fold.give_up(from.addr, self.home_maps());
            }
        }
        alive.sort_unstable();
        Ok(alive.into_iter().map(|(_, nid)| nid).collect())
    }

    fn rank(&self, images: &mut Images<'_, '_>, nid: Nid) -> FsResult<u8> {
        let log = match self.nodes.log_of(nid) {
            Some(log) => log,
            None => {
                let modes = images.modes;
                let log = crate::nodes::log_of(&footer(&images.node(nid)?));
                images.modes = modes;
                log
            }
        };
        Ok(match log {
            Log::ColdNode => 0,
            Log::HotNode => 1,
            _ => 2,
        })
    }

    fn place_home_node(
        &self,
        images: &mut Images<'_, '_>,
        nid: Nid,
        written: &mut Written,
        sender: &mut Sender<'_>,
    ) -> FsResult<()> {
        let image = images.node(nid)?;
        let foot = footer(&image);
        let from = images.home_entry(nid)?;
        let version = self.version_at(images, nid)?;
        let log = crate::nodes::log_of(&foot);
        let owner = Summary {
            nid,
            version: 0,
            ofs_in_node: 0,
        };
        let placed = self.segs.allocate(log, BlockAddr::NULL, owner)?;
        images.fold.take(placed.addr, self.home_maps());
        if from.addr.is_data() {
            images.fold.give_up(from.addr, self.home_maps());
        }
        let mut block = BytesMut::from(&image[..]);
        let slot0 = addr_slot0(&block);
        for page in written.placed.get(&nid).into_iter().flatten() {
            set_addr(&mut block, slot0 + usize::from(page.slot), page.to);
        }
        let mut foot = foot;
        foot.cp_ver = self.cp.footer_version();
        foot.next = placed.next;
        foot.set(NODE_FSYNC, false);
        foot.set(NODE_DENTRY, false);
        set_footer(&mut block, &foot);
        update_inode_checksum(&mut block, self.features, self.inode_seed);
        sender.add(placed.addr, Class::Node, block.freeze());
        // A number that was given to another node has no place of this one at home.
        let kept = images.fold.nodes.get(&nid).is_none_or(|n| n.from_home);
        written.moved.push(MovedNode {
            nid,
            from: if kept { from.addr } else { BlockAddr::NULL },
            to: placed.addr,
        });
        let to = NatEntry {
            version,
            ino: foot.ino,
            addr: placed.addr,
        };
        written.nat.insert(nid, NatChange { from, to });
        Ok(())
    }
}
