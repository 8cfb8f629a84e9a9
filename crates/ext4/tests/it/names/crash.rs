//! A crash leaves the names as they were after one of the operations since the last sync: each
//! operation whole, all in order.

use crate::common::{Image, fork, have_tools, mount};
use base::{Ino, Rng};
use fscore::{Creds, FileKind, FileSystem};
use testkit::Brief;
use testkit::shadow::{Mix, Shadow, Tree, read_tree};

#[test]
fn a_crash_keeps_a_prefix_of_the_operations() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &["-J", "size=4"]);
    let (ram, fs) = image.mount("commit=600");
    let mut shadow = Shadow::new(&*fs);
    let mut rng = Rng::named(1, "crash");
    let mix = Mix {
        names: 80,
        dirs: 12,
        longest: 120,
        fast_target: Some(59),
        target_sectors: 8,
    };
    let mut history: Vec<Tree> = vec![shadow.tree()];
    let (mut crashes, mut later) = (0, 0);
    for n in 0..600 {
        shadow.step(&*fs, &mut rng, mix);
        let tree = shadow.tree();
        if history.last() != Some(&tree) {
            history.push(tree);
        }
        if n % 97 == 50 {
            fs.sync().expect("sync");
            history = vec![shadow.tree()];
        }
        if n % 29 == 28 {
            // Makes a transaction durable in the middle of the history.
            if rng.one_in(2) {
                fs.fsync(fs.root(), false).expect("fsync");
            }
            let crashed = fork(&ram);
            let again = mount(&crashed, "");
            let found = read_tree(&*again, 50);
            let at = history.iter().position(|tree| *tree == found);
            let at = at.expect("the names after one of the operations since the last sync");
            later += u32::from(at > 0);
            crashes += 1;
            image.end(&again, &crashed);
        }
    }
    assert!(
        crashes == 20 && later > 3,
        "{crashes} crashes, {later} with more than what was synced"
    );
    fs.unmount().expect("unmount");
}

#[test]
fn open_files_without_names_go_with_the_last_close_or_the_crash() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let (ram, fs) = image.mount("commit=600");
    let root = fs.root();
    let free = |fs: &varve_ext4::Ext4| fs.statfs().expect("statfs").inodes_free;
    let before = free(&fs);
    let inos: Vec<Ino> = (0..5u8).map(|n| fs.file([b'a' + n])).collect();
    let dir = fs.make_dir(root, b"dir").expect("mkdir");
    for &ino in inos.iter().chain([&dir]) {
        fs.open(ino).expect("open");
    }
    fs.write(inos[0], 0, &[7; 100_000]).expect("write");
    for n in 0..4u8 {
        fs.unlink(root, &[b'a' + n]).expect("unlink");
    }
    fs.rename(root, b"dir", root, b"dd", fscore::RenameMode::Replace)
        .expect("rename");
    fs.rmdir(root, b"dd").expect("rmdir");
    // The directory still exists, but takes no names.
    assert_eq!(fs.getattr(dir).expect("open").nlink, 0);
    assert_eq!(fs.readdir(dir, 0, 10).expect("empty"), []);
    let refused = fs.create(dir, b"x", FileKind::File, 0o600, 0, Creds::default());
    assert_eq!(refused.expect_err("removed").errno(), fscore::Errno::NoEnt);
    let linked = fs.link(inos[1], root, b"again");
    assert_eq!(
        linked.expect_err("no name is left").errno(),
        fscore::Errno::NoEnt
    );
    let mut bytes = [0; 10];
    assert_eq!(fs.read(inos[0], 0, &mut bytes).expect("read"), 10);
    assert_eq!(bytes, [7; 10]);
    assert_eq!(free(&fs), before - 6);
    fs.release(inos[2]).expect("close");
    assert_eq!(free(&fs), before - 5);
    assert!(fs.getattr(inos[2]).is_err());
    fs.sync().expect("sync");

    let crashed = fork(&ram);
    image.store(&crashed);
    let (code, text) = image.fsck_repair();
    assert!(code == Some(0) || code == Some(1), "{text}");
    let again = mount(&crashed, "");
    assert_eq!(free(&again), before - 1, "one file has a name");
    assert!(again.lookup(root, b"e").is_ok() && again.lookup(root, b"a").is_err());
    image.end(&again, &crashed);

    for &ino in [inos[0], inos[1], inos[3], inos[4], dir].iter() {
        fs.release(ino).expect("close");
    }
    assert_eq!(free(&fs), before - 1);
    image.end(&fs, &ram);
}
