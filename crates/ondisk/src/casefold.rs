//! Names without regard to case, as ext4 and F2FS of Linux compare them (encoding `utf8-12.1`).
//!
//! Two names are the same if they fold to the same bytes. A name is folded character by character:
//! canonical decomposition, full case folding, decomposition of what that gives, and then marks are
//! put in the order of their combining classes (Unicode 12.1, UAX 15 and section 3.13). The tables
//! come from crates of later versions of Unicode; the stability policies of Unicode keep all of
//! this for characters that 12.1 has, so only the rules below are needed to get the older version.
//!
//! - G1 a character that Unicode 12.1 does not assign is itself, whatever later versions say of it,
//!   and no mark moves across it;
//! - G2 an ignorable character is left out, assigned or not, but no mark moves across its place.
//!   U+180F is ignorable since version 14 only;
//! - G3 a name that is not UTF-8 has no folding: a sequence that is cut off, longer than needed, a
//!   surrogate, beyond U+10FFFF. But a stray byte from 0x80 to 0xBF behind the first character does
//!   no harm, because Linux takes it for the end of that character. It stays where it is; behind
//!   marks it comes once while they are counted, and once more behind those of each class.
//!
//! Sources: kernel documentation `admin-guide/ext4.rst`, "case-insensitive file name lookups"; the
//! rules were found by asking debugfs 1.47 (`dx_hash -c -e utf8`) for each character, and a test of
//! `ext4` asks it again.

use base::bytes::get_le16;
use caseless::Caseless;
use regex_syntax::hir::{Class, HirKind};
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

/// The encoding `utf8-12.1` (`s_encoding`); no other one is defined.
const UTF8_12_1: u16 = 1;
/// Names that are not UTF-8 are refused (`s_encoding_flags`).
const STRICT: u16 = 1;
/// A name that its hash does not lead to is not searched for (`s_encoding_flags`, Linux 6.16).
const HASH_ONLY: u16 = 2;
/// Ignorable since Unicode 14 (G2).
const LATE_IGNORABLE: u32 = 0x180F;

/// How a volume compares names in directories without regard to case.
pub struct Folding {
    /// What Unicode 12.1 assigns, in order.
    assigned: Ranges,
    /// What is ignorable, in order.
    ignorable: Ranges,
    flags: u16,
}

/// Code points from the first to the last, in order.
type Ranges = Box<[(u32, u32)]>;

impl Folding {
    /// The folding that a superblock with feature `casefold` names by these two fields, 16 bits
    /// each: encoding and flags. `None`: an encoding that is not known.
    pub fn new(fields: [u8; 4]) -> Option<Folding> {
        if get_le16(&fields, 0) != UTF8_12_1 {
            return None;
        }
        Some(Folding {
            assigned: ranges(r"\p{Age:12.1}"),
            ignorable: ranges(r"\p{Default_Ignorable_Code_Point}"),
            flags: get_le16(&fields, 2),
        })
    }

    /// The fields of a superblock for [`new`](Self::new): `utf8-12.1`, not strict.
    pub const fn fields() -> [u8; 4] {
        [UTF8_12_1 as u8, 0, 0, 0]
    }

    /// True if the volume refuses this name: a strict one takes UTF-8 only. Others compare names
    /// that have no folding as bytes.
    pub fn refuses(&self, name: &[u8]) -> bool {
        self.flags & STRICT != 0 && std::str::from_utf8(name).is_err()
    }

    /// True if a name that its hash does not lead to is searched for everywhere, because a kernel
    /// with other rules may have made it.
    pub fn searches_all(&self) -> bool {
        self.flags & HASH_ONLY == 0
    }

    /// The folded name, which may be empty; `None` if it has none (G3).
    pub fn fold(&self, name: &[u8]) -> Option<Vec<u8>> {
        if name.is_ascii() {
            return Some(name.to_ascii_lowercase());
        }
        self.fold_while(name, |_| true)
    }

