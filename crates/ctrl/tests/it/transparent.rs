//! Transparent remapping: a write that repeats the content of something already programmed shares
//! its page.

use base::{Bytes, Lba, Rng, Time};
use blockdev::{Adversary, Class, Model, Request, TransparentStats};
use varve_ctrl::{AnyModel, Profile};

const PROFILE: &str = "nandsim-2007,transparent=true";

struct Host {
    device: AnyModel,
    now: Time,
    /// What the host wrote last to each block.
    view: Vec<Bytes>,
}

impl Host {
    fn new(changes: &str) -> Host {
        let profile = Profile::parse(&format!("{PROFILE}{changes}")).unwrap();
        let mut device = profile.build(Some(4 << 20), None).unwrap();
        device.set_adversary(Adversary::Own);
        Host {
            device,
            now: Time(0),
            view: vec![vec![0; 4096].into(); 1024],
        }
    }
    fn run(&mut self, request: Request) -> Bytes {
        let done = self.device.execute(self.now, request);
        self.now = done.at;
        done.result.unwrap().into_bytes()
    }
    fn write(&mut self, block: usize, bytes: &Bytes) {
        self.view[block] = bytes.clone();
        self.run(Request::write(
            Lba(block as u64 * 8),
            Class::Data,
            bytes.clone(),
        ));
    }
    fn stats(&self) -> TransparentStats {
        self.device.flash_stats().unwrap().transparent
    }
    /// Blocks whose content is not what the host wrote.
    fn wrong(&self) -> usize {
        let wrong = |(n, b): &(usize, &Bytes)| self.device.visible(*n as u64) != **b;
        self.view.iter().enumerate().filter(wrong).count()
    }
}

fn block(n: u64) -> Bytes {
    let mut bytes = vec![0; 4096];
    Rng::named(n, "content").fill(&mut bytes);
    bytes.into()
}

#[test]
fn a_repeated_write_costs_a_read_and_a_record_and_is_durable_as_a_write_is() {
    let mut host = Host::new("");
    host.write(500, &block(1));
    let (before, start) = (host.device.flash_stats().unwrap(), host.now);
    host.write(7, &block(1));
    let did = host.device.flash_stats().unwrap().since(&before);
    assert_eq!((did.programs, did.programs_by_cause.log), (1, 1));
    assert_eq!((did.reads, did.transparent.matched), (8, 1));
    // Eight pages read, one page of the log.
    let took = (host.now - start).0;
    assert!(
        (400_000 + 100_000..=400_000 + 120_000).contains(&took),
        "{took}"
    );
    let media = host.device.power_off(host.now, 1);
    let next = Profile::parse(PROFILE).unwrap();
    let next = next.build(None, Some(media)).unwrap();
    assert_eq!(next.visible(7), block(1));
    assert_eq!(next.visible(500), block(1));
}

/// transparent-T3.
#[test]
fn with_a_buffer_the_share_is_volatile_until_the_flush() {
    let changes = ",controller.buffer_kib=64";
    for flush in [false, true] {
        let mut host = Host::new(changes);
        host.write(500, &block(1));
        host.run(Request::flush());
        host.write(7, &block(1));
        if flush {
            host.run(Request::flush());
            assert_eq!(host.stats().matched, 1);
        }
        let media = host.device.power_off(host.now, 1);
        let next = Profile::parse(&format!("{PROFILE}{changes}")).unwrap();
        let next = next.build(None, Some(media)).unwrap();
        let want = if flush {
            block(1)
        } else {
            vec![0; 4096].into()
        };
        assert_eq!(next.visible(7), want);
        assert_eq!(next.visible(500), block(1));
    }
}

#[test]
fn a_write_of_what_is_there_does_nothing_and_zeros_are_not_programmed() {
    let mut host = Host::new("");
    host.write(3, &block(1));
    let before = host.device.flash_stats().unwrap();
    host.write(3, &block(1));
    host.write(4, &vec![0; 4096].into());
    let did = host.device.flash_stats().unwrap().since(&before);
    assert_eq!((did.transparent.unchanged, did.zero_units), (1, 1));
    assert_eq!(did.programs_by_cause.host, 0);
    assert_eq!(host.wrong(), 0);
}

#[test]
fn what_was_overwritten_discarded_or_lies_beyond_the_window_is_not_found() {
    let mut host = Host::new(",transparent_window_mib=1");
    host.write(500, &block(1));
    host.write(500, &block(2));
    host.write(7, &block(1));
    assert_eq!(host.stats().matched, 0, "overwritten");
    host.run(Request::discard(Lba(7 * 8), 8));
    host.view[7] = vec![0; 4096].into();
    host.write(8, &block(1));
    assert_eq!(host.stats().matched, 0, "discarded");
    // The window holds 256 units.
    (0..300).for_each(|n| host.write(600 + n, &block(100 + n as u64)));
    host.write(9, &block(1));
    assert_eq!(host.stats().matched, 0, "beyond the window");
    host.write(10, &block(399));
    assert_eq!(host.stats().matched, 1);
    assert_eq!((host.stats().different, host.wrong()), (0, 0));
}

