//! Measures what operations of a file system cost in CPU time, for the table of CPU costs
//! (`base::cost`).
//!
//! The same work runs twice: in the real world on a RAM device, where `rt::charge` does nothing, in
//! rounds of which the fastest counts; and in the simulation, where the virtual clock shows what
//! was charged. The constant of an operation should be its real time less what everything below it
//! is charged.

use base::{Ino, Nanos};
use fscore::{Creds, FileKind, FileSystem, SetAttr};

/// Rounds in the real world.
const ROUNDS: usize = 12;
/// Objects of a round: below every trigger, so that nothing but `sync` writes metadata.
pub const DIRS: u32 = 20;
/// In each directory.
pub const FILES: u32 = 100;
/// All of them.
pub const ALL: u64 = (DIRS * FILES) as u64;
/// Pages of a file that is written and read 1 MiB at a time: the first page of a call is one of
/// 256.
const MUCH_PAGES: u64 = 16 * 256;
/// The credentials that the operations run with.
pub const ROOT: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0,
};

/// Names, and nanoseconds of one each, round by round.
pub struct Times {
    clock: fn() -> u64,
    rows: Vec<(&'static str, Vec<f64>)>,
}

impl Times {
    fn new(clock: fn() -> u64) -> Times {
        Times {
            clock,
            rows: Vec::new(),
        }
    }

    /// `work` is `count` times what `name` says.
    pub fn add(&mut self, name: &'static str, count: u64, work: impl FnOnce()) {
        self.add_counted(name, || {
            work();
            count
        });
    }

    /// The same; `work` answers the count.
    pub fn add_counted(&mut self, name: &'static str, work: impl FnOnce() -> u64) {
        let start = (self.clock)();
        let count = work();
        let each = ((self.clock)() - start) as f64 / count.max(1) as f64;
        match self.rows.iter_mut().find(|(n, _)| *n == name) {
            Some((_, all)) => all.push(each),
            None => self.rows.push((name, vec![each])),
        }
    }

