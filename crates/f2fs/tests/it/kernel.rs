//! Our F2FS and the kernel's (in a guest): each reads, changes and recovers what the other one
//! left.
#![allow(clippy::disallowed_methods)]

use crate::common::{Image, caps, fork, fresh, load, made, mount, options_of, store};
use blockdev::{Ram, SpecDisk};
use fscore::{FileFlags, FileSystem};
use guest::foreign::{self, Foreign, RECIPES, SHORT};
use guest::{Guest, Plan, Tree, ours};
use rt::{Sim, SimConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testkit::Brief;
use testkit::names::wild_name;
use varve_f2fs::F2fs;
use varve_f2fs::mkfs::{JournalSize, Options};

/// What a script in the guest calls.
#[test]
fn in_the_guest() {
    guest::hook();
}

fn guest() -> std::io::Result<Guest> {
    Guest::new(&["kernel::in_the_guest", "--exact", "--nocapture"])
}

fn same(what: &str, kernel: &Tree, varve: &Tree) {
    let found = kernel.differences(varve);
    report(what, &found);
}

/// Both recovered: names that came back changed their directories at the time of the recovery.
fn same_recovered(what: &str, kernel: &Tree, varve: &Tree) {
    let found = kernel.differences_after_recovery(varve);
    report(what, &found);
}

fn report(what: &str, found: &[String]) {
    assert!(
        found.is_empty(),
        "{what}: the kernel's tree, then ours\n{}",
        found.join("\n")
    );
}

fn tree(fs: &Arc<F2fs>) -> Tree {
    ours::tree(&**fs).unwrap_or_else(|e| panic!("our tree: {e}"))
}

/// The trees that the kernel sees in our images, each recovered if it has to be and judged by
/// `fsck.f2fs`.
fn kernel_trees(dir: &Path, devices: &[(String, Arc<Ram>)]) -> Vec<Tree> {
    let stored = |(name, ram): &(String, Arc<Ram>)| {
        let path: PathBuf = dir.join(format!("{name}.ours"));
        store(ram, &path);
        (name.clone(), path)
    };
    let images = devices.iter().map(stored).collect();
    let found = foreign::trees(guest, dir, images).unwrap_or_else(|e| panic!("{e}"));
    found.into_iter().map(|f| f.tree).collect()
}

/// Mounts an image of the kernel's, compares, unmounts, and has the kernel look at it again.
/// Says how many had to be rolled forward.
fn read_foreign(dir: &Path, images: &[Foreign]) -> usize {
    let (mut after, mut recovered) = (Vec::new(), 0);
    for foreign in images {
        let ram = load(&foreign.image);
        let fs = mount(&ram, "");
        recovered += usize::from(fs.recovery().is_some());
        same_recovered(&foreign.name, &foreign.tree, &tree(&fs));
        fs.check();
        fs.unmount()
            .unwrap_or_else(|e| panic!("{}: {e}", foreign.name));
        after.push((foreign.name.clone(), ram));
    }
    for (foreign, again) in images.iter().zip(kernel_trees(dir, &after)) {
        same_recovered(&format!("{} after us", foreign.name), &foreign.tree, &again);
    }
    recovered
}

/// One boot fills the image of a recipe, and one looks at those of all: boots are what takes long.
fn foreign_images(range: std::ops::Range<usize>) {
    let mut recovered = 0;
    for recipes in RECIPES[range].chunks(SHORT) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut images = Vec::new();
        for recipe in recipes {
            let filled = recipe.fill(guest, dir.path());
            images.extend(filled.unwrap_or_else(|e| panic!("{}: {e}", recipe.name)));
        }
        let made = foreign::trees(guest, dir.path(), images).unwrap_or_else(|e| panic!("{e}"));
        recovered += read_foreign(dir.path(), &made);
    }
    assert!(recovered > 0, "no image was one for roll-forward");
}

/// Clean, killed, cut and full images of the kernel's have the tree here that they have there after
/// its own recovery.
#[test]
fn what_the_kernel_left_is_recovered_as_by_the_kernel() {
    foreign_images(0..SHORT);
}

#[test]
#[ignore = "a boot or two for each of a dozen recipes"]
fn what_the_kernel_left_in_every_way() {
    foreign_images(SHORT..RECIPES.len());
}

