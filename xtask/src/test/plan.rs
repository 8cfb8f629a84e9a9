//! `tests.toml`: the list of suites, with their budgets and needs.

use super::tally::Tally;
use crate::Result;
use serde::Deserialize;
use std::fmt::Write;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seconds the compilation of all tests may take on two cores.
    pub build_budget_s: u64,
    /// Debian packages that suites may ask for.
    #[serde(default)]
    pub package: Vec<Package>,
    /// All suites, in the order in which they run.
    pub suite: Vec<Suite>,
}

/// A Debian package.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name for apt.
    pub name: String,
    /// A program of the package, which counts as installed if the search path has it.
    pub program: String,
    /// Another package that does as well where it is installed.
    pub or: Option<String>,
}

/// One suite: either the tests of a package, or a command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its name in reports and for `--only`.
    pub name: String,
    /// Runs the cargo tests of this package of the workspace.
    pub test: Option<String>,
    /// With `test`: only this target (`lib`, or the name of a program below `tests/`), or only this
    /// module of it (`it::kernel`).
    pub target: Option<String>,
    /// With `test`: all targets or modules except these, which another suite runs.
    #[serde(default)]
    pub but: Vec<String>,
    /// Arguments for the test programs, such as `--skip` or `--ignored`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Runs this command instead; `cargo xtask ...` runs in the program of this process.
    pub run: Option<Vec<String>>,
    /// What the machine must offer.
    #[serde(default)]
    pub need: Vec<Need>,
    /// It keeps one processor busy and needs nothing that others change, so it runs beside the
    /// other suites, as those with a guest do.
    #[serde(default)]
    pub beside: bool,
    /// Debian packages that the suite needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Seconds it may take on two cores, compilation not counted.
    pub budget_s: u64,
    /// 1: always; 2: only with `--long`.
    pub tier: u8,
}

impl Suite {
    /// True if it runs beside the others. A guest has one processor and often waits for its host.
    pub fn is_beside(&self) -> bool {
        self.beside || self.need.contains(&Need::Guest)
    }

    /// True if it may run in either row: it has all to itself that it reads and writes, and needs
    /// nothing of the machine.
    pub fn may_move(&self) -> bool {
        let ours = self.run.as_ref().is_none_or(|run| run[0] == "varve");
        self.is_beside() || (self.need.is_empty() && ours)
    }

    /// True if it chooses or leaves out modules of a program.
    fn by_module(&self) -> bool {
        let mut choices = self.target.iter().chain(&self.but);
        choices.any(|choice| choice.contains("::"))
    }
}

/// What a suite may need of the machine.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The super-user.
    Root,
    /// `/dev/fuse` and `fusermount3`.
    Fuse,
    /// A free loop device.
    Loop,
    /// A Linux kernel with F2FS in a guest.
    Guest,
    /// A built source tree of LTP, which a variable names.
    Ltp,
    /// A configured source tree of SQLite, which a variable names.
    SqliteSource,
    /// A built source tree of xfstests, which a variable names.
    Xfstests,
    /// FUSE over io_uring, which is on while the suite runs.
    Uring,
    /// The program mdbook.
    Mdbook,
    /// The program cargo-deny.
    CargoDeny,
    /// What programs without shared libraries are built with.
    Musl,
    /// An environment of Python with what builds a wheel.
    Python,
}

impl Plan {
    /// Whether a package is installed, or the one that does as well.
    pub fn provides(&self, package: &Package, has: impl Fn(&str) -> bool) -> bool {
        let other = package.or.as_deref().and_then(|name| self.package(name));
        has(&package.program) || other.is_some_and(|other| has(&other.program))
    }

    /// Parses the file and checks it.
    pub fn parse(text: &str) -> Result<Plan> {
        let plan: Plan = toml::from_str(text).map_err(|e| format!("tests.toml: {e}"))?;
        for package in &plan.package {
            if let Some(other) = &package.or
                && plan.package(other).is_none()
            {
                let name = &package.name;
                return Err(format!("tests.toml: package {name}: no package {other}"));
            }
        }
        for (i, suite) in plan.suite.iter().enumerate() {
            plan.check(suite)
                .map_err(|e| format!("tests.toml: suite {}: {e}", suite.name))?;
            if plan.suite[..i].iter().any(|other| other.name == suite.name) {
                return Err(format!("tests.toml: two suites are named {}", suite.name));
            }
        }
        Ok(plan)
    }

