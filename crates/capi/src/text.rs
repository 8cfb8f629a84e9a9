//! Arguments of C: texts, handles and places for answers.

use crate::error::{Failure, Outcome};
use std::ffi::{CStr, c_char};

/// The bytes of a text.
///
/// # Safety
/// `text` is null, or ends with a zero and outlives the answer.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Outcome<&'a [u8]> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL")));
    }
    // SAFETY: as this function demands.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A text in UTF-8; null is empty.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn words<'a>(words: *const c_char, name: &str) -> Outcome<&'a str> {
    if words.is_null() {
        return Ok("");
    }
    // SAFETY: as this function demands.
    let bytes = unsafe { text(words, name) }?;
    std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

/// What a handle leads to.
///
/// # Safety
/// `handle` is null, or a handle that was not ended and is not while the answer lives.
pub(crate) unsafe fn handle<'a, T>(handle: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: as this function demands.
    let handle = unsafe { handle.as_ref() };
    handle.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// The place for an answer.
///
/// # Safety
/// `place` is null, or valid for writing while the answer lives.
pub(crate) unsafe fn place<'a, T>(place: *mut T, name: &str) -> Outcome<&'a mut T> {
    // SAFETY: as this function demands.
    let place = unsafe { place.as_mut() };
    place.ok_or_else(|| Failure::invalid(format!("the place for {name} is NULL")))
}
