//! Paths of a recording: absolute, without `.`, `..` and empty names.

const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4095;

/// An absolute path without `.`, `..` and empty names.
pub(super) fn normal(text: &str) -> Result<String, &'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name if name.len() > NAME_BYTES_MAX => return Err("path too long"),
            name => names.push(name),
        }
    }
    let path = format!("/{}", names.join("/"));
    match path.len() {
        0..=PATH_BYTES_MAX => Ok(path),
        _ => Err("path too long"),
    }
}

pub(super) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}
