//! The page of a comparison: the answers first, then contents, then tables and plots. What explains
//! them is folded. Equal results give equal bytes.

mod figures;
mod tables;

use super::notes;
use super::shell::whole;
use crate::results::{Results, Run};
use crate::verdict;
use figures::{figures, over_time};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// A part of the page: its title, what explains it, and its content.
struct Part {
    title: &'static str,
    words: &'static str,
    content: Markup,
}

const fn part(title: &'static str, words: &'static str, content: Markup) -> Part {
    Part {
        title,
        words,
        content,
    }
}

/// Makes the page of a comparison.
pub fn page(results: &Results) -> String {
    let of_first = |field: fn(&Run) -> &str| results.runs.first().map_or("", field);
    let (workload, timing) = (of_first(|r| &r.workload), of_first(|r| &r.timing));
    let parts = parts(&results.runs);
    let body = html! {
        h1 { "Varve: " (results.command) }
        @for answer in verdict::answers(&results.runs) {
            p.verdict { b { (answer.asked) } " " (answer.answer) }
        }
        @for note in notes::told(&results.runs) { p { b { "Note: " } (note) } }
        @if let Some(why) = &results.incomplete { p { b { "Incomplete: " (why) } } }
        p {
            "Workload " code { (workload) } " on device profile " code { (results.profile) }
            ", timing " code { (timing) } ", seed " (results.seed) "."
        }
        p { "Made by " code { (results.reproduce) } }
        nav aria-label="Contents" {
            h2 { "Contents" }
            ul { @for (n, part) in parts.iter().enumerate() {
                li { a href={ "#s" (n) } { (part.title) } }
            } }
        }
        @for (n, part) in parts.iter().enumerate() {
            section {
                h2 id={ "s" (n) } { (part.title) }
                (part.content)
                details { summary { "What this says" } p { (part.words) } }
            }
        }
    };
    whole(&format!("Varve: {}", results.command), "", &body)
}

/// The parts that the runs have something for.
fn parts(runs: &[Run]) -> Vec<Part> {
    let mut parts = vec![part("Summary", SUMMARY, tables::summary(runs))];
    if super::kinds(runs).len() > 1 {
        parts.push(part(
            "Rates by kind of operation",
            KINDS,
            tables::kinds(runs),
        ));
    }
    let drawn = html! { @for (caption, plot) in &figures(runs) { (plot.figure(caption)) } };
    parts.push(part("The schemes side by side", SIDE_BY_SIDE, drawn));
    if runs.iter().any(|run| run.over_time.is_some()) {
        parts.push(part("Over time", OVER_TIME, over_time(runs)));
    }
    if runs.iter().any(|run| run.causes.is_some()) {
        parts.push(part("What causes the wear", CAUSES, tables::causes(runs)));
    }
    parts.extend([
        part(
            "fsync latency, microseconds",
            LATENCY,
            tables::latencies(runs),
        ),
        part(
            "One fsync in its parts, mean microseconds",
            PARTS,
            tables::parts(runs),
        ),
        part("Blocks written, by class", BLOCKS, tables::blocks(runs)),
        part(
            "Device commands and flash operations",
            DEVICE,
            tables::device(runs),
        ),
        part(
            "Waits, milliseconds of virtual time",
            WAITS,
            tables::waits(runs),
        ),
    ]);
    parts
}

const SUMMARY: &str = "Times are virtual: they are those of the modelled device. Gains are over the first row. Blocks have 4 KiB, and journal share is the part of them that \
                       went into the journal. A program writes a page of the chips; life is how long the device lasts if the run goes on day and night.";
const KINDS: &str = "Operations of a kind per second of virtual time, over the time of the operations of that kind; gains are over the first row.";
const SIDE_BY_SIDE: &str =
    "The mean of all operations or fsyncs of a run. Below each plot stand its values.";
const OVER_TIME: &str = "How long calls took, and above it when commits ended, checkpoints wrote, and the flash moved or erased what it holds: the darker, the more. \
                         All runs have axes of the same range.";
const CAUSES: &str = "All bytes that went to the device, by what sent them. Data is content of files; metadata is log and metadata that a sync waited for, and belongs \
                      to that sync; later is what nobody waited for, in proportion to the metadata. Erases due are in proportion to the bytes.";
const LATENCY: &str =
    "Nearest rank in a histogram of three significant digits; mean and longest are exact.";
const PARTS: &str = "Where the time of an fsync goes; the parts add up to the mean. Data is content of files, log the blocks of the transaction, flush the command that empties the \
                     cache of the device, commit-record what makes the transaction whole.";
const BLOCKS: &str = "Blocks of 4 KiB that the host sent, by the class that their sender gave them. Home is metadata at its place in the file system.";
const DEVICE: &str = "Commands of the host, then what the chips did. Programmed over written is relative to what the scheme itself wrote: compare schemes by programs and \
                      erases due. Host TB until worn is what can still be written before all rated erases are used.";
const WAITS: &str = "Time that tasks waited, by cause. Tasks wait at the same time, so that the sum may be longer than the run.";

/// Name of a run in tables and plots.
fn name(run: &Run) -> String {
    format!("{}/{}", run.fs, run.scheme)
}

fn per_op(run: &Run, count: Option<u64>) -> f64 {
    count.unwrap_or(0) as f64 / run.ops.max(1) as f64
}

fn classes(runs: &[Run]) -> BTreeSet<String> {
    runs.iter().flat_map(|r| r.blocks.keys().cloned()).collect()
}

