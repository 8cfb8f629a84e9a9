//! Mounts of F2FS as Linux has them: nodes held back, and features that change nothing here.

use super::place::{Place, VARVE, must, run};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the two copies of the superblock have their features (`feature`).
const FEATURES_AT: [u64; 2] = [1024 + 2180, 4096 + 1024 + 2180];
const PACKED_SSA: u32 = 0x1_0000;

/// With the flag, summaries are packed where blocks are larger than 4 KiB, which ours are not.
/// Linux before 6.19 does not know the flag, and F2FS refuses no flag that it does not know.
#[test]
fn a_volume_with_packed_summaries_is_used_as_any_other() {
    let place = Place::new("f2fs");
    place.mount("");
    fs::write(place.dir().join("before"), [1; 9000]).expect("room");
    place.umount();
    let image = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.image());
    let image = image.expect("ours");
    for at in FEATURES_AT {
        let mut features = [0; 4];
        image.read_exact_at(&mut features, at).expect("there");
        let features = u32::from_le_bytes(features) | PACKED_SSA;
        image
            .write_all_at(&features.to_le_bytes(), at)
            .expect("ours");
    }
    drop(image);
    let said = must(VARVE, &["info", &place.image()]);
    assert!(said.contains("packed_ssa"), "{said}");
    place.mount("ro");
    assert_eq!(
        fs::read(place.dir().join("before")).expect("there"),
        [1; 9000]
    );
    place.umount();
    place.mount("");
    for n in 0..300 {
        fs::write(place.dir().join(format!("f{n}")), [n as u8; 5000]).expect("room");
    }
    fs::remove_file(place.dir().join("before")).expect("there");
    place.umount();
    place.judge("f2fs");
    place.mount("ro");
    for n in 0..300 {
        let found = fs::read(place.dir().join(format!("f{n}"))).expect("there");
        assert!(found == [n as u8; 5000], "f{n}");
    }
    place.umount();
}

/// Makes files in `dir` until there is no room; how many.
fn fill(dir: &Path, name: &str, most: u64) -> u64 {
    for n in 0..most {
        // Directories stay small.
        let part = dir.join(format!("{name}{}", n / 4000));
        if n % 4000 == 0 && fs::create_dir(&part).is_err() {
            return n;
        }
        match File::create_new(part.join(n.to_string())) {
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(nix::libc::ENOSPC) => return n,
            Err(e) => panic!("{}: {e}", part.display()),
        }
    }
    most
}

/// A volume with fewer numbers of nodes than blocks, so that nodes run out first: a user leaves
/// those held back, and the superuser gets them all.
#[test]
#[ignore = "a quarter of a million files"]
fn nodes_held_back_are_left_to_the_superuser() {
    const RESERVE: u64 = 1500;
    let place = Place::empty();
    let image = place.image();
    let file = File::create(&image).expect("an image");
    file.set_len(1200 << 20).expect("room");
    must("mkfs.f2fs", &["-q", "-f", "-i", &image]);
    place.mount(&format!("allow_other,reserve_node={RESERVE}"));
    let dir = place.dir();
    let at = place.at();
    let free = |words: &str| -> u64 {
        let said = must("stat", &["-f", "-c", words, &at]);
        said.trim().parse().expect("a number")
    };
    let (blocks, nodes) = (free("%a"), free("%d"));
    assert!(nodes < blocks, "{nodes} nodes, {blocks} blocks");
    // The superuser leaves some, which a user takes.
    let first = fill(&dir, "first", nodes - RESERVE - 1000);
    assert_eq!(first, nodes - RESERVE - 1000);
    fs::create_dir(dir.join("users")).expect("room");
    std::os::unix::fs::chown(dir.join("users"), Some(65534), Some(65534)).expect("root");
    // Not `:`, because a shell ends where the file of a special command cannot be made.
    let script = format!(
        "cd {at}/users; for n in $(seq 3000); do true >$n || break; done 2>/dev/null; ls | wc -l"
    );
    let user = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
    ];
    let line: Vec<&str> = user.into_iter().chain([script.as_str()]).collect();
    let (code, said) = run("setpriv", &line);
    assert_eq!(code, 0, "{said}");
    let users: u64 = said.trim().parse().expect("a number");
    assert!((900..1000).contains(&users), "{users} of a user");
    let left = free("%d");
    assert!(left.abs_diff(RESERVE) < 8, "{left} nodes are left");
    let last = fill(&dir, "last", 3000);
    assert!(RESERVE - last < 8, "{last} of the superuser");
    place.umount();
    place.judge("f2fs");
}
