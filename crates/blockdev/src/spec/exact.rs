//! A crash state of one cut, decided to the last granule, with a text that a person can type.
//!
//! ```text
//! k3+5-9      of the open writes only 3 and 5 to 9 are kept          l4       all are kept but 4
//! l7h2        of write 7 only the first 2 granules are kept          k7t2     only write 7 from its granule 2 on
//! l7o2, l7x2  only granule 2 of it, all but granule 2                l7g, l7g2  garbage; kept before granule 2, garbage there
//! k3,p17x4    the pack whose first write is 17 was executed up to its entry 4
//! k3,b1       write-back has passed one barrier                      k3,f2 and k3,f2z  a FIFO cache wrote back 2 of its writes;
//!                                                                    z: as late as it may
//! l,c7        sectors around write 7 are damaged
//! ```
//!
//! Numbers of writes count the writes of the recording from 0, each entry of a pack and each part
//! of a REMAP by itself; a REMAP is named by its first part. What is not said about packs, barriers
//! and the FIFO cache is as far behind as can be with `k`, as far on as can be with `l`.

use super::ChoiceError;
use std::fmt;
use std::str::FromStr;

/// The fate of the open writes that are not named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rest {
    /// They are lost: `k`, named writes are kept.
    Lost,
    /// They are kept: `l`, named writes are lost.
    Kept,
}

/// The fate of a named write. Granules are those that the device keeps or loses as one, counted
/// from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// The opposite of the rest.
    Other,
    /// Only its first granules are kept, as many as this: `h`.
    Head(u64),
    /// It is kept from this granule on: `t`.
    Tail(u64),
    /// Only this granule is kept: `o`.
    Only(u64),
    /// All but this granule is kept: `x`.
    But(u64),
    /// All of it is garbage: `g`.
    Garbage,
    /// It is kept up to this granule, which is garbage; what follows is lost: `g` and the number.
    GarbageAt(u64),
}

/// Writes named by their numbers in the recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Named {
    /// The first.
    pub first: u64,
    /// The last; open writes between the two are meant as well.
    pub last: u64,
    /// Their fate; for a range it is [`Form::Other`].
    pub form: Form,
}

/// How far a FIFO cache was written back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Queue {
    /// The number of cached writes that were written back, in order of arrival, which is that of
    /// their beginnings; the next one is free.
    pub written: u32,
    /// True if each was written back as late as possible, so that content which was replaced in the
    /// cache never came to the medium. Else as early as possible.
    pub lazy: bool,
}

/// The whole state at a cut.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Exact {
    /// The fate of the writes that are not named.
    pub rest: Rest,
    /// The named writes, ascending, not overlapping.
    pub named: Vec<Named>,
    /// Packs in flight on a device of prefix order: number of the first write, and of entries that
    /// were executed.
    pub packs: Vec<(u64, u32)>,
    /// The number of barriers that write-back has passed.
    pub epoch: Option<u32>,
    /// How far a FIFO cache was written back.
    pub queue: Option<Queue>,
    /// Sectors around this write are damaged.
    pub collateral: Option<u64>,
}

impl Exact {
    /// Every open write has the same fate.
    pub fn all(rest: Rest) -> Exact {
        Exact {
            rest,
            named: Vec::new(),
            packs: Vec::new(),
            epoch: None,
            queue: None,
            collateral: None,
        }
    }

    /// The fate of write `id`, if the cut may choose about it.
    pub(super) fn form(&self, id: u64) -> Option<Form> {
        let after = self.named.partition_point(|n| n.first <= id);
        let named = self.named[..after].last()?;
        (id <= named.last).then_some(named.form)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Other => Ok(()),
            Form::Head(n) => write!(f, "h{n}"),
            Form::Tail(n) => write!(f, "t{n}"),
            Form::Only(n) => write!(f, "o{n}"),
            Form::But(n) => write!(f, "x{n}"),
            Form::Garbage => f.write_str("g"),
            Form::GarbageAt(n) => write!(f, "g{n}"),
        }
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.rest {
            Rest::Lost => "k",
            Rest::Kept => "l",
        })?;
        for (i, named) in self.named.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            match named.first == named.last {
                true => write!(f, "{}{}", named.first, named.form)?,
                false => write!(f, "{}-{}", named.first, named.last)?,
            }
        }
        for (pack, executed) in &self.packs {
            write!(f, ",p{pack}x{executed}")?;
        }
        if let Some(passed) = self.epoch {
            write!(f, ",b{passed}")?;
        }
        if let Some(queue) = self.queue {
            write!(
                f,
                ",f{}{}",
                queue.written,
                if queue.lazy { "z" } else { "" }
            )?;
        }
        match self.collateral {
            Some(id) => write!(f, ",c{id}"),
            None => Ok(()),
        }
    }
}

/// A number at the start of `text`, and what follows it.
fn number(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    match digits.parse() {
        Ok(n) => Ok((n, rest)),
        Err(_) if digits.is_empty() => Err(format!("a number is expected at `{text}`")),
        Err(_) => Err(format!("{digits} is too large")),
    }
}

/// Parses `text` as a number with nothing behind it.
fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    match number(text)? {
        (n, "") => T::try_from(n).map_err(|_| format!("{n} is too large")),
        (_, rest) => Err(format!("`{rest}` is too much")),
    }
}

