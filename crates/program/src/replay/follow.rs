//! The tree as it is while the program runs, without any cut.

use crate::apply::apply;
use crate::call::{Recording, What};
use crate::tree::{NodeId, PAGE, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The tree after some of the calls.
pub struct Follower<'a> {
    recording: &'a Recording,
    done: usize,
    tree: Tree,
}

impl<'a> Follower<'a> {
    /// The tree of the begin.
    pub fn new(recording: &'a Recording) -> Follower<'a> {
        Follower {
            recording,
            done: 0,
            tree: recording.start.clone(),
        }
    }

    /// The tree after the first `calls` calls, and not before an earlier answer.
    pub fn after(&mut self, calls: usize) -> &Tree {
        while self.done < calls {
            apply(&mut self.tree, &self.recording.calls[self.done].what);
            self.done += 1;
        }
        &self.tree
    }
}

/// What failed syncs gave up.
pub struct GivenUp {
    /// The recording without it. Calls keep their indices.
    pub carried: Recording,
    /// The writes of whose content something is gone at the end, ascending.
    pub writes: Vec<usize>,
}

/// What failed syncs gave up (replay-B8); `None` if there was nothing to give up.
///
/// A later write into a page that was given up writes all of that page, since the page is whole in
/// memory; so that call has the content of the page, too, and what was given up is back from there
/// on.
pub fn given_up(recording: &Recording) -> Option<GivenUp> {
    let mut syncs = Syncs::default();
    for (n, call) in recording.calls.iter().enumerate() {
        syncs.follow(recording, n, &call.what);
    }
    if syncs.gone.is_empty() {
        return None;
    }
    let mut carried = recording.clone();
    let mut follower = Follower::new(recording);
    for &n in &syncs.again {
        if let Some(what) = whole_pages(&recording.calls[n].what, follower.after(n + 1)) {
            carried.calls[n].what = what;
        }
    }
    for &n in &syncs.gone {
        if let What::Write {
            node,
            offset,
            data,
            size_before,
        } = &recording.calls[n].what
        {
            let end = offset + data.len() as u64;
            carried.calls[n].what = What::Truncate {
                node: *node,
                size: end.max(*size_before),
                size_before: *size_before,
            };
        }
    }
    let is_gone = |n: &usize| {
        let pages = pages_of(&recording.calls[*n].what);
        let of_file = pages.as_ref().and_then(|(node, _)| syncs.lost.get(node));
        of_file.is_some_and(|lost| pages.is_some_and(|(_, pages)| lost.range(pages).count() > 0))
    };
    let writes = syncs.gone.iter().copied().filter(is_gone).collect();
    Some(GivenUp { carried, writes })
}

/// What syncs have done to writes.
#[derive(Default)]
struct Syncs {
    /// Writes of each file that no sync was asked for yet.
    waiting: BTreeMap<NodeId, Vec<usize>>,
    /// Pages of each file that were given up and not written again.
    lost: BTreeMap<NodeId, BTreeSet<u64>>,
    /// Writes that were given up.
    gone: BTreeSet<usize>,
    /// Writes into pages that had been given up.
    again: BTreeSet<usize>,
}

impl Syncs {
    fn follow(&mut self, recording: &Recording, n: usize, what: &What) {
        match what {
            What::Write { node, .. } => {
                self.waiting.entry(*node).or_default().push(n);
                let Some((_, pages)) = pages_of(what) else {
                    return;
                };
                let lost = self.lost.entry(*node).or_default();
                let before = lost.len();
                lost.retain(|page| !pages.contains(page));
                if lost.len() < before {
                    self.again.insert(n);
                }
            }
            What::Sync { node, failed, .. } => {
                let writes = self.waiting.remove(node).unwrap_or_default();
                if failed.is_none() {
                    return;
                }
                for n in writes.into_iter().filter(|&n| !is_cut(recording, n)) {
                    if let Some((node, pages)) = pages_of(&recording.calls[n].what) {
                        self.gone.insert(n);
                        self.lost.entry(node).or_default().extend(pages);
                    }
                }
            }
            What::Truncate { node, size, .. } => {
                let lost = self.lost.entry(*node).or_default();
                lost.retain(|page| *page < size.div_ceil(PAGE));
            }
            What::SyncAll => self.waiting.clear(),
            _ => {}
        }
    }
}

/// The pages of a write, with its file.
fn pages_of(what: &What) -> Option<(NodeId, Range<u64>)> {
    match what {
        What::Write {
            node, offset, data, ..
        } if !data.is_empty() => {
            let end = offset + data.len() as u64;
            Some((*node, offset / PAGE..end.div_ceil(PAGE)))
        }
        _ => None,
    }
}

/// A write with all that its pages hold in the tree behind it.
fn whole_pages(what: &What, tree: &Tree) -> Option<What> {
    let (node, pages) = pages_of(what)?;
    let What::Write { size_before, .. } = what else {
        return None;
    };
    let offset = pages.start * PAGE;
    let data = tree
        .node(node)?
        .read(offset, (pages.end - pages.start) * PAGE);
    Some(What::Write {
        node,
        offset,
        data: data.into(),
        size_before: *size_before,
    })
}

/// Whether a later call changes a part of a page of the file and is no write: such a page is
/// written again whole, for which a recording has no word. Then nothing is taken for lost.
fn is_cut(recording: &Recording, write: usize) -> bool {
    let Some((id, _)) = pages_of(&recording.calls[write].what) else {
        return true;
    };
    let mut later = recording.calls[write + 1..].iter();
    later.any(|call| match &call.what {
        What::Truncate { node, size, .. } => *node == id && *size > 0,
        What::Allocate { node, .. } => *node == id,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::complete;
    use crate::judge::tests::Tape;

    /// The tree without what was given up, when `calls` calls had ended.
    fn left(recording: &Recording, calls: usize) -> Vec<u8> {
        let mut recording = recording.clone();
        recording.calls.truncate(calls);
        let carried = given_up(&recording).map_or(recording, |given_up| given_up.carried);
        let tree = complete(&carried);
        let node = tree.find(b"f").and_then(|id| tree.node(id));
        node.expect("it is there").content()
    }

    fn fail(recording: &mut Recording, n: usize) {
        match &mut recording.calls[n].what {
            What::Sync { failed, .. } => *failed = Some(5),
            other => panic!("{other:?} is no sync"),
        }
    }

    #[test]
    fn what_was_given_up_is_back_when_its_page_is_written_again() {
        let mut tape = Tape::with(&[("f", b"........")]);
        tape.write("f", 0, b"ab");
        tape.sync("f");
        tape.sync("f");
        tape.ack("ab");
        tape.write("f", 4, b"cd");
        tape.write("f", PAGE, b"e");
        let mut recording = tape.recording;
        fail(&mut recording, 1);
        assert_eq!(
            left(&recording, 4),
            b"........",
            "also behind a sync that succeeds"
        );
        assert_eq!(left(&recording, 5), b"ab..cd..");
        assert_eq!(left(&recording, 6)[..8], *b"ab..cd..");
        let all = given_up(&recording).expect("something");
        assert!(all.writes.is_empty(), "nothing is gone at the end");
        recording.calls.truncate(4);
        assert_eq!(given_up(&recording).expect("something").writes, [0]);
    }

    #[test]
    fn what_was_given_up_twice_is_gone() {
        let mut tape = Tape::with(&[("f", b"....")]);
        tape.write("f", 0, b"a");
        tape.sync("f");
        tape.write("f", 1, b"b");
        tape.sync("f");
        let mut recording = tape.recording;
        fail(&mut recording, 1);
        assert_eq!(left(&recording, 4), b"ab..");
        fail(&mut recording, 3);
        assert_eq!(left(&recording, 4), b"....");
        assert_eq!(given_up(&recording).expect("both").writes, [0, 2]);
    }

    #[test]
    fn what_is_cut_off_needs_no_sync_and_a_cut_page_is_taken_for_written() {
        let mut tape = Tape::with(&[("f", b"....")]);
        tape.write("f", 0, b"ab");
        tape.sync("f");
        tape.truncate("f", 0);
        tape.write("f", 0, b"c");
        let mut recording = tape.recording.clone();
        fail(&mut recording, 1);
        assert_eq!(left(&recording, 2), b"....");
        assert_eq!(left(&recording, 4), b"c");
        tape.truncate("f", 3);
        let mut recording = tape.recording;
        fail(&mut recording, 1);
        assert!(given_up(&recording).is_none());
    }
}
