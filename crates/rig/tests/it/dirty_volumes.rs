//! Which tools can use a volume that Varve left dirty: each line of the tables in
//! docs/use/dirty-volumes.md is compared with the result of running the tool here. Needs root and
//! loop devices; tools that are missing are named, and their lines are left out of the comparison.
// What was found is printed, for the page: no task runs here that could wait.
#![allow(clippy::disallowed_macros)]

use base::{BLOCK_BYTES, Lba};
use block::Queue;
use blockdev::{BlockDevice, Caps, HostFile, HostOptions, Ram, RemapCaps, Request, SpecDisk};
use rt::WallTime;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;
use varve_rig::{AnyFs, MountOptions, Volume};
use vfs::{OpenFlags, Vfs};

const BYTES: u64 = 64 << 20;
const PAGE: &str = include_str!("../../../../docs/use/dirty-volumes.md");
const TIME: WallTime = WallTime {
    secs: 1_704_067_200,
    nanos: 0,
};

/// Record formats: name on the page, kind, mount options.
const FORMATS: [(&str, bool, &str); 6] = [
    ("stock", true, "scheme=jbd2"),
    ("coalition", true, "scheme=coalition"),
    ("remap", true, "scheme=jftl"),
    ("remap-move", true, "scheme=jftl-paper"),
    ("checkpoint", false, "scheme=checkpoint-60"),
    ("f2fsj", false, "scheme=f2fsj"),
];

/// A device that can do all that a scheme may ask for.
fn device() -> Arc<SpecDisk> {
    let caps = Caps {
        remap: Some(RemapCaps {
            granule: BLOCK_BYTES as u32,
            pairs_max: 1 << 14,
        }),
        ..Ram::new(BYTES).caps()
    };
    SpecDisk::new(caps, 1)
}

/// Leaves a dirty volume in `path`: what lies in /kept was synced, and its names are in the log
/// only.
fn leave_dirty(path: &Path, ext: bool, options: &str) {
    let disk = device();
    let queue = Queue::new(disk.clone());
    if ext {
        let options = ext4::mkfs::MkfsOptions::new(BYTES, [1; 16], [2; 16], TIME);
        let plan = ext4::mkfs::plan(&options).unwrap();
        plan.write(&queue, ext4::mkfs::DeviceContent::Zeros)
            .unwrap();
    } else {
        let mut of_mkfs = f2fs::mkfs::Options::new(BYTES, [3; 16], TIME);
        if options.contains("f2fsj") {
            of_mkfs.journal = Some(f2fs::mkfs::JournalSize::Ring(64));
        }
        let plan = f2fs::mkfs::plan(&of_mkfs).unwrap();
        plan.write(&queue, f2fs::mkfs::DeviceContent::Zeros)
            .unwrap();
    }
    let options = match ext {
        true => MountOptions::Ext4(ext4::MountOptions::parse(options).unwrap()),
        false => MountOptions::F2fs(f2fs::MountOptions::parse(options).unwrap()),
    };
    let options = options.all_behind_the_checkpoint();
    let fs = AnyFs::mount(Queue::new(disk.clone()), options).unwrap();
    let vfs = Vfs::new(fs.seam());
    vfs.mkdir("/before", 0o755).unwrap();
    vfs.sync().unwrap();
    let names = ["/kept".to_string()]
        .into_iter()
        .chain((0..20).map(|n| format!("/kept{n}")));
    for name in names {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let file = vfs.open(name, flags, 0o644).unwrap();
        file.write_at(0, &[7; 8192]).unwrap();
        file.fsync().unwrap();
        file.close().unwrap();
    }
    let image = fs::File::create(path).unwrap();
    image.set_len(BYTES).unwrap();
    let chunk = 1 << 20;
    for at in (0..BYTES).step_by(chunk) {
        let read = Request::read(Lba(at / 512), chunk as u64 / 512);
        let bytes = disk.wait(disk.submit(read)).unwrap().into_bytes();
        if !base::bytes::is_zero(&bytes) {
            image.write_all_at(&bytes, at).unwrap();
        }
    }
    // Only now: the image is of the moment before.
    vfs.unmount().unwrap();
}

fn run(line: &str) -> Option<Output> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next()?);
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    command.env("PATH", path).env("LC_ALL", "C");
    command.stdin(std::process::Stdio::null());
    command
        .args(words.map(|w| w.replace('_', " ")))
        .output()
        .ok()
}

/// The same for a program that stays: without pipes, whose end it would notice.
fn start(line: &str) -> Option<bool> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next()?);
    let (out, err) = (std::process::Stdio::null(), std::process::Stdio::null());
    let started = command.args(words).stdout(out).stderr(err).status();
    Some(started.ok()?.success())
}

fn ok(line: &str) -> bool {
    run(line).is_some_and(|out| out.status.success())
}

fn all_there(bytes: &[u8]) -> bool {
    bytes.len() == 8192 && bytes.iter().all(|&b| b == 7)
}

/// What the kernel shows with these options; `None`: it refuses.
fn mounted(image: &Path, options: &str) -> Option<&'static str> {
    let point = TempDir::new().unwrap();
    let at = point.path().display();
    if !ok(&format!("mount -o loop,{options} {} {at}", image.display())) {
        return None;
    }
    let found = fs::read(point.path().join("kept"));
    assert!(ok(&format!("umount {at}")));
    Some(match found {
        Ok(bytes) if all_there(&bytes) => "shows all that was synced",
        _ => "shows an older state",
    })
}

