//! Finds loadable modules of the guest's kernel, and the modules that each needs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where Debian's package puts them, by release.
const PLACE: &str = "/usr/lib/uml/modules";

/// The directory of a release that has modules: the only one that the package brings.
fn release() -> io::Result<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(PLACE)
        .map_err(|e| io::Error::other(format!("{PLACE}: {e}")))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("modules.dep").is_file())
        .collect();
    found.sort();
    found
        .pop()
        .ok_or_else(|| io::Error::other(format!("{PLACE} is empty")))
}

/// The file of a module and of those it needs, in the order in which they must be loaded.
pub fn path_of(module: &str) -> io::Result<Vec<PathBuf>> {
    let release = release()?;
    let list = fs::read_to_string(release.join("modules.dep"))?;
    let files = needed(&list, module)
        .ok_or_else(|| io::Error::other(format!("no module {module} in {}", release.display())))?;
    Ok(files.iter().map(|file| release.join(file)).collect())
}

/// A line of `modules.dep` is `file: needed...`, the last needed one first to load.
fn needed<'a>(list: &'a str, module: &str) -> Option<Vec<&'a str>> {
    let (file, rest) = list
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(file, _)| {
            Path::new(file)
                .file_stem()
                .is_some_and(|stem| stem == module)
        })?;
    let mut files: Vec<&str> = rest.split_whitespace().rev().collect();
    files.push(file);
    Some(files)
}

/// The modules that should be there before `module`, though none of their symbols is used: lines
/// `softdep MODULE pre: NAME...` of `modules.softdep`, names as in the lines `alias NAME MODULE` of
/// `modules.alias`.
fn wanted_before(softdep: &str, alias: &str, module: &str) -> Vec<String> {
    let head = format!("softdep {module} pre:");
    let names = softdep
        .lines()
        .filter_map(|line| line.strip_prefix(&head))
        .flat_map(str::split_whitespace)
        .take_while(|&name| name != "post:");
    names
        .map(|name| {
            let head = format!("alias {name} ");
            let real = alias.lines().find_map(|line| line.strip_prefix(&head));
            real.unwrap_or(name).to_string()
        })
        .collect()
}

/// Loads a module and the modules that it needs; those already loaded stay.
pub fn load(module: &str) -> io::Result<()> {
    let release = release()?;
    let softdep = fs::read_to_string(release.join("modules.softdep"))?;
    let alias = fs::read_to_string(release.join("modules.alias"))?;
    for before in wanted_before(&softdep, &alias, module) {
        // What the kernel has built in has no file.
        for path in path_of(&before).unwrap_or_default() {
            load_file(&path)?;
        }
    }
    path_of(module)?.iter().try_for_each(|path| load_file(path))
}

fn load_file(path: &Path) -> io::Result<()> {
    match rustix::system::finit_module(&File::open(path)?, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(io::Error::other(format!("{}: {e}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_loaded_first() {
        let list = "kernel/a/top.ko: kernel/b/middle.ko kernel/b/low.ko\nkernel/b/low.ko:\n";
        let all = ["kernel/b/low.ko", "kernel/b/middle.ko", "kernel/a/top.ko"];
        assert_eq!(needed(list, "top").unwrap(), all);
        assert_eq!(needed(list, "low").unwrap(), ["kernel/b/low.ko"]);
        assert_eq!(needed(list, "to"), None);
    }

    #[test]
    fn soft_needs_are_found_by_their_alias() {
        let softdep = "softdep f2fs pre: crypto-crc32 other\nsoftdep f2 pre: no\n";
        let alias = "alias crypto-crc32 crc32_generic\n";
        let found = wanted_before(softdep, alias, "f2fs");
        assert_eq!(found, ["crc32_generic", "other"]);
    }
}
