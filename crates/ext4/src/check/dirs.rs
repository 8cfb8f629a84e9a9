//! Checks directories: their blocks, their entries, and the inodes that the entries lead to.

use super::crypt;
use super::finding::Kind;
use super::htree::{self, Index};
use super::state::{Dir, Policy, Run, State};
use super::volume::Volume;
use base::{Bytes, Ino};
use ondisk::Folding;
use ondisk::ext4::{
    DIR_TAIL_BYTES, DirEntries, DirEntry, FileType, Incompat, InodeFlags, InodeSeed, ROOT_INO,
    verify_dir_checksum,
};
use std::borrow::Cow;

/// A directory that is being checked.
pub(super) struct Reading<'r> {
    pub volume: &'r Volume<'r>,
    pub dir: &'r Dir,
    pub seed: Option<InodeSeed>,
    /// How names fold here; `None` if they do not, or are encrypted.
    folding: Option<&'r Folding>,
    /// Names met so far, by their identity.
    names: Vec<Bytes>,
    /// Number of entries met so far, '.' and '..' included.
    count: u64,
}

/// Reads all directories.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>) {
    for dir in std::mem::take(&mut state.dirs) {
        let seed = volume
            .seed
            .map(|seed| seed.inode(Ino(dir.ino), dir.generation));
        let mut reading = Reading {
            volume,
            dir: &dir,
            seed,
            folding: folding(volume, &dir),
            names: Vec::new(),
            count: 0,
        };
        reading.check(state);
    }
}

/// How names fold in a directory.
fn folding<'v>(volume: &'v Volume<'_>, dir: &Dir) -> Option<&'v Folding> {
    let folds = dir.flags.has(InodeFlags::CASEFOLD) && !dir.flags.has(InodeFlags::ENCRYPT);
    volume.folding.as_ref().filter(|_| folds)
}

