//! Fig 4 and Fig 17: where the time of journaling goes in ext4, in a journal of pages on F2FS, and
//! in F2FSJ. The paper compares F2FSJ with JBD2 inside ext4; the journal of pages is a comparison
//! on the same file system, where only the journal differs.

use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Journaled, Measured};
use super::names::{At, Op};
use super::sized::gain;
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Published, Row, Section, number};
use base::BLOCK_BYTES;
use report::plot::{self, Bar};
use std::collections::BTreeMap;

const SYSTEMS: [System; 3] = [System::Ext4, System::PageJournal, System::F2fsj];
/// Our aim: bytes that F2FSJ logs, over those that the journal of pages logs.
const LOG_AIM: f64 = 0.25;
/// Waits of ext4's operations until a transaction is closed: for one that is closing, and for one
/// that is full.
const JBD2_SWITCH: [&str; 2] = ["wait: transaction-locked", "wait: transaction-full"];
/// Waits of ext4's operations for room in the log, until homes are written.
const JBD2_ROOM: [&str; 1] = ["wait: log-space"];
/// Times of ext4's operations in handles as a whole, and in and for locks.
const JBD2_LOGGING: &str = "wait: logging";
pub const JBD2_LOCKING: &str = "wait: locking";
/// Waits of JBD2's task that commits; they are not those of operations.
pub const JBD2_COMMITTER: &str = "wait: updates";
/// Waits of operations until an epoch is closed, in a journal of F2FS.
const F2FS_SWITCH: [&str; 1] = ["epoch-full"];
const F2FS_ROOM: [&str; 3] = ["ring", "memory", "pace"];

/// Systems that published values compare; their causes are varied.
const COMPARED: [System; 2] = [System::Ext4, System::F2fsj];

/// By how much ext4's journal is larger, and the words for it in an experiment. A smaller one may
/// be less than mke2fs makes.
const JOURNALS: [(&str, u32); 2] = [("twice as large", 2), ("four times as large", 4)];

fn with_journal(plan: &Plan, op: Op, times: u32) -> BenchJob {
    let mut job = op.at(plan, System::Ext4, At::Cpu(100));
    let blocks = &mut job.run.stack.journal_blocks;
    *blocks = blocks.map(|blocks| blocks * times);
    job
}

/// The jobs: each operation on each system.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let each = |op: Op| {
        let whole = SYSTEMS.map(|system| op.at(plan, system, At::Whole));
        let varied = COMPARED.map(|system| At::VARIED.map(|at| op.at(plan, system, at)));
        let journals = JOURNALS.map(|(_, times)| with_journal(plan, op, times));
        let varied = varied.into_iter().flatten().chain(journals);
        whole.into_iter().chain(varied)
    };
    let all = Op::FOUR.into_iter().flat_map(each);
    all.map(Job::Bench).collect()
}

/// Where the time of a run went, in seconds.
#[derive(Clone, Copy, Default)]
struct Spent {
    /// Duration of the run.
    run: f64,
    /// Time of operations in the journal, without their waits.
    logging: f64,
    /// The part of it in and for locks.
    locking: f64,
    /// Time that operations waited until an epoch or transaction was closed.
    switch: f64,
    /// Time that operations waited for room in the log, until homes were written.
    room: f64,
    /// Time that operations waited for anything else, as a commit.
    waits: f64,
    /// Time of the commits, in their task.
    commit: f64,
    /// Time of the applies, which write homes, in whichever task.
    apply: f64,
    /// Number of blocks that were written home.
    homes: u64,
    /// Bytes that were written into the log.
    log: f64,
    /// Number of commits.
    commits: u64,
}

/// Sum of the times with these names.
fn sum(spans: &BTreeMap<String, f64>, names: &[&str]) -> f64 {
    let found = names.iter().filter_map(|name| spans.get(*name));
    found.sum()
}

impl Spent {
    fn of(found: &Measured) -> Spent {
        match &found.journal {
            Some(journal) => Spent::of_f2fs(found, journal),
            None => Spent::of_jbd2(found),
        }
    }

    fn of_f2fs(found: &Measured, journal: &Journaled) -> Spent {
        let all = |spans: &BTreeMap<String, f64>| spans.values().sum::<f64>();
        let waits = &journal.waits_s;
        let (full, room) = (sum(waits, &F2FS_SWITCH), sum(waits, &F2FS_ROOM));
        Spent {
            run: found.seconds,
            logging: journal.logging_s,
            locking: journal.locking_s,
            switch: journal.switch_s + full,
            room,
            waits: all(waits) - full - room,
            commit: all(&journal.commit_s),
            apply: all(&journal.apply_s),
            homes: journal.home_blocks,
            log: journal.blocks as f64 * BLOCK_BYTES as f64,
            commits: journal.commits,
        }
    }

