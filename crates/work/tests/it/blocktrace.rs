//! Recordings of block requests: small ones of our own in every format, damaged ones, what they
//! come to on a layer that counts and on profiles, and two of a phone if they are here. Those are
//! data of others, so they are not in the repository; `VARVE_TRACES` names their folder.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use proptest::prelude::*;
use rig::counting::Policy;
use std::io::Write;
use std::path::PathBuf;
use varve_work::blocktrace::counting::{self, CountingRun, CountingSpec, Fill, Shape};
use varve_work::blocktrace::device::{self, DeviceRun, DeviceSpec, Pace};
use varve_work::blocktrace::fold::{Fold, Folder, Footprint};
use varve_work::blocktrace::{
    BlockTrace, Format, LINE_BYTES_MAX, Op, Request, SECTOR_END, TRANSFER_SECTORS_MAX, read_from,
    stats,
};
use varve_work::recording;

/// The same five requests in every format.
const SAMPLES: [(Format, &str); 7] = [
    (Format::Msr, include_str!("../data/blocks-msr.csv")),
    (Format::Mqsim, include_str!("../data/blocks-mqsim.trace")),
    (Format::Disksim, include_str!("../data/blocks-disksim.txt")),
    (Format::Pixel, include_str!("../data/blocks-pixel.csv")),
    (Format::Fio, include_str!("../data/blocks-fio2.log")),
    (Format::Fio, include_str!("../data/blocks-fio3.log")),
    (
        Format::Blkparse,
        include_str!("../data/blocks-blkparse.txt"),
    ),
];

fn request(us: u64, op: Op, sector: u64, sectors: u32) -> Request {
    Request {
        at: us * 1000,
        sector,
        sectors,
        device: 0,
        op,
        fua: false,
    }
}

#[test]
fn every_format_says_the_same() {
    let wanted = [
        request(0, Op::Write, 2048, 8),
        request(1000, Op::Read, 2048, 8),
        request(1500, Op::Write, 4096, 1024),
        request(3000, Op::Write, 2048, 8),
        request(10_000, Op::Read, 1_048_576, 64),
    ];
    for (format, text) in SAMPLES {
        let name = format.word();
        let detected = recording::detect(text.as_bytes());
        assert_eq!(detected, Ok(recording::Format::Blocks(format)), "{name}");
        let trace = read_from(name, text.as_bytes(), None, true).expect(name);
        assert_eq!(trace.requests, wanted, "{name}");
        assert_eq!((trace.format, trace.devices.len()), (format, 1), "{name}");
        assert_eq!(format.word().parse(), Ok(format));
        let forced = read_from(name, text.as_bytes(), Some(format), true).expect(name);
        assert_eq!(forced.requests, trace.requests, "{name}");
    }
    let blkparse = SAMPLES[6].1.as_bytes();
    let trace = read_from("b", blkparse, None, true).unwrap();
    let same = trace.reading.left_out["the same requests at another step"];
    assert_eq!(same, 2, "one queued, one completed");
}

#[test]
fn packed_files_are_the_same_recording() {
    let text = SAMPLES[3].1.as_bytes();
    let plain = read_from("pixel", text, None, true).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zst = ruzstd::encoding::compress_to_vec(text, level);
    let gz = gz.finish().unwrap();
    for packed in [&gz, &zst] {
        let found = read_from("pixel", &packed[..], None, true).unwrap();
        assert_eq!(found.requests, plain.requests);
    }
    // Cut off: what is there counts; strictly it is refused.
    let cut = &gz[..gz.len() - 12];
    let found = read_from("pixel", cut, Some(Format::Pixel), false).unwrap();
    assert!(found.reading.faults.contains_key("the file breaks off"));
    let error = read_from("pixel", cut, Some(Format::Pixel), true).unwrap_err();
    assert!(error.to_string().contains("the file breaks off"), "{error}");
}

