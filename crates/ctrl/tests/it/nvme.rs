//! The command interface of the NVMe controller: queues, status codes, cache, FUA, Flush,
//! Deallocate, Write Zeroes.

use base::{Bytes, Lba, Rng, Time, fill};
use blockdev::{Adversary, Class, DevErrorKind, Model, Request};
use varve_ctrl::nvme::{
    Command, Completed, Nvme, NvmeOp, QueueFull, Range, Status, feature, opcode,
};
use varve_ctrl::{AnyModel, Media, Profile};

const SMALL: u64 = 16 << 20;

fn nvme(text: &str, media: Option<Media>) -> Box<Nvme> {
    let profile = Profile::parse(text).unwrap();
    let mut m = profile
        .build(media.is_none().then_some(SMALL), media)
        .unwrap();
    m.set_adversary(Adversary::Own);
    match m {
        AnyModel::Nvme(m) => m,
        _ => panic!("not an NVMe device"),
    }
}

fn write(slba: u64, byte: u8, blocks: usize, fua: bool) -> NvmeOp {
    NvmeOp::Write {
        slba,
        data: vec![fill::filled(byte, blocks * 512)],
        fua,
    }
}

fn send(m: &mut Nvme, now: Time, op: NvmeOp) -> Completed {
    m.controller_mut().advance(now);
    m.controller_mut()
        .submit(now, 0, Command::new(7, op))
        .unwrap();
    let mut done = m.controller_mut().ring();
    assert_eq!(done.len(), 1);
    done.remove(0)
}

fn ok(m: &mut Nvme, now: &mut Time, op: NvmeOp) {
    let done = send(m, *now, op);
    assert!(done.status.is_ok(), "{done:?}");
    *now = done.at;
}

/// The first byte of each sector.
fn sectors(m: &mut Nvme, now: Time, slba: u64, blocks: u32) -> Vec<u8> {
    let done = send(m, now, NvmeOp::Read { slba, blocks });
    assert!(done.status.is_ok(), "{done:?}");
    let bytes: Bytes = done.data.concat().into();
    bytes.chunks(512).map(|s| s[0]).collect()
}

fn after_cut(text: &str, m: Box<Nvme>, at: Time, slba: u64, blocks: u32) -> Vec<u8> {
    let media = Media::Nvme(m.power_off(at, 1));
    sectors(&mut nvme(text, Some(media)), Time(0), slba, blocks)
}

#[test]
fn a_full_queue_takes_no_more_and_says_until_when() {
    let mut m = nvme("nvme-980pro,queues=1,queue_depth=2", None);
    let device = m.controller_mut();
    let flush = |cid| Command::new(cid, NvmeOp::Flush);
    device.submit(Time(0), 0, flush(1)).unwrap();
    device.submit(Time(0), 0, flush(2)).unwrap();
    let full = device.submit(Time(0), 0, flush(3));
    assert_eq!(full, Err(QueueFull { until: None }), "queue-Q1");
    let done = device.ring();
    let first = done.iter().map(|c| c.at).min().unwrap();
    let full = device.submit(Time(first.0 - 1), 0, flush(3));
    assert_eq!(full, Err(QueueFull { until: Some(first) }), "queue-Q1");
    device.submit(first, 0, flush(3)).unwrap();
    assert_eq!(device.ring().len(), 1);
}

#[test]
fn commands_beyond_the_depth_wait_for_the_first_completion() {
    for (depth, queues) in [(1, 1), (4, 1), (2, 3)] {
        let text = format!("nvme-980pro,queue_depth={depth},queues={queues},cores=64");
        let mut m = nvme(&text, None);
        let all = depth * queues;
        let at: Vec<u64> = (0..=all)
            .map(|i| {
                let done = m.execute(Time(0), Request::read(Lba(i * 8), 8));
                done.result.unwrap();
                done.at.0
            })
            .collect();
        let together = at[..all as usize].iter().all(|t| *t < 2 * at[0]);
        assert!(together, "{text}: {at:?}");
        assert!(*at.last().unwrap() >= 2 * at[0], "{text}: {at:?}");
    }
}

#[test]
fn queues_take_turns_at_the_doorbell() {
    let mut m = nvme("nvme-980pro,queues=2,arbitration_burst=2", None);
    let device = m.controller_mut();
    for cid in 0..4 {
        let op = write(u64::from(cid) * 8, 1, 8, false);
        device.submit(Time(0), 0, Command::new(cid, op)).unwrap();
    }
    let op = write(64, 1, 8, false);
    device.submit(Time(0), 1, Command::new(9, op)).unwrap();
    let order: Vec<u16> = device.ring().iter().map(|c| c.cid).collect();
    assert_eq!(order, [0, 1, 9, 2, 3]);
}

