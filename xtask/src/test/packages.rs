//! Debian packages: says what is missing, and installs it where that is allowed. A failure is no
//! error, because suites that lack a package are skipped by name.

use super::need::{has_program, is_root};
use super::plan::{Plan, Suite};
use std::collections::BTreeSet;
use std::process::Command;

/// Prints what is missing and installs it.
pub fn provide(plan: &Plan, suites: &[&Suite], may_install: bool) {
    let missing = missing(plan, suites, has_program);
    if missing.is_empty() {
        println!("packages: all there");
        return;
    }
    let list: Vec<&str> = missing.into_iter().collect();
    println!("packages: missing {}", list.join(" "));
    if !may_install {
        println!("packages: not installed (--no-install)");
    } else if !is_root() {
        println!(
            "packages: not root; install them with: apt-get install {}",
            list.join(" ")
        );
    } else if !(apt(&["update", "-qq"]) & apt_install(&list)) {
        println!("packages: apt-get failed; the suites that need them are skipped");
    }
}

fn missing<'a>(
    plan: &'a Plan,
    suites: &[&'a Suite],
    has: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    suites
        .iter()
        .flat_map(|suite| &suite.packages)
        .filter_map(|name| plan.package(name))
        .filter(|package| !plan.provides(package, &has))
        .map(|package| package.name.as_str())
        .collect()
}

fn apt_install(packages: &[&str]) -> bool {
    let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
    args.extend(packages);
    apt(&args)
}

fn apt(args: &[&str]) -> bool {
    println!("packages: apt-get {}", args.join(" "));
    Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_chosen_suites_lack_is_missing() {
        let text = "build_budget_s = 1\n\
            [[package]]\nname = \"p1\"\nprogram = \"one\"\n\
            [[package]]\nname = \"p2\"\nprogram = \"two\"\n\
            [[package]]\nname = \"p3\"\nprogram = \"three\"\n\
            [[suite]]\nname = \"a\"\ntest = \"x\"\npackages = [\"p1\", \"p2\"]\nbudget_s = 1\ntier = 1\n\
            [[suite]]\nname = \"b\"\ntest = \"x\"\npackages = [\"p3\"]\nbudget_s = 1\ntier = 2\n";
        let plan = Plan::parse(text).unwrap();
        let chosen = plan.choose(false, &[]).unwrap();
        assert_eq!(
            missing(&plan, &chosen, |program| program == "one"),
            BTreeSet::from(["p2"])
        );
        let all = plan.choose(true, &[]).unwrap();
        assert_eq!(missing(&plan, &all, |_| false).len(), 3);
        // One that does as well is not asked for beside it.
        let either = text.replace("\"one\"", "\"one\"\nor = \"p3\"");
        let plan = Plan::parse(&either).unwrap();
        let chosen = plan.choose(false, &[]).unwrap();
        let lacks = |there: &str| missing(&plan, &chosen, |program| program == there);
        assert_eq!(lacks("three"), BTreeSet::from(["p2"]));
        assert_eq!(lacks("none"), BTreeSet::from(["p1", "p2"]));
        let unknown = text.replace("\"one\"", "\"one\"\nor = \"p4\"");
        let why = Plan::parse(&unknown).err().unwrap();
        assert!(why.contains("package p1: no package p4"), "{why}");
    }
}
