//! Workloads of the crash explorer (`crash::ops`) as recordings of a program: what its
//! operations are as system calls.

use crate::script::Script;
use crash::ops::Op;
use crash::subject::Spec;
use varve_program::call::Recording;

/// The recording of a workload that a text names: `ace:2#17`, `mix:ops=20,stress=names`. The text
/// stands for one list of operations with this seed.
pub fn recording(text: &str, seed: u64) -> Recording {
    let spec = Spec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let fixed = spec
        .fixed(seed)
        .expect("operations that are known beforehand");
    let [ops] = fixed.tasks() else {
        panic!("{text}: one task");
    };
    let mut script = Script::new();
    for (number, op) in ops.iter().enumerate() {
        call(&mut script, op, number);
    }
    script.recording()
}

/// A path of a workload begins at the directory of its task, which is the root here.
fn at(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn call(script: &mut Script, op: &Op, number: usize) {
    match op {
        Op::Create(path) => _ = script.create(at(path)),
        Op::Write { path, offset, len } => {
            script.write(at(path), *offset, &bytes(number, *len));
        }
        Op::Truncate { path, size } => _ = script.truncate(at(path), *size),
        Op::Fallocate {
            path,
            offset,
            len,
            keep_size,
        } => _ = script.allocate(at(path), *offset, *len, *keep_size),
        Op::Rename { from, to } => _ = script.rename(at(from), at(to)),
        Op::Link { from, to } => _ = script.link(at(from), at(to)),
        Op::Symlink { target, to } => _ = script.symlink(target, at(to)),
        Op::Unlink(path) | Op::Rmdir(path) => _ = script.unlink(at(path)),
        Op::Mkdir(path) => _ = script.mkdir(at(path)),
        Op::Chmod { path, perm } => _ = script.chmod(at(path), *perm),
        Op::SetXattr { path, name, value } => _ = script.xattr(at(path), name, Some(value)),
        Op::RemoveXattr { path, name } => _ = script.xattr(at(path), name, None),
        Op::Fsync(path) | Op::SyncDir(path) => _ = script.fsync(at(path)),
        Op::Fdatasync(path) => _ = script.fdatasync(at(path)),
        Op::Sync => _ = script.sync_all(),
        // A recording has no descriptors and no time.
        Op::Hold(_) | Op::Pause(_) => (),
    }
}

/// Content that no other operation writes in this place.
fn bytes(number: usize, len: u64) -> Vec<u8> {
    let byte = |at: u64| ((number as u64 * 89 + at / 512) % 251) as u8 + 1;
    (0..len).map(byte).collect()
}
