//! Section 5.4: the duration of the mount after a power cut, over the number of files, by system;
//! and CrashMonkey's two tests.

use super::crash::{CrashJob, Judged};
use super::job::{Job, Outcomes, judged, recovering};
use super::measure::Host;
use super::recovery::{Act, Recovering, RecoveryJob};
use super::scale::{CORES, DEVICE, VOLUME};
use super::system::{Size, System};
use super::{Plan, published};
use crate::PaperError;
use crate::beside::times;
use crate::{Experiment, Listed, Published, Row, Section, number};
use crash::campaign::Reach;
use crash::case::Case;
use report::plot::{self, At, Mark};
use rig::Scheme;

const FIGURE: &str = "5.4";
/// Bytes of the paper's ring.
const RING: u64 = 256 << 20;
/// Bytes of a volume as large as the paper's drive, which shows what of a mount grows with it.
const DRIVE: u64 = 238 << 30;
const K: u32 = 1024;

base::words! {
    /// A system, and how the changes are made durable on it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Way {
        Rollback => "rollback",
        RollForward => "roll-forward",
        PageJournal => "page-journal",
        /// As published: what was redone is written home before the mount ends.
        F2fsj => "f2fsj",
        /// Ours: what was redone stays in the ring.
        F2fsjInRing => "f2fsj, in the ring",
        Ext4 => "ext4",
    }
}

impl Way {
    fn system(self) -> System {
        match self {
            Way::Rollback | Way::RollForward => System::Checkpoint60,
            Way::PageJournal => System::PageJournal,
            Way::F2fsj | Way::F2fsjInRing => System::F2fsj,
            Way::Ext4 => System::Ext4,
        }
    }

    /// False for fsyncs of removals: a removal cannot be rolled forward, so the fsync of its
    /// directory writes a checkpoint.
    fn can(self, act: Act) -> bool {
        self != Way::RollForward || act == Act::Create
    }
}

/// The numbers of files that are published, and larger ones.
fn counts(plan: &Plan, act: Act) -> Vec<u32> {
    let published: &[u32] = plan.pick(&[K, 2 * K, 4 * K, 8 * K], &[K, 2 * K, 8 * K], &[64, 128]);
    let beyond: &[u32] = match act {
        Act::Create => plan.pick(&[16 * K, 32 * K, 100 * K], &[], &[]),
        Act::Delete => &[],
    };
    [published, beyond].concat()
}

fn acts(plan: &Plan) -> &'static [Act] {
    plan.pick(
        &[Act::Create, Act::Delete],
        &[Act::Create],
        &[Act::Create, Act::Delete],
    )
}

fn job_of(plan: &Plan, way: Way, (act, files): (Act, u32), bytes: u64) -> RecoveryJob {
    let size = Size {
        bytes,
        ring: RING,
        shorter: 1,
    };
    let mut stack = way.system().stack(DEVICE, size, plan.seed);
    if let (Way::F2fsj, Scheme::F2fs(scheme)) = (way, &mut stack.scheme) {
        scheme.redone = "home".parse().expect("it is a place");
    }
    RecoveryJob {
        stack,
        fsynced: way == Way::RollForward,
        act,
        files,
        host: Host::cores(CORES),
    }
}

fn job(plan: &Plan, way: Way, act: Act, files: u32) -> RecoveryJob {
    job_of(plan, way, (act, files), VOLUME)
}

/// The job on a volume as large as the paper's drive.
fn on_drive(plan: &Plan, way: Way, act: Act, files: u32) -> RecoveryJob {
    job_of(plan, way, (act, files), DRIVE)
}

/// What is recovered on both volumes: the published numbers of files, on F2FS.
fn on_both(act: Act, files: u32) -> impl Iterator<Item = Way> {
    let ways = [Way::Rollback, Way::RollForward, Way::F2fsj];
    ways.into_iter()
        .filter(move |way| files <= 8 * K && way.can(act))
}

/// The names of CrashMonkey's tests.
const TESTS: [&str; 2] = ["rename_root_to_sub", "create_delete"];
const SCHEMES: [&str; 2] = ["f2fsj", "page-journal"];