    /// As [`fold`](Self::fold); also `None` if `go_on` says no to what the name begins with. It is
    /// asked behind each character, because most names of a directory differ in the first one, and
    /// a search through all of them must not fold the rest.
    fn fold_while(&self, name: &[u8], go_on: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut folded = Folded::default();
        let mut rest = name;
        while let [first, behind @ ..] = rest {
            if matches!(first, 0x80..=0xBF) && rest.len() < name.len() {
                folded.stray(*first);
                rest = behind;
                continue;
            }
            // What is valid up to the next byte that is not.
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text,
                Err(e) if e.valid_up_to() == 0 => return None,
                Err(e) => std::str::from_utf8(&rest[..e.valid_up_to()]).expect("valid so far"),
            };
            for c in valid.chars() {
                self.fold_char(c, &mut folded);
                if !go_on(&folded.bytes) {
                    return None;
                }
            }
            rest = &rest[valid.len()..];
        }
        folded.barrier();
        Some(folded.bytes)
    }

    /// Bytes that two names share exactly if they are the same: their folding, or for a name that
    /// has none its bytes behind a NUL, which no name has.
    pub fn identity(&self, name: &[u8]) -> Vec<u8> {
        let same_bytes = || [&[0], name].concat();
        self.fold(name).unwrap_or_else(same_bytes)
    }

    fn fold_char(&self, c: char, out: &mut Folded) {
        let code = c.into();
        if has(&self.ignorable, code) && code != LATE_IGNORABLE {
            return out.barrier();
        }
        if !has(&self.assigned, code) {
            out.barrier();
            return out.push(c);
        }
        let mut parts = Vec::new();
        decompose_canonical(c, |part| parts.push(part));
        for part in parts.into_iter().default_case_fold() {
            decompose_canonical(part, |last| out.add(last));
        }
    }

    /// True if the name `found` is the one that is looked for, whose folding is `folded`.
    pub fn is_same(&self, folded: &[u8], found: &[u8]) -> bool {
        match found.is_ascii() {
            true => {
                found.len() == folded.len()
                    && found
                        .iter()
                        .zip(folded)
                        .all(|(a, b)| a.to_ascii_lowercase() == *b)
            }
            false => self
                .fold_while(found, |start| folded.starts_with(start))
                .is_some_and(|found| found == folded),
        }
    }
}

impl std::fmt::Debug for Folding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folding(utf8-12.1, flags {:#x})", self.flags)
    }
}

/// A name in the making: what is done, and a row of marks whose end is not known yet.
#[derive(Default)]
struct Folded {
    bytes: Vec<u8>,
    row: Vec<Piece>,
}

/// A piece of a row of marks.
enum Piece {
    /// A mark with its combining class.
    Mark(u8, char),
    /// A byte that belongs to no character (G3).
    Stray(u8),
}

impl Folded {
    fn add(&mut self, c: char) {
        match canonical_combining_class(c) {
            0 => {
                self.barrier();
                self.push(c);
            }
            class => self.row.push(Piece::Mark(class, c)),
        }
    }

    fn stray(&mut self, byte: u8) {
        match self.row.is_empty() {
            true => self.bytes.push(byte),
            false => self.row.push(Piece::Stray(byte)),
        }
    }

    /// Ends the row of marks: they come by their classes.
    fn barrier(&mut self) {
        if self.row.is_empty() {
            return;
        }
        let row = std::mem::take(&mut self.row);
        let class = |piece: &Piece| match piece {
            Piece::Mark(class, _) => Some(*class),
            Piece::Stray(_) => None,
        };
        let mut classes: Vec<u8> = row.iter().filter_map(class).collect();
        classes.sort_unstable();
        classes.dedup();
        // No mark has class 0, which counts them.
        for pass in [0].into_iter().chain(classes) {
            for piece in &row {
                match piece {
                    Piece::Mark(class, mark) if *class == pass => self.push(*mark),
                    Piece::Mark(..) => {}
                    Piece::Stray(byte) => self.bytes.push(*byte),
                }
            }
        }
    }

