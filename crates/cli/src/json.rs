//! Reads JSON that a user has named, and says in words where it is not what it should be.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// What a Rust type is called in the words of JSON, by the beginning of its name in an error.
const KINDS: [(&str, &str); 10] = [
    ("struct ", "an object"),
    ("a map", "an object"),
    ("a sequence", "a list"),
    ("a string", "text"),
    ("a boolean", "true or false"),
    ("f64", "a number"),
    ("u", "a whole number"),
    ("i", "a whole number"),
    ("option", "a value or null"),
    ("unit", "null"),
];

/// The value of a text.
///
/// # Errors
/// In words: where the text is no JSON, or what is missing or of another kind, and at which place.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader);
    let value = value.map_err(|e| words(&e.path().to_string(), e.inner()))?;
    reader.end().map_err(|e| words(".", &e))?;
    Ok(value)
}

fn words(path: &str, e: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", e.line(), e.column());
    match e.classify() {
        Category::Io | Category::Syntax => format!("it is no JSON ({at})"),
        Category::Eof if e.line() <= 1 && e.column() == 0 => "it is empty".into(),
        Category::Eof => format!("it ends in the middle ({at}): it may have been cut short"),
        Category::Data => {
            let said = e.to_string();
            let said = said
                .rsplit_once(" at line ")
                .map_or(&*said, |(said, _)| said);
            match path {
                "." => format!("{} ({at})", of_data(said)),
                path => format!("{path}: {} ({at})", of_data(said)),
            }
        }
    }
}

fn of_data(said: &str) -> String {
    if let Some(field) = said.strip_prefix("missing field ") {
        return format!("the field {field} is missing");
    }
    let wrong = (said.strip_prefix("invalid type: ")).or(said.strip_prefix("invalid value: "));
    match wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        Some((found, expected)) => {
            let kind = KINDS.iter().find(|(rust, _)| expected.starts_with(rust));
            let expected = kind.map_or(expected, |(_, words)| words);
            format!("{found} stands where {expected} belongs")
        }
        None => said.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    #[allow(dead_code)]
    struct Inner {
        rate: f64,
        count: u32,
    }
    #[derive(Deserialize, Debug)]
    #[allow(dead_code)]
    struct Outer {
        name: String,
        runs: Vec<Inner>,
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, words) in [
            ("", "it is empty"),
            ("x", "it is no JSON (line 1, column 1)"),
            ("{\"name\": \"a\", \"runs\": [", "it ends in the middle"),
            ("{\"name\": \"a\"}", "the field `runs` is missing"),
            (
                "{\"name\": \"a\", \"runs\": [{\"count\": 1}]}",
                "runs[0]: the field `rate` is missing",
            ),
            (
                "{\"name\": \"a\", \"runs\": [{\"rate\": \"many\", \"count\": 1}]}",
                "runs[0].rate: string \"many\" stands where a number belongs (line 1, column 38)",
            ),
            (
                "{\"name\": \"a\", \"runs\": [{\"rate\": 1, \"count\": -1}]}",
                "runs[0].count: integer `-1` stands where a whole number belongs",
            ),
            (
                "{\"name\": \"a\", \"runs\": [7]}",
                "runs[0]: integer `7` stands where an object belongs",
            ),
            ("{\"name\": \"a\", \"runs\": []} x", "it is no JSON"),
        ] {
            let said = read::<Outer>(text).expect_err(text);
            assert!(said.starts_with(words), "{text}: {said}");
        }
        assert!(read::<Outer>("{\"name\": \"a\", \"runs\": []}").is_ok());
    }
}
