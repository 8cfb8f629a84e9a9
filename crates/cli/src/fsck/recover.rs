//! `varve recover`: performs the recovery that the next mount would do, or only shows it.

use super::{CLEAN, LEFT, OPERATIONAL, now, open, place, refusal, repairer};
use crate::args::RecoverArgs;
use crate::failure::tell;
use crate::out::{self, say, say_json};
use rig::fsck::recover_image;
use serde_json::json;
use std::process::ExitCode;

/// Runs `varve recover`.
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
            if args.json {
                let image = out::path(&args.image);
                let _ = say_json(&json!({"image": image, "exit_code": OPERATIONAL, "error": why}));
            }
            tell(why);
            return ExitCode::from(OPERATIONAL);
        }
    };
    let mut text = String::new();
    for line in &recovery.lines {
        text += &format!("{name}: {line}\n");
    }
    let place = place(write);
    let (code, verdict) = match (&recovery.refused, recovery.lines.is_empty()) {
        (Some(why), true) => (LEFT, refusal(false, why)),
        (Some(why), false) => {
            let why = refusal(true, why);
            let repairer = repairer(recovery.kind);
            (
                LEFT,
                format!("log replayed, {place}; {why}; run {repairer}"),
            )
        }
        (None, true) if recovery.wrote => {
            let what = "nothing to recover; the mount that looked has noted itself";
            (CLEAN, format!("{what} (times, counts), {place}"))
        }
        (None, true) => (CLEAN, "nothing to recover".into()),
        (None, false) => (CLEAN, format!("recovered, {place}")),
    };
    text += &format!("{name}: {verdict}\n");
    let told = match args.json {
        true => say_json(&json!({
            "image": out::path(&args.image), "exit_code": code, "fs": recovery.kind.to_string(),
            "recovery": recovery.lines, "refused": recovery.refused, "verdict": verdict,
            "wrote": recovery.wrote, "dry_run": args.dry_run,
        })),
        false => say(&text),
    };
    match told {
        Ok(()) => ExitCode::from(code),
        Err(e) => {
            tell(e);
            ExitCode::from(OPERATIONAL)
        }
    }
}