    fn push(&mut self, c: char) {
        self.bytes
            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// The code points of a class that `regex-syntax` has a table for.
fn ranges(class: &str) -> Ranges {
    let parsed = regex_syntax::Parser::new().parse(class);
    match parsed.expect("a class that is known").into_kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges().iter();
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
        other => unreachable!("{other:?} is no class"),
    }
}

fn has(ranges: &Ranges, code: u32) -> bool {
    let at = ranges.partition_point(|&(_, last)| last < code);
    ranges.get(at).is_some_and(|&(first, _)| first <= code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What folds alike, in part or together; ignorable; no character (G3).
    const PARTS: &[&[u8]] = &[
        "\u{e9}".as_bytes(),
        "\u{c9}".as_bytes(),
        b"E",
        b"e",
        "\u{301}".as_bytes(),
        "\u{323}".as_bytes(),
        "\u{ad}".as_bytes(),
        b"\x80",
        "\u{df}".as_bytes(),
        b"ss",
        "\u{378}".as_bytes(),
        b"\xC3",
    ];

    fn folding() -> Folding {
        Folding::new(Folding::fields()).expect("known")
    }

    fn text(name: &str) -> String {
        let folded = folding().fold(name.as_bytes()).expect("has a folding");
        String::from_utf8(folded).expect("text stays text")
    }

    #[test]
    fn case_decomposition_and_order_of_marks() {
        let rows = [
            ("README.TXT", "readme.txt"),
            ("Stra\u{df}e", "strasse"),
            ("\u{c4}\u{1e9e}", "a\u{308}ss"),
            ("\u{130}", "i\u{307}"),
            ("\u{fb03}", "ffi"),
            ("\u{3a3}\u{3c2}", "\u{3c3}\u{3c3}"),
            ("\u{ac01}", "\u{1100}\u{1161}\u{11a8}"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
            // The iota below folds to a letter.
            ("\u{3b1}\u{345}\u{301}", "\u{3b1}\u{3b9}\u{301}"),
        ];
        for (name, folded) in rows {
            assert_eq!(text(name), folded, "{name:?}");
        }
    }

    /// G1: U+A7C7 came with 12.1's successor, with a small form; U+1ADC is a mark of version 17.
    #[test]
    fn what_came_later_is_itself_and_holds_marks_back() {
        assert_eq!(text("A\u{a7c7}"), "a\u{a7c7}");
        assert_eq!(text("q\u{307}\u{378}\u{323}"), "q\u{307}\u{378}\u{323}");
        assert_eq!(text("q\u{307}\u{1adc}\u{323}"), "q\u{307}\u{1adc}\u{323}");
    }

    /// G2.
    #[test]
    fn ignorable_characters_go_and_hold_marks_back() {
        assert_eq!(text("\u{feff}A\u{200d}\u{fff0}B\u{ad}"), "ab");
        assert_eq!(text("q\u{307}\u{34f}\u{323}"), "q\u{307}\u{323}");
        assert_eq!(text("\u{200b}\u{e0000}"), "");
        assert_eq!(text("\u{180f}"), "\u{180f}");
    }

    /// G3.
    #[test]
    fn what_is_not_utf8() {
        let f = folding();
        assert_eq!(f.fold(b"A\x80\xBFB"), Some(b"a\x80\xBFb".to_vec()));
        let marks = ["Q\u{307}".as_bytes(), &b"\x80"[..], "\u{323}".as_bytes()].concat();
        let dots = [&b"q\x80\x80"[..], "\u{323}\u{307}".as_bytes(), b"\x80"].concat();
        assert_eq!(f.fold(&marks), Some(dots));
        let bad: [&[u8]; 9] = [
            b"\x80Q",
            b"A\xC3",
            b"\xC0\xAF",
            b"\xE0\x80\xAF",
            b"\xED\xA0\x80",
            b"\xF4\x90\x80\x80",
            b"\xFF",
            b"x\xC3\x28",
            b"\xF0\x9F\x98",
        ];
        for name in bad {
            assert_eq!(f.fold(name), None, "{name:x?}");
        }
        // The former folds to the bytes of the latter, and is another name.
        let [a, b] = [&b"\xE2\x80\x8D\x85"[..], b"\x85"];
        assert_eq!(f.fold(a).as_deref(), Some(b));
        assert_ne!(f.identity(a), f.identity(b));
    }

    #[test]
    fn encodings_and_flags() {
        assert!(Folding::new([0; 4]).is_none() && Folding::new([2, 0, 0, 0]).is_none());
        let of = |flags| {
            let f = Folding::new([1, 0, flags, 0]).expect("known");
            assert!(!f.refuses("\u{e4}\u{378}".as_bytes()));
            (f.refuses(b"a\x80"), f.searches_all())
        };
        let all = [0, 1, 2, 3].map(of);
        assert_eq!(
            all,
            [(false, true), (true, true), (false, false), (true, false)]
        );
    }

    proptest! {
        /// A folded name is its own folding, and `is_same` says what comparing foldings says.
        #[test]
        fn folding_is_idempotent(name in "\\PC{0,20}", other in "[a-zA-Z\u{c0}-\u{2ff}]{0,3}") {
            let f = folding();
            let once = f.fold(name.as_bytes()).expect("text");
            let twice = f.fold(&once);
            prop_assert_eq!(twice.as_ref(), Some(&once));
            prop_assert!(f.is_same(&once, name.as_bytes()));
            let same = f.fold(other.as_bytes()).is_some_and(|o| o == once);
            prop_assert_eq!(f.is_same(&once, other.as_bytes()), same);
        }

        /// Names of few characters, so that many are the same, and many others begin alike.
        #[test]
        fn a_comparison_that_ends_early_says_what_foldings_say(
            a in proptest::collection::vec(proptest::sample::select(PARTS), 1..5),
            b in proptest::collection::vec(proptest::sample::select(PARTS), 1..5),
        ) {
            let (a, b, f) = (a.concat(), b.concat(), folding());
            if let Some(folded) = f.fold(&a) {
                let same = f.fold(&b).as_ref() == Some(&folded);
                prop_assert_eq!(f.is_same(&folded, &b), same);
            }
        }

        #[test]
        fn no_bytes_panic(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = folding().fold(&name);
        }
    }
}
