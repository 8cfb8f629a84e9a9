//! The parameters of a database's URI: `create`, `fs`, `options`, `psow`.

use crate::api::Api;
use sqlite_vfs::ffi;
use std::ffi::{CStr, c_char, c_int};
use varve::Kind;

/// The parameters that count here: ours, and those that SQLite itself reads.
const KNOWN: [&str; 9] = [
    "create",
    "fs",
    "options",
    "psow",
    "vfs",
    "mode",
    "cache",
    "immutable",
    "nolock",
];

/// How an image is made and mounted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// Bytes of an image that is made if there is none.
    pub create: Option<u64>,
    /// The file system of an image that is made; ext4 by default.
    pub kind: Option<Kind>,
    /// Options of the mount, as those of `varve mount -o`.
    pub options: Option<String>,
}

/// Reads the parameters of a main database.
///
/// # Safety
/// `name` was passed to xOpen for a main database, and `flags` with it.
///
/// # Errors
/// A parameter that does not exist, or a value that is not valid, as a text for the user.
pub unsafe fn wish(api: Api, name: *const c_char, flags: c_int) -> Result<Wish, String> {
    // SAFETY: the caller's promise.
    let text = |key: &CStr| match unsafe { api.uri_parameter(name, key) } {
        None => Ok(None),
        Some(value) => String::from_utf8(value)
            .map(Some)
            .map_err(|_| format!("the parameter {} is no UTF-8", key.to_string_lossy())),
    };
    // SAFETY: the caller's promise.
    check_keys(unsafe { api.uri_keys(name) })?;
    let create = text(c"create")?.map(|value| size(&value)).transpose()?;
    Ok(Wish {
        create: create.filter(|_| flags & ffi::SQLITE_OPEN_CREATE != 0),
        kind: text(c"fs")?.map(|value| kind(&value)).transpose()?,
        options: text(c"options")?,
    })
}

/// Refuses a parameter that nobody reads: one that is misspelt would be ignored in silence. Keys
/// that begin with `_` belong to the drivers of some languages, which leave them in the URI.
fn check_keys(keys: Vec<Vec<u8>>) -> Result<(), String> {
    let known = |key: &Vec<u8>| {
        key.starts_with(b"_") || KNOWN.iter().any(|known| known.as_bytes() == key.as_slice())
    };
    match keys.into_iter().find(|key| !known(key)) {
        None => Ok(()),
        Some(key) => Err(format!(
            "the parameter `{}` is unknown; there are: {}",
            String::from_utf8_lossy(&key),
            KNOWN.join(", ")
        )),
    }
}

/// A size with a binary suffix; a bare number is bytes.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "create={text}: say the size of the image, as in create=64M; suffixes are K, M, G, T"
        )
    };
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        Some(b't' | b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .filter(|&n| n > 0)
        .ok_or_else(wrong)
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "ext4" => Ok(Kind::Ext4),
        "ext3" => Ok(Kind::Ext3),
        "f2fs" => Ok(Kind::F2fs),
        _ => Err(format!("fs={text}; there are: ext4, ext3, f2fs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nobody_reads_is_refused_by_name() {
        let keys = |keys: &[&str]| check_keys(keys.iter().map(|k| k.as_bytes().to_vec()).collect());
        assert_eq!(keys(&["vfs", "create", "_busy_timeout"]), Ok(()));
        let e = keys(&["vfs", "creat"]).unwrap_err();
        assert!(
            e.contains("`creat` is unknown; there are: create, fs"),
            "{e}"
        );
    }

    #[test]
    fn sizes_have_binary_suffixes() {
        for (text, bytes) in [
            ("64M", 64 << 20),
            ("1g", 1 << 30),
            ("8192", 8192),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes));
        }
        for text in ["", "M", "0", "-1M", "64MB", "99999999999T", "1.5G"] {
            let e = size(text).unwrap_err();
            assert!(e.starts_with(&format!("create={text}: ")), "{e}");
        }
    }
}
