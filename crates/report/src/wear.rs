//! How long a device lives under a workload: what its chips are rated for, over what the measured
//! part uses up of them.
//!
//! Erases are predicted and not counted, because a short run on a fresh device uses free blocks and
//! erases none; in the long run each block is erased once each time that it was filled. Who fills
//! in [`Due`] says by [`Basis`] how far collection had settled. The prediction takes two things as
//! they are in the measured part: the rate goes on day and night, and erases are spread evenly over
//! the blocks of each kind of cells.

use crate::best::best;
use crate::metrics::round;
use crate::results::{Flash, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const YEAR_SECONDS: f64 = 365.25 * 86_400.0;
const UNIT_BYTES: f64 = 4096.0;
/// Lives that differ by less than this share are told as one figure.
const SAME: f64 = 0.05;

/// Blocks of one kind of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Erases that each block is rated for.
    pub erases: u32,
    /// Number of blocks.
    pub blocks: u32,
}

impl Area {
    fn all(&self) -> f64 {
        f64::from(self.erases) * f64::from(self.blocks)
    }
}

/// The chips of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rated {
    /// The ordinary blocks, those of the map included.
    pub ordinary: Area,
    /// The blocks of the SLC area; `None` if there is none.
    pub slc: Option<Area>,
    /// The blocks of the map, always the same ones, which are part of the ordinary ones.
    pub map: Area,
}

/// Erases that operations come to in the long run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Due {
    /// Of ordinary blocks, those of the map included.
    pub ordinary: f64,
    /// Of blocks of the SLC area.
    pub slc: f64,
    /// Of blocks of the map; they are part of `ordinary`.
    pub map: f64,
}

/// How the erases are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// By what the measured part filled, while collection may still have to begin or to grow: the
    /// device lives that long at most.
    #[default]
    AtMost,
    /// By what the measured part filled. So little of the device holds data that collection finds
    /// empty blocks.
    Roomy,
    /// By what the measured part filled, which is more than the whole device several times over.
    Long,
    /// The calls of a recording, or else the commands of the measured part, were repeated on a copy
    /// of the device, until the erases of a repetition did not change any more.
    Repeated,
    /// The same, and they still changed when the repetitions were ended: about.
    Unsettled,
}

impl Basis {
    /// What the life is told with: `at most `, `about `, or nothing.
    fn bound(self) -> &'static str {
        match self {
            Basis::AtMost => "at most ",
            Basis::Unsettled => "about ",
            Basis::Roomy | Basis::Long | Basis::Repeated => "",
        }
    }
    /// Why, in a sentence for people.
    pub fn words(self) -> &'static str {
        match self {
            Basis::AtMost => {
                "At most, because the run was too short for garbage collection to settle."
            }
            Basis::Roomy => {
                "Little of the device holds data, so that garbage collection finds empty blocks; on a fuller one it lives shorter."
            }
            Basis::Long => "The run filled the device several times over.",
            Basis::Repeated => {
                "The run was repeated on a copy of the device, until the erases of a repetition settled."
            }
            Basis::Unsettled => {
                "About, because the erases still changed when the run had been repeated."
            }
        }
    }
}

/// What is known of the erases of the measured part.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Known {
    /// The erases.
    pub due: Due,
    /// The fewest and the most that they may be: all data to the places of the measured part again,
    /// and all of it anywhere among what is stored. `None` where that does not matter.
    pub bounds: Option<(Due, Due)>,
    /// How they are known.
    pub basis: Basis,
}

/// Wear of the SLC area by the measured part.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SlcWear {
    /// Erases that each block of the area is rated for: `slc.endurance` of the profile.
    pub rated_erases: u32,
    /// Blocks of the area.
    pub blocks: u32,
    /// Erases of its blocks that the measured part comes to, in the long run.
    pub erases_due: f64,
    /// True if the area is worn out before the ordinary blocks are.
    pub first: bool,
}

