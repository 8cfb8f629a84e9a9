//! A volume of a terabyte whose far end is used, and a file of 64 GiB that is written at random.

use super::super::loads::drop_caches;
use super::super::sides::{Ground, Mount, Side};
use super::client::Random;
use super::memory::resident;
use super::{Bench, at};
use crate::Result;
use crate::sh::sh;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

const TIB: u64 = 1 << 40;
/// F2FS keeps a table of all its blocks in the image.
const F2FS_BYTES: u64 = 128 << 30;
const FILE_BYTES: u64 = 64 << 30;
const BLOCK: u64 = 4096;
/// What is left of the terabyte when all else is given away by one `fallocate`.
const REST_BYTES: u64 = 40 << 30;
/// The file that it is given to.
const GIVEN: &str = "given";
const PIECES: u64 = 64;
const PIECE_BYTES: u64 = 1 << 20;

pub fn run(bench: &Bench) -> Result {
    let folder = bench.folder()?;
    let (varve, options) = (&bench.varve, &bench.options);
    println!("| large | what | figure |\n|---|---|---|");
    for (side, bytes) in [
        (Side::Emmc, TIB),
        (Side::Fast, TIB),
        (Side::F2fsj, F2FS_BYTES),
    ] {
        let ground = Ground::sparse(varve.clone(), options.clone(), folder.path(), bytes)?;
        let of_side = |e: String| format!("{}: {e}", side.name());
        volume(bench, &ground, side, bytes == TIB).map_err(of_side)?;
    }
    println!();
    Ok(())
}

fn tell(side: Side, what: &str, figure: &str) {
    println!("| {} | {what} | {figure} |", side.name());
}

fn volume(bench: &Bench, ground: &Ground, side: Side, far: bool) -> Result {
    let begun = Instant::now();
    ground.format(side)?;
    tell(side, "mkfs, s", &seconds(begun));
    let begun = Instant::now();
    let mount = ground.mount(side)?;
    tell(side, "mount, s", &seconds(begun));
    let random = Written::new(bench, mount.dir(), side)?;
    let given = far.then(|| far_end(&mount, side)).transpose()?;
    random.look(mount.dir())?;
    let pid = mount.pid().ok_or("a mount of Varve has a process")?;
    let peak = resident(pid, true)? >> 10;
    tell(side, "resident at most, MB", &peak.to_string());
    let begun = Instant::now();
    mount.end()?;
    tell(side, "unmount, s", &seconds(begun));
    drop_caches()?;
    let begun = Instant::now();
    let mount = ground.mount(side)?;
    tell(side, "mount again, s", &seconds(begun));
    random.look(mount.dir())?;
    if let Some(given) = given {
        look_far(mount.dir(), given)?;
    }
    mount.end()?;
    let begun = Instant::now();
    ground.check(side)?;
    tell(side, "check, s", &seconds(begun));
    if let Some(given) = given {
        is_far(ground, given)?;
    }
    let held = fs::metadata(ground.image())
        .map_err(at(ground.image()))?
        .blocks()
        >> 11;
    tell(side, "image on the host, MiB", &held.to_string());
    Ok(())
}

fn seconds(begun: Instant) -> String {
    format!("{:.2}", begun.elapsed().as_secs_f64())
}

/// Blocks of one large file that were written, with what they hold.
struct Written(BTreeMap<u64, u64>);

impl Written {
    /// Writes blocks at random, some of them more than once: without fsync, then with one each.
    fn new(bench: &Bench, dir: &Path, side: Side) -> Result<Written> {
        let path = dir.join("random");
        let file = File::create_new(&path).map_err(at(&path))?;
        file.set_len(FILE_BYTES).map_err(at(&path))?;
        let mut written = Written(BTreeMap::new());
        let mut random = Random(3);
        let (plain, synced) = bench.amount((150_000, 5000), (3000, 200));
        let mut write = |syncs: bool| {
            // A fifth of the blocks are those of some of the others.
            let pick = random.next() % (5 * plain);
            let block = Random(pick % (4 * plain)).next() % (FILE_BYTES / BLOCK);
            let seed = random.next();
            let data = Random(seed).bytes(BLOCK as usize);
            file.write_all_at(&data, block * BLOCK).map_err(at(&path))?;
            written.0.insert(block, seed);
            match syncs {
                true => file.sync_data().map_err(at(&path)),
                false => Ok(()),
            }
        };
        for (syncs, count) in [(false, plain), (true, synced)] {
            let begun = Instant::now();
            (0..count).try_for_each(|_| write(syncs))?;
            let rate = count as f64 / begun.elapsed().as_secs_f64();
            let what = if syncs { "with fsync" } else { "without fsync" };
            let what = format!("4 KiB at random in 64 GiB, {what}, /s");
            tell(side, &what, &format!("{rate:.0}"));
        }
        Ok(written)
    }

