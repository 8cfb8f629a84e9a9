//! Whether a benchmark has room on its volume. This is asked before it starts, so that none fails
//! for lack of space after minutes.
//!
//! What is counted is an upper bound of what the benchmark takes at one time: content in whole
//! blocks; on F2FS a node block for each file and directory, and those that map large files; on
//! ext4 an inode, and the blocks of directories. [`rig::Config::room`] has already subtracted
//! journal, overprovisioning and inode tables. Models of Filebench, jobs of fio and the programs of
//! `beside=` are not counted: they look at the free blocks of the volume themselves.

use super::{BenchSpec, Program};
use crate::workload::Workload;
use crate::{RunConfig, RunError};
use base::BLOCK_BYTES;
use rig::{Config, Fs, Room};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Number of names that an F2FS directory keeps in its inode: 182 slots less those of "." and "..",
/// two slots for a name.
const F2FS_INLINE_NAMES: u64 = 90;
/// Slots of an F2FS dentry block.
const F2FS_SLOTS: u64 = 214;
/// Bytes of a directory entry of ext4 with a name of 12 to 15 bytes.
const EXT4_ENTRY_BYTES: u64 = 24;
/// Least number of blocks that an inode of F2FS addresses itself.
const F2FS_INODE_BLOCKS: u64 = 873;
const F2FS_NODE_BLOCKS: u64 = 1018;
/// ext4 keeps blocks back for what delayed allocation has underrated: one in this many of the
/// volume (2 %), but at most 4096.
const EXT4_KEPT: u64 = 50;
const EXT4_KEPT_MAX: u64 = 4096;
/// Bytes between two volumes that are tried when the smallest sufficient one is searched.
const STEP: u64 = 16 << 20;
const VOLUME_MAX: u64 = 64 << 30;

/// What a benchmark takes at most at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Number of files and directories.
    pub inodes: u64,
    /// Blocks of content.
    pub content: u64,
    /// Nodes of F2FS below inodes.
    pub nodes: u64,
    /// Blocks of directories: on F2FS, on ext4.
    pub names: [u64; 2],
}

impl Needs {
    /// Adds `count` files of `bytes` each.
    #[must_use]
    pub fn files(mut self, count: u64, bytes: u64) -> Needs {
        let blocks = bytes.div_ceil(BLOCK);
        let mapped = blocks.saturating_sub(F2FS_INODE_BLOCKS);
        // There are up to two levels above the nodes that map content.
        let below = match mapped.div_ceil(F2FS_NODE_BLOCKS) {
            0 => 0,
            n => n + n.div_ceil(F2FS_NODE_BLOCKS) + 2,
        };
        self.inodes = self.inodes.saturating_add(count);
        self.content = self.content.saturating_add(count.saturating_mul(blocks));
        self.nodes = self.nodes.saturating_add(count.saturating_mul(below));
        self
    }

    /// Adds `count` directories with `entries` names each.
    #[must_use]
    pub fn dirs(mut self, count: u64, entries: u64) -> Needs {
        // Such blocks are about two thirds full: F2FS hashes into buckets, ext4 splits blocks.
        let f2fs = match entries {
            0..=F2FS_INLINE_NAMES => 0,
            n => (n * 2 * 3 / 2).div_ceil(F2FS_SLOTS) + 2,
        };
        let ext4 = (entries * EXT4_ENTRY_BYTES * 3 / 2).div_ceil(BLOCK).max(1);
        self.inodes = self.inodes.saturating_add(count);
        self.names[0] = self.names[0].saturating_add(count.saturating_mul(f2fs));
        self.names[1] = self.names[1].saturating_add(count.saturating_mul(ext4));
        self
    }

    /// Number of blocks that this takes on such a file system.
    pub fn blocks(&self, fs: Fs) -> u64 {
        let parts = match fs {
            Fs::F2fs => [self.content, self.inodes, self.nodes, self.names[0]],
            // The few files with more extents than an inode holds need a block each.
            Fs::Ext4 | Fs::Ext3 => [self.content, self.names[1], self.nodes, 0],
        };
        parts.into_iter().fold(0, u64::saturating_add)
    }

