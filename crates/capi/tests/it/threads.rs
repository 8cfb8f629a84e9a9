//! A host that starts too few threads for a mount. Needs root, to become a user who has no other
//! process: the limit counts the threads of a user.

use crate::programs::{compiled, text_of};
use facade::{Disk, Format, Kind, Volume};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A user whom no host has.
const USER: &str = "61233";
/// Threads of a mount and of the program, and more.
const ENOUGH: u32 = 20;

fn image(path: &Path, format: &Format) {
    let disk = Disk::create(path, 128 << 20).unwrap();
    disk.format(format).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    volume.write("/f", "hello").unwrap();
    volume.unmount().unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
}

/// Every number of threads, from the one of the program to that with which the mount succeeds: so
/// each task of the mount is once the first that has no thread.
#[test]
fn a_mount_without_a_thread_is_a_code_and_a_text() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = compiled(folder.path(), "tests/c/threads.c", &[]);
    let journal = Format::f2fs().journal_bytes(16 << 20);
    for (format, options, tasks) in [
        (
            Format::new(Kind::Ext4),
            "",
            &["jbd2", "writeback", "vfs-flusher"][..],
        ),
        (
            Format::new(Kind::Ext3),
            "scheme=emmc",
            &["jbd2", "vfs-flusher"],
        ),
        (
            Format::f2fs(),
            "",
            &["f2fs-checkpoint", "f2fs-nids", "f2fs-gc", "vfs-flusher"],
        ),
        (
            journal,
            "scheme=f2fsj",
            &["f2fs-commit", "f2fs-apply", "f2fs-nids"],
        ),
    ] {
        let image_path = folder.path().join("image");
        image(&image_path, &format);
        let mut said = String::new();
        let mounted = (1..ENOUGH).find(|threads| {
            let out = Command::new("setpriv")
                .args([
                    "--reuid",
                    USER,
                    "--regid",
                    USER,
                    "--clear-groups",
                    "prlimit",
                ])
                .arg(format!("--nproc={threads}"))
                .arg(&program)
                .args([image_path.as_os_str(), options.as_ref()])
                .output()
                .unwrap();
            let text = text_of(&out);
            match out.status.code() {
                Some(0) => return true,
                Some(3) => said += &text,
                _ => panic!("{threads} threads, `{options}`: {}\n{text}", out.status),
            }
            false
        });
        assert!(mounted.is_some(), "{said}");
        for task in tasks {
            assert!(said.contains(&format!("task {task} ")), "{task}: {said}");
        }
        let disk = Disk::open(&image_path).unwrap();
        assert!(disk.check().unwrap().is_clean());
        drop(disk);
        std::fs::remove_file(&image_path).unwrap();
    }
}
