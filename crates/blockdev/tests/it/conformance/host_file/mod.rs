//! Files of the host: every kind of I/O under the contract, locks, windows, threads.

use super::block;
use base::{BLOCK_BYTES, Bytes, Lba, Nanos, SECTOR_BYTES};
use rt::{Asked, Leaders};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use varve_blockdev::{
    BlockDevice, Class, DevErrorKind, HostError, HostFile, HostIo, HostOptions, Op, Piece, Request,
};

const MIB: u64 = 1 << 20;
/// Longer than any step of these tests takes.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A folder on the disk of the build, where direct I/O is likely, with an image of `mib` MiB in it.
fn image(mib: u64) -> (TempDir, PathBuf) {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("image");
    fs::File::create(&path).unwrap().set_len(mib * MIB).unwrap();
    (dir, path)
}

/// Every kind of I/O; io_uring only where the host allows it.
fn ways() -> Vec<HostOptions> {
    let mut ways = Vec::new();
    for direct in [false, true] {
        for io in [HostIo::Sync, HostIo::Uring, HostIo::Auto] {
            let way = HostOptions {
                direct,
                io,
                ..HostOptions::write()
            };
            let (_dir, path) = image(1);
            match HostFile::open(&path, &way) {
                Ok(_) => ways.push(way),
                Err(e) => assert!(io == HostIo::Uring, "{e}"),
            }
        }
    }
    ways
}

fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut x = seed * 2 + 1;
    move |below| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % below
    }
}

#[test]
fn every_way_keeps_the_contract() {
    for way in ways() {
        let (_dir, path) = image(1);
        testkit::device::run(&HostFile::open(&path, &way).unwrap());
        let (_dir, path) = image(3);
        let window = HostOptions {
            offset: MIB,
            size: Some(MIB),
            ..way
        };
        testkit::device::run(&HostFile::open(&path, &window).unwrap());
        let all = fs::read(&path).unwrap();
        let outside = [&all[..MIB as usize], &all[2 * MIB as usize..]].concat();
        assert!(base::bytes::is_zero(&outside), "{window:?}");
    }
}

/// File systems in memory have no direct I/O.
#[test]
fn where_there_is_no_direct_io_the_page_cache_serves() {
    let Ok(dir) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let path = dir.path().join("image");
    fs::File::create(&path).unwrap().set_len(MIB).unwrap();
    let way = HostOptions {
        direct: true,
        ..HostOptions::write()
    };
    let device = HostFile::open(&path, &way).unwrap();
    assert!(!device.is_direct() && !device.is_uring());
    testkit::device::run(&device);
}

/// Pieces at any address and of any length; the file holds what a plain write would have left.
#[test]
fn pieces_of_any_address_land_where_they_belong() {
    for way in ways() {
        let (_dir, path) = image(2);
        let device = HostFile::open(&path, &way).unwrap();
        let unit = device.caps().sector_bytes as usize;
        let mut model = vec![0; 2 * MIB as usize];
        let mut pick = numbers(7);
        let pool: Bytes = (0..MIB).map(|n| (n % 251) as u8).collect::<Vec<_>>().into();
        for round in 0..60 {
            let pieces: Vec<Piece> = (0..=pick(5))
                .map(|_| {
                    // One in three pieces begins at an unaligned address.
                    let from = pick(64) as usize * SECTOR_BYTES + pick(3) as usize;
                    let len = (1 + pick(9) as usize) * unit;
                    Piece {
                        class: Class::Data,
                        bytes: pool.slice(from..from + len),
                    }
                })
                .collect();
            let whole: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.to_vec()).collect();
            let lba = pick((model.len() - whole.len()) as u64 / unit as u64) * unit as u64;
            model[lba as usize..lba as usize + whole.len()].copy_from_slice(&whole);
            let lba = Lba(lba / SECTOR_BYTES as u64);
            let fua = round % 7 == 0;
            let op = Op::Write { lba, pieces, fua };
            device.wait(device.submit(Request { op })).unwrap();
        }
        device.wait(device.submit(Request::flush())).unwrap();
        assert!(fs::read(&path).unwrap() == model, "{way:?}");
        let mut some = vec![0; 1001];
        device.read_exact_at(&mut some, 513).unwrap();
        assert_eq!(some, model[513..1514]);
        device.read_exact_at(&mut some, 2 * MIB - 1001).unwrap();
        assert!(device.read_exact_at(&mut some, 2 * MIB - 1000).is_err());
    }
}

