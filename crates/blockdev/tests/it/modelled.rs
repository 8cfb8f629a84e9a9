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
