//! Circles of files inside a crate: to understand one file of a circle, one has to read all of it.
//!
//! The compiler accepts files that name each other in a circle, so only a count keeps circles
//! small. A circle is a strongly connected component of the graph whose nodes are the files of a
//! crate's `src`, test code left out, and whose edges say "names an item of".
//!
//! - An edge leads to the file that defines the item, not to one that hands it on with `pub use`.
//! - An edge between a module and what it contains does not count: a module is told by its parts,
//!   and a part may use what surrounds it.
//! - Methods and fields are not seen, as only a compiler knows their types. The types that they
//!   belong to are named somewhere.
//! - O1: no circle has more files than `circle_files` of `tidy.toml` allows.

mod names;
mod tree;

use crate::tidy::config::Config;
use crate::{Result, workspace};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::BTreeMap;
use std::path::Path;
use tree::Tree;

/// Circles of one crate, the largest first, each with its files in order.
type Circles = Vec<Vec<String>>;

/// Checks every crate below `crates/` against the budget (circles-O1). The findings.
pub fn check() -> Result<Vec<String>> {
    let config = Config::parse(&workspace::read("tidy.toml")?)?;
    let circles = of_all_crates()?;
    Ok(judge(&circles, config.circle_files))
}

/// Prints every circle of the crates, or of one.
pub fn print(only: Option<&str>) -> Result {
    for (name, circles) in of_all_crates()? {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        for circle in circles {
            println!("{name}: {} files\n  {}", circle.len(), circle.join("\n  "));
        }
    }
    Ok(())
}

fn of_all_crates() -> Result<BTreeMap<String, Circles>> {
    let crates = workspace::root().join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|e| format!("cannot list crates/: {e}"))?;
    let mut all = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|e| format!("cannot list crates/: {e}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        all.insert(name, of_crate(&entry.path().join("src"))?);
    }
    Ok(all)
}

fn of_crate(source: &Path) -> Result<Circles> {
    let tree = Tree::read(source)?;
    Ok(circles(&tree))
}

fn circles(tree: &Tree) -> Circles {
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (from, to) in names::edges(tree) {
        if !tree.contains(from, to) && !tree.contains(to, from) {
            graph.add_edge(from, to, ());
        }
    }
    let path = |&file: &usize| tree.files[file].path.clone();
    let mut found: Circles = tarjan_scc(&graph)
        .iter()
        .filter(|files| files.len() > 1)
        .map(|files| files.iter().map(path).collect())
        .collect();
    found.iter_mut().for_each(|files| files.sort());
    found.sort_by_key(|files| (std::cmp::Reverse(files.len()), files.clone()));
    found
}

fn judge(circles: &BTreeMap<String, Circles>, allowed: usize) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, circles) in circles {
        for circle in circles.iter().filter(|circle| circle.len() > allowed) {
            findings.push(format!(
                "O1: crates/{name}: {} files name each other in a circle, {allowed} are allowed: {}",
                circle.len(),
                circle.join(", ")
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Circles {
        circles(&Tree::of(files).unwrap())
    }

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; fn f() { crate::c::g(); }"),
            ("c.rs", "pub fn g() -> super::a::A { todo() }"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn an_item_that_is_handed_on_counts_for_the_file_that_defines_it() {
        let found = of(&[
            ("lib.rs", "mod a; mod hub; pub use hub::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("hub/mod.rs", "mod b; pub use b::{B, C as D};"),
            (
                "hub/b.rs",
                "use crate::a; pub struct B(a::A); pub struct C;",
            ),
        ]);
        assert_eq!(found, [["a.rs", "hub/b.rs"]]);
    }

    #[test]
    fn a_module_and_its_parts_may_name_each_other() {
        let found = of(&[
            ("lib.rs", "mod a; pub struct Root;"),
            ("a/mod.rs", "mod b; pub use b::B; pub struct A;"),
            ("a/b.rs", "use super::A; use crate::Root; pub struct B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn what_a_macro_makes_has_a_home_too() {
        let found = of(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "words! { pub enum A { One => \"one\" } } use crate::b::B;",
            ),
            (
                "b.rs",
                "pub struct B; fn f() { matches!(x, crate::a::A::One); }",
            ),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn tests_do_not_close_a_circle() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
            ("c.rs", "use crate::a::A;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_circle_above_the_budget_is_named() {
        let circle: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let circles = BTreeMap::from([("x".to_string(), vec![circle])]);
        assert!(judge(&circles, 3).is_empty());
        let found = judge(&circles, 2);
        let wanted = "O1: crates/x: 3 files name each other in a circle, 2 are allowed: a, b, c";
        assert_eq!(found, [wanted]);
    }
}