/// Tasks submit and wait at once; some tickets are waited for by another task than the one that
/// submitted.
#[test]
fn many_tasks_submit_and_wait_at_once() {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 40;
    for way in ways() {
        let (_dir, path) = image(8);
        let device = HostFile::open(&path, &way).unwrap();
        let (sender, receiver) = rt::channel(16);
        rt::scope(|scope| {
            let device = &device;
            scope.spawn("waiter", move || {
                for _ in 0..TASKS * ROUNDS {
                    device.wait(receiver.recv().unwrap()).unwrap();
                }
            });
            for task in 0..TASKS {
                let sender = sender.clone();
                scope.spawn("writer", move || {
                    let mut pick = numbers(task);
                    for round in 0..ROUNDS {
                        let mine = |n: u64| Lba((task + TASKS * n) * 8);
                        let fill = (task * ROUNDS + round) as u8;
                        let keep = device.submit(Request::write(mine(0), Class::Data, block(fill)));
                        let more: Vec<_> = (1..1 + pick(9))
                            .map(|n| {
                                device.submit(Request::write(mine(n), Class::Data, block(fill)))
                            })
                            .collect();
                        sender.send(keep).unwrap();
                        for ticket in more.into_iter().rev() {
                            device.wait(ticket).unwrap();
                        }
                        if round % 8 == 0 {
                            device.wait(device.submit(Request::flush())).unwrap();
                        }
                        let back = device.wait(device.submit(Request::read(mine(1), 8)));
                        assert_eq!(back.unwrap().into_bytes().len(), 4096);
                    }
                });
            }
        });
        for task in 0..TASKS {
            let read = Request::read(Lba(task * 8), 8);
            let last = device.wait(device.submit(read)).unwrap().into_bytes();
            // The last rounds of a task may have been under way at the same time.
            let rounds = (0..ROUNDS).map(|r| (task * ROUNDS + r) as u8);
            assert!(rounds.clone().any(|fill| last == block(fill)), "{way:?}");
        }
    }
}

/// More requests than a ring holds, by one task; and a device that is dropped with writes under
/// way.
#[test]
fn a_full_ring_is_no_obstacle_and_a_drop_no_danger() {
    for way in ways() {
        let (_dir, path) = image(8);
        let device = HostFile::open(&path, &way).unwrap();
        let submit =
            |n: u64| device.submit(Request::write(Lba(n * 8), Class::Data, block(n as u8)));
        let tickets: Vec<_> = (0..1500).map(submit).collect();
        for ticket in tickets {
            device.wait(ticket).unwrap();
        }
        let read = device.submit(Request::read(Lba(8), 8));
        assert_eq!(device.wait(read).unwrap().into_bytes(), block(1));
        let _left: Vec<_> = (0..50).map(submit).collect();
        drop(device);
    }
}

#[test]
// The refusal names the process.
#[allow(clippy::disallowed_methods)]
fn a_writer_is_alone_and_readers_share() {
    let (_dir, path) = image(1);
    let open = |options| HostFile::open(&path, &options);
    let writer = open(HostOptions::write()).unwrap();
    for options in [HostOptions::write(), HostOptions::read()] {
        let why = open(options).err().expect("refused");
        assert!(matches!(why, HostError::InUse { .. }), "{why}");
        let text = why.to_string();
        assert!(text.contains("image: is in use by"), "{text}");
        let me = std::process::id().to_string();
        assert!(text.contains(&format!("process {me}")), "{text}");
    }
    // A clone keeps the lock.
    let second = writer.another().unwrap();
    drop(writer);
    assert!(open(HostOptions::read()).is_err());
    drop(second);
    let readers = [(); 3].map(|()| open(HostOptions::read()).unwrap());
    assert!(matches!(
        open(HostOptions::write()),
        Err(HostError::InUse { .. })
    ));
    let reader = &readers[0];
    let write = reader.submit(Request::write(Lba(0), Class::Data, block(1)));
    assert!(reader.wait(write).is_err(), "open to read only");
    drop(readers);
    open(HostOptions::write()).unwrap();
}

#[test]
fn what_is_no_volume_is_refused_by_name() {
    let (dir, path) = image(1);
    let short = dir.path().join("short");
    fs::write(&short, [1; 100]).unwrap();
    let wide = |offset, size| HostOptions {
        offset,
        size,
        ..HostOptions::read()
    };
    for (path, options, words) in [
        (dir.path(), HostOptions::read(), "is a directory"),
        (&short, HostOptions::read(), "too short"),
        (Path::new("/dev/null"), HostOptions::read(), "neither"),
        (
            &dir.path().join("none"),
            HostOptions::read(),
            "No such file",
        ),
        (&path, wide(100, None), "not a multiple of 512"),
        (&path, wide(2 * MIB, None), "beyond its 1048576 bytes"),
        (&path, wide(4096, Some(MIB)), "it has 1044480"),
        (&path, wide(MIB - 4096, None), "too short"),
    ] {
        let why = HostFile::open(path, &options)
            .err()
            .expect(words)
            .to_string();
        assert!(why.contains(words), "{why}");
    }
    assert!(HostFile::create(&short, MIB, &HostOptions::write()).is_err());
    assert_eq!(fs::read(&short).unwrap(), [1; 100]);
    let fresh = HostFile::create(dir.path().join("new"), MIB, &HostOptions::write()).unwrap();
    let grown = fresh.resized(2 * MIB).unwrap();
    assert_eq!((grown.bytes(), grown.caps().sectors), (2 * MIB, 4096));
    testkit::device::run(&grown);
}

