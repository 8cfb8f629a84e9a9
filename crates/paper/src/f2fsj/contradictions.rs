//! Published values of the operations on names that contradict each other, so that no honest model
//! can agree with all of them.
//!
//! The gain of F2FSJ over stock F2FS is published in three ways: as throughput (5.3), as mean
//! latency (5.2), and by its parts. Of a run with a share S in checkpoints (Fig 2a), whose time the
//! journal makes shorter by a factor r (5.2), 1 - S + S/r is left, if everything else stays.

use super::names::Op;
use crate::{Table, number};

/// The paper states a deviation below 5 %. So far apart may two values be that say the same.
const APART: f64 = 1.05 / 0.95;

/// The entries of an operation, each with the gain in throughput that it says.
struct Said {
    throughput: f64,
    latency: f64,
    parts: f64,
}

const ENTRIES: [(&str, &str); 4] = [
    ("5.3 names", "F2FSJ over checkpoint-60"),
    ("5.2", "mean latency, F2FSJ over checkpoint-60"),
    ("5.2", "checkpoint time over journal time"),
    ("Fig 2a", "checkpoints, part of the run time"),
];

fn item(op: Op, what: &str) -> String {
    format!("{}: {what}", op.word())
}

impl Said {
    fn of(table: &Table, op: Op) -> Said {
        let [throughput, latency, factor, share] = ENTRIES.map(|(figure, what)| {
            let found = table.get(figure, &item(op, what), None);
            found.value.expect("these four are published")
        });
        let journal = share / (1.0 + factor);
        Said {
            throughput,
            latency: 1.0 / (1.0 + latency) - 1.0,
            parts: 1.0 / (1.0 - share + journal) - 1.0,
        }
    }

    /// How they contradict each other, if they do.
    fn contradiction(&self) -> Option<String> {
        let all = [self.throughput, self.latency, self.parts].map(|gain| 1.0 + gain);
        let (least, most) = (
            all.into_iter().fold(f64::MAX, f64::min),
            all.into_iter().fold(0.0, f64::max),
        );
        (most > APART * least).then(|| {
            format!(
                "the published values contradict each other: the gain is {} by the throughput (5.3), {} by the mean latency (5.2), {} by the share of \
                 checkpoints (Fig 2a) and their time over the journal's (5.2)",
                number(self.throughput),
                number(self.latency),
                number(self.parts)
            )
        })
    }
}

/// The table, whose entries say where others contradict them.
pub fn marked(mut table: Table) -> Table {
    for op in Op::FOUR {
        let how = Said::of(&table, op).contradiction();
        let items = ENTRIES.map(|(figure, what)| (figure, item(op, what)));
        let of_op = |p: &&mut crate::Published| {
            items
                .iter()
                .any(|(figure, item)| p.figure == *figure && p.item == *item)
        };
        let entries = table.all_mut().iter_mut().filter(of_op);
        entries.for_each(|p| p.contradicted.clone_from(&how));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    #[test]
    fn what_the_paper_says_of_an_operation_agrees_for_mkdir_only() {
        let table = published();
        for (op, gains, agrees) in [
            (Op::Mkdir, [0.29, 0.30, 0.28], true),
            (Op::Rmdir, [0.16, 0.54, 0.08], false),
            (Op::Create4k, [0.14, 0.15, 0.52], false),
            (Op::Unlink4k, [0.69, 0.49, 0.54], false),
        ] {
            let said = Said::of(&table, op);
            let found = [said.throughput, said.latency, said.parts];
            for (found, wanted) in found.iter().zip(gains) {
                assert!((found - wanted).abs() < 0.006, "{op:?}: {found} {wanted}");
            }
            let of_op = |p: &&crate::Published| p.item.starts_with(op.word());
            let marked = table.all().iter().filter(of_op);
            let marked = marked.filter(|p| p.contradicted.is_some()).count();
            assert_eq!(marked, if agrees { 0 } else { ENTRIES.len() }, "{op:?}");
        }
    }
}
