//! Parsers for one line of each format. `docs/use/traces.md` has the source of each format and the
//! meaning of its fields. A well-formed line that is no request to a device is told apart from a
//! line at fault, because only the latter is refused by `strict`.

use super::{Format, Op, Request, SECTOR_END, TRANSFER_SECTORS_MAX};
use base::{Map, SECTOR_BYTES};

/// What a line turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// A request, or a flush and a write.
    Request,
    /// A well-formed line that is no request to a device, with the reason.
    LeftOut(&'static str),
    /// The mark: all requests before it only prepare the device.
    Mark,
}

/// Why a line cannot be used.
pub(super) type Fault = &'static str;

const FIELDS: Fault = "lines with other fields than the format has";
const NUMBER: Fault = "lines with a number that is none, or is too large";
const KIND: Fault = "requests of a kind that is not known";
const SIZE: Fault = "requests of no sector, of more than 1 GiB, or beyond 4 EiB";
const DEVICES: Fault = "requests to more than 65535 devices";

/// The disks or files of a recording.
#[derive(Default)]
pub(super) struct Devices {
    numbers: Map<Vec<u8>, u16>,
    pub names: Vec<String>,
}

impl Devices {
    fn number(&mut self, name: &[u8]) -> Result<u16, Fault> {
        if let Some(n) = self.numbers.get(name) {
            return Ok(*n);
        }
        let n = u16::try_from(self.names.len()).map_err(|_| DEVICES)?;
        self.numbers.insert(name.to_vec(), n);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        Ok(n)
    }
}

/// Reads the lines of one recording and collects its requests. Their times are absolute here.
pub(super) struct Parser {
    format: Format,
    pub devices: Devices,
    /// Requests so far; for blkparse only those that were issued to the driver.
    pub requests: Vec<Request>,
    /// For blkparse: the requests that were queued, and those that completed (blocktrace-B4).
    pub others: [Vec<Request>; 2],
    /// For fio: the version of the log, once its first line is read.
    version: Option<u8>,
    /// For fio, version 2: the sum of its waits so far, nanoseconds.
    clock: u64,
    /// For blkparse: the summary at the end of the file has begun.
    summary: bool,
}

impl Parser {
    pub fn new(format: Format) -> Parser {
        Parser {
            format,
            devices: Devices::default(),
            requests: Vec::new(),
            others: [Vec::new(), Vec::new()],
            version: None,
            clock: 0,
            summary: false,
        }
    }

    /// Takes one line, without its end.
    pub fn line(&mut self, line: &[u8]) -> Result<Said, Fault> {
        match self.format {
            Format::Msr => self.msr(line),
            Format::Fio => self.fio(line),
            Format::Blkparse => self.blkparse(line),
            Format::Mqsim => self.columns(line, number),
            Format::Disksim => self.columns(line, |time| decimal(time, 6)),
            Format::Pixel => self.pixel(line),
        }
    }

    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
    fn msr(&mut self, line: &[u8]) -> Result<Said, Fault> {
        let mut fields = line.split(|b| *b == b',');
        let mut next = || fields.next().map(<[u8]>::trim_ascii).ok_or(FIELDS);
        let (time, host, disk, kind, offset, size) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        if time.eq_ignore_ascii_case(b"timestamp") {
            return Ok(Said::LeftOut("header"));
        }
        // A Windows file time counts 100 ns since 1601.
        let at = number(time)?.checked_mul(100).ok_or(NUMBER)?;
        let op = match kind {
            k if k.eq_ignore_ascii_case(b"read") => Op::Read,
            k if k.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(KIND),
        };
        let (sector, sectors) = span(op, number(offset)?, number(size)?)?;
        let device = self.devices.number(&[host, b".", disk].concat())?;
        self.push(at, (op, false), device, (sector, sectors))
    }

