//! Runs the contract of `BlockDevice` against the devices of this crate, and tests what the
//! wrappers add.

mod host_file;

use base::{Lba, Nanos, SECTORS_PER_BLOCK, Time};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::device;
use testkit::record::Record;
use varve_blockdev::{
    BlockDevice, Caps, Class, Clock, Completion, Count, DevError, DevErrorKind, DeviceStats, Fault,
    FlashStats, HostFile, Image, Model, Modelled, OverlayDisk, Ram, RemapCaps, Reply, Request,
    Ticket, check_request,
};

/// A model that answers each request a millisecond later, on top of a RAM device.
struct Slow {
    below: Ram,
    caps: Caps,
}

impl Slow {
    fn new() -> Slow {
        let below = Ram::new(1 << 20);
        Slow {
            caps: below.caps(),
            below,
        }
    }
}

impl Model for Slow {
    type Media = Ram;
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        let legal = check_request(&self.caps, &request);
        let result = legal.and_then(|()| self.below.wait(self.below.submit(request)));
        Completion {
            at: now + Nanos::from_millis(1),
            result,
        }
    }
    fn advance(&mut self, _now: Time) {}
    fn power_off(self, _at: Time, _seed: u64) -> Ram {
        self.below
    }
    fn device_stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        None
    }
}

fn block(fill: u8) -> base::Bytes {
    vec![fill; 4096].into()
}

#[test]
fn ram_and_wrappers() {
    device::run(&Ram::new(1 << 20));
    device::run(&Count::new(Ram::new(1 << 20)));
    device::run(&Record::new(Ram::new(1 << 20)));
    let shared: Arc<dyn BlockDevice> = Arc::new(Ram::new(1 << 20));
    device::run(&shared);
}

#[test]
fn faults_without_rules_are_any_device() {
    device::run(&Fault::new(Ram::new(1 << 20)));
    device::run(&Fault::with_cache(Ram::new(1 << 20)));
}

#[test]
fn overlay_with_remap() {
    let remap = Some(RemapCaps {
        granule: 4096,
        pairs_max: 8,
    });
    let caps = Caps {
        fua: false,
        discard: true,
        remap,
        ..Ram::new(1 << 20).caps()
    };
    device::run(&*OverlayDisk::new(caps, Image::new()));
}

#[test]
fn host_file() {
    let file = tempfile::tempfile().unwrap();
    file.set_len((1 << 20) + 100).unwrap();
    device::run(&HostFile::new(file).unwrap());
}

#[test]
fn modelled_unpaced_and_in_virtual_time() {
    device::run(&Modelled::new(Slow::new(), Clock::Unpaced));
    let outcome = Sim::new(SimConfig::seeded(1))
        .run(|| device::run(&Modelled::new(Slow::new(), Clock::Runtime)));
    assert!(
        outcome.end >= Time(10_000_000),
        "each command takes a virtual millisecond"
    );
    outcome.unwrap();
}

#[test]
fn i3_what_completes_after_the_cut_is_not_delivered_at_the_cut_is() {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = Arc::new(Modelled::new(Slow::new(), Clock::Runtime));
        let write = |n: u64| Request::write(Lba(n * SECTORS_PER_BLOCK), Class::Data, block(1));
        let at_the_cut = device.submit(write(0));
        rt::sleep(Nanos(1));
        let after_the_cut = device.submit(write(1));
        rt::sleep_until(Time(1_000_000));
        let media = device.power_off(1).unwrap();
        assert_eq!(media.blocks().len(), 2);
        assert!(device.wait(at_the_cut).is_ok());
        let lost = device.wait(after_the_cut).unwrap_err();
        assert_eq!(lost.kind, DevErrorKind::PowerLost);
        let late = device.wait(device.submit(write(2))).unwrap_err();
        assert_eq!(late.kind, DevErrorKind::PowerLost);
        assert!(device.power_off(1).is_none() && device.with_model(|_| ()).is_none());
    });
    outcome.unwrap();
}

/// Notes the places of requests in the order in which they arrive.
struct Arrivals {
    below: Ram,
    seen: rt::Mutex<Vec<Lba>>,
}

impl BlockDevice for Arrivals {
    fn caps(&self) -> Caps {
        self.below.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.seen
            .lock()
            .extend(request.spans().iter().map(|(lba, _)| *lba));
        self.below.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.below.wait(ticket)
    }
}

#[test]
fn record_has_the_order_in_which_the_device_got_requests_of_several_tasks() {
    let mut orders = std::collections::BTreeSet::new();
    rt::each_schedule(2, |policy| {
        let config = SimConfig {
            policy,
            ..SimConfig::default()
        };
        let outcome = Sim::new(config).run(|| {
            let device = Arc::new(Record::new(Arrivals {
                below: Ram::new(1 << 20),
                seen: rt::Mutex::new(Vec::new()),
            }));
            let tasks = [0, 1].map(|n| {
                let device = device.clone();
                let write = Request::write(Lba(n * SECTORS_PER_BLOCK), Class::Data, block(1));
                rt::spawn("submitter", move || device.wait(device.submit(write)))
            });
            for task in tasks {
                task.join().unwrap().unwrap();
            }
            let log = device.take().into_iter().map(|e| e.request.spans()[0].0);
            let seen = std::mem::take(&mut *device.inner().seen.lock());
            assert_eq!(log.collect::<Vec<_>>(), seen);
            seen
        });
        let points = outcome.points;
        orders.insert(outcome.unwrap());
        points
    });
    assert_eq!(orders.len(), 2, "both tasks came first once: {orders:?}");
}

#[test]
fn record_keeps_order_times_and_failures() {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = Record::new(Modelled::new(Slow::new(), Clock::Runtime));
        let first = device.submit(Request::write(Lba(0), Class::JournalCommit, block(1)));
        let second = device.submit(Request::read(Lba(u64::MAX), 1));
        device.wait(first).unwrap();
        device.wait(second).unwrap_err();
        let open = device.submit(Request::flush());
        let events = device.take();
        assert_eq!(events.len(), 3);
        assert_eq!(
            (events[0].submitted, events[0].completed),
            (Time(0), Some(Time(1_000_000)))
        );
        assert!(events[1].failed && !events[0].failed);
        assert_eq!(events[2].completed, None);
        device.wait(open).unwrap();
        assert!(device.take().is_empty());
    });
    outcome.unwrap();
}

#[test]
fn count_counts_by_class() {
    let device = Count::new(Ram::new(1 << 20));
    for n in 0..3 {
        let request = Request::write(Lba(n * SECTORS_PER_BLOCK), Class::Home, block(1));
        device.wait(device.submit(request)).unwrap();
    }
    device
        .wait(device.submit(Request::write_fua(Lba(0), Class::JournalCommit, block(2))))
        .unwrap();
    device.wait(device.submit(Request::flush())).unwrap();
    let counts = device.counts();
    assert_eq!(
        (
            counts.commands.writes,
            counts.commands.fua_writes,
            counts.commands.flushes
        ),
        (4, 1, 1)
    );
    assert_eq!(counts.sectors_written[&Class::Home], 3 * SECTORS_PER_BLOCK);
    assert_eq!(counts.sectors_written_total(), 4 * SECTORS_PER_BLOCK);
}
