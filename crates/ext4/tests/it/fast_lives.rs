//! Lives of a volume with fast commits, for the catalogue of mutants: each fsync is followed by a
//! cut that leaves all that was written, and what was synced has to be there after a mount, on a
//! volume without faults.

use crate::area::Area;
use crate::common;
use crate::common::cut_disk::new_volume_for;
use base::{Ino, Mutant, Nanos};
use block::Queue;
use blockdev::Image;
use fscore::{Creds, FileKind, FileSystem, FsResult, SetAttr};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::mutants::{Seen, caught, cuts_of};
use varve_ext4::{Ext4, MountOptions};

const MIB: u64 = 24;
const MOUNT: &str = "scheme=fast-commit";

/// Names of the root directory with number and content; `None` where other tasks were at work.
type Files = BTreeMap<Vec<u8>, (Ino, Vec<u8>)>;

/// What a cut left, and what has to be found there.
struct Left {
    image: Image,
    files: Option<Files>,
    what: String,
}

/// A mounted volume, and what it left so far.
struct Stage {
    fs: Arc<Ext4>,
    ram: Arc<blockdev::Ram>,
    left: Mutex<Vec<Left>>,
}

fn files_of(fs: &Ext4) -> FsResult<Files> {
    let mut files = Files::new();
    for entry in fs.readdir(fs.root(), 0, 10_000)? {
        let attr = fs.getattr(entry.ino)?;
        if attr.kind == FileKind::File {
            let mut content = vec![0; attr.size as usize];
            fs.read(entry.ino, 0, &mut content)?;
            files.insert(entry.name, (entry.ino, content));
        }
    }
    Ok(files)
}

impl Stage {
    fn make(&self, name: &str) -> Ino {
        let (root, creds) = (self.fs.root(), Creds::default());
        let made = (self.fs).create(root, name.as_bytes(), FileKind::File, 0o640, 0, creds);
        made.expect("room").ino
    }

    fn write(&self, ino: Ino, at: u64, len: usize) {
        let data = common::pattern(at + u64::from(ino.0), len);
        self.fs.write(ino, at, &data).expect("room");
    }

    fn resize(&self, ino: Ino, size: u64) {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).expect("a size");
    }

    /// A file that is unlinked and still open.
    fn orphan(&self, name: &str) -> Ino {
        let ino = self.make(name);
        self.write(ino, 0, 9000);
        self.fs.open(ino).expect("there");
        let gone = self.fs.unlink(self.fs.root(), name.as_bytes());
        gone.expect("there");
        ino
    }

    fn sync(&self) {
        self.fs.sync().expect("synced");
    }

    fn fsync(&self, ino: Ino, what: &str) {
        self.fs.writeback(base::Time(u64::MAX)).expect("room");
        self.fs.fsync(ino, false).expect("synced");
        self.snap(Some(files_of(&self.fs).expect("a walk")), what);
    }

    fn snap(&self, files: Option<Files>, what: &str) {
        self.left.lock().push(Left {
            image: self.ram.blocks().into_iter().collect(),
            files,
            what: what.into(),
        });
    }
}

/// Runs a life on `volume`, and answers what its cuts left.
fn lived(volume: &Image, life: fn(&Stage), mutant: Option<Mutant>) -> Outcome<Vec<Left>> {
    let volume = volume.clone();
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(1)
    };
    Sim::new(config).run(move || {
        let ram = Arc::new(volume.to_ram(MIB << 20));
        let options = MountOptions::parse(MOUNT).expect("options");
        let stage = Stage {
            fs: Ext4::mount(Queue::new(ram.clone()), options).expect("mounts"),
            ram,
            left: Mutex::named("left", Vec::new()),
        };
        life(&stage);
        stage.fs.unmount().expect("unmounts");
        std::mem::take(&mut *stage.left.lock())
    })
}

fn judge(left: &Left, mount: &'static str) -> Result<(), String> {
    let image = left.image.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(image.to_ram(MIB << 20));
        let options = MountOptions::parse(mount).expect("options");
        let fs = Ext4::mount(Queue::new(ram.clone()), options);
        let fs = fs.map_err(|e| e.to_string())?;
        let files = files_of(&fs).map_err(|e| e.to_string());
        fs.unmount().map_err(|e| e.to_string())?;
        let report = common::check_ram(&ram);
        match report.is_clean() {
            true => files,
            false => Err(common::said(&report)),
        }
    });
    if let Some(failure) = outcome.first_failure {
        return Err(format!("{}: panic: {failure}", left.what));
    }
    let found = outcome.value.expect("an answer");
    let found = found.map_err(|e| format!("{}: {e}", left.what))?;
    match left.files.as_ref().is_none_or(|files| *files == found) {
        true => Ok(()),
        false => Err(format!("{}: not what was synced", left.what)),
    }
}

fn notices(mutant: Mutant, what: &str, volume: &Image, life: fn(&Stage)) {
    notices_by("", mutant, what, volume, life);
}

/// As [`notices`], where the mount behind the cut has these options.
fn notices_by(mount: &'static str, mutant: Mutant, what: &str, volume: &Image, life: fn(&Stage)) {
    let workload = format!("ext4, {MOUNT}, {what}");
    caught(mutant, &workload, |mutant| -> Seen {
        let judge = |left: &Left| judge(left, mount);
        cuts_of(mutant, ([1], 1), |_| lived(volume, life, mutant), judge)
    });
}

/// One fast commit more than the area has blocks that Varve uses.
fn full_area(stage: &Stage) {
    let file = stage.make("file");
    stage.sync();
    for n in 0..260 {
        stage.write(file, 0, 1000 + n);
        stage.fs.fsync(file, false).expect("synced");
        if n > 250 {
            stage.snap(None, &format!("fsync {n}"));
        }
    }
}

