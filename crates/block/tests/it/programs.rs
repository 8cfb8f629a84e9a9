//! Random programs of several tasks on a device whose cuts leave all that its promises allow,
//! judged by rules that do not depend on the scheduler.

use crate::plug::{Judged, group_at, plain, stamp};
use base::{Lba, Nanos, Rng, SECTORS_PER_BLOCK, Time};
use blockdev::trace::What;
use blockdev::{Caps, Image, SpecDisk};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::sync::Arc;
use varve_block::{Batch, Class, Queue, Scheduler};

/// Blocks of each task; only that task writes them.
pub const OWN: u64 = 4;
/// Tasks side by side.
pub const TASKS: u64 = 3;
/// The longest program, in virtual time: what takes longer hangs.
pub const LONGEST: Time = Time(20_000_000_000);

/// What a task does next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Writes a block of the task's own.
    Write {
        slot: u64,
        background: bool,
        fua: bool,
    },
    /// Reads one.
    Read { slot: u64 },
    /// Waits for all writes.
    Land,
    /// Flushes.
    Flush,
    /// Sleeps.
    Sleep { us: u64 },
}

/// Versions of each block.
#[derive(Clone, Default)]
struct Known {
    issued: Vec<u64>,
    /// Those whose end a task has seen.
    ended: Vec<u64>,
    /// Those that a cut may not take away.
    durable: Vec<u64>,
    /// When flushes were called.
    flushes: Vec<Time>,
    /// What a read saw that it must not see.
    wrong: Option<String>,
}

fn raise(all: &mut [u64], to: &[u64]) {
    all.iter_mut()
        .zip(to)
        .for_each(|(own, to)| *own = (*own).max(*to));
}

/// A task that runs its program.
struct Runner {
    queue: Arc<Queue>,
    known: Arc<Mutex<Known>>,
    first: u64,
    outstanding: Vec<(Batch, u64, u64, bool)>,
}

impl Runner {
    fn run(mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Write {
                    slot,
                    background,
                    fua,
                } => self.write(self.first + slot, background, fua),
                Step::Read { slot } => self.read(self.first + slot),
                Step::Land => self.land(),
                Step::Flush => self.flush(),
                Step::Sleep { us } => rt::sleep(Nanos::from_micros(us)),
            }
        }
        self.land();
        self.flush();
    }

    fn write(&mut self, block: u64, background: bool, fua: bool) {
        let version = {
            let mut known = self.known.lock();
            known.issued[block as usize] += 1;
            known.issued[block as usize]
        };
        let lba = block * SECTORS_PER_BLOCK;
        let content = stamp(version, lba, SECTORS_PER_BLOCK);
        let mut plug = self.queue.plug();
        match fua {
            true => plug.write_fua(Lba(lba), Class::Data, content),
            false => plug.write(Lba(lba), Class::Data, content),
        }
        let plug = match background {
            true => plug.background(),
            false => plug,
        };
        self.outstanding.push((plug.submit(), block, version, fua));
    }

    /// elevator-E2: a read sees what this task has written, ended or not.
    fn read(&self, block: u64) {
        let lba = block * SECTORS_PER_BLOCK;
        let read = self.queue.read(Lba(lba), SECTORS_PER_BLOCK).unwrap();
        let mut image = Image::new();
        image.set_block(block, read);
        let seen = group_at(&image, lba);
        let mut known = self.known.lock();
        let issued = known.issued[block as usize];
        if seen != Some(issued) {
            known.wrong = Some(format!(
                "a read of block {block} saw {seen:?}, not {issued}"
            ));
        }
    }

    fn land(&mut self) {
        for (batch, block, version, fua) in self.outstanding.drain(..) {
            batch.wait().unwrap();
            let mut known = self.known.lock();
            let n = block as usize;
            known.ended[n] = known.ended[n].max(version);
            // All earlier versions have ended as well.
            if fua {
                known.durable[n] = known.durable[n].max(version);
            }
        }
    }

    /// hazards-H17.
    fn flush(&self) {
        let covered = {
            let mut known = self.known.lock();
            known.flushes.push(rt::now());
            known.ended.clone()
        };
        self.queue.flush().unwrap();
        raise(&mut self.known.lock().durable, &covered);
    }
}

