//! A journaling scheme in a configuration: as text on the command line, in results and between processes.

use crate::RigError;
use blockdev::Caps;
use journal::{Choices, Preset};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A journaling scheme; inside, `None` is no journal. Its text is a preset, or a preset with what differs from it:
/// `emmc+full-first=on`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Scheme(pub Option<journal::Scheme>);

impl Scheme {
    /// Refuses what would be unsafe on such a device.
    ///
    /// # Errors
    /// [`RigError::Unsafe`] with the reason.
    pub fn check(&self, device: &str, caps: &Caps) -> Result<(), RigError> {
        let checked = self.0.map_or(Ok(()), |scheme| scheme.check(caps));
        checked.map_err(|why| RigError::Unsafe {
            scheme: self.to_string(),
            device: device.into(),
            why,
        })
    }
}

impl From<Preset> for Scheme {
    fn from(preset: Preset) -> Scheme {
        Scheme(preset.scheme())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&journal::scheme_text(&self.0))
    }
}

impl FromStr for Scheme {
    type Err = RigError;
    fn from_str(text: &str) -> Result<Scheme, RigError> {
        let scheme = text.parse::<Choices>().and_then(|choices| choices.scheme());
        scheme.map(Scheme).map_err(RigError::Scheme)
    }
}

impl From<Scheme> for String {
    fn from(scheme: Scheme) -> String {
        scheme.to_string()
    }
}

impl TryFrom<String> for Scheme {
    type Error = RigError;
    fn try_from(text: String) -> Result<Scheme, RigError> {
        text.parse()
    }
}
