//! vhost-user with a client of our own: what an honest guest sees, and that a hostile one is let
//! go without harm.

use crate::device::{BYTES, Seen, Spy, by_vhost};
use crate::frontend::{
    AVAIL, BUFFERS, Desc, Frontend, GUEST, INDIRECT, MEMORY, NEXT, SIZE, USED, USER, WRITE, pair,
    region, rings,
};
use crate::virtio::{
    DISCARD, EVENT_IDX, FLUSH, GET_ID, IN, OUT, WITH_FLUSH, WITH_WCE, WRITE_ZEROES,
};
use base::{Nanos, Time};
use proptest::prelude::*;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use varve_serve::{Command, Served};

fn served(spy: &std::sync::Arc<Spy>) -> Served {
    Served::new(spy.clone()).unwrap()
}

/// What shows that the server lives: an honest client writes and reads back.
fn works(socket: &Path) {
    let mut client = Frontend::ready(socket, WITH_FLUSH);
    let block = [0x5a; 4096];
    assert_eq!(client.run(OUT, 8, &block, 0).0, 0);
    assert_eq!(client.run(IN, 8, &[], 4096), (0, block.to_vec()));
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [
        &sector.to_le_bytes()[..],
        &sectors.to_le_bytes(),
        &flags.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn every_request_does_what_it_says() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        works_in(&mut client);
        spy.seen();
        assert_eq!(client.run(FLUSH, 0, &[], 0).0, 0);
        assert_eq!(spy.seen(), [Seen::Flush, Seen::Done(2)]);
        let (status, id) = client.run(GET_ID, 0, &[], 20);
        assert_eq!((status, &id[..6]), (0, &b"varve\0"[..]));
        assert_eq!(client.run(DISCARD, 0, &range(8, 8, 0), 0).0, 0);
        assert_eq!(spy.seen()[0], Seen::Discard(8, 8));
        assert_eq!(client.run(WRITE_ZEROES, 0, &range(0, 8, 1), 0).0, 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 8, false));
        assert_eq!(client.run(IN, 0, &[], 512), (0, vec![0; 512]));
        // Unknown, unknown flags, outside, not whole.
        assert_eq!(client.run(77, 0, &[], 0).0, 2);
        assert_eq!(client.run(DISCARD, 0, &range(8, 8, 1), 0).0, 2);
        assert_eq!(client.run(WRITE_ZEROES, 0, &range(8, 8, 2), 0).0, 2);
        assert_eq!(client.run(WRITE_ZEROES, 0, &range(0, u32::MAX, 0), 0).0, 1);
        assert_eq!(client.run(DISCARD, 0, &range(8, 8, 0)[..15], 0).0, 1);
        assert_eq!(client.run(IN, BYTES / 512, &[], 512).0, 1);
        assert_eq!(client.run(IN, u64::MAX, &[], 512).0, 1);
        assert_eq!(client.run(IN, 0, &[], 513).0, 1);
        assert_eq!(client.run(OUT, 0, &[1; 513], 0).0, 1);
        assert_eq!(client.run(OUT, 0, &[], 0).0, 1);
        works_in(&mut client);
    });
    assert_eq!(told, [] as [&str; 0]);
}

fn works_in(client: &mut Frontend) {
    assert_eq!(client.run(OUT, 0, &[9; 4096], 0).0, 0);
    assert_eq!(client.run(IN, 0, &[], 4096), (0, vec![9; 4096]));
}

#[test]
fn v3_write_through_is_durable_when_it_is_answered() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        // A guest that knows neither flush nor mode.
        let mut client = Frontend::ready(socket, 0);
        client.run(OUT, 0, &[1; 512], 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 1, true));
        drop(client);
        let mut client = Frontend::ready(socket, WITH_FLUSH | WITH_WCE);
        client.run(OUT, 0, &[1; 512], 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 1, false));
        // The way into write through is a flush.
        let mode = [&32u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[0; 4], &[0]].concat();
        assert_eq!(client.ack(25, &mode), Some(0));
        assert_eq!(spy.seen()[0], Seen::Flush);
        client.run(OUT, 0, &[1; 512], 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 1, true));
        assert_eq!(client.ack(25, &[&mode[..12], &[1]].concat()), Some(0));
        client.run(OUT, 0, &[1; 512], 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 1, false));
    });
}

