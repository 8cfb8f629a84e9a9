//! Runs in which the state after every cut is compared with what the ring holds then; used by the
//! tests of commits and by the catalogue of mutants.
#![allow(dead_code, clippy::disallowed_methods)]

use super::common::{device_bytes, disk, mount, volume};
use base::{BLOCK_BYTES, Ino, Mutant, Nanos, Time};
use blockdev::spec::Bound;
use blockdev::{Image, Trace};
use fscore::FileSystem;
use ondisk::f2fs::journal::{BlockHeader, Groups, PageKind, Record, Sums, Transaction};
use ondisk::f2fs::{ADDRS_PER_BLOCK, Features, Inline, InodeFields, addr, footer};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use testkit::Brief;
use varve_f2fs::mkfs::RING_AT;

/// Blocks of the ring.
pub const RING: u32 = 1024;

/// First block of the ring.
pub fn ring_start(ring: u32) -> u64 {
    let region = u64::from(ring + RING_AT).next_multiple_of(512);
    device_bytes(ring) / BLOCK_BYTES as u64 - region + u64::from(RING_AT)
}

/// Whole transactions in the ring of this content, by epoch.
pub fn transactions(ring: u32, content: &Image) -> BTreeMap<u64, Transaction> {
    let start = ring_start(ring);
    let block = |n: u32| content.block(start + u64::from(n % ring));
    let mut found = BTreeMap::new();
    for n in 0..ring {
        let Ok(head) = BlockHeader::parse(&block(n)) else {
            continue;
        };
        let Ok(need) = Transaction::peek(&block(n), head.incarnation, head.epoch) else {
            continue;
        };
        let bytes: Vec<u8> = (0..need.min(ring.into()) as u32)
            .flat_map(|i| block(n + i).to_vec())
            .collect();
        if let Ok(whole) = Transaction::parse(&bytes, head.incarnation, head.epoch) {
            found.insert(whole.epoch, whole);
        }
    }
    found
}

/// Inodes that a transaction tells of.
pub fn inodes(transaction: &Transaction) -> Vec<u32> {
    let groups = Groups::new(&transaction.payload);
    let inos = groups.map(|g| g.expect("sound").ino.0);
    inos.filter(|&ino| ino != 0).collect()
}

/// What an acknowledged fsync is worth.
#[derive(Clone, Copy)]
pub struct Acknowledged {
    pub at: Time,
    /// The last committed epoch then.
    pub epoch: u64,
}

/// Blocks of file data that the records of a transaction map.
pub fn mapped(transaction: &Transaction) -> Vec<u64> {
    let mut addrs = Vec::new();
    for group in Groups::new(&transaction.payload) {
        for record in group.expect("sound").iter() {
            match record.expect("sound") {
                Record::MapRun {
                    count,
                    addr,
                    dir: false,
                    ..
                } if addr.is_data() => {
                    addrs.extend((0..count).map(|n| u64::from(addr.0) + u64::from(n)));
                }
                Record::Page {
                    what: PageKind::Node,
                    block,
                    ..
                } => addrs.extend(named(block.0)),
                _ => {}
            }
        }
    }
    addrs
}

/// Blocks of file data that the image of a node names.
fn named(image: &[u8]) -> Vec<u64> {
    let slots = match InodeFields::parse(image, Features::NONE) {
        _ if !footer(image).is_inode() => 0..ADDRS_PER_BLOCK as usize,
        Ok(fields) if fields.is_regular() && !fields.inline.has(Inline::DATA) => {
            let first = fields.addr_slot0();
            first..first + fields.addrs_per_inode() as usize
        }
        _ => 0..0,
    };
    let all = slots.map(|at| addr(image, at));
    all.filter(|addr| addr.is_data())
        .map(|addr| addr.0.into())
        .collect()
}

/// scan-S4: the last transaction does not count if data of which it has checksums is another one.
/// (No block of a later one is there: its transaction would be a hole, or the data be there.)
fn leave_out_torn(left: &Image, found: &mut BTreeMap<u64, Transaction>) {
    let Some(last) = found.last_entry() else {
        return;
    };
    let groups = Groups::new(&last.get().payload);
    let mut records = groups.flat_map(|g| g.expect("sound").iter());
    let torn = records.any(|record| match record.expect("sound") {
        Record::DataSum { addr, sums } => (u64::from(addr.0)..)
            .zip(sums.iter())
            .any(|(at, sum)| Sums::of(&left.block(at)) != sum),
        _ => false,
    });
    drop(records);
    if torn {
        last.remove();
    }
}

/// f2fs-journal-I1, f2fs-journal-I7 of what a cut left: whole epochs in a row, all that was
/// acknowledged, and the data they map.
pub fn judge(ring: u32, left: &Image, last: &Image, acknowledged: u64) -> Result<u64, String> {
    let mut found = transactions(ring, left);
    leave_out_torn(left, &mut found);
    let newest = found.keys().last().copied().unwrap_or(0);
    let row: Vec<u64> = found.keys().copied().collect();
    if row.windows(2).any(|w| w[0] + 1 != w[1]) {
        return Err(format!("f2fs-journal-I1: a hole among epochs {row:?}"));
    }
    if newest < acknowledged {
        return Err(format!(
            "f2fs-journal-I7: epoch {newest}, and {acknowledged} was acknowledged"
        ));
    }
    for (epoch, transaction) in &found {
        for addr in mapped(transaction) {
            if left.block(addr) != last.block(addr) {
                return Err(format!(
                    "f2fs-journal-I1: epoch {epoch} maps block {addr}, whose data is lost"
                ));
            }
        }
    }
    Ok(newest)
}

