//! Descriptions as rows: in words for a reader, and typed for a program (`--json`).
//!
//! A row has one name for both. The key of a program is made of it: `blocks free` is `blocks_free`,
//! `ColdData` is `cold_data`. A number is a number, without its unit, which the name has.

use super::date::moment;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

/// The description of one structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of the structure.
    pub title: String,
    /// Its key for programs, which does not depend on the image.
    pub key: String,
    /// What is known of it, in order.
    pub rows: Vec<Row>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The field.
    pub name: String,
    /// Its value in words.
    pub words: String,
    /// Its value for programs.
    pub value: Datum,
}

impl Row {
    /// The field's key for programs.
    pub fn key(&self) -> String {
        key(&self.name)
    }
}

/// A value for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// A whole number.
    Whole(u64),
    /// A whole number below zero.
    Below(i64),
    /// True or false.
    Truth(bool),
    /// A text.
    Text(String),
    /// Several words, such as the names of flags.
    Words(Vec<String>),
    /// Numbers by name.
    Named(BTreeMap<&'static str, u64>),
    /// It never was.
    Never,
}

impl Datum {
    /// What a value is that is printed as `words`: a number, also within the name of its type
    /// (`BlockAddr(512)`); flags (`State(0x1: clean)`); true or false; a text.
    fn of(words: &str) -> Datum {
        if let Ok(number) = words.parse() {
            return Datum::Whole(number);
        }
        if let Ok(number) = words.parse() {
            return Datum::Below(number);
        }
        if let Ok(truth) = words.parse() {
            return Datum::Truth(truth);
        }
        if let Some(inner) = words.strip_suffix(')').and_then(|w| w.split_once('(')) {
            let is_type = inner.0.chars().all(|c| c.is_ascii_alphanumeric());
            match inner.1.split_once(": ") {
                Some((bits, names)) if is_type && bits.starts_with("0x") => {
                    return Datum::Words(names.split_whitespace().map(String::from).collect());
                }
                None if is_type && !inner.0.is_empty() => match Datum::of(inner.1) {
                    Datum::Text(_) => {}
                    number => return number,
                },
                _ => {}
            }
        }
        let quoted = words.strip_prefix('"').and_then(|w| w.strip_suffix('"'));
        Datum::Text(quoted.unwrap_or(words).into())
    }
}

