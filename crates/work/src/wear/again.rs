//! Gives the commands of a measured part to the device again and again, until the erases of a
//! repetition settle.
//!
//! A short run says little of the erases that it will come to: a fresh device has free blocks, so
//! that collection copies nothing yet, and an SLC area that is not full folds nothing. Repeating
//! the commands at their own pace brings the model there, with all that its firmware does in idle
//! time. A command is not given before those have ended whose end its submitter knew.

use super::keep::Command;
use super::places::Places;
use base::Time;
use report::wear::Due;
use rig::{AnyModel, FlashStats, Model};

/// Repetitions settled when two windows differ by no more than this share.
const SAME: f64 = 0.01;
/// A window fills this many blocks at least, so that a single one is less than [`SAME`].
const WINDOW_BLOCKS: f64 = 100.0;
/// Blocks become free later than others are filled by those that are open; a share covers what
/// else differs.
pub(super) const LAG: f64 = 0.03;
/// Repetitions end when they have filled the device so many times.
const MOST_FILLS: f64 = 8.0;
/// They end as well after so many units of 4 KiB, which bounds the time that they take to seconds.
pub(super) const MOST_UNITS: u64 = 1_000_000;
/// And after so many commands: reads and flushes take time, too, and fill nothing.
const MOST_COMMANDS: f64 = 4_000_000.0;

/// What repetitions came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settled {
    /// Erases due by one repetition, at the end.
    pub due: Due,
    /// Whether they had settled.
    pub settled: bool,
}

/// Erases due by what was used up.
pub(super) fn due(flash: &FlashStats) -> Due {
    let used = flash.used;
    Due {
        ordinary: (used.ordinary + used.map) as f64 / 1000.0,
        slc: used.slc as f64 / 1000.0,
        map: used.map as f64 / 1000.0,
    }
}

/// A device with the commands that it is given.
pub(super) struct Again<'a> {
    pub model: AnyModel,
    pub commands: &'a [Command],
    /// The time up to which the device has worked.
    pub now: Time,
    /// Blocks that take data.
    pub blocks: u32,
    /// Blocks of the SLC area to be filled before anything is judged, so that it folds as in the
    /// long run.
    pub lead: u32,
    /// True if collection has to work before anything is judged.
    pub collects: bool,
}

/// Repetitions that are looked at together.
struct Window {
    /// Erases due by one repetition.
    due: Due,
    /// Blocks filled, and blocks that became free, by all of them.
    filled: f64,
    freed: f64,
    units: u64,
    repetitions: f64,
}

impl Window {
    /// True if the erases of a repetition are those of the window before, but for a single block.
    fn like(&self, before: &Due) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b) + 1.0 / self.repetitions;
        near(self.due.ordinary, before.ordinary) && near(self.due.slc, before.slc)
    }
    /// True if collection works: as many blocks become free as are filled. Erases do not tell that,
    /// because an empty block is erased, too, when it is taken.
    fn collects(&self) -> bool {
        self.freed >= self.filled * (1.0 - LAG)
    }
}

