//! Every byte of metadata flipped once, with the checksum made good: mounted, walked, checked, and where it may be written, written to. Each is
//! answered, none with a panic, an endless loop or more memory than the volume is worth.

use crate::targets::{Blocks, Volume, block};
use crate::{corpus, volumes};
use base::{Bytes, Ino};
use block::{BlockDevice, Queue};
use blockdev::{Image, Ram};
use fscore::{Creds, FileKind, FileSystem, FsResult};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_ext4::{Ext4, MountOptions};

/// Entries and bytes looked at in one directory or file.
const ENTRIES_MAX: usize = 512;
const READ_MAX: usize = 1 << 20;
/// Directories walked; the volume has far fewer.
const DIRS_MAX: usize = 64;
/// Files up to this size grow: with `inline_data`, in their inode and out of it.
const SMALL: u64 = 200;
/// What a file grows by.
const MORE: [u8; 90] = [9; 90];

/// Looks at everything that names lead to, and changes it if it is `writable`. Errors are answers.
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
            let creds = Creds::default();
            let _ = fs.create(dir, b"one more", FileKind::File, 0o600, 0, creds);
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
    // A failed volume says so; its tasks end all the same.
    let _ = fs.unmount();
    Ok(seen)
}

/// Flips every `step`-th byte from `first` on.
pub fn run(options: &[&str], first: usize, step: usize) {
    let image = volumes::filled(options);
    let device = image.load();
    let bytes = device.caps().sectors * 512;
    let good: Image = device.blocks().into_iter().collect();
    let volume = Volume::of(device.blocks().into_iter().collect());
    let places: Vec<(usize, usize)> = (0..)
        .zip(&volume.targets)
        .flat_map(|(n, target)| (0..target.len).map(move |at| (n, at)))
        .collect();
    let (mut cases, mut mounted, mut noticed) = (0u32, 0u32, 0u32);
    for (n, &(target, at)) in places.iter().enumerate().skip(first).step_by(step) {
        let target = &volume.targets[target];
        let mut new = block(&volume.blocks, target.block).to_vec();
        new[target.offset + at] ^= 0xFF;
        let mut changed = Blocks::from([(target.block, Bytes::from(new))]);
        volume.mend(target, &mut changed);
        let report = corpus::ours(&volume, &changed, volume.sb.blocks_count());
        noticed += u32::from(!report.is_clean());
        let mut content = good.clone();
        for (n, block) in &changed {
            content.edit_block(*n, |old| old.copy_from_slice(block));
        }
        let mode = ["ro", ""][n / 2 % 2];
        let outcome =
            Sim::new(SimConfig::seeded(1)).run(|| open_and_walk(content.to_ram(bytes), mode));
        assert!(
            outcome.first_failure.is_none(),
            "byte {at} of {} at block {} flipped, mount `{mode}`: {:?}",
            target.name,
            target.block,
            outcome.first_failure
        );
        cases += 1;
        mounted += u32::from(matches!(outcome.value, Some(Ok(seen)) if seen > 0));
    }
    println!(
        "{cases} of {} bytes flipped: {noticed} noticed by the checker, {mounted} mounted",
        places.len()
    );
    assert!(cases > 0 && noticed > 0 && mounted > 0);
}