    /// The fastest round.
    pub fn best(&self, name: &str) -> f64 {
        let row = self.rows.iter().find(|(n, _)| *n == name);
        let all = row.map_or(&[][..], |(_, all)| all);
        all.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Runs `round` in both worlds and prints, for each measurement, what is left for its constant.
/// `own` are the constants as the simulation charged them. One named `A=B~C` is the difference of
/// two that `round` adds. Answers what `round` took, and what it was charged.
pub fn measure(
    prefix: &str,
    own: &[(&str, Nanos)],
    round: impl Fn(&mut Times) + Send + Sync,
) -> Option<[Times; 2]> {
    if std::env::args().any(|a| a == "--test") {
        // `cargo test --benches` asks whether it builds, no more.
        return None;
    }
    let mut real = Times::new(|| rt::now().0);
    (0..ROUNDS).for_each(|_| round(&mut real));
    let charged = rt::Sim::new(rt::SimConfig::seeded(1)).run(|| {
        let mut charged = Times::new(|| rt::charged().0);
        round(&mut charged);
        charged
    });
    let charged = charged.unwrap();
    for &(name, constant) in own {
        let of = |times: &Times| match name.split_once('=') {
            Some((_, difference)) => {
                let (more, less) = difference.split_once('~').expect("two names");
                times.best(more) - times.best(less)
            }
            None => times.best(name),
        };
        let below = of(&charged) - constant.0 as f64;
        let shown = name.split('=').next().unwrap_or(name);
        println!(
            "{prefix}/{shown}\t{:.0}\t{:.0} with all below",
            (of(&real) - below).max(0.0),
            of(&real)
        );
    }
    Some([real, charged])
}

/// Makes the directories of a round.
pub fn dirs(fs: &dyn FileSystem) -> Vec<Ino> {
    let dir = |d| {
        let made = fs.mkdir(fs.root(), format!("d{d}").as_bytes(), 0o755, ROOT);
        made.expect("room").ino
    };
    (0..DIRS).map(dir).collect()
}

/// Calls `work` for each place of an object.
pub fn each(dirs: &[Ino], mut work: impl FnMut(Ino, u32)) {
    for dir in dirs {
        (0..FILES).for_each(|n| work(*dir, n));
    }
}

/// The name of a file.
pub fn name(n: u32) -> Vec<u8> {
    format!("file {n}").into_bytes()
}

fn sub(n: u32) -> Vec<u8> {
    format!("dir {n}").into_bytes()
}

/// Makes, reads, writes and removes. `sync` writes what was made so far.
pub fn operations(fs: &dyn FileSystem, times: &mut Times, sync: impl FnOnce(&mut Times)) {
    let dirs = dirs(fs);
    let mut inos = Vec::new();
    times.add("create", ALL, || {
        each(&dirs, |dir, n| {
            let made = fs.create(dir, &name(n), FileKind::File, 0o644, 0, ROOT);
            inos.push(made.expect("room").ino);
        });
    });
    times.add("lookup", ALL, || {
        each(&dirs, |dir, n| {
            fs.lookup(dir, &sub(n)).expect_err("not there");
        });
    });
    let mut page = vec![7; 4096];
    let all = |work: &mut dyn FnMut(Ino)| inos.iter().for_each(|ino| work(*ino));
    times.add("write-4k", ALL, || {
        all(&mut |ino| {
            fs.write(ino, 0, &page).expect("room");
        });
    });
    times.add("read-4k", ALL, || {
        all(&mut |ino| {
            fs.read(ino, 0, &mut page).expect("cached");
        });
    });
    let set = SetAttr {
        perm: Some(0o600),
        ..SetAttr::default()
    };
    times.add("setattr", ALL, || {
        all(&mut |ino| {
            fs.setattr(ino, &set).expect("mine");
        });
    });
    times.add("writeback-page", ALL, || {
        fs.writeback(rt::now() + Nanos(1)).expect("written");
    });
    let mut much = vec![7; 1 << 20];
    let one = fs.create(dirs[0], b"big", FileKind::File, 0o644, 0, ROOT);
    let one = one.expect("room").ino;
    times.add("write-next-page", MUCH_PAGES, || {
        for i in 0..16 {
            fs.write(one, i << 20, &much).expect("room");
        }
    });
    times.add("read-next-page", MUCH_PAGES, || {
        for i in 0..16 {
            fs.read(one, i << 20, &mut much).expect("cached");
        }
    });
    times.add("writeback-next-page", MUCH_PAGES, || {
        fs.writeback(rt::now() + Nanos(1)).expect("written");
    });
    fs.unlink(dirs[0], b"big").expect("there");
    times.add("mkdir", ALL, || {
        each(&dirs, |dir, n| {
            fs.mkdir(dir, &sub(n), 0o755, ROOT).expect("room");
        });
    });
    times.add_counted("readdir-entry", || {
        let listed = dirs.iter().map(|dir| {
            let found = fs.readdir(*dir, 0, 1000).expect("listed");
            found.len() as u64
        });
        listed.sum()
    });
    sync(times);
    times.add("rename", ALL, || {
        each(&dirs, |dir, n| {
            let new = format!("moved {n}");
            fs.rename(
                dir,
                &name(n),
                dir,
                new.as_bytes(),
                fscore::RenameMode::Replace,
            )
            .expect("room");
        });
    });
    times.add("rmdir", ALL, || {
        each(&dirs, |dir, n| fs.rmdir(dir, &sub(n)).expect("empty"));
    });
    all(&mut |ino| fs.open(ino).expect("there"));
    times.add("unlink", ALL, || {
        each(&dirs, |dir, n| {
            fs.unlink(dir, format!("moved {n}").as_bytes())
                .expect("there");
        });
    });
    times.add("evict", ALL, || {
        all(&mut |ino| fs.release(ino).expect("open"));
    });
}
