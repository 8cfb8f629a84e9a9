//! A device that is measured, and a model of it, show the same.

use base::{Lba, Nanos};
use blockdev::{Class, Clock, Modelled, Request};
use ctrl::Profile;
use varve_calibrate::{Bench, Real, Virtual};

/// Durable writes between reads, so that they do not end in the order in which they were submitted.
fn requests() -> Vec<Request> {
    let request = |n: u64| {
        let at = Lba(n * 7919 % 400 * 512);
        match n % 5 {
            0 => Request::write_fua(at, Class::Data, vec![1; 4096].into()),
            _ => Request::read(at, 8),
        }
    };
    (0..60).map(request).collect()
}

#[test]
fn requests_under_way_take_as_long_in_both() {
    for (device, depth) in [("nvme-980pro", 4), ("nvme-980pro", 1), ("ufs-generic", 8)] {
        let model = || {
            let profile = Profile::parse(device).unwrap();
            profile.build(Some(2 << 30), None).unwrap()
        };
        let shown = Virtual::new(model()).run(requests(), depth).unwrap();
        let simulation = rt::Sim::new(rt::SimConfig::seeded(1));
        let took = simulation.run(|| {
            let device = Modelled::new(model(), Clock::Runtime);
            Real(&device).run(requests(), depth).unwrap()
        });
        let took = took.unwrap();
        assert!(shown > Nanos(0));
        assert_eq!(took, shown, "{device} at depth {depth}");
    }
}
