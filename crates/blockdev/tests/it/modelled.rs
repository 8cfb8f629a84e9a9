//! The adapter from a model to a blocking device, in the real world.

use base::{Nanos, Time};
use blockdev::{
    BlockDevice, Caps, Clock, Completion, DevErrorKind, DeviceStats, FlashStats, Model, Modelled,
    Reply, Request,
};
use varve_blockdev as blockdev;

/// Every request takes a minute.
struct Slow(Caps);

impl Model for Slow {
    type Media = ();
    fn caps(&self) -> &Caps {
        &self.0
    }
    fn execute(&mut self, now: Time, _: Request) -> Completion {
        Completion {
            at: now + Nanos(60_000_000_000),
            result: Ok(Reply::default()),
        }
    }
    fn advance(&mut self, _: Time) {}
    fn power_off(self, _: Time, _: u64) {}
    fn device_stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        None
    }
}

#[test]
fn a_request_that_the_cut_overtook_answers_power_loss_at_once() {
    let caps = blockdev::Ram::new(1 << 20).caps();
    let device = Modelled::new(Slow(caps), Clock::Runtime);
    let before = rt::now();
    let ticket = device.submit(Request::flush());
    device.power_off(0).unwrap();
    for ticket in [ticket, device.submit(Request::flush())] {
        let error = device.wait(ticket).unwrap_err();
        assert_eq!(error.kind, DevErrorKind::PowerLost);
    }
    assert!(
        (rt::now() - before).0 < 30_000_000_000,
        "it waited for the model"
    );
}

#[test]
fn i4_an_announced_cut_comes_at_its_time_and_the_model_is_not_called_behind_it() {
    let minute = 60_000_000_000;
    let device = Modelled::new(Slow(blockdev::Ram::new(1 << 20).caps()), Clock::Unpaced);
    device.cut_at(Time(minute + minute / 2));
    let ticket = device.submit(Request::flush());
    device.wait(ticket).expect("it is complete before the cut");
    assert!(!device.is_cut());
    let ticket = device.submit(Request::flush());
    let error = device.wait(ticket).unwrap_err();
    assert_eq!(error.kind, DevErrorKind::PowerLost);
    assert_eq!(device.model_time(), Time(minute + minute / 2));
    assert!(device.is_cut());
    // The time of the cut itself is not behind it: a command may begin then, and is lost.
    let ticket = device.submit(Request::flush());
    assert_eq!(
        device.wait(ticket).unwrap_err().kind,
        DevErrorKind::PowerLost
    );
    assert!(device.power_off(0).is_some());
}

#[test]
fn a_paced_device_takes_its_part_of_the_time() {
    let caps = blockdev::Ram::new(1 << 20).caps();
    // A minute at a thousandth.
    let device = Modelled::new(Slow(caps), Clock::Paced { permille: 1 });
    let before = rt::now();
    let ticket = device.submit(Request::flush());
    let due = device.due(ticket).expect("it is known");
    device.wait(ticket).expect("it ends well");
    let took = rt::now() - before;
    assert!((59_000_000..5_000_000_000).contains(&took.0), "{took:?}");
    assert!(rt::now() >= due && due >= before);
}
