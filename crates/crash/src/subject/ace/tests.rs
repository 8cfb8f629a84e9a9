//! The enumeration is complete, without repetitions, and in one order.

use super::*;
use crate::subject::Spec;
use std::collections::BTreeSet;

#[test]
fn sequences_are_distinct_possible_and_in_the_same_order_each_time() {
    let bound = AceBound::for_length(1);
    let all: Vec<String> = sequences(1, &bound).collect();
    assert_eq!(all, sequences(1, &bound).collect::<Vec<_>>());
    assert_eq!(all.len(), count(1, &bound));
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    for text in &all {
        let script = FileScript::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(script.to_string(), *text);
    }
}

#[test]
fn every_core_operation_and_every_persistence_operation_occurs() {
    let bound = AceBound::for_length(1);
    let all: Vec<String> = sequences(1, &bound).collect();
    for word in [
        "create /foo; fsync /foo",
        "create /foo; sync; write /foo 0+4k; fdatasync /foo",
        "create /foo; write /foo 0+8k; write /foo 4k+4k; fsync /foo",
        "link /foo /A/foo; fsync /foo",
        "symlink target /A/foo; syncdir /A",
        "create /foo; create /bar; sync; rename /foo /bar; fsync /bar",
        "mkdir /A; rename /A /B; syncdir /B",
        "unlink /foo; syncdir /",
        "rmdir /A; syncdir /",
        "truncate /foo 2560; sync",
        "create /foo; create /bar; fsync /bar",
        "write /foo 0+8k; falloc /foo 8k+8k keep; fdatasync /foo",
        "create /foo; setxattr /foo x vvvvvvvv; sync; removexattr /foo x; fsync /foo",
    ] {
        assert!(all.iter().any(|s| s.ends_with(word)), "{word}");
    }
}

#[test]
fn known_bugs_of_two_operations_are_among_the_sequences() {
    // generic_376 and generic_039 without what they do not need, and rename_root_to_sub with its
    // sync before and after.
    let pairs: BTreeSet<String> = sequences(2, &AceBound::for_length(2)).collect();
    for text in [
        "create /foo; rename /foo /bar; create /foo; fsync /foo",
        "create /foo; link /foo /bar; sync; unlink /bar; create /bar; fsync /bar",
        "create /foo; write /foo 0+4k; fsync /foo; mkdir /A; rename /foo /A/foo; fsync /A/foo",
    ] {
        assert!(pairs.contains(text), "{text}");
    }
}

/// Exchanges two names everywhere.
fn swapped(text: &str, a: &str, b: &str) -> String {
    text.replace(a, "\u{1}").replace(b, a).replace('\u{1}', b)
}

/// All texts that differ from `text` only in which of two equal names is which; with directory
/// renames the names of `A` and `B` change together.
fn images(text: &str) -> Vec<String> {
    let moves_dir = text.contains("rename /A /B") || text.contains("rename /B /A");
    let root = |t: &str| swapped(&t.replace(" /", " ~/"), "~/foo", "~/bar").replace('~', "");
    let in_dir = |t: &str, d: &str| swapped(t, &format!("{d}/foo"), &format!("{d}/bar"));
    let mut all = vec![text.to_string()];
    let mut add = |f: &dyn Fn(&str) -> String| {
        let more: Vec<String> = all.iter().map(|t| f(t)).collect();
        all.extend(more);
    };
    add(&root);
    match moves_dir {
        true => add(&|t| in_dir(&in_dir(t, "/A"), "/B")),
        false => {
            add(&|t| in_dir(t, "/A"));
            add(&|t| in_dir(t, "/B"));
        }
    }
    add(&|t| swapped(t, "/A", "/B"));
    all
}

#[test]
fn of_mirror_images_exactly_one_is_kept() {
    let bound = AceBound {
        core: &[Core::Rename, Core::Unlink],
        variants: true,
        settled: false,
        between: Points {
            fsync: false,
            fdatasync: false,
            parent: false,
            sibling: false,
            ..AceBound::for_length(1).between
        },
        end: Points {
            parent: false,
            ..AceBound::for_length(2).end
        },
        ..AceBound::for_length(1)
    };
    for length in 1..=2 {
        let kept: BTreeSet<String> = sequences(length, &bound).collect();
        let mut all = Sequences::new(length, &bound);
        all.mirrored = true;
        let mut images_of_kept = 0;
        let mut every = 0;
        for ops in all {
            let text = FileScript::new(vec![ops]).unwrap().to_string();
            assert!(images(&text).iter().any(|t| kept.contains(t)), "{text}");
            every += 1;
        }
        for text in &kept {
            let images: BTreeSet<String> = images(text).into_iter().collect();
            images_of_kept += images.len();
            let twins = images.iter().filter(|t| kept.contains(*t)).count();
            assert_eq!(twins, 1, "{text}");
        }
        assert_eq!(images_of_kept, every);
    }
}

#[test]
fn one_sequence_has_a_text_of_its_own() {
    let all: Vec<String> = sequences(1, &AceBound::for_length(1)).collect();
    let spec = Spec::parse("ace:1#7").unwrap();
    assert_eq!(spec.to_string(), format!("script:{}", all[7]));
    assert_eq!(Spec::parse("ace:1,bound=complete#7").unwrap(), spec);
    for (text, column, words) in [
        ("ace:1", 5, "LENGTH#NUMBER"),
        ("ace:4#1", 5, "1 to 3"),
        ("ace:1#x", 7, "not a number"),
        ("ace:1#99999", 7, "sequences of length 1"),
        ("ace:2,bound=all#1", 7, "complete, pairs"),
        ("ace:2,every=0#1", 7, "N from 1"),
        ("ace:2,bound=few,x#1", 17, "bound=NAME or every=N"),
    ] {
        let e = Spec::parse(text).unwrap_err();
        assert_eq!((e.line, e.column), (1, column), "{e}");
        assert!(e.what.contains(words), "{e}");
    }
}

#[test]
fn a_text_may_stand_for_many_sequences() {
    let all: Vec<String> = sequences(1, &AceBound::for_length(1)).collect();
    let expanded = crate::subject::expand("ace:1").unwrap();
    assert_eq!(expanded.len(), all.len());
    let third = crate::subject::expand("ace:1,every=3").unwrap();
    assert_eq!(
        third,
        expanded.iter().step_by(3).cloned().collect::<Vec<_>>()
    );
    let known = crate::subject::expand("known:all").unwrap();
    assert_eq!(known.len(), crate::subject::known::ALL.len());
    assert!(crate::subject::expand("ace:9").is_err());
}

#[test]
fn the_count_is_that_of_the_documentation() {
    // docs/use/cli.md.
    assert_eq!(count(1, &AceBound::for_length(1)), 621);
}
