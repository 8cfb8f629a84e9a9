//! Random programs of several tasks on a device whose cuts leave all that its promises allow: with
//! and without a scheduler the same rules judge what a cut leaves.

use crate::plug::{group_at, plain, stamp};
use base::{Lba, Nanos, Rng, SECTORS_PER_BLOCK, Time};
use blockdev::trace::What;
use blockdev::{Caps, Image, SpecDisk};
use proptest::prelude::*;
use rt::{Mutex, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_block::{Batch, Class, Queue, Scheduler};

/// Blocks of each task; only that task writes them.
const OWN: u64 = 4;
const TASKS: u64 = 3;
/// The longest program, in virtual time: what takes longer hangs.
const LONGEST: Time = Time(20_000_000_000);

#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        slot: u64,
        background: bool,
        fua: bool,
    },
    Read {
        slot: u64,
    },
    Land,
    Flush,
    Sleep {
        us: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..OWN, any::<bool>(), prop::bool::weighted(0.2));
    let write = write.prop_map(|(slot, background, fua)| Step::Write {
        slot,
        background,
        fua,
    });
    let step = prop_oneof![
        6 => write,
        1 => (0..OWN).prop_map(|slot| Step::Read { slot }),
        2 => Just(Step::Land),
        2 => Just(Step::Flush),
        1 => (0..12_000_u64).prop_map(|us| Step::Sleep { us }),
    ];
    prop::collection::vec(step, 1..40)
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
        let issued = self.known.lock().issued[block as usize];
        assert_eq!(group_at(&image, lba), Some(issued), "block {block}");
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
fn check(programs: &[Vec<Step>], scheduler: Scheduler, depth: usize, seed: u64) {
    let programs = programs.to_vec();
    let caps = Caps {
        tear_granule: Some(512),
        ..plain()
    };
    let config = SimConfig {
        time_limit: LONGEST,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = SpecDisk::new(caps, seed);
        disk.record();
        let queue = Queue::scheduled(disk.clone(), scheduler, depth);
        let none = vec![0; (TASKS * OWN) as usize];
        let known = Known {
            issued: none.clone(),
            ended: none.clone(),
            durable: none,
            flushes: Vec::new(),
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
        while tasks.iter().any(|task| !task.is_finished()) {
            {
                // The lock keeps what is known from growing after the snapshot.
                let known = known.lock();
                judge(&disk.snapshot(rng.next_u64()), &known).unwrap();
            }
            rt::sleep(Nanos(1 + rng.below(800_000)));
        }
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let known = known.lock().clone();
        judge(&disk.snapshot_lost(), &known).unwrap();
        assert_eq!(known.durable, known.issued, "all was flushed");
        // elevator-E3: a flush starts when it is called.
        let trace = disk.take_trace().expect("it was recorded");
        let flushes = trace.steps.iter().filter(|s| matches!(s.what, What::Flush));
        let mut started: Vec<Time> = flushes.map(|s| s.start).collect();
        let mut called = known.flushes;
        started.sort_unstable();
        called.sort_unstable();
        assert_eq!(started, called);
        // elevator-E1.
        let writes: usize = trace.steps.iter().map(|s| s.writes().len()).sum();
        assert_eq!(writes as u64, known.issued.iter().sum::<u64>());
    });
    outcome.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// elevator-E1 to elevator-E4.
    #[test]
    fn no_scheduler_changes_what_a_flush_covers_or_what_a_cut_may_leave(
        programs in prop::collection::vec(steps(), TASKS as usize),
        depth in prop_oneof![Just(1_usize), Just(2), Just(32)],
        seed in any::<u64>(),
    ) {
        for scheduler in Scheduler::ALL {
            check(&programs, scheduler, depth, seed);
        }
    }
}

/// elevator-E4: syncs of several tasks, one after the other without a pause, and one write that has
/// time.
#[test]
fn a_stream_of_syncs_does_not_starve_write_back() {
    for scheduler in Scheduler::ALL {
        for depth in [1, 2, 32] {
            let config = SimConfig {
                time_limit: LONGEST,
                ..SimConfig::default()
            };
            let outcome = Sim::new(config).run(move || {
                let queue = Queue::scheduled(SpecDisk::new(plain(), 7), scheduler, depth);
                let stop = Arc::new(Mutex::new(false));
                let sync = |n: u64| {
                    let (queue, stop) = (queue.clone(), stop.clone());
                    rt::spawn("syncs", move || {
                        while !*stop.lock() {
                            let content = vec![1; 4096].into();
                            queue.write(Lba(n * 8), Class::Data, content).unwrap();
                        }
                    })
                };
                let tasks: Vec<_> = (0..3).map(sync).collect();
                rt::sleep(Nanos::from_millis(20));
                let mut plug = queue.plug();
                plug.write(Lba(400), Class::Data, vec![2; 4096].into());
                let since = rt::now();
                plug.background().submit().wait().unwrap();
                let took = rt::now() - since;
                *stop.lock() = true;
                tasks.into_iter().for_each(|task| task.join().unwrap());
                took
            });
            let took = outcome.unwrap();
            assert!(took < Nanos::from_secs(1), "{scheduler}, {depth}: {took:?}");
        }
    }
}

