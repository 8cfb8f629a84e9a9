//! A scheme written as text, equal on the command line and among mount options: a preset, single
//! choices, or a preset with single choices changed.

use crate::scheme::{FAST_HAS_NO_BLOCKS, REMAP_NEEDS_BLOCKS};
use crate::{BugIn, CommitBlock, FastBug, FullFirst, Home, Order, Preset, Record, Scheme};
use block::RemapMode;
use std::fmt;
use std::str::FromStr;

/// Between the choices of one scheme: `emmc+full-first=on`. A comma separates schemes and mount
/// options.
const SEPARATOR: char = '+';

/// Choices, given in any order: of several values of a key the last counts, and a preset gives the
/// values of all keys that are not named.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    preset: Option<Preset>,
    record: Option<Kind>,
    order: Option<Order>,
    home: Option<Home>,
    full_first: Option<FullFirst>,
    commit_block: Option<CommitBlock>,
    bug: Option<FastBug>,
    bug_in: Option<BugIn>,
}

/// The reason why a text names no scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChoiceError(String);

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ChoiceError {}

/// What [`Record`] is, without its details.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Full,
    Fast,
    Coalition,
}

impl Kind {
    fn of(record: Record) -> Kind {
        match record {
            Record::Full => Kind::Full,
            Record::Fast => Kind::Fast,
            Record::Coalition { .. } => Kind::Coalition,
        }
    }
}

type Words<T> = &'static [(&'static str, T)];

const RECORDS: Words<Kind> = &[
    ("full", Kind::Full),
    ("fast", Kind::Fast),
    ("coalition", Kind::Coalition),
];
const ORDERS: Words<Order> = &[
    ("flush-end", Order::FlushEnd),
    ("flush-ahead", Order::FlushAhead),
    ("adaptive", Order::Adaptive),
];
const HOMES: Words<Home> = &[
    ("copy", Home::Copy),
    ("copy-reliable", Home::CopyReliable),
    (
        "remap",
        Home::Remap {
            mode: RemapMode::Share,
        },
    ),
    (
        "remap-move",
        Home::Remap {
            mode: RemapMode::Move,
        },
    ),
];
const FULL_FIRSTS: Words<FullFirst> = &[
    ("auto", FullFirst::Auto),
    ("on", FullFirst::On),
    ("off", FullFirst::Off),
];
const COMMIT_BLOCKS: Words<CommitBlock> = &[
    ("on", CommitBlock::Always),
    ("if-more", CommitBlock::IfMore),
    ("off", CommitBlock::Never),
];

/// The value that `word` stands for under `key`.
fn value_of<T: Copy>(key: &str, word: &str, words: Words<T>) -> Result<T, ChoiceError> {
    let found = words.iter().find(|(w, _)| *w == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let valid: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        unknown(key, word, &valid)
    })
}

fn unknown(key: &str, word: &str, valid: &[&str]) -> ChoiceError {
    let valid = valid.join(", ");
    ChoiceError(format!("unknown {key} `{word}`; valid are: {valid}"))
}

/// The value whose word is `word`.
fn named<T: FromStr<Err = base::UnknownWord>>(key: &str, word: &str) -> Result<T, ChoiceError> {
    word.parse()
        .map_err(|e: base::UnknownWord| unknown(key, word, &e.valid))
}

/// The word for a value: the inverse of [`value_of`].
fn word_of<T: PartialEq>(value: &T, words: Words<T>) -> &'static str {
    let found = words.iter().find(|(_, v)| v == value);
    found.map_or("?", |(word, _)| word)
}

impl Choices {
    /// The keys and their values, for messages.
    pub const SYNTAX: &str = "scheme=jbd2|coalition|coalition-paper|flush-ahead|emmc|emmc-paper|adaptive|jftl|jftl-paper|fast-commit|fast-commit+adaptive|none, \
                              record=full|fast|coalition, order=flush-end|flush-ahead|adaptive, \
                              home=copy|copy-reliable|remap|remap-move, full-first=auto|on|off, commit-block=on|if-more|off; \
                              in simulations bug=full-area|xattr|new-directory|xattr-block|full-directory|directory-blocks|no-clear|unseen-commit|missed-actions, bug-in=both|writer|recovery";