    fn check(&self, suite: &Suite) -> Result {
        match (&suite.test, &suite.run) {
            (Some(_), None) => {}
            (None, Some(run))
                if !run.is_empty()
                    && suite.args.is_empty()
                    && suite.but.is_empty()
                    && suite.target.is_none() => {}
            _ => return Err("give either `test` (with `target`, `but`, `args`) or `run`".into()),
        }
        // Its tests are named one by one, and exactly: a word would have to be a whole name.
        if suite.by_module() && suite.args.iter().any(|arg| arg != "--ignored") {
            return Err("beside a module `args` may hold `--ignored` alone".into());
        }
        if !matches!(suite.tier, 1 | 2) {
            return Err(format!("tier {} is neither 1 nor 2", suite.tier));
        }
        match suite
            .packages
            .iter()
            .find(|name| self.package(name).is_none())
        {
            Some(name) => Err(format!("package {name} has no [[package]] entry")),
            None => Ok(()),
        }
    }

    /// The package with this name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.package.iter().find(|p| p.name == name)
    }

    /// The suites to run. A name that does not exist is an error, which lists those that do.
    pub fn choose(&self, long: bool, only: &[String]) -> Result<Vec<&Suite>> {
        for name in only {
            if !self.suite.iter().any(|s| s.name == *name) {
                let names: Vec<&str> = self.suite.iter().map(|s| s.name.as_str()).collect();
                return Err(format!(
                    "no suite {name:?}; there are: {}",
                    names.join(", ")
                ));
            }
        }
        let wanted = |s: &&Suite| {
            if only.is_empty() {
                long || s.tier == 1
            } else {
                only.contains(&s.name)
            }
        };
        Ok(self.suite.iter().filter(wanted).collect())
    }

    /// Says which suites a run without `--long` leaves out. They do not count as skipped.
    pub fn name_left_out(&self, long: bool, tally: &mut Tally) {
        for suite in self.suite.iter().filter(|s| !long && s.tier > 1) {
            tally.note(format!("{}: long suite, runs with --long", suite.name));
        }
    }

    /// One line per suite.
    pub fn list(&self) -> String {
        let mut text = String::from("tier budget  suite\n");
        for s in &self.suite {
            let what = match (&s.test, &s.run) {
                (Some(test), _) => format!("cargo test -p {test}"),
                (None, run) => run.iter().flatten().cloned().collect::<Vec<_>>().join(" "),
            };
            let _ = writeln!(
                text,
                "{:>4} {:>5}s  {:<16} {what}",
                s.tier, s.budget_s, s.name
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(suites: &str) -> Result<Plan> {
        Plan::parse(&format!("build_budget_s = 1\n{suites}"))
    }

    fn suite(name: &str, rest: &str) -> String {
        format!("[[suite]]\nname = \"{name}\"\nbudget_s = 1\n{rest}\n")
    }

    #[test]
    fn the_committed_file_is_valid() {
        Plan::parse(&crate::workspace::read("tests.toml").unwrap()).unwrap();
    }

    #[test]
    fn a_suite_is_either_a_test_or_a_command() {
        assert!(plan(&suite("a", "tier = 1\ntest = \"x\"")).is_ok());
        assert!(plan(&suite("a", "tier = 1\nrun = [\"x\"]\nneed = [\"loop\"]")).is_ok());
        for bad in [
            "tier = 1",
            "tier = 1\nrun = []",
            "tier = 1\ntest = \"x\"\nrun = [\"x\"]",
            "tier = 1\nrun = [\"x\"]\nargs = [\"y\"]",
            "tier = 1\nrun = [\"x\"]\nbut = [\"y\"]",
            "tier = 1\ntest = \"x\"\ntarget = \"it::a\"\nargs = [\"y\"]",
            "tier = 3\ntest = \"x\"",
            "tier = 1\ntest = \"x\"\npackages = [\"unknown\"]",
            "tier = 1\ntest = \"x\"\nneed = [\"luck\"]",
        ] {
            assert!(plan(&suite("a", bad)).is_err(), "{bad}");
        }
        let twice = suite("a", "tier = 1\ntest = \"x\"").repeat(2);
        assert!(plan(&twice).is_err_and(|e| e.contains("two suites")));
    }

    #[test]
    fn tiers_and_names_choose() {
        let text = suite("a", "tier = 1\ntest = \"x\"") + &suite("b", "tier = 2\ntest = \"y\"");
        let plan = plan(&text).unwrap();
        let names = |long, only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            plan.choose(long, &only)
                .map(|s| s.iter().map(|s| s.name.clone()).collect::<Vec<_>>())
        };
        assert_eq!(names(false, &[]).unwrap(), ["a"]);
        assert_eq!(names(true, &[]).unwrap(), ["a", "b"]);
        assert_eq!(names(false, &["b"]).unwrap(), ["b"]);
        assert_eq!(
            names(false, &["c"]).unwrap_err(),
            "no suite \"c\"; there are: a, b"
        );
    }
}