impl Again<'_> {
    /// Repeats until the erases of a repetition settle, or long enough; `None` if the device
    /// refuses a command, or a repetition fills nothing.
    pub fn settle(mut self, mut places: Places) -> Option<Settled> {
        let (mut filled, mut units, mut slc, mut commands) = (0.0, 0, 0.0, 0.0);
        let mut before: Option<Due> = None;
        let mut alike = 0;
        loop {
            let window = self.window(&mut places)?;
            (filled, units) = (filled + window.filled, units + window.units);
            commands += window.repetitions * self.commands.len() as f64;
            let same = before.is_some_and(|before| window.like(&before));
            slc += window.due.slc * window.repetitions;
            let works = !self.collects || window.collects();
            let steady = works && slc >= f64::from(self.lead);
            // A slow growth looks like none from one window to the next, so three have to agree.
            alike = if same && steady { alike + 1 } else { 0 };
            let settled = alike >= 2;
            let enough = filled >= MOST_FILLS * f64::from(self.blocks)
                || units >= MOST_UNITS
                || commands >= MOST_COMMANDS;
            if settled || enough {
                return Some(Settled {
                    due: window.due,
                    settled,
                });
            }
            before = Some(window.due);
        }
    }

    fn flash(&self) -> FlashStats {
        self.model.flash_stats().unwrap_or_default()
    }

    /// Repeats until an eighth of the device, and [`WINDOW_BLOCKS`], were filled.
    fn window(&mut self, places: &mut Places) -> Option<Window> {
        let wanted = WINDOW_BLOCKS.max(f64::from(self.blocks) / 8.0);
        let before = self.flash();
        let mut repetitions = 0.0;
        loop {
            self.once(places)?;
            repetitions += 1.0;
            let since = self.flash().since(&before);
            let all = due(&since);
            let filled = all.ordinary + all.slc;
            if filled == 0.0 {
                // Nothing that repetitions could tell.
                return None;
            }
            let many = repetitions * self.commands.len() as f64 >= MOST_COMMANDS / 4.0;
            if filled >= wanted || many || since.host_pages >= MOST_UNITS {
                let due = Due {
                    ordinary: all.ordinary / repetitions,
                    slc: all.slc / repetitions,
                    map: all.map / repetitions,
                };
                return Some(Window {
                    due,
                    filled,
                    freed: since.used.freed as f64 / 1000.0,
                    units: since.host_pages,
                    repetitions,
                });
            }
        }
    }

    /// One repetition.
    fn once(&mut self, places: &mut Places) -> Option<()> {
        let mut ends: Vec<Time> = Vec::with_capacity(self.commands.len());
        let (mut at, mut known, mut ended) = (self.now, 0, self.now);
        places.turn();
        for command in self.commands {
            for end in &ends[known..command.ended] {
                ended = ended.max(*end);
            }
            known = known.max(command.ended);
            at = (at + command.after).max(ended);
            let completion = self.model.execute(at, places.of(&command.request));
            completion.result.ok()?;
            ends.push(completion.at);
        }
        self.now = ends.iter().copied().fold(at, Time::max);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Bytes, Lba, Nanos};
    use rig::{Class, Profile, Request};

    /// 512 KiB at so many MiB.
    fn write(mib: u64) -> Command {
        let bytes = Bytes::from(vec![1; 512 << 10]);
        Command {
            request: Request::write(Lba(mib * 2048), Class::Data, bytes),
            after: Nanos(0),
            ended: 0,
        }
    }

    fn again(commands: &[Command]) -> Again<'_> {
        let profile = Profile::parse("emmc-odroid-xu4").unwrap();
        Again {
            model: profile.build(Some(64 << 20), None).unwrap(),
            commands,
            now: Time(0),
            blocks: 40,
            lead: 0,
            collects: true,
        }
    }

    /// The first window of a device that holds nothing takes empty blocks, each of which is erased
    /// for that; the later ones take blocks that the writes before left without content.
    #[test]
    fn a_window_on_empty_blocks_is_none_in_which_collection_works() {
        let commands: Vec<Command> = (0..60).map(write).collect();
        let mut again = again(&commands);
        let before = again.flash();
        again.once(&mut Places::same()).unwrap();
        let since = again.flash().since(&before);
        let window = |since: &FlashStats| {
            let due = due(since);
            Window {
                filled: due.ordinary + due.slc,
                due,
                freed: since.used.freed as f64 / 1000.0,
                units: 0,
                repetitions: 1.0,
            }
        };
        assert!(since.erases as f64 >= window(&since).filled - 4.0);
        assert!(!window(&since).collects());
        let late = (0..8).map(|_| again.window(&mut Places::same()).unwrap());
        assert!(late.last().unwrap().collects());
    }
}
