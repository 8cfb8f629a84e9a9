//! The side that serves: a listener for each image that this process has mounted, and a task for
//! each process that connects.

use super::gone;
use super::served::Served;
use super::wire::{self, Head, Link, MAGIC, Message, NAMES, VERSION};
use crate::api::Api;
use crate::images;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, bind, listen, shutdown};
use sqlite_vfs::ffi;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that wait to be served.
const BACKLOG: i32 = 64;
/// Most processes that are served at once.
const CLIENTS_MAX: usize = 128;
/// How long a process that has connected may take to say what it wants, seconds.
const PATIENCE: i64 = 1;
/// Most connections that have not shown yet that they may write: anybody may connect, and each
/// takes a thread and a few descriptors of this process.
const UNPROVEN_MAX: usize = 32;
/// Descriptors have run out: somebody may close one soon.
const PAUSE: base::Nanos = base::Nanos::from_millis(10);

/// A socket for other processes that open an image. It says no word before [`Listener::start`].
pub struct Listener {
    socket: Arc<OwnedFd>,
    file: (u64, u64),
    process: u32,
}

impl Listener {
    /// Listens for the image with this device and number. `None`: the image is not shared, because
    /// the system has no such sockets.
    pub fn new(file: (u64, u64)) -> Option<Listener> {
        let bound = |try_| -> io::Result<OwnedFd> {
            let socket = wire::socket()?;
            bind(&socket, &wire::address(file, try_)?)?;
            listen(&socket, BACKLOG)?;
            Ok(socket)
        };
        let socket = (0..NAMES).find_map(|try_| bound(try_).ok())?;
        Some(Listener {
            socket: Arc::new(socket),
            file,
            process: sqlite_vfs::this_process(),
        })
    }

    /// Serves whoever connects, until the end.
    pub fn start(&self, api: Api) {
        let ending = Ending(Arc::clone(&self.socket));
        let file = self.file;
        // Without a thread nobody is served, and the socket ends with what it was to run.
        let started = rt::try_spawn("sqlite-ext listener", move || serve(api, &ending.0, file));
        drop(started);
    }
}

/// Lets nobody in any more, also where a process that forked holds a copy of the socket. The fork
/// itself ends nothing: the socket serves the process that it forked from.
impl Drop for Listener {
    fn drop(&mut self) {
        if self.process == sqlite_vfs::this_process() {
            let _ = shutdown(&*self.socket, Shutdown::Both);
        }
    }
}

/// Ends a socket that nobody serves: who connects to it would wait in vain.
struct Ending(Arc<OwnedFd>);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = shutdown(&*self.0, Shutdown::Both);
    }
}

/// One of a limited number, given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// `None`: all of `most` are taken.
    fn of(taken: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let one_more = |n: usize| (n < most).then_some(n + 1);
        let took = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        took.is_ok().then(|| Place(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(api: Api, socket: &OwnedFd, file: (u64, u64)) {
    let (unproven, clients) = (Arc::default(), Arc::default());
    loop {
        match accept_with(socket, SocketFlags::CLOEXEC) {
            Ok(client) => {
                // Without a place or a thread the socket is dropped, and the client hears that.
                let Some(place) = Place::of(&unproven, UNPROVEN_MAX) else {
                    continue;
                };
                let clients = Arc::clone(&clients);
                let started = rt::try_spawn("sqlite-ext client", move || {
                    if let Ok(link) = Link::new(client) {
                        // What panics is within a call, and is answered.
                        let _ = rt::foreign(|| attend(api, link, file, place, &clients));
                    }
                });
                drop(started);
            }
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            // The listener has ended.
            Err(Errno::INVAL | Errno::BADF) => return,
            // Descriptors or memory have run out.
            Err(_) => rt::sleep(PAUSE),
        }
    }
}

/// Serves one process, until it is gone.
fn attend(api: Api, mut link: Link, file: (u64, u64), unproven: Place, clients: &Arc<AtomicUsize>) {
    let Ok(Some(hello)) = link.receive(Some(PATIENCE)) else {
        return;
    };
    let objection = objection(&hello, file);
    // Places are for those who may write the image.
    let place = match objection {
        None => Place::of(clients, CLIENTS_MAX),
        Some(_) => None,
    };
    if place.is_none() {
        let many = || format!("is in use by {CLIENTS_MAX} processes, which is the most");
        let why = objection.unwrap_or_else(many);
        let no = Head {
            what: ffi::SQLITE_BUSY as u32,
            ..Head::default()
        };
        let _ = link.send(no, why.as_bytes(), None);
        return;
    }
    drop((hello, unproven));
    // One that is not there has just been unmounted: the client tries to mount it.
    let Some(mount) = images::join(file) else {
        return;
    };
    let number = gone::enter(link.life());
    let mut served = Served::new(api, Arc::clone(&mount));
    let mut answered = link.send(Head::default(), b"", None);
    while answered.is_ok() {
        let Ok(Some(question)) = link.receive(None) else {
            break;
        };
        let answer = served.answer(&question);
        answered = link.send(
            answer.head,
            &answer.data,
            answer.descriptor.as_ref().map(rustix::fd::AsFd::as_fd),
        );
    }
    // All that it had asked for is done: only now its locks are free.
    served.close_all();
    gone::leave(number);
    images::release(&mount);
}

/// Why a client is not let in.
fn objection(hello: &Message, file: (u64, u64)) -> Option<String> {
    if hello.head.what != MAGIC || hello.head.which != VERSION {
        let version = hello.head.which;
        return Some(format!(
            "is in use by a process whose extension speaks version {VERSION}; this one speaks \
             version {version}: use the same extension in both"
        ));
    }
    let may_write = hello.descriptor.as_ref().is_some_and(|shown| {
        let is_same = fstat(shown).is_ok_and(|at| (at.st_dev, at.st_ino) == file);
        let mode = fcntl_getfl(shown).map(|flags| flags & OFlags::ACCMODE);
        is_same && mode == Ok(OFlags::RDWR)
    });
    match may_write {
        true => None,
        false => Some("is in use by a process that serves only those who may write it".into()),
    }
}
