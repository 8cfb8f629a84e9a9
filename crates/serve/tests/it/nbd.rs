//! NBD: tools of others as clients, and clients of our own that send what no honest one does.

use crate::device::{BYTES, Seen, Spy, by_nbd};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use varve_serve::{Served, nbd};

pub fn named(name: &str) -> nbd::Options {
    nbd::Options {
        name: name.into(),
        ..nbd::Options::default()
    }
}

/// Whether a program is there; says so if it is not.
fn lacks(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no program `{program}`");
    }
    !there
}

/// What runs nbdsh: Debian's own Python has its module, another one in the path has not.
const PYTHON: &str = "/usr/bin/python3";

fn lacks_shell() -> bool {
    let there = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    let there = there.is_ok_and(|out| out.status.success());
    if !there {
        eprintln!("skipped: no Debian package `python3-libnbd`");
    }
    !there
}

/// Runs a program that has to end well, and takes what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, wrong) = (text(&out.stdout), text(&out.stderr));
    assert!(
        out.status.success(),
        "{program} {arguments:?}\n{told}{wrong}"
    );
    told
}

fn uri(socket: &Path, name: &str) -> String {
    format!("nbd+unix:///{name}?socket={}", socket.display())
}

fn served(spy: &Arc<Spy>) -> Served {
    Served::new(spy.clone()).unwrap()
}

/// A device of which it is known where it holds zeros.
fn served_with_zeros(spy: &Arc<Spy>) -> Served {
    let looked = spy.clone();
    served(spy).zeroes_by(move |block| looked.at(8 * block, 8).iter().all(|byte| *byte == 0))
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    if lacks("nbdinfo") {
        return;
    }
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named("disk"), |socket| {
        let info = run("nbdinfo", &["--json", &uri(socket, "disk")]);
        for line in [
            "\"export-size\": 8388608",
            "\"can_flush\": true",
            "\"can_fua\": true",
            "\"can_trim\": true",
            "\"can_zero\": true",
            "\"can_multi_conn\": true",
            "\"is_read_only\": false",
            "\"structured\": true",
            "\"block_size_minimum\": 512",
            "\"block_size_maximum\": 33554432",
            "base:allocation",
        ] {
            assert!(info.contains(line), "{line}\n{info}");
        }
        let list = run("nbdinfo", &["--list", "--json", &uri(socket, "")]);
        assert!(list.contains("\"export-name\": \"disk\""), "{list}");
        let other = Command::new("nbdinfo").arg(uri(socket, "other")).output();
        assert!(!other.unwrap().status.success(), "there is no other export");
    });
    assert_eq!(told, [] as [&str; 0]);
}

