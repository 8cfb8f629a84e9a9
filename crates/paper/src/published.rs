//! Published values, read from the committed table of a paper, and the rules by which a measured
//! value agrees. The tolerance follows from the class of a value, not from the single value; only a
//! range or a bound is stated with the value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// How a measured value is compared with a published one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A count or an identity: it agrees only if it is equal.
    Count,
    /// A ratio of counts: it may differ by [`RATIO`].
    Ratio,
    /// A share of a time: it may differ by [`SHARE`].
    Share,
    /// A gain or loss over a baseline: same sign, and within the share [`GAIN`] of the value.
    Gain,
    /// A published range that the value has to lie in.
    Range,
    /// A published lower bound.
    Least,
    /// A published upper bound.
    Most,
    /// A value that is never compared.
    None,
}

/// What it says if a measured value agrees with a published one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing here was chosen by the value: agreement confirms it.
    Predicted,
    /// Something here was fitted to the value, or to what it depends on: agreement is no
    /// confirmation.
    Fitted,
    /// It follows from a setting or a definition: agreement says that the count is right.
    Identity,
    /// It was counted on a Linux kernel: no publication has it, and agreement says that both do the
    /// same.
    Linux,
    /// The publication has no such value.
    Beyond,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [
        Kind::Predicted,
        Kind::Fitted,
        Kind::Identity,
        Kind::Linux,
        Kind::Beyond,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Predicted => "predicted",
            Kind::Fitted => "fitted",
            Kind::Identity => "identity",
            Kind::Linux => "linux",
            Kind::Beyond => "beyond",
        }
    }
}

/// Absolute tolerance of [`Class::Ratio`].
pub const RATIO: f64 = 0.03;
/// Absolute tolerance of [`Class::Share`].
pub const SHARE: f64 = 0.04;
/// Tolerance of [`Class::Gain`] as a share of the published gain.
pub const GAIN: f64 = 0.30;

/// Differences below this come from rounding: published values have three digits at most.
const ROUNDING: f64 = 1e-9;

impl Class {
    /// Greatest difference that counts as agreement, in the value's unit; `None` for bounds.
    pub fn tolerance(self, published: &Published) -> Option<f64> {
        let floor = published.floor;
        match self {
            Class::Count => Some(0.0),
            Class::Ratio => Some(RATIO),
            Class::Share => Some(SHARE),
            Class::Gain => published.value.map(|gain| (GAIN * gain.abs()).max(floor)),
            Class::Range | Class::Least | Class::Most | Class::None => None,
        }
    }

    /// Whether `measured` agrees as it does without a floor.
    pub fn strictly(self, published: &Published, measured: f64) -> Option<bool> {
        let strict = Published {
            floor: 0.0,
            ..published.clone()
        };
        self.within(&strict, measured)
    }

    /// Whether `measured` agrees; `None` where nothing is to be compared.
    pub fn within(self, published: &Published, measured: f64) -> Option<bool> {
        if !measured.is_finite() {
            return Some(false);
        }
        let floor = published.floor;
        match self {
            Class::Least => published.value.map(|bound| measured >= bound - floor),
            Class::Most => published.value.map(|bound| measured <= bound + floor),
            Class::Range => published
                .range
                .map(|(low, high)| (low..=high).contains(&measured)),
            Class::None => None,
            Class::Count | Class::Ratio | Class::Share | Class::Gain => {
                let (value, tolerance) = (published.value?, self.tolerance(published)?);
                let apart = (measured - value).abs();
                let same_sign = self != Class::Gain || measured * value > 0.0;
                let no_sign = floor > 0.0 && apart <= floor + ROUNDING;
                Some((same_sign || no_sign) && apart <= tolerance + ROUNDING)
            }
        }
    }
}

/// A published value, as an entry of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// The figure, table or section of the paper that has it.
    pub figure: String,
    /// What is counted.
    pub item: String,
    /// Which of several it is, as an app or a size.
    pub of: Option<String>,
    /// Its unit.
    pub unit: String,
    /// How a measured value is compared with it.
    pub class: Class,
    /// The value, or the bound.
    pub value: Option<f64>,
    /// The range, for [`Class::Range`].
    pub range: Option<(f64, f64)>,
    /// Why it cannot be measured here.
    pub why: Option<String>,
    /// By how much gains and bounds may differ whatever their size, because the publication's own
    /// figures deviate from run to run; 0 where it states no deviation.
    pub floor: f64,
    /// What agreement says; `None` in a table that does not tell.
    pub kind: Option<Kind>,
    /// What was fitted to the value, as a timing set or a generator of calls: a row made with one
    /// of them is no prediction.
    pub fitted: Vec<String>,
    /// How other published values contradict it, so that no model can agree with all of them.
    pub contradicted: Option<String>,
}

