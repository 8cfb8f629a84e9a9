//! `varve fsck`: checks an image, after recovering it where it needs recovery.

pub(crate) mod open;
pub(crate) mod recover;

use crate::args::FsckArgs;
use crate::failure::tell;
use crate::out::{self, say};
use base::plain;
use rig::Fs;
use rig::fsck::{Checked, Finding, Report, fsck_beside as check, says_clean};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nothing to find.
const CLEAN: u8 = 0;
/// An error was corrected, and nothing is left to find. Replaying a log and processing orphans
/// corrects no error, says e2fsck.
const CORRECTED: u8 = 1;
/// Findings are left.
const LEFT: u8 = 4;
/// The image cannot be used.
const OPERATIONAL: u8 = 8;
/// Exit code for an invalid command line.
pub const USAGE: u8 = 16;

/// Runs `varve fsck`.
pub fn fsck(args: &FsckArgs) -> ExitCode {
    let write = args.preen || args.yes || args.auto;
    progress(args, "1 0 1");
    let checked = open::open(&args.image, write).and_then(|file| {
        let failed = |e: String| format!("{}: {e}", args.image.display());
        if args.auto && !args.force && says_clean(&file).map_err(|e| failed(e.to_string()))? {
            return Ok(None);
        }
        let journal = args.journal.as_ref().map(|path| open::open(path, write));
        let journal = journal.transpose()?;
        let checked = check((&file, journal.as_ref()), write, now(), args.limit);
        checked.map(Some).map_err(|e| failed(e.to_string()))
    });
    progress(args, "5 1 1");
    let (code, text) = match checked {
        Ok(None) => (CLEAN, format!("{}: clean\n", args.image.display())),
        Ok(Some(checked)) => {
            let code = exit_code(&checked);
            let text = match args.json {
                true => plain::json(&format!("{:#}\n", to_json(&args.image, &checked, code))),
                false => plain::message(&to_text(&args.image, &checked, write)),
            };
            (code, text)
        }
        Err(why) => {
            tell(&why);
            let failed =
                json!({ "image": out::path(&args.image), "exit_code": OPERATIONAL, "error": why });
            let text = if args.json {
                plain::json(&format!("{failed:#}\n"))
            } else {
                String::new()
            };
            (OPERATIONAL, text)
        }
    };
    match say(&text) {
        Ok(()) => ExitCode::from(code),
        Err(failure) => {
            tell(failure);
            ExitCode::from(OPERATIONAL)
        }
    }
}

/// `-C`: a pass, its position and its end, and the device, as fsck(8) reads them. It is no error if
/// the reader is gone.
fn progress(args: &FsckArgs, at: &str) {
    use std::io::Write;
    let Some(fd) = args.progress.filter(|&fd| fd > 0) else {
        return;
    };
    let opened = File::options().append(true).open(format!("/dev/fd/{fd}"));
    if let Ok(mut pipe) = opened {
        let _ = writeln!(pipe, "{at} {}", args.image.display());
    }
}

fn now() -> rig::WallTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    rig::WallTime {
        secs: since.as_secs() as i64,
        nanos: since.subsec_nanos(),
    }
}

/// No file system that is known here, or of a kind that cannot be judged, is an operational error
/// as it is with e2fsck.
fn cannot_judge(checked: &Checked) -> bool {
    checked.report.cannot_judge
}

fn exit_code(checked: &Checked) -> u8 {
    if cannot_judge(checked) {
        return OPERATIONAL;
    }
    match (
        checked.report.is_clean() && checked.refused.is_none(),
        checked.mended && checked.written,
    ) {
        (true, true) => CORRECTED,
        (true, false) => CLEAN,
        (false, _) => LEFT,
    }
}

fn to_text(image: &Path, checked: &Checked, write: bool) -> String {
    let name = image.display();
    let mut lines = Vec::new();
    for line in checked.lines.iter().filter(|_| checked.kind == Fs::F2fs) {
        lines.push(format!("{name}: {line}"));
    }
    if checked.recovered {
        let what = match (checked.kind, &checked.orphans_left) {
            (Fs::Ext4 | Fs::Ext3, None) => "log replayed and orphans processed",
            (Fs::Ext4 | Fs::Ext3, Some(_)) => "log replayed, orphans left",
            (Fs::F2fs, None) => "recovered",
            (Fs::F2fs, Some(_)) => "not recovered, it may only be read",
        };
        let place = place(checked.written);
        lines.push(format!("{name}: {what}, {place}"));
        if checked.mended && matches!(checked.kind, Fs::Ext4 | Fs::Ext3) {
            let what = "damaged superblock written anew from its backup and the log";
            lines.push(format!("{name}: {what}, {place}"));
        }
    }
    if let Some(why) = &checked.refused {
        lines.push(format!("{name}: {}", refusal(checked.recovered, why)));
    }
    let report = &checked.report;
    for finding in &report.findings {
        lines.push(format!("{finding}\n    -> {}", finding.advice));
    }
    if report.beyond > 0 {
        lines.push(format!("... and {} findings more (--limit)", report.beyond));
    }
    let count = report.findings.len() as u64 + report.beyond;
    let findings = format!("{count} finding{}", if count == 1 { "" } else { "s" });
    let verdict = match count {
        0 => "clean".into(),
        _ if write && beyond_repair(report) => findings,
        _ if write => format!(
            "{findings}; varve cannot repair them yet, {} can",
            repairer(checked.kind)
        ),
        _ => findings,
    };
    lines.push(format!(
        "{name}: {} inodes, {} directories, {} blocks in use: {verdict}",
        report.inodes, report.directories, report.blocks
    ));
    lines.join("\n") + "\n"
}

/// Of F2FS: superblocks or checkpoint that neither a mount nor fsck.f2fs accepts.
fn beyond_repair(report: &Report) -> bool {
    report.findings.iter().any(|f| f.is_beyond_repair)
}

/// Where the outcome of a recovery is.
fn place(written: bool) -> &'static str {
    match written {
        true => "on the file",
        false => "in memory only",
    }
}

/// `replayed`: the log was brought home all the same.
fn refusal(replayed: bool, why: &str) -> String {
    match replayed {
        true => format!("cannot be mounted behind its log: {why}"),
        false => format!("recovery refused: {why}"),
    }
}

fn repairer(kind: Fs) -> &'static str {
    match kind {
        Fs::Ext4 | Fs::Ext3 => "e2fsck",
        Fs::F2fs => "fsck.f2fs",
    }
}

fn to_json(image: &Path, checked: &Checked, code: u8) -> Value {
    let report = &checked.report;
    let finding = |f: &Finding| {
        json!({
            "number": f.number, "name": f.name, "group": f.area,
            "inode": f.ino, "block": f.block,
            "what": f.what, "advice": f.advice,
        })
    };
    json!({
        "image": out::path(image), "exit_code": code,
        "recovered": checked.recovered, "written": checked.written, "mended": checked.mended, "refused": checked.refused,
        "orphans_left": checked.orphans_left, "recovery": checked.lines,
        "inodes": report.inodes, "directories": report.directories, "blocks": report.blocks,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "beyond": report.beyond,
    })
}
