//! What a recording means, found out before it runs: which calls each call waits for, how long the
//! application thinks, and what is left at the end.
//!
//! The calls are followed through a model of the names. So a recording that contradicts itself is
//! refused with the number of the call, and does not fail for that in the middle of a run.

use super::THREADS_MAX;
use crate::RunError;
use crate::recording::{Call, Op, Recording};
use crate::workload::replay_spec::{Pace, Pacing};
use base::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Largest size of a file: `loff_t`.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// What is known of a recording before it runs. A lane is the calls of one thread.
pub(super) struct Plan {
    /// The calls of each thread, in the order in which the threads first appear.
    pub lanes: Vec<Vec<u32>>,
    /// The lane of each call.
    pub lane_of: Vec<u32>,
    /// The application's own time before each call, since the start of the call before it; zero
    /// unless `pace=busy`.
    pub pauses: Vec<Nanos>,
    /// The calls of other lanes whose end a call waits for, as a range of `needed`.
    ranges: Vec<(u32, u32)>,
    needed: Vec<u32>,
    /// Sizes of the files that have a name at the end.
    pub sizes: BTreeMap<String, u64>,
    /// Number of names in each directory at the end; the root, which has names of others, not.
    pub entries: BTreeMap<String, usize>,
    /// The last call that changed each name: of one that is there at the end the call that made it,
    /// of another the one that removed it.
    pub named: BTreeMap<String, u32>,
    /// Names that the recording begins by an open that makes or empties them, so that it can be run
    /// again where they are there.
    pub begun: BTreeSet<String>,
}

impl Plan {
    pub(super) fn of(recording: &Recording, pacing: &Pacing) -> Result<Plan, RunError> {
        let calls = &recording.calls;
        let wrong = |n: usize, why: String| {
            let (name, kind) = (&recording.name, calls[n].op.kind());
            RunError::Recording(format!("call {} of {name} ({kind}): {why}", n + 1))
        };
        if u32::try_from(calls.len()).is_err() {
            let (name, most) = (&recording.name, u32::MAX);
            let why = format!("{name} has {} calls; at most {most} can run", calls.len());
            return Err(RunError::Recording(why));
        }
        let mut plan = Plan {
            lanes: Vec::new(),
            lane_of: Vec::new(),
            pauses: Vec::new(),
            ranges: Vec::new(),
            needed: Vec::new(),
            sizes: BTreeMap::new(),
            entries: BTreeMap::new(),
            named: BTreeMap::new(),
            begun: BTreeSet::new(),
        };
        plan.take_lanes(calls).map_err(RunError::Recording)?;
        plan.pauses = own_time(calls, pacing);
        let mut world = World::at_first(recording).map_err(|why| {
            RunError::Recording(format!("{} before its first call: {why}", recording.name))
        })?;
        for (n, call) in calls.iter().enumerate() {
            if n > 0 && call.at < calls[n - 1].at {
                return Err(wrong(n, "it began before the call before it".into()));
            }
            let needs = world.follow(n as u32, plan.lane_of[n], &call.op);
            world.lately.insert(plan.lane_of[n], n as u32);
            let needs = needs.map_err(|why| wrong(n, why))?;
            let from = plan.needed.len() as u32;
            let lane_of = &plan.lane_of;
            let mut others: Vec<u32> = needs
                .into_iter()
                .filter(|c| lane_of[*c as usize] != lane_of[n])
                .collect();
            others.sort_unstable();
            others.dedup();
            plan.needed.append(&mut others);
            plan.ranges.push((from, plan.needed.len() as u32));
        }
        plan.named = std::mem::take(&mut world.name_changed);
        (plan.sizes, plan.entries) = world.end();
        plan.begun = begun(recording);
        Ok(plan)
    }

    /// Calls of other lanes whose end `call` waits for; none for a number beyond the last call.
    pub(super) fn needs(&self, call: u32) -> &[u32] {
        match self.ranges.get(call as usize) {
            Some((from, to)) => &self.needed[*from as usize..*to as usize],
            None => &[],
        }
    }

