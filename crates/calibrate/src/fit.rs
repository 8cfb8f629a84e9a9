//! Fitting: the values of a profile's fields with which its model shows the times that were
//! measured.
//!
//! No formula for a device is inverted here. The model that a run will use is measured by the same
//! code as the device, in virtual time, and its fields are changed until both agree. So what chips
//! and cache hide of a cost is hidden from the fit too, and a field that nothing measured depends
//! on keeps the template's value and is said to be unseen.

use crate::bench::Virtual;
use crate::estimate::Estimate;
use crate::fields::{Assumed, Field, Sort, Unseen, number, path, put};
use crate::measure::{Effort, MeasureError, Seen, measure};
use crate::probe::{Plan, Probe, Wanted};
use crate::search::{Found, Parameter, search};
use base::Nanos;
use blockdev::{Caps, Model};
use ctrl::{Profile, ProfileError};
use serde::Serialize;
use std::collections::BTreeSet;
use thiserror::Error;
use toml::{Table, Value};

/// Part of a time that a model need not explain: a clock has a resolution, a host its noise.
const NOISE_SHARE: f64 = 0.005;
/// The same in microseconds.
const NOISE_US: f64 = 0.1;
/// Times of each probe of a model: enough that an erase in some of them does not move the median.
const MODEL_REPEATS: usize = 11;
/// Virtual time of a probe of a model after which it is repeated no more than it must.
const MODEL_MS: u64 = 2000;
/// Bytes of the model that are written and read.
const MODEL_AREA: u64 = 8 << 20;
/// The same for bursts.
const BURST_AREA: u64 = 32 << 20;
/// A fit that misses by more than this share in the mean asks for the fields in reserve.
const MISS: f64 = 0.03;
/// Sizes of caches that are tried, KiB, as powers of two.
const CACHES: std::ops::RangeInclusive<u32> = 5..=15;
/// Another size of the cache explains bursts as well if its sum of squares is larger by less than
/// this.
const AS_GOOD: f64 = 4.0;
/// Measurements that are left out at most.
const OUTLIERS: usize = 4;
/// One that is missed by so many standard deviations may be left out,
const OUTLIER: f64 = 10.0;
/// if without it the sum of squares falls to this share.
const OUTLIER_SHARE: f64 = 0.2;
/// A field that is open by so much is one on which nothing depends.
const FAR: f64 = 100.0;
/// Rounds of fields, then cache.
const ROUNDS: usize = 3;

/// Why nothing could be fitted.
#[derive(Debug, Error)]
pub enum FitError {
    /// The template.
    #[error("{0}")]
    Template(#[from] ProfileError),
    /// The model refused a request.
    #[error("the model of the template: {0}")]
    Model(MeasureError),
    /// Nothing that a field depends on was measured.
    #[error("too little was measured: {0} times; a fit needs at least {LEAST}, as of {EXAMPLE}")]
    TooLittle(usize),
}

const LEAST: usize = 4;
const EXAMPLE: &str = "a write and a flush at two sizes each";

/// A field that is known from a register, and not to be fitted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Given {
    /// Its path in the profile.
    pub field: String,
    /// Its value.
    pub value: Value,
    /// Where it was read.
    pub from: String,
}

/// A field that was fitted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fitted {
    /// Its path in the profile.
    pub field: String,
    /// The template's value.
    pub template: f64,
    /// The value found.
    pub value: f64,
    /// Lower end of the interval of 95 %.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A time that was measured, and what the fitted model shows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Check {
    /// What it is.
    pub probe: Probe,
    /// As measured.
    pub measured: Estimate,
    /// The model's median, microseconds.
    pub model_us: f64,
    /// True if the fit did without it, because it alone contradicts all others: an erase or another
    /// program made most of its commands long.
    pub left_out: bool,
}

/// The outcome of a fit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fit {
    /// The kind of the profile.
    pub kind: String,
    /// The timing set of the template that the fit began from.
    pub timing: String,
    /// Fields that were fitted.
    pub fitted: Vec<Fitted>,
    /// Fields that were read from registers.
    pub given: Vec<Given>,
    /// Fields that could be seen on some devices and were not on this one: the template's values.
    pub assumed: Vec<Assumed>,
    /// What cannot be seen on any.
    pub unseen: Vec<Unseen>,
    /// Each measured time beside the fitted model's.
    pub checks: Vec<Check>,
}

