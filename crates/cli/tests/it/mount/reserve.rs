//! Blocks held back, on a mount and on the kernel's ext4: how much each user gets, and which error
//! a user without a right to them gets.

use super::place::{Place, VARVE, must, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
/// Held back, blocks of 4 KiB: an eighth of the volume.
const RESERVE: u64 = 4096;
const RESERVE_BYTES: u64 = RESERVE * 4096;
/// What the kernel keeps for itself beside that: 2 % of 128 MiB.
const KERNELS_OWN: u64 = 128 * MIB / 50;

/// User, group, further groups as `setpriv` takes them.
type User = (&'static str, &'static str, &'static str);
const NOBODY: User = ("65534", "65534", "--clear-groups");
const STRANGER: User = ("2001", "2002", "--groups=7,8");
const USER: User = ("1001", "65534", "--clear-groups");
const MEMBER: User = ("65534", "65534", "--groups=7,1002,8");
const OF_GROUP: User = ("65534", "1002", "--clear-groups");
const SUPERUSER: User = ("0", "0", "--clear-groups");

/// Runs a script in `dir` as a user: exit code and what it said.
fn as_user((uid, gid, groups): User, dir: &Path, script: &str) -> (i32, String) {
    let (reuid, regid) = (format!("--reuid={uid}"), format!("--regid={gid}"));
    let script = format!("export LC_ALL=C; cd {} && {{ {script}; }}", dir.display());
    let args = [&reuid, &regid, groups, "sh", "-c", &script];
    run("setpriv", &args)
}

/// Writes a file until there is no space: its bytes, once they are synced.
fn take(user: User, dir: &Path, name: &str) -> u64 {
    let script = format!("dd if=/dev/zero of={name} bs=64k; sync {name}");
    let (_, words) = as_user(user, dir, &script);
    assert!(words.contains("No space left"), "{name}: {words}");
    // Without a block for its inode there is no file.
    fs::metadata(dir.join(name)).map_or(0, |meta| meta.len())
}

/// What each user gets when the users before have taken all common blocks.
fn shares(dir: &Path) -> Vec<u64> {
    fs::set_permissions(dir, Permissions::from_mode(0o1777)).expect("the root");
    let mut shares = vec![take(NOBODY, dir, "everybodys")];
    for user in [STRANGER, USER, MEMBER, OF_GROUP, SUPERUSER] {
        shares.push(take(user, dir, "share"));
        let _ = fs::remove_file(dir.join("share"));
        must("sync", &["-f", &dir.to_string_lossy()]);
    }
    shares
}

/// What a user is told where only blocks held back are left. Each line needs one, or none.
const SCRIPT: &str = "
fallocate -l 65536 new
mkdir dir
ln -s $(printf %0200d 1) long
ln -s short short
mknod pipe p
echo x > file
dd if=/dev/zero of=old bs=4096 count=1 seek=5000 conv=notrunc status=none
dd if=/dev/zero of=old bs=4096 count=1 conv=notrunc,fsync status=none
for n in $(seq 100); do ln old grown/$(printf %0250d $n) || break; done
for n in $(seq 100); do mv moved grown/$(printf %0250d m$n) 2>&1 && mv grown/$(printf %0250d m$n) moved || break; done
cp old copied
mv old renamed
truncate -s 100 renamed
rm -rf renamed copied new short pipe file
";

fn told(user: User, dir: &Path) -> String {
    let mut log = String::new();
    for line in SCRIPT.lines().filter(|line| !line.is_empty()) {
        let (code, words) = as_user(user, dir, line);
        let full = words.matches("No space left").count().min(1);
        log += &format!("{line}: {code}, no space {full}\n");
    }
    log
}

fn prepare(dir: &Path) {
    fs::write(dir.join("old"), vec![7; 8192]).expect("room");
    fs::write(dir.join("moved"), b"").expect("room");
    fs::create_dir(dir.join("grown")).expect("room");
    for name in [".", "old", "moved", "grown"] {
        std::os::unix::fs::chown(dir.join(name), Some(65534), Some(65534)).expect("ours");
    }
}

/// A volume that holds blocks back, by its superblock.
fn volume(options: &[&str]) -> Place {
    let place = Place::foreign(&["-b", "4096", "-N", "4096"]);
    let blocks = RESERVE.to_string();
    must(
        "tune2fs",
        &[&["-r", &blocks], options, &[&place.image()]].concat(),
    );
    place
}

/// Whether root has `CAP_SYS_RESOURCE` here, which it may lack in a container. The kernel checks
/// for that capability, we for user 0.
fn has_resource_capability() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("of this process");
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let set = u64::from_str_radix(line.expect("a line of its own").trim(), 16);
    set.expect("a number") & 1 << 24 != 0
}

#[test]
fn each_user_gets_what_he_gets_of_the_kernels_ext4() {
    // Whether user, member, one of the group, and superuser get what is held back. Linux 6.18 takes
    // the number of the user in the superblock for that of the group, so it is told the group.
    for (tuned, options, to_kernel, may) in [
        (&[][..], "resuid=1001,resgid=1002", "rw", [true; 4]),
        (
            &["-u", "1001", "-g", "1002"],
            "rw",
            "resgid=1002",
            [true; 4],
        ),
        (&[], "rw", "rw", [false, false, false, true]),
        (
            &["-g", "1002"],
            "resuid=2001,resgid=0",
            "rw",
            [false, false, false, true],
        ),
    ] {
        let kernels = volume(tuned);
        let loops = format!("loop,{options},{to_kernel}");
        must("mount", &["-o", &loops, &kernels.image(), &kernels.at()]);
        let mut theirs = shares(&kernels.dir());
        kernels.umount_kernel();
        if !has_resource_capability() && theirs[5] == 0 {
            theirs[5] = RESERVE_BYTES;
        }
        for ours_only in ["", ",scheme=emmc", ",data=journal"] {
            let place = volume(tuned);
            place.mount(&format!("allow_other,{options}{ours_only}"));
            let ours = shares(&place.dir());
            place.umount();
            place.check();
            let seen = format!("{options}{ours_only}: {ours:?}, of the kernel {theirs:?}");
            println!("{seen}");
            let near = |a: u64, b: u64, most: u64| a + MIB / 2 >= b && a <= b + most + MIB / 2;
            assert!(near(ours[0], theirs[0], KERNELS_OWN), "{seen}");
            let stranger = options.contains("resuid=2001");
            let may = [stranger].into_iter().chain(may);
            for (n, may) in (1..).zip(may) {
                let held = if may { RESERVE_BYTES } else { 0 };
                assert!(
                    near(ours[n], held, 0) && near(theirs[n], held, 0),
                    "{n}, {seen}"
                );
            }
        }
    }
}

#[test]
fn a_user_is_told_what_the_kernels_ext4_tells_him() {
    let on = |place: &Place| {
        prepare(&place.dir());
        take(NOBODY, &place.dir(), "everybodys");
        // Single blocks, too.
        let dir = place.dir();
        let single = "for n in $(seq 600); do dd if=/dev/zero of=small$n bs=1 count=1 status=none || break; done; sync -f .";
        let (_, words) = as_user(NOBODY, &dir, single);
        assert!(words.contains("No space left"), "{words}");
        let told = told(NOBODY, &dir);
        let (code, words) = as_user(
            SUPERUSER,
            &dir,
            "mkdir d && fallocate -l 1M d/f && echo x > d/g",
        );
        assert_eq!(code, 0, "{words}");
        told
    };
    let kernels = volume(&[]);
    kernels.mount_by_kernel();
    let theirs = on(&kernels);
    kernels.umount_kernel();
    let place = volume(&[]);
    place.mount("allow_other");
    let ours = on(&place);
    let table = must("stat", &["-f", "-c", "%f %a", &place.at()]);
    place.umount();
    place.check();
    assert_eq!(ours, theirs);
    assert!(ours.matches("no space 1").count() > 6, "{ours}");
    let counts: Vec<u64> = (table.split_whitespace())
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert!(counts[0] > RESERVE / 2 && counts[1] < 8, "{table}");
}

/// The kernel has said that it is written before we see it (adapter-A2).
#[test]
fn what_the_kernel_has_taken_over_is_not_lost() {
    let place = volume(&[]);
    place.mount("allow_other,writeback");
    let dir = place.dir();
    fs::set_permissions(&dir, Permissions::from_mode(0o1777)).expect("the root");
    let table = must("stat", &["-f", "-c", "%a", &place.at()]);
    let common: u64 = table.trim().parse().expect("a number");
    let blocks = common + RESERVE / 2;
    let script = format!("dd if=/dev/zero of=f bs=4096 count={blocks} conv=fsync status=none");
    let (code, words) = as_user(NOBODY, &dir, &script);
    assert_eq!((code, words.as_str()), (0, ""));
    // What comes here by itself asks for its right.
    let (_, words) = as_user(NOBODY, &dir, "fallocate -l 1M g");
    assert!(words.contains("No space left"), "{words}");
    assert_eq!(
        fs::metadata(dir.join("f")).expect("made").len(),
        blocks * 4096
    );
    place.umount();
    place.check();
}

#[test]
fn f2fs_holds_back_what_the_option_says() {
    let place = Place::new("f2fs");
    for (options, words) in [
        ("reserve_root=100000", "can be held back"),
        ("resuid=1001", "reserve_root=BLOCKS"),
    ] {
        let line = ["mount", &place.image(), &place.at(), "-o", options];
        let (code, text) = run(VARVE, &line);
        assert!(code == 1 && text.contains(words), "{text}");
    }
    place.mount("allow_other,reserve_root=1024,resuid=1001,resgid=1002");
    let ours = shares(&place.dir());
    place.umount();
    must(VARVE, &["fsck", "-n", &place.image()]);
    assert!(ours[1] < MIB / 2, "{ours:?}");
    let near = |got: u64| (1024 * 4096 - MIB / 2..=1024 * 4096 + MIB / 2).contains(&got);
    assert!(ours[2..].iter().all(|&got| near(got)), "{ours:?}");
}
