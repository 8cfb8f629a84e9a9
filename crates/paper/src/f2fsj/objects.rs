//! Finds out which objects of a `meta:` workload a recovery gives back.

use crate::PaperError;
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};
use work::workload::bench::{MetaOp, MetaSpec};
use work::workload::fsync::content;
use work::workload::{BenchSpec, Program, Workload};

/// What is there of a run after a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Number of operations whose effect is there; they are the first ones of the run.
    pub ops: u64,
    /// Files made by these that have their content; for operations that make no files, `ops`.
    pub whole: u64,
}

/// Parses the parameters of a `meta:` workload.
///
/// # Errors
/// It is another workload.
pub fn meta(workload: &str) -> Result<MetaSpec, PaperError> {
    match workload.parse()? {
        Workload::Bench(BenchSpec {
            program: Program::Meta(spec),
            ..
        }) => Ok(spec),
        _ => Err(PaperError::Check(format!(
            "{workload} is no operation on names"
        ))),
    }
}

/// Finds out what is there of the run of `spec` by one process.
///
/// # Errors
/// The file system fails, or the state is that of no prefix of the operations, which no cut may
/// leave.
pub fn recovered(vfs: &Arc<Vfs>, spec: &MetaSpec) -> Result<Recovered, PaperError> {
    let there = numbers(vfs)?;
    let (count, found) = (spec.count, there.len() as u32);
    let makes = matches!(spec.op, MetaOp::Mkdir | MetaOp::Create);
    let (first, ops) = match makes {
        true => (0, found),
        false => (count.saturating_sub(found), count.saturating_sub(found)),
    };
    if !there.iter().copied().eq(first..first + found) || found > count {
        return Err(PaperError::Check(format!(
            "{spec}: {found} objects from {:?} to {:?} are what no prefix of the operations leaves",
            there.first(),
            there.last()
        )));
    }
    let mut whole = u64::from(ops);
    if spec.op == MetaOp::Create && spec.size > 0 {
        whole = 0;
        for (dir, n) in paths(vfs)? {
            whole += u64::from(is_whole(vfs, &format!("{dir}/e{n}"), n, spec.size)?);
        }
    }
    Ok(Recovered {
        ops: ops.into(),
        whole,
    })
}

fn is_whole(vfs: &Arc<Vfs>, path: &str, n: u32, size: u64) -> Result<bool, PaperError> {
    let file = vfs.open(path, OpenFlags::READ, 0)?;
    let mut bytes = vec![0; size as usize];
    let length = file.read_at(0, &mut bytes)?;
    file.close()?;
    Ok(length as u64 == size && bytes == content(n.into(), size))
}

fn numbers(vfs: &Arc<Vfs>) -> Result<BTreeSet<u32>, PaperError> {
    Ok(paths(vfs)?.into_iter().map(|(_, n)| n).collect())
}

/// Directory and number of every object that is there.
fn paths(vfs: &Arc<Vfs>) -> Result<Vec<(String, u32)>, PaperError> {
    let mut found = Vec::new();
    let mut todo = vec![String::new()];
    while let Some(dir) = todo.pop() {
        let path = if dir.is_empty() { "/" } else { &dir };
        for entry in vfs.readdir(path)? {
            let name = String::from_utf8_lossy(&entry.name);
            match (name.get(..1), name.get(1..).map(str::parse)) {
                (Some("d"), Some(Ok::<u32, _>(_))) => todo.push(format!("{dir}/{name}")),
                (Some("e"), Some(Ok(n))) => found.push((dir.clone(), n)),
                _ => {}
            }
        }
    }
    Ok(found)
}