/// What Varve finds in the image.
fn by_varve(image: &Path) -> &'static str {
    let Ok(host) = HostFile::open(image, &HostOptions::read()) else {
        return "in use";
    };
    let Ok(volume) = Volume::look(&host) else {
        return "Varve refuses it";
    };
    let open = volume.vfs.open("/kept", OpenFlags::READ, 0);
    let mut bytes = vec![0; 9000];
    let there = open.is_ok_and(|file| {
        let n = file.read_at(0, &mut bytes).unwrap_or(0);
        let _ = file.close();
        all_there(&bytes[..n])
    });
    let _ = volume.close();
    match there {
        true => "all that was synced is there",
        false => "what was synced is lost",
    }
}

/// What became of the image.
fn after(image: &Path, before: &[u8], ext: bool) -> String {
    if fs::read(image).unwrap() == before {
        return "nothing changed".into();
    }
    let judge = match ext {
        true => run(&format!("e2fsck -fn {}", image.display())),
        false => run(&format!("fsck.f2fs --dry-run {}", image.display())),
    };
    let code = judge.and_then(|out| out.status.code()).unwrap_or(-1);
    let clean = if code == 0 { "clean" } else { "NOT clean" };
    format!("changed: {clean}, {}", by_varve(image))
}

/// One tool on a copy of the image: its verdict. `None`: it is not installed.
fn verdict(dir: &Path, original: &Path, tool: &str, ext: bool) -> Option<String> {
    let copy = dir.join("copy");
    fs::copy(original, &copy).unwrap();
    let before = fs::read(&copy).unwrap();
    if let Some(options) = tool.strip_prefix("mount -o ") {
        let seen = mounted(&copy, options).unwrap_or("refuses");
        return Some(format!("{seen}; {}", after(&copy, &before, ext)));
    }
    if tool.starts_with("fuse2fs") {
        let point = dir.join("point");
        let _ = fs::create_dir(&point);
        let line = format!("{tool} {} {}", copy.display(), point.display());
        let started = start(&line)?;
        let seen = match fs::read(point.join("kept")) {
            _ if !started => "refuses",
            Ok(bytes) if all_there(&bytes) => "shows all that was synced",
            Err(e) if e.kind() == ErrorKind::NotConnected => "crashes",
            _ => "shows an older state",
        };
        if started {
            ok(&format!("umount {}", point.display()));
            settle(&copy);
        }
        return Some(format!("{seen}; {}", after(&copy, &before, ext)));
    }
    let line = tool.replace("IMG", &copy.display().to_string());
    let out = run(&line)?;
    let code = out.status.code().unwrap_or(-1);
    let shows = String::from_utf8_lossy(&out.stdout).contains("Inode:");
    let shows = match (tool.contains("stat_/kept"), shows) {
        (true, true) => "shows all that was synced; ",
        (true, false) => "shows an older state; ",
        (false, _) => "",
    };
    Some(format!(
        "{shows}exit {code}; {}",
        after(&copy, &before, ext)
    ))
}

/// A FUSE program writes its last after umount has returned: waits until the image stays as it is.
fn settle(image: &Path) {
    let mut last = Vec::new();
    for _ in 0..20 {
        rt::sleep(base::Nanos::from_millis(300));
        let now = fs::read(image).unwrap();
        if now == last {
            return;
        }
        last = now;
    }
}

const EXT_TOOLS: [&str; 12] = [
    "mount -o rw",
    "mount -o ro",
    "mount -o ro,noload",
    "e2fsck -fn IMG",
    "e2fsck -p IMG",
    "e2fsck -fy IMG",
    "debugfs -R stat_/kept IMG",
    "debugfs -w -R mkdir_/made IMG",
    "fuse2fs -o ro",
    "fuse2fs -o rw",
    "resize2fs IMG 100M",
    "tune2fs -L label IMG",
];

const F2FS_TOOLS: [&str; 4] = [
    "fsck.f2fs --dry-run IMG",
    "fsck.f2fs -a IMG",
    "fsck.f2fs -f IMG",
    "dump.f2fs -d 1 IMG",
];

#[test]
fn the_page_says_what_the_tools_do() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let can_mount = {
        let plain: PathBuf = dir.path().join("plain");
        fs::File::create(&plain).unwrap().set_len(BYTES).unwrap();
        ok(&format!("mke2fs -q -F {}", plain.display())) && mounted(&plain, "ro").is_some()
    };
    if !can_mount {
        return eprintln!("skipped: this needs root, a loop device and e2fsprogs");
    }
    let mut wrong = Vec::new();
    for (name, ext, options) in FORMATS {
        let image = dir.path().join("image");
        leave_dirty(&image, ext, options);
        assert_eq!(by_varve(&image), "all that was synced is there", "{name}");
        let tools: &[&str] = if ext { &EXT_TOOLS } else { &F2FS_TOOLS };
        for tool in tools {
            let Some(verdict) = verdict(dir.path(), &image, tool, ext) else {
                eprintln!("skipped: {tool} is not installed");
                continue;
            };
            let shown = tool.replace('_', " ");
            let line = format!("| {name} | `{shown}` | {verdict} |");
            if !PAGE.lines().any(|l| l == line) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "not on the page:\n{}", wrong.join("\n"));
}
