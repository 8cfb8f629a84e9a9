//! fsync and roll-forward under power cuts, in each mode.

mod common;
#[path = "sync_cuts/mod.rs"]
mod cuts;

use blockdev::Image;
use common::{MIB, fresh, judge};
use cuts::{Setting, VOLUME_MIB, explore};
use std::sync::Arc;

fn start() -> Image {
    fresh(VOLUME_MIB).blocks().into_iter().collect()
}

fn mode(options: &'static str, first: u64) {
    let setting = Setting {
        options,
        steps: 60,
        mutant: None,
    };
    let mut images = Vec::with_capacity(2);
    let seen = explore(first, 60, &start(), setting, &mut images);
    assert_eq!(seen.found, None, "{options}");
    assert!(seen.recovered > 20 && seen.again > 3, "{seen:?}");
    for image in images {
        judge(&Arc::new(image.to_ram(VOLUME_MIB * MIB)));
    }
    println!("{options}: {seen:?}");
}

#[test]
fn posix_in_place() {
    mode("fsync_mode=posix", 100);
}

#[test]
fn posix_out_of_place() {
    mode("fsync_mode=posix,mode=lfs", 200);
}

#[test]
fn strict_out_of_place() {
    mode("fsync_mode=strict,mode=lfs", 300);
}

#[test]
fn strict_in_place() {
    mode("fsync_mode=strict", 400);
}