    /// `time device address size kind`
    fn columns(
        &mut self,
        line: &[u8],
        time: impl Fn(&[u8]) -> Result<u64, Fault>,
    ) -> Result<Said, Fault> {
        let mut fields = words(line);
        let mut next = || fields.next().ok_or(FIELDS);
        let (at, disk, sector, sectors, kind) = (next()?, next()?, next()?, next()?, next()?);
        if fields.next().is_some() {
            return Err(FIELDS);
        }
        let at = time(at)?;
        let op = match (self.format, kind) {
            (Format::Mqsim, b"0") => Op::Write,
            (Format::Mqsim, b"1") => Op::Read,
            (Format::Disksim, flags) => {
                let flags = std::str::from_utf8(flags).map_err(|_| NUMBER)?;
                let hex = flags.trim_start_matches("0x");
                match u32::from_str_radix(hex, 16).map_err(|_| NUMBER)? & 1 {
                    1 => Op::Read,
                    _ => Op::Write,
                }
            }
            _ => return Err(KIND),
        };
        number(disk)?;
        let place = (number(sector)?, number(sectors)?);
        let device = self.devices.number(disk)?;
        self.push(at, (op, false), device, place)
    }

    /// `process,device,rw_flag,sector,size,timestamp`; names of processes may have commas.
    fn pixel(&mut self, line: &[u8]) -> Result<Said, Fault> {
        if line.trim_ascii().starts_with(b"preconditioning_ended") {
            return Ok(Said::Mark);
        }
        let mut fields = line.rsplitn(6, |b| *b == b',');
        let mut next = || fields.next().map(<[u8]>::trim_ascii).ok_or(FIELDS);
        let (time, size, sector, kind, disk, _process) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        if time == b"timestamp" {
            return Ok(Said::LeftOut("header"));
        }
        let at = decimal(time, 9)?;
        let kind = rwbs(kind)?;
        let place = (number(sector)?, number(size)?);
        let device = self.devices.number(disk)?;
        self.kinds(at, kind, device, place)
    }

    /// `fio version 3 iolog`, then `timestamp filename action [offset length]`; version 2 without
    /// the timestamp.
    fn fio(&mut self, line: &[u8]) -> Result<Said, Fault> {
        let Some(version) = self.version else {
            self.version =
                Some(fio_version(line).ok_or("no `fio version 2 iolog` or 3 at the head")?);
            return Ok(Said::LeftOut("header"));
        };
        let mut fields = words(line);
        let mut next = || fields.next().ok_or(FIELDS);
        let stamp = match version {
            3 => Some(number(next()?)?.checked_mul(1000).ok_or(NUMBER)?),
            _ => None,
        };
        let (file, action) = (next()?, next()?);
        let mut two = || -> Result<(u64, u64), Fault> { Ok((number(next()?)?, number(next()?)?)) };
        if let b"add" | b"open" | b"close" = action {
            self.devices.number(file)?;
            return Ok(Said::LeftOut("files added, opened, closed"));
        }
        let at = stamp.unwrap_or(self.clock);
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => {
                let device = self.devices.number(file)?;
                return self.push(at, (Op::Flush, false), device, (0, 0));
            }
            b"wait" if version == 2 => {
                let (wait, _) = two()?;
                let wait = wait.checked_mul(1000).ok_or(NUMBER)?;
                // fio itself does not wait for less than 100 us.
                let wait = if wait < 100_000 { 0 } else { wait };
                self.clock = self.clock.checked_add(wait).ok_or(NUMBER)?;
                return Ok(Said::LeftOut("waits"));
            }
            _ => return Err(KIND),
        };
        let (offset, size) = two()?;
        let place = span(op, offset, size)?;
        let device = self.devices.number(file)?;
        self.push(at, (op, false), device, place)
    }

    /// `major,minor cpu sequence seconds pid action rwbs sector + sectors [process]`
    fn blkparse(&mut self, line: &[u8]) -> Result<Said, Fault> {
        let mut fields = words(line);
        let mut next = || fields.next().ok_or(FIELDS);
        let disk = next()?;
        self.summary |= disk.starts_with(b"CPU") || disk == b"Total";
        if self.summary {
            return Ok(Said::LeftOut("summary"));
        }
        let (major, minor) = split(disk, b',').ok_or(FIELDS)?;
        number(major).and(number(minor))?;
        let (_cpu, _sequence) = (number(next()?)?, number(next()?)?);
        let at = decimal(next()?, 9)?;
        number(next()?)?;
        let into = match next()? {
            b"D" => None,
            b"Q" => Some(0),
            b"C" => Some(1),
            action if action.len() <= 2 => return Ok(Said::LeftOut("events of other kinds")),
            _ => return Err(FIELDS),
        };
        let kind = next()?;
        if kind.iter().all(|b| b"NSM".contains(b)) {
            return Ok(Said::LeftOut("commands without data"));
        }
        let kind = rwbs(kind)?;
        let place = match (fields.next(), fields.next(), fields.next()) {
            (Some(sector), Some(b"+"), Some(sectors)) => (number(sector)?, number(sectors)?),
            _ if kind.op.is_none() => (0, 0),
            _ => return Err(FIELDS),
        };
        let device = self.devices.number(disk)?;
        if let Some(other) = into {
            std::mem::swap(&mut self.requests, &mut self.others[other]);
        }
        let said = self.kinds(at, kind, device, place);
        if let Some(other) = into {
            std::mem::swap(&mut self.requests, &mut self.others[other]);
        }
        said
    }

    /// Adds a request by its letters; a flush before a write is a request of its own.
    fn kinds(
        &mut self,
        at: u64,
        kind: Kinds,
        device: u16,
        place: (u64, u64),
    ) -> Result<Said, Fault> {
        let op = kind.op.filter(|_| !(kind.flush && place.1 == 0));
        if let Some(op) = op {
            check(op, place)?;
        }
        if kind.flush {
            self.push(at, (Op::Flush, false), device, (0, 0))?;
        }
        match op {
            Some(op) => self.push(at, (op, kind.fua), device, place),
            None => Ok(Said::Request),
        }
    }

    fn push(
        &mut self,
        at: u64,
        (op, fua): (Op, bool),
        device: u16,
        (sector, sectors): (u64, u64),
    ) -> Result<Said, Fault> {
        check(op, (sector, sectors))?;
        self.requests.push(Request {
            at,
            sector,
            sectors: sectors as u32,
            device,
            op,
            fua: fua && op == Op::Write,
        });
        Ok(Said::Request)
    }
}

