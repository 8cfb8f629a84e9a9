//! JFTL's promise under an unmodified Linux: a device that remaps by itself spares the ext4 of a
//! guest's kernel the second half of its journaled writes.

use blockdev::{BlockDevice, Caps, Clock, DevError, Modelled, Op, Reply, Request, Ticket};
use ctrl::{AnyModel, Profile};
use guest::{Guest, Session};
use serve::{Homes, Served, vhost};
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use varve_serve as serve;

pub const BYTES: u64 = 64 << 20;
pub const BLOCK: u64 = 4096;
const JBD2_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// What was written outside of the journal, in blocks of 4 KiB.
#[derive(Default)]
struct Home {
    /// Blocks that are not zeros and do not begin as a block of the journal does.
    plain: AtomicU64,
    /// Blocks that begin so: their copy in the journal differs from them.
    escaped: AtomicU64,
    /// Of the plain ones, those that the device remapped, or held already.
    remapped: AtomicU64,
}

impl Home {
    fn take(&self) -> [u64; 3] {
        [&self.plain, &self.escaped, &self.remapped].map(|n| n.swap(0, Ordering::Relaxed))
    }
}

/// The device, and what it did to each write outside of the journal.
pub struct Watch {
    device: Arc<Modelled<AnyModel>>,
    journal: Vec<RangeInclusive<u64>>,
    home: Home,
}

impl Watch {
    fn spared(&self) -> u64 {
        let stats = self.device.flash_stats().map(|stats| stats.transparent);
        stats.map_or(0, |stats| stats.matched + stats.unchanged)
    }
}

impl BlockDevice for Watch {
    fn caps(&self) -> Caps {
        self.device.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        let Op::Write { lba, pieces, .. } = &request.op else {
            return self.device.submit(request);
        };
        let first = lba.0 / 8;
        if self.journal.iter().any(|range| range.contains(&first)) {
            return self.device.submit(request);
        }
        let bytes: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| piece.bytes.to_vec())
            .collect();
        let (mut plain, mut escaped) = (0, 0);
        for block in bytes.chunks(BLOCK as usize) {
            match block {
                _ if block.starts_with(&JBD2_MAGIC) => escaped += 1,
                _ if block.iter().any(|byte| *byte != 0) => plain += 1,
                _ => {}
            }
        }
        let before = self.spared();
        let ticket = self.device.submit(request);
        self.home.plain.fetch_add(plain, Ordering::Relaxed);
        self.home.escaped.fetch_add(escaped, Ordering::Relaxed);
        let spared = self.spared() - before;
        self.home.remapped.fetch_add(spared, Ordering::Relaxed);
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.device.wait(ticket)
    }
}

/// A served device with a fresh ext4.
struct Disk {
    watch: Arc<Watch>,
    homes: Arc<Homes>,
    served: Arc<Served>,
    socket: PathBuf,
    thread: rt::JoinHandle<()>,
}

pub fn sh(words: &[&str]) -> String {
    let out = Command::new(words[0])
        .args(&words[1..])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output();
    let out = out.unwrap();
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{words:?}: {said}");
    said
}

pub fn profile() -> Profile {
    Profile::parse("nandsim-2007,transparent=true").expect("a profile")
}

/// A fresh ext4 with blocks of 4 KiB and a journal of 8 MiB.
pub struct Ext4 {
    image: PathBuf,
    /// Where the journal is, as debugfs tells it.
    pub journal: Vec<RangeInclusive<u64>>,
}

impl Ext4 {
    pub fn new(folder: &Path, name: &str) -> Ext4 {
        let image = folder.join(format!("{name}.img"));
        let path = image.to_str().unwrap();
        File::create(&image).unwrap().set_len(BYTES).unwrap();
        sh(&[
            "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=8", path,
        ]);
        let told = sh(&["debugfs", "-R", "stat <8>", path]);
        // `(0-9):15-24, (10-2047):1066-3103`, and then what debugfs calls itself.
        let extents = told.split("):").skip(1);
        let ranges = extents.map(|extent| {
            let places = extent.split([',', '\n', ' ']).next().unwrap();
            let (from, to) = places.split_once('-').unwrap_or((places, places));
            from.parse().unwrap()..=to.parse().unwrap()
        });
        let journal: Vec<RangeInclusive<u64>> = ranges.collect();
        let blocks: u64 = journal
            .iter()
            .map(|range| range.end() - range.start() + 1)
            .sum();
        assert_eq!(blocks, 2048, "all of the journal: {journal:?}");
        Ext4 { image, journal }
    }