impl Reading<'_> {
    /// What a name is hashed as.
    pub fn hashed<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let folded = self.folding.and_then(|folding| folding.fold(name));
        folded.map_or(Cow::Borrowed(name), Cow::Owned)
    }

    fn check(&mut self, state: &mut State<'_>) {
        let ino = self.dir.ino;
        if self.dir.flags.has(InodeFlags::INLINE_DATA) && self.dir.runs.is_empty() {
            return self.check_inline(state);
        }
        self.check_holes(state);
        let index = self
            .dir
            .flags
            .has(InodeFlags::INDEX)
            .then(|| htree::load(self, state));
        for run in &self.dir.runs {
            for n in 0..run.len {
                self.check_block(state, run, n, index.as_ref());
            }
        }
        if self.count == 0 && state.files.get(&ino).is_some_and(|f| f.dotdot.is_none()) {
            state.at_inode(ino, Kind::DirDots, "'.' and '..' are missing");
        }
        if let Some(index) = &index {
            index.check_complete(self, state);
        }
        self.check_names(state);
    }

    /// Checks a directory whose content lies in its inode.
    fn check_inline(&mut self, state: &mut State<'_>) {
        let Some(block) = &self.dir.inline else {
            return;
        };
        let block = Bytes::copy_from_slice(block);
        let ino = self.dir.ino;
        for (nr, entry) in DirEntries::new(&block).flatten().enumerate() {
            match nr {
                0 | 1 => self.check_dot(state, None, nr, &entry, &block),
                _ if entry.ino.is_some() => self.check_entry(state, None, &block, &entry),
                _ => {}
            }
        }
        debug_assert!(self.count >= 2, "{ino}: both dots are there");
        self.check_names(state);
    }

    fn check_names(&mut self, state: &mut State<'_>) {
        let ino = self.dir.ino;
        self.names.sort_unstable();
        if let Some(pair) = self.names.windows(2).find(|pair| pair[0] == pair[1]) {
            let blind = self.folding.map_or("", |_| ", without regard to case");
            let what = format!("two entries \"{}\"{blind}", pair[0].escape_ascii());
            state.at_inode(ino, Kind::DirDuplicate, what);
        }
    }

    fn check_holes(&self, state: &mut State<'_>) {
        let mut next = 0;
        for run in &self.dir.runs {
            if run.logical != next {
                let what = format!("block {next} is not mapped");
                return state.at_inode(self.dir.ino, Kind::DirHole, what);
            }
            next = run.logical + run.len;
        }
        if next == 0 {
            state.at_inode(self.dir.ino, Kind::DirHole, "a directory without blocks");
        }
    }

    fn check_block(&mut self, state: &mut State<'_>, run: &Run, n: u64, index: Option<&Index>) {
        let (lblk, at) = (run.logical + n, run.start + n);
        let Some(block) = self.volume.reader.block(at, state.found) else {
            return;
        };
        let inner = index.is_some_and(|index| index.is_node(lblk));
        let mut end = block.len();
        if !inner && let Some(seed) = self.seed {
            match verify_dir_checksum(seed, &block) {
                Ok(()) => end -= DIR_TAIL_BYTES,
                Err(e) => {
                    state.at_block(
                        self.dir.ino,
                        at,
                        Kind::DirChecksum,
                        format!("block {lblk}: {e}"),
                    );
                    if e.is_checksum() {
                        end -= DIR_TAIL_BYTES;
                    }
                }
            }
        }
        let mut first = 0;
        for (nr, entry) in DirEntries::new(&block[..end]).enumerate() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    let what = format!("block {lblk}: {e}");
                    return state.at_block(self.dir.ino, at, Kind::DirBlock, what);
                }
            };
            if lblk == 0 && nr < 2 {
                self.check_dot(state, Some(at), nr, &entry, &block);
                first = nr + 1;
                continue;
            }
            if entry.ino.is_some() {
                self.check_entry(state, Some(at), &block, &entry);
                if let Some(index) = index {
                    index.check_name(self, state, lblk, at, entry.name);
                }
            }
        }
        if lblk == 0 && first < 2 {
            state.at_block(self.dir.ino, at, Kind::DirDots, "'..' is missing");
        }
    }

    fn check_dot(
        &mut self,
        state: &mut State<'_>,
        at: Option<u64>,
        nr: usize,
        entry: &DirEntry<'_>,
        block: &[u8],
    ) {
        let (own, name): (_, &[u8]) = if nr == 0 {
            (true, b".")
        } else {
            (false, b"..")
        };
        let bad = |state: &mut State<'_>, what: String| {
            state.at_place(self.dir.ino, at, Kind::DirDots, what);
        };
        self.count += 1;
        if entry.name != name {
            let (want, is) = (name.escape_ascii(), entry.name.escape_ascii());
            return bad(
                state,
                format!("entry {nr} is \"{is}\", should be \"{want}\""),
            );
        }
        let Some(ino) = entry.ino else {
            return bad(state, format!("\"{}\" leads nowhere", name.escape_ascii()));
        };
        if block[entry.offset + 8 + name.len()] != 0 {
            bad(
                state,
                format!("\"{}\" is not followed by a zero byte", name.escape_ascii()),
            );
        }
        if own && ino.0 != self.dir.ino {
            return bad(state, format!("\".\" leads to inode {ino}"));
        }
        if own && entry.rec_len != 12 && entry.rec_len < 12 + 12 {
            return bad(state, format!("\".\" is {} bytes long", entry.rec_len));
        }
        if !own && let Some(file) = state.files.get_mut(&self.dir.ino) {
            file.dotdot = Some(ino.0);
        }
        self.check_type(state, at, entry, FileType::Directory);
        match state.files.get_mut(&ino.0) {
            Some(file) => file.names += 1,
            None => bad(
                state,
                format!(
                    "\"{}\" leads to inode {ino}, which is not in use",
                    name.escape_ascii()
                ),
            ),
        }
    }

    fn check_entry(
        &mut self,
        state: &mut State<'_>,
        at: Option<u64>,
        block: &Bytes,
        entry: &DirEntry<'_>,
    ) {
        let Some(ino) = entry.ino else { return };
        self.count += 1;
        let dir = self.dir.ino;
        let name = entry.name.escape_ascii();
        // An encrypted name may consist of any bytes.
        let forbidden = !self.dir.flags.has(InodeFlags::ENCRYPT)
            && entry.name.iter().any(|&b| b == 0 || b == b'/');
        if entry.name.is_empty() || forbidden || entry.name == b"." || entry.name == b".." {
            let what = format!("\"{name}\" at byte {} cannot be a name", entry.offset);
            state.at_place(dir, at, Kind::DirName, what);
        }
        if self
            .folding
            .is_some_and(|folding| folding.refuses(entry.name))
        {
            let what = format!("\"{name}\" is not UTF-8, which the volume asks for");
            state.at_place(dir, at, Kind::DirName, what);
        }
        let from = entry.offset + 8;
        self.names.push(match self.folding {
            None => block.slice(from..from + entry.name.len()),
            Some(folding) => folding.identity(entry.name).into(),
        });
        let sb = &self.volume.sb;
        let reserved = ino < sb.first_ino() || ino.0 > sb.inodes_count();
        let Some(file) = state.files.get_mut(&ino.0).filter(|_| !reserved) else {
            let why = if ino == ROOT_INO {
                "the root"
            } else if reserved {
                "which may have no name"
            } else {
                "which is not in use"
            };
            let what = format!("\"{name}\" leads to inode {ino}, {why}");
            return state.at_place(dir, at, Kind::DirTarget, what);
        };
        file.names += 1;
        let (kind, policy) = (file.kind, file.policy);
        let second = kind == FileType::Directory && file.parent.is_some();
        if kind == FileType::Directory && file.parent.is_none() {
            file.parent = Some(dir);
        }
        if second {
            let what = format!("\"{name}\" is another name of directory {ino}");
            state.at_place(dir, at, Kind::DirParents, what);
        }
        let own = state.files.get(&dir).map_or(Policy::None, |f| f.policy);
        if let Some((wrong, what)) = crypt::entry_fault(own, entry.name, (kind, policy)) {
            state.at_place(dir, at, wrong, format!("\"{name}\" {what}"));
        }
        self.check_type(state, at, entry, kind);
    }

    fn check_type(
        &self,
        state: &mut State<'_>,
        at: Option<u64>,
        entry: &DirEntry<'_>,
        kind: FileType,
    ) {
        let noted = self.volume.sb.incompat().has(Incompat::FILETYPE);
        let want = if noted { kind } else { FileType::Unknown };
        // An entry may leave its type unknown.
        if entry.file_type != want && entry.file_type != FileType::Unknown {
            let what = format!(
                "\"{}\" notes type {:?}, should be {want:?}",
                entry.name.escape_ascii(),
                entry.file_type
            );
            state.at_place(self.dir.ino, at, Kind::DirType, what);
        }
    }
}
