//! Measures the mount after a power cut, in virtual time on the NVMe profile: F2FS that rolls back
//! to its checkpoint, F2FS that rolls forward what was fsynced, F2FSJ that redoes its ring (the
//! paper's recovery experiment, with more objects than its 8,192).
//!
//! Directories of up to 1,000 files are made, and the volume is unmounted; then N files are made in
//! them, and the power is cut:
//!
//! - rollback: nothing is synced;
//! - roll-forward: every file is fsynced (`fsync_mode=posix`; its directory is in the checkpoint,
//!   so none is written);
//! - f2fsj: one `sync` commits all, nothing is applied;
//! - removed: N files are at home, and are removed; one `sync` of F2FSJ commits all.
//!
//! All of them mount with the triggers of checkpoints off and no timers, so that all N files are
//! behind the checkpoint. `cargo bench -p varve-rig --bench recovery -- [N ...] [size=BYTES]
//! [cache=MIB] [only=WAY]`; without numbers 1,000 and 10,000. The last column is the same mount in
//! the real world on a device in memory: what the code itself takes on this machine. With `--costs`
//! only the real time per record and per node of a chain is printed, less what everything else of
//! the mount is charged: the figures behind `REDO_RECORD` and `ROLL_FORWARD_NODE` of
//! `base::cost::f2fs`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use base::cost::f2fs::{REDO_RECORD, ROLL_FORWARD_NODE};
use base::{Bytes, Nanos, SECTOR_BYTES};
use block::Queue;
use blockdev::{Class, Clock, Modelled, Ram};
use ctrl::{AnyModel, Media};
use f2fs::{CheckpointPolicy, JournalRecovery, Preset, Triggers};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_rig::{AnyFs, Config, Fs, MountOptions, Scheme};
use vfs::{OpenFlags, Vfs};

const DEVICE: &str = "nvme-980pro";
const SEED: u64 = 1;
/// Files of a directory.
const FILES: u32 = 1000;

/// From power to the mount.
const BOOT: Nanos = Nanos::from_secs(10);

/// How the files are made durable, and come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Rollback,
    RollForward,
    F2fsj,
    Removed,
}

impl Way {
    const ALL: [Way; 4] = [Way::Rollback, Way::RollForward, Way::F2fsj, Way::Removed];
    fn is_journal(self) -> bool {
        matches!(self, Way::F2fsj | Way::Removed)
    }
    fn name(self) -> &'static str {
        match self {
            Way::Rollback => "rollback",
            Way::RollForward => "roll-forward",
            Way::F2fsj => "f2fsj",
            Way::Removed => "removed",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy)]
struct Job {
    way: Way,
    files: u32,
    /// Bytes in each.
    size: u32,
    /// Bytes of the caches of the file system.
    cache: usize,
}

/// A mounted volume.
struct Life {
    device: Arc<Modelled<AnyModel>>,
    queue: Arc<Queue>,
    fs: AnyFs,
    vfs: Arc<Vfs>,
}

/// What a mount behind the cut did.
struct Figures {
    mount: Nanos,
    /// CPU time charged in it.
    charged: Nanos,
    read: u64,
    written: u64,
    /// Files that are there, with all their bytes, or are gone.
    recovered: u32,
    /// Node blocks of the chain of roll-forward.
    chain: u64,
    journal: Option<JournalRecovery>,
}

impl Job {
    fn config(&self) -> Config {
        let preset = match self.way {
            Way::Rollback | Way::RollForward => Preset::Checkpoint60,
            Way::F2fsj | Way::Removed => Preset::F2fsj,
        };
        // 1 KiB of ring for each file.
        let ring = self.way.is_journal().then_some((self.files / 4).max(4096));
        let scheme = f2fs::Scheme {
            preset,
            ring,
            ..f2fs::Scheme::default()
        };
        let file = 16384 + 2 * u64::from(self.size);
        Config {
            fs: Fs::F2fs,
            bytes: (1 << 30) + u64::from(self.files).next_multiple_of(4096) * file,
            timers: false,
            ..Config::new(Scheme::F2fs(scheme), DEVICE, SEED)
        }
    }