impl Fit {
    /// The root of the mean square of the relative differences between model and measurement, those
    /// left out not counted.
    pub fn miss(&self) -> f64 {
        let used = || self.checks.iter().filter(|c| !c.left_out);
        let square = |c: &Check| (c.model_us / c.measured.us - 1.0).powi(2);
        let sum: f64 = used().map(square).sum();
        (sum / used().count().max(1) as f64).sqrt()
    }
}

/// Fits a profile to what was measured. `template` is the text of a profile; `given` are fields
/// that are known.
///
/// # Errors
/// The template cannot be used, or too little was measured.
pub fn fit(template: &str, given: &[Given], seen: &Seen) -> Result<Fit, FitError> {
    let mut problem = Problem::new(template, given, seen)?;
    let mut fields: Vec<Field> = problem.sort.main.to_vec();
    let mut assumed = Vec::new();
    let mut cache = None;
    let mut found = problem.fitted(&fields, &mut assumed)?;
    for round in 0..ROUNDS {
        let next = problem.find_cache()?;
        let settled = round > 0 && next == cache;
        cache = next;
        if settled {
            break;
        }
        assumed.clear();
        problem.left_out.clear();
        fields = problem.sort.main.to_vec();
        found = problem.fitted(&fields, &mut assumed)?;
        if problem.pinned(&found) {
            // Those at zero stay there: what they and the chips take is seen in sums only.
            let zero = problem.at_zero(&found);
            fields.retain(|f| !zero.contains(&f.name));
            fields.extend(problem.sort.reserve);
            assumed.clear();
            let least = found;
            found = problem.fitted(&fields, &mut assumed)?;
            found.keep_zeros(least);
        }
    }
    problem.outcome(found, cache, assumed, given)
}

/// The times that a profile's model shows for the probes of a plan.
///
/// # Errors
/// The profile cannot be used.
pub fn predict(profile: &Profile, plan: &Plan, area: u64, bytes: u64) -> Result<Seen, FitError> {
    let effort = Effort {
        area,
        repeats: MODEL_REPEATS,
        budget: Nanos::from_millis(MODEL_MS),
        seed: 1,
    };
    let mut bench = Virtual::new(profile.build(Some(bytes), None)?);
    measure(&mut bench, plan, &effort, &mut |_| true).map_err(FitError::Model)
}

/// The size of the cache that explains the bursts, KiB, and the sizes that do as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cache {
    kib: u32,
    low: u32,
    high: u32,
}

/// A field of this template that is being fitted.
#[derive(Clone, PartialEq, Debug)]
struct Place {
    path: Vec<String>,
    parameter: Parameter,
}

struct Problem<'a> {
    table: Table,
    /// The template's table with what is given, which holds the starting values.
    origin: Table,
    sort: Sort,
    kind: String,
    set: String,
    given: &'a [Given],
    /// What was measured and the model can show, too.
    seen: Seen,
    /// Single measurements that contradict all others.
    left_out: BTreeSet<Probe>,
}

struct Solved {
    places: Vec<Place>,
    found: Found,
}

impl Solved {
    /// Adds the fields that an earlier fit left at zero.
    fn keep_zeros(&mut self, earlier: Solved) {
        for (j, place) in earlier.places.into_iter().enumerate() {
            let known = self.places.iter().any(|p| p.path == place.path);
            if earlier.found.at[j] <= 0.0 && !known {
                self.places.push(place);
                self.found.at.push(0.0);
                self.found.half.push(earlier.found.half[j]);
            }
        }
    }
}

