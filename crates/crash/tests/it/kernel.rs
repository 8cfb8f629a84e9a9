//! Images go both ways between Varve and the running kernel.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::Result;
use crate::sh::sh;
use blockdev::spec::Bound;
use blockdev::{Clock, Image};
use rig::{Config, Mounted, Preset, Stack};
use rt::{Sim, SimConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use varve_crash::case::{Case, Setup, Volumes};
use varve_crash::cuts::{Tree, walk};
use varve_crash::traced::trace;
use varve_crash::{Disk, Remains};
use vfs::{OpenFlags, RenameMode};
use work::RunConfig;
use work::fsck::{Verdict, e2fsck_check};
use work::run::{DATABASE, run};

/// A kernel mount of an image through a loop device; taken down when dropped.
struct KernelMount {
    device: String,
    dir: PathBuf,
}

/// A loop device for the image, or the reason why there is none here.
fn attach(image: &Path) -> Result<String> {
    sh("losetup", &["-f", "--show", &image.to_string_lossy()])
}

impl KernelMount {
    fn new(device: String, dir: PathBuf, options: &str) -> Result<KernelMount> {
        let mount = KernelMount { device, dir };
        fs::create_dir_all(&mount.dir).map_err(|e| e.to_string())?;
        let to = mount.dir.to_string_lossy();
        sh("mount", &["-t", "ext4", "-o", options, &mount.device, &to])?;
        Ok(mount)
    }
}

impl Drop for KernelMount {
    /// A test beside this one that starts a program holds copies of our files for a moment, so
    /// "busy" may pass.
    fn drop(&mut self) {
        let gone = || match sh("umount", &[&self.dir.to_string_lossy()]) {
            Ok(_) => true,
            Err(why) => why.contains("not mounted"),
        };
        let mut tries = 1;
        while !gone() && tries < 100 {
            thread::sleep(Duration::from_millis(50));
            tries += 1;
        }
        let detached = sh("losetup", &["-d", &self.device]);
        assert!(
            thread::panicking() || (tries < 100 && detached.is_ok()),
            "{} stays mounted: {detached:?}",
            self.dir.display()
        );
    }
}

/// Mounts. Without a loop device it says why the test cannot run here; an image that the kernel
/// refuses is a failure.
fn kernel_mount(image: &Path, dir: PathBuf, options: &str) -> Option<KernelMount> {
    let device = attach(image)
        .map_err(|why| eprintln!("skipped: no loop device here: {why}"))
        .ok()?;
    Some(KernelMount::new(device, dir, options).expect("the kernel mounts the image"))
}

/// Lets the kernel recover an image. It looks at group descriptors before it replays its log, and
/// refuses an image in which a cut has torn one at home: then `e2fsck` recovers it, and the answer
/// is false. `None`: there is no loop device here.
fn kernel_recovers(image: &Path, dir: PathBuf) -> Option<bool> {
    let device = attach(image)
        .map_err(|why| eprintln!("skipped: no loop device here: {why}"))
        .ok()?;
    match KernelMount::new(device, dir, "noatime") {
        Ok(_mount) => Some(true),
        Err(why) => {
            assert!(why.contains("needs cleaning"), "{why}");
            let done = std::process::Command::new("e2fsck")
                .args(["-f", "-y"])
                .arg(image)
                .output();
            let done = done.expect("e2fsck is there");
            assert_eq!(done.status.code(), Some(1), "mended: {done:?}");
            Some(false)
        }
    }
}

fn clean(image: &Path) {
    match e2fsck_check(image).unwrap() {
        Verdict::Clean => {}
        Verdict::NotInstalled => eprintln!("skipped: e2fsck is not installed"),
        other => panic!("e2fsck -fn: {other:?}"),
    }
}

fn small(scheme: Preset) -> Config {
    let mut config = Config::new(scheme, "loop-like", 5);
    config.bytes = 64 << 20;
    config
}

fn read_file(stack: &Stack, path: &str) -> Vec<u8> {
    let file = stack.vfs.open(path, OpenFlags::READ, 0).unwrap();
    let mut data = vec![0; file.stat().unwrap().size as usize];
    let got = file.read_at(0, &mut data).unwrap();
    assert_eq!(got, data.len());
    file.close().unwrap();
    data
}

#[test]
fn the_kernel_reads_the_same_bytes_after_every_run() {
    for scheme in [Preset::Jbd2, Preset::None] {
        let config = small(scheme);
        let run_config = RunConfig {
            stack: config.clone(),
            workload: "sqlite:insert=30,update=20,delete=10".into(),
            seed: 5,
            recording: None,
        };
        let finished = run(&run_config, &mut |_, _| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        rig::write_image(&finished.model, &image).unwrap();
        clean(&image);
        let ours = Sim::new(SimConfig::seeded(1))
            .run(|| {
                let stack = Stack::mount(finished.model, &config, Clock::Runtime).unwrap();
                let data = read_file(&stack, DATABASE);
                stack.unmount().unwrap();
                data
            })
            .unwrap();
        let Some(mount) = kernel_mount(&image, folder.path().join("mnt"), "ro") else {
            return;
        };
        let theirs = fs::read(mount.dir.join("test.db")).unwrap();
        assert!(
            ours.len() >= 8192 && ours == theirs,
            "{scheme}: the database differs"
        );
    }
}

#[test]
fn an_image_filled_by_the_kernel_is_changed_and_given_back_clean() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    if let Err(why) = sh(
        "mke2fs",
        &["-q", "-t", "ext4", "-b", "4096", &image.to_string_lossy()],
    ) {
        eprintln!("skipped: {why}");
        return;
    }
    let Some(mount) = kernel_mount(&image, folder.path().join("mnt"), "rw") else {
        return;
    };
    let dir = mount.dir.join("dir");
    fs::create_dir(&dir).unwrap();
    for n in 0..500_usize {
        fs::write(dir.join(format!("file-{n}")), vec![n as u8; n * 37 + 1]).unwrap();
    }
    fs::write(mount.dir.join("large"), vec![0xAB; 5 << 20]).unwrap();
    std::os::unix::fs::symlink("dir/file-7", mount.dir.join("link")).unwrap();
    drop(mount);
    let config = small(Preset::Jbd2);
    let model = rig::load_image(&image, &config).unwrap();
    let model = Sim::new(SimConfig::seeded(1))
        .run(|| {
            let stack = Stack::mount(model, &config, Clock::Runtime).unwrap();
            for n in (0..500).step_by(3) {
                let path = format!("/dir/file-{n}");
                assert_eq!(read_file(&stack, &path), vec![n as u8; n * 37 + 1]);
                stack.vfs.unlink(&path).unwrap();
            }
            assert_eq!(read_file(&stack, "/link"), vec![7; 7 * 37 + 1]);
            let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
            let file = stack.vfs.open("/dir/ours", flags, 0o644).unwrap();
            assert_eq!(file.write_at(0, &vec![0xCD; 100_000]).unwrap(), 100_000);
            file.close().unwrap();
            stack
                .vfs
                .rename("/large", "/dir/moved", RenameMode::Replace)
                .unwrap();
            stack.vfs.truncate("/dir/moved", 3 << 20).unwrap();
            stack.vfs.mkdir("/new", 0o755).unwrap();
            stack.unmount().unwrap()
        })
        .unwrap();
    rig::write_image(&model, &image).unwrap();
    clean(&image);
    let Some(mount) = kernel_mount(&image, folder.path().join("mnt"), "rw") else {
        return;
    };
    assert_eq!(
        fs::read(mount.dir.join("dir/ours")).unwrap(),
        vec![0xCD; 100_000]
    );
    assert_eq!(
        fs::read(mount.dir.join("dir/moved")).unwrap(),
        vec![0xAB; 3 << 20]
    );
    assert!(mount.dir.join("new").is_dir() && !mount.dir.join("dir/file-3").exists());
    assert_eq!(
        fs::read_dir(mount.dir.join("dir")).unwrap().count(),
        500 - 167 + 2
    );
    fs::remove_dir_all(mount.dir.join("dir")).unwrap();
    drop(mount);
    clean(&image);
}

/// A cut leaves a log of deltas: neither e2fsck nor the kernel may touch the volume, and both take
/// it after our recovery.
#[test]
fn a_dirty_coalition_volume_is_refused_until_it_is_recovered() {
    use rig::Mounted;
    use varve_crash::cells::Cell;
    use varve_crash::ops::Stress;
    use varve_crash::{CrashConfig, Script, Target, Volume, record, small_volume};

    let folder = tempfile::tempdir().unwrap();
    let mut stack = small_volume(Preset::Emmc.into(), "emmc-odroid-xu4", 1);
    stack.journal_blocks = Some(1024);
    let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
    let volume = Volume::new(&stack, &target).unwrap();
    let script = Script::Mixed {
        tasks: 3,
        ops: 40,
        stress: Stress::Reuse,
        free: None,
    };
    let mut config = CrashConfig::new(stack.clone(), target, 4, script, 9);
    config.busy = false;
    let recording = record(&config, &volume).unwrap();
    assert_eq!(recording.failure, None);
    let cut = &recording.cuts[4];
    let dirty = folder.path().join("dirty");
    let before = volume.attach(&cut.remains, 1).unwrap();
    before.write_image(stack.bytes, &dirty).unwrap();
    match e2fsck_check(&dirty).unwrap() {
        Verdict::NotInstalled => eprintln!("skipped: e2fsck is not installed"),
        Verdict::Clean => panic!("e2fsck takes a log that it does not understand"),
        Verdict::Repaired(words) | Verdict::Findings(words) => {
            assert!(words.contains("feature"), "{words}");
        }
    }
    match attach(&dirty) {
        Err(why) => eprintln!("skipped: no loop device here: {why}"),
        Ok(device) => {
            let mounted = KernelMount::new(device, folder.path().join("refused"), "ro");
            assert!(
                mounted.is_err(),
                "the kernel mounts a log that it does not understand"
            );
        }
    }
    let disk = volume.attach(&cut.remains, 1).unwrap();
    let options = stack.mount_options();
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = disk.device();
        Mounted::on(device, options, vfs::WritebackPolicy::off())?.unmount()
    });
    outcome.value.expect("recovery").expect("recovers");
    let recovered = folder.path().join("recovered");
    disk.write_image(stack.bytes, &recovered).unwrap();
    clean(&recovered);
    drop(kernel_mount(&recovered, folder.path().join("taken"), "rw"));
    clean(&recovered);
}

