//! Random histories on tiny logs, each cut behind events drawn from its seed.
//!
//! Properties, checked after recovery from every cut:
//! - Q1: the metadata equals the state after some transaction, whole;
//! - Q2: that transaction is not older than the last one whose commit was acknowledged before the
//!   cut;
//! - Q3: recovery leaves blocks alone that hold file data;
//! - Q4: a cut inside recovery, and recovery once more, gives the same state;
//! - Q5: at the end of a history file data on the medium is what was written (no stale home write
//!   hit it).

use super::*;
use crate::{DirtyLog, FullFirst, Home, Preset, Scheme};
use base::bytes::put_be32;
use base::{Rng, Tid};
use block::Class;
use ondisk::jbd2::MAGIC;

/// Content of the metadata blocks; a missing block is free or holds file data.
type Meta = BTreeMap<BlockNo, Bytes>;

/// Where the log lies.
#[derive(Clone, Copy)]
enum Devices {
    One,
    Two,
}

struct History {
    rig: Rig,
    broken: Broken,
    /// Metadata after each transaction.
    states: BTreeMap<u32, Meta>,
    /// (transaction, events at its acknowledgement).
    acked: Vec<(u32, usize)>,
    /// Blocks that hold file data, with the events between which they do, and the content.
    data: Vec<(BlockNo, usize, usize, Bytes)>,
}

struct Player<'a> {
    rng: Rng,
    history: &'a mut History,
    journal: Arc<Journal>,
    meta: Meta,
    /// Free blocks and the transaction that freed them.
    free: BTreeMap<BlockNo, Tid>,
    stamp: u32,
}

const HOMES: u64 = 14;

impl Player<'_> {
    fn content(&mut self) -> Bytes {
        self.stamp += 1;
        let mut block = vec![self.stamp as u8; BLOCK_BYTES];
        put_be32(&mut block, 16, self.stamp);
        put_be32(&mut block, BLOCK_BYTES - 4, self.stamp);
        if self.rng.one_in(4) {
            // Looks like a control block of some transaction nearby.
            put_be32(&mut block, 0, MAGIC);
            put_be32(&mut block, 4, 1 + self.rng.below(5) as u32);
            put_be32(
                &mut block,
                8,
                self.journal.committed().0 + self.rng.below(6) as u32,
            );
        }
        block.into()
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let n = list.len() as u64;
        (n > 0).then(|| list[self.rng.below(n.max(1)) as usize])
    }

    /// A free block that may be used again (hazards-H18).
    fn reusable(&mut self) -> Option<BlockNo> {
        let committed = self.journal.committed();
        let list: Vec<BlockNo> = self
            .free
            .iter()
            .filter(|(_, t)| committed.geq(**t))
            .map(|(b, _)| *b)
            .collect();
        self.pick(&list)
    }

    fn operation(&mut self) -> Result<(), JournalError> {
        let journal = self.journal.clone();
        let credits = journal.credits_max().min(3);
        let mut handle = journal.start(credits)?;
        let tid = handle.tid();
        for _ in 0..1 + self.rng.below(u64::from(credits)) {
            let metas: Vec<BlockNo> = self.meta.keys().copied().collect();
            match self.rng.below(6) {
                0 => {
                    if let Some(block) = self.reusable() {
                        let content = self.content();
                        self.end_data(block);
                        handle.create(block, content.clone())?;
                        self.free.remove(&block);
                        self.meta.insert(block, content);
                    }
                }
                1 if metas.len() > 3 => {
                    let block = self.pick(&metas).expect("some");
                    handle.forget(block)?;
                    self.meta.remove(&block);
                    self.free.insert(block, tid);
                }
                _ => {
                    let block = self.pick(&metas).expect("some");
                    let new = self.content();
                    let (from, to) = if self.rng.one_in(2) {
                        (0, 20)
                    } else {
                        (8, BLOCK_BYTES)
                    };
                    handle.write(block, from, &new[from..to])?;
                    let mut whole = self.meta[&block].to_vec();
                    whole[from..to].copy_from_slice(&new[from..to]);
                    self.meta.insert(block, whole.into());
                }
            }
        }
        handle.finish()?;
        self.history.states.insert(tid.0, self.meta.clone());
        if self.rng.one_in(3) {
            journal.commit(tid)?;
            // A transaction without changes is dropped, and its number given out again.
            if journal.committed().geq(tid) {
                let events = self.history.rig.disk.len();
                self.history.acked.push((tid.0, events));
            }
        }
        Ok(())
    }

    fn end_data(&mut self, block: BlockNo) {
        let now = self.history.rig.disk.len();
        for d in &mut self.history.data {
            if d.0 == block && d.2 == usize::MAX {
                d.2 = now;
            }
        }
    }

    fn write_data(&mut self) -> Result<(), JournalError> {
        let Some(block) = self.reusable() else {
            return Ok(());
        };
        let content = self.content();
        self.end_data(block);
        self.history
            .rig
            .queue
            .write(block.lba(), Class::Data, content.clone())?;
        let now = self.history.rig.disk.len();
        self.history.data.push((block, now, usize::MAX, content));
        Ok(())
    }

    fn play(&mut self, operations: u64) -> Result<(), JournalError> {
        for _ in 0..operations {
            self.operation()?;
            match self.rng.below(10) {
                0 => self.journal.checkpoint_all()?,
                1 => self.write_back()?,
                2..5 => self.write_data()?,
                _ => {}
            }
        }
        self.journal.commit_all()
    }

    /// What the write-back task does when its time comes.
    fn write_back(&mut self) -> Result<(), JournalError> {
        self.journal.write_back()
    }
}