/// A sync passes what write-back has sent before it; without a scheduler it does not.
#[test]
fn a_sync_passes_write_back_that_waits() {
    let waits = |scheduler: Scheduler, fua: bool| {
        let outcome = Sim::new(SimConfig::default()).run(move || {
            let disk = Serial(
                SpecDisk::new(plain(), 3),
                Mutex::new(Time(0)),
                Mutex::default(),
            );
            let disk = Arc::new(disk);
            let queue = Queue::scheduled(disk, scheduler, 2);
            let mut background = Vec::new();
            for n in 0..32 {
                let mut plug = queue.plug();
                plug.write(Lba(n * 16), Class::Data, vec![1; 4096].into());
                background.push(plug.background().submit());
            }
            rt::sleep(Nanos::from_micros(10));
            let since = rt::now();
            let content = vec![2; 4096].into();
            let written = match fua {
                true => queue.write_fua(Lba(8), Class::Data, content),
                false => queue.write(Lba(8), Class::Data, content),
            };
            written.unwrap();
            let took = rt::now() - since;
            background.into_iter().for_each(|b| b.wait().unwrap());
            took
        });
        outcome.unwrap()
    };
    let [none, cfq, deadline, bfq] = Scheduler::ALL.map(|scheduler| waits(scheduler, false));
    assert!(none > Nanos::from_millis(32), "{none:?}");
    for passes in [cfq, bfq] {
        assert!(passes <= Nanos::from_millis(3), "{passes:?}");
    }
    // It knows reads and writes only, and goes on in the order of addresses.
    assert!(deadline > Nanos::from_millis(30), "{deadline:?}");
    // elevator-E3: behind the two that are at the device.
    for scheduler in [Scheduler::Cfq310, Scheduler::MqDeadline, Scheduler::Bfq] {
        let took = waits(scheduler, true);
        assert!(took <= Nanos::from_millis(3), "{scheduler}: {took:?}");
    }
}

/// A device that carries out one command at a time, each in a millisecond.
struct Serial(
    Arc<SpecDisk>,
    Mutex<Time>,
    Mutex<BTreeMap<blockdev::Ticket, Time>>,
);

impl varve_block::BlockDevice for Serial {
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn submit(&self, request: blockdev::Request) -> blockdev::Ticket {
        let ticket = self.0.submit(request);
        let mut free = self.1.lock();
        *free = (*free).max(rt::now()) + Nanos::from_millis(1);
        self.2.lock().insert(ticket, *free);
        ticket
    }
    fn wait(&self, ticket: blockdev::Ticket) -> Result<blockdev::Reply, varve_block::DevError> {
        let until = self.2.lock().remove(&ticket);
        let answer = self.0.wait(ticket);
        rt::sleep_until(until.expect("submitted"));
        answer
    }
}

/// Whoever has one request of write-back too many waits, and goes on.
#[test]
fn as_many_as_may_wait_do() {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let caps = Caps {
            sectors: 400 * SECTORS_PER_BLOCK,
            ..plain()
        };
        let queue = Queue::scheduled(SpecDisk::new(caps, 5), Scheduler::Cfq310, 2);
        let mut batches = Vec::new();
        let mut waited = 0;
        for n in 0..400 {
            let since = rt::now();
            let mut plug = queue.plug();
            plug.write(Lba(n * 8), Class::Data, vec![1; 4096].into());
            batches.push(plug.background().submit());
            waited += u64::from(rt::now() > since);
        }
        batches.into_iter().for_each(|b| b.wait().unwrap());
        (waited, queue.background_max())
    });
    let (waited, most) = outcome.unwrap();
    assert_eq!(most, 128);
    assert!(
        (200..=272).contains(&waited),
        "{waited} of 400, beside two at the device"
    );
}

/// After the power is gone nothing waits any more.
#[test]
fn what_waits_fails_when_the_power_goes() {
    for scheduler in Scheduler::ALL {
        let outcome = Sim::new(SimConfig::default()).run(move || {
            let disk = SpecDisk::new(plain(), 5);
            let queue = Queue::scheduled(disk.clone(), scheduler, 2);
            // CFQ and BFQ keep the device for the next one.
            queue
                .write(Lba(8), Class::Data, vec![1; 4096].into())
                .unwrap();
            let batches: Vec<Batch> = (0..20)
                .map(|n| {
                    let mut plug = queue.plug();
                    plug.write(Lba(n * 16), Class::Data, vec![1; 4096].into());
                    plug.background().submit()
                })
                .collect();
            // All tags have looked.
            (0..100).for_each(|_| rt::yield_now());
            drop(disk.power_off(1));
            rt::power_cut();
            let failed = batches.into_iter().map(|b| b.wait().is_err());
            failed.filter(|failed| *failed).count()
        });
        assert_eq!(outcome.unwrap(), 20, "{scheduler}");
    }
}
