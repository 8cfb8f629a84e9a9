//! Block devices of the host: loop devices, and mounts of them. Needs root.
//!
//! The tests are a program of their own because they start programs: until such a one runs, it
//! holds copies of the files of this process, so other tests would find their devices locked.

use base::Lba;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use varve_blockdev::{BlockDevice, Class, HostError, HostFile, HostIo, HostOptions, Request};

const MIB: u64 = 1 << 20;

fn run(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    let said = String::from_utf8_lossy(&out.stdout).trim().to_string();
    out.status.success().then_some(said)
}

/// A loop device on an image, removed at the end.
struct Loop {
    device: String,
    image: PathBuf,
    _dir: TempDir,
}

impl Loop {
    /// `None`: no loop device can be made here.
    fn new(args: &[&str]) -> Option<Loop> {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(16 * MIB).unwrap();
        let path = image.to_str().unwrap().to_string();
        let device = run("losetup", &[args, &["--find", "--show", &path]].concat())?;
        Some(Loop {
            device,
            image,
            _dir: dir,
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.device]);
    }
}

fn refused(path: impl AsRef<Path>, options: HostOptions) -> String {
    let why = HostFile::open(path, &options).err().expect("refused");
    assert!(matches!(why, HostError::InUse { .. }), "{why}");
    why.to_string()
}

#[test]
fn a_device_keeps_the_contract_in_every_way() {
    for direct in [false, true] {
        for io in [HostIo::Sync, HostIo::Auto] {
            let Some(on) = Loop::new(&[]) else { return };
            let options = HostOptions {
                direct,
                io,
                ..HostOptions::write()
            };
            let device = HostFile::open(&on.device, &options).unwrap();
            assert_eq!(device.is_direct(), direct);
            assert_eq!(device.caps().sectors, 16 * MIB / 512);
            testkit::device::run(&device);
            assert!(device.caps().discard, "loop devices punch holes");
            let write = Request::write(Lba(4096), Class::Data, vec![1; 1 << 20].into());
            device.wait(device.submit(write)).unwrap();
            device
                .wait(device.submit(Request::discard(Lba(4096), 2048)))
                .unwrap();
            let read = device.wait(device.submit(Request::read(Lba(4096), 2048)));
            assert!(base::bytes::is_zero(&read.unwrap().into_bytes()));
        }
    }
}

/// Sectors of 4 KiB are found by direct I/O; part sectors are refused as misuse.
#[test]
fn a_device_of_large_sectors_says_so() {
    let Some(on) = Loop::new(&["--sector-size", "4096"]) else {
        return;
    };
    let options = HostOptions {
        direct: true,
        ..HostOptions::write()
    };
    let device = HostFile::open(&on.device, &options).unwrap();
    assert_eq!(device.caps().sector_bytes, 4096);
    testkit::device::run(&device);
    let odd = HostOptions {
        offset: 512,
        ..options
    };
    drop(device);
    let device = HostFile::open(&on.device, &odd).unwrap();
    assert!(!device.is_direct(), "the window does not suit direct I/O");
}

#[test]
fn what_the_kernel_may_write_is_refused_by_name() {
    let Some(on) = Loop::new(&[]) else { return };
    for options in [HostOptions::write(), HostOptions::read()] {
        let why = refused(&on.image, options);
        assert!(why.contains(&on.device) && why.contains("detach"), "{why}");
    }
    // There is one writer, by whichever of the two names.
    let device = HostFile::open(&on.device, &HostOptions::write()).unwrap();
    assert!(refused(&on.device, HostOptions::write()).contains("claimed"));
    assert!(refused(&on.device, HostOptions::read()).contains("process"));
    drop(device);
    assert!(run("mke2fs", &["-q", "-F", &on.device]).is_some());
    let point = TempDir::new().unwrap();
    let at = point.path().to_str().unwrap();
    assert!(run("mount", &[&on.device, at]).is_some());
    let why = [HostOptions::write(), HostOptions::read()].map(|o| refused(&on.device, o));
    assert!(run("umount", &[at]).is_some());
    for why in why {
        assert!(why.contains(at) && why.contains("unmount"), "{why}");
    }
    // A mount that only reads does not write, so a reader is let in.
    assert!(run("mount", &["-o", "ro", &on.device, at]).is_some());
    let (read, write) = (
        HostFile::open(&on.device, &HostOptions::read()).map(drop),
        refused(&on.device, HostOptions::write()),
    );
    assert!(run("umount", &[at]).is_some());
    read.unwrap();
    assert!(write.contains(at), "{write}");
    HostFile::open(&on.device, &HostOptions::write()).unwrap();
}

#[test]
fn a_reader_passes_a_loop_device_that_only_reads() {
    let Some(on) = Loop::new(&["--read-only"]) else {
        return;
    };
    HostFile::open(&on.image, &HostOptions::read()).unwrap();
    assert!(refused(&on.image, HostOptions::write()).contains(&on.device));
}
