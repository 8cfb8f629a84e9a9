//! Decides by the extension in its name whether a file is hot or cold.
//!
//! The superblock lists extensions. As in Linux an extension counts wherever a dot precedes it,
//! except as the first character (`photo.jpg.part` is as cold as `photo.jpg`), without regard to
//! case; `*` means every name.

use ondisk::f2fs::{Advise, Superblock};

/// The two lists.
#[derive(Default)]
pub(super) struct Extensions {
    cold: Vec<Vec<u8>>,
    hot: Vec<Vec<u8>>,
    /// One of them is `*`.
    any_name: bool,
}

impl Extensions {
    pub fn new(sb: &Superblock) -> Extensions {
        let list = |names: &mut dyn Iterator<Item = &[u8]>| {
            names
                .filter(|n| !n.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        };
        Extensions::of(
            list(&mut sb.cold_extensions()),
            list(&mut sb.hot_extensions()),
        )
    }

    fn of(cold: Vec<Vec<u8>>, hot: Vec<Vec<u8>>) -> Extensions {
        let any_name = cold.iter().chain(&hot).any(|ext| ext == b"*");
        Extensions {
            cold,
            hot,
            any_name,
        }
    }

    /// What the name of a new regular file says.
    pub fn advise(&self, name: &[u8]) -> Advise {
        // Most names of the lists need not be compared with a name that has no extension.
        if !self.any_name && !name.iter().skip(1).any(|&b| b == b'.') {
            return Advise::NONE;
        }
        let listed = |list: &[Vec<u8>]| list.iter().any(|ext| matches(name, ext));
        if listed(&self.cold) {
            Advise::COLD
        } else if listed(&self.hot) {
            Advise::HOT
        } else {
            Advise::NONE
        }
    }
}

fn matches(name: &[u8], ext: &[u8]) -> bool {
    if ext == b"*" {
        return true;
    }
    let dots = name.iter().enumerate().skip(1).filter(|&(_, &b)| b == b'.');
    dots.map(|(at, _)| &name[at + 1..])
        .any(|rest| rest.len() >= ext.len() && rest[..ext.len()].eq_ignore_ascii_case(ext))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_count_behind_any_dot_but_the_first() {
        let list = |names: &[&str]| names.iter().map(|n| n.as_bytes().to_vec()).collect();
        let lists = Extensions::of(list(&["jpg", "mp4"]), list(&["db"]));
        for (name, expected) in [
            ("photo.jpg", Advise::COLD),
            ("photo.JPG", Advise::COLD),
            ("photo.jpg.part", Advise::COLD),
            (".jpg", Advise::NONE),
            ("jpg", Advise::NONE),
            ("a.jp", Advise::NONE),
            ("test.db", Advise::HOT),
            ("test.db-journal", Advise::HOT),
            ("a.db.mp4", Advise::COLD),
            ("plain", Advise::NONE),
        ] {
            assert_eq!(lists.advise(name.as_bytes()), expected, "{name}");
        }
        let every = Extensions::of(list(&["*"]), Vec::new());
        assert_eq!(every.advise(b"x"), Advise::COLD);
    }
}
