//! Recordings made by hand, and trees read by paths.

use std::collections::BTreeMap;
use varve_program::call::{Attribute, Call, Recording, What, Who};
use varve_program::state::{Bound, Model, State};
use varve_program::tree::{Kind, Node, NodeId, ROOT, Tree};

/// A program that makes one call after the other.
pub struct Script {
    recording: Recording,
    /// The tree with all that was done.
    live: Tree,
    next: u64,
}

impl Script {
    pub fn new() -> Script {
        Script {
            recording: Recording {
                start: Tree::default(),
                calls: Vec::new(),
            },
            live: Tree::default(),
            next: 1,
        }
    }

    /// A file that is there from the begin.
    pub fn with_file(mut self, name: &str, content: &[u8]) -> Script {
        let id = self.new_id();
        for tree in [&mut self.recording.start, &mut self.live] {
            tree.insert(id, Node::new(Kind::File, 0o644, (0, 0)));
            tree.set_name(ROOT, name.as_bytes(), Some(id));
            tree.set_size(id, content.len() as u64);
            tree.write(id, 0, content);
        }
        self
    }

    fn new_id(&mut self) -> NodeId {
        self.next += 1;
        NodeId(self.next)
    }

    pub fn recording(&self) -> Recording {
        self.recording.clone()
    }

    pub fn len(&self) -> usize {
        self.recording.calls.len()
    }

    fn push(&mut self, path: &str, what: What) -> &mut Script {
        self.recording.calls.push(Call {
            who: Who {
                process: 3,
                thread: 4,
                program: "test".into(),
            },
            what,
            path: path.into(),
            stack: Vec::new(),
        });
        self
    }

    pub fn node(&self, path: &str) -> NodeId {
        let found = self.live.find(path.as_bytes());
        found.unwrap_or_else(|| panic!("no file {path}"))
    }

    pub fn has(&self, path: &str) -> bool {
        self.live.find(path.as_bytes()).is_some()
    }

