//! What may be left: the models that options name.

use ::program::call::Recording;
use ::program::device::{self, Device};
use ::program::posix::Posix;
use ::program::replay::{self, BlockModel};
use ::program::state::{Model, State};

/// All kinds.
const DEFAULT: &str = "posix,ext4,f2fs";
/// All kinds where calls of the run have failed.
const WITH_FAILURES: &str = "device,posix,ext4,f2fs";
/// Words of those that are no file system of ours.
const KNOWN: &str = "posix (with +BELIEF: posix+ordered-data), device (no cut: what failed calls leave, see --fail)";

/// Whether the words name models.
pub fn check(words: &[String]) -> Result<(), String> {
    models(words, false).map(drop)
}

/// The models of these words; without any all that fit a recording, in which calls have failed or
/// not.
pub fn models(words: &[String], has_failures: bool) -> Result<Vec<Box<dyn Model>>, String> {
    let words = match (words.is_empty(), has_failures) {
        (true, false) => DEFAULT.into(),
        (true, true) => WITH_FAILURES.into(),
        (false, _) => words.join(","),
    };
    let others = |word: &str| -> Option<Result<Box<dyn Model>, String>> {
        if word == device::NAME {
            return Some(Ok(Box::new(Device::default())));
        }
        let model = word.starts_with("posix").then(|| word.parse::<Posix>())?;
        Some(model.map(|model| Box::new(model) as Box<dyn Model>))
    };
    replay::models(&words, KNOWN, &others)
}

/// The rules by which findings are explained: those of the first model `posix`, or the book.
pub fn rules(models: &[Box<dyn Model>]) -> Posix {
    let posix = models.iter().find_map(|model| model.name().parse().ok());
    posix.unwrap_or_default()
}

/// Makes the state `MODEL LINE` again.
pub fn again(recording: &Recording, text: &str) -> Result<State, String> {
    let (word, line) = text
        .split_once(' ')
        .ok_or_else(|| format!("`{text}` is no state: it is MODEL LINE, as a finding prints it"))?;
    let state = match BlockModel::parse(word)? {
        Some(model) => model.again(recording, line),
        None if word == device::NAME => Device::default().again(recording, line),
        None => word.parse::<Posix>()?.again(recording, line),
    };
    state.map_err(|e| e.to_string())
}