#[test]
fn a_flush_covers_what_had_completed_before_it() {
    let text = "nvme-980pro";
    let mut m = nvme(text, None);
    let first = send(&mut m, Time(0), write(0, 1, 8, false));
    // A write that is under way when the flush comes.
    let under_way = send(&mut m, Time(first.at.0 + 1), write(8, 2, 8, false));
    let flush = send(&mut m, Time(under_way.at.0 - 1), NvmeOp::Flush);
    assert!(flush.at > under_way.at);
    let left = after_cut(text, m.clone(), flush.at, 0, 16);
    assert_eq!(left[..8], [1; 8]);
    assert!(left[8..] == [2; 8] || left[8..] == [0; 8], "{left:?}");
    // Without the flush the first write is lost as well, and one nanosecond before the flush ends
    // it may be.
    let left = after_cut(text, m, under_way.at, 0, 8);
    assert_eq!(left, [0; 8], "a cached write survived without a flush");
}

#[test]
fn a_fua_write_is_there_at_completion_and_nothing_older_comes_back() {
    let text = "nvme-980pro";
    let mut m = nvme(text, None);
    let cached = send(&mut m, Time(0), write(0, 1, 8, false));
    let fua = send(&mut m, cached.at, write(2, 2, 2, true));
    assert_eq!(
        after_cut(text, m.clone(), fua.at, 0, 8),
        [0, 0, 2, 2, 0, 0, 0, 0]
    );
    // nvme-V2: the cached line that goes to the chips later does not hold the old sectors any more.
    let flush = send(&mut m, fua.at, NvmeOp::Flush);
    assert_eq!(after_cut(text, m, flush.at, 0, 8), [1, 1, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn without_a_cache_completed_writes_are_durable_and_there_is_nothing_to_flush() {
    for text in ["nvme-980pro,vwc=off", "nvme-980pro,controller.vwc=false"] {
        let mut m = nvme(text, None);
        assert!(!m.caps().volatile_cache);
        let done = send(&mut m, Time(0), write(3, 7, 2, false));
        assert_eq!(after_cut(text, m, done.at, 2, 4), [0, 7, 7, 0]);
    }
}

#[test]
fn switching_the_cache_off_writes_it_back() {
    let text = "nvme-980pro";
    let mut m = nvme(text, None);
    let done = send(&mut m, Time(0), write(0, 5, 8, false));
    let device = m.controller_mut();
    assert_eq!(device.feature(feature::VOLATILE_WRITE_CACHE), Some(1));
    let end = device.set_write_cache(done.at, false).unwrap();
    assert!(end > done.at, "nvme-V5");
    assert_eq!(device.feature(feature::VOLATILE_WRITE_CACHE), Some(0));
    let next = send(&mut m, end, write(8, 6, 8, false));
    assert_eq!(
        after_cut(text, m, next.at, 0, 16),
        [[5; 8], [6; 8]].concat()
    );
}

#[test]
fn deallocated_blocks_read_as_zeros_at_once_and_after_a_flush() {
    let text = "nvme-980pro";
    let mut m = nvme(text, None);
    let mut now = Time(0);
    ok(&mut m, &mut now, write(0, 9, 32, false));
    ok(&mut m, &mut now, NvmeOp::Flush);
    // Whole units and parts of some.
    let ranges = vec![
        Range { slba: 3, blocks: 9 },
        Range {
            slba: 16,
            blocks: 8,
        },
        Range {
            slba: 30,
            blocks: 0,
        },
    ];
    ok(&mut m, &mut now, NvmeOp::Deallocate { ranges });
    let mut want = [9; 32];
    want[3..12].fill(0);
    want[16..24].fill(0);
    assert_eq!(sectors(&mut m, now, 0, 32), want, "nvme-V4");
    ok(&mut m, &mut now, NvmeOp::Flush);
    assert_eq!(after_cut(text, m, now, 0, 32), want);
}

#[test]
fn zeroes_are_written_or_deallocated_and_durable_with_fua() {
    for (deallocate, fua) in [(true, false), (false, false), (true, true), (false, true)] {
        let text = "nvme-980pro";
        let mut m = nvme(text, None);
        let mut now = Time(0);
        ok(&mut m, &mut now, write(0, 9, 24, true));
        let zeroes = NvmeOp::WriteZeroes {
            slba: 5,
            blocks: 13,
            deallocate,
            fua,
        };
        ok(&mut m, &mut now, zeroes);
        let mut want = [9; 24];
        want[5..18].fill(0);
        assert_eq!(sectors(&mut m, now, 0, 24), want, "{deallocate} {fua}");
        if !fua {
            ok(&mut m, &mut now, NvmeOp::Flush);
        }
        assert_eq!(after_cut(text, m, now, 0, 24), want, "{deallocate} {fua}");
    }
}

#[test]
fn what_cannot_be_done_is_answered_with_its_status() {
    let mut m = nvme("nvme-980pro", None);
    let blocks = m.controller().blocks();
    let read = |slba, blocks| NvmeOp::Read { slba, blocks };
    let ranges = |slba, blocks, n| NvmeOp::Deallocate {
        ranges: vec![Range { slba, blocks }; n],
    };
    let zeroes = |slba, blocks| NvmeOp::WriteZeroes {
        slba,
        blocks,
        deallocate: true,
        fua: false,
    };
    for (op, status) in [
        (read(blocks - 1, 2), Status::LBA_OUT_OF_RANGE),
        (read(u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        (read(0, 0), Status::INVALID_FIELD),
        (read(0, 1025), Status::INVALID_FIELD),
        (write(blocks, 1, 1, false), Status::LBA_OUT_OF_RANGE),
        (write(0, 1, 1025, true), Status::INVALID_FIELD),
        (
            NvmeOp::Write {
                slba: 0,
                data: vec![vec![1; 100].into(), vec![1; 412].into()],
                fua: false,
            },
            Status::INVALID_FIELD,
        ),
        (ranges(0, 1, 0), Status::INVALID_FIELD),
        (ranges(0, 1, 257), Status::INVALID_FIELD),
        (ranges(blocks, 1, 1), Status::LBA_OUT_OF_RANGE),
        (zeroes(0, 0), Status::INVALID_FIELD),
        (zeroes(0, 65_537), Status::INVALID_FIELD),
        (zeroes(blocks - 1, 2), Status::LBA_OUT_OF_RANGE),
        (NvmeOp::Other(0x0C), Status::INVALID_OPCODE),
    ] {
        let text = format!("{op:?}");
        assert_eq!(send(&mut m, Time(0), op).status, status, "{text}");
    }
    let device = m.controller_mut();
    let mut command = Command::new(1, read(0, 1));
    command.nsid = 2;
    device.submit(Time(0), 0, command).unwrap();
    assert_eq!(device.ring()[0].status, Status::INVALID_NAMESPACE);
    assert_eq!(
        sectors(&mut m, Time(0), 0, 4),
        [0; 4],
        "nothing was written"
    );
}

#[test]
fn injected_errors_reach_the_host_in_words_and_once() {
    let mut m = nvme("nvme-980pro", None);
    let data = || fill::filled(3, 4096);
    for (code, status, request) in [
        (
            opcode::WRITE,
            Status::WRITE_FAULT,
            Request::write(Lba(8), Class::Data, data()),
        ),
        (
            opcode::READ,
            Status::UNRECOVERED_READ,
            Request::read(Lba(8), 8),
        ),
        (opcode::FLUSH, Status::WRITE_FAULT, Request::flush()),
        (
            opcode::DATASET_MANAGEMENT,
            Status::INVALID_FIELD,
            Request::discard(Lba(8), 8),
        ),
    ] {
        m.controller_mut().fail_next(code, status);
        let done = m.execute(Time(0), request.clone());
        let error = done.result.unwrap_err();
        assert_eq!(error.kind, DevErrorKind::Io);
        assert!(error.why.contains(status.text()), "{error}");
        m.execute(Time(0), request).result.unwrap();
    }
}

#[test]
fn a_worn_medium_is_write_protected_and_still_read() {
    // The chips are at the end of their life: the device becomes read-only and says so.
    let text = "nvme-980pro,nand.endurance=1,slc.on=false,ftl.lanes=4,nand.dies_per_channel=1,nand.pages_per_block=24";
    let mut m = nvme(text, None);
    let (mut now, mut rng) = (Time(0), Rng::named(1, "wear"));
    let failed = (0..200_000).find_map(|i| {
        let mut bytes = vec![i as u8; 64 << 10];
        bytes[0] = rng.below(256) as u8;
        let lba = Lba(rng.below(SMALL / 65_536) * 128);
        let done = m.execute(now, Request::write(lba, Class::Data, bytes.into()));
        now = done.at;
        done.result.err()
    });
    let why = failed.expect("the chips wear out").why;
    assert!(
        why.contains("write protected") && why.contains("read-only"),
        "{why}"
    );
    // Reads go on.
    m.execute(now, Request::read(Lba(0), 8)).result.unwrap();
}

#[test]
fn requests_are_split_at_mdts_and_blocks_of_4096_bytes_are_whole() {
    let mut m = nvme("nvme-980pro,max_transfer_kib=64", None);
    let mut bytes = vec![0; 300 << 10];
    Rng::named(1, "split").fill(&mut bytes);
    let bytes: Bytes = bytes.into();
    let done = m.execute(Time(0), Request::write(Lba(16), Class::Data, bytes.clone()));
    done.result.unwrap();
    let read = m.execute(done.at, Request::read(Lba(16), 600));
    assert_eq!(read.result.unwrap().into_bytes(), bytes);
    let stats = m.device_stats();
    assert_eq!((stats.writes, stats.reads), (5, 5));

    for text in ["nvme-980pro,lba_bytes=4096,awupf=0", "ufs-generic"] {
        let mut m = nvme(text, None);
        assert_eq!(m.caps().sector_bytes, 4096);
        assert_eq!(m.caps().atomic_write_bytes, 4096);
        let done = m.execute(
            Time(0),
            Request::write(Lba(1), Class::Data, fill::filled(1, 512)),
        );
        assert_eq!(
            done.result.unwrap_err().kind,
            DevErrorKind::Misuse,
            "{text}"
        );
        let done = m.execute(
            Time(0),
            Request::write(Lba(8), Class::Data, fill::filled(1, 8192)),
        );
        done.result.unwrap();
    }
}

#[test]
fn it_says_what_it_is() {
    let value = |text: &str, name: &str| {
        let described = Profile::parse(text).unwrap().describe().unwrap();
        let field = described.identify.iter().find(|f| f.name == name).cloned();
        field.map(|f| (f.value, f.meaning))
    };
    assert_eq!(value("nvme-980pro", "MDTS").unwrap().0, 7);
    assert_eq!(value("nvme-980pro", "AWUPF").unwrap().0, 7);
    assert_eq!(value("nvme-980pro", "NSZE").unwrap().0, (4 << 30) / 512);
    let (_, cache) = value("nvme-980pro,vwc=off", "VWC").unwrap();
    assert!(cache.ends_with("off"), "{cache}");
    assert_eq!(value("ufs-generic", "bLUQueueDepth").unwrap().0, 32);
    assert_eq!(value("ufs-generic", "MDTS"), None);
    for (change, what) in [
        ("awupf=15", "units of 4096 bytes"),
        ("awupf=2", "2^n - 1"),
        ("awun=3", "awupf"),
        ("tear_bytes=100", "tear_bytes"),
        ("lba_bytes=520", "512 or 4096"),
        ("queue_depth=0", "1 to 65535"),
        ("cores=0", "1 to 256"),
        ("max_transfer_kib=96", "power of two"),
        ("vwc=maybe", "true or false"),
        ("controller.colour=1", "colour"),
        ("timing.datasheet.link_us_per_kib=-1", "ten seconds"),
    ] {
        let error = Profile::parse(&format!("nvme-980pro,{change}")).unwrap_err();
        assert!(error.to_string().contains(what), "{change}: {error}");
    }
}

#[test]
fn no_command_panics_and_times_do_not_run_backwards() {
    for seed in 0..8 {
        let mut rng = Rng::named(seed, "hostile host");
        let mut m = nvme("nvme-980pro,queues=3,queue_depth=5,buffer_kib=64", None);
        let device = m.controller_mut();
        let mut now = Time(0);
        for cid in 0..400 {
            let slba = match rng.below(5) {
                0 => rng.next_u64(),
                _ => rng.below(SMALL / 512 + 8),
            };
            let blocks = match rng.below(5) {
                0 => rng.next_u64() as u32,
                _ => rng.below(40) as u32,
            };
            let (a, b) = (rng.one_in(2), rng.one_in(2));
            let op = match rng.below(7) {
                0 => NvmeOp::Flush,
                1 => NvmeOp::Read { slba, blocks },
                2 => NvmeOp::WriteZeroes {
                    slba,
                    blocks,
                    deallocate: a,
                    fua: b,
                },
                3 => NvmeOp::Deallocate {
                    ranges: vec![Range { slba, blocks }; rng.below(4) as usize],
                },
                4 => NvmeOp::Other(rng.next_u64() as u8),
                _ => NvmeOp::Write {
                    slba,
                    data: vec![fill::filled(cid as u8, rng.below(20) as usize * 256)],
                    fua: a,
                },
            };
            let sent = device.submit(now, rng.below(3) as u16, Command::new(cid, op));
            if sent.is_err() || rng.one_in(4) {
                for done in device.ring() {
                    assert!(
                        done.at >= now && done.fetched >= now,
                        "seed {seed}: {done:?}"
                    );
                }
                now.0 += rng.below(100_000);
                device.advance(now);
            }
        }
    }
}
