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
    let answers = rt::try_spawn("nbd answers", move || {
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
    let answers = match answers {
        Ok(answers) => answers,
        Err(e) => return Close::broken(format!("no thread for its answers: {e}")),
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::Nanos;
    use blockdev::{BlockDevice, Caps, Ram, Reply, Ticket};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A device whose first command takes its time, and which counts.
    struct Slow {
        ram: Ram,
        submitted: AtomicU64,
        finished: AtomicU64,
    }

    impl BlockDevice for Slow {
        fn caps(&self) -> Caps {
            self.ram.caps()
        }
        fn submit(&self, request: blockdev::Request) -> Ticket {
            self.submitted.fetch_add(1, Ordering::SeqCst);
            self.ram.submit(request)
        }
        fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
            if self.finished.fetch_add(1, Ordering::SeqCst) == 0 {
                rt::sleep(Nanos(50_000_000));
            }
            self.ram.wait(ticket)
        }
    }

    /// Runs a client to its end; how many commands were submitted and finished.
    fn transmitted(client: impl FnOnce(UnixStream)) -> (u64, u64) {
        let device = Arc::new(Slow {
            ram: Ram::new(1 << 20),
            submitted: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        });
        let served = Arc::new(Served::new(device.clone()).unwrap());
        let (theirs, ours) = UnixStream::pair().unwrap();
        let ours = OwnedFd::from(ours);
        let serving = rt::spawn("server", move || {
            let wire = Wire {
                stream: ours.as_fd(),
                served: &served,
                until: None,
            };
            run(
                &wire,
                &ours,
                &served,
                &Options::default(),
                Agreed::default(),
            )
        });
        client(theirs);
        serving.join().unwrap();
        let counts = [&device.submitted, &device.finished];
        let [submitted, finished] = counts.map(|count| count.load(Ordering::SeqCst));
        (submitted, finished)
    }

    /// A read of the first sector, or a write with this content.
    fn request(cookie: u64, content: Option<u8>) -> Vec<u8> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0, 0, u8::from(content.is_some())]);
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&512u32.to_be_bytes());
        bytes.extend(content.map_or(Vec::new(), |byte| vec![byte; 512]));
        bytes
    }

    #[test]
    fn t1_requests_are_done_and_answered_in_their_order() {
        let counts = transmitted(|mut client| {
            let all = [Some(1), None, Some(2), None];
            let sent: Vec<Vec<u8>> = (0..).zip(all).map(|(n, what)| request(n, what)).collect();
            client.write_all(&sent.concat()).unwrap();
            for (n, content) in [(0u64, None), (1, Some(1)), (2, None), (3, Some(2))] {
                let mut head = [0; 16];
                client.read_exact(&mut head).unwrap();
                assert_eq!(head[8..], n.to_be_bytes());
                let mut data = vec![0; content.map_or(0, |_| 512)];
                client.read_exact(&mut data).unwrap();
                assert!(data.iter().all(|byte| Some(*byte) == content), "read {n}");
            }
        });
        assert_eq!(counts, (4, 4));
    }

    /// A client that takes no answers and keeps its side open would be waited for.
    #[test]
    fn a_client_that_takes_no_answers_is_let_go() {
        let mut kept = None;
        let (submitted, finished) = transmitted(|mut client| {
            client.shutdown(std::net::Shutdown::Read).unwrap();
            client.write_all(&request(0, None)).unwrap();
            kept = Some(client);
        });
        assert_eq!((submitted, finished), (1, 1));
    }

    #[test]
    fn t2_what_was_submitted_is_finished_though_the_client_has_gone() {
        let (submitted, finished) = transmitted(|mut client| {
            let sent: Vec<Vec<u8>> = (0..8).map(|n| request(n, Some(1))).collect();
            client.write_all(&sent.concat()).unwrap();
            // The first command is still under way.
            rt::sleep(Nanos(20_000_000));
        });
        assert!(submitted > 1, "{submitted}");
        assert_eq!(finished, submitted);
    }
}
