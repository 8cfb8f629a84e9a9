//! A server that is killed (`kill -9`) and started again at the same socket: a client that kept its
//! memory, with notes of what was under way or without them, gets one answer to each request.

use crate::device::{Seen, Spy, by_vhost};
use crate::frontend::{BUFFERS, Desc, Frontend, NEXT, SIZE, WRITE, pair};
use base::{Nanos, Rng, Time};
use blockdev::{BlockDevice, Caps, DevError, HostFile, HostOptions, Reply, Request, Ticket};
use guest::Guest;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use varve_serve::{Served, vhost};

const FLUSH: u32 = 4;
const WITH_FLUSH: u64 = 1 << 9;
/// Places for writes in the client's memory.
const PLACES: u16 = 16;
/// Blocks of the image.
const BLOCKS: u64 = 256;
/// Names the folder of a server in a process of its own.
const FOLDER: &str = "VARVE_TEST_SERVER";

/// An image whose writes take a moment each, so that a kill finds some under way.
struct Slow(HostFile);

impl BlockDevice for Slow {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        rt::sleep(Nanos(100_000));
        self.0.wait(ticket)
    }
}

/// The entry of this program where it is a server that will be killed.
#[test]
#[allow(clippy::disallowed_methods)]
fn a_server() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let image = HostFile::open(folder.join("image"), &HostOptions::write()).unwrap();
    let served = Served::new(Arc::new(Slow(image))).unwrap();
    let server = vhost::Server::bind(&folder.join("socket")).unwrap();
    let tell = &mut |why: &str| fs::write(folder.join("told"), why).unwrap();
    (server.run(&served, &vhost::Options::default(), tell)).unwrap();
}

fn start(folder: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command
        .args(["killed::a_server", "--exact"])
        .env(FOLDER, folder)
        .stdout(Stdio::null());
    rt::signals::end_with_this_thread(&mut command);
    let child = command.spawn().unwrap();
    // A connection that asks for nothing and goes.
    let answers = || UnixStream::connect(folder.join("socket")).is_ok();
    let mut tries = 0..5000;
    while !answers() {
        assert!(tries.next().is_some(), "the server does not start");
        rt::sleep(Nanos(2_000_000));
    }
    child
}

/// Requests that the notes say are under way.
fn marked(client: &Frontend) -> usize {
    let Some((_, file)) = &client.notes else {
        return 0;
    };
    let mut notes = vec![0; 16 + 16 * usize::from(SIZE)];
    file.read_exact_at(&mut notes, 0).unwrap();
    notes[16..].chunks(16).filter(|chain| chain[0] == 1).count()
}

/// The writes of a client: place by place another block of the image, each time another content.
struct Writes {
    /// Of each place the block and what is written there, until it is answered.
    open: Vec<Option<(u64, u64)>>,
    /// Of each block the content that was last offered.
    last: Vec<u64>,
    count: u64,
    rng: Rng,
}

impl Writes {
    fn content(count: u64) -> [u8; 4096] {
        let mut block = [0; 4096];
        for word in block.chunks_mut(8) {
            word.copy_from_slice(&count.to_le_bytes());
        }
        block
    }

    /// Offers a write in every place that has none under way.
    fn offer(&mut self, client: &mut Frontend) {
        for place in 0..PLACES {
            if self.open[usize::from(place)].is_none() {
                // No two writes under way have the same block.
                let block = u64::from(place) + u64::from(PLACES) * self.rng.below(16);
                self.count += 1;
                self.open[usize::from(place)] = Some((block, self.count));
                self.last[block as usize] = self.count;
                client.offer_write(place, 8 * block, &Self::content(self.count));
            }
        }
    }

    /// Takes an answer, which is the only one of its request.
    fn answer(&mut self, client: &Frontend, head: u32) {
        let place = (head / 3) as u16;
        let open = self.open[usize::from(place)].take();
        assert!(open.is_some(), "a second answer to a request");
        assert_eq!(client.status(place), 0);
    }
}

