//! States of models dealt to judges on several threads.
//!
//! ```text
//! Model --State--> known? --no--> queue --> Judge (one for each worker) --> verdict
//!                    `--yes: the verdict of the equal one
//! ```
//!
//! - E1: a tree is judged once for the same number of acknowledgements, whichever models leave it,
//!   because a judge sees nothing else.
//! - E2: what is answered depends neither on the number of threads nor on their speed: each model
//!   numbers its states in its own order, and what is counted or kept of it is chosen by these
//!   numbers. Only an exploration that was stopped is another one each time.
//!
//! Memory is bounded by what is kept: about 100 bytes for each distinct tree, one state for each of
//! [`Job::groups_max`] groups of bad ones and each model, and `QUEUE` states for each worker that
//! wait. States share the pages that they have in common.

use crate::apply::complete;
use crate::call::Recording;
use crate::state::{Bound, Counts, Judge, JudgeError, Model, State, Verdict, acknowledged};
use crate::tree::Tree;
use base::Map;
use base::collections::fingerprint;
use rt::{Mutex, Receiver, Sender, channel};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// States that wait for each worker.
const QUEUE: usize = 16;

/// What is explored.
pub struct Job<'a> {
    /// What the program did.
    pub recording: &'a Recording,
    /// What a cut may leave of it. States are visited outside of simulations.
    pub models: &'a [Box<dyn Model>],
    /// How far.
    pub bound: &'a Bound,
    /// Number of judges that work at the same time.
    pub jobs: usize,
    /// Most groups of which a bad state is kept, for each model.
    pub groups_max: usize,
    /// What is known of trees before.
    pub known: &'a Verdicts,
    /// Which of the other trees judges are asked about.
    pub ask: Ask,
}

/// Which trees judges are asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// All.
    All,
    /// Those of one of `count` shares: which one a tree belongs to depends on the tree alone.
    Share {
        /// The share, from 0.
        index: u64,
        /// How many shares there are, at least 1.
        count: u64,
    },
    /// None: what is not known stays so, and does not count as judged.
    Nobody,
}

impl Ask {
    fn has(self, (hash, acknowledged): Key) -> bool {
        match self {
            Ask::All => true,
            Ask::Share { index, count } => {
                let n = (hash ^ (hash >> 32)).wrapping_add(acknowledged as u64);
                n % count.max(1) == index
            }
            Ask::Nobody => false,
        }
    }
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// States that models have made.
    pub states: u64,
    /// Distinct trees that were judged.
    pub judged: u64,
    /// Those of them that are bad.
    pub bad: u64,
}

/// What was found.
#[derive(Debug)]
pub struct Explored {
    /// What each model left, in the order of the models.
    pub models: Vec<OfModel>,
    /// Distinct trees that were made.
    pub trees: u64,
    /// Distinct trees that were judged.
    pub judged: u64,
    /// Nobody stopped it, and no judge broke.
    pub complete: bool,
    /// The judge that broke after trees were found bad: these stay found.
    pub broken: Option<ExploreError>,
    /// What judges said.
    pub verdicts: Verdicts,
}

/// What judges said of the trees of an exploration: the reason of each bad one.
#[derive(Clone, Default)]
pub struct Verdicts(Map<Key, Option<Arc<str>>>);

impl fmt::Debug for Verdicts {
    /// Only their number: the order of a map is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} verdicts", self.0.len())
    }
}

/// What is said of one tree: its hash, how much was acknowledged, and why it is bad, if it is.
pub type Said = (u64, u64, Option<String>);

impl Verdicts {
    /// All of them, in the order of the hashes.
    pub fn said(&self) -> Vec<Said> {
        let said = self.0.iter().map(|((hash, acknowledged), why)| {
            let why = why.as_ref().map(ToString::to_string);
            (*hash, *acknowledged as u64, why)
        });
        let mut said: Vec<Said> = said.collect();
        said.sort();
        said
    }

