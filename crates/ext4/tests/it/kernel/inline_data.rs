//! Inline data that the running kernel and Varve change in turns.

use crate::common::mounted::Mounted;
use crate::common::trees::{kernel_tree, our_tree, same_trees};
use crate::common::{Image, have_tools, pattern};
use base::{Ino, Rng};
use fscore::{FileSystem, SetAttr};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use testkit::Brief;
use varve_ext4::Ext4;

const ROUNDS: u64 = 4;
const FILES: u64 = 24;
const DIRS: u64 = 5;

/// A change in a round; both sides draw the same kinds from the same distribution.
enum Step {
    Write { at: u64, data: Vec<u8> },
    Resize(u64),
    Name(u64),
    Unname(u64),
}

fn step(rng: &mut Rng) -> (u64, u64, Step) {
    let (dir, file) = (rng.below(DIRS), rng.below(FILES));
    let step = match rng.below(10) {
        0..=4 => {
            let len = match rng.below(12) {
                0 => 5000,
                n => 1 + n * 7,
            };
            Step::Write {
                at: rng.below(140),
                data: pattern(rng.next_u64(), len as usize),
            }
        }
        5 => Step::Resize(rng.below(200)),
        6 => Step::Resize(0),
        7..=8 => Step::Name(rng.below(30)),
        _ => Step::Unname(rng.below(30)),
    };
    (dir, file, step)
}

fn by_kernel(root: &Path, rng: &mut Rng) {
    for _ in 0..300 {
        let (dir, file, step) = step(rng);
        let dir = root.join(format!("d{dir}"));
        fs::create_dir_all(&dir).expect("mkdir");
        let open = || {
            fs::File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(dir.join(format!("f{file}")))
                .expect("open")
        };
        match step {
            Step::Write { at, data } => {
                let mut file = open();
                file.seek(SeekFrom::Start(at)).expect("seek");
                file.write_all(&data).expect("write");
            }
            Step::Resize(size) => open().set_len(size).expect("truncate"),
            Step::Name(n) => {
                let _ = fs::File::create(dir.join(format!("name {n}")));
                let _ = fs::create_dir(dir.join(format!("sub {n}")));
            }
            Step::Unname(n) => {
                let _ = fs::remove_file(dir.join(format!("name {n}")));
                let _ = fs::remove_dir(dir.join(format!("sub {n}")));
            }
        }
    }
}

fn by_us(fs: &Ext4, rng: &mut Rng) {
    let root = fs.root();
    for _ in 0..300 {
        let (dir, file, step) = step(rng);
        let name = format!("d{dir}");
        let dir = fs.lookup(root, name.as_bytes());
        let dir = dir.unwrap_or_else(|_| fs.make_dir(root, name).expect("mkdir"));
        let make = |name: &str| fs.make(dir, name);
        let open = || -> Ino {
            let name = format!("f{file}");
            let found = fs.lookup(dir, name.as_bytes());
            found.unwrap_or_else(|_| make(&name).expect("create"))
        };
        match step {
            Step::Write { at, data } => {
                fs.write(open(), at, &data).expect("write");
            }
            Step::Resize(size) => {
                let set = SetAttr {
                    size: Some(size),
                    ..SetAttr::default()
                };
                fs.setattr(open(), &set).expect("truncate");
            }
            Step::Name(n) => {
                let _ = make(&format!("name {n}"));
                let _ = fs.make_dir(dir, format!("sub {n}"));
            }
            Step::Unname(n) => {
                let _ = fs.unlink(dir, format!("name {n}").as_bytes());
                let _ = fs.rmdir(dir, format!("sub {n}").as_bytes());
            }
        }
    }
}

fn rounds(mkfs: &[&str], options: &str, seed: u64) {
    if !have_tools() {
        return;
    }
    let image = Image::new(48, mkfs);
    let mut rng = Rng::named(seed, "inline rounds");
    for round in 0..ROUNDS {
        let Some(mounted) = Mounted::new(&image) else {
            return;
        };
        by_kernel(&mounted.point, &mut rng);
        mounted.unmount();
        image.fsck();
        // The kernel reads from the device, because its page cache shows other bytes at times
        // (Linux 6.18, behind sizes that were cut).
        let mounted = Mounted::new(&image).expect("it went before");
        let theirs = kernel_tree(&mounted.point);
        mounted.unmount();

        let (ram, fs) = image.mount(options);
        same_trees(&theirs, &our_tree(&fs));
        by_us(&fs, &mut rng);
        let ours = our_tree(&fs);
        image.end(&fs, &ram);

        let mounted = Mounted::new(&image).expect("it went before");
        same_trees(&ours, &kernel_tree(&mounted.point));
        mounted.unmount();
        assert!(
            ours.values()
                .any(|entry| (1..=128).contains(&entry.4.len())),
            "round {round}: small files"
        );
    }
}

#[test]
fn inline_data_in_rounds() {
    rounds(&["-O", "inline_data"], "", 1);
    rounds(&["-O", "inline_data,^extent,^64bit"], "data=journal", 2);
}

#[test]
fn inline_data_of_large_inodes_in_rounds() {
    rounds(&["-O", "inline_data", "-I", "1024"], "scheme=emmc", 3);
    rounds(&["-O", "inline_data", "-b", "1024", "-I", "512"], "", 4);
}
