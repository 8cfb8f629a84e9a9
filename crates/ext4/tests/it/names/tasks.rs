//! Many tasks on the same few names, under random schedules: no deadlock, no lost inode, a clean
//! image.

use crate::common::{Image, have_tools, load, mount};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use testkit::shadow::{race, read_tree};

#[test]
fn many_tasks_on_few_names() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    image.debugfs_write(&["mkdir p", "mkdir q"]);
    for seed in 0..6 {
        let path = image.path.clone();
        let ram = Sim::new(SimConfig::random(seed)).run(move || {
            let ram = load(&path);
            let fs = mount(&ram, "");
            let done = race(&*fs, seed);
            assert!(done > 50, "work was done: {done}");
            read_tree(&*fs, 3);
            fs.unmount().expect("unmount");
            ram
        });
        let ram = ram.unwrap();
        let after = Image {
            dir: tempfile::tempdir().expect("a folder"),
            path: image.dir.path().join("after"),
        };
        after.store(&ram);
        after.fsck();
    }
}