#[test]
fn the_configuration_is_answered_as_long_as_asked() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, 0);
        for len in [8, 60, 96, 256] {
            let mut ask = vec![0; 12 + len];
            ask[4..8].copy_from_slice(&(len as u32).to_le_bytes());
            let answer = client.answer(24, 1, &ask).unwrap();
            assert_eq!(answer.len(), 12 + len);
            assert_eq!(answer[12..20], (BYTES / 512).to_le_bytes());
        }
        assert_eq!(client.ask(17, &[]), 4);
        // The base of a queue that stops is what it has answered.
        client.run(FLUSH, 0, &[], 0);
        assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 1));
    });
}

/// A client goes while its writes are on their way: the device gets them, nobody is answered, and
/// after it has come back they are done again and answered.
#[test]
fn v2_a_lost_connection_loses_no_request() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.run(OUT, 0, &[1; 512], 0);
        spy.seen();
        let later = rt::now().0 + 150_000_000;
        *spy.until.lock() = Some(Time(later));
        client.request(OUT, 1, &[2; 512], 0);
        while spy.at(1, 1)[0] != 2 {
            rt::sleep(Nanos(1_000_000));
        }
        let mut client = Frontend::again(socket, client, WITH_FLUSH);
        // session-V2: the former connection was worked off before this one was let in.
        assert!(rt::now().0 >= later);
        assert_eq!(client.used().map(|(head, _)| head), Some(0));
        assert_eq!(client.answered(), 2);
        let writes = spy
            .seen()
            .into_iter()
            .filter(|seen| matches!(seen, Seen::Write(..)));
        assert_eq!(writes.collect::<Vec<_>>(), [Seen::Write(1, 1, false); 2]);
    });
    assert_eq!(told, [] as [&str; 0]);
}

/// virtqueue-R5.
#[test]
fn r5_with_event_indices_a_guest_hears_of_what_it_wants() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH | EVENT_IDX);
        assert_ne!(client.ask(1, &[]) & EVENT_IDX, 0, "it is offered");
        client.want(3);
        for (answer, called) in [true, false, false, true, false].into_iter().enumerate() {
            let answer = answer as u16;
            client.request(FLUSH, 0, &[], 0);
            while client.answered() != answer + 1 {
                rt::sleep(Nanos(1_000_000));
            }
            // Behind this message the call was made, if it was.
            client.ask(1, &[]);
            assert_eq!(client.is_called(), called, "answer {answer}");
            assert_eq!(client.wanted(), answer + 1, "the next offer is asked for");
        }
        // Another guest is told of each.
        drop(client);
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.want(77);
        assert!((0..3).all(|_| client.run(FLUSH, 0, &[], 0).0 == 0));
    });
}

#[test]
fn what_is_under_way_leaves_the_client_free_to_ask() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        let later = rt::now().0 + 200_000_000;
        *spy.until.lock() = Some(Time(later));
        client.request(FLUSH, 0, &[], 0);
        client.ask(1, &[]);
        assert!(rt::now().0 < later, "a message does not wait for a request");
        assert_eq!(
            client.answered(),
            0,
            "session-V1: no answer before its time"
        );
        client.used();
        assert!(rt::now().0 >= later);
    });
}

/// A chain that breaks a rule ends the connection with a reason, and touches nothing.
fn refused(table: &[Desc], head: u16, why: &str) {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.put(BUFFERS, &[0; 4096]);
        client.offer(table, head);
        assert_eq!(client.used(), None, "{why}");
        assert!(client.is_let_go(), "{why}");
        works(socket);
    });
    assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
}

fn desc(at: u64, len: u32, flags: u16, next: u16) -> Desc {
    Desc {
        at,
        len,
        flags,
        next,
    }
}

#[test]
fn r1_a_loop_of_descriptors_ends() {
    refused(
        &[desc(BUFFERS, 16, NEXT, 0)],
        0,
        "more than 1024 descriptors",
    );
    refused(&[desc(BUFFERS, 16, NEXT, 64)], 0, "descriptor 64 of 64");
    refused(&[], 64, "descriptor 64 of 64");
}

#[test]
fn r2_directions_are_not_mixed_up() {
    let mixed = [desc(BUFFERS, 16, NEXT | WRITE, 1), desc(BUFFERS, 16, 0, 0)];
    refused(&mixed, 0, "behind what may be written");
    refused(&[desc(BUFFERS, 16, 0, 0)], 0, "without room for its status");
    refused(
        &[desc(BUFFERS, 0, WRITE, 0)],
        0,
        "without room for its status",
    );
}

