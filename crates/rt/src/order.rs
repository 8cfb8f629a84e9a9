//! Lock order, checked in debug builds: a graph of names learned from the program itself.
//!
//! An edge `a -> b` means that a task took `b` while holding `a`. A lock that would close a cycle
//! panics with the sites of all edges involved, on the first schedule that shows both orders,
//! without needing the deadlock. Unnamed locks, and two locks of one name (inode locks, ordered by
//! number), are not checked. Nor is a `try_lock`, because it does not wait.

use crate::core::Core;
use crate::task::{Held, Site};
use parking_lot::Mutex as OsMutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Where the first lock of an edge was taken, and where the second.
type Edge = (Site, Site);

/// The learned order. One per simulation, and one for the real world.
#[derive(Default)]
pub(crate) struct Graph {
    edges: BTreeMap<&'static str, BTreeMap<&'static str, Edge>>,
}

impl Graph {
    const fn new() -> Graph {
        Graph {
            edges: BTreeMap::new(),
        }
    }
    /// Learns that `name` is taken at `site` while `held` is held, or says why that is wrong.
    fn learn(&mut self, held: &Held, name: &'static str, site: Site) -> Result<(), String> {
        if held.name.is_empty() || held.name == name {
            return Ok(());
        }
        if self
            .edges
            .get(held.name)
            .is_some_and(|to| to.contains_key(name))
        {
            return Ok(());
        }
        if let Some(path) = self.path(name, held.name) {
            let mut text = format!(
                "lock order: `{name}` is taken at {site} while `{}` is held (taken at {})",
                held.name, held.site
            );
            for (from, to, (held_at, taken_at)) in path {
                let _ = write!(
                    text,
                    ", but `{to}` was taken at {taken_at} while `{from}` was held (taken at {held_at})"
                );
            }
            return Err(text);
        }
        self.edges
            .entry(held.name)
            .or_default()
            .insert(name, (held.site, site));
        Ok(())
    }
    /// The edges of a path, if there is one.
    fn path(
        &self,
        from: &'static str,
        to: &'static str,
    ) -> Option<Vec<(&'static str, &'static str, Edge)>> {
        let mut seen = BTreeSet::from([from]);
        let mut stack = vec![(from, Vec::new())];
        while let Some((node, path)) = stack.pop() {
            for (&next, &edge) in self.edges.get(node).into_iter().flatten() {
                let mut longer: Vec<_> = path.clone();
                longer.push((node, next, edge));
                if next == to {
                    return Some(longer);
                }
                if seen.insert(next) {
                    stack.push((next, longer));
                }
            }
        }
        None
    }
}

static REAL: OsMutex<Graph> = OsMutex::new(Graph::new());
thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Called before a blocking lock.
///
/// # Panics
/// If the order contradicts one seen before (debug builds).
#[inline]
pub(crate) fn before(core: Option<&Core>, name: &'static str, site: Site) {
    if cfg!(debug_assertions) && !name.is_empty() {
        check(core, name, site);
    }
}

fn check(core: Option<&Core>, name: &'static str, site: Site) {
    let learn =
        |graph: &mut Graph, held: &[Held]| held.iter().try_for_each(|h| graph.learn(h, name, site));
    let verdict = match core {
        Some(core) => {
            let held = core.task().held.borrow();
            if held.is_empty() {
                Ok(())
            } else {
                learn(&mut core.st.borrow_mut().order, &held)
            }
        }
        None => HELD
            .try_with(|held| {
                let held = held.borrow();
                if held.is_empty() {
                    Ok(())
                } else {
                    learn(&mut REAL.lock(), &held)
                }
            })
            .unwrap_or(Ok(())),
    };
    // While unwinding a second panic would abort the process and hide the first.
    if let Err(text) = verdict
        && !std::thread::panicking()
    {
        panic!("{text}");
    }
}

/// Called when a lock was taken.
#[inline]
pub(crate) fn acquired(core: Option<&Core>, addr: usize, name: &'static str, site: Site) {
    if cfg!(debug_assertions) {
        let held = Held { addr, name, site };
        match core {
            Some(core) => core.task().held.borrow_mut().push(held),
            None if name.is_empty() => {}
            None => drop(HELD.try_with(|list| list.borrow_mut().push(held))),
        }
    }
}

/// Called when a lock is given back.
#[inline]
pub(crate) fn released(core: Option<&Core>, addr: usize, name: &'static str) {
    if cfg!(debug_assertions) {
        let forget = |list: &RefCell<Vec<Held>>| {
            let mut list = list.borrow_mut();
            if let Some(i) = list.iter().rposition(|h| h.addr == addr) {
                list.remove(i);
            }
        };
        match core {
            Some(core) if core.has_task() => forget(&core.task().held),
            Some(_) => {}
            None if name.is_empty() => {}
            None => drop(HELD.try_with(forget)),
        }
    }
}
