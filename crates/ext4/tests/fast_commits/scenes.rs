//! Histories in which the kernel changes a volume before its power goes: each change is followed by
//! an fsync, which is a fast commit where the change allows one.

use crate::common::mounted::Mounted;
use crate::common::{Image, pattern};
use crate::replay::{Volume, live, load};
use base::Rng;
use rustix::fs::FallocateFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 24;
/// Files and directories that random histories work on.
const FILES: u64 = 8;
const DIRS: u64 = 3;
/// Random changes of a history.
const CHANGES: u64 = 24;
/// Ends the mount at once, without a commit: `EXT4_IOC_SHUTDOWN` with
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const SHUT_DOWN: &str = r#"
    open(my $root, "<", $ARGV[0]) or die "open: $!";
    my $flags = pack("L", 2);
    ioctl($root, 0x8004587d, $flags) or die "ioctl: $!";
"#;

/// A history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    Create,
    Append,
    Overwrite,
    Rename,
    RenameOver,
    Link,
    Unlink,
    Truncate,
    Grow,
    Allocate,
    Punch,
    Zero,
    Directories,
    Symlinks,
    Nodes,
    Small,
    Numbers,
    Attributes,
    /// All kinds of changes one after another, first those that need a full commit.
    All,
    /// Random changes with this seed.
    Random(u64),
}

impl Scene {
    const ONE: [Scene; 18] = [
        Scene::Attributes,
        Scene::Zero,
        Scene::Symlinks,
        Scene::Nodes,
        Scene::Create,
        Scene::Append,
        Scene::Overwrite,
        Scene::Rename,
        Scene::RenameOver,
        Scene::Link,
        Scene::Unlink,
        Scene::Truncate,
        Scene::Grow,
        Scene::Allocate,
        Scene::Punch,
        Scene::Directories,
        Scene::Small,
        Scene::Numbers,
    ];

    /// Each kind of change alone, and all of them.
    pub fn each() -> impl Iterator<Item = Scene> {
        Scene::ONE.into_iter().chain([Scene::All])
    }

    fn run(self, root: &Path) -> io::Result<()> {
        let at = |name: &str| root.join(name);
        match self {
            Scene::Create => {
                for n in 0..3u64 {
                    put(&at(&format!("d0/fresh{n}")), &pattern(n, 5000 * n as usize))?;
                }
                Ok(())
            }
            Scene::Append => {
                let file = write(&at("d0/f1"))?;
                for n in 0..3 {
                    file.write_all_at(&pattern(n, 9000), 5000 + n * 9000)?;
                    file.sync_all()?;
                }
                Ok(())
            }
            Scene::Overwrite => {
                let file = write(&at("large"))?;
                file.write_all_at(&pattern(9, 30_000), 70_000)?;
                file.sync_all()
            }
            Scene::Rename => {
                fs::rename(at("d0/f2"), at("d0/renamed"))?;
                sync(&at("d0/renamed"))?;
                fs::rename(at("d0/renamed"), at("d1/moved"))?;
                sync(&at("d1/moved"))
            }
            Scene::RenameOver => {
                fs::rename(at("d0/f3"), at("d1/f3"))?;
                sync(&at("d1/f3"))
            }
            Scene::Link => {
                fs::hard_link(at("d1/f4"), at("d0/linked"))?;
                fs::hard_link(at("d1/f4"), at("linked"))?;
                sync(&at("linked"))
            }
            Scene::Unlink => {
                fs::remove_file(at("d1/f5"))?;
                fs::remove_file(at("sparse"))?;
                sync(&at("d1/f6"))?;
                put(&at("d1/f5"), b"another one")
            }
            Scene::Truncate => {
                let file = write(&at("large"))?;
                file.set_len(100_001)?;
                file.sync_all()?;
                file.set_len(0)?;
                file.write_all_at(&pattern(5, 10_000), 0)?;
                file.sync_all()
            }
            Scene::Grow => {
                let file = write(&at("d1/f6"))?;
                file.set_len(1 << 20)?;
                file.write_all_at(b"far", 900_000)?;
                file.sync_all()
            }
            Scene::Allocate => {
                let file = write(&at("d1/f7"))?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 40_960, 200_000)?;
                file.sync_all()?;
                rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 400_000, 50_000)?;
                file.write_all_at(&pattern(6, 20_000), 65_536)?;
                file.sync_all()
            }
            Scene::Punch => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let file = write(&at("holes"))?;
                for n in 0..5 {
                    rustix::fs::fallocate(&file, flags, n * 24_576 + 8192, 8192)?;
                }
                file.sync_all()
            }
            Scene::Zero => {
                let file = write(&at("zeros"))?;
                rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 10_000, 40_000)?;
                file.sync_all()
            }
            Scene::Directories => {
                fs::create_dir(at("d2/new"))?;
                put(&at("d2/new/inside"), &pattern(7, 9000))?;
                fs::remove_dir(at("d2/empty"))?;
                sync(&at("d2"))
            }
            Scene::Symlinks => {
                symlink("d0/f1", at("short"))?;
                symlink("x".repeat(200), at("long"))?;
                fs::remove_file(at("old link"))?;
                sync(root)
            }
            Scene::Nodes => {
                let mode = rustix::fs::Mode::from_raw_mode(0o640);
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), kind, mode, 0)?;
                let kind = rustix::fs::FileType::BlockDevice;
                rustix::fs::mknodat(rustix::fs::CWD, at("disk"), kind, mode, 0x0812)?;
                sync(root)
            }
            Scene::Small => {
                put(&at("tiny"), b"lies in its inode where it may")?;
                let file = write(&at("d0/f0"))?;
                file.write_all_at(&[9; 40], 10)?;
                file.sync_all()?;
                file.write_all_at(&[8; 3000], 30)?;
                file.sync_all()
            }
            Scene::Numbers => {
                let path = at("d1/f1");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o4751))?;
                std::os::unix::fs::chown(&path, Some(70_000), Some(80_000))?;
                sync(&path)
            }
            Scene::Attributes => {
                let file = write(&at("d1/f1"))?;
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::fsetxattr(&file, "user.small", b"tiny", flags)?;
                rustix::fs::fsetxattr(&file, "user.large", &[b'v'; 800], flags)?;
                file.sync_all()?;
                file.write_all_at(b"behind attributes", 3)?;
                file.sync_all()
            }
            Scene::All => Scene::ONE.iter().try_for_each(|scene| scene.run(root)),
            Scene::Random(seed) => {
                let mut rng = Rng::named(seed, "scene");
                for n in 0..CHANGES {
                    // A change of a missing file may fail.
                    let _ = change(root, n, &mut rng);
                }
                sync_files(root)
            }
        }
    }
}

