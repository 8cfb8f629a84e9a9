//! What a program finds on an image after a cut: the image is mounted, which recovers it, and the
//! tree is read.
//!
//! As in the crash explorer ([`crash::check`]) the image lies below an overlay that takes no time,
//! many images share one simulation, and the mount is read-only but for F2FS, which rolls forward
//! only in a mount for writing. Nothing outlives its image: the mount has no tasks, and is dropped.

use super::BlockModel;
use super::memo::Memo;
use crate::tree::{Kind, Node, NodeId, PAGE, ROOT, Tree};
use base::collections::fingerprint;
use base::{Bytes, Ino, Map, Nanos, SECTORS_PER_BLOCK, Set};
use blockdev::{BlockDevice, Caps, DevError, Image, Op, OverlayDisk, Reply, Request, Ticket};
use rig::{Fs, Mounted};
use rt::{Mutex, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{Attr, Errno, FileKind, FileSystem, FsError, SeekMode, WritebackPolicy};

/// Files up to this size are read as a whole; of larger ones holes are left out.
const WHOLE_MAX: u64 = 256 << 10;
/// Entries that are asked for at once.
const ENTRIES: usize = 128;
/// Most steps of the memo and pages of the trees that are kept, each of about 100 bytes: recoveries
/// that differ in the pages of a large file are new ones to the memo, and have new trees.
const KEPT_MAX: usize = 1 << 20;
/// Most different pages that are kept for them (256 MiB).
const CONTENTS_MAX: usize = 1 << 16;

/// Runs work that recovers images.
///
/// # Errors
/// It panics, deadlocks or does not end.
pub fn simulate<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let sim = SimConfig {
        quiet: true,
        ..SimConfig::default()
    };
    let outcome = Sim::new(sim).run(work);
    match (outcome.first_failure, outcome.value) {
        (Some(failure), _) => Err(format!("recovery: {failure}")),
        (None, Some(value)) => Ok(value),
        (None, None) => Err("recovery: no value".into()),
    }
}

/// Trees that were recovered from the images of one run.
pub struct Recovered<'a> {
    model: &'a BlockModel,
    memo: Memo,
    /// Each tree with its hash.
    trees: Vec<(Tree, u64)>,
    /// Pages of all trees.
    pages: usize,
    /// Each content of a page once, by its fingerprint.
    contents: Map<u64, Bytes>,
    /// Recoveries that were done.
    pub done: usize,
}

impl<'a> Recovered<'a> {
    /// None yet.
    pub fn new(model: &'a BlockModel) -> Recovered<'a> {
        Recovered {
            model,
            memo: Memo::new(),
            trees: Vec::new(),
            pages: 0,
            contents: Map::default(),
            done: 0,
        }
    }

    /// The tree of an image, and its hash. The caller is in [`simulate`].
    ///
    /// # Errors
    /// The volume cannot be recovered or read.
    pub fn tree(&mut self, image: &Image) -> Result<(&Tree, u64), String> {
        let nr = match self.memo.find(|block| image.print(block)) {
            Some(nr) => nr,
            None => {
                self.done += 1;
                self.forget_too_much();
                let (tree, reads) = one(self.model, image, &mut self.contents)?;
                let hash = tree.hash();
                // Equal trees are kept once: what is read differs more often.
                let known = self.trees.iter().position(|known| known.1 == hash);
                let nr = known.unwrap_or(self.trees.len());
                if nr == self.trees.len() {
                    self.pages += tree.pages();
                    self.trees.push((tree, hash));
                }
                self.memo.enter(&reads, nr);
                nr
            }
        };
        let (tree, hash) = &self.trees[nr];
        Ok((tree, *hash))
    }

    /// Begins anew where what is kept has grown too large.
    fn forget_too_much(&mut self) {
        let full = self.contents.len() > CONTENTS_MAX;
        if full || self.memo.len() + self.pages > KEPT_MAX {
            self.memo = Memo::new();
            self.trees.clear();
            self.pages = 0;
            self.contents.clear();
        }
    }
}

/// A disk above an image that notes which blocks of the image are read (memo-M2).
struct Watched {
    disk: Arc<OverlayDisk>,
    image: Image,
    reads: Mutex<Reads>,
}

/// Blocks of an image that were read, each once.
#[derive(Default)]
struct Reads {
    seen: Set<u64>,
    /// With their fingerprints, in the order of their first read.
    order: Vec<(u64, u64)>,
}

impl BlockDevice for Watched {
    fn caps(&self) -> Caps {
        self.disk.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        if let Op::Read { lba, sectors } = &request.op {
            let mut reads = self.reads.lock();
            let end = (lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
            for block in lba.0 / SECTORS_PER_BLOCK..end {
                if reads.seen.insert(block) {
                    reads.order.push((block, self.image.print(block)));
                }
            }
        }
        self.disk.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.disk.wait(ticket)
    }
}

/// Recovers an image and reads its tree, whose pages are those of `contents` where they are equal.
/// Answers the blocks that were read, too.
fn one(
    model: &BlockModel,
    image: &Image,
    contents: &mut Map<u64, Bytes>,
) -> Result<(Tree, Vec<(u64, u64)>), String> {
    // Limits count from the last progress of time.
    rt::sleep(Nanos(1));
    let disk = Arc::new(Watched {
        disk: OverlayDisk::new(model.caps.clone(), image.clone()),
        image: image.clone(),
        reads: Mutex::named("reads of a recovery", Reads::default()),
    });
    let options = model.options.clone().timers(None, None);
    let options = options.read_only(model.stack.fs != Fs::F2fs);
    let mounted = Mounted::on(disk.clone(), options, WritebackPolicy::off());
    let mounted = mounted.map_err(|e| format!("recovery: {e}"))?;
    let seam = mounted.fs.seam();
    let mut reader = Reader {
        fs: &*seam,
        tree: Tree::default(),
        known: BTreeMap::new(),
        contents,
    };
    let read = reader.node(seam.root());
    let tree = reader.tree;
    read.map_err(|e| format!("reading: {e}"))?;
    let reads = std::mem::take(&mut disk.reads.lock().order);
    Ok((tree, reads))
}

/// Reads a tree.
struct Reader<'a> {
    fs: &'a dyn FileSystem,
    tree: Tree,
    /// The nodes that were read: a second name of one leads to the same.
    known: BTreeMap<Ino, NodeId>,
    /// Contents of pages by their fingerprints.
    contents: &'a mut Map<u64, Bytes>,
}

impl Reader<'_> {
    fn node(&mut self, ino: Ino) -> Result<NodeId, FsError> {
        if let Some(id) = self.known.get(&ino) {
            return Ok(*id);
        }
        let id = NodeId(self.known.len() as u64);
        debug_assert!(id != ROOT || self.known.is_empty(), "the root comes first");
        self.known.insert(ino, id);
        let attr = self.fs.getattr(ino)?;
        let mut node = Node::new(self.kind(&attr)?, attr.perm, (attr.uid, attr.gid));
        match attr.kind {
            FileKind::File => self.content(&attr, &mut node)?,
            FileKind::Dir => {
                for (name, child) in self.entries(ino)? {
                    let child = self.node(child)?;
                    node.names.insert(name, child);
                }
            }
            _ => {}
        }
        match self.fs.listxattr(ino) {
            Ok(names) => {
                for name in names {
                    let value = self.fs.getxattr(ino, &name)?;
                    node.xattrs.insert(name, value);
                }
            }
            Err(e) if e.errno() == Errno::NotSup => {}
            Err(e) => return Err(e),
        }
        self.tree.insert(id, node);
        Ok(id)
    }

