//! Sites that are narrower than those of `sites`.
//!
//! Without stacks all writes of a file are of one site, and with them all writes that go through
//! one function of a library. A sync that only some of them need would stand before all of them. So
//! the syncs of a site are parted by the calls that stand around them, and by the whole stack, and
//! each part is left out if the others are enough.

use super::Added;
use crate::call::Recording;
use crate::sites;
use std::collections::BTreeMap;

/// The parts of sites, each with the number of its site, and whether it may be left out: a part at
/// the begin or the end of the recording is there because the recording is not longer.
pub(super) fn parts(recording: &Recording, added: &[Added]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (site, added) in added.iter().enumerate() {
        let mut split: BTreeMap<String, Part> = BTreeMap::new();
        for sync in &added.syncs {
            let (around, inside) = surroundings(recording, sync.before);
            let part = split.entry(around).or_insert_with(|| Part {
                site,
                inside,
                added: Added {
                    text: String::new(),
                    syncs: Vec::new(),
                },
            });
            part.added.syncs.push(sync.clone());
        }
        parts.extend(split.into_values());
    }
    parts
}

/// Syncs of one site between calls of the same sites.
pub(super) struct Part {
    /// Number of the site.
    pub site: usize,
    /// There are calls on both sides of each.
    pub inside: bool,
    /// Its syncs.
    pub added: Added,
}

/// The sites of the calls around one, and its stack; whether there is one on both sides.
fn surroundings(recording: &Recording, index: usize) -> (String, bool) {
    let calls = &recording.calls;
    let before = index.checked_sub(1).and_then(|at| calls.get(at));
    let (here, behind) = (calls.get(index), calls.get(index + 1));
    let site = |call: Option<&_>| call.map_or_else(String::new, sites::site);
    let frames = here.into_iter().flat_map(|call| &call.stack);
    let stack: Vec<String> = frames.map(ToString::to_string).collect();
    let around = [site(before), stack.join("\n"), site(behind)].join("\n");
    (around, before.is_some() && behind.is_some())
}

/// The sites that these parts are of, told by their first sync.
pub(super) fn joined(recording: &Recording, parts: Vec<Part>) -> Vec<Added> {
    let mut sites: BTreeMap<usize, Added> = BTreeMap::new();
    for part in parts {
        let site = sites.entry(part.site).or_insert_with(|| Added {
            text: String::new(),
            syncs: Vec::new(),
        });
        site.syncs.extend(part.added.syncs);
        site.syncs.sort();
    }
    let mut sites: Vec<Added> = sites.into_values().collect();
    for site in &mut sites {
        tell(recording, site);
    }
    sites
}

/// Names a site by its first sync.
pub(super) fn tell(recording: &Recording, site: &mut Added) {
    if let Some(first) = site.syncs.first() {
        site.text = format!("before {}: {first}", sites::call(recording, first.before));
    }
}
