//! The parts of a file that are written for people: comments, strings, and the text of a page.

use std::fmt;

/// One line of a comment, of a string or of a page.
pub struct Line {
    /// Its number in the file.
    pub number: usize,
    text: String,
    /// It belongs to the head of a Rust file, or to the page of hazards.
    may_define: bool,
}

/// A label as it is cited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cited<'a> {
    /// The home before it; empty if it stands bare.
    pub home: &'a str,
    /// A letter and a number.
    pub label: String,
}

impl fmt::Display for Cited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hyphen = if self.home.is_empty() { "" } else { "-" };
        write!(f, "{}{hyphen}{}", self.home, self.label)
    }
}

impl Line {
    /// The label that this line defines.
    pub fn defines(&self, path: &str) -> Option<&str> {
        let text = self.text.trim_start();
        if !self.may_define {
            return None;
        }
        let item = match is_hazards(path) {
            true => text.strip_prefix("| ")?,
            false => text.strip_prefix("- ")?,
        };
        let item = item.trim_start_matches("**");
        let end = item.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (label, rest) = item.split_at(end);
        let ends = rest.starts_with([' ', ':', ',', '*']);
        (is_label(label) && ends).then_some(label)
    }

    /// The labels on this line, in order; `a-F1 to a-F3` names three. Text between backticks holds
    /// none.
    pub fn cited(&self) -> Vec<Cited<'_>> {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let mut all = Vec::new();
        for text in self.text.split('`').step_by(2) {
            let words = text.split(|c| !is_inside(c));
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            for (n, word) in words.iter().enumerate() {
                let Some(last) = cited(word) else {
                    continue;
                };
                if let [.., first, "to"] = words[..n]
                    && let Some(first) = cited(first)
                {
                    all.extend(between(&first, &last));
                }
                all.push(last);
            }
        }
        all
    }
}

/// A word that is a label, alone or behind its home.
fn cited(word: &str) -> Option<Cited<'_>> {
    let (home, label) = word.rsplit_once('-').unwrap_or(("", word));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let is_home = home.starts_with(|c: char| c.is_ascii_lowercase()) && home.chars().all(plain);
    let is_cited = is_label(label) && (is_home || label.len() == word.len());
    let label = label.to_string();
    is_cited.then_some(Cited { home, label })
}

/// The labels between `first` and `last`, if both have one home and one letter.
fn between<'a>(first: &Cited<'a>, last: &Cited<'a>) -> Vec<Cited<'a>> {
    let split = |cited: &Cited<'_>| {
        let (letter, number) = cited.label.split_at(1);
        (letter.to_string(), number.parse::<u32>().unwrap_or(0))
    };
    let ((letter, from), (other, to)) = (split(first), split(last));
    let numbers = match letter == other && first.home == last.home {
        true => from + 1..to,
        false => 0..0,
    };
    let label = |number| format!("{letter}{number}");
    numbers
        .map(|number| Cited {
            home: first.home,
            label: label(number),
        })
        .collect()
}

fn is_label(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    let digits = digits.filter(|d| matches!(d.len(), 1 | 2));
    digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()))
}

/// The page whose rows define hazards, wherever it lies.
pub fn is_hazards(path: &str) -> bool {
    path.rsplit('/').next() == Some("hazards.md")
}

/// The lines of a file that are prose; none if it is neither a Rust file nor a page.
pub fn lines(path: &str, text: &str) -> Vec<Line> {
    if path.ends_with(".rs") {
        return rust(text);
    }
    if path.ends_with(".md") {
        return page(text, is_hazards(path));
    }
    Vec::new()
}

fn page(text: &str, may_define: bool) -> Vec<Line> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            lines.push(Line {
                number: i + 1,
                text: line.to_string(),
                may_define,
            });
        }
    }
    lines
}

/// Comments and strings, line by line.
fn rust(text: &str) -> Vec<Line> {
    let mut reader = Reader {
        rest: text,
        number: 1,
        lines: Vec::new(),
    };
    while let Some(c) = reader.rest.chars().next() {
        let rest = reader.rest;
        if rest.starts_with("//") {
            reader.comment();
        } else if let Some((open, hashes)) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            reader.skip(open);
            reader.string(|text| text.find(&end).unwrap_or(text.len()));
            reader.skip(end.len());
        } else if c == '"' {
            reader.skip(1);
            reader.string(plain_end);
            reader.skip(1);
        } else if let Some(len) = character(rest) {
            reader.skip(len);
        } else if c.is_ascii_alphanumeric() || c == '_' {
            let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            reader.skip(word.unwrap_or(rest.len()));
        } else {
            reader.skip(c.len_utf8());
        }
    }
    reader.lines
}

struct Reader<'a> {
    rest: &'a str,
    number: usize,
    lines: Vec<Line>,
}

impl Reader<'_> {
    fn skip(&mut self, bytes: usize) {
        let bytes = bytes.min(self.rest.len());
        self.number += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    fn comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        let head = line.strip_prefix("//!");
        self.lines.push(Line {
            number: self.number,
            text: head.unwrap_or(line).to_string(),
            may_define: head.is_some(),
        });
        self.skip(end);
    }

    /// Takes the content of a string, whose end `end` finds.
    fn string(&mut self, end: impl Fn(&str) -> usize) {
        let end = end(self.rest);
        for (i, line) in self.rest[..end].lines().enumerate() {
            self.lines.push(Line {
                number: self.number + i,
                text: line.replace("\\n", " ").replace("\\t", " "),
                may_define: false,
            });
        }
        self.skip(end);
    }
}

/// For a raw string that begins here, the bytes up to its content and the number of hashes.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let inside = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let inside = inside.strip_prefix('r')?;
    let quoted = inside.trim_start_matches('#');
    let open = text.len() - quoted.len() + 1;
    let hashes = inside.len() - quoted.len();
    quoted.starts_with('"').then_some((open, hashes))
}

/// The end of a string with escapes.
fn plain_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == '"' && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length of a character literal that begins here; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        let close = inside[2..].find('\'')?;
        return Some(close + 4);
    }
    let first = inside.chars().next()?;
    inside[first.len_utf8()..]
        .starts_with('\'')
        .then_some(first.len_utf8() + 2)
}