    /// A device that holds it.
    pub fn model(&self) -> AnyModel {
        let mut model = profile().build(Some(BYTES), None).expect("a device");
        let bytes = fs::read(&self.image).unwrap();
        for (nr, block) in bytes.chunks(BLOCK as usize).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                let lba = base::Lba(nr as u64 * 8);
                model
                    .load_logical(lba, block.to_vec().into())
                    .expect("loaded");
            }
        }
        model
    }
}

/// Follows the home writes on a model.
pub fn homes(watch: &Arc<Watch>) -> Homes {
    let (counted, looked) = (watch.clone(), watch.clone());
    let peek = move |block| {
        let seen = looked.device.with_model(|model| model.visible(block));
        seen.expect("power")
    };
    (watch.device.with_model_mut(|model| model.keep_shared(true))).expect("power");
    let shared = move || {
        let shared = counted.device.with_model_mut(AnyModel::take_shared);
        shared.expect("power")
    };
    Homes::new(watch.clone(), shared, peek)
}

impl Disk {
    fn new(folder: &Path, name: &str) -> Disk {
        let ext4 = Ext4::new(folder, name);
        let device = Arc::new(Modelled::new(ext4.model(), Clock::Unpaced));
        let watch = Arc::new(Watch {
            device,
            journal: ext4.journal.clone(),
            home: Home::default(),
        });
        let homes = Arc::new(homes(&watch));
        assert!(homes.follows());
        let found: Vec<_> = homes
            .journal()
            .into_iter()
            .map(|r| r.start..=r.end - 1)
            .collect();
        assert_eq!(found, ext4.journal, "as debugfs tells it");
        let served = Served::new(homes.clone()).expect("an event");
        let (served, socket) = (Arc::new(served), folder.join(format!("{name}.socket")));
        let server = vhost::Server::bind(&socket).expect("a socket");
        let serving = served.clone();
        let thread = rt::spawn("server", move || {
            let done = server.run(&serving, &vhost::Options::default(), &mut |_| {});
            done.expect("serves");
        });
        Disk {
            watch,
            homes,
            served,
            socket,
            thread,
        }
    }

    fn end(self) -> Arc<Watch> {
        self.served.end();
        self.thread.join().expect("the server ends");
        self.watch
    }
}

/// The content of a device as a file, which `e2fsck` finds clean.
pub fn checked(device: &AnyModel, path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(BYTES).unwrap();
    device.dump_logical(|lba, bytes| file.write_all_at(bytes, lba.0 * 512).unwrap());
    sh(&["e2fsck", "-fn", path.to_str().unwrap()]);
}

/// Sequential and random writes; with the word `mmap`, stores through a mapping meanwhile.
const LOADS: &str = r#"
import mmap, os, random, sys, threading
dir, what = sys.argv[1:3]
rng = random.Random(7)
if what == "plain":
    with open(dir + "/seq", "wb", buffering=0) as f:
        for _ in range(96): f.write(rng.randbytes(65536))
        os.fsync(f.fileno())
    with open(dir + "/rnd", "w+b", buffering=0) as f:
        f.truncate(4 << 20)
        for n in range(256):
            f.seek(rng.randrange(1024) * 4096); f.write(rng.randbytes(4096))
            if n % 64 == 63: os.fsync(f.fileno())
    with open(dir + "/magic", "wb", buffering=0) as f:
        for _ in range(64): f.write(bytes.fromhex("c03b3998") + rng.randbytes(4092))
        os.fsync(f.fileno())
