//! The ways to mount: devices, offsets, caches, block sizes, users; and what is served through
//! `ioctl`, locks and failed writes.

use super::place::{Place, VARVE, must, run, shell, unmount};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// A loop device over a file; dropping it takes it away.
struct Loop(String);

impl Loop {
    fn new(image: &str) -> Loop {
        Loop(must("losetup", &["-f", "--show", image]).trim().to_string())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.0]);
    }
}

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(seed) >> 11) as u8)
        .collect()
}

#[test]
fn a_block_device_and_an_offset() {
    let place = Place::new("ext4");
    let device = Loop::new(&place.image());
    must(
        VARVE,
        &["mount", &device.0, &place.at(), "-o", "scheme=emmc"],
    );
    fs::write(place.dir().join("f"), b"on a device").expect("room");
    let other = Place::new("ext4");
    let (code, words) = run(VARVE, &["mount", &place.image(), &other.at()]);
    assert!(code == 1 && words.contains("in use"), "{words}");
    place.umount();
    drop(device);
    place.check();

    // The same volume behind a mebibyte that is none of its business.
    let before = pattern(1 << 20, 77);
    let mut whole = before.clone();
    whole.extend(fs::read(place.image()).expect("an image"));
    fs::write(place.image(), &whole).expect("room");
    place.mount("offset=1048576,direct");
    let read = fs::read(place.dir().join("f")).expect("there");
    assert_eq!(read, b"on a device");
    fs::write(place.dir().join("g"), pattern(3 << 20, 5)).expect("room");
    place.umount();
    let mut whole = fs::read(place.image()).expect("an image");
    let volume = whole.split_off(1 << 20);
    assert!(whole == before, "nothing is written before the offset");
    fs::write(place.image(), volume).expect("room");
    place.check();
    let out = run(
        VARVE,
        &["mount", &place.image(), &place.at(), "-o", "offset=1000"],
    );
    assert_eq!(out.0, 1, "{}", out.1);
}

/// Every block size, direct and through the caches, read back by the kernel.
#[test]
fn caches_and_block_sizes() {
    let cases = [
        ("1024", "direct"),
        ("2048", "writeback"),
        ("4096", "direct,writeback,scheme=emmc"),
        ("1024", "scheme=emmc,sync"),
    ];
    for (block, options) in cases {
        let place = Place::foreign(&["-b", block]);
        place.mount(options);
        let dir = place.dir();
        let big = pattern(5_000_001, 99);
        for (i, piece) in big.chunks(777_777).enumerate() {
            let name = dir.join("big");
            let mut file = OpenOptions::new()
                .append(true)
                .create(true)
                .open(name)
                .expect("room");
            file.write_all(piece).expect("room");
            fs::write(dir.join(format!("small-{i}")), &piece[..i * 500]).expect("room");
        }
        // Holes are found although nothing of the file may have left the kernel yet.
        let sparse = File::create(dir.join("sparse")).expect("room");
        sparse.write_all_at(b"far", 3 << 20).expect("room");
        must(
            "cp",
            &["--sparse=auto", &at(&dir, "sparse"), &at(&dir, "copied")],
        );
        assert!(same(&dir, "sparse", "copied"), "{block} {options}");
        sparse.set_len(5000).expect("known");
        drop(sparse);
        File::open(dir.join("big"))
            .expect("there")
            .sync_all()
            .expect("room");
        assert!(fs::read(dir.join("big")).expect("there") == big);
        place.umount();
        place.check();
        place.mount_by_kernel();
        assert!(
            fs::read(dir.join("big")).expect("there") == big,
            "{block} {options}"
        );
        assert!(fs::read(dir.join("small-6")).expect("there") == big[6 * 777_777..][..3000]);
        assert_eq!(fs::metadata(dir.join("sparse")).expect("there").len(), 5000);
        fs::write(dir.join("theirs"), &big).expect("room");
        place.umount_kernel();
        place.mount(options);
        assert!(same(&dir, "big", "theirs"), "{block} {options}");
        place.umount();
    }
}

fn at(dir: &Path, name: &str) -> String {
    dir.join(name).to_string_lossy().to_string()
}

fn same(dir: &Path, a: &str, b: &str) -> bool {
    run("cmp", &[&at(dir, a), &at(dir, b)]).0 == 0
}