#[test]
fn nbdcopy_brings_content_in_and_out() {
    if lacks("nbdcopy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let mut content = vec![0; BYTES as usize];
    for (n, byte) in content[100_000..3_000_000].iter_mut().enumerate() {
        *byte = (n / 512 + n) as u8;
    }
    std::fs::write(&from, &content).unwrap();
    let spy = Spy::new(true);
    let told = by_nbd(served_with_zeros(&spy), named(""), |socket| {
        let uri = uri(socket, "");
        run("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
        let seen = spy.seen();
        assert!(seen.contains(&Seen::Flush), "{seen:?}");
        run("nbdcopy", &[&uri, to.to_str().unwrap()]);
    });
    assert_eq!(std::fs::read(&to).unwrap(), content);
    assert_eq!(told, [] as [&str; 0]);
}

#[test]
fn nbdsh_gets_every_command_and_every_refusal() {
    if lacks_shell() {
        return;
    }
    let spy = Spy::new(false);
    let script = "
import errno
h.set_strict_mode(0)
h.add_meta_context('base:allocation')
h.connect_uri(URI)
assert h.get_size() == 8388608
assert h.can_meta_context('base:allocation')
h.pwrite(b'a' * 4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(4096, 4096) == b'a' * 4096
h.pwrite(b'b' * 512, 8388608 - 512)
h.flush()
h.zero(4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(4096, 4096) == bytes(4096)
h.trim(4096, 0, nbd.CMD_FLAG_FUA)
h.trim(600, 100)
states = []
def extent(context, offset, entries, error):
    states.extend(entries)
    return 0
h.block_status(8388608, 0, extent)
assert states == [8388608 - 4096, 2, 4096, 0], states
states.clear()
h.block_status(8388608, 0, extent, nbd.CMD_FLAG_REQ_ONE)
assert states == [8388608 - 4096, 2], states
def refused(number, act):
    try:
        act()
    except nbd.Error as e:
        assert e.errnum == number, (e.errnum, number)
        return
    raise AssertionError('not refused')
refused(errno.EINVAL, lambda: h.pread(512, 8388608))
refused(errno.ENOSPC, lambda: h.pwrite(bytes(512), 8388608))
refused(errno.ENOSPC, lambda: h.pwrite(bytes(1024), 8388608 - 512))
refused(errno.EINVAL, lambda: h.pread(512, 1))
refused(errno.EINVAL, lambda: h.pwrite(bytes(513), 0))
refused(errno.EINVAL, lambda: h.pread(0, 0))
refused(errno.EINVAL, lambda: h.pread(512, 2**62))
refused(errno.EINVAL, lambda: h.cache(512, 0))
refused(errno.ENOTSUP, lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO))
refused(errno.EINVAL, lambda: h.pread(33554432 + 512, 0))
assert h.pread(512, 8388608 - 512) == b'b' * 512
h.shutdown()
";
    let told = by_nbd(served_with_zeros(&spy), named(""), |socket| {
        let script = script.replace("URI", &format!("'{}'", uri(socket, "")));
        run(PYTHON, &["-m", "nbd", "-c", &script]);
    });
    assert_eq!(told, [] as [&str; 0]);
    let seen = spy.seen();
    let at = |what: &Seen| seen.iter().position(|seen| seen == what);
    // FUA on a device without: the flush stands behind the completion (served-S2), also of a trim.
    let write = at(&Seen::Write(8, 8, false)).unwrap();
    assert_eq!(seen[write + 2], Seen::Flush, "{seen:?}");
    let trim = at(&Seen::Discard(0, 8)).unwrap();
    assert_eq!(seen[trim + 2], Seen::Flush, "{seen:?}");
    // Of bytes 100 to 700 no sector is whole.
    let trims = seen.iter().filter(|seen| matches!(seen, Seen::Discard(..)));
    assert_eq!(trims.count(), 1, "{seen:?}");
}

/// An answer on one connection is covered by a flush on another (served-S1).
#[test]
fn nbdsh_flushes_for_all_connections() {
    if lacks_shell() {
        return;
    }
    let spy = Spy::new(true);
    let script = "
a = nbd.NBD(); a.connect_uri(URI)
b = nbd.NBD(); b.connect_uri(URI)
assert a.can_multi_conn()
a.pwrite(b'a' * 512, 0)
b.flush()
a.shutdown(); b.shutdown()
";
    by_nbd(served(&spy), named(""), |socket| {
        let script = script.replace("URI", &format!("'{}'", uri(socket, "")));
        run(PYTHON, &["-m", "nbd", "-c", &script]);
    });
    let expected = [
        Seen::Write(0, 1, false),
        Seen::Done(0),
        Seen::Flush,
        Seen::Done(1),
    ];
    assert_eq!(spy.seen(), expected);
}

#[test]
fn qemus_tools_read_and_write() {
    if lacks("qemu-img") || lacks("qemu-io") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let spy = Spy::new(true);
    let told = by_nbd(served_with_zeros(&spy), named("x"), |socket| {
        let uri = uri(socket, "x");
        let info = run("qemu-img", &["info", &uri]);
        assert!(info.contains("8388608 bytes"), "{info}");
        let script = [
            "-c",
            "write -P 7 4096 64k",
            "-c",
            "write -f -P 8 1M 4k",
            "-c",
            "write -z 8k 4k",
            "-c",
            "flush",
            "-c",
            "discard 2M 1M",
            "-c",
            "read -P 7 4096 4096",
            "-c",
            "read -P 0 8k 4k",
            "-c",
            "read -P 8 1M 4k",
        ];
        let io = run("qemu-io", &[&["-f", "raw"], &script[..], &[&uri]].concat());
        assert!(!io.contains("verification failed"), "{io}");
        let seen = spy.seen();
        assert!(seen.contains(&Seen::Write(2048, 8, true)), "FUA: {seen:?}");
        assert!(seen.contains(&Seen::Flush), "{seen:?}");
        run(
            "qemu-img",
            &["convert", "-O", "raw", &uri, image.to_str().unwrap()],
        );
        let map = run("qemu-img", &["map", "--output=json", &uri]);
        assert!(map.contains("\"zero\": true"), "{map}");
        let same = run(
            "qemu-img",
            &[
                "compare",
                "-f",
                "raw",
                "-F",
                "raw",
                image.to_str().unwrap(),
                &uri,
            ],
        );
        assert!(same.contains("identical"), "{same}");
    });
    assert_eq!(told, [] as [&str; 0]);
    let copy = std::fs::read(&image).unwrap();
    assert!(copy == spy.at(0, BYTES / 512), "the copy differs");
}

#[test]
fn a_device_to_read_only_refuses_writes() {
    if lacks_shell() {
        return;
    }
    let spy = Spy::new(true);
    let script = "
h.connect_uri(URI)
assert h.is_read_only()
h.set_strict_mode(0)
for act in [lambda: h.pwrite(bytes(512), 0), lambda: h.trim(512, 0), lambda: h.zero(512, 0)]:
    try:
        act()
    except nbd.Error as e:
        assert e.errnum == 1, e
    else:
        raise AssertionError
assert h.pread(512, 0) == bytes(512)
";
    let options = nbd::Options {
        read_only: true,
        ..nbd::Options::default()
    };
    by_nbd(served(&spy), options, |socket| {
        let script = script.replace("URI", &format!("'{}'", uri(socket, "")));
        run(PYTHON, &["-m", "nbd", "-c", &script]);
    });
    assert!(
        !spy.seen()
            .iter()
            .any(|seen| matches!(seen, Seen::Write(..) | Seen::Discard(..)))
    );
}

/// A client that has greeted, and sends what it likes.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn greeted(socket: &Path) -> Raw {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        Raw(stream)
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may have let go.
        let _ = self.0.write_all(bytes);
    }

    pub fn option(&mut self, option: u32, data: &[u8]) {
        self.send(b"IHAVEOPT");
        self.send(
            &[
                &option.to_be_bytes()[..],
                &(data.len() as u32).to_be_bytes(),
            ]
            .concat(),
        );
        self.send(data);
    }

    /// Reads to the end of a connection of which we keep our side open.
    pub fn rest_of_silent(mut self) {
        self.0
            .set_read_timeout(Some(std::time::Duration::from_secs(20)))
            .unwrap();
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("the server lets go");
    }

    /// Begins in the old way, which answers ten bytes.
    pub fn begun(socket: &Path) -> Raw {
        let mut raw = Raw::greeted(socket);
        raw.option(1, b"");
        raw.read(10);
        raw
    }

    pub fn request(&mut self, flags: u16, kind: u16, offset: u64, len: u32) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&7u64.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        self.send(&bytes);
    }

    pub fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The error of a simple answer.
    pub fn error(&mut self) -> u32 {
        let answer = self.read(16);
        assert_eq!(answer[..4], 0x6744_6698u32.to_be_bytes());
        assert_eq!(answer[8..], 7u64.to_be_bytes());
        u32::from_be_bytes(answer[4..8].try_into().unwrap())
    }

    /// The kind of the answer to an option.
    pub fn kind(&mut self) -> u32 {
        let head = self.read(20);
        let len = u32::from_be_bytes(head[16..].try_into().unwrap());
        self.read(len as usize);
        u32::from_be_bytes(head[12..16].try_into().unwrap())
    }

    /// All that comes until the server lets go.
    pub fn rest(mut self) -> Vec<u8> {
        let _ = self.0.shutdown(Shutdown::Write);
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes);
        bytes
    }
}