/// A recorded life.
pub struct Life {
    pub trace: Trace,
    pub synced: Vec<Acknowledged>,
    /// How often the guard of the mutant was asked.
    pub reached: u64,
}

/// A life whose device is recorded: files written out of place, and synced, by several tasks; each
/// block is written once.
pub fn recorded(seed: u64, options: &str, mutant: Option<Mutant>) -> Life {
    let options = options.to_string();
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        let fs = mount(&disk, &options);
        let files: Vec<Ino> = (0..3).map(|n| fs.file(format!("f{n}"))).collect();
        fs.sync().expect("syncs");
        while disk.open_writes() > 0 {
            rt::sleep(Nanos::from_millis(1));
        }
        disk.record();
        let synced = rt::Mutex::new(Vec::new());
        rt::scope(|s| {
            for (n, &ino) in files.iter().enumerate() {
                let (fs, synced) = (&fs, &synced);
                s.spawn(&format!("task {n}"), move || {
                    for round in 0..3_u64 {
                        let size = (1 + (seed + round) as usize % 3) * BLOCK_BYTES;
                        let fill = (n as u8 + 1) * 16 + round as u8;
                        fs.write(ino, round << 14, &vec![fill; size])
                            .expect("writes");
                        fs.file(format!("n{n} {round}"));
                        fs.fsync(ino, round == 1).expect("syncs");
                        let epoch = fs.journal_stats().expect("a journal").committed;
                        let at = rt::now();
                        synced.lock().push(Acknowledged { at, epoch });
                    }
                });
            }
        });
        rt::sleep(Nanos::from_millis(5));
        let trace = disk.take_trace().expect("recorded");
        fs.unmount().expect("unmounts");
        let synced = std::mem::take(&mut *synced.lock());
        (trace, synced)
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
    let (trace, synced) = outcome.value.expect("no failure");
    Life {
        trace,
        synced,
        reached: reached.unwrap_or(0),
    }
}

/// Every state that a cut may leave, as far as the bound goes; how many, and the first that is
/// wrong.
pub fn each_cut(trace: &Trace, synced: &[Acknowledged]) -> (u64, Option<String>) {
    let mut synced = synced.to_vec();
    synced.sort_by_key(|a| a.at);
    let changes: Vec<Time> = synced.iter().map(|a| a.at).collect();
    let last = {
        let mut cursor = trace.cursor();
        cursor.seek(Time(u64::MAX));
        cursor
            .choices(&Bound::default())
            .first()
            .map(|all| cursor.image(all))
    };
    let last = last.expect("the end has a state");
    let mut cursor = trace.cursor();
    let (mut states, mut wrong) = (0, None);
    for at in trace.maximal_cut_points(&changes) {
        cursor.seek(at);
        let done = synced.iter().filter(|a| a.at < at).map(|a| a.epoch);
        let acknowledged = done.max().unwrap_or(0);
        let bound = Bound {
            states_max: 200,
            ..Bound::default()
        };
        for choice in cursor.choices(&bound) {
            states += 1;
            let judged = judge(RING, &cursor.image(&choice), &last, acknowledged);
            if let Err(why) = judged {
                wrong = wrong.or(Some(format!("{at:?}: {why}")));
            }
        }
    }
    (states, wrong)
}

/// A file of one page, written over in place while others sync: what the worst cut leaves right
/// after the fsync returned.
pub fn written_over(seed: u64, mutant: Option<Mutant>) -> (Result<(), String>, u64) {
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        // In place through the cache, not by writes that need no flush.
        let fs = mount(&disk, "ipu_policy=1,rounds=2");
        let (ino, other) = (fs.file("f"), fs.file("other"));
        for ino in [ino, other] {
            fs.write(ino, 0, &[1; BLOCK_BYTES]).expect("writes");
        }
        fs.sync().expect("syncs");
        let mut wrong = Ok(());
        rt::scope(|s| {
            s.spawn("other", || {
                for n in 0..8 {
                    fs.write(other, 0, &[100 + n; BLOCK_BYTES]).expect("writes");
                    fs.fsync(other, true).expect("syncs");
                }
            });
            for n in 2..10_u8 {
                fs.write(ino, 0, &[n; BLOCK_BYTES]).expect("writes");
                fs.fsync(ino, true).expect("syncs");
                let left = disk.snapshot_lost();
                let holds = left.blocks().filter(|(_, b)| b.iter().all(|&x| x == n));
                if holds.count() != 1 {
                    wrong = Err(format!(
                        "hazards-H17: write {n} was acknowledged, and is lost"
                    ));
                    break;
                }
            }
        });
        assert!(fs.data_stats().in_place > 0, "it goes in place");
        fs.unmount().expect("unmounts");
        wrong
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
    (outcome.value.expect("no failure"), reached.unwrap_or(0))
}
