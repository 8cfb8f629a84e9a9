//! Divides a `.f` file into tokens, each with its line for messages.

use super::error::{Fault, fault};

/// Most bytes of a file: personalities have a few thousand.
pub const TEXT_MAX: usize = 1 << 20;
/// Most bytes of a word or a string.
const WORD_MAX: usize = 4096;

/// The kind of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A command, a name, a number or a path.
    Word(String),
    /// Text in double quotes.
    Text(String),
    /// `$name`, without the `$`.
    Variable(String),
    /// One of `=,{};()+*`.
    Mark(char),
}

impl Kind {
    /// The token as it stands in the file.
    pub fn text(&self) -> String {
        match self {
            Kind::Word(word) => word.clone(),
            Kind::Text(text) => format!("\"{text}\""),
            Kind::Variable(name) => format!("${name}"),
            Kind::Mark(mark) => mark.to_string(),
        }
    }
}

/// A token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// Number of its line, from 1.
    pub line: u32,
    /// Its kind and text.
    pub kind: Kind,
    /// No space separates it from the token before.
    pub glued: bool,
}

const MARKS: &[u8] = b"=,{};()+*";

fn in_word(c: u8) -> bool {
    !c.is_ascii_whitespace() && !MARKS.contains(&c) && !matches!(c, b'"' | b'$' | b'#')
}

fn in_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// True if a text begins as a model does: with a variable, a definition or a mode, after nothing
/// but comments.
pub fn is_model(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = first.unwrap_or_default().split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some("set"), Some(what)) => what == "mode" || what.starts_with('$'),
        (Some("define"), Some(what)) => {
            ["fileset", "file", "process", "flowop", "randvar"].contains(&what)
        }
        _ => false,
    }
}

/// Divides a file into tokens.
///
/// # Errors
/// The text is too long or has control characters, a word is too long, a string has no end, or a
/// `$` has no name.
pub fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    if text.len() > TEXT_MAX {
        let what = format!("the file has {} bytes; at most {TEXT_MAX}", text.len());
        return Err(fault(1, what));
    }
    let mut reader = Reader {
        bytes: text.as_bytes(),
        text,
        at: 0,
        line: 1,
        end: usize::MAX,
    };
    let mut all = Vec::new();
    while let Some(token) = reader.next()? {
        all.push(token);
    }
    Ok(all)
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    line: u32,
    /// Offset of the end of the last token.
    end: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Token>, Fault> {
        self.skip();
        let Some(&first) = self.bytes.get(self.at) else {
            return Ok(None);
        };
        let (line, glued) = (self.line, self.end == self.at);
        if first.is_ascii_control() {
            let what = format!("byte {first:#04x} has no place in a text");
            return Err(fault(line, what));
        }
        let kind = match first {
            b'"' => Kind::Text(self.string()?),
            b'$' => self.variable()?,
            c if MARKS.contains(&c) => {
                self.at += 1;
                Kind::Mark(c.into())
            }
            _ => Kind::Word(self.run(in_word)?),
        };
        self.end = self.at;
        Ok(Some(Token { line, kind, glued }))
    }

    /// Skips spaces and comments.
    fn skip(&mut self) {
        while let Some(&c) = self.bytes.get(self.at) {
            match c {
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|c| *c == b'\n').unwrap_or(rest.len());
                }
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                c if c.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn run(&mut self, of: impl Fn(u8) -> bool) -> Result<String, Fault> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|c| !of(*c)).unwrap_or(rest.len());
        if length > WORD_MAX {
            let what = format!("a word of {length} bytes; at most {WORD_MAX}");
            return Err(fault(self.line, what));
        }
        // Both borders are at ASCII characters, so they do not split one.
        let word = &self.text[self.at..self.at + length];
        self.at += length;
        Ok(word.into())
    }

    fn string(&mut self) -> Result<String, Fault> {
        let start = self.line;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                None => return Err(fault(start, "a string without a closing `\"`")),
                Some(b'"') => break,
                Some(b'\\') if self.at + 1 < self.bytes.len() => self.at += 1,
                Some(b'\n') => self.line += 1,
                Some(_) => {}
            }
            text.push(self.bytes[self.at]);
            self.at += 1;
            if text.len() > WORD_MAX {
                let what = format!("a string of more than {WORD_MAX} bytes");
                return Err(fault(start, what));
            }
        }
        self.at += 1;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Takes `$name`, `${name}` or `$(name)`.
    fn variable(&mut self) -> Result<Kind, Fault> {
        self.at += 1;
        let close = match self.bytes.get(self.at) {
            Some(b'{') => Some(b'}'),
            Some(b'(') => Some(b')'),
            _ => None,
        };
        self.at += usize::from(close.is_some());
        let name = self.run(in_name)?;
        if name.is_empty() {
            let what = "`$` without the name of a variable behind it";
            return Err(fault(self.line, what));
        }
        if let Some(close) = close {
            if self.bytes.get(self.at) != Some(&close) {
                let what = format!("`${name}`: `{}` is missing behind it", char::from(close));
                return Err(fault(self.line, what));
            }
            self.at += 1;
        }
        Ok(Kind::Variable(name))
    }
}