    fn options(&self) -> MountOptions {
        let MountOptions::F2fs(mut options) = self.config().mount_options() else {
            unreachable!("an F2FS");
        };
        options.cache_bytes = self.cache;
        options.checkpoint = CheckpointPolicy {
            triggers: Triggers {
                dirty_nat_percent: 100,
                dirty_nat_max: u32::MAX,
                cached_nat_max: u32::MAX,
                dirty_node_segments: u32::MAX / 512,
                prefree_percent: 100,
                prefree_segments_max: u32::MAX,
                interval: None,
                ..Triggers::default()
            },
            ..CheckpointPolicy::default()
        };
        if let Some(journal) = &mut options.journal {
            journal.low_percent = 5;
        }
        MountOptions::F2fs(options)
    }

    fn mount(&self, model: AnyModel) -> Life {
        let device = Arc::new(Modelled::new(model, Clock::Runtime));
        let queue = Queue::new(device.clone());
        let fs = AnyFs::mount(queue.clone(), self.options()).expect("mounts");
        let vfs = Vfs::new(fs.seam());
        Life {
            device,
            queue,
            fs,
            vfs,
        }
    }

    fn path(n: u32) -> String {
        format!("/d{}/file {n}", n / FILES)
    }

    /// The volume with its directories, and what is to be removed, unmounted.
    fn volume(&self) -> AnyModel {
        let life = self.mount(self.config().format().expect("a device"));
        for d in 0..self.files.div_ceil(FILES) {
            life.vfs.mkdir(format!("/d{d}"), 0o755).expect("room");
        }
        if self.way == Way::Removed {
            (0..self.files).for_each(|n| self.create(&life.vfs, n));
        }
        life.vfs.unmount().expect("unmounts");
        life.device.take_model().expect("it has power")
    }

    fn create(&self, vfs: &Arc<Vfs>, n: u32) {
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = vfs.open(Job::path(n), flags, 0o644).expect("room");
        if self.size > 0 {
            let data = vec![7; self.size as usize];
            file.write_at(0, &data).expect("room");
        }
        if self.way == Way::RollForward {
            file.fsync().expect("durable");
        }
        file.close().expect("closes");
    }

    /// Makes or removes the files, and cuts the power.
    fn cut(&self) -> Media {
        let life = self.mount(self.volume());
        for n in 0..self.files {
            match self.way {
                Way::Removed => life.vfs.unlink(Job::path(n)).expect("it is there"),
                _ => self.create(&life.vfs, n),
            }
        }
        if self.way.is_journal() {
            life.vfs.sync().expect("durable");
        }
        let media = life.device.power_off(SEED).expect("it has power");
        rt::power_cut();
        media
    }

    /// Mounts what is left.
    fn recover(&self, media: Media) -> Figures {
        let model = self.config().attach(media).expect("its own medium");
        // The drive recovers its own map meanwhile.
        rt::sleep(BOOT);
        let (begun, before) = (rt::now(), rt::charged());
        let life = self.mount(model);
        let mount = rt::now() - begun;
        let charged = Nanos(rt::charged().0 - before.0);
        let stats = life.queue.stats();
        let done = |n: &u32| {
            let found = life.vfs.stat(Job::path(*n));
            let whole = found.is_ok_and(|attr| attr.size == u64::from(self.size));
            whole != (self.way == Way::Removed)
        };
        let recovered = (0..self.files).filter(done).count() as u32;
        life.fs.check();
        life.vfs.unmount().expect("unmounts");
        let f2fs = life.fs.f2fs().expect("an F2FS");
        Figures {
            mount,
            charged,
            read: stats.sectors_read * SECTOR_BYTES as u64,
            written: stats.sectors_written.values().sum::<u64>() * SECTOR_BYTES as u64,
            recovered,
            chain: f2fs.recovery().map_or(0, |r| r.nodes_read),
            journal: f2fs.journal_recovery().cloned(),
        }
    }

