//! A guest's ext4 on a device that remaps by itself, whose power goes in the middle of a load: the
//! kernel mounts what the cut left, all that was synced is there, and `e2fsck` finds nothing.
//!
//! The guest lives on and sees errors of its disk, as with a card that was pulled out. It unmounts,
//! the device is built anew of what the cut left, and the guest mounts it again. What it was told
//! behind the cut is not owed: the fsync of a kernel whose journal has just been aborted may return
//! without an error.

use crate::jftl::{Ext4, checked, profile};
use base::Lba;
use blockdev::{
    BlockDevice, Caps, Clock, DevError, DevErrorKind, Modelled, Reply, Request, Ticket,
};
use ctrl::{AnyModel, Media};
use guest::{Guest, Session};
use serve::{Served, vhost};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use varve_serve as serve;

/// A device of which the power can go without an end of the server.
struct Pulled {
    state: rt::Mutex<State>,
    /// The file of acknowledgements.
    acks: PathBuf,
    caps: Caps,
}

struct State {
    device: Arc<Modelled<AnyModel>>,
    /// Commands until the power goes, and the seed of what that leaves.
    left: Option<(u64, u64)>,
    media: Option<Media>,
    /// Bytes of the acknowledgements at the cut.
    told: u64,
}

impl Pulled {
    fn new(model: AnyModel, acks: PathBuf) -> Pulled {
        let device = Arc::new(Modelled::new(model, Clock::Unpaced));
        let state = State {
            device: device.clone(),
            left: None,
            media: None,
            told: 0,
        };
        Pulled {
            caps: device.caps(),
            acks,
            state: rt::Mutex::named("pulled", state),
        }
    }

    /// The power goes before so many commands are done.
    fn cut_after(&self, commands: u64, seed: u64) {
        self.state.lock().left = Some((commands, seed));
    }

    /// Builds the device of what the cut left, and forgets what was told later; answers how many
    /// bytes that was.
    fn plug_in(&self) -> u64 {
        let mut state = self.state.lock();
        let media = state.media.take().expect("the power has gone");
        let model = profile().build(None, Some(media)).expect("a device");
        state.device = Arc::new(Modelled::new(model, Clock::Unpaced));
        let file = File::options().write(true).open(&self.acks).unwrap();
        let late = file.metadata().unwrap().len() - state.told;
        file.set_len(state.told).unwrap();
        late
    }

    fn device(&self) -> Arc<Modelled<AnyModel>> {
        self.state.lock().device.clone()
    }
}

impl BlockDevice for Pulled {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        match state.left {
            Some((0, seed)) => {
                state.media = state.device.power_off(seed);
                state.told = fs::metadata(&self.acks).expect("acknowledgements").len();
                state.left = None;
            }
            Some((commands, seed)) => state.left = Some((commands - 1, seed)),
            None => {}
        }
        state.device.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let done = self.device().wait(ticket);
        done.map_err(|e| match e.kind {
            DevErrorKind::PowerLost => DevError::io(Lba(0), "the device is gone"),
            _ => e,
        })
    }
}

/// Makes files by way of a temporary name, and appends to a log, each synced and then told in a
/// file outside of the disk; and looks whether what was told is there.
const PROGRAM: &str = r#"
import os, random, sys
what, root, acks = sys.argv[1:4]
RECORD = 6000

def content(name, version):
    return random.Random(f"{name} {version}").randbytes(3000 + version % 7 * 2500)

def record(n):
    return random.Random(n).randbytes(RECORD)

def told():
    versions, records = {}, 0
    for line in open(acks):
        kind, name, n = line.split()
        if kind == "file": versions[name] = int(n)
        else: records = int(n)
    return versions, records

def load():
    versions, records = told()
    out = open(acks, "a")
    def ack(kind, name, n):
        out.write(f"{kind} {name} {n}\n"); out.flush(); os.fsync(out.fileno())
    folder = os.open(root, os.O_RDONLY)
    log = os.open(root + "/log", os.O_RDWR | os.O_CREAT)
    noise = os.open(root + "/noise", os.O_RDWR | os.O_CREAT)
    try:
        os.fsync(folder)
        for step in range(2000):
            name = f"f{step % 12}"
            version = versions.get(name, 0) + 1
            with open(root + "/new", "wb", buffering=0) as f:
                f.write(content(name, version)); os.fsync(f.fileno())
            os.rename(root + "/new", f"{root}/{name}"); os.fsync(folder)
            versions[name] = version; ack("file", name, version)
            os.pwrite(noise, os.urandom(20000), step % 50 * 20000)
            os.pwrite(log, record(records + 1), records * RECORD); os.fsync(log)
            records += 1; ack("log", "log", records)
    except OSError as e:
        print("ended", e.errno); return
    sys.exit("the power did not go")

