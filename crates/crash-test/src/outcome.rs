//! What functions of a test answer.

use std::fmt::Display;

/// What a function of a crash test may return: nothing, whether it is good, or a `Result` whose
/// error is the reason.
pub trait Outcome {
    /// The reason, if there is one.
    ///
    /// # Errors
    /// The reason.
    fn outcome(self) -> Result<(), String>;
}

impl Outcome for () {
    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl Outcome for bool {
    fn outcome(self) -> Result<(), String> {
        match self {
            true => Ok(()),
            false => Err("the function answers false".into()),
        }
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn outcome(self) -> Result<(), String> {
        self.map_err(|e| e.to_string())
    }
}
