//! One image for several processes: the one that mounted it serves the others over a socket
//! (sqlite-ext-E6).
//!
//! ```text
//! process that mounted              another process
//!   listener, one task a client  <----  Session (one a process and image)
//!   SqliteFile: files, locks             RemoteFile: each call is a message and its answer
//!   WAL index in shared memory   ====    the same memory, mapped
//! ```
//!
//! - The messages of one process go through one socket, in their order ([`client`]). So when the
//!   process is killed, all that it had asked for is done before its files are closed and its
//!   locks free, as with a kernel's locks. With two sockets, a write on one could follow the end of
//!   a lock on the other.
//! - Who may open the image for writing may speak: the first message carries a descriptor that
//!   shows it ([`server`]). Nothing else is taken from a client on trust.
//! - The client wants to know whom it asks: the user of the server is its own, the owner of the
//!   image, or root.
//! - A process that mounted and ends takes the connections of the others with it: each call of
//!   theirs is an error, and the first that opens the image again mounts it, as after a cut of
//!   power.

mod client;
mod gone;
mod remote;
mod served;
mod server;
mod wire;

pub use client::{ENDED, Session, connect, why_protected};
pub use gone::wait as wait_for_gone;
pub use remote::{delete, exists, open};
pub use server::Listener;
