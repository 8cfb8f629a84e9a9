//! `varve recover`: what the next mount would recover, done now or shown.

use super::{CLEAN, LEFT, OPERATIONAL, now, open};
use crate::args::RecoverArgs;
use crate::out::say;
use rig::fsck::recover_image;
use std::process::ExitCode;

/// Runs it.
pub fn recover(args: &RecoverArgs) -> ExitCode {
    let name = args.image.display();
    let write = !args.dry_run;
    let done = open::open(&args.image, write).and_then(|file| {
        let journal = args.journal.as_ref().map(|path| open::open(path, write));
        let journal = journal.transpose()?;
        recover_image(&file, journal.as_ref(), write, now()).map_err(|e| format!("{name}: {e}"))
    });
    let recovery = match done {
        Ok(recovery) => recovery,
        Err(why) => {
            eprintln!("varve: {why}");
            return ExitCode::from(OPERATIONAL);
        }
    };
    let place = match write {
        true => "on the file",
        false => "in memory only",
    };
    let mut text = String::new();
    for line in &recovery.lines {
        text += &format!("{name}: {line}\n");
    }
    let (code, verdict) = match &recovery.refused {
        Some(why) => (LEFT, format!("recovery refused: {why}")),
        None if recovery.lines.is_empty() => (CLEAN, "nothing to recover".into()),
        None => (CLEAN, format!("recovered, {place}")),
    };
    text += &format!("{name}: {verdict}\n");
    match say(&text) {
        Ok(()) => ExitCode::from(code),
        Err(e) => {
            eprintln!("varve: {e}");
            ExitCode::from(OPERATIONAL)
        }
    }
}
