//! Random reads, writes, truncations, syncs, remounts and crashes of a few files, compared with a
//! shadow in memory (`testkit::content`).

use crate::common::{Image, Volume, have_tools};
use fscore::{FallocateMode, FileSystem};
use std::sync::Arc;
use testkit::content::{FILES, Run};

fn step(run: &mut Run<Volume>) {
    let n = run.draw();
    match run.rng.below(100) {
        0..=49 => run.write(n),
        50..=54 => run.fallocate(n, &[FallocateMode::Allocate, FallocateMode::KeepSize]),
        55..=69 => run.read(n),
        70..=81 => run.truncate(n),
        82..=91 => run.fsync(n),
        92..=94 => run.fs.sync().expect("sync"),
        95..=97 => run.fs.writeback(rt::now()).expect("writeback"),
        98 => run.remount(),
        _ => run.crash(),
    }
    run.fs.check();
}

fn fuzz(mkfs: &[&str], mount_options: &str, seed: u64, steps: usize) {
    if !have_tools() {
        return;
    }
    let image = Arc::new(Image::new(48, mkfs));
    let mut run = Run::new(Volume::of(&image, mount_options), seed);
    for _ in 0..steps {
        step(&mut run);
    }
    run.end();
    let block_maps = mkfs.contains(&"ext3") || mkfs.contains(&"ext2");
    assert!(block_maps || run.not_supported == 0, "extents allocate");
    for n in 0..FILES {
        let read = image.cat(&format!("f{n}"));
        assert!(read == run.files[n].now, "debugfs reads file {n}");
    }
}

#[test]
fn ordered() {
    for seed in 0..3 {
        fuzz(&[], "cache=4", seed, 400);
    }
}

#[test]
fn writeback() {
    fuzz(&[], "data=writeback,cache=4", 10, 400);
}

#[test]
fn journal() {
    fuzz(&[], "data=journal,cache=4", 20, 400);
}

#[test]
fn no_log() {
    fuzz(&[], "scheme=none,cache=4", 30, 400);
}

#[test]
fn old_formats() {
    fuzz(&["-O", "^64bit"], "", 40, 200);
    fuzz(&["-O", "^metadata_csum"], "", 41, 200);
    fuzz(&["-O", "^metadata_csum,uninit_bg,^64bit"], "", 42, 200);
    fuzz(&["-O", "^flex_bg,^huge_file,^dir_index"], "", 43, 200);
    fuzz(&["-I", "128"], "", 44, 200);
    fuzz(&["-O", "metadata_csum_seed"], "", 45, 200);
}

#[test]
fn block_maps() {
    fuzz(&["-t", "ext3"], "cache=4", 60, 400);
    fuzz(&["-t", "ext3"], "data=journal", 61, 200);
    fuzz(&["-t", "ext2"], "scheme=none", 62, 200);
}

#[test]
fn tiny_log() {
    fuzz(&["-J", "size=4"], "commit=600,cache=4", 50, 400);
}
