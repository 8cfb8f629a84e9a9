//! Published values as marks in the plots of a report, and what a caption says where there is none.

use crate::{Class, Published};
use report::plot::{At, Mark, Says};

/// What the caption of a plot says for which the publication has no value.
pub const NO_VALUE: &str = "The paper publishes no value for what is drawn here";

/// A caption that says so, and why.
pub fn without_published(caption: &str, why: &str) -> String {
    format!("{caption} {NO_VALUE}: {why}.")
}

/// Gains are fractions in the table and per cent in the plots.
pub fn percent(gain: f64) -> f64 {
    gain * 100.0
}

/// A gain as a multiple of what it is over.
pub fn times(gain: f64) -> f64 {
    1.0 + gain
}

/// The place of a group of bars, or of a bar.
pub fn group(name: &str) -> At {
    At::Group(name.into())
}

impl Published {
    /// What is said, in the unit of the table; `None` where the table has no number.
    pub fn says(&self) -> Option<Says> {
        match (self.class, self.value, self.range) {
            (Class::Least, Some(value), _) => Some(Says::Least(value)),
            (Class::Most, Some(value), _) => Some(Says::Most(value)),
            (Class::Range, _, Some((low, high))) | (_, None, Some((low, high))) => {
                Some(Says::Range(low, high))
            }
            (_, Some(value), _) => Some(Says::Value(value)),
            (_, None, None) => None,
        }
    }

    /// The value at a place of a plot, where it has a number; `series` is whose it is.
    pub fn mark(&self, series: Option<&str>, at: At) -> Option<Mark> {
        let of = self
            .of
            .as_ref()
            .map_or(String::new(), |of| format!(", {of}"));
        Some(Mark {
            what: format!("{}: {}{of}", self.figure, self.item),
            series: series.map(String::from),
            at,
            says: self.says()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_says_what_its_value_is() {
        let of = |class, value, range| {
            let published = Published {
                range,
                ..Published::new("Fig 1", "i", "u", class, value)
            };
            published.mark(Some("s"), group("g")).map(|m| m.says)
        };
        let range = Some((0.1, 0.2));
        assert_eq!(of(Class::Gain, Some(0.3), None), Some(Says::Value(0.3)));
        assert_eq!(of(Class::None, Some(0.3), None), Some(Says::Value(0.3)));
        assert_eq!(of(Class::Least, Some(0.3), None), Some(Says::Least(0.3)));
        assert_eq!(of(Class::Most, Some(0.3), None), Some(Says::Most(0.3)));
        assert_eq!(
            of(Class::Range, Some(0.3), range),
            Some(Says::Range(0.1, 0.2))
        );
        assert_eq!(of(Class::None, None, range), Some(Says::Range(0.1, 0.2)));
        assert_eq!(of(Class::None, None, None), None);
    }

    #[test]
    fn a_mark_says_which_value_it_is() {
        let mut published = Published::new("Fig 1", "gain", "u", Class::Gain, Some(0.3));
        published.of = Some("chrome".into());
        let mark = published.mark(None, At::All).expect("a value");
        assert_eq!(mark.what, "Fig 1: gain, chrome");
        assert_eq!(mark.map(percent).says, Says::Value(30.0));
    }
}