    /// The blocks hold what was written, and some between them nothing.
    fn look(&self, dir: &Path) -> Result {
        let path = dir.join("random");
        let file = File::open(&path).map_err(at(&path))?;
        let mut read = vec![0; BLOCK as usize];
        let mut random = Random(9);
        let holes = std::iter::repeat_with(|| random.next() % (FILE_BYTES / BLOCK)).take(2000);
        let holes = holes.filter(|block| !self.0.contains_key(block));
        let holes = holes.map(|block| (block, vec![0; BLOCK as usize]));
        let written = self.0.iter();
        let written = written.map(|(block, seed)| (*block, Random(*seed).bytes(BLOCK as usize)));
        for (block, data) in written.chain(holes) {
            file.read_exact_at(&mut read, block * BLOCK)
                .map_err(at(&path))?;
            if read != data {
                return Err(format!("block {block} is not what was written"));
            }
        }
        Ok(())
    }
}

/// Pieces of the large file, evenly over it, with the content of each.
fn pieces(given: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..PIECES).map(move |n| {
        let at = (given - PIECE_BYTES) / (PIECES - 1) * n / BLOCK * BLOCK;
        (at, Random(n).bytes(PIECE_BYTES as usize))
    })
}

/// Gives most of the volume to one file, and writes into it. Its size.
fn far_end(mount: &Mount<'_>, side: Side) -> Result<u64> {
    let dir = mount.dir();
    let room = sh("stat", &["-f", "-c", "%a", &dir.to_string_lossy()])?;
    let room: u64 = room.parse().map_err(|e| format!("stat says {room}: {e}"))?;
    let given = (room * BLOCK).saturating_sub(REST_BYTES);
    let path = dir.join(GIVEN);
    let begun = Instant::now();
    sh(
        "fallocate",
        &["-l", &given.to_string(), &path.to_string_lossy()],
    )?;
    let what = format!("fallocate of {} GiB, s", given >> 30);
    tell(side, &what, &seconds(begun));
    let file = File::options().write(true).open(&path).map_err(at(&path))?;
    for (place, content) in pieces(given) {
        file.write_all_at(&content, place).map_err(at(&path))?;
    }
    look_far(dir, given)?;
    Ok(given)
}

/// The pieces are what was written, and what follows each of them is zeros.
fn look_far(dir: &Path, given: u64) -> Result {
    let path = dir.join(GIVEN);
    let file = File::open(&path).map_err(at(&path))?;
    for (place, mut content) in pieces(given) {
        content.resize(2 * PIECE_BYTES as usize, 0);
        content.truncate((given - place).min(2 * PIECE_BYTES) as usize);
        let mut read = vec![1; content.len()];
        file.read_exact_at(&mut read, place).map_err(at(&path))?;
        if read != content {
            return Err(format!("the piece at {place} is not what was written"));
        }
    }
    Ok(())
}

/// A piece lies beyond nine tenths of the volume: the far end was used.
fn is_far(ground: &Ground, given: u64) -> Result {
    let image = ground.image().to_string_lossy();
    let mut most: u64 = 0;
    for (place, _) in pieces(given) {
        let ask = format!("bmap /{GIVEN} {}", place / BLOCK);
        let said = sh("debugfs", &["-R", &ask, &image])?;
        let block = said
            .parse()
            .map_err(|e| format!("debugfs says {said}: {e}"))?;
        most = most.max(block);
    }
    match most > TIB / BLOCK / 10 * 9 {
        true => Ok(()),
        false => Err(format!(
            "nothing lies at the far end, the last block is {most}"
        )),
    }
}