impl Published {
    /// How far `measured` is from the value, beyond the bound, or out of the range.
    pub fn gap(&self, measured: f64) -> f64 {
        let (low, high) = match (self.class, self.range, self.value) {
            (Class::Range, Some(range), _) => range,
            (Class::Least, _, Some(bound)) => (bound, f64::INFINITY),
            (Class::Most, _, Some(bound)) => (f64::NEG_INFINITY, bound),
            (_, _, Some(value)) => (value, value),
            _ => return f64::INFINITY,
        };
        (low - measured).max(measured - high).max(0.0)
    }

    /// A value of that class; what else an entry may have is absent.
    pub fn new(
        figure: &str,
        item: &str,
        unit: &str,
        class: Class,
        value: Option<f64>,
    ) -> Published {
        Published {
            figure: figure.into(),
            item: item.into(),
            of: None,
            unit: unit.into(),
            class,
            value,
            range: None,
            why: None,
            floor: 0.0,
            kind: None,
            fitted: Vec::new(),
            contradicted: None,
        }
    }
}

/// All published values of a paper, in the order of its table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table(Vec<Published>);

/// Why a table of published values is not valid.
#[derive(Debug, Error)]
pub enum TableError {
    /// It is no TOML, or has an unknown key.
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    /// An entry lacks what its class needs.
    #[error("{figure}, {item}: {what}")]
    Entry {
        /// The figure of the entry.
        figure: String,
        /// The item of the entry.
        item: String,
        /// What is missing.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The floor of all values.
    #[serde(default)]
    floor: f64,
    /// The kind of all values that do not name theirs.
    kind: Option<Kind>,
    /// What was fitted to all values.
    #[serde(default)]
    fitted: Vec<String>,
    #[serde(default)]
    value: Vec<Entry>,
    #[serde(default)]
    per_app: Vec<PerApp>,
    #[serde(default)]
    each_app: Vec<Entry>,
    #[serde(default)]
    each_size: Vec<PerSize>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    figure: String,
    item: String,
    unit: String,
    class: Class,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    why: Option<String>,
    kind: Option<Kind>,
    #[serde(default)]
    fitted: Vec<String>,
    contradicted: Option<String>,
}

#[derive(Deserialize)]
struct PerApp {
    figure: String,
    item: String,
    unit: String,
    class: Class,
    #[serde(default)]
    fitted: Vec<String>,
    #[serde(flatten)]
    apps: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct PerSize {
    figure: String,
    item: String,
    unit: String,
    class: Class,
    value: f64,
    #[serde(default)]
    fitted: Vec<String>,
    kib: Vec<u32>,
}

impl Table {
    /// Reads a table. An entry for each app is repeated for all of `apps`.
    ///
    /// # Errors
    /// A key is unknown, or a value lacks what its class needs.
    pub fn parse(text: &str, apps: &[&str]) -> Result<Table, TableError> {
        let text: Text = toml::from_str(text)?;
        let mut all = Vec::new();
        for entry in text.value {
            all.push(entry.published(None)?);
        }
        for entry in text.per_app {
            for app in apps {
                let value = entry.apps.get(*app).copied();
                let one = Entry {
                    figure: entry.figure.clone(),
                    item: entry.item.clone(),
                    unit: entry.unit.clone(),
                    class: entry.class,
                    value,
                    low: None,
                    high: None,
                    why: None,
                    kind: None,
                    fitted: entry.fitted.clone(),
                    contradicted: None,
                };
                all.push(one.published(Some((*app).into()))?);
            }
        }
        for entry in text.each_app {
            for app in apps {
                all.push(entry.clone().published(Some((*app).into()))?);
            }
        }
        for entry in text.each_size {
            for kib in &entry.kib {
                let one = Entry {
                    figure: entry.figure.clone(),
                    item: entry.item.clone(),
                    unit: entry.unit.clone(),
                    class: entry.class,
                    value: Some(entry.value),
                    low: None,
                    high: None,
                    why: None,
                    kind: None,
                    fitted: entry.fitted.clone(),
                    contradicted: None,
                };
                all.push(one.published(Some(format!("{kib} KiB")))?);
            }
        }
        for published in &mut all {
            published.kind = published.kind.or(text.kind);
            published.fitted.extend(text.fitted.iter().cloned());
            published.floor = text.floor;
        }
        Ok(Table(all))
    }

    /// All values.
    pub fn all(&self) -> &[Published] {
        &self.0
    }

    /// All values, to say of some that others contradict them.
    pub fn all_mut(&mut self) -> &mut [Published] {
        &mut self.0
    }

