//! The side that asks: one connection of this process to the one that mounted an image.

use super::wire::{self, Head, Link, MAGIC, Message, NAMES, VERSION};
use crate::api::Api;
use crate::images::Refusal;
use crate::said;
use rt::Mutex;
use rustix::fd::AsFd;
use rustix::io::Errno;
use sqlite_vfs::ffi;
use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a server may take to answer the first message, seconds: it may be recovering the image.
const PATIENCE: i64 = 60;

/// What is to be done when the other process is gone.
pub const ENDED: &str = "the process that had it mounted has ended; close all connections of this \
                         process to it, then open them again";

/// Why a process that may only read an image cannot share it.
const PROTECTED: &str = "is in use by a process that serves only those who may write it, and this \
                         one may only read it: wait for the other one, or ask for the right to write";

/// An image that another process serves to this one.
pub struct Session {
    api: Api,
    image: PathBuf,
    file: (u64, u64),
    process: u32,
    link: Mutex<Link>,
    /// False once the other process is gone.
    alive: AtomicBool,
}

impl Session {
    /// Whether it was opened by this path, or leads to the file with this device and number.
    pub fn is_of(&self, image: &Path, file: Option<(u64, u64)>) -> bool {
        self.image == image || self.leads_to(file)
    }

    /// Whether it leads to the file with this device and number.
    pub fn leads_to(&self, file: Option<(u64, u64)>) -> bool {
        file == Some(self.file)
    }

    /// Whether this process forked from the one that connected.
    pub fn is_of_another_process(&self) -> bool {
        self.process != sqlite_vfs::this_process()
    }

    /// Whether the other process is there, as far as is known.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    pub fn api(&self) -> Api {
        self.api
    }

    /// Asks, and waits for the answer. `None`: there is none, and that was told.
    pub fn ask(&self, head: Head, data: &[u8]) -> Option<Message> {
        if !self.is_alive() {
            return None;
        }
        let answer = {
            let mut link = self.link.lock();
            let asked = link.send(head, data, None);
            asked.and_then(|()| link.receive(None))
        };
        let (answer, why) = match answer {
            Ok(answer) => (answer, None),
            Err(e) => (None, Some(e)),
        };
        if answer.is_none() && self.alive.swap(false, Ordering::AcqRel) {
            let why = why
                .filter(|e| e.raw_os_error().is_none())
                .map(|e| e.to_string());
            let why = why.map_or_else(String::new, |e| format!("{e}; "));
            let text = format!("{}: {why}{ENDED}", self.image.display());
            let errno = Errno::PIPE.raw_os_error();
            said::say(self.api, ffi::SQLITE_IOERR, errno, &text);
        }
        answer
    }

    /// As [`ask`](Session::ask): SQLite's code, with the answer where there is one. What failed
    /// over there is told here.
    pub fn call(&self, head: Head, data: &[u8]) -> (c_int, Option<Message>) {
        let Some(answer) = self.ask(head, data) else {
            return (ffi::SQLITE_IOERR, None);
        };
        let code = answer.head.what as c_int;
        let is_good = matches!(code, ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ);
        if !is_good && !answer.data.is_empty() {
            let text = String::from_utf8_lossy(&answer.data);
            said::say(self.api, code, answer.head.which as c_int, &text);
        }
        (code, Some(answer))
    }
}

/// A process that forked from this one holds the socket, too, and would keep the image in use.
impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_of_another_process() {
            self.link.lock().end();
        }
    }
}

/// Connects to the process that serves `image`. `None`: nobody does.
///
/// # Errors
/// Whoever serves it refuses, or cannot be trusted.
pub fn connect(api: Api, image: &Path) -> Result<Option<Arc<Session>>, Refusal> {
    let refused = |why: String| Refusal {
        code: ffi::SQLITE_BUSY,
        errno: Errno::BUSY.raw_os_error(),
        text: format!("{}: {why}", image.display()),
        is_in_use: false,
    };
    // What shows the server that this process may write.
    let Ok(own) = File::options().read(true).write(true).open(image) else {
        return Ok(None);
    };
    let Ok(meta) = own.metadata() else {
        return Ok(None);
    };
    let file = (meta.dev(), meta.ino());
    // Anybody may take a name, so who cannot be trusted is no reason to ask nobody else.
    let mut distrusted = None;
    for try_ in 0..NAMES {
        let Some(mut link) = linked(file, try_) else {
            continue;
        };
        let user = link.peer().user;
        if ![0, meta.uid(), rustix::process::geteuid().as_raw()].contains(&user) {
            let why = format!("is in use, and user {user}, who is not its owner, answers for it");
            distrusted = Some(refused(why));
            continue;
        }
        let hello = Head {
            what: MAGIC,
            which: VERSION,
            a: file.0,
            b: file.1,
        };
        let sent = link.send(hello, b"", Some(own.as_fd()));
        let answer = sent.and_then(|()| link.receive(Some(PATIENCE)));
        match answer {
            Ok(Some(welcome)) if welcome.head.what == ffi::SQLITE_OK as u32 => {
                return Ok(Some(Arc::new(Session {
                    api,
                    image: image.into(),
                    file,
                    process: sqlite_vfs::this_process(),
                    link: Mutex::named("sqlite-ext session", link),
                    alive: AtomicBool::new(true),
                })));
            }
            Ok(Some(no)) => return Err(refused(String::from_utf8_lossy(&no.data).into_owned())),
            // It has just unmounted.
            Ok(None) => {}
            Err(e) => return Err(refused(format!("the process that has it mounted: {e}"))),
        }
    }
    distrusted.map_or(Ok(None), Err)
}

/// Why this process cannot share an image that is in use, if it is because it may only read it.
pub fn why_protected(image: &Path) -> Option<Refusal> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let e = File::options().read(true).write(true).open(image).err()?;
    matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem).then(|| Refusal {
        code: ffi::SQLITE_BUSY,
        errno: e.raw_os_error().unwrap_or_default(),
        text: format!("{}: {PROTECTED} ({e})", image.display()),
        is_in_use: false,
    })
}

/// `None`: nobody answers to the name, or so many wait there that there is no place for one more.
fn linked(file: (u64, u64), try_: u32) -> Option<Link> {
    let socket = wire::socket().ok()?;
    let address = wire::address(file, try_).ok()?;
    // A connection that may block waits for ever at a process that is stopped.
    rustix::io::ioctl_fionbio(&socket, true).ok()?;
    rustix::net::connect(&socket, &address).ok()?;
    rustix::io::ioctl_fionbio(&socket, false).ok()?;
    Link::new(socket).ok()
}
