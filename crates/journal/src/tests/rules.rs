//! Simulates the checkpoint rules of `track.rs` at random: buffers, records and checkpoint lists
//! are the real ones, log and home are a model that a cut may tear, and recovery is a page of code.
//! When a rule is broken, runs end with wrong content.

use crate::buffer::{Cache, Look, Tracking};
use crate::checkpoint::CheckpointList;
use crate::commit::{Coalition, coalition};
use crate::ring::LogPos;
use crate::track::Logged;
use crate::transaction::{Image, Kind};
use crate::words::WordMap;
use base::{BLOCK_BYTES, BlockNo, Bytes, Rng, Tid, Time};
use block::Class;
use ondisk::jbd2::{
    CoalitionPart, CoalitionRecord, Format, JournalCompat, JournalIncompat, Segment,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Broken {
    Nothing,
    /// JBD2's rule for deltas.
    Refile,
    /// A block made anew is taken for one whose home holds zeros.
    ZeroBase,
    /// The content of the running transaction goes home.
    HomeCurrent,
    /// What is published during a home write counts as home when it completes.
    ForgetsInFlight,
    /// Home writes leave garbage, and no full image is logged first.
    Garbage,
}

const BLOCKS: u64 = 4;

enum Record {
    Revoke(BTreeSet<BlockNo>),
    Full(BlockNo, Bytes),
    Delta(BlockNo, Vec<Segment>),
}

struct Home {
    /// Durable content.
    content: Bytes,
    /// The image that is on its way, and the bytes that are sent.
    writing: Option<(Bytes, Bytes)>,
}

struct Model {
    rng: Rng,
    broken: Broken,
    /// Home writes that are cut leave garbage, and full-first guards against it.
    torn: bool,
    cache: Cache,
    list: CheckpointList,
    homes: BTreeMap<BlockNo, Home>,
    log: Vec<(Tid, Vec<Record>)>,
    /// Content of all metadata after each published transaction.
    truth: BTreeMap<u32, BTreeMap<BlockNo, Bytes>>,
    live: BTreeMap<BlockNo, Bytes>,
    running: BTreeSet<BlockNo>,
    freed: BTreeSet<BlockNo>,
    committing: Option<(Vec<Image>, BTreeSet<BlockNo>)>,
    tid: Tid,
    published: Tid,
    /// The last transaction before this life.
    before: Tid,
}

fn bytes(byte: u8) -> Bytes {
    vec![byte; BLOCK_BYTES].into()
}

fn format() -> Format {
    let incompat = JournalIncompat::COALITION;
    Format::new(BLOCK_BYTES, JournalCompat::NONE, incompat, &[3; 16])
}

impl Model {
    fn new(seed: u64, broken: Broken, torn: bool) -> Model {
        let mut rng = Rng::named(seed, "rules");
        let home = |n| {
            let content = bytes(100 + n as u8);
            (
                BlockNo(n),
                Home {
                    content,
                    writing: None,
                },
            )
        };
        let homes: BTreeMap<_, _> = (0..BLOCKS).map(home).collect();
        let live: BTreeMap<_, _> = homes.iter().map(|(b, h)| (*b, h.content.clone())).collect();
        let tid = Tid(rng.below(3) as u32).prev().prev();
        let full_first = torn && broken != Broken::Garbage;
        Model {
            rng,
            broken,
            torn,
            cache: Cache::new(100, Tracking::On { full_first }),
            list: CheckpointList::default(),
            homes,
            log: Vec::new(),
            truth: BTreeMap::from([(tid.prev().0, live.clone())]),
            live,
            running: BTreeSet::new(),
            freed: BTreeSet::new(),
            committing: None,
            tid,
            published: tid.prev(),
            before: tid.prev(),
        }
    }

    fn step(&mut self) {
        let block = BlockNo(self.rng.below(BLOCKS));
        match self.rng.below(16) {
            0..6 => self.store(block),
            6 => self.free_or_make(block),
            7..10 => match self.committing {
                None => self.switch(),
                Some(_) => self.publish(),
            },
            10..13 => self.begin_home(block),
            _ => self.end_home(block),
        }
    }

    fn load(&mut self, block: BlockNo) {
        if let Look::Load(ticket) = self.cache.look(block) {
            let content = self.homes[&block].content.clone();
            self.cache.loaded(block, ticket, Some(content));
        }
    }

    fn store(&mut self, block: BlockNo) {
        if !self.live.contains_key(&block) {
            return;
        }
        self.load(block);
        self.cache.join_running(block, Kind::Metadata);
        self.running.insert(block);
        // A few places, so that stores meet; sometimes what is there already.
        let at = self.rng.below(6) as usize * 700;
        let len = 1 + self.rng.below(12) as usize;
        let old = self.live[&block][at];
        let byte = if self.rng.one_in(5) {
            old
        } else {
            self.rng.next_u64() as u8
        };
        let bytes = vec![byte; len];
        self.cache.modify(block, std::iter::once((at, &bytes[..])));
        let mut image = self.live[&block].to_vec();
        image[at..at + len].fill(byte);
        self.live.insert(block, image.into());
    }

    fn free_or_make(&mut self, block: BlockNo) {
        if self.live.remove(&block).is_some() {
            self.running.remove(&block);
            self.freed.insert(block);
            self.cache.forget(block);
            return;
        }
        self.cache.join_running(block, Kind::Metadata);
        self.running.insert(block);
        self.freed.remove(&block);
        // Mostly zeros, as a new directory block: a small delta, if it were one.
        let mut content = vec![0; BLOCK_BYTES];
        content[..9].fill(self.rng.next_u64() as u8);
        let content: Bytes = content.into();
        self.cache.create(block, content.clone());
        self.live.insert(block, content);
    }

    fn switch(&mut self) {
        let mut images = Vec::new();
        for block in std::mem::take(&mut self.running) {
            let (bytes, basis) = self.cache.take_image(block);
            let mut basis = basis.expect("tracked");
            basis.pinned = self.rng.one_in(6);
            if self.broken == Broken::ZeroBase && basis.base.is_none() {
                basis.base = Some(vec![0; BLOCK_BYTES].into());
                basis.full = false;
            }
            images.push(Image {
                block,
                kind: Kind::Metadata,
                bytes,
                basis: Some(basis),
                logged: Logged::Full,
                changed: WordMap::ALL,
            });
        }
        let freed = std::mem::take(&mut self.freed);
        let revokes: Vec<BlockNo> = freed.iter().copied().collect();
        let how = Coalition {
            format: &format(),
            tid: self.tid,
            time: (10, 0),
            commit_block: crate::CommitBlock::Never,
            full_first: self.torn && self.broken != Broken::Garbage,
        };
        let composed = coalition(&how, &mut images, &revokes);
        self.log.push((self.tid, read_back(&composed.blocks)));
        self.committing = Some((images, freed));
        self.truth.insert(self.tid.0, self.live.clone());
        self.tid = self.tid.next();
    }

    fn publish(&mut self) {
        let (images, freed) = self.committing.take().expect("committing");
        for block in &freed {
            self.end_home(*block);
        }
        let tid = self.tid.prev();
        let mut waiting = BTreeSet::new();
        for image in images {
            let logged = match (self.broken, image.logged) {
                (Broken::Refile, Logged::Delta) => Logged::Cumulative,
                (_, logged) => logged,
            };
            let record = (Kind::Metadata, logged, &image.changed);
            let block = image.block;
            let refile = self
                .cache
                .committed(block, image.bytes, tid, record, Time(0));
            if let Some(older) = refile.leave {
                self.list.leave(older, block);
            }
            if refile.join.is_some() {
                waiting.insert(block);
            }
        }
        for block in freed {
            if let Some(older) = self.cache.drop_pending(block).leave {
                self.list.leave(older, block);
            }
        }
        self.list.push(tid, LogPos(0), waiting);
        self.published = tid;
    }

    fn begin_home(&mut self, block: BlockNo) {
        let uncommitted = self.cache.uncommitted(block);
        if let Some((image, _)) = self.cache.begin_home(block) {
            let sent = match (self.broken, uncommitted) {
                (Broken::HomeCurrent, Some(current)) => current,
                _ => image.clone(),
            };
            let home = self.homes.get_mut(&block).expect("known");
            home.writing = Some((image, sent));
        }
    }

    fn end_home(&mut self, block: BlockNo) {
        let home = self.homes.get_mut(&block).expect("known");
        let Some((image, sent)) = home.writing.take() else {
            return;
        };
        home.content = sent;
        let refile = self.cache.end_home(block, &image, true);
        match (refile.leave, refile.join) {
            (Some(from), Some(_)) if self.broken == Broken::ForgetsInFlight => {
                self.list.refile(block, from, self.published);
                self.cache.misfile(block, self.published);
            }
            (Some(from), Some(to)) => self.list.refile(block, from, to),
            (Some(from), None) => self.list.leave(from, block),
            _ => {}
        }
    }

    /// The power fails. True if recovery yields the metadata after the last transaction in the log.
    fn survives(&mut self) -> bool {
        let complete = self.committing.is_none() || self.rng.one_in(2);
        if !complete {
            self.log.pop();
        }
        let last = self.log.last().map_or(self.before, |(tid, _)| *tid);
        let tail = self.list.oldest().map(|(tid, _)| tid);
        let committing = self.committing.as_ref().map(|_| self.tid.prev());
        let tail = tail.or(committing).unwrap_or(self.tid);
        let kept: Vec<_> = self
            .log
            .drain(..)
            .filter(|(tid, _)| tid.geq(tail))
            .collect();
        let truth = self.truth[&last.0].clone();
        for (block, expected) in truth {
            let home = &self.homes[&block];
            let content = match &home.writing {
                None => home.content.clone(),
                Some(_) if self.torn => garbage(&mut self.rng),
                Some((_, sent)) => mixed(&mut self.rng, &home.content, sent),
            };
            let got = recovered(block, content, &kept);
            if got != expected {
                return false;
            }
        }
        true
    }
}

/// Records as they stand in the log.
fn read_back(blocks: &[(Class, Bytes)]) -> Vec<Record> {
    let is_part = |(class, _): &&(Class, Bytes)| *class == Class::Coalition;
    let mut whole = blocks.iter().filter(|b| !is_part(b));
    let mut out = Vec::new();
    for (_, block) in blocks.iter().filter(is_part) {
        CoalitionPart::verify(&format(), block).expect("sealed");
        for record in CoalitionPart::parse(&format(), block)
            .expect("valid")
            .records
        {
            out.push(match record {
                CoalitionRecord::Revoke { blocks } => Record::Revoke(blocks.into_iter().collect()),
                CoalitionRecord::Full { block, .. } => {
                    Record::Full(block, whole.next().expect("an image each").1.clone())
                }
                CoalitionRecord::Delta {
                    block, segments, ..
                } => Record::Delta(block, segments),
            });
        }
    }
    out
}

/// Applies the records of one block to its home: from the last revoke record on, each over what the
/// one before it left.
fn recovered(block: BlockNo, home: Bytes, log: &[(Tid, Vec<Record>)]) -> Bytes {
    let revokes = |r: &Record| matches!(r, Record::Revoke(set) if set.contains(&block));
    let revoked = log
        .iter()
        .rposition(|(_, records)| records.iter().any(revokes));
    let mut image = home.to_vec();
    for (_, records) in &log[revoked.map_or(0, |n| n + 1)..] {
        for record in records {
            match record {
                Record::Full(b, content) if *b == block => image = content.to_vec(),
                Record::Delta(b, segments) if *b == block => {
                    for s in segments {
                        let at = usize::from(s.offset);
                        image[at..at + s.bytes.len()].copy_from_slice(&s.bytes);
                    }
                }
                _ => {}
            }
        }
    }
    image.into()
}

/// Each sector old or new.
fn mixed(rng: &mut Rng, old: &[u8], new: &[u8]) -> Bytes {
    let mut out = old.to_vec();
    for (to, from) in out.chunks_mut(512).zip(new.chunks(512)) {
        if rng.one_in(2) {
            to.copy_from_slice(from);
        }
    }
    out.into()
}

fn garbage(rng: &mut Rng) -> Bytes {
    let byte = rng.next_u64() as u8;
    bytes(byte)
}

/// Runs that come out wrong.
fn wrong(broken: Broken, torn: bool, runs: u64) -> u64 {
    let run = |seed: u64| {
        let mut model = Model::new(seed, broken, torn);
        let steps = 10 + model.rng.below(60);
        (0..steps).for_each(|_| model.step());
        // Some go home whole, so that a wrong tail is not held back by other blocks.
        for block in (0..BLOCKS).map(BlockNo) {
            if model.rng.one_in(2) {
                model.end_home(block);
            }
            if model.rng.one_in(2) {
                model.begin_home(block);
                model.end_home(block);
            }
        }
        model.survives()
    };
    (0..runs).filter(|&seed| !run(seed)).count() as u64
}

const RUNS: u64 = 4000;

#[test]
fn rules_get_every_run_right() {
    assert_eq!(
        wrong(Broken::Nothing, false, RUNS),
        0,
        "track-R1 to track-R3"
    );
    assert_eq!(wrong(Broken::Nothing, true, RUNS), 0, "full-first");
}

#[test]
fn each_broken_rule_gets_runs_wrong() {
    for (broken, torn) in [
        (Broken::Refile, false),
        (Broken::ZeroBase, false),
        (Broken::HomeCurrent, false),
        (Broken::ForgetsInFlight, false),
        (Broken::Garbage, true),
    ] {
        let wrong = wrong(broken, torn, RUNS);
        assert!(wrong > 3, "{broken:?}: {wrong} of {RUNS} wrong");
    }
}
