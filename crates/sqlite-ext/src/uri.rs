//! The parameters of a database's URI: `create`, `fs`, `options`, `psow`.

use crate::api::Api;
use base::size::{Bare, within};
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
    if let Some(value) = text(c"psow")? {
        check_switch("psow", &value)?;
    }
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

/// A size; a bare number is bytes.
fn size(text: &str) -> Result<u64, String> {
    within(text, Bare::Bytes, 1..=1 << 60)
        .map_err(|e| format!("create={text}: the size of the image, as in create=64M, is {e}"))
}

/// Refuses what SQLite would take for its default.
fn check_switch(key: &str, value: &str) -> Result<(), String> {
    let words = ["1", "on", "yes", "true", "0", "off", "no", "false"];
    match words.iter().any(|word| value.eq_ignore_ascii_case(word)) {
        true => Ok(()),
        false => Err(format!("{key}={value}; there are: {}", words.join(", "))),
    }
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
            let named = e.starts_with(&format!("create={text}: "));
            assert!(named && e.contains("with k, M, G or T behind it"), "{e}");
        }
    }

    #[test]
    fn a_switch_is_one_of_the_words_of_sqlite() {
        for word in ["1", "ON", "no", "False"] {
            assert_eq!(check_switch("psow", word), Ok(()));
        }
        let e = check_switch("psow", "maybe").unwrap_err();
        assert!(
            e.contains("psow=maybe; there are: 1, on, yes, true, 0"),
            "{e}"
        );
    }
}
