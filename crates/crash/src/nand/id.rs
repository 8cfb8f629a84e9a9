//! Names of cuts of a modelled device. They are short and stable, because they stand in lines that
//! make a state again.

use super::film::Film;
use base::Time;
use rig::Span;
use std::fmt;
use std::str::FromStr;

/// The place of a cut in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Spot {
    /// When this program or erase is about to begin.
    Before(usize),
    /// Inside this operation, at [`inside`] of the number.
    Inside(usize, u32),
    /// When this operation has just ended.
    After(usize),
    /// At a virtual time, ns.
    Moment(Time),
}

/// One cut of a run on a modelled device.
///
/// Its text is `n17b`, `n17i2.s3f`, `n17a` or `t123456.s3f`. The number is that of an operation of
/// the chips in the order in which they begin, from 0, cut before it, inside at place 2, or after
/// it; behind `t` it is a virtual time in ns. Then comes the seed of what tears, in hexadecimal, if
/// it is not 0. An id of a nested cut may have `m` in place of `n`: then the operation belongs to
/// the device's own recovery, before the clock of the host starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NandId {
    /// The cut falls into the recovery of the device itself.
    pub power_up: bool,
    /// The place in time.
    pub spot: Spot,
    /// Seeds what tears, and what the adversary `spec` draws.
    pub seed: u64,
}

impl NandId {
    /// The moment of the cut in a run; `None` if the run has no such operation.
    pub fn time(&self, film: &Film) -> Option<Time> {
        let span = |n: usize| film.operations(self.power_up).get(n).map(|op| op.span);
        match self.spot {
            Spot::Moment(at) => Some(at),
            Spot::Before(n) => span(n).map(|s| s.start),
            Spot::After(n) => span(n).map(|s| s.end),
            Spot::Inside(n, place) => span(n).map(|s| inside(s, place)),
        }
    }
    /// The number of its operation; `None` for a moment of virtual time.
    pub fn operation(&self) -> Option<usize> {
        match self.spot {
            Spot::Before(n) | Spot::Inside(n, _) | Spot::After(n) => Some(n),
            Spot::Moment(_) => None,
        }
    }
}

/// The moment at a place inside of an operation: place 0 is 1 ns after the start, 1 is 1 ns before
/// the end, 2 is the middle, then come the quarters, the eighths, and so on.
pub fn inside(span: Span, place: u32) -> Time {
    let len = span.end.0.saturating_sub(span.start.0);
    let within = match place {
        0 => 1,
        1 => len.saturating_sub(1),
        _ => {
            let n = u64::from(place) - 1;
            let parts = (n + 1).next_power_of_two();
            let odd = 2 * (n - parts / 2) + 1;
            len / parts * odd
        }
    };
    Time(span.start.0 + within.min(len))
}

impl fmt::Display for NandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.power_up { 'm' } else { 'n' };
        match self.spot {
            Spot::Before(n) => write!(f, "{letter}{n}b")?,
            Spot::Inside(n, place) => write!(f, "{letter}{n}i{place}")?,
            Spot::After(n) => write!(f, "{letter}{n}a")?,
            Spot::Moment(at) => write!(f, "t{}", at.0)?,
        }
        match self.seed {
            0 => Ok(()),
            seed => write!(f, ".s{seed:x}"),
        }
    }
}

/// A text that names no cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NandIdError(String);

impl fmt::Display for NandIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no cut of a modelled device: n or m, a number, and b, iPLACE or a; or t and ns; then .sSEED if something \
             tears; with `/` before a cut of the recovery",
            self.0
        )
    }
}

impl std::error::Error for NandIdError {}

impl FromStr for NandId {
    type Err = NandIdError;
    fn from_str(text: &str) -> Result<NandId, NandIdError> {
        parse(text).ok_or_else(|| NandIdError(text.into()))
    }
}

fn parse(text: &str) -> Option<NandId> {
    let (place, seed) = match text.split_once(".s") {
        Some((place, hex)) => (place, u64::from_str_radix(hex, 16).ok()?),
        None => (text, 0),
    };
    let letter = place.chars().next()?;
    let rest = &place[letter.len_utf8()..];
    let spot = match letter {
        't' => Spot::Moment(Time(rest.parse().ok()?)),
        'n' | 'm' => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let number = rest[..end].parse().ok()?;
            match &rest[end..] {
                "b" => Spot::Before(number),
                "a" => Spot::After(number),
                other => Spot::Inside(number, other.strip_prefix('i')?.parse().ok()?),
            }
        }
        _ => return None,
    };
    Some(NandId {
        power_up: letter == 'm',
        spot,
        seed,
    })
}

/// A state: the cut of the run, then the cuts of its recoveries, separated by `/` in the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NandPath(pub Vec<NandId>);

impl fmt::Display for NandPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, id) in self.0.iter().enumerate() {
            let slash = if n > 0 { "/" } else { "" };
            write!(f, "{slash}{id}")?;
        }
        Ok(())
    }
}

impl FromStr for NandPath {
    type Err = NandIdError;
    fn from_str(text: &str) -> Result<NandPath, NandIdError> {
        let ids: Result<Vec<NandId>, NandIdError> = text.split('/').map(str::parse).collect();
        ids.map(NandPath)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        for text in [
            "n17b",
            "n17i2.s3f",
            "n0a",
            "t123456.s3f",
            "t5",
            "n1i0/m3b/n2a.s1",
        ] {
            let path: NandPath = text.parse().expect(text);
            assert_eq!(path.to_string(), text);
        }
        for text in [
            "", "n", "n17", "n17x", "n17i", "i2", "t", "n1b.s", "n1b.sxyz", "n1b/", "nb",
            "\u{e4}1b",
        ] {
            let e = text.parse::<NandPath>().expect_err(text).to_string();
            assert!(e.contains("names no cut"), "{e}");
        }
    }

    #[test]
    fn places_lie_inside_and_differ() {
        let span = Span {
            start: Time(1000),
            end: Time(1800),
        };
        let at: Vec<u64> = (0..9).map(|p| inside(span, p).0).collect();
        assert_eq!(at, [1001, 1799, 1400, 1200, 1600, 1100, 1300, 1500, 1700]);
        let point = Span {
            start: Time(5),
            end: Time(5),
        };
        assert_eq!(inside(point, 0), Time(5));
    }
}
