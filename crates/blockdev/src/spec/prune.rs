//! Which writes a recovery cannot look at one by one, so that a cut need not permute them one by
//! one.
//!
//! Each write has a reason ([`Class`]). Two groups of open writes are *protected*:
//!
//! - P1 (log): descriptor, metadata, revoke and data blocks of the journal behind which no commit
//!   record, coalition block or journal superblock was begun before the cut. No transaction that
//!   recovery may replay contains them: the scan ends at the missing commit whatever they hold. A
//!   commit that was begun while its log blocks are open (the result of a forgotten flush) ends the
//!   protection, and so does a journal superblock, because it may have released the place of these
//!   blocks.
//! - P2 (home): a metadata block written home whose exact content is in the log, in a transaction
//!   whose commit and whose log blocks are all durable, and behind which no journal superblock was
//!   begun. Recovery writes it again, whatever home holds. A home write of deltas has no such full
//!   image and is not protected, nor is one of a transaction whose log is open.
//!
//! What protection leaves out, and what it never leaves out:
//!
//! - P3: a group of more than two writes is taken whole, empty, with each one of its writes lost,
//!   with each one kept, and with its first half kept; all other subsets are left out, but for P4.
//!   So a recovery that does look at a protected write shows its fault with that write alone.
//! - P4: prefixes in order are never left out.
//! - P5: of the ways in which a protected write is torn, the first head and the first garbage are
//!   kept, with all others kept and with all others lost.
//! - P6: a REMAP is not protected, and one that moves may take content out of the log: it ends P2
//!   for what was logged before it.
//! - P7: a write of several reasons, or of none that is named above, is not protected.

use super::Write;
use super::enumerate::combinations;
use crate::Class;
use base::{SECTORS_PER_BLOCK, Set};
use std::collections::VecDeque;

/// Writes that are permuted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// P1.
    Log,
    /// P2.
    Home,
}

/// The role of a write for the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Log,
    Home,
    /// A commit record or a coalition block: it vouches for log blocks before it.
    Commit,
    Superblock,
    Other,
}

impl Role {
    fn of(classes: &[Class]) -> Role {
        let any = |wanted: &[Class]| classes.iter().any(|c| wanted.contains(c));
        let all =
            |wanted: &[Class]| !classes.is_empty() && classes.iter().all(|c| wanted.contains(c));
        if any(&[Class::JournalSuperblock]) {
            Role::Superblock
        } else if any(&[Class::JournalCommit, Class::Coalition]) {
            Role::Commit
        } else if all(&[
            Class::JournalDescriptor,
            Class::JournalMetadata,
            Class::JournalRevoke,
            Class::JournalData,
        ]) {
            Role::Log
        } else if all(&[Class::Home]) {
            Role::Home
        } else {
            // P7.
            Role::Other
        }
    }
}

/// A write that the ledger still keeps.
struct Known {
    id: u64,
    role: Role,
    /// Fingerprints of its blocks, if it covers whole blocks and none of them is uniform.
    content: Vec<u64>,
}

/// Follows a recording and knows its protected writes.
#[derive(Default)]
pub(crate) struct Pruner {
    /// Log, commit and home writes, ascending.
    writes: VecDeque<Known>,
    /// Contents of log blocks behind which no journal superblock was begun, each with the number of
    /// its transaction's commit, and those of the transaction in the making.
    logged: Vec<(u64, Vec<u64>)>,
    running: Vec<u64>,
    /// The newest write by which log blocks before it may count.
    last_promise: Option<u64>,
}

impl Pruner {
    /// Notes that a write begins. `prints` are the fingerprints of its blocks before and after it.
    pub fn enter(&mut self, id: u64, write: &Write, classes: &[Class], prints: &[(u64, u64)]) {
        let role = Role::of(classes);
        let aligned = write.lba.0.is_multiple_of(SECTORS_PER_BLOCK)
            && write.sectors.is_multiple_of(SECTORS_PER_BLOCK);
        let content: Vec<u64> = match aligned && matches!(role, Role::Log | Role::Home) {
            true => prints.iter().map(|p| p.1).collect(),
            false => Vec::new(),
        };
        match role {
            Role::Log => self.running.extend(&content),
            Role::Commit => {
                self.last_promise = Some(id);
                self.logged.push((id, std::mem::take(&mut self.running)));
            }
            Role::Superblock => {
                self.last_promise = Some(id);
                self.logged.clear();
                self.running.clear();
            }
            Role::Home | Role::Other => {}
        }
        if role != Role::Other {
            self.writes.push_back(Known { id, role, content });
        }
    }

    /// P6: notes that a REMAP that moves begins.
    pub fn moved(&mut self) {
        self.logged.clear();
        self.running.clear();
    }