#[test]
fn indirect_tables_are_checked() {
    let within = |len, flags| desc(BUFFERS, len, INDIRECT | flags, 0);
    refused(&[within(0, 0)], 0, "indirect table");
    refused(&[within(17, 0)], 0, "indirect table");
    refused(&[within(16, NEXT)], 0, "indirect table");
    refused(
        &[desc(u64::MAX - 0x10_0000 - 8, 32, INDIRECT, 0)],
        0,
        "beyond all addresses",
    );
    refused(&[desc(MEMORY, 32, INDIRECT, 0)], 0, "of the guest");
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        let inner = [
            desc(BUFFERS + 64, 16, NEXT, 1),
            desc(BUFFERS + 128, 1, WRITE, 0),
        ];
        client.put(BUFFERS, &inner.map(|desc| desc.bytes()).concat());
        client.put(BUFFERS + 64, &FLUSH.to_le_bytes());
        client.offer(&[within(32, 0)], 0);
        assert_eq!(client.used(), Some((0, 1)));
        // An indirect table in an indirect one.
        client.put(BUFFERS, &within(32, 0).bytes());
        client.offer(&[within(32, 0)], 0);
        assert_eq!(client.used(), None);
    });
}

#[test]
fn places_outside_of_the_memory_are_refused() {
    let status = desc(BUFFERS + 0x800, 1, WRITE, 0);
    for at in [MEMORY, MEMORY - 8, u64::MAX, u64::MAX - 0x10_0000] {
        refused(&[desc(at, 16, NEXT, 1), status], 0, "of the guest");
    }
    let head = desc(BUFFERS, 16, NEXT, 1);
    let end = u64::MAX - 0x10_0000;
    refused(&[head, desc(end, 513, WRITE, 0)], 0, "beyond all addresses");
    // A read whose room is partly outside.
    refused(
        &[head, desc(MEMORY - 512, 1024, WRITE | NEXT, 2), status],
        0,
        "of the guest",
    );
}

#[test]
fn what_is_too_long_is_an_error_of_the_request() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.put(BUFFERS, &[0; 4096]);
        let long = desc(BUFFERS + 0x1000, u32::MAX, WRITE | NEXT, 2);
        let status = desc(BUFFERS + 0x800, 1, WRITE, 0);
        client.offer(&[desc(BUFFERS, 16, NEXT, 1), long, status], 0);
        assert_eq!(client.used(), Some((0, 1)));
        assert_eq!(client.get(BUFFERS + 0x800, 1), [1]);
        // A head that is too short.
        client.offer(&[desc(BUFFERS, 15, NEXT, 2), long, status], 0);
        assert_eq!(client.used(), Some((0, 1)));
        assert_eq!(client.get(BUFFERS + 0x800, 1), [1]);
        // What it sends is too long, though the answer would be short.
        client.put(BUFFERS, &8u32.to_le_bytes());
        let sent = desc(0, MEMORY as u32, NEXT, 2);
        let table = [
            desc(BUFFERS, 16, NEXT, 1),
            sent,
            desc(0, MEMORY as u32, NEXT, 3),
            desc(0, MEMORY as u32, NEXT, 4),
            desc(0, MEMORY as u32, NEXT, 5),
            desc(0, MEMORY as u32, NEXT, 6),
            desc(BUFFERS + 0x700, 20, WRITE | NEXT, 7),
            status,
        ];
        client.offer(&table, 0);
        assert_eq!(client.used(), Some((0, 1)));
        assert_eq!(client.get(BUFFERS + 0x800, 1), [1]);
        // More entries than the queue has.
        client.announce(1000);
        assert_eq!(client.used(), None);
        works(socket);
    });
}

#[test]
fn messages_that_make_no_sense_end_the_connection() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let each: [&dyn Fn(&mut Frontend); 12] = [
            &|c| c.raw(&[0xff; 12], &[]),
            &|c| c.raw(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &[]),
            &|c| c.tell(99, &[], &[]),
            &|c| c.tell(2, &[0; 7], &[]),
            &|c| c.tell(8, &pair(4, 64), &[]),
            &|c| c.tell(24, &[0xff; 12], &[]),
            &|c| c.share(&region(MEMORY), Some(&[])),
            &|c| c.share(&region(MEMORY + 4096), None),
            &|c| c.share(&region(0), None),
            &|c| {
                // Two regions with one descriptor.
                let mut table = vec![2, 0, 0, 0, 0, 0, 0, 0];
                table.extend_from_slice(&region(4096));
                let mut second = region(4096);
                second[..8].copy_from_slice(&(2 * GUEST).to_le_bytes());
                table.extend_from_slice(&second);
                c.tell(5, &table, &[c.memory.as_fd()]);
            },
            &|c| {
                // A queue of no possible size.
                c.share(&region(MEMORY), None);
                c.tell(8, &pair(0, 65), &[]);
                c.tell(9, &rings(USER, USER + USED, USER + AVAIL), &[]);
                c.tell_fd(12, &[0; 8], 0);
            },
            &|c| {
                // Rings that are nowhere.
                c.share(&region(MEMORY), None);
                c.tell(8, &pair(0, 64), &[]);
                c.tell(9, &rings(1, u64::MAX, 3), &[]);
                c.tell_fd(12, &[0; 8], 0);
            },
        ];
        for (n, act) in each.iter().enumerate() {
            let mut client = Frontend::connect(socket);
            act(&mut client);
            assert!(client.is_let_go(), "{n}");
        }
        works(socket);
    });
    assert_eq!(told.len(), 12, "{told:#?}");
}

