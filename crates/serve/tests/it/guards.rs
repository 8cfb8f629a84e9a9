//! Guards that no other test sees missing: what stops while requests are under way, descriptors
//! that are none of an event, a server that has ended, a device that is read-only.

use crate::device::{BYTES, Seen, Spy, by_vhost, by_vhost_with};
use crate::frontend::{AVAIL, Frontend, MEMORY, SIZE, USED, USER, pair, region, rings};
use crate::virtio::{DISCARD, EVENT_IDX, FLUSH, OUT, WITH_FLUSH, WITH_WCE, WRITE_ZEROES};
use base::{Lba, Nanos, Time};
use blockdev::{BlockDevice, Caps, DevError, DevErrorKind, Ram, Reply, Request, Ticket};
use rt::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use varve_serve::{Command, Served, vhost};

fn served(spy: &Arc<Spy>) -> Served {
    Served::new(spy.clone()).unwrap()
}

/// A write is under way for 200 ms while the client acts; it is done once and has its answer when
/// the act is over, and what the device saw is handed back.
fn while_a_write_is_under_way(act: impl FnOnce(&mut Frontend)) -> Vec<Seen> {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH | WITH_WCE);
        *spy.until.lock() = Some(Time(rt::now().0 + 200_000_000));
        client.request(OUT, 1, &[2; 512], 0);
        while spy.at(1, 1)[0] != 2 {
            rt::sleep(Nanos(1_000_000));
        }
        act(&mut client);
        // Behind the answer to this message the act is over.
        client.ask(1, &[]);
        assert_eq!(client.answered(), 1);
    });
    assert_eq!(told, [] as [&str; 0]);
    let seen = spy.seen();
    let writes = seen.iter().filter(|seen| matches!(seen, Seen::Write(..)));
    assert_eq!(writes.count(), 1, "{seen:?}");
    seen
}

/// session-V2: before memory goes away, before a queue starts anew, and before it stops.
#[test]
fn v2_what_is_under_way_is_answered_first() {
    while_a_write_is_under_way(|client| client.share(&region(MEMORY), None));
    while_a_write_is_under_way(|client| client.tell_fd(12, &0u64.to_le_bytes(), 0));
    while_a_write_is_under_way(|client| {
        assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 1));
    });
}

/// session-V3: a write that was under way on the way into write-through is covered by the flush.
#[test]
fn v3_the_flush_covers_what_was_under_way() {
    let seen = while_a_write_is_under_way(|client| {
        let mode = [&32u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[0; 4], &[0]].concat();
        assert_eq!(client.ack(25, &mode), Some(0));
    });
    let order = matches!(
        seen[..3],
        [Seen::Write(1, 1, false), Seen::Done(_), Seen::Flush]
    );
    assert!(order, "{seen:?}");
}

/// session-V3: what a client that comes back has chosen, an earlier server was told.
#[test]
fn v3_who_comes_back_is_written_through_until_it_says_otherwise() {
    let spy = Spy::new(true);
    let is_durable = |client: &mut Frontend| {
        assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
        spy.seen()[0] == Seen::Write(0, 1, true)
    };
    let told = by_vhost(served(&spy), |socket| {
        let features = WITH_FLUSH | WITH_WCE;
        let mut client = Frontend::ready(socket, features);
        assert!(!is_durable(&mut client));
        // A queue that is stopped for a while is none that comes back.
        assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 1));
        client.tell_fd(12, &0u64.to_le_bytes(), 0);
        assert!(!is_durable(&mut client));
        let mut client = Frontend::again(socket, client, features);
        assert!(is_durable(&mut client));
        let mode = [&32u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[0; 4], &[1]].concat();
        assert_eq!(client.ack(25, &mode), Some(0));
        assert!(!is_durable(&mut client));
    });
    assert_eq!(told, [] as [&str; 0]);
}

/// A client may have agreed with an earlier server on rings that this one does not know.
#[test]
fn features_that_were_not_offered_are_refused_by_name() {
    const IOMMU: u32 = 33;
    const PACKED: u32 = 34;
    for bit in [IOMMU, PACKED] {
        let spy = Spy::new(true);
        let told = by_vhost(served(&spy), |socket| {
            let mut client = Frontend::connect(socket);
            let features = client.ask(1, &[]) | 1 << bit;
            client.tell(2, &features.to_le_bytes(), &[]);
            assert!(client.is_let_go());
        });
        let why = format!("features {:#x}, which were not offered", 1u64 << bit);
        assert!(told.len() == 1 && told[0].contains(&why), "{told:?}");
    }
}

/// A server that polls tells the guest to send no kicks; this one waits for them.
#[test]
fn a_guest_is_told_to_kick_again() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::connect(socket);
        client.put(USED, &1u16.to_le_bytes());
        client.agree(WITH_FLUSH);
        client.set_up_queue();
        assert_eq!(client.get(USED, 2), [0, 0]);
    });
}