impl History {
    fn play(
        seed: u64,
        broken: Broken,
        scheme: Scheme,
        devices: Devices,
    ) -> Result<History, String> {
        let mut rng = Rng::named(seed, "history");
        let log_blocks = 9 + rng.below(24) as u32;
        let rig = match devices {
            Devices::One => Rig::new(u64::from(log_blocks) + HOMES + 1, log_blocks),
            // The superblock of a log of its own is not its first block.
            Devices::Two => Rig::beside(HOMES + 1, log_blocks + 1),
        };
        let options = Options {
            features_64bit: rng.one_in(2),
            checksum_v3: rng.one_in(2),
            scheme: Some(scheme),
            ..quiet()
        };
        let journal = rig.start_broken(options, broken);
        let first = rig.first();
        let meta: Meta = (0..8).map(|n| (first.plus(n), disk::zeros())).collect();
        let free = (8..HOMES).map(|n| (first.plus(n), Tid(0))).collect();
        let states = BTreeMap::from([(0, meta.clone())]);
        let mut history = History {
            rig,
            broken,
            states,
            acked: Vec::new(),
            data: Vec::new(),
        };
        let operations = 6 + rng.below(30);
        let stop = rng.one_in(6);
        let mut player = Player {
            rng,
            history: &mut history,
            journal: journal.clone(),
            meta,
            free,
            stamp: 0,
        };
        let played = player.play(operations);
        if played.is_ok() && stop {
            journal.stop().map_err(|e| e.to_string())?;
        } else {
            crash(&journal);
        }
        played.map_err(|e| e.to_string())?;
        history.check_data_at_the_end()?;
        Ok(history)
    }

    /// Q5.
    fn check_data_at_the_end(&self) -> Result<(), String> {
        for (block, _, until, content) in &self.data {
            if *until == usize::MAX && self.rig.disk.content(block.0) != content {
                return Err(format!("Q5: file data of block {block} was overwritten"));
            }
        }
        Ok(())
    }

    fn check_cut(&self, cut: usize, seed: u64) -> Result<(), String> {
        let after = self.rig.after_cut(cut, seed);
        let before = after.disk.visible();
        let newest = self.recover(&after)?;
        let acked = self
            .acked
            .iter()
            .filter(|(_, at)| *at <= cut)
            .map(|(t, _)| *t)
            .max();
        if newest < acked.unwrap_or(0) {
            return Err(format!("Q2: recovered {newest}, acknowledged {acked:?}"));
        }
        if newest > *self.states.keys().last().expect("state 0") {
            return Err(format!("Q1: recovered {newest}, which never was"));
        }
        let state = self.states.range(..=newest).next_back().expect("state 0").1;
        for (block, content) in state {
            if after.disk.content(block.0) != content {
                return Err(format!(
                    "Q1: block {block} is not as after transaction {newest}"
                ));
            }
        }
        for (block, from, until, _) in &self.data {
            let old = before.get(&block.0).cloned().unwrap_or_else(disk::zeros);
            if (*from..*until).contains(&cut) && after.disk.content(block.0) != old {
                return Err(format!("Q3: recovery changed file data in block {block}"));
            }
        }
        if seed.is_multiple_of(4) {
            self.check_nested(&after, seed)
        } else {
            Ok(())
        }
    }

    /// Q4.
    fn check_nested(&self, recovered: &Rig, seed: u64) -> Result<(), String> {
        let events = recovered.disk.len();
        let cut = Rng::named(seed, "nested").below(events as u64 + 1) as usize;
        let again = recovered.after_cut(cut, seed);
        self.recover(&again)?;
        let homes = self.rig.first().0..self.rig.first().0 + HOMES;
        for block in homes {
            if again.disk.content(block) != recovered.disk.content(block) {
                return Err(format!(
                    "Q4: block {block} differs after a cut inside recovery"
                ));
            }
        }
        Ok(())
    }