    /// Adds those of another exploration of the same recording.
    pub fn add(&mut self, said: Vec<Said>) {
        for (hash, acknowledged, why) in said {
            // More acknowledgements than a host can count are none that we have made.
            let acknowledged = usize::try_from(acknowledged).unwrap_or(usize::MAX);
            self.0.insert((hash, acknowledged), why.map(Arc::from));
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A judge that is not asked twice about a tree, nor about one that was explored. Whoever explains
/// a finding looks at many trees that lost a bit more or less, which were mostly explored.
pub struct Remembering {
    judge: Box<dyn Judge>,
    verdicts: Verdicts,
}

impl Judge for Remembering {
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        let key = (tree.hash(), acknowledged.len());
        let verdict = match self.verdicts.0.get(&key) {
            Some(known) => known.clone(),
            None => {
                let why = match self.judge.judge(tree, acknowledged)? {
                    Verdict::Good => None,
                    Verdict::Bad(why) => Some(why.into()),
                };
                self.verdicts.0.insert(key, why.clone());
                why
            }
        };
        Ok(verdict.map_or(Verdict::Good, |why| Verdict::Bad(why.to_string())))
    }
}

impl Explored {
    /// Adds to a judge what is known. It is asked again about the bad states that are kept, because
    /// one that says something else the next time has to be noticed.
    pub fn remembering(&self, judge: Box<dyn Judge>) -> Remembering {
        let mut verdicts = self.verdicts.clone();
        for bad in self.models.iter().flat_map(|model| &model.kept) {
            let state = &bad.state;
            verdicts.0.remove(&(state.tree.hash(), state.acknowledged));
        }
        Remembering { judge, verdicts }
    }
}

/// What one model left.
#[derive(Default, Debug)]
pub struct OfModel {
    /// Its name.
    pub name: String,
    /// Its cuts and states.
    pub counts: Counts,
    /// Distinct trees among its states; the others are equal to one of them.
    pub distinct: u64,
    /// Distinct trees that are bad.
    pub bad: u64,
    /// A bad state of each group, those of which least was lost first.
    pub kept: Vec<Bad>,
    /// Groups of bad states, with those of which none was kept.
    pub groups: u64,
    /// Why the model gave up, if it did; what stands above is what it left before.
    pub gave_up: Option<String>,
}

/// A bad state.
#[derive(Clone, Debug)]
pub struct Bad {
    /// It.
    pub state: State,
    /// What the judge said.
    pub why: Arc<str>,
    /// Its group.
    pub group: String,
    /// Distinct bad trees of the group.
    pub alike: u64,
    /// Its number among the states of its model.
    pub number: u64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ExploreError {
    /// The judge does not accept a tree that no cut has touched.
    #[error(
        "the judge rejects the tree {when}, without any power cut: {why}\n{}",
        advice(.when)
    )]
    Rejected {
        /// Which tree it is.
        when: &'static str,
        /// What the judge said.
        why: String,
    },
    /// A judge failed.
    #[error("{error} (model {model}, {line})")]
    Judge {
        /// The model whose state was judged.
        model: String,
        /// How the state is made again.
        line: String,
        /// What the judge said.
        error: JudgeError,
    },
    /// No judge could be made, or it failed before any state was made.
    #[error(transparent)]
    NoJudge(#[from] JudgeError),
    /// The host starts no more threads.
    #[error("a thread for one of {0} judges: {1}; take fewer of them with --jobs")]
    NoThread(usize, std::io::Error),
}

const BEFORE: &str = "before the run";
const AFTER: &str = "after the run";

fn advice(when: &str) -> &'static str {
    match when {
        BEFORE => {
            "a cut may come before the first call: make with --setup what has to be there, or let the judge accept that there is nothing yet"
        }
        _ => "nothing was explored: correct the judge, or the program",
    }
}

/// Which group a state belongs to by itself: the calls of which it lost something, or, where a
/// model cannot tell, the moment of the cut.
pub fn group_of(state: &State) -> String {
    let calls: BTreeSet<usize> = state.lost.iter().map(|part| part.call).collect();
    match calls.is_empty() {
        true => format!("cut after {}", state.calls),
        false => {
            let calls: Vec<String> = calls.iter().map(usize::to_string).collect();
            format!("lost of {}", calls.join(","))
        }
    }
}

/// Makes every state of every model and asks judges about them. `go_on` is called with each state;
/// false ends the exploration, and what is known by then is the result. A judge that breaks ends
/// it, too: with an error if no tree was bad by then, else with what was found and its words.
///
/// # Errors
/// See [`ExploreError`].
pub fn explore(
    job: &Job<'_>,
    make_judge: &(dyn Fn() -> Result<Box<dyn Judge>, JudgeError> + Sync),
    go_on: &(dyn Fn(Progress) -> bool + Sync),
) -> Result<Explored, ExploreError> {
    let texts = acknowledged(job.recording, job.recording.calls.len());
    let mut first = make_judge()?;
    let mut accepts = |when, tree, texts: &[&str]| match first.judge(tree, texts)? {
        Verdict::Good => Ok(()),
        Verdict::Bad(why) => Err(ExploreError::Rejected { when, why }),
    };
    accepts(BEFORE, &job.recording.start, &[])?;
    // Where the device refused calls, that the program breaks its files is what is looked for.
    if !job.recording.has_failures() {
        accepts(AFTER, &complete(job.recording), &texts)?;
    }

    let table = Table {
        job,
        texts: &texts,
        go_on,
        state: Mutex::named("table", Known::new(job)),
    };
    let (send, receive) = channel(QUEUE * job.jobs.max(1));
    let next_model = Mutex::named("next model", 0);
    rt::scope(|scope| {
        let (table, next_model) = (&table, &next_model);
        let go_on = || table.may_go_on();
        let models = job.jobs.clamp(1, job.models.len().max(1));
        let spawned = at_most(models, &go_on, || {
            let send = send.clone();
            let model = move || table.make_states(next_model, &send);
            scope.try_spawn("model", model).map(drop)
        });
        drop(send);
        let mut first = Some(first);
        let spawned = spawned.and_then(|()| {
            at_most(job.jobs.max(1), &go_on, || {
                let (receive, judge) = (receive.clone(), first.take());
                let judges = move || table.judge_states(judge, make_judge, &receive);
                scope.try_spawn("judge", judges).map(drop)
            })
        });
        if let Err(e) = spawned {
            table.fail(ExploreError::NoThread(job.jobs, e));
        }
        // When no judge is left, nothing may wait for one.
        drop(receive);
    });
    table.state.into_inner().result()
}

/// Calls `start` as often as `count` says, while `go_on` does.
fn at_most(
    count: usize,
    go_on: &dyn Fn() -> bool,
    mut start: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<()> {
    (0..count).take_while(|_| go_on()).try_for_each(|_| start())
}

/// A tree, and how much of it was promised (E1).
type Key = (u64, usize);

/// A state on its way to a judge.
struct Question {
    key: Key,
    state: State,
    model: usize,
}

/// What is known of a tree.
struct Entry {
    word: Word,
    /// Which models left it, as bits.
    models: u64,
}

enum Word {
    /// It waits for a judge.
    Open(Vec<(usize, u64, State)>),
    /// Nobody is asked.
    Unasked,
    Good,
    Bad(Arc<str>),
}

struct Known {
    entries: Map<Key, Entry>,
    models: Vec<Lot>,
    progress: Progress,
    stopped: bool,
    failure: Option<ExploreError>,
}

/// What is known of the states of one model.
#[derive(Default)]
struct Lot {
    out: OfModel,
    /// The best state of each group that is kept, and how good it is; smaller is better.
    kept: BTreeMap<String, (Merit, Bad)>,
    /// Bad states of each group, by the fingerprint of its name: a name has all calls of which
    /// something is lost.
    alike: Map<u64, u64>,
}

/// Less lost, an earlier cut, an earlier state. No two states of a model have the same (E2).
type Merit = (usize, usize, u64);

impl Lot {
    fn add(&mut self, number: u64, state: State, why: Arc<str>, groups_max: usize) {
        self.out.bad += 1;
        let group = group_of(&state);
        let name = fingerprint(group.as_bytes());
        *self.alike.entry(name).or_default() += 1;
        let merit = (state.lost.len(), state.calls, number);
        if self
            .kept
            .get(&group)
            .is_some_and(|(known, _)| *known <= merit)
        {
            return;
        }
        let bad = Bad {
            state,
            why,
            group: group.clone(),
            alike: 0,
            number,
        };
        self.kept.insert(group, (merit, bad));
        // A group that goes comes again with its best state, if that is among the best (E2).
        if self.kept.len() > groups_max
            && let Some(worst) = self.kept.iter().max_by_key(|(_, (merit, _))| *merit)
        {
            let worst = worst.0.clone();
            self.kept.remove(&worst);
        }
    }

    fn result(mut self) -> OfModel {
        self.out.groups = self.alike.len() as u64;
        let mut kept: Vec<_> = self.kept.into_values().collect();
        kept.sort_by_key(|(merit, _)| *merit);
        self.out.kept = kept.into_iter().map(|(_, bad)| bad).collect();
        for bad in &mut self.out.kept {
            bad.alike = self.alike[&fingerprint(bad.group.as_bytes())];
        }
        self.out
    }
}

impl Known {
    fn new(job: &Job<'_>) -> Known {
        let lot = |name: String| Lot {
            out: OfModel {
                name,
                ..OfModel::default()
            },
            ..Lot::default()
        };
        assert!(job.models.len() <= 64, "models are bits of a word");
        Known {
            entries: Map::default(),
            models: job.models.iter().map(|model| lot(model.name())).collect(),
            progress: Progress::default(),
            stopped: false,
            failure: None,
        }
    }

    fn ends(&self) -> bool {
        self.stopped || self.failure.is_some()
    }

    fn result(self) -> Result<Explored, ExploreError> {
        let broken = match self.failure {
            Some(failure) if self.progress.bad == 0 => return Err(failure),
            failure => failure,
        };
        let trees = self.entries.len() as u64;
        let verdicts = self.entries.into_iter().filter_map(|(key, entry)| {
            let verdict = match entry.word {
                Word::Open(_) | Word::Unasked => return None,
                Word::Good => None,
                Word::Bad(why) => Some(why),
            };
            Some((key, verdict))
        });
        Ok(Explored {
            verdicts: Verdicts(verdicts.collect()),
            models: self.models.into_iter().map(Lot::result).collect(),
            trees,
            judged: self.progress.judged,
            complete: !self.stopped && broken.is_none(),
            broken,
        })
    }
}

/// What models and judges share.
struct Table<'a> {
    job: &'a Job<'a>,
    texts: &'a [&'a str],
    go_on: &'a (dyn Fn(Progress) -> bool + Sync),
    state: Mutex<Known>,
}

