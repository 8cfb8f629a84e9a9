//! Runs a recording again and again where it ended, until the erases of a repetition settle.
//!
//! What a longer recording does to the device cannot be read off the commands of a short one: files
//! that are made anew lie elsewhere each time, and a volume without discard comes to use all of its
//! device. So the calls are repeated on the file system, in a life of its own on a copy of the
//! device.

use super::again::{LAG, MOST_UNITS, due};
use crate::life::live;
use crate::recording::Recording;
use crate::workload::Pacing;
use crate::workload::replay::Replay;
use crate::{RunConfig, RunError};
use report::wear::Due;
use rig::{AnyModel, FlashStats, Stack};

/// Repetitions: as many as make a recording ten times as long. They are judged each time that there
/// are so many more.
const REPETITIONS: usize = 10;
/// Repetitions at most. Where collection moves whole rows of blocks it comes in bursts, and few
/// repetitions see more or fewer of them than many.
const MOST: usize = 3 * REPETITIONS;
/// The first of them are left out of the mean: they lead to where the others are.
const LEAD: usize = 2;
/// Repetitions settled when the halves of the others differ by no more than this share.
const SAME: f64 = 0.03;

/// The erases of the repetitions.
pub(super) struct Repeated {
    /// By one of them.
    pub due: Due,
    /// Whether they had settled.
    pub settled: bool,
    /// Whether as many blocks became free as were filled at the end; before that, the repetitions
    /// use up empty blocks, and are alike for want of collection. Erases do not tell that: each
    /// block is erased when it is taken, an empty one, too.
    pub collected: bool,
}

impl Repeated {
    /// True if more repetitions would tell the same.
    fn is_known(&self) -> bool {
        self.settled && self.collected
    }
}

/// The erases of a repetition of the recording on the device that its run left.
///
/// # Errors
/// A call that fails, as for want of room.
pub(super) fn repeated(
    config: &RunConfig,
    (recording, pacing): (&Recording, Pacing),
    model: AnyModel,
) -> Result<Repeated, RunError> {
    let life = live(config, model, |stack, _| {
        let mut replay = Replay::ended(recording, pacing, &stack.vfs)?;
        let mut all = Vec::new();
        let mut units = 0;
        while all.len() < MOST {
            replay.begin_again()?;
            let before = flash(stack);
            replay.run(&mut |_| {})?;
            replay.settle()?;
            let since = flash(stack).since(&before);
            units += since.host_pages;
            all.push(since);
            if all.len().is_multiple_of(REPETITIONS) && judge(&all[LEAD..]).is_known() {
                break;
            }
            if all.len() > REPETITIONS && units >= MOST_UNITS {
                break;
            }
        }
        Ok(all)
    })?;
    Ok(judge(&life.value[LEAD..]))
}

fn flash(stack: &Stack) -> FlashStats {
    stack.device.flash_stats().unwrap_or_default()
}

/// The mean, and whether the later half differs from the earlier one, but for a block that the
/// repetitions did not divide.
fn judge(all: &[FlashStats]) -> Repeated {
    let mean = |part: &[FlashStats]| {
        let sum = part.iter().map(due).fold(Due::default(), |sum, due| Due {
            ordinary: sum.ordinary + due.ordinary,
            slc: sum.slc + due.slc,
            map: sum.map + due.map,
        });
        let n = part.len().max(1) as f64;
        Due {
            ordinary: sum.ordinary / n,
            slc: sum.slc / n,
            map: sum.map / n,
        }
    };
    let (earlier, later) = all.split_at(all.len() / 2);
    let (early, late) = (mean(earlier), mean(later));
    let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b) + 1.0 / later.len().max(1) as f64;
    let freed: u64 = later.iter().map(|flash| flash.used.freed).sum();
    let filled = (late.ordinary + late.slc) * later.len() as f64;
    Repeated {
        due: mean(all),
        collected: freed as f64 / 1000.0 + 1.0 >= filled * (1.0 - LAG),
        settled: near(early.ordinary, late.ordinary) && near(early.slc, late.slc),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repetitions that fill 10.5 blocks each, erase these, and free so many.
    fn repetitions(freed: [u64; 8]) -> Vec<FlashStats> {
        let one = |freed| {
            let mut flash = FlashStats::default();
            flash.used.ordinary = 10_500;
            flash.erases = 10;
            flash.used.freed = freed * 1000;
            flash
        };
        freed.map(one).to_vec()
    }

    #[test]
    fn repetitions_on_empty_blocks_say_nothing_of_collection() {
        let never = judge(&repetitions([0; 8]));
        assert!(never.settled && !never.collected);
        // It began in the middle.
        let late = judge(&repetitions([0, 0, 0, 2, 10, 11, 10, 11]));
        assert!(late.settled && late.collected && late.due.ordinary == 10.5);
    }

    #[test]
    fn halves_that_differ_have_not_settled() {
        let mut all = repetitions([10; 8]);
        for flash in &mut all[4..] {
            flash.used.ordinary = 12_000;
        }
        assert!(!judge(&all).settled);
    }
}