    /// Takes one choice; false if `key` is none of the keys of a scheme.
    ///
    /// # Errors
    /// An unknown value, with the valid ones.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, ChoiceError> {
        match key {
            // A whole scheme, as tables call it.
            "scheme" if value.contains(SEPARATOR) => {
                let whole: Choices = value.parse()?;
                *self = Choices {
                    preset: whole.preset.or(self.preset),
                    record: whole.record.or(self.record),
                    order: whole.order.or(self.order),
                    home: whole.home.or(self.home),
                    full_first: whole.full_first.or(self.full_first),
                    commit_block: whole.commit_block.or(self.commit_block),
                    bug: whole.bug.or(self.bug),
                    bug_in: whole.bug_in.or(self.bug_in),
                };
            }
            "scheme" => {
                let preset = value.parse::<Preset>();
                self.preset = Some(preset.map_err(|e| unknown(key, value, &e.valid))?);
            }
            "record" => self.record = Some(value_of(key, value, RECORDS)?),
            "order" => self.order = Some(value_of(key, value, ORDERS)?),
            "home" => self.home = Some(value_of(key, value, HOMES)?),
            "full-first" => self.full_first = Some(value_of(key, value, FULL_FIRSTS)?),
            "commit-block" => self.commit_block = Some(value_of(key, value, COMMIT_BLOCKS)?),
            "bug" => self.bug = Some(named(key, value)?),
            "bug-in" => self.bug_in = Some(named(key, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The scheme that the choices lead to; without a preset they change `jbd2`. `None`: no
    /// journal.
    ///
    /// # Errors
    /// Choices that contradict each other, or that no device can carry out.
    pub fn scheme(&self) -> Result<Option<Scheme>, ChoiceError> {
        let refuse = |why: &str| Err(ChoiceError(why.into()));
        let Some(mut scheme) = self.preset.unwrap_or_default().scheme() else {
            return match self.first_single() {
                None => Ok(None),
                Some(key) => refuse(&format!(
                    "scheme=none has no journal, so {key}= says nothing; leave it out"
                )),
            };
        };
        scheme.record = self.record(scheme.record)?;
        scheme.home = self.home.unwrap_or(scheme.home);
        if scheme.is_coalition() && matches!(scheme.home, Home::Remap { .. }) {
            return refuse(REMAP_NEEDS_BLOCKS);
        }
        if scheme.is_fast() && matches!(scheme.home, Home::Remap { .. }) {
            return refuse(FAST_HAS_NO_BLOCKS);
        }
        scheme.order = self.order.unwrap_or(scheme.order);
        if let Some(full_first) = self.full_first {
            if !scheme.is_coalition() && full_first != FullFirst::Auto {
                return refuse(
                    "full-first= says when a coalition holds whole blocks; record=full and record=fast always do; leave it out",
                );
            }
            scheme.full_first = full_first;
        }
        scheme.bug = self.bug(&scheme)?;
        Ok(Some(scheme))
    }

    fn bug(&self, scheme: &Scheme) -> Result<Option<(FastBug, BugIn)>, ChoiceError> {
        let refuse = |why: &str| Err(ChoiceError(why.into()));
        let side = self.bug_in.unwrap_or(BugIn::Both);
        match self.bug {
            None if self.bug_in.is_some() => {
                refuse("bug-in= says who makes a mistake, and bug= names none; leave it out")
            }
            None => Ok(None),
            Some(_) if !scheme.is_fast() => refuse(
                "bug= is a mistake of fast commits; choose record=fast (fast-commit), or leave it out",
            ),
            Some(bug @ (FastBug::NoClear | FastBug::MissedActions)) if side == BugIn::Recovery => {
                let bug = bug.word();
                refuse(&format!(
                    "bug={bug} is a mistake of whoever writes; leave bug-in= out"
                ))
            }
            Some(
                bug @ (FastBug::UnseenCommit | FastBug::FullDirectory | FastBug::DirectoryBlocks),
            ) if side == BugIn::Writer => {
                let bug = bug.word();
                refuse(&format!(
                    "bug={bug} is a mistake of recovery; leave bug-in= out"
                ))
            }
            Some(bug) => Ok(Some((bug, side))),
        }
    }

    fn record(&self, ground: Record) -> Result<Record, ChoiceError> {
        let kind = self.record.unwrap_or(Kind::of(ground));
        if kind != Kind::Coalition {
            return match self.commit_block {
                None if kind == Kind::Fast => Ok(Record::Fast),
                None => Ok(Record::Full),
                Some(_) => Err(ChoiceError(
                    "commit-block= is a choice of record=coalition; record=full and record=fast always have one; leave it out".into(),
                )),
            };
        }
        let commit_block = self.commit_block.or(ground.commit_block());
        Ok(Record::Coalition {
            commit_block: commit_block.unwrap_or(CommitBlock::Never),
        })
    }

    fn first_single(&self) -> Option<&'static str> {
        let given = [
            (self.record.is_some(), "record"),
            (self.order.is_some(), "order"),
            (self.home.is_some(), "home"),
            (self.full_first.is_some(), "full-first"),
            (self.commit_block.is_some(), "commit-block"),
            (self.bug.is_some(), "bug"),
            (self.bug_in.is_some(), "bug-in"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, key)| *key)
    }
}

impl FromStr for Choices {
    type Err = ChoiceError;

    /// Reads `PRESET`, `KEY=VALUE`, or several of them with `+` between. A word behind the first
    /// one may also be a value of `order`: `fast-commit+adaptive`.
    fn from_str(text: &str) -> Result<Choices, ChoiceError> {
        let mut choices = Choices::default();
        for item in text.split(SEPARATOR).map(str::trim) {
            let is_order = choices.preset.is_some() && ORDERS.iter().any(|(word, _)| *word == item);
            let alone = if is_order { "order" } else { "scheme" };
            let (key, value) = item.split_once('=').unwrap_or((alone, item));
            if !choices.set(key, value)? {
                let syntax = Choices::SYNTAX;
                return Err(ChoiceError(format!(
                    "unknown choice `{key}` in scheme `{text}`; there are: {syntax}"
                )));
            }
        }
        Ok(choices)
    }
}

/// The shortest text for a scheme: a preset, and what differs from it. Equal schemes have equal
/// texts.
pub fn scheme_text(scheme: &Option<Scheme>) -> String {
    let Some(scheme) = scheme else {
        return Preset::None.word().into();
    };
    let texts = Preset::ALL.iter().filter_map(|preset| {
        let ground = preset.scheme()?;
        let other_record = Kind::of(ground.record) != Kind::of(scheme.record);
        Some((other_record, changes(&ground, scheme), preset))
    });
    let (_, changes, preset) = texts
        .min_by_key(|(other_record, changes, _)| (*other_record, changes.len()))
        .expect("there are presets");
    let mut text = preset.word().to_string();
    changes.iter().for_each(|change| {
        text.push(SEPARATOR);
        text.push_str(change);
    });
    text
}

/// The choices that turn `from` into `to`, which has the same kind of record.
fn changes(from: &Scheme, to: &Scheme) -> Vec<String> {
    let mut all = Vec::new();
    if let Record::Coalition { commit_block } = to.record
        && from.record != to.record
    {
        all.push(format!(
            "commit-block={}",
            word_of(&commit_block, COMMIT_BLOCKS)
        ));
    }
    if from.order != to.order {
        all.push(format!("order={}", word_of(&to.order, ORDERS)));
    }
    if from.home != to.home {
        all.push(format!("home={}", word_of(&to.home, HOMES)));
    }
    if from.full_first != to.full_first {
        all.push(format!(
            "full-first={}",
            word_of(&to.full_first, FULL_FIRSTS)
        ));
    }
    if let Some((bug, side)) = to.bug {
        all.push(format!("bug={}", bug.word()));
        if side != BugIn::Both {
            all.push(format!("bug-in={}", side.word()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Scheme>, ChoiceError> {
        text.parse::<Choices>()?.scheme()
    }

    #[test]
    fn a_preset_and_its_choices_are_the_same_scheme_with_one_text() {
        for (text, short) in [
            ("jbd2", "jbd2"),
            ("none", "none"),
            ("scheme=emmc", "emmc"),
            ("record=full+order=flush-ahead", "flush-ahead"),
            ("record=coalition+home=copy-reliable", "coalition"),
            ("coalition+commit-block=if-more", "coalition-paper"),
            ("coalition+commit-block=on", "coalition+commit-block=on"),
            ("emmc+commit-block=if-more", "emmc-paper"),
            ("coalition-paper+order=flush-ahead", "emmc-paper"),
            ("coalition-paper+commit-block=off", "coalition"),
            ("coalition+order=flush-ahead", "emmc"),
            ("order=flush-ahead+scheme=coalition", "emmc"),
            ("emmc+record=full+home=copy", "flush-ahead"),
            (
                "emmc+home=copy+full-first=on",
                "emmc+home=copy+full-first=on",
            ),
            ("order=adaptive", "jbd2+order=adaptive"),
            ("order=adaptive+order=flush-end", "jbd2"),
            ("home=remap", "jftl"),
            ("jftl+home=remap-move", "jftl-paper"),
            ("jftl-paper+home=copy", "jbd2"),
            ("flush-ahead+home=remap", "flush-ahead+home=remap"),
            ("record=fast", "fast-commit"),
            ("fast-commit+record=full", "jbd2"),
            ("fast-commit+adaptive", "fast-commit+adaptive"),
            ("fast-commit+order=adaptive", "fast-commit+adaptive"),
            ("order=adaptive+record=fast", "fast-commit+adaptive"),
            ("scheme=fast-commit+adaptive+order=flush-end", "fast-commit"),
            ("bug=xattr+record=fast", "fast-commit+bug=xattr"),
            (
                "fast-commit+bug=full-area+adaptive+bug-in=writer",
                "fast-commit+adaptive+bug=full-area+bug-in=writer",
            ),
            (
                "fast-commit+bug-in=both+bug=no-clear",
                "fast-commit+bug=no-clear",
            ),
            (
                "emmc+record=fast+home=copy",
                "fast-commit+order=flush-ahead",
            ),
        ] {
            let scheme = parsed(text).expect(text);
            assert_eq!(scheme_text(&scheme), short, "{text}");
            assert_eq!(parsed(short), Ok(scheme), "{text}");
        }
    }

    #[test]
    fn every_combination_has_a_text_that_reads_back() {
        let mut texts = std::collections::BTreeSet::new();
        for record in [
            "full",
            "fast",
            "coalition+commit-block=on",
            "coalition+commit-block=if-more",
            "coalition+commit-block=off",
        ] {
            for order in ORDERS {
                for (home, value) in HOMES {
                    for full_first in FULL_FIRSTS {
                        let text = format!(
                            "record={record}+order={}+home={home}+full-first={}",
                            order.0, full_first.0
                        );
                        let Ok(scheme) = parsed(&text) else {
                            let remapped = matches!(value, Home::Remap { .. });
                            match record {
                                "full" => assert!(full_first.0 != "auto", "{text}"),
                                "fast" => assert!(full_first.0 != "auto" || remapped, "{text}"),
                                _ => assert!(remapped, "{text}"),
                            }
                            continue;
                        };
                        let short = scheme_text(&scheme);
                        assert_eq!(parsed(&short), Ok(scheme), "{text}: {short}");
                        texts.insert(short);
                    }
                }
            }
        }
        assert_eq!(texts.len(), 3 * 4 + 3 * 2 + 3 * 3 * 2 * 3);
    }

    #[test]
    fn what_is_unknown_or_contradicts_itself_is_refused_with_the_reason() {
        for (text, wrong, right) in [
            ("jbd3", "`jbd3`", "coalition-paper"),
            ("", "``", "jbd2"),
            ("jbd2+recrod=full", "`recrod`", "record=full|fast|coalition"),
            ("record=delta", "`delta`", "full, fast, coalition"),
            ("fast-commit+home=remap", "record=fast", "home=copy"),
            (
                "fast-commit+commit-block=on",
                "commit-block",
                "record=coalition",
            ),
            ("order=first", "`first`", "flush-ahead"),
            ("home=away", "`away`", "copy-reliable"),
            ("emmc+full-first=maybe", "`maybe`", "auto, on, off"),
            ("emmc+home=remap-move", "record=coalition", "whole block"),
            ("jftl+record=coalition", "record=coalition", "whole block"),
            ("coalition+home=remap", "record=coalition", "whole block"),
            ("jbd2+commit-block=off", "commit-block", "record=coalition"),
            ("jbd2+full-first=off", "full-first", "record=full"),
            ("none+order=adaptive", "scheme=none", "order="),
            ("none+bug=xattr", "scheme=none", "bug="),
            ("emmc+bug=xattr", "bug=", "record=fast"),
            (
                "fast-commit+bug=attributes",
                "`attributes`",
                "full-area, xattr",
            ),
            ("fast-commit+bug-in=writer", "bug-in=", "leave it out"),
            (
                "fast-commit+bug=no-clear+bug-in=recovery",
                "no-clear",
                "writes",
            ),
            (
                "fast-commit+bug=unseen-commit+bug-in=writer",
                "unseen-commit",
                "recovery",
            ),
            (
                "fast-commit+bug=full-directory+bug-in=writer",
                "full-directory",
                "recovery",
            ),
            (
                "fast-commit+bug=directory-blocks+bug-in=writer",
                "directory-blocks",
                "recovery",
            ),
        ] {
            let e = parsed(text).expect_err(text).to_string();
            assert!(e.contains(wrong) && e.contains(right), "{text}: {e}");
        }
    }
}
