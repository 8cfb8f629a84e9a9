//! Reads a `.f` file into a [`Model`].
//!
//! A command or attribute that is unknown is refused with its line; one that is known and means
//! nothing on a simulated volume is counted in [`Model::ignored`]. Sizes, threads, nesting and
//! lengths have limits, so that no file makes the reader or the run grow without bounds.

use super::amount::Value;
use super::attributes::ignore;
use super::define;
use super::error::{Fault, fault};
use super::lex::{Kind, Token, tokens};
use super::model::{Model, Quit, Step};
use super::random;
use super::resolve;
use std::collections::BTreeMap;

/// Longest run, seconds of virtual time.
pub const SECONDS_MAX: u64 = 86_400;
/// Seconds of a `run` that gives no number.
const SECONDS: u64 = 60;
const VARIABLES_MAX: usize = 1000;

/// Values of variables from outside, which replace what `set` gives.
pub type Settings = BTreeMap<String, String>;

/// Commands that mean nothing on a simulated volume; the rest of their line is skipped.
const IGNORED: [&str; 13] = [
    "echo",
    "usage",
    "version",
    "debug",
    "list",
    "stats",
    "sleep",
    "system",
    "enable",
    "vars",
    "log",
    "help",
    "multisync",
];

const COMMANDS: &str = "set, define, create, run, psrun, eventgen, quit, echo, usage, version, debug, list, stats, sleep, \
                        system, enable";

/// Reads a model.
///
/// # Errors
/// The first thing that is wrong with the text.
pub fn parse(text: &str, settings: &Settings) -> Result<Model, Fault> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        last: tokens.last().map_or(1, |token| token.line),
        tokens,
        at: 0,
        model: Model::default(),
        groups: BTreeMap::new(),
        flowops: 0,
        settings,
    };
    while parser.command()? {}
    if let Some(name) = settings
        .keys()
        .find(|name| !parser.model.variables.contains_key(*name))
    {
        let all: Vec<&str> = parser.model.variables.keys().map(String::as_str).collect();
        let what = format!(
            "there is no variable `{name}` to set; there is: {}",
            all.join(", ")
        );
        return Err(fault(parser.last, what));
    }
    resolve::resolve(&mut parser.model, parser.last)?;
    Ok(parser.model)
}

/// The reader, at some token of the file.
pub struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    /// Number of the last line.
    last: u32,
    /// What has been read so far.
    pub model: Model,
    /// Flowops composed by `define flowop`.
    pub groups: BTreeMap<String, Vec<Step>>,
    /// Number of flowops so far; those of [`groups`](Self::groups) count at each use.
    pub flowops: usize,
    settings: &'a Settings,
}

