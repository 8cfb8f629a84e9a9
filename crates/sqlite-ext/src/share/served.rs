//! What one client has open here, and the answers to its questions. Nothing that it says is
//! trusted: a number of a file that is not open, a length beyond the most, an unknown question are
//! errors, and nothing else.

use super::wire::{Ask, DATA_MAX, Head, Message};
use crate::api::Api;
use crate::said;
use rustix::fd::OwnedFd;
use sqlite_vfs::{Calls, Mount, Request, SqliteFile, ffi};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

/// Most files that one client may have open.
const FILES_MAX: usize = 4096;
/// No offset of a client lies behind this: SQLite's are positive numbers, and sums stay so.
const OFFSET_MAX: u64 = i64::MAX as u64 - (1 << 32);

/// The client's files.
pub struct Served {
    api: Api,
    mount: Arc<Mount>,
    files: BTreeMap<u32, Box<SqliteFile>>,
    next: u32,
}

/// An answer that is being made.
#[derive(Default)]
struct Answer {
    code: c_int,
    a: u64,
    b: u64,
    data: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Answer {
    fn code(code: c_int) -> Answer {
        Answer {
            code,
            ..Answer::default()
        }
    }

    fn number(found: Result<u64, c_int>) -> Answer {
        match found {
            Ok(a) => Answer {
                a,
                ..Answer::default()
            },
            Err(code) => Answer::code(code),
        }
    }
}

impl Served {
    pub fn new(api: Api, mount: Arc<Mount>) -> Served {
        Served {
            api,
            mount,
            files: BTreeMap::new(),
            next: 1,
        }
    }

    /// Answers a question. A failure comes with its number and its text.
    pub fn answer(&mut self, question: &Message) -> Message {
        let before = said::count();
        let answer = rt::foreign(|| self.answered(question)).unwrap_or_else(|_| {
            said::say(self.api, ffi::SQLITE_IOERR, 5, "a fault in the extension");
            Answer::code(ffi::SQLITE_IOERR)
        });
        let is_good = matches!(answer.code, ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ);
        let told = match is_good {
            true => None,
            false => said::since(before),
        };
        let errno = told.as_ref().map_or(0, |(errno, _)| *errno);
        Message {
            head: Head {
                what: answer.code as u32,
                which: errno as u32,
                a: answer.a,
                b: answer.b,
            },
            data: told.map_or(answer.data, |(_, text)| text),
            descriptor: answer.descriptor,
        }
    }

    fn answered(&mut self, question: &Message) -> Answer {
        let Head { what, which, a, b } = question.head;
        let data = &question.data;
        match Ask::of(what) {
            None => Answer::code(ffi::SQLITE_NOTFOUND),
            Some(Ask::Open) => self.open(data, a as c_int, b != 0),
            Some(Ask::Close) => match self.files.remove(&which) {
                Some(file) => Answer::code(file.close()),
                None => Answer::code(ffi::SQLITE_IOERR_CLOSE),
            },
            Some(Ask::Delete) => Answer::code(sqlite_vfs::delete(&self.mount, data, a != 0)),
            Some(Ask::Exists) => {
                Answer::number(sqlite_vfs::exists(&self.mount, data, a as c_int).map(u64::from))
            }
            Some(ask) => match self.files.get_mut(&which) {
                Some(file) => on_file(file, ask, (a, b), data),
                None => Answer::code(ffi::SQLITE_IOERR),
            },
        }
    }

    fn open(&mut self, path: &[u8], flags: c_int, powersafe_overwrite: bool) -> Answer {
        if self.files.len() >= FILES_MAX {
            return Answer::code(ffi::SQLITE_CANTOPEN);
        }
        let request = Request {
            path: Some(path.to_vec()),
            flags,
            powersafe_overwrite,
        };
        match sqlite_vfs::open(&self.mount, request) {
            Err(code) => Answer::code(code),
            Ok((file, flags)) => {
                while self.files.contains_key(&self.next) {
                    self.next = self.next.wrapping_add(1);
                }
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                self.files.insert(number, Box::new(file));
                Answer {
                    a: u64::from(number),
                    b: flags as u32 as u64,
                    ..Answer::default()
                }
            }
        }
    }

    /// Closes what the client has left open, which frees its locks. Journals first: a transaction
    /// that was not committed is given up before another connection may lock its database.
    pub fn close_all(&mut self) {
        let files = std::mem::take(&mut self.files).into_values();
        let (databases, others): (Vec<_>, Vec<_>) = files.partition(|file| file.is_database());
        for file in others.into_iter().chain(databases) {
            // A failure was told where it happened.
            let _ = rt::foreign(|| file.close());
        }
    }
}

fn on_file(file: &mut SqliteFile, ask: Ask, (a, b): (u64, u64), data: &[u8]) -> Answer {
    match ask {
        Ask::Read | Ask::Write | Ask::Truncate if a > OFFSET_MAX => Answer::code(ffi::SQLITE_IOERR),
        Ask::Read => read(file, a, b),
        Ask::Write => Answer::code(file.write(a, data)),
        Ask::Truncate => Answer::code(file.truncate(a)),
        Ask::Sync => Answer::code(file.sync()),
        Ask::Size => Answer::number(file.size()),
        Ask::Lock => Answer::code(file.lock(a as c_int)),
        Ask::Unlock => Answer::code(file.unlock(a as c_int)),
        Ask::IsReserved => Answer::number(file.is_reserved().map(u64::from)),
        Ask::Control => {
            let (code, value) = file.control(a as c_int, b as i64);
            Answer {
                code,
                a: value as u64,
                ..Answer::default()
            }
        }
        Ask::TempName => Answer {
            data: file.temp_name().unwrap_or_default(),
            ..Answer::default()
        },
        Ask::Device => Answer {
            a: file.sector_bytes() as u32 as u64,
            b: file.device_characteristics() as u32 as u64,
            ..Answer::default()
        },
        Ask::ShmMap => shm_map(file, a, b),
        Ask::ShmLock => match sqlite_vfs::slots(a as u32 as i32, (a >> 32) as i32) {
            Some(slots) => Answer::code(file.shm_lock(slots, b as c_int)),
            None => Answer::code(ffi::SQLITE_IOERR_SHMLOCK),
        },
        Ask::ShmUnmap => {
            file.shm_unmap();
            Answer::default()
        }
        Ask::Open | Ask::Close | Ask::Delete | Ask::Exists => Answer::code(ffi::SQLITE_NOTFOUND),
    }
}

fn read(file: &mut SqliteFile, offset: u64, bytes: u64) -> Answer {
    if bytes > DATA_MAX as u64 {
        return Answer::code(ffi::SQLITE_IOERR_READ);
    }
    let mut data = vec![0; bytes as usize];
    match file.read(offset, &mut data) {
        code @ (ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ) => Answer {
            code,
            data,
            ..Answer::default()
        },
        failed => Answer::code(failed),
    }
}

fn shm_map(file: &mut SqliteFile, region: u64, b: u64) -> Answer {
    let (bytes, extend) = (b & !(1 << 63), b >> 63 != 0);
    let (Ok(region), Ok(bytes)) = (usize::try_from(region), usize::try_from(bytes)) else {
        return Answer::code(ffi::SQLITE_IOERR_SHMMAP);
    };
    match file.shared_region(region, bytes, extend) {
        Ok(descriptor) => Answer {
            a: u64::from(descriptor.is_some()),
            descriptor,
            ..Answer::default()
        },
        Err(code) => Answer::code(code),
    }
}
