//! Failed writes and flushes below ext4 and F2FS: which callers get an error, how often, and what
//! the file systems still promise afterwards.

use block::Queue;
use blockdev::{BlockDevice, Fault, FaultOn, FaultRule, Ram};
use rt::WallTime;
use std::sync::Arc;
use varve_rig::{AnyFs, Fs, MountOptions};
use vfs::{Errno, File, FsResult, OpenFlags, Vfs};

const BYTES: u64 = 64 << 20;
const TIME: WallTime = WallTime {
    secs: 1_704_067_200,
    nanos: 0,
};

/// Kind and mount options.
type Case = (Fs, &'static str);

const CASES: [Case; 5] = [
    (Fs::Ext4, "scheme=jbd2"),
    (Fs::Ext4, "scheme=coalition"),
    (Fs::Ext4, "scheme=none"),
    (Fs::F2fs, "scheme=checkpoint-60"),
    (Fs::F2fs, "scheme=f2fsj"),
];

fn fresh(case: Case) -> Arc<Ram> {
    let ram = Arc::new(Ram::new(BYTES));
    let queue = Queue::new(ram.clone());
    match case.0 {
        Fs::F2fs => {
            let mut options = f2fs::mkfs::Options::new(BYTES, [3; 16], TIME);
            options.journal =
                (case.1.contains("f2fsj")).then_some(f2fs::mkfs::JournalSize::Ring(64));
            let plan = f2fs::mkfs::plan(&options).unwrap();
            plan.write(&queue, f2fs::mkfs::DeviceContent::Zeros)
                .unwrap();
        }
        Fs::Ext4 | Fs::Ext3 => {
            let options = ext4::mkfs::MkfsOptions::new(BYTES, [1; 16], [2; 16], TIME);
            let plan = ext4::mkfs::plan(&options).unwrap();
            plan.write(&queue, ext4::mkfs::DeviceContent::Zeros)
                .unwrap();
        }
    }
    ram
}

fn mount(device: Arc<dyn BlockDevice>, case: Case, more: &str) -> (AnyFs, Arc<Vfs>) {
    mount_with(device, case, more, false)
}

fn mount_with(
    device: Arc<dyn BlockDevice>,
    case: Case,
    more: &str,
    discard: bool,
) -> (AnyFs, Arc<Vfs>) {
    let text = format!("{},{more}", case.1);
    let options = match case.0 {
        Fs::F2fs => MountOptions::F2fs(f2fs::MountOptions::parse(&text).unwrap()),
        Fs::Ext4 | Fs::Ext3 => MountOptions::Ext4(ext4::MountOptions::parse(&text).unwrap()),
    };
    let options = options.timers(None, None).discard(discard);
    let fs = AnyFs::mount(Queue::new(device), options).unwrap();
    let vfs = Vfs::new(fs.seam());
    (fs, vfs)
}

fn open(vfs: &Arc<Vfs>, path: &str) -> File {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    vfs.open(path, flags, 0o644).unwrap()
}

fn put(file: &File, fill: u8) {
    assert_eq!(file.write_at(0, &[fill; 8192]).unwrap(), 8192);
}

fn content(vfs: &Arc<Vfs>, path: &str) -> Vec<u8> {
    let file = vfs.open(path, OpenFlags::READ, 0).unwrap();
    let mut bytes = vec![0; 10000];
    let n = file.read_at(0, &mut bytes).unwrap();
    file.close().unwrap();
    bytes.truncate(n);
    bytes
}

fn is_io<T>(result: FsResult<T>) -> bool {
    result.is_err_and(|e| e.errno() == Errno::Io)
}

fn failed(fs: &AnyFs) -> bool {
    match fs {
        AnyFs::Ext4(fs) => fs.failed().is_some() || fs.journal().aborted().is_some(),
        AnyFs::F2fs(fs) => fs.failed().is_some(),
    }
}

/// A discard is a hint: where each one fails, freed blocks can be used again, several times over,
/// and nobody is told of an error.
#[test]
fn failed_discards_are_no_errors() {
    for case in CASES {
        let ram = fresh(case);
        let fault = Arc::new(Fault::new(ram.clone()));
        fault.rule(FaultRule::always(FaultOn::Discard));
        let (fs, vfs) = mount_with(fault.clone(), case, "", true);
        for round in 0..16u8 {
            let file = open(&vfs, "/f");
            let megabyte = vec![round; 1 << 20];
            for n in 0..8 {
                assert_eq!(
                    file.write_at(n << 20, &megabyte).unwrap(),
                    1 << 20,
                    "{case:?}"
                );
            }
            file.fsync().unwrap();
            file.close().unwrap();
            vfs.unlink("/f").unwrap();
            vfs.sync().unwrap();
        }
        let file = open(&vfs, "/last");
        put(&file, 5);
        file.fsync().unwrap();
        file.close().unwrap();
        assert!(fault.hits() > 0 && !failed(&fs), "{case:?}");
        vfs.unmount().unwrap();
        let (_, vfs) = mount(ram, case, "");
        assert_eq!(content(&vfs, "/last"), [5; 8192], "{case:?}");
        vfs.unmount().unwrap();
    }
}

#[test]
fn a_failed_write_is_told_once_to_each_open_file() {
    for case in CASES {
        let ram = fresh(case);
        let fault = Arc::new(Fault::new(ram.clone()));
        let (fs, vfs) = mount(fault.clone(), case, "");
        let (a, other) = (open(&vfs, "/f"), open(&vfs, "/other"));
        put(&a, 1);
        put(&other, 1);
        a.fsync().unwrap();
        other.fsync().unwrap();
        let (b, c) = (open(&vfs, "/f"), open(&vfs, "/f"));
        put(&a, 2);
        // Each time, because a commit of F2FSJ that has taken the page along sends it once more.
        fault.rule(FaultRule::always(FaultOn::Data));
        assert!(is_io(a.fsync()), "{case:?}");
        assert!(fault.hits() > 0);
        fault.clear();
        let outcomes = [&a, &b, &b, &a].map(|f| is_io(f.fsync()));
        assert_eq!(outcomes, [false, true, false, false], "{case:?}");
        other.fsync().unwrap();
        open(&vfs, "/f")
            .close()
            .expect("opened after somebody was told");
        assert!(is_io(c.close()), "{case:?}: told at close if never before");
        assert!(!failed(&fs), "{case:?}: data is no metadata");
        put(&b, 3);
        b.fdatasync().unwrap();
        for file in [a, b, other] {
            file.close().unwrap();
        }
        vfs.unmount().unwrap();
        let (_, vfs) = mount(ram, case, "");
        assert_eq!(content(&vfs, "/f"), [3; 8192], "{case:?}");
        vfs.unmount().unwrap();
    }
}

/// A commit that fails because of a page that it has taken along sends that page once more, alone:
/// an fsync that answers with success has its data on the medium then.
#[test]
fn a_page_that_a_commit_took_along_is_sent_again() {
    let case = (Fs::F2fs, "scheme=f2fsj");
    let ram = fresh(case);
    let fault = Arc::new(Fault::new(ram.clone()));
    let (fs, vfs) = mount(fault.clone(), case, "");
    let file = open(&vfs, "/f");
    put(&file, 1);
    file.fsync().unwrap();
    // The page is written in place only if the last transaction has no checksum of it (summed-Q2).
    let other = open(&vfs, "/other");
    put(&other, 1);
    other.fsync().unwrap();
    put(&file, 2);
    // So that a commit has to follow, whatever the clock says.
    vfs.chmod("/f", 0o600).unwrap();
    fault.rule(FaultRule::next(FaultOn::Data));
    file.fsync().unwrap();
    assert_eq!(fault.hits(), 1);
    assert!(!failed(&fs));
    for file in [file, other] {
        file.close().unwrap();
    }
    // Not unmounted, as by a cut.
    drop((fs, vfs));
    let (_, vfs) = mount(ram, case, "");
    assert_eq!(content(&vfs, "/f"), [2; 8192]);
    vfs.unmount().unwrap();
}

/// The flusher cannot return an error to a user: what it could not write is reported to the next
/// caller that syncs.
#[test]
fn what_write_back_could_not_write_is_told_by_the_next_fsync() {
    for case in CASES {
        let fault = Arc::new(Fault::new(fresh(case)));
        // With one round the page goes to a new block, because the last transaction has the
        // checksum of the old one (summed-Q2), and a failure there ends the journal (data-D3).
        let in_place = match case.1 {
            "scheme=f2fsj" => "rounds=2",
            _ => "",
        };
        let (fs, vfs) = mount(fault.clone(), case, in_place);
        let a = open(&vfs, "/f");
        put(&a, 1);
        a.fsync().unwrap();
        put(&a, 2);
        fault.rule(FaultRule::next(FaultOn::Data));
        // Whether it hears of the failure at once is its own business.
        let _ = fs.seam().writeback(rt::now());
        assert_eq!(fault.hits(), 1, "{case:?}");
        let b = open(&vfs, "/f");
        let outcomes = [&a, &b, &a, &b].map(|f| is_io(f.fsync()));
        assert_eq!(
            outcomes,
            [true, true, false, false],
            "{case:?}: nobody was told before"
        );
        a.close().unwrap();
        b.close().unwrap();
        vfs.unmount().unwrap();
    }
}

/// The device loses what it could not flush, and its next flush succeeds.
#[test]
fn after_a_failed_flush_nothing_is_claimed() {
    for case in CASES {
        let ram = fresh(case);
        let fault = Arc::new(Fault::with_cache(ram.clone()));
        let (fs, vfs) = mount(fault.clone(), case, "");
        let (a, b) = (open(&vfs, "/a"), open(&vfs, "/b"));
        for file in [&a, &b] {
            put(file, 1);
            file.fsync().unwrap();
        }
        put(&a, 2);
        put(&b, 2);
        fs.seam().writeback(rt::now()).unwrap();
        fault.rule(FaultRule::next(FaultOn::Flush));
        assert!(is_io(a.fsync()), "{case:?}");
        assert_eq!(fault.hits(), 1);
        // The fault is over; a second flush would succeed and say nothing of what was lost.
        assert!(
            is_io(b.fsync()) && is_io(b.fsync()) && is_io(a.fsync()),
            "{case:?}"
        );
        assert!(failed(&fs), "{case:?}");
        assert!(is_io(vfs.mkdir("/d", 0o755)), "{case:?}: changing is over");
        assert!(
            a.read_at(0, &mut [0; 10]).is_ok(),
            "{case:?}: reading goes on"
        );
        let _ = (a.close(), b.close());
        assert!(vfs.unmount().is_err(), "{case:?}: not marked clean");
        // What was acknowledged before is there, the rest is old or new.
        let (_, vfs) = mount(ram, case, "");
        for path in ["/a", "/b"] {
            let bytes = content(&vfs, path);
            let old_or_new = bytes
                .chunks(4096)
                .all(|c| *c == [1; 4096] || *c == [2; 4096]);
            assert!(bytes.len() == 8192 && old_or_new, "{case:?} {path}");
        }
        vfs.unmount().unwrap();
    }
}

/// `errors=`, when the journal or a checkpoint cannot be written.
#[test]
fn a_failed_write_of_metadata_latches_as_errors_says() {
    for case in CASES {
        for mode in ["continue", "remount-ro", "panic"] {
            let ram = fresh(case);
            let fault = Arc::new(Fault::new(ram.clone()));
            let (fs, vfs) = mount(fault.clone(), case, &format!("errors={mode}"));
            let kept = open(&vfs, "/kept");
            put(&kept, 1);
            kept.fsync().unwrap();
            vfs.sync().unwrap();
            vfs.mkdir("/lost", 0o755).unwrap();
            fault.rule(FaultRule::always(FaultOn::Write));
            assert!(is_io(vfs.sync()), "{case:?} {mode}");
            fault.clear();
            assert!(failed(&fs), "{case:?} {mode}");
            assert!(is_io(vfs.mkdir("/more", 0o755)), "{case:?} {mode}");
            assert!(is_io(vfs.sync()), "{case:?} {mode}");
            let alive = mode != "panic";
            // Else it may say what is true: all of that file is durable.
            assert!(alive || is_io(kept.fsync()), "{case:?} {mode}");
            assert_eq!(vfs.stat("/kept").is_ok(), alive, "{case:?} {mode}");
            assert_eq!(
                kept.read_at(0, &mut [0; 9]).is_ok(),
                alive,
                "{case:?} {mode}"
            );
            let _ = kept.close();
            assert!(vfs.unmount().is_err());
            let (_, vfs) = mount(ram, case, "");
            assert_eq!(content(&vfs, "/kept"), [1; 8192], "{case:?} {mode}");
            vfs.unmount().unwrap();
        }
    }
}

/// A host without room for what it promised: an error like any other, and what was durable stays.
#[test]
fn a_host_without_room_is_an_error_of_the_write() {
    for case in CASES {
        let ram = fresh(case);
        let fault = Arc::new(Fault::new(ram.clone()));
        let (_fs, vfs) = mount(fault.clone(), case, "");
        let kept = open(&vfs, "/kept");
        put(&kept, 1);
        kept.fsync().unwrap();
        vfs.sync().unwrap();
        fault.short_of_space(0);
        let new = open(&vfs, "/new");
        assert_eq!(new.write_at(0, &[2; 1 << 20]).unwrap(), 1 << 20);
        assert!(is_io(new.fsync()), "{case:?}");
        assert!(fault.hits() > 0);
        let _ = (new.close(), kept.close());
        let _ = vfs.unmount();
        let (_, vfs) = mount(ram, case, "");
        assert_eq!(content(&vfs, "/kept"), [1; 8192], "{case:?}");
        vfs.unmount().unwrap();
    }
}