    /// Whether both are names of one node.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        let find = |path: &str| self.live.find(path.as_bytes());
        one == other || find(one).is_some_and(|node| find(other) == Some(node))
    }

    fn place(&self, path: &str) -> (NodeId, Vec<u8>) {
        match path.rsplit_once('/') {
            Some((dir, name)) => (self.node(dir), name.into()),
            None => (ROOT, path.into()),
        }
    }

    fn make(&mut self, path: &str, kind: Kind) -> &mut Script {
        let (dir, name) = self.place(path);
        let node = self.new_id();
        let mode = match kind {
            Kind::Symlink(_) => 0o777,
            _ => 0o644,
        };
        self.live
            .insert(node, Node::new(kind.clone(), mode, (0, 0)));
        self.live.set_name(dir, &name, Some(node));
        self.push(
            path,
            What::Create {
                dir,
                name,
                node,
                kind,
                mode,
                owner: (0, 0),
            },
        )
    }

    pub fn create(&mut self, path: &str) -> &mut Script {
        self.make(path, Kind::File)
    }

    pub fn mkdir(&mut self, path: &str) -> &mut Script {
        self.make(path, Kind::Dir)
    }

    pub fn symlink(&mut self, target: &str, path: &str) -> &mut Script {
        self.make(path, Kind::Symlink(target.into()))
    }

    pub fn link(&mut self, old: &str, new: &str) -> &mut Script {
        let (node, (dir, name)) = (self.node(old), self.place(new));
        self.live.set_name(dir, &name, Some(node));
        self.push(&format!("{old}, {new}"), What::Link { node, dir, name })
    }

    pub fn unlink(&mut self, path: &str) -> &mut Script {
        let (node, (dir, name)) = (self.node(path), self.place(path));
        self.live.set_name(dir, &name, None);
        self.push(path, What::Unlink { dir, name, node })
    }

    pub fn rename(&mut self, old: &str, new: &str) -> &mut Script {
        let (from, to, node) = (self.place(old), self.place(new), self.node(old));
        let replaced = self.live.find(new.as_bytes());
        self.live.set_name(from.0, &from.1, None);
        self.live.set_name(to.0, &to.1, Some(node));
        self.push(
            &format!("{old}, {new}"),
            What::Rename {
                from,
                to,
                node,
                replaced,
                exchange: false,
            },
        )
    }

    pub fn write(&mut self, path: &str, offset: u64, data: &[u8]) -> &mut Script {
        let node = self.node(path);
        let size_before = self.live.node(node).expect("it").size;
        let end = offset + data.len() as u64;
        self.live.set_size(node, size_before.max(end));
        self.live.write(node, offset, data);
        self.push(
            path,
            What::Write {
                node,
                offset,
                data: data.to_vec().into(),
                size_before,
            },
        )
    }

    pub fn append(&mut self, path: &str, data: &[u8]) -> &mut Script {
        let size = self.live.node(self.node(path)).expect("it").size;
        self.write(path, size, data)
    }

    pub fn truncate(&mut self, path: &str, size: u64) -> &mut Script {
        let node = self.node(path);
        let size_before = self.live.node(node).expect("it").size;
        self.live.set_size(node, size);
        self.push(
            path,
            What::Truncate {
                node,
                size,
                size_before,
            },
        )
    }

    pub fn zero(&mut self, path: &str, offset: u64, len: u64) -> &mut Script {
        let node = self.node(path);
        let size = self.live.node(node).expect("it").size;
        self.live.zero(node, offset, len);
        self.push(
            path,
            What::Allocate {
                node,
                offset,
                len,
                zero: true,
                size,
                size_before: size,
            },
        )
    }

    /// Gives a range space; it reads as before.
    pub fn allocate(&mut self, path: &str, offset: u64, len: u64, keep: bool) -> &mut Script {
        let node = self.node(path);
        let size_before = self.live.node(node).expect("it").size;
        let size = match keep {
            true => size_before,
            false => size_before.max(offset + len),
        };
        self.live.set_size(node, size);
        self.push(
            path,
            What::Allocate {
                node,
                offset,
                len,
                zero: false,
                size,
                size_before,
            },
        )
    }

    /// Sets an extended attribute of the name space `user`, or removes it.
    pub fn xattr(&mut self, path: &str, name: &str, value: Option<&[u8]>) -> &mut Script {
        let node = self.node(path);
        let name = format!("user.{name}").into_bytes();
        let attribute = Attribute::Xattr(name, value.map(<[u8]>::to_vec));
        self.push(path, What::SetAttribute { node, attribute })
    }

    pub fn chmod(&mut self, path: &str, mode: u16) -> &mut Script {
        let node = self.node(path);
        self.live.edit(node, |node| node.mode = mode);
        let attribute = Attribute::Mode(mode);
        self.push(path, What::SetAttribute { node, attribute })
    }

    fn sync(&mut self, path: &str, data_only: bool, failed: Option<i32>) -> &mut Script {
        let node = self.node(path);
        self.push(
            path,
            What::Sync {
                node,
                data_only,
                failed,
            },
        )
    }

    /// `fsync`; of the root with an empty path.
    pub fn fsync(&mut self, path: &str) -> &mut Script {
        self.sync(path, false, None)
    }

    pub fn fdatasync(&mut self, path: &str) -> &mut Script {
        self.sync(path, true, None)
    }

    pub fn failed_fsync(&mut self, path: &str) -> &mut Script {
        self.sync(path, false, Some(5))
    }

    pub fn sync_all(&mut self) -> &mut Script {
        self.push("", What::SyncAll)
    }

    pub fn ack(&mut self, text: &str) -> &mut Script {
        self.push("", What::Acknowledge(text.into()))
    }
}

/// The content of a file; `None`: no such file.
pub fn content(tree: &Tree, path: &str) -> Option<Vec<u8>> {
    let node = tree.node(tree.find(path.as_bytes())?)?;
    Some(node.content())
}

pub const BOUND: Bound = Bound {
    states_max: 20_000,
    total_max: u64::MAX,
    parts_max: 2,
};

/// All states.
pub fn states(model: &dyn Model, recording: &Recording, bound: &Bound) -> Vec<State> {
    let mut states = Vec::new();
    let explored = model.explore(recording, bound, &mut |state| {
        states.push(state);
        true
    });
    let counts = explored.expect("the recording can be followed");
    assert_eq!(counts.states, states.len() as u64);
    states
}

/// What all states show of a tree, told by a function, with how often.
pub fn shown<T: Ord>(
    model: &dyn Model,
    recording: &Recording,
    show: impl Fn(&State) -> T,
) -> BTreeMap<T, usize> {
    let mut shown = BTreeMap::new();
    for state in states(model, recording, &BOUND) {
        *shown.entry(show(&state)).or_default() += 1;
    }
    shown
}
