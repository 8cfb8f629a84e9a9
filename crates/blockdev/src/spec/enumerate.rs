//! Enumerates the states of one cut that a [`Bound`] asks for, those most likely to show a fault
//! first, and counts those that it leaves out.
//!
//! A *setting* says how far packs in flight were executed, how many barriers write-back has passed,
//! and how far a FIFO cache was written back. It leaves some writes free: each is kept, lost or
//! torn.
//!
//! | family | states of each setting with n free writes | linear | bounded | exhaustive |
//! |---|---|---|---|---|
//! | extremes | all kept, all lost | yes | yes | yes |
//! | singles | one lost, one kept | | if `subset_max > 0` | yes |
//! | prefixes | the first i kept, in order | yes | yes | those that are not below |
//! | torn | one torn or garbage; the others kept, or lost | | yes | yes |
//! | subsets | up to `subset_max` lost, up to `subset_max` kept | | yes | all 2^n, if n <= `subset_max`, else as bounded |
//! | torn subsets | one torn or garbage, any subset of the others | | | if all subsets |
//! | collateral | all kept, damage around one | | yes | yes |
//!
//! - C1: every state that is named is legal: [`Exact`] ensures that.
//! - C2: with `states_max` out of reach no state is named twice within a setting. (Two settings may
//!   name equal states.)
//! - C3: `enumerated + pruned + beyond` is the number of states that the bound names without
//!   pruning and without `states_max`; where `states_max` ends the work within a family, the states
//!   of the rest that pruning would have left out count as beyond.
//! - C4: the order depends on the cut and the bound only.

use super::cut::Free;
use super::exact::{Exact, Form, Named, Queue, Rest};
use super::prune::{Group, Groups};
use super::{Bound, Choice, Ledger, Mode};
use crate::Caps;
use base::Time;
use base::collections::mix;

/// Numbers of states of a cut.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counted {
    /// States that were named.
    pub enumerated: u64,
    /// Left out because no recovery can tell them from a named one.
    pub pruned: u64,
    /// Left out because there are too many. A setting beyond the first [`SETTINGS_MAX`] counts as
    /// one.
    pub beyond: u64,
}

/// The maximum of settings of one cut that are enumerated.
pub const SETTINGS_MAX: usize = 4096;

/// A cut to be enumerated.
pub(crate) struct Cut<'a> {
    pub ledger: &'a Ledger,
    pub at: Time,
    pub caps: &'a Caps,
    /// The group of a write that no recovery looks at by itself.
    pub group: &'a dyn Fn(u64) -> Option<Group>,
}

/// The progress of packs, barriers and FIFO cache at the cut.
#[derive(Clone)]
struct Setting {
    /// Number of the first write, entries executed, entries.
    packs: Vec<(u64, u32, u32)>,
    /// Barriers passed, barriers.
    epoch: (u32, u32),
    /// Writes of the FIFO cache written back, writes in it.
    queue: (Queue, u32),
    fifo: bool,
}

impl Setting {
    fn exact(&self, rest: Rest) -> Exact {
        let default = |n: u32| if rest == Rest::Kept { n } else { 0 };
        let mut exact = Exact::all(rest);
        let packs = self.packs.iter().filter(|p| p.1 != default(p.2));
        exact.packs = packs.map(|p| (p.0, p.1)).collect();
        exact.epoch = (self.epoch.0 != default(self.epoch.1)).then_some(self.epoch.0);
        let queue = self.queue.0;
        let said = queue.written != default(self.queue.1) || queue.lazy;
        exact.queue = (self.fifo && said).then_some(queue);
        exact
    }

    fn is(&self, end: impl Fn(u32) -> u32) -> bool {
        self.packs.iter().all(|p| p.1 == end(p.2))
            && self.epoch.0 == end(self.epoch.1)
            && self.queue.0.written == end(self.queue.1)
            && !self.queue.0.lazy
    }
}

/// A setting, and what it leaves free.
struct Open {
    setting: Setting,
    free: Vec<Free>,
    forms: Vec<Vec<Form>>,
    /// Forms left out by pruning, by write.
    forms_pruned: Vec<u64>,
    groups: Groups,
    full: bool,
    zero: bool,
}

