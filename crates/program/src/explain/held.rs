//! What a file holds in the place of content that is lost.

use crate::apply::apply;
use crate::call::{Recording, What};
use crate::state::State;
use crate::tree::{Node, NodeId, Tree};
use base::SECTOR_BYTES;

/// In words, what stands where something of a write is lost; `None`: the call is no write, or its
/// file is not in the state.
pub fn in_place_of(recording: &Recording, state: &State, call: usize) -> Option<&'static str> {
    let What::Write {
        node, offset, data, ..
    } = &recording.calls.get(call)?.what
    else {
        return None;
    };
    let before = after(recording, call);
    let whole = after(recording, state.calls);
    let found = path_of(&whole, *node).and_then(|path| state.tree.find(&path));
    let found = state.tree.node(found?)?;
    let (whole, before) = (whole.node(*node)?, before.node(*node));
    let (mut former, mut zeros) = (false, false);
    let end = offset + data.len() as u64;
    let mut at = *offset;
    while at < end {
        let next = (at / SECTOR + 1) * SECTOR;
        let len = next.min(end) - at;
        let now = read(found, at, len);
        if now != read(whole, at, len) {
            if now.iter().all(|byte| *byte == 0) {
                zeros = true;
            } else if before.is_some_and(|before| now == read(before, at, len)) {
                former = true;
            } else {
                return Some("what the medium held before is there");
            }
        }
        at = next;
    }
    match (former, zeros) {
        (true, _) => Some("the former content is there"),
        (false, true) => Some("zeros are there"),
        (false, false) => None,
    }
}

const SECTOR: u64 = SECTOR_BYTES as u64;

fn after(recording: &Recording, calls: usize) -> Tree {
    let mut tree = recording.start.clone();
    let calls = recording.calls.iter().take(calls);
    calls.for_each(|call| apply(&mut tree, &call.what));
    tree
}

fn path_of(tree: &Tree, node: NodeId) -> Option<Vec<u8>> {
    let mut found = None;
    tree.walk(&mut |path, id, _| {
        if id == node {
            found = Some(path.to_vec());
        }
    });
    found
}

/// Bytes of a file, zeros behind its end.
fn read(node: &Node, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = node.read(offset, len);
    bytes.resize(len as usize, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{Tape, tree_of};

    fn held(found: &[u8]) -> Option<&'static str> {
        let mut tape = Tape::with(&[("f", &[b'o'; 1024])]);
        tape.write("f", 0, &[b'n'; 1024]);
        let state = State {
            tree: tree_of(&[("f", found)]),
            calls: 1,
            under_way: false,
            acknowledged: 0,
            lost: Vec::new(),
            line: String::new(),
        };
        in_place_of(&tape.recording, &state, 0)
    }

    #[test]
    fn former_content_is_told_apart_from_zeros_and_from_what_is_of_others() {
        let half = |byte: u8| [[b'n'; 512], [byte; 512]].concat();
        assert_eq!(held(&half(b'n')), None, "nothing is lost");
        assert_eq!(held(&half(b'o')), Some("the former content is there"));
        assert_eq!(held(&half(0)), Some("zeros are there"));
        let others = Some("what the medium held before is there");
        assert_eq!(held(&half(b'x')), others);
        assert_eq!(held(b""), Some("zeros are there"), "behind the end");
    }
}
