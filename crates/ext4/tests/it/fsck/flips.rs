//! Every byte of metadata flipped once, and several fields of one structure changed at a time, with
//! the checksum corrected. The volume is mounted, walked, checked, and, where it may be written,
//! written to. Each case gets an answer, without a panic, an endless loop or more memory than the
//! volume justifies.

use super::targets::{Blocks, Volume, block};
use super::{corpus, volumes};
use base::{Bytes, Ino, Rng};
use block::{BlockDevice, Queue};
use blockdev::{Image, Ram};
use fscore::{FileKind, FileSystem, FsResult};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

/// The maximum of entries and bytes read in one directory or file.
const ENTRIES_MAX: usize = 512;
const READ_MAX: usize = 1 << 20;
/// The maximum of directories walked; the volume has far fewer.
const DIRS_MAX: usize = 64;
/// Files up to this size grow: with `inline_data`, in their inode and out of it.
const SMALL: u64 = 200;
/// The bytes by which a file grows.
const MORE: [u8; 90] = [9; 90];

/// Reads everything that names lead to, and changes it if it is `writable`. Errors are valid
/// answers.
fn walk(fs: &Ext4, writable: bool) -> usize {
    let mut todo = vec![fs.root()];
    let (mut seen, mut dirs) = (0, 0);
    let mut buf = vec![0; READ_MAX];
    while let Some(dir) = todo.pop() {
        dirs += 1;
        if dirs > DIRS_MAX {
            break;
        }
        if writable {
            let _ = fs.make(dir, b"one more");
        }
        for entry in fs.readdir(dir, 0, ENTRIES_MAX).unwrap_or_default() {
            let Ok(ino) = fs.lookup(dir, &entry.name) else {
                continue;
            };
            seen += 1;
            look(fs, ino, &mut buf);
            if writable && entry.kind == FileKind::File {
                grow(fs, ino);
            }
            if entry.kind == FileKind::Dir && !matches!(&entry.name[..], b"." | b"..") {
                todo.push(ino);
            }
        }
    }
    seen
}

fn look(fs: &Ext4, ino: Ino, buf: &mut [u8]) {
    let size = fs.getattr(ino).map(|attr| attr.size).unwrap_or_default();
    let part = buf.len().min(size as usize);
    let _ = fs.read(ino, 0, &mut buf[..part]);
    let _ = fs.read(ino, size.saturating_sub(1), &mut buf[..1]);
    let _ = fs.readlink(ino);
    for name in fs.listxattr(ino).unwrap_or_default() {
        let _ = fs.getxattr(ino, &name);
    }
}

fn grow(fs: &Ext4, ino: Ino) {
    let size = fs.getattr(ino).map(|attr| attr.size).unwrap_or(u64::MAX);
    if size <= SMALL {
        let _ = fs.write(ino, size, &MORE);
    }
}

fn open_and_walk(ram: Ram, options: &str) -> FsResult<usize> {
    let fs = Ext4::mount(Queue::new(Arc::new(ram)), MountOptions::parse(options)?)?;
    let seen = walk(&fs, options.is_empty());
    // A failed volume reports an error; its tasks end all the same.
    let _ = fs.unmount();
    Ok(seen)
}

/// A volume whose structures are damaged, one after the other.
struct Damaged {
    good: Image,
    bytes: u64,
    volume: Volume,
    cases: u32,
    mounted: u32,
    noticed: u32,
}

impl Damaged {
    fn new(options: &[&str]) -> Damaged {
        let device = volumes::filled(options).load();
        Damaged {
            good: device.blocks().into_iter().collect(),
            bytes: device.caps().sectors * 512,
            volume: Volume::of(device.blocks().into_iter().collect()),
            cases: 0,
            mounted: 0,
            noticed: 0,
        }
    }

    /// Checks, mounts and walks the volume with these blocks changed.
    fn answers(&mut self, changed: &Blocks, mode: &str, what: &dyn Fn() -> String) {
        let report = corpus::ours(&self.volume, changed, self.volume.sb.blocks_count());
        let mut content = self.good.clone();
        for (n, block) in changed {
            content.edit_block(*n, |old| old.copy_from_slice(block));
        }
        let bytes = self.bytes;
        let outcome =
            Sim::new(SimConfig::seeded(1)).run(|| open_and_walk(content.to_ram(bytes), mode));
        assert!(
            outcome.first_failure.is_none(),
            "{}, mount `{mode}`: {:?}",
            what(),
            outcome.first_failure
        );
        self.cases += 1;
        self.noticed += u32::from(!report.is_clean());
        self.mounted += u32::from(matches!(outcome.value, Some(Ok(seen)) if seen > 0));
    }

    fn tell(&self, of: &str) {
        println!(
            "{} of {of}: {} noticed by the checker, {} mounted",
            self.cases, self.noticed, self.mounted
        );
        assert!(self.cases > 0 && self.noticed > 0 && self.mounted > 0);
    }
}

/// Flips every `step`-th byte from `first` on.
pub fn run(options: &[&str], first: usize, step: usize) {
    let mut damaged = Damaged::new(options);
    let places: Vec<(usize, usize)> = (0..)
        .zip(&damaged.volume.targets)
        .flat_map(|(n, target)| (0..target.len).map(move |at| (n, at)))
        .collect();
    for (n, &(target, at)) in places.iter().enumerate().skip(first).step_by(step) {
        let target = damaged.volume.targets[target].clone();
        let mut new = block(&damaged.volume.blocks, target.block).to_vec();
        new[target.offset + at] ^= 0xFF;
        let mut changed = Blocks::from([(target.block, Bytes::from(new))]);
        damaged.volume.mend(&target, &mut changed);
        let what = || {
            format!(
                "byte {at} of {} at block {} flipped",
                target.name, target.block
            )
        };
        damaged.answers(&changed, ["ro", ""][n / 2 % 2], &what);
    }
    damaged.tell(&format!("{} bytes flipped", places.len()));
}

/// Changes two to nine fields of one structure, once a seed.
pub fn several(options: &[&str], seeds: std::ops::Range<u64>) {
    let mut damaged = Damaged::new(options);
    for seed in seeds.clone() {
        let mut rng = Rng::named(seed, "several fields");
        let fields = 2 + rng.below(8) as usize;
        let Some(case) = corpus::mutate(&damaged.volume, &mut rng, fields) else {
            continue;
        };
        let what = || {
            let at = case.target.block;
            format!(
                "seed {seed}: {} at block {at}: {}",
                case.target.name, case.change
            )
        };
        damaged.answers(&case.changed, ["ro", ""][seed as usize % 2], &what);
    }
    damaged.tell(&format!("{} structures changed", seeds.end - seeds.start));
}