impl Open {
    fn n(&self) -> u64 {
        self.free.len() as u64
    }

    /// The number of torn forms of all free writes, pruned ones too.
    fn torn(&self) -> u64 {
        let forms: u64 = self.forms.iter().map(|f| f.len() as u64).sum();
        forms + self.forms_pruned.iter().sum::<u64>()
    }

    /// The state that singles out these free writes (ascending) against the rest.
    fn state(&self, rest: Rest, singled: &[usize], torn: Option<(usize, Form)>) -> Exact {
        let mut exact = self.setting.exact(rest);
        let id = |i: usize| self.free[i].id;
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for i in singled {
            match runs.last_mut() {
                Some(run) if run.1 + 1 == *i => run.1 = *i,
                _ => runs.push((*i, *i)),
            }
        }
        for (from, to) in runs {
            let short = to - from < 2;
            let each = (from..=to).filter(|_| short).map(|i| (id(i), id(i)));
            let range = (!short).then(|| (id(from), id(to)));
            exact
                .named
                .extend(each.chain(range).map(|(first, last)| Named {
                    first,
                    last,
                    form: Form::Other,
                }));
        }
        if let Some((i, form)) = torn {
            let at = exact.named.partition_point(|n| n.first < id(i));
            let (first, last) = (id(i), id(i));
            exact.named.insert(at, Named { first, last, form });
        }
        exact
    }

    /// The state that keeps these free writes, said in the shorter way.
    fn keeping(&self, kept: &[usize], torn: Option<(usize, Form)>) -> Exact {
        let torn_at = torn.map(|t| t.0);
        if kept.len() * 2 <= self.free.len() {
            return self.state(Rest::Lost, kept, torn);
        }
        let mut next = kept.iter().copied().peekable();
        let lost = |i: &usize| next.next_if_eq(i).is_none() && Some(*i) != torn_at;
        let lost: Vec<usize> = (0..self.free.len()).filter(lost).collect();
        self.state(Rest::Kept, &lost, torn)
    }
}

/// Which subsets of the free writes are taken besides singles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subsets {
    /// Up to this many lost, up to this many kept.
    UpTo(u64),
    /// All of them.
    All,
    /// All that a recovery can tell apart.
    Product,
}

/// Names the states of `cut` within `bound`, until `each` answers false.
pub(crate) fn enumerate(
    cut: &Cut<'_>,
    bound: &Bound,
    each: &mut dyn FnMut(Choice) -> bool,
) -> Counted {
    let mut walk = Walk {
        bound,
        each,
        counted: Counted::default(),
        stopped: false,
    };
    let (settings, skipped) = cut.settings();
    walk.counted.beyond += skipped;
    let open: Vec<Open> = settings.into_iter().map(|s| cut.open(s, bound)).collect();
    let quiet = open.len() == 1 && open[0].free.is_empty();
    walk.family(if quiet { 1 } else { 2 }, |w| {
        let _ = (quiet || w.emit(Choice::Oldest)) && w.emit(Choice::Newest);
    });
    match bound.mode {
        Mode::Random(n) => walk.family(u64::from(n), |w| {
            let mut seeds = (0..u64::from(n)).map(|n| mix(cut.at.0 ^ mix(n)));
            let _ = seeds.all(|seed| w.emit(Choice::Seed(seed)));
        }),
        Mode::Linear if quiet => {}
        Mode::Linear => {
            open.iter().for_each(|o| walk.extremes(o));
            open.iter().for_each(|o| walk.prefixes(o, Subsets::UpTo(0)));
        }
        _ if quiet => {}
        _ => {
            let by = |o: &Open| subsets(o, bound);
            open.iter().for_each(|o| walk.extremes(o));
            open.iter().for_each(|o| walk.stage(o, 1, by(o)));
            open.iter().for_each(|o| walk.prefixes(o, by(o)));
            open.iter().for_each(|o| walk.torn(o));
            open.iter().for_each(|o| walk.subsets(o, by(o)));
            open.iter().for_each(|o| walk.torn_subsets(o, by(o)));
            open.iter().for_each(|o| walk.collateral(o));
        }
    }
    walk.counted
}