/// Wear of the blocks that hold the map, where they are always the same ones, as in the modelled
/// translation layer. Controllers that level their map spread these erases over all blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MapWear {
    /// Blocks of the map; they are part of the ordinary ones, and rated as these.
    pub blocks: u32,
    /// Erases of its blocks that the measured part comes to, in the long run; they are part of
    /// those of the ordinary ones.
    pub erases_due: f64,
    /// Years until all rated erases of these blocks are used: the life of a device that keeps its
    /// map in place, if it is less than `years`. Absent if nothing of the map was programmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub years: Option<f64>,
}

/// Wear by the measured part, and the life of the device if it goes on like that.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Wear {
    /// Erases that each ordinary block is rated for: `nand.endurance` of the profile.
    pub rated_erases: u32,
    /// Ordinary blocks of the chips.
    pub blocks: u32,
    /// Erases of ordinary blocks that the measured part comes to, in the long run.
    pub erases_due: f64,
    /// The wear of the SLC area; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcWear>,
    /// The wear of the map, which `erases_due` has as if it were spread over all blocks; absent in
    /// results of a version that did not tell it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapWear>,
    /// How the erases are known.
    #[serde(default)]
    pub basis: Basis,
    /// Years until all rated erases of one kind of cells are used; absent if nothing was
    /// programmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years: Option<f64>,
    /// Fewest and most years, if all data went anywhere among what is stored, or to the places of
    /// the measured part again; absent where that makes little difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub years_range: Option<(f64, f64)>,
    /// Operations until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<f64>,
    /// What the host writes to the flash until then (TBW), 10^12 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_tb: Option<f64>,
}

/// How many times over the chips bear what `due` stands for.
fn times(rated: &Rated, due: &Due) -> Option<f64> {
    let of = |area: &Area, due: f64| (due > 0.0).then(|| area.all() / due);
    let ordinary = of(&rated.ordinary, due.ordinary);
    let slc = rated.slc.and_then(|area| of(&area, due.slc));
    match (ordinary, slc) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Wear {
    /// The wear by `ops` operations in `seconds`, which did `flash` to chips that are `rated`.
    pub fn of(rated: Rated, known: Known, flash: &Flash, (seconds, ops): (f64, u64)) -> Wear {
        let due = known.due;
        let times_over = times(&rated, &due);
        let until = |amount: f64| times_over.map(|times| round(amount * times));
        let share = |area: &Area, due: f64| due / area.all();
        let slc = rated.slc.map(|area| SlcWear {
            rated_erases: area.erases,
            blocks: area.blocks,
            erases_due: round(due.slc),
            first: share(&area, due.slc) > share(&rated.ordinary, due.ordinary),
        });
        let map = (due.map > 0.0).then(|| rated.map.all() / due.map);
        let map = MapWear {
            blocks: rated.map.blocks,
            erases_due: round(due.map),
            years: map.map(|times| round(times * seconds / YEAR_SECONDS)),
        };
        let years = until(seconds / YEAR_SECONDS);
        let years_by = |due: &Due| Some(round(seconds / YEAR_SECONDS * times(&rated, due)?));
        let range = known.bounds.and_then(|(fewest, most)| {
            let (low, high) = (years_by(&most)?, years_by(&fewest)?);
            let (low, high) = (low.min(years?), high.max(years?));
            (low < high * (1.0 - SAME)).then_some((low, high))
        });
        Wear {
            rated_erases: rated.ordinary.erases,
            blocks: rated.ordinary.blocks,
            erases_due: round(due.ordinary),
            slc,
            map: Some(map),
            basis: known.basis,
            years,
            years_range: range,
            ops: until(ops as f64),
            host_tb: until(flash.host_pages as f64 * UNIT_BYTES / 1e12),
        }
    }
    /// The life in words, as `6.1 years`, `at most 6.1 years` or `6.1 years (5.0 to 6.9)`; `None`
    /// if nothing was programmed.
    pub fn life(&self) -> Option<String> {
        let years = self.years?;
        let bound = self.basis.bound();
        let range = self.years_range.map_or(String::new(), |(low, high)| {
            let (per_year, _) = unit(years);
            format!(" ({:.1} to {:.1})", low * per_year, high * per_year)
        });
        Some(format!("{bound}{}{range}", span(years)))
    }
}

/// How evenly the blocks of a device have been erased since it was new.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Erased {
    /// Fewest erases of a block.
    pub least: u32,
    /// Erases of all blocks by their number.
    pub mean: f64,
    /// Most erases of a block.
    pub most: u32,
    /// Number of blocks with so many erases.
    pub blocks: BTreeMap<u32, u64>,
}

