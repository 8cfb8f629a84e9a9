//! Rows that are being programmed: they still occupy room in the buffer.

use base::Time;
use std::collections::BTreeMap;

/// Rows on their way, by their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Landing {
    rows: BTreeMap<Time, Row>,
    units: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    rows: usize,
    units: usize,
}

impl Landing {
    /// Adds a row of `units` units whose programming ends at `end`.
    pub fn push(&mut self, end: Time, units: usize) {
        let row = self.rows.entry(end).or_default();
        row.rows += 1;
        row.units += units;
        self.units += units;
    }
    /// Removes the rows that have landed by `now`; they occupy no room any more.
    pub fn forget(&mut self, now: Time) {
        while let Some(first) = self.rows.first_entry()
            && *first.key() <= now
        {
            self.units -= first.remove().units;
        }
    }
    /// Units on their way.
    pub fn units(&self) -> usize {
        self.units
    }
    /// When the next row lands.
    pub fn first(&self) -> Option<Time> {
        self.rows.first_key_value().map(|(end, _)| *end)
    }
    /// When the last row lands.
    pub fn last(&self) -> Option<Time> {
        self.rows.last_key_value().map(|(end, _)| *end)
    }
    /// Rows on their way.
    pub fn len(&self) -> usize {
        self.rows.values().map(|row| row.rows).sum()
    }
    /// Removes all rows.
    pub fn clear(&mut self) {
        *self = Landing::default();
    }
}