fn subsets(open: &Open, bound: &Bound) -> Subsets {
    let max = u64::from(bound.subset_max);
    if bound.mode != Mode::Exhaustive {
        return Subsets::UpTo(max);
    }
    let alone = open.n() - open.groups.members();
    if bound.prune && !open.groups.is_empty() && alone <= max.min(62) {
        Subsets::Product
    } else if open.n() <= max {
        Subsets::All
    } else {
        Subsets::UpTo(max)
    }
}

impl Cut<'_> {
    /// All settings, the newest and the oldest first, and how many more there are.
    fn settings(&self) -> (Vec<Setting>, u64) {
        let newest = Exact::all(Rest::Kept);
        let (structure, _) = self.ledger.open(self.at, self.caps, &newest);
        let mut out = Vec::new();
        let mut skipped = 0;
        let mut packs: Vec<(u64, u32, u32)> =
            structure.packs.iter().map(|(id, n)| (*id, 0, *n)).collect();
        loop {
            skipped += self.lines(&packs, &mut out);
            let Some(i) = packs.iter().position(|p| p.1 < p.2) else {
                break;
            };
            if out.len() >= SETTINGS_MAX {
                let all = packs
                    .iter()
                    .fold(1u64, |all, p| all.saturating_mul(u64::from(p.2) + 1));
                skipped = all;
                break;
            }
            packs[i].1 += 1;
            packs[..i].iter_mut().for_each(|p| p.1 = 0);
        }
        // The newest is found last, the oldest first.
        if let Some(full) = out.iter().position(|s| s.is(|n| n)) {
            let full = out.remove(full);
            out.insert(0, full);
        }
        (out, skipped)
    }

    /// Adds the settings of barriers and FIFO cache for given packs.
    fn lines(&self, packs: &[(u64, u32, u32)], out: &mut Vec<Setting>) -> u64 {
        let mut exact = Exact::all(Rest::Kept);
        exact.packs = packs.iter().map(|p| (p.0, p.1)).collect();
        let (open, _) = self.ledger.open(self.at, self.caps, &exact);
        let mut skipped = 0;
        let mut push = |epoch: u32, queue: Queue| {
            if out.len() >= SETTINGS_MAX {
                skipped += 1;
                return;
            }
            out.push(Setting {
                packs: packs.to_vec(),
                epoch: (epoch, open.barriers),
                queue: (queue, open.queue),
                fifo: self.caps.cache_fifo,
            });
        };
        for epoch in 0..=open.barriers {
            for written in 0..=open.queue {
                let early = Queue {
                    written,
                    lazy: false,
                };
                push(epoch, early);
                if open.lazy && written > 0 {
                    push(
                        epoch,
                        Queue {
                            written,
                            lazy: true,
                        },
                    );
                }
            }
        }
        skipped
    }

    fn open(&self, setting: Setting, bound: &Bound) -> Open {
        let (_, free) = self
            .ledger
            .open(self.at, self.caps, &setting.exact(Rest::Kept));
        let groups: Vec<Option<Group>> = match bound.prune {
            true => free.iter().map(|f| (self.group)(f.id)).collect(),
            false => vec![None; free.len()],
        };
        let mut forms = Vec::with_capacity(free.len());
        let mut forms_pruned = Vec::with_capacity(free.len());
        for (f, group) in free.iter().zip(&groups) {
            let places = places(f.granules, u64::from(bound.torn_max));
            let mut all = match bound.torn_max {
                0 => Vec::new(),
                _ => Form::torn(f.granules, f.garbage, &places),
            };
            let before = all.len();
            if group.is_some() {
                all = one_of_a_kind(&all);
            }
            forms_pruned.push((before - all.len()) as u64);
            forms.push(all);
        }
        Open {
            full: setting.is(|n| n),
            zero: setting.is(|_| 0),
            groups: Groups::new(&groups),
            setting,
            free,
            forms,
            forms_pruned,
        }
    }
}

/// The first head and the first garbage (prune-P5).
fn one_of_a_kind(forms: &[Form]) -> Vec<Form> {
    let head = forms.iter().find(|f| matches!(f, Form::Head(_)));
    let garbage = forms.iter().find(|f| matches!(f, Form::GarbageAt(_)));
    head.into_iter().chain(garbage).copied().collect()
}

