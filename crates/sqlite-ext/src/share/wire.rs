//! Messages between processes: a head of fixed size, bytes behind it, at most one descriptor. A
//! socket of packets keeps their borders.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, recvmsg, sendmsg, shutdown, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The first words of a client.
pub const MAGIC: u32 = 0x5652_5653;
/// The version of the messages; both sides have to have the same.
pub const VERSION: u32 = 1;
/// Most bytes behind a head: a page of SQLite has at most as many, and so has a path.
pub const DATA_MAX: usize = 64 << 10;
const HEAD_BYTES: usize = 24;
/// Sockets of one image that are tried, because a name may be held by a process that forked from
/// one that used it.
pub const NAMES: u32 = 8;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ask {
    Open = 1,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    Size,
    Lock,
    Unlock,
    IsReserved,
    Control,
    TempName,
    Device,
    ShmMap,
    ShmLock,
    ShmUnmap,
    Delete,
    Exists,
}

impl Ask {
    pub fn of(number: u32) -> Option<Ask> {
        const ALL: [Ask; 18] = [
            Ask::Open,
            Ask::Close,
            Ask::Read,
            Ask::Write,
            Ask::Truncate,
            Ask::Sync,
            Ask::Size,
            Ask::Lock,
            Ask::Unlock,
            Ask::IsReserved,
            Ask::Control,
            Ask::TempName,
            Ask::Device,
            Ask::ShmMap,
            Ask::ShmLock,
            Ask::ShmUnmap,
            Ask::Delete,
            Ask::Exists,
        ];
        ALL.into_iter().find(|ask| *ask as u32 == number)
    }
}

/// The head of a message. In a question `what` is an [`Ask`] and `which` the number of a file; in
/// an answer they are SQLite's code and the number of the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    pub what: u32,
    pub which: u32,
    pub a: u64,
    pub b: u64,
}

impl Head {
    fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..4].copy_from_slice(&self.what.to_le_bytes());
        out[4..8].copy_from_slice(&self.which.to_le_bytes());
        out[8..16].copy_from_slice(&self.a.to_le_bytes());
        out[16..].copy_from_slice(&self.b.to_le_bytes());
        out
    }

    fn of(bytes: &[u8]) -> Head {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Head {
            what: word(0),
            which: word(4),
            a: long(8),
            b: long(16),
        }
    }
}

/// A message that has come.
#[derive(Debug)]
pub struct Message {
    pub head: Head,
    pub data: Vec<u8>,
    pub descriptor: Option<OwnedFd>,
}

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    pub user: u32,
    /// 0 if the process is not visible from here.
    pub process: i32,
}

/// One end of a connection.
pub struct Link {
    socket: OwnedFd,
    peer: Peer,
    /// Readable when the process at the other end has ended: a process that forked from it may
    /// still hold its socket open.
    life: Option<OwnedFd>,
    room: Vec<u8>,
}

