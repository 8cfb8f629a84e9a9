//! Joins what the [parts](super::part) of a case found.

use super::campaign::{Explored, FINDINGS_MAX};

/// What all parts of a case found, as if it had been explored as a whole.
///
/// # Errors
/// They do not count the same states, so they are not the parts of one exploration.
pub fn joined(parts: Vec<Explored>) -> Result<Explored, String> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().ok_or("a case without any part")?;
    for part in parts {
        if counts(&all) != counts(&part) || all.failure != part.failure {
            let (one, other) = (counts(&all), counts(&part));
            return Err(format!(
                "its parts count other states, {one:?} and {other:?}"
            ));
        }
        all.judged += part.judged;
        all.nested += part.nested;
        all.violations += part.violations;
        for (position, losses) in &part.losses {
            all.losses.entry(*position).or_default().add(losses);
        }
        all.findings.extend(part.findings);
    }
    all.findings.sort_by_key(|finding| finding.order);
    all.findings.truncate(FINDINGS_MAX);
    for finding in &mut all.findings {
        finding.order = None;
    }
    Ok(all)
}

/// What every part counts of all states.
fn counts(of: &Explored) -> [u64; 5] {
    [
        of.points,
        of.enumerated,
        of.deduplicated,
        of.pruned,
        of.beyond,
    ]
}
