//! Finds loadable modules of the guest's kernel, and the modules that each needs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where Debian's package of User Mode Linux puts them, by release.
const OF_USER_MODE: &str = "/usr/lib/uml/modules";
/// Where all other kernels have them, by release.
const OF_OTHERS: &str = "/lib/modules";

/// The directory of a release that has modules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place(PathBuf);

/// The releases in `root` that have modules, by name.
fn releases(root: &str) -> io::Result<Vec<Place>> {
    let mut found: Vec<PathBuf> = fs::read_dir(root)
        .map_err(|e| io::Error::other(format!("{root}: {e}")))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("modules.dep").is_file())
        .collect();
    found.sort();
    Ok(found.into_iter().map(Place).collect())
}

/// The modules of User Mode Linux: those of the only release that the package brings.
///
/// # Errors
/// There are none.
pub(crate) fn of_user_mode() -> io::Result<Place> {
    let newest = releases(OF_USER_MODE)?.pop();
    newest.ok_or_else(|| io::Error::other(format!("{OF_USER_MODE} is empty")))
}

/// The modules of all other kernels that are installed.
pub(crate) fn installed() -> Vec<Place> {
    releases(OF_OTHERS).unwrap_or_default()
}

/// The modules of the kernel that runs, which is the guest's.
fn of_this_kernel() -> io::Result<Place> {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    [OF_USER_MODE, OF_OTHERS]
        .map(|root| Path::new(root).join(&*release))
        .into_iter()
        .find(|path| path.join("modules.dep").is_file())
        .map(Place)
        .ok_or_else(|| io::Error::other(format!("no modules of kernel {release}")))
}

impl Place {
    /// The release whose modules they are.
    pub fn release(&self) -> Option<&str> {
        self.0.file_name()?.to_str()
    }

    /// The file of a module and of those it needs, in the order in which they must be loaded; none
    /// for what the kernel has built in.
    ///
    /// # Errors
    /// There is no such module.
    pub fn files_of(&self, module: &str) -> io::Result<Vec<PathBuf>> {
        let list = fs::read_to_string(self.0.join("modules.dep"))?;
        let Some(files) = needed(&list, module) else {
            let built_in = fs::read_to_string(self.0.join("modules.builtin")).unwrap_or_default();
            return match is_built_in(&built_in, module) {
                true => Ok(Vec::new()),
                false => Err(io::Error::other(format!(
                    "no module {module} in {}",
                    self.0.display()
                ))),
            };
        };
        Ok(files.iter().map(|file| self.0.join(file)).collect())
    }
}

/// A line of `modules.builtin` is the file that the module would have.
fn is_built_in(list: &str, module: &str) -> bool {
    let file = format!("{module}.ko");
    list.lines()
        .any(|line| line.rsplit('/').next() == Some(&file))
}

/// A line of `modules.dep` is `file: needed...`, the last needed one first to load.
fn needed<'a>(list: &'a str, module: &str) -> Option<Vec<&'a str>> {
    let (file, rest) = list
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(file, _)| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.split_once(".ko")
                .is_some_and(|(stem, _)| stem == module)
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
    let place = of_this_kernel()?;
    let softdep = fs::read_to_string(place.0.join("modules.softdep"))?;
    let alias = fs::read_to_string(place.0.join("modules.alias"))?;
    for before in wanted_before(&softdep, &alias, module) {
        // What the kernel has built in has no file.
        for path in place.files_of(&before).unwrap_or_default() {
            load_file(&path)?;
        }
    }
    place
        .files_of(module)?
        .iter()
        .try_for_each(|path| load_file(path))
}

/// `MODULE_INIT_COMPRESSED_FILE` of finit_module(2): the kernel decompresses.
const COMPRESSED: i32 = 4;

fn load_file(path: &Path) -> io::Result<()> {
    let plain = path.extension().is_some_and(|kind| kind == "ko");
    let flags = if plain { 0 } else { COMPRESSED };
    match rustix::system::finit_module(&File::open(path)?, c"", flags) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(io::Error::other(format!("{}: {e}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_has_no_file() {
        let list = "kernel/fs/ext4/ext4.ko\nkernel/fs/jbd2/jbd2.ko\n";
        assert!(is_built_in(list, "ext4") && !is_built_in(list, "xt4"));
    }

    #[test]
    fn what_a_module_needs_is_loaded_first() {
        let list = "kernel/a/top.ko: kernel/b/middle.ko kernel/b/low.ko\nkernel/b/low.ko:\n";
        let all = ["kernel/b/low.ko", "kernel/b/middle.ko", "kernel/a/top.ko"];
        assert_eq!(needed(list, "top").unwrap(), all);
        assert_eq!(needed(list, "low").unwrap(), ["kernel/b/low.ko"]);
        assert_eq!(needed(list, "to"), None);
        let packed = ["kernel/c/packed.ko.xz"];
        assert_eq!(
            needed("kernel/c/packed.ko.xz:\n", "packed").unwrap(),
            packed
        );
    }

    #[test]
    fn soft_needs_are_found_by_their_alias() {
        let softdep = "softdep f2fs pre: crypto-crc32 other\nsoftdep f2 pre: no\n";
        let alias = "alias crypto-crc32 crc32_generic\n";
        let found = wanted_before(softdep, alias, "f2fs");
        assert_eq!(found, ["crc32_generic", "other"]);
    }
}