/// session-V4: a guest that asks for more than is kept for it waits, and is answered whole without
/// another kick.
#[test]
fn v4_what_is_under_way_has_a_bound() {
    const ROOM: u32 = 2 << 20;
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        let later = rt::now().0 + 300_000_000;
        *spy.until.lock() = Some(Time(later));
        client.put(BUFFERS, &[0; 16]);
        let table = [
            desc(BUFFERS, 16, NEXT, 1),
            desc(BUFFERS + 0x10_0000, ROOM, WRITE | NEXT, 2),
            desc(BUFFERS + 0x800, 1, WRITE, 0),
        ];
        for _ in 0..SIZE {
            client.offer(&table, 0);
        }
        // A message that comes together with a kick is answered first; before the next one the
        // queue is looked at.
        client.ask(1, &[]);
        client.ask(1, &[]);
        let sectors: u64 = spy
            .seen()
            .iter()
            .map(|seen| match seen {
                Seen::Read(_, n) => *n,
                _ => 0,
            })
            .sum();
        assert!(rt::now().0 < later);
        assert!(
            sectors > 0 && sectors * 512 <= (64 << 20) + u64::from(ROOM),
            "{sectors}"
        );
        for n in 0..SIZE {
            assert_eq!(client.used(), Some((0, ROOM + 1)), "{n}");
        }
    });
}

#[test]
fn a_half_message_keeps_nobody_from_ending() {
    let spy = Spy::new(true);
    let mut kept = None;
    by_vhost(served(&spy), |socket| {
        let client = Frontend::connect(socket);
        client.raw(&[1, 0, 0, 0, 1], &[]);
        kept = Some(client);
    });
    assert!(kept.unwrap().is_let_go());
}

type Messages = Vec<(u32, u32, Vec<u8>, bool)>;

/// Any bytes at the socket.
pub fn any_messages() -> impl Strategy<Value = Messages> {
    let payload = prop::collection::vec(any::<u8>(), 0..80);
    prop::collection::vec((0u32..40, 0u32..16, payload, any::<bool>()), 1..12)
}