    /// Recovers and returns the last transaction whose state is there.
    fn recover(&self, rig: &Rig) -> Result<u32, String> {
        match rig.open().map_err(|e| e.to_string())? {
            Opened::Clean(log) => Ok(log.next_tid().prev().0),
            Opened::NeedsRecovery(log) => {
                let recovered = if self.broken.skip_revoke_pass {
                    log.recover_with(None, |_| BTreeMap::new())
                } else {
                    self.recover_as_foreseen(rig, log)
                };
                Ok(recovered.map_err(|e| e.to_string())?.1.end.prev().0)
            }
        }
    }

    /// foresee-B1, foresee-B2.
    fn recover_as_foreseen(
        &self,
        rig: &Rig,
        log: DirtyLog,
    ) -> Result<(CleanLog, RecoveryReport), JournalError> {
        let (before, homes) = (rig.disk.len(), rig.first().0..rig.first().0 + HOMES);
        let foreseen = log.foresee(None)?;
        let queue = foreseen.queue();
        let read = |n: u64| queue.read(BlockNo(n).lba(), base::SECTORS_PER_BLOCK);
        let wanted = homes.clone().map(read).collect::<Result<Vec<_>, _>>()?;
        assert_eq!(rig.disk.len(), before, "foresee-B1: nothing is written");
        let done = foreseen.carry_out()?;
        for (n, wanted) in homes.zip(wanted) {
            assert!(rig.disk.content(n) == wanted, "foresee-B2: block {n}");
        }
        assert!(
            read(rig.first().0).is_err(),
            "foresee-B1: there is nothing to foresee"
        );
        Ok(done)
    }
}

/// Plays histories and cuts them; the first violation ends it. Returns the number of recovered
/// states.
pub(super) fn explore(
    histories: std::ops::Range<u64>,
    cuts: u64,
    broken: Broken,
    scheme: Scheme,
) -> Result<u64, String> {
    explore_on(Devices::One, histories, cuts, broken, scheme)
}

/// As [`explore`], on one device or with the log on another.
fn explore_on(
    devices: Devices,
    histories: std::ops::Range<u64>,
    cuts: u64,
    broken: Broken,
    scheme: Scheme,
) -> Result<u64, String> {
    let mut states = 0;
    for seed in histories {
        let place = |e| format!("seed {seed}: {e}");
        let history = History::play(seed, broken, scheme, devices).map_err(place)?;
        let mut rng = Rng::named(seed, "cuts");
        for n in 0..cuts {
            let cut = rng.below(history.rig.disk.len() as u64 + 1) as usize;
            let draw = rng.next_u64();
            let place = |e| format!("seed {seed}, cut {n} (event {cut}, draw {draw:#x}): {e}");
            history.check_cut(cut, draw).map_err(place)?;
            states += 1;
        }
    }
    Ok(states)
}

fn preset(preset: Preset, home: Home, full_first: FullFirst) -> Scheme {
    let scheme = preset.scheme().expect("journaled");
    Scheme {
        home,
        full_first,
        bug: None,
        ..scheme
    }
}

fn no_violation(scheme: Scheme, histories: u64) {
    let states = explore(0..histories, 8, Broken::NOTHING, scheme);
    assert_eq!(states, Ok(histories * 8), "{scheme:?}");
}

#[test]
fn every_cut_recovers_to_a_whole_transaction() {
    no_violation(preset(Preset::Jbd2, Home::Copy, FullFirst::Auto), 2500);
}

#[test]
fn every_cut_of_a_coalition_recovers_to_a_whole_transaction() {
    for name in [
        Preset::Coalition,
        Preset::CoalitionPaper,
        Preset::Emmc,
        Preset::EmmcPaper,
    ] {
        no_violation(preset(name, Home::CopyReliable, FullFirst::Auto), 400);
        no_violation(preset(name, Home::CopyReliable, FullFirst::On), 200);
        no_violation(preset(name, Home::Copy, FullFirst::Auto), 200);
    }
}

/// Two devices, each with losses of its own at the same moment (devices-L1 to devices-L7).
#[test]
fn every_cut_of_two_devices_recovers_to_a_whole_transaction() {
    for (name, home) in [
        (Preset::Jbd2, Home::Copy),
        (Preset::Jbd2, Home::CopyReliable),
        (Preset::FlushAhead, Home::Copy),
    ] {
        let scheme = preset(name, home, FullFirst::Auto);
        let states = explore_on(Devices::Two, 0..800, 8, Broken::NOTHING, scheme);
        assert_eq!(states, Ok(6400), "{scheme:?}");
    }
}

/// devices-L6: without the revoke records recovery puts older images over data, on two devices as
/// on one.
#[test]
fn without_revokes_two_devices_are_damaged() {
    let broken = Broken {
        skip_revoke_pass: true,
        ..Broken::NOTHING
    };
    let scheme = preset(Preset::Jbd2, Home::Copy, FullFirst::Auto);
    let found = explore_on(Devices::Two, 0..800, 8, broken, scheme);
    assert!(found.is_err_and(|why| why.contains("Q3") || why.contains("Q1")));
}
