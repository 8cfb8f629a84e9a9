//! Cuts with many commands under way, at every boundary, compared with an event-driven reference
//! that knows only requests and times.
//!
//! The reference: a version of a sector may be there if its command was submitted before the cut
//! and no durable version is newer. A version is durable if its command was FUA and had completed,
//! or if it had completed before a flush was submitted that had completed. One version is newer
//! than another if its command was submitted when the other's had completed: commands that are
//! under way together have no order.

use crate::host::{device, id_of, stamp};
use base::{Lba, Rng, Time};
use blockdev::{Adversary, Class, Model, Request};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use varve_ctrl::{Media, Profile};

const SPAN: u64 = 192;
const GARBAGE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Write,
    Fua,
    Discard,
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    issued: Time,
    done: Time,
    kind: Kind,
    lba: u64,
    sectors: u64,
    id: u32,
}

impl Event {
    fn covers(&self, lba: u64) -> bool {
        self.kind != Kind::Flush && (self.lba..self.lba + self.sectors).contains(&lba)
    }
    /// Non-volatile at `at`.
    fn durable(&self, trace: &[Event], at: Time) -> bool {
        let flushed = |f: &Event| f.kind == Kind::Flush && f.done <= at && self.done <= f.issued;
        self.done <= at && (self.kind == Kind::Fua || trace.iter().any(flushed))
    }
}

/// The ids that sector `lba` may hold after a cut at `at`.
fn legal(trace: &[Event], lba: u64, at: Time) -> BTreeSet<u32> {
    let here: Vec<&Event> = trace
        .iter()
        .filter(|e| e.covers(lba) && e.issued < at)
        .collect();
    let durable: Vec<&Event> = here
        .iter()
        .copied()
        .filter(|e| e.durable(trace, at))
        .collect();
    let mut ids: BTreeSet<u32> = here
        .iter()
        .filter(|e| !durable.iter().any(|d| e.done <= d.issued))
        .map(|e| e.id)
        .collect();
    if durable.is_empty() {
        ids.insert(0);
    }
    ids
}

/// The number in each sector; [`GARBAGE`] if it is none.
fn left(profile: &Profile, media: Media) -> Vec<u32> {
    let mut m = device(profile, Adversary::Own, Some(media));
    let read = m.execute(Time(0), Request::read(Lba(0), SPAN));
    let bytes = read.result.unwrap().into_bytes();
    let id = |s: &[u8]| id_of(s).unwrap_or(GARBAGE);
    bytes.chunks(512).map(id).collect()
}

#[derive(Default, Debug)]
struct Seen {
    cuts: usize,
    /// Sectors that hold what is not the newest version.
    old: usize,
    /// Blocks written whole that hold several versions.
    mixed: usize,
    garbage: usize,
    under_way: usize,
}

struct Run<'a> {
    profile: &'a Profile,
    adversary: Adversary,
    depth: usize,
    steps: u32,
    /// Writes of 4 KiB blocks only.
    blocks: bool,
}

