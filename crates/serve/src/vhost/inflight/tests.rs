//! Servers that are killed after each of their stores, one after another, and a guest that looks
//! whether it gets one answer to each request.

use super::*;
use crate::vhost::message::Rings;
use crate::vhost::virtqueue::Ring;
use base::Rng;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, Ordering};

const SIZE: u16 = 4;
const REQUESTS: usize = 7;
const MEMORY: u64 = 0x1000;
const AVAIL: u64 = 0x400;
const USED: u64 = 0x800;
const RINGS: Rings = Rings {
    desc: 0,
    used: USED,
    avail: AVAIL,
};
/// The used index at the begin: it passes the end of its numbers on the way.
const BEGIN: u16 = u16::MAX - 2;

fn file(bytes: u64) -> File {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, bytes).unwrap();
    file.into()
}

/// A guest that offers [`REQUESTS`], each as soon as there is a descriptor for it.
struct Guest {
    file: File,
    /// The request that is offered with a descriptor.
    open: [Option<usize>; SIZE as usize],
    done: [u32; REQUESTS],
    answers: [u32; REQUESTS],
    offered: u16,
    seen: u16,
}

impl Guest {
    fn new() -> Guest {
        let guest = Guest {
            file: file(MEMORY),
            open: [None; SIZE as usize],
            done: [0; REQUESTS],
            answers: [0; REQUESTS],
            offered: BEGIN,
            seen: BEGIN,
        };
        for n in 0..u64::from(SIZE) {
            // One byte to write an answer to.
            guest.put(16 * n + 8, 1);
            guest.put(16 * n + 12, 2);
        }
        guest.put(AVAIL + 2, BEGIN);
        guest.put(USED + 2, BEGIN);
        guest
    }

    fn put(&self, at: u64, value: u16) {
        self.file.write_all_at(&value.to_le_bytes(), at).unwrap();
    }

    fn get(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }

    /// Takes answers and offers what there is room for.
    fn act(&mut self, rng: &mut Rng) {
        while self.seen != self.get(USED + 2) {
            let head = self.get(USED + 4 + 8 * u64::from(self.seen % SIZE));
            let request = self.open[usize::from(head)].take().expect("it was offered");
            assert!(self.done[request] > 0, "request {request} was not done");
            self.answers[request] += 1;
            self.seen = self.seen.wrapping_add(1);
        }
        loop {
            let free: Vec<usize> = (0..self.open.len())
                .filter(|n| self.open[*n].is_none())
                .collect();
            let request = usize::from(self.offered.wrapping_sub(BEGIN));
            if request == REQUESTS || free.is_empty() {
                return;
            }
            let head = free[rng.below(free.len() as u64) as usize];
            self.open[head] = Some(request);
            self.put(AVAIL + 4 + 2 * u64::from(self.offered % SIZE), head as u16);
            self.offered = self.offered.wrapping_add(1);
            self.put(AVAIL + 2, self.offered);
        }
    }

    fn is_served(&self) -> bool {
        self.seen == BEGIN.wrapping_add(REQUESTS as u16)
    }
}

/// A server from its start until it is killed, or until all is answered. It answers in any order,
/// as other programs do, or in that of the offers.
fn live(
    guest: &mut Guest,
    memory: &Memory,
    inflight: Option<&Inflight>,
    in_order: bool,
    rng: &mut Rng,
) -> Result<(), Close> {
    let notes = inflight.map(|inflight| inflight.notes(0)).transpose()?;
    let mut ring = Ring::new(u32::from(SIZE), RINGS, memory, false, notes)?;
    let (mut taken, mut last) = (Vec::new(), None);
    loop {
        guest.act(rng);
        if guest.is_served() {
            return Ok(());
        }
        while taken.len() < 3 {
            let Some(chain) = ring.take(memory)? else {
                break;
            };
            let request = guest.open[usize::from(chain.head)].expect("an open request");
            guest.done[request] += 1;
            assert!(
                last.is_none_or(|last| last < request),
                "requests in their order"
            );
            last = Some(request);
            taken.push(chain.head);
        }
        assert!(!taken.is_empty(), "a request is lost");
        let which = match in_order {
            true => 0,
            false => rng.below(taken.len() as u64) as usize,
        };
        ring.answer(memory, taken.remove(which), 1)?;
    }
}