    fn kind(&self, attr: &Attr) -> Result<Kind, FsError> {
        Ok(match attr.kind {
            FileKind::File => Kind::File,
            FileKind::Dir => Kind::Dir,
            FileKind::Symlink => Kind::Symlink(self.fs.readlink(attr.ino)?),
            special => Kind::Special(special.mode_bits(), attr.rdev),
        })
    }

    fn entries(&self, dir: Ino) -> Result<Vec<(Vec<u8>, Ino)>, FsError> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let entries = self.fs.readdir(dir, from, ENTRIES)?;
            let Some(last) = entries.last() else {
                return Ok(all);
            };
            from = last.next;
            let named = entries.into_iter().filter(|e| !is_dots(&e.name));
            all.extend(named.map(|e| (e.name, e.ino)));
        }
    }

    fn content(&mut self, attr: &Attr, node: &mut Node) -> Result<(), FsError> {
        node.size = attr.size;
        if attr.size <= WHOLE_MAX {
            return self.pages(attr.ino, 0..attr.size, node);
        }
        let mut at = 0;
        while at < attr.size {
            let from = match self.fs.seek(attr.ino, at, SeekMode::Data) {
                Ok(from) => from / PAGE * PAGE,
                Err(e) if e.errno() == Errno::NxIo => return Ok(()),
                Err(e) => return Err(e),
            };
            let hole = self.fs.seek(attr.ino, from.max(at), SeekMode::Hole)?;
            let to = hole.next_multiple_of(PAGE).min(attr.size).max(from + 1);
            self.pages(attr.ino, from..to, node)?;
            at = to;
        }
        Ok(())
    }

    fn pages(
        &mut self,
        ino: Ino,
        range: std::ops::Range<u64>,
        node: &mut Node,
    ) -> Result<(), FsError> {
        for at in range.clone().step_by(PAGE as usize) {
            let mut page = vec![0; PAGE as usize];
            let room = (range.end - at).min(PAGE) as usize;
            self.fs.read(ino, at, &mut page[..room])?;
            if !base::bytes::is_zero(&page) {
                let known = self.contents.entry(fingerprint(&page));
                let known = known.or_insert_with(|| page.clone().into());
                // Two contents may have one fingerprint.
                let page = match known[..] == page[..] {
                    true => known.clone(),
                    false => page.into(),
                };
                node.pages.insert(at / PAGE, page);
            }
        }
        Ok(())
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_recoveries_have_in_common_is_forgotten_before_it_is_too_much() {
        let model = BlockModel::parse("ext4").expect("a valid word");
        let model = model.expect("a file system");
        let mut recovered = Recovered::new(&model);
        let page = |n: usize| (n as u64, Bytes::from(vec![1]));
        recovered.contents.extend((0..CONTENTS_MAX).map(page));
        recovered.forget_too_much();
        assert_eq!(recovered.contents.len(), CONTENTS_MAX, "as much as may be");
        recovered.contents.extend([page(CONTENTS_MAX)]);
        recovered.forget_too_much();
        assert!(recovered.contents.is_empty());
        recovered.trees.push((Tree::default(), 0));
        recovered.pages = KEPT_MAX;
        recovered.forget_too_much();
        assert!(recovered.trees.is_empty() && recovered.pages == 0);
    }
}
