//! What this machine offers to the suites, found out once before they run.

use super::plan::{Need, Plan, Suite};
use crate::book;
use crate::conformance::{ltp, xfstests};
use crate::deny;
use crate::dist;
use crate::python;
use crate::tools::Tool;
use crate::uring;
use std::path::Path;
use std::process::{Command, Stdio};

/// What was found of each need: `None` if it is met, otherwise the reason why it is not.
#[derive(Default)]
pub struct Machine {
    root: Option<String>,
    fuse: Option<String>,
    free_loop: Option<String>,
    guest: Option<String>,
    ltp: Option<String>,
    sqlite_source: Option<String>,
    xfstests: Option<String>,
    uring: Option<String>,
    mdbook: Option<String>,
    cargo_deny: Option<String>,
    musl: Option<String>,
    python: Option<String>,
}

impl Machine {
    /// Looks for what the suites need. A guest is booted only if one of them wants it,
    /// because that takes seconds.
    pub fn probe(suites: &[&Suite]) -> Machine {
        let root = (!is_root()).then(|| "not running as root".to_string());
        Machine {
            fuse: probe_fuse(),
            free_loop: root.clone().or_else(probe_loop),
            guest: suites
                .iter()
                .any(|suite| suite.need.contains(&Need::Guest))
                .then(guest::lacks)
                .flatten(),
            ltp: ltp::source(None).err(),
            sqlite_source: sqlite_source(),
            xfstests: xfstests::source(None).err(),
            uring: uring::lacks(),
            python: suites
                .iter()
                .any(|suite| suite.need.contains(&Need::Python))
                .then(python::lacks)
                .flatten(),
            mdbook: lacks(&book::MDBOOK, book::LACK),
            cargo_deny: lacks(&deny::CARGO_DENY, deny::LACK),
            musl: dist::lacks(),
            root,
        }
    }

    /// Why the suite cannot run here; `None` if it can.
    pub fn lacks(&self, plan: &Plan, suite: &Suite) -> Option<String> {
        let need = suite.need.iter().find_map(|need| match need {
            Need::Root => self.root.clone(),
            Need::Fuse => self.fuse.clone(),
            Need::Loop => self.free_loop.clone(),
            Need::Guest => self.guest.clone(),
            Need::Ltp => self.ltp.clone(),
            Need::SqliteSource => self.sqlite_source.clone(),
            Need::Xfstests => self.xfstests.clone(),
            Need::Uring => self.uring.clone(),
            Need::Mdbook => self.mdbook.clone(),
            Need::CargoDeny => self.cargo_deny.clone(),
            Need::Musl => self.musl.clone(),
            Need::Python => self.python.clone(),
        });
        need.or_else(|| {
            let missing = suite
                .packages
                .iter()
                .filter_map(|name| plan.package(name))
                .find(|package| !plan.provides(package, has_program))?;
            Some(format!("Debian package {} is not installed", missing.name))
        })
    }
}

/// Whether we are the super-user.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program lies in the search path or in the directories of the system administrator.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(extra)
        .any(|directory| directory.join(name).is_file())
}

/// Why a program that cargo installs cannot be used.
fn lacks(tool: &Tool, why: &str) -> Option<String> {
    tool.program().is_none().then(|| why.to_string())
}

fn probe_fuse() -> Option<String> {
    if let Err(e) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        return Some(format!("/dev/fuse does not open: {e}"));
    }
    (!has_program("fusermount3")).then(|| "no program fusermount3".into())
}

fn probe_loop() -> Option<String> {
    if !Path::new("/dev/loop-control").exists() {
        return Some("no /dev/loop-control".into());
    }
    let found = Command::new("losetup")
        .arg("--find")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    (!found).then(|| "losetup finds no free loop device".into())
}

/// Why SQLite's own tests cannot run.
fn sqlite_source() -> Option<String> {
    let named = std::env::var_os("VARVE_SQLITE_SOURCE").map(std::path::PathBuf::from);
    match named {
        Some(tree) if tree.join("Makefile").is_file() => None,
        Some(tree) => Some(format!("{} was not configured", tree.display())),
        None => Some("VARVE_SQLITE_SOURCE names no source tree of SQLite".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(root: Option<&str>) -> Machine {
        Machine {
            root: root.map(str::to_string),
            fuse: None,
            free_loop: None,
            guest: None,
            ltp: None,
            sqlite_source: None,
            xfstests: None,
            uring: None,
            mdbook: None,
            cargo_deny: None,
            musl: None,
            python: None,
        }
    }

    #[test]
    fn a_lack_is_named() {
        let text = "build_budget_s = 1\n\
            [[package]]\nname = \"odd\"\nprogram = \"no-such-program-anywhere\"\n\
            [[suite]]\nname = \"a\"\ntest = \"x\"\nneed = [\"root\"]\nbudget_s = 1\ntier = 1\n\
            [[suite]]\nname = \"b\"\ntest = \"x\"\npackages = [\"odd\"]\nbudget_s = 1\ntier = 1\n";
        let plan = Plan::parse(text).unwrap();
        let lacks = |m: &Machine, i: usize| m.lacks(&plan, &plan.suite[i]);
        assert_eq!(lacks(&machine(None), 0), None);
        assert_eq!(lacks(&machine(Some("no")), 0).as_deref(), Some("no"));
        let odd = "Debian package odd is not installed";
        assert_eq!(lacks(&machine(None), 1).as_deref(), Some(odd));
        assert!(has_program("sh"));
    }
}
