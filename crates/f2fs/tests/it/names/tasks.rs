//! Many tasks on the same few names, under random schedules: no deadlock, no lost inode, a clean
//! image.

use crate::common::{Volume, fresh};
use testkit::volume::races;

#[test]
fn many_tasks_on_few_names() {
    races(|| Volume::new(fresh(64), ""));
}
