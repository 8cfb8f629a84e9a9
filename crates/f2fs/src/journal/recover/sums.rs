//! Compares data with the checksums that the last transaction has of it (scan-S4).

use crate::fault;
use base::{BLOCK_BYTES, BlockNo, SECTORS_PER_BLOCK};
use block::{DevErrorKind, Queue};
use fscore::FsResult;
use ondisk::f2fs::BlockAddr;
use ondisk::f2fs::journal::Sums;
use std::collections::BTreeMap;

/// The first block whose data is not that of its checksum. A block that cannot be read is such a
/// one, because a cut may leave that of a block that was being written.
///
/// # Errors
/// The device has lost its power.
pub(super) fn differs(
    queue: &Queue,
    sums: &BTreeMap<BlockAddr, u32>,
) -> FsResult<Option<BlockAddr>> {
    let all: Vec<(BlockAddr, u32)> = sums.iter().map(|(&addr, &sum)| (addr, sum)).collect();
    let runs: Vec<&[(BlockAddr, u32)]> = all.chunk_by(|a, b| a.0.0 + 1 == b.0.0).collect();
    let places: Vec<_> = runs
        .iter()
        .map(|run| {
            let sectors = run.len() as u64 * SECTORS_PER_BLOCK;
            (BlockNo(run[0].0.0.into()).lba(), sectors)
        })
        .collect();
    for (run, answer) in runs.iter().zip(queue.read_many(&places)) {
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(e) if e.kind == DevErrorKind::PowerLost => {
                return Err(fault::device("reading data that the journal maps")(e));
            }
            Err(_) => return Ok(Some(run[0].0)),
        };
        let blocks = bytes.chunks(BLOCK_BYTES);
        let wrong = run
            .iter()
            .zip(blocks)
            .find(|((_, sum), block)| Sums::of(block) != *sum);
        if let Some(((addr, _), _)) = wrong {
            return Ok(Some(*addr));
        }
    }
    Ok(None)
}
