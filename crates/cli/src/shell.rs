//! Words of a command line that is printed to be given to a shell again.

use std::borrow::Cow;

/// Signs beside letters and digits that no shell takes for its own within a word.
const PLAIN: &str = "+-./:@_,=%";

/// A word as a shell reads it back. Most stay as they are, because quotes make a line hard to read:
/// lists with commas and settings with `=` among them, which `shlex` alone would quote.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Cow::Borrowed(text),
        // Only a NUL cannot be quoted, and no argument or file name has one.
        false => shlex::try_quote(text).unwrap_or(Cow::Borrowed(text)),
    }
}

/// The name of a file as a shell reads it back, and as no option is read.
pub fn file(name: &str) -> Cow<'_, str> {
    match name.starts_with('-') {
        true => Cow::Owned(word(&format!("./{name}")).into_owned()),
        false => word(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_each_word_back() {
        for (text, printed) in [
            ("jbd2,emmc+spare=2", "jbd2,emmc+spare=2"),
            ("a b", "'a b'"),
            ("it's", "\"it's\""),
            ("x;rm", "'x;rm'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), printed);
        }
        for name in ["a b", "it's \"so\" $HOME", "`x`", "\u{e9} *", "-x", "a\\b"] {
            let line = format!("varve replay {}", file(name));
            let words = shlex::split(&line).expect("a shell reads it");
            assert_eq!(words.len(), 3, "{line}");
            assert_eq!(words[2].trim_start_matches("./"), name, "{line}");
        }
        assert_eq!(file("-x"), "./-x");
    }
}