    /// Notes which writes the ledger has forgotten, that is all except `kept` (ascending): they are
    /// durable.
    pub fn forget(&mut self, kept: impl Iterator<Item = u64>) {
        let mut kept = kept.peekable();
        self.writes.retain(|known| {
            while kept.next_if(|id| *id < known.id).is_some() {}
            kept.peek() == Some(&known.id)
        });
    }

    /// The protected writes of the cut, ascending.
    pub fn protected(&self) -> Vec<(u64, Group)> {
        let waits = |k: &&Known| matches!(k.role, Role::Log | Role::Commit);
        let open_log = self.writes.iter().find(waits).map_or(u64::MAX, |k| k.id);
        let durable = self.logged.iter().filter(|(commit, _)| *commit < open_log);
        let durable: Set<u64> = durable
            .flat_map(|(_, prints)| prints.iter().copied())
            .collect();
        let group = |k: &Known| match k.role {
            Role::Log if self.last_promise.is_none_or(|last| last < k.id) => Some(Group::Log),
            Role::Home if stands(&k.content, &durable) => Some(Group::Home),
            _ => None,
        };
        self.writes
            .iter()
            .filter_map(|k| Some((k.id, group(k)?)))
            .collect()
    }
}

/// P2: true if all blocks of a home write are in the log. A blank block, which is found in many
/// places, proves nothing.
fn stands(content: &[u64], durable: &Set<u64>) -> bool {
    !content.is_empty() && content.iter().all(|p| *p != 0 && durable.contains(p))
}

/// The groups of the free writes of a setting, as places among them; only those in which something
/// is left out.
pub(super) struct Groups(Vec<Vec<usize>>);

impl Groups {
    pub fn new(of: &[Option<Group>]) -> Groups {
        let members = |g| {
            let mine = of.iter().enumerate().filter(move |(_, of)| **of == Some(g));
            mine.map(|(i, _)| i).collect::<Vec<usize>>()
        };
        let groups = [members(Group::Log), members(Group::Home)];
        Groups(groups.into_iter().filter(|g| g.len() > 2).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of writes in groups.
    pub fn members(&self) -> u64 {
        self.0.iter().map(|g| g.len() as u64).sum()
    }

    /// P3: true if a subset of the free writes is one that is taken.
    pub fn tells(&self, kept: impl Fn(usize) -> bool) -> bool {
        self.0.iter().all(|group| {
            let n = group.len();
            let count = group.iter().filter(|i| kept(**i)).count();
            let first_half = || group[..n / 2].iter().all(|i| kept(*i));
            count.min(n - count) <= 1 || (count == n / 2 && first_half())
        })
    }

    /// Calls `each` with the subsets of `0..n` that are taken, their members ascending, until it
    /// answers false.
    pub fn each(&self, n: usize, each: &mut dyn FnMut(&[usize]) -> bool) {
        let grouped: Set<usize> = self.0.iter().flatten().copied().collect();
        let alone: Vec<usize> = (0..n).filter(|i| !grouped.contains(i)).collect();
        let patterns: Vec<Vec<Vec<usize>>> = self.0.iter().map(|g| patterns(g)).collect();
        for s in 0..=alone.len() / 2 {
            for lost in [true, false] {
                if !lost && s * 2 == alone.len() {
                    continue;
                }
                let go_on = combinations(alone.len(), s, &mut |singled| {
                    let kept = |k: &usize| singled.binary_search(k).is_ok() != lost;
                    let kept = (0..alone.len()).filter(kept).map(|k| alone[k]);
                    product(&patterns, kept.collect(), each)
                });
                if !go_on {
                    return;
                }
            }
        }
    }
}

/// P3: the subsets of a group that are taken: all, each one lost, none, each one kept, the first
/// half.
fn patterns(group: &[usize]) -> Vec<Vec<usize>> {
    let but = |i: &usize| group.iter().copied().filter(|m| m != i).collect::<Vec<_>>();
    let mut out = vec![group.to_vec()];
    out.extend(group.iter().map(but));
    out.push(Vec::new());
    out.extend(group.iter().map(|i| vec![*i]));
    if group.len() > 3 {
        out.push(group[..group.len() / 2].to_vec());
    }
    out
}

/// `kept` with each pattern of each group.
fn product(
    patterns: &[Vec<Vec<usize>>],
    kept: Vec<usize>,
    each: &mut dyn FnMut(&[usize]) -> bool,
) -> bool {
    let Some((first, rest)) = patterns.split_first() else {
        let mut kept = kept;
        kept.sort_unstable();
        return each(&kept);
    };
    first.iter().all(|pattern| {
        let kept = [&kept[..], pattern].concat();
        product(rest, kept, each)
    })
}
