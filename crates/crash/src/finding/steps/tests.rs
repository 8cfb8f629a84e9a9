//! Tests of the steps of a finding.

use super::*;
use base::{BLOCK_BYTES, BlockNo, Bytes, Lba, Tid, fill};
use blockdev::spec::Choice;
use blockdev::{Caps, PackOrder, Packed, RemapPair};

fn caps() -> Caps {
    Caps {
        sectors: 1 << 20,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: None,
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: Some(Packed {
            order: PackOrder::Prefix,
            writes_max: 63,
        }),
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: None,
        max_transfer_sectors: 256,
    }
}

fn block(byte: u8) -> Bytes {
    fill::filled(byte, BLOCK_BYTES)
}

fn control(kind: BlockKind, tid: u32) -> Bytes {
    let mut bytes = vec![0; BLOCK_BYTES];
    let tid = Tid(tid);
    Header { kind, tid }.encode(&mut bytes);
    bytes.into()
}

fn write(span: (u64, u64), kind: Kind, at: u64, new: Vec<Bytes>, prev: u8) -> Write {
    let blocks = at..at + new.len() as u64;
    Write {
        start: Time(span.0),
        end: Time(span.1),
        kind,
        lba: BlockNo(at).lba(),
        sectors: new.len() as u64 * SECTORS_PER_BLOCK,
        new,
        prev: blocks.map(|n| (n, block(prev))).collect(),
    }
}

fn step(what: What, span: (u64, u64), classes: &[Class]) -> Step {
    Step {
        start: Time(span.0),
        end: Time(span.1),
        what,
        classes: classes.to_vec(),
    }
}

/// A commit as JBD2 makes it: data, flushed; the log; a commit block in flight; a home write that
/// never comes.
fn commit() -> Trace {
    let data = write((0, 1000), Kind::Normal, 10, vec![block(1)], 0);
    let log = vec![control(BlockKind::Descriptor, 5), block(2), block(3)];
    let log = write((4000, 5000), Kind::Normal, 100, log, 9);
    let commit = control(BlockKind::Commit, 5);
    let commit = write((6000, 9000), Kind::Fua, 103, vec![commit], 9);
    let home = write((20_000, 21_000), Kind::Normal, 50, vec![block(2)], 0);
    let log_classes = [
        Class::JournalDescriptor,
        Class::JournalMetadata,
        Class::JournalMetadata,
    ];
    let mut start = Image::new();
    (100..104).for_each(|n| start.set_block(n, block(9)));
    Trace {
        start,
        caps: caps(),
        steps: vec![
            step(What::Write(data.into()), (0, 1000), &[Class::Data]),
            step(What::Flush, (2000, 3000), &[]),
            step(What::Write(log.into()), (4000, 5000), &log_classes),
            step(
                What::Write(commit.into()),
                (6000, 9000),
                &[Class::JournalCommit],
            ),
            step(What::Write(home.into()), (20_000, 21_000), &[Class::Home]),
        ],
    }
}

fn level(trace: &Trace, image: &Image, at: u64) -> Level {
    let told = vec![
        Told {
            begun: Time(0),
            ended: Some(Time(3500)),
            what: "task 0: create /a".into(),
        },
        Told {
            begun: Time(3600),
            ended: Some(Time(9500)),
            what: "task 0: fsync /a".into(),
        },
        Told {
            begun: Time(9600),
            ended: None,
            what: "task 0: sync".into(),
        },
    ];
    let site = Site {
        of: "run".into(),
        point: 7,
        at: Time(at),
        trace,
        image,
        told,
    };
    site.level()
}

fn fates(level: &Level) -> Vec<String> {
    let commands = level.lines.iter().filter(|line| line.command.is_some());
    commands
        .map(|line| {
            let tid = line.tid.map_or(String::new(), |tid| format!(" tid {tid}"));
            let fate = line.fate.map_or(String::new(), |fate| format!(": {fate}"));
            format!("{}{tid}{fate}", line.what)
        })
        .collect()
}

#[test]
fn a_remap_is_one_line_with_one_fate() {
    let span = (1000, 2000);
    let kind = Kind::Remap { durable: false };
    let part = |at: u64, new: Vec<Bytes>, prev| Arc::new(write(span, kind, at, new, prev));
    let pair = |home, src| RemapPair::new(BlockNo(home).lba(), BlockNo(src).lba(), BLOCK_BYTES);
    let homes = [(10, 50), (11, 51), (20, 52)];
    let mut gone = write(span, kind, 50, vec![block(5); 3], 5);
    gone.new = Vec::new();
    let mut writes: Vec<Arc<Write>> = homes.map(|(n, _)| part(n, vec![block(5)], 1)).into();
    writes.push(gone.into());
    let done = RemapDone {
        pairs: homes.map(|(home, src)| pair(home, src)).into(),
        mode: RemapMode::Move,
        writes,
    };
    let mut start = Image::new();
    (homes.iter()).for_each(|(n, _)| start.set_block(*n, block(1)));
    (50..53).for_each(|n| start.set_block(n, block(5)));
    let later = write((3000, 4000), Kind::Normal, 11, vec![block(9)], 5);
    let trace = Trace {
        start,
        caps: Caps {
            tear_granule: Some(4096),
            ..caps()
        },
        steps: vec![
            step(What::Remap(done.into()), span, &[]),
            step(What::Write(later.into()), (3000, 4000), &[Class::Data]),
        ],
    };
    let mut cursor = trace.cursor();
    cursor.seek(Time(5000));
    let line = "REMAP (move) at 10..11 from 50..51, at 20 from 52";
    for (text, remap, data) in [
        ("newest", "kept", "kept"),
        ("k0", "kept", "LOST"),
        ("k4", "LOST", "kept"),
        ("oldest", "LOST", "LOST"),
    ] {
        let image = cursor.image(&text.parse().expect(text));
        let told = fates(&level(&trace, &image, 5000));
        let data = format!("write data at 11: {data}");
        let told_remap = told[0].strip_prefix(line).expect("the line of the REMAP");
        match text {
            // The later write stands where one of the homes was.
            "k4" => assert!(told_remap.contains("old"), "{told:?}"),
            _ => assert_eq!(told_remap, format!(": {remap}"), "{told:?}"),
        }
        assert_eq!(told[1], data);
    }
    // No device may leave half of a REMAP.
    let mut half = cursor.image(&Choice::Oldest);
    half.set_block(10, block(5));
    let told = fates(&level(&trace, &half, 5000));
    assert!(told[0].contains("TORN: 8 new, 40 old"), "{told:?}");
}

