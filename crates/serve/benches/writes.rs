//! Writes of 4 KiB a second through vhost-user and through NBD, one at a time and many at once, to
//! a device in memory and to an image file, beside the same writes made directly: what the way to
//! the device costs. The client of vhost-user is in this process and shares its memory, so no guest
//! makes it slow; the processor time of the server's thread tells how many writes the server alone
//! could do. Prints a table; asserts no time.
#![allow(clippy::disallowed_macros)]

#[path = "../tests/it/frontend.rs"]
#[allow(dead_code)]
mod frontend;

use base::{Bytes, Lba};
use blockdev::{BlockDevice, HostFile, HostOptions, Ram};
use frontend::{BUFFERS, Desc, Frontend, NEXT, WRITE};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use varve_serve::{Command, Served, nbd, vhost};

const BLOCKS: u64 = 4096;
const WRITES: u64 = 20_000;
/// Writes that a client has under way in the second row.
const DEEP: u64 = 16;

fn main() {
    for on in [On::Memory, On::File] {
        compared(on);
    }
}

/// Where the writes go.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Memory,
    /// An image in the page cache of this machine.
    File,
}

/// A device, and the folder that it is in.
struct Disk {
    served: Arc<Served>,
    folder: tempfile::TempDir,
}

fn compared(on: On) {
    let direct = rate(|| {
        let Disk {
            served,
            folder: _folder,
        } = disk(on);
        for n in 0..WRITES {
            let bytes = Bytes::from(vec![n as u8; 4096]);
            let lba = Lba(8 * (n % BLOCKS));
            let write = Command::Write {
                lba,
                bytes,
                fua: false,
            };
            served.run(write).expect("a write");
        }
    });
    let place = match on {
        On::Memory => "in memory",
        On::File => "in a file",
    };
    println!("{place}, directly: {direct:.0} writes of 4 KiB a second");
    for deep in [1, DEEP] {
        let (vhost, alone) = by_vhost(on, deep);
        let nbd = by_nbd(on, deep);
        println!(
            "{place}, {deep} at once: vhost-user {vhost:.0}/s ({:.3} of direct), NBD {nbd:.0}/s ({:.3}), vhost-user / NBD {:.2}; \
             by its processor time the server of vhost-user does {alone:.0}/s",
            vhost / direct,
            nbd / direct,
            vhost / nbd
        );
    }
}

fn disk(on: On) -> Disk {
    let folder = tempfile::tempdir().expect("a folder");
    let device: Arc<dyn BlockDevice> = match on {
        On::Memory => Arc::new(Ram::new(BLOCKS * 4096)),
        On::File => {
            let path = folder.path().join("image");
            // Written and not sparse, as a disk that is in use.
            std::fs::write(&path, vec![1; BLOCKS as usize * 4096]).expect("an image");
            let options = HostOptions {
                write: true,
                ..HostOptions::default()
            };
            Arc::new(HostFile::open(&path, &options).expect("an image"))
        }
    };
    let served = Arc::new(Served::new(device).expect("an event"));
    Disk { served, folder }
}

/// Processor time of this thread.
fn processor() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn rate(run: impl FnOnce()) -> f64 {
    let from = rt::now();
    run();
    WRITES as f64 / ((rt::now() - from).0 as f64 / 1e9)
}

/// Writes a second, and those that the server's processor time would be enough for.
fn by_vhost(on: On, deep: u64) -> (f64, f64) {
    let Disk { served, folder } = disk(on);
    let socket = folder.path().join("socket");
    let server = vhost::Server::bind(&socket).expect("a socket");
    let serving = served.clone();
    let thread = rt::spawn("server", move || {
        let from = processor();
        let done = server.run(&serving, &vhost::Options::default(), &mut |why| {
            panic!("{why}")
        });
        done.map(|()| processor() - from)
    });
    let mut client = Frontend::ready(&socket, 1 << 9);
    // Each of the writes under way has three descriptors, a head and a status of its own.
    for n in 0..deep {
        let at = BUFFERS + n * 0x2000;
        let parts = [
            (at, 16, NEXT),
            (at + 0x1000, 4096, NEXT),
            (at + 0x800, 1, WRITE),
        ];
        for (k, (at, len, flags)) in (3 * n..).zip(parts) {
            let next = k as u16 + 1;
            client.put(
                16 * k,
                &Desc {
                    at,
                    len,
                    flags,
                    next,
                }
                .bytes(),
            );
        }
        client.put(at, &1u32.to_le_bytes());
    }
    let done = rate(|| {
        for round in 0..WRITES / deep {
            for n in 0..deep {
                let block = (round * deep + n) % BLOCKS;
                client.put(BUFFERS + n * 0x2000 + 8, &(8 * block).to_le_bytes());
                client.offer(&[], 3 * n as u16);
            }
            for _ in 0..deep {
                client.used().expect("an answer");
            }
        }
    });
    assert_eq!(
        (served.traffic().writes, served.traffic().failed),
        (WRITES, 0)
    );
    served.end();
    let took = thread.join().expect("the server").expect("serves");
    (done, WRITES as f64 / took)
}

fn by_nbd(on: On, deep: u64) -> f64 {
    let Disk { served, folder } = disk(on);
    let socket = folder.path().join("socket");
    let server = nbd::Server::bind(&nbd::Address::Unix(socket.clone())).expect("a socket");
    let serving = served.clone();
    let thread = rt::spawn("server", move || {
        server.run(&serving, &nbd::Options::default(), |why| panic!("{why}"))
    });
    let done = writes_by_nbd(&socket, deep);
    assert_eq!(
        (served.traffic().writes, served.traffic().failed),
        (WRITES, 0)
    );
    served.end();
    thread.join().expect("the server").expect("serves");
    done
}

fn writes_by_nbd(socket: &Path, deep: u64) -> f64 {
    let mut stream = UnixStream::connect(socket).expect("connects");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    let option = [
        &3u32.to_be_bytes()[..],
        b"IHAVEOPT",
        &1u32.to_be_bytes(),
        &[0; 4],
    ];
    stream.write_all(&option.concat()).expect("an option");
    stream.read_exact(&mut [0; 10]).expect("an export");
    rate(|| {
        for round in 0..WRITES / deep {
            for n in 0..deep {
                let block = (round * deep + n) % BLOCKS;
                let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
                bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend_from_slice(&(4096 * block).to_be_bytes());
                bytes.extend_from_slice(&4096u32.to_be_bytes());
                bytes.resize(28 + 4096, 7);
                stream.write_all(&bytes).expect("a request");
            }
            for _ in 0..deep {
                stream.read_exact(&mut [0; 16]).expect("an answer");
            }
        }
    })
}
