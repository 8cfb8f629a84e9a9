//! Write-back that nobody waits for lets an I/O scheduler send an fsync of another file first.

use crate::common::{MIB, caps, fresh, pattern};
use base::{Nanos, Time};
use block::{BlockDevice, Caps, DevError, Queue, Scheduler};
use blockdev::{Image, Reply, Request, SpecDisk, Ticket};
use fscore::FileSystem;
use rt::{Mutex, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const VOLUME_MIB: u64 = 64;
/// What a command takes on the device, which carries out one after the other.
const COMMAND: Nanos = Nanos::from_millis(1);

fn commands(n: u64) -> Nanos {
    Nanos(COMMAND.0 * n)
}

/// A device that carries out one command at a time.
struct Serial {
    disk: Arc<SpecDisk>,
    free: Mutex<Time>,
    ends: Mutex<BTreeMap<Ticket, Time>>,
}

impl BlockDevice for Serial {
    fn caps(&self) -> Caps {
        Caps {
            max_transfer_sectors: 64,
            ..self.disk.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let ticket = self.disk.submit(request);
        let mut free = self.free.lock();
        *free = (*free).max(rt::now()) + COMMAND;
        self.ends.lock().insert(ticket, *free);
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let until = self.ends.lock().remove(&ticket).expect("submitted");
        let answer = self.disk.wait(ticket);
        rt::sleep_until(until);
        answer
    }
}

/// What an fsync takes right after `send` has sent 2 MiB of another file, 64 commands.
fn fsync_beside(scheduler: Scheduler, send: fn(&F2fs)) -> Nanos {
    let start: Image = fresh(VOLUME_MIB).blocks().into_iter().collect();
    let outcome = Sim::new(SimConfig::default()).run(move || {
        let device = Serial {
            disk: SpecDisk::from_image(caps(VOLUME_MIB * MIB), start, 1),
            free: Mutex::new(Time(0)),
            ends: Mutex::default(),
        };
        let queue = Queue::scheduled(Arc::new(device), scheduler, 2).expect("tags");
        let fs = F2fs::mount(queue, MountOptions::default()).expect("mounts");
        let (large, small) = (fs.file("large"), fs.file("small"));
        for ino in [large, small] {
            fs.write(ino, 0, &pattern(1, 4096)).expect("room");
        }
        fs.sync().expect("synced");
        fs.write(large, 0, &pattern(2, 2 << 20)).expect("room");
        send(&fs);
        fs.write(small, 0, &pattern(3, 4096)).expect("room");
        let since = rt::now();
        fs.fsync(small, true).expect("synced");
        let took = rt::now() - since;
        fs.unmount().expect("unmounts");
        took
    });
    outcome.unwrap()
}

#[test]
fn an_fsync_passes_the_flusher() {
    let flusher = |fs: &F2fs| fs.writeback(Time(u64::MAX)).expect("sent");
    let waits = |scheduler| fsync_beside(scheduler, flusher);
    let took = waits(Scheduler::None);
    assert!(took > commands(60), "{took:?}");
    for scheduler in [Scheduler::Cfq310, Scheduler::Bfq] {
        let took = waits(scheduler);
        assert!(took < commands(12), "{scheduler}: {took:?}");
    }
}
