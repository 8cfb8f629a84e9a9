//! The words of a state that no cut has made: which call the device refused, and what the program
//! did then.

use super::Told;
use crate::call::{Recording, What};
use crate::explore::Bad;
use crate::record::error_name;
use crate::sites;

/// Calls behind the failed one that are told.
const TOLD_MAX: usize = 4;

/// Explains a bad state of model `device`.
pub fn of_device(recording: &Recording, bad: &Bad) -> Told {
    let state = &bad.state;
    let behind = state.calls.min(recording.calls.len());
    let lost: Vec<usize> = state.lost.iter().map(|part| part.call).collect();
    let fails = |call: usize| {
        let what = &recording.calls[call].what;
        what.failure().is_some() && (lost.is_empty() || matches!(what, What::Sync { .. }))
    };
    let failed = (0..behind).rev().find(|&call| fails(call));
    let (call, site) = match failed {
        Some(failed) => (
            failing(recording, failed),
            sites::site(&recording.calls[failed]),
        ),
        None => ("a call failed".into(), String::new()),
    };
    let from = failed.map_or(behind, |failed| failed + 1);
    let when = match from == behind {
        true => "right behind it".into(),
        false => format!("behind {}", sites::call(recording, behind - 1)),
    };
    let what = match lost.is_empty() {
        true => format!("{when} what is there is bad"),
        false => format!("{when} {} may be gone", parts(bad)),
    };
    let mend = match lost.is_empty() {
        true => "it has to notice the error, and to keep or put back what it had",
        false => {
            "what a failed sync gives up, no later sync writes: write it anew, or end and recover"
        }
    };
    let then = then(recording, from);
    let kind = if lost.is_empty() { "" } else { ", given up" };
    Told {
        key: format!("device: {site}{kind}"),
        sentence: format!("{call}, and {what}, without any power cut; {then}; {mend}"),
        why: bad.why.to_string(),
        state: state.clone(),
        lost,
        kept: failed.into_iter().collect(),
        promise: None,
        lacks: Vec::new(),
        mend: None,
        without_cut: true,
    }
}

fn failing(recording: &Recording, call: usize) -> String {
    let error = recording.calls[call].what.failure().unwrap_or_default();
    format!(
        "{} failed with {}",
        sites::call(recording, call),
        error_name(error)
    )
}

/// What the program did from this call on.
fn then(recording: &Recording, from: usize) -> String {
    let short = |call: usize| {
        let made = &recording.calls[call];
        match &made.what {
            What::Acknowledge(_) => sites::call(recording, call),
            what => format!("`{}({})`", sites::name(what), made.path),
        }
    };
    let calls = from..recording.calls.len();
    let words: Vec<String> = calls.clone().take(TOLD_MAX).map(short).collect();
    match calls.len() {
        0 => "the program made no further call".into(),
        count if count <= TOLD_MAX => format!("the program went on with {}", words.join(", ")),
        count => format!(
            "the program went on with {} and {} more calls",
            words.join(", "),
            count - TOLD_MAX
        ),
    }
}

/// What was given up.
fn parts(bad: &Bad) -> String {
    let lost = &bad.state.lost;
    let first = lost.first().map_or("", |part| &part.what);
    match lost.len() {
        0 | 1 => first.into(),
        count => format!("{first} and {} parts more", count - 1),
    }
}
