//! The transmission phase: requests, and answers to them.
//!
//! - T1: requests are submitted in the order in which they come and answered in this order. The
//!   answers are another task's business, so requests that wait for nothing do not wait for them.
//! - T2: every submitted command is finished, also when nobody can be told.
//! - T3: a client's requests wait while those on their way have [`BYTES_ON_THE_WAY`] of data,
//!   which memory is kept for.

use super::hello::{ALLOCATION_ID, Agreed};
use super::request::{Asked, EINVAL, EIO, ESHUTDOWN, HEAD, PAYLOAD_MAX, Request};
use super::server::{Options, Wire};
use crate::socket::Close;
use crate::{Command, Pending, Served};
use base::Bytes;
use blockdev::{DevError, DevErrorKind};
use rt::Semaphore;
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Requests of a client that are on their way.
const ON_THE_WAY: usize = 16;
/// Bytes that they read or write (T3): at least those of the longest request.
const BYTES_ON_THE_WAY: u64 = 64 << 20;
const _: () = assert!(PAYLOAD_MAX as u64 <= BYTES_ON_THE_WAY);

const SIMPLE: u32 = 0x6744_6698;
const CHUNK: u32 = 0x668e_33ef;
const DONE: u16 = 1;
const OFFSET_DATA: u16 = 1;
const STATUS: u16 = 5;
const ERROR: u16 = 0x8001;

struct Job {
    request: Request,
    what: What,
}

enum What {
    /// A read from this byte on.
    Read(Pending, u64),
    /// Anything else; with `true` a flush behind it.
    Run(Pending, bool),
    Status(Vec<(u32, u32)>),
    Nothing,
    Refuse(u32),
}

/// Carries out requests until the connection ends, and says why it did.
pub fn run(
    wire: &Wire<'_>,
    stream: &OwnedFd,
    served: &Arc<Served>,
    options: &Options,
    agreed: Agreed,
) -> Close {
    let own = match stream.try_clone() {
        Ok(own) => own,
        Err(e) => return Close::broken(format!("another descriptor: {e}")),
    };
    let (jobs, todo) = rt::channel_named::<Job>("nbd answers", ON_THE_WAY);
    let answering = served.clone();
    let room = Arc::new(Semaphore::named("nbd bytes on the way", BYTES_ON_THE_WAY));
    let freed = room.clone();
    let answers = rt::spawn("nbd answers", move || {
        let wire = Wire {
            stream: own.as_fd(),
            served: &answering,
            until: None,
        };
        let mut told = Ok(());
        for job in todo.iter() {
            let bytes = job.request.data();
            // T2.
            let answer = carry_out(job, &answering, agreed);
            if told.is_ok() {
                told = wire.send(&answer);
                if told.is_err() {
                    // The reader waits for requests that nobody will send.
                    let _ = shutdown(&own, Shutdown::Both);
                }
            }
            freed.release(bytes);
        }
        told
    });
    let why = loop {
        match next(wire, &room, served, options, agreed) {
            Ok(job) => {
                // The other task receives as long as this one sends.
                let sent = jobs.send(job);
                assert!(sent.is_ok(), "T2: a job that nobody finishes");
            }
            Err(why) => break why,
        }
    };
    drop(jobs);
    match answers.join() {
        Ok(_) => why,
        Err(_) => Close::broken("the task of its answers panicked"),
    }
}

/// The next request, submitted (T1).
fn next(
    wire: &Wire<'_>,
    room: &Semaphore,
    served: &Served,
    options: &Options,
    agreed: Agreed,
) -> Result<Job, Close> {
    let mut head = [0; HEAD];
    wire.receive(&mut head)?;
    let request = Request::parse(&head).ok_or_else(|| Close::broken("no request"))?;
    if request.is_end() {
        return Err(Close::ByClient);
    }
    if request.payload() > PAYLOAD_MAX {
        let len = request.payload();
        return Err(Close::broken(format!("a write of {len} bytes")));
    }
    // T3. Who fails below ends the connection, and with it the count.
    room.acquire(request.data());
    let mut payload = vec![0; request.payload() as usize];
    wire.receive(&mut payload)?;
    let what = match request.asked(payload, served, options, agreed.allocation) {
        Asked::Read(command, from) => What::Read(served.submit(command), from),
        Asked::Run(command, flush) => What::Run(served.submit(command), flush),
        Asked::Status(extents) => What::Status(extents),
        Asked::Nothing => What::Nothing,
        Asked::Refuse(error) => What::Refuse(error),
    };
    Ok(Job { request, what })
}

/// Waits for a command and makes the answer.
fn carry_out(job: Job, served: &Served, agreed: Agreed) -> Vec<u8> {
    let outcome = match job.what {
        What::Read(pending, from) => match served.finish(pending) {
            Ok(data) => return read_answer(&job.request, from, &data, agreed),
            Err(e) => Err(code(&e)),
        },
        What::Run(pending, flush) => {
            let done = served.finish(pending);
            let done = match done {
                Ok(_) if flush => served.run(Command::Flush),
                other => other,
            };
            done.map(|_| ()).map_err(|e| code(&e))
        }
        What::Status(extents) => return status_answer(&job.request, &extents),
        What::Nothing => Ok(()),
        What::Refuse(error) => Err(error),
    };
    match outcome {
        Err(error) if agreed.structured && job.request.is_read() => {
            let payload = [&error.to_be_bytes()[..], &0u16.to_be_bytes()].concat();
            chunk(&job.request, ERROR, payload.len(), &payload)
        }
        Err(error) => simple(&job.request, error),
        Ok(()) => simple(&job.request, 0),
    }
}

fn code(e: &DevError) -> u32 {
    match e.kind {
        DevErrorKind::PowerLost => ESHUTDOWN,
        DevErrorKind::Io => EIO,
        DevErrorKind::Misuse => EINVAL,
    }
}

fn simple(request: &Request, error: u32) -> Vec<u8> {
    let mut bytes = SIMPLE.to_be_bytes().to_vec();
    bytes.extend_from_slice(&error.to_be_bytes());
    bytes.extend_from_slice(&request.cookie.to_be_bytes());
    bytes
}

/// A part of an answer, the last one, of so many bytes, which begin with `payload`.
fn chunk(request: &Request, kind: u16, len: usize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20 + len);
    bytes.extend_from_slice(&CHUNK.to_be_bytes());
    bytes.extend_from_slice(&DONE.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&request.cookie.to_be_bytes());
    bytes.extend_from_slice(&(len as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn read_answer(request: &Request, from: u64, data: &[Bytes], agreed: Agreed) -> Vec<u8> {
    let len: usize = data.iter().map(Bytes::len).sum();
    let mut bytes = match agreed.structured {
        true => chunk(request, OFFSET_DATA, 8 + len, &from.to_be_bytes()),
        false => simple(request, 0),
    };
    for piece in data {
        bytes.extend_from_slice(piece);
    }
    bytes
}

fn status_answer(request: &Request, extents: &[(u32, u32)]) -> Vec<u8> {
    let mut payload = ALLOCATION_ID.to_be_bytes().to_vec();
    for (len, state) in extents {
        payload.extend_from_slice(&len.to_be_bytes());
        payload.extend_from_slice(&state.to_be_bytes());
    }
    chunk(request, STATUS, payload.len(), &payload)
}