/// Kills the server so many times; tells how many requests were under way then, by the notes.
fn kills(rounds: u64, with_notes: bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    (File::create(&image).unwrap())
        .set_len(BLOCKS * 4096)
        .unwrap();
    let socket = folder.path().join("socket");
    let mut server = start(folder.path());
    let mut client = match with_notes {
        true => Frontend::noted(&socket, WITH_FLUSH),
        false => Frontend::ready(&socket, WITH_FLUSH),
    };
    let mut writes = Writes {
        open: vec![None; usize::from(PLACES)],
        last: vec![0; BLOCKS as usize],
        count: 0,
        rng: Rng::named(rounds, "kills"),
    };
    let mut under_way = 0;
    for _ in 0..rounds {
        for _ in 0..writes.rng.below(12) {
            writes.offer(&mut client);
            let (head, _) = client.used().expect("the server lives");
            writes.answer(&client, head);
        }
        writes.offer(&mut client);
        rt::sleep(Nanos(writes.rng.below(1500) * 1000));
        server.kill().unwrap();
        server.wait().unwrap();
        under_way += marked(&client);
        server = start(folder.path());
        client = Frontend::again(&socket, client, WITH_FLUSH);
    }
    while writes.open.iter().any(Option::is_some) {
        let (head, _) = client.used().expect("the server lives");
        writes.answer(&client, head);
    }
    assert_eq!(marked(&client), 0);
    drop(client);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!folder.path().join("told").exists(), "no client was let go");
    let image = File::open(image).unwrap();
    for (block, count) in writes.last.iter().enumerate() {
        let mut found = [0; 4096];
        image
            .read_exact_at(&mut found, block as u64 * 4096)
            .unwrap();
        assert!(found == Writes::content(*count), "block {block}");
    }
    under_way
}

/// inflight-I4.
#[test]
fn a_server_that_is_killed_and_started_again_loses_no_request() {
    let under_way = kills(12, true);
    assert!(under_way > 0, "no kill found a request under way");
}

/// virtqueue-R3: the order of the answers does what the notes do.
#[test]
fn without_notes_no_request_is_lost_either() {
    kills(6, false);
}

#[test]
#[ignore = "minutes"]
fn a_server_that_is_killed_many_times_loses_no_request() {
    let under_way = kills(400, true);
    kills(200, false);
    eprintln!("{under_way} requests under way at 400 kills");
}

