//! Divides the calls on descriptors into sessions: from an open to the close, or to the next open
//! of the same descriptor (mobibench-M2). Where the recording lacks the open or the close, a
//! session begins with the first call on the descriptor, or ends with the last. Descriptors are
//! used again, so a session is what the calls on one open file share.

use super::lines::{Flags, Path, Raw, Said};
use crate::recording::reading::Reading;
use std::collections::BTreeMap;

/// A descriptor from its open to its close.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Session {
    /// Number of the call that opened it, if that was recorded.
    pub opened: Option<usize>,
    /// Number of the call that closed it, if that was recorded.
    pub closed: Option<usize>,
    pub seen: Seen,
}

/// How many calls of each kind there are on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// Reads and writes without an offset: of a file, a pipe or a socket.
    pub streamed: u64,
    pub placed_reads: u64,
    /// Writes with an offset, syncs and truncations, which only a file has.
    pub file_only: u64,
    pub syncs: u64,
    /// All calls that move or change content.
    pub content: u64,
}

/// The sessions of a recording, and which of them each call belongs to.
pub(super) struct Sessions {
    pub all: Vec<Session>,
    pub of_call: Vec<Option<usize>>,
}

impl Sessions {
    pub(super) fn of(calls: &[Raw], reading: &mut Reading) -> Sessions {
        let marks = recorders_own(calls);
        let mut sessions = Sessions {
            all: Vec::new(),
            of_call: vec![None; calls.len()],
        };
        let mut current: BTreeMap<u32, usize> = BTreeMap::new();
        for (n, raw) in calls.iter().enumerate() {
            let (fd, opens) = match &raw.call {
                Said::Open { .. } if marks[n] => {
                    reading.decided("M1 open made by the recorder");
                    continue;
                }
                Said::Open { fd: Some(fd), .. } => (*fd, true),
                Said::Close(fd)
                | Said::Read(fd, _)
                | Said::Write(fd, _)
                | Said::Truncate { fd, .. }
                | Said::Sync { fd, .. }
                | Said::Fstat(fd) => (*fd, false),
                _ => continue,
            };
            let session = match current.get(&fd) {
                Some(session) if !opens => *session,
                before => {
                    // mobibench-M2: a descriptor's number is free again only after a close.
                    if before.is_some() {
                        reading.decided("M2 close not recorded, as the descriptor is opened again");
                    }
                    sessions.all.push(Session {
                        opened: opens.then_some(n),
                        ..Session::default()
                    });
                    current.insert(fd, sessions.all.len() - 1);
                    sessions.all.len() - 1
                }
            };
            sessions.of_call[n] = Some(session);
            sessions.all[session].note(n, &raw.call);
            if matches!(raw.call, Said::Close(_)) {
                current.remove(&fd);
            }
        }
        sessions
    }
}

impl Session {
    fn note(&mut self, n: usize, call: &Said) {
        let seen = &mut self.seen;
        match call {
            Said::Close(_) => self.closed = Some(n),
            Said::Read(_, range) | Said::Write(_, range) => {
                seen.content += 1;
                match (range.offset, call) {
                    (None, _) => seen.streamed += 1,
                    (Some(_), Said::Read(..)) => seen.placed_reads += 1,
                    (Some(_), _) => seen.file_only += 1,
                }
            }
            Said::Sync { .. } => {
                seen.file_only += 1;
                seen.syncs += 1;
            }
            Said::Truncate { .. } => {
                seen.file_only += 1;
                seen.content += 1;
            }
            _ => {}
        }
    }
}

/// Finds the opens that the recorder made up (mobibench-M1) for a descriptor it saw for the first
/// time: a bare path that is emptied, at the time of the thread's next call, which is on that
/// descriptor.
fn recorders_own(calls: &[Raw]) -> Vec<bool> {
    let mut next_of_thread: BTreeMap<u32, (u64, Option<u32>)> = BTreeMap::new();
    let mut marks = vec![false; calls.len()];
    for (n, raw) in calls.iter().enumerate().rev() {
        let used = match &raw.call {
            Said::Nothing(fd) => *fd,
            Said::Read(fd, _) | Said::Write(fd, _) | Said::Sync { fd, .. } | Said::Close(fd) => {
                Some(*fd)
            }
            _ => None,
        };
        let next = next_of_thread.insert(raw.thread, (raw.us, used));
        let made_up = Flags {
            create: true,
            truncate: true,
            write_only: true,
            ..Flags::default()
        };
        if let Said::Open {
            path: Path::Bare(_),
            flags,
            fd: Some(fd),
        } = &raw.call
        {
            marks[n] = *flags == made_up && next == Some((raw.us, Some(*fd)));
        }
    }
    marks
}
