//! An entry of a queue of requests: the memory that the kernel puts a request into and takes the
//! answer from, and the ring of io_uring of the thread that works on it.
//!
//! - E1 the memory belongs to the kernel from a submission until its completion: between the two
//!   nothing here reads or writes it. It is freed after the ring, whose end cancels what is under
//!   way;
//! - E2 an entry is used by one thread only, the one that has made it: the kernel completes it in
//!   that thread, without a signal to another processor.

use super::turns::Lost;
use super::wire::{self, CMD_COMMIT_AND_FETCH, CMD_REGISTER, HEADERS_BYTES, Head, OP_BYTES};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Submissions with room for the command of a driver.
pub(super) type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// Entries of the ring of io_uring: one request is under way at a time.
const SUBMISSIONS: u32 = 2;
/// Where a submission has its `len`, bytes.
const LEN_AT: usize = 24;
/// Parts of the memory of an entry.
const PARTS: u32 = 2;

/// What came of waiting for a request.
pub(super) enum Next {
    /// The entry holds one.
    Request,
    /// The connection has ended.
    Over,
}

/// An entry with its memory and its ring. Fields are dropped in this order (E1).
pub(super) struct Entry {
    ring: Ring,
    queue: u16,
    /// The entry holds a request whose answer the kernel has not taken.
    owes: bool,
    parts: Box<[libc::iovec; PARTS as usize]>,
    headers: Vec<u8>,
    payload: Vec<u8>,
}

/// A request in an entry.
pub(super) struct Delivered<'a> {
    pub head: Head,
    pub op_in: [u8; OP_BYTES],
    /// The memory of the whole payload; `given` bytes of it are the request's.
    pub payload: &'a mut [u8],
    pub given: usize,
}

/// Asks whether this process may use rings at all, and what switches a connection back.
pub(super) fn probe() -> io::Result<Ring> {
    IoUring::builder().build(SUBMISSIONS)
}

impl Entry {
    /// An entry of `queue` with so many bytes for a payload, for the calling thread (E2).
    ///
    /// # Errors
    /// The host has no memory, or no ring for this process.
    pub fn new(queue: u16, payload_bytes: usize) -> io::Result<Entry> {
        let ring = own_ring()?;
        let mut headers = zeroed(HEADERS_BYTES)?;
        let mut payload = zeroed(payload_bytes)?;
        let part = |bytes: &mut Vec<u8>| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let parts = Box::new([part(&mut headers), part(&mut payload)]);
        Ok(Entry {
            ring,
            queue,
            owes: false,
            parts,
            headers,
            payload,
        })
    }

    /// Offers the entry to the kernel, for requests of `device`.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn register(&mut self, device: BorrowedFd<'_>) -> io::Result<()> {
        let parts = self.parts.as_ptr() as u64;
        let command = wire::command(0, self.queue);
        let mut submission = opcode::UringCmd80::new(types::Fd(device.as_raw_fd()), CMD_REGISTER)
            .cmd(command)
            .addr(Some(parts))
            .build();
        put_len(&mut submission, PARTS);
        self.push(&submission)?;
        self.ring.submit()?;
        // A refusal is there at once; else the completion is the first request.
        let refused = self.ring.completion().next().map(|answer| answer.result());
        match refused {
            Some(result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Ok(()),
        }
    }

    /// Waits for the first request of the entry.
    ///
    /// # Errors
    /// What ended the ring otherwise than with the connection.
    pub fn first(&mut self) -> Result<Next, Lost> {
        self.wait()
    }

    /// Answers the request in the entry and waits for the next one.
    ///
    /// # Errors
    /// As [`Entry::first`].
    pub fn answer(
        &mut self,
        device: BorrowedFd<'_>,
        answer: Result<usize, i32>,
    ) -> Result<Next, Lost> {
        let (commit_id, _) = wire::delivered(&self.headers);
        let unique = Head::of(&self.headers).unique;
        wire::put_answer(&mut self.headers, unique, answer);
        let command = wire::command(commit_id, self.queue);
        let device = types::Fd(device.as_raw_fd());
        let submission = opcode::UringCmd80::new(device, CMD_COMMIT_AND_FETCH)
            .cmd(command)
            .build();
        self.push(&submission).map_err(Lost::Ring)?;
        self.wait()
    }

