//! Apply: what is committed goes home while operations run; what a mount finds is the state after a whole epoch.

use crate::common::{disk, fsck, mount, sim, volume};
use base::{BLOCK_BYTES, Ino, Mutant};
use block::Queue;
use blockdev::Image;
use fscore::{Creds, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 1024;

/// A generator of numbers.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// All names with what is behind them.
pub fn tree(fs: &F2fs) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![(String::new(), fs.root())];
    while let Some((path, dir)) = dirs.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 64).expect("lists");
            let Some(last) = entries.last() else {
                break;
            };
            from = last.next;
            for entry in &entries {
                let name = String::from_utf8(entry.name.clone()).expect("a name of ours");
                if name == "." || name == ".." || name == "lost+found" {
                    continue;
                }
                let path = format!("{path}/{name}");
                let attr = fs.getattr(entry.ino).expect("there");
                let mut bytes =
                    format!("{:?} {} {:o} ", attr.kind, attr.nlink, attr.perm).into_bytes();
                match attr.kind {
                    FileKind::Dir => dirs.push((path.clone(), entry.ino)),
                    FileKind::File => {
                        let mut content = vec![0; attr.size as usize];
                        let n = fs.read(entry.ino, 0, &mut content).expect("reads");
                        assert_eq!(n as u64, attr.size);
                        bytes.extend(content);
                    }
                    FileKind::Symlink => bytes.extend(fs.readlink(entry.ino).expect("a target")),
                    _ => {}
                }
                if let Ok(value) = fs.getxattr(entry.ino, b"user.x") {
                    bytes.extend(value);
                }
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Does random things in some directories.
pub struct Player<'a> {
    fs: &'a F2fs,
    dice: Dice,
    /// Names that it makes begin with this.
    mark: char,
    dirs: Vec<(Ino, Vec<u8>)>,
    /// How much a write writes at most, blocks.
    write: u64,
}

impl<'a> Player<'a> {
    pub fn new(fs: &'a F2fs, seed: u64, mark: char) -> Player<'a> {
        Player {
            fs,
            dice: Dice::new(seed),
            mark,
            dirs: vec![(fs.root(), Vec::new())],
            write: 24,
        }
    }

    fn name(&mut self, kinds: u64) -> Vec<u8> {
        let n = self.dice.below(kinds);
        let long = if n.is_multiple_of(3) {
            "-of-a-length-that-takes-some-slots-of-a-directory"
        } else {
            ""
        };
        format!("{}{n}{long}", self.mark).into_bytes()
    }

    fn dir(&mut self) -> Ino {
        let n = self.dice.below(self.dirs.len() as u64);
        self.dirs[n as usize].0
    }

    /// One operation. What cannot be is refused, which is fine.
    pub fn step(&mut self) {
        if let Err(e) = self.try_step() {
            assert!(e.errno() != fscore::Errno::Io, "{e}");
            assert!(!e.to_string().contains("corrupt"), "{e}");
        }
    }

    fn try_step(&mut self) -> FsResult<()> {
        let (fs, dir) = (self.fs, self.dir());
        let creds = Creds::default();
        match self.dice.below(24) {
            0..=5 => {
                let name = self.name(60);
                fs.create(dir, &name, FileKind::File, 0o644, 0, creds)
                    .map(drop)
            }
            6..=8 => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                let at = self.dice.below(40) * 3000;
                let len = 1 + self.dice.below(self.write * BLOCK_BYTES as u64);
                let fill = self.dice.below(256) as u8;
                fs.write(ino, at, &vec![fill; len as usize]).map(drop)
            }
            9..=11 => {
                let name = self.name(60);
                fs.unlink(dir, &name)
            }
            12 => {
                let name = self.name(60);
                let made = fs.mkdir(dir, &name, 0o755, creds)?;
                if self.dirs.len() < 12 {
                    self.dirs.push((made.ino, name));
                }
                Ok(())
            }
            13 => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                fs.rmdir(dir, &name)?;
                self.dirs.retain(|(known, _)| *known != ino);
                Ok(())
            }
            14..=15 => {
                let (a, b, to) = (self.name(60), self.name(60), self.dir());
                let gone = fs.lookup(to, &b).ok();
                fs.rename(dir, &a, to, &b, RenameMode::Replace)?;
                if let Some(gone) = gone
                    && fs.getattr(gone).is_err()
                {
                    self.dirs.retain(|(known, _)| *known != gone);
                }
                Ok(())
            }
            16 => {
                let (a, b, to) = (self.name(60), self.name(60), self.dir());
                let ino = fs.lookup(dir, &a)?;
                fs.link(ino, to, &b).map(drop)
            }
            17 => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                let size = self.dice.below(60) * 2500;
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(size),
                        ..SetAttr::default()
                    },
                )
                .map(drop)
            }
            18 => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                let value = vec![self.dice.below(256) as u8; self.dice.below(3000) as usize];
                fs.setxattr(ino, b"user.x", &value, XattrMode::Any)
            }
            19 => {
                let name = self.name(60);
                let target = self.name(900);
                fs.symlink(dir, &name, &target, creds).map(drop)
            }
            20 => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                fs.fsync(ino, self.dice.below(2) == 0)
            }
            21 => fs.writeback(rt::now()),
            22 => {
                // Many names at once: pages of a directory come, or go.
                let add = self.dice.below(2) == 0;
                for n in 0..60 {
                    let name = format!(
                        "{}-many-{n}-names-that-are-long-enough-to-fill-pages",
                        self.mark
                    );
                    let _ = match add {
                        true => fs
                            .create(dir, name.as_bytes(), FileKind::File, 0o600, 0, creds)
                            .map(drop),
                        false => fs.unlink(dir, name.as_bytes()),
                    };
                }
                Ok(())
            }
            _ => {
                let name = self.name(60);
                let ino = fs.lookup(dir, &name)?;
                let perm = self.dice.below(0o1000) as u16;
                fs.setattr(
                    ino,
                    &SetAttr {
                        perm: Some(perm),
                        ..SetAttr::default()
                    },
                )
                .map(drop)
            }
        }
    }
}