/// Mounts, uses and unmounts as a user without rights, where `/dev/fuse` is open to all, as usual.
#[test]
fn somebody_without_rights_mounts() {
    const SCRIPT: &str = r#"
        mknod "$1/fuse" c 10 229 && chmod 666 "$1/fuse" && mount --bind "$1/fuse" /dev/fuse || exit 9
        cp "$2" "$1/varve" && chmod 755 "$1/varve"; PATH=$1:$PATH
        user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
        user varve mount "$1/image" "$1/mnt" -o allow_other && exit 2
        user varve mount "$1/image" "$1/mnt" || exit 3
        user sh -c 'echo mine > "$1/mnt/f" && mknod "$1/mnt/p" p && chmod 4755 "$1/mnt/f"' sh "$1" || exit 4
        grep " $1/mnt fuse.varve " /proc/mounts | grep -q nosuid,nodev || exit 5
        cat "$1/mnt/f" && exit 6
        user varve umount "$1/mnt" || exit 7
        chmod 444 "$1/image"
        user varve mount "$1/image" "$1/mnt" -o ro || exit 8
        test "$(user cat "$1/mnt/f")" = mine || exit 10
        user fusermount3 -u "$1/mnt"
    "#;
    let place = Place::new("ext4");
    let folder = place.folder.path().to_string_lossy().to_string();
    let place_root = Permissions::from_mode(0o1777);
    place.mount("rw");
    fs::set_permissions(place.dir(), place_root).expect("root");
    place.umount();
    for dir in [folder.clone(), place.at(), place.image()] {
        std::os::unix::fs::chown(dir, Some(65534), Some(65534)).expect("root");
    }
    let line = ["-m", "sh", "-c", SCRIPT, "sh", &folder, VARVE];
    let (code, text) = run("unshare", &line);
    assert_eq!(code, 0, "{text}");
    place.check();
    let mode = fs::metadata(place.image())
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o444);
}

/// `chattr`, `lsattr`, locks between processes, times and sizes: the same as on the kernel's ext4.
#[test]
fn flags_and_locks_as_on_the_kernels_ext4() {
    const SCRIPT: &str = r#"
        echo x > f; mkdir d; touch d/a; chmod 666 f
        chattr +i f; lsattr f
        rm f; echo y >> f; touch f; chmod 600 f; ln f g; mv f g
        chattr -i f; chattr +a f; echo y >> f
        echo y > f
        rm f
        chattr -a f; chattr +dAS f; chattr +T d; chattr +D d; chattr +P d; lsattr f; lsattr -d d
        @nobody 'chattr +i f'
        @nobody 'chattr +d f; lsattr f'
        chattr +i d; touch d/b; rm d/a; mv d e
        chattr -i d; chattr -p 7 f; lsattr -p f
        chattr +F d; chattr +V f
        exec 9> lock; flock -n 9; flock -n lock echo got; flock -n -s lock echo got
        exec 9> lock; flock -s 9; flock -n lock echo got; flock -n -s lock echo got; flock -u 9; flock -n lock echo got
        touch -d @-5.000000005 f; stat -c '%.9Y' f
        touch -d @-0.000000005 f; stat -c '%.9Y' f
        touch -d @15032385535.5 f; stat -c '%.9Y' f
        touch -d @99999999999 f; stat -c '%.9Y' f
        stat -f -c '%b %f %l %s %S %c' .
        dd if=/dev/zero of=odd bs=4096 count=3 oflag=direct status=none; dd if=odd bs=4096 iflag=direct status=none | wc -c
        printf abc | dd of=odd oflag=dsync conv=notrunc status=none; printf abcd | dd of=odd oflag=sync,append conv=notrunc status=none; stat -c %s odd
        fallocate -l 100000 odd; fallocate -p -o 4096 -l 50000 odd; fallocate -z -o 8192 -l 200000 odd; stat -c '%s %b' odd
        fallocate -n -l 400000 odd; stat -c '%s' odd; cksum odd
        fallocate -l 900000000000 huge; rm huge
        truncate -s 17592186044415 odd; truncate -s 99999999999999 odd; stat -c '%s' odd
    "#;
    let on = |place: &Place| shell(&place.dir(), SCRIPT);
    let theirs = Place::new("ext4");
    theirs.mount_by_kernel();
    let wanted = on(&theirs);
    theirs.umount_kernel();
    let ours = Place::new("ext4");
    ours.mount("allow_other");
    let got = on(&ours);
    // A new generation number for each file; `lsattr -v` shows it.
    let version = must("lsattr", &["-v", &at(&ours.dir(), "f")]);
    assert!(
        version.split_whitespace().next().is_some_and(|v| v != "0"),
        "{version}"
    );
    ours.umount();
    ours.check();
    let differ: Vec<_> = (wanted.lines().zip(got.lines()))
        .filter(|(a, b)| a != b)
        .collect();
    assert!(wanted == got, "{differ:#?}\n{got}");
}

