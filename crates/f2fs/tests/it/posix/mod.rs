//! POSIX features beyond files and names: holes, flags, ACLs, whiteouts, projects, access times.

mod acls;
mod flags;
mod seek;
mod times;
mod whiteouts;

use crate::common::{MIB, bytes_with_ring, caps, fresh, made, options_with_ring};
use block::Queue;
use blockdev::{Image, Ram, SpecDisk};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_f2fs::{F2fs, MountOptions};

const BLOCK: u64 = 4096;

/// Of a journal.
const RING: u32 = 1024;

/// Options of the volumes that these tests run on: without a journal, and with one.
const KINDS: [&str; 2] = ["checkpoint=enable", "scheme=f2fsj"];

/// A volume that these options fit.
fn volume(options: &str) -> Arc<Ram> {
    match options == KINDS[0] {
        true => fresh(64),
        false => made(&options_with_ring(64, RING)),
    }
}

/// Runs `work` on a mount over a device that loses its power then: what is left.
fn after_power_cut(
    start: Image,
    options: &'static str,
    seed: u64,
    work: impl FnOnce(&F2fs) + Send + 'static,
) -> Arc<Ram> {
    let bytes = match options == KINDS[0] {
        true => 64 * MIB,
        false => bytes_with_ring(64, RING),
    };
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(bytes), start, seed);
        let parsed = MountOptions::parse(options).expect("options");
        let fs = F2fs::mount(Queue::new(disk.clone()), parsed).expect("mounts");
        work(&fs);
        let left = disk.power_off(seed);
        // Ends its tasks.
        let _ = fs.unmount();
        left
    });
    Arc::new(outcome.unwrap().to_ram(bytes))
}