impl Parser<'_> {
    /// The next token, which is not taken.
    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Line of the next token, or the last line.
    pub fn line(&self) -> u32 {
        self.peek().map_or(self.last, |token| token.line)
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// The file ends here; `wanted` says what should follow.
    pub fn next(&mut self, wanted: &str) -> Result<Token, Fault> {
        let token = self.peek().cloned();
        self.at += 1;
        token.ok_or_else(|| {
            fault(
                self.last,
                format!("the file ends; there should be {wanted}"),
            )
        })
    }

    /// Takes a word.
    ///
    /// # Errors
    /// The next token is no word.
    pub fn word(&mut self, wanted: &str) -> Result<(String, u32), Fault> {
        let token = self.next(wanted)?;
        match token.kind {
            Kind::Word(word) => Ok((word, token.line)),
            other => {
                let what = format!("`{}` instead of {wanted}", other.text());
                Err(fault(token.line, what))
            }
        }
    }

    /// Takes a mark if it is there.
    pub fn accept(&mut self, mark: char) -> bool {
        let found = self.peek().is_some_and(|t| t.kind == Kind::Mark(mark));
        self.at += usize::from(found);
        found
    }

    /// Takes a mark.
    ///
    /// # Errors
    /// The next token is not this mark.
    pub fn mark(&mut self, mark: char) -> Result<(), Fault> {
        let wanted = format!("`{mark}`");
        let token = self.next(&wanted)?;
        match token.kind == Kind::Mark(mark) {
            true => Ok(()),
            false => {
                let what = format!("`{}` instead of {wanted}", token.kind.text());
                Err(fault(token.line, what))
            }
        }
    }

    /// True if the next token is this word.
    pub fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token { kind: Kind::Word(found), .. }) if found == word)
    }

    fn skip_line(&mut self, line: u32) {
        while self.peek().is_some_and(|token| token.line == line) {
            self.at += 1;
        }
    }

    /// Reads one command; false at the end of the file.
    fn command(&mut self) -> Result<bool, Fault> {
        if self.peek().is_none() {
            return Ok(false);
        }
        let (word, line) = self.word("a command")?;
        match word.as_str() {
            "set" => self.set(line)?,
            "define" => define::define(self)?,
            "create" => {
                let (what, line) = self.word("files, filesets or processes")?;
                if !["files", "file", "filesets", "fileset", "processes"].contains(&what.as_str()) {
                    let what = format!("`create {what}`; there is: files, filesets, processes");
                    return Err(fault(line, what));
                }
            }
            "run" => self.run(line)?,
            "psrun" => {
                // This is the period of Filebench's statistics, which are not printed here.
                self.seconds_here(line)?;
                self.run(line)?;
            }
            "eventgen" => self.eventgen()?,
            "quit" => return Ok(false),
            word if IGNORED.contains(&word) => {
                self.skip_line(line);
                ignore(&mut self.model, format!("command {word}"), line);
            }
            other => {
                let what = format!("`{other}` is no command; there is: {COMMANDS}");
                return Err(fault(line, what));
            }
        }
        Ok(true)
    }

    /// Takes a number of seconds, if it is in this line.
    fn seconds_here(&mut self, line: u32) -> Result<Option<u64>, Fault> {
        if self.line() != line || self.peek().is_none() {
            return Ok(None);
        }
        let value = self.value()?;
        let text = value.text();
        let seconds = value.int().or_else(|| text.strip_prefix('-')?.parse().ok());
        match seconds {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(fault(line, format!("`{text}` is no number of seconds"))),
        }
    }

    fn run(&mut self, line: u32) -> Result<(), Fault> {
        let seconds = self.seconds_here(line)?.unwrap_or(SECONDS);
        if self.model.seconds.is_some() {
            return Err(fault(line, "a second `run`: a file runs once here"));
        }
        if seconds > SECONDS_MAX {
            let what = format!("seconds of a run above {SECONDS_MAX}");
            ignore(&mut self.model, what, line);
        }
        self.model.seconds = Some(seconds.clamp(1, SECONDS_MAX));
        Ok(())
    }

    fn eventgen(&mut self) -> Result<(), Fault> {
        let (word, line) = self.word("rate")?;
        if word != "rate" {
            return Err(fault(line, format!("`eventgen {word}`; there is: rate")));
        }
        self.mark('=')?;
        let value = self.value()?;
        let rate = value.int().filter(|n| *n <= 1_000_000_000);
        self.model.rate = rate.ok_or_else(|| {
            let what = format!("`{}` events a second; at most 10^9", value.text());
            fault(line, what)
        })?;
        Ok(())
    }

    fn set(&mut self, line: u32) -> Result<(), Fault> {
        let token = self.next("a variable or mode")?;
        let name = match token.kind {
            Kind::Variable(name) => name,
            Kind::Word(word) if word == "mode" => return self.mode(),
            other => {
                let what = format!(
                    "`set {}`; there is: set $NAME=VALUE, set mode quit",
                    other.text()
                );
                return Err(fault(line, what));
            }
        };
        self.mark('=')?;
        let value = self.expression()?;
        self.define_variable(name, value, line)
    }

    /// Sets a variable, to the value from outside if there is one.
    ///
    /// # Errors
    /// There are too many variables.
    pub fn define_variable(&mut self, name: String, value: Value, line: u32) -> Result<(), Fault> {
        let value = match self.settings.get(&name) {
            Some(outside) => Value::of_word(outside),
            None => value,
        };
        self.model.variables.insert(name, value);
        if self.model.variables.len() > VARIABLES_MAX {
            return Err(fault(line, format!("more than {VARIABLES_MAX} variables")));
        }
        Ok(())
    }

    fn mode(&mut self) -> Result<(), Fault> {
        let (mode, line) = self.word("quit")?;
        match mode.as_str() {
            "quit" => {
                let (when, line) = self.word("when to quit")?;
                self.model.quit = match when.as_str() {
                    "timeout" => Quit::Timeout,
                    "alldone" => Quit::AllDone,
                    "firstdone" => Quit::FirstDone,
                    _ => {
                        let what = format!("`quit {when}`; there is: timeout, alldone, firstdone");
                        return Err(fault(line, what));
                    }
                };
            }
            "noreset" | "nousage" => ignore(&mut self.model, format!("mode {mode}"), line),
            _ => {
                return Err(fault(
                    line,
                    format!("`set mode {mode}`; there is: quit, noreset"),
                ));
            }
        }
        Ok(())
    }

    /// Reads a value, or values with `+ - * /` between them, computed from left to right.
    fn expression(&mut self) -> Result<Value, Fault> {
        let line = self.line();
        if self.at_word("cvar") || self.at_word("random") || self.at_word("randvar") {
            self.at += 1;
            return random::variable(self).map(Value::Random);
        }
        let mut left = self.value()?;
        while let Some(operator) = self.operator(line) {
            let right = self.value()?;
            let both = left.int().zip(right.int());
            let result = both.and_then(|(a, b)| match operator {
                '+' => a.checked_add(b),
                '-' => a.checked_sub(b),
                '*' => a.checked_mul(b),
                _ => a.checked_div(b),
            });
            let fits = result.ok_or_else(|| {
                let (a, b) = (left.text(), right.text());
                fault(
                    line,
                    format!("`{a} {operator} {b}` is no whole number from 0"),
                )
            });
            left = Value::Int(fits?);
        }
        Ok(left)
    }

    fn operator(&mut self, line: u32) -> Option<char> {
        let token = self.peek().filter(|token| token.line == line)?;
        let operator = match &token.kind {
            Kind::Mark(c @ ('+' | '*')) => *c,
            Kind::Word(word) if word == "-" => '-',
            Kind::Word(word) if word == "/" => '/',
            _ => return None,
        };
        self.at += 1;
        Some(operator)
    }

    /// Reads one value; parts without a space between them are one word.
    ///
    /// # Errors
    /// There is none, or a variable in it is not set.
    pub fn value(&mut self) -> Result<Value, Fault> {
        let first = self.next("a value")?;
        let mut value = self.part(first)?;
        while let Some(more) = self
            .peek()
            .filter(|t| t.glued && part_of_word(&t.kind))
            .cloned()
        {
            self.at += 1;
            let more = self.part(more)?;
            value = Value::Text(value.text() + &more.text());
        }
        Ok(value)
    }

    fn part(&self, token: Token) -> Result<Value, Fault> {
        match token.kind {
            Kind::Word(word) => Ok(Value::of_word(&word)),
            Kind::Text(text) => Ok(Value::Text(text)),
            Kind::Variable(name) => self.model.variables.get(&name).cloned().ok_or_else(|| {
                let all: Vec<&str> = self.model.variables.keys().map(String::as_str).collect();
                let what = format!("`${name}` is not set; there is: {}", all.join(", "));
                fault(token.line, what)
            }),
            Kind::Mark(mark) => Err(fault(token.line, format!("`{mark}` instead of a value"))),
        }
    }

    /// Reads `name=value,name,name=value`, or nothing. Attributes begin in the line of what they
    /// belong to; after a comma they may go on in the next line.
    ///
    /// # Errors
    /// A name or a value is missing.
    pub fn attributes(&mut self) -> Result<Vec<(String, Value, u32)>, Fault> {
        let mut all = Vec::new();
        let before = self.tokens.get(self.at.wrapping_sub(1)).map(|t| t.line);
        let first = self.peek();
        if first.is_none_or(|t| Some(t.line) != before || matches!(t.kind, Kind::Mark(_))) {
            return Ok(all);
        }
        loop {
            let (name, line) = match self.peek() {
                Some(Token {
                    kind: Kind::Variable(name),
                    line,
                    ..
                }) => {
                    let what =
                        format!("`${name}`: parameters of a flowop of the file are not supported");
                    return Err(fault(*line, what));
                }
                _ => self.word("an attribute")?,
            };
            let value = match self.accept('=') {
                true => self.named_value(&name)?,
                false => Value::Bool(true),
            };
            all.push((name, value, line));
            if !self.accept(',') {
                return Ok(all);
            }
        }
    }

    /// Reads the value of an attribute; `define randvar name=$x` names a variable that is not set
    /// yet.
    fn named_value(&mut self, name: &str) -> Result<Value, Fault> {
        if let Some(Token {
            kind: Kind::Variable(variable),
            ..
        }) = self.peek()
            && name == "name"
            && !self.model.variables.contains_key(variable)
        {
            let variable = variable.clone();
            self.at += 1;
            return Ok(Value::Text(variable));
        }
        self.value()
    }
}

fn part_of_word(kind: &Kind) -> bool {
    !matches!(kind, Kind::Mark(_))
}
