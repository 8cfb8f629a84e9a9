//! Benchmarks of the states of one cut: naming, hashing and making them. The volume has 144 MiB and
//! no blank block, as that of the crash explorer.

use base::{Bytes, Lba, Rng, SECTORS_PER_BLOCK, Time, fill};
use divan::counter::ItemsCount;
use std::sync::Arc;
use varve_blockdev::spec::{Bound, Choice, Kind, Mode, Write};
use varve_blockdev::trace::{Cursor, Step, What};
use varve_blockdev::{Caps, Class, Image, Trace};

const BLOCKS: u64 = 144 << 8;
/// Open writes of one block, and of eight.
const SHORT: u64 = 16;
const LONG: u64 = 4;

fn block(n: u64) -> Bytes {
    let mut bytes = vec![0; 4096];
    Rng::named(n, "block").fill(&mut bytes);
    bytes.into()
}

fn caps() -> Caps {
    Caps {
        reliable_granule: Some(512),
        tear_granule: None,
        max_transfer_sectors: 1024,
        ..testkit::device::caps(BLOCKS * 4096)
    }
}

fn write(i: u64, image: &Image) -> Step {
    let (first, n) = match i.checked_sub(SHORT) {
        None => (i * 997, 1),
        Some(long) => (20_000 + 8 * long, 8),
    };
    let (start, end) = (Time(10 * i + 1), Time(10 * i + 5));
    let new: Vec<Bytes> = (first..first + n).map(|b| block(b + 1_000_000)).collect();
    let write = Write {
        start,
        end,
        kind: Kind::Normal,
        lba: Lba(first * SECTORS_PER_BLOCK),
        sectors: n * SECTORS_PER_BLOCK,
        new: vec![new.concat().into()],
        prev: (first..first + n).map(|b| (b, image.block(b))).collect(),
    };
    Step {
        start,
        end,
        what: What::Write(Arc::new(write)),
        classes: vec![Class::Data],
    }
}

fn trace() -> Trace {
    let stale = block(7);
    let start: Image = (0..BLOCKS).map(|n| (n, stale.clone())).collect();
    Trace {
        caps: caps(),
        steps: (0..SHORT + LONG).map(|i| write(i, &start)).collect(),
        start,
    }
}

fn at_end(trace: &Trace) -> Cursor<'_> {
    let mut cursor = trace.cursor();
    cursor.seek(Time(1000));
    cursor
}

fn bound(mode: Mode) -> Bound {
    Bound {
        mode,
        subset_max: 3,
        ..Bound::default()
    }
}

fn of(bencher: divan::Bencher, mode: Mode, mut each: impl FnMut(&Cursor<'_>, &Choice) -> u64) {
    let trace = trace();
    let cursor = at_end(&trace);
    let choices = cursor.choices(&bound(mode));
    bencher
        .counter(ItemsCount::new(choices.len()))
        .bench_local(|| {
            let hash = |sum: u64, choice| sum.wrapping_add(each(&cursor, choice));
            choices.iter().fold(0, hash)
        });
}

#[divan::bench]
fn named(bencher: divan::Bencher) {
    let trace = trace();
    let cursor = at_end(&trace);
    let bound = bound(Mode::Bounded);
    bencher
        .counter(ItemsCount::new(cursor.counted(&bound).enumerated))
        .bench_local(|| cursor.counted(&bound));
}

#[divan::bench]
fn hashed(bencher: divan::Bencher) {
    of(bencher, Mode::Bounded, |cursor, choice| {
        cursor.content_hash(choice).expect("it was named")
    });
}

#[divan::bench]
fn made(bencher: divan::Bencher) {
    of(bencher, Mode::Bounded, |cursor, choice| {
        cursor.image(choice).content_hash()
    });
}

#[divan::bench]
fn made_in_order(bencher: divan::Bencher) {
    of(bencher, Mode::Linear, |cursor, choice| {
        cursor.image(choice).content_hash()
    });
}

#[divan::bench]
fn drawn(bencher: divan::Bencher) {
    of(bencher, Mode::Random(1000), |cursor, choice| {
        cursor.image(choice).content_hash()
    });
}

#[divan::bench]
fn one_block_of_a_clone(bencher: divan::Bencher) {
    let image = trace().start;
    let bytes = fill::filled(3, 4096);
    bencher.bench_local(|| {
        let mut clone = image.clone();
        clone.set_block(777, bytes.clone());
        clone.content_hash()
    });
}

fn main() {
    divan::main();
}