impl Erased {
    /// Of blocks with these erases; `None` if there are none.
    pub fn of(erases: &[u32]) -> Option<Erased> {
        let (least, most) = (*erases.iter().min()?, *erases.iter().max()?);
        let sum: u64 = erases.iter().map(|n| u64::from(*n)).sum();
        let mut blocks = BTreeMap::new();
        for n in erases {
            *blocks.entry(*n).or_default() += 1;
        }
        Some(Erased {
            least,
            mean: round(sum as f64 / erases.len() as f64),
            most,
            blocks,
        })
    }
    /// As `0 / 1.25 / 4`.
    pub fn words(&self) -> String {
        format!("{} / {:.2} / {}", self.least, self.mean, self.most)
    }
}

/// The life of the device under a run, as [`Wear::life`]; `-` where there is none to tell.
pub fn life(run: &Run) -> String {
    let words = run.wear.and_then(|wear| wear.life());
    words.unwrap_or("-".into())
}

/// The unit that one would tell so many years in: how many of it are a year, and its name.
fn unit(years: f64) -> (f64, &'static str) {
    match years {
        y if y >= 1.0 => (1.0, "years"),
        y if y * 365.25 >= 1.0 => (365.25, "days"),
        _ => (365.25 * 24.0, "hours"),
    }
}

fn span(years: f64) -> String {
    let (per_year, name) = unit(years);
    format!("{:.1} {name}", years * per_year)
}

/// The life of the device in a sentence: under the first run and under the one with a journal that
/// wears it least.
/// `None` where no run says how long it lives.
pub fn sentence(runs: &[Run]) -> Option<String> {
    let lives = |run: &Run| run.wear.and_then(|wear| wear.years);
    let first = runs.iter().find(|run| lives(run).is_some())?;
    let wear = first.wear?;
    let name = |run: &Run| format!("{} with {}/{}", life(run), run.fs, run.scheme);
    let best = best(runs, lives);
    let longest = best.map(|best| best.safe);
    let longest = longest.filter(|run| lives(run) > lives(first));
    let most = longest.map_or(String::new(), |run| format!(" and in {}", name(run)));
    let same_work = longest.map_or(String::new(), |run| for_the_same_work(first, run));
    let beside = best.map_or(String::new(), |best| best.beside(life));
    Some(format!(
        "At the rate of this run, day and night, the device is worn out ({}) in {}{most}.{same_work} \
         At a tenth of the rate, or of ten times the size, it lives ten times as long. {}{}{}{beside}",
        worn(&wear),
        name(first),
        wear.basis.words(),
        if wear.years_range.is_some() {
            RANGE
        } else {
            ""
        },
        map_in_place(&wear)
    ))
}

/// Who is slower lives longer by that alone: what two runs of unequal rate use up for equal work.
fn for_the_same_work(first: &Run, run: &Run) -> String {
    let (rate, of_first) = (run.ops_per_s, first.ops_per_s);
    let years = |run: &Run| run.wear.and_then(|wear| wear.years);
    let (Some(long), Some(short)) = (years(run), years(first)) else {
        return String::new();
    };
    if rate <= 0.0 || of_first <= 0.0 || (rate / of_first - 1.0).abs() < SAME {
        return String::new();
    }
    let more = short * of_first / (long * rate) - 1.0;
    let word = if more > 0.0 { "more" } else { "less" };
    format!(
        " Each goes at its own rate; for the same operations {}/{} wears it {:.0} % {word} than {}/{}.",
        run.fs,
        run.scheme,
        more.abs() * 100.0,
        first.fs,
        first.scheme
    )
}

