//! What the probes of a thread (`access`, `stat`) tell about the paths of its next opens: the
//! recorder lost those paths, but a library asks for a name before it opens it. A later probe, of
//! any thread, tells whether a name is still there.

use super::lines::{Path, Raw, Said};
use crate::recording::paths::parent;
use std::collections::BTreeMap;

/// For each name the calls that looked for it and whether it was found, for looking ahead.
pub(super) struct Looks(BTreeMap<String, Vec<(usize, bool)>>);

impl Looks {
    pub(super) fn of(calls: &[Raw]) -> Looks {
        let mut looks: BTreeMap<String, Vec<(usize, bool)>> = BTreeMap::new();
        for (n, raw) in calls.iter().enumerate() {
            if let Said::Probe {
                path: Path::Known(path),
                found,
            } = &raw.call
            {
                looks.entry(path.clone()).or_default().push((n, *found));
            }
        }
        Looks(looks)
    }

    /// Whether the next look at `path` after call `n` finds it.
    pub(super) fn next(&self, path: &str, n: usize) -> Option<bool> {
        let looks = self.0.get(path)?;
        let at = looks.partition_point(|(call, _)| *call <= n);
        looks.get(at).map(|(_, found)| *found)
    }

    /// Whether the last look at `path` before call `n` found it.
    pub(super) fn last(&self, path: &str, n: usize) -> Option<bool> {
        let looks = self.0.get(path)?;
        let at = looks.partition_point(|(call, _)| *call < n);
        at.checked_sub(1).map(|last| looks[last].1)
    }
}

/// What a thread has asked lately.
#[derive(Default)]
pub(super) struct Asked {
    /// The database whose rollback journal it looked for last.
    pub database: Option<String>,
    /// The thread has used no descriptor since then.
    pub fresh: bool,
    /// The name that it found missing last.
    pub missing: Option<String>,
    /// The name that it found present last.
    present: Option<String>,
    /// A name X that it found present before it found X.bak missing.
    pub backed_up: Option<String>,
    /// The directory it named last, for each beginning that lost paths keep (`data/data`).
    dirs: BTreeMap<String, String>,
    /// Number of the file of unknown name that it made last.
    pub made: Option<usize>,
}

/// Number of names that the recorder kept of a lost path.
const KEPT_NAMES: usize = 2;

impl Asked {
    pub(super) fn probe(&mut self, path: &str, found: bool) {
        self.named(path);
        if let Some(database) = path.strip_suffix("-journal") {
            (self.database, self.fresh) = (Some(database.into()), true);
        }
        match found {
            true => self.present = Some(path.into()),
            false => {
                let original = path.strip_suffix(".bak");
                if original.is_some() && self.present.as_deref() == original {
                    self.backed_up = original.map(Into::into);
                }
                self.missing = Some(path.into());
            }
        }
    }

    /// Takes note of a path: a file of unknown name may lie in its directory.
    pub(super) fn named(&mut self, path: &str) {
        let mut names = path.split('/').filter(|n| !n.is_empty());
        let kept: Vec<&str> = names.by_ref().take(KEPT_NAMES).collect();
        if names.next().is_some() {
            self.dirs.insert(kept.join("/"), parent(path).into());
        }
    }

    /// The directory for a file of whose path only `beginning` is left.
    pub(super) fn dir(&self, beginning: &str) -> String {
        match self.dirs.get(beginning) {
            Some(dir) => dir.clone(),
            None if beginning.is_empty() => "/unknown".into(),
            None => format!("/{beginning}"),
        }
    }

    /// The name found missing last, if it fits the lost path that is opened; it is used up by this.
    pub(super) fn take_missing(&mut self, beginning: &str) -> Option<String> {
        let missing = self.missing.take()?;
        missing[1..].starts_with(beginning).then_some(missing)
    }
}