impl Run<'_> {
    fn request(&self, rng: &mut Rng, id: u32, unit: u64) -> (Request, Event) {
        let grain = if self.blocks { 8 } else { unit };
        let n = grain
            * (1 + if self.blocks {
                0
            } else {
                rng.below(24 / grain)
            });
        let lba = rng.below((SPAN - n) / grain + 1) * grain;
        let event = |kind, lba, sectors, id| Event {
            issued: Time(0),
            done: Time(0),
            kind,
            lba,
            sectors,
            id,
        };
        let (at, data) = (Lba(lba), stamp(id, n));
        match rng.below(10) {
            0 => (Request::flush(), event(Kind::Flush, 0, 0, 0)),
            1 if !self.blocks => (Request::discard(at, n), event(Kind::Discard, lba, n, 0)),
            2 | 3 => {
                let request = Request::write_fua(at, Class::Data, data);
                (request, event(Kind::Fua, lba, n, id))
            }
            _ => {
                let request = Request::write(at, Class::Data, data);
                (request, event(Kind::Write, lba, n, id))
            }
        }
    }
    fn judge(&self, trace: &[Event], media: Media, at: Time, seed: u64, seen: &mut Seen) {
        let got = left(self.profile, media);
        for (lba, id) in (0..).zip(&got) {
            let open = legal(trace, lba, at);
            let known = open.contains(id);
            seen.garbage += usize::from(!known && *id == GARBAGE);
            let junk = *id == GARBAGE && self.adversary == Adversary::Spec;
            assert!(
                known || junk,
                "seed {seed}, cut at {at}: sector {lba} holds {id}, legal is {open:?}"
            );
            seen.old += usize::from(Some(id) != open.last());
        }
        let mixed = |block: &&[u32]| block.iter().any(|id| *id != block[0]);
        seen.mixed += got.chunks(8).filter(mixed).count();
        seen.cuts += 1;
        seen.under_way += trace
            .iter()
            .filter(|e| e.issued < at && at < e.done)
            .count();
    }
    fn trace(&self, seed: u64, seen: &mut Seen) {
        let mut rng = Rng::named(seed, "nvme cuts");
        let mut m = device(self.profile, self.adversary, None);
        let unit = u64::from(m.caps().sector_bytes / 512);
        let mut under_way: BinaryHeap<Reverse<Time>> =
            (0..self.depth).map(|_| Reverse(Time(0))).collect();
        let mut trace: Vec<Event> = Vec::new();
        for id in 1..=self.steps {
            let Reverse(mut now) = under_way.pop().unwrap();
            if rng.one_in(12) {
                now.0 += rng.below(2_000_000);
            }
            now = now.max(trace.last().map_or(Time(0), |e| e.issued));
            let (request, event) = self.request(&mut rng, id, unit);
            let done = m.execute(now, request);
            done.result.unwrap();
            under_way.push(Reverse(done.at));
            trace.push(Event {
                issued: now,
                done: done.at,
                ..event
            });
            // Every boundary up to the next command, and places between.
            let Reverse(next) = *under_way.peek().unwrap();
            let mut cuts: BTreeSet<u64> = trace
                .iter()
                .flat_map(|e| [e.done.0.saturating_sub(1), e.done.0])
                .collect();
            cuts.extend([
                now.0,
                now.0 + 1,
                now.0 + rng.below(next.0.saturating_sub(now.0).max(1)),
            ]);
            let last = if id == self.steps {
                u64::MAX
            } else {
                next.0.max(now.0)
            };
            for at in cuts.into_iter().filter(|t| (now.0..=last).contains(t)) {
                let media = m.clone().power_off(Time(at), rng.next_u64());
                self.judge(&trace, media, Time(at), seed, seen);
            }
        }
    }
}

fn survey(device: &str, adversary: Adversary, blocks: bool) -> Seen {
    let profile = Profile::parse(device).unwrap();
    let mut seen = Seen::default();
    for (seed, depth) in [(1, 8), (2, 32), (3, 1)] {
        let run = Run {
            profile: &profile,
            adversary,
            depth,
            steps: 60,
            blocks,
        };
        run.trace(seed, &mut seen);
    }
    seen
}

const SMALL: &str = "ftl.lanes=4,nand.dies_per_channel=1,nand.pages_per_block=24,slc.share=true";

#[test]
fn every_cut_with_many_commands_under_way_is_one_of_the_reference() {
    for name in ["nvme-980pro", "ufs-generic"] {
        for buffer in [32, 1024] {
            for adversary in [Adversary::Own, Adversary::Spec] {
                let device = format!("{name},{SMALL},buffer_kib={buffer}");
                let seen = survey(&device, adversary, false);
                assert_eq!(seen.garbage, 0, "{device}");
                assert!(
                    seen.cuts > 300 && seen.old > 0 && seen.under_way > seen.cuts,
                    "{device}: {seen:?}"
                );
            }
        }
    }
}

#[test]
fn writes_up_to_awupf_are_all_old_or_all_new() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let seen = survey(
            &format!("nvme-980pro,{SMALL},buffer_kib=32"),
            adversary,
            true,
        );
        assert!(seen.mixed == 0 && seen.old > 0, "{seen:?}");
    }
    // Only the promise in the profile makes the writes whole.
    let device = format!("nvme-980pro,{SMALL},buffer_kib=32,awupf=0,tear_bytes=512");
    let seen = survey(&device, Adversary::Spec, true);
    assert!(seen.mixed > 0 && seen.garbage == 0, "{seen:?}");
}

#[test]
fn the_standard_alone_promises_nothing_for_longer_writes() {
    let device = format!("nvme-980pro,{SMALL},buffer_kib=32,tear_bytes=0");
    let seen = survey(&device, Adversary::Spec, false);
    assert!(seen.garbage > 0, "{seen:?}");
    let seen = survey(&device, Adversary::Spec, true);
    assert_eq!(seen.garbage, 0, "AWUPF holds");
}
