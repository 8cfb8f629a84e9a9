//! Writes of 4 KiB a second through vhost-user and through NBD, one at a time and many at once, to
//! a device in memory, beside the same writes made directly: what the way to the device costs.
//! Prints a table; asserts no time.
#![allow(clippy::disallowed_macros)]

#[path = "../tests/it/frontend.rs"]
#[allow(dead_code)]
mod frontend;

use base::{Bytes, Lba};
use blockdev::Ram;
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
    let direct = rate(|| {
        let served = served();
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
    println!("directly: {direct:.0} writes of 4 KiB a second");
    for deep in [1, DEEP] {
        let vhost = by_vhost(deep);
        let nbd = by_nbd(deep);
        println!(
            "{deep} at once: vhost-user {vhost:.0}/s ({:.3} of direct), NBD {nbd:.0}/s ({:.3}), vhost-user / NBD {:.2}",
            vhost / direct,
            nbd / direct,
            vhost / nbd
        );
    }
}

fn served() -> Arc<Served> {
    let ram = Ram::new(BLOCKS * 4096);
    Arc::new(Served::new(Arc::new(ram)).expect("an event"))
}

fn rate(run: impl FnOnce()) -> f64 {
    let from = rt::now();
    run();
    WRITES as f64 / ((rt::now() - from).0 as f64 / 1e9)
}

fn by_vhost(deep: u64) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let server = vhost::Server::bind(&socket).expect("a socket");
    let served = served();
    let serving = served.clone();
    let thread = rt::spawn("server", move || {
        server.run(&serving, &vhost::Options::default(), &mut |why| {
            panic!("{why}")
        })
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
    thread.join().expect("the server").expect("serves");
    done
}

fn by_nbd(deep: u64) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let server = nbd::Server::bind(&nbd::Address::Unix(socket.clone())).expect("a socket");
    let served = served();
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