    /// The value of that name.
    ///
    /// # Panics
    /// There is none. Names are literals of the code, and a test asks for each.
    pub fn get(&self, figure: &str, item: &str, of: Option<&str>) -> &Published {
        let found = self
            .0
            .iter()
            .find(|p| p.figure == figure && p.item == item && p.of.as_deref() == of);
        found.unwrap_or_else(|| panic!("the table has no value {figure}, {item}, {of:?}"))
    }
}

impl Entry {
    fn published(self, of: Option<String>) -> Result<Published, TableError> {
        let range = self.low.zip(self.high);
        let what = match self.class {
            Class::Range if range.is_none() => Some("a range needs `low` and `high`"),
            Class::Range | Class::None => None,
            _ if self.value.is_none() => Some("no value"),
            _ => None,
        };
        match what {
            Some(what) => Err(TableError::Entry {
                figure: self.figure,
                item: self.item,
                what,
            }),
            None => Ok(Published {
                of,
                range,
                why: self.why,
                kind: self.kind,
                fitted: self.fitted,
                contradicted: self.contradicted,
                ..Published::new(&self.figure, &self.item, &self.unit, self.class, self.value)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(class: Class, value: f64) -> Published {
        Published {
            range: Some((0.1, 0.2)),
            ..Published::new("f", "i", "u", class, Some(value))
        }
    }

    #[test]
    fn each_class_has_its_rule() {
        let cases = [
            (Class::Count, 3.0, 3.0, Some(true)),
            (Class::Count, 3.0, 3.1, Some(false)),
            (Class::Ratio, 0.73, 0.76, Some(true)),
            (Class::Ratio, 0.73, 0.77, Some(false)),
            (Class::Share, 0.5, 0.46, Some(true)),
            (Class::Share, 0.5, 0.45, Some(false)),
            (Class::Gain, 0.2, 0.26, Some(true)),
            (Class::Gain, 0.2, 0.27, Some(false)),
            (Class::Gain, 0.2, 0.13, Some(false)),
            (Class::Gain, -0.2, -0.15, Some(true)),
            (Class::Range, 9.9, 0.15, Some(true)),
            (Class::Range, 9.9, 0.21, Some(false)),
            (Class::Least, 0.8, 0.8, Some(true)),
            (Class::Least, 0.8, 0.79, Some(false)),
            (Class::Most, 0.1, 0.1, Some(true)),
            (Class::Most, 0.1, 0.11, Some(false)),
            (Class::None, 1.0, 1.0, None),
            (Class::Ratio, 0.0, f64::NAN, Some(false)),
        ];
        for (class, value, measured, wanted) in cases {
            let found = class.within(&published(class, value), measured);
            assert_eq!(found, wanted, "{class:?} {value} {measured}");
        }
    }

    /// A floor counts for gains, whose sign it may turn, and for bounds.
    #[test]
    fn a_floor_is_for_gains_and_bounds() {
        let cases = [
            (Class::Gain, 0.011, -0.05, true),
            (Class::Gain, 0.011, -0.06, false),
            (Class::Gain, 0.5, 0.36, true),
            (Class::Gain, 0.5, 0.34, false),
            (Class::Least, 0.0, -0.07, true),
            (Class::Least, 0.0, -0.08, false),
            (Class::Most, 1.0, 1.07, true),
            (Class::Most, 1.0, 1.08, false),
            (Class::Share, 0.5, 0.44, false),
            (Class::Ratio, 0.5, 0.44, false),
            (Class::Count, 3.0, 3.05, false),
            (Class::Range, 9.9, 0.25, false),
        ];
        for (class, value, measured, wanted) in cases {
            let mut published = published(class, value);
            published.floor = 0.07;
            let found = class.within(&published, measured);
            assert_eq!(found, Some(wanted), "{class:?} {value} {measured}");
            let strictly = class.strictly(&published, measured);
            let strict = (class, value) == (Class::Gain, 0.5) && wanted;
            assert_eq!(strictly, Some(strict), "{class:?} {value} {measured}");
        }
    }

    #[test]
    fn a_gain_of_nothing_has_no_sign_and_is_outside() {
        assert_eq!(
            Class::Gain.within(&published(Class::Gain, 0.1), 0.0),
            Some(false)
        );
    }

    #[test]
    fn a_table_says_what_was_fitted_to_its_values() {
        let text = "kind='predicted'\nfitted=['set']\n[[value]]\nfigure='F'\nitem='i'\nunit='u'\nclass='ratio'\nvalue=1\n\
                    kind='identity'\n[[per_app]]\nfigure='F'\nitem='j'\nunit='u'\nclass='ratio'\nfitted=['generator']\na=0.5";
        let table = Table::parse(text, &["a"]).unwrap();
        let of = |n: usize| (table.all()[n].kind, table.all()[n].fitted.join(","));
        assert_eq!(of(0), (Some(Kind::Identity), "set".into()));
        assert_eq!(of(1), (Some(Kind::Predicted), "generator,set".into()));
    }

    #[test]
    fn an_entry_without_its_value_is_refused() {
        let text = "[[value]]\nfigure='F'\nitem='i'\nunit='u'\nclass='ratio'";
        let e = Table::parse(text, &[]).unwrap_err().to_string();
        assert!(e.contains("F, i: no value"), "{e}");
        let text = "[[each_app]]\nfigure='F'\nitem='i'\nunit='u'\nclass='range'\nlow=1";
        let e = Table::parse(text, &["a"]).unwrap_err().to_string();
        assert!(e.contains("`low` and `high`"), "{e}");
    }
}
