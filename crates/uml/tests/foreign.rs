//! Every recipe can be made, and its images hold what they are for.

use varve_uml::Uml;
use varve_uml::foreign::{RECIPES, SHORT};

/// What a script calls.
#[test]
fn uml_guest() {
    varve_uml::guest::hook();
}

fn make(range: std::ops::Range<usize>) {
    for recipe in &RECIPES[range] {
        let dir = tempfile::tempdir().expect("a directory");
        let uml = || Uml::new(&["uml_guest", "--exact", "--nocapture"]);
        let made = recipe.make(uml, dir.path());
        let made = made.unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
        assert!(!made.is_empty());
        for image in &made {
            assert!(image.image.exists());
            println!("{}: {} entries", image.name, image.tree.0.len());
        }
        let last = made.last().expect("one at least");
        assert!(
            last.tree.0.len() > 20,
            "{}: {:?}",
            last.name,
            last.tree.0.keys()
        );
    }
}

#[test]
fn short() {
    make(0..SHORT);
}

#[test]
#[ignore = "a boot or two for each"]
fn all() {
    make(SHORT..RECIPES.len());
}
