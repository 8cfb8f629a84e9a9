//! Ages a volume before a workload, because a file system that is fast on an empty volume may be
//! slow where free space is in pieces.
//!
//! As in Geriatrix (Kadekodi et al., Geriatrix: Aging what you see and what you don't see, ATC
//! 2018) files are only created and removed, by distributions of size, age and depth: first until
//! the volume is as full as wanted, then until it has been written over as often as wanted. The
//! profiles of Geriatrix were not at hand, so the distributions are ours, after Agrawal et al., A
//! Five-Year Study of File-System Metadata, FAST 2007 (most files are small, most bytes are in
//! large ones, most files die young).
//!
//! The operations depend on seed, size of the device and parameters alone, so all file systems see
//! the same ones; where they place the files is their own.

use super::aged::{Aged, BLOCK, DEPTHS, SIZES, dirs};
use crate::RunError;
use base::Rng;
use std::sync::Arc;
use vfs::{Errno, FsError, OpenFlags, Vfs};

/// Three lifetimes of files: weight at birth, and weight of all such files at death.
const LIVES: [(u32, u32); 3] = [(60, 75), (30, 22), (10, 3)];
/// Bytes of one write.
const CHUNK: u64 = 128 << 10;
/// One file of this many has its content compared in the end.
const COMPARED_ONE_IN: usize = 8;

/// Index of the weight that a draw hits.
fn pick(weights: impl Iterator<Item = u32> + Clone, rng: &mut Rng) -> usize {
    let mut draw = rng.below(weights.clone().map(u64::from).sum());
    let hit = |weight: u32| {
        let found = draw < u64::from(weight);
        draw = draw.saturating_sub(weight.into());
        found
    };
    weights.map(hit).position(|found| found).unwrap_or(0)
}

/// Bytes of a block of an old file that are not zero.
const MARKED: usize = 64;

/// Content of file `id` from byte `at` on, both where a block begins. Each block says whose it is
/// and is zeros beyond that: nothing depends on the content of old files but their comparison, and
/// the modelled chips keep such blocks in a tenth of the memory, so that a card of real size can be
/// aged.
fn content(id: u64, at: u64, bytes: u64) -> Vec<u8> {
    let mut all = vec![0; bytes as usize];
    for (n, block) in all.chunks_mut(BLOCK as usize).enumerate() {
        let whose = (id << 24) ^ (at / BLOCK + n as u64);
        let len = MARKED.min(block.len());
        block[..len].copy_from_slice(&super::fsync::content(whose, len as u64));
    }
    all
}

/// A file that is there.
#[derive(Clone, Copy, Debug)]
struct Live {
    id: u64,
    dir: u32,
    blocks: u64,
}

/// A volume that is being aged, and is compared in the end.
pub struct Aging {
    aged: Aged,
    vfs: Arc<Vfs>,
    bytes: u64,
    rng: Rng,
    dirs: Vec<String>,
    live: [Vec<Live>; LIVES.len()],
    /// Blocks that they take, inodes among them.
    taken: u64,
    /// Blocks written so far, also those of files that are gone.
    written: u64,
    files: u64,
}

/// Says what could not be done, if the volume is full.
fn full(aged: Aged, error: RunError) -> RunError {
    match error {
        RunError::Fs(error) if error.errno() == Errno::NoSpc => RunError::Room(format!(
            "the volume cannot be aged until it is {} % full: no space is left before; take less (aged=) or a larger volume",
            aged.percent
        )),
        other => other,
    }
}

impl Aging {
    /// Ages a volume of `bytes`, brings everything home by `sync`, and answers what is to be
    /// compared in the end; nothing if it is not to be aged.
    ///
    /// # Errors
    /// The file system fails, for lack of space above all.
    pub fn of(
        aged: Aged,
        vfs: &Arc<Vfs>,
        (bytes, seed): (u64, u64),
        sync: impl FnOnce() -> Result<(), RunError>,
    ) -> Result<Option<Aging>, RunError> {
        if aged.percent == 0 {
            return Ok(None);
        }
        let mut aging = Aging::new(aged, vfs, bytes, seed);
        aging.run().map_err(|error| full(aged, error))?;
        sync()?;
        Ok(Some(aging))
    }

    fn new(aged: Aged, vfs: &Arc<Vfs>, bytes: u64, seed: u64) -> Aging {
        Aging {
            aged,
            vfs: vfs.clone(),
            bytes,
            rng: Rng::named(seed, "workload/aging"),
            dirs: dirs(bytes),
            live: Default::default(),
            taken: 0,
            written: 0,
            files: 0,
        }
    }

    fn path(&self, file: Live) -> String {
        format!("{}/f{}", self.dirs[file.dir as usize], file.id)
    }

    /// A directory whose depth is drawn by [`DEPTHS`]; directories of one depth are neighbours.
    fn dir(&mut self) -> u32 {
        let depth = pick(DEPTHS.into_iter(), &mut self.rng);
        let slashes = |n: usize| self.dirs[n].matches('/').count() - 1;
        let first = (0..self.dirs.len()).position(|n| slashes(n) == depth);
        let count = (0..self.dirs.len())
            .filter(|&n| slashes(n) == depth)
            .count();
        (first.unwrap_or(0) as u64 + self.rng.below(count.max(1) as u64)) as u32
    }

