//! The pages of results tell the counts of the last full run, whose `counts.md` is kept beside
//! what is published.

/// A paper: its page, and the `counts.md` of its last full run.
const PAPERS: [(&str, &str); 2] = [
    (
        include_str!("../../../../docs/results/paper-emmc.md"),
        include_str!("../../src/emmc/counts.md"),
    ),
    (
        include_str!("../../../../docs/results/paper-jftl.md"),
        include_str!("../../src/jftl/counts.md"),
    ),
];

/// The counts of a kind: rows within, and rows outside.
fn of_kind(counts: &str, kind: &str) -> (u64, u64) {
    let line = counts
        .lines()
        .find(|line| line.starts_with(&format!("| {kind} |")));
    let cells = line.unwrap_or_else(|| panic!("no {kind} in {counts}"));
    let mut cells = cells.split('|').skip(2).map(|cell| cell.trim().parse());
    let mut next = || cells.next().and_then(Result::ok).expect("a count");
    (next(), next())
}

#[test]
fn pages_have_the_counts_of_the_last_full_run() {
    for (page, counts) in PAPERS {
        assert!(
            page.contains(counts.trim_end()),
            "not in its page:\n{counts}"
        );
        let (within, outside) = of_kind(counts, "predicted");
        let sentence = format!("{within} of {} predictions agree", within + outside);
        assert!(page.contains(&sentence), "not in its page: {sentence}");
    }
}