    /// Whether the kernel waits for the answer to the request in the entry.
    pub fn owes(&self) -> bool {
        self.owes
    }

    /// Exchanges the ring for a new one, over which the request in the entry can be answered. The
    /// kernel knows an answer by its number, not by its ring.
    ///
    /// # Errors
    /// The host gives no ring.
    pub fn renew(&mut self) -> io::Result<()> {
        assert!(self.owes, "E1: no command is with the old ring");
        self.ring = own_ring()?;
        Ok(())
    }

    /// The request that the entry holds after [`Next::Request`].
    pub fn delivered(&mut self) -> Delivered<'_> {
        let (_, given) = wire::delivered(&self.headers);
        Delivered {
            head: Head::of(&self.headers),
            op_in: wire::op_in(&self.headers),
            given: given.min(self.payload.len()),
            payload: &mut self.payload,
        }
    }

    fn push(&mut self, submission: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the memory that the command names lives as long as the ring (E1).
        let pushed = unsafe { self.ring.submission().push(submission) };
        pushed.map_err(|_| io::Error::other("the ring has no room for the only submission"))
    }

    fn wait(&mut self) -> Result<Next, Lost> {
        loop {
            if let Some(answer) = self.ring.completion().next() {
                return match answer.result() {
                    result if result >= 0 => {
                        self.owes = true;
                        Ok(Next::Request)
                    }
                    result if ended(-result) => Ok(Next::Over),
                    result => Err(Lost::Refused(io::Error::from_raw_os_error(-result))),
                };
            }
            match self.ring.submit_and_wait(1) {
                // What was pushed is with the kernel.
                Ok(_) => self.owes = false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A request may be under way: whoever sent it waits for this thread.
                Err(e) if is_short(&e) => rt::sleep(SHORT_PAUSE),
                Err(e) => return Err(Lost::Ring(e)),
            }
        }
    }
}

/// A ring for the calling thread.
fn own_ring() -> io::Result<Ring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(SUBMISSIONS)
}

/// Memory that the host gives page by page, when a page is used for the first time.
fn zeroed(bytes: usize) -> io::Result<Vec<u8>> {
    let layout = Layout::array::<u8>(bytes).map_err(io::Error::other)?;
    assert!(layout.size() > 0, "an entry has memory");
    // SAFETY: the size is not 0.
    let at = unsafe { alloc_zeroed(layout) };
    if at.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: the allocator of vectors has given so many zeroed bytes with this layout.
    Ok(unsafe { Vec::from_raw_parts(at, bytes, bytes) })
}

/// How long a thread waits until the host may have again what it lacks.
const SHORT_PAUSE: base::Nanos = base::Nanos(1_000_000);

/// Whether the host lacks memory or room at the moment.
fn is_short(e: &io::Error) -> bool {
    let errno = e.raw_os_error();
    matches!(errno, Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

/// Whether the kernel answers a command with this number when the mount has gone.
fn ended(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOTCONN | libc::ECANCELED | libc::ENODEV | libc::ECONNABORTED
    )
}

/// Registers a queue that no kernel has: a refused registration switches a connection whose ring is
/// not complete back to the device.
pub(super) fn refuse(ring: &mut Ring, device: BorrowedFd<'_>) -> io::Result<()> {
    let parts = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; PARTS as usize];
    let mut submission = opcode::UringCmd80::new(types::Fd(device.as_raw_fd()), CMD_REGISTER)
        .cmd(wire::command(0, u16::MAX))
        .addr(Some(parts.as_ptr() as u64))
        .build();
    put_len(&mut submission, PARTS);
    // SAFETY: the kernel answers before the memory ends, which is waited for below.
    let pushed = unsafe { ring.submission().push(&submission) };
    pushed.map_err(|_| io::Error::other("the ring has no room"))?;
    ring.submit_and_wait(1)?;
    let _ = ring.completion().next();
    Ok(())
}

/// Sets the field `len` of a command, which the crate leaves at 0.
fn put_len(submission: &mut squeue::Entry128, len: u32) {
    let at = std::ptr::from_mut(submission).cast::<u8>();
    // SAFETY: a submission is 128 bytes of plain memory with `len` at this place (`io_uring(7)`),
    // and this function alone has it.
    unsafe { at.add(LEN_AT).cast::<u32>().write_unaligned(len) };
}
