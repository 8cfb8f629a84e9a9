//! `varve crash --repro LINE`: repeats one state that a campaign reported.

use crate::failure::{Failure, failed, usage};
use crate::out::say;
use crash::case::Volumes;
use crash::finding::dossier::Dossier;
use crash::finding::repro::Repro;

/// Makes one state again, judges it, prints what happened, and fails if a promise was broken.
pub fn repro(line: &str) -> Result<(), Failure> {
    let line: Repro = line.parse().map_err(usage)?;
    let dossier = Dossier::rerun(&line, &mut Volumes::default()).map_err(usage)?;
    say(&format!("{}: state {}\n\n", line.case, dossier.id))?;
    for told in &dossier.story {
        say(&format!("  {told}\n"))?;
    }
    say(&format!("\n{}\n", dossier.steps_text()))?;
    for violation in &dossier.violations {
        say(&format!("{violation}\n"))?;
    }
    match dossier.violations.is_empty() {
        true => say("no promise was broken\n"),
        false => Err(failed(format!(
            "state {} violates {}",
            dossier.id,
            dossier.rule()
        ))),
    }
}