/// A Linux whose disk is served by one server after another: what it wrote is there, each fsync
/// has returned, and its ext4 is whole.
#[test]
#[ignore = "minutes"]
fn linux_goes_on_behind_servers_that_are_killed() {
    let machine = guest::Machine::Qemu;
    let guest = Guest::new(&["in_the_guest", "--exact", "--nocapture"]).unwrap();
    let guest = match guest.machine(machine) {
        Ok(guest) => guest,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    (File::create(&image).unwrap()).set_len(64 << 20).unwrap();
    let mkfs = Command::new("mke2fs")
        .args(["-q", "-t", "ext4"])
        .arg(&image)
        .status();
    assert!(mkfs.unwrap().success());
    let mut server = start(folder.path());
    let socket = folder.path().join("socket");
    let guest = guest.served(&socket).limit(Duration::from_secs(100));
    let step = guest.scratch().join("step");
    let running = rt::spawn("guest", move || {
        let done = guest.check(
            "mount $DISK0 $MNT
             for n in $(seq 1 80); do
                 dd if=/dev/urandom of=$MNT/$((n % 20)) bs=16k count=8 conv=fsync 2>/dev/null
                 (cd $MNT; sha256sum $((n % 20))) >$DIR/sum.$((n % 20))
                 echo $n >$DIR/step
             done
             umount $MNT
             echo 3 >/proc/sys/vm/drop_caches
             mount $DISK0 $MNT
             (cd $MNT; for n in $(seq 0 19); do sha256sum -c $DIR/sum.$n; done)
             umount $MNT",
        );
        done.map(|done| done.output)
    });
    let (mut kills, mut rng) = (0, Rng::named(1, "kills"));
    while !running.is_finished() {
        rt::sleep(Nanos(500_000_000 + rng.below(1_500_000_000)));
        let now = fs::read_to_string(&step).unwrap_or_default();
        if now.trim().parse().is_ok_and(|n: u32| n < 80) {
            server.kill().unwrap();
            server.wait().unwrap();
            server = start(folder.path());
            kills += 1;
        }
    }
    let output = running
        .join()
        .expect("the guest's thread")
        .expect("the script ends well");
    server.kill().unwrap();
    server.wait().unwrap();
    let told = fs::read_to_string(folder.path().join("told"));
    assert!(told.is_err(), "a client was let go: {told:?}");
    eprintln!("{kills} kills");
    assert!(kills >= 5, "{kills} kills\n{output}");
    assert_eq!(output.matches(": OK").count(), 20, "{output}");
    let fsck = Command::new("e2fsck")
        .arg("-fn")
        .arg(&image)
        .output()
        .unwrap();
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
}

/// A client with notes of its own making: chains that are marked, each with its number, behind so
/// many answers.
fn with_notes(socket: &Path, marked: &[(u16, u64)], used: u16) -> Frontend {
    let mut client = Frontend::connect(socket);
    client.agree(WITH_FLUSH);
    assert!(client.ask_for_notes(1, SIZE));
    let (_, file) = client.notes.as_ref().expect("it asked");
    let put = |at: u64, value: u16| file.write_all_at(&value.to_le_bytes(), at).unwrap();
    put(8, 1);
    put(10, SIZE);
    put(14, used);
    for (head, number) in marked {
        let at = 16 + 16 * u64::from(*head);
        put(at, 1);
        file.write_all_at(&number.to_le_bytes(), at + 8).unwrap();
    }
    client
}

fn written(spy: &Spy) -> Vec<u64> {
    let sector = |seen: Seen| match seen {
        Seen::Write(sector, ..) => Some(sector),
        _ => None,
    };
    spy.seen().into_iter().filter_map(sector).collect()
}

/// inflight-I4: of five writes another server had taken four and answered two, out of order. What
/// it left is done in the order of its numbers, then what it had not taken.
#[test]
fn what_another_server_left_is_done_in_its_order() {
    let spy = Spy::new(true);
    let told = by_vhost(Served::new(spy.clone()).unwrap(), |socket| {
        let mut client = with_notes(socket, &[(0, 9), (6, 3)], 2);
        for place in 0..5 {
            client.offer_write(place, 8 * u64::from(place), &[7; 4096]);
        }
        client.answer_by_hand(&[3, 9]);
        client.set_up_queue();
        let heads: Vec<u32> = (0..3)
            .map(|_| client.used().expect("an answer").0)
            .collect();
        assert_eq!(heads, [6, 0, 12]);
        assert_eq!(written(&spy), [16, 0, 32]);
        assert_eq!((client.answered(), marked(&client)), (5, 0));
        // The notes are those that the next server needs.
        assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 5));
    });
    assert_eq!(told, [] as [&str; 0]);
}

/// A queue that stops has done what an earlier server had taken, in the room that there is.
#[test]
fn a_queue_that_is_off_stops_behind_what_is_done_again() {
    let spy = Spy::new(true);
    let told = by_vhost(Served::new(spy.clone()).unwrap(), |socket| {
        const READS: u16 = 40;
        const ROOM: u32 = 2 << 20;
        let marks: Vec<(u16, u64)> = (0..READS).map(|head| (head, u64::from(head))).collect();
        let mut client = with_notes(socket, &marks, 0);
        client.put(BUFFERS, &[0; 16]);
        let desc = |at, len, flags, next| Desc {
            at,
            len,
            flags,
            next,
        };
        let mut table = vec![desc(BUFFERS, 16, NEXT, SIZE - 2); usize::from(SIZE) - 2];
        table.push(desc(BUFFERS + 0x10_0000, ROOM, WRITE | NEXT, SIZE - 1));
        table.push(desc(BUFFERS + 0x800, 1, WRITE, 0));
        for head in 0..READS {
            client.offer(&table, head);
        }
        // More than session-V4 lets be under way at once.
        assert!(u64::from(READS) * u64::from(ROOM) > 64 << 20);
        *spy.until.lock() = Some(Time(rt::now().0 + 300_000_000));
        client.set_up_queue();
        // QEMU switches a queue off before it stops it.
        assert_eq!(client.ack(18, &pair(0, 0)), Some(0));
        assert_eq!(client.answer(11, 1, &pair(0, 0)).unwrap(), pair(0, 40));
        assert_eq!((client.answered(), marked(&client)), (READS, 0));
    });
    assert_eq!(told, [] as [&str; 0]);
}