/// A socket of packets.
///
/// # Errors
/// Those of socket(2).
pub fn socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// The name of a socket of the image with this device and number, in the name space of the kernel,
/// where nothing is left behind by a process that is killed.
///
/// # Errors
/// None, as the name is short.
pub fn address((device, number): (u64, u64), try_: u32) -> io::Result<SocketAddrUnix> {
    let name = format!("varve-sqlite-{device:x}-{number:x}-{try_}");
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

impl Link {
    /// Over a socket that is connected.
    ///
    /// # Errors
    /// The kernel does not say who is at the other end, or that process has ended.
    pub fn new(socket: OwnedFd) -> io::Result<Link> {
        let peer = peer(&socket)?;
        let life = match Pid::from_raw(peer.process).map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        {
            Some(Ok(life)) => Some(life),
            // A process that forked from it holds the socket, and nobody answers.
            Some(Err(Errno::SRCH)) => return Err(Errno::SRCH.into()),
            // Its end is not seen: it is not visible, or the kernel is old.
            Some(Err(_)) | None => None,
        };
        Ok(Link {
            socket,
            peer,
            life,
            room: vec![0; HEAD_BYTES + DATA_MAX],
        })
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// What is readable when the process at the other end has ended, if that can be seen.
    pub fn life(&self) -> Option<OwnedFd> {
        self.life.as_ref()?.try_clone().ok()
    }

    /// Ends the connection, also where a process that forked holds a copy of the socket.
    pub fn end(&self) {
        // It is gone if this fails.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends a message of at most [`DATA_MAX`] bytes.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(
        &mut self,
        head: Head,
        data: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let rights = descriptor.as_slice();
        if !rights.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(rights));
        }
        let head = head.bytes();
        let parts = [IoSlice::new(&head), IoSlice::new(data)];
        loop {
            match sendmsg(&self.socket, &parts, &mut beside, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    /// Waits for a message; `None`: the other end is gone. `patience`: how long at most, seconds.
    ///
    /// # Errors
    /// What came is no message, or nothing came in time.
    pub fn receive(&mut self, patience: Option<i64>) -> io::Result<Option<Message>> {
        self.wait(patience)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let came = loop {
            let mut parts = [IoSliceMut::new(&mut self.room)];
            match recvmsg(&self.socket, &mut parts, &mut beside, flags) {
                Err(Errno::INTR) => {}
                // Only the process has ended: it sends no more.
                Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let descriptor = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        if came.bytes == 0 {
            return Ok(None);
        }
        if came.flags.contains(ReturnFlags::CTRUNC) {
            let what = "a descriptor that came with a message could not be taken: this process \
                        has as many open as it may (`ulimit -n`)";
            return Err(io::Error::other(what));
        }
        if came.bytes < HEAD_BYTES || came.flags.contains(ReturnFlags::TRUNC) {
            let what = format!("a message of {} bytes", came.bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Some(Message {
            head: Head::of(&self.room[..HEAD_BYTES]),
            data: self.room[HEAD_BYTES..came.bytes].to_vec(),
            descriptor,
        }))
    }

    /// Until there is something to receive, or the process at the other end has ended.
    fn wait(&self, patience: Option<i64>) -> io::Result<()> {
        let limit = patience.map(|seconds| Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        });
        let mut ends = vec![PollFd::new(&self.socket, PollFlags::IN)];
        ends.extend(self.life.as_ref().map(|l| PollFd::new(l, PollFlags::IN)));
        loop {
            match poll(&mut ends, limit.as_ref()) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                other => return Ok(other.map(drop)?),
            }
        }
    }
}

/// rustix has the number of a process as one that is not 0, which this one may be.
fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: an open socket, and room for the answer with its size.
    let refused = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut bytes,
        )
    };
    match refused {
        0 => Ok(Peer {
            user: who.uid,
            process: who.pid,
        }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::socketpair;

    fn ends() -> (Link, Link) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (a, b) = socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        (Link::new(a).unwrap(), Link::new(b).unwrap())
    }

    #[test]
    fn a_message_comes_whole_with_its_descriptor() {
        let (mut a, mut b) = ends();
        let head = Head {
            what: Ask::Write as u32,
            which: 7,
            a: u64::MAX,
            b: 9,
        };
        let data = vec![3; DATA_MAX];
        let sent = std::fs::File::open("/dev/null").unwrap();
        a.send(head, &data, Some(sent.as_fd())).unwrap();
        a.send(Head::default(), b"", None).unwrap();
        let message = b.receive(Some(5)).unwrap().unwrap();
        assert_eq!((message.head, message.data), (head, data));
        assert!(message.descriptor.is_some());
        let message = b.receive(Some(5)).unwrap().unwrap();
        assert!(message.data.is_empty() && message.descriptor.is_none());
        drop(a);
        assert!(b.receive(Some(5)).unwrap().is_none());
    }

    #[test]
    fn a_descriptor_that_is_lost_on_its_way_is_an_error() {
        let (a, mut b) = ends();
        let sent = std::fs::File::open("/dev/null").unwrap();
        let rights = [sent.as_fd(); 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        assert!(beside.push(SendAncillaryMessage::ScmRights(&rights)));
        let parts = [IoSlice::new(&[0; HEAD_BYTES])];
        sendmsg(&a.socket, &parts, &mut beside, SendFlags::NOSIGNAL).unwrap();
        let why = b.receive(Some(5)).unwrap_err().to_string();
        assert!(why.contains("ulimit -n"), "{why}");
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let (mut a, mut b) = ends();
        assert_eq!(
            a.receive(Some(0)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        rustix::net::send(&a.socket, &[1; HEAD_BYTES - 1], SendFlags::empty()).unwrap();
        assert!(b.receive(Some(5)).is_err());
        rustix::net::send(
            &a.socket,
            &[1; HEAD_BYTES + DATA_MAX + 1],
            SendFlags::empty(),
        )
        .unwrap();
        assert!(b.receive(Some(5)).is_err());
        assert_eq!(Ask::of(0), None);
        assert_eq!(Ask::of(Ask::Exists as u32), Some(Ask::Exists));
        assert_eq!(Ask::of(19), None);
    }
}
