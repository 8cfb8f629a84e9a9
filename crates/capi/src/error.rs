//! Failures as codes and text.

use base::plain;
use facade::raw::{Errno, FsError};
use std::ffi::{c_char, c_int};

/// Bytes of the text of an error, with the zero at its end.
pub const VARVE_TEXT_BYTES: usize = 512;

/// Why a call failed.
#[repr(C)]
pub struct varve_error {
    /// The negative errno that the call answered, or 0.
    pub code: c_int,
    /// What failed, where and why, in UTF-8; cut at its end if it is longer.
    pub text: [c_char; VARVE_TEXT_BYTES],
}

/// A failure on its way to the caller.
pub(crate) struct Failure {
    pub code: c_int,
    pub text: String,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(errno: Errno, text: impl Into<String>) -> Failure {
        Failure {
            code: -errno.code(),
            text: text.into(),
        }
    }
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Errno::Inval, text)
    }
    /// Of an operation on a path or on a handle.
    pub fn of(doing: &str, what: &[u8]) -> impl FnOnce(FsError) -> Failure {
        let text = format!("{doing} {}", String::from_utf8_lossy(what));
        move |e| Failure::new(e.errno(), format!("{text}: {e}"))
    }
}

impl From<facade::Error> for Failure {
    fn from(e: facade::Error) -> Failure {
        Failure {
            code: -e.errno(),
            text: e.to_string(),
        }
    }
}

/// Runs a call: a failure goes to `error` and comes back as a code, and so does a panic.
pub(crate) fn guarded(error: *mut varve_error, f: impl FnOnce() -> Outcome<c_int>) -> c_int {
    let outcome = rt::foreign(f).unwrap_or_else(|payload| {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
        let text = format!("a fault in the library: {}", said.unwrap_or("it panicked"));
        Err(Failure::new(Errno::Io, text))
    });
    let (code, text) = match outcome {
        Ok(value) => (value, String::new()),
        Err(failure) => (failure.code, failure.text),
    };
    // SAFETY: the caller passes null, or a place for an error.
    if let Some(error) = unsafe { error.as_mut() } {
        error.code = code.min(0);
        fill(&mut error.text, plain::line(&text).as_bytes());
    }
    code
}

/// Copies a text and ends it with a zero; cuts what is too long in front of a character.
pub(crate) fn fill(out: &mut [c_char], text: &[u8]) {
    let mut n = text.len().min(out.len() - 1);
    while n < text.len() && n > 0 && text[n] & 0xC0 == 0x80 {
        n -= 1;
    }
    for (to, from) in out.iter_mut().zip(&text[..n]) {
        *to = *from as c_char;
    }
    out[n] = 0;
}

/// The text of a code that a function answered. It belongs to the library and stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn varve_strerror(code: c_int) -> *const c_char {
    let text = match code.checked_abs() {
        Some(0) => c"success",
        Some(1) => c"operation not permitted",
        Some(2) => c"no such file or directory",
        Some(5) => c"input/output error",
        Some(9) => c"not open for this",
        Some(11) => c"resource temporarily unavailable",
        Some(13) => c"permission denied",
        Some(16) => c"device or resource busy",
        Some(17) => c"file exists",
        Some(18) => c"cross-device link",
        Some(20) => c"not a directory",
        Some(21) => c"is a directory",
        Some(22) => c"invalid argument",
        Some(27) => c"file too large",
        Some(28) => c"no space left on device",
        Some(30) => c"read-only file system",
        Some(31) => c"too many links",
        Some(34) => c"numerical result out of range",
        Some(36) => c"file name too long",
        Some(39) => c"directory not empty",
        Some(40) => c"too many levels of symbolic links",
        Some(95) => c"operation not supported",
        Some(108) => c"the file system is unmounted",
        Some(117) => c"structure needs cleaning",
        _ => c"an error without a text; varve_error has one",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_is_a_code_and_a_text() {
        let text = [0; VARVE_TEXT_BYTES];
        let mut error = varve_error { code: 0, text };
        let code = guarded(&raw mut error, || panic!("cause {}", 7));
        assert_eq!((code, error.code), (-5, -5));
        // SAFETY: `fill` ends the text with a zero.
        let said = unsafe { CStr::from_ptr(error.text.as_ptr()) };
        assert_eq!(said, c"a fault in the library: cause 7");
    }

    #[test]
    fn a_long_text_is_cut_at_its_end() {
        let mut out = [1; 4];
        fill(&mut out, b"abcdef");
        assert_eq!(out.map(|c| c as u8), *b"abc\0");
        fill(&mut out, "ab\u{e9}".as_bytes());
        assert_eq!(
            out.map(|c| c as u8)[..3],
            *b"ab\0",
            "no half of a character"
        );
    }

    #[test]
    fn a_name_in_a_text_cannot_drive_a_terminal() {
        let text = [0; VARVE_TEXT_BYTES];
        let mut error = varve_error { code: 0, text };
        guarded(&raw mut error, || {
            Err(Failure::invalid("opening /a\u{1b}[31m\n"))
        });
        // SAFETY: `fill` ends the text with a zero.
        let said = unsafe { CStr::from_ptr(error.text.as_ptr()) };
        assert!(
            !said.to_bytes().iter().any(u8::is_ascii_control),
            "{said:?}"
        );
    }
}
