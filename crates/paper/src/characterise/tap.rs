//! A layer between queue and device that keeps every write and flush with its times, and the bytes
//! of what went to the log and to the superblock of the file system.

use super::Layout;
use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use rig::{BlockDevice, Class, Op, Piece, Request};
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
    passing: Arc<rig::Tap<(Kind, Vec<Span>)>>,
    /// Write commands that were taken.
    writes: Mutex<u64>,
}

impl Tap {
    /// Listens to what goes to `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>, layout: Arc<Layout>) -> Tap {
        let note = move |request: &Request| Some((kind(request)?, spans(request, &layout)));
        Tap {
            passing: Arc::new(rig::Tap::new(inner, note)),
            writes: Mutex::named("tapped writes", 0),
        }
    }

    /// The layer between queue and device.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        self.passing.clone()
    }

    /// Takes the commands that have passed so far, in the order of submission.
    pub fn take(&self) -> Vec<Command> {
        let mut writes = self.writes.lock();
        let passed = self.passing.take().into_iter();
        let commands = passed.map(|passed| {
            let (kind, spans) = passed.note;
            let write = *writes;
            *writes += u64::from(kind != Kind::Flush);
            Command {
                submitted: passed.submitted,
                completed: passed.ended,
                kind,
                write,
                spans,
            }
        });
        commands.collect()
    }
}

fn kind(request: &Request) -> Option<Kind> {
    match &request.op {
        Op::Write { .. } | Op::Pack { .. } => Some(Kind::Write {
            fua: request.written().iter().any(|(_, _, fua)| *fua),
        }),
        Op::Flush => Some(Kind::Flush),
        Op::Read { .. } | Op::Discard { .. } | Op::Remap(_) | Op::Barrier => None,
    }
}

fn spans(request: &Request, layout: &Layout) -> Vec<Span> {
    let mut spans = Vec::new();
    for (mut lba, pieces, _) in request.written() {
        for Piece { class, bytes } in pieces {
            let sectors = (bytes.len() / SECTOR_BYTES) as u64;
            let kept = lba.0 < SECTORS_PER_BLOCK || layout.log_sector(lba).is_some();
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