fn crash(plan: &Plan, test: &str, scheme: &str) -> CrashJob {
    CrashJob {
        case: Case {
            scheme: scheme.into(),
            device: "spec:nvme,sector=512".into(),
            workload: format!("known:{test}"),
            seed: 3,
            scheduler: None,
            mutant: None,
        },
        reach: Reach {
            states_max: plan.pick(256, 64, 8),
            nested: plan.pick(1, 0, 0),
            ..Reach::default()
        },
    }
}

/// The jobs: each way with each number of files, and the tests.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for &act in acts(plan) {
        for files in counts(plan, act) {
            let ways = Way::ALL.into_iter().filter(|way| way.can(act));
            all.extend(ways.map(|way| Job::Recovery(job(plan, way, act, files))));
            let both = on_both(act, files);
            all.extend(both.map(|way| Job::Recovery(on_drive(plan, way, act, files))));
        }
    }
    for test in TESTS {
        all.extend(SCHEMES.map(|scheme| Job::Crash(crash(plan, test, scheme))));
    }
    all
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let found = Found { plan, outcomes };
    let mut rows = found.rollback()?;
    rows.extend(found.over_rollback()?);
    rows.extend(found.over_f2fsj()?);
    let xfs = published();
    let xfs = xfs.get(FIGURE, "time of XFS over F2FSJ", None);
    rows.push(Row::unmeasured(xfs, None));
    rows.extend(found.crashes()?);
    Ok(Section {
        title: "5.4: recovery".into(),
        words: words(),
        rows,
        tables: found.tables()?,
        plots: found.plots()?,
    })
}

/// The outcomes, by way, act and number of files.
struct Found<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
}

/// The name of a case, as `1 K created`.
fn label(act: Act, files: u32) -> String {
    match files % K {
        0 => format!("{} K {}", files / K, act.name()),
        _ => format!("{files} {}", act.name()),
    }
}

