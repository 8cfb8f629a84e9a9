//! A disk that fills up: acknowledged data is there, what does not fit is refused by the call, and
//! freed space comes back.

use crate::common::{Image, have_tools, mount, pattern};
use base::{Ino, Rng};
use fscore::{Creds, Errno, FallocateMode, FileSystem};
use testkit::Brief;
use varve_ext4::Ext4;

/// Writes until the disk is full; answers the acknowledged bytes.
fn fill(fs: &Ext4, ino: Ino, chunk: usize) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let data = pattern(content.len() as u64, chunk);
        match fs.write(ino, content.len() as u64, &data) {
            Ok(n) => content.extend(&data[..n]),
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                fs.check();
                return content;
            }
        }
    }
}

#[test]
fn one_file_takes_every_block() {
    if !have_tools() {
        return;
    }
    for options in ["", "data=writeback", "data=journal", "scheme=none", "ext3"] {
        let (format, options) = match options {
            "ext3" => ("ext3", ""),
            other => ("ext4", other),
        };
        let image = Image::new(32, &["-m", "0", "-t", format]);
        let (ram, fs) = image.mount(options);
        let ino = fs.file("big");
        let content = fill(&fs, ino, 150_000);
        let free = fs.statfs().expect("statfs").blocks_free;
        assert!(free <= 1, "{options}: {free} blocks are left");
        fs.fsync(ino, false).expect("what was acknowledged fits");
        assert!(fs.content(ino) == content);
        image.end(&fs, &ram);
        assert!(image.cat("big") == content, "{options}");
    }
}

#[test]
fn scattered_pages_all_fit() {
    if !have_tools() {
        return;
    }
    // Single pages far apart: the extent tree grows, several levels deep, out of promised blocks.
    let image = Image::new(32, &["-m", "0"]);
    let (ram, fs) = image.mount("cache=64");
    let ino = fs.file("sparse");
    let mut written = Vec::new();
    for n in 0..20_000u64 {
        let at = (n * 7919 % 20_000) * 8192;
        match fs.write(ino, at, &at.to_le_bytes()) {
            Ok(len) => {
                assert_eq!(len, 8);
                written.push(at);
            }
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                break;
            }
        }
    }
    fs.sync().expect("what was acknowledged fits");
    fs.unmount().expect("unmount");
    let fs = mount(&ram, "");
    for &at in &written {
        let mut got = [0; 8];
        fs.read(ino, at, &mut got).expect("read");
        assert_eq!(u64::from_le_bytes(got), at);
    }
    image.end(&fs, &ram);
}

#[test]
fn freed_space_comes_back() {
    if !have_tools() {
        return;
    }
    for options in ["", "data=journal", "scheme=none", "discard"] {
        let image = Image::new(24, &["-m", "0"]);
        let (ram, fs) = image.mount(options);
        let mut lengths = Vec::new();
        for round in 0..4 {
            let ino = fs.file(format!("f{round}"));
            let content = fill(&fs, ino, 500_000);
            lengths.push(content.len());
            assert!(fs.content(ino) == content);
            if round % 2 == 0 {
                fs.unlink(fs.root(), format!("f{round}").as_bytes())
                    .expect("unlink");
            } else {
                fs.resize(ino, 0).expect("truncate");
            }
        }
        assert!(
            lengths.iter().all(|&l| l == lengths[0]),
            "{options}: {lengths:?}"
        );
        image.end(&fs, &ram);
    }
}

#[test]
fn names_and_files_on_a_full_disk() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &["-m", "0", "-N", "4096"]);
    let (ram, fs) = image.mount("cache=8");
    let mut rng = Rng::named(5, "full");
    let mut files: Vec<(String, Ino, Vec<u8>)> = Vec::new();
    let (mut full, mut made) = (0, 0);
    while full < 200 {
        made += 1;
        let name = format!("{made:0>120}");
        let ino = match fs.make(fs.root(), &name) {
            Ok(ino) => ino,
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                full += 1;
                let (name, _, _) = files.swap_remove(rng.below(files.len() as u64) as usize);
                fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
                continue;
            }
        };
        let data = pattern(made, rng.below(60_000) as usize);
        let kept = match fs.write(ino, 0, &data) {
            Ok(n) => n,
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                full += 1;
                0
            }
        };
        files.push((name, ino, data[..kept].to_vec()));
        if full > 0 && rng.one_in(2) {
            let (name, _, _) = files.swap_remove(rng.below(files.len() as u64) as usize);
            fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
        }
    }
    image.end(&fs, &ram);
    let fs = mount(&ram, "ro");
    for (name, ino, content) in &files {
        assert_eq!(fs.find(name), *ino);
        assert!(fs.content(*ino) == *content, "{name}");
    }
    fs.unmount().expect("unmount");
}

#[test]
fn all_inodes_are_used_and_come_back() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &["-N", "256"]);
    let (ram, fs) = image.mount("");
    let free = fs.statfs().expect("statfs").inodes_free;
    for _ in 0..2 {
        for n in 0..free {
            fs.file(format!("{n}"));
        }
        let e = fs.make(fs.root(), "more").expect_err("none is left");
        assert_eq!(e.errno(), Errno::NoSpc);
        for n in 0..free {
            fs.unlink(fs.root(), format!("{n}").as_bytes())
                .expect("unlink");
        }
    }
    image.end(&fs, &ram);
}