    fn of_jbd2(found: &Measured) -> Spent {
        let spans = &found.jbd2_s;
        let begun = |begin: &str| -> f64 {
            let named = spans.iter().filter(|(name, _)| name.starts_with(begin));
            named.map(|(_, span)| span).sum()
        };
        let (switch, room) = (sum(spans, &JBD2_SWITCH), sum(spans, &JBD2_ROOM));
        let (logging, locking) = (sum(spans, &[JBD2_LOGGING]), sum(spans, &[JBD2_LOCKING]));
        let committer = sum(spans, &[JBD2_COMMITTER]);
        Spent {
            run: found.seconds,
            logging,
            locking,
            switch,
            room,
            waits: begun("wait: ") - switch - room - logging - locking - committer,
            commit: begun("step: ") + committer,
            apply: sum(spans, &["home"]),
            homes: found.blocks.get("home").copied().unwrap_or(0),
            log: found.jbd2.1 as f64 * BLOCK_BYTES as f64,
            commits: found.jbd2.0,
        }
    }

    /// Time that operations spend on the journal.
    fn journaling(&self) -> f64 {
        self.logging + self.switch + self.room + self.waits
    }

    fn share(&self, of: f64) -> f64 {
        match self.journaling() {
            all if all > 0.0 => of / all,
            _ => 0.0,
        }
    }

    /// Says it in words, for the reason of a row.
    fn told(&self) -> String {
        format!(
            "of a run of {} s operations spend {} s on logging, of it {} s in and for locks, wait {} s for a switch, {} s for room in the log and {} s for \
             commits; {} commits take {} s, writing {} blocks home {} s",
            number(self.run),
            number(self.logging),
            number(self.locking),
            number(self.switch),
            number(self.room),
            number(self.waits),
            self.commits,
            number(self.commit),
            self.homes,
            number(self.apply)
        )
    }
}

/// The times of one operation on each system.
struct Shown {
    name: &'static str,
    ext4: Spent,
    pages: Spent,
    f2fsj: Spent,
    /// Those of ext4 and F2FSJ with causes varied.
    varied: [(At, Spent, Spent); At::VARIED.len()],
    /// Those of ext4 with each of [`JOURNALS`].
    journals: [Spent; JOURNALS.len()],
}

impl Shown {
    fn of(plan: &Plan, outcomes: &Outcomes, op: Op) -> Result<Shown, PaperError> {
        let spent = |system, at| -> Result<Spent, PaperError> {
            Ok(Spent::of(measured(outcomes, &op.at(plan, system, at))?))
        };
        let mut varied = At::VARIED.map(|at| (at, Spent::default(), Spent::default()));
        for (at, ext4, f2fsj) in &mut varied {
            *ext4 = spent(System::Ext4, *at)?;
            *f2fsj = spent(System::F2fsj, *at)?;
        }
        let mut journals = [Spent::default(); JOURNALS.len()];
        for (found, (_, times)) in journals.iter_mut().zip(JOURNALS) {
            *found = Spent::of(measured(outcomes, &with_journal(plan, op, times))?);
        }
        Ok(Shown {
            name: op.word(),
            ext4: spent(System::Ext4, At::Whole)?,
            pages: spent(System::PageJournal, At::Whole)?,
            f2fsj: spent(System::F2fsj, At::Whole)?,
            varied,
            journals,
        })
    }

