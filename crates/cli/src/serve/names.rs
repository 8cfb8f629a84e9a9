//! Names of devices, sockets and folders in what the server says: a name may hold what drives a
//! terminal or forges a line.

use base::plain;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path, as one that is safe to show.
pub fn shown(path: &Path) -> String {
    plain::shown(path.as_os_str().as_bytes())
}

/// An error or an address with names in it, as one line.
pub fn line(what: &impl Display) -> String {
    plain::line(&what.to_string())
}
