//! Several tasks on one mount, under random schedules: what the locks of `Vfs` are for.

use base::{Ino, Nanos};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Fault, SpyFs};
use varve_vfs::{Errno, File, FileKind, FsError, FsResult, OpenFlags, RenameMode, SetAttr, Vfs};

/// Runs `body` under this many random schedules, on the model, both where this mount pins what
/// loses a name and where the file system does.
fn schedules(count: u64, body: impl Fn(&Arc<Vfs>)) {
    let each = (0..count).flat_map(|seed| [(seed, false), (seed, true)]);
    for (seed, asks) in each {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let vfs = Vfs::new(match asks {
                true => ModelFs::that_asks(),
                false => ModelFs::new(),
            });
            body(&vfs);
            assert_eq!((vfs.leaked_files(), vfs.release_errors()), (0, 0));
            vfs.unmount().unwrap();
        });
        outcome.unwrap();
    }
}

fn create(vfs: &Arc<Vfs>, path: &str) -> Ino {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    let file = vfs.open(path, flags, 0o644).unwrap();
    let ino = file.ino();
    file.close().unwrap();
    ino
}

/// vfs-V4: without the append lock two writers find the same end.
#[test]
fn appends_do_not_overwrite_each_other() {
    schedules(40, |vfs| {
        let tasks: Vec<_> = (0..3u8)
            .map(|id| {
                let vfs = Arc::clone(vfs);
                rt::spawn("writer", move || {
                    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::APPEND;
                    let file = vfs.open("/log", flags, 0o644).unwrap();
                    for _ in 0..10 {
                        file.write_at(0, &[id; 7]).unwrap();
                    }
                    file.close().unwrap();
                })
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join().unwrap());
        let file = vfs.open("/log", OpenFlags::READ, 0).unwrap();
        let mut all = vec![0xFF; 300];
        assert_eq!(file.read_at(0, &mut all).unwrap(), 210);
        file.close().unwrap();
        let (records, _) = all[..210].as_chunks::<7>();
        assert!(records.iter().all(|r| r.iter().all(|b| *b == r[0])));
        for id in 0..3 {
            assert_eq!(records.iter().filter(|r| r[0] == id).count(), 10);
        }
    });
}

/// vfs-V4: a truncation by path waits for the append that has looked up its end; without the lock
/// the append leaves a hole of zeros.
#[test]
fn a_truncation_by_path_leaves_no_hole_below_an_append() {
    schedules(60, |vfs| {
        create(vfs, "/log");
        let writer = {
            let vfs = Arc::clone(vfs);
            rt::spawn("writer", move || {
                let flags = OpenFlags::WRITE | OpenFlags::APPEND;
                let file = vfs.open("/log", flags, 0).unwrap();
                for _ in 0..10 {
                    file.write_at(0, &[7; 7]).unwrap();
                }
                file.close().unwrap();
            })
        };
        let empty = SetAttr {
            size: Some(0),
            ..SetAttr::default()
        };
        for _ in 0..6 {
            vfs.set_attr("/log", &empty).unwrap();
            rt::yield_now();
        }
        writer.join().unwrap();
        let file = vfs.open("/log", OpenFlags::READ, 0).unwrap();
        let mut all = vec![0xFF; 100];
        let len = file.read_at(0, &mut all).unwrap();
        file.close().unwrap();
        assert!(all[..len].iter().all(|b| *b == 7), "{:?}", &all[..len]);
    });
}

/// vfs-V1: a rename to a name that was free when it looked does not replace, unpinned, a file that
/// appears there meanwhile: whoever makes that file is about to open it.
#[test]
fn a_rename_does_not_take_a_new_file_from_its_maker() {
    schedules(300, |vfs| {
        let mover = {
            let vfs = Arc::clone(vfs);
            rt::spawn("mover", move || {
                for _ in 0..6 {
                    create(&vfs, "/x");
                    vfs.rename("/x", "/y", RenameMode::Replace).unwrap();
                    vfs.unlink("/y").unwrap();
                }
            })
        };
        for _ in 0..6 {
            // Fails with ESTALE if its file has gone, and opens another one if the number has a new
            // owner.
            let flags = OpenFlags::WRITE | OpenFlags::CREATE;
            let file = vfs.open("/y", flags, 0o644).unwrap();
            file.close().unwrap();
        }
        mover.join().unwrap();
    });
}

/// vfs-V3: without the rename lock and the look upwards two renames make a loop that hangs on
/// nothing.
#[test]
fn crossing_renames_make_no_loop() {
    schedules(100, |vfs| {
        for dir in ["/p", "/p/a", "/p/a/x", "/q", "/q/b", "/q/b/y"] {
            vfs.mkdir(dir, 0o755).unwrap();
        }
        let mover = |from: &'static str, to: &'static str| {
            let vfs = Arc::clone(vfs);
            rt::spawn("mover", move || vfs.rename(from, to, RenameMode::Replace))
        };
        let (one, two) = (mover("/p/a", "/q/b/y/a"), mover("/q/b", "/p/a/x/b"));
        let results = [one.join().unwrap(), two.join().unwrap()];
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        let left = ["/p", "/q"].map(|dir| vfs.readdir(dir).unwrap().len());
        assert_eq!(left[0] + left[1], 5, "one of the two is where it was");
        let missing = |e: &FsError| matches!(e.errno(), Errno::Inval | Errno::NoEnt);
        assert!(results.iter().filter_map(|r| r.as_ref().err()).all(missing));
    });
}

/// vfs-V1: the number of a removed inode is not used again while somebody who looked it up is still
/// at work. The model uses the lowest free number first; without the grace period the reader would
/// open another file than it named.
#[test]
fn a_walk_never_ends_at_another_inode() {
    schedules(150, |vfs| {
        vfs.mkdir("/d", 0o755).unwrap();
        let reader = {
            let vfs = Arc::clone(vfs);
            rt::spawn("reader", move || {
                for _ in 0..12 {
                    match vfs.open("/d/victim", OpenFlags::READ, 0) {
                        Ok(file) => {
                            let attr = file.stat().unwrap();
                            assert_eq!(attr.perm, 0o600, "vfs-V1: this is the other file");
                            file.close().unwrap();
                        }
                        Err(error) => assert_eq!(error.errno(), Errno::NoEnt),
                    }
                }
            })
        };
        for i in 0..12 {
            let flags = OpenFlags::WRITE | OpenFlags::CREATE;
            let file = vfs.open("/d/victim", flags, 0o600).unwrap();
            file.close().unwrap();
            if i % 2 == 0 {
                vfs.unlink("/d/victim").unwrap();
                create(vfs, "/d/other");
            } else {
                create(vfs, "/d/other");
                vfs.rename("/d/other", "/d/gone", RenameMode::Replace)
                    .unwrap();
                vfs.unlink("/d/victim").unwrap();
            }
        }
        reader.join().unwrap();
    });
}

/// grace-G2: the number is not used again either if the name under which it was looked up is moved
/// before it is removed, if the way led through a symbolic link, or by `..`.
#[test]
fn however_an_inode_was_found_its_number_is_kept() {
    for way in ["/d/victim", "/link", "/d/e/../victim"] {
        schedules(100, |vfs| {
            vfs.mkdir("/d", 0o755).unwrap();
            vfs.mkdir("/d/e", 0o755).unwrap();
            vfs.symlink("d/victim", "/link").unwrap();
            let reader = {
                let vfs = Arc::clone(vfs);
                rt::spawn("reader", move || {
                    for _ in 0..12 {
                        match vfs.stat(way) {
                            Ok(attr) => assert_eq!(attr.perm, 0o600, "grace-G2: another file"),
                            Err(error) => assert_eq!(error.errno(), Errno::NoEnt),
                        }
                    }
                })
            };
            for _ in 0..8 {
                let flags = OpenFlags::WRITE | OpenFlags::CREATE;
                let file = vfs.open("/d/victim", flags, 0o600).unwrap();
                file.close().unwrap();
                vfs.rename("/d/victim", "/d/moved", RenameMode::Replace)
                    .unwrap();
                vfs.unlink("/d/moved").unwrap();
                create(vfs, "/d/other");
                vfs.unlink("/d/other").unwrap();
            }
            reader.join().unwrap();
        });
    }
}

/// vfs-V2: with two removers at one name, each pins the inode that it removes.
#[test]
fn two_removers_pin_what_they_remove() {
    schedules(300, |vfs| {
        let remake = |vfs: &Arc<Vfs>| {
            for _ in 0..6 {
                let flags = OpenFlags::WRITE | OpenFlags::CREATE;
                vfs.open("/victim", flags, 0o600).unwrap().close().unwrap();
                if let Err(error) = vfs.unlink("/victim") {
                    assert_eq!(error.errno(), Errno::NoEnt);
                }
                create(vfs, "/other");
                if let Err(error) = vfs.unlink("/other") {
                    assert_eq!(error.errno(), Errno::NoEnt);
                }
            }
        };
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let vfs = Arc::clone(vfs);
                rt::spawn("remover", move || remake(&vfs))
            })
            .collect();
        for _ in 0..12 {
            match vfs.stat("/victim") {
                Ok(attr) => assert_eq!(attr.perm, 0o600, "vfs-V2: this is the other file"),
                Err(error) => assert_eq!(error.errno(), Errno::NoEnt),
            }
        }
        tasks.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// Removing and making the same name from several tasks: exclusive creation has one winner at a
/// time.
#[test]
fn exclusive_creation_is_a_lock() {
    schedules(40, |vfs| {
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let vfs = Arc::clone(vfs);
                rt::spawn("locker", move || {
                    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
                    let mut taken = 0;
                    while taken < 4 {
                        match vfs.open("/lock", flags, 0o600) {
                            Ok(file) => {
                                file.close().unwrap();
                                let mark = vfs.mknod("/inside", FileKind::File, 0o600, 0);
                                mark.expect("nobody else is inside");
                                rt::yield_now();
                                vfs.unlink("/inside").unwrap();
                                vfs.unlink("/lock").unwrap();
                                taken += 1;
                            }
                            Err(error) => {
                                assert_eq!(error.errno(), Errno::Exist);
                                rt::sleep(Nanos::from_micros(10));
                            }
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_dropped_file_is_counted_and_keeps_the_mount_busy() {
    let vfs = Vfs::new(ModelFs::new());
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let file = vfs.open("/f", flags, 0o644).unwrap();
    let ino = file.ino();
    vfs.unlink("/f").unwrap();
    drop(file);
    assert_eq!((vfs.leaked_files(), vfs.open_files()), (1, 1));
    vfs.fs().getattr(ino).expect("the inode stays pinned");
    assert_eq!(vfs.unmount().unwrap_err().errno(), Errno::Busy);
}

#[test]
fn operations_by_inode_number_check_names() {
    let vfs = Vfs::new(ModelFs::new());
    let root = vfs.fs().root();
    vfs.mkdir("/d", 0o755).unwrap();
    create(&vfs, "/d/f");
    let d = vfs.lookup_pinned(root, b"d").unwrap();
    for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        assert!(vfs.unlink_at(d.ino, bad).is_err());
        assert!(vfs.rmdir_at(root, bad).is_err());
        let renamed = vfs.rename_at((d.ino, b"f"), (root, bad), RenameMode::Replace);
        assert!(renamed.is_err());
    }
    let into_itself = vfs.rename_at((root, b"d"), (d.ino, b"x"), RenameMode::Replace);
    assert_eq!(into_itself.unwrap_err().errno(), Errno::Inval);
    vfs.rename_at((d.ino, b"f"), (root, b"g"), RenameMode::NoReplace)
        .unwrap();
    assert_eq!(vfs.rmdir_at(root, b"g").unwrap_err().errno(), Errno::NotDir);
    assert_eq!(vfs.unlink_at(root, b"d").unwrap_err().errno(), Errno::IsDir);
    vfs.unlink_at(root, b"g").unwrap();
    vfs.rmdir_at(root, b"d").unwrap();
    vfs.fs().getattr(d.ino).expect("pinned by the lookup");
    vfs.fs().release(d.ino).unwrap();
    vfs.fs().getattr(d.ino).unwrap_err();
    let set = SetAttr::default();
    vfs.set_attr("/", &set).unwrap();
    vfs.unmount().unwrap();
}

/// `open` and `rename` try again as long as a name comes and goes beside them, and give up on a
/// damaged directory, in which it does so for ever.
#[test]
fn a_name_that_comes_and_goes_is_tried_a_bounded_number_of_times() {
    const FOR_EVER: u32 = 100_000;
    let spy = SpyFs::new(ModelFs::new());
    let vfs = Vfs::new(spy.clone());
    create(&vfs, "/a");
    vfs.mkdir("/d", 0o755).expect("a new name");
    let errno = |done: FsResult<()>| done.map_err(|e| e.errno());
    let rename = |to: &str, mode| errno(vfs.rename("/a", to, mode));
    let make = |flags| {
        let made = vfs.open("/new", flags, 0o644);
        errno(made.and_then(File::close))
    };
    let new = OpenFlags::WRITE | OpenFlags::CREATE;
    spy.take();
    for to in ["/b", "/d/b"] {
        spy.plant(Some(Fault::ComesAndGoes(FOR_EVER)));
        assert_eq!(rename(to, RenameMode::Replace), Err(Errno::Busy));
        assert_eq!(rename(to, RenameMode::NoReplace), Err(Errno::Exist));
    }
    assert_eq!(make(new), Err(Errno::Busy));
    assert_eq!(make(new | OpenFlags::EXCL), Err(Errno::Exist));
    assert_eq!(spy.take(), [], "nothing was done");
    spy.plant(Some(Fault::ComesAndGoes(20)));
    assert_eq!(make(new), Ok(()));
    spy.plant(Some(Fault::ComesAndGoes(20)));
    assert_eq!(rename("/d/b", RenameMode::Replace), Ok(()));
    assert_eq!(spy.take().len(), 2);
    spy.plant(None);
    vfs.unmount().expect("no file is open");
}