/// Writes a log of 64 blocks and then their homes. Some of what goes home was changed again after
/// its commit, as with a mapped file.
fn journalled(host: &mut Host, rounds: u64, changed_one_in: u64) -> u64 {
    let mut rng = Rng::named(rounds, "journalled");
    let (mut at, mut changed) = (0, 0);
    for round in 0..rounds {
        let homes: Vec<usize> = (0..16)
            .map(|i| 100 + (rng.below(40) * 16 + i) as usize)
            .collect();
        let contents: Vec<Bytes> = homes
            .iter()
            .map(|h| block(round << 16 | *h as u64))
            .collect();
        for content in &contents {
            host.write(at % 64, content);
            at += 1;
        }
        host.run(Request::flush());
        for (home, content) in homes.iter().zip(&contents) {
            if rng.one_in(changed_one_in) {
                let mut stored = content.to_vec();
                stored[rng.below(4096) as usize] ^= 1;
                host.write(*home, &stored.into());
                changed += 1;
            } else {
                host.write(*home, content);
            }
        }
    }
    changed
}

#[test]
fn what_was_stored_after_the_commit_is_programmed_r21() {
    for buffer in ["", ",controller.buffer_kib=256"] {
        for bits in [128, 6] {
            let mut host = Host::new(buffer);
            if let AnyModel::Raw(raw) = &mut host.device {
                raw.shorten_hash(bits);
            }
            let changed = journalled(&mut host, 40, 3);
            host.run(Request::flush());
            let stats = host.stats();
            assert_eq!(host.wrong(), 0);
            if bits == 128 {
                assert_eq!((stats.matched, stats.different), (640 - changed, 0));
                assert_eq!(stats.programmed, 640 + changed);
            } else {
                assert!(stats.different > 100, "{stats:?}");
            }
        }
    }
}

#[test]
fn a_share_survives_collection_of_its_page() {
    let mut host = Host::new("");
    let mut rng = Rng::named(5, "collected");
    journalled(&mut host, 40, 4);
    let blank = vec![0; 4096];
    for n in 0..1024 {
        if host.view[n] == blank {
            host.write(n, &block(1 << 41 | n as u64));
        }
    }
    // Everything is written again and again, what was shared less often.
    for n in 0..3000 {
        let at = rng.below(1024) as usize;
        if !(100..740).contains(&at) || n % 8 == 0 {
            host.write(at, &block(1 << 40 | n));
        }
    }
    assert!(host.device.flash_stats().unwrap().gc_copies > 0);
    assert_eq!(host.wrong(), 0);
}

#[test]
fn a_copy_in_memory_is_compared_without_a_read() {
    let mut host = Host::new(",transparent_copies_mib=1");
    host.write(500, &block(1));
    let (before, start) = (host.device.flash_stats().unwrap(), host.now);
    host.write(7, &block(1));
    let did = host.device.flash_stats().unwrap().since(&before);
    assert_eq!((did.reads, did.transparent.matched), (0, 1));
    // One page of the log alone.
    let took = (host.now - start).0;
    assert!((100_000..=120_000).contains(&took), "{took}");
    // What is older than the copies is read.
    (0..300).for_each(|n| host.write(600 + n, &block(100 + n as u64)));
    let before = host.device.flash_stats().unwrap();
    host.write(8, &block(1));
    let did = host.device.flash_stats().unwrap().since(&before);
    assert_eq!((did.reads, did.transparent.matched), (8, 1));
    assert_eq!(host.wrong(), 0);
    let most = Profile::parse(&format!("{PROFILE},transparent_copies_mib=65"));
    let why = most.unwrap_err().to_string();
    assert!(why.contains("0 to transparent_window_mib, 64"), "{why}");
}

#[test]
fn copies_are_those_of_the_newest_content_r21() {
    for bits in [128, 6] {
        let mut host = Host::new(",transparent_copies_mib=2");
        if let AnyModel::Raw(raw) = &mut host.device {
            raw.shorten_hash(bits);
        }
        journalled(&mut host, 40, 3);
        // Overwritten and discarded units are no longer found by their copies.
        host.write(500, &block(1 << 50));
        host.write(500, &block(1 << 51));
        host.write(501, &block(1 << 50));
        host.run(Request::flush());
        assert_eq!(host.wrong(), 0, "{bits} bits");
    }
}
