//! Rules on plain text.
//!
//! - T1: Rust files are ASCII, so that a diff shows what there is.
//! - T2: there are no notes to self; what is to be done stands in an issue, what is planned in the
//!   docs.
//! - T3: one word stands for one thing, the one of `GLOSSARY.md`.

use super::Finding;
use super::config::Config;

/// The words are spelt in two halves, so that this file does not find itself.
const NOTES: [&str; 4] = [
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// The file with the list of banned words, which is not searched for them.
const WORD_LIST: &str = "tidy.toml";

/// Checks one file of any kind.
pub fn check(path: &str, text: &str, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !is_ours(path) {
        return findings;
    }
    for (i, line) in text.lines().enumerate() {
        let at = |what: String| Finding::new(path, i + 1, what);
        if path.ends_with(".rs")
            && let Some(c) = line.chars().find(|c| !c.is_ascii())
        {
            findings.push(at(format!(
                "T1: {c:?} is not ASCII; write \\u{{{:x}}}",
                c as u32
            )));
        }
        for word in words(line) {
            if NOTES.contains(&word) {
                findings.push(at(format!("T2: {word} is a note to self")));
            }
            let banned = config
                .word
                .iter()
                .find(|w| w.not.eq_ignore_ascii_case(word));
            if let Some(banned) = banned.filter(|_| path != WORD_LIST) {
                findings.push(at(format!("T3: say {} instead of {word}", banned.say)));
            }
        }
    }
    findings
}

/// True for source and prose; the wording of data files and licence texts is not ours.
fn is_ours(path: &str) -> bool {
    [".rs", ".md", ".toml"]
        .iter()
        .any(|end| path.ends_with(end))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::config::SMALL;
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let config = Config::parse(SMALL).unwrap();
        check(path, text, &config)
            .into_iter()
            .map(|f| f.what)
            .collect()
    }

    #[test]
    fn letters_outside_ascii_are_found_in_rust_only() {
        assert_eq!(
            findings("a.rs", "// \u{e4}"),
            ["T1: '\u{e4}' is not ASCII; write \\u{e4}"]
        );
        assert!(findings("a.md", "\u{e4}").is_empty());
    }

    #[test]
    fn notes_and_synonyms_are_found_as_whole_words() {
        assert_eq!(
            findings("a.rs", &format!("// {}: later", NOTES[0]))[0][..2],
            *"T2"
        );
        assert_eq!(
            findings("a.md", "The Oldword."),
            ["T3: say newword instead of Oldword"]
        );
        assert!(findings("a.md", "oldwords").is_empty());
        assert!(findings("tidy.toml", "oldword").is_empty());
        assert!(findings("trace.csv", "oldword").is_empty());
    }
}
