//! Many tasks on the same few names, under random schedules: no deadlock, no lost inode, a clean
//! image.

use super::volumes::features;
use crate::common::mount;
use base::{BlockNo, Bytes};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{Creds, FileSystem};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::shadow::{race, read_tree};

#[test]
fn many_tasks_on_few_names() {
    let (good, judge) = features(64, "");
    let fs = mount(&good, "");
    for name in [b"p", b"q"] {
        fs.mkdir(fs.root(), name, 0o755, Creds::default())
            .expect("mkdir");
    }
    fs.unmount().expect("unmount");
    let blocks: Vec<(u64, Bytes)> = good.blocks().into_iter().collect();
    for seed in 0..6 {
        let blocks = blocks.clone();
        let ram = Sim::new(SimConfig::random(seed)).run(move || {
            // Devices belong to the world they were made in.
            let ram = Arc::new(Ram::new(64 << 20));
            for (n, block) in blocks {
                write_block(&ram, BlockNo(n).lba(), Class::Data, block).expect("in range");
            }
            let fs = mount(&ram, "");
            let done = race(&*fs, seed);
            assert!(done > 50, "work was done: {done}");
            read_tree(&*fs, 3);
            fs.unmount().expect("unmount");
            ram
        });
        judge.judge(&ram.unwrap());
    }
}