    /// Real time of the same mount on a device in memory, where charged costs are nothing: what the
    /// code itself takes.
    fn on_ram(&self, media: Media) -> Nanos {
        let config = self.config();
        let model = config.attach(media).expect("its own medium");
        let queue = Queue::new(Arc::new(Ram::new(config.bytes)));
        model.dump_logical(|lba, bytes| {
            let bytes = Bytes::copy_from_slice(bytes);
            queue.write(lba, Class::Data, bytes).expect("written");
        });
        drop(model);
        let begun = rt::now();
        let fs = AnyFs::mount(queue, self.options()).expect("mounts");
        let took = rt::now() - begun;
        fs.seam().unmount().expect("unmounts");
        took
    }

    fn run(&self) -> (Figures, Nanos) {
        let media = Sim::new(SimConfig::seeded(SEED))
            .run(|| self.cut())
            .unwrap();
        let real = self.on_ram(media.clone());
        let found = Sim::new(SimConfig::seeded(SEED)).run(|| self.recover(media));
        (found.unwrap(), real)
    }
}

/// Prints what one record, or one node of a chain, takes beyond what the rest of the mount is
/// charged.
fn costs() {
    let one = |way, name: &str, own: Nanos, count: fn(&Figures) -> u64| {
        let job = Job {
            way,
            files: 10_000,
            size: 0,
            cache: 1 << 30,
        };
        let (figures, first) = job.run();
        let real = (1..5).fold(first, |least, _| least.min(job.run().1));
        let count = count(&figures).max(1);
        let below = figures.charged.0.saturating_sub(own.0 * count);
        let left = real.0.saturating_sub(below) / count;
        println!("rig/{name}\t{left}\t{} with all below", real.0 / count);
    };
    let records = |f: &Figures| f.journal.as_ref().map_or(0, |j| j.records);
    one(Way::F2fsj, "redo-record", REDO_RECORD, records);
    let chain = |f: &Figures| f.chain;
    one(
        Way::RollForward,
        "roll-forward-node",
        ROLL_FORWARD_NODE,
        chain,
    );
}

fn milliseconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e6
}

fn report(job: &Job, figures: &Figures, real: Nanos) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let none = JournalRecovery::default();
    let journal = figures.journal.as_ref().unwrap_or(&none);
    println!(
        "{:>8} {:<12} {:>10.3} {:>9.2} {:>9.2} {:>6} {:>8} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>8.1} % {:>9.1}",
        job.files,
        job.way.name(),
        milliseconds(figures.mount),
        mib(figures.read),
        mib(figures.written),
        journal.epochs,
        journal.records,
        figures.chain,
        milliseconds(journal.scan),
        milliseconds(journal.redo),
        milliseconds(journal.publish),
        100.0 * f64::from(figures.recovered) / f64::from(job.files),
        milliseconds(real),
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` asks whether it builds, no more.
    if args.iter().any(|a| a == "--test") {
        return;
    }
    if args.iter().any(|a| a == "--costs") {
        return costs();
    }
    let value = |key: &str| args.iter().find_map(|a| a.strip_prefix(key));
    let number = |key: &str, default| value(key).map_or(default, |v| v.parse().expect("a number"));
    let (size, cache): (u32, usize) = (number("size=", 0), number("cache=", 1024) as usize);
    let mut counts: Vec<u32> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![1000, 10_000];
    }
    println!(
        "{:>8} {:<12} {:>10} {:>9} {:>9} {:>6} {:>8} {:>8} {:>9} {:>9} {:>9} {:>10} {:>9}",
        "files",
        "way",
        "mount ms",
        "read MiB",
        "wrote MiB",
        "epochs",
        "records",
        "nodes",
        "scan ms",
        "redo ms",
        "pack ms",
        "recovered",
        "real ms"
    );
    for files in counts {
        for way in Way::ALL {
            if value("only=").is_some_and(|only| only != way.name()) {
                continue;
            }
            let cache = cache << 20;
            let job = Job {
                way,
                files,
                size,
                cache,
            };
            let (figures, real) = job.run();
            report(&job, &figures, real);
        }
    }
}