    fn fits(&self, fs: Fs, room: Room) -> bool {
        let kept = match fs {
            Fs::F2fs => 0,
            Fs::Ext4 | Fs::Ext3 => (room.blocks / EXT4_KEPT).min(EXT4_KEPT_MAX),
        };
        self.blocks(fs) + kept <= room.blocks && self.inodes <= room.inodes
    }
}

impl BenchSpec {
    /// What the benchmark takes at most on a device of `bytes`, with aging and the file of
    /// `writer=`, but without `beside=`.
    pub fn needs(&self, bytes: u64) -> Needs {
        let writer = self.background.writer_bytes();
        let needs = Needs::default().files((writer > 0).into(), writer);
        let needs = match &self.program {
            Program::Bonnie(spec) => needs.files(1, spec.bytes()),
            Program::Iozone(spec) => needs.files(1, spec.file),
            Program::Jobs(spec) => needs.files(spec.processes.into(), spec.file),
            Program::Small(spec) => {
                let count = spec.count.into();
                needs.files(count, spec.size).dirs(1, count)
            }
            Program::Churn(spec) => {
                let (dirs, files) = (spec.dirs.into(), spec.files.into());
                let needs = needs.files(dirs * files, spec.size);
                needs.dirs(dirs, files).dirs(1, dirs)
            }
            Program::Meta(spec) => spec.needs(needs),
            Program::Fio(spec) => needs.files(1, spec.file),
            Program::Tree(spec) => spec.needs(needs),
            // Its needs are known when its model is read; it then looks at the volume itself.
            Program::Filebench(_) | Program::FioJobs(_) => needs,
        };
        let aged = self.background.aged;
        if aged.percent == 0 {
            return needs;
        }
        let (files, dirs) = aged.names(bytes);
        let mut needs = needs.dirs(dirs, files / dirs.max(1));
        // The blocks of aging already count an inode for each file.
        needs.content = needs.content.saturating_add(aged.blocks(bytes));
        needs.nodes = needs.nodes.saturating_add(files / 8);
        needs
    }
}

/// Refuses a benchmark that the volume has no room for.
///
/// # Errors
/// [`RunError::Room`] with what it needs, what there is, and which size would do; a configuration
/// that is not possible.
pub fn check(config: &RunConfig) -> Result<(), RunError> {
    check_loaded(config, &config.workload.parse()?)
}

/// Like [`check`], for a caller that has parsed the workload.
///
/// # Errors
/// As [`check`].
pub fn check_loaded(config: &RunConfig, workload: &Workload) -> Result<(), RunError> {
    let Workload::Bench(spec) = workload else {
        return Ok(());
    };
    let stack = &config.stack;
    let (needs, room) = (spec.needs(stack.bytes), stack.room()?);
    if needs.fits(stack.fs, room) {
        return Ok(());
    }
    let mib = |blocks: u64| (u128::from(blocks) * u128::from(BLOCK)).div_ceil(1 << 20);
    let (blocks, inodes) = (needs.blocks(stack.fs), needs.inodes);
    let would_do = match volume(stack, spec) {
        Some(bytes) => format!("a volume of {} MiB would do (--size {0})", bytes >> 20),
        None => format!("no volume of up to {} GiB would do", VOLUME_MAX >> 30),
    };
    Err(RunError::Room(format!(
        "{workload} needs {} MiB ({} MiB of it content) and {inodes} inodes; {} on a device of {} MiB has {} MiB and {} inodes for files: {would_do}, \
         or choose smaller numbers",
        mib(blocks),
        mib(needs.content),
        stack.fs,
        stack.bytes >> 20,
        mib(room.blocks),
        room.inodes,
    )))
}

