//! Checks what concerns a whole model: names lead somewhere, and buffers fit in memory.

use super::amount::Amount;
use super::error::{Fault, fault};
use super::model::{Flowop, Model, Op};
use std::collections::BTreeSet;

/// Most bytes of the buffers of all threads.
const BUFFERS_MAX: u64 = 1 << 30;
/// Bytes of a transfer that names no size.
pub const IO_DEFAULT: u64 = 1 << 20;

/// Refuses a model that cannot run.
///
/// # Errors
/// The first reason why it cannot.
pub fn resolve(model: &mut Model, last: u32) -> Result<(), Fault> {
    if model.processes.iter().all(|p| p.threads.is_empty()) {
        return Err(fault(
            last,
            "no process has a thread: there is nothing to run",
        ));
    }
    let mut names: BTreeSet<(&str, Op)> = BTreeSet::new();
    model.each(&mut |op, _| {
        names.insert((&op.name, op.op));
    });
    let mut wrong = None;
    let mut buffers = 0_u64;
    model.each(&mut |op, threads| {
        buffers = buffers.saturating_add(buffer(op).saturating_mul(threads));
        if wrong.is_none() {
            wrong = judge(op, &names).err();
        }
    });
    if let Some(fault) = wrong {
        return Err(fault);
    }
    if buffers > BUFFERS_MAX {
        let what = format!(
            "the threads transfer {buffers} bytes at once; at most {BUFFERS_MAX}: smaller `iosize` or fewer threads"
        );
        return Err(fault(last, what));
    }
    Ok(())
}

/// Bytes of the buffer that one transfer of the flowop needs.
fn buffer(op: &Flowop) -> u64 {
    match op.op.transfers() {
        true => op.iosize.as_ref().map_or(IO_DEFAULT, Amount::most),
        false => 0,
    }
}

fn judge(op: &Flowop, names: &BTreeSet<(&str, Op)>) -> Result<(), Fault> {
    let word = op.op.word();
    if op.op.needs_set() && op.fileset.is_none() {
        let what = format!("`{word}` needs `filesetname` (or `filename`)");
        return Err(fault(op.line, what));
    }
    if op.op.transfers() && op.iosize.as_ref().is_some_and(|size| size.most() == 0) {
        return Err(fault(
            op.line,
            format!("`{word}` with `iosize=0` transfers nothing"),
        ));
    }
    let wanted = match op.op {
        Op::SemPost => Some("semblock"),
        // Nobody counts for a name that is none, so a limit or an end on it would never come.
        _ if op.target.is_some() => Some("flowop"),
        _ => None,
    };
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let target = op.target.as_deref().unwrap_or_default();
    let fits =
        |(name, op): &&(&str, Op)| *name == target && (wanted == "flowop" || *op == Op::SemBlock);
    if names.iter().any(|name| fits(&name)) {
        return Ok(());
    }
    let all: Vec<&str> = names
        .iter()
        .filter(|(_, op)| wanted == "flowop" || *op == Op::SemBlock)
        .map(|(name, _)| *name)
        .collect();
    let what = format!(
        "`target={target}` of `{word}` is no {wanted} of this file; there is: {}",
        all.join(", ")
    );
    Err(fault(op.line, what))
}
