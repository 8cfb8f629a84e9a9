//! Directories with inline data: growing out of the inode, both parts, other parents, and reading
//! while names come and go.

use crate::common::{Image, fork, have_tools, mount};
use base::Rng;
use fscore::{Creds, FileFlags, FileSystem, RenameMode};
use testkit::Brief;
use testkit::shadow::{Mix, Shadow, read_tree};

fn churn(options: &[&str], seed: u64) {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, options);
    let ram = image.load();
    let mut rng = Rng::named(seed, "inline directories");
    let mut fs = mount(&ram, "");
    let mut shadow = Shadow::new(&*fs);
    let mix = Mix {
        names: 90,
        dirs: 40,
        longest: 14,
        fast_target: Some(59),
        target_sectors: 8,
    };
    for round in 0..4 {
        for _ in 0..500 {
            shadow.step(&*fs, &mut rng, mix);
        }
        assert_eq!(read_tree(&*fs, 3), shadow.tree());
        image.end(&fs, &ram);
        fs = mount(&ram, "");
        assert_eq!(read_tree(&*fs, 100), shadow.tree(), "round {round}");
    }
    fs.unmount().expect("unmount");
}

#[test]
fn names_come_and_go() {
    churn(&["-O", "inline_data"], 1);
}

#[test]
fn names_come_and_go_in_large_inodes() {
    churn(&["-O", "inline_data", "-I", "512"], 2);
    churn(&["-O", "inline_data", "-I", "1024"], 3);
}

#[test]
fn names_come_and_go_without_index_and_types() {
    churn(
        &["-O", "inline_data,^dir_index,^filetype,^metadata_csum"],
        4,
    );
}

/// dir-I4: a cookie stays valid whatever happens to the directory, including its content leaving
/// the inode.
#[test]
fn cookies_outlive_the_stay_in_the_inode() {
    if !have_tools() {
        return;
    }
    for index in ["dir_index", "^dir_index"] {
        let image = Image::new(32, &["-O", &format!("inline_data,{index}")]);
        let (ram, fs) = image.mount("");
        let dir = fs.dir(b"d");
        let make = |name: &str| {
            fs.make(dir, name).expect("room");
        };
        let inline = || fs.getattr(dir).expect("there").flags.0 & FileFlags::INLINE_DATA.0 != 0;
        for n in 0..6 {
            make(&format!("n{n}"));
        }
        assert!(inline());
        for cut in 0..8 {
            let fs = mount(&fork_synced(&fs, &ram), "");
            let front = fs.readdir(dir, 0, cut).expect("names");
            let from = front.last().map_or(0, |e| e.next);
            let mut seen: Vec<Vec<u8>> = front.iter().map(|e| e.name.clone()).collect();
            // From each part a name is removed that was read, or one that was not.
            fs.unlink(dir, b"n0").expect("there");
            fs.unlink(dir, b"n4").expect("there");
            for n in 0..40 {
                let name = format!("x{n}");
                fs.make(dir, name).expect("room");
            }
            let rest = fs.readdir(dir, from, 1000).expect("names");
            seen.extend(rest.into_iter().map(|e| e.name));
            for name in ["n1", "n2", "n3", "n5", ".", ".."] {
                let times = seen.iter().filter(|s| *s == name.as_bytes()).count();
                assert_eq!(times, 1, "{index}, cut at {cut}: {name}");
            }
            fs.unmount().expect("unmount");
        }
        fs.unmount().expect("unmount");
    }
}

fn fork_synced(
    fs: &varve_ext4::Ext4,
    ram: &std::sync::Arc<blockdev::Ram>,
) -> std::sync::Arc<blockdev::Ram> {
    fs.sync().expect("synced");
    fork(ram)
}

/// `..` of a directory in its inode, moved, and of one that replaces another.
#[test]
fn a_moved_directory_knows_its_parent() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &["-O", "inline_data"]);
    let (ram, fs) = image.mount("");
    let (root, creds) = (fs.root(), Creds::default());
    let mkdir = |dir, name: &str| fs.mkdir(dir, name.as_bytes(), 0o755, creds).expect("room");
    let (a, b) = (mkdir(root, "a").ino, mkdir(root, "b").ino);
    let below = mkdir(a, "below").ino;
    mkdir(below, "deep");
    fs.rename(a, b"below", b, b"moved", RenameMode::Replace)
        .expect("moved");
    assert_eq!(fs.lookup(below, b"..").expect("a parent"), b);
    mkdir(a, "empty");
    fs.rename(b, b"moved", a, b"empty", RenameMode::Replace)
        .expect("over an empty one");
    assert_eq!(fs.lookup(below, b"..").expect("a parent"), a);
    let refused = fs.rmdir(a, b"empty").expect_err("not empty");
    assert_eq!(refused.errno(), fscore::Errno::NotEmpty);
    fs.rmdir(below, b"deep").expect("empty");
    fs.rmdir(a, b"empty").expect("empty");
    image.end(&fs, &ram);
}
