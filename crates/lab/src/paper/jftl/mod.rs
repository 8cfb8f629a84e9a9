//! Lim, Choi, Park: Journal Remap-Based FTL for Journaling File System with Flash Memory (HPCC 2007), measured again.

use crate::paper::Table;

/// The committed table of published values.
pub fn published() -> Table {
    let text = include_str!("published.toml");
    Table::parse(text, &[]).expect("the committed table is valid: a test reads it")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_table_reads() {
        let table = super::published();
        assert!(table.all().iter().all(|p| p.value.is_some()));
        table.get("Model", "ordered, fresh device", None);
    }
}