#[test]
fn a_commit_cut_in_its_middle_is_told_in_the_words_of_the_field() {
    let trace = commit();
    let mut cursor = trace.cursor();
    cursor.seek(Time(8000));
    let oldest = level(&trace, &cursor.image(&Choice::Oldest), 8000);
    assert_eq!(
        fates(&oldest),
        [
            "write data at 10: durable",
            "flush",
            "write journal descriptor at 100 tid 5: LOST",
            "write journal metadata at 101..102 tid 5: LOST",
            "FUA write commit block at 103 tid 5: LOST",
            "write home write at 50: never",
        ]
    );
    let newest = level(&trace, &cursor.image(&Choice::Newest), 8000);
    assert_eq!(
        fates(&newest)[2..5]
            .iter()
            .filter(|f| f.ends_with(": kept"))
            .count(),
        3
    );
    let text = oldest.to_string();
    let place = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
    };
    assert!(place("fsync /a: under way") < place("journal descriptor"));
    assert!(place("commit block") < place("power cut at 8.000 us"));
    assert!(place("power cut at 8.000 us") < place("home write"));
    assert!(text.contains("! 4.000..5.000"), "{text}");
}

#[test]
fn what_is_there_decides_and_a_tear_is_counted_by_sectors() {
    let trace = commit();
    let mut cursor = trace.cursor();
    cursor.seek(Time(8000));
    let mut image = cursor.image(&Choice::Newest);
    // Block 101: half old; block 103: nothing that was ever written; block 10: durable, and
    // damaged.
    image.edit_block(101, |bytes| bytes[2048..].fill(9));
    image.set_block(103, block(0xEE));
    image.edit_block(10, |bytes| bytes[0] ^= 1);
    assert_eq!(
        fates(&level(&trace, &image, 8000))[..5],
        [
            "write data at 10: DAMAGED",
            "flush",
            "write journal descriptor at 100 tid 5: kept",
            "write journal metadata at 101..102 tid 5: TORN: 12 new, 4 old",
            "FUA write commit block at 103 tid 5: GARBAGE",
        ]
    );
}

#[test]
fn a_later_write_replaces_and_a_pack_shows_its_entries() {
    let mut trace = commit();
    let again = write((6000, 7000), Kind::Normal, 101, vec![block(7)], 2);
    let other = write((6000, 7000), Kind::Normal, 200, vec![block(8)], 0);
    trace.steps[3] = step(
        What::Pack(vec![again.into(), other.into()]),
        (6000, 7000),
        &[Class::JournalMetadata, Class::Data],
    );
    let mut image = trace.start.clone();
    for (n, byte) in [(10, 1), (101, 7), (102, 9), (100, 9)] {
        image.set_block(n, block(byte));
    }
    let lines = fates(&level(&trace, &image, 8000));
    assert_eq!(
        lines[2..6],
        [
            "write journal descriptor at 100 tid 5: LOST",
            "write journal metadata at 101..102 tid 5: TORN: 8 new, 8 old",
            "pack 1 of 2: write journal metadata at 101 tid 5: kept",
            "pack 2 of 2: write data at 200: LOST",
        ]
    );
}

#[test]
fn places_and_discards_have_names() {
    assert_eq!(place(16, 8), "at 2");
    assert_eq!(place(16, 24), "at 2..4");
    assert_eq!(place(17, 1), "at sector 17");
    assert_eq!(place(17, 9), "at sector 17..25");
    let mut trace = commit();
    let discard = Write {
        kind: Kind::Discard,
        lba: Lba(80),
        sectors: 1 << 18,
        new: Vec::new(),
        prev: vec![(10, block(1))],
        ..write((4000, 5000), Kind::Normal, 10, Vec::new(), 0)
    };
    trace.steps[2] = step(What::Write(discard.into()), (4000, 5000), &[]);
    let mut image = trace.start.clone();
    image.set_block(10, block(1));
    let lines = fates(&level(&trace, &image, 8000));
    assert_eq!(lines[2], "discard at 10..32777: LOST");
    image.set_block(10, block(0));
    let lines = fates(&level(&trace, &image, 8000));
    assert_eq!(lines[2], "discard at 10..32777: kept");
    assert_eq!(lines[0], "write data at 10: durable");
}
