//! A modelled card that is served as if it were real: behind the seam of devices, in time that
//! passes, and through a host that adds some to every request.

use base::{Nanos, Rng, Time};
use blockdev::{BlockDevice, Caps, Clock, DevError, Model, Modelled, Reply, Request, Ticket};
use ctrl::Profile;
use rt::Mutex;
use varve_calibrate::{Effort, Plan, Real, Seen, Wanted, fit, measure};

const AREA: u64 = 32 << 20;
/// What the host adds to each request at least, and what it adds beyond at most, nanoseconds: a
/// fortieth of what FUSE and a loop device took, as at that pace.
const HOST_NS: (u64, u64) = (2_750, 1_750);

/// A host between the program and a card.
struct Host<D> {
    card: D,
    rng: Mutex<Rng>,
}

impl<D: BlockDevice> BlockDevice for Host<D> {
    fn caps(&self) -> Caps {
        self.card.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let more = self.rng.lock().below(HOST_NS.1);
        rt::sleep(Nanos(HOST_NS.0 + more));
        self.card.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.card.wait(ticket)
    }
    fn due(&self, ticket: Ticket) -> Option<Time> {
        self.card.due(ticket)
    }
}

/// What is seen of a card through the host.
fn seen(device: &str) -> Seen {
    let sim = rt::Sim::new(rt::SimConfig::seeded(1));
    let seen = sim.run(|| {
        let model = Profile::parse(device).unwrap().build(Some(256 << 20), None);
        let model = model.unwrap();
        let wanted = Wanted {
            area: AREA,
            depth: false,
            durable: true,
            discard: false,
        };
        let plan = Plan::of(model.caps(), wanted);
        let effort = Effort {
            area: AREA,
            repeats: 15,
            budget: Nanos::from_millis(10_000),
            seed: 7,
        };
        let host = Host {
            card: Modelled::new(model, Clock::Runtime),
            rng: Mutex::named("host", Rng::named(1, "host")),
        };
        measure(&mut Real(&host), &plan, &effort, &mut |_| true).unwrap()
    });
    seen.unwrap()
}

/// Each field of the card is found within a tenth, what the card itself takes for a read in the sum
/// with the read of the chips. The time of the host is less than that of any of them.
#[test]
fn the_fields_of_a_served_card_are_found_within_a_tenth() {
    let changes = [
        ("card.cache_kib", 1024.0),
        ("timing.fig8.bus_us_per_kib", 5.0),
        ("timing.fig8.write_us", 120.0),
        ("timing.fig8.random_us", 60.0),
        ("timing.fig8.program_us_per_kib", 30.0),
        ("timing.fig8.reliable_us", 300.0),
        ("timing.fig8.flush_us", 800.0),
        ("timing.fig8.flush_idle_us", 90.0),
        ("timing.fig8.read_us", 30.0),
        ("nand.timing.read_us", 70.0),
        ("nand.timing.bus_ns_per_byte", 10.0),
    ];
    let device = changes
        .iter()
        .fold("emmc-odroid-xu4".to_string(), |text, (field, value)| {
            format!("{text},{field}={value}")
        });
    let template = Profile::text_of("emmc-odroid-xu4").unwrap();
    let fit = fit(&template, &[], &seen(&device)).unwrap();
    let found = |field: &str| {
        let found = fit.fitted.iter().find(|f| f.field == field);
        found.map(|f| f.value)
    };
    // What is not found apart is the template's.
    let reads =
        found("timing.fig8.read_us").unwrap_or(12.5) + found("nand.timing.read_us").unwrap_or(50.0);
    let wanted = changes
        .iter()
        .filter(|(field, _)| *field != "timing.fig8.read_us")
        .map(|(field, value)| (*field, found(field), *value))
        .chain([("reads of card and chips", Some(reads), 100.0)]);
    for (field, found, value) in wanted {
        let found = found.unwrap_or_else(|| panic!("{field} was not found: {:?}", fit.assumed));
        let off = found / value - 1.0;
        assert!(off.abs() < 0.1, "{field}: {found:.2}, it is {value}");
    }
    assert!(fit.miss() < 0.05, "{}", fit.miss());
}
