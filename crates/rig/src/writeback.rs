//! When a host writes back what its programs have changed, as a text names it.

use crate::RigError;
use base::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The settings of Linux's flusher (Documentation/admin-guide/sysctl/vm.rst). Its text is `linux`,
/// `android`, or such a word and changes of it, with `+` between: `android+interval=2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Writeback {
    /// Seconds between two looks (`dirty_writeback_centisecs`).
    pub interval: u32,
    /// Seconds after which what has changed is written (`dirty_expire_centisecs`).
    pub expire: u32,
    /// Percent of memory above which the flusher writes everything (`dirty_background_ratio`).
    pub background: u32,
    /// Percent of memory above which writers wait (`dirty_ratio`).
    pub limit: u32,
}

const SECONDS: RangeInclusive<u32> = 1..=3600;
const PERCENT: RangeInclusive<u32> = 1..=100;

impl Writeback {
    /// The defaults of the kernel.
    pub const LINUX: Writeback = Writeback {
        interval: 5,
        expire: 30,
        background: 10,
        limit: 20,
    };
    /// What Android's `init.rc` sets ("Tweak background writeout": `dirty_expire_centisecs` 200,
    /// `dirty_background_ratio` 5); the rest is the kernel's. Only a device without a battery also
    /// looks every 2 s.
    pub const ANDROID: Writeback = Writeback {
        expire: 2,
        background: 5,
        ..Writeback::LINUX
    };
    const WORDS: [(&'static str, Writeback); 2] =
        [("linux", Writeback::LINUX), ("android", Writeback::ANDROID)];

    pub(crate) fn interval(&self) -> Nanos {
        Nanos::from_secs(self.interval.into())
    }

    pub(crate) fn expire(&self) -> Nanos {
        Nanos::from_secs(self.expire.into())
    }

    /// The numbers by name, with their ranges.
    fn fields(&mut self) -> [(&'static str, &mut u32, RangeInclusive<u32>); 4] {
        [
            ("interval", &mut self.interval, SECONDS),
            ("expire", &mut self.expire, SECONDS),
            ("background", &mut self.background, PERCENT),
            ("limit", &mut self.limit, PERCENT),
        ]
    }

    fn set(&mut self, item: &str) -> Result<(), RigError> {
        let refused = |why: String| RigError::Writeback {
            item: item.into(),
            why,
        };
        if let Some((_, found)) = Self::WORDS.iter().find(|(word, _)| *word == item) {
            *self = *found;
            return Ok(());
        }
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let mut fields = self.fields().into_iter();
        let Some((_, field, range)) = fields.find(|(own, _, _)| *own == name) else {
            let valid =
                "linux, android, interval=, expire= (seconds), background=, limit= (percent)";
            return Err(refused(format!("valid: {valid}")));
        };
        *field = (value.parse().ok().filter(|n| range.contains(n)))
            .ok_or_else(|| refused(format!("it may be {} to {}", range.start(), range.end())))?;
        Ok(())
    }
}

impl FromStr for Writeback {
    type Err = RigError;
    fn from_str(text: &str) -> Result<Writeback, RigError> {
        let mut writeback = Writeback::LINUX;
        for item in text.split('+') {
            writeback.set(item.trim())?;
        }
        let Writeback {
            background, limit, ..
        } = writeback;
        if background >= limit {
            return Err(RigError::Writeback {
                item: format!("background={background}"),
                why: format!("it has to be below limit={limit}"),
            });
        }
        Ok(writeback)
    }
}

impl fmt::Display for Writeback {
    /// The shortest text that is read as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut own, mut shortest) = (*self, None::<Vec<String>>);
        for (word, mut base) in Self::WORDS {
            let pairs = own.fields().into_iter().zip(base.fields());
            let changes = pairs.filter(|((_, own, _), (_, base, _))| own != base);
            let mut items = vec![word.to_string()];
            items.extend(changes.map(|((name, own, _), _)| format!("{name}={own}")));
            if shortest.as_ref().is_none_or(|s| items.len() < s.len()) {
                shortest = Some(items);
            }
        }
        f.write_str(&shortest.unwrap_or_default().join("+"))
    }
}

impl From<Writeback> for String {
    fn from(writeback: Writeback) -> String {
        writeback.to_string()
    }
}

impl TryFrom<String> for Writeback {
    type Error = RigError;
    fn try_from(text: String) -> Result<Writeback, RigError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_printed_in_its_shortest_form() {
        for (text, shortest) in [
            ("linux", "linux"),
            ("android", "android"),
            ("android+interval=2", "android+interval=2"),
            ("expire=2+background=5", "android"),
            ("interval=2+expire=2+background=5", "android+interval=2"),
            ("android+expire=30", "linux+background=5"),
        ] {
            let read: Writeback = text.parse().expect(text);
            assert_eq!(read.to_string(), shortest, "{text}");
            assert_eq!(shortest.parse::<Writeback>().expect(shortest), read);
        }
        let android: Writeback = "android".parse().expect("a word");
        assert_eq!((android.interval, android.expire), (5, 2));
        assert_eq!((android.background, android.limit), (5, 20));
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_field() {
        for (text, words) in [
            ("windows", &["`windows`", "linux, android, interval="][..]),
            ("android+age=3", &["`age=3`", "expire="]),
            ("interval=0", &["`interval=0`", "1 to 3600"]),
            ("expire=-1", &["`expire=-1`", "1 to 3600"]),
            ("background=101", &["`background=101`", "1 to 100"]),
            ("limit=x", &["`limit=x`", "1 to 100"]),
            ("background=20", &["`background=20`", "limit=20"]),
            ("", &["``", "linux, android"]),
        ] {
            let why = text.parse::<Writeback>().expect_err(text).to_string();
            assert!(words.iter().all(|w| why.contains(w)), "{text}: {why}");
        }
    }
}