/// What shows that the server lives.
fn works(socket: &Path) {
    let mut raw = Raw::begun(socket);
    raw.request(0, 1, 4096, 512);
    raw.send(&[5; 512]);
    assert_eq!(raw.error(), 0);
    raw.request(0, 0, 4096, 512);
    assert_eq!(raw.error(), 0);
    assert_eq!(raw.read(512), [5; 512]);
}

#[test]
fn the_old_way_without_structured_answers() {
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named(""), |socket| {
        works(socket);
        let mut raw = Raw::begun(socket);
        // Without its context nobody may ask for zeros; unknown flags and commands are refused.
        for (flags, kind, offset, len, error) in [
            (0, 7, 0, 512, 22),
            (0, 9, 0, 512, 22),
            (1 << 15, 0, 0, 512, 22),
            (0, 3, 1, 0, 22),
            (0, 3, 0, 1, 22),
            (0, 0, u64::MAX, 512, 22),
            (0, 0, u64::MAX - 511, 512, 22),
            (1, 3, 0, 0, 0),
        ] {
            raw.request(flags, kind, offset, len);
            assert_eq!(raw.error(), error, "{flags} {kind} {offset} {len}");
        }
        raw.request(0, 2, 0, 0);
        assert_eq!(raw.rest(), b"");
    });
    assert_eq!(told, [] as [&str; 0]);
}