/// At most `most` granules at which a write of so many may break off: the first, the last, and
/// others between them.
fn places(granules: u64, most: u64) -> Vec<u64> {
    let inside = granules.saturating_sub(1);
    let mut out: Vec<u64> = Vec::new();
    if most >= inside {
        out.extend(1..granules);
        return out;
    }
    let mut add = |place: u64| {
        if place > 0 && place < granules && !out.contains(&place) && (out.len() as u64) < most {
            out.push(place);
        }
    };
    add(1);
    add(inside);
    let mut parts = 2;
    while parts <= granules * 2 && parts <= most.saturating_mul(4) {
        (1..parts)
            .step_by(2)
            .for_each(|k| add(granules * k / parts));
        parts *= 2;
    }
    out.sort_unstable();
    out
}

struct Walk<'a> {
    bound: &'a Bound,
    each: &'a mut dyn FnMut(Choice) -> bool,
    counted: Counted,
    stopped: bool,
}

impl Walk<'_> {
    fn emit(&mut self, choice: Choice) -> bool {
        if self.counted.enumerated >= u64::from(self.bound.states_max) {
            self.stopped = true;
        }
        if !self.stopped {
            self.counted.enumerated += 1;
            self.stopped = !(self.each)(choice);
            return !self.stopped;
        }
        false
    }

    /// C3: runs a family that has `size` members without pruning.
    fn family(&mut self, size: u64, work: impl FnOnce(&mut Self)) {
        let before = self.counted.enumerated;
        if !self.stopped {
            work(self);
        }
        let rest = size.saturating_sub(self.counted.enumerated - before);
        match self.stopped {
            true => self.counted.beyond = self.counted.beyond.saturating_add(rest),
            false => self.counted.pruned = self.counted.pruned.saturating_add(rest),
        }
    }

    fn exact(&mut self, exact: Exact) -> bool {
        self.emit(Choice::Exact(exact))
    }

    /// Names all kept and all lost; the newest and the oldest state have been named already.
    fn extremes(&mut self, open: &Open) {
        let kept = !open.full;
        let lost = !open.zero && !open.free.is_empty();
        self.family(u64::from(kept) + u64::from(lost), |w| {
            let _ = (!kept || w.exact(open.state(Rest::Kept, &[], None)))
                && (!lost || w.exact(open.state(Rest::Lost, &[], None)));
        });
    }

    /// Names the states with `s` lost, then those with `s` kept.
    fn stage(&mut self, open: &Open, s: u64, by: Subsets) {
        let n = open.n();
        let reached = match by {
            Subsets::UpTo(max) => s <= max,
            _ => true,
        };
        if !reached || s * 2 > n {
            return;
        }
        let all: &[(Rest, bool)] = match s * 2 == n {
            true => &[(Rest::Kept, false)],
            false => &[(Rest::Kept, false), (Rest::Lost, true)],
        };
        for (rest, kept) in all {
            let prefix = if *kept { s } else { n - s };
            let elsewhere = !names_prefix(open, by, prefix as usize);
            self.family(choose(n, s) - u64::from(elsewhere), |w| {
                combinations(n as usize, s as usize, &mut |singled| {
                    !open
                        .groups
                        .tells(|i| singled.binary_search(&i).is_ok() == *kept)
                        || w.exact(open.state(*rest, singled, None))
                });
            });
        }
    }

    /// Names the states in which the first writes are kept, if no other family names them.
    fn prefixes(&mut self, open: &Open, by: Subsets) {
        let n = open.free.len();
        let mine: Vec<usize> = (1..n).filter(|i| !names_prefix(open, by, *i)).collect();
        self.family(mine.len() as u64, |w| {
            let all: Vec<usize> = (0..n).collect();
            let _ = mine.iter().all(|i| w.exact(open.keeping(&all[..*i], None)));
        });
    }

    /// Names the states with one write torn and the others kept, then those with the others lost.
    fn torn(&mut self, open: &Open) {
        let rests: &[Rest] = match open.free.len() {
            1 => &[Rest::Kept],
            _ => &[Rest::Kept, Rest::Lost],
        };
        for rest in rests {
            self.family(open.torn(), |w| {
                for (i, forms) in open.forms.iter().enumerate() {
                    let mut forms = forms.iter();
                    if !forms.all(|form| w.exact(open.state(*rest, &[], Some((i, *form))))) {
                        return;
                    }
                }
            });
        }
    }

    fn subsets(&mut self, open: &Open, by: Subsets) {
        let n = open.n();
        if by != Subsets::Product {
            let most = match by {
                Subsets::UpTo(max) => max.min(n / 2),
                _ => n / 2,
            };
            return (2..=most).for_each(|s| self.stage(open, s, by));
        }
        let done = (0..=1).map(|s| stage_size(n, s)).sum::<u64>();
        let elsewhere = (1..n as usize).filter(|i| !names_prefix(open, by, *i));
        let size = power(n).saturating_sub(done + elsewhere.count() as u64);
        self.family(size, |w| {
            open.groups.each(open.free.len(), &mut |kept| {
                let few = kept.len().min(open.free.len() - kept.len()) <= 1;
                few || w.exact(open.keeping(kept, None))
            });
        });
    }

    fn torn_subsets(&mut self, open: &Open, by: Subsets) {
        let n = open.free.len();
        if matches!(by, Subsets::UpTo(_)) || n < 3 {
            return;
        }
        let others = power(n as u64 - 1) - 2;
        self.family(open.torn().saturating_mul(others), |w| {
            open.groups.each(n, &mut |kept| {
                // Each kept write in turn is the torn one.
                (kept.len() == n || kept.len() == 1)
                    || kept.iter().all(|i| {
                        let rest: Vec<usize> = kept.iter().copied().filter(|k| k != i).collect();
                        let mut forms = open.forms[*i].iter();
                        forms.all(|form| w.exact(open.keeping(&rest, Some((*i, *form)))))
                    })
            });
        });
    }

    fn collateral(&mut self, open: &Open) {
        let hit: Vec<u64> = open
            .free
            .iter()
            .filter(|f| f.collateral)
            .map(|f| f.id)
            .collect();
        self.family(hit.len() as u64, |w| {
            let _ = hit.iter().all(|id| {
                let mut exact = open.state(Rest::Kept, &[], None);
                exact.collateral = Some(*id);
                w.exact(exact)
            });
        });
    }
}