#[test]
fn lines_at_fault_are_named_or_counted() {
    let long = "9".repeat(3 * LINE_BYTES_MAX);
    let text =
        format!("0 0 8 8 0\n0 0 8 0 0\n{long}\n1 0 8 8 7\n2 0 16 8 1\n5 0 9007199254740985 8 0\n");
    let trace = read_from("m.trace", text.as_bytes(), None, false).unwrap();
    assert_eq!(trace.requests.len(), 2);
    let faults = &trace.reading.faults;
    let lines: Vec<(u64, u64)> = faults.values().map(|l| (l.line, l.count)).collect();
    assert_eq!(lines, [(3, 1), (4, 1), (2, 2)], "{faults:?}");
    let error = read_from("m.trace", text.as_bytes(), None, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("m.trace, line 2: requests of no sector"),
        "{error}"
    );
    let forced = read_from("m.trace", text.as_bytes(), Some(Format::Msr), false).unwrap_err();
    assert!(forced.to_string().contains("no request in it"), "{forced}");
    let calls = "1 0 close 3 0\n";
    let error = read_from("c", calls.as_bytes(), None, false).unwrap_err();
    assert!(error.to_string().contains("system calls"), "{error}");
    let blocks = recording::read_from("b", &b"0 0 8 8 0\n"[..], false).unwrap_err();
    assert!(
        blocks.to_string().contains("block requests (mqsim)"),
        "{blocks}"
    );
}

#[test]
fn requests_come_by_time_and_the_mark_stays_where_it_is() {
    let text = "process,device,rw_flag,sector,size,timestamp\n\
                a,1,W,0,8,7.5\na,1,W,8,8,7.25\npreconditioning_ended\n\
                a,2,FWFS,16,8,3.5\na,1,D,24,8,3.25\na,1,FF,0,0,3.75\n";
    let trace = read_from("p", text.as_bytes(), None, true).unwrap();
    assert_eq!(trace.preparing, 2);
    let all: Vec<_> = trace
        .requests
        .iter()
        .map(|r| (r.at / 250_000_000, r.op, r.sector))
        .collect();
    let wanted = [
        (16, Op::Write, 8),
        (17, Op::Write, 0),
        (0, Op::Discard, 24),
        (1, Op::Flush, 0),
        (1, Op::Write, 16),
        (2, Op::Flush, 0),
    ];
    assert_eq!(all, wanted);
    assert!(trace.requests[4].fua);
    assert_eq!(trace.reading.rules.values().sum::<u64>(), 2);
    let stats = stats::of(&trace, &Footprint::of(&trace).unwrap());
    assert_eq!((stats.requests(), stats.fua, stats.devices), (6, 1, 2));
    assert_eq!((stats.units_written, stats.unit_writes), (3, 3));
}

fn trace(requests: Vec<Request>) -> BlockTrace {
    BlockTrace {
        name: "made".into(),
        format: Format::Mqsim,
        devices: vec!["0".into()],
        requests,
        preparing: 0,
        reading: recording::Reading::default(),
    }
}

fn count(trace: &BlockTrace, change: impl FnOnce(&mut CountingSpec)) -> CountingRun {
    let mut spec = CountingSpec {
        bytes: 64 << 20,
        shape: "pages=64,dies=1,lanes=1".parse().expect("a shape"),
        policy: Policy::Greedy,
        seed: 1,
        fold: Fold::Compact,
        fill: Fill::Footprint,
        passes: 1,
    };
    change(&mut spec);
    let footprint = Footprint::of(trace).unwrap();
    counting::run(trace, &footprint, &spec).expect("it runs")
}

/// counting-C3: what is not full is programmed, and then padded.
#[test]
fn a_flush_behind_every_write_programs_a_page_for_a_unit() {
    let pairs = (0..100).flat_map(|n| {
        let write = request(n, Op::Write, 8 * n, 8);
        [write, request(n, Op::Flush, 0, 0)]
    });
    let made = trace(pairs.collect());
    let run = count(&made, |spec| spec.fill = Fill::None);
    assert_eq!(
        (run.host_units, run.programs, run.padded_units),
        (100, 100, 300)
    );
    assert_eq!(run.write_amplification, Some(4.0));
    assert_eq!((run.flushes, run.requests), (100, 200));
    // FUA is the same in one request.
    let fua = made.requests.iter().filter(|r| r.op == Op::Write);
    let fua = trace(fua.map(|r| Request { fua: true, ..*r }).collect());
    let run = count(&fua, |spec| spec.fill = Fill::None);
    assert_eq!((run.programs, run.flushes), (100, 100));
}