#[test]
fn fstrim_gives_space_back_to_the_host() {
    for fs in ["ext4", "f2fs"] {
        let place = Place::new(fs);
        place.mount("rw");
        let kib = || fs::metadata(place.image()).expect("there").blocks() / 2;
        let file = place.dir().join("f");
        fs::write(&file, pattern(40 << 20, 3)).expect("room");
        File::open(&file).expect("there").sync_all().expect("room");
        let full = kib();
        assert!(full > 40 << 10);
        fs::remove_file(&file).expect("there");
        // The kernel says some time later that it has forgotten the file.
        for attempt in 0..100 {
            let words = must("fstrim", &["-v", &place.at()]);
            assert!(words.contains("trimmed"), "{words}");
            if kib() + (39 << 10) < full {
                break;
            }
            assert!(attempt < 99, "{fs}: {} of {full} KiB", kib());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        place.umount();
        must(VARVE, &["fsck", "-n", &place.image()]);
    }
}

/// The host has no room for what the image promises: each open file is told once, and what was
/// durable stays.
#[test]
fn a_write_that_fails_below_is_told_once_to_each_open_file() {
    for scheme in ["jbd2", "emmc"] {
        let place = Place::new("ext4");
        let host = place.folder.path().join("host");
        fs::create_dir(&host).expect("room");
        let small = host.to_string_lossy().to_string();
        must("mount", &["-t", "tmpfs", "-o", "size=24m", "none", &small]);
        // Sparse as it is, the image fits.
        must("cp", &["--sparse=always", &place.image(), &small]);
        let image = host.join("image");
        must(
            VARVE,
            &[
                "mount",
                &image.to_string_lossy(),
                &place.at(),
                "-o",
                &format!("scheme={scheme}"),
            ],
        );
        let dir = place.dir();
        let kept = File::create(dir.join("kept")).expect("room");
        kept.write_all_at(&pattern(100_000, 9), 0).expect("room");
        kept.sync_all().expect("room");
        let open = || {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.join("f"))
        };
        let (a, b) = (open().expect("room"), open().expect("room"));
        let other = File::create(dir.join("other")).expect("room");
        a.write_all_at(&pattern(60 << 20, 9), 0)
            .expect("the volume has room");
        let code = |file: &File| file.sync_all().err().and_then(|e| e.raw_os_error());
        let told = [code(&a), code(&b)];
        assert_eq!(told, [Some(libc_eio()); 2], "{scheme}");
        // The log may have had no room either; then everybody is told, again and again.
        let rest = [code(&a), code(&b), code(&other)];
        assert!(
            rest == [None; 3] || rest == [Some(libc_eio()); 3],
            "{scheme}: {rest:?}"
        );
        drop((a, b, other, kept));
        let _ = run(VARVE, &["umount", &place.at()]);
        fs::remove_file(place.image()).expect("there");
        must(
            "cp",
            &["--sparse=always", &image.to_string_lossy(), &place.image()],
        );
        unmount("umount", &small);
        place.mount("rw");
        let read = fs::read(dir.join("kept")).expect("there");
        assert!(read == pattern(100_000, 9), "{scheme}");
        place.umount();
        place.check();
    }
}

fn libc_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}

/// As mount(8) and umount(8) call it, with links in a `/usr/sbin` of this test alone; without
/// overlays there is none.
#[test]
fn mount_finds_its_helper() {
    const SCRIPT: &str = r#"
        mkdir -p "$1/up" "$1/work" && mount -t tmpfs none "$1/up" && mkdir "$1/up/up" "$1/up/work" || exit 9
        mount -t overlay none -o lowerdir=/usr/sbin,upperdir="$1/up/up",workdir="$1/up/work" /usr/sbin || exit 77
        ln -sf "$2" /usr/sbin/mount.fuse.varve; ln -sf "$2" /usr/sbin/umount.fuse.varve
        mount -t fuse.varve "$1/image" "$1/mnt" -o rw,noatime,scheme=emmc,x-test || exit 1
        grep -q " $1/mnt fuse.varve rw,noatime" /proc/mounts || exit 2
        echo content > "$1/mnt/f" || exit 3
        umount "$1/mnt" || exit 4
        e2fsck -fn "$1/image" || exit 5
        echo "$1/image $1/mnt fuse.varve ro,noauto 0 0" > "$1/fstab"
        mount -T "$1/fstab" "$1/mnt" || exit 6
        test "$(cat "$1/mnt/f")" = content || exit 7
        umount "$1/mnt"
    "#;
    let place = Place::new("ext4");
    let folder = place.folder.path().to_string_lossy().to_string();
    let (code, text) = run("unshare", &["-m", "sh", "-c", SCRIPT, "sh", &folder, VARVE]);
    assert!(code == 0 || code == 77, "{code}: {text}");
}