    fn take_lanes(&mut self, calls: &[Call]) -> Result<(), String> {
        let mut lane_of_thread = BTreeMap::new();
        for (n, call) in calls.iter().enumerate() {
            let fresh = lane_of_thread.len();
            let lane = *lane_of_thread.entry(call.thread).or_insert(fresh);
            if lane == self.lanes.len() {
                if lane == THREADS_MAX {
                    return Err(format!(
                        "call {}: more than {THREADS_MAX} threads; each is a task here",
                        n + 1
                    ));
                }
                self.lanes.push(Vec::new());
            }
            self.lanes[lane].push(n as u32);
            self.lane_of.push(lane as u32);
        }
        Ok(())
    }
}

/// Files whose first mention is an open that makes them.
fn begun(recording: &Recording) -> BTreeSet<String> {
    let mut seen: BTreeSet<&str> = recording.files.iter().map(|(path, _)| &**path).collect();
    let mut begun = BTreeSet::new();
    for call in &recording.calls {
        match &call.op {
            Op::Open { path, create, .. } if seen.insert(path) && *create => {
                begun.insert(path.clone());
            }
            Op::Rename { to, .. } => drop(seen.insert(to)),
            _ => {}
        }
    }
    begun
}

/// The application's own time before each call. After a sync of the same thread the time since the
/// previous call is the recording device's, and is left out; calls that other threads made
/// meanwhile do not change that.
pub fn own_time(calls: &[Call], pacing: &Pacing) -> Vec<Nanos> {
    let mut last_of_thread: BTreeMap<u32, bool> = BTreeMap::new();
    let mut before = None;
    let mut pauses = Vec::with_capacity(calls.len());
    for call in calls {
        let after_sync = last_of_thread.insert(call.thread, call.op.is_sync());
        let span = before.map_or(Nanos::ZERO, |at: Nanos| {
            Nanos(call.at.0.saturating_sub(at.0))
        });
        before = Some(call.at);
        let own = pacing.pace == Pace::Busy && after_sync != Some(true) && span <= pacing.idle;
        pauses.push(match own {
            true => pacing.think(span),
            false => Nanos::ZERO,
        });
    }
    pauses
}

/// Number of a file, which stays while names change.
type FileId = usize;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(FileId),
}

/// An open file or directory.
struct Opened {
    target: Target,
    /// The call that opened it, then the last use by each lane.
    uses: BTreeMap<u32, u32>,
    by: u32,
}

#[derive(Clone)]
enum Target {
    File(FileId),
    Dir(String),
}

/// The model of names and sizes, with the last call that changed each.
#[derive(Default)]
struct World {
    names: BTreeMap<String, Node>,
    entries: BTreeMap<String, usize>,
    sizes: Vec<u64>,
    open: BTreeMap<u32, Opened>,
    closed: base::Set<u32>,
    name_changed: BTreeMap<String, u32>,
    dir_changed: BTreeMap<String, u32>,
    file_changed: Vec<Option<u32>>,
    /// The last call of each lane since the last sync of the whole volume.
    lately: BTreeMap<u32, u32>,
}

const ROOT: &str = "/";

/// The directory that a name lies in.
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => ROOT,
        Some(at) => &path[..at],
    }
}

fn checked(path: &str) -> Result<(), String> {
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if path == ROOT || parts.is_some_and(|mut parts| parts.all(plain)) {
        return Ok(());
    }
    Err(format!("`{path}` is no absolute path of plain names"))
}

impl World {
    fn at_first(recording: &Recording) -> Result<World, String> {
        let mut world = World::default();
        world.names.insert(ROOT.into(), Node::Dir);
        for folder in recording.folders.iter().filter(|f| *f != ROOT) {
            world.add(folder, Node::Dir)?;
        }
        for (path, bytes) in &recording.files {
            if *bytes > OFFSET_MAX {
                return Err(format!("{path} of {bytes} bytes is too large"));
            }
            let node = world.fresh_file(*bytes);
            world.add(path, node)?;
        }
        Ok(world)
    }