impl Found<'_> {
    fn of(&self, way: Way, act: Act, files: u32) -> Result<&Recovering, PaperError> {
        recovering(self.outcomes, &job(self.plan, way, act, files))
    }

    /// What the quotient of two mounts, less `less`, is on a volume as large as the paper's drive.
    fn on_drive(
        &self,
        [a, b]: [(Way, u32); 2],
        act: Act,
        less: f64,
    ) -> Result<Experiment, PaperError> {
        let ms = |(way, files)| {
            let found = recovering(self.outcomes, &on_drive(self.plan, way, act, files))?;
            Ok::<f64, PaperError>(found.mount_ms)
        };
        let size = Experiment::on("the size of the volume");
        Ok(size.with("238 GiB, the paper's", ms(a)? / ms(b)? - less))
    }

    /// The least and the largest of the published numbers of files.
    fn ends(&self) -> (u32, u32) {
        let counts = counts(self.plan, Act::Create);
        let few = counts.iter().copied().filter(|n| *n <= 8 * K);
        let most = few.max().unwrap_or(K);
        (counts[0], most)
    }

    fn rollback(&self) -> Result<Vec<Row>, PaperError> {
        let table = published();
        let (least, most) = self.ends();
        let mut rows = Vec::new();
        for &act in acts(self.plan) {
            let few = self.of(Way::Rollback, act, least)?;
            let many = self.of(Way::Rollback, act, most)?;
            let of = label(act, most);
            let row = table.get(FIGURE, "rollback to a checkpoint: time", None);
            rows.push(Row::judged(row, many.mount_ms).of(&of));
            let row = table.get(FIGURE, "rollback to a checkpoint: 8 K files over 1 K", None);
            let why = format!(
                "{} KiB are read with {least} files, {} with {most}: {} ms and {} ms",
                few.kib_read,
                many.kib_read,
                number(few.mount_ms),
                number(many.mount_ms)
            );
            let size = self.on_drive([(Way::Rollback, most), (Way::Rollback, least)], act, 0.0)?;
            let judged = Row::judged(row, many.mount_ms / few.mount_ms).because(&why);
            rows.push(judged.of(act.name()).shown_by(row, size));
        }
        let item = "rollback to a checkpoint on a volume of 238 GiB: time";
        let small = self.of(Way::Rollback, Act::Create, least)?;
        let large = on_drive(self.plan, Way::Rollback, Act::Create, least);
        let large = recovering(self.outcomes, &large)?;
        let note = format!(
            "16 GiB: {} ms and {} KiB read; 238 GiB: {} KiB",
            number(small.mount_ms),
            small.kib_read,
            large.kib_read
        );
        rows.push(Row::ours(FIGURE, item, "ms", large.mount_ms).noted(&note));
        Ok(rows)
    }

    fn over_rollback(&self) -> Result<Vec<Row>, PaperError> {
        let table = published();
        let (_, most) = self.ends();
        let mut rows = Vec::new();
        for &act in acts(self.plan) {
            for files in counts(self.plan, act) {
                let ours = self.of(Way::F2fsj, act, files)?;
                let back = self.of(Way::Rollback, act, files)?;
                let times = ours.mount_ms / back.mount_ms;
                let why = format!(
                    "a rollback reads {} KiB here and writes nothing: {} ms, where a kernel's takes 35; what it reads grows with the volume. F2FSJ: {} ms ({}), the checkpoint \
                     that ends it among them",
                    back.kib_read,
                    number(back.mount_ms),
                    number(ours.mount_ms),
                    steps(ours)
                );
                let of = label(act, files);
                let (item, less) = match files {
                    files if files < 4 * K => {
                        ("time of F2FSJ over rollback, fewer than 4 K files", 0.0)
                    }
                    files if files == most => ("time of F2FSJ over rollback, 8 K files", 1.0),
                    _ => continue,
                };
                let published = table.get(FIGURE, item, None);
                let size =
                    self.on_drive([(Way::F2fsj, files), (Way::Rollback, files)], act, less)?;
                let row = Row::judged(published, times - less).because(&why);
                rows.push(row.of(&of).shown_by(published, size));
            }
        }
        if most < 8 * K {
            let item = "time of F2FSJ over rollback, 8 K files";
            let row = Row::unmeasured(table.get(FIGURE, item, None), Some("too few files"));
            rows.push(row);
        }
        let item = "F2FSJ less the published 35 ms of a rollback, 8 K files created";
        let ours = self.of(Way::F2fsj, Act::Create, most)?;
        rows.push(Row::ours(FIGURE, item, "ms", ours.mount_ms - 35.0));
        Ok(rows)
    }

    fn over_f2fsj(&self) -> Result<Vec<Row>, PaperError> {
        let table = published();
        let mut rows = Vec::new();
        for &act in acts(self.plan) {
            for files in counts(self.plan, act) {
                let of = label(act, files);
                let ours = self.of(Way::F2fsj, act, files)?;
                let pages = self.of(Way::PageJournal, act, files)?;
                let ext4 = self.of(Way::Ext4, act, files)?;
                if act == Act::Create {
                    let forward = self.of(Way::RollForward, act, files)?;
                    rows.push(self.forward(files, ours, forward)?.of(&of));
                }
                let item = "time of ext4 over F2FSJ";
                let times = ext4.mount_ms / ours.mount_ms;
                let why = format!(
                    "ext4 reads {} KiB and writes {} ({}), F2FSJ reads {} and writes {} ({})",
                    ext4.kib_read,
                    ext4.kib_written,
                    steps(ext4),
                    ours.kib_read,
                    ours.kib_written,
                    steps(ours)
                );
                rows.push(match files <= 8 * K {
                    true => Row::judged(table.get(FIGURE, item, None), times).because(&why),
                    false => Row::ours(FIGURE, &format!("{item}, more files"), "times", times),
                });
                let last = rows.pop().map(|row| row.of(&of));
                rows.extend(last);
                let times = pages.mount_ms / ours.mount_ms;
                let item = "time of page-journal over F2FSJ";
                rows.push(Row::ours(FIGURE, item, "times", times).of(&of));
                let in_ring = self.of(Way::F2fsjInRing, act, files)?.mount_ms;
                let item = "time of F2FSJ over that with what was redone left in the ring";
                rows.push(Row::ours(FIGURE, item, "times", ours.mount_ms / in_ring).of(&of));
                if act == Act::Create {
                    let forward = self.of(Way::RollForward, act, files)?.mount_ms;
                    let item =
                        "time of roll-forward over F2FSJ with what was redone left in the ring";
                    rows.push(Row::ours(FIGURE, item, "times", forward / in_ring).of(&of));
                }
                let least = Way::ALL.into_iter().filter(|way| way.can(act));
                let least = least.map(|way| Ok(self.of(way, act, files)?.recovered));
                let least = least.collect::<Result<Vec<f64>, PaperError>>()?;
                let least = least.into_iter().fold(1.0, f64::min);
                let item = "recovered of what was durable, least of the systems";
                rows.push(Row::ours(FIGURE, item, "fraction", least).of(&of));
            }
        }
        Ok(rows)
    }

    fn forward(
        &self,
        files: u32,
        ours: &Recovering,
        forward: &Recovering,
    ) -> Result<Row, PaperError> {
        let table = published();
        let item = "time of roll-forward over F2FSJ";
        let gain = forward.mount_ms / ours.mount_ms - 1.0;
        let why = format!(
            "roll-forward reads {} KiB in {} ms, the chain of {} nodes several times over; F2FSJ reads {} KiB in {} ms ({}). With few files the checkpoint \
             that ends both, most of it a flush, is most of both; of the ring of 256 MiB the scan of F2FSJ reads the transactions, and as much behind them as two may have",
            forward.kib_read,
            number(forward.mount_ms),
            forward.records,
            ours.kib_read,
            number(ours.mount_ms),
            steps(ours)
        );
        if files > 8 * K {
            return Ok(Row::ours(
                FIGURE,
                &format!("{item}, more files"),
                "gain",
                gain,
            ));
        }
        let published = table.get(FIGURE, item, None);
        let ways = [(Way::RollForward, files), (Way::F2fsj, files)];
        let size = self.on_drive(ways, Act::Create, 1.0)?;
        let row = Row::judged(published, gain).because(&why);
        Ok(row.shown_by(published, size))
    }

    fn crashes(&self) -> Result<Vec<Row>, PaperError> {
        let table = published();
        let mut rows = Vec::new();
        for test in TESTS {
            let item = format!("CrashMonkey {test}: violations");
            for scheme in SCHEMES {
                let found: &Judged = judged(self.outcomes, &crash(self.plan, test, scheme))?;
                let row = Row::judged(table.get(FIGURE, &item, None), found.violations as f64);
                let note = format!("{} states of {} cuts", found.states, found.cuts);
                let why = found.first.as_deref().unwrap_or_default();
                rows.push(row.of(scheme).noted(&note).because(why));
            }
        }
        Ok(rows)
    }

    fn tables(&self) -> Result<Vec<Listed>, PaperError> {
        let head = [
            "files",
            "system",
            "mount (ms)",
            "clean mount (ms)",
            "KiB read",
            "KiB written",
            "epochs",
            "records or blocks",
            "recovered",
            "steps (ms)",
        ];
        let mut lines = Vec::new();
        for &act in acts(self.plan) {
            for files in counts(self.plan, act) {
                for way in Way::ALL.into_iter().filter(|way| way.can(act)) {
                    let found = self.of(way, act, files)?;
                    lines.push(vec![
                        label(act, files),
                        way.word().into(),
                        number(found.mount_ms),
                        number(found.clean_ms),
                        found.kib_read.to_string(),
                        found.kib_written.to_string(),
                        found.epochs.to_string(),
                        found.records.to_string(),
                        number(found.recovered),
                        steps(found),
                    ]);
                }
            }
        }
        let caption = "The mount behind the cut".to_string();
        Ok(vec![(caption, head.map(String::from).into(), lines)])
    }

    fn plots(&self) -> Result<Vec<(String, plot::Plot)>, PaperError> {
        let mut plots = Vec::new();
        for &act in acts(self.plan) {
            let mut series = Vec::new();
            for way in Way::ALL.into_iter().filter(|way| way.can(act)) {
                let of = |files: u32| -> Result<(f64, f64), PaperError> {
                    let found = self.of(way, act, files)?;
                    Ok((f64::from(files), found.mount_ms))
                };
                let counts = counts(self.plan, act).into_iter();
                let points = counts.map(of).collect::<Result<_, PaperError>>()?;
                series.push((way.word().to_string(), points));
            }
            let title = format!("Time of the mount, files {}", act.name());
            let drawn = plot::lines(&title, ("files", "ms"), &series);
            let caption =
                "A mount behind a cut. Published are 35 ms of a rollback, and the others over it.";
            plots.push((caption.into(), drawn.beside(&self.marks(act))));
        }
        Ok(plots)
    }

    /// The published times and those that follow from the published quotients, milliseconds.
    fn marks(&self, act: Act) -> Vec<Mark> {
        let table = published();
        let of = |item: &str| table.get(FIGURE, item, None);
        let (_, most) = self.ends();
        let at = |files: u32| At::X(files.into());
        let rollback = of("rollback to a checkpoint: time");
        let base = rollback.value.unwrap_or_default();
        let many = of("time of F2FSJ over rollback, 8 K files");
        let own = base * times(many.value.unwrap_or_default());
        let mut marks = Vec::new();
        let mut add = |way: Way, of: &Published, files: u32, ms: &dyn Fn(f64) -> f64| {
            let mark = of.mark(Some(way.word()), at(files));
            marks.extend(mark.map(|mark| mark.map(ms)));
        };
        for files in counts(self.plan, act).into_iter().filter(|n| *n <= most) {
            add(Way::Rollback, rollback, files, &|ms| ms);
            if files < 4 * K && files < most {
                let few = of("time of F2FSJ over rollback, fewer than 4 K files");
                add(Way::F2fsj, few, files, &|over| base * over);
            }
        }
        add(Way::F2fsj, many, most, &|gain| base * times(gain));
        let ext4 = of("time of ext4 over F2FSJ");
        add(Way::Ext4, ext4, most, &|over| own * over);
        if Way::RollForward.can(act) {
            let forward = of("time of roll-forward over F2FSJ");
            add(Way::RollForward, forward, most, &|gain| own * times(gain));
        }
        marks
    }
}

