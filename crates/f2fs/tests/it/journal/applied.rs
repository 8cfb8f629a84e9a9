//! Runs that contain applies, and checks of what cuts leave of them; used by the tests of apply and
//! by the catalogue of mutants.
#![allow(dead_code)]

use super::common::{Mistake, disk, mount, volume};
use base::{BLOCK_BYTES, Ino};
use blockdev::Image;
use fscore::{Creds, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::F2fs;

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
                fs.make(dir, &name).map(drop)
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
                fs.make_link(dir, &name, &target).map(drop)
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
                        true => fs.make(dir, name).map(drop),
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

/// What cuts leave while an apply runs: each is the state after all that was committed before.
/// Answers what is wrong.
pub fn cuts_of_an_apply(seed: u64, ring: u32, mistake: &Mistake) -> Result<usize, String> {
    let outcome = mistake.within(SimConfig::random(seed)).run(|| {
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
            fs.make(fs.root(), format!("behind {round}"))
                .expect("a file");
            fs.sync().expect("a commit");
            let expected = tree(&fs);
            pictures.push((disk.snapshot_lost(), expected));
        }
        fs.unmount().expect("unmounts");
        pictures
    });
    mistake.asked(&outcome);
    if let Some(failure) = outcome.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    let pictures = outcome.value.expect("no failure");
    for (n, (picture, expected)) in pictures.iter().enumerate() {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let disk = disk(ring, picture.clone(), 7);
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
                "seed {seed}, cut {n}: f2fs-journal-I7: another state than the committed one"
            ));
        }
    }
    Ok(pictures.len())
}

/// Files are made and acknowledged in a tiny ring while applies run, which begin late: what a cut
/// leaves has all that was acknowledged before it.
pub fn acknowledged_beside_applies(seed: u64, mistake: &Mistake) -> Result<(), String> {
    const RING: u32 = 16;
    const MAKERS: usize = 3;
    let outcome = mistake.within(SimConfig::random(seed)).run(|| {
        let disk = disk(RING, volume(RING), seed);
        let fs = mount(&disk, "commit=300,jlow=20");
        let done = Arc::new(rt::Mutex::new([0; MAKERS]));
        let makers: Vec<_> = (0..MAKERS)
            .map(|task| {
                let (fs, done) = (fs.clone(), done.clone());
                rt::spawn("maker", move || {
                    let long = "x".repeat(200);
                    for n in 0..16 {
                        // Transactions of several blocks.
                        for beside in 0..8 {
                            fs.make(fs.root(), format!("t{task}f{n}{long}{beside}"))
                                .expect("a file");
                        }
                        let ino = fs.make(fs.root(), format!("t{task}f{n}")).expect("a file");
                        fs.fsync(ino, false).expect("a commit");
                        done.lock()[task] = n + 1;
                    }
                })
            })
            .collect();
        let mut pictures: Vec<(Image, [i32; MAKERS])> = Vec::new();
        while !makers.iter().all(|maker| maker.is_finished()) {
            let known = *done.lock();
            let picture = disk.snapshot_lost();
            match pictures.last_mut() {
                // What was acknowledged grows, so the last that is known asks for all.
                Some((before, then)) if *before == picture => *then = known,
                _ => pictures.push((picture, known)),
            }
            rt::sleep(base::Nanos::from_micros(90));
        }
        for maker in makers {
            maker.join().expect("no panic");
        }
        fs.unmount().expect("unmounts");
        pictures
    });
    mistake.asked(&outcome);
    if let Some(failure) = outcome.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    for (n, (picture, known)) in outcome.value.expect("no failure").iter().enumerate() {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let disk = disk(RING, picture.clone(), 7);
            let fs = mount(&disk, "");
            let names = known.iter().enumerate();
            let mut names = names.flat_map(|(t, &n)| (0..n).map(move |n| format!("t{t}f{n}")));
            let missing = names.find(|name| fs.lookup(fs.root(), name.as_bytes()).is_err());
            fs.unmount().expect("unmounts");
            missing
        });
        if let Some(failure) = outcome.first_failure {
            return Err(format!("seed {seed}, cut {n}: {failure}"));
        }
        if let Some(Some(missing)) = outcome.value {
            return Err(format!(
                "seed {seed}, cut {n}: f2fs-journal-I7: {missing} is lost"
            ));
        }
    }
    Ok(())
}