/// Refuses what breaks blocktrace-B2.
fn check(op: Op, (sector, sectors): (u64, u64)) -> Result<(), Fault> {
    let most = match op {
        Op::Flush => return Ok(()),
        Op::Discard => u32::MAX,
        Op::Read | Op::Write => TRANSFER_SECTORS_MAX,
    };
    let ends = sector
        .checked_add(sectors)
        .is_some_and(|end| end <= SECTOR_END);
    match sectors > 0 && sectors <= u64::from(most) && ends {
        true => Ok(()),
        false => Err(SIZE),
    }
}

/// The version that the first line of a log of fio names.
pub(super) fn fio_version(line: &[u8]) -> Option<u8> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

/// What the letters of the block layer say about a request.
struct Kinds {
    /// A flush comes first.
    flush: bool,
    op: Option<Op>,
    fua: bool,
}

/// Letters as blktrace and the kernel's trace points write them: `F` before the operation is a
/// flush; `D` and `E` discard, `R` reads, `W` writes; behind it `F` is FUA, and `A`, `S`, `M` are
/// hints.
fn rwbs(text: &[u8]) -> Result<Kinds, Fault> {
    let (flush, rest) = match text.strip_prefix(b"F") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let op = match rest.first() {
        Some(b'R') => Some(Op::Read),
        Some(b'W') => Some(Op::Write),
        Some(b'D' | b'E') => Some(Op::Discard),
        None | Some(b'F' | b'N' | b'S') if flush => None,
        _ => return Err(KIND),
    };
    let hints = rest.get(1..).unwrap_or_default();
    if !hints.iter().all(|b| b"FASMBPUE".contains(b)) {
        return Err(KIND);
    }
    let fua = hints.contains(&b'F');
    Ok(Kinds { flush, op, fua })
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|b| *b == at)?;
    Some((&text[..place], &text[place + 1..]))
}

fn number(text: &[u8]) -> Result<u64, Fault> {
    if text.is_empty() {
        return Err(NUMBER);
    }
    let digit = |sum: u64, b: &u8| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    text.iter().try_fold(0, digit).ok_or(NUMBER)
}

/// A decimal number as a count of 10^-`digits`; what lies below that is cut off.
fn decimal(text: &[u8], digits: usize) -> Result<u64, Fault> {
    let (whole, fraction) = split(text, b'.').unwrap_or((text, b""));
    let scale = 10u64.pow(digits as u32);
    let whole = number(whole)?.checked_mul(scale).ok_or(NUMBER)?;
    let mut rest = 0;
    let mut weight = scale;
    for b in fraction {
        if !b.is_ascii_digit() {
            return Err(NUMBER);
        }
        weight /= 10;
        rest += u64::from(b - b'0') * weight;
    }
    whole.checked_add(rest).ok_or(NUMBER)
}