/// The steps of a recovery in words, in milliseconds.
fn steps(found: &Recovering) -> String {
    let steps = found.steps_ms.iter().filter(|(_, ms)| **ms > 0.0);
    let all: Vec<String> = steps
        .map(|(step, ms)| format!("{step} {}", number(*ms)))
        .collect();
    match all.is_empty() {
        true => "nothing to redo".into(),
        false => all.join(", "),
    }
}

fn words() -> Vec<String> {
    vec![
        "Empty files are made or removed, 100 in a directory, and are durable: by a sync, which writes a checkpoint (rollback) or commits an epoch or a \
         transaction (F2FSJ, page-journal, ext4); or by an fsync of each (roll-forward; a removal cannot be rolled forward). Then the power goes, the drive \
         gets 10 s for its own map, and the mount is timed. No timer and no count writes a checkpoint, and nothing is applied, so that all changes are \
         the recovery's to redo, in a ring of 256 MiB and a journal of 1 GiB, as published."
            .into(),
        "The rows of F2FSJ that are compared write home what they redo before the mount ends, as the paper's recovery does (3.6; redone=home). Ours leaves it in the \
         ring by default, from where it goes home later: those rows are ours."
            .into(),
        "A rollback finds all of it in the checkpoint: only what came behind it is lost (Fig 2c). Each recovered volume checks itself, and has the files of some \
         prefix of the changes; what is recovered of all is in the table."
            .into(),
        "CrashMonkey's tests are its workloads under our explorer (docs/use/crash-testing.md), which judges every state of every cut within a bound, not the one behind each sync."
            .into(),
    ]
}
