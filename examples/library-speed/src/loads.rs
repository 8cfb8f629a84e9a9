//! What is measured. The loads run in their order, each on what the ones before have left.

use crate::sides::Side;
use std::time::{Duration, Instant};

/// How much.
pub struct Amount {
    /// Files that are made, removed, looked up, and writes of 4 KiB.
    pub files: u64,
    /// Bytes of the large file.
    pub bytes: u64,
}

/// A load and its name.
pub struct Load {
    pub name: &'static str,
    /// The volume is mounted anew before it, so that no cache has anything: none of a library, and
    /// not the host's.
    pub fresh: bool,
    pub run: fn(&dyn Side, &Amount) -> Result<Duration, String>,
}

const CHUNK: usize = 1 << 20;
const BLOCK: usize = 4096;
/// How often each file is looked up.
const LOOKS: u64 = 10;

pub const LOADS: [Load; 10] = [
    Load {
        name: "create",
        fresh: false,
        run: |side, amount| {
            side.mkdir("/d")?;
            timed(|| each(amount, |n| side.create(&path("a", n), false)))
        },
    },
    Load {
        name: "create, durable each",
        fresh: false,
        run: |side, amount| timed(|| each(amount, |n| side.create(&path("b", n), true))),
    },
    Load {
        name: "lookup",
        fresh: false,
        run: |side, amount| {
            timed(|| {
                each(amount, |n| {
                    (0..LOOKS).try_for_each(|_| side.look_up(&path("a", n)).map(drop))
                })
            })
        },
    },
    Load {
        name: "unlink",
        fresh: false,
        run: |side, amount| timed(|| each(amount, |n| side.unlink(&path("a", n), false))),
    },
    Load {
        name: "unlink, durable each",
        fresh: false,
        run: |side, amount| timed(|| each(amount, |n| side.unlink(&path("b", n), true))),
    },
    Load {
        name: "sequential write and sync",
        fresh: false,
        run: |side, amount| {
            let chunk = content(CHUNK);
            timed(|| {
                let file = side.open("/large")?;
                for at in (0..amount.bytes).step_by(CHUNK) {
                    file.write(at, &chunk)?;
                }
                file.sync()?;
                file.close()
            })
        },
    },
    Load {
        name: "sequential read of what is cached",
        fresh: false,
        run: read,
    },
    Load {
        name: "sequential read after a mount",
        fresh: true,
        run: read,
    },
    Load {
        name: "4 KiB write over, and sync",
        fresh: false,
        run: |side, amount| {
            let block = content(BLOCK);
            timed(|| {
                let file = side.open("/large")?;
                each(amount, |n| {
                    // A prime number of blocks apart, so that the writes are not in order.
                    let at = n * 7919 * BLOCK as u64 % amount.bytes;
                    file.write(at, &block)?;
                    file.sync()
                })?;
                file.close()
            })
        },
    },
    Load {
        name: "4 KiB append, and sync",
        fresh: false,
        run: |side, amount| {
            let block = content(BLOCK);
            timed(|| {
                let file = side.open("/log")?;
                each(amount, |n| {
                    file.write(n * BLOCK as u64, &block)?;
                    file.sync()
                })?;
                file.close()
            })
        },
    },
];

fn read(side: &dyn Side, amount: &Amount) -> Result<Duration, String> {
    let (expected, mut chunk) = (content(CHUNK), vec![0; CHUNK]);
    timed(|| {
        let file = side.open("/large")?;
        for at in (0..amount.bytes).step_by(CHUNK) {
            if file.read(at, &mut chunk)? != CHUNK || chunk != expected {
                return Err(format!("other content at {at}"));
            }
        }
        file.close()
    })
}

/// The time that `f` takes.
fn timed(f: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let start = Instant::now();
    f()?;
    Ok(start.elapsed())
}

fn each(amount: &Amount, f: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
    (0..amount.files).try_for_each(f)
}

fn path(kind: &str, n: u64) -> String {
    format!("/d/{kind}{n}")
}

/// Bytes that no device can leave out.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 + n / 251) as u8).collect()
}
