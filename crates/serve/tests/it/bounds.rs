//! Bounds of what a client of vhost-user may send, and what a queue does that is off or was not
//! agreed upon. For each there is a guard that no other test sees missing.

use crate::device::{Seen, Spy, by_vhost, by_vhost_with};
use crate::frontend::{
    AVAIL, BUFFERS, Desc, Frontend, INDIRECT, MEMORY, NEXT, SIZE, USED, USER, WRITE, pair, region,
    rings,
};
use crate::virtio::{DISCARD, FLUSH, GET_ID, OUT, WITH_FLUSH, WITH_WCE, WRITE_ZEROES};
use base::{Bytes, Lba};
use blockdev::{BlockDevice, Caps, DevError, DevErrorKind, Ram, Reply, Request, Ticket};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::AsFd;
use std::sync::Arc;
use varve_serve::{Command, Served, vhost};

fn served(spy: &Arc<Spy>) -> Served {
    Served::new(spy.clone()).unwrap()
}

fn desc(at: u64, len: u32, flags: u16, next: u16) -> Desc {
    Desc {
        at,
        len,
        flags,
        next,
    }
}

/// What a client does ends its connection, for this reason.
fn refused(why: &str, act: impl FnOnce(&mut Frontend)) {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::connect(socket);
        act(&mut client);
        assert!(client.is_let_go(), "{why}");
    });
    assert!(told.len() == 1 && told[0].contains(why), "{told:?}: {why}");
}

/// A change of the configuration space.
fn mode(at: u32, value: u8) -> Vec<u8> {
    let words = [at, 1, 0].map(u32::to_le_bytes);
    [&words.concat()[..], &[value]].concat()
}

#[test]
fn a_message_is_of_this_version_and_no_answer() {
    refused("flags 0x2", |c| {
        c.raw(&[3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], &[])
    });
    refused("flags 0x5", |c| {
        c.raw(&[3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0], &[])
    });
}

#[test]
fn events_and_notes_come_with_one_descriptor() {
    let event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    refused("did not come alone", |c| {
        c.agree(WITH_FLUSH);
        c.tell(13, &[0; 8], &[event().as_fd(), event().as_fd()]);
    });
    refused("without its file", |c| {
        c.agree(WITH_FLUSH);
        let mut shape = vec![0; 20];
        shape[..8].copy_from_slice(&1088u64.to_le_bytes());
        shape[16..].copy_from_slice(&[1, 0, 64, 0]);
        c.tell(32, &shape, &[c.memory.as_fd(), c.memory.as_fd()]);
    });
}

#[test]
fn of_the_configuration_only_the_mode_changes() {
    let change = |features: u64, what: Vec<u8>| {
        refused("a change of what is fixed", |c| {
            c.agree(features);
            c.tell(25, &what, &[]);
        });
    };
    change(WITH_FLUSH | WITH_WCE, mode(31, 1));
    change(WITH_FLUSH | WITH_WCE, mode(32, 2));
    change(WITH_FLUSH, mode(32, 1));
}

/// Rings are where the protocol lets them be, whole and in one region, and of a possible size.
#[test]
fn rings_are_whole_and_aligned() {
    let place = |size: u32, rings: Vec<u8>, why: &str| {
        refused(why, |c| {
            c.agree(WITH_FLUSH);
            c.share(&region(MEMORY), None);
            c.tell(8, &pair(0, size), &[]);
            c.tell(9, &rings, &[]);
            c.tell_fd(12, &[0; 8], 0);
        });
    };
    let size = u32::from(SIZE);
    let (used, avail) = (USER + USED, USER + AVAIL);
    place(size, rings(USER + 8, used, avail), "no place for it");
    place(size, rings(USER, used + 2, avail), "no place for it");
    place(size, rings(USER, used, avail + 1), "no place for it");
    // The used ring needs 518 bytes.
    place(
        size,
        rings(USER, USER + MEMORY - 512, avail),
        "no place for it",
    );
    place(65536, rings(USER, used, avail), "a queue of 65536 entries");
}

