//! Volumes on a device that was in use for long. On a fresh device garbage is hardly ever
//! collected, and then cuts in it are not tested; on these nearly every write makes the chips
//! collect.

use crate::CrashError;
use crate::device::{self, Volume};
use base::{BlockNo, Rng};
use blockdev::{Adversary, Model};
use rig::{AnyModel, Config};

/// A device with small blocks and a small cache, as the text of a profile. A block holds 32 units,
/// so a workload of a few hundred writes opens, collects and erases several blocks.
pub const fn small_chips() -> &'static str {
    "emmc-odroid-xu4,nand.pages_per_block=8,card.cache_kib=64"
}

/// How often each free block was overwritten, on average.
const ROUNDS: u64 = 2;
/// Writes of 4 KiB that are left before the map of the device is due for a checkpoint.
const UNTIL_CHECKPOINT: u64 = 40;
/// Writes after which a device counts as one that makes no checkpoints.
const WRITES_MAX: u64 = 100_000;

/// Makes a fresh file system on a device whose free blocks were all written several times, in
/// random order, and whose next checkpoint of the map is due soon.
///
/// # Errors
/// The size is not possible, or the profile is unknown.
pub fn aged_volume(config: &Config, adversary: Adversary, seed: u64) -> Result<Volume, CrashError> {
    let mut model = config.format()?;
    let free = device::free_blocks(config)?;
    for block in &free {
        overwrite(&mut model, *block)?;
    }
    let mut rng = Rng::named(seed, "crash/aged device");
    let mut pick = || free[rng.below(free.len() as u64) as usize];
    for _ in 0..ROUNDS * free.len() as u64 {
        overwrite(&mut model, pick())?;
    }
    let picks: Vec<BlockNo> = (0..WRITES_MAX.min(8 * free.len() as u64))
        .map(|_| pick())
        .collect();
    let due = until_checkpoint(model.clone(), &picks)?;
    for block in &picks[..due.saturating_sub(UNTIL_CHECKPOINT as usize)] {
        overwrite(&mut model, *block)?;
    }
    model.set_adversary(adversary);
    Ok(Volume::of_model(config, adversary, model))
}

fn overwrite(model: &mut AnyModel, block: BlockNo) -> Result<(), CrashError> {
    let stale = device::stale_block();
    model
        .load_logical(block.lba(), stale)
        .map_err(|e| CrashError::Check(format!("ageing the device: {e}")))
}

/// Counts the writes until the next checkpoint of the map; 0 for a device without a map.
fn until_checkpoint(mut model: AnyModel, picks: &[BlockNo]) -> Result<usize, CrashError> {
    let maps = |model: &AnyModel| model.flash_stats().map(|s| s.map_programs);
    let before = maps(&model);
    for (n, block) in picks.iter().enumerate() {
        overwrite(&mut model, *block)?;
        if maps(&model) != before {
            return Ok(n);
        }
    }
    Ok(0)
}
