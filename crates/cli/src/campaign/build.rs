//! The identity of the program that runs: results of another program are other results.
//!
//! It is the build id that the linker writes into the program, a hash of all that it has linked. A
//! hash of sources would miss compiler, features and profile. A program without one is hashed as a
//! whole, which takes a tenth of a second for a build of 200 MB, at each start.

use crate::failure::{Failure, failed};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The identity: hexadecimal digits.
///
/// # Errors
/// The program cannot be read.
pub fn build() -> Result<String, Failure> {
    let why = |e| failed(format!("own program: {e}"));
    // The program that runs, even where another has been put in its place.
    let program = File::open("/proc/self/exe").map_err(why)?;
    match noted(&program).map_err(why)? {
        Some(id) => Ok(digits(&id)),
        None => hashed(&program).map_err(why),
    }
}

/// A hash of all bytes. They are read in parts: memory for all of them would cost more than the
/// hash.
fn hashed(program: &File) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(program)?;
    Ok(hasher.finalize().to_hex()[..32].into())
}

fn digits(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a header of ELF with 64 bits: where the offset, the size and the number of the program
/// headers stand.
const HEADERS: [usize; 3] = [32, 54, 56];
/// The kind of a segment that holds notes.
const NOTES: u32 = 4;
/// The type of a note that holds a build id, and its owner.
const BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU\0";
/// Most bytes of notes that are looked at; linkers write some hundred.
const NOTES_MAX: u64 = 1 << 16;

/// The build id in an ELF program of 64 bits and the byte order of most machines; `None` where it
/// has none, or is another kind of file.
fn noted(program: &File) -> io::Result<Option<Vec<u8>>> {
    let head = bytes_at(program, 0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") || head.len() < 64 {
        return Ok(None);
    }
    let [offset, size, count] = HEADERS;
    let (offset, size) = (number::<8>(&head, offset), number::<2>(&head, size));
    for n in 0..number::<2>(&head, count) {
        let header = bytes_at(program, offset.saturating_add(n * size), 56)?;
        if header.len() < 56 || number::<4>(&header, 0) != u64::from(NOTES) {
            continue;
        }
        let (from, bytes) = (number::<8>(&header, 8), number::<8>(&header, 32));
        let notes = bytes_at(program, from, bytes.min(NOTES_MAX))?;
        if let Some(id) = build_id(&notes) {
            return Ok(Some(id.to_vec()));
        }
    }
    Ok(None)
}

/// The build id among notes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    // Lengths of owner and content, the type; then both, each up to a multiple of four bytes.
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let [owner, content, kind] = [0, 4, 8].map(|at| number::<4>(head, at) as usize);
        let (name, rest) = rest.split_at_checked(owner.next_multiple_of(4))?;
        let (id, rest) = rest.split_at_checked(content.next_multiple_of(4))?;
        if name == OWNER && kind == BUILD_ID as usize && content > 0 {
            return Some(&id[..content]);
        }
        notes = rest;
    }
    None
}

/// So many bytes, or as many as there are.
fn bytes_at(file: &File, from: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count as usize];
    match file.read_exact_at(&mut bytes, from) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        read => read.map(|()| bytes),
    }
}

/// A number of `N` bytes, the lowest first.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + N].iter().rev();
    bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let numbers = [owner.len() as u32, content.len() as u32, kind];
        let mut note: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        for part in [owner, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    /// A program with these notes and nothing else.
    fn program(notes: &[u8]) -> File {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = NOTES as u8;
        bytes[64 + 8] = 120;
        bytes[64 + 32..64 + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        bytes.extend(notes);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file
    }

    #[test]
    fn the_build_id_is_read_among_other_notes() {
        let notes = [
            note(b"GNU\0", 1, &[1; 16]),
            note(b"Rust\0", BUILD_ID, &[2; 5]),
            note(OWNER, BUILD_ID, &[0xab, 0xcd, 1]),
        ];
        let read = |notes: &[u8]| noted(&program(notes)).unwrap();
        assert_eq!(read(&notes.concat()), Some(vec![0xab, 0xcd, 1]));
        assert_eq!(read(&notes[..2].concat()), None);
        assert_eq!(read(b""), None);
        // Lengths that lead out of the notes.
        for cut in 1..notes[2].len() {
            assert_eq!(read(&notes[2][..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn what_is_no_such_program_has_none_and_is_hashed() {
        let file = |bytes: &[u8]| {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file
        };
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01"] {
            assert_eq!(noted(&file(bytes)).unwrap(), None);
        }
        let (one, other) = (hashed(&file(b"one")), hashed(&file(b"other")));
        assert_ne!(one.unwrap(), other.unwrap());
    }

    #[test]
    fn this_program_has_an_identity() {
        let id = build().unwrap();
        assert!(
            id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()),
            "{id}"
        );
        assert_eq!(build().unwrap(), id);
    }
}
