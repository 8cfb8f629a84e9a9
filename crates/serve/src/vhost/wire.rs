//! Bytes and file descriptors over the Unix socket.

use super::Close;
use super::message::{HEAD, Head, REGIONS_MAX};
use crate::Served;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Receives a message: head, payload, and the descriptors that came with it.
pub fn receive(
    stream: &UnixStream,
    served: &Served,
) -> Result<(Head, Vec<u8>, Vec<OwnedFd>), Close> {
    let mut files = Vec::new();
    let mut head = [0; HEAD];
    fill(stream, served, &mut head, &mut files)?;
    let head = Head::parse(&head)?;
    let mut payload = vec![0; head.len];
    fill(stream, served, &mut payload, &mut files)?;
    Ok((head, payload, files))
}

/// Reads until `buf` is full. A client that sends half a message is waited for until it goes, or
/// until the server ends.
fn fill(
    stream: &UnixStream,
    served: &Served,
    mut buf: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> Result<(), Close> {
    while !buf.is_empty() {
        wait(stream, served, PollFlags::IN)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let read = match recvmsg(stream, &mut [IoSliceMut::new(buf)], &mut beside, flags) {
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(_) => return Err(Close::ByClient),
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                files.extend(more);
            }
        }
        if read.flags.contains(ReturnFlags::CTRUNC) || files.len() > REGIONS_MAX {
            return Err(Close::broken("too many descriptors beside a message"));
        }
        if read.bytes == 0 {
            return Err(Close::ByClient);
        }
        buf = &mut buf[read.bytes..];
    }
    Ok(())
}

/// Sends bytes. A client that reads nothing is waited for until it goes, or the server ends.
pub fn send(stream: &UnixStream, served: &Served, mut bytes: &[u8]) -> Result<(), Close> {
    while !bytes.is_empty() {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut nothing = SendAncillaryBuffer::default();
        match sendmsg(stream, &[IoSlice::new(bytes)], &mut nothing, flags) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => wait(stream, served, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Close::ByClient),
        }
    }
    Ok(())
}

/// Waits for the stream, or for the end.
fn wait(stream: &UnixStream, served: &Served, what: PollFlags) -> Result<(), Close> {
    let end = served.end_fd();
    let mut fds = [PollFd::new(stream, what), PollFd::new(&end, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(Close::broken(format!("waiting for the client: {e}"))),
            Ok(_) if !fds[1].revents().is_empty() => return Err(Close::ByServer),
            Ok(_) => return Ok(()),
        }
    }
}