/// What is left after an unmount is a plain F2FS with this content.
fn assert_left(ring: u32, left: &Image, expected: &BTreeMap<String, Vec<u8>>) {
    fsck(ring, left);
    sim(1, || {
        let disk = disk(ring, left.clone(), 1);
        let fs = mount(&disk, "");
        let found = tree(&fs);
        for (path, content) in expected {
            assert!(found.get(path) == Some(content), "{path} differs");
        }
        assert_eq!(found.len(), expected.len());
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn one_task_and_applies_between_its_operations() {
    for (seed, more) in [(1, ""), (2, ""), (3, "")] {
        let (left, expected) = sim(seed, || {
            let disk = disk(RING, volume(RING), seed);
            let fs = mount(&disk, more);
            let mut player = Player::new(&fs, seed, 'a');
            for n in 0..400 {
                player.step();
                if n % 40 == 39 {
                    fs.write_home_now().expect("applies");
                    fs.check();
                    fs.check_home();
                }
            }
            let expected = tree(&fs);
            fs.unmount().expect("unmounts");
            let stats = fs.applies();
            assert!(
                stats.applies() >= 10 && stats.fast_forwarded > 0,
                "{stats:?}"
            );
            (disk.visible(), expected)
        });
        assert_left(RING, &left, &expected);
    }
}

/// Operations go on while applies run; then everything is applied, and home and live agree.
fn race(
    config: SimConfig,
    seed: u64,
    ring: u32,
    more: &str,
) -> (Image, BTreeMap<String, Vec<u8>>, varve_f2fs::ApplyStats) {
    let outcome = Sim::new(config).run(|| {
        let disk = disk(ring, volume(ring), seed);
        let fs = mount(&disk, more);
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let fs = fs.clone();
                rt::spawn("player", move || {
                    let mark = char::from(b'a' + n as u8 % 2);
                    let mut player = Player::new(&fs, seed * 10 + n, mark);
                    for _ in 0..120 {
                        player.step();
                    }
                })
            })
            .collect();
        let applier = {
            let fs = fs.clone();
            rt::spawn("applier", move || {
                for n in 0..30 {
                    rt::sleep(base::Nanos::from_micros(200 + 37 * n));
                    fs.write_home_now().expect("applies");
                }
            })
        };
        tasks
            .into_iter()
            .chain([applier])
            .for_each(|t| t.join().expect("no panic"));
        fs.sync().expect("syncs");
        fs.write_home_now().expect("applies");
        fs.check();
        fs.check_home();
        let expected = tree(&fs);
        fs.unmount().expect("unmounts");
        (disk.visible(), expected, fs.applies())
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

#[test]
fn operations_race_with_applies() {
    let mut patched = 0;
    for seed in 1..=4 {
        let (left, expected, stats) = race(SimConfig::random(seed), seed, RING, "");
        assert_left(RING, &left, &expected);
        patched += stats.patched;
    }
    assert!(patched > 0, "no node was changed while it was applied");
}

#[test]
fn operations_race_with_applies_that_redo_everything_and_in_tiny_rings() {
    for (seed, ring, more) in [(21, RING, "nofast_forward"), (22, 16, ""), (23, 64, "")] {
        let (left, expected, stats) = race(SimConfig::random(seed), seed, ring, more);
        assert_left(ring, &left, &expected);
        let forwarded = stats.fast_forwarded;
        assert_eq!(forwarded > 0, more.is_empty(), "{stats:?}");
    }
}

fn file(fs: &F2fs, dir: Ino, name: &str) -> Ino {
    let creds = Creds::default();
    let made = fs.create(dir, name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.expect("a file").ino
}

/// B3: one node write for three epochs; a node that a later epoch has changed is made from home and records.
#[test]
fn nodes_that_nobody_changed_since_go_home_once() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "commit=300");
        let ino = file(&fs, fs.root(), "f");
        fs.write_home_now().expect("applies");
        let before = fs.applies();
        for n in 0..3 {
            fs.write(ino, n * 8192, &[n as u8; 5000]).expect("writes");
            fs.fsync(ino, false).expect("a commit");
        }
        fs.write_home_now().expect("applies");
        let after = fs.applies();
        assert_eq!(after.epochs - before.epochs, 3);
        assert_eq!(after.node_blocks - before.node_blocks, 1, "{after:?}");
        assert_eq!(after.fast_forwarded - before.fast_forwarded, 1);
        assert!(after.records_saved - before.records_saved >= 3);
        fs.check_home();
        fs.write_home_now().expect("nothing to do");
        assert_eq!(fs.applies().applies(), after.applies());
        assert_eq!(fs.applies().unnecessary, after.unnecessary + 1);
        fs.unmount().expect("unmounts");
    });
}

/// B4: what an epoch has freed is not written before that epoch is applied, and comes back then.
#[test]
fn freed_blocks_come_back_with_the_apply() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "commit=300,mode=lfs");
        let ino = file(&fs, fs.root(), "f");
        fs.write(ino, 0, &vec![1; 300 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(ino, false).expect("a commit");
        fs.write_home_now().expect("applies");
        let released = fs.applies().released;
        fs.write(ino, 0, &vec![2; 300 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(ino, false).expect("a commit");
        // Back at this point by a cut: the ring has the new blocks, the pack the old ones; both are as they were written.
        let (pack, ring) = (disk.snapshot_lost(), tree(&fs));
        fs.write_home_now().expect("applies");
        assert!(
            fs.applies().released >= released + 300,
            "{:?}",
            fs.applies()
        );
        fs.check_home();
        fs.unmount().expect("unmounts");
        let again = crate::common::disk(RING, pack, 2);
        let fs = mount(&again, "");
        assert_eq!(tree(&fs), ring, "I7");
        fs.unmount().expect("unmounts");
    });
}

/// B10: dirty nodes do not grow beyond their threshold, whoever has to apply.
#[test]
fn dirty_nodes_are_bounded_without_any_task() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let mut options = MountOptions::parse("scheme=f2fsj").expect("valid");
        options.timers = false;
        options.checkpoint.triggers.dirty_node_segments = 1;
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        for n in 0..1500 {
            file(&fs, fs.root(), &format!("f{n}"));
        }
        assert!(fs.applies().applies() > 0, "{:?}", fs.applies());
        fs.unmount().expect("unmounts");
    });
}

