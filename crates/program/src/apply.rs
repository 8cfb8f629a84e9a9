//! What calls make of a tree when nothing is lost: the tree as the running program sees it.

use crate::call::{Attribute, Recording, What};
use crate::tree::{Kind, Node, NodeId, Tree};

/// Carries out a call. What changes nothing that a tree holds, as syncs, changes nothing here.
pub fn apply(tree: &mut Tree, what: &What) {
    match what {
        What::Create {
            dir,
            name,
            node,
            kind,
            mode,
            owner,
        } => {
            tree.insert(*node, Node::new(kind.clone(), *mode, *owner));
            tree.set_name(*dir, name, Some(*node));
        }
        What::CreateUnnamed { node, mode, owner } => {
            tree.insert(*node, Node::new(Kind::File, *mode, *owner));
        }
        What::Link { node, dir, name } => tree.set_name(*dir, name, Some(*node)),
        What::Unlink { dir, name, .. } => tree.set_name(*dir, name, None),
        What::Rename {
            from,
            to,
            node,
            replaced,
            exchange,
        } => {
            tree.set_name(from.0, &from.1, replaced.filter(|_| *exchange));
            tree.set_name(to.0, &to.1, Some(*node));
        }
        What::Write {
            node,
            offset,
            data,
            size_before,
        } => {
            tree.set_size(*node, (*size_before).max(offset + data.len() as u64));
            tree.write(*node, *offset, data);
        }
        What::Truncate { node, size, .. } => tree.set_size(*node, *size),
        What::Allocate {
            node,
            offset,
            len,
            zero,
            size,
            ..
        } => {
            if *zero {
                tree.zero(*node, *offset, *len);
            }
            tree.set_size(*node, *size);
        }
        What::SetAttribute { node, attribute } => set_attribute(tree, *node, attribute),
        What::Sync { .. } | What::SyncAll | What::Acknowledge(_) | What::Failed { .. } => {}
    }
}

fn set_attribute(tree: &mut Tree, node: NodeId, attribute: &Attribute) {
    tree.edit(node, |node| match attribute {
        Attribute::Mode(mode) => node.mode = *mode,
        Attribute::Owner(user, group) => node.owner = (*user, *group),
        Attribute::Xattr(name, Some(value)) => {
            node.xattrs.insert(name.clone(), value.clone());
        }
        Attribute::Xattr(name, None) => {
            node.xattrs.remove(name);
        }
    });
}

/// The tree that the program left behind.
pub fn complete(recording: &Recording) -> Tree {
    let mut tree = recording.start.clone();
    for call in &recording.calls {
        apply(&mut tree, &call.what);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;
    use base::Bytes;

    fn create(tree: &mut Tree, name: &[u8], node: u64, content: &'static [u8]) {
        let node = NodeId(node);
        let create = What::Create {
            dir: ROOT,
            name: name.into(),
            node,
            kind: Kind::File,
            mode: 0o644,
            owner: (0, 0),
        };
        apply(tree, &create);
        let write = What::Write {
            node,
            offset: 0,
            data: Bytes::from_static(content),
            size_before: 0,
        };
        apply(tree, &write);
    }

    fn content(tree: &Tree, path: &[u8]) -> Option<Vec<u8>> {
        Some(tree.node(tree.find(path)?)?.content())
    }

    #[test]
    fn calls_change_what_a_program_sees() {
        let mut tree = Tree::default();
        create(&mut tree, b"a", 1, b"first");
        create(&mut tree, b"b", 2, b"second");
        let rename = |exchange| What::Rename {
            from: (ROOT, b"b".to_vec()),
            to: (ROOT, b"a".to_vec()),
            node: NodeId(2),
            replaced: Some(NodeId(1)),
            exchange,
        };
        let mut exchanged = tree.clone();
        apply(&mut exchanged, &rename(true));
        assert_eq!(content(&exchanged, b"b").as_deref(), Some(&b"first"[..]));
        apply(&mut tree, &rename(false));
        assert_eq!(content(&tree, b"a").as_deref(), Some(&b"second"[..]));
        assert_eq!(content(&tree, b"b"), None);

        let node = NodeId(2);
        let zero = What::Allocate {
            node,
            offset: 1,
            len: 2,
            zero: true,
            size: 8,
            size_before: 6,
        };
        apply(&mut tree, &zero);
        assert_eq!(content(&tree, b"a").as_deref(), Some(&b"s\0\0ond\0\0"[..]));
        let write = What::Write {
            node,
            offset: 2,
            data: Bytes::from_static(b"xy"),
            size_before: 8,
        };
        apply(&mut tree, &write);
        let cut = What::Truncate {
            node,
            size: 4,
            size_before: 8,
        };
        apply(&mut tree, &cut);
        assert_eq!(content(&tree, b"a").as_deref(), Some(&b"s\0xy"[..]));
        let attribute = Attribute::Xattr(b"user.k".to_vec(), Some(b"v".to_vec()));
        apply(&mut tree, &What::SetAttribute { node, attribute });
        assert_eq!(tree.node(node).expect("it").xattrs[&b"user.k"[..]], b"v");
        let (name, dir) = (b"a".to_vec(), ROOT);
        apply(&mut tree, &What::Unlink { dir, name, node });
        assert_eq!(content(&tree, b"a"), None);
    }
}