#[test]
fn sequential_rewrites_cost_nothing_and_random_ones_cost_copies() {
    let units = (56 << 20) / 4096;
    let sequential = (0..units / 16).map(|n| request(n, Op::Write, n * 128, 128));
    let sequential = trace(sequential.collect());
    let run = count(&sequential, |spec| spec.passes = 4);
    let amplification = run.write_amplification.expect("it writes");
    assert!((1.0..1.02).contains(&amplification), "{amplification}");
    assert_eq!(run.amplification_by_pass.len(), 4);
    let mut rng = base::Rng::named(1, "random");
    let random = (0..4 * units).map(|n| request(n, Op::Write, 8 * rng.below(units), 8));
    let random = trace(random.collect());
    let by = |policy| {
        let run = count(&random, |spec| {
            (spec.policy, spec.fill) = (policy, Fill::All)
        });
        assert!(run.erases > 0 && run.gc_units > 0 && run.erases_max > 0);
        run.write_amplification.expect("it writes")
    };
    let (greedy, fifo, any) = (by(Policy::Greedy), by(Policy::Fifo), by(Policy::Random));
    assert!(
        greedy > 1.5 && greedy < fifo && fifo < any,
        "{greedy} {fifo} {any}"
    );
    // Discards give room.
    let roomy = random.requests.iter().copied();
    let half = Request {
        op: Op::Discard,
        ..request(0, Op::Discard, 0, (units * 4) as u32)
    };
    let kept = |r: &Request| r.sector >= units * 4;
    let with = trace(std::iter::once(half).chain(roomy.filter(kept)).collect());
    let without = trace(with.requests[1..].to_vec());
    let [with, without] = [with, without].map(|t| count(&t, |spec| spec.fill = Fill::All));
    assert_eq!(without.discarded_units, 0);
    assert!(with.gc_units <= without.gc_units, "{with:?} {without:?}");
}

