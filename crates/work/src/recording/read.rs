//! Reads a recording from a file: unpacks it, recognises its format by its content, and hands it to
//! the reader of that format.
//!
//! A file in a format that cannot be read is refused by the name of that format where it can be
//! told, so that its owner knows why.

use super::reading::Reading;
use super::{Recording, mobibench, strace};
use crate::workload::{filebench, fio_jobs};
use crate::{RunError, blocktrace};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Number of bytes at the beginning by which a format is recognised.
const HEAD_BYTES: usize = 64 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The formats that are recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// System calls as Mobibench's generator writes them.
    Mobibench,
    /// System calls as strace writes them.
    Strace,
    /// Requests to a block device: [`crate::blocktrace`] reads them.
    Blocks(blocktrace::Format),
    /// A workload model of Filebench: no recording, [`crate::workload::filebench`] runs it.
    Filebench,
    /// A job file of fio: no recording, [`crate::workload::fio_jobs`] runs it.
    FioJobs,
}

impl Format {
    /// The format in words, for messages.
    pub fn words(self) -> String {
        match self {
            Format::Mobibench => "this is a recording of system calls (mobibench)".into(),
            Format::Strace => "this is a recording of system calls (strace)".into(),
            Format::Blocks(format) => format!("this is a recording of block requests ({format})"),
            Format::Filebench => "this is a workload model of Filebench (filebench)".into(),
            Format::FioJobs => "this is a job file of fio (fiojobs)".into(),
        }
    }
}

/// Recognises the format of a file.
///
/// # Errors
/// The file cannot be read, or is in no format that is known here.
pub fn detect_file(path: &Path) -> Result<Format, RunError> {
    let (name, file) = opened(path)?;
    unpacked(&name, file, |head, _| {
        detect(head).map_err(|e| RunError::Recording(format!("{name}: {e}")))
    })
}

fn opened(path: &Path) -> Result<(String, File), RunError> {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let file = File::open(path);
    let file = file.map_err(|e| RunError::Recording(format!("{name} cannot be opened: {e}")))?;
    Ok((name.into_owned(), file))
}

/// Reads a recording; lines at fault are skipped.
///
/// # Errors
/// The file cannot be read, is in no format that is known here, or holds nothing to replay.
pub fn read(path: &Path) -> Result<Recording, RunError> {
    read_with(path, false).map(|(recording, _)| recording)
}

/// Reads a recording and says what became of each line. With `strict` a line at fault is refused.
///
/// # Errors
/// As [`read`]; when `strict`, the first line at fault.
pub fn read_with(path: &Path, strict: bool) -> Result<(Recording, Reading), RunError> {
    let (name, file) = opened(path)?;
    read_from(&name, file, strict)
}

/// Reads a recording from any reader of bytes.
///
/// # Errors
/// As [`read_with`].
pub fn read_from(
    name: &str,
    bytes: impl Read,
    strict: bool,
) -> Result<(Recording, Reading), RunError> {
    unpacked(name, bytes, |head, lines| {
        let wrong = |what: String| RunError::Recording(format!("{name}: {what}"));
        let (recording, reading) = match detect(head).map_err(&wrong)? {
            Format::Mobibench => mobibench::read(name, lines, strict)?,
            Format::Strace => strace::read(name, lines, strict)?,
            other => return Err(wrong(format!("{}, not of system calls", other.words()))),
        };
        if recording.calls.is_empty() {
            return Err(wrong(
                "there is no call on a file in it, so there is nothing to replay".into(),
            ));
        }
        Ok((recording, reading))
    })
}

/// Unpacks a file, and calls `work` with its beginning and its lines.
pub(crate) fn unpacked<T>(
    name: &str,
    bytes: impl Read,
    work: impl FnOnce(&[u8], &mut dyn BufRead) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let wrong = |what: String| RunError::Recording(format!("{name}: {what}"));
    let mut packed = Peek::new(bytes).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut plain: Box<dyn Read + '_> = if packed.head.starts_with(GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(packed))
    } else if packed.head.starts_with(ZSTD) {
        let unpacked = ruzstd::decoding::StreamingDecoder::new(&mut packed);
        Box::new(unpacked.map_err(|e| wrong(format!("broken zstd frame: {e}")))?)
    } else {
        Box::new(packed)
    };
    let peeked = Peek::new(&mut plain).map_err(|e| wrong(format!("cannot be unpacked: {e}")))?;
    let head = peeked.head.clone();
    work(&head, &mut BufReader::new(peeked))
}

