//! Merges a `crash --dir`: the verdicts of all shares make one report, as if one process had judged
//! every tree, and a table of the shares.

use super::table::Table;
use super::{Merge, unreadable};
use crate::args::CrashArgs;
use crate::campaign::share::{Found, Job};
use crate::campaign::status::Has;
use crate::crash::dir::shares::{self, Known};
use crate::failure::{Failure, failed};
use crate::out::{say, unwritten};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The first columns of the table.
const FIRST: &[&str] = &["job", "state", "share", "shares", "trees", "bad"];

/// Merges.
pub fn merge(merge: &Merge<'_>, args: &mut CrashArgs) -> Result<(), Failure> {
    args.out = merge.out.path().into();
    let file = args.program.recording.clone();
    let file = file.ok_or_else(|| failed("the plan names no recording"))?;
    shares::check_taken(merge.out.path())?;
    let mut table = Table::begin(merge.out.path(), FIRST)?;
    let mut known = Known::default();
    merge.each_job(|planned| {
        // The recording and the judges of the plan, not others that came in their places.
        planned.inputs.iter().try_for_each(|input| input.check())?;
        let job: Job = serde_json::from_str(planned.task.text().get()).map_err(failed)?;
        let mut row = json!({
            "job": planned.number, "id": planned.id, "share": job.share + 1, "shares": job.shares,
        });
        match merge.look(&planned)? {
            Has::Result(kept) => {
                let found: Result<Found, _> = serde_json::from_str(&kept.text);
                let found = found.map_err(|e| unreadable(merge.store, &planned, &e))?;
                row["state"] = "done".into();
                row["trees"] = found.trees.len().into();
                row["bad"] = found
                    .trees
                    .iter()
                    .filter(|said| said.2.is_some())
                    .count()
                    .into();
                known.verdicts.add(found.trees);
                known.notes.extend(found.notes);
            }
            Has::GivenUp(_) => row["state"] = "gave up".into(),
            Has::Nothing | Has::Damaged(_) => row["state"] = "missing".into(),
        }
        known.origin = job.origin;
        table.add(&row)
    })?;
    let rows = table.end(merge.out.path(), "shares")?;
    say(&format!("{rows} rows: shares.parquet and shares.csv\n"))?;
    let file = placed(merge, args, &known, file)?;
    shares::report(args, &file, known, merge.incomplete.clone(), merge.out)
}

/// Makes the report speak of the run as one process does that has recorded it: of the command, and
/// of the file of the recording, which lies in the output folder if the user gave it no name.
fn placed(
    merge: &Merge<'_>,
    args: &mut CrashArgs,
    known: &Known,
    file: PathBuf,
) -> Result<PathBuf, Failure> {
    let Some(origin) = &known.origin else {
        return Ok(file);
    };
    args.run = Some(origin.run.clone());
    if origin.kept {
        return Ok(file);
    }
    let copy = merge.out.path().join(RECORDING);
    copied(&file, &copy)?;
    Ok(copy)
}

/// The name of a recording in an output folder.
const RECORDING: &str = "recording";

fn copied(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(from).map_err(|e| failed(format!("{}: {e}", from.display())))?;
    std::fs::write(to, bytes).map_err(|e| unwritten(to, &e))
}
