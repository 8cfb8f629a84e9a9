//! What the syncs of `--suggest` cost on a device.

use crate::args::CrashArgs;
use crate::failure::{Failure, usage};
use ::program::call::Recording;
use ::program::mend::{Suggestion, mended, without};
use ::program::replay::{Cost, cost};
use base::Nanos;
use rig::Profile;

/// What `--device` is without being said: promises, which have no times.
const UNSAID: &str = "spec:emmc";
/// How promises begin.
const PROMISES: &str = "spec:";
/// The device where none is named.
const DEFAULT: &str = "emmc-odroid-xu4";

/// The profile on which syncs are measured.
pub fn device(args: &CrashArgs) -> Result<&str, Failure> {
    let named: Vec<&String> = args.device.iter().filter(|name| *name != UNSAID).collect();
    if let Some(promises) = named.iter().find(|name| name.starts_with(PROMISES)) {
        return Err(usage(format!(
            "--device {promises}: with --dir it is a profile, on which syncs are measured; promises have no times, and what a device may lose is chosen by --model"
        )));
    }
    let device = match named[..] {
        [] => return Ok(DEFAULT),
        [one] => one,
        _ => return Err(usage("--device: with --dir it is one profile")),
    };
    if !args.program.suggest {
        return Err(usage(
            "--device: with --dir it says where the syncs of --suggest are measured; what a device may lose is chosen by --model",
        ));
    }
    Profile::open(device).map_err(|e| usage(format!("--device: {e}")))?;
    Ok(device)
}

/// What the recording costs there as it is, with the syncs that are to be added, and without those
/// that nothing needs, in words.
pub fn words(
    recording: &Recording,
    suggestion: &Suggestion,
    device: &str,
) -> Result<Vec<String>, String> {
    let syncs: Vec<_> = (suggestion.added.iter())
        .flat_map(|added| added.syncs.iter().cloned())
        .collect();
    let needless: Vec<usize> = (suggestion.needless.iter())
        .flat_map(|needless| needless.calls.iter().copied())
        .collect();
    if syncs.is_empty() && needless.is_empty() {
        return Ok(Vec::new());
    }
    let of = |recording: &Recording| cost(recording, device).map_err(|e| e.to_string());
    let now = of(recording)?;
    let mut words = vec![format!("cost on {device}: {} as it is", told(&now))];
    if !syncs.is_empty() {
        let then = of(&mended(recording, &syncs))?;
        words.push(format!(
            "cost on {device}: {} with the added syncs, {}",
            told(&then),
            difference(&now, &then)
        ));
    }
    if !needless.is_empty() {
        let then = of(&without(recording, &syncs, &needless))?;
        let added = match syncs.is_empty() {
            true => "",
            false => "with the added syncs and ",
        };
        words.push(format!(
            "cost on {device}: {} {added}without those that are not needed, {}",
            told(&then),
            difference(&now, &then)
        ));
    }
    Ok(words)
}

fn told(cost: &Cost) -> String {
    let (writes, flushes) = (cost.writes, cost.flushes);
    format!(
        "{} in calls, {} of it in syncs; {writes} writes, {flushes} flushes or FUA writes",
        millis(cost.calls),
        millis(cost.syncs)
    )
}

fn difference(now: &Cost, then: &Cost) -> String {
    match then.calls.0.checked_sub(now.calls.0) {
        Some(more) => format!("{} more", millis(Nanos(more))),
        None => format!("{} less", millis(Nanos(now.calls.0 - then.calls.0))),
    }
}

fn millis(time: Nanos) -> String {
    format!("{:.2} ms", time.0 as f64 / 1e6)
}
