//! What one inode more costs: the resident memory of a mount by the number of inodes that the
//! kernel knows, and what is left of it when the kernel has forgotten them.

use super::super::loads::drop_caches;
use super::super::sides::{Ground, Side};
use super::memory::{known_to_kernel, resident};
use super::{Bench, at};
use crate::Result;
use crate::sh::sh;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const IMAGE_BYTES: u64 = 32 << 30;
/// Files of one directory.
const DIR_FILES: u64 = 1000;
const CONTENT_BYTES: usize = 4096;
/// What may be left of each inode that the kernel has forgotten, bytes.
const LEFT_BYTES: u64 = 64;
/// Beside what inodes take, KiB: both caches, buffers of requests, the program.
const FIXED_KIB: u64 = 220 << 10;

pub fn run(bench: &Bench) -> Result {
    let folder = bench.folder()?;
    let (varve, options) = (bench.varve.clone(), bench.options.clone());
    let ground = Ground::sparse(varve, options, folder.path(), IMAGE_BYTES)?;
    let numbers = bench.amount(&[10_000, 50_000, 200_000, 1_000_000][..], &[10_000, 40_000]);
    let with_content = bench.amount(&[10_000, 50_000, 200_000][..], &[10_000]);
    let most = numbers.iter().copied().max().unwrap_or(0);
    let inodes = (most + most / 10 + 300_000).to_string();
    let image = ground.image().to_string_lossy().to_string();
    sh("mke2fs", &["-q", "-F", "-t", "ext4", "-N", &inodes, &image])?;
    let content = with_content.iter().copied().max().unwrap_or(0);
    let kernel = ground.mount(Side::Kernel)?;
    make(&kernel.dir().join("empty"), most, 0)?;
    make(&kernel.dir().join("content"), content, CONTENT_BYTES)?;
    kernel.end()?;
    println!("| what | inodes | MB before | with them | bytes each | forgotten | known |");
    println!("|---|---|---|---|---|---|---|");
    for &count in numbers {
        let look = |dir: &Path| {
            each(&dir.join("empty"), count, |file| {
                fs::metadata(file).map(drop)
            })
        };
        step(&ground, "stat", count, look)?;
    }
    for &count in with_content {
        let look = |dir: &Path| each(&dir.join("content"), count, |file| fs::read(file).map(drop));
        step(&ground, "read, 4 KiB", count, look)?;
    }
    for &count in with_content {
        let made = |dir: &Path| make(&dir.join(format!("made {count}")), count, 3000);
        step(&ground, "made, 3000 bytes", count, made)?;
    }
    println!();
    ground.check(Side::Emmc)
}

fn path(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("{}/file {n}", n / DIR_FILES))
}

fn each(dir: &Path, count: u64, mut look: impl FnMut(&Path) -> std::io::Result<()>) -> Result {
    (0..count)
        .map(|n| path(dir, n))
        .try_for_each(|file| look(&file).map_err(at(&file)))
}

fn make(dir: &Path, count: u64, bytes: usize) -> Result {
    fs::create_dir(dir).map_err(at(dir))?;
    for n in (0..count).step_by(DIR_FILES as usize) {
        let part = dir.join((n / DIR_FILES).to_string());
        fs::create_dir(&part).map_err(at(&part))?;
    }
    let content = vec![7; bytes];
    each(dir, count, |file| File::create(file)?.write_all(&content))
}

/// A mount of its own, so that its memory is that of these inodes.
fn step(ground: &Ground, what: &str, count: u64, use_them: impl Fn(&Path) -> Result) -> Result {
    drop_caches()?;
    let mount = ground.mount(Side::Emmc)?;
    let pid = mount.pid().ok_or("a mount of Varve has a process")?;
    let before = resident(pid, false)?;
    use_them(mount.dir())?;
    let with = resident(pid, false)?;
    let known = known_to_kernel()?;
    forget()?;
    let after = resident(pid, false)?;
    let left = known_to_kernel()?;
    let each = (with.saturating_sub(before) << 10) / count;
    println!(
        "| {what} | {count} | {} | {} | {each} | {} | {known}, then {left} |",
        before >> 10,
        with >> 10,
        after >> 10
    );
    mount.end()?;
    let bound = FIXED_KIB + ((count * LEFT_BYTES) >> 10);
    match after <= bound {
        true => Ok(()),
        false => Err(format!(
            "{after} KiB for forgotten inodes, more than {bound}"
        )),
    }
}

/// The kernel gives up all inodes that nobody uses; the requests that say so go their way.
fn forget() -> Result {
    for _ in 0..2 {
        drop_caches()?;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
