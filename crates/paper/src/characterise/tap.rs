//! A layer between queue and device that keeps every write and flush with its times, and the bytes
//! of what went to the log and to the superblock of the file system.

use super::Layout;
use base::{Bytes, Lba, Map, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use rig::{BlockDevice, Caps, Class, DevError, Op, Piece, Reply, Request, Ticket};
use rt::Mutex;
use std::sync::Arc;

/// The kind of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A write, packed or not.
    Write {
        /// It is non-volatile at completion.
        fua: bool,
    },
    /// A flush of the cache.
    Flush,
}

/// A contiguous piece of a write.
#[derive(Clone, Debug)]
pub struct Span {
    /// First sector.
    pub lba: Lba,
    /// 512-byte sectors.
    pub sectors: u64,
    /// The class of the write, which says why it was made.
    pub class: Class,
    /// The content; it is kept only of writes to the log and to the file system's superblock.
    pub bytes: Option<Bytes>,
}

/// A command that passed. Reads, discards and barriers are not kept.
#[derive(Clone, Debug)]
pub struct Command {
    /// When it was submitted.
    pub submitted: Time,
    /// When its submitter learnt of the completion; `None` if it has not learnt yet.
    pub completed: Option<Time>,
    /// The kind of the command.
    pub kind: Kind,
    /// Its number among the write commands since the mount; for a flush that of the next write.
    pub write: u64,
    /// The pieces of a write, in order.
    pub spans: Vec<Span>,
}

/// A device that keeps what passes. It takes no virtual time.
pub struct Tap {
    inner: Arc<dyn BlockDevice>,
    layout: Arc<Layout>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    commands: Vec<Command>,
    writes: u64,
    open: Map<u64, usize>,
}

impl Tap {
    /// Listens to what goes to `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>, layout: Arc<Layout>) -> Tap {
        Tap {
            inner,
            layout,
            log: Mutex::named("tap", Log::default()),
        }
    }

    /// Takes the commands that have passed so far, in the order of submission.
    pub fn take(&self) -> Vec<Command> {
        let mut log = self.log.lock();
        log.open.clear();
        std::mem::take(&mut log.commands)
    }

    fn spans(&self, request: &Request) -> Vec<Span> {
        let mut spans = Vec::new();
        for (mut lba, pieces, _) in request.written() {
            for Piece { class, bytes } in pieces {
                let sectors = (bytes.len() / SECTOR_BYTES) as u64;
                let kept = lba.0 < SECTORS_PER_BLOCK || self.layout.log_sector(lba).is_some();
                spans.push(Span {
                    lba,
                    sectors,
                    class: *class,
                    bytes: kept.then(|| bytes.clone()),
                });
                lba = lba.plus(sectors);
            }
        }
        spans
    }
}

impl Log {
    fn command(&mut self, request: &Request, spans: Vec<Span>) -> Option<Command> {
        let kind = match &request.op {
            Op::Write { .. } | Op::Pack { .. } => Kind::Write {
                fua: request.written().iter().any(|(_, _, fua)| *fua),
            },
            Op::Flush => Kind::Flush,
            Op::Read { .. } | Op::Discard { .. } | Op::Remap(_) | Op::Barrier => return None,
        };
        let write = self.writes;
        self.writes += u64::from(kind != Kind::Flush);
        Some(Command {
            submitted: rt::now(),
            completed: None,
            kind,
            write,
            spans,
        })
    }
}

impl BlockDevice for Tap {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        let spans = self.spans(&request);
        let mut log = self.log.lock();
        let command = log.command(&request, spans);
        // The lock is held, so that the order kept is the one in which the device got commands.
        let ticket = self.inner.submit(request);
        if let Some(command) = command {
            let index = log.commands.len();
            log.commands.push(command);
            log.open.insert(ticket.0, index);
        }
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let result = self.inner.wait(ticket);
        let mut log = self.log.lock();
        if let Some(index) = log.open.remove(&ticket.0) {
            log.commands[index].completed = Some(rt::now());
        }
        result
    }
}