def check():
    versions, records = told()
    for name, version in versions.items():
        found = open(f"{root}/{name}", "rb").read()
        if found not in (content(name, version), content(name, version + 1)):
            sys.exit(f"{name} is not version {version} nor the next one")
    log = open(root + "/log", "rb").read() if records else b""
    for n in range(1, records + 1):
        if log[(n - 1) * RECORD:n * RECORD] != record(n): sys.exit(f"record {n} of {records}")
    print("acknowledged", sum(versions.values()) + records)

{"load": load, "check": check}[what]()
"#;

/// Cuts the power so many times, in each data mode of ext4 in turn; answers how much was
/// acknowledged in all.
fn cuts(rounds: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let ext4 = Ext4::new(folder.path(), "cut");
    let guest = Guest::new(&["in_the_guest", "--exact", "--nocapture"]).unwrap();
    let acks = guest.scratch().join("acks");
    fs::write(&acks, "").unwrap();
    let pulled = Arc::new(Pulled::new(ext4.model(), acks));
    let served = Arc::new(Served::new(pulled.clone()).expect("an event"));
    let socket = folder.path().join("socket");
    let server = vhost::Server::bind(&socket).expect("a socket");
    let serving = served.clone();
    let thread = rt::spawn("server", move || {
        let done = server.run(&serving, &vhost::Options::default(), &mut |_| {});
        done.expect("serves");
    });
    let guest = guest.served(&socket).limit(Duration::from_secs(60));
    fs::write(guest.scratch().join("program.py"), PROGRAM).unwrap();
    let mut session = Session::start(guest).expect("it boots");
    let mut run = |script: &str| {
        let (status, said) = session.run(script).expect("the guest lives");
        assert_eq!(status, 0, "{said}");
        said
    };
    run("guest load ext4; echo 0 >/proc/sys/vm/dirty_writeback_centisecs");
    let mut rng = base::Rng::named(rounds, "cuts");
    let (mut acknowledged, mut late) = (0, 0);
    for round in 0..rounds {
        let mode = ["journal", "ordered", "writeback"][round as usize % 3];
        run(&format!("mount -t ext4 -o data={mode} $DISK0 $MNT"));
        pulled.cut_after(rng.below(400), round);
        let said = run("/usr/bin/python3 -E -S program.py load $MNT acks
             umount $MNT");
        assert!(said.contains("ended"), "{said}");
        late += u64::from(pulled.plug_in() > 0);
        let said = run(&format!(
            "mount -t ext4 -o data={mode} $DISK0 $MNT
             /usr/bin/python3 -E -S program.py check $MNT acks
             umount $MNT"
        ));
        let number = said.trim().strip_prefix("acknowledged ");
        acknowledged = number.and_then(|n| n.parse().ok()).expect("a number");
        let image = folder.path().join("after");
        (pulled.device().with_model(|model| checked(model, &image))).expect("power");
    }
    let stats = pulled.device().flash_stats().expect("power").transparent;
    assert!(stats.matched > 0, "the device remaps: {stats:?}");
    eprintln!("{late} times the guest acknowledged behind the cut");
    drop(session);
    served.end();
    thread.join().expect("the server ends");
    acknowledged
}

/// True if no kernel runs here, which is told.
fn skipped() -> bool {
    let why = guest::lacks();
    if let Some(why) = &why {
        eprintln!("skipped: {why}");
    }
    why.is_some()
}

#[test]
fn what_was_synced_survives_a_few_cuts() {
    if !skipped() {
        eprintln!("{} acknowledgements over 6 cuts", cuts(6));
    }
}

#[test]
#[ignore = "minutes"]
fn what_was_synced_survives_many_cuts() {
    if !skipped() {
        eprintln!("{} acknowledgements over 50 cuts", cuts(50));
    }
}