fn form(text: &str) -> Result<Form, String> {
    let Some(letter) = text.chars().next() else {
        return Ok(Form::Other);
    };
    let rest = &text[letter.len_utf8()..];
    Ok(match letter {
        'h' => Form::Head(whole(rest)?),
        't' => Form::Tail(whole(rest)?),
        'o' => Form::Only(whole(rest)?),
        'x' => Form::But(whole(rest)?),
        'g' if rest.is_empty() => Form::Garbage,
        'g' => Form::GarbageAt(whole(rest)?),
        _ => {
            return Err(format!(
                "`{text}` is no form of a torn write: h, t, o, x, g"
            ));
        }
    })
}

fn named(text: &str) -> Result<Named, String> {
    let (first, rest) = number(text)?;
    let (last, form) = match rest.strip_prefix('-') {
        Some(last) => (whole(last)?, Form::Other),
        None => (first, form(rest)?),
    };
    if rest.starts_with('-') && last <= first {
        return Err(format!("{first}-{last} is no range"));
    }
    Ok(Named { first, last, form })
}

impl Exact {
    fn clause(&mut self, clause: &str) -> Result<(), String> {
        let twice = |there: bool| match there {
            true => Err(format!("`{clause}` is said twice")),
            false => Ok(()),
        };
        let rest = clause.get(1..).unwrap_or_default();
        match clause.as_bytes().first() {
            Some(b'p') => {
                let (pack, rest) = number(rest)?;
                let rest = rest.strip_prefix('x');
                let executed = whole(rest.ok_or("x and a number of entries is missing")?)?;
                if self.packs.last().is_some_and(|last| last.0 >= pack) {
                    return Err("packs ascend".into());
                }
                self.packs.push((pack, executed));
            }
            Some(b'b') => {
                twice(self.epoch.is_some())?;
                self.epoch = Some(whole(rest)?);
            }
            Some(b'f') => {
                twice(self.queue.is_some())?;
                let early = rest.strip_suffix('z');
                let written = whole(early.unwrap_or(rest))?;
                let lazy = early.is_some();
                self.queue = Some(Queue { written, lazy });
            }
            Some(b'c') => {
                twice(self.collateral.is_some())?;
                self.collateral = Some(whole(rest)?);
            }
            _ => return Err(format!("`{clause}` is none of p, b, f, c with a number")),
        }
        Ok(())
    }

    fn read(text: &str) -> Result<Exact, String> {
        let (rest, behind) = match text.split_at_checked(1) {
            Some(("k", behind)) => (Rest::Lost, behind),
            Some(("l", behind)) => (Rest::Kept, behind),
            _ => return Err("k or l is missing".into()),
        };
        let mut exact = Exact::all(rest);
        let mut clauses = behind.split(',');
        let writes = clauses.next().unwrap_or_default();
        for write in writes.split('+').filter(|_| !writes.is_empty()) {
            let named = named(write)?;
            if exact.named.last().is_some_and(|n| n.last >= named.first) {
                return Err(format!("write {} is out of order", named.first));
            }
            exact.named.push(named);
        }
        clauses.try_for_each(|clause| exact.clause(clause))?;
        Ok(exact)
    }
}

impl FromStr for Exact {
    type Err = ChoiceError;
    fn from_str(text: &str) -> Result<Exact, ChoiceError> {
        Exact::read(text).map_err(|why| ChoiceError {
            text: text.into(),
            why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn some(rng: &mut Rng) -> Exact {
        let rest = [Rest::Lost, Rest::Kept][rng.below(2) as usize];
        let mut exact = Exact::all(rest);
        let mut id = rng.below(5);
        for _ in 0..rng.below(5) {
            let bits = 1 + rng.below(40);
            let n = rng.below(1 << bits);
            let forms = [
                Form::Other,
                Form::Head(n),
                Form::Tail(n),
                Form::Only(n),
                Form::But(n),
                Form::Garbage,
                Form::GarbageAt(n),
            ];
            let form = forms[rng.below(7) as usize];
            let last = match form {
                Form::Other => id + rng.below(3),
                _ => id,
            };
            exact.named.push(Named {
                first: id,
                last,
                form,
            });
            id = last + 1 + rng.below(1000);
        }
        for _ in 0..rng.below(3) {
            id += 1 + rng.below(100);
            exact.packs.push((id, rng.below(64) as u32));
        }
        exact.epoch = rng.one_in(3).then(|| rng.below(9) as u32);
        exact.queue = rng.one_in(3).then(|| Queue {
            written: rng.below(99) as u32,
            lazy: rng.one_in(2),
        });
        exact.collateral = rng.one_in(3).then(|| rng.below(999));
        exact
    }

    #[test]
    fn the_text_of_a_state_reads_back_as_the_same_state() {
        for n in 0..3000 {
            let exact = some(&mut Rng::named(n, "exact"));
            let text = exact.to_string();
            assert_eq!(text.parse(), Ok(exact), "{text}");
            let fits = |c: char| c.is_ascii_alphanumeric() || "+-,".contains(c);
            assert!(text.chars().all(fits), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_state_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "k or l"),
            ("\u{e9}3", "k or l"),
            ("m3", "k or l"),
            ("k3+", "a number"),
            ("k3+2", "out of order"),
            ("k3-3", "no range"),
            ("k3-9h2", "too much"),
            ("k3h", "a number"),
            ("k3\u{e9}", "no form"),
            ("k99999999999999999999", "too large"),
            ("k3,p5", "x and a number"),
            ("k3,p5x99999999999", "too large"),
            ("k,p5x1,p5x2", "ascend"),
            ("l,b1,b2", "twice"),
            ("l,f1,f1z", "twice"),
            ("l,\u{e9}", "none of"),
            ("l,c1,c2", "twice"),
            ("l,", "none of"),
        ] {
            let error = text.parse::<Exact>().expect_err(text);
            assert!(error.why.contains(why), "{text}: {error}");
        }
    }
}