/// What a map that always lies in the same blocks would do to a life, where these are the first to
/// be worn out.
fn map_in_place(wear: &Wear) -> String {
    let first = wear.map.and_then(|map| map.years);
    let first = first.filter(|map| wear.years.is_some_and(|all| *map < all * (1.0 - SAME)));
    first.map_or(String::new(), |years| {
        format!(
            " This is for a controller that levels the blocks of its map with the others; one that keeps them in place, as the modelled one does, is worn out there in {}.",
            span(years)
        )
    })
}

/// What a life that is a range says.
const RANGE: &str = " The range is that of data which goes anywhere among what is stored, and of data which goes to the \
     same places again; a longer run would tell more.";

/// What worn out means, by the kind of cells that is the first to be.
fn worn(wear: &Wear) -> String {
    let of = |blocks, erases| format!("each of its {blocks} blocks erased {erases} times");
    match wear.slc {
        None => of(wear.blocks, wear.rated_erases),
        Some(slc) if slc.first => format!(
            "each of the {} blocks of its SLC area, which come first, erased {} times",
            slc.blocks, slc.rated_erases
        ),
        Some(_) => format!(
            "each of its {} blocks behind the SLC area, which lasts longer, erased {} times",
            wear.blocks, wear.rated_erases
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHIPS: Area = Area {
        erases: 3000,
        blocks: 100,
    };

    const MAP: Area = Area {
        erases: 3000,
        blocks: 4,
    };

    fn known(ordinary: f64, slc: f64) -> Known {
        Known {
            due: Due {
                ordinary,
                slc,
                map: 0.0,
            },
            bounds: None,
            basis: Basis::Repeated,
        }
    }

    fn flash() -> Flash {
        Flash {
            programs: 1280,
            host_pages: 2560,
            ..Flash::default()
        }
    }

    #[test]
    fn life_is_rated_erases_over_erases_due() {
        let rated = Rated {
            ordinary: CHIPS,
            slc: None,
            map: MAP,
        };
        // 10 erases in an hour of 300000: 30000 hours.
        let wear = Wear::of(rated, known(10.0, 0.0), &flash(), (3600.0, 50));
        assert_eq!(wear.erases_due, 10.0);
        assert!((wear.years.unwrap() - 30_000.0 / 24.0 / 365.25).abs() < 1e-5);
        assert_eq!(wear.ops, Some(1_500_000.0));
        assert!((wear.host_tb.unwrap() - 2560.0 * 4096.0 * 30_000.0 / 1e12).abs() < 1e-6);
        assert_eq!(wear.life().unwrap(), "3.4 years");
        let idle = Wear::of(rated, known(0.0, 0.0), &Flash::default(), (3600.0, 50));
        assert_eq!((idle.years, idle.ops, idle.host_tb), (None, None, None));
    }

    /// 10 erases in an hour, one of them in the 4 blocks of the map: the map has 12000, which is
    /// less than the 300000 of all over 10.
    #[test]
    fn a_map_that_stays_in_place_and_wears_first_is_told_with_its_life() {
        let rated = Rated {
            ordinary: CHIPS,
            slc: None,
            map: MAP,
        };
        let of = |map: f64| {
            let mut known = known(10.0, 0.0);
            known.due.map = map;
            Wear::of(rated, known, &flash(), (3600.0, 50))
        };
        let wear = of(1.0);
        let map = wear.map.unwrap();
        assert_eq!((map.blocks, map.erases_due), (4, 1.0));
        assert!((map.years.unwrap() - 12_000.0 / 24.0 / 365.25).abs() < 1e-5);
        assert_eq!(
            wear.life().unwrap(),
            "3.4 years",
            "levelled with the others"
        );
        let told = map_in_place(&wear);
        assert!(told.ends_with("is worn out there in 1.4 years."), "{told}");
        // As often as the others, and not at all.
        assert_eq!(map_in_place(&of(0.4)), "");
        assert_eq!(map_in_place(&of(0.0)), "");
        assert_eq!(of(0.0).map.unwrap().years, None);
    }

    #[test]
    fn the_longest_life_is_that_of_a_scheme_with_a_journal() {
        let run = |scheme: &str, years: f64| {
            let mut run = crate::page::some_run(scheme);
            run.wear = Some(Wear {
                years: Some(years),
                basis: Basis::Long,
                ..Wear::default()
            });
            run
        };
        let runs = [run("jbd2", 2.0), run("emmc", 3.0), run("none", 4.0)];
        let told = sentence(&runs).expect("a life");
        assert!(
            told.contains("in 2.0 years with ext4/jbd2 and in 3.0 years with ext4/emmc. ")
                && told.ends_with(" ext4/none has 4.0 years, and keeps no fsync at a power cut."),
            "{told}"
        );
        let told = sentence(&runs[..1]).expect("a life");
        assert!(
            told.contains("ten times as long.") && !told.contains("none"),
            "{told}"
        );
    }

    #[test]
    fn of_two_kinds_of_cells_the_one_that_is_worn_first_decides() {
        let slc = Area {
            erases: 30_000,
            blocks: 5,
        };
        let rated = Rated {
            ordinary: CHIPS,
            slc: Some(slc),
            map: MAP,
        };
        // 300000 erases of ordinary blocks at 10 an hour, 150000 of the area at 10 or at 4.
        let hours = |slc| {
            let wear = Wear::of(rated, known(10.0, slc), &flash(), (3600.0, 50));
            let words = worn(&wear);
            (wear.ops.unwrap() / 50.0, wear.slc.unwrap().first, words)
        };
        let (by_slc, first, words) = hours(10.0);
        assert_eq!((by_slc, first), (15_000.0, true));
        assert!(words.contains("5 blocks of its SLC area, which come first, erased 30000"));
        let (by_ordinary, first, words) = hours(4.0);
        assert_eq!((by_ordinary, first), (30_000.0, false));
        assert!(words.contains("100 blocks behind the SLC area"));
    }

    #[test]
    fn what_is_not_known_is_told_as_a_bound_or_a_range() {
        let rated = Rated {
            ordinary: CHIPS,
            slc: None,
            map: MAP,
        };
        let of = |basis, fewest: f64, most: f64| {
            let due = |ordinary| Due {
                ordinary,
                ..Due::default()
            };
            let known = Known {
                basis,
                bounds: Some((due(fewest), due(most))),
                ..known(10.0, 0.0)
            };
            let wear = Wear::of(rated, known, &flash(), (3600.0, 50));
            wear.life().unwrap()
        };
        assert_eq!(of(Basis::Repeated, 8.0, 20.0), "3.4 years (1.7 to 4.3)");
        assert_eq!(of(Basis::Repeated, 10.0, 10.2), "3.4 years");
        assert_eq!(of(Basis::AtMost, 10.0, 10.0), "at most 3.4 years");
        assert_eq!(of(Basis::Unsettled, 10.0, 10.0), "about 3.4 years");
    }

    #[test]
    fn erases_are_counted_by_block() {
        let erased = Erased::of(&[0, 2, 2, 4]).unwrap();
        assert_eq!(erased.words(), "0 / 2.00 / 4");
        assert_eq!(erased.blocks, [(0, 1), (2, 2), (4, 1)].into());
        assert_eq!(Erased::of(&[]), None);
    }

    #[test]
    fn spans_are_told_in_the_unit_that_one_would_use() {
        assert_eq!(span(6.14), "6.1 years");
        assert_eq!(span(2.0 / 365.25), "2.0 days");
        assert_eq!(span(1.0 / 365.25 / 48.0), "0.5 hours");
    }
}