#[test]
fn a_discard_gives_room_back() {
    for way in ways() {
        let (_dir, path) = image(4);
        let device = HostFile::open(&path, &way).unwrap();
        if !device.caps().discard {
            continue;
        }
        for n in 0..4 {
            let bytes = vec![1; MIB as usize].into();
            let write = Request::write(Lba(n * 2048), Class::Data, bytes);
            device.wait(device.submit(write)).unwrap();
        }
        device.wait(device.submit(Request::flush())).unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        device
            .wait(device.submit(Request::discard(Lba(2048), 4096)))
            .unwrap();
        assert_eq!(fs::metadata(&path).unwrap().blocks(), before - 4096);
        let read = device
            .wait(device.submit(Request::read(Lba(4095), 2)))
            .unwrap();
        assert!(base::bytes::is_zero(&read.into_bytes()));
        let read = device
            .wait(device.submit(Request::read(Lba(2047), 1)))
            .unwrap();
        assert_eq!(read.into_bytes()[511], 1);
    }
}

/// A file that another process truncates while it is in use.
#[test]
fn a_read_behind_the_end_is_an_error() {
    for way in ways() {
        let (_dir, path) = image(1);
        let device = HostFile::open(&path, &way).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(8192)
            .unwrap();
        let error = device
            .wait(device.submit(Request::read(Lba(8), 16)))
            .unwrap_err();
        assert_eq!(error.kind, DevErrorKind::Io, "{error}");
    }
}

#[test]
fn options_are_read_or_left_to_others() {
    let mut options = HostOptions::write();
    for item in ["direct", "io=uring", "offset=1M", "sizelimit=4096"] {
        assert!(options.set(item).unwrap(), "{item}");
    }
    let wanted = HostOptions {
        write: true,
        direct: true,
        io: HostIo::Uring,
        offset: MIB,
        size: Some(4096),
    };
    assert_eq!(options, wanted);
    assert!(!options.set("noatime").unwrap());
    for (bad, allowed) in [
        ("io=fast", "auto, uring, sync or mmc"),
        ("offset=x", "a whole number of bytes"),
        ("sizelimit=-1", "a whole number of bytes"),
        ("direct=1", "no value"),
    ] {
        let why = options.set(bad).unwrap_err();
        assert!(
            why.contains(&format!("`{bad}`")) && why.contains(allowed),
            "{why}"
        );
    }
}

#[test]
fn commands_of_a_card_are_for_whole_cards_only() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(MIB).unwrap();
    let mut options = HostOptions::write();
    assert!(options.set("io=mmc").unwrap());
    let refused = HostFile::open(file.path(), &options).err().unwrap();
    let refused = refused.to_string();
    assert!(refused.contains("whole device of an eMMC"), "{refused}");
}

fn asked(client: u32) -> Asked {
    Asked {
        client,
        ..Asked::default()
    }
}

/// Does `request` as one of two threads of a source. The other thread is parked, and must be called
/// before the request ends.
fn with_a_thread_beside(request: impl FnOnce() + Send + 'static) {
    let leaders = Leaders::new();
    let (parks, (tell, called)) = (Arc::clone(&leaders), rt::channel(1));
    let (ready, both) = rt::channel(1);
    let first = rt::spawn("first", move || {
        leaders.turn(&asked(1), || ());
        both.recv().expect("the other one comes");
        leaders.turn(&asked(1), || {
            request();
            // This wait does not use this crate, which would call the other thread.
            let until = rt::now() + PATIENCE;
            while called.try_recv().is_none() {
                assert!(rt::now() < until, "it waited, and told nobody");
            }
        });
    });
    let other = rt::spawn("other", move || {
        // With two clients no wait is left to the alarm.
        parks.turn(&asked(2), || ready.send(()).expect("it waits"));
        tell.send(()).expect("it waits");
    });
    first.join().expect("it ends");
    other.join().expect("it was called");
}

#[test]
fn a_thread_that_waits_for_the_host_lets_another_read_requests() {
    let piece = || Piece {
        bytes: Bytes::from(vec![7; BLOCK_BYTES]),
        class: Class::Data,
    };
    let write = |fua| Op::Write {
        lba: Lba(0),
        pieces: vec![piece()],
        fua,
    };
    let read = Op::Read {
        lba: Lba(0),
        sectors: 8,
    };
    for way in ways() {
        let (_dir, path) = image(1);
        let file = Arc::new(HostFile::open(&path, &way).unwrap());
        if file.is_uring() {
            // A request that is complete when its outcome is fetched is not waited for.
            continue;
        }
        for op in [write(false), write(true), Op::Flush, read.clone()] {
            let file = Arc::clone(&file);
            with_a_thread_beside(move || {
                let ticket = file.submit(Request { op });
                file.wait(ticket).expect("the host does it");
            });
        }
    }
}
