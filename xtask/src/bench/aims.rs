//! Medians of the rounds of a benchmark, and the aims that they are compared with.

use super::loads::Figure;
use super::sides::Side;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many times as fast as another side a figure of Varve has to be.
struct Aim {
    figure: Figure,
    ours: Side,
    other: Side,
    /// The least factor that meets the aim.
    times: f64,
}

const fn aim(figure: Figure, ours: Side, other: Side, times: f64) -> Aim {
    Aim {
        figure,
        ours,
        other,
        times,
    }
}

const AIMS: [Aim; 27] = [
    aim(Figure::Write, Side::Jbd2, Side::Fuse2fs, 5.0),
    aim(Figure::Read, Side::Jbd2, Side::Fuse2fs, 2.0),
    aim(Figure::SqliteDelete, Side::Jbd2, Side::Fuse2fs, 2.0),
    aim(Figure::SqliteDelete, Side::Emmc, Side::Fuse2fs, 2.0),
    aim(Figure::SqliteDelete, Side::Jbd2, Side::Fuse2fs, 1.5),
    aim(Figure::SqliteDelete, Side::Emmc, Side::Fuse2fs, 1.5),
    aim(Figure::SqliteDelete, Side::Fast, Side::Fuse2fs, 1.5),
    aim(Figure::SqliteWal, Side::Emmc, Side::Fuse2fs, 2.0),
    aim(Figure::Names, Side::Jbd2, Side::Fuse2fs, 2.0),
    aim(Figure::Write, Side::Jbd2, Side::Kernel, 0.7),
    aim(Figure::Read, Side::Jbd2, Side::Kernel, 0.7),
    aim(Figure::Write, Side::Jbd2Direct, Side::KernelDirect, 0.7),
    aim(Figure::Read, Side::Jbd2Direct, Side::KernelDirect, 0.7),
    aim(Figure::SqliteDelete, Side::Emmc, Side::Kernel, 1.0),
    aim(Figure::SqliteWal, Side::Emmc, Side::Kernel, 1.0),
    aim(
        Figure::SqliteDelete,
        Side::EmmcDirect,
        Side::KernelDirect,
        1.0,
    ),
    aim(Figure::SqliteWal, Side::EmmcDirect, Side::KernelDirect, 1.0),
    aim(Figure::SqliteDelete, Side::EmmcUring, Side::Fuse2fs, 2.0),
    aim(Figure::SqliteDelete, Side::EmmcUring, Side::Kernel, 1.2),
    aim(Figure::SqliteWal, Side::EmmcUring, Side::Fuse2fs, 3.0),
    aim(Figure::SqliteWal, Side::EmmcUring, Side::Kernel, 2.0),
    aim(Figure::SqliteDelete, Side::FastUring, Side::Fuse2fs, 2.0),
    aim(Figure::SqliteDelete, Side::FastUring, Side::Kernel, 1.2),
    aim(Figure::SqliteWal, Side::FastUring, Side::Fuse2fs, 3.0),
    aim(Figure::SqliteWal, Side::FastUring, Side::Kernel, 2.0),
    aim(Figure::Names, Side::EmmcUring, Side::Fuse2fs, 12.0),
    aim(Figure::Names, Side::EmmcUring, Side::Kernel, 0.2),
];

/// The median; of an even number of values the mean of the two in the middle. `None` without any.
pub fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let (low, high) = (of.get(of.len().checked_sub(1)? / 2)?, of.get(of.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Figures of all rounds, by side.
#[derive(Default)]
pub struct Figures(BTreeMap<(Figure, Side), Vec<f64>>);

impl Figures {
    /// Adds a figure of one round.
    pub fn add(&mut self, figure: Figure, side: Side, value: f64) {
        self.0.entry((figure, side)).or_default().push(value);
    }

    /// The median of a figure over the rounds; `None` if the side has none.
    pub fn median(&self, figure: Figure, side: Side) -> Option<f64> {
        median(self.0.get(&(figure, side))?.clone())
    }

    /// A table in Markdown: a row for each figure that some side has, a column for each side.
    pub fn table(&self, sides: &[Side]) -> String {
        let mut text = String::from("| |");
        for side in sides {
            let _ = write!(text, " {} |", side.name());
        }
        let _ = write!(text, "\n|---|{}\n", "---|".repeat(sides.len()));
        for figure in Figure::ALL {
            let values: Vec<_> = sides.iter().map(|s| self.median(figure, *s)).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(text, "| {} |", figure.name());
            for value in values {
                let shown = value.map_or_else(|| "-".into(), |v| format!("{v:.0}"));
                let _ = write!(text, " {shown} |");
            }
            text.push('\n');
        }
        text
    }

    /// The aims for which both sides have run, as a table in Markdown, and how many of them are
    /// missed.
    pub fn aims(&self) -> (String, usize) {
        let mut text =
            String::from("| | of | against | aim | ratio | |\n|---|---|---|---|---|---|\n");
        let mut missed = 0;
        for aim in &AIMS {
            let (ours, other) = (
                self.median(aim.figure, aim.ours),
                self.median(aim.figure, aim.other),
            );
            let (Some(ours), Some(other)) = (ours, other) else {
                continue;
            };
            let ratio = ours / other;
            let reached = ratio >= aim.times;
            missed += usize::from(!reached);
            let name = aim.figure.name().rsplit_once(',').map_or("", |(n, _)| n);
            let _ = writeln!(
                text,
                "| {name} | {} | {} | {:.1} | {ratio:.2} | {} |",
                aim.ours.name(),
                aim.other.name(),
                aim.times,
                if reached { "reached" } else { "missed" }
            );
        }
        (text, missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_a_missed_aim_is_called_missed() {
        let mut figures = Figures::default();
        for value in [100.0, 900.0, 300.0] {
            figures.add(Figure::Write, Side::Kernel, value);
        }
        for value in [210.0, 190.0] {
            figures.add(Figure::Write, Side::Jbd2, value);
        }
        assert_eq!(figures.median(Figure::Write, Side::Kernel), Some(300.0));
        assert_eq!(figures.median(Figure::Write, Side::Jbd2), Some(200.0));
        assert_eq!(figures.median(Figure::Read, Side::Jbd2), None);
        let table = figures.table(&[Side::Kernel, Side::Jbd2, Side::Emmc]);
        assert!(
            table.ends_with("| sequential write, MB/s | 300 | 200 | - |\n"),
            "{table}"
        );
        let (text, missed) = figures.aims();
        let line = "| sequential write | jbd2 | kernel | 0.7 | 0.67 | missed |";
        assert!(missed == 1 && text.contains(line), "{text}");
        figures.add(Figure::Write, Side::Jbd2, 220.0);
        assert_eq!(figures.aims().1, 0);
    }
}
