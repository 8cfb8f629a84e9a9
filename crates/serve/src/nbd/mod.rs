//! The network block device: the fixed newstyle of the protocol (its document `proto` of the
//! NBD project), over TCP or a Unix socket, for any number of clients at once.
//!
//! A flush covers what was answered on every connection (served-S1), so a client may use several
//! (`CAN_MULTI_CONN`).

mod address;
mod hello;
mod request;
mod server;
mod transmit;

pub use address::Address;
pub use server::{Options, Server};
