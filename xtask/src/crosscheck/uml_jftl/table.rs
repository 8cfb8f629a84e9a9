//! The committed table of what was measured, which `varve paper jftl` shows, and how far a new
//! measurement may be from it.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Where the table is, from the root of the workspace.
pub const PATH: &str = "crates/paper/src/jftl/under_linux.toml";

/// Counts differ by no more than this part, and time by no more than this part.
const NEAR: f64 = 0.05;
/// The same for loads whose processes race.
const RACING: f64 = 0.30;
/// Difference in blocks that any count may have, because the kernel's timers fall differently.
const LEAST: f64 = 64.0;
/// Part of the home writes that could become remaps which has to, where nothing is mapped, unless
/// so few did not: the superblock is written without the journal, and a page has few owners.
const SHARE: f64 = 0.99;
const FEW: u64 = 8;

/// The table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// When it was made.
    pub date: String,
    /// The kernel that ran.
    pub kernel: String,
    pub row: Vec<Row>,
}

/// What a device did under a load in a data mode.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    pub load: String,
    /// How the device compares a write with what it holds: `reads` or `copies`.
    pub device: String,
    pub mode: String,
    /// Home writes of logged blocks, neither zeros nor escaped, that became remaps.
    pub remapped: u64,
    /// Those that did not.
    pub missed: u64,
    pub escaped: u64,
    /// Home writes of blocks that are not in the journal.
    pub unlogged: u64,
    /// Blocks of 4 KiB programmed, whatever for.
    pub programmed: u64,
    /// Seconds of the device.
    pub seconds: f64,
}

impl Row {
    pub fn name(&self) -> String {
        format!("{}, {}, data={}", self.load, self.device, self.mode)
    }

    /// Part of the home writes that could become remaps which did.
    pub fn share(&self) -> f64 {
        let all = self.remapped + self.missed;
        if all == 0 {
            1.0
        } else {
            self.remapped as f64 / all as f64
        }
    }

    /// What a row shows that it should not.
    pub fn wrong(&self) -> Option<String> {
        let mapped = self.load == "mapped";
        let enough = self.share() >= SHARE || self.missed <= FEW;
        let why = match (mapped, enough) {
            (false, false) => format!(
                "{:.2} % of the home writes are remaps",
                100.0 * self.share()
            ),
            // Stores after the commit differ from what was logged.
            (true, _) if self.mode == "journal" && self.missed == 0 => {
                "no store is newer than its commit".into()
            }
            _ => return None,
        };
        Some(format!("{}: {why}", self.name()))
    }

    /// Where a new measurement is too far from this row.
    pub fn differs(&self, new: &Row) -> Option<String> {
        let part = match &self.load[..] {
            // How much is stored between two syncs depends on the speed of the guest.
            "mapped" => return None,
            "processes" => RACING,
            _ => NEAR,
        };
        let far = |old: f64, new: f64, least: f64| (old - new).abs() > (part * old).max(least);
        let counts = [
            ("remapped", self.remapped, new.remapped),
            ("escaped", self.escaped, new.escaped),
            ("not in the journal", self.unlogged, new.unlogged),
            ("programmed", self.programmed, new.programmed),
        ];
        let mut found: Vec<String> = counts
            .iter()
            .filter(|(_, old, new)| far(*old as f64, *new as f64, LEAST))
            .map(|(what, old, new)| format!("{new} {what} instead of {old}"))
            .collect();
        if far(self.seconds, new.seconds, 0.1) {
            found.push(format!(
                "{:.2} s instead of {:.2}",
                new.seconds, self.seconds
            ));
        }
        (!found.is_empty()).then(|| format!("{}: {}", self.name(), found.join(", ")))
    }
}

/// Reads the committed table.
pub fn read(path: &Path) -> Result<Measured> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes the table anew.
pub fn write(path: &Path, table: &Measured) -> Result {
    let head = "# What an unmodified Linux ext4 makes of a device that remaps by itself. Made by\n\
        #     cargo xtask crosscheck uml-jftl --write\n\
        # which says how; the same command without --write fails where its figures are too far from these.\n\n";
    let body = toml::to_string(table).map_err(|e| e.to_string())?;
    std::fs::write(path, format!("{head}{body}")).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            load: "sequential".into(),
            device: "copies".into(),
            mode: "journal".into(),
            remapped: 9950,
            missed: 50,
            escaped: 0,
            unlogged: 10,
            programmed: 10_000,
            seconds: 20.0,
        }
    }

    #[test]
    fn a_measurement_that_is_too_far_is_named() {
        let near = Row {
            remapped: 9500,
            seconds: 20.9,
            ..row()
        };
        assert_eq!(row().differs(&near), None);
        let far = Row {
            remapped: 9400,
            seconds: 22.0,
            ..row()
        };
        let why = row().differs(&far).unwrap();
        assert!(
            why.contains("9400 remapped instead of 9950") && why.contains("22.00 s"),
            "{why}"
        );
        let racing = |row: Row| Row {
            load: "processes".into(),
            ..row
        };
        assert_eq!(racing(row()).differs(&racing(far)), None);
    }

    #[test]
    fn too_few_remaps_are_wrong_but_for_a_mapped_file() {
        assert_eq!(row().wrong(), None);
        let few = Row {
            missed: 200,
            ..row()
        };
        assert!(few.wrong().unwrap().contains("98.03 %"));
        let mapped = |missed| Row {
            load: "mapped".into(),
            missed,
            ..row()
        };
        assert_eq!(mapped(9000).wrong(), None);
        assert!(mapped(0).wrong().unwrap().contains("no store"));
    }
}
