//! The next life of what a cut left of a modelled device: power-up, recovery, mount, judgement.

use super::film::{Camera, Film};
use crate::CrashError;
use crate::device::Target;
use crate::judge::epilogue;
use crate::oracle::Oracle;
use crate::{CrashConfig, Judgement};
use base::collections::mix;
use base::{Bytes, Time};
use blockdev::{Adversary, Clock, Modelled};
use rig::{AnyModel, Media, Mounted, Profile};
use rt::Sim;
use std::sync::Arc;
use vfs::WritebackPolicy;

/// Brings up what cuts have left.
pub(super) struct Lives<'a> {
    config: &'a CrashConfig,
    profile: Profile,
    adversary: Adversary,
    /// One state in so many is also mounted for writing, used and unmounted.
    deep_one_in: u64,
}

impl<'a> Lives<'a> {
    pub fn new(config: &'a CrashConfig, deep_one_in: u64) -> Result<Lives<'a>, CrashError> {
        let Target::Profile(adversary) = config.target else {
            return Err(CrashError::Check(
                "a disk in memory has no chips: cuts of operations of the NAND need a device profile".into(),
            ));
        };
        Ok(Lives {
            config,
            profile: config.stack.profile()?,
            adversary,
            deep_one_in: deep_one_in.max(1),
        })
    }

    fn power_up(&self, media: Media) -> Result<AnyModel, String> {
        let built = self
            .profile
            .build(Some(self.config.stack.bytes), Some(media));
        built.map_err(|e| e.to_string())
    }

    /// Recovers and judges one state, inside a simulation. An error says that the simulation cannot
    /// go on; violations found before it stand in `judgement`.
    pub fn judge(
        &self,
        media: Media,
        oracle: &dyn Oracle,
        untouched: &[(u64, Bytes)],
        judgement: &mut Judgement,
    ) -> Result<(), String> {
        let deep = mix(media.content_hash()).is_multiple_of(self.deep_one_in);
        let mut model = match self.power_up(media) {
            Ok(model) => model,
            Err(why) => {
                let why = format!("R1: the device does not come up: {why}");
                judgement.violations.push(why);
                return Ok(());
            }
        };
        if deep && self.adversary == Adversary::Own {
            judgement.violations.extend(changed(&model, untouched));
        }
        // This life is not cut.
        model.set_adversary(Adversary::Own);
        // Each state has a clock of its own, so that it does not depend on those judged before it
        // (crash-nand-N2), and no wait takes time.
        let device = Arc::new(Modelled::new(model, Clock::Unpaced));
        let writes = deep || oracle.writes();
        let options = self.config.mount_options().read_only(!writes);
        let options = options.timers(None, None);
        let outcome =
            Mounted::on(device.clone(), options, WritebackPolicy::off()).and_then(|mounted| {
                oracle.judge(&mounted.vfs, judgement);
                if !writes {
                    // A read-only mount has no tasks; dropping it is a crash by design.
                    return Ok(());
                }
                if deep {
                    epilogue(&mounted.vfs)?;
                    mounted.fs.check();
                }
                mounted.unmount()
            });
        outcome.map_err(|e| {
            drop(device.take_model());
            e.to_string()
        })
    }

    /// Films the recovery of a state: power-up, journal recovery, mount and unmount. A recovery
    /// that fails is filmed up to then.
    ///
    /// # Errors
    /// The device does not come up.
    pub fn recovery(&self, media: &Media, seed: u64) -> Result<Film, String> {
        let mut model = self.power_up(media.clone())?;
        model.set_adversary(self.adversary);
        let device = Arc::new(Modelled::new(model, Clock::Runtime));
        let mut camera = None;
        let mut sim = self.config.sim(seed);
        sim.quiet = true;
        let outcome = Sim::new(sim).run(|| {
            let filmed = Camera::new(device.clone()).with_power_up(&self.profile, media);
            let camera = camera.insert(Arc::new(filmed));
            let options = self.config.mount_options();
            let mounted = Mounted::on(camera.clone(), options, self.config.writeback());
            if mounted.and_then(Mounted::unmount).is_err() {
                drop(device.take_model());
                rt::power_cut();
            }
            rt::now()
        });
        let camera = camera.expect("the simulation began");
        Ok(camera.develop(outcome.value.unwrap_or(outcome.end)))
    }
}

/// Violations of crash-nand-D1: blocks that nobody has written and that do not hold what they held
/// before the run.
pub(super) fn changed(model: &AnyModel, untouched: &[(u64, Bytes)]) -> Option<String> {
    let differs = |(block, was): &&(u64, Bytes)| {
        let now = model.visible(*block);
        // Copies of the chips share content, so most blocks need no comparison of bytes.
        (now.as_ptr(), now.len()) != (was.as_ptr(), was.len()) && now != *was
    };
    let bad: Vec<u64> = untouched.iter().filter(differs).map(|(n, _)| *n).collect();
    let first = bad.first()?;
    Some(format!(
        "D1: the device changed {} blocks that no one had written, the first is {first}",
        bad.len()
    ))
}

/// A run of a subject, filmed.
pub struct Filmed {
    /// Its film.
    pub film: Film,
    /// The oracle, which knows what was promised when.
    pub oracle: Box<dyn Oracle>,
    /// When the subject began; until then the volume was being mounted.
    pub began: Time,
    /// Why the run ended early, if it did.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}
