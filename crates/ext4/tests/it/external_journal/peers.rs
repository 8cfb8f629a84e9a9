//! e2fsck and the kernel recover Varve's cuts, and Varve recovers theirs.

use super::cuts::explore;
use crate::common::trees::our_tree;
use crate::common::{load, pattern, tool};
use crate::data_path::{Cut, MIB, Tear, judge_recovered, new_pair};
use block::{BlockDevice, Queue};
use blockdev::{Image, Ram};
use fscore::{Creds, FileKind, FileSystem};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 * MIB;

/// A volume and its log as files.
struct Pair {
    dir: TempDir,
    home: PathBuf,
    log: PathBuf,
}

impl Pair {
    fn new() -> Pair {
        let dir = tempfile::tempdir().expect("a folder");
        let (home, log) = (dir.path().join("home"), dir.path().join("log"));
        Pair { dir, home, log }
    }

    fn of(home: &Image, log: &Image) -> Pair {
        let pair = Pair::new();
        for (path, image) in [(&pair.home, home), (&pair.log, log)] {
            let mut file = File::create(path).expect("a file");
            file.set_len(BYTES).expect("room");
            for (n, block) in image.blocks() {
                file.seek(SeekFrom::Start(n * 4096)).expect("seek");
                file.write_all(&block).expect("room");
            }
        }
        pair
    }

    fn images(&self) -> (Image, Image) {
        let image = |path: &Path| load(path).blocks().into_iter().collect();
        (image(&self.home), image(&self.log))
    }

    /// Runs `e2fsck` with these options and `-j`: exit code and output.
    fn fsck(&self, options: &str) -> (Option<i32>, String) {
        let mut command = tool("e2fsck");
        command
            .arg(options)
            .arg("-j")
            .arg(&self.log)
            .arg(&self.home);
        let out = command.output().expect("e2fsck");
        let words = [out.stdout, out.stderr].concat();
        (
            out.status.code(),
            String::from_utf8_lossy(&words).into_owned(),
        )
    }

    fn mount(&self) -> Arc<Ext4> {
        mount(&self.home, &self.log)
    }
}

fn mount(home: &Path, log: &Path) -> Arc<Ext4> {
    let options = MountOptions::parse("scheme=jbd2").expect("options");
    let log = Queue::new(load(log) as Arc<dyn BlockDevice>);
    Ext4::mount_with_journal(Queue::new(load(home)), Some(log), options).expect("mounts")
}

fn have_e2fsck() -> bool {
    let have = tool("e2fsck").arg("-V").output().is_ok();
    if !have {
        eprintln!("skipped: e2fsck is not installed (e2fsprogs)");
    }
    have
}

/// e2fsprogs accepts what Varve's mkfs makes.
#[test]
fn e2fsck_is_content_with_what_mkfs_makes() {
    if !have_e2fsck() {
        return;
    }
    let (home, log) = new_pair(16);
    let pair = Pair::of(&home, &log);
    let (code, words) = pair.fsck("-fn");
    assert_eq!(code, Some(0), "{words}");
    let out = tool("dumpe2fs")
        .arg("-h")
        .arg(&pair.log)
        .output()
        .expect("dumpe2fs");
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    let user = format!(
        "Journal users:            {}",
        "03030303-0303-0303-0303-030303030303"
    );
    assert!(
        words.contains("journal_dev") && words.contains(&user),
        "{words}"
    );
}

fn recovered_by_e2fsck(cut: &Cut) -> Result<(), String> {
    let pair = Pair::of(&cut.content, cut.log.as_ref().expect("a log"));
    let (code, words) = pair.fsck("-fy");
    if !matches!(code, Some(0 | 1)) {
        return Err(format!("e2fsck -fy: {words}"));
    }
    // Counts that a replay and orphans leave to be corrected are not damage.
    let (code, words) = pair.fsck("-fn");
    if code != Some(0) {
        return Err(format!("e2fsck -fn: {words}"));
    }
    let (home, log) = pair.images();
    judge_recovered(cut, (&home, Some(&log)), BYTES, Tear::Blocks)
}

#[test]
fn e2fsck_recovers_our_cuts() {
    if !have_e2fsck() {
        return;
    }
    for options in ["scheme=jbd2", "scheme=flush-ahead"] {
        explore(200..203, 16, Tear::Blocks, options, recovered_by_e2fsck);
    }
}

/// A loop device, detached at the end.
struct Loop(String);