/// Crash states of a case, evenly chosen among those of all its cuts.
fn crash_states(setup: &Setup, wanted: usize) -> Vec<(String, Image)> {
    let run = trace(&setup.config, &setup.volume, setup.subject.as_ref()).unwrap();
    let mut cursor = run.trace.cursor();
    let mut all = Vec::new();
    for (point, at) in run.trace.cut_points().into_iter().enumerate() {
        if at > run.began {
            cursor.seek(at);
            let choices = cursor.choices(&Bound::default());
            all.extend(
                choices
                    .iter()
                    .map(|c| (format!("{point}.{c}"), cursor.image(c))),
            );
        }
    }
    let step = all.len().div_ceil(wanted);
    all.into_iter().step_by(step).collect()
}

/// What Varve finds on a disk, recovering it if need be.
fn tree_of(setup: &Setup, disk: &Disk) -> Tree {
    let options = setup.config.stack.mount_options();
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let policy = vfs::WritebackPolicy::off();
        let mounted = Mounted::on(disk.device(), options, policy).unwrap();
        let tree = walk(&mounted.vfs).unwrap();
        mounted.unmount().unwrap();
        tree
    });
    outcome.unwrap()
}

#[test]
fn the_kernel_recovers_crash_states_to_the_same_tree() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("state");
    let (mut states, mut refused) = (0, 0);
    for (scheme, workload) in [
        ("jbd2", "known:create_delete"),
        ("jbd2", "mix:tasks=3,ops=20,stress=swarm"),
        ("flush-ahead", "known:rename_root_to_sub"),
        ("flush-ahead", "mix:tasks=2,ops=20,stress=reuse"),
    ] {
        let case = Case {
            scheme: scheme.into(),
            device: "spec:emmc".into(),
            workload: workload.into(),
            seed: 3,
            scheduler: None,
            mutant: None,
        };
        let setup = case.setup(&mut Volumes::default()).unwrap();
        for (id, state) in crash_states(&setup, 6) {
            let remains = Remains::Image(state);
            let disk = || setup.volume.attach(&remains, 0).unwrap();
            disk()
                .write_image(setup.config.stack.bytes, &image)
                .unwrap();
            let ours = tree_of(&setup, &disk());
            match kernel_recovers(&image, folder.path().join("mnt")) {
                None => return,
                Some(mounted) => refused += u32::from(!mounted),
            }
            states += 1;
            clean(&image);
            let theirs = tree_of(&setup, &setup.volume.load(&image).unwrap());
            assert_eq!(ours, theirs, "{case}, state {id}");
        }
    }
    assert!(refused <= states / 8, "{refused} of {states} are refused");
}
