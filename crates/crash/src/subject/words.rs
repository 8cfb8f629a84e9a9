//! Words of the text of a script: quoting, comments, and where each word stands.

use super::error::TextError;
use std::fmt::{self, Write};

/// A place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub line: usize,
    pub column: usize,
}

impl At {
    pub(super) fn error(self, what: impl Into<String>) -> TextError {
        TextError::at(self.line, self.column, what)
    }
}

/// A word, or what divides words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Word(String),
    /// `;` or the end of a line.
    Next,
    /// `|`.
    Task,
    /// The end of the text.
    End,
}

/// Reads a text word by word.
pub(super) struct Words<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    at: At,
}

/// Characters that are written without quotes. The reader takes more: all but [`SPECIAL`] and
/// blanks.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._+:=@%^,~-".contains(c)
}

/// Characters that end a word without quotes or cannot be in one.
const SPECIAL: &str = ";|\"#\\";

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Words<'a> {
        Words {
            rest: text.chars().peekable(),
            at: At { line: 1, column: 1 },
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        match c {
            '\n' => {
                self.at.line += 1;
                self.at.column = 1;
            }
            _ => self.at.column += 1,
        }
        Some(c)
    }

    fn skip(&mut self) {
        while let Some(&c) = self.rest.peek() {
            match c {
                '\n' => return,
                '#' => {
                    while self.rest.peek().is_some_and(|c| *c != '\n') {
                        self.take();
                    }
                }
                c if c.is_whitespace() => {
                    self.take();
                }
                _ => return,
            }
        }
    }

    /// The next token and where it begins.
    pub(super) fn token(&mut self) -> Result<(Token, At), TextError> {
        self.skip();
        let at = self.at;
        let token = match self.rest.peek() {
            None => Token::End,
            Some(';' | '\n') => {
                self.take();
                Token::Next
            }
            Some('|') => {
                self.take();
                Token::Task
            }
            Some(_) => Token::Word(self.word()?),
        };
        Ok((token, at))
    }

    fn word(&mut self) -> Result<String, TextError> {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            match c {
                '"' => self.quoted(&mut word)?,
                '\\' => {
                    let what = "`\\` outside of quotes; put the word into `\"`";
                    return Err(self.at.error(what));
                }
                c if c.is_whitespace() || SPECIAL.contains(c) => break,
                c => {
                    word.push(c);
                    self.take();
                }
            }
        }
        Ok(word)
    }

    fn quoted(&mut self, word: &mut String) -> Result<(), TextError> {
        let begin = self.at;
        self.take();
        loop {
            let at = self.at;
            match self.take() {
                None | Some('\n') => {
                    return Err(begin.error("no closing `\"` on the same line"));
                }
                Some('"') => return Ok(()),
                Some('\\') => word.push(self.escape(at)?),
                Some(c) => word.push(c),
            }
        }
    }

    fn escape(&mut self, at: At) -> Result<char, TextError> {
        let valid = "valid after `\\`: `\"`, `\\`, n, t, r, u{HEX}";
        match self.take() {
            Some(c @ ('"' | '\\')) => Ok(c),
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('u') if self.rest.peek() == Some(&'{') => {
                self.take();
                let mut digits = String::new();
                while self.rest.peek().is_some_and(char::is_ascii_hexdigit) && digits.len() < 7 {
                    digits.extend(self.take());
                }
                let code = u32::from_str_radix(&digits, 16).ok();
                match (code.and_then(char::from_u32), self.take()) {
                    (Some(c), Some('}')) => Ok(c),
                    _ => Err(at.error(valid)),
                }
            }
            _ => Err(at.error(valid)),
        }
    }
}

/// Writes `word` in ASCII so that it reads back equal.
pub(super) fn write_word(f: &mut dyn Write, word: &str) -> fmt::Result {
    if !word.is_empty() && word.chars().all(is_plain) {
        return f.write_str(word);
    }
    f.write_char('"')?;
    for c in word.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            ' '..='~' => f.write_char(c)?,
            c => write!(f, "\\u{{{:x}}}", u32::from(c))?,
        }
    }
    f.write_char('"')
}