/// One plan after the other, each side in turn, on one image. What one writes the other sees.
fn rounds(ram: Arc<Ram>, plans: &[&str], seed: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let mut ram = ram;
    for (n, name) in plans.iter().enumerate() {
        let what = format!("round-{n}-{name}");
        let plan = Plan::named(name, seed).expect("a plan");
        if n % 2 == 0 {
            let fs = mount(&ram, "");
            ours::run(&*fs, &plan).unwrap_or_else(|e| panic!("{what}: {e}"));
            let ours = tree(&fs);
            fs.unmount().unwrap_or_else(|e| panic!("{what}: {e}"));
            let kernel = kernel_trees(dir.path(), &[(what.clone(), ram.clone())]);
            same(&what, &kernel[0], &ours);
        } else {
            store(&ram, &image);
            let guest = guest().expect("a scratch directory").disk(&image);
            let script = format!(
                "guest load f2fs
                 mount -t f2fs -o noatime $DISK0 $MNT
                 guest plan {name} {seed} $MNT
                 guest tree $MNT tree
                 umount $MNT"
            );
            guest
                .check(&script)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            foreign::fsck(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
            let text = fs::read_to_string(guest.scratch().join("tree")).expect("a tree");
            ram = load(&image);
            let fs = mount(&ram, "");
            same(&what, &text.parse().expect("a tree"), &tree(&fs));
            fs.unmount().unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

#[test]
fn each_side_in_turn() {
    rounds(fresh(200), &["rich", "change", "random"], 1);
}

#[test]
#[ignore = "a boot for each of twenty rounds"]
fn each_side_in_turn_for_long() {
    for seed in 2..4 {
        rounds(
            fresh(200),
            &["rich", "change", "acl", "random", "large"],
            seed,
        );
        rounds(Image::new(128, &[]).load(), &["full", "random"], seed);
        let plans = ["fsync", "orphans", "random", "rich"];
        rounds(Image::new(200, &[]).load(), &plans, seed);
    }
}

/// The same plan on both sides: the same operations fail, in the same way, and the same tree is
/// left.
#[test]
fn the_same_operations_have_the_same_outcome() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guest = guest().expect("a scratch directory");
    let mut script = String::from("guest load f2fs\n");
    let mut done = Vec::new();
    for (n, (name, seed)) in [("random", 1), ("rich", 3)].into_iter().enumerate() {
        let image = dir.path().join(format!("image{n}"));
        let ram = fresh(128);
        store(&ram, &image);
        let plan = Plan::named(name, seed).expect("a plan");
        let fs = mount(&ram, "");
        let (codes, _) = ours::run(&*fs, &plan).unwrap_or_else(|e| panic!("{name}: {e}"));
        let ours = tree(&fs);
        fs.unmount().expect("unmounted");
        guest = guest.disk(&image);
        script += &format!(
            "mount -t f2fs -o noatime $DISK{n} $MNT
             guest plan {name} {seed} $MNT
             guest tree $MNT tree{n}
             umount $MNT
             "
        );
        done.push((name, plan, codes, ours));
    }
    guest.check(&script).unwrap_or_else(|e| panic!("{e}"));
    for (n, (name, plan, codes, ours)) in done.into_iter().enumerate() {
        if plan.may_fail {
            let text = fs::read_to_string(guest.scratch().join(format!("{name}.codes")));
            let text = text.expect("codes");
            let theirs: Vec<i32> = text.lines().map(|n| n.parse().expect("a number")).collect();
            let differ = plan.ops.iter().zip(theirs.iter().zip(&codes));
            let differ: Vec<_> = differ.filter(|(_, (a, b))| a != b).take(5).collect();
            assert!(
                differ.is_empty(),
                "{name}: operation, kernel, us: {differ:?}"
            );
        }
        let text = fs::read_to_string(guest.scratch().join(format!("tree{n}"))).expect("a tree");
        let kernel: Tree = text.parse().expect("a tree");
        let found = kernel.differences_in_content(&ours);
        assert!(found.is_empty(), "{name}: kernel, us\n{}", found.join("\n"));
    }
}

/// What a cut may leave while a plan runs, at `cuts` places.
fn cut_images(name: &'static str, seed: u64, options: &'static str, cuts: usize) -> Vec<Arc<Ram>> {
    const BYTES: u64 = 128 << 20;
    let start = fresh(128).blocks().into_iter().collect();
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(BYTES), start, seed);
        let options = varve_f2fs::MountOptions::parse(options).expect("options");
        let fs = F2fs::mount(block::Queue::new(disk.clone()), options).expect("mounts");
        let plan = Plan::named(name, seed).expect("a plan");
        let mut images = Vec::new();
        for ops in plan.ops.chunks(plan.ops.len().div_ceil(cuts)) {
            let part = Plan {
                ops: ops.to_vec(),
                may_fail: plan.may_fail,
            };
            ours::run(&*fs, &part).expect("the plan runs");
            images.push(disk.snapshot(seed + images.len() as u64));
        }
        fs.unmount().expect("unmounted");
        images
    });
    let images = outcome.unwrap();
    images
        .iter()
        .map(|image| Arc::new(image.to_ram(BYTES)))
        .collect()
}