/// A volume whose journal lies on another device: read after a replay in memory, recovered by
/// `varve recover`.
#[test]
fn an_external_journal() {
    let place = Place::foreign(&["-b", "4096", "-O", "^has_journal"]);
    let log = place.folder.path().join("log");
    let file = File::create(&log).expect("room");
    file.set_len(16 << 20).expect("room");
    let log = log.to_string_lossy().to_string();
    must(
        "mke2fs",
        &["-q", "-F", "-O", "journal_dev", "-b", "4096", &log],
    );
    let device = Loop::new(&log);
    must(
        "tune2fs",
        &["-J", &format!("device={}", device.0), &place.image()],
    );
    let volume = Loop::new(&place.image());
    must("mount", &[&volume.0, &place.at()]);
    for i in 0..50 {
        let mut file = File::create(place.dir().join(format!("f{i}"))).expect("room");
        file.write_all(&[i; 5000]).expect("room");
        file.sync_all().expect("room");
    }
    // The kernel's log as a cut leaves it.
    let copies = Place::foreign(&[]);
    let copy = |from: &str, to: &str| must("cp", &["--sparse=always", from, to]);
    let of_log = at(copies.folder.path(), "log");
    copy(&place.image(), &copies.image());
    copy(&log, &of_log);
    unmount("umount", &place.at());
    drop((volume, device));

    let (code, words) = run(VARVE, &["mount", &copies.image(), &copies.at(), "-o", "ro"]);
    assert!(code == 1 && words.contains("journal="), "{words}");
    let refused = |image: &str, options: String, expected: &str| {
        let words = ["mount", image, &copies.at(), "-o", &options];
        let (code, words) = run(VARVE, &words);
        assert!(code == 1 && words.contains(expected), "{words}");
    };
    let emmc = format!("scheme=emmc,journal={of_log}");
    // Read-only all schemes are the same; to write, this one is refused before or after recovery,
    // by name.
    let image = copies.image();
    let untouched = (fs::read(&image), fs::read(&of_log));
    refused(&image, format!("journal={image}"), "in use");
    let same = (fs::read(&image), fs::read(&of_log));
    assert!(same.0.ok() == untouched.0.ok() && same.1.ok() == untouched.1.ok());
    let before = fs::read(copies.image()).expect("there");
    copies.mount(&format!("ro,journal={of_log}"));
    for i in 0..50 {
        let read = fs::read(copies.dir().join(format!("f{i}"))).expect("synced");
        assert!(read == [i; 5000], "f{i}");
    }
    copies.umount();
    assert!(
        fs::read(copies.image()).expect("there") == before,
        "nothing is written"
    );
    must(VARVE, &["recover", &image, "--journal", &of_log]);
    refused(&image, emmc, "record=coalition");

    // To write, alone on both.
    copies.mount(&format!("journal={of_log}"));
    let twin = at(copies.folder.path(), "twin");
    copy(&image, &twin);
    let other = Place::foreign(&[]);
    let words = [
        "mount",
        &twin,
        &other.at(),
        "-o",
        &format!("journal={of_log}"),
    ];
    let (code, words) = run(VARVE, &words);
    assert!(code == 1 && words.contains("which has it open"), "{words}");
    let mut file = File::create(copies.dir().join("ours")).expect("room");
    file.write_all(&pattern(70_000, 3)).expect("room");
    file.sync_all().expect("durable");
    // As a cut of the process leaves it; the kernel replays what we have logged.
    let (left, left_log) = (
        at(other.folder.path(), "image"),
        at(other.folder.path(), "log"),
    );
    copy(&image, &left);
    copy(&of_log, &left_log);
    drop(file);
    copies.umount();
    let listing = must(VARVE, &["dump", "journal", &left, "--journal", &left_log]);
    assert!(listing.contains("begins at block"), "{listing}");
    let (code, words) = run(VARVE, &["fsck", &left, "--journal", &left_log]);
    assert!(code == 0 && words.contains("in memory only"), "{words}");
    {
        let (volume, device) = (Loop::new(&left), Loop::new(&left_log));
        let with = format!("journal_path={}", device.0);
        must(
            "mount",
            &["-t", "ext4", "-o", &with, &volume.0, &other.at()],
        );
        let read = fs::read(other.dir().join("ours")).expect("synced");
        assert!(read == pattern(70_000, 3));
        must("umount", &[&other.at()]);
    }
    must("e2fsck", &["-fn", "-j", &left_log, &left]);

    // Unmounted: clean for everybody.
    must("e2fsck", &["-fn", "-j", &of_log, &image]);
    let info = must(VARVE, &["info", &image, "--journal", &of_log]);
    assert!(
        info.contains("external journal") && info.contains("true"),
        "{info}"
    );
    let words = must(VARVE, &["fsck", &image, "--journal", &of_log]);
    assert!(words.contains("clean"), "{words}");
    let (code, words) = run(VARVE, &["fsck", &image]);
    assert!(code == 8 && words.contains("--journal"), "{words}");
    assert!(must(VARVE, &["ls", &image]).contains("ours"));
    refused(&image, "rw".into(), "journal=");
    copies.mount("ro");
    assert_eq!(
        fs::read(copies.dir().join("f49")).expect("synced"),
        [49; 5000]
    );
    copies.umount();
}