    fn size(&mut self) -> u64 {
        SIZES[pick(SIZES.into_iter().map(|(weight, _)| weight), &mut self.rng)].1
    }

    fn create(&mut self, blocks: u64) -> Result<(), RunError> {
        let life = pick(LIVES.into_iter().map(|(birth, _)| birth), &mut self.rng);
        let file = Live {
            id: self.files,
            dir: self.dir(),
            blocks,
        };
        self.files += 1;
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
        let path = self.path(file);
        let handle = self.vfs.open(&path, flags, 0o644)?;
        let bytes = blocks * BLOCK;
        for at in (0..bytes).step_by(CHUNK as usize) {
            let part = content(file.id, at, (bytes - at).min(CHUNK));
            let written = handle.write_at(at, &part);
            if !matches!(written, Ok(n) if n == part.len()) {
                handle.close()?;
                written?;
                return Err(FsError::from(Errno::NoSpc).into());
            }
        }
        handle.close()?;
        self.taken += blocks + 1;
        self.written += blocks;
        self.live[life].push(file);
        Ok(())
    }

    fn remove(&mut self) -> Result<(), RunError> {
        let life = pick(LIVES.into_iter().map(|(_, death)| death), &mut self.rng);
        let kinds = (life..LIVES.len()).chain(0..life);
        let Some(life) = kinds.into_iter().find(|&n| !self.live[n].is_empty()) else {
            return Ok(());
        };
        let at = self.rng.below(self.live[life].len() as u64) as usize;
        let file = self.live[life].swap_remove(at);
        self.taken -= file.blocks + 1;
        Ok(self.vfs.unlink(self.path(file))?)
    }

    /// Fills the volume and writes it over.
    ///
    /// # Errors
    /// The file system fails, for lack of space above all.
    fn run(&mut self) -> Result<(), RunError> {
        for dir in &self.dirs {
            self.vfs.mkdir(dir, 0o755)?;
        }
        let target = self.aged.blocks(self.bytes);
        while self.taken + 2 <= target {
            let blocks = self.size().min(target - self.taken - 1);
            self.create(blocks)?;
        }
        let goal = self.written + self.bytes / BLOCK * u64::from(self.aged.overwrites) / 100;
        while self.written < goal {
            let blocks = self.size().min(target.saturating_sub(1)).max(1);
            while self.taken > 0 && self.taken + blocks + 1 > target {
                self.remove()?;
            }
            self.create(blocks)?;
        }
        Ok(())
    }

    /// Compares the size of every file, and the content of some.
    ///
    /// # Errors
    /// The first difference, or an error of the file system.
    pub fn check(&self) -> Result<(), RunError> {
        for (n, &file) in self.live.iter().flatten().enumerate() {
            let path = self.path(file);
            let found = self.vfs.lstat(&path)?.size;
            let wanted = file.blocks * BLOCK;
            if found != wanted {
                let what = format!("{path} of the aged volume has {found} bytes, not {wanted}");
                return Err(RunError::Check(what));
            }
            if n % COMPARED_ONE_IN == 0 {
                let handle = self.vfs.open(&path, OpenFlags::READ, 0)?;
                let compared = super::bench::expect(&handle, 0, &content(file.id, 0, wanted));
                handle.close()?;
                compared?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{Sim, SimConfig};

    const MIB: u64 = 1 << 20;

    fn aged(percent: u32, overwrites: u32, look: impl FnOnce(&mut Aging, &Arc<Vfs>)) {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let aged = Aged {
                percent,
                overwrites,
            };
            let mut aging = Aging::new(aged, &vfs, 64 * MIB, 3);
            aging.run().unwrap();
            look(&mut aging, &vfs);
        });
        outcome.unwrap();
    }

    #[test]
    fn the_volume_is_as_full_and_as_often_written_as_asked_for() {
        aged(50, 100, |aging, _| {
            let target = 64 * MIB / BLOCK / 2;
            assert!(aging.taken <= target && aging.taken + 1100 > target);
            let over = aging.written - target;
            assert!((over as i64 - 64 * 256).abs() < 2100, "{over}");
            let [short, _, long] = &aging.live;
            assert!(long.len() > short.len() / 2, "the old ones gather");
            let (files, _) = aging.aged.names(aging.bytes);
            let live: usize = aging.live.iter().map(Vec::len).sum();
            assert!((live as u64) < files, "{live} of {files}");
            aging.check().unwrap();
        });
    }

    #[test]
    fn what_became_of_an_old_file_is_seen() {
        aged(20, 20, |aging, vfs| {
            let file = aging.live[0][0];
            vfs.truncate(aging.path(file), 1).unwrap();
            let error = aging.check().unwrap_err().to_string();
            assert!(error.contains("has 1 bytes"), "{error}");
            vfs.unlink(aging.path(file)).unwrap();
            assert!(aging.check().is_err());
        });
    }

    #[test]
    fn draws_follow_their_weights() {
        let mut rng = Rng::named(1, "test");
        let mut hits = [0; 3];
        (0..3000).for_each(|_| hits[pick([0, 1, 2].into_iter(), &mut rng)] += 1);
        assert_eq!(hits[0], 0);
        assert!((900..1100).contains(&hits[1]), "{hits:?}");
    }
}