/// Bytes of the smallest volume, in steps of 16 MiB, that has room.
fn volume(stack: &Config, spec: &BenchSpec) -> Option<u64> {
    let fits = |steps: u64| {
        let bytes = steps * STEP;
        let stack = Config {
            bytes,
            ..stack.clone()
        };
        let room = stack.room();
        room.is_ok_and(|room| spec.needs(bytes).fits(stack.fs, room))
    };
    let (mut low, mut high) = (stack.bytes / STEP, stack.bytes / STEP + 1);
    while !fits(high) {
        (low, high) = (high, high * 2);
        if high > VOLUME_MAX / STEP {
            return None;
        }
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        match fits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high * STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use rig::Preset;

    fn config(fs: Fs, mib: u64, workload: String) -> RunConfig {
        let mut stack = Config::new(Preset::default(), "loop-like", 3);
        (stack.fs, stack.bytes) = (fs, mib << 20);
        let scheme = if fs == Fs::F2fs {
            "f2fsj+ring=256"
        } else {
            "jbd2"
        };
        stack.set_scheme(scheme).unwrap();
        RunConfig {
            stack,
            workload,
            seed: 3,
            recording: None,
        }
    }

    /// Checks that the largest number which is let through runs to its end, and that one more is
    /// refused before it starts.
    fn both_sides(fs: Fs, workload: &dyn Fn(u64) -> String) {
        let passes = |n| check(&config(fs, 64, workload(n))).is_ok();
        let (mut low, mut high) = (1, 1 << 20);
        check(&config(fs, 64, workload(low))).expect("one has room");
        assert!(!passes(high));
        while high - low > 1 {
            let middle = (low + high) / 2;
            match passes(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        let most = run::run(&config(fs, 64, workload(low)), &mut |_, _| {});
        let ran = most.unwrap_or_else(|e| panic!("{fs}, {}: {e}", workload(low)));
        assert!(ran.run.ops > 0);
        let refused = run::run(&config(fs, 64, workload(high)), &mut |_, _| {});
        let Err(RunError::Room(words)) = refused.map(|_| ()) else {
            panic!("{fs}, {}: it was let through", workload(high));
        };
        assert!(
            words.contains("on a device of 64 MiB") && words.contains("--size 80"),
            "{words}"
        );
    }

    #[test]
    fn the_largest_that_is_let_through_runs_and_one_more_is_refused_with_the_size() {
        for fs in [Fs::Ext4, Fs::F2fs] {
            both_sides(fs, &|n| format!("meta:op=create,size=16k,count={n}"));
            both_sides(fs, &|n| {
                format!("fio:rw=write,depth=1,bs=4k,file={}k,end=off", 4 * n)
            });
            both_sides(fs, &|n| format!("tree:op=clone,pack=50,files={n}"));
        }
        both_sides(Fs::Ext4, &|n| format!("meta:op=mkdir,count={n}"));
        both_sides(Fs::F2fs, &|n| format!("small:unlink=0,size=1,count={n}"));
    }

    /// The file of `writer=` is made before the measured part, which then has less room.
    #[test]
    fn the_file_of_the_writer_takes_room() {
        // F2FS of this size has no room for that file.
        both_sides(Fs::Ext4, &|n| {
            format!("meta:op=create,size=16k,count={n},writer=100")
        });
    }

    /// A run whose figures begin at the mount is refused before it starts, too.
    #[test]
    fn a_whole_run_is_refused_as_any_other() {
        let much = config(Fs::Ext4, 64, "small:unlink=0,size=64k,count=2000".into());
        let refused = run::run_whole(&much).map(drop).unwrap_err();
        assert!(matches!(refused, RunError::Room(_)), "{refused}");
    }

    #[test]
    fn what_no_device_holds_is_refused_in_words() {
        let much = config(
            Fs::F2fs,
            64,
            "meta:op=create,size=16m,count=10000000".into(),
        );
        let error = check(&much).unwrap_err().to_string();
        assert!(error.contains("no volume of up to 64 GiB"), "{error}");
        let aged = config(Fs::F2fs, 128, "meta:op=mkdir,count=10,aged=95%".into());
        let error = check(&aged).unwrap_err().to_string();
        assert!(error.contains("aged=95%"), "{error}");
    }
}
