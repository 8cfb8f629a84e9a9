//! A panic in an operation ends the mount, and nothing of the operation is in a checkpoint or in
//! the journal.

use crate::common::{made, options_of, options_with_ring};
use block::Queue;
use std::sync::Arc;
use testkit::device::trap::{Trap, panics_end_the_mount};
use varve_f2fs::{F2fs, MountOptions};

const MIB: u64 = 64;

#[test]
fn a_panic_ends_the_mount() {
    for (options, volume) in [
        ("", options_of(MIB << 20)),
        ("noinline_data,noinline_dentry", options_of(MIB << 20)),
        ("scheme=f2fsj", options_with_ring(MIB, 1024)),
    ] {
        let mount = |device: Arc<Trap>| {
            let options = MountOptions::parse(options).expect("valid");
            F2fs::mount(Queue::new(device), options).expect("mounts")
        };
        let panics = panics_end_the_mount(&made(&volume), mount, crate::common::judge);
        assert!(panics > 20, "{options}: {panics}");
    }
}
