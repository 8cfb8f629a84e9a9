//! Fig 13, data volume: what an app writes to the device with journal coalition and without a
//! journal, over what it writes on the baseline.

use super::job::{Job, Outcomes, run_of};
use super::measure::{data_blocks, decrease, home_blocks, journal_blocks, metadata_blocks, ratio};
use super::plan::{BASE, COALITION, FIG8, OTHER_CALLS, Pace, Plan, Source};
use super::published;
use crate::PaperError;
use crate::beside::group;
use crate::{Experiment, Published, Row, Section};
use report::plot;
use report::results::Run;
use rig::Writeback;

const FIGURE: &str = "Fig 13";
const ITEM: &str = "decrease of the data volume by journal coalition";
const SCHEMES: [&str; 3] = [BASE, COALITION, "none"];

/// When the host writes back: as Android sets it, which the paper's board ran.
const HOST: Writeback = Writeback::ANDROID;
/// The same on a device without a battery, which also looks every 2 s.
const OFTEN: Writeback = Writeback {
    interval: 2,
    ..Writeback::ANDROID
};

/// The shortest times that the kernel's settings are used with.
const SOON: Writeback = Writeback {
    interval: 1,
    expire: 1,
    ..Writeback::ANDROID
};
/// Hosts that write back otherwise than [`HOST`], with their names in rows.
const OTHERS: [(&str, Option<Writeback>); 3] = [
    ("write-back after 30 s", None),
    ("write-back after 2 s, looked for every 2 s", Some(OFTEN)),
    ("write-back after 1 s, looked for every second", Some(SOON)),
];

/// `None`: as everywhere else, after 30 s.
fn job(plan: &Plan, source: &Source, scheme: &str, host: Option<Writeback>) -> Job {
    let mut job = plan.run(source, scheme, FIG8, Pace::Recorded);
    if let Job::Run(config) = &mut job {
        config.stack.writeback = host;
    }
    job
}

/// The decrease by coalition on a host that writes back otherwise.
fn decrease_on(
    (plan, outcomes): (&Plan, &Outcomes),
    source: &Source,
    host: Option<Writeback>,
) -> Result<f64, PaperError> {
    let all = |scheme| run_of(outcomes, &job(plan, source, scheme, host)).map(|run| volumes(run).1);
    Ok(decrease(all(SCHEMES[0])?, all(SCHEMES[1])?))
}

/// The decrease of the recording of a generated app; `None` without one.
fn recorded(plan: &Plan, outcomes: &Outcomes, source: &Source) -> Result<Option<f64>, PaperError> {
    let others = plan.sources();
    let own = |other: &&Source| other.app == source.app && !other.is_generated();
    let recording = others.iter().find(own).filter(|_| source.is_generated());
    recording
        .map(|other| decrease_on((plan, outcomes), other, Some(HOST)))
        .transpose()
}

/// The jobs: each app at its own pace on each scheme.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let all = |source| {
        let mut jobs = SCHEMES.map(|s| job(plan, source, s, Some(HOST))).to_vec();
        let others = OTHERS.into_iter();
        jobs.extend(others.flat_map(|(_, h)| [0, 1].map(|n| job(plan, source, SCHEMES[n], h))));
        jobs
    };
    sources.iter().flat_map(all).collect()
}

/// Blocks written before the syncs returned, and blocks including those that go home later.
fn volumes(run: &Run) -> (f64, f64) {
    let path = journal_blocks(run) + data_blocks(run);
    (path as f64, (path + home_blocks(run)) as f64)
}

/// The runs of an app on the three schemes.
struct Volumes<'a> {
    base: &'a Run,
    coalition: &'a Run,
    none: &'a Run,
}

