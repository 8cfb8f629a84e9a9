//! Panics below an operation, at each of its requests to the device in turn.

use crate::brief::{Brief, pattern};
use crate::image::fork;
use crate::shadow::read_tree;
use blockdev::{BlockDevice, Caps, DevError, Ram, Reply, Request, Ticket};
use fscore::{Errno, FileSystem, FsResult, RenameMode, XattrMode};
use std::cell::Cell;
use std::sync::Arc;

/// Requests of one operation at which it panics, at most.
const REQUESTS_MAX: u32 = 40;

/// A device that panics where the running task has asked for it.
pub struct Trap(pub Arc<Ram>);

/// Requests of the running task up to the one that panics.
struct Left(Cell<u32>);

impl BlockDevice for Trap {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        if let Some(left) = rt::local::<Left>() {
            left.0.set(left.0.get() - 1);
            assert_ne!(left.0.get(), 0, "the planted panic");
        }
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.0.wait(ticket)
    }
}

/// An operation that changes what `fill` has made.
type Change = fn(&dyn FileSystem) -> FsResult<()>;

const CHANGES: [(&str, Change); 7] = [
    ("create", |fs| fs.make(fs.find("d"), "new").map(drop)),
    ("mkdir", |fs| fs.make_dir(fs.find("d"), "new").map(drop)),
    ("unlink", |fs| fs.unlink(fs.find("d"), b"f7")),
    ("rename", |fs| {
        let (from, to) = (fs.find("d"), fs.root());
        fs.rename(from, b"f3", to, b"big", RenameMode::Replace)
    }),
    ("truncate", |fs| fs.resize(fs.find("big"), 5000)),
    ("write", |fs| {
        let data = pattern(3, 300_000);
        fs.write(fs.find("big"), 123_456, &data).map(drop)
    }),
    ("setxattr", |fs| {
        let value = pattern(4, 3000);
        fs.setxattr(fs.find("big"), b"user.x", &value, XattrMode::Any)
    }),
];

fn fill(fs: &dyn FileSystem) {
    let dir = fs.dir("d");
    for n in 0..150 {
        fs.make(dir, format!("f{n}")).expect("room");
    }
    let big = fs.file("big");
    for n in 0..40 {
        let wrote = fs.write(big, n * 100_000, &pattern(n, 20_000));
        assert_eq!(wrote.expect("room"), 20_000);
    }
}

/// In the real world, a panic at each request of some operations in turn: it goes on to the caller,
/// everything is refused with EIO afterwards, and no checkpoint and no commit contains a part of
/// the operation, so the volume is what it was, and the checkers are content with it (latch-P1).
/// Answers how many panics there were.
///
/// # Panics
/// If it is not so.
pub fn panics_end_the_mount<F: FileSystem>(
    ram: &Arc<Ram>,
    mount: impl Fn(Arc<Trap>) -> Arc<F>,
    judge: impl Fn(&Ram),
) -> u32 {
    let mounted = |ram: &Arc<Ram>| mount(Arc::new(Trap(Arc::clone(ram))));
    let fs = mounted(ram);
    fill(&*fs);
    let before = read_tree(&*fs, 100);
    fs.unmount().expect("unmounts");
    let mut panics = 0;
    for (name, change) in CHANGES {
        for n in 1..REQUESTS_MAX {
            let ram = fork(ram);
            let fs = mounted(&ram);
            let ended = rt::foreign(|| rt::with_local(Left(Cell::new(n)), || change(&*fs)));
            if let Ok(done) = ended {
                done.expect("nothing is in its way");
                fs.unmount().expect("unmounts");
                break;
            }
            panics += 1;
            let root = fs.root();
            for (what, answer) in [
                ("sync", fs.sync()),
                ("getattr", fs.getattr(root).map(drop)),
                ("mkdir", fs.make_dir(root, "later").map(drop)),
                ("unmount", fs.unmount()),
            ] {
                let answer = answer.map_err(|e| e.errno());
                assert_eq!(answer, Err(Errno::Io), "{what} after request {n} of {name}");
            }
            drop(fs);
            let fs = mounted(&ram);
            assert!(read_tree(&*fs, 100) == before, "request {n} of {name}");
            fs.unmount().expect("unmounts");
            judge(&ram);
        }
    }
    panics
}