#[test]
fn a_shape_that_is_none_is_refused_with_the_reason() {
    for (text, why) in [
        ("page", "KEY=VALUE"),
        ("page=x", "a number"),
        ("page=5000", "power of two"),
        ("pages=1", "8 to 4096"),
        ("spare=0", "0.01 to 10"),
        ("spare=nan", "0.01 to 10"),
        ("colour=1", "there is: page"),
    ] {
        let error = text.parse::<Shape>().expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    let shape: Shape = "page=4096,spare=0.25".parse().unwrap();
    assert_eq!(shape.to_string().parse(), Ok(shape));
    for (text, why) in [
        ("none:0", "1 to 1024"),
        ("fast", "recorded"),
        ("none:x", "none:N"),
    ] {
        assert!(text.parse::<Pace>().expect_err(text).contains(why));
    }
}

fn timed(trace: &BlockTrace, change: impl FnOnce(&mut DeviceSpec)) -> DeviceRun {
    let mut spec = DeviceSpec {
        profile: "emmc-odroid-xu4".into(),
        timing: None,
        bytes: 64 << 20,
        pace: Pace::Recorded,
        fold: Fold::Compact,
        fill: Fill::Footprint,
        passes: 1,
    };
    change(&mut spec);
    let footprint = Footprint::of(trace).unwrap();
    device::run(trace, &footprint, &spec).expect("it runs")
}

/// device-P1.
#[test]
fn an_open_loop_queues_and_a_closed_one_does_not() {
    let reads = |gap_us: u64| -> BlockTrace {
        let mut rng = base::Rng::named(1, "reads");
        let all = (0..200).map(|n| request(n * gap_us, Op::Read, 8 * rng.below(4096), 8));
        trace(all.collect())
    };
    let slow = timed(&reads(20_000), |_| ());
    let quick = timed(&reads(1), |_| ());
    let p50 = |run: &DeviceRun| run.latency_us["read"].p50;
    assert_eq!((slow.requests, slow.depth_max), (200, 1));
    assert!(quick.depth_max > 100, "{}", quick.depth_max);
    assert!(
        p50(&quick) > 10.0 * p50(&slow),
        "{} {}",
        p50(&quick),
        p50(&slow)
    );
    assert!(p50(&slow) > 20.0, "reads of filled places read flash");
    let closed = timed(&reads(20_000), |spec| spec.pace = Pace::Closed(1));
    assert_eq!(closed.depth_max, 1);
    assert!(closed.seconds < slow.seconds / 5.0);
    let four = timed(&reads(20_000), |spec| spec.pace = Pace::Closed(4));
    assert_eq!(four.depth_max, 4);
    let twice = timed(&reads(20_000), |spec| {
        (spec.pace, spec.passes) = (Pace::Closed(1), 2)
    });
    assert_eq!((twice.requests, twice.commands.reads), (400, 400));
}

/// device-P3: a sector of which the recording gave up only a part keeps its content.
#[test]
fn a_discard_is_the_whole_sectors_inside_of_it() {
    for (sector, sectors, sent) in [(8, 8, 1), (1, 7, 0), (7, 8, 0), (1, 16, 1), (9, 20, 1)] {
        let made = trace(vec![
            request(0, Op::Write, 0, 64),
            request(9000, Op::Discard, sector, sectors),
        ]);
        let run = timed(&made, |spec| spec.profile = "ufs-generic".into());
        let found = (run.commands.discards, run.discards_left_out);
        assert_eq!(found, (sent, 1 - sent), "{sectors} sectors at {sector}");
    }
}

#[test]
fn what_a_device_cannot_do_is_counted() {
    let fua = Request {
        fua: true,
        ..request(0, Op::Write, 0, 8)
    };
    let made = trace(vec![
        fua,
        request(9000, Op::Discard, 0, 8),
        request(20_000, Op::Write, 1, 1),
        request(30_000, Op::Write, 2040, 5000),
        request(90_000, Op::Flush, 0, 0),
    ]);
    let loops = timed(&made, |spec| spec.profile = "loop-like".into());
    assert_eq!(loops.fua_by_flush, 1);
    assert_eq!(loops.commands.flushes, 2);
    assert!(
        loops.commands.writes > 3,
        "5000 sectors are several commands"
    );
    assert_eq!(loops.write_amplification, None);
    let card = timed(&made, |_| ());
    assert_eq!((card.fua_by_flush, card.commands.flushes), (0, 1));
    assert!(card.write_amplification.is_some_and(|x| x >= 1.0));
    let left_out = card.discards_left_out + card.commands.discards;
    assert_eq!(left_out, 1);
    let spec = DeviceSpec {
        profile: "floppy".into(),
        timing: None,
        bytes: 64 << 20,
        pace: Pace::Recorded,
        fold: Fold::Modulo,
        fill: Fill::None,
        passes: 1,
    };
    let footprint = Footprint::of(&made).unwrap();
    let error = device::run(&made, &footprint, &spec).unwrap_err();
    assert!(error.to_string().contains("floppy"), "{error}");
}

#[test]
fn the_latency_of_a_fua_write_has_the_write_and_its_flush() {
    let fua = Request {
        fua: true,
        ..request(0, Op::Write, 0, 8)
    };
    let soon = request(1, Op::Read, 64, 8);
    let run = |pace| {
        timed(&trace(vec![fua, soon]), |spec| {
            (spec.profile, spec.pace) = ("loop-like".into(), pace);
        })
    };
    for pace in [Pace::Recorded, Pace::Closed(1)] {
        let run = run(pace);
        // 412 us of the flush, and 11 us of the write before it.
        assert!(run.latency_us["write"].p50 > 420.0, "{:?}", run.latency_us);
    }
    // The read is due at once and waits for the write: 10 us more than by itself.
    let waited = run(Pace::Recorded).latency_us["read"].p50;
    let alone = run(Pace::Closed(1)).latency_us["read"].p50;
    assert!(waited > alone + 9.0, "{waited} {alone}");
}

/// One change of a recording: where, and to what.
fn mutations() -> impl Strategy<Value = Vec<(usize, Vec<u8>, bool)>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..6),
        proptest::sample::select(vec![
            &b"-1"[..],
            b"18446744073709551615",
            b"9007199254740991",
            b"4294967296",
            b"0",
            b".",
            b",",
            b"\n1 0 0 1 0\n",
            b"\npreconditioning_ended\n",
            b"\nx,1,FDE,8,4294967295,3\n",
            b"\n/dev/made trim 0 9999999999\n",
            b"\n8,0 1 1 9.9 1 D DS 0 + 4294967295 [a]\n",
            b"Total",
            b"\n",
            b" ",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    proptest::collection::vec((any::<usize>(), piece, any::<bool>()), 1..12)
}

/// blocktrace-B1, blocktrace-B2, and addresses inside of the device.
fn holds(trace: &BlockTrace) -> Result<(), TestCaseError> {
    let (before, after) = trace.requests.split_at(trace.preparing);
    prop_assert!(before.is_sorted_by_key(|r| r.at) && after.is_sorted_by_key(|r| r.at));
    let Ok(footprint) = Footprint::of(trace) else {
        return Ok(());
    };
    for (fold, sectors) in [(Fold::Compact, 2048), (Fold::Modulo, 4096)] {
        let folder = Folder::new(&footprint, fold, sectors);
        for r in &trace.requests {
            let end = r.sector.checked_add(r.sectors.into());
            prop_assert!(end.is_some_and(|end| end <= SECTOR_END));
            prop_assert_eq!(r.sectors == 0, r.op == Op::Flush);
            prop_assert!(r.op == Op::Discard || r.sectors <= TRANSFER_SECTORS_MAX);
            prop_assert!(usize::from(r.device) < trace.devices.len());
            let mut fits = true;
            folder.place(r, |at, n| fits &= n > 0 && at + n <= sectors);
            prop_assert!(fits, "{:?}", r);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever the bytes, each reader ends in words or with a recording that keeps its promises.
    #[test]
    fn damaged_recordings_are_read_or_refused(
        sample in 0..SAMPLES.len(),
        mutations in mutations(),
        forced in any::<bool>(),
    ) {
        let (format, text) = SAMPLES[sample];
        let mut bytes = text.as_bytes().to_vec();
        for (at, piece, replaces) in mutations {
            let at = at % (bytes.len() + 1);
            let end = if replaces { (at + piece.len()).min(bytes.len()) } else { at };
            bytes.splice(at..end, piece);
        }
        let format = forced.then_some(format);
        let strict = read_from("damaged", &bytes[..], format, true);
        if let Ok(trace) = read_from("damaged", &bytes[..], format, false) {
            prop_assert_eq!(strict.is_ok(), trace.reading.faults.is_empty());
            holds(&trace)?;
        }
    }

    /// Bytes that are no recording at all, in each format.
    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for format in Format::ALL {
            if let Ok(trace) = read_from("noise", &bytes[..], Some(format), false) {
                holds(&trace)?;
            }
        }
    }
}

/// A recording of the phone; `None`, and a word about it, without traces.
fn phone(name: &str) -> Option<BlockTrace> {
    let Some(folder) = std::env::var_os("VARVE_TRACES").filter(|f| !f.is_empty()) else {
        eprintln!("skipped: no traces (VARVE_TRACES is not set)");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    Some(varve_work::blocktrace::read(&path, None, true).expect("the recording reads"))
}

#[test]
fn recordings_of_a_phone_read_without_a_fault() {
    for (name, requests, writes) in [
        ("pixel6a-slideshow.csv.gz", 84_197, 6442),
        ("pixel6a-telegram-precond.csv.gz", 5320, 5320),
    ] {
        let Some(trace) = phone(name) else { return };
        assert_eq!(
            (trace.format, trace.requests.len()),
            (Format::Pixel, requests)
        );
        let footprint = Footprint::of(&trace).unwrap();
        let stats = stats::of(&trace, &footprint);
        assert_eq!(stats.kinds["write"].requests, writes, "{name}");
        assert_eq!(stats.kinds["write"].unaligned, 0, "{name}");
        let run = count(&trace, |spec| {
            (spec.bytes, spec.shape) = (footprint.roomy(), Shape::default());
        });
        assert_eq!(run.host_units, stats.unit_writes, "{name}");
        assert!(
            run.write_amplification.is_some_and(|x| x >= 0.99),
            "{run:?}"
        );
    }
}
