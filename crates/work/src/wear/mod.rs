//! The erases that a run comes to in the long run, and how they are known.

mod again;
mod calls;
mod keep;
mod places;

pub(crate) use keep::{Keep, Keeping, Kept};

use crate::RunConfig;
use crate::recording::Recording;
use crate::workload::{Pacing, Workload};

use again::{Again, Settled, due};
use base::{BLOCK_BYTES, Nanos, Time};
use places::Places;
use report::results::Flash;
use report::wear::{Area, Basis, Due, Known, Rated, Wear};
use rig::{AnyModel, CellArea, FlashStats, Fs, Profile};

/// Collection finds empty blocks where no more than this share of the cells holds data: random
/// writes over so much of them copy less than a hundredth of what they write (`ftl::theory`).
const ROOMY: f64 = 0.15;
/// A run that filled the device so many times is as long as it takes.
const LONG: f64 = 4.0;
/// Idle time before the first repetition, longer than any background work.
const PAUSE: Nanos = Nanos(600_000_000_000);

/// What the chips of a device of this profile are rated for; `None` for one without flash.
pub(crate) fn rated(profile: &Profile, bytes: u64) -> Option<Rated> {
    let areas = profile.areas(bytes).ok()??;
    let of = |area: CellArea| Area {
        erases: area.erases,
        blocks: area.blocks,
    };
    Some(Rated {
        ordinary: of(areas.ordinary),
        slc: areas.slc.map(of),
        map: of(areas.map),
    })
}

/// The erases by what the measured part used up, which nothing was repeated of.
pub(crate) fn counted(flash: &FlashStats) -> Known {
    Known {
        due: due(flash),
        bounds: None,
        basis: Basis::AtMost,
    }
}

/// The wear by `ops` operations in `seconds`; `None` for a device without flash.
pub(crate) fn told(
    rated: Option<Rated>,
    known: Option<Known>,
    flash: Option<&Flash>,
    measured: (f64, u64),
) -> Option<Wear> {
    Some(Wear::of(rated?, known?, flash?, measured))
}

/// A measured part, with what it left.
pub(crate) struct Ran<'a> {
    /// What it did to the flash.
    pub flash: &'a FlashStats,
    /// Its commands.
    pub kept: &'a Kept,
    /// The device after the run, and the time of the end of the measured part.
    pub model: &'a AnyModel,
    pub end: Time,
    /// The run, and its recording if it has one.
    pub config: &'a RunConfig,
    pub workload: &'a Workload,
    pub recording: &'a Recording,
}

impl Ran<'_> {
    /// The erases that this part comes to.
    pub fn known(&self, rated: &Rated, profile: &Profile) -> Known {
        let bytes = self.config.stack.bytes;
        let counted = counted(self.flash);
        let (slc, filled) = (rated.slc, counted.due.ordinary + counted.due.slc);
        let used = self.share_used(profile, bytes).unwrap_or(1.0);
        if slc.is_none() && used <= ROOMY {
            return Known {
                basis: Basis::Roomy,
                ..counted
            };
        }
        let area = slc.map_or(0, |area| area.blocks);
        let (blocks, lead) = (rated.ordinary.blocks + area, 2 * area);
        if filled >= LONG * f64::from(blocks) {
            return Known {
                basis: Basis::Long,
                ..counted
            };
        }
        let known = match self.pacing() {
            Some(pacing) => self.calls_repeated(pacing, used > ROOMY),
            None if self.kept.over => None,
            None => self.commands_repeated((blocks, lead), used > ROOMY),
        };
        known.unwrap_or(counted)
    }

    /// The pace of a recording that nothing runs beside.
    fn pacing(&self) -> Option<Pacing> {
        let pacing = match self.workload {
            Workload::Replay(spec) => spec.pacing,
            Workload::App(spec) => spec.pacing,
            _ => return None,
        };
        self.workload.background().is_nothing().then_some(pacing)
    }

    /// The erases of a repetition of the calls; `None` if one of them fails. With `full`, so much
    /// of the device holds data that collection has to work in the long run.
    fn calls_repeated(&self, pacing: Pacing, full: bool) -> Option<Known> {
        let model = self.model.clone();
        let repeated = calls::repeated(self.config, (self.recording, pacing), model).ok()?;
        Some(Known {
            due: repeated.due,
            bounds: None,
            basis: match repeated.settled {
                _ if full && !repeated.collected => Basis::AtMost,
                true => Basis::Repeated,
                false => Basis::Unsettled,
            },
        })
    }

    /// The share of the ordinary cells that holds data.
    fn share_used(&self, profile: &Profile, bytes: u64) -> Option<f64> {
        let chips = profile.chips(bytes).ok()??;
        let all = f64::from(chips.blocks())
            * f64::from(chips.pages_per_block)
            * f64::from(chips.page_bytes);
        Some(self.model.mapped().len() as f64 * BLOCK_BYTES as f64 / all)
    }

    /// The erases of a repetition; `None` if the device refuses the commands. With `full`, so much
    /// of it holds data that it matters where new data goes.
    fn commands_repeated(&self, (blocks, lead): (u32, u32), full: bool) -> Option<Known> {
        let again = |places| {
            let again = Again {
                model: self.model.clone(),
                commands: &self.kept.commands,
                now: self.end + PAUSE,
                blocks,
                lead,
                collects: full,
            };
            again.settle(places)
        };
        let same = again(Places::same())?;
        // F2FS appends: it writes no place again before it has gone around.
        if !full || self.config.stack.fs == Fs::F2fs {
            return Some(known(same, None));
        }
        let mapped = self.model.mapped();
        let likely = again(Places::estimated(&self.kept.commands, &mapped))?;
        let anywhere = again(Places::anywhere(&self.kept.commands, &mapped))?;
        Some(known(likely, Some((same.due, anywhere.due))))
    }
}

fn known(settled: Settled, bounds: Option<(Due, Due)>) -> Known {
    Known {
        due: settled.due,
        bounds,
        basis: match settled.settled {
            true => Basis::Repeated,
            false => Basis::Unsettled,
        },
    }
}