/// A run as a comparison could have it, for tests.
#[cfg(test)]
pub(crate) fn some_run(scheme: &str) -> Run {
    tests::some_run(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Causes};
    use crate::results::{Device, Flash, SCHEMA};
    use crate::wear;
    use blockdev::DeviceStats;

    pub(super) fn some_run(scheme: &str) -> Run {
        Run {
            fs: "ext4".into(),
            scheme: scheme.into(),
            device: Device {
                profile: "p".into(),
                commands: DeviceStats {
                    flushes: 4,
                    ..DeviceStats::default()
                },
            },
            timing: "t".into(),
            workload: "sqlite".into(),
            virtual_seconds: 2.0,
            ops: 10,
            ops_per_s: 5.0,
            ops_by_kind: Default::default(),
            commits: 10,
            fsync_us: [("data".to_string(), 100.0), ("flush".to_string(), 900.0)].into(),
            latency_us: crate::results::LatencyTable {
                fsync_cdf: vec![(100.0, 0.5), (900.0, 1.0)],
                ..Default::default()
            },
            blocks: [("data".to_string(), 30), ("home".to_string(), 10)].into(),
            journal_block_ratio: 0.0,
            flash: Some(Flash {
                programs: 44,
                write_amplification: 1.25,
                ..Flash::default()
            }),
            wear: None,
            causes: Some(Causes {
                file: vec![Cause {
                    name: "/data/<a>.db".into(),
                    data_bytes: 4096,
                    metadata_bytes: 8192,
                    later_bytes: 4096,
                    syncs: 2,
                }],
                ..Causes::default()
            }),
            erased: None,
            energy_j: None,
            over_time: None,
            waits_us: [("flush".to_string(), 1500.0)].into(),
            phases_s: Default::default(),
            remapped_blocks: 0,
            remap_copies: 0,
            mb_per_s: None,
            notes: Vec::new(),
            trace_hash: "0".into(),
        }
    }

    fn results() -> Results {
        let runs = vec![some_run("jbd2"), some_run("<b>none")];
        Results {
            schema: SCHEMA,
            command: "compare".into(),
            seed: 1,
            profile: "p".into(),
            reproduce: "varve compare".into(),
            incomplete: None,
            runs,
        }
    }

    #[test]
    fn same_results_same_page_and_self_contained() {
        let page = super::page(&results());
        assert_eq!(page, super::page(&results()));
        assert_eq!(page.matches("<figure class=\"plot\"").count(), 5);
        assert!(page.contains("ext4/jbd2") && page.contains("1.25"));
        assert!(
            !page.contains("<b>none") && !page.contains(" src=\"") && !page.contains("@import")
        );
    }

    #[test]
    fn the_life_under_the_first_scheme_and_under_the_best_is_told() {
        let mut results = results();
        assert!(!super::page(&results).contains("worn out"));
        for (run, years) in results.runs.iter_mut().zip([6.1, 11.4]) {
            run.wear = Some(wear::Wear {
                rated_erases: 3000,
                blocks: 500,
                years: Some(years),
                basis: wear::Basis::Long,
                ..wear::Wear::default()
            });
        }
        let told = wear::sentence(&results.runs).unwrap();
        let first = "(each of its 500 blocks erased 3000 times) in 6.1 years with ext4/jbd2";
        assert!(told.contains(first), "{told}");
        assert!(
            told.contains("and in 11.4 years with ext4/<b>none"),
            "{told}"
        );
        let page = super::page(&results);
        assert!(page.contains(first) && page.contains("<td data-head=\"life\">11.4 years</td>"));
        results.runs.reverse();
        let told = wear::sentence(&results.runs).unwrap();
        assert!(
            told.contains("11.4 years") && !told.contains("6.1"),
            "{told}"
        );
    }

    #[test]
    fn the_answers_come_first_then_links_to_every_part_whose_words_are_folded() {
        let page = super::page(&results());
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        let order = [
            "<p class=\"verdict\"><b>Which is the fastest?</b> None: all have 5.0",
            "<nav aria-label=\"Contents\">",
            "<h2 id=\"s0\">Summary</h2>",
        ];
        let places = order.map(place);
        assert!(places.is_sorted(), "{places:?}");
        let parts = page.matches("<section>").count();
        assert_eq!(page.matches("<a href=\"#s").count(), parts);
        assert!((0..parts).all(|n| page.contains(&format!("<h2 id=\"s{n}\">"))));
        assert_eq!(
            page.matches("<summary>What this says</summary>").count(),
            parts
        );
    }

    #[test]
    fn every_row_and_column_of_a_table_has_a_head() {
        let page = super::page(&results());
        for table in page.split("<table").skip(1) {
            let table = table.split("</table>").next().unwrap_or_default();
            let rows = table.matches("<tr>").count();
            assert_eq!(
                table.matches("<th scope=\"row\">").count() + 1,
                rows,
                "{table}"
            );
            assert!(!table.contains("<th>"), "{table}");
        }
    }

    #[test]
    fn a_page_without_runs_or_flash_is_drawn() {
        let mut empty = results();
        empty.runs.iter_mut().for_each(|r| r.flash = None);
        assert_eq!(
            super::page(&empty)
                .matches("<figure class=\"plot\"")
                .count(),
            4
        );
        empty.runs.clear();
        assert!(super::page(&empty).contains("Summary"));
    }
}