/// More than one request may carry, on a device that has so much.
#[test]
fn a_read_that_is_too_long_is_refused() {
    let ram = Arc::new(blockdev::Ram::new(128 << 20));
    by_nbd(Served::new(ram).unwrap(), named(""), |socket| {
        let mut raw = Raw::begun(socket);
        raw.request(0, 0, 0, (32 << 20) + 512);
        assert_eq!(raw.error(), 22);
        raw.request(0, 0, 0, 32 << 20);
        assert_eq!(raw.error(), 0);
        assert_eq!(raw.read(32 << 20).len(), 32 << 20);
    });
}

/// transmit-T3: of reads that nobody takes the answers of, so many wait as memory is kept for.
#[test]
fn t3_what_is_on_its_way_has_a_bound() {
    let spy = Spy::new(true);
    by_nbd(served(&spy), named(""), |socket| {
        let mut raw = Raw::begun(socket);
        for _ in 0..16 {
            raw.request(0, 0, 0, BYTES as u32);
        }
        rt::sleep(base::Nanos(200_000_000));
        let read = |seen: &Seen| match seen {
            Seen::Read(_, n) => n * 512,
            _ => 0,
        };
        let bytes: u64 = spy.seen().iter().map(read).sum();
        assert!(bytes > 0 && bytes <= 64 << 20, "{bytes}");
        for _ in 0..16 {
            assert_eq!(raw.error(), 0);
            raw.read(BYTES as usize);
        }
    });
}

/// Sixteen clients at once are let in; who has gone makes room, and leaves no thread behind.
#[test]
fn clients_that_have_gone_make_room() {
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named(""), |socket| {
        for _ in 0..40 {
            works(socket);
        }
    });
    assert_eq!(told, [] as [&str; 0]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named("disk"), |socket| {
        let mut raw = Raw::greeted(socket);
        let unsup = 0x8000_0001;
        let invalid = 0x8000_0003;
        let unknown = 0x8000_0006;
        let context = |name: &[u8], query: &[u8]| {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(name);
            data.extend_from_slice(&1u32.to_be_bytes());
            data.extend_from_slice(&(query.len() as u32).to_be_bytes());
            data.extend_from_slice(query);
            data
        };
        for (option, data, kind) in [
            (5, vec![], unsup),
            (99, vec![1, 2, 3], unsup),
            (3, vec![0], invalid),
            (8, vec![0], invalid),
            (7, vec![], invalid),
            (7, vec![0xff; 6], invalid),
            (7, vec![0, 0, 0, 0, 0, 1], invalid),
            (7, vec![0, 0, 0, 1, b'x', 0, 0], unknown),
            // Without structured answers there is no context.
            (10, context(b"", b"base:allocation"), invalid),
            (8, vec![], 1),
            (10, context(b"x", b"base:allocation"), unknown),
            (10, context(b"disk", b"other:context"), 1),
            (10, [context(b"", b"a"), vec![0]].concat(), invalid),
            (10, vec![0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], invalid),
        ] {
            raw.option(option, &data);
            assert_eq!(raw.kind(), kind, "{option} {data:?}");
        }
        raw.option(9, &context(b"", b"base:"));
        assert_eq!((raw.kind(), raw.kind()), (4, 1));
        raw.option(2, b"");
        assert_eq!(raw.kind(), 1);
        assert_eq!(raw.rest(), b"");
    });
    assert_eq!(told, [] as [&str; 0]);
}

#[test]
fn what_cannot_be_answered_ends_the_connection_with_a_reason() {
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named("disk"), |socket| {
        let mut wrong = Vec::new();
        let mut raw = Raw::greeted(socket);
        raw.option(1, b"another");
        wrong.push(raw);
        let mut raw = Raw::greeted(socket);
        raw.send(&[0; 16]);
        wrong.push(raw);
        let mut raw = Raw::greeted(socket);
        raw.send(&[&b"IHAVEOPT"[..], &[0, 0, 0, 3, 0x7f, 0xff, 0xff, 0xff]].concat());
        wrong.push(raw);
        let mut raw = Raw::begun(socket);
        raw.send(&[0; 28]);
        wrong.push(raw);
        let mut raw = Raw::begun(socket);
        raw.request(0, 1, 0, u32::MAX);
        wrong.push(raw);
        for raw in wrong {
            assert_eq!(raw.rest(), b"");
        }
        // Half of a write: nothing of it comes to the device.
        let mut raw = Raw::begun(socket);
        raw.request(0, 1, 0, 4096);
        raw.send(&[1; 4095]);
        assert_eq!(raw.rest(), b"");
        works(socket);
    });
    assert_eq!(told.len(), 5, "{told:#?}");
    assert!(spy.at(0, 8).iter().all(|byte| *byte == 0));
}

