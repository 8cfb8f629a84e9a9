//! The journaling scheme in a configuration, and its form as text: on the command line, in results
//! and between processes.

use crate::{Fs, RigError};
use blockdev::Caps;
use journal::{Choices, Preset};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a file system is kept consistent. The text form is a preset, followed by the choices that
/// differ from it: `emmc+full-first=on`, `checkpoint-60+fsync_mode=strict`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheme {
    /// A scheme of ext4 and ext3; `None` means no journal.
    Journal(Option<journal::Scheme>),
    /// A scheme of F2FS.
    F2fs(f2fs::Scheme),
}

impl Scheme {
    /// The journal's scheme, if there is a journal.
    pub const fn journal(self) -> Option<journal::Scheme> {
        match self {
            Scheme::Journal(scheme) => scheme,
            Scheme::F2fs(_) => None,
        }
    }

    /// True if metadata comes back whole after a cut: by a journal, or by checkpoints.
    pub const fn is_consistent(self) -> bool {
        !matches!(self, Scheme::Journal(None))
    }

    /// Whether file systems of this kind know the scheme.
    pub const fn fits(self, fs: Fs) -> bool {
        matches!(self, Scheme::F2fs(_)) == matches!(fs, Fs::F2fs)
    }

    /// The default scheme of file systems of this kind.
    pub fn default_of(fs: Fs) -> Scheme {
        match fs {
            Fs::Ext4 | Fs::Ext3 => Preset::default().into(),
            Fs::F2fs => Scheme::F2fs(f2fs::Scheme::default()),
        }
    }

    /// Refuses a scheme that would be unsafe on a device with these promises.
    ///
    /// # Errors
    /// [`RigError::Unsafe`] with the reason.
    pub fn check(&self, device: &str, caps: &Caps) -> Result<(), RigError> {
        let checked = self.journal().map_or(Ok(()), |scheme| scheme.check(caps));
        checked.map_err(|why| RigError::Unsafe {
            scheme: self.to_string(),
            device: device.into(),
            why,
        })
    }
}

impl From<Preset> for Scheme {
    fn from(preset: Preset) -> Scheme {
        Scheme::Journal(preset.scheme())
    }
}

impl From<f2fs::Preset> for Scheme {
    fn from(preset: f2fs::Preset) -> Scheme {
        Scheme::F2fs(f2fs::Scheme::of(preset))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Journal(scheme) => f.write_str(&journal::scheme_text(scheme)),
            Scheme::F2fs(scheme) => scheme.fmt(f),
        }
    }
}

impl FromStr for Scheme {
    type Err = RigError;
    fn from_str(text: &str) -> Result<Scheme, RigError> {
        // No word is in both families.
        let keys = [
            "fsync_mode=",
            "ring=",
            "guard=",
            "rounds=",
            "redone=",
            "records=",
            "lists=",
            "switch=",
            "fast-forward=",
        ];
        let of_f2fs = |item: &str| {
            item.parse::<f2fs::Preset>().is_ok() || keys.iter().any(|key| item.starts_with(key))
        };
        if text.split('+').any(|item| of_f2fs(item.trim())) {
            let scheme = text.parse::<f2fs::Scheme>();
            return Ok(Scheme::F2fs(scheme.map_err(RigError::Fs)?));
        }
        let scheme = text.parse::<Choices>().and_then(|choices| choices.scheme());
        scheme.map(Scheme::Journal).map_err(RigError::Scheme)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_belongs_to_one_kind_of_file_system() {
        for (text, fs) in [
            ("emmc+full-first=on", Fs::Ext4),
            ("none", Fs::Ext3),
            ("checkpoint-1", Fs::F2fs),
            ("checkpoint-60+fsync_mode=strict", Fs::F2fs),
            ("f2fsj+ring=16", Fs::F2fs),
        ] {
            let scheme: Scheme = text.parse().expect(text);
            assert!(scheme.fits(fs), "{text}");
            assert_eq!(scheme.to_string(), text);
        }
        let strict: Scheme = "fsync_mode=strict".parse().expect("of the default preset");
        assert_eq!(strict.to_string(), "checkpoint-60+fsync_mode=strict");
        let e = "emmc+fsync_mode=strict"
            .parse::<Scheme>()
            .expect_err("of both")
            .to_string();
        assert!(e.contains("emmc"), "{e}");
    }
}