impl Section {
    pub(super) fn new(title: impl Into<String>, key: &str) -> Section {
        Section {
            title: title.into(),
            key: key.into(),
            rows: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, words: String, value: Datum) -> &mut Section {
        self.rows.push(Row {
            name: name.into(),
            words,
            value,
        });
        self
    }

    /// A number, flags, or true or false.
    pub(super) fn row(&mut self, name: &str, value: impl Display) -> &mut Section {
        let words = value.to_string();
        let value = Datum::of(&words);
        self.add(name, words, value)
    }

    /// A text, whatever it looks like: a label may be a number.
    pub(super) fn text(&mut self, name: &str, value: impl Display) -> &mut Section {
        let words = value.to_string();
        self.add(name, words.clone(), Datum::Text(words))
    }

    /// Seconds since 1970, as a date; 0 is never.
    pub(super) fn moment(&mut self, name: &str, secs: u64) -> &mut Section {
        let words = moment(secs);
        let value = match secs {
            0 => Datum::Never,
            _ => Datum::Text(words.clone()),
        };
        self.add(name, words, value)
    }

    /// A place that takes several numbers.
    pub(super) fn place(
        &mut self,
        name: &str,
        words: String,
        numbers: &[(&'static str, u64)],
    ) -> &mut Section {
        self.add(name, words, Datum::Named(numbers.iter().copied().collect()))
    }

    /// Several texts.
    pub(super) fn list(&mut self, name: &str, list: Vec<String>) -> &mut Section {
        self.add(name, list.join(" "), Datum::Words(list))
    }

    /// The fields of a plain value, one a row.
    pub(super) fn debug(&mut self, value: &impl Debug) -> &mut Section {
        // What the row is in: names of the fields around it, and how many of a list came before.
        let mut around: Vec<(String, usize)> = Vec::new();
        for line in format!("{value:#?}").lines().skip(1) {
            let line = line.trim().trim_end_matches(',');
            if line.starts_with(['}', ']', ')']) {
                around.pop();
                continue;
            }
            let (name, rest) = match (line.split_once(": "), around.last_mut()) {
                (Some((name, rest)), _) => (name.to_string(), rest),
                (None, Some((_, count))) => {
                    *count += 1;
                    ((*count - 1).to_string(), line)
                }
                (None, None) => (line.to_string(), ""),
            };
            let path = around.iter().map(|(name, _)| format!("{name}."));
            let whole = path.collect::<String>() + &name;
            match rest.ends_with(['{', '[', '(']) {
                true => around.push((name, 0)),
                false => drop(self.row(&whole, rest)),
            }
        }
        self
    }
}

/// Words in small letters, with `_` between them.
fn key(name: &str) -> String {
    let mut key = String::new();
    let mut before = ' ';
    for c in name.chars() {
        let begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if begins || (!c.is_ascii_alphanumeric() && !key.is_empty()) {
            key.push('_');
        }
        if c.is_ascii_alphanumeric() {
            key.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    while key.contains("__") {
        key = key.replace("__", "_");
    }
    key.trim_end_matches('_').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_becomes_rows() {
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Inner {
            secs: u32,
        }
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Value {
            count: u32,
            inner: Inner,
            list: [u8; 2],
            name: &'static str,
        }
        let mut section = Section::new("x", "x");
        section.debug(&Value {
            count: 3,
            inner: Inner { secs: 4 },
            list: [5, 6],
            name: "a: b",
        });
        let rows: Vec<_> = (section.rows.iter())
            .map(|row| (row.name.as_str(), row.words.as_str(), row.value.clone()))
            .collect();
        assert_eq!(
            rows,
            [
                ("count", "3", Datum::Whole(3)),
                ("inner.secs", "4", Datum::Whole(4)),
                ("list.0", "5", Datum::Whole(5)),
                ("list.1", "6", Datum::Whole(6)),
                ("name", "\"a: b\"", Datum::Text("a: b".into()))
            ]
        );
    }

    #[test]
    fn a_value_has_its_kind() {
        let flags = |words: &[&str]| Datum::Words(words.iter().map(|w| (*w).into()).collect());
        for (words, value) in [
            ("0", Datum::Whole(0)),
            ("18446744073709551615", Datum::Whole(u64::MAX)),
            ("-5", Datum::Below(-5)),
            ("true", Datum::Truth(true)),
            ("BlockAddr(512)", Datum::Whole(512)),
            ("State(0x1: clean)", flags(&["clean"])),
            (
                "Compat(0x3c: has_journal dir_index)",
                flags(&["has_journal", "dir_index"]),
            ),
            ("Features(0x0: )", flags(&[])),
            ("0o644", Datum::Text("0o644".into())),
            ("1 block", Datum::Text("1 block".into())),
            ("(3)", Datum::Text("(3)".into())),
        ] {
            assert_eq!(Datum::of(words), value, "{words}");
        }
    }

    #[test]
    fn names_become_keys() {
        for (name, expected) in [
            ("blocks free", "blocks_free"),
            ("log ColdData", "log_cold_data"),
            ("unmounted, nothing to redo", "unmounted_nothing_to_redo"),
            ("tail: block of the ring", "tail_block_of_the_ring"),
            ("inner.secs", "inner_secs"),
            (
                "read-only compatible features",
                "read_only_compatible_features",
            ),
            ("NAT journal: node 4", "nat_journal_node_4"),
            ("block area +16", "block_area_16"),
        ] {
            assert_eq!(key(name), expected);
        }
    }

    #[test]
    fn what_never_was_is_nothing_and_a_label_is_a_text() {
        let mut section = Section::new("x", "x");
        section.moment("mounted", 0).text("label", 7);
        let values: Vec<_> = section.rows.iter().map(|row| &row.value).collect();
        assert_eq!(values, [&Datum::Never, &Datum::Text("7".into())]);
    }
}
