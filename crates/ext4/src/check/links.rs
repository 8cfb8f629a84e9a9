//! Checks the tree of directories: link counts, parents, and that everything can be reached from
//! the root.

use super::finding::Kind;
use super::state::{File, State};
use super::volume::Volume;
use ondisk::ext4::{FileType, ROOT_INO, RoCompat};
use std::collections::BTreeSet;

/// The most links that a directory can count; with more it says 1.
const LINKS_MAX: u32 = 65000;

/// Checks names and parents of all inodes in use.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>) {
    let root = ROOT_INO.0;
    if state
        .files
        .get(&root)
        .is_none_or(|file| file.kind != FileType::Directory)
    {
        return state.at_inode(root, Kind::Root, "the root is no directory in use");
    }
    let many = volume.sb.ro_compat().has(RoCompat::DIR_NLINK);
    let mut bad = Vec::new();
    for (&ino, file) in &state.files {
        let is_dir = file.kind == FileType::Directory;
        let links = u32::from(file.links);
        if let Some((kind, what)) = held_fault(file, state.values.get(&ino)) {
            bad.extend(what.map(|what| (ino, kind, what)));
        } else if !file.nameless
            && ino != root
            && (file.names == 0 || (is_dir && file.parent.is_none()))
        {
            bad.push((ino, Kind::Unattached, "no name leads to it".to_string()));
        } else if !file.nameless
            && links != file.names
            && !(is_dir && many && links == 1 && file.names > LINKS_MAX)
        {
            let what = format!("{links} links noted, {} found", file.names);
            bad.push((ino, Kind::LinkCount, what));
        } else if file.nameless && file.names > 0 && file.names != links {
            // An old journal may be a file with a name; an orphan has no link to count.
            let what = format!("{links} links noted, {} found; it needs none", file.names);
            bad.push((ino, Kind::LinkCount, what));
        }
        let above = if ino == root { Some(root) } else { file.parent };
        if is_dir && file.dotdot.is_some() && above.is_some() && file.dotdot != above {
            let (dotdot, above) = (file.dotdot.unwrap_or(0), above.unwrap_or(0));
            let what = format!("'..' leads to inode {dotdot}, its name is in {above}");
            bad.push((ino, Kind::DirDots, what));
        }
    }
    for (ino, kind, what) in bad {
        state.at_inode(ino, kind, what);
    }
    check_reachable(state);
}

/// The fault, if any, in the count of references that an inode for an attribute's value stores.
/// `None` for other inodes, and for one that no attribute refers to: that one needs a name.
fn held_fault(file: &File, references: Option<&u64>) -> Option<(Kind, Option<String>)> {
    let (holds, references) = (file.holds?, *references?);
    let wrong = holds.references != references && !holds.uncounted;
    let what = format!(
        "{} attributes noted that have their value in it, {references} found",
        holds.references
    );
    Some((Kind::XattrReferences, wrong.then_some(what)))
}

/// Finds directories that cannot be reached from the root: one with a parent is part of a circle,
/// or lies below something without a name.
fn check_reachable(state: &mut State<'_>) {
    let mut reached = BTreeSet::from([ROOT_INO.0]);
    let mut lost = Vec::new();
    let mut seen = BTreeSet::new();
    for (&ino, file) in &state.files {
        if file.kind != FileType::Directory || reached.contains(&ino) {
            continue;
        }
        // ext4-check-C2: each step of a walk adds to `seen`, and no directory is passed by two
        // walks.
        let mut way = Vec::new();
        let mut at = ino;
        let arrived = loop {
            if reached.contains(&at) {
                break true;
            }
            if !seen.insert(at) {
                break false;
            }
            way.push(at);
            match state.files.get(&at).and_then(|file| file.parent) {
                Some(parent) => at = parent,
                None => break false,
            }
        };
        if arrived {
            reached.extend(way);
        } else if file.parent.is_some() {
            lost.push(ino);
        }
    }
    for ino in lost {
        state.at_inode(ino, Kind::DirUnreachable, "cannot be reached from the root");
    }
}