/// Kills servers after these numbers of stores and lets the last one live; false if a server ended
/// before it was killed.
fn killed_after(stores: &[i64], with_notes: bool, in_order: bool, seed: u64) -> bool {
    let mut guest = Guest::new();
    let mut rng = Rng::named(seed, "kills");
    let life = Arc::new(AtomicI64::new(0));
    let region = |len| Region {
        guest: 0,
        len,
        user: 0,
        offset: 0,
    };
    let own = guest.file.try_clone().unwrap().into();
    let mut memory = Memory::map(vec![region(MEMORY)], vec![own]).unwrap();
    memory.life = Some(life.clone());
    let shape = Shape {
        bytes: span(SIZE),
        offset: 0,
        queues: 1,
        size: SIZE,
    };
    let mut inflight = Inflight::map(shape, file(span(SIZE)).into(), 1).unwrap();
    let notes = Arc::get_mut(&mut inflight.memory).unwrap();
    notes.life = Some(life.clone());
    let inflight = with_notes.then_some(&inflight);
    let mut all = true;
    for stores in stores.iter().copied().chain([i64::MAX]) {
        life.store(stores, Ordering::Relaxed);
        match live(&mut guest, &memory, inflight, in_order, &mut rng) {
            Ok(()) => {
                all &= stores == i64::MAX;
                break;
            }
            Err(Close::Broken(why)) if why == "killed" => {}
            Err(other) => panic!("{other:?}"),
        }
        // Between the two servers the guest goes on.
        guest.act(&mut rng);
    }
    assert_eq!(guest.answers, [1; REQUESTS], "killed after {stores:?}");
    all
}

/// inflight-I1 to inflight-I5: two kills, each after every store.
#[test]
fn servers_that_are_killed_after_any_store_leave_one_answer_to_each_request() {
    for (with_notes, in_order) in [(true, false), (true, true), (false, true)] {
        let mut kills = 0;
        for first in 0.. {
            for second in 0.. {
                let both = killed_after(&[first, second], with_notes, in_order, first as u64);
                kills += 1;
                if !both {
                    break;
                }
            }
            if !killed_after(&[first], with_notes, in_order, first as u64) {
                break;
            }
        }
        assert!(kills > 100, "{kills}");
    }
}

/// The other direction: without notes, the order is all that saves the requests (virtqueue-R3).
#[test]
#[should_panic(expected = "request")]
fn without_notes_a_server_that_answers_in_any_order_loses_requests() {
    for first in 0..60 {
        for seed in 0..8 {
            killed_after(&[first], false, false, seed);
        }
    }
}

/// The notes of one queue, and what they say behind a used index.
fn notes() -> Notes {
    let shape = Shape {
        bytes: span(SIZE),
        offset: 0,
        queues: 1,
        size: SIZE,
    };
    let inflight = Inflight::map(shape, file(span(SIZE)).into(), 1).unwrap();
    let mut notes = inflight.notes(0).unwrap();
    assert_eq!(heads(&mut notes, BEGIN), [0; 0]);
    notes
}

fn heads(notes: &mut Notes, used: u16) -> Vec<u16> {
    notes.recover(SIZE, used).unwrap().into()
}

/// inflight-I2: other servers answer several chains by one step of the used index.
#[test]
fn a_batch_of_another_server_is_known_by_its_list() {
    let mut notes = notes();
    for head in [2, 0, 3, 1] {
        notes.taken(head).unwrap();
    }
    for head in [3, 2] {
        notes.answering(head).unwrap();
    }
    // The used index has not moved: none has an answer.
    assert_eq!(heads(&mut notes, BEGIN), [2, 0, 3, 1]);
    assert_eq!(heads(&mut notes, BEGIN.wrapping_add(2)), [0, 1]);
    assert_eq!(heads(&mut notes, BEGIN.wrapping_add(2)), [0, 1]);
}

