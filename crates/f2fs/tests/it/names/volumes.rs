//! Volumes for the tests of names.

use crate::common::{Image, have_tools};
use block::Queue;
use blockdev::Ram;
use std::sync::Arc;
use varve_f2fs::mkfs::{DeviceContent, Options, plan};

/// Has a device judged by fsck.f2fs, where it is installed.
pub struct Judge(Option<Image>);

impl Judge {
    pub fn judge(&self, ram: &Ram) {
        if let Some(image) = &self.0 {
            image.judge(ram);
        }
    }
}

/// A volume by our own mkfs, or, with features, by mkfs.f2fs (without the tool: by our own mkfs,
/// without features).
pub fn features(mib: u64, features: &str) -> (Arc<Ram>, Judge) {
    if !have_tools() {
        return (ours(mib), Judge(None));
    }
    if features.is_empty() {
        return (ours(mib), Judge(Some(Image::new(mib, &[]))));
    }
    let image = Image::new(mib, &["-O", features]);
    (image.load(), Judge(Some(image)))
}

/// A volume by our own mkfs.
pub fn ours(mib: u64) -> Arc<Ram> {
    let ram = Arc::new(Ram::new(mib << 20));
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    plan(&Options::new(mib << 20, [7; 16], time))
        .expect("a volume")
        .write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    ram
}
