//! A device that keeps what it was asked, and takes its time if a test wants that.

use base::{Bytes, Lba, Time};
use blockdev::{BlockDevice, Caps, DevError, Op, Ram, Reply, Request, Ticket};
use rt::Mutex;
use std::sync::Arc;
use varve_serve::{Served, nbd, vhost};

pub const BYTES: u64 = 8 << 20;

/// What a device saw, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    Read(u64, u64),
    Write(u64, u64, bool),
    Flush,
    Discard(u64, u64),
    /// The completion of the command with this number, counted from 0.
    Done(u64),
}

/// A device in memory, behind caps of the test's choice.
pub struct Spy {
    ram: Ram,
    pub caps: Caps,
    seen: Mutex<Vec<Seen>>,
    /// The time at which commands are complete, if not at once.
    pub until: Mutex<Option<Time>>,
}

impl Spy {
    /// With a volatile cache, and FUA or none.
    pub fn new(fua: bool) -> Arc<Spy> {
        let ram = Ram::new(BYTES);
        let caps = Caps {
            volatile_cache: true,
            fua,
            max_transfer_sectors: 64,
            ..ram.caps()
        };
        Arc::new(Spy {
            ram,
            caps,
            seen: Mutex::named("seen", Vec::new()),
            until: Mutex::named("until", None),
        })
    }

    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock())
    }

    pub fn at(&self, sector: u64, sectors: u64) -> Bytes {
        let ticket = self.ram.submit(Request::read(Lba(sector), sectors));
        self.ram.wait(ticket).unwrap().into_bytes()
    }
}

impl BlockDevice for Spy {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let span = request.span();
        let (lba, sectors) = span.map_or((0, 0), |(lba, n)| (lba.0, n));
        self.seen.lock().push(match &request.op {
            Op::Read { .. } => Seen::Read(lba, sectors),
            Op::Write { fua, .. } => Seen::Write(lba, sectors, *fua),
            Op::Flush => Seen::Flush,
            Op::Discard { .. } => Seen::Discard(lba, sectors),
            other => panic!("{other:?}"),
        });
        self.ram.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        if let Some(until) = *self.until.lock() {
            rt::sleep_until(until);
        }
        self.seen.lock().push(Seen::Done(ticket.0));
        self.ram.wait(ticket)
    }
    fn due(&self, _: Ticket) -> Option<Time> {
        *self.until.lock()
    }
}

/// Serves a device by vhost-user while `client` runs; what the server told.
pub fn by_vhost(served: Served, client: impl FnOnce(&std::path::Path)) -> Vec<String> {
    by_vhost_with(served, &vhost::Options::default(), client)
}

/// The same with options.
pub fn by_vhost_with(
    served: Served,
    options: &vhost::Options,
    client: impl FnOnce(&std::path::Path),
) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = vhost::Server::bind(&socket).unwrap();
    let served = Arc::new(served);
    let (serving, options) = (served.clone(), options.clone());
    let thread = rt::spawn("server", move || {
        let mut told = Vec::new();
        let tell = &mut |why: &str| told.push(why.to_string());
        server.run(&serving, &options, tell).unwrap();
        told
    });
    client(&socket);
    served.end();
    let told = thread.join().expect("the server does not panic");
    assert!(!socket.exists(), "the socket is removed");
    told
}

/// Serves a device by NBD at a Unix socket while `client` runs; what the server told.
pub fn by_nbd(
    served: Served,
    options: nbd::Options,
    client: impl FnOnce(&std::path::Path),
) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = nbd::Server::bind(&nbd::Address::Unix(socket.clone())).unwrap();
    let served = Arc::new(served);
    let serving = served.clone();
    let told = Arc::new(Mutex::named("told", Vec::new()));
    let telling = told.clone();
    let thread = rt::spawn("server", move || {
        let tell = move |why: &str| telling.lock().push(why.to_string());
        server.run(&serving, &options, tell).unwrap();
    });
    client(&socket);
    served.end();
    thread.join().expect("the server does not panic");
    std::mem::take(&mut *told.lock())
}