/// True if the subsets that are taken have the one that keeps the first `i` writes alone among
/// them. Else the family of prefixes names it (prune-P4).
fn names_prefix(open: &Open, by: Subsets, i: usize) -> bool {
    let reached = match by {
        Subsets::UpTo(max) => i.min(open.free.len() - i) as u64 <= max,
        Subsets::All | Subsets::Product => true,
    };
    reached && open.groups.tells(|m| m < i)
}

/// States of a stage: `s` lost or `s` kept of `n`.
fn stage_size(n: u64, s: u64) -> u64 {
    match s * 2 {
        twice if twice > n => 0,
        twice if twice == n => choose(n, s),
        _ => choose(n, s).saturating_mul(2),
    }
}

/// 2^n, at most `u64::MAX`.
fn power(n: u64) -> u64 {
    1u64.checked_shl(n.min(64) as u32).unwrap_or(u64::MAX)
}

/// Subsets of `s` out of `n`, at most `u64::MAX`.
fn choose(n: u64, s: u64) -> u64 {
    let mut all: u128 = 1;
    for i in 0..s.min(n - s) {
        all = all * u128::from(n - i) / u128::from(i + 1);
        if all > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    all as u64
}

/// Calls `each` with all ascending choices of `s` out of `0..n`, in lexical order, until it answers
/// false; answers what the last call did.
pub(super) fn combinations(n: usize, s: usize, each: &mut dyn FnMut(&[usize]) -> bool) -> bool {
    let mut at: Vec<usize> = (0..s).collect();
    loop {
        if !each(&at) {
            return false;
        }
        let Some(i) = (0..s).rev().find(|i| at[*i] < n - s + *i) else {
            return true;
        };
        at[i] += 1;
        for j in i + 1..s {
            at[j] = at[j - 1] + 1;
        }
    }
}