/// What cuts leave while an apply runs: each is the state after all that was committed before. Answers what is wrong.
fn cuts_of_an_apply(seed: u64, ring: u32, mutant: Option<Mutant>) -> Result<usize, String> {
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(|| {
        let disk = disk(ring, volume(ring), seed);
        let fs = mount(&disk, "commit=300");
        let mut player = Player::new(&fs, seed, 'a');
        player.write = 3;
        let mut pictures = Vec::new();
        for round in 0..3 {
            for _ in 0..60 {
                player.step();
            }
            fs.sync().expect("a commit");
            let expected = tree(&fs);
            let task = {
                let fs = fs.clone();
                rt::spawn("applier", move || fs.write_home_now().expect("applies"))
            };
            let mut n = 0;
            while !task.is_finished() {
                pictures.push((
                    disk.snapshot(seed * 1000 + round * 100 + n),
                    expected.clone(),
                ));
                n += 1;
                rt::sleep(base::Nanos::from_micros(60));
            }
            task.join().expect("no panic");
            file(&fs, fs.root(), &format!("behind {round}"));
            fs.sync().expect("a commit");
            let expected = tree(&fs);
            pictures.push((disk.snapshot_lost(), expected));
        }
        fs.unmount().expect("unmounts");
        pictures
    });
    if let Some(failure) = outcome.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    let pictures = outcome.value.expect("no failure");
    for (n, (picture, expected)) in pictures.iter().enumerate() {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let disk = crate::common::disk(ring, picture.clone(), 7);
            let fs = mount(&disk, "");
            let found = tree(&fs);
            fs.check();
            fs.unmount().expect("unmounts");
            found
        });
        if let Some(failure) = outcome.first_failure {
            return Err(format!("seed {seed}, cut {n}: {failure}"));
        }
        if outcome.value.as_ref() != Some(expected) {
            return Err(format!(
                "seed {seed}, cut {n}: I7: another state than the committed one"
            ));
        }
    }
    Ok(pictures.len())
}