/// The sectors that a range of bytes touches, as (first sector, sectors); of a discard those that
/// lie in it, because the rest of the others keeps its content.
fn span(op: Op, offset: u64, bytes: u64) -> Result<(u64, u64), Fault> {
    let unit = SECTOR_BYTES as u64;
    let end = offset.checked_add(bytes).ok_or(NUMBER)?;
    let (first, end) = match op {
        Op::Discard => (offset.div_ceil(unit), end / unit),
        _ => (offset / unit, end.div_ceil(unit)),
    };
    match bytes > 0 && first < end {
        true => Ok((first, end - first)),
        false => Err(SIZE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(format: Format, line: &str) -> Request {
        let mut parser = Parser::new(format);
        assert_eq!(parser.line(line.as_bytes()), Ok(Said::Request), "{line}");
        let all = parser.requests.iter().chain(parser.others.iter().flatten());
        *all.last().expect("a request")
    }

    #[test]
    fn bytes_are_rounded_outwards_and_those_of_a_discard_inwards() {
        assert_eq!(span(Op::Write, 700, 1000), Ok((1, 3)));
        assert_eq!(span(Op::Read, 700, 0), Err(SIZE));
        assert_eq!(span(Op::Discard, 700, 1000), Ok((2, 1)));
        assert_eq!(span(Op::Discard, 512, 1024), Ok((1, 2)));
        for (offset, bytes) in [(700, 300), (700, 400), (512, 0)] {
            assert_eq!(span(Op::Discard, offset, bytes), Err(SIZE));
        }
    }

    #[test]
    fn a_line_of_each_format_is_the_request_that_it_says() {
        let request = |at, op, sector, sectors| Request {
            at,
            sector,
            sectors,
            device: 0,
            op,
            fua: false,
        };
        for (format, line, wanted) in [
            (
                Format::Msr,
                "128166372003061629,usr,0,Read,7014609920,24576,41286",
                request(12_816_637_200_306_162_900, Op::Read, 13_700_410, 48),
            ),
            (
                Format::Mqsim,
                "14529 0 383 8 0",
                request(14529, Op::Write, 383, 8),
            ),
            (
                Format::Mqsim,
                "14529 0 383 8 1",
                request(14529, Op::Read, 383, 8),
            ),
            (
                Format::Disksim,
                "0.5000019 1 72 16 1",
                request(500_001, Op::Read, 72, 16),
            ),
            (
                Format::Pixel,
                "a,b-7,8388608,W,93897440,1024,44186.0115435",
                request(44_186_011_543_500, Op::Write, 93_897_440, 1024),
            ),
            (
                Format::Blkparse,
                "  8,0    3       11     0.009507758   697  D   R 223490 + 56 [kjournald]",
                request(9_507_758, Op::Read, 223_490, 56),
            ),
            (
                Format::Blkparse,
                "  8,0    3       11     1.5   697  Q  DS 64 + 4294967295 [fstrim]",
                request(1_500_000_000, Op::Discard, 64, u32::MAX),
            ),
        ] {
            assert_eq!(one(format, line), wanted, "{line}");
        }
        let fua = one(Format::Blkparse, "8,0 3 11 0.1 697 D WFS 8 + 8 [a]");
        assert!(fua.fua && fua.op == Op::Write);
    }

    #[test]
    fn flushes_come_before_what_they_are_part_of() {
        let mut parser = Parser::new(Format::Blkparse);
        for line in [
            "8,0 3 1 0.1 697 D FWFSM 8 + 8 [a]",
            "8,0 3 2 0.2 697 D FF 0 + 0 [a]",
            "8,0 3 3 0.3 697 D FWS 0 + 0 [a]",
            "8,0 3 4 0.4 697 D FN [a]",
        ] {
            assert_eq!(parser.line(line.as_bytes()), Ok(Said::Request), "{line}");
        }
        let ops: Vec<(Op, bool)> = parser.requests.iter().map(|r| (r.op, r.fua)).collect();
        let flush = (Op::Flush, false);
        assert_eq!(ops, [flush, (Op::Write, true), flush, flush, flush]);
    }

    #[test]
    fn fio_counts_its_waits_or_says_the_time() {
        let mut parser = Parser::new(Format::Fio);
        for line in [
            "fio version 2 iolog",
            "/dev/a add",
            "/dev/a open",
            "/dev/a wait 99 0",
            "/dev/a write 1000 100",
            "/dev/a wait 250 0",
            "/dev/a datasync 0 0",
            "/dev/b trim 4096 4096",
            "/dev/a close",
        ] {
            parser.line(line.as_bytes()).expect(line);
        }
        let found: Vec<_> = parser
            .requests
            .iter()
            .map(|r| (r.at, r.op, r.sector, r.sectors))
            .collect();
        let wanted = [
            (0, Op::Write, 1, 2),
            (250_000, Op::Flush, 0, 0),
            (250_000, Op::Discard, 8, 8),
        ];
        assert_eq!(found, wanted);
        assert_eq!(parser.devices.names, ["/dev/a", "/dev/b"]);
        let mut parser = Parser::new(Format::Fio);
        for line in ["fio version 3 iolog", "2 d add", "878 d write 512 16384"] {
            parser.line(line.as_bytes()).expect(line);
        }
        assert_eq!(parser.requests[0].at, 878_000);
        assert_eq!(parser.line(b"879 d wait 512 0"), Err(KIND));
        assert!(Parser::new(Format::Fio).line(b"d add").is_err());
    }

    #[test]
    fn what_is_at_fault_is_named() {
        for (format, line, why) in [
            (Format::Msr, "1,usr,0,Read,512", FIELDS),
            (Format::Msr, "x,usr,0,Read,512,512,0", NUMBER),
            (Format::Msr, "1,usr,0,Erase,512,512,0", KIND),
            (Format::Msr, "1,usr,0,Read,512,0,0", SIZE),
            (Format::Msr, "1,usr,0,Read,18446744073709551615,1,0", NUMBER),
            (Format::Msr, "1,usr,0,Write,0,1073741825,0", SIZE),
            (
                Format::Msr,
                "18446744073709551615,usr,0,Write,0,1,0",
                NUMBER,
            ),
            (Format::Mqsim, "1 0 8 8 2", KIND),
            (Format::Mqsim, "1 0 8 8", FIELDS),
            (Format::Mqsim, "1 0 8 8 1 1", FIELDS),
            (Format::Mqsim, "1 0 9007199254740985 8 1", SIZE),
            (Format::Disksim, "1.5 0 8 8 x", NUMBER),
            (Format::Disksim, "1.x 0 8 8 1", NUMBER),
            (Format::Pixel, "a,8,Q,8,8,1.5", KIND),
            (Format::Pixel, "8,R,8,8,1.5", FIELDS),
            (Format::Pixel, "a,8,R,8,8,", NUMBER),
            (Format::Blkparse, "8,0 3 11 0.1 697 D R 8 - 8 [a]", FIELDS),
            (Format::Blkparse, "8,x 3 11 0.1 697 D R 8 + 8 [a]", NUMBER),
            (Format::Blkparse, "8,0 3 11 0.1 697 D RQ 8 + 8 [a]", KIND),
        ] {
            let mut parser = Parser::new(format);
            assert_eq!(parser.line(line.as_bytes()), Err(why), "{line}");
            assert!(parser.requests.is_empty(), "{line}");
        }
    }

    #[test]
    fn what_is_no_request_is_left_out() {
        let mut parser = Parser::new(Format::Blkparse);
        for line in [
            "8,0 3 11 0.1 697 A W 223490 + 8 <- (8,1) 223427",
            "8,0 3 11 0.1 697 P N [a]",
            "8,0 3 11 0.1 697 UT N [a] 1",
            "8,0 3 11 0.1 0 m N cfq697 slice expired",
            "8,0 3 11 0.1 0 D N 0 (00 ..) [a]",
            "CPU0 (8,0):",
            " Reads Queued:           0,        0KiB",
        ] {
            let said = parser.line(line.as_bytes());
            assert!(matches!(said, Ok(Said::LeftOut(_))), "{line}: {said:?}");
        }
        let mut parser = Parser::new(Format::Pixel);
        assert_eq!(parser.line(b"preconditioning_ended"), Ok(Said::Mark));
        let header = b"proces,device,rw_flag,sector,size,timestamp";
        assert!(matches!(parser.line(header), Ok(Said::LeftOut(_))));
    }
}