fn judge(image: &Image, known: &Known) -> Result<(), String> {
    for block in 0..TASKS * OWN {
        let n = block as usize;
        for lba in block * SECTORS_PER_BLOCK..(block + 1) * SECTORS_PER_BLOCK {
            let seen = group_at(image, lba);
            let (least, most) = (known.durable[n], known.issued[n]);
            if seen.is_none_or(|v| v < least || v > most) {
                return Err(format!(
                    "block {block} holds version {seen:?}; legal: {least} to {most}"
                ));
            }
        }
    }
    Ok(())
}

/// Runs the programs side by side, cuts at many moments, and judges each cut and the end.
pub fn run(
    programs: &[Vec<Step>],
    (scheduler, depth): (Scheduler, usize),
    seed: u64,
    config: SimConfig,
) -> Outcome<Judged> {
    let programs = programs.to_vec();
    let caps = Caps {
        tear_granule: Some(512),
        ..plain()
    };
    let config = SimConfig {
        time_limit: LONGEST,
        ..config
    };
    Sim::new(config).run(move || {
        let disk = SpecDisk::new(caps, seed);
        disk.record();
        let queue = Queue::scheduled(disk.clone(), scheduler, depth).expect("tags");
        let none = vec![0; (TASKS * OWN) as usize];
        let known = Known {
            issued: none.clone(),
            ended: none.clone(),
            durable: none,
            ..Known::default()
        };
        let known = Arc::new(Mutex::new(known));
        let tasks = programs.into_iter().enumerate().map(|(n, steps)| {
            let runner = Runner {
                queue: queue.clone(),
                known: known.clone(),
                first: n as u64 * OWN,
                outstanding: Vec::new(),
            };
            rt::spawn("program", move || runner.run(&steps))
        });
        let tasks: Vec<_> = tasks.collect();
        let mut rng = Rng::named(seed, "cuts");
        let (mut cuts, mut verdict) = (0, Ok(()));
        while tasks.iter().any(|task| !task.is_finished()) {
            {
                // The lock keeps what is known from growing after the snapshot.
                let known = known.lock();
                cuts += 1;
                verdict = verdict.and_then(|()| judge(&disk.snapshot(rng.next_u64()), &known));
            }
            rt::sleep(Nanos(1 + rng.below(800_000)));
        }
        tasks.into_iter().for_each(|task| task.join().unwrap());
        verdict.map_err(|why| (cuts, why))?;
        at_the_end(&disk, &known.lock()).map_err(|why| (cuts, why))?;
        Ok(cuts)
    })
}

/// What has to hold when all programs have ended.
fn at_the_end(disk: &SpecDisk, known: &Known) -> Result<(), String> {
    judge(&disk.snapshot_lost(), known)?;
    if let Some(wrong) = &known.wrong {
        return Err(format!("elevator-E2: {wrong}"));
    }
    if known.durable != known.issued {
        return Err("not all was flushed".into());
    }
    let trace = disk.take_trace().expect("it was recorded");
    let flushes = trace.steps.iter().filter(|s| matches!(s.what, What::Flush));
    let mut started: Vec<Time> = flushes.map(|s| s.start).collect();
    let mut called = known.flushes.clone();
    started.sort_unstable();
    called.sort_unstable();
    if started != called {
        return Err("elevator-E3: a flush did not start when it was called".into());
    }
    let writes: usize = trace.steps.iter().map(|s| s.writes().len()).sum();
    match writes as u64 == known.issued.iter().sum::<u64>() {
        true => Ok(()),
        false => Err(format!("elevator-E1: {writes} writes at the device")),
    }
}