/// Pages of 4 KiB at these indices, one extent each, on a volume with blocks of that size.
fn separate_pages(fs: &Ext4, ino: Ino, indices: &[u64]) {
    for index in indices {
        let wrote = fs.write(ino, index * 4096, &[9; 4096]);
        assert_eq!(wrote.expect("room"), 4096);
        fs.fsync(ino, false).expect("room");
    }
}

/// Makes a page dirty in a file with `extents` extents, lets `then` change its tree, takes every
/// other block, and requires that the page is still written.
fn written_back_when_all_is_taken(
    prepare: impl FnOnce(&Ext4, Ino),
    index: u64,
    then: impl FnOnce(&Ext4, Ino),
) {
    let ram = crate::common::fresh(varve_ext4::mkfs::Kind::Ext4, 16);
    let fs = mount(&ram, "commit=600");
    let ino = fs.file("f");
    let big = fs.file("big");
    prepare(&fs, ino);
    fs.write(ino, index * 4096, &[7; 4096]).expect("room");
    then(&fs, ino);
    fill(&fs, big, 65_536);
    fill(&fs, big, 4096);
    // Takes the very last blocks, one by one.
    for n in 0.. {
        let (name, target) = (format!("link{n}"), [b'x'; 100]);
        let made = fs.symlink(fs.root(), name.as_bytes(), &target, Creds::default());
        if made.is_err() {
            break;
        }
    }
    assert_eq!(fs.statfs().expect("statfs").blocks_free, 0);
    fs.fsync(ino, false).expect("what was acknowledged fits");
    fs.unmount().expect("clean");
    let report = crate::common::check_ram(&ram);
    assert!(report.is_clean(), "{}", crate::common::said(&report));
    let fs = mount(&ram, "ro");
    let mut page = [0; 4096];
    fs.read(ino, index * 4096, &mut page).expect("there");
    assert!(page == [7; 4096]);
    fs.unmount().expect("read only");
}

#[test]
fn fallocate_does_not_take_the_room_that_a_dirty_page_counts_on() {
    let keep = FallocateMode::KeepSize;
    written_back_when_all_is_taken(
        |fs, ino| separate_pages(fs, ino, &[0, 10]),
        20,
        // The root of the tree is full now (promise-B3).
        |fs, ino| {
            fs.fallocate(ino, keep, 30 * 4096, 4096).expect("room");
            fs.fallocate(ino, keep, 40 * 4096, 4096).expect("room");
        },
    );
}

#[test]
fn a_page_inside_an_unwritten_extent_can_split_it() {
    let keep = FallocateMode::KeepSize;
    written_back_when_all_is_taken(
        |fs, ino| {
            separate_pages(fs, ino, &[0, 10]);
            fs.fallocate(ino, keep, 20 * 4096, 3 * 4096).expect("room");
        },
        // Three extents become five: the block that the page holds is for the tree (promise-B1).
        21,
        |_, _| (),
    );
}

#[test]
fn writing_to_allocated_blocks_takes_no_more_of_them() {
    let ram = crate::common::fresh(varve_ext4::mkfs::Kind::Ext4, 16);
    let fs = mount(&ram, "commit=600");
    let ino = fs.file("f");
    let sectors = |what| {
        let sectors = fs.getattr(ino).expect("there").sectors;
        assert_eq!(sectors, 256 * 8, "{what}");
    };
    fs.fallocate(ino, FallocateMode::Allocate, 0, 1 << 20)
        .expect("room");
    sectors("allocated");
    fs.write(ino, 0, &vec![1; 1 << 20]).expect("room");
    sectors("written");
    fs.fsync(ino, false).expect("room");
    sectors("synced");
    fs.unmount().expect("clean");
}

/// fallocate-U4.
#[test]
fn a_refused_allocation_leaves_the_size() {
    let ram = crate::common::fresh(varve_ext4::mkfs::Kind::Ext4, 16);
    let fs = mount(&ram, "");
    let ino = fs.file("f");
    fs.write(ino, 0, &[1; 5000]).expect("room");
    for mode in [FallocateMode::Allocate, FallocateMode::ZeroRange] {
        let all = fs.fallocate(ino, mode, 5000, 1 << 30);
        assert_eq!(all.expect_err("too much").errno(), Errno::NoSpc);
        assert_eq!(
            fs.getattr(ino).expect("there").size,
            5000,
            "fallocate-U4: {mode:?}"
        );
    }
    // The blocks that it got are the file's, as with the kernel.
    let sectors = fs.getattr(ino).expect("there").sectors;
    assert!(sectors > 2 * 8, "{sectors}");
    fs.write(ino, 5000, &[2; 9000]).expect("blocks of its own");
    let expected = [&[1; 5000][..], &[2; 9000]].concat();
    assert!(fs.content(ino) == expected);
    fs.resize(ino, 14_000).expect("cut");
    let sectors = fs.getattr(ino).expect("there").sectors;
    assert_eq!(sectors, 4 * 8, "they come back");
    fs.unmount().expect("clean");
    let report = crate::common::check_ram(&ram);
    assert!(report.is_clean(), "{}", crate::common::said(&report));
}