/// virtqueue-R5: the first answer of a server is told, whatever its guest has said before.
#[test]
fn r5_the_first_answer_is_told() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH | EVENT_IDX);
        client.want(77);
        // The call of a queue that starts (inflight-I6).
        assert!(client.is_called());
        client.request(FLUSH, 0, &[], 0);
        client.settle(1);
        client.ask(1, &[]);
        assert!(client.is_called());
    });
}

/// What a client hands over as the event of its kicks ends the connection with that reason, once
/// it shows that it is none.
fn no_event(kick: BorrowedFd<'_>, why: &str) {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        client.tell(12, &0u64.to_le_bytes(), &[kick]);
        assert!(client.is_let_go(), "{why}");
    });
    assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
}

#[test]
fn a_kick_that_is_no_event_is_refused() {
    let empty = tempfile::tempfile().unwrap();
    no_event(empty.as_fd(), "a kick that is no event");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    no_event(writer.as_fd(), "a kick that cannot be waited for");
}

#[test]
fn a_kick_never_blocks_the_server() {
    let spy = Spy::new(true);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        let kick = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        client.tell(12, &0u64.to_le_bytes(), &[kick.as_fd()]);
        client.ask(1, &[]);
        // The flag belongs to what both share.
        let flags = rustix::fs::fcntl_getfl(&kick).unwrap();
        assert!(flags.contains(OFlags::NONBLOCK));
    });
}

#[test]
fn too_many_descriptors_beside_a_message_are_refused() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::connect(socket);
        let memory = client.memory.try_clone().unwrap();
        client.tell(3, &[], &[memory.as_fd(); 9]);
        assert!(client.is_let_go());
        // As many as there may be, twice with one message.
        let mut client = Frontend::connect(socket);
        client.raw(&[3, 0, 0, 0], &[memory.as_fd(); 8]);
        client.raw(&[1, 0, 0, 0, 0, 0, 0, 0], &[memory.as_fd(); 8]);
        assert!(client.is_let_go());
    });
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().all(|why| why.contains("too many descriptors")),
        "{told:?}"
    );
}

#[test]
fn a_device_that_is_read_only_gets_no_write() {
    let spy = Spy::new(true);
    let options = vhost::Options {
        read_only: true,
        ..vhost::Options::default()
    };
    by_vhost_with(served(&spy), &options, |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        assert_ne!(client.ask(1, &[]) & 1 << 5, 0, "it is told");
        let range = [&[0; 8][..], &8u32.to_le_bytes(), &[0; 4]].concat();
        for (kind, sent) in [
            (OUT, &[1; 512][..]),
            (DISCARD, &range),
            (WRITE_ZEROES, &range),
        ] {
            assert_eq!(client.run(kind, 0, sent, 0).0, 1);
        }
    });
    assert_eq!(spy.seen(), []);
}

/// A device that has lost its power.
struct Dead(Ram);

impl BlockDevice for Dead {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.0.wait(ticket).and(Err(DevError::power_lost()))
    }
}

/// served-S5.
#[test]
fn s5_no_command_comes_behind_the_end() {
    let spy = Spy::new(true);
    let served = served(&spy);
    served.end();
    let why = served.run(Command::Flush).unwrap_err();
    assert_eq!((why.kind, spy.seen()), (DevErrorKind::PowerLost, vec![]));
    let dead = Served::new(Arc::new(Dead(Ram::new(BYTES)))).unwrap();
    assert!(!dead.is_ended());
    let read = Command::Read {
        lba: Lba(0),
        sectors: 1,
    };
    assert!(dead.run(read).is_err() && dead.is_ended());
}

/// A socket of another kind, to which nobody can connect as a client does, is somebody's.
#[test]
fn a_socket_of_another_kind_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _theirs = UnixDatagram::bind(&path).unwrap();
    assert!(vhost::Server::bind(&path).is_err());
    assert!(path.exists());
}

/// A device in whose second write the server is asked to end.
struct Ending(Arc<Spy>, Mutex<Option<Arc<Served>>>);

impl BlockDevice for Ending {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let ticket = self.0.submit(request);
        if let (1, Some(served)) = (ticket.0, &*self.1.lock()) {
            served.end();
        }
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.0.wait(ticket)
    }
}

/// session-V5: of four writes that are offered together the end comes in the second; the others
/// get no answer, so the next server does them.
#[test]
fn v5_an_end_answers_no_request_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let device = Arc::new(Ending(Spy::new(true), Mutex::named("served", None)));
    let first = Arc::new(Served::new(device.clone()).unwrap());
    *device.1.lock() = Some(first.clone());
    let server = vhost::Server::bind(&socket).unwrap();
    let thread = rt::spawn("server", move || {
        let options = vhost::Options::default();
        server.run(&first, &options, &mut |_| {}).unwrap();
    });
    let mut client = Frontend::connect(&socket);
    client.agree(WITH_FLUSH);
    for place in 0..4 {
        client.offer_write(place, 8 * u64::from(place), &[1; 4096]);
    }
    client.start_queue();
    thread.join().unwrap();
    device.1.lock().take();
    assert!(client.answered() <= 2);
    by_vhost(Served::new(device).unwrap(), |socket| {
        let mut client = Frontend::again(socket, client, WITH_FLUSH);
        client.settle(4);
        assert_eq!([0, 1, 2, 3].map(|place| client.status(place)), [0; 4]);
    });
}