    /// What a value is with causes varied, for a row outside.
    fn experiments(
        &self,
        plan: &Plan,
        value: impl Fn(&Spent, &Spent) -> f64,
    ) -> Result<Vec<Experiment>, PaperError> {
        let of = |at: At| self.varied.iter().find(|varied| varied.0 == at);
        let varied = At::experiments(plan, |at| {
            Ok(of(at).map_or(f64::NAN, |(_, ext4, f2fsj)| value(ext4, f2fsj)))
        })?;
        let mut all = Vec::from(varied);
        if let Some((_, ext4, f2fsj)) = of(At::Cpu(100)) {
            let cause = format!("the journal of ext4 ({} objects)", plan.objects_varied());
            let experiment = Experiment::on(&cause).against(value(ext4, f2fsj));
            let with = |e: Experiment, (with, of): (&str, &Spent)| e.with(with, value(of, f2fsj));
            let sizes = JOURNALS.iter().map(|(with, _)| *with).zip(&self.journals);
            all.push(sizes.fold(experiment, with));
        }
        Ok(all)
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing, or a plot cannot be drawn.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let shown = Op::FOUR.map(|op| Shown::of(plan, outcomes, op));
    let shown = shown.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rows = [fig4(plan, &shown)?, fig17(plan, &shown)?].concat();
    Ok(Section {
        title: "Fig 4 and Fig 17: where the time of journaling goes".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![listed(&shown)],
        plots: shown.iter().map(plotted).collect(),
    })
}

/// An item of the figure, and how it is computed from the times.
type Item = (&'static str, fn(&Spent) -> f64);

/// Rows of Fig 4: what JBD2 costs ext4.
fn fig4(plan: &Plan, shown: &[Shown]) -> Result<Vec<Row>, PaperError> {
    let table = published();
    let items: [Item; 4] = [
        ("JBD2, part of the run time", |s| {
            s.journaling() / s.run.max(f64::MIN_POSITIVE)
        }),
        ("contention of locks, part of the journaling time", |s| {
            s.share(s.locking)
        }),
        (
            "wait for the switch of transactions, part of the journaling time",
            |s| s.share(s.switch),
        ),
        ("writing homes, part of the journaling time", |s| {
            s.share(s.room)
        }),
    ];
    let mut rows = Vec::new();
    for (item, share) in items {
        for s in shown {
            let published = table.get("Fig 4", &format!("{}: {item}", s.name), None);
            let row = Row::judged(published, share(&s.ext4)).because(&s.ext4.told());
            let varied = s.experiments(plan, |ext4, _| share(ext4))?;
            rows.push(row.shown_by_all(published, varied));
        }
        for s in shown {
            let row = Row::ours(
                "Fig 4",
                &format!("{}: {item}", s.name),
                "fraction",
                share(&s.pages),
            );
            rows.push(row.of("journal of pages on F2FS"));
        }
    }
    Ok(rows)
}

/// Rows of Fig 17: F2FSJ against JBD2, as published; and against the journal of pages, which the
/// paper does not have.
fn fig17(plan: &Plan, shown: &[Shown]) -> Result<Vec<Row>, PaperError> {
    let table = published();
    let items: [Item; 3] = [
        ("time in and for locks: F2FSJ over", |s| s.locking),
        ("wait for the switch: F2FSJ over", |s| s.switch),
        ("time of applies: F2FSJ over", |s| s.apply),
    ];
    let mut rows = Vec::new();
    for (item, span) in items {
        let published = table.get("Fig 17", &format!("{item} JBD2"), None);
        for s in shown {
            rows.push(over_jbd2(plan, s, published, span)?);
        }
        for s in shown {
            let item = format!("{item} the journal of pages");
            let gain = gain(span(&s.f2fsj), span(&s.pages));
            rows.extend(gain.map(|gain| Row::ours("Fig 17", &item, "gain", gain).of(s.name)));
        }
    }
    for s in shown {
        let share = s.f2fsj.log / s.pages.log.max(1.0);
        let row = Row::ours(
            "Fig 17",
            "log bytes: F2FSJ over the journal of pages",
            "fraction",
            share,
        );
        let verdict = if share <= LOG_AIM { "met" } else { "missed" };
        rows.push(
            row.of(s.name)
                .noted(&format!("our aim of at most {LOG_AIM} is {verdict}")),
        );
    }
    Ok(rows)
}

fn over_jbd2(
    plan: &Plan,
    s: &Shown,
    published: &Published,
    span: fn(&Spent) -> f64,
) -> Result<Row, PaperError> {
    let row = match gain(span(&s.f2fsj), span(&s.ext4)) {
        Some(of) => {
            let why = format!("JBD2: {}; F2FSJ: {}", s.ext4.told(), s.f2fsj.told());
            let varied = s.experiments(plan, |ext4, f2fsj| {
                gain(span(f2fsj), span(ext4)).unwrap_or(f64::NAN)
            })?;
            let row = Row::judged(published, of).because(&why);
            row.shown_by_all(published, varied)
        }
        None => {
            let why = format!("there is nothing to compare with: {}", s.ext4.told());
            Row::unmeasured(published, Some(&why))
        }
    };
    Ok(row.of(s.name))
}

fn listed(shown: &[Shown]) -> crate::Listed {
    let head = [
        "operation",
        "journal",
        "run (s)",
        "logging (s)",
        "of it locks (s)",
        "switch (s)",
        "room (s)",
        "other waits (s)",
        "commits",
        "commit (s)",
        "homes (s)",
        "home blocks",
        "log (MB)",
    ];
    let line = |name: &str, journal: &str, s: &Spent| {
        let mut cells = vec![name.to_string(), journal.to_string()];
        cells.extend([s.run, s.logging, s.locking, s.switch, s.room, s.waits].map(number));
        cells.push(s.commits.to_string());
        cells.extend([s.commit, s.apply].map(number));
        cells.extend([s.homes.to_string(), number(s.log / 1e6)]);
        cells
    };
    let lines = shown.iter().flat_map(|s| {
        [
            line(s.name, "JBD2 in ext4", &s.ext4),
            line(s.name, "journal of pages", &s.pages),
            line(s.name, "F2FSJ", &s.f2fsj),
        ]
    });
    let caption = "Seconds of virtual time; logging and waits are those of operations, commit and homes go on beside them";
    (
        caption.into(),
        head.map(String::from).into(),
        lines.collect(),
    )
}

fn plotted(shown: &Shown) -> (String, plot::Plot) {
    let parts = [
        "logging",
        "locks",
        "switch",
        "room",
        "other waits",
        "not told",
    ];
    let whole = shown.ext4.journaling().max(f64::MIN_POSITIVE);
    let bar = |name: &str, s: &Spent| {
        let logging = (s.logging - s.locking).max(0.0);
        let values = [logging, s.locking, s.switch, s.room, s.waits, 0.0];
        Bar::measured(&(name.into(), values.map(|s| s / whole).to_vec()))
    };
    let told = Bar {
        name: "ext4, published".into(),
        values: published_shares(shown.name),
        published: true,
    };
    let bars = [
        bar("ext4", &shown.ext4),
        told,
        bar("pages", &shown.pages),
        bar("F2FSJ", &shown.f2fsj),
    ];
    let title = format!("{}: time of journaling", shown.name);
    let unit = "over that of JBD2 in ext4";
    let drawn = plot::stacked_beside(&title, unit, &parts.map(String::from), &bars);
    let caption = "Less is better. Room is the wait for homes to be written. What the paper does not tell of ext4 is the rest of its whole.";
    (caption.into(), drawn)
}

/// The published shares of JBD2's time on an operation, in the order of the parts of the plot.
fn published_shares(op: &str) -> Vec<f64> {
    let table = published();
    let of = |item: &str| {
        let item = format!("{op}: {item}, part of the journaling time");
        table.get("Fig 4", &item, None).value.unwrap_or_default()
    };
    let (locks, switch) = (
        of("contention of locks"),
        of("wait for the switch of transactions"),
    );
    let room = of("writing homes");
    vec![0.0, locks, switch, room, 0.0, 1.0 - locks - switch - room]
}

const WORDS: [&str; 4] = [
    "The paper compares F2FSJ on F2FS with JBD2 inside of ext4. Here both stand: that comparison, and one on the same file system with a journal of pages, \
     which is F2FSJ without its four ideas (whole pages, one list under one lock, waits for the switch, no fast-forward).",
    "Time of journaling is what operations spend on the journal (the paper: time spent journaling in the benchmark): logging with its locks, waits for the \
     switch, waits for room in the log, which are waits for homes to be written, waits for commits. Commits and the writing of homes themselves go on in tasks \
     of their own; Fig 17 compares the whole time of the latter.",
    "In and for locks: from asking for a lock of the journal to giving it up. Waits for the switch: until a transaction that is closing, or full, is closed.",
    "A range that the paper gives for the four operations together is compared with each of them.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(name, s)| (name.to_string(), *s)).collect()
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, wanted {wanted}");
    }

    #[test]
    fn a_span_of_jbd2_counts_once_and_that_of_tasks_is_no_operations() {
        let found = Measured {
            seconds: 4.0,
            jbd2_s: spans(&[
                ("wait: transaction-full", 0.1),
                ("wait: transaction-locked", 0.2),
                ("wait: log-space", 0.3),
                ("wait: commit", 0.05),
                ("wait: logging", 0.5),
                ("wait: locking", 0.25),
                ("wait: updates", 0.7),
                ("step: log", 1.0),
                ("home", 2.0),
            ]),
            jbd2: (3, 10),
            ..Measured::default()
        };
        let spent = Spent::of(&found);
        near(spent.switch, 0.3);
        near(spent.room, 0.3);
        near(spent.waits, 0.05);
        near(spent.journaling(), 1.15);
        near(spent.share(spent.locking), 0.25 / 1.15);
        near(spent.commit, 1.7);
        near(spent.apply, 2.0);
        near(spent.log, 40_960.0);
    }

    #[test]
    fn a_full_epoch_is_a_wait_for_the_switch() {
        let journal = Journaled {
            waits_s: spans(&[
                ("epoch-full", 0.5),
                ("epochs", 0.125),
                ("ring", 0.25),
                ("memory", 1.0),
            ]),
            switch_s: 0.25,
            logging_s: 2.0,
            locking_s: 1.5,
            ..Journaled::default()
        };
        let found = Measured {
            journal: Some(journal),
            ..Measured::default()
        };
        let spent = Spent::of(&found);
        near(spent.switch, 0.75);
        near(spent.room, 1.25);
        near(spent.waits, 0.125);
        near(spent.journaling(), 4.125);
    }

    #[test]
    fn every_cause_of_waits_has_its_place() {
        let known = [F2FS_SWITCH.to_vec(), F2FS_ROOM.to_vec(), vec!["epochs"]].concat();
        for cause in rig::F2fsWaitCause::ALL {
            assert!(known.contains(&cause.word()), "{}", cause.word());
        }
    }
}
