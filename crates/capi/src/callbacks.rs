//! A block device of the caller's, as functions.

use crate::error::{Failure, Outcome};
use facade::Device;
use rt::Mutex;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Arc;

/// A block device of the caller's. Each function answers 0 or a negative errno. They are called by
/// threads of the library, too, but one at a time. Offsets and lengths are bytes and multiples of
/// `sector_bytes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varve_device {
    /// Passed to each function.
    pub context: *mut c_void,
    /// The size in bytes; it must not change.
    pub bytes: u64,
    /// 512 or 4096; 0 means 512. A cut of power leaves each sector old or new.
    pub sector_bytes: u32,
    /// Fills `data` from `offset` on.
    pub read: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: u64,
            data: *mut c_void,
            bytes: usize,
        ) -> c_int,
    >,
    /// Writes `data` at `offset`. It may be volatile until a flush.
    pub write: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: u64,
            data: *const c_void,
            bytes: usize,
        ) -> c_int,
    >,
    /// Makes all that was written survive a cut of power.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// The content of these bytes is no longer needed; may be NULL.
    pub discard:
        Option<unsafe extern "C" fn(context: *mut c_void, offset: u64, bytes: u64) -> c_int>,
}

// SAFETY: the caller was told that threads of the library call the functions with the context.
unsafe impl Send for varve_device {}

/// The functions, until the disk is closed: nothing calls them then, because the caller may have
/// freed what they use.
pub(crate) struct Gate {
    open: Mutex<Option<varve_device>>,
}

impl Gate {
    pub fn close(&self) {
        self.open.lock().take();
    }

    /// Calls with the lock held, so that there is one call at a time.
    fn call(&self, name: &str, f: impl FnOnce(&varve_device) -> Option<c_int>) -> io::Result<()> {
        let open = self.open.lock();
        let device = open.as_ref();
        let device = device.ok_or_else(|| io::Error::other("the disk is closed"))?;
        match f(device) {
            Some(0) => Ok(()),
            Some(code) if code < 0 => Err(io::Error::other(format!(
                "{name} of the device answered {code} ({})",
                io::Error::from_raw_os_error(code.saturating_neg())
            ))),
            Some(code) => Err(io::Error::other(format!(
                "{name} of the device answered {code}; it has to be 0 or a negative errno"
            ))),
            None => Err(io::Error::other(format!("the device has no {name}"))),
        }
    }
}

/// The functions as a device.
pub(crate) struct Callbacks {
    bytes: u64,
    sector_bytes: u32,
    discards: bool,
    gate: Arc<Gate>,
}

impl Callbacks {
    /// Refuses a device without the functions that it needs.
    pub fn new(device: varve_device) -> Outcome<(Callbacks, Arc<Gate>)> {
        let needed = [
            (device.read.is_none(), "read"),
            (device.write.is_none(), "write"),
            (device.flush.is_none(), "flush"),
        ];
        if let Some((_, name)) = needed.into_iter().find(|(missing, _)| *missing) {
            return Err(Failure::invalid(format!("{name} of the device is NULL")));
        }
        let gate = Arc::new(Gate {
            open: Mutex::named("callbacks", Some(device)),
        });
        let callbacks = Callbacks {
            bytes: device.bytes,
            sector_bytes: if device.sector_bytes == 0 {
                512
            } else {
                device.sector_bytes
            },
            discards: device.discard.is_some(),
            gate: gate.clone(),
        };
        Ok((callbacks, gate))
    }
}

impl Device for Callbacks {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }
    fn can_discard(&self) -> bool {
        self.discards
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (data, bytes) = (buf.as_mut_ptr().cast(), buf.len());
        self.gate.call("read", |d| {
            let read = d.read?;
            // SAFETY: the caller's function with the caller's context and a buffer of that length.
            Some(unsafe { read(d.context, offset, data, bytes) })
        })
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (data, bytes) = (data.as_ptr().cast(), data.len());
        self.gate.call("write", |d| {
            let write = d.write?;
            // SAFETY: as above; the function only reads the buffer.
            Some(unsafe { write(d.context, offset, data, bytes) })
        })
    }
    fn flush(&self) -> io::Result<()> {
        self.gate.call("flush", |d| {
            let flush = d.flush?;
            // SAFETY: the caller's function with the caller's context.
            Some(unsafe { flush(d.context) })
        })
    }
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.gate.call("discard", |d| {
            let discard = d.discard?;
            // SAFETY: the caller's function with the caller's context.
            Some(unsafe { discard(d.context, offset, bytes) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn count(context: *mut c_void) -> c_int {
        // SAFETY: the test passes a number that outlives the calls.
        unsafe { *context.cast::<u32>() += 1 };
        0
    }
    unsafe extern "C" fn read(_: *mut c_void, _: u64, _: *mut c_void, _: usize) -> c_int {
        0
    }
    unsafe extern "C" fn write(_: *mut c_void, _: u64, _: *const c_void, _: usize) -> c_int {
        0
    }

    #[test]
    fn no_function_is_called_behind_a_closed_gate() {
        let mut calls = 0_u32;
        let device = varve_device {
            context: (&raw mut calls).cast(),
            bytes: 8192,
            sector_bytes: 0,
            read: Some(read),
            write: Some(write),
            flush: Some(count),
            discard: None,
        };
        let (callbacks, gate) = Callbacks::new(device).ok().unwrap();
        callbacks.flush().unwrap();
        gate.close();
        let e = callbacks.flush().unwrap_err();
        assert_eq!((e.to_string().as_str(), calls), ("the disk is closed", 1));
    }
}
