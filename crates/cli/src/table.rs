//! The one table.

use comfy_table::{CellAlignment, Table, presets};
use lab::results::Run;

/// One row a run: what people decide by.
pub fn summary(runs: &[Run]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "fs/scheme",
        "tx/s",
        "fsync p50 us",
        "fsync p99 us",
        "blocks/tx",
        "journal %",
        "flushes/tx",
        "programs/tx",
        "write amp.",
    ]);
    for run in runs {
        let per_op = |count: u64| format!("{:.2}", count as f64 / run.ops.max(1) as f64);
        let blocks: u64 = run.blocks.values().sum();
        let flash = run.flash.as_ref();
        table.add_row([
            format!("{}/{}", run.fs, run.scheme),
            format!("{:.1}", run.ops_per_s),
            format!("{:.0}", run.latency_us.fsync.p50),
            format!("{:.0}", run.latency_us.fsync.p99),
            per_op(blocks),
            format!("{:.1}", run.journal_block_ratio * 100.0),
            per_op(run.device.commands.flushes),
            flash.map_or("-".into(), |f| per_op(f.programs)),
            flash.map_or("-".into(), |f| format!("{:.2}", f.write_amplification)),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
