//! A panic in an operation ends the mount, and nothing of the operation is committed.

use crate::common::{check_ram, fresh, said};
use block::Queue;
use std::sync::Arc;
use testkit::device::trap::{Trap, panics_end_the_mount};
use varve_ext4::mkfs::Kind;
use varve_ext4::{Ext4, MountOptions};

#[test]
fn a_panic_ends_the_mount() {
    for kind in [Kind::Ext4, Kind::Ext3] {
        let mount = |device: Arc<Trap>| {
            let options = MountOptions::default();
            Ext4::mount(Queue::new(device), options).expect("mounts")
        };
        let panics = panics_end_the_mount(&fresh(kind, 64), mount, |ram| {
            let report = check_ram(ram);
            assert!(report.is_clean(), "{}", said(&report));
        });
        assert!(panics > 20, "{panics}");
    }
}