/// session-V5: a request that is refused because the power has gone gets no answer, as none comes
/// from a device that is switched off.
#[test]
fn v5_what_the_cut_refuses_gets_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let spy = Spy::new(true);
    let cut = Served::new(spy.clone()).unwrap().cut_after(1, || {});
    let server = vhost::Server::bind(&socket).unwrap();
    let thread = rt::spawn("server", move || {
        let options = vhost::Options::default();
        server.run(&cut, &options, &mut |_| {}).unwrap();
    });
    let mut client = Frontend::connect(&socket);
    client.agree(WITH_FLUSH);
    for place in 0..3 {
        client.offer_write(place, 8 * u64::from(place), &[1; 4096]);
    }
    client.start_queue();
    thread.join().unwrap();
    assert_eq!(client.answered(), 1);
    assert_eq!([0, 1, 2].map(|place| client.status(place)), [0, 0xff, 0xff]);
    by_vhost(served(&spy), |socket| {
        let mut client = Frontend::again(socket, client, WITH_FLUSH);
        client.settle(3);
        assert_eq!([0, 1, 2].map(|place| client.status(place)), [0; 3]);
    });
}

/// session-V6: nobody goes on upon zeros with what an earlier device held.
#[test]
fn v6_a_blank_device_refuses_a_client_of_an_earlier_one() {
    let before = |noted: bool, answers: u16| {
        let mut left = None;
        by_vhost(served(&Spy::new(true)), |socket| {
            let mut client = match noted {
                true => Frontend::noted(socket, WITH_FLUSH),
                false => Frontend::ready(socket, WITH_FLUSH),
            };
            for _ in 0..answers {
                assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
            }
            left = Some(client);
        });
        left.unwrap()
    };
    let options = vhost::Options {
        blank: true,
        ..vhost::Options::default()
    };
    for (noted, answers) in [(false, 1), (true, 1), (true, 0)] {
        let mut old = before(noted, answers);
        let told = by_vhost_with(served(&Spy::new(true)), &options, |socket| {
            // As often as it tries.
            for _ in 0..2 {
                old.come_back(socket);
                old.agree(WITH_FLUSH);
                assert_eq!(old.start_queue(), None);
            }
            // One that begins here may come back here.
            let mut client = Frontend::noted(socket, WITH_FLUSH);
            assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
            let mut client = Frontend::again(socket, client, WITH_FLUSH);
            assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
        });
        assert_eq!(told.len(), 2);
        assert!(
            told.iter().all(|why| why.contains("began blank")),
            "{told:?}"
        );
    }
}

/// session-V7.
#[test]
fn v7_a_place_other_than_the_used_index_is_refused_without_notes() {
    let spy = Spy::new(true);
    let told = by_vhost(served(&spy), |socket| {
        let mut client = Frontend::ready(socket, WITH_FLUSH);
        assert_eq!(client.run(OUT, 0, &[1; 512], 0).0, 0);
        client.come_back(socket);
        client.agree(WITH_FLUSH);
        client.share(&region(MEMORY), None);
        client.tell(8, &pair(0, u32::from(SIZE)), &[]);
        client.tell(10, &pair(0, 3), &[]);
        client.tell(9, &rings(USER, USER + USED, USER + AVAIL), &[]);
        client.tell_fd(12, &0u64.to_le_bytes(), 0);
        assert_eq!(client.ack(18, &pair(0, 1)), None);
    });
    let why = "queue 0 begins at 3, but its used index is 1";
    assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
}

/// served-S6: the end comes in the second part of a write of zeros.
#[test]
fn s6_the_end_waits_for_no_long_write_of_zeros() {
    let device = Arc::new(Ending(Spy::new(true), Mutex::named("served", None)));
    let served = Arc::new(Served::new(device.clone()).unwrap());
    *device.1.lock() = Some(served.clone());
    let zeros = Command::WriteZeroes {
        lba: Lba(0),
        sectors: BYTES / 512,
        fua: false,
    };
    let why = served.run(zeros).unwrap_err();
    device.1.lock().take();
    assert_eq!(why.kind, DevErrorKind::PowerLost);
    let seen = device.0.seen();
    let writes = seen.iter().filter(|seen| matches!(seen, Seen::Write(..)));
    assert_eq!(writes.count(), 2);
}
