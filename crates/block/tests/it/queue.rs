//! Tests of the queue against a device whose flushes can be held back and failed.

use base::{Bytes, Lba, SECTORS_PER_BLOCK};
use blockdev::{Count, Op, Ram, Reply, Request, Ticket};
use rt::{Condvar, Mutex};
use std::sync::Arc;
use varve_block::{BlockDevice, Caps, Class, DevError, Queue};

fn block(fill: u8) -> Bytes {
    vec![fill; 4096].into()
}

/// A device with a cache and without FUA whose flushes wait for a gate.
struct Gated {
    inner: Ram,
    gate: Mutex<Gate>,
    opened: Condvar,
}

#[derive(Default)]
struct Gate {
    flushes: Vec<Ticket>,
    open: bool,
    fail: bool,
}

impl BlockDevice for Gated {
    fn caps(&self) -> Caps {
        Caps {
            volatile_cache: true,
            fua: false,
            ..self.inner.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let flush = matches!(request.op, Op::Flush);
        let ticket = self.inner.submit(request);
        if flush {
            self.gate.lock().flushes.push(ticket);
            self.opened.notify_all();
        }
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let mut gate = self.gate.lock();
        if gate.flushes.contains(&ticket) {
            while !gate.open {
                self.opened.wait(&mut gate);
            }
            if gate.fail {
                return Err(DevError::io(Lba(0), "the flush failed"));
            }
        }
        drop(gate);
        self.inner.wait(ticket)
    }
}

fn gated() -> (Arc<Gated>, Arc<Queue>) {
    let device = Gated {
        inner: Ram::new(1 << 20),
        gate: Mutex::new(Gate::default()),
        opened: Condvar::new(),
    };
    let device = Arc::new(device);
    (device.clone(), Queue::new(device))
}

fn wait_for_flushes(device: &Gated, count: usize) {
    let mut gate = device.gate.lock();
    while gate.flushes.len() < count {
        device.opened.wait(&mut gate);
    }
}

#[test]
fn h17_a_flush_under_way_does_not_cover_a_later_write() {
    let (device, queue) = gated();
    queue.write(Lba(0), Class::Data, block(1)).unwrap();
    let early = queue.mark();
    let first = {
        let queue = queue.clone();
        rt::spawn("first", move || queue.ensure_flushed(early))
    };
    wait_for_flushes(&device, 1);
    queue.write(Lba(8), Class::Data, block(2)).unwrap();
    let late = queue.mark();
    let second = {
        let queue = queue.clone();
        rt::spawn("second", move || queue.ensure_flushed(late))
    };
    // The second caller must send a flush of its own: joining the first one would acknowledge a
    // write still in the cache.
    wait_for_flushes(&device, 2);
    device.gate.lock().open = true;
    device.opened.notify_all();
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    assert!(queue.is_flushed(late) && !queue.cache_dirty());
    assert_eq!(queue.stats().flushes, 2);
}

#[test]
fn callers_share_a_flush_that_covers_them() {
    let (device, queue) = gated();
    device.gate.lock().open = true;
    queue.write(Lba(0), Class::Data, block(1)).unwrap();
    let mark = queue.mark();
    queue.ensure_flushed(mark).unwrap();
    queue.ensure_flushed(mark).unwrap();
    assert_eq!(
        (queue.stats().flushes, queue.stats().flushes_joined),
        (1, 1)
    );
}

#[test]
fn a_failed_flush_covers_nothing_and_no_later_one_does() {
    let (device, queue) = gated();
    {
        let mut gate = device.gate.lock();
        (gate.open, gate.fail) = (true, true);
    }
    queue.write(Lba(0), Class::Data, block(1)).unwrap();
    let mark = queue.mark();
    assert!(queue.ensure_flushed(mark).is_err());
    assert!(!queue.is_flushed(mark) && queue.cache_dirty());
    device.gate.lock().fail = false;
    // durability-B3: the device has forgotten; the queue has not.
    let again = queue.ensure_flushed(mark).unwrap_err();
    assert!(again.why.contains("the flush failed"), "{again}");
    queue.write(Lba(8), Class::Data, block(1)).unwrap();
    assert!(queue.flush().is_err() && !queue.is_flushed(mark));
}

#[test]
fn fua_without_fua_in_the_device_is_a_write_and_a_flush() {
    let (device, queue) = gated();
    device.gate.lock().open = true;
    queue
        .write_fua(Lba(0), Class::JournalCommit, block(1))
        .unwrap();
    assert_eq!(
        (queue.stats().flushes, queue.stats().fua_commands),
        (1, 1 - 1)
    );
    assert!(!queue.cache_dirty());
}

#[test]
fn a_batch_in_flight_keeps_the_cache_dirty() {
    let (device, queue) = gated();
    device.gate.lock().open = true;
    let mut plug = queue.plug();
    plug.write(Lba(0), Class::Data, block(1));
    let batch = plug.submit();
    queue.flush().unwrap();
    assert!(
        queue.cache_dirty(),
        "the write had not completed when the flush started"
    );
    batch.wait().unwrap();
    assert!(queue.cache_dirty());
    queue.flush().unwrap();
    assert!(!queue.cache_dirty());
}

#[test]
fn a_plug_sorts_and_merges_neighbours_and_keeps_classes() {
    let device = Arc::new(Count::new(Ram::new(1 << 20)));
    let queue = Queue::new(device.clone());
    let mut plug = queue.plug();
    for n in [3, 1, 2, 7] {
        plug.write(
            Lba(n * SECTORS_PER_BLOCK),
            Class::JournalMetadata,
            block(n as u8),
        );
    }
    plug.write(Lba(0), Class::JournalDescriptor, block(9));
    plug.write_fua(Lba(4 * SECTORS_PER_BLOCK), Class::JournalCommit, block(4));
    let batch = plug.submit();
    assert_eq!(batch.len(), 3, "0..4 merged, 4 with FUA, 7 apart");
    batch.wait().unwrap();
    let counts = device.counts();
    assert_eq!((counts.commands.writes, counts.commands.fua_writes), (3, 1));
    assert_eq!(
        counts.sectors_written[&Class::JournalMetadata],
        4 * SECTORS_PER_BLOCK
    );
    assert_eq!(queue.stats().blocks_written(Class::JournalDescriptor), 1);
    assert_eq!(queue.stats().merges, 3);
    let back = queue.read(Lba(2 * SECTORS_PER_BLOCK), 16).unwrap();
    assert_eq!((back[0], back[4096]), (2, 3));
}

#[test]
fn merging_stops_at_the_largest_transfer() {
    let device = Arc::new(Count::new(Ram::new(4 << 20)));
    let queue = Queue::new(device.clone());
    let mut plug = queue.plug();
    for n in 0..600 {
        plug.write(Lba(n * SECTORS_PER_BLOCK), Class::Data, block(1));
    }
    plug.submit().wait().unwrap();
    let limit = queue.caps().max_transfer_sectors;
    assert_eq!(
        device.counts().commands.writes,
        (600 * SECTORS_PER_BLOCK).div_ceil(limit)
    );
}

#[test]
fn an_illegal_request_is_an_error_not_a_panic() {
    let queue = Queue::new(Arc::new(Ram::new(1 << 20)));
    let beyond = queue
        .write(Lba(1 << 40), Class::Data, block(1))
        .unwrap_err();
    assert!(beyond.to_string().contains("beyond the device"), "{beyond}");
    assert!(
        queue
            .write(Lba(0), Class::Data, Bytes::from_static(b"short"))
            .is_err()
    );
    assert!(queue.read(Lba(u64::MAX), 8).is_err());
}

#[test]
fn h17_a_started_flush_covers_what_had_completed_when_it_was_started() {
    let (device, queue) = gated();
    queue.write(Lba(0), Class::Data, block(1)).unwrap();
    let early = queue.mark();
    let flushing = queue.start_flush();
    queue.write(Lba(8), Class::Data, block(2)).unwrap();
    let late = queue.mark();
    assert!(!queue.is_flushed(early), "it has not ended");
    let joins = {
        let queue = queue.clone();
        rt::spawn("joins", move || queue.ensure_flushed(early))
    };
    device.gate.lock().open = true;
    device.opened.notify_all();
    flushing.wait().unwrap();
    joins.join().unwrap().unwrap();
    assert!(queue.is_flushed(early) && !queue.is_flushed(late));
    assert_eq!(queue.stats().flushes, 1, "the second caller joined");
    assert_eq!(queue.dirty_blocks(), 1);
    queue.ensure_flushed(late).unwrap();
    assert_eq!(queue.dirty_blocks(), 0);
    assert_eq!(queue.stats().flushes, 2);
}

#[test]
fn a_started_flush_that_fails_covers_nothing() {
    let (device, queue) = gated();
    queue.write(Lba(0), Class::Data, block(1)).unwrap();
    let mark = queue.mark();
    let flushing = queue.start_flush();
    device.gate.lock().fail = true;
    device.gate.lock().open = true;
    device.opened.notify_all();
    assert!(flushing.wait().is_err());
    assert!(!queue.is_flushed(mark) && queue.dirty_blocks() == 1);
}

#[test]
fn h19_writes_report_the_mark_that_covers_them_and_no_foreign_one() {
    let (device, queue) = gated();
    device.gate.lock().open = true;
    let mut plug = queue.plug();
    plug.write(Lba(0), Class::Data, block(1));
    let mut batch = plug.submit();
    let watch = batch.watch();
    let written = batch.wait_written();
    written.result.unwrap();
    assert_eq!(watch.wait_written().mark, written.mark, "for everyone");
    queue.ensure_flushed(written.mark).unwrap();
    queue.write(Lba(8), Class::Home, block(2)).unwrap();
    assert!(queue.cache_dirty() && queue.is_flushed(written.mark));
    // Without FUA in the device a FUA write is volatile, until the flush that follows it.
    let mut plug = queue.plug();
    plug.write_fua(Lba(16), Class::Data, block(3));
    let written = plug.submit().wait_written();
    assert!(queue.is_flushed(written.mark) && written.mark > varve_block::WriteMark::NONE);
}

/// RAM whose commands take a virtual time each.
struct Slow(Ram);

impl BlockDevice for Slow {
    fn caps(&self) -> Caps {
        Caps {
            volatile_cache: true,
            fua: true,
            ..self.0.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        rt::sleep(base::Nanos::from_millis(1));
        self.0.wait(ticket)
    }
}

#[test]
fn samples_are_taken_of_work_that_had_the_device_for_itself() {
    let samples = rt::Sim::new(rt::SimConfig::seeded(1))
        .run(|| {
            let queue = Queue::new(Arc::new(Slow(Ram::new(1 << 20))));
            queue.write(Lba(0), Class::Data, block(1)).unwrap();
            assert_eq!(queue.take_samples(), [], "nobody asked");
            queue.observe(true);
            queue.write(Lba(0), Class::Data, block(1)).unwrap();
            let mut plug = queue.plug();
            for n in 0..3 {
                plug.write_fua(Lba(16 * n), Class::Data, block(1));
            }
            let batch = plug.submit();
            batch.wait().unwrap();
            queue.flush().unwrap();
            // One that another one overtakes says nothing.
            let mut plug = queue.plug();
            plug.write_fua(Lba(0), Class::Data, block(1));
            let batch = plug.submit();
            queue.write(Lba(8), Class::Data, block(1)).unwrap();
            batch.wait().unwrap();
            queue.take_samples()
        })
        .unwrap();
    let seen: Vec<_> = samples
        .iter()
        .map(|s| (s.work, s.commands, s.blocks, s.span.0 / 1_000_000))
        .collect();
    use varve_block::Work;
    let expected = [
        (Work::Cached, 1, 1, 1),
        (Work::Fua, 3, 3, 3),
        (Work::Flush, 1, 2, 1),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn non_volatile_writes_of_several_tasks_are_one_sample_and_failed_ones_none() {
    let samples = rt::Sim::new(rt::SimConfig::seeded(1))
        .run(|| {
            let queue = Queue::new(Arc::new(Slow(Ram::new(1 << 20))));
            queue.observe(true);
            let tasks = [0, 1, 2].map(|n| {
                let queue = queue.clone();
                rt::spawn("writer", move || {
                    let mut plug = queue.plug();
                    plug.write_fua(Lba(16 * n), Class::Data, block(1));
                    plug.submit().wait()
                })
            });
            for task in tasks {
                task.join().unwrap().unwrap();
            }
            let mut plug = queue.plug();
            plug.write_fua(Lba(1 << 30), Class::Data, block(1));
            assert!(plug.submit().wait().is_err(), "behind the end");
            // A cached write is under way when this flush begins.
            let mut plug = queue.plug();
            plug.write(Lba(0), Class::Data, block(1));
            let batch = plug.submit();
            queue.flush().unwrap();
            batch.wait().unwrap();
            queue.take_samples()
        })
        .unwrap();
    let seen: Vec<_> = samples
        .iter()
        .map(|s| (s.work, s.commands, s.at_once, s.blocks))
        .collect();
    assert_eq!(seen, [(varve_block::Work::Fua, 3, 3, 3)]);
}
