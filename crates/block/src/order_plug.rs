//! Gathers groups of non-volatile writes whose order a power cut must respect: the three helpers of
//! the eMMC paper (start, barrier, finish) as one object.
//!
//! - O1: for groups a < b and any cut, if any sector of b is new then all sectors of a are.
//! - O2: when `finish` answers Ok, all writes of the plug are non-volatile, but for those that were
//!   only taken along (O4).
//! - O3: nothing is merged across groups, and no sector occurs twice in one command (hazards-H8).
//! - O4: writes that were held back ([`OrderPlug::lead`]) stand in groups before all others, or
//!   have become non-volatile before `finish` sends anything; if they failed then, it sends
//!   nothing. Writes that were only taken along with them fail alone: those that wait for them
//!   learn of it, and `finish` does not;
//! - O5: writes that were held back and [joined](`OrderPlug::join`) the plug instead stand in the
//!   group that was open then, so nothing orders them with the rest of it. What O4 says of failures
//!   is true of them as well.

use crate::batch::{Batch, Held, Kind};
use crate::command::{Command, merge, pack};
use crate::plug::Write;
use crate::{Class, DevError, Queue};
use base::{Bytes, Lba, Mutant};
use blockdev::PackOrder;
use std::sync::Arc;

/// Groups of writes held back until [`OrderPlug::finish`]. Inside a group the order is free, but a
/// write over a sector of its own group begins a new one.
#[must_use = "a plug holds its writes back until it is finished"]
pub struct OrderPlug {
    queue: Arc<Queue>,
    /// The last one is open; only that may be empty.
    groups: Vec<Vec<Write>>,
    /// What goes ahead of all of them (O4), or in one of them (O5).
    held: Option<(Held, Place)>,
}

/// Where writes go that were held back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Ahead,
    /// In the group of this number.
    In(usize),
}

impl OrderPlug {
    pub(crate) fn new(queue: Arc<Queue>) -> OrderPlug {
        OrderPlug {
            queue,
            groups: vec![Vec::new()],
            held: None,
        }
    }

    /// Adds a write to the open group. `bytes` is a non-zero multiple of 512.
    pub fn write_fua(&mut self, lba: Lba, class: Class, bytes: Bytes) {
        add(&mut self.groups, Write::new(lba, class, bytes, true));
    }

    /// Writes that were held back go ahead of everything in this plug, unless they have been sent
    /// by then.
    pub fn lead(&mut self, held: Held) {
        self.held = Some((held, Place::Ahead));
    }

    /// Writes that were held back go with the open group, unless they have been sent by then.
    pub fn join(&mut self, held: Held) {
        self.held = Some((held, Place::In(self.groups.len() - 1)));
    }

    /// Closes the group: what is added from now on reaches the medium after it.
    pub fn barrier(&mut self) {
        if self.groups.last().is_some_and(|group| !group.is_empty()) {
            self.groups.push(Vec::new());
        }
    }

    /// Number of writes held.
    pub fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the groups in their order and waits until all of it is non-volatile. On a device that
    /// keeps a prefix of a pack all groups go as one pack if they fit, otherwise as several, one
    /// after the other; on any other device each group has commands of its own and is waited for,
    /// and flushed if the device has no FUA.
    ///
    /// # Errors
    /// The first failure. Nothing of a later group has been sent then, but groups may share a pack:
    /// the error names the address of the write that failed.
    pub fn finish(self) -> Result<(), DevError> {
        let (queue, groups) = (self.queue, self.groups);
        match self.held {
            None => finish_groups(&queue, groups),
            Some((held, Place::In(n))) => held.carry(|writes| {
                let mut groups = groups.clone();
                groups[n].extend(writes);
                finish_groups(&queue, groups)
            }),
            Some((held, Place::Ahead)) => held.carry(|writes| {
                let (mut all, mut groups) = (vec![Vec::new()], groups.clone());
                writes.into_iter().for_each(|w| add(&mut all, w));
                if rt::mutant(Mutant::DataBesideRecord) {
                    // hazards-H24 unguarded: behind what it should lead.
                    std::mem::swap(&mut all, &mut groups);
                }
                all.append(&mut groups);
                finish_groups(&queue, all)
            }),
        }
    }
}

/// Adds a write to the last group, or to a new one if it lies over a write of that.
fn add(groups: &mut Vec<Vec<Write>>, write: Write) {
    match groups.last_mut() {
        Some(open) if !open.iter().any(|w| w.overlaps(&write)) => open.push(write),
        _ => groups.push(vec![write]),
    }
}

fn finish_groups(queue: &Arc<Queue>, mut groups: Vec<Vec<Write>>) -> Result<(), DevError> {
    groups.retain(|group| !group.is_empty());
    let mut joined = 0;
    let groups: Vec<Vec<Write>> = groups
        .into_iter()
        .map(|group| {
            let (merged, n) = merge(group, queue.caps());
            joined += n;
            merged
        })
        .collect();
    queue.count_merges(joined);
    let caps = queue.caps();
    if may_share_packs(queue, groups.len()) {
        for command in pack(groups.into_iter().flatten().collect(), caps) {
            send(queue, [command]).wait()?;
        }
        return Ok(());
    }
    let packs = caps.packed.is_some() && queue.kind_of(true) == Kind::Durable;
    for group in groups {
        let commands = match packs {
            true => pack(group, caps),
            false => group.into_iter().map(Command::Single).collect(),
        };
        send(queue, commands).wait()?;
    }
    Ok(())
}

/// True if a cut inside a pack respects the order of the groups in it (hazards-H20).
fn may_share_packs(queue: &Queue, groups: usize) -> bool {
    let durable = queue.kind_of(true) == Kind::Durable;
    match queue.caps().packed.map(|p| p.order) {
        _ if !durable => false,
        Some(PackOrder::Prefix) => true,
        Some(PackOrder::AnySubset) => groups > 1 && rt::mutant(Mutant::PackAnySubset),
        None => false,
    }
}

/// Sends commands side by side.
pub(crate) fn send(queue: &Arc<Queue>, commands: impl IntoIterator<Item = Command>) -> Batch {
    let commands: Vec<Command> = commands.into_iter().collect();
    let mut batch = Batch::new(queue.clone());
    batch.set_probe(queue.probe_commands(&commands));
    let non_volatile = |command: &&Command| command.writes().iter().any(|w| w.fua);
    let among = commands.iter().filter(non_volatile).count() > 1;
    for command in commands {
        batch.push(match command {
            Command::Single(write) => queue.send_write(write, among),
            Command::Pack(writes) => queue.send_pack(writes),
        });
    }
    batch
}
