//! Walks through a tree of an image, in the order of names.

use super::shown;
use rig::{Attr, FileKind, FsError, FsResult, Volume};
use std::collections::BTreeSet;

/// One file of any kind.
pub struct Node {
    /// Path in the image.
    pub path: Vec<u8>,
    /// What `lstat` tells.
    pub attr: Attr,
}

/// Entries of a directory without the two dots, by name; each is looked at when its turn comes.
pub fn entries<'v>(
    volume: &'v Volume,
    dir: &[u8],
) -> FsResult<impl Iterator<Item = FsResult<Node>> + use<'v>> {
    let mut names: Vec<Vec<u8>> = (volume.vfs.readdir(dir)?.into_iter())
        .map(|entry| entry.name)
        .filter(|name| name != b"." && name != b"..")
        .collect();
    names.sort();
    if let Some(bad) = names
        .iter()
        .find(|n| n.is_empty() || n.contains(&b'/') || n.contains(&0))
    {
        // It would lead out of the directory, here and on the host.
        let (bad, dir) = (shown(bad), shown(dir));
        return Err(FsError::corrupt(format!(
            "directory {dir}: the name `{bad}` cannot be"
        )));
    }
    let dir = dir.to_vec();
    Ok(names.into_iter().map(move |name| {
        let path = join(&dir, &name);
        let attr = volume.vfs.lstat(&path)?;
        Ok(Node { path, attr })
    }))
}

/// `dir/name`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component.
pub fn name_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    let path = &path[..end];
    let start = path.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
    &path[start..]
}

/// Everything below `dir`, a directory before what is in it. A directory with two names is damage, and an error: a walk through an image in
/// which directories lead to each other would not end.
pub fn below<E: From<FsError>>(
    volume: &Volume,
    dir: &[u8],
    found: &mut dyn FnMut(&Node) -> Result<(), E>,
) -> Result<(), E> {
    let mut seen = BTreeSet::from([volume.vfs.stat(dir)?.ino]);
    let mut open = vec![entries(volume, dir)?];
    while let Some(level) = open.last_mut() {
        let Some(node) = level.next() else {
            open.pop();
            continue;
        };
        let node = node?;
        found(&node)?;
        if node.attr.kind == FileKind::Dir {
            if !seen.insert(node.attr.ino) {
                let (ino, path) = (node.attr.ino, shown(&node.path));
                return Err(FsError::corrupt(format!(
                    "{path}: directory {ino} has another name already"
                ))
                .into());
            }
            open.push(entries(volume, &node.path)?);
        }
    }
    Ok(())
}