impl Volumes<'_> {
    fn runs(&self) -> [&Run; 3] {
        [self.base, self.coalition, self.none]
    }

    /// `recorded`: the decrease of the app's recording, where that is another run.
    fn rows(
        &self,
        source: &Source,
        published: &Published,
        others: &[(&str, f64)],
        recorded: Option<f64>,
    ) -> Vec<Row> {
        let [base, coalition, none] = self.runs().map(volumes);
        let by = |what: &str| format!("{ITEM}, {what}");
        // If each metadata block of a commit goes home once, it adds the same to both.
        let each = metadata_blocks(self.base) as f64;
        let once = decrease(base.0 + each, coalition.0 + each);
        let path = decrease(base.0, coalition.0);
        let bare = decrease(base.1, none.1);
        let ours = |item: &str, measured| source.ours(FIGURE, item, "fraction", measured);
        let host = Experiment::on("when the host writes back");
        let host = others.iter().fold(host, |e, (name, n)| e.with(name, *n));
        let each_time = Experiment::on("how often a logged block goes home");
        let each_time = each_time.computed("once for each time that it is logged", once);
        let calls = recorded.map(|n| Experiment::on(OTHER_CALLS).with("its recording", n));
        let varied = [host, each_time].into_iter().chain(calls);
        let mut rows = vec![
            source
                .row(published, decrease(base.1, coalition.1))
                .because(&self.why(once))
                .shown_by_all(published, varied),
            ours(&by("without home writes"), path),
            ours(&by("each logged metadata block going home once"), once),
            ours("decrease of the data volume without a journal", bare),
        ];
        rows.extend(others.iter().map(|(host, value)| ours(&by(host), *value)));
        rows
    }

    fn why(&self, once: f64) -> String {
        let logged = metadata_blocks(self.base);
        let home = home_blocks(self.base);
        format!(
            "home writes are few here: {home} blocks for {logged} logged metadata blocks ({} %), because a block goes home once for many \
             commits (write-back of what is 2 s old, every 5 s, and the journal does not fill). If each logged block went home once, as the published range \
             needs, the decrease would be {once:.2}",
            (100.0 * ratio(home as f64, logged as f64)).round()
        )
    }
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published()?;
    let mut section = Section {
        title: "Fig 13: data volume".into(),
        words: words(),
        ..Section::default()
    };
    let mut shown = SCHEMES.map(|scheme| (scheme.to_string(), Vec::new()));
    let mut names = Vec::new();
    let (mut lines, mut marks) = (Vec::new(), Vec::new());
    for source in plan.sources() {
        let run = |scheme| run_of(outcomes, &job(plan, &source, scheme, Some(HOST)));
        let all = Volumes {
            base: run(SCHEMES[0])?,
            coalition: run(SCHEMES[1])?,
            none: run(SCHEMES[2])?,
        };
        for (n, run) in all.runs().into_iter().enumerate() {
            shown[n].1.push(ratio(volumes(run).1, volumes(all.base).1));
            lines.push(line(&source, run));
        }
        names.push(source.short());
        let published = table.get(FIGURE, ITEM, Some(source.app));
        let others = OTHERS.map(|(name, host)| {
            let value = decrease_on((plan, outcomes), &source, host)?;
            Ok::<_, PaperError>((name, value))
        });
        let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
        let recorded = recorded(plan, outcomes, &source)?;
        let mark = published.mark(Some(COALITION), group(&source.short()));
        marks.extend(mark.map(|mark| mark.turned(|decrease| 1.0 - decrease)));
        section
            .rows
            .extend(all.rows(&source, published, &others, recorded));
    }
    section.rows.sort_by_key(|row| row.item.clone());
    let drawn = plot::grouped_bars(
        "Data volume over the baseline's",
        "fraction",
        &names,
        &shown,
    );
    let caption = "All blocks that the app's run sends to the device, home writes included.";
    section.plots.push((caption.into(), drawn.beside(&marks)));
    let head = ["app", "scheme", "data", "journal", "home"].map(String::from);
    let caption = "Blocks of 4 KiB.";
    section.tables.push((caption.into(), head.into(), lines));
    Ok(section)
}

fn line(source: &Source, run: &Run) -> Vec<String> {
    vec![
        source.name(),
        run.scheme.clone(),
        data_blocks(run).to_string(),
        journal_blocks(run).to_string(),
        home_blocks(run).to_string(),
    ]
}

fn words() -> Vec<String> {
    vec![
        "The paper does not say what its volume counts. It follows from Table 4 that what is written before a sync returns falls by more than \
         28 to 47 %: so Fig 13 counts more than that, most plausibly the metadata that goes home as well. Compared is what the device really \
         gets, home writes included. Beside it stand the volume without them, and the one with a home write for each logged metadata block."
            .into(),
        "The host writes back as Android's init sets it: what is 2 s old, looked for every 5 s (the kernel's interval). Rows with Linux's 30 s, as in all \
         other figures, and with a look every 2 s stand beside."
            .into(),
    ]
}