/// Our cut images, recovered by the kernel and by us. Says how many had to be rolled forward.
fn both_recover(name: &'static str, seed: u64, options: &'static str, cuts: usize) -> usize {
    let dir = tempfile::tempdir().expect("a directory");
    let images = cut_images(name, seed, options, cuts);
    assert!(images.len() > cuts / 2, "{} images", images.len());
    let named = |(n, ram): (usize, &Arc<Ram>)| (format!("{name}-{n}"), fork(ram));
    let named: Vec<_> = images.iter().enumerate().map(named).collect();
    let kernel = kernel_trees(dir.path(), &named);
    let mut recovered = 0;
    for ((what, ram), kernel) in named.iter().zip(&kernel) {
        let fs = mount(ram, options);
        recovered += usize::from(fs.recovery().is_some());
        same_recovered(what, kernel, &tree(&fs));
        fs.unmount().unwrap_or_else(|e| panic!("{what}: {e}"));
        let path = dir.path().join("recovered");
        store(ram, &path);
        foreign::fsck(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    recovered
}

#[test]
fn what_we_left_is_recovered_by_the_kernel_as_by_us() {
    let recovered = both_recover("fsync", 1, "", 12);
    assert!(recovered > 2, "rolled forward: {recovered}");
}

#[test]
#[ignore = "a hundred cuts"]
fn what_we_left_in_every_way() {
    for seed in 2..4 {
        both_recover("fsync", seed, "fsync_mode=strict", 12);
        both_recover("random", seed, "", 24);
        both_recover("full", seed, "", 24);
        both_recover("rich", seed, "", 12);
        both_recover("orphans", seed, "", 12);
    }
}

/// While the ring of a volume with a journal may hold something, the kernel keeps its hands off:
/// behind `guard=ro-bit` it can be looked at only, behind `guard=magic` not even that. After an
/// unmount it is a plain F2FS that the kernel can change.
#[test]
fn the_kernel_changes_a_volume_with_a_journal_only_after_its_unmount() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guest = guest().expect("a guest");
    let mut clean = None;
    for (n, guard) in ["ro-bit", "magic"].into_iter().enumerate() {
        let ram = with_journal(80);
        let fs = mount(&ram, &format!("scheme=f2fsj,guard={guard}"));
        let creds = fscore::Creds::default();
        let file = fs
            .create(fs.root(), b"kept", fscore::FileKind::File, 0o644, 0, creds)
            .expect("creates");
        fs.write(file.ino, 0, &[7; 9000]).expect("writes");
        fs.fsync(file.ino, false).expect("syncs");
        let path = dir.path().join(format!("guarded{n}"));
        store(&fork(&ram), &path);
        guest = guest.disk(&path);
        fs.unmount().expect("unmounts");
        clean = Some(ram);
    }
    let path = dir.path().join("clean");
    store(&clean.expect("two"), &path);
    guest
        .disk(&path)
        .check(
            "guest load f2fs
             ! mount -w -t f2fs $DISK0 $MNT || { echo 'ro-bit: writable'; exit 1; }
             mount -t f2fs -o ro $DISK0 $MNT
             umount $MNT
             ! mount -t f2fs -o ro $DISK1 $MNT || { echo 'magic: mounted'; exit 1; }
             mount -t f2fs $DISK2 $MNT
             test $(stat -c %s $MNT/kept) = 9000
             echo more > $MNT/more
             umount $MNT",
        )
        .unwrap_or_else(|e| panic!("{e}"));
    foreign::fsck(&path).unwrap_or_else(|e| panic!("{e}"));
    // What the kernel did counts: no epoch of ours is older than its checkpoint.
    let fs = mount(&load(&path), "scheme=f2fsj");
    fs.find(b"kept");
    fs.find(b"more");
    fs.unmount().expect("unmounts");
}

/// A line of a script that says where the guest's kernel does not find a name.
fn expected(name: &str) -> Option<String> {
    let plain = !name.contains(['\'', '\n', '/', '\0']) && !["", ".", ".."].contains(&name);
    plain.then(|| format!("test -e '{name}' || echo '{name}' >> $MISSING\n"))
}

/// The kernel finds our names of which case does not count, in other spellings too, and we find its
/// own ones. Says `skipped: ...` where the guest's kernel has no Unicode.
#[test]
fn the_kernel_folds_names_as_we_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let ram = made(&Options {
        casefold: true,
        ..options_of(80 << 20)
    });
    let fs = mount(&ram, "");
    let folded = fs.make_dir(fs.root(), b"dir").expect("room");
    fs.set_file_flags(folded, FileFlags::CASEFOLD)
        .expect("an empty directory");
    let mut rng = base::Rng::named(11, "folding");
    let mut looks = String::new();
    let fixed = [
        "Stra\u{df}e",
        "\u{c4}RGER",
        "na\u{ef}ve",
        "\u{3a3}\u{3af}\u{3c3}\u{3c5}\u{3c6}\u{3bf}\u{3c2}",
        "\u{fb01}le",
    ];
    let wild = (0..400).filter_map(|_| String::from_utf8(wild_name(&mut rng)).ok());
    let (mut made, mut spellings) = (0, 0);
    for name in fixed.map(String::from).into_iter().chain(wild) {
        let (Some(look), Ok(ino)) = (expected(&name), fs.make(folded, &name)) else {
            continue;
        };
        made += 1;
        looks.push_str(&look);
        for other in [name.to_uppercase(), name.to_lowercase()] {
            let same = fs.lookup(folded, other.as_bytes()).ok() == Some(ino);
            if let Some(look) = expected(&other).filter(|_| same && other != name) {
                spellings += 1;
                looks.push_str(&look);
            }
        }
    }
    assert!(
        made > 100 && spellings > 100,
        "{made} names, {spellings} spellings"
    );
    fs.unmount().expect("unmounts");
    let path = dir.path().join("image");
    store(&ram, &path);
    let guest = guest().expect("a guest").disk(&path);
    fs::write(guest.scratch().join("looks"), looks).expect("a script");
    let outcome = guest.check(
        "guest load f2fs
         MISSING=$PWD/missing; : > $MISSING; LOOKS=$PWD/looks
         mount -t f2fs $DISK0 $MNT || { echo no > unicode; exit 0; }
         cd $MNT/dir && . $LOOKS
         echo theirs > Their-\u{c9}t\u{e9}
         rm strasse
         cd / && umount $MNT",
    );
    outcome.unwrap_or_else(|e| panic!("{e}"));
    if guest.scratch().join("unicode").exists() {
        eprintln!("skipped: the guest's kernel has no Unicode");
        return;
    }
    let missing = fs::read_to_string(guest.scratch().join("missing")).expect("a list");
    assert_eq!(missing, "", "the kernel does not find them");
    foreign::fsck(&path).unwrap_or_else(|e| panic!("{e}"));
    let fs = mount(&load(&path), "");
    let folded = fs.find(b"dir");
    let theirs = fs.lookup(folded, "THEIR-\u{c9}TE\u{301}".as_bytes());
    assert_eq!(fs.getattr(theirs.expect("found")).expect("there").size, 7);
    assert!(
        fs.lookup(folded, "STRASSE".as_bytes()).is_err(),
        "they removed it"
    );
    fs.unmount().expect("unmounts");
}

/// A fresh volume with a small ring.
fn with_journal(mib: u64) -> Arc<Ram> {
    made(&Options {
        journal: Some(JournalSize::Ring(64)),
        ..options_of(mib << 20)
    })
}
