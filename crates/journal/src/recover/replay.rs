//! Pass 2, REVOKE: the newest revoking transaction of each block. Pass 3, REPLAY: the newest image of each block goes home.
//!
//! - P1: an image is skipped if its block is revoked in the same or a later transaction.
//! - P2: all images are read and checked before the first one is written, so a damaged log changes nothing.
//! - P3: the log is marked clean after a flush of the home writes. Until then recovery can be repeated, with the same
//!   result: it reads only the log and writes only full images.

use super::reader::LogReader;
use super::scan::Logged;
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::{BlockNo, Bytes, Tid};
use block::{Class, Queue};
use ondisk::jbd2::{Tag, unescape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Home writes under one plug.
const BATCH: usize = 64;

/// Pass 2: by block, the newest transaction that revokes it.
pub(crate) fn revoke_table(transactions: &[Logged]) -> BTreeMap<BlockNo, Tid> {
    let mut table = BTreeMap::new();
    for t in transactions {
        // Transactions come in order, so the last one wins.
        table.extend(t.revokes.iter().map(|&block| (block, t.tid)));
    }
    table
}

/// An image that has to go home.
pub(crate) struct Survivor {
    pub home: BlockNo,
    at: LogBlock,
    tid: Tid,
    tag: Tag,
}

/// The newest image of each block that no later transaction revokes (P1), in log order; and how many images fell to a revoke.
pub(crate) fn survivors(
    transactions: &[Logged],
    revoked: &BTreeMap<BlockNo, Tid>,
) -> (Vec<Survivor>, u64) {
    let mut newest: BTreeMap<BlockNo, Survivor> = BTreeMap::new();
    let mut skipped = 0;
    for t in transactions {
        for &(at, tag) in &t.images {
            let home = tag.block;
            if revoked.get(&home).is_some_and(|r| r.geq(t.tid)) {
                skipped += 1;
                continue;
            }
            newest.insert(
                home,
                Survivor {
                    home,
                    at,
                    tid: t.tid,
                    tag,
                },
            );
        }
    }
    let mut list: Vec<Survivor> = newest.into_values().collect();
    list.sort_by_key(|s| s.at);
    (list, skipped)
}

/// Reads and checks every image (P2). The result is sorted by home address.
pub(crate) fn read_images(
    queue: &Queue,
    log: &LogSuper,
    survivors: &[Survivor],
) -> Result<Vec<(BlockNo, Bytes)>, JournalError> {
    let format = log.sb.format();
    let mut reader = LogReader::new(queue, log);
    let mut images = Vec::with_capacity(survivors.len());
    for s in survivors {
        let logged = reader.read(s.at)?;
        s.tag.verify(&format, s.tid, &logged)?;
        images.push((
            s.home,
            if s.tag.escaped {
                unescaped(&logged)
            } else {
                logged
            },
        ));
    }
    images.sort_by_key(|(home, _)| *home);
    Ok(images)
}

fn unescaped(logged: &Bytes) -> Bytes {
    let mut image = logged.to_vec();
    unescape(&mut image);
    image.into()
}

/// Writes the images home and flushes.
pub(crate) fn write_home(
    queue: &Arc<Queue>,
    images: &[(BlockNo, Bytes)],
) -> Result<(), JournalError> {
    for chunk in images.chunks(BATCH) {
        let mut plug = queue.plug();
        for (home, image) in chunk {
            plug.write(home.lba(), Class::Home, image.clone());
        }
        plug.submit().wait()?;
    }
    Ok(queue.flush()?)
}