/// The server lives after such a client.
pub fn bears_messages(messages: Messages) -> Result<(), TestCaseError> {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let client = Frontend::connect(socket);
        for (request, flags, payload, with_file) in &messages {
            let mut bytes = request.to_le_bytes().to_vec();
            bytes.extend_from_slice(&flags.to_le_bytes());
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(payload);
            let file = [client.memory.as_fd()];
            client.raw(&bytes, if *with_file { &file } else { &[] });
        }
        drop(client);
        works(socket);
    });
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn clients_with_any_messages(case in any_messages()) {
        bears_messages(case)?;
    }

    #[test]
    fn any_rings(case in any_tables()) {
        bears_rings(case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn memory_that_changes_meanwhile(case in any_pokes()) {
        bears_pokes(case)?;
    }
}

/// A table of descriptors, and who offers it how.
#[derive(Clone, Debug)]
pub struct Tables {
    table: Vec<(u64, u32, u16, u16)>,
    heads: Vec<u16>,
    kinds: Vec<u8>,
    far: u64,
    events: bool,
    wanted: u16,
}

/// Any table of descriptors, offered in any order, most of it near what makes sense.
pub fn any_tables() -> impl Strategy<Value = Tables> {
    let len = prop_oneof![Just(16u32), Just(1), Just(512), any::<u32>()];
    let table = prop::collection::vec((0u64..0x30, len, 0u16..8, 0u16..8), 1..8);
    let heads = prop::collection::vec(0u16..9, 1..6);
    let kinds = prop::collection::vec(any::<u8>(), 64);
    let all = (
        table,
        heads,
        kinds,
        any::<u64>(),
        any::<bool>(),
        any::<u16>(),
    );
    all.prop_map(|(table, heads, kinds, far, events, wanted)| Tables {
        table,
        heads,
        kinds,
        far,
        events,
        wanted,
    })
}

/// The device saw nothing that lies outside of it.
fn stays_inside(spy: &Spy) -> Result<(), TestCaseError> {
    for seen in spy.seen() {
        if let Seen::Read(lba, n) | Seen::Write(lba, n, _) | Seen::Discard(lba, n) = seen {
            prop_assert!(lba + n <= BYTES / 512);
        }
    }
    Ok(())
}

/// Each offer is answered, or the connection ends.
pub fn bears_rings(case: Tables) -> Result<(), TestCaseError> {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let features = if case.events {
            WITH_FLUSH | EVENT_IDX
        } else {
            WITH_FLUSH
        };
        let mut client = Frontend::ready(socket, features);
        client.want(case.wanted);
        client.put(
            BUFFERS,
            &case.kinds.iter().map(|kind| kind % 16).collect::<Vec<_>>(),
        );
        let table: Vec<Desc> = (case.table.iter())
            .map(|&(at, len, flags, next)| {
                let at = if at == 0x2f {
                    case.far
                } else {
                    BUFFERS + 16 * at
                };
                desc(at, len, flags, next)
            })
            .collect();
        for head in &case.heads {
            client.offer(&table, *head);
        }
        // Whether the client hears of it or not.
        client.settle(case.heads.len() as u16);
        drop(client);
        works(socket);
    });
    stays_inside(&spy)
}

/// What a guest stores while it is served, byte by byte.
#[derive(Clone, Debug)]
pub struct Pokes {
    rings: Vec<(u64, u8, bool)>,
    buffers: Vec<(u64, u8)>,
    notes: Vec<(u64, u8)>,
    indices: Vec<u16>,
    events: bool,
}

/// A guest that changes rings, descriptors, requests and the notes of what is under way while they
/// are worked on, and announces what it likes.
pub fn any_pokes() -> impl Strategy<Value = Pokes> {
    let rings = prop::collection::vec((0u64..0x4000, any::<u8>(), any::<bool>()), 1..400);
    let buffers = prop::collection::vec((0u64..0x60, any::<u8>()), 0..100);
    let notes = prop::collection::vec((0u64..0x200, any::<u8>()), 0..100);
    let indices = prop::collection::vec(any::<u16>(), 1..20);
    let all = (rings, buffers, notes, indices, any::<bool>());
    all.prop_map(|(rings, buffers, notes, indices, events)| Pokes {
        rings,
        buffers,
        notes,
        indices,
        events,
    })
}

/// It is answered or let go, and so is the next client with what it left of the notes.
pub fn bears_pokes(case: Pokes) -> Result<(), TestCaseError> {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let features = if case.events {
            WITH_FLUSH | EVENT_IDX
        } else {
            WITH_FLUSH
        };
        let mut client = Frontend::noted(socket, features);
        for _ in 0..8 {
            client.request(OUT, 8, &[1; 512], 0);
        }
        let mut announced = case.indices.iter();
        for (n, (at, byte, ring)) in case.rings.iter().enumerate() {
            // In the table of descriptors, or in one of the rings.
            let at = if *ring { *at } else { *at % 0x400 };
            client.put(at, &[*byte]);
            if let Some((at, byte)) = case.buffers.get(n) {
                client.put(BUFFERS + at, &[*byte]);
            }
            if let (Some((at, byte)), Some((_, file))) = (case.notes.get(n), &client.notes) {
                file.write_all_at(&[*byte], *at).unwrap();
            }
            if n % 16 == 0 {
                let next = announced.next().map_or(1, |i| i % 64);
                client.announce(client.answered().wrapping_add(next));
            }
        }
        client.come_back(socket);
        client.agree(features);
        client.start_queue();
        drop(client);
        works(socket);
    });
    stays_inside(&spy)
}

#[test]
fn a_client_in_the_middle_of_a_write_leaves_the_device_usable() {
    let spy = Spy::new(false);
    let served = served(&spy);
    let run = served.run(Command::Flush);
    assert!(run.is_ok());
    by_vhost(served, |socket| {
        for _ in 0..20 {
            let mut client = Frontend::ready(socket, WITH_FLUSH);
            client.request(OUT, 0, &[3; 4096], 0);
        }
        works(socket);
    });
}