    fn fresh_file(&mut self, bytes: u64) -> Node {
        self.sizes.push(bytes);
        self.file_changed.push(None);
        Node::File(self.sizes.len() - 1)
    }

    fn add(&mut self, path: &str, node: Node) -> Result<(), String> {
        checked(path)?;
        let dir = parent(path);
        if self.names.get(dir) != Some(&Node::Dir) {
            return Err(format!("{path}: there is no directory {dir}"));
        }
        if self.names.contains_key(path) {
            return Err(format!("{path} is there already"));
        }
        self.names.insert(path.into(), node);
        *self.entries.entry(dir.into()).or_default() += 1;
        if node == Node::Dir {
            self.entries.insert(path.into(), 0);
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<Node, String> {
        let node = self.names.remove(path);
        let node = node.ok_or_else(|| format!("{path} is not there"))?;
        if let Some(entries) = self.entries.get_mut(parent(path)) {
            *entries -= 1;
        }
        Ok(node)
    }

    /// Applies the call to the model, and returns the calls that it waits for.
    fn follow(&mut self, call: u32, lane: u32, op: &Op) -> Result<Vec<u32>, String> {
        match op {
            Op::Open { .. } => self.opens(call, lane, op),
            Op::Write {
                handle,
                offset,
                bytes,
            } => {
                let end = offset.checked_add(u64::from(*bytes));
                let end = end.filter(|end| *end <= OFFSET_MAX);
                let end = end.ok_or_else(|| format!("{bytes} bytes at {offset}: no such place"))?;
                let (file, needs) = self.changes(call, lane, handle.0)?;
                if *bytes > 0 {
                    self.sizes[file] = self.sizes[file].max(end);
                }
                Ok(needs)
            }
            Op::Truncate { handle, size } => {
                if *size > OFFSET_MAX {
                    return Err(format!("{size} bytes are too many"));
                }
                let (file, needs) = self.changes(call, lane, handle.0)?;
                self.sizes[file] = *size;
                Ok(needs)
            }
            Op::Read { handle, offset, .. } => {
                if *offset > OFFSET_MAX - u64::from(u32::MAX) {
                    return Err(format!("offset {offset}: no such place"));
                }
                let (target, needs) = self.uses(call, lane, handle.0)?;
                match target {
                    Target::File(file) => Ok(needs.chain(self.file_changed[file])),
                    Target::Dir(path) => Err(format!("{path} is a directory")),
                }
            }
            Op::Sync { handle, .. } => {
                let (target, needs) = self.uses(call, lane, handle.0)?;
                let changed = match target {
                    Target::File(file) => self.file_changed[file],
                    Target::Dir(path) => self.dir_changed.get(&path).copied(),
                };
                Ok(needs.chain(changed))
            }
            // The calls before an earlier one of these are what that waited for.
            Op::SyncAll => Ok(std::mem::take(&mut self.lately).into_values().collect()),
            Op::Close { handle } => {
                self.uses(call, lane, handle.0)?;
                let opened = self.open.remove(&handle.0).expect("it was used just now");
                self.closed.insert(handle.0);
                Ok(opened.uses.into_values().collect())
            }
            Op::Unlink { path } => match self.remove(path)? {
                Node::File(_) => Ok(self.renamed(call, path)),
                Node::Dir => Err(format!("{path} is a directory")),
            },
            Op::Rename { from, to } => self.renames(call, from, to),
            Op::Mkdir { path } => {
                self.add(path, Node::Dir)?;
                Ok(self.renamed(call, path))
            }
            Op::Rmdir { path } => {
                if self.entries.get(path).is_none_or(|n| *n > 0) {
                    return Err(format!("{path} is no empty directory"));
                }
                self.remove(path)?;
                self.entries.remove(path);
                let inside = self.dir_changed.remove(path);
                Ok(self.renamed(call, path).chain(inside))
            }
        }
    }

    fn opens(&mut self, call: u32, lane: u32, op: &Op) -> Result<Vec<u32>, String> {
        let Op::Open {
            handle,
            path,
            create,
            truncate,
            directory,
        } = op
        else {
            unreachable!("called for opens only");
        };
        let handle = handle.0;
        if self.open.contains_key(&handle) || self.closed.contains(&handle) {
            return Err(format!("handle {handle} was opened before"));
        }
        let mut needs: Vec<u32> = self.name_changed.get(path).copied().into_iter().collect();
        needs.extend(self.name_changed.get(parent(path)));
        let target = match (self.names.get(path), directory) {
            (Some(Node::Dir), true) => Target::Dir(path.clone()),
            (Some(Node::File(file)), false) => Target::File(*file),
            (Some(Node::Dir), false) => return Err(format!("{path} is a directory")),
            (Some(Node::File(_)), true) => return Err(format!("{path} is no directory")),
            (None, false) if *create => {
                let node = self.fresh_file(0);
                self.add(path, node)?;
                needs.extend(self.renamed(call, path));
                Target::File(self.sizes.len() - 1)
            }
            (None, _) => return Err(format!("{path} is not there")),
        };
        if let (Target::File(file), true) = (&target, *truncate) {
            needs.extend(self.file_changed[*file].replace(call));
            self.sizes[*file] = 0;
        }
        let uses = [(lane, call)].into();
        let opened = Opened {
            target,
            uses,
            by: call,
        };
        self.open.insert(handle, opened);
        Ok(needs)
    }

    fn renames(&mut self, call: u32, from: &str, to: &str) -> Result<Vec<u32>, String> {
        checked(to)?;
        let node = match self.names.get(from) {
            Some(Node::File(file)) => Node::File(*file),
            Some(Node::Dir) => return self.renames_dir(call, from, to),
            None => return Err(format!("{from} is not there")),
        };
        if from == to {
            return Ok(self.renamed(call, from));
        }
        match self.names.get(to) {
            Some(Node::Dir) => return Err(format!("{to} is a directory")),
            Some(Node::File(_)) => drop(self.remove(to)?),
            None => {}
        }
        self.remove(from)?;
        self.add(to, node)?;
        let mut needs = self.renamed(call, from);
        needs.extend(self.renamed(call, to));
        Ok(needs)
    }

    /// A directory gets another name with all that is below it. It waits for the last change of
    /// each name below, and later calls below wait for it.
    fn renames_dir(&mut self, call: u32, from: &str, to: &str) -> Result<Vec<u32>, String> {
        if from == to {
            return Ok(self.renamed(call, from));
        }
        let inside = format!("{from}/");
        if to.starts_with(&inside) {
            return Err(format!("{to} is below {from}"));
        }
        match self.names.get(to) {
            Some(Node::File(_)) => return Err(format!("{to} is no directory")),
            Some(Node::Dir) if self.entries.get(to).is_some_and(|n| *n > 0) => {
                return Err(format!("{to} is no empty directory"));
            }
            Some(Node::Dir) => drop(self.remove(to)?),
            None => {}
        }
        let below = self.names.range(inside.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&inside));
        let below: Vec<String> = below.map(|(path, _)| path.clone()).collect();
        let mut needs = Vec::new();
        let mut moved = Vec::new();
        for path in below.iter().rev().map(|path| &**path).chain([from]) {
            let node = self.remove(path)?;
            self.entries.remove(path);
            needs.extend(self.name_changed.remove(path));
            needs.extend(self.dir_changed.remove(path));
            moved.push((format!("{to}{}", &path[from.len()..]), node));
        }
        for (path, node) in moved.into_iter().rev() {
            self.add(&path, node)?;
            self.name_changed.insert(path, call);
        }
        for opened in self.open.values_mut() {
            if let Target::Dir(path) = &mut opened.target
                && (path == from || path.starts_with(&inside))
            {
                *path = format!("{to}{}", &path[from.len()..]);
            }
        }
        needs.extend(self.renamed(call, from));
        needs.extend(self.renamed(call, to));
        Ok(needs)
    }

    /// A name came, went or changed its file. It waits for the last change of the name, of its
    /// directory, and of the directory's own name.
    fn renamed(&mut self, call: u32, path: &str) -> Vec<u32> {
        let dir = parent(path);
        let mut needs: Vec<u32> = self.name_changed.get(dir).copied().into_iter().collect();
        needs.extend(self.name_changed.insert(path.into(), call));
        needs.extend(self.dir_changed.insert(dir.into(), call));
        needs.retain(|n| *n != call);
        needs
    }

    /// A handle is used. It waits for its open.
    fn uses(&mut self, call: u32, lane: u32, handle: u32) -> Result<(Target, Vec<u32>), String> {
        let opened = self.open.get_mut(&handle);
        let opened = opened.ok_or_else(|| format!("handle {handle} is not open"))?;
        opened.uses.insert(lane, call);
        Ok((opened.target.clone(), vec![opened.by]))
    }

    /// A file is changed. It waits for the last change of it.
    fn changes(&mut self, call: u32, lane: u32, handle: u32) -> Result<(FileId, Vec<u32>), String> {
        let (target, needs) = self.uses(call, lane, handle)?;
        match target {
            Target::File(file) => Ok((file, needs.chain(self.file_changed[file].replace(call)))),
            Target::Dir(path) => Err(format!("{path} is a directory")),
        }
    }

    fn end(self) -> (BTreeMap<String, u64>, BTreeMap<String, usize>) {
        let files = self
            .names
            .into_iter()
            .filter_map(|(path, node)| match node {
                Node::File(file) => Some((path, self.sizes[file])),
                Node::Dir => None,
            });
        let mut entries = self.entries;
        entries.remove(ROOT);
        (files.collect(), entries)
    }
}

/// Appends an element if there is one.
trait And {
    fn chain(self, more: Option<u32>) -> Self;
}

impl And for Vec<u32> {
    fn chain(mut self, more: Option<u32>) -> Self {
        self.extend(more);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Handle;

    fn call(ms: u64, thread: u32, op: Op) -> Call {
        let at = Nanos::from_millis(ms);
        Call { at, thread, op }
    }

    fn open(handle: u32, path: &str) -> Op {
        Op::Open {
            handle: Handle(handle),
            path: path.into(),
            create: true,
            truncate: false,
            directory: false,
        }
    }

    fn write(handle: u32, offset: u64, bytes: u32) -> Op {
        let handle = Handle(handle);
        Op::Write {
            handle,
            offset,
            bytes,
        }
    }

    fn sync(handle: u32) -> Op {
        let (handle, data_only) = (Handle(handle), false);
        Op::Sync { handle, data_only }
    }

    fn recording(calls: Vec<Call>) -> Recording {
        let name = "test".into();
        Recording {
            name,
            calls,
            ..Recording::default()
        }
    }

    fn plan(calls: Vec<Call>) -> Result<Plan, String> {
        Plan::of(&recording(calls), &Pacing::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_call_waits_for_what_it_depends_on_in_other_threads() {
        let plan = plan(vec![
            call(0, 7, open(0, "/a")),
            call(1, 8, write(0, 0, 10)),
            call(2, 7, sync(0)),
            call(3, 8, write(0, 5, 10)),
            call(4, 9, open(1, "/b")),
            call(5, 9, Op::Close { handle: Handle(0) }),
            call(
                6,
                8,
                Op::Rename {
                    from: "/b".into(),
                    to: "/a".into(),
                },
            ),
        ])
        .unwrap();
        assert_eq!(plan.lanes, [vec![0, 2], vec![1, 3, 6], vec![4, 5]]);
        assert_eq!(plan.needs(1), [0], "the open");
        assert_eq!(plan.needs(2), [1], "the write before the sync");
        assert_eq!(plan.needs(3), [0], "a write does not wait for a sync");
        assert_eq!(plan.needs(4), [0], "the last change of the directory");
        assert_eq!(plan.needs(5), [2, 3], "a close waits for all uses");
        assert_eq!(plan.needs(6), [0, 4], "both names");
        assert_eq!(plan.sizes, [("/a".to_string(), 0)].into());
    }

    #[test]
    fn a_directory_moves_with_what_is_below_it() {
        let mkdir = |path: &str| Op::Mkdir { path: path.into() };
        let rename = |from: &str, to: &str| Op::Rename {
            from: from.into(),
            to: to.into(),
        };
        let calls = vec![
            call(0, 1, mkdir("/a")),
            call(1, 2, mkdir("/a/b")),
            call(2, 3, open(0, "/a/b/f")),
            call(3, 1, rename("/a", "/c")),
            call(4, 2, open(1, "/c/b/f")),
            call(5, 3, write(0, 0, 9)),
        ];
        let plan = plan(calls).unwrap();
        assert_eq!(plan.needs(3), [1, 2], "the last changes below");
        assert!(plan.needs(4).contains(&3), "a call below waits for it");
        assert_eq!(plan.sizes, [("/c/b/f".to_string(), 9)].into());
        let entries = [("/c".to_string(), 1), ("/c/b".to_string(), 1)];
        assert_eq!(plan.entries, entries.into());
        let inside = super::tests::plan(vec![
            call(0, 1, mkdir("/a")),
            call(1, 1, rename("/a", "/a/b")),
        ]);
        assert!(inside.err().unwrap().contains("is below"));
    }

    #[test]
    fn own_time_is_neither_idle_nor_the_devices() {
        let calls = [
            call(0, 1, open(0, "/a")),
            call(3, 1, write(0, 0, 1)),
            call(24, 1, write(0, 0, 1)),
            call(25, 1, sync(0)),
            call(30, 2, open(1, "/b")),
            call(31, 1, write(0, 0, 1)),
            call(31, 2, write(1, 0, 1)),
        ];
        let ms = |pacing: &Pacing| -> Vec<u64> {
            let pauses = own_time(&calls, pacing);
            pauses.iter().map(|p| p.0 / 1_000_000).collect()
        };
        let busy = Pacing::default();
        // 21 ms are above idle; the sixth call ends a sync of its thread.
        assert_eq!(ms(&busy), [0, 3, 0, 1, 5, 0, 0]);
        let think_milli = 2000;
        let slow = Pacing {
            think_milli,
            ..busy
        };
        assert_eq!(ms(&slow), [0, 6, 0, 2, 10, 0, 0]);
        let pace = Pace::None;
        assert_eq!(ms(&Pacing { pace, ..busy }), [0; 7]);
    }

    #[test]
    fn contradictions_are_refused_with_the_number_of_the_call() {
        let fail = |calls, what: &str| {
            let e = plan(calls).err().expect("it is refused");
            assert!(e.contains(what), "{e}");
        };
        fail(vec![call(0, 1, write(3, 0, 1))], "call 1 of test (write)");
        fail(vec![call(0, 1, open(0, "a"))], "no absolute path");
        fail(vec![call(0, 1, open(0, "/../a"))], "no absolute path");
        fail(vec![call(0, 1, open(0, "/d/a"))], "no directory /d");
        let path = "/a".to_string();
        fail(vec![call(0, 1, Op::Unlink { path })], "/a is not there");
        let opened = call(5, 1, open(0, "/a"));
        let twice = vec![opened.clone(), opened.clone()];
        fail(twice, "call 2 of test (open): handle 0 was opened");
        let far = call(5, 1, write(0, u64::MAX, 2));
        fail(vec![opened.clone(), far], "no such place");
        let early = call(4, 1, sync(0));
        fail(vec![opened, early], "began before");
        let many = (0..=THREADS_MAX as u32).map(|n| call(0, n, open(n, &format!("/{n}"))));
        fail(many.collect(), "more than 1024 threads");
    }
}
