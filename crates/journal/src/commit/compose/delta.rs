//! Decides what a coalition logs of one block: nothing, a delta, a cumulative delta or a full image
//! (track-D4, track-D5, track-D7, track-D8).

use crate::track::{Basis, Logged};
use crate::transaction::{Image, Kind};
use crate::words::WordMap;
use base::Bytes;
use ondisk::jbd2::{Segment, record_bytes};
use std::ops::Range;

/// A delta whose record has more bytes than this becomes a full image: a quarter of a block.
pub(crate) const fn delta_max(block: &Bytes) -> usize {
    block.len() / 4
}
/// Largest record that is made cumulative without need: a sixteenth of a block.
pub(crate) const fn cumulative_max(block: &Bytes) -> usize {
    block.len() / 16
}
/// Bytes of the record of a full image, which itself follows behind.
const FULL_RECORD: usize = 16;
/// Bytes of the entry of a segment: a gap of equal bytes that is not wider is logged along.
const SEGMENT_ENTRY: usize = 4;

/// What to log of a block.
pub(crate) struct Choice {
    pub logged: Logged,
    /// Words that its transaction changed.
    pub changed: WordMap,
    /// Of a delta, cumulative or not.
    pub segments: Vec<Segment>,
}

impl Choice {
    fn full(changed: WordMap) -> Choice {
        Choice {
            logged: Logged::Full,
            changed,
            segments: Vec::new(),
        }
    }
    /// Bytes of its record in a coalition block.
    pub fn bytes(&self) -> usize {
        match self.logged {
            Logged::Unchanged => 0,
            Logged::Full => FULL_RECORD,
            Logged::Delta | Logged::Cumulative => record_bytes(&self.segments),
        }
    }
}

/// The record of a block by itself. A cumulative one is chosen by [`cumulative`].
pub(crate) fn choose(image: &Image, basis: &Basis) -> Choice {
    let Some(base) = &basis.base else {
        return Choice::full(WordMap::ALL);
    };
    rt::charge(base::cost::journal::DELTA_DIFF);
    let pieces = changed_bytes(base, &image.bytes, &basis.marked);
    debug_assert!(
        basis
            .marked
            .covers(&WordMap::difference(base, &image.bytes)),
        "track-D4: block {} changed outside of the marked words (hazards-H4)",
        image.block
    );
    if pieces.is_empty() {
        return Choice {
            logged: Logged::Unchanged,
            changed: WordMap::NONE,
            segments: Vec::new(),
        };
    }
    let mut changed = WordMap::NONE;
    pieces.iter().for_each(|p| changed.mark(p.start, p.len()));
    if image.kind == Kind::Data || basis.full {
        return Choice::full(changed);
    }
    let segments = segments(&image.bytes, pieces);
    if record_bytes(&segments) > delta_max(&image.bytes) {
        return Choice::full(changed);
    }
    Choice {
        logged: Logged::Delta,
        changed,
        segments,
    }
}

/// Bytes of the delta record of a block.
pub(crate) fn delta_bytes(old: &Bytes, new: &Bytes, marked: &WordMap) -> usize {
    record_bytes(&segments(new, changed_bytes(old, new, marked)))
}

/// Turns `choice` into a cumulative delta: all bytes of its block that may differ from home
/// (track-D7).
pub(crate) fn cumulative(image: &Image, basis: &Basis, choice: &Choice) -> Choice {
    let words = basis.since_home.clone().union(&choice.changed);
    Choice {
        logged: Logged::Cumulative,
        changed: choice.changed.clone(),
        segments: segments(&image.bytes, words.runs(image.bytes.len())),
    }
}

/// Turns `choice` into the full image of its block.
pub(crate) fn whole(choice: &Choice) -> Choice {
    Choice::full(choice.changed.clone())
}

/// Ranges of bytes in which two blocks differ, inside the marked words.
fn changed_bytes(old: &[u8], new: &[u8], marked: &WordMap) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for run in marked.runs(old.len()) {
        if old[run.clone()] == new[run.clone()] {
            continue;
        }
        for at in run.filter(|&at| old[at] != new[at]) {
            match pieces.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => pieces.push(at..at + 1),
            }
        }
    }
    pieces
}

/// Segments for these ranges; narrow gaps are filled.
fn segments(image: &Bytes, pieces: Vec<Range<usize>>) -> Vec<Segment> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.start - last.end <= SEGMENT_ENTRY => last.end = piece.end,
            _ => joined.push(piece),
        }
    }
    let segment = |r: Range<usize>| Segment {
        offset: r.start as u16,
        bytes: image.slice(r),
    };
    joined.into_iter().map(segment).collect()
}
