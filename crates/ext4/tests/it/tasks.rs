//! Several tasks on one mount: files of their own, one shared file, and a log and a cache that are
//! too small for them.

use crate::common::{Image, have_tools};
use base::{Ino, Rng};
use fscore::FileSystem;
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::Ext4;

const TASKS: u64 = 4;
const STEPS: usize = 150;

fn create(fs: &Ext4, name: &str) -> Ino {
    fs.file(name)
}

/// Writes, truncates and syncs its own file, and writes to the shared one. Answers what its own
/// file holds.
fn work(fs: &Ext4, own: Ino, shared: Ino, seed: u64) -> Vec<u8> {
    let mut rng = Rng::named(seed, "task");
    let mut content: Vec<u8> = Vec::new();
    for _ in 0..STEPS {
        let mut data = vec![0; rng.below(30_000) as usize + 1];
        rng.fill(&mut data);
        match rng.below(10) {
            0..=4 => {
                let at = rng.below(400_000) as usize;
                fs.write(own, at as u64, &data).expect("write");
                content.resize(content.len().max(at + data.len()), 0);
                content[at..at + data.len()].copy_from_slice(&data);
            }
            5 => {
                let size = rng.below(content.len() as u64 + 1);
                fs.resize(own, size).expect("truncate");
                content.truncate(size as usize);
            }
            6 => fs.fsync(own, rng.one_in(2)).expect("fsync"),
            7 => {
                fs.write(shared, rng.below(200_000), &data).expect("write");
                fs.fsync(shared, true).expect("fdatasync");
            }
            8 => {
                fs.resize(shared, rng.below(100_000)).expect("truncate");
            }
            _ => {
                let mut buf = vec![0; 50_000];
                fs.read(shared, rng.below(100_000), &mut buf).expect("read");
                fs.writeback(rt::now()).expect("writeback");
            }
        }
    }
    content
}

fn together(mkfs: &[&str], options: &str, seed: u64) {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, mkfs);
    let (ram, fs) = image.mount(options);
    let shared = create(&fs, "shared");
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let own = create(&fs, &format!("own{n}"));
            fs.open(own).expect("open");
            let fs: Arc<Ext4> = fs.clone();
            let task = rt::spawn("worker", move || work(&fs, own, shared, seed + n));
            (own, task)
        })
        .collect();
    let done: Vec<(Ino, Vec<u8>)> = tasks
        .into_iter()
        .map(|(own, task)| (own, task.join().expect("no panic")))
        .collect();
    fs.check();
    for (own, content) in &done {
        assert!(fs.content(*own) == *content, "file {own}");
    }
    image.end(&fs, &ram);
    for (n, (_, content)) in done.iter().enumerate() {
        assert!(image.cat(&format!("own{n}")) == *content, "file {n}");
    }
}

#[test]
fn ordered_with_a_tiny_log() {
    together(&["-J", "size=4"], "cache=1", 1);
}

#[test]
fn journaled_data_with_a_tiny_log() {
    together(&["-J", "size=4"], "data=journal,cache=1", 2);
}

#[test]
fn without_log() {
    together(&[], "scheme=none,cache=1", 3);
}

#[test]
fn block_maps() {
    together(&["-t", "ext3", "-J", "size=4"], "cache=1", 4);
}

/// Two writers, each with more data than the cache holds, beside a task that writes back; no task
/// syncs.
#[test]
fn writers_wait_before_the_cache_outgrows_its_bound() {
    const PIECE: usize = 128 << 10;
    const PIECES: usize = 64;
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let (ram, fs) = image.mount("cache=1");
    let bound = (1 << 20) / 4096;
    let writer = |n: u8| {
        let own = create(&fs, &format!("own{n}"));
        let fs: Arc<Ext4> = fs.clone();
        rt::spawn("writer", move || {
            let most = (0..PIECES).map(|piece| {
                let data = vec![n + piece as u8; PIECE];
                let at = (piece * PIECE) as u64;
                assert_eq!(fs.write(own, at, &data).expect("write"), PIECE);
                fs.cached_pages()
            });
            (own, most.max())
        })
    };
    let writers = [1, 2].map(writer);
    let flusher = {
        let fs: Arc<Ext4> = fs.clone();
        rt::spawn("flusher", move || {
            for _ in 0..PIECES {
                fs.writeback(rt::now()).expect("write-back");
            }
        })
    };
    let done = writers.map(|task| task.join().expect("no panic"));
    flusher.join().expect("no panic");
    fs.check();
    let slack = 2 * (PIECE / 4096) as u64;
    for (n, (own, most)) in (1..).zip(done) {
        assert!(most <= Some(bound + slack), "{most:?} pages of {bound}");
        let content = fs.content(own);
        let right = |(piece, bytes): (usize, &[u8])| bytes.iter().all(|b| *b == n + piece as u8);
        assert!(content.len() == PIECES * PIECE && content.chunks(PIECE).enumerate().all(right));
    }
    image.end(&fs, &ram);
}
