//! Parts of an exploration, joined, are what the whole exploration found.

use varve_crash::campaign::{BATCH, Explored, FINDINGS_MAX, Reach, explore, explore_part};
use varve_crash::case::{Case, Volumes};
use varve_crash::joined::joined;
use varve_crash::part::Part;

fn case(scheme: &str, workload: &str) -> Case {
    Case {
        scheme: scheme.into(),
        device: "spec:emmc".into(),
        workload: workload.into(),
        seed: 3,
        scheduler: None,
        mutant: None,
    }
}

/// The whole, and its parts.
fn explored(case: &Case, count: u32) -> (Explored, Vec<Explored>) {
    let setup = case.setup(&mut Volumes::default()).unwrap();
    let reach = Reach::default();
    let whole = explore(&setup, &reach, BATCH, &mut |_| {}).unwrap();
    let part = |index| {
        let part = Part { index, count };
        explore_part(&setup, &reach, part, BATCH, &mut |_| {}).unwrap()
    };
    (whole, (0..count).map(part).collect())
}

#[test]
fn the_parts_of_a_case_are_the_whole() {
    for scheme in ["jbd2", "none"] {
        let workload = "mix:tasks=1,ops=12";
        let (whole, parts) = explored(&case(scheme, workload), 3);
        assert!(
            parts.iter().all(|part| part.judged > whole.judged / 6),
            "{scheme}: each part has its share of {}",
            whole.judged
        );
        if scheme == "none" {
            // The first ones of the whole are neither those of one part nor all.
            assert!(
                whole.violations as usize > FINDINGS_MAX,
                "{}",
                whole.violations
            );
            assert!(parts.iter().all(|part| !part.findings.is_empty()));
        }
        let text = |of: &Explored| serde_json::to_string(of).unwrap();
        assert_eq!(text(&joined(parts).unwrap()), text(&whole), "{scheme}");
    }
}

#[test]
fn parts_of_different_explorations_are_refused() {
    let (_, mut parts) = explored(&case("jbd2", "script:create /foo; fsync /foo"), 2);
    parts[1].enumerated += 1;
    let why = joined(parts).unwrap_err();
    assert!(why.contains("other states"), "{why}");
    assert!(joined(Vec::new()).is_err());
}
