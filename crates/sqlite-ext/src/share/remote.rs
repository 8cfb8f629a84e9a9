//! An open file that another process serves: each call is a message and its answer.

use super::client::Session;
use super::wire::{Ask, DATA_MAX, Head};
use crate::said;
use rt::Payload;
use rustix::fd::OwnedFd;
use sqlite_vfs::{Calls, Region, SHARED_REGION_BYTES, SHARED_REGIONS_MAX, ffi};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

/// State of one `sqlite3_file`.
pub struct RemoteFile {
    session: Arc<Session>,
    number: u32,
    sector_bytes: c_int,
    characteristics: c_int,
    /// The WAL index of the process that serves, once it was asked for.
    index: Option<Region>,
    /// Regions of it that are there.
    regions: BTreeSet<usize>,
}

/// Opens a file over there; answers it with the flags that came true.
///
/// # Errors
/// SQLite's code.
pub fn open(
    session: &Arc<Session>,
    path: &[u8],
    flags: c_int,
    powersafe_overwrite: bool,
) -> Result<(RemoteFile, c_int), c_int> {
    let head = Head {
        what: Ask::Open as u32,
        a: flags as u32 as u64,
        b: u64::from(powersafe_overwrite),
        ..Head::default()
    };
    match session.call(head, path) {
        (ffi::SQLITE_OK, Some(answer)) => {
            let mut file = RemoteFile {
                session: Arc::clone(session),
                number: answer.head.a as u32,
                sector_bytes: 0,
                characteristics: 0,
                index: None,
                regions: BTreeSet::new(),
            };
            file.look_at_device();
            Ok((file, answer.head.b as c_int))
        }
        (code, _) => Err(code),
    }
}

/// Removes a file over there. Answers SQLite's code.
pub fn delete(session: &Session, path: &[u8], sync_dir: bool) -> c_int {
    let head = Head {
        what: Ask::Delete as u32,
        a: u64::from(sync_dir),
        ..Head::default()
    };
    session.call(head, path).0
}

/// xAccess over there.
///
/// # Errors
/// SQLite's code.
pub fn exists(session: &Session, path: &[u8], flags: c_int) -> Result<bool, c_int> {
    let head = Head {
        what: Ask::Exists as u32,
        a: flags as u32 as u64,
        ..Head::default()
    };
    match session.call(head, path) {
        (ffi::SQLITE_OK, Some(answer)) => Ok(answer.head.a != 0),
        (code, _) => Err(code),
    }
}

impl RemoteFile {
    fn call(&self, ask: Ask, a: u64, b: u64, data: &[u8]) -> (c_int, Option<super::wire::Message>) {
        let head = Head {
            what: ask as u32,
            which: self.number,
            a,
            b,
        };
        self.session.call(head, data)
    }

    fn code(&self, ask: Ask, a: u64, b: u64) -> c_int {
        self.call(ask, a, b, b"").0
    }

    /// The number that is answered with SQLITE_OK.
    fn number(&self, ask: Ask) -> Result<u64, c_int> {
        match self.call(ask, 0, 0, b"") {
            (ffi::SQLITE_OK, Some(answer)) => Ok(answer.head.a),
            (code, _) => Err(code),
        }
    }

    /// SQLite asks for these often, and only a file control changes them.
    fn look_at_device(&mut self) {
        if let (ffi::SQLITE_OK, Some(answer)) = self.call(Ask::Device, 0, 0, b"") {
            self.sector_bytes = answer.head.a as c_int;
            self.characteristics = answer.head.b as c_int;
        }
    }

    fn map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<*mut c_void, c_int> {
        let b = bytes as u64 | u64::from(extend) << 63;
        let (code, answer) = self.call(Ask::ShmMap, region as u64, b, b"");
        let (ffi::SQLITE_OK, Some(answer)) = (code, answer) else {
            return Err(code);
        };
        if answer.head.a == 0 {
            return Ok(std::ptr::null_mut());
        }
        if self.index.is_none() {
            self.index = Some(self.index_of(answer.descriptor)?);
        }
        self.regions.insert(region);
        self.address(region).ok_or(ffi::SQLITE_IOERR_SHMMAP)
    }