/// Recognises the format of a file that begins like this.
///
/// # Errors
/// No known format; the error says what it is instead, as far as that can be told.
pub fn detect(head: &[u8]) -> Result<Format, String> {
    const KNOWN: &str = "known are recordings of system calls as Mobibench makes them \
                         (`thread microseconds call arguments`) and strace writes them (`strace -f -tt -T -y`), of block requests (MSR/SNIA CSV, fio, blkparse, \
                         MQSim, DiskSim, Pixel CSV), plain, .gz or .zst; and workload models of Filebench (.f) and job files of fio, plain";
    if head.is_empty() {
        return Err(format!("the file is empty; {KNOWN}"));
    }
    if head.contains(&0) {
        return Err(format!("binary data is no recording; {KNOWN}"));
    }
    let text = String::from_utf8_lossy(head);
    let lines = text.lines().filter(|l| !l.trim().is_empty()).take(64);
    let mut first = "";
    for line in lines {
        if mobibench::is_call(line) {
            return Ok(Format::Mobibench);
        }
        if strace::is_call(line) {
            return Ok(Format::Strace);
        }
        if first.is_empty() {
            first = line;
        }
    }
    if filebench::is_model(&text) {
        return Ok(Format::Filebench);
    }
    if fio_jobs::is_jobs(&text) {
        return Ok(Format::FioJobs);
    }
    if let Some(format) = blocktrace::detect(&text) {
        return Ok(Format::Blocks(format));
    }
    let looks = if first.starts_with("fio version") {
        "this looks like an I/O log of fio, of another version than 2 and 3"
    } else if first.matches(',').count() >= 3 {
        "this looks like a table (CSV) of other columns than are known"
    } else {
        "this is no format that is known here"
    };
    Err(format!("{looks}; {KNOWN}"))
}

/// A reader whose beginning has been read already, to recognise the format; it is given out again.
struct Peek<R> {
    head: Vec<u8>,
    at: usize,
    rest: R,
}

impl<R: Read> Peek<R> {
    fn new(mut rest: R) -> std::io::Result<Peek<R>> {
        let mut head = Vec::new();
        match (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head) {
            // What was unpacked before the fault is worth looking at; the fault is reported when
            // reading comes to it.
            Err(e) if head.is_empty() => Err(e),
            _ => Ok(Peek { head, at: 0, rest }),
        }
    }
}

impl<R: Read> Read for Peek<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let known = &self.head[self.at..];
        if known.is_empty() {
            return self.rest.read(buffer);
        }
        let count = known.len().min(buffer.len());
        buffer[..count].copy_from_slice(&known[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content_and_named() {
        assert_eq!(detect(b"\n1 0 close 3 0\n"), Ok(Format::Mobibench));
        let strace = b"strace: Process 7 attached\n[pid 7] 00:00:01.2 close(3) = 0\n";
        assert_eq!(detect(strace), Ok(Format::Strace));
        for (_, text) in filebench::PERSONALITIES {
            assert_eq!(detect(text.as_bytes()), Ok(Format::Filebench));
        }
        assert_eq!(detect(b"[global]\nrw=write\n[a]\n"), Ok(Format::FioJobs));
        use blocktrace::Format as B;
        for (head, format) in [
            ("fio version 2 iolog\n/a add\n", B::Fio),
            (
                "  8,0    1   1   0.000000000   697  Q   W 223490 + 8 [a]\n",
                B::Blkparse,
            ),
            ("proces,device,rw_flag,sector,size,timestamp\n", B::Pixel),
            ("\n1,usr,0,Read,512,512,9\n", B::Msr),
            ("0 0 383 8 0\n", B::Mqsim),
            ("0.5 0 383 8 0\n", B::Disksim),
        ] {
            assert_eq!(
                detect(head.as_bytes()),
                Ok(Format::Blocks(format)),
                "{head}"
            );
        }
        for (head, words) in [
            (&b""[..], "empty"),
            (b"\x7fELF\0\0", "binary"),
            (b"fio version 4 iolog\n/a add\n", "another version"),
            (b"a,b,c,d\n1,2,3,4\n", "CSV"),
            (b"hello\n", "no format that is known"),
        ] {
            let e = detect(head).unwrap_err();
            assert!(e.contains(words) && e.contains("Mobibench"), "{e}");
        }
    }
}
