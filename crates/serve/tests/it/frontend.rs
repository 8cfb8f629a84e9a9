//! A client of vhost-user: memory in a file, rings in it, and the messages that set them up. It
//! sends what it is told to, honest or not.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Where the client says that its memory is.
pub const USER: u64 = 0x7000_0000_0000;
/// Where the guest has it.
pub const GUEST: u64 = 0x10_0000;
/// Bytes of it.
pub const MEMORY: u64 = 4 << 20;
pub const SIZE: u16 = 64;
pub const AVAIL: u64 = 0x1000;
pub const USED: u64 = 0x2000;
/// Where buffers begin.
pub const BUFFERS: u64 = 0x1_0000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A descriptor; `at` counts from the begin of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Desc {
    pub at: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

impl Desc {
    pub fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&GUEST.wrapping_add(self.at).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

pub struct Frontend {
    stream: UnixStream,
    pub memory: File,
    kick: OwnedFd,
    call: OwnedFd,
    offered: u16,
    taken: u16,
    /// Memory for notes of what is under way, and how it was described.
    pub notes: Option<(Vec<u8>, File)>,
}

impl Frontend {
    /// Connects, without a word.
    pub fn connect(socket: &Path) -> Frontend {
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, MEMORY).unwrap();
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Frontend {
            stream: UnixStream::connect(socket).unwrap(),
            memory: memory.into(),
            kick: event(),
            call: event(),
            offered: 0,
            taken: 0,
            notes: None,
        }
    }

    /// Connects and sets queue 0 up, with features of the guest's choice.
    pub fn ready(socket: &Path, features: u64) -> Frontend {
        let mut client = Frontend::connect(socket);
        client.set_up(features);
        client
    }

    /// Connects anew with the memory of `before`, as a client does after a lost connection.
    pub fn again(socket: &Path, before: Frontend, features: u64) -> Frontend {
        let mut client = before;
        client.come_back(socket);
        client.set_up(features);
        client
    }

    /// Connects anew, which ends the former connection.
    pub fn come_back(&mut self, socket: &Path) {
        self.stream = UnixStream::connect(socket).unwrap();
    }

    /// The same with notes of what is under way, which the server makes.
    pub fn noted(socket: &Path, features: u64) -> Frontend {
        let mut client = Frontend::connect(socket);
        client.agree(features);
        client.ask_for_notes(1, SIZE);
        client.set_up_queue();
        client
    }

    fn set_up(&mut self, features: u64) {
        self.agree(features);
        self.set_up_queue();
    }

    /// Agrees upon features.
    pub fn agree(&mut self, features: u64) {
        let offered = self.ask(1, &[]);
        assert_ne!(offered & 1 << 30, 0, "features of the protocol");
        self.tell(2, &(features | 1 << 30 | 1 << 32).to_le_bytes(), &[]);
        let protocol = self.ask(15, &[]);
        self.tell(16, &protocol.to_le_bytes(), &[]);
        self.tell(3, &[], &[]);
    }

    /// Asks for memory for notes; false if the server lets go. 24 bytes, as QEMU sends.
    pub fn ask_for_notes(&mut self, queues: u16, size: u16) -> bool {
        let mut shape = vec![0; 24];
        shape[16..18].copy_from_slice(&queues.to_le_bytes());
        shape[18..20].copy_from_slice(&size.to_le_bytes());
        self.raw(&message(31, 1, &shape), &[]);
        let mut answer = [0; 36];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let iov = &mut [IoSliceMut::new(&mut answer)];
        let read = recvmsg(&self.stream, iov, &mut beside, RecvFlags::WAITALL);
        if !read.is_ok_and(|read| read.bytes == 36) {
            return false;
        }
        let files = beside.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        });
        let mut files: Vec<OwnedFd> = files.collect();
        assert_eq!((answer[0], files.len()), (31, 1), "one file");
        let file = files.pop().expect("it was counted").into();
        self.notes = Some((answer[12..].to_vec(), file));
        true
    }

    /// Shares memory, notes if there are some, and queue 0.
    pub fn set_up_queue(&mut self) {
        assert_eq!(self.start_queue(), Some(0));
    }

    /// The same; the last answer of the server, if it does not let go.
    pub fn start_queue(&mut self) -> Option<u64> {
        if let Some((shape, file)) = &self.notes {
            self.tell(32, shape, &[file.as_fd()]);
        }
        self.share(&region(MEMORY), None);
        self.tell(8, &pair(0, u32::from(SIZE)), &[]);
        // Where the former server stood.
        self.tell(10, &pair(0, self.get16(USED + 2).into()), &[]);
        self.tell(9, &rings(USER, USER + USED, USER + AVAIL), &[]);
        self.tell_fd(13, &0u64.to_le_bytes(), 1);
        self.tell_fd(12, &0u64.to_le_bytes(), 0);
        self.ack(18, &pair(0, 1))
    }

    /// Sends the table of one memory region, with room for two, as User Mode Linux does.
    pub fn share(&self, region: &[u8; 32], files: Option<&[BorrowedFd<'_>]>) {
        let mut table = vec![0; 72];
        table[0] = 1;
        table[8..40].copy_from_slice(region);
        let own = [self.memory.as_fd()];
        self.tell(5, &table, files.unwrap_or(&own));
    }

    /// Sends a message with the event of the kicks (0) or of the answers (1).
    pub fn tell_fd(&self, request: u32, payload: &[u8], which: u8) {
        let file = [self.kick.as_fd(), self.call.as_fd()][usize::from(which)];
        self.tell(request, payload, &[file]);
    }

    /// Sends a message.
    pub fn tell(&self, request: u32, payload: &[u8], files: &[BorrowedFd<'_>]) {
        self.raw(&message(request, 1, payload), files);
    }

    /// Sends bytes, and takes no notice of a server that is gone.
    pub fn raw(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(beside.push(SendAncillaryMessage::ScmRights(files)));
        }
        let _ = sendmsg(
            &self.stream,
            &[IoSlice::new(bytes)],
            &mut beside,
            SendFlags::NOSIGNAL,
        );
    }

    /// Sends a message and takes its answer of one number.
    pub fn ask(&mut self, request: u32, payload: &[u8]) -> u64 {
        let answer = self.answer(request, 1, payload).expect("an answer");
        u64::from_le_bytes(answer.try_into().unwrap())
    }

    /// Sends a message that wants to be acknowledged; none if the server lets go.
    pub fn ack(&mut self, request: u32, payload: &[u8]) -> Option<u64> {
        let answer = self.answer(request, 1 | 8, payload)?;
        Some(u64::from_le_bytes(answer.try_into().unwrap()))
    }

    /// Sends a message and takes the payload of its answer.
    pub fn answer(&mut self, request: u32, flags: u32, payload: &[u8]) -> Option<Vec<u8>> {
        let _ = self.stream.write_all(&message(request, flags, payload));
        let mut head = [0; 12];
        self.stream.read_exact(&mut head).ok()?;
        assert_eq!(head[..4], request.to_le_bytes());
        assert_eq!(head[4..8], 5u32.to_le_bytes());
        let mut payload = vec![0; u32::from_le_bytes(head[8..].try_into().unwrap()) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    /// True once the server has let go.
    pub fn is_let_go(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        if poll(&mut fds, Some(&limit)).unwrap() == 0 {
            return false;
        }
        // What the server had not read makes an error of its end.
        let _ = self.stream.read_to_end(&mut Vec::new());
        true
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn get16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.get(at, 2).try_into().unwrap())
    }

    /// Stores a table of descriptors and offers the chain that begins with `head`.
    pub fn offer(&mut self, table: &[Desc], head: u16) {
        for (n, desc) in table.iter().enumerate() {
            self.put(16 * n as u64, &desc.bytes());
        }
        self.put(
            AVAIL + 4 + 2 * u64::from(self.offered % SIZE),
            &head.to_le_bytes(),
        );
        self.offered = self.offered.wrapping_add(1);
        self.announce(self.offered);
    }

    /// Offers a write of one block in a place of its own, one of 16: descriptors from
    /// `3 * place` on.
    pub fn offer_write(&mut self, place: u16, sector: u64, block: &[u8; 4096]) {
        let at = BUFFERS + u64::from(place) * 0x2000;
        let mut head = vec![0; 16];
        head[..4].copy_from_slice(&1u32.to_le_bytes());
        head[8..].copy_from_slice(&sector.to_le_bytes());
        self.put(at, &head);
        self.put(at + 0x20, &[0xff]);
        self.put(at + 0x1000, block);
        let first = 3 * place;
        let parts = [
            (at, 16, NEXT),
            (at + 0x1000, 4096, NEXT),
            (at + 0x20, 1, WRITE),
        ];
        for (n, (at, len, flags)) in (first..).zip(parts) {
            let next = n + 1;
            let desc = Desc {
                at,
                len,
                flags,
                next,
            };
            self.put(16 * u64::from(n), &desc.bytes());
        }
        let entry = AVAIL + 4 + 2 * u64::from(self.offered % SIZE);
        self.put(entry, &first.to_le_bytes());
        self.offered = self.offered.wrapping_add(1);
        self.announce(self.offered);
    }

    /// Answers chains as a server would.
    pub fn answer_by_hand(&mut self, heads: &[u32]) {
        for (n, head) in (0u16..).zip(heads) {
            self.put(USED + 4 + 8 * u64::from(n), &head.to_le_bytes());
        }
        self.taken = heads.len() as u16;
        self.put(USED + 2, &self.taken.to_le_bytes());
    }

    /// The status of the write in a place.
    pub fn status(&self, place: u16) -> u8 {
        self.get(BUFFERS + u64::from(place) * 0x2000 + 0x20, 1)[0]
    }

    /// Stores the index of what is offered, and kicks.
    pub fn announce(&self, index: u16) {
        self.put(AVAIL + 2, &index.to_le_bytes());
        rustix::io::write(&self.kick, &1u64.to_ne_bytes()).unwrap();
    }

    /// Waits for the next answer: its chain and length; none if the server lets go first.
    pub fn used(&mut self) -> Option<(u32, u32)> {
        while self.get16(USED + 2) == self.taken {
            let mut fds = [
                PollFd::new(&self.call, PollFlags::IN),
                PollFd::new(&self.stream, PollFlags::IN),
            ];
            let limit = Timespec {
                tv_sec: 10,
                tv_nsec: 0,
            };
            assert_ne!(poll(&mut fds, Some(&limit)).unwrap(), 0, "no answer");
            let gone = !fds[1].revents().is_empty();
            if gone && self.get16(USED + 2) == self.taken {
                return None;
            }
            let _ = rustix::io::read(&self.call, &mut [0u8; 8]);
        }
        let entry = self.get(USED + 4 + 8 * u64::from(self.taken % SIZE), 8);
        self.taken = self.taken.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        Some((word(0), word(4)))
    }

    /// Waits until so many chains are answered, or the server lets go, without looking for calls.
    pub fn settle(&mut self, chains: u16) {
        for _ in 0..5000 {
            let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: 2_000_000,
            };
            let gone = poll(&mut fds, Some(&limit)).unwrap() > 0;
            if gone || self.answered() == chains {
                return;
            }
        }
        panic!("no answer");
    }

    /// Whether the server has told of an answer since the last time.
    pub fn is_called(&self) -> bool {
        rustix::io::read(&self.call, &mut [0u8; 8]).is_ok()
    }

    /// With event indices: wants to be told of the answer with this index.
    pub fn want(&self, index: u16) {
        self.put(AVAIL + 4 + 2 * u64::from(SIZE), &index.to_le_bytes());
    }

    /// With event indices: the offer of which the server wants to be told.
    pub fn wanted(&self) -> u16 {
        self.get16(USED + 4 + 8 * u64::from(SIZE))
    }

    /// How many chains were answered, by the ring.
    pub fn answered(&self) -> u16 {
        self.get16(USED + 2)
    }

    /// Offers an honest request.
    pub fn request(&mut self, kind: u32, sector: u64, sent: &[u8], room: u32) {
        let mut head = vec![0; 16];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[8..].copy_from_slice(&sector.to_le_bytes());
        self.put(BUFFERS, &head);
        self.put(BUFFERS + 0x1000, sent);
        let at = [
            BUFFERS,
            BUFFERS + 0x1000,
            BUFFERS + 0x10_0000,
            BUFFERS + 0x800,
        ];
        self.put(at[3], &[0xff]);
        let mut table = vec![(at[0], 16, 0)];
        if !sent.is_empty() {
            table.push((at[1], sent.len() as u32, 0));
        }
        if room > 0 {
            table.push((at[2], room, WRITE));
        }
        table.push((at[3], 1, WRITE));
        let last = table.len() - 1;
        let chain = table.iter().enumerate().map(|(n, &(at, len, flags))| Desc {
            at,
            len,
            flags: flags | if n < last { NEXT } else { 0 },
            next: n as u16 + 1,
        });
        self.offer(&chain.collect::<Vec<_>>(), 0);
    }

    /// Makes an honest request: status and data.
    pub fn run(&mut self, kind: u32, sector: u64, sent: &[u8], room: u32) -> (u8, Vec<u8>) {
        self.request(kind, sector, sent, room);
        let (_, len) = self.used().expect("an answer");
        assert!(len <= room + 1);
        let data = self.get(BUFFERS + 0x10_0000, room as usize);
        (self.get(BUFFERS + 0x800, 1)[0], data)
    }
}

fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = request.to_le_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

pub fn pair(first: u32, second: u32) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

/// A memory region of so many bytes.
pub fn region(len: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (n, word) in [GUEST, len, USER, 0].into_iter().enumerate() {
        bytes[8 * n..8 * n + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub fn rings(desc: u64, used: u64, avail: u64) -> Vec<u8> {
    let words = [0, desc, used, avail, 0].map(u64::to_le_bytes);
    words.concat()
}
