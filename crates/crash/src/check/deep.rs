//! The closer look at a sample of the states. Each of them is mounted for writing, used, unmounted
//! and mounted again, because a volume that reads well after recovery may still fail at its next
//! change.

use super::{Checker, enter};
use crate::CrashError;
use crate::Judgement;
use crate::device::{Disk, Remains};
use crate::judge::epilogue;
use crate::oracle::Oracle;
use blockdev::Image;
use rig::Mounted;
use rt::{Failure, Sim};

impl Checker<'_> {
    /// Looks at a judged state once more; what is found is added to its judgement.
    pub(super) fn deepen(
        &self,
        oracle: &dyn Oracle,
        image: &Image,
        judgement: &mut Judgement,
    ) -> Result<(), CrashError> {
        self.count(|c| c.deep += 1);
        let disk = self.volume.attach(&Remains::Image(image.clone()), 0)?;
        let mut written = Judgement::default();
        let (outcome, reached) = self.life(&disk, |mounted| {
            oracle.judge(&mounted.vfs, &mut written);
            epilogue(&mounted.vfs)?;
            mounted.fs.check();
            Ok(())
        });
        add(judgement, &reached);
        let left = match outcome {
            Ok(left) => left,
            Err(why) => {
                let why = format!("R1: recovery for writing: {why}");
                judgement.violations.push(why);
                return Ok(());
            }
        };
        if !same(judgement, &written) {
            judgement.violations.push(format!(
                "R1: a mount for writing shows something else: {written:?}"
            ));
        }
        if let (true, Remains::Image(image)) = (self.options.fsck, &left) {
            enter(&self.fsck(|n| image.block(n), false), judgement);
        }
        let disk = self.volume.attach(&left, 0)?;
        let mut again = Judgement::default();
        let (outcome, reached) = self.life(&disk, |mounted| {
            oracle.judge(&mounted.vfs, &mut again);
            Ok(())
        });
        add(judgement, &reached);
        match outcome {
            Err(why) => judgement
                .violations
                .push(format!("R1: the mount after the next unmount: {why}")),
            Ok(_) if !same(&written, &again) => judgement.violations.push(format!(
                "R1: the mount after the next unmount shows something else: {again:?}"
            )),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Mounts for writing, runs `body` and unmounts, in a simulation of its own. Answers what a cut
    /// after the unmount leaves: nothing may be lost then.
    pub(super) fn life(
        &self,
        disk: &Disk,
        body: impl FnOnce(&Mounted) -> Result<(), CrashError>,
    ) -> (Result<Remains, String>, rt::Reached) {
        self.count(|c| c.sims += 1);
        let outcome = Sim::new(self.sim()).run(|| {
            let options = self.config.mount_options();
            let mounted = Mounted::on(disk.device(), options, vfs::WritebackPolicy::off())?;
            let outcome = body(&mounted).and_then(|()| Ok(mounted.unmount()?));
            if outcome.is_err() {
                disk.power_off();
                rt::power_cut();
            }
            outcome.map(|()| disk.snapshot(0))
        });
        if let Some(why) = &outcome.first_failure {
            self.count(|c| match why {
                Failure::Limit { .. } | Failure::NoProgress { .. } => c.timed_out += 1,
                _ => c.died += 1,
            });
        }
        let value = match (outcome.first_failure, outcome.value) {
            (_, Some(Err(e))) => Err(e.to_string()),
            (Some(failure), _) => Err(failure.to_string()),
            (None, Some(Ok(left))) => Ok(left),
            (None, None) => Err("no value".into()),
        };
        (value, outcome.reached)
    }
}

fn add(judgement: &mut Judgement, reached: &rt::Reached) {
    for (mutant, times) in reached {
        *judgement.reached.entry(*mutant).or_default() += times;
    }
}

/// True if two judgements are equal, whatever guards were reached on the way.
fn same(a: &Judgement, b: &Judgement) -> bool {
    let plain = |j: &Judgement| Judgement {
        reached: rt::Reached::new(),
        ..j.clone()
    };
    plain(a) == plain(b)
}
