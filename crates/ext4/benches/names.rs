//! Benchmark: wall time of one operation on a name, by the number of objects, in the real world on
//! a device of memory: what a mount pays without the kernel. A time that grows with the number of
//! objects is a defect of complexity. Numbers of objects may be given as arguments: a few thousand
//! suffice below callgrind, which counts instructions.

// The wall clock is what is measured, and a table of it is the result.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use base::Ino;
use block::Queue;
use blockdev::Ram;
use fscore::{Creds, FileKind, FileSystem, RenameMode};
use rt::WallTime;
use std::sync::Arc;
use std::time::Instant;
use varve_ext4::mkfs::{self, DeviceContent, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 6 << 30;
/// Entries of a directory, as in the paper on F2FSJ.
const WIDTH: u32 = 100;
const ROOT: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0,
};

fn main() {
    println!("objects   mkdir us   rename us   rmdir us   create us   unlink us");
    let given: Vec<u32> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let counts = match given.is_empty() {
        true => vec![20_000, 200_000],
        false => given,
    };
    for objects in counts {
        let fs = mounted();
        let parents = parents(&fs, objects);
        let name = |n: u32| format!("{:08}", n % WIDTH);
        let parent = |n: u32| parents[(n / WIDTH) as usize];
        let mkdir = each(objects, |n| {
            fs.mkdir(parent(n), name(n).as_bytes(), 0o755, ROOT)
                .expect("room");
        });
        let rename = each(objects, |n| {
            let (old, new) = (name(n), format!("{}x", name(n)));
            let place = parent(n);
            fs.rename(
                place,
                old.as_bytes(),
                place,
                new.as_bytes(),
                RenameMode::Replace,
            )
            .expect("renamed");
        });
        let rmdir = each(objects, |n| {
            let name = format!("{}x", name(n));
            fs.rmdir(parent(n), name.as_bytes()).expect("removed");
        });
        let create = each(objects, |n| {
            let kind = FileKind::File;
            fs.create(parent(n), name(n).as_bytes(), kind, 0o644, 0, ROOT)
                .expect("room");
        });
        let unlink = each(objects, |n| {
            fs.unlink(parent(n), name(n).as_bytes()).expect("removed");
        });
        println!("{objects:7} {mkdir:10.2} {rename:11.2} {rmdir:10.2} {create:11.2} {unlink:11.2}");
        fs.unmount().expect("unmounts");
    }
}

fn mounted() -> Arc<Ext4> {
    let time = WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let queue = Queue::new(Arc::new(Ram::new(BYTES)));
    let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], time);
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&queue, DeviceContent::Zeros).expect("written");
    Ext4::mount(queue, MountOptions::default()).expect("mounts")
}

/// Directories for so many objects.
fn parents(fs: &Ext4, objects: u32) -> Vec<Ino> {
    let make = |n: u32| {
        let made = fs.mkdir(fs.root(), format!("{n}").as_bytes(), 0o755, ROOT);
        made.expect("room").ino
    };
    (0..objects.div_ceil(WIDTH)).map(make).collect()
}

/// Microseconds for each call.
fn each(calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let begin = Instant::now();
    (0..calls).for_each(&mut call);
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}
