//! What listening sockets have in common.

use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at a path. A socket that is left behind, at which nobody listens, is replaced.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let bound = UnixListener::bind(path);
    let listener = match bound {
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                _ => return Err(e),
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether an error of `accept` concerns only the client that is gone.
pub fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
    )
}