    /// The index over there, mapped.
    fn index_of(&self, memory: Option<OwnedFd>) -> Result<Region, c_int> {
        let told = |why: &str| {
            let code = ffi::SQLITE_IOERR_SHMMAP;
            let text = format!("the WAL index of the process that has the image mounted: {why}");
            said::say(self.session.api(), code, 5, &text);
            code
        };
        let memory = memory.ok_or_else(|| told("it came without its memory"))?;
        let bytes = SHARED_REGIONS_MAX * SHARED_REGION_BYTES;
        let mapped = Region::of_another_process(memory, bytes);
        let mapped = mapped.map_err(|e| told(&e.to_string()))?;
        mapped.ok_or_else(|| told("its memory is too short"))
    }

    /// Where a region that is there lies.
    fn address(&self, region: usize) -> Option<*mut c_void> {
        let start = self.index.as_ref()?.start();
        let is_there = region < SHARED_REGIONS_MAX && self.regions.contains(&region);
        is_there.then(|| start.wrapping_byte_add(region * SHARED_REGION_BYTES).cast())
    }
}

impl Calls for RemoteFile {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> c_int {
        let mut worst = ffi::SQLITE_OK;
        for (n, part) in buf.chunks_mut(DATA_MAX).enumerate() {
            let at = offset + (n * DATA_MAX) as u64;
            let (code, answer) = self.call(Ask::Read, at, part.len() as u64, b"");
            match (code, answer) {
                (ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ, Some(answer))
                    if answer.data.len() == part.len() =>
                {
                    part.copy_from_slice(&answer.data);
                }
                (ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ, _) => {
                    return ffi::SQLITE_IOERR_READ;
                }
                (failed, _) => return failed,
            }
            if code != ffi::SQLITE_OK {
                worst = code;
            }
        }
        worst
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> c_int {
        for (n, part) in data.chunks(DATA_MAX).enumerate() {
            let at = offset + (n * DATA_MAX) as u64;
            match self.call(Ask::Write, at, 0, part).0 {
                ffi::SQLITE_OK => {}
                failed => return failed,
            }
        }
        ffi::SQLITE_OK
    }

    fn truncate(&mut self, size: u64) -> c_int {
        self.code(Ask::Truncate, size, 0)
    }

    fn sync(&mut self) -> c_int {
        self.code(Ask::Sync, 0, 0)
    }

    fn size(&mut self) -> Result<u64, c_int> {
        self.number(Ask::Size)
    }

    fn lock(&mut self, level: c_int) -> c_int {
        self.code(Ask::Lock, level as u64, 0)
    }

    fn unlock(&mut self, level: c_int) -> c_int {
        self.code(Ask::Unlock, level as u64, 0)
    }

    fn is_reserved(&mut self) -> Result<bool, c_int> {
        Ok(self.number(Ask::IsReserved)? != 0)
    }

    fn control(&mut self, op: c_int, value: i64) -> (c_int, i64) {
        let (code, answer) = self.call(Ask::Control, op as u32 as u64, value as u64, b"");
        if op == ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE {
            self.look_at_device();
        }
        (code, answer.map_or(value, |answer| answer.head.a as i64))
    }

    fn temp_name(&mut self) -> Option<Vec<u8>> {
        match self.call(Ask::TempName, 0, 0, b"") {
            (ffi::SQLITE_OK, Some(answer)) => Some(answer.data),
            _ => None,
        }
    }

    fn sector_bytes(&mut self) -> c_int {
        self.sector_bytes
    }

    fn device_characteristics(&mut self) -> c_int {
        self.characteristics
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<*mut c_void, c_int> {
        match self.address(region) {
            Some(start) => Ok(start),
            None => self.map(region, bytes, extend),
        }
    }

    fn shm_lock(&mut self, slots: Range<usize>, flags: c_int) -> c_int {
        let a = slots.start as u64 | (slots.len() as u64) << 32;
        self.code(Ask::ShmLock, a, flags as u64)
    }

    fn shm_unmap(&mut self) {
        self.code(Ask::ShmUnmap, 0, 0);
        self.regions.clear();
        self.index = None;
    }

    fn idle(&mut self) {}

    /// With the process that had it the file has ended, which was told.
    fn close(self: Box<Self>) -> c_int {
        match self.session.is_alive() {
            true => self.code(Ask::Close, 0, 0),
            false => ffi::SQLITE_OK,
        }
    }

    fn is_of_another_process(&self) -> bool {
        self.session.is_of_another_process()
    }

    fn keep_panic(&self, _payload: Payload) {
        let text = "a fault in the extension";
        said::say(self.session.api(), ffi::SQLITE_IOERR, 5, text);
    }
}
