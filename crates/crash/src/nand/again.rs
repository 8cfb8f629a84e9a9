//! A state of a modelled device, made again from its id and judged as the exploration judged it.

use super::explore::{DEEP_ONE_IN, Outer, judge_one, recovery_seed, unknown};
use super::film::Film;
use super::id::{NandId, NandPath, Spot};
use super::life::{Filmed, Lives};
use crate::CrashError;
use crate::{CrashConfig, Judgement};
use base::Time;
use rig::Media;
use std::sync::Arc;

/// A state that was made again from its id.
pub struct NandState {
    /// The cut of the run, then those of its recoveries.
    pub cuts: Vec<NandCut>,
}

/// One cut on the way to it.
pub struct NandCut {
    /// The name of the cut.
    pub id: NandId,
    /// Its moment, in the time of the run or recovery that is cut.
    pub at: Time,
    /// What the cut left.
    pub media: Media,
    /// The film of the recovery that is cut; `None`: the run is cut.
    pub film: Option<Film>,
}

impl NandState {
    /// What the last cut left.
    pub fn media(&self) -> &Media {
        &self.cuts[self.cuts.len() - 1].media
    }
    /// When the run was cut.
    pub fn at(&self) -> Time {
        self.cuts[0].at
    }
}

/// Makes the state at `path` again.
///
/// # Errors
/// The run or a recovery has no such operation, or a device on the way does not come up.
pub fn state(
    config: &CrashConfig,
    filmed: &Filmed,
    path: &NandPath,
) -> Result<NandState, CrashError> {
    let lives = Lives::new(config, DEEP_ONE_IN)?;
    let mut cuts: Vec<NandCut> = Vec::new();
    for id in &path.0 {
        let film = match cuts.last() {
            None => None,
            Some(last) => {
                let recovery = lives.recovery(&last.media, recovery_seed(&last.media));
                Some(recovery.map_err(CrashError::Check)?)
            }
        };
        let (at, media) = cut(film.as_ref().unwrap_or(&filmed.film), id)?;
        cuts.push(NandCut {
            id: *id,
            at,
            media,
            film,
        });
    }
    match cuts.is_empty() {
        true => Err(CrashError::Check("an empty path names no state".into())),
        false => Ok(NandState { cuts }),
    }
}

fn cut(film: &Film, id: &NandId) -> Result<(Time, Media), CrashError> {
    if let Spot::Moment(at) = id.spot
        && at > film.end
    {
        let end = film.end.0;
        return Err(CrashError::Check(format!("{id}: the run ends at {end} ns")));
    }
    let (_, media) = film.media(id).ok_or_else(|| unknown(id, film))?;
    let at = id.time(film).ok_or_else(|| unknown(id, film))?;
    Ok((at, media))
}

/// Makes the state at `path` again and judges it.
///
/// # Errors
/// See [`state`].
pub fn judge(
    config: &CrashConfig,
    filmed: &mut Filmed,
    path: &NandPath,
) -> Result<(NandState, Judgement), CrashError> {
    let state = state(config, filmed, path)?;
    let (last, outer) = state.cuts.split_last().expect("a state has a cut");
    let mut untouched = filmed.film.untouched();
    for film in state.cuts.iter().filter_map(|cut| cut.film.as_ref()) {
        untouched.retain(|(block, _)| !film.touches(*block));
    }
    let outer = Outer {
        path: outer.iter().map(|cut| cut.id).collect(),
        at: outer.first().map(|cut| cut.at),
        untouched: Arc::new(untouched),
    };
    let film = last.film.as_ref().unwrap_or(&filmed.film);
    let oracle = filmed.oracle.as_mut();
    let judgement = judge_one(config, oracle, film, &outer, (last.at, last.id))?;
    Ok((state, judgement))
}
