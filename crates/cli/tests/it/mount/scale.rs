//! Large volumes: a terabyte, a million files. Memory is measured as the peak of resident memory
//! (`VmHWM`).

use super::place::{Place, VARVE, must, run, unmount};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What issue and documentation promise, MiB.
const PEAK_MIB: u64 = 512;

/// Resident memory at most so far, MiB; `None` when the process has ended.
fn peak_of(pid: u32) -> Option<u64> {
    memory_of(pid, "VmHWM:")
}

/// What the kernel says of a process in a line of proc_pid_status(5), MiB.
fn memory_of(pid: u32, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(what))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib >> 10)
}

/// Runs `varve` to its end: the lines that it printed, and its memory, MiB.
fn measured(args: &[&str], lines_to: &Path) -> (i32, u64) {
    let out = File::create(lines_to).expect("a file");
    let mut child = Command::new(VARVE)
        .args(args)
        .stdout(out)
        .spawn()
        .expect("varve");
    let mut peak = 0;
    loop {
        peak = peak_of(child.id()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().expect("waits") {
            return (status.code().unwrap_or(-1), peak);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lines(path: &Path) -> usize {
    let text = fs::read(path).expect("its output");
    text.iter().filter(|&&byte| byte == b'\n').count()
}

/// A mount in the foreground, to ask for its memory.
struct Serving(Child);

impl Serving {
    fn new(place: &Place, options: &str) -> Serving {
        let mut command = Command::new(VARVE);
        command.args(["mount", "-f", &place.image(), &place.at(), "-o", options]);
        let serving = Serving(command.stdin(Stdio::null()).spawn().expect("varve"));
        let mounted = || run("mountpoint", &["-q", &place.at()]).0 == 0;
        let up = (0..6000).any(|_| {
            let up = mounted();
            if !up {
                std::thread::sleep(Duration::from_millis(10));
            }
            up
        });
        assert!(up, "no mount after a minute");
        serving
    }

    /// Takes the mount away; the memory of its process, MiB.
    fn end(mut self, place: &Place) -> u64 {
        let peak = peak_of(self.0.id()).expect("it serves");
        place.umount();
        assert!(self.0.wait().expect("ends").success());
        peak
    }
}

fn bounded(what: &str, peak: u64) {
    eprintln!("{what}: {peak} MiB");
    assert!(peak < PEAK_MIB, "{what}: {peak} MiB resident");
}

/// A volume of 1 TiB on a sparse file is made, mounted, filled a little in distant groups, checked,
/// walked, and checked by `e2fsck`.
#[test]
fn a_terabyte() {
    let place = Place::new("ext4");
    let image = place.image();
    let out = place.folder.path().join("out");
    fs::remove_file(&image).expect("the small one");
    let (code, peak) = measured(&["mkfs", "--fs", "ext4", "--size", "1048576", &image], &out);
    assert_eq!(code, 0);
    bounded("mkfs of 1 TiB", peak);
    fill_a_terabyte(&place);
}

/// A cache that is full of pages read with direct I/O, and then of pages written, takes what
/// `cache=` says; beside it there are buffers of reads and spare chunks of pages (4 MiB each), what
/// finds the pages, and a buffer of 1 MiB for each of 16 threads that takes requests. How many
/// reads are under way at once depends on what else the machine does, so the least of some mounts
/// counts: what a mount keeps for good is in each of them.
#[test]
fn pages_of_direct_io_keep_the_limit_of_the_cache() {
    const CACHE_MIB: u64 = 48;
    let place = Place::new("ext4");
    let image = place.image();
    fs::remove_file(&image).expect("the small one");
    must(VARVE, &["mkfs", "--fs", "ext4", "--size", "320", &image]);
    let options = format!("direct,cache={CACHE_MIB}");
    let name = place.dir().join("file");
    place.mount(&options);
    fs::write(&name, vec![7; 128 << 20]).expect("room");
    place.umount();
    let measured = || {
        let serving = Serving::new(&place, &options);
        let memory = || memory_of(serving.0.id(), "RssAnon:").expect("it serves");
        let before = memory();
        assert_eq!(fs::read(&name).expect("there").len(), 128 << 20);
        let read = memory() - before;
        fs::write(place.dir().join("other"), vec![8; 128 << 20]).expect("room");
        let wrote = memory() - before;
        serving.end(&place);
        eprintln!("cache of {CACHE_MIB} MiB: {read} MiB after reading, {wrote} after writing");
        assert!(read >= CACHE_MIB, "the cache is not full: {read} MiB");
        (read, wrote)
    };
    let within = |(read, wrote)| read < CACHE_MIB + 20 && wrote < CACHE_MIB + 44;
    let mounts = 8;
    let found = (0..mounts).map(|_| measured()).any(within);
    assert!(found, "more than that in each of {mounts} mounts");
}

#[test]
#[ignore = "half a minute with much else going on"]
fn a_terabyte_of_mke2fs() {
    let place = Place::new("ext4");
    let image = place.image();
    let file = File::create(&image).expect("a file");
    file.set_len(1 << 40).expect("room for a hole");
    must("mke2fs", &["-q", "-F", "-t", "ext4", &image]);
    fill_a_terabyte(&place);
}

fn fill_a_terabyte(place: &Place) {
    let image = place.image();
    let out = place.folder.path().join("out");
    let serving = Serving::new(place, "scheme=emmc");
    for n in 0..20 {
        let dir = place.dir().join(format!("d{n}"));
        fs::create_dir(&dir).expect("mkdir");
        fs::write(dir.join("file"), vec![n as u8; 300_000]).expect("write");
    }
    let sparse = File::create(place.dir().join("sparse")).expect("create");
    let end = (1 << 43) - 1;
    sparse
        .write_all_at(b"end", end)
        .expect("8 TiB and a little");
    drop(sparse);
    let free = must("stat", &["-f", "-c", "%f", &place.at()]);
    assert!(free.trim().parse::<u64>().expect("blocks") > 200_000_000);
    bounded("mount of 1 TiB", serving.end(place));
    let (code, peak) = measured(&["fsck", "-n", &image], &out);
    assert_eq!(code, 0, "{}", fs::read_to_string(&out).expect("text"));
    bounded("fsck of 1 TiB", peak);
    let (code, peak) = measured(&["ls", "-R", &image], &out);
    // lost+found, directories with their files, the sparse one.
    assert_eq!((code, lines(&out)), (0, 42));
    bounded("ls -R of 1 TiB", peak);
    place.check();
    // Holes stay holes.
    let mib = fs::metadata(&image).expect("there").blocks() >> 11;
    assert!(mib < 2048, "{mib} MiB on the host");
}

const FILES: usize = 1_000_000;
/// Names of the large directory; the others have `SMALL`.
const LARGE: usize = 100_000;
const SMALL: usize = 1_000;

/// The kernel makes a million files.
fn fill(dir: &Path) {
    let make = |dir: &Path, count: usize| {
        fs::create_dir(dir).expect("mkdir");
        for n in 0..count {
            let mut file = File::create(dir.join(format!("file number {n}"))).expect("create");
            if n % 100 == 0 {
                file.write_all(b"content").expect("write");
            }
        }
    };
    make(&dir.join("large"), LARGE);
    for n in 0..(FILES - LARGE) / SMALL {
        make(&dir.join(format!("d{n}")), SMALL);
    }
}

/// Names that `find` meets below a directory, each looked at.
fn found(dir: &Path) -> usize {
    let walk = must(
        "sh",
        &[
            "-c",
            "find \"$1\" -printf '%s\\n' | wc -l",
            "sh",
            &dir.to_string_lossy(),
        ],
    );
    walk.trim().parse().expect("a count")
}

#[test]
#[ignore = "minutes, and 2 GiB of disk"]
fn a_million_files() {
    let place = Place::new("ext4");
    let image = place.image();
    let out = place.folder.path().join("out");
    let file = File::create(&image).expect("a file");
    file.set_len(16 << 30).expect("a hole");
    must(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", "-N", "1200000", &image],
    );
    must("mount", &["-o", "loop", &image, &place.at()]);
    fill(&place.dir());
    unmount("umount", &place.at());
    // The root, lost+found, the directories.
    let dirs = 2 + 1 + (FILES - LARGE) / SMALL;

    let (code, peak) = measured(&["fsck", "-n", &image], &out);
    assert_eq!(code, 0, "{}", fs::read_to_string(&out).expect("text"));
    bounded("fsck of a million files", peak);
    let (code, peak) = measured(&["ls", "-R", &image], &out);
    assert_eq!((code, lines(&out)), (0, FILES + dirs - 1));
    bounded("ls -R of a million files", peak);

    let serving = Serving::new(&place, "scheme=emmc,cache=32");
    assert_eq!(found(&place.dir()), FILES + dirs);
    bounded(
        "a walk over a million files",
        peak_of(serving.0.id()).expect("it serves"),
    );
    // The kernel knows all of them now; their numbers stay their own.
    let one = place.dir().join("large/file number 77");
    let ino = |path: &Path| fs::metadata(path).expect("there").ino();
    let before = ino(&one);
    let open = File::open(&one).expect("open");
    fs::remove_file(&one).expect("unlink");
    for n in 0..2000 {
        File::create(place.dir().join(format!("large/new {n}"))).expect("create");
    }
    assert_eq!(open.metadata().expect("still there").len(), 0);
    assert!((0..2000).all(|n| ino(&place.dir().join(format!("large/new {n}"))) != before));
    drop(open);
    // Far more than the cache holds.
    let large = place.dir().join("bytes");
    must(
        "dd",
        &[
            "if=/dev/zero",
            &format!("of={}", large.display()),
            "bs=1M",
            "count=1024",
            "status=none",
        ],
    );
    must(
        "sh",
        &["-c", &format!("cat {} >/dev/null", large.display())],
    );
    bounded("and a file of 1 GiB with cache=32", serving.end(&place));
    place.check();
}

/// A million files made through the mount: what it keeps of each until its end stays bounded, too.
#[test]
#[ignore = "minutes, and 2 GiB of disk"]
fn a_million_files_made_here() {
    let place = Place::new("ext4");
    let image = place.image();
    let file = File::create(&image).expect("a file");
    file.set_len(16 << 30).expect("a hole");
    must(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", "-N", "1200000", &image],
    );
    let serving = Serving::new(&place, "scheme=emmc,cache=32");
    fill(&place.dir());
    bounded("making a million files", serving.end(&place));
    place.check();
}
