//! The exploration of a run on a modelled device: film it, choose cuts, recover and judge each
//! state, and cut some recoveries in turn. Its rules stand at the head of [`nand`](super).

use super::bound::{Cuts, NandBound, draw};
use super::film::{Camera, Film};
use super::id::{NandId, NandPath, Spot};
use super::life::{Filmed, Lives};
use crate::CrashError;
use crate::campaign::{Explored, Watch};
use crate::device::{Disk, Volume};
use crate::oracle::{Oracle, Subject};
use crate::{CrashConfig, Judgement};
use base::{Bytes, Nanos, Rng, Set, Time};
use rig::{Cause, Media};
use rt::Sim;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most states in one simulation.
const PER_SIM: usize = 256;
/// One state in so many is also mounted for writing, used and unmounted.
pub(super) const DEEP_ONE_IN: u64 = 16;

/// Is called with each state and its judgement; false ends the exploration.
pub type Each<'a> = dyn FnMut(&NandPath, &Judgement) -> bool + 'a;

/// What an exploration of a modelled device gave.
#[derive(Clone, Debug, Default)]
pub struct NandExplored {
    /// States, findings, failure.
    pub explored: Explored,
    /// Cuts by the operations that they fell into.
    pub census: Census,
}

/// Cuts judged, by the reason of the operation of the chips, whether it is an erase, and where in
/// it the cut fell.
#[derive(Clone, Debug, Default)]
pub struct Census(pub BTreeMap<(Cause, bool, &'static str), u64>);

impl Census {
    fn count(&mut self, film: &Film, id: &NandId) {
        let Some(op) = id
            .operation()
            .and_then(|n| film.operations(id.power_up).get(n))
        else {
            return;
        };
        let part = match id.spot {
            Spot::Before(_) => "before",
            Spot::After(_) => "after",
            _ => "inside",
        };
        let key = (op.cause, op.page.is_none(), part);
        *self.0.entry(key).or_default() += 1;
    }

    /// Cuts inside of programs (or erases) made for this reason.
    pub fn inside(&self, cause: Cause, erase: bool) -> u64 {
        self.0.get(&(cause, erase, "inside")).copied().unwrap_or(0)
    }

    /// One line for each kind of operation.
    pub fn lines(&self) -> Vec<String> {
        let line = |((cause, erase, part), n): (&(Cause, bool, &str), &u64)| {
            let what = if *erase { "erase" } else { "program" };
            format!("{n} cuts {part} {what}: {}", cause.word())
        };
        self.0.iter().map(line).collect()
    }
}

/// Runs `subject` once on a modelled device and films it, so that it can be cut anywhere.
///
/// # Errors
/// The volume is a disk in memory, cannot be mounted, or the simulation fails before the subject
/// begins.
pub fn film(
    config: &CrashConfig,
    volume: &Volume,
    subject: &dyn Subject,
) -> Result<Filmed, CrashError> {
    let Disk::Modelled(device) = volume.fresh(config.seed)? else {
        return Err(CrashError::Check("a disk in memory has no chips".into()));
    };
    let mut camera = None;
    let outcome = Sim::new(config.sim(config.seed)).run(|| {
        let camera = camera.insert(Arc::new(Camera::new(device.clone())));
        let mounted = config.mount(camera.clone())?;
        let began = rt::now();
        let (oracle, outcome) = subject.run(config, &mounted);
        let outcome = outcome.and_then(|()| Ok(mounted.unmount()?));
        let end = rt::now();
        if outcome.is_err() {
            drop(device.take_model());
            rt::power_cut();
        }
        let failure = outcome.err().map(|e| e.to_string());
        Ok::<_, CrashError>((oracle, began, end, failure))
    });
    let simulation = outcome
        .first_failure
        .map(|f| format!("{f}; replay: {}", outcome.replay));
    let (oracle, began, end, failure) = match outcome.value {
        Some(value) => value?,
        None => return Err(CrashError::Simulation(simulation.unwrap_or_default())),
    };
    let camera = camera.expect("the simulation began");
    Ok(Filmed {
        film: camera.develop(end),
        oracle,
        began,
        failure: failure.or(simulation),
        reached: outcome.reached,
    })
}

/// Runs `subject` once on a modelled device and judges the states of its cuts within `bound`.
/// `watch` is called with the first state of each simulation.
///
/// # Errors
/// The volume is a disk in memory, or the run does not have an id of [`Cuts::List`].
pub fn explore(
    config: &CrashConfig,
    volume: &Volume,
    subject: &dyn Subject,
    bound: &NandBound,
    watch: &mut Watch<'_>,
) -> Result<NandExplored, CrashError> {
    explore_each(config, volume, subject, bound, watch, &mut |_, _| true)
}

/// Explores as [`explore`] does, and calls `each` with every judgement.
///
/// # Errors
/// See [`explore`].
pub fn explore_each(
    config: &CrashConfig,
    volume: &Volume,
    subject: &dyn Subject,
    bound: &NandBound,
    watch: &mut Watch<'_>,
    each: &mut Each<'_>,
) -> Result<NandExplored, CrashError> {
    let Filmed {
        film,
        mut oracle,
        began,
        failure,
        reached,
    } = film(config, volume, subject)?;
    let mut explorer = Explorer {
        lives: Lives::new(config, DEEP_ONE_IN)?,
        config,
        bound,
        seen: Set::default(),
        watch,
        each,
        over: false,
        out: NandExplored {
            explored: Explored {
                failure,
                reached,
                ..Explored::default()
            },
            ..NandExplored::default()
        },
    };
    let run = Outer {
        untouched: Arc::new(film.untouched()),
        ..Outer::default()
    };
    explorer.level(oracle.as_mut(), &film, began, &run)?;
    Ok(explorer.out)
}

/// Judges one cut of a run or of a recovery as an exploration does.
pub(super) fn judge_one(
    config: &CrashConfig,
    oracle: &mut dyn Oracle,
    film: &Film,
    outer: &Outer,
    cut: (Time, NandId),
) -> Result<Judgement, CrashError> {
    let mut judged = None;
    let mut explorer = Explorer {
        lives: Lives::new(config, DEEP_ONE_IN)?,
        config,
        bound: &NandBound::default(),
        seen: Set::default(),
        watch: &mut |_| {},
        each: &mut |_, judgement| {
            judged = Some(judgement.clone());
            true
        },
        over: false,
        out: NandExplored::default(),
    };
    explorer.simulate(oracle, film, outer, &[cut]);
    judged.ok_or_else(|| unknown(&cut.1, film))
}

pub(super) fn unknown(id: &NandId, film: &Film) -> CrashError {
    let n = film.operations(id.power_up).len();
    let of = match id.power_up {
        false => "the run",
        true => "the recovery of the device",
    };
    CrashError::Check(format!(
        "{id}: {of} has no such operation of the chips; there are {n}, from 0"
    ))
}

/// Number of different moments among cuts that are in order.
fn points(cuts: &[(Time, NandId)]) -> u64 {
    let moment = |(at, id): &(Time, NandId)| (id.power_up, *at);
    let first = u64::from(!cuts.is_empty());
    let others = cuts.windows(2).filter(|w| moment(&w[0]) != moment(&w[1]));
    first + others.count() as u64
}

/// Seeds the schedule of a recovery by the media alone, so an id names one state (crash-nand-N5).
pub(super) fn recovery_seed(media: &Media) -> u64 {
    media.content_hash()
}

/// The state in whose recovery the cuts of a level lie; empty for the run itself.
#[derive(Clone, Default)]
pub(super) struct Outer {
    /// The cuts that lead to the state.
    pub path: Vec<NandId>,
    /// When the run was cut.
    pub at: Option<Time>,
    /// Blocks that the host has not touched in the run and in the recoveries on the way.
    pub untouched: Arc<Vec<(u64, Bytes)>>,
}

impl Outer {
    /// The state that a cut of this level leads to.
    fn state(&self, id: &NandId) -> NandPath {
        let mut path = self.path.clone();
        path.push(*id);
        NandPath(path)
    }
}

struct Explorer<'a, 'w> {
    lives: Lives<'a>,
    config: &'a CrashConfig,
    bound: &'a NandBound,
    seen: Set<(u64, u64)>,
    watch: &'a mut Watch<'w>,
    each: &'a mut Each<'w>,
    /// `each` has ended the exploration.
    over: bool,
    out: NandExplored,
}

impl Explorer<'_, '_> {
    /// Judges the cuts of one run or of one recovery.
    fn level(
        &mut self,
        oracle: &mut dyn Oracle,
        film: &Film,
        from: Time,
        outer: &Outer,
    ) -> Result<(), CrashError> {
        let depth = outer.path.len() as u32;
        if let (Cuts::List(ids), 0) = (&self.bound.cuts, depth)
            && let Some(id) = ids.iter().find(|id| id.time(film).is_none())
        {
            return Err(unknown(id, film));
        }
        let bound = match depth {
            0 => self.bound.clone(),
            _ => self.bound.of_recovery(depth),
        };
        let (cuts, beyond) = bound.choose(film, from);
        self.out.explored.beyond += beyond;
        self.out.explored.points += points(&cuts);
        let mut followed: Vec<usize> = (0..cuts.len()).collect();
        let mut rng = Rng::named(self.bound.seed ^ u64::from(depth), "crash/nand nested");
        let wanted = if depth < self.bound.nested {
            self.bound.nested_states
        } else {
            0
        };
        draw(&mut followed, wanted, &mut rng);
        let mut rest = 0;
        for last in followed {
            if self.over {
                return Ok(());
            }
            self.judge_all(oracle, film, outer, &cuts[rest..=last]);
            rest = last + 1;
            self.follow(oracle, film, outer, cuts[last])?;
        }
        self.judge_all(oracle, film, outer, &cuts[rest..]);
        Ok(())
    }

    /// Cuts the recovery of a state that was just judged.
    fn follow(
        &mut self,
        oracle: &mut dyn Oracle,
        film: &Film,
        outer: &Outer,
        (at, id): (Time, NandId),
    ) -> Result<(), CrashError> {
        let Some((_, media)) = film.media(&id) else {
            return Ok(());
        };
        // A device that does not come up was reported when its state was judged.
        let Ok(recovery) = self.lives.recovery(&media, recovery_seed(&media)) else {
            return Ok(());
        };
        let mut path = outer.path.clone();
        path.push(id);
        let untouched = outer.untouched.iter();
        let untouched = untouched.filter(|(block, _)| !recovery.touches(*block));
        let inner = Outer {
            path,
            at: Some(outer.at.unwrap_or(at)),
            untouched: Arc::new(untouched.cloned().collect()),
        };
        self.level(oracle, &recovery, Time(0), &inner)
    }

    fn judge_all(
        &mut self,
        oracle: &mut dyn Oracle,
        film: &Film,
        outer: &Outer,
        cuts: &[(Time, NandId)],
    ) {
        let mut done = 0;
        while done < cuts.len() && !self.over {
            let most = cuts.len().min(done + PER_SIM);
            done += self.simulate(oracle, film, outer, &cuts[done..most]);
        }
    }

    /// Judges cuts in one simulation until one of them ends it. Answers how many were done, with
    /// the one that ended it (crash-nand-N4).
    fn simulate(
        &mut self,
        oracle: &mut dyn Oracle,
        film: &Film,
        outer: &Outer,
        cuts: &[(Time, NandId)],
    ) -> usize {
        let mut sim = self.config.sim(self.config.seed);
        sim.policy = rt::Policy::Fifo;
        sim.quiet = true;
        if let Some((_, id)) = cuts.first() {
            (self.watch)(&outer.state(id).to_string());
        }
        let (mut done, mut open) = (0usize, None);
        let outcome = Sim::new(sim).run(|| {
            for (at, id) in cuts {
                done += 1;
                let at = outer.at.unwrap_or(*at);
                oracle.advance(at);
                let Some(media) = self.fresh(oracle, film, id) else {
                    continue;
                };
                let judgement = open.insert(Judgement::default());
                let judged = self.lives.judge(media, oracle, &outer.untouched, judgement);
                judged.inspect_err(|_| rt::power_cut())?;
                if let Some(judgement) = open.take() {
                    self.enter(oracle, outer, (at, id), judgement);
                }
                if self.over {
                    break;
                }
                // The limits of a state count from the last progress of time.
                rt::sleep(Nanos(1));
            }
            Ok::<_, String>(())
        });
        let why = match (outcome.first_failure, outcome.value) {
            (_, Some(Err(why))) => Some(why),
            (Some(failure), _) => Some(failure.to_string()),
            _ => None,
        };
        self.reach(outcome.reached);
        if let (Some(why), Some((at, id))) = (why, cuts.get(done.wrapping_sub(1))) {
            let mut judgement = open.take().unwrap_or_default();
            judgement.violations.push(format!("R1: recovery: {why}"));
            let at = outer.at.unwrap_or(*at);
            oracle.advance(at);
            self.enter(oracle, outer, (at, id), judgement);
        }
        done
    }

    /// What a cut leaves; `None` if equal media were judged in this epoch (crash-nand-N3).
    fn fresh(&mut self, oracle: &dyn Oracle, film: &Film, id: &NandId) -> Option<Media> {
        self.out.explored.enumerated += 1;
        let (_, media) = film.media(id)?;
        if !self.seen.insert((media.content_hash(), oracle.epoch())) {
            self.out.explored.deduplicated += 1;
            return None;
        }
        self.out.census.count(film, id);
        Some(media)
    }

    fn enter(
        &mut self,
        oracle: &dyn Oracle,
        outer: &Outer,
        (at, id): (Time, &NandId),
        judgement: Judgement,
    ) {
        self.out.explored.nested += u64::from(!outer.path.is_empty());
        let explored = &mut self.out.explored;
        let state = outer.state(id);
        self.over |= !(self.each)(&state, &judgement);
        explored.count(|| state.to_string(), at, oracle, judgement);
    }

    fn reach(&mut self, reached: rt::Reached) {
        for (mutant, times) in reached {
            *self.out.explored.reached.entry(mutant).or_default() += times;
        }
    }
}
