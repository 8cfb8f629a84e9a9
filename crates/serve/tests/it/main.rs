//! Clients of the served device: Linux in a guest, tools of others, and clients of our own that
//! send what no honest one does.

mod bounds;
mod cuts;
mod device;
mod file;
mod frontend;
mod fuzz;
mod guards;
mod homes;
mod jftl;
mod kernel;
mod killed;
mod nbd;
mod nbd_bounds;
mod served;
mod sockets;
mod vhost;
mod virtio;

/// The entry of this program where it runs inside of a guest.
#[test]
fn in_the_guest() {
    guest::hook();
}
