//! Recovery and judgement of many remainders of one kind, fast.

use super::device::{Remains, Volume};
use super::oracle::Oracle;
use super::{CrashConfig, Judgement};
use crate::RunError;
use rig::{Image, Mounted};
use rt::Sim;

/// Recovers remainders and lets an oracle judge them.
pub struct Checker<'a> {
    config: &'a CrashConfig,
    volume: &'a Volume,
}

impl<'a> Checker<'a> {
    /// For remainders of runs of `config` on `volume`.
    pub fn new(config: &'a CrashConfig, volume: &'a Volume) -> Checker<'a> {
        Checker { config, volume }
    }

    /// Judges remainders of one cut one by one; `each` is told its number and the judgement, and ends the work with `false`.
    ///
    /// # Errors
    /// Something that is no property of a remainder failed.
    pub fn check(
        &self,
        oracle: &dyn Oracle,
        states: &[Image],
        each: &mut dyn FnMut(usize, Judgement) -> bool,
    ) -> Result<(), RunError> {
        for (number, image) in states.iter().enumerate() {
            let judgement = self.one(oracle, image)?;
            if !each(number, judgement) {
                break;
            }
        }
        Ok(())
    }

    fn one(&self, oracle: &dyn Oracle, image: &Image) -> Result<Judgement, RunError> {
        let config = self.config;
        let disk = self.volume.attach(&Remains::Image(image.clone()), 0)?;
        let mut judgement = Judgement::default();
        let mut sim = config.sim(config.seed);
        sim.policy = rt::Policy::Fifo;
        sim.quiet = true;
        let outcome = Sim::new(sim).run(|| {
            let options = config.mount_options();
            let mounted = Mounted::on(disk.device(), options, vfs::WritebackPolicy::off())?;
            oracle.judge(&mounted.vfs, &mut judgement);
            let outcome = mounted.unmount();
            if outcome.is_err() {
                disk.power_off();
                rt::power_cut();
            }
            Ok::<_, RunError>(outcome?)
        });
        judgement.reached = outcome.reached;
        let why = match (outcome.first_failure, outcome.value) {
            (_, Some(Err(e))) => e.to_string(),
            (Some(failure), _) => failure.to_string(),
            _ => return Ok(judgement),
        };
        judgement.violations.push(format!("R1: recovery: {why}"));
        Ok(judgement)
    }
}