impl Table<'_> {
    fn make_states(&self, next_model: &Mutex<usize>, send: &Sender<Question>) {
        loop {
            let nr = {
                let mut next = next_model.lock();
                *next += 1;
                *next - 1
            };
            let Some(model) = self.job.models.get(nr) else {
                return;
            };
            let mut number = 0;
            let mut visit = |state: State| {
                number += 1;
                self.enter(nr, number - 1, state, send)
            };
            let counts = model.explore(self.job.recording, self.job.bound, &mut visit);
            // One that was asked to end has not given up, though it says so as an error.
            let asked_to_end = counts.is_err() && !self.may_go_on();
            let mut known = self.state.lock();
            let out = &mut known.models[nr].out;
            match counts {
                Ok(counts) => out.counts = counts,
                Err(e) => {
                    out.counts.states = number;
                    out.gave_up = (!asked_to_end).then(|| e.to_string());
                }
            }
        }
    }

    /// Takes a state of a model; answers whether the model shall go on.
    fn enter(&self, model: usize, number: u64, state: State, send: &Sender<Question>) -> bool {
        let acknowledged = state.acknowledged.min(self.texts.len());
        let key = (state.tree.hash(), acknowledged);
        let question = {
            let known = &mut *self.state.lock();
            known.progress.states += 1;
            let is_new = !known.entries.contains_key(&key);
            let word = match is_new {
                true => self.first_word(key, &mut known.progress),
                false => Word::Unasked,
            };
            let entry = known.entries.entry(key);
            let entry = entry.or_insert(Entry { word, models: 0 });
            let is_asked = is_new && matches!(entry.word, Word::Open(_));
            let bit = 1 << model;
            if entry.models & bit == 0 {
                entry.models |= bit;
                let lot = &mut known.models[model];
                lot.out.distinct += 1;
                match &mut entry.word {
                    Word::Good | Word::Unasked => {}
                    Word::Bad(why) => {
                        lot.add(number, state.clone(), why.clone(), self.job.groups_max);
                    }
                    Word::Open(waiting) => waiting.push((model, number, state.clone())),
                }
            }
            is_asked.then_some(Question { key, state, model })
        };
        if let Some(question) = question
            && send.send(question).is_err()
        {
            return false;
        }
        self.may_go_on()
    }

    /// What is known of a tree that was not seen before.
    fn first_word(&self, key: Key, progress: &mut Progress) -> Word {
        match self.job.known.0.get(&key) {
            None if self.job.ask.has(key) => Word::Open(Vec::new()),
            None => Word::Unasked,
            Some(why) => {
                progress.judged += 1;
                progress.bad += u64::from(why.is_some());
                why.clone().map_or(Word::Good, Word::Bad)
            }
        }
    }

    fn may_go_on(&self) -> bool {
        let (progress, ends) = {
            let known = self.state.lock();
            (known.progress, known.ends())
        };
        if !ends && !(self.go_on)(progress) {
            self.state.lock().stopped = true;
            return false;
        }
        !ends
    }

    fn judge_states(
        &self,
        judge: Option<Box<dyn Judge>>,
        make: &(dyn Fn() -> Result<Box<dyn Judge>, JudgeError> + Sync),
        receive: &Receiver<Question>,
    ) {
        let mut judge = match judge.map_or_else(make, Ok) {
            Ok(judge) => judge,
            Err(error) => return self.fail(error.into()),
        };
        for question in receive.iter() {
            // What waits is taken off all the same: who sends must not wait for ever.
            if self.state.lock().ends() {
                continue;
            }
            let texts = &self.texts[..question.key.1];
            match judge.judge(&question.state.tree, texts) {
                Ok(verdict) => self.note(&question, verdict),
                Err(error) => {
                    // A judge that ended because everything ends has judged nothing.
                    if self.may_go_on() {
                        self.fail(ExploreError::Judge {
                            model: self.job.models[question.model].name(),
                            line: question.state.line,
                            error,
                        });
                    }
                }
            }
        }
    }

    fn fail(&self, why: ExploreError) {
        self.state.lock().failure.get_or_insert(why);
    }

    fn note(&self, question: &Question, verdict: Verdict) {
        let known = &mut *self.state.lock();
        known.progress.judged += 1;
        let Some(entry) = known.entries.get_mut(&question.key) else {
            return;
        };
        let word = match verdict {
            Verdict::Good => Word::Good,
            Verdict::Bad(why) => Word::Bad(why.into()),
        };
        let waiting = match std::mem::replace(&mut entry.word, word) {
            Word::Open(waiting) => waiting,
            Word::Good | Word::Bad(_) | Word::Unasked => return,
        };
        if let Word::Bad(why) = &entry.word {
            known.progress.bad += 1;
            for (model, number, state) in waiting {
                known.models[model].add(number, state, why.clone(), self.job.groups_max);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{Tape, tree_of};
    use crate::state::{ModelError, Part};

    /// Leaves files with a number as their content, some of them several times.
    struct Numbers {
        name: &'static str,
        numbers: Vec<u32>,
        gives_up: bool,
    }

    fn numbered(number: u32) -> Tree {
        tree_of(&[("n", number.to_string().as_bytes())])
    }

    fn read(tree: &Tree) -> u32 {
        let node = tree.find(b"n").and_then(|id| tree.node(id)).unwrap();
        String::from_utf8(node.content()).unwrap().parse().unwrap()
    }

    impl Model for Numbers {
        fn name(&self) -> String {
            self.name.into()
        }
        fn explore(
            &self,
            _: &Recording,
            _: &Bound,
            visit: &mut dyn FnMut(State) -> bool,
        ) -> Result<Counts, ModelError> {
            let mut counts = Counts::default();
            for &number in &self.numbers {
                counts.states += 1;
                let part = |call| Part {
                    call,
                    piece: 0,
                    what: format!("part of {call}"),
                };
                let state = State {
                    tree: numbered(number),
                    calls: 1,
                    under_way: false,
                    acknowledged: (number % 2) as usize,
                    lost: (0..number as usize % 7).map(part).collect(),
                    line: format!("{} {number}", self.name),
                };
                if !visit(state) {
                    break;
                }
            }
            match self.gives_up {
                true => Err(ModelError::Simulation("out of ideas".into())),
                false => Ok(counts),
            }
        }
    }

    /// Does not like multiples of a number, but 0 and 1.
    struct Dislikes(u32);

    impl Judge for Dislikes {
        fn judge(&mut self, tree: &Tree, texts: &[&str]) -> Result<Verdict, JudgeError> {
            let number = read(tree);
            match number > 1 && number.is_multiple_of(self.0) {
                true => Ok(Verdict::Bad(format!("{number} with {}", texts.len()))),
                false if number == 999_999 => Err(JudgeError("too large".into())),
                false => Ok(Verdict::Good),
            }
        }
    }

    fn tape() -> Recording {
        let mut tape = Tape::with(&[("n", b"0")]);
        tape.write("n", 0, b"1");
        tape.ack("done");
        tape.recording
    }

    fn models(sets: &[(&'static str, Vec<u32>)]) -> Vec<Box<dyn Model>> {
        let model = |(name, numbers): &(&'static str, Vec<u32>)| {
            Box::new(Numbers {
                name,
                numbers: numbers.clone(),
                gives_up: false,
            }) as Box<dyn Model>
        };
        sets.iter().map(model).collect()
    }

    fn run(
        models: &[Box<dyn Model>],
        jobs: usize,
        groups_max: usize,
        dislikes: u32,
        go_on: &(dyn Fn(Progress) -> bool + Sync),
    ) -> Result<Explored, ExploreError> {
        let known = Verdicts::default();
        part(
            models,
            (&known, Ask::All),
            jobs,
            groups_max,
            dislikes,
            go_on,
        )
    }

    fn part(
        models: &[Box<dyn Model>],
        (known, ask): (&Verdicts, Ask),
        jobs: usize,
        groups_max: usize,
        dislikes: u32,
        go_on: &(dyn Fn(Progress) -> bool + Sync),
    ) -> Result<Explored, ExploreError> {
        let recording = tape();
        let bound = Bound {
            states_max: 1000,
            total_max: u64::MAX,
            parts_max: 2,
        };
        let job = Job {
            recording: &recording,
            models,
            bound: &bound,
            jobs,
            groups_max,
            known,
            ask,
        };
        explore(&job, &|| Ok(Box::new(Dislikes(dislikes))), go_on)
    }

    fn two_models() -> Vec<Box<dyn Model>> {
        let a = (0..3000).map(|n| n * 7919 % 1500).collect();
        let b = (0..2000).map(|n| n * 104_729 % 1900).collect();
        models(&[("a", a), ("b", b)])
    }

    #[test]
    fn e1_a_tree_is_judged_once_and_counts_for_each_model() {
        let sets = [
            ("a", vec![4, 5, 4, 6, 4]),
            ("b", vec![6, 6, 9]),
            ("c", vec![]),
        ];
        let explored = run(&models(&sets), 2, 9, 3, &|_| true).unwrap();
        assert_eq!(explored.judged, 4);
        let counts = |of: &OfModel| (of.counts.states, of.distinct, of.bad, of.groups);
        let all: Vec<_> = explored.models.iter().map(counts).collect();
        assert_eq!(all, [(5, 3, 1, 1), (3, 2, 2, 2), (0, 0, 0, 0)]);
        let bad = &explored.models[1].kept;
        let lines: Vec<_> = bad
            .iter()
            .map(|bad| (bad.number, &*bad.state.line))
            .collect();
        assert_eq!(lines, [(2, "b 9"), (0, "b 6")]);
        assert_eq!(
            &*bad[0].why, "9 with 1",
            "the judge knows what was acknowledged"
        );
        assert!(explored.complete);
    }

    #[test]
    fn e2_the_result_does_not_depend_on_the_number_of_judges() {
        let told = |jobs| format!("{:?}", run(&two_models(), jobs, 3, 5, &|_| true).unwrap());
        let one = told(1);
        for jobs in [2, 3, 8] {
            assert_eq!(told(jobs), one, "{jobs} jobs");
        }
    }

    #[test]
    fn shares_together_are_the_whole() {
        let whole = run(&two_models(), 2, 3, 5, &|_| true).unwrap();
        let (mut known, mut judged) = (Verdicts::default(), 0);
        for index in 0..3 {
            let ask = Ask::Share { index, count: 3 };
            let none = Verdicts::default();
            let share = part(&two_models(), (&none, ask), 1, 3, 5, &|_| true).unwrap();
            assert_eq!(share.judged, share.verdicts.len() as u64);
            assert!(share.judged > 0 && share.judged < whole.judged);
            judged += share.judged;
            known.add(share.verdicts.said());
        }
        assert_eq!((judged, known.len()), (whole.judged, whole.verdicts.len()));
        // A judge that would find other trees bad is not asked.
        let merged = part(&two_models(), (&known, Ask::Nobody), 2, 3, 7, &|_| true).unwrap();
        assert_eq!(format!("{merged:?}"), format!("{whole:?}"));
        // What is not known is asked about, or is left out.
        let none = (&Verdicts::default(), Ask::Nobody);
        let nothing = part(&two_models(), none, 2, 3, 5, &|_| true).unwrap();
        assert_eq!((nothing.judged, nothing.verdicts.is_empty()), (0, true));
        assert_eq!(nothing.models[0].distinct, whole.models[0].distinct);
    }

    #[test]
    fn groups_keep_the_state_that_lost_least() {
        let explored = run(&two_models(), 2, 3, 5, &|_| true).unwrap();
        let of = &explored.models[0];
        assert_eq!((of.groups, of.kept.len()), (7, 3));
        let lost: Vec<_> = of.kept.iter().map(|bad| bad.state.lost.len()).collect();
        assert_eq!(lost, [0, 1, 2]);
        let alike: u64 = of.kept.iter().map(|bad| bad.alike).sum();
        assert!(alike > 100 && alike < of.bad, "{alike} of {}", of.bad);
        assert_eq!(of.kept[1].group, "lost of 0");
    }

    #[test]
    fn a_judge_that_remembers_is_asked_about_kept_states_and_new_trees_alone() {
        struct Counts(Arc<Mutex<Vec<u32>>>);
        impl Judge for Counts {
            fn judge(&mut self, tree: &Tree, _: &[&str]) -> Result<Verdict, JudgeError> {
                self.0.lock().push(read(tree));
                Ok(Verdict::Good)
            }
        }
        let sets = [("a", vec![5, 8, 12, 19])];
        let explored = run(&models(&sets), 1, 1, 2, &|_| true).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut judge = explored.remembering(Box::new(Counts(asked.clone())));
        let texts = ["done"];
        let mut verdict = |n: u32| judge.judge(&numbered(n), &texts[..n as usize % 2]).unwrap();
        assert_eq!(verdict(5), Verdict::Good);
        assert_eq!(verdict(12), Verdict::Bad("12 with 0".into()));
        // 8 lost least and was kept; 6 was not explored.
        for n in [8, 8, 6, 6] {
            assert_eq!(verdict(n), Verdict::Good, "{n}");
        }
        assert_eq!(*asked.lock(), [8, 6]);
    }

    #[test]
    fn a_judge_that_rejects_whole_trees_is_no_judge() {
        let rejected = |number: u32| {
            struct No(u32);
            impl Judge for No {
                fn judge(&mut self, tree: &Tree, _: &[&str]) -> Result<Verdict, JudgeError> {
                    match read(tree) == self.0 {
                        true => Ok(Verdict::Bad("no".into())),
                        false => Ok(Verdict::Good),
                    }
                }
            }
            let recording = tape();
            let bound = Bound {
                states_max: 1,
                total_max: u64::MAX,
                parts_max: 1,
            };
            let models = models(&[("a", vec![5])]);
            let job = Job {
                recording: &recording,
                models: &models,
                bound: &bound,
                jobs: 1,
                groups_max: 1,
                known: &Verdicts::default(),
                ask: Ask::All,
            };
            let judge = || Ok(Box::new(No(number)) as Box<dyn Judge>);
            let all: &(dyn Fn(Progress) -> bool + Sync) = &|_| panic!("nothing is explored");
            explore(&job, &judge, all).unwrap_err().to_string()
        };
        let before = rejected(0);
        assert!(
            before.contains("before the run") && before.contains("--setup"),
            "{before}"
        );
        assert!(rejected(1).contains("after the run"));
    }

    #[test]
    fn a_judge_that_fails_names_the_state() {
        let sets = [("a", vec![1, 2, 999_999, 3])];
        let why = run(&models(&sets), 2, 9, 5, &|_| true)
            .unwrap_err()
            .to_string();
        assert_eq!(why, "too large (model a, a 999999)");
    }

    #[test]
    fn a_judge_that_breaks_after_it_has_found_something_keeps_that() {
        let sets = [("a", vec![1, 2, 5, 999_999, 3])];
        let explored = run(&models(&sets), 1, 9, 5, &|_| true).unwrap();
        assert!(!explored.complete);
        let why = explored.broken.as_ref().unwrap().to_string();
        assert_eq!(why, "too large (model a, a 999999)");
        let counts = (explored.judged, explored.models[0].bad);
        assert_eq!(counts, (3, 1));
    }

    #[test]
    fn who_is_told_to_stop_keeps_what_is_known() {
        let explored = run(&two_models(), 2, 3, 5, &|now| now.states < 500).unwrap();
        assert!(!explored.complete && explored.judged <= 502);
        let states: u64 = explored.models.iter().map(|of| of.counts.states).sum();
        assert!((500..=502).contains(&states), "{states}");
    }

    #[test]
    fn a_model_that_gives_up_leaves_the_others() {
        let mut all = models(&[("a", vec![2, 3])]);
        all.push(Box::new(Numbers {
            name: "b",
            numbers: vec![5, 6],
            gives_up: true,
        }));
        let explored = run(&all, 1, 9, 5, &|_| true).unwrap();
        let given_up: Vec<_> = (explored.models.iter())
            .map(|of| (of.gave_up.as_deref(), of.counts.states, of.bad))
            .collect();
        assert_eq!(given_up, [(None, 2, 0), (Some("out of ideas"), 2, 1)]);
    }
}
