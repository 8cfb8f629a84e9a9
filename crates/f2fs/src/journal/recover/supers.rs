//! Decides which copy of the journal's superblock counts. Each copy is read by itself, because one
//! of them is enough: a block that cannot be read is as good as a damaged one.

use super::cases::Supers;
use crate::fault;
use base::{BlockNo, SECTORS_PER_BLOCK};
use block::Queue;
use fscore::FsResult;
use ondisk::f2fs::journal::{JournalArea, JournalSuper, RingArea};

/// What the two copies say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    pub supers: Supers,
    /// The one that counts, if one does.
    pub sb: Option<JournalSuper>,
    /// The highest generation of a sound copy.
    pub generation: u64,
    /// What is wrong with each of the others.
    pub notes: Vec<String>,
}

/// Reads both copies.
///
/// # Errors
/// I/O of both.
pub(crate) fn choose(queue: &Queue, area: &JournalArea, ring: &RingArea) -> FsResult<Chosen> {
    let mut unread = false;
    let mut chosen = Chosen {
        supers: Supers::Damaged,
        sb: None,
        generation: 0,
        notes: Vec::new(),
    };
    for copy in 0..2 {
        let lba = BlockNo(area.super_block(copy)).lba();
        let block = match queue.read(lba, SECTORS_PER_BLOCK) {
            Ok(block) => block,
            Err(e) => {
                let e = fault::device("reading a superblock of the journal")(e);
                if unread {
                    return Err(e);
                }
                chosen.note(copy, format!("cannot be read: {e}"));
                unread = true;
                continue;
            }
        };
        match JournalSuper::parse(&block) {
            Ok(sb) => chosen.weigh(copy, sb, area, ring),
            Err(e) => chosen.note(copy, format!("is damaged: {e}")),
        }
    }
    Ok(chosen)
}

impl Chosen {
    fn weigh(&mut self, copy: usize, sb: JournalSuper, area: &JournalArea, ring: &RingArea) {
        self.generation = self.generation.max(sb.generation);
        if sb.uuid != area.uuid {
            self.note(copy, "is of another volume".into());
            if self.supers == Supers::Damaged {
                self.supers = Supers::Foreign;
            }
        } else if sb.ring_blocks != ring.blocks {
            let (is, said) = (sb.ring_blocks, ring.blocks);
            self.note(
                copy,
                format!("is of a ring of {is} blocks, there are {said}"),
            );
            if self.supers != Supers::Fit {
                self.supers = Supers::Misfit;
            }
        } else {
            self.supers = Supers::Fit;
            if self.sb.is_none_or(|best| best.generation < sb.generation) {
                self.sb = Some(sb);
            }
        }
    }

    fn note(&mut self, copy: usize, what: String) {
        self.notes
            .push(format!("superblock {copy} of the journal {what}"));
    }
}