impl Loop {
    fn new(path: &Path) -> Option<Loop> {
        let out = tool("losetup").args(["-f", "--show"]).arg(path).output();
        match out {
            Ok(out) if out.status.success() => {
                let name = String::from_utf8_lossy(&out.stdout).trim().to_string();
                Some(Loop(name))
            }
            _ => {
                eprintln!("skipped: no loop device");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = tool("losetup").args(["-d", &self.0]).output();
    }
}

fn must(name: &str, args: &[&str]) {
    let out = tool(name).args(args).output().expect(name);
    let words = [out.stdout, out.stderr].concat();
    assert!(
        out.status.success(),
        "{name} {args:?}: {}",
        String::from_utf8_lossy(&words)
    );
}

/// Mounts both in the kernel until the end of `body`; `None` where that is not possible.
fn by_kernel<R>(pair: &Pair, body: impl FnOnce(&Path) -> R) -> Option<R> {
    let (home, log) = (Loop::new(&pair.home)?, Loop::new(&pair.log)?);
    let point = pair.dir.path().join("mnt");
    std::fs::create_dir_all(&point).expect("a mount point");
    let at = point.to_str().expect("text");
    let with = format!("journal_path={}", log.0);
    must("mount", &["-t", "ext4", "-o", &with, &home.0, at]);
    let done = body(&point);
    must("umount", &[at]);
    Some(done)
}

#[test]
fn the_kernel_recovers_our_cuts() {
    let mut taken = 0;
    explore(300..302, 16, Tear::Blocks, "scheme=jbd2", |cut| {
        taken += 1;
        if taken % 6 != 0 {
            return Ok(());
        }
        let pair = Pair::of(&cut.content, cut.log.as_ref().expect("a log"));
        if by_kernel(&pair, |_| ()).is_none() {
            return Ok(());
        }
        let (code, words) = pair.fsck("-fn");
        if code != Some(0) {
            return Err(format!("e2fsck -fn behind the kernel: {words}"));
        }
        let (home, log) = pair.images();
        judge_recovered(cut, (&home, Some(&log)), BYTES, Tear::Blocks)
    });
}

/// Recovers a log that the kernel left dirty, with the same tree as e2fsck gets. Then kernel and
/// Varve write in turns.
#[test]
fn we_recover_the_kernels_log_and_take_turns() {
    let pair = Pair::new();
    for (path, options) in [
        (&pair.log, &["-O", "journal_dev"][..]),
        (&pair.home, &["-t", "ext4", "-O", "^has_journal"]),
    ] {
        let file = File::create(path).expect("a file");
        file.set_len(BYTES).expect("room");
        let mut args = vec!["-q", "-F", "-b", "4096"];
        args.extend(options);
        args.push(path.to_str().expect("text"));
        must("mke2fs", &args);
    }
    {
        let Some(log) = Loop::new(&pair.log) else {
            return;
        };
        let home = pair.home.to_str().expect("text");
        must("tune2fs", &["-J", &format!("device={}", log.0), home]);
    }
    let copies = Pair::new();
    let copied = by_kernel(&pair, |at| {
        for i in 0..40u8 {
            let dir = at.join(format!("d{}", i % 7));
            std::fs::create_dir_all(&dir).expect("room");
            let mut file = File::create(dir.join(format!("f{i}"))).expect("room");
            file.write_all(&pattern(i.into(), 5000)).expect("room");
            file.sync_all().expect("durable");
            if i % 5 == 4 {
                std::fs::remove_file(dir.join(format!("f{i}"))).expect("there");
            }
        }
        File::open(at)
            .expect("the root")
            .sync_all()
            .expect("durable");
        for (from, to) in [(&pair.home, &copies.home), (&pair.log, &copies.log)] {
            std::fs::copy(from, to).expect("room");
        }
    });
    if copied.is_none() {
        return;
    }
    let fs = copies.mount();
    let recovery = fs.recovery().expect("it was dirty").clone();
    assert!(recovery.transactions > 0);
    let ours = our_tree(&fs);
    fs.unmount().expect("unmounts");
    let (code, words) = copies.fsck("-fy");
    assert!(
        matches!(code, Some(0 | 1)) && words.contains("recovering journal"),
        "{words}"
    );
    let fs = copies.mount();
    assert!(fs.recovery().is_none(), "e2fsck has recovered it");
    assert_eq!(our_tree(&fs), ours, "the same tree by both");
    fs.unmount().expect("unmounts");

    // Turns, each on what the other one has left.
    let creds = Creds {
        uid: 0,
        gid: 0,
        umask: 0,
    };
    for turn in 0..3u64 {
        let (home, log) = (load(&copies.home), load(&copies.log));
        let queue = Queue::new(log.clone() as Arc<dyn BlockDevice>);
        let options = MountOptions::parse("scheme=jbd2").expect("options");
        let fs = Ext4::mount_with_journal(Queue::new(home.clone()), Some(queue), options);
        let fs = fs.expect("mounts");
        let name = format!("ours{turn}");
        let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
        let ino = made.expect("made").ino;
        fs.write(ino, 0, &pattern(turn, 70_000)).expect("room");
        fs.fsync(ino, false).expect("durable");
        // Every other time it is left dirty.
        let dirty = turn % 2 == 0;
        let image = |ram: &Ram| ram.blocks().into_iter().collect::<Image>();
        let left = (image(&home), image(&log));
        fs.unmount().expect("unmounts");
        let (home, log) = match dirty {
            true => left,
            false => (image(&home), image(&log)),
        };
        let next = Pair::of(&home, &log);
        by_kernel(&next, |at| {
            let read = std::fs::read(at.join(&name)).expect("there");
            assert!(read == pattern(turn, 70_000), "{name}");
            std::fs::write(at.join(format!("theirs{turn}")), pattern(turn, 9000)).expect("room");
        });
        let (code, words) = next.fsck("-fn");
        assert_eq!(code, Some(0), "{words}");
        for (from, to) in [(&next.home, &copies.home), (&next.log, &copies.log)] {
            std::fs::copy(from, to).expect("room");
        }
    }
}
