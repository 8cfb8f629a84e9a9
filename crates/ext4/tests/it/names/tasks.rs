//! Many tasks on the same few names, under random schedules: no deadlock, no lost inode, a clean
//! image.

use crate::common::{Image, Volume, have_tools};
use std::sync::Arc;
use testkit::volume::races;

#[test]
fn many_tasks_on_few_names() {
    if have_tools() {
        races(|| Volume::of(&Arc::new(Image::new(64, &[])), ""));
    }
}