/// virtqueue-R1: a chain of as many descriptors as there may be is taken, and of one more refused.
#[test]
fn r1_the_longest_chain() {
    for (len, why) in [
        (1024u32, ""),
        (1025, "a chain of more than 1024 descriptors"),
    ] {
        let spy = Spy::new(true);
        let told = by_vhost(served(&spy), |socket| {
            let mut client = Frontend::ready(socket, WITH_FLUSH);
            // The one that leads to the table counts as well.
            let inner = len - 1;
            let table = BUFFERS + 0x1_0000;
            for n in 0..inner {
                let (at, bytes) = (BUFFERS + 16 * u64::from(n), if n == 0 { 16 } else { 0 });
                let one = match n + 1 == inner {
                    true => desc(BUFFERS + 0x8000, 1, WRITE, 0),
                    false => desc(at, bytes, NEXT, n as u16 + 1),
                };
                client.put(table + 16 * u64::from(n), &one.bytes());
            }
            client.put(BUFFERS, &FLUSH.to_le_bytes());
            client.offer(&[desc(table, 16 * inner, INDIRECT, 0)], 0);
            assert_eq!(client.used().is_some(), why.is_empty());
        });
        assert_eq!(told.len(), usize::from(!why.is_empty()));
        assert!(told.iter().all(|said| said.contains(why)), "{told:?}");
    }
}

/// The second table would be read, and its request be done.
#[test]
fn an_indirect_table_holds_none() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        let inner = [
            desc(BUFFERS + 0x100, 16, NEXT, 1),
            desc(BUFFERS + 0x200, 1, WRITE, 0),
        ];
        client.put(BUFFERS + 0x1000, &inner.map(|desc| desc.bytes()).concat());
        client.put(BUFFERS, &desc(BUFFERS + 0x1000, 32, INDIRECT, 0).bytes());
        client.put(BUFFERS + 0x100, &FLUSH.to_le_bytes());
        client.offer(&[desc(BUFFERS, 16, INDIRECT, 0)], 0);
        assert_eq!(client.used(), None);
    });
    assert!(told[0].contains("an indirect table"), "{told:?}");
}

/// A part of the serial number is none.
#[test]
fn the_serial_number_needs_its_room() {
    by_vhost(served(&Spy::new(true)), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        assert_eq!(client.run(GET_ID, 0, &[], 19), (1, vec![0; 19]));
        assert_eq!(client.run(GET_ID, 0, &[], 20).0, 0);
    });
}

/// Room of no length behind that of the status holds no status.
#[test]
fn the_status_is_the_last_byte_that_there_is() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.put(BUFFERS, &FLUSH.to_le_bytes());
        client.put(BUFFERS + 0x200, &[0xff]);
        let table = [
            desc(BUFFERS, 16, NEXT, 1),
            desc(BUFFERS + 0x200, 1, WRITE | NEXT, 2),
            desc(BUFFERS + 0x300, 0, WRITE, 0),
        ];
        client.offer(&table, 0);
        assert_eq!(client.used(), Some((0, 1)));
        assert_eq!(client.get(BUFFERS + 0x200, 1), [0]);
    });
}

/// A queue works when it is enabled; without features of the protocol nothing enables it, so then
/// it works from its kick on.
#[test]
fn a_queue_works_when_it_is_on() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        assert_eq!(client.ack(18, &pair(0, 0)), Some(0));
        client.request(FLUSH, 0, &[], 0);
        // Two turns of the server.
        client.ask(1, &[]);
        client.ask(1, &[]);
        assert_eq!((client.answered(), spy.seen()), (0, vec![]));
        assert_eq!(client.ack(18, &pair(0, 1)), Some(0));
        assert_eq!(client.used(), Some((0, 1)));
    });
    by_vhost(served(&Spy::new(true)), |socket| {
        let mut client = Frontend::connect(socket);
        client.tell(2, &(WITH_FLUSH | 1 << 32).to_le_bytes(), &[]);
        client.share(&region(MEMORY), None);
        client.tell(8, &pair(0, u32::from(SIZE)), &[]);
        client.tell(9, &rings(USER, USER + USED, USER + AVAIL), &[]);
        client.tell_fd(13, &[0; 8], 1);
        client.tell_fd(12, &[0; 8], 0);
        assert_eq!(client.run(FLUSH, 0, &[], 0).0, 0);
    });
}