else:
    with open(dir + "/map", "w+b", buffering=0) as f:
        f.write(rng.randbytes(2 << 20)); os.fsync(f.fileno())
        m, stop = mmap.mmap(f.fileno(), 2 << 20), False
        def store():
            r = random.Random(8)
            while not stop:
                at = r.randrange(2 << 20) // 8 * 8; m[at:at + 8] = r.randbytes(8)
        t = threading.Thread(target=store); t.start()
        for _ in range(4): os.fsync(f.fileno()); os.sync()
        stop = True; t.join(); m.flush()
"#;

/// Runs a load on a mounted disk, and compares what is read back behind a second mount.
fn load(session: &mut Session, disk: usize, mode: &str, what: &str) {
    let script = format!(
        "mount -t ext4 -o data={mode} $DISK{disk} $MNT
         /usr/bin/python3 -E -S loads.py $MNT {what}
         (cd $MNT; sha256sum *[a-z] 2>/dev/null) >sums || :
         test -s sums
         umount $MNT
         echo 3 >/proc/sys/vm/drop_caches
         mount -t ext4 -o ro $DISK{disk} $MNT
         (cd $MNT; sha256sum -c --quiet) <sums
         umount $MNT"
    );
    let (status, said) = session.run(&script).expect("the guest lives");
    assert_eq!(status, 0, "{mode} {what}: {said}");
}

fn session(disks: &[&Disk]) -> Session {
    let mut guest = Guest::new(&["in_the_guest", "--exact", "--nocapture"]).unwrap();
    for disk in disks {
        guest = guest.served(&disk.socket);
    }
    fs::write(guest.scratch().join("loads.py"), LOADS).unwrap();
    let mut session = Session::start(guest.limit(Duration::from_secs(60))).expect("it boots");
    let (status, said) = session.run("guest load ext4").expect("the guest lives");
    assert_eq!(status, 0, "{said}");
    session
}

#[test]
fn linux_journals_data_and_the_device_programs_them_once() {
    if let Some(why) = guest::lacks() {
        eprintln!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let modes = ["journal", "ordered", "writeback"];
    let disks = modes.map(|mode| Disk::new(folder.path(), mode));
    let mut guest = session(&disks.each_ref());
    let mut took = Vec::new();
    for (nr, mode) in modes.iter().enumerate() {
        let watch = &disks[nr].watch;
        watch.home.take();
        let homes = disks[nr].homes.counts();
        let (since, before) = (
            watch.device.model_time(),
            watch.device.flash_stats().unwrap(),
        );
        load(&mut guest, nr, mode, "plain");
        let time = watch.device.model_time().0 - since.0;
        let all = watch.device.flash_stats().unwrap();
        let all = all.transparent.since(&before.transparent);
        let [plain, escaped, remapped] = watch.home.take();
        let homes = disks[nr].homes.counts().since(&homes);
        let sorted = homes.remapped + homes.missed + homes.escaped + homes.unlogged;
        assert_eq!(sorted, plain + escaped, "{homes}");
        eprintln!("{mode}, by the journal: {homes}");
        eprintln!(
            "{mode}: {plain} home writes, {escaped} escaped, {remapped} remapped; {all:?}; {:.3} s of virtual time",
            time as f64 / 1e9
        );
        took.push(time as f64);
        if *mode == "journal" {
            assert!(plain > 1500 && escaped >= 64, "{plain} {escaped}");
            assert!(
                remapped as f64 >= 0.99 * plain as f64,
                "{remapped} of {plain}"
            );
            assert!(homes.share().is_some_and(|share| share >= 0.99), "{homes}");
            assert_eq!(
                homes.escaped, escaped,
                "the tags in the journal say so, too"
            );
        }
    }
    eprintln!("journal / ordered, throughput: {:.3}", took[1] / took[0]);
    load(&mut guest, 0, "journal", "mmap");
    let [plain, _, remapped] = disks[0].watch.home.take();
    eprintln!("mmap: {plain} home writes, {remapped} remapped");
    assert!(remapped > 0 && remapped < plain, "{remapped} of {plain}");
    drop(guest);
    for (disk, mode) in disks.into_iter().zip(modes) {
        let watch = disk.end();
        let image = folder.path().join(format!("{mode}.after"));
        watch
            .device
            .with_model(|model| checked(model, &image))
            .unwrap();
    }
}
