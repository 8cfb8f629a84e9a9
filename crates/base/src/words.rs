//! Enums each of whose values has a word: in options, in results, in reports.
//!
//! A list of all values, the word of each and the parser of a word have to agree, and nobody
//! notices a value that one of them forgets. So [`words!`](crate::words) makes all of them from one
//! list.

use std::fmt;

/// A word that names no value of an enum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownWord {
    /// What was looked for, e.g. `scheme`.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// The words that there are.
    pub valid: Vec<&'static str>,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, given, valid) = (self.what, &self.given, self.valid.join(", "));
        write!(f, "unknown {what} `{given}`; valid: {valid}")
    }
}

impl std::error::Error for UnknownWord {}

/// Makes an enum without fields whose values each have a word.
///
/// The enum gets `ALL`, an array of its values in the order in which they are written, `word()`,
/// and `Display`, which prints the word. With `: "what it is"` behind its name it gets `FromStr`,
/// too, whose error is [`UnknownWord`]. A value may have a number as in any enum:
/// `Ahead = 3 => "flush-ahead"`.
#[macro_export]
macro_rules! words {
    (
        $(#[$attr:meta])*
        $vis:vis enum $name:ident $(: $what:literal)? {
            $($(#[$value_attr:meta])* $value:ident $(= $number:literal)? => $word:literal),+ $(,)?
        }
    ) => {
        $(#[$attr])*
        $vis enum $name { $($(#[$value_attr])* $value $(= $number)?),+ }

        impl $name {
            /// All of them, in the order of reports.
            $vis const ALL: [$name; [$($word),+].len()] = [$($name::$value),+];
            /// The word for it in options and results.
            $vis const fn word(self) -> &'static str {
                match self { $($name::$value => $word),+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.word())
            }
        }

        $(impl ::std::str::FromStr for $name {
            type Err = $crate::UnknownWord;
            fn from_str(given: &str) -> ::std::result::Result<$name, $crate::UnknownWord> {
                let found = $name::ALL.into_iter().find(|value| value.word() == given);
                found.ok_or_else(|| $crate::UnknownWord {
                    what: $what,
                    given: given.into(),
                    valid: $name::ALL.map($name::word).to_vec(),
                })
            }
        })?
    };
}

#[cfg(test)]
mod tests {
    words! {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Quiet {
            One = 1 => "one",
            Four = 4 => "four",
        }
    }

    words! {
        /// When the record of a commit is flushed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Order: "order" {
            /// Data first.
            Ahead => "flush-ahead",
            /// All at the end.
            End => "flush-end",
        }
    }

    #[test]
    fn a_word_is_parsed_and_an_unknown_one_names_the_known() {
        assert_eq!(Order::ALL.map(Order::word), ["flush-ahead", "flush-end"]);
        assert_eq!("flush-end".parse(), Ok(Order::End));
        let error = "last".parse::<Order>().unwrap_err().to_string();
        assert_eq!(error, "unknown order `last`; valid: flush-ahead, flush-end");
    }

    #[test]
    fn an_enum_without_a_parser_has_its_numbers_and_its_padding() {
        assert_eq!(Quiet::ALL.map(|value| value as u8), [1, 4]);
        assert_eq!(format!("{:>5}|", Quiet::Four), " four|");
    }
}
