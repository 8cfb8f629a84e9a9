//! What the sockets of all protocols have in common.

use crate::Served;
use base::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send as send_some};
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Why a connection ends.
#[derive(Debug)]
pub enum Close {
    /// The client is gone.
    ByClient,
    /// The server ends.
    ByServer,
    /// The client broke the protocol, or the host failed, as the text says.
    Broken(String),
}

impl Close {
    /// The client broke the protocol.
    pub fn broken(why: impl Into<String>) -> Close {
        Close::Broken(why.into())
    }
}

/// A socket that has a name among the files of the host.
pub struct Named {
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and number of the inode.
    inode: (u64, u64),
}

impl Named {
    /// Listens at a path. A socket that is left behind, at which nobody listens, is replaced;
    /// whatever else stands there is not touched.
    pub fn bind(path: &Path) -> io::Result<Named> {
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                clear_away(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        listener.set_nonblocking(true)?;
        let inode = inode_of(&path.symlink_metadata()?);
        Ok(Named {
            listener,
            path: path.to_path_buf(),
            inode,
        })
    }

    /// Removes the name, unless it stands for something else by then.
    pub fn remove(&self) {
        let found = self.path.symlink_metadata();
        if found.is_ok_and(|found| inode_of(&found) == self.inode) {
            // Somebody else removed it meanwhile, or the folder is gone.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode_of(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Removes a socket at which nobody listens.
fn clear_away(path: &Path) -> io::Result<()> {
    // To connect to a file of another kind is refused as well, and it follows links.
    let kind = path.symlink_metadata()?.file_type();
    if !kind.is_socket() {
        let kind = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => "a symbolic link",
            (_, true) => "a folder",
            _ => "a file",
        };
        let why = format!("there is {kind} already, which is left alone: name a path that is free");
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "somebody listens there already",
        )),
    }
}

/// The next client of a listener that does not block; none at the end.
pub fn next_client<T>(
    listener: BorrowedFd<'_>,
    served: &Served,
    accept: impl Fn() -> io::Result<T>,
) -> io::Result<Option<T>> {
    loop {
        match wait(listener, served, PollFlags::IN) {
            Ok(()) => {}
            Err(Close::Broken(why)) => return Err(io::Error::other(why)),
            Err(Close::ByServer | Close::ByClient) => return Ok(None),
        }
        match accept() {
            Ok(client) => return Ok(Some(client)),
            // It went before it was let in.
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
    )
}

/// Sends bytes. A client that reads nothing is waited for until it goes, the server ends, or that
/// time has come.
pub fn send(
    stream: BorrowedFd<'_>,
    served: &Served,
    until: Option<Time>,
    mut bytes: &[u8],
) -> Result<(), Close> {
    while !bytes.is_empty() {
        match send_some(stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => wait_until(stream, served, PollFlags::OUT, until)?,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Close::ByClient),
        }
    }
    Ok(())
}

/// Waits for a socket, or for the end.
pub fn wait(stream: BorrowedFd<'_>, served: &Served, what: PollFlags) -> Result<(), Close> {
    wait_until(stream, served, what, None)
}

/// Waits for a socket, for the end, or until that time of `rt`'s clock, which is the client's
/// fault.
pub fn wait_until(
    stream: BorrowedFd<'_>,
    served: &Served,
    what: PollFlags,
    until: Option<Time>,
) -> Result<(), Close> {
    let end = served.end_fd();
    let mut fds = [
        PollFd::from_borrowed_fd(stream, what),
        PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN),
    ];
    loop {
        let left = until.map(|until| {
            let nanos = until.0.saturating_sub(rt::now().0);
            Timespec {
                tv_sec: (nanos / SECOND) as i64,
                tv_nsec: (nanos % SECOND) as _,
            }
        });
        match poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(Close::broken(format!("waiting for the client: {e}"))),
            Ok(_) if !fds[1].revents().is_empty() => return Err(Close::ByServer),
            Ok(0) => return Err(Close::broken("it has kept us waiting too long")),
            Ok(_) => return Ok(()),
        }
    }
}
