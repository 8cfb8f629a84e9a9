//! Schedulers on whole devices: what a cut may leave, and who waits for how long.

use crate::plug::plain;
use crate::programs::{LONGEST, OWN, Step, TASKS, run};
use base::{Lba, Nanos, SECTORS_PER_BLOCK, Time};
use blockdev::{Caps, SpecDisk};
use proptest::prelude::*;
use rt::{Mutex, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_block::{Batch, Class, Queue, Scheduler};

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
            let outcome = run(&programs, (scheduler, depth), seed, SimConfig::random(seed));
            outcome.unwrap().unwrap();
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
                let queue =
                    Queue::scheduled(SpecDisk::new(plain(), 7), scheduler, depth).expect("tags");
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
            let queue = Queue::scheduled(disk, scheduler, 2).expect("tags");
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
        let queue = Queue::scheduled(SpecDisk::new(caps, 5), Scheduler::Cfq310, 2).expect("tags");
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
            let queue = Queue::scheduled(disk.clone(), scheduler, 2).expect("tags");
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