impl<'a> Problem<'a> {
    fn new(template: &str, given: &'a [Given], seen: &Seen) -> Result<Problem<'a>, FitError> {
        let profile = Profile::from_toml(template)?;
        let syntax = |e: toml::de::Error| ProfileError::Syntax(e.to_string());
        let mut table: Table = toml::from_str(template).map_err(syntax)?;
        let set = profile.timing().to_string();
        for g in given {
            let names: Vec<String> = g.field.split('.').map(String::from).collect();
            put(&mut table, &names, g.value.clone());
        }
        // What is given has to be possible, too.
        let kind = table
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let kind = kind.to_string();
        let sort = Sort::of(&kind).ok_or_else(|| {
            let what = format!("kind = {kind:?} cannot be fitted");
            ProfileError::Syntax(what)
        })?;
        let changed = Profile::from_toml(&table.to_string())?;
        let seen = possible(&changed, seen, sort.serial)?;
        if seen.keys().filter(|p| !p.is_burst()).count() < LEAST {
            return Err(FitError::TooLittle(seen.len()));
        }
        Ok(Problem {
            origin: table.clone(),
            table,
            sort,
            kind,
            set,
            given,
            seen,
            left_out: BTreeSet::new(),
        })
    }
    fn profile(&self, table: &Table) -> Result<Profile, FitError> {
        Ok(Profile::from_toml(&table.to_string())?)
    }
    fn places(&self, fields: &[Field]) -> Vec<Place> {
        let each = fields.iter().filter_map(|field| {
            let path = path(&self.origin, &self.set, field.name);
            let parameter = Parameter {
                start: number(&self.origin, &path)?,
                small: field.small,
            };
            Some(Place { path, parameter })
        });
        each.collect()
    }
    /// Fits these fields. Those that nothing measured depends on are left out, and named.
    fn fitted(&mut self, fields: &[Field], assumed: &mut Vec<Assumed>) -> Result<Solved, FitError> {
        let mut places = self.places(fields);
        loop {
            let found = self.without_outliers(&places)?;
            // How far a field is open, as a part of what it is at most: more than half is not seen.
            let part = |j: usize| {
                let Parameter { start, small } = places[j].parameter;
                found.open[j] / found.at[j].max(start).max(small * 2.0)
            };
            let worst = (0..places.len())
                .filter(|j| part(*j) > 0.5)
                .max_by(|a, b| part(*a).total_cmp(&part(*b)));
            let Some(worst) = worst else {
                self.set_all(&places, &found.at);
                return Ok(Solved { places, found });
            };
            let place = places.remove(worst);
            self.set_all(std::slice::from_ref(&place), &[place.parameter.start]);
            assumed.push(Assumed {
                field: place.path.join("."),
                value: place.parameter.start.to_string(),
                why: match found.open[worst] < FAR {
                    true => format!(
                        "what was measured leaves it open by {:.3} to either side",
                        found.open[worst]
                    ),
                    false => "nothing measured depends on it".into(),
                },
            });
        }
    }
    fn set_all(&mut self, places: &[Place], values: &[f64]) {
        for (place, value) in places.iter().zip(values) {
            put(&mut self.table, &place.path, Value::Float(*value));
        }
    }
    /// Solves, and leaves out single measurements that explain nearly all of what is missed.
    fn without_outliers(&mut self, places: &[Place]) -> Result<Found, FitError> {
        let mut found = self.solve(places)?;
        while self.left_out.len() < OUTLIERS {
            let single = self.single();
            let each = single.iter().zip(&found.predicted);
            let missed = each.map(|((p, e), model)| (*p, ((model - e.us) / sigma(e)).abs()));
            let Some((worst, by)) = missed.max_by(|a, b| a.1.total_cmp(&b.1)) else {
                break;
            };
            if by < OUTLIER {
                break;
            }
            self.left_out.insert(worst);
            let without = self.solve(places)?;
            if without.squares > found.squares * OUTLIER_SHARE {
                self.left_out.remove(&worst);
                break;
            }
            found = without;
        }
        Ok(found)
    }
    /// The measurements that the fields are fitted to.
    fn single(&self) -> Vec<(Probe, Estimate)> {
        self.chosen(|p| !p.is_burst() && !self.left_out.contains(&p))
    }
    fn solve(&self, places: &[Place]) -> Result<Found, FitError> {
        let single = self.single();
        let plan = Plan {
            probes: single.iter().map(|(p, _)| *p).collect(),
        };
        let measured: Vec<f64> = single.iter().map(|(_, e)| e.us).collect();
        let sigma: Vec<f64> = single.iter().map(|(_, e)| sigma(e)).collect();
        let parameters: Vec<Parameter> = places.iter().map(|p| p.parameter).collect();
        search(&parameters, &measured, &sigma, |values| {
            let mut table = self.table.clone();
            for (place, value) in places.iter().zip(values) {
                put(&mut table, &place.path, Value::Float(*value));
            }
            let model = predict(
                &self.profile(&table)?,
                &plan,
                MODEL_AREA,
                self.sort.model_bytes,
            )?;
            Ok(in_order(&single, &model))
        })
    }
    fn chosen(&self, which: impl Fn(Probe) -> bool) -> Vec<(Probe, Estimate)> {
        let chosen = self.seen.iter().filter(|(p, _)| which(**p));
        chosen.map(|(p, e)| (*p, *e)).collect()
    }
    /// True if a field stands at zero and the model misses: the template leaves too little for it.
    fn pinned(&self, solved: &Solved) -> bool {
        let zero = solved.found.at.iter().any(|x| *x <= 0.0);
        let single = self.single();
        let each = single.iter().zip(&solved.found.predicted);
        let sum: f64 = each.map(|((_, e), p)| (p / e.us - 1.0).powi(2)).sum();
        zero && (sum / single.len() as f64).sqrt() > MISS
    }
    /// The names of the main fields that a fit left at zero.
    fn at_zero(&self, solved: &Solved) -> Vec<&'static str> {
        let main = self.sort.main.iter();
        let zero = main.filter(|field| {
            let path = path(&self.origin, &self.set, field.name);
            let place = solved.places.iter().position(|p| p.path == path);
            place.is_some_and(|j| solved.found.at[j] <= 0.0)
        });
        zero.map(|field| field.name).collect()
    }
    /// Sets the size of the cache to the one that explains the bursts best. `None` if it is given,
    /// if there is no such field, or if the bursts tell nothing: then it is the template's.
    fn find_cache(&mut self) -> Result<Option<Cache>, FitError> {
        let Some(name) = self.sort.cache else {
            return Ok(None);
        };
        let bursts = self.chosen(Probe::is_burst);
        if bursts.is_empty() || self.given.iter().any(|g| g.field == name) {
            return Ok(None);
        }
        let path = path(&self.table, &self.set, name);
        let plan = Plan {
            probes: bursts.iter().map(|(p, _)| *p).collect(),
        };
        let mut tried = Vec::new();
        for kib in CACHES.map(|power| 1_u32 << power) {
            let mut table = self.table.clone();
            put(&mut table, &path, Value::Integer(kib.into()));
            let model = predict(
                &self.profile(&table)?,
                &plan,
                BURST_AREA,
                self.sort.model_bytes,
            )?;
            let each = bursts.iter().zip(in_order(&bursts, &model));
            let squares: f64 = each
                .map(|((_, e), p)| ((p - e.us) / burst_sigma(e)).powi(2))
                .sum();
            tried.push((kib, squares));
        }
        let best = tried.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let good = || tried.iter().filter(|t| t.1 <= best + AS_GOOD).map(|t| t.0);
        let (Some(low), Some(high)) = (good().min(), good().max()) else {
            return Ok(None);
        };
        if high == 1 << CACHES.end() {
            // A cache that no burst fills, or that is emptied faster: any size from here on. With
            // other fields an earlier round may have found one.
            if let Some(kib) = number(&self.origin, &path) {
                put(&mut self.table, &path, Value::Integer(kib as i64));
            }
            return Ok(None);
        }
        let kib = tried.iter().find(|t| t.1 == best).map_or(low, |t| t.0);
        put(&mut self.table, &path, Value::Integer(kib.into()));
        Ok(Some(Cache { kib, low, high }))
    }
    fn outcome(
        self,
        solved: Solved,
        cache: Option<Cache>,
        mut assumed: Vec<Assumed>,
        given: &[Given],
    ) -> Result<Fit, FitError> {
        let each = solved.places.iter().enumerate();
        let mut fitted: Vec<Fitted> = each
            .map(|(j, place)| Fitted {
                field: place.path.join("."),
                template: place.parameter.start,
                value: solved.found.at[j],
                low: (solved.found.at[j] - solved.found.half[j]).max(0.0),
                high: solved.found.at[j] + solved.found.half[j],
            })
            .collect();
        if let Some(name) = self.sort.cache {
            let path = path(&self.origin, &self.set, name);
            let template = number(&self.origin, &path).unwrap_or_default();
            let is_given = given.iter().any(|g| g.field == name);
            match cache {
                Some(cache) => fitted.push(Fitted {
                    field: name.into(),
                    template,
                    value: cache.kib.into(),
                    low: cache.low.into(),
                    high: cache.high.into(),
                }),
                None if is_given => {}
                None => assumed.push(Assumed {
                    field: name.into(),
                    value: template.to_string(),
                    why: "no burst was long enough to fill it, or it is emptied as fast as it is filled".into(),
                }),
            }
        }
        let checks = self.checks()?;
        Ok(Fit {
            kind: self.kind,
            timing: self.set,
            fitted,
            given: given.to_vec(),
            assumed,
            unseen: self.sort.unseen.to_vec(),
            checks,
        })
    }
    /// Every measured time beside that of the fitted model.
    fn checks(&self) -> Result<Vec<Check>, FitError> {
        let profile = self.profile(&self.table)?;
        let mut checks = Vec::new();
        for (bursts, area) in [(false, MODEL_AREA), (true, BURST_AREA)] {
            let chosen = self.chosen(|p| p.is_burst() == bursts);
            let plan = Plan {
                probes: chosen.iter().map(|(p, _)| *p).collect(),
            };
            let model = predict(&profile, &plan, area, self.sort.model_bytes)?;
            let each = chosen.iter().zip(in_order(&chosen, &model));
            checks.extend(each.map(|((probe, measured), model_us)| Check {
                probe: *probe,
                measured: *measured,
                model_us,
                left_out: self.left_out.contains(probe),
            }));
        }
        Ok(checks)
    }
}

