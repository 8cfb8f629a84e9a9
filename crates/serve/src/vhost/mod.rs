//! A `virtio-blk` device for another process: vhost-user over a Unix socket.
//!
//! The client (QEMU, User Mode Linux) sends descriptors of its memory and of events; the rings of
//! virtio lie in that memory. One thread serves a client, one client at a time; the next one, or
//! the same one again, is let in when all that the former had asked for is complete. A server that
//! was killed left what it had begun in its client's memory, and the next one goes on there
//! ([`inflight`]).

mod blk;
mod inflight;
mod memory;
mod message;

mod server;
mod session;
mod virtqueue;
mod wire;

pub use server::{Options, Server};