/// Without event indices a guest says by a flag that it wants to hear of nothing.
#[test]
fn a_guest_that_wants_no_calls_gets_none() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        // That of the queue that starts (inflight-I6).
        assert!(client.is_called());
        for (flag, called) in [(1u16, false), (0, true)] {
            client.put(AVAIL, &flag.to_le_bytes());
            let before = client.answered();
            client.request(FLUSH, 0, &[], 0);
            client.settle(before + 1);
            client.ask(1, &[]);
            assert_eq!(client.is_called(), called);
        }
    });
}

/// session-V6: a queue that is stopped and starts again goes on upon the device that it knows, with
/// notes of its own time and without.
#[test]
fn v6_a_queue_that_was_stopped_goes_on() {
    let options = vhost::Options {
        blank: true,
        ..vhost::Options::default()
    };
    for connect in [Frontend::ready, Frontend::noted] {
        let told = by_vhost_with(served(&Spy::new(true)), &options, |socket| {
            let mut client = connect(socket, WITH_FLUSH);
            assert_eq!(client.run(FLUSH, 0, &[], 0).0, 0);
            assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 1));
            client.set_up_queue();
            assert_eq!(client.run(FLUSH, 0, &[], 0).0, 0);
        });
        assert_eq!(told, [] as [&str; 0]);
    }
}

/// session-V3: who has chosen before its queue starts is not asked to choose again, and in
/// write-through mode zeros are durable as well.
#[test]
fn v3_a_choice_before_the_queue_starts_is_kept() {
    let spy = Spy::new(true);
    let features = WITH_FLUSH | WITH_WCE;
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, features);
        assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
        client.come_back(socket);
        client.agree(features);
        assert_eq!(client.ack(25, &mode(32, 1)), Some(0));
        client.set_up_queue();
        spy.seen();
        assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 1, false));
        assert_eq!(client.ack(25, &mode(32, 0)), Some(0));
        spy.seen();
        let range = [&[0; 8][..], &8u32.to_le_bytes(), &[0; 4]].concat();
        assert_eq!(client.run(WRITE_ZEROES, 0, &range, 0).0, 0);
        assert_eq!(spy.seen()[0], Seen::Write(0, 8, true));
    });
}

/// A client that says nothing, and has no queue, keeps nobody from ending.
#[test]
fn a_silent_client_keeps_nobody_from_ending() {
    let mut kept = None;
    by_vhost(served(&Spy::new(true)), |socket| {
        let mut client = Frontend::connect(socket);
        client.ask(1, &[]);
        kept = Some(client);
    });
    assert!(kept.unwrap().is_let_go());
}

/// A device of sectors of 4 KiB that knows no discard.
pub struct Coarse(pub Ram);

impl BlockDevice for Coarse {
    fn caps(&self) -> Caps {
        Caps {
            sector_bytes: 4096,
            discard: false,
            ..self.0.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let (lba, sectors) = request.span().unwrap_or((Lba(0), 0));
        assert!(
            lba.0.is_multiple_of(8) && sectors.is_multiple_of(8),
            "a part of a sector"
        );
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.0.wait(ticket)
    }
}

/// served-S4: a part of a sector of the device is refused.
#[test]
fn s4_a_part_of_a_sector_is_refused() {
    let served = Served::new(Arc::new(Coarse(Ram::new(1 << 20)))).unwrap();
    for (sector, sectors) in [(1, 8), (0, 7), (8, 1)] {
        let read = Command::Read {
            lba: Lba(sector),
            sectors,
        };
        assert_eq!(served.run(read).unwrap_err().kind, DevErrorKind::Misuse);
        let write = Command::Write {
            lba: Lba(sector),
            bytes: Bytes::from(vec![1; 512 * sectors as usize]),
            fua: false,
        };
        assert_eq!(served.run(write).unwrap_err().kind, DevErrorKind::Misuse);
    }
}

#[test]
fn a_discard_that_is_not_offered_is_unknown() {
    let coarse = Served::new(Arc::new(Coarse(Ram::new(1 << 20)))).unwrap();
    by_vhost(coarse, |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        assert_eq!(client.ask(1, &[]) & 1 << 13, 0, "it is not offered");
        let range = [&[0; 8][..], &8u32.to_le_bytes(), &[0; 4]].concat();
        assert_eq!(client.run(DISCARD, 0, &range, 0).0, 2);
    });
}