#[test]
fn more_clients_than_there_is_room_for_are_not_let_in() {
    let spy = Spy::new(true);
    let told = by_nbd(served(&spy), named(""), |socket| {
        let clients: Vec<Raw> = (0..16).map(|_| Raw::greeted(socket)).collect();
        let mut one_more = UnixStream::connect(socket).unwrap();
        assert_eq!(one_more.read(&mut [0; 18]).unwrap(), 0);
        drop(clients);
        // The room is there again as soon as the server has seen that one went, perhaps no other.
        let mut streams = std::iter::repeat_with(|| UnixStream::connect(socket).unwrap());
        let let_in = streams.find_map(|mut s| (s.read(&mut [0; 18]).unwrap() > 0).then_some(s));
        let mut raw = Raw(let_in.unwrap());
        raw.send(&3u32.to_be_bytes());
        raw.option(1, b"");
        raw.read(10);
    });
    assert!(
        !told.is_empty() && told.iter().all(|why| why.contains("too many")),
        "{told:?}"
    );
}

/// Those who say nothing, or begin and go on with nothing, make room for others.
#[test]
fn clients_that_choose_no_export_are_let_go() {
    let spy = Spy::new(true);
    let options = nbd::Options {
        patience: base::Nanos(200_000_000),
        ..named("")
    };
    let told = by_nbd(served(&spy), options, |socket| {
        let mut silent: Vec<Raw> = (0..15)
            .map(|_| Raw(UnixStream::connect(socket).unwrap()))
            .collect();
        let mut begun = Raw::greeted(socket);
        begun.send(b"IHAVE");
        silent.push(begun);
        // Each of them sees its end, though it sends nothing more.
        for client in silent {
            client.rest_of_silent();
        }
        // Who has chosen may be silent as long as it likes.
        let mut raw = Raw::begun(socket);
        rt::sleep(base::Nanos(400_000_000));
        raw.request(0, 0, 0, 512);
        assert_eq!(raw.error(), 0);
        raw.read(512);
        works(socket);
    });
    let silent = told.iter().filter(|why| why.contains("waiting too long"));
    assert_eq!(silent.count(), 16, "{told:?}");
}

type Options = Vec<(u32, Vec<u8>)>;

/// Any options, then any bytes.
pub fn any_options() -> impl Strategy<Value = (Options, Vec<u8>)> {
    let option = (0u32..14, prop::collection::vec(any::<u8>(), 0..40));
    (
        prop::collection::vec(option, 0..8),
        prop::collection::vec(any::<u8>(), 0..200),
    )
}

/// The server lives after such a client.
pub fn bears_options((options, rest): (Options, Vec<u8>)) -> Result<(), TestCaseError> {
    let spy = Spy::new(true);
    by_nbd(served(&spy), named(""), |socket| {
        let mut raw = Raw::greeted(socket);
        for (option, data) in &options {
            raw.option(*option, data);
        }
        raw.send(&rest);
        raw.rest();
        works(socket);
    });
    Ok(())
}

type Requests = Vec<(u16, u16, u64, u32)>;

/// Any requests, most of them near what makes sense; then any bytes.
pub fn any_requests() -> impl Strategy<Value = (Requests, Vec<u8>)> {
    let request = (
        0u16..64,
        0u16..10,
        prop_oneof![0..BYTES, any::<u64>()],
        0u32..100_000,
    );
    (
        prop::collection::vec(request, 1..20),
        prop::collection::vec(any::<u8>(), 0..200),
    )
}

/// The server lives after such a client, and the device saw nothing that lies outside of it.
pub fn bears_requests((requests, rest): (Requests, Vec<u8>)) -> Result<(), TestCaseError> {
    let spy = Spy::new(true);
    by_nbd(served(&spy), named(""), |socket| {
        let mut raw = Raw::begun(socket);
        let mut reader = Raw(raw.0.try_clone().unwrap());
        let drain = rt::spawn("reader", move || reader.0.read_to_end(&mut Vec::new()));
        for &(flags, kind, offset, len) in &requests {
            raw.request(flags, kind, offset / 512 * 512, len / 512 * 512);
            if kind == 1 {
                raw.send(&vec![1; (len / 512 * 512) as usize]);
            }
        }
        raw.send(&rest);
        let _ = raw.0.shutdown(Shutdown::Write);
        let _ = drain.join().unwrap();
        works(socket);
    });
    for seen in spy.seen() {
        if let Seen::Read(lba, n) | Seen::Write(lba, n, _) | Seen::Discard(lba, n) = seen {
            prop_assert!(lba + n <= BYTES / 512);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn clients_with_any_options(case in any_options()) {
        bears_options(case)?;
    }

    #[test]
    fn clients_with_any_requests(case in any_requests()) {
        bears_requests(case)?;
    }
}
