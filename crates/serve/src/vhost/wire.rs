//! Bytes and file descriptors over the Unix socket.

use super::message::{HEAD, Head, REGIONS_MAX};
use crate::Served;
use crate::socket::{self, Close, wait};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
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
        wait(stream.as_fd(), served, PollFlags::IN)?;
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

/// Sends an answer, and the descriptor that goes with its first byte.
pub fn send(
    stream: &UnixStream,
    served: &Served,
    mut bytes: &[u8],
    file: Option<OwnedFd>,
) -> Result<(), Close> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    while let (Some(file), false) = (&file, bytes.is_empty()) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let fds = [file.as_fd()];
        if !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Close::broken("no room for a descriptor beside an answer"));
        }
        match sendmsg(stream, &[IoSlice::new(bytes)], &mut beside, flags) {
            Ok(sent) => {
                bytes = &bytes[sent..];
                break;
            }
            Err(Errno::AGAIN) => wait(stream.as_fd(), served, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Close::ByClient),
        }
    }
    socket::send(stream.as_fd(), served, None, bytes)
}
