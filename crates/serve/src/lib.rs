//! One block device served to others, so that unmodified kernels and tools use it.
//!
//! ```text
//! vhost (QEMU, User Mode Linux) --.
//! nbd   (kernel, qemu-img, libnbd)-+--> Served --> BlockDevice: model, image file, recorder
//! ```
//!
//! - [`Served`] is the device with the semantics that all protocols share: what is durable when,
//!   and when the power goes.
//! - [`mod@file`] is a directory with the device as its only file, for FUSE.
//! - [`nbd`] is the network block device, over TCP or a Unix socket.
//! - [`vhost`] is a `virtio-blk` device over a Unix socket and shared memory (vhost-user).
//! - [`Homes`] counts what a device that remaps by itself does with the home writes of an ext4.
//!
//! Whoever connects is not trusted: any message, descriptor or guest memory leads to an error
//! status or to the end of that connection with a reason, never to a panic or to an access outside
//! of the device and of the memory that the client shared.

pub mod file;
mod homes;
pub mod nbd;
mod served;
mod socket;
pub mod vhost;

pub use homes::{HomeWrites, Homes};
pub use served::{Command, Pending, Served, Traffic};