fn write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    sync(path)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs the content of all files.
fn sync_files(root: &Path) -> io::Result<()> {
    for d in 0..DIRS {
        for entry in fs::read_dir(root.join(format!("d{d}")))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                sync(&entry.path())?;
            }
        }
    }
    Ok(())
}

fn some(root: &Path, rng: &mut Rng) -> PathBuf {
    root.join(format!("d{}/f{}", rng.below(DIRS), rng.below(FILES)))
}

/// One random change, and mostly an fsync of what it was made to.
fn change(root: &Path, n: u64, rng: &mut Rng) -> io::Result<()> {
    let (path, other) = (some(root, rng), some(root, rng));
    match rng.below(24) {
        0..=4 => fs::write(&path, pattern(n, rng.below(12_000) as usize))?,
        5..=7 => write(&path)?.write_all_at(&pattern(n, 6000), rng.below(60_000))?,
        8 | 9 => fs::rename(&path, &other)?,
        10 => fs::hard_link(&path, &other)?,
        11..=13 => fs::remove_file(&path)?,
        14 | 15 => write(&path)?.set_len(rng.below(40_000))?,
        16 => rustix::fs::fallocate(
            write(&path)?,
            FallocateFlags::empty(),
            rng.below(50_000),
            1 + rng.below(60_000),
        )?,
        17 | 18 => rustix::fs::fallocate(
            write(&path)?,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            rng.below(30_000),
            1 + rng.below(20_000),
        )?,
        19 => fs::create_dir(&path)?,
        20 => fs::remove_dir(&path)?,
        21 => symlink("y".repeat(1 + rng.below(120) as usize), &path)?,
        22 => fs::write(&path, [n as u8; 50])?,
        _ => fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + n as u32 % 64))?,
    }
    match rng.below(5) {
        0 => Ok(()),
        1 => sync(root),
        _ => sync(&other).or_else(|_| sync(&path)),
    }
}

/// Makes the files that exist, durable by a full commit, before a scene begins.
fn fill(root: &Path) -> io::Result<()> {
    for d in 0..DIRS {
        let dir = root.join(format!("d{d}"));
        fs::create_dir(&dir)?;
        for n in 0..FILES {
            let content = pattern(n, (n * n * 300) as usize + 50);
            fs::write(dir.join(format!("f{n}")), content)?;
        }
    }
    fs::create_dir(root.join("d2/empty"))?;
    fs::write(root.join("large"), pattern(77, 1 << 20))?;
    for name in ["holes", "zeros"] {
        fs::write(root.join(name), pattern(78, 200_000))?;
    }
    let sparse = File::create(root.join("sparse"))?;
    for n in 0..20u64 {
        sparse.write_all_at(&n.to_le_bytes(), n * 20_000)?;
    }
    symlink("d1/f1", root.join("old link"))?;
    rustix::fs::syncfs(File::open(root)?)?;
    Ok(())
}

/// The image after a scene and the end of its power; `None`, with a message, where it cannot be
/// made.
pub fn left_by_kernel(options: &[&str], scene: &Scene) -> Option<Volume> {
    let mut all = vec!["-J", "size=4", "-N", "256"];
    all.extend(options);
    let image = Image::new(MIB, &all);
    let mounted = Mounted::new(&image)?;
    fill(&mounted.point).expect("filled");
    scene.run(&mounted.point).expect("a scene");
    let seen = live(&mounted.point).expect("a walk");
    let out = Command::new("perl")
        .args(["-e", SHUT_DOWN])
        .arg(&mounted.point)
        .output();
    match out {
        Ok(out) => assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(e) => {
            eprintln!("skipped: no perl: {e}");
            return None;
        }
    }
    mounted.unmount();
    Some(load(&image, seen))
}