/// The measured times that a profile's model can show: it may lack a cache, or a command.
fn possible(profile: &Profile, seen: &Seen, serial: bool) -> Result<Seen, FitError> {
    let everything = Wanted {
        area: u64::MAX,
        depth: true,
        durable: true,
        discard: true,
    };
    let caps = profile.build(None, None)?.caps().clone();
    let all = Plan::of(&caps, everything);
    let offered = |p: &Probe| offers(&caps, *p, &all) && !(serial && p.is_deep());
    let possible = seen.iter().filter(|(p, _)| offered(p));
    Ok(possible.map(|(p, e)| (*p, *e)).collect())
}

/// True if a device with these promises carries out what a probe asks for, also where the plan of
/// this program has other sizes.
fn offers(caps: &Caps, probe: Probe, all: &Plan) -> bool {
    let fits = |kib: u32| u64::from(kib) * 2 <= caps.max_transfer_sectors;
    match probe {
        Probe::Write { kib } | Probe::InLine { kib } | Probe::Read { kib } => fits(kib),
        Probe::Flush { kib } => fits(kib) && caps.volatile_cache,
        Probe::Durable { kib } => fits(kib) && caps.fua,
        Probe::Reads { .. } | Probe::Writes { .. } => true,
        other => all.probes.contains(&other),
    }
}

/// The standard deviation of a measured median.
fn sigma(e: &Estimate) -> f64 {
    (e.half() / 1.96).max(e.us * NOISE_SHARE).max(NOISE_US)
}

/// That of a burst: a device has its own ways to empty a cache, which no field here describes.
fn burst_sigma(e: &Estimate) -> f64 {
    sigma(e).max(e.us * MISS)
}

/// The model's times in the order of `of`. What the model does not offer counts as zero: the caller
/// leaves such probes out of its plan.
fn in_order(of: &[(Probe, Estimate)], model: &Seen) -> Vec<f64> {
    let at = |probe: &Probe| model.get(probe).map_or(0.0, |e| e.us);
    of.iter().map(|(probe, _)| at(probe)).collect()
}

#[cfg(test)]
mod tests;