/// fast-W9. Recovery by Varve reads a full area; that of others reads on behind it.
#[test]
fn fast_full_area() {
    let volume = new_volume_for(MOUNT, MIB);
    let others = "scheme=fast-commit+bug=full-area+bug-in=recovery";
    notices_by(
        others,
        Mutant::FastFullArea,
        "a full area",
        &volume,
        full_area,
    );
}

/// hazards-H38, fast_record-B6: the number of an orphan of the medium is used again.
fn number_of_an_orphan(stage: &Stage) {
    let old = stage.orphan("old");
    stage.sync();
    stage.fs.release(old).expect("open");
    let new = stage.make("new");
    assert_eq!(new, old, "the number is used again");
    stage.write(new, 0, 5000);
    stage.fsync(new, "a new file with the number of an orphan");
}

#[test]
fn fast_tells_orphans() {
    let volume = new_volume_for(MOUNT, MIB);
    let what = "the number of an orphan";
    notices(Mutant::FastTellsOrphans, what, &volume, number_of_an_orphan);
}

/// fast_record-B6: one task cuts a file off in several handles, another one syncs.
fn half_cut(stage: &Stage) {
    let (cut, other) = (stage.make("cut"), stage.make("other"));
    for n in 0..200 {
        stage.write(cut, n * 16_384, 4096);
    }
    stage.sync();
    rt::scope(|scope| {
        let cutter = scope.spawn("cut", || {
            for n in (0..20).rev() {
                stage.resize(cut, n * 160_000 + 77);
                rt::sleep(Nanos::from_micros(7));
            }
        });
        for n in 0..30 {
            stage.write(other, n * 100, 100);
            stage.fs.fsync(other, false).expect("synced");
            stage.snap(None, &format!("sync {n} beside a truncation"));
        }
        cutter.join().expect("no panic");
    });
}

/// As [`fast_tells_orphans`], the other half of the guard.
#[test]
fn fast_tells_orphans_of_truncations() {
    let volume = new_volume_for(MOUNT, MIB);
    let what = "a truncation that is half done";
    notices(Mutant::FastTellsOrphans, what, &volume, half_cut);
}

/// Names of so many bytes take so much of a directory's block.
const LONG: (usize, usize) = (104, 112);
const SHORT: (usize, usize) = (44, 52);

fn named(letter: char, (len, _): (usize, usize)) -> String {
    std::iter::repeat_n(letter, len).collect()
}

/// fast_record-B7, fast_record-B5: the root's block and the volume are full. What is told of the
/// names that come lacks the short life of one that made them fit where they are.
fn full_directory(stage: &Stage) {
    let free = base::BLOCK_BYTES - 12 - (12 + 12 + 20);
    stage.make(&named('A', LONG));
    // Else the two leave one hole.
    stage.make(&named('M', LONG));
    stage.make(&named('B', SHORT));
    let rest = free - 2 * LONG.1 - SHORT.1;
    for n in 0..rest / LONG.1 {
        stage.make(&format!("{n:0>104}"));
    }
    let last = rest % LONG.1 / 4 * 4;
    stage.make(&named('C', (last - 8, last)));
    let (names, fill) = ([named('A', LONG), named('B', SHORT)], &stage.fs);
    for name in names {
        fill.unlink(fill.root(), name.as_bytes()).expect("there");
    }
    let ballast = fill.lookup(fill.root(), &vec![b'0'; 104]).expect("there");
    let mut at = 0;
    // What is promised to data that is not written yet keeps some blocks back until it is.
    loop {
        let (before, mut step) = (at, 1 << 20);
        while step >= base::BLOCK_BYTES {
            match fill.write(ballast, at, &vec![7; step]) {
                Ok(n) => at += n as u64,
                Err(_) => step /= 2,
            }
        }
        stage.sync();
        if at == before {
            break;
        }
    }
    // It takes the place of A for a while, and so the next one that of B.
    let short_life = named('s', LONG);
    stage.make(&short_life);
    let early = stage.make(&named('b', SHORT));
    let gone = fill.unlink(fill.root(), short_life.as_bytes());
    gone.expect("there");
    stage.make(&named('a', LONG));
    assert_eq!(fill.getattr(fill.root()).expect("there").size, 4096);
    stage.fsync(early, "names in a full directory of a full volume");
}

#[test]
fn fast_without_room() {
    let volume = new_volume_for(MOUNT, MIB);
    let what = "a full directory";
    notices(Mutant::FastWithoutRoom, what, &volume, full_directory);
}

fn opened_to_all(stage: &Stage) {
    let first = stage.make("first");
    stage.sync();
    let set = SetAttr {
        perm: Some(0o666),
        ..SetAttr::default()
    };
    stage.fs.setattr(first, &set).expect("may");
    stage.write(first, 0, 100);
    stage.fsync(first, "written");
}

fn untouched(stage: &Stage) {
    stage.make("first");
    stage.sync();
    let files = files_of(&stage.fs).expect("a walk");
    stage.snap(Some(files), "a full commit");
}

/// fast-W11: the area holds a fast commit that is right but for being one, as a file could put it
/// there under another scheme.
#[test]
fn fast_no_clear() {
    let clean = new_volume_for(MOUNT, MIB);
    let made = lived(&clean, opened_to_all, None).unwrap().remove(0);
    let area = Area::of(&made.image).expect("an area");
    let mut planted = clean;
    area.write(&mut planted, &area.read(&made.image));
    let what = "a fast commit in the area before";
    notices(Mutant::FastNoClear, what, &planted, untouched);
}