/// inflight-I6.
#[test]
fn a_queue_that_starts_calls_its_guest() {
    let spy = Spy::new(true);
    by_vhost(Served::new(spy.clone()).unwrap(), |socket| {
        let mut client = Frontend::noted(socket, WITH_FLUSH);
        client.request(FLUSH, 0, &[], 0);
        client.settle(1);
        // Behind this message the call was made, which a kill would have kept from the guest.
        client.ask(1, &[]);
        assert!(client.is_called());
        let mut client = Frontend::again(socket, client, WITH_FLUSH);
        assert!(client.is_called());
        // The event may come behind the start.
        client.tell_fd(13, &0u64.to_le_bytes(), 1);
        client.ask(1, &[]);
        assert!(client.is_called());
        assert_eq!(client.used(), Some((0, 1)));
    });
}

/// inflight-I7: memory that cannot hold the notes, or that was not agreed upon.
#[test]
fn memory_for_notes_that_cannot_be_is_refused_by_name() {
    type Act<'a> = dyn Fn(&mut Frontend) + 'a;
    let shape = |bytes: u64, offset: u64, queues: u16, size: u16| {
        let words = [bytes.to_le_bytes(), offset.to_le_bytes()].concat();
        [&words[..], &queues.to_le_bytes(), &size.to_le_bytes()].concat()
    };
    let set = |shape: Vec<u8>| {
        move |c: &mut Frontend| {
            c.agree(WITH_FLUSH);
            c.tell(32, &shape, &[c.memory.as_fd()]);
        }
    };
    let whole = 16 + 16 * 64 + 48;
    let each: [(&Act<'_>, &str); 12] = [
        (&|c| assert!(!c.ask_for_notes(1, 64)), "not agreed upon"),
        (
            &|c| asks(c, 0, 64),
            "for 0 queues of 64 entries; there are 4 queues",
        ),
        (&|c| asks(c, 5, 64), "for 5 queues of 64 entries"),
        (&|c| asks(c, 1, 0), "for 1 queues of 0 entries"),
        (&|c| asks(c, 1, 32769), "for 1 queues of 32769 entries"),
        (
            &set(shape(whole - 1, 0, 1, 64)),
            "of 1087 bytes for 1 queues of 64 entries",
        ),
        (
            &set(shape(whole, 4 << 20, 1, 64)),
            "1088 bytes from 4194304 on in a file of 4194304",
        ),
        (
            &set(shape(whole, 1, 1, 64)),
            "memory of what is under way: memory region",
        ),
        (&set(vec![0; 19]), "described in 19 bytes instead of 20"),
        (
            &|c| {
                c.agree(WITH_FLUSH);
                c.tell(32, &shape(whole, 0, 1, 64), &[]);
            },
            "without its file",
        ),
        (
            &|c| {
                c.agree(WITH_FLUSH);
                c.set_up_queue();
                asks(c, 1, 64);
            },
            "for queues that work",
        ),
        (
            &|c| {
                // Notes of more requests than the queue offers.
                c.agree(WITH_FLUSH);
                assert!(c.ask_for_notes(1, 64));
                let (_, file) = c.notes.as_ref().unwrap();
                file.write_all_at(&[1, 0, 64, 0], 8).unwrap();
                file.write_all_at(&[1], 16).unwrap();
                assert_eq!(c.start_queue(), None);
            },
            "notes of 1 requests under way in a queue that offers 0",
        ),
    ];
    for (act, why) in each {
        let spy = Spy::new(true);
        let told = by_vhost(Served::new(spy.clone()).unwrap(), |socket| {
            let mut client = Frontend::connect(socket);
            act(&mut client);
            assert!(client.is_let_go(), "{why}");
        });
        assert!(
            told.len() == 1 && told[0].contains(why),
            "{told:?}, not {why}"
        );
    }
}

fn asks(client: &mut Frontend, queues: u16, size: u16) {
    client.agree(WITH_FLUSH);
    client.ask_for_notes(queues, size);
}

/// A client cannot end a server by shortening the memory that the server made.
#[test]
fn memory_for_notes_cannot_be_shortened() {
    let spy = Spy::new(true);
    by_vhost(Served::new(spy.clone()).unwrap(), |socket| {
        let client = Frontend::noted(socket, WITH_FLUSH);
        let (_, file) = client.notes.as_ref().expect("it asked");
        assert!(file.set_len(0).is_err());
    });
}