/// inflight-I7.
#[test]
fn notes_that_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&Notes), entries: u16, used: u16, why: &str| {
        let mut notes = notes();
        notes.taken(1).unwrap();
        change(&notes);
        match notes.recover(entries, used) {
            Err(Close::Broken(told)) => assert!(told.contains(why), "{told}"),
            other => panic!("{why}: {other:?}"),
        }
    };
    let half = |at: u64, value: u16| move |notes: &Notes| notes.set_half(at, value).unwrap();
    refused(
        &half(FEATURES_AT, 1),
        SIZE,
        BEGIN,
        "features 0x1, which are unknown",
    );
    refused(
        &half(VERSION_AT, 2),
        SIZE,
        BEGIN,
        "version 2, which is unknown",
    );
    refused(
        &half(SIZE_AT, 5),
        SIZE,
        BEGIN,
        "of 5 entries, told to have 4",
    );
    refused(&|_| {}, 8, BEGIN, "a queue of 8 entries in 4");
    let later = BEGIN.wrapping_add(SIZE + 1);
    refused(
        &|_| {},
        SIZE,
        later,
        "a batch of 5 answers that names chain 0 twice",
    );
    refused(
        &half(BATCH_AT, 4),
        SIZE,
        BEGIN.wrapping_add(1),
        "an answer to chain 4 of 4",
    );
    // A chain that a smaller queue does not have.
    refused(&|_| {}, 1, BEGIN, "chain 1 of 1");
}

/// inflight-I8: other servers begin notes by their version alone.
#[test]
fn notes_without_a_used_index_take_nothing_from_what_is_marked() {
    let mut notes = notes();
    notes.set_half(USED_AT, 0).unwrap();
    for head in [2, 0, 3] {
        notes.taken(head).unwrap();
    }
    // Within the queue and beyond it.
    for used in [2, SIZE, SIZE + 1, 500] {
        notes.set_half(USED_AT, 0).unwrap();
        assert_eq!(heads(&mut notes, used), [2, 0, 3]);
    }
    // From now on they are ours.
    notes.answering(0).unwrap();
    assert_eq!(heads(&mut notes, 501), [2, 3]);
}

/// inflight-I8: a queue was reset, and its notes were kept.
#[test]
fn notes_without_a_mark_are_of_any_used_index() {
    let mut notes = notes();
    notes.taken(3).unwrap();
    notes.answering(3).unwrap();
    notes.answered(3, BEGIN.wrapping_add(1)).unwrap();
    // The last of these would name a chain twice.
    for used in [0, 1, 500] {
        assert_eq!(heads(&mut notes, used), [0; 0]);
    }
    notes.taken(1).unwrap();
    assert_eq!(heads(&mut notes, 500), [1]);
}

/// Each queue has its part, and a queue beyond them has none.
#[test]
fn the_notes_of_each_queue_stand_alone() {
    let shape = Shape {
        bytes: 2 * span(SIZE),
        offset: 0,
        queues: 2,
        size: SIZE,
    };
    let file = file(shape.bytes);
    let own = file.try_clone().unwrap().into();
    let inflight = Inflight::map(shape, own, 4).unwrap();
    let [mut first, mut second] = [0, 1].map(|n| inflight.notes(n).unwrap());
    for notes in [&mut first, &mut second] {
        assert!(!notes.are_begun().unwrap());
        assert_eq!(heads(notes, BEGIN), [0; 0]);
        assert!(notes.are_begun().unwrap());
    }
    first.taken(1).unwrap();
    second.taken(2).unwrap();
    second.taken(0).unwrap();
    assert_eq!(heads(&mut first, BEGIN), [1]);
    assert_eq!(heads(&mut second, BEGIN), [2, 0]);
    // Where QEMU's library has them: 16 bytes before 16 a chain, rounded up to 64.
    let mut mark = [0];
    for (at, expected) in [
        (16 + 16, 1),
        (16 + 32, 0),
        (128 + 16 + 32, 1),
        (128 + 16 + 16, 0),
    ] {
        file.read_exact_at(&mut mark, at).unwrap();
        assert_eq!(mark[0], expected, "at {at}");
    }
    match inflight.notes(2) {
        Err(Close::Broken(why)) => assert!(why.contains("queue 2 with"), "{why}"),
        other => panic!("{other:?}"),
    }
}