/// B7.
#[test]
fn a_cut_inside_an_apply_loses_nothing_that_was_committed() {
    let mut cuts = 0;
    for seed in 1..=3 {
        cuts += cuts_of_an_apply(seed, RING, None).unwrap_or_else(|why| panic!("{why}"));
    }
    assert!(cuts > 30, "{cuts} cuts");
}

/// Files are made and acknowledged in a tiny ring while applies run: what a cut leaves has all that was acknowledged before it.
fn acknowledged_beside_applies(seed: u64, mutant: Option<Mutant>) -> Result<(), String> {
    const RING: u32 = 16;
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(|| {
        let disk = disk(RING, volume(RING), seed);
        let fs = mount(&disk, "commit=300");
        let done = Arc::new(rt::Mutex::new(0));
        let maker = {
            let (fs, done) = (fs.clone(), done.clone());
            rt::spawn("maker", move || {
                for n in 0..60 {
                    let ino = file(&fs, fs.root(), &format!("f{n}"));
                    fs.fsync(ino, false).expect("a commit");
                    *done.lock() = n + 1;
                }
            })
        };
        let mut pictures = Vec::new();
        while !maker.is_finished() {
            let known = *done.lock();
            pictures.push((disk.snapshot(seed * 1000 + pictures.len() as u64), known));
            rt::sleep(base::Nanos::from_micros(90));
        }
        maker.join().expect("no panic");
        fs.unmount().expect("unmounts");
        pictures
    });
    if let Some(failure) = outcome.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    for (n, (picture, known)) in outcome.value.expect("no failure").iter().enumerate() {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let disk = crate::common::disk(RING, picture.clone(), 7);
            let fs = mount(&disk, "");
            let missing =
                (0..*known).find(|n| fs.lookup(fs.root(), format!("f{n}").as_bytes()).is_err());
            fs.unmount().expect("unmounts");
            missing
        });
        if let Some(failure) = outcome.first_failure {
            return Err(format!("seed {seed}, cut {n}: {failure}"));
        }
        if let Some(Some(missing)) = outcome.value {
            return Err(format!("seed {seed}, cut {n}: I7: f{missing} is lost"));
        }
    }
    Ok(())
}

#[test]
fn what_is_acknowledged_beside_an_apply_is_kept() {
    for seed in 1..=2 {
        let kept = acknowledged_beside_applies(seed, None);
        assert_eq!(kept, Ok(()));
    }
}

#[cfg(feature = "mutants")]
mod mutants {
    use super::{RING, acknowledged_beside_applies, cuts_of_an_apply};
    use base::Mutant;

    fn noticed(mutant: Mutant) {
        let seen = (1..=4).find_map(|seed| cuts_of_an_apply(seed, RING, Some(mutant)).err());
        assert!(seen.is_some(), "{mutant} is not noticed");
        println!("{mutant}: {}", seen.expect("noticed"));
    }

    /// F71.
    #[test]
    fn a_page_keeps_its_old_place() {
        noticed(Mutant::F2fsjKeepOldPlace);
    }

    /// F72.
    #[test]
    fn a_pack_names_an_epoch_that_is_not_in_it() {
        noticed(Mutant::F2fsjPackAhead);
    }

    /// F73.
    #[test]
    fn the_tail_moves_before_the_pack() {
        let lives = 1..=6;
        let seen = lives
            .into_iter()
            .find_map(|seed| acknowledged_beside_applies(seed, Some(Mutant::F2fsjTailEarly)).err());
        assert!(seen.is_some(), "the early tail is not noticed");
    }
}
