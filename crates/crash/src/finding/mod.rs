//! What becomes of a violation: a line that reproduces it, a smaller case that violates the same
//! rule, the commands around each cut with the fate of each, a folder, and the reports of a whole
//! campaign.
//!
//! ```text
//! (Case, Id) --Dossier--> image, judgement, steps
//!        |--Repro--> line --Dossier::rerun--> Dossier
//!        |--shrink--> smaller (Case, Id)
//!        `--write--> FOLDER/NNN-rule-scheme/
//! CampaignReport --> results.json, junit.xml, index.html
//! ```
//!
//! - F1: no file holds a wall time, a date, a host or an absolute path (but for one that the user
//!   gave as `@FILE`), so one seed gives the same bytes everywhere.
//! - F2: what cannot be written is named in the result and never ends an exploration.
//! - F3: a shrunk case violates the rule that the case it was made of violates.

mod chips;
pub mod dossier;
pub mod folder;
pub mod hunt;
pub mod id;
pub mod junit;
pub mod keep;
pub mod page;
pub mod report;
pub mod repro;
pub mod shrink;
pub mod steps;
pub mod stream;
pub mod totals;

/// The rule that a violation names, like `O3`: a capital letter and a number before a colon. The
/// first one counts, because a text goes from the rule to what was found.
pub fn rule(violation: &str) -> Option<&str> {
    let mut words = violation.split([' ', '(']);
    words.find_map(|word| {
        let name = word.strip_suffix(':')?;
        let digits = name.strip_prefix(|c: char| c.is_ascii_uppercase())?;
        let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        all.then_some(name)
    })
}

/// The rule of a list of violations: that of the first which names one, otherwise `R1`.
pub fn rule_of(violations: &[String]) -> &str {
    violations.iter().find_map(|v| rule(v)).unwrap_or("R1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_in_its_violation() {
        let text = "task 0 at Progress { begun: 3, ended: 2 }: /t0/a: O3: sector 1 is zero, version 1 was synced";
        assert_eq!(rule(text), Some("O3"));
        assert_eq!(rule("R1: recovery: corrupt: H: x"), Some("R1"));
        assert_eq!(rule("nothing: A: 7: here"), None);
        assert_eq!(rule_of(&["x".into(), "O11: y".into()]), "O11");
        assert_eq!(rule_of(&[]), "R1");
    }
}
