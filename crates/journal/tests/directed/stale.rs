//! Two lives whose first transactions meet at the same place of the ring (hazards-H7).
//!
//! In life one, transaction N changes A and logs F in full; the cut keeps its coalition block and
//! loses the image. Life two starts with a transaction that changes C and logs the same F. If that
//! transaction has number N again, and the cut keeps the image and loses the coalition block, the
//! two halves make a whole transaction: the old one, which recovery had declared dead.

use crate::harness::{Layout, Tally, Violation, cells};
use base::{BLOCK_BYTES, Bytes, Mutant, Nanos, Rng, SECTORS_PER_BLOCK};
use block::{BlockDevice, Queue};
use blockdev::{Caps, Image, SpecDisk};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_journal::{CleanLog, JournalError, Opened, Options, Preset, open};

const STORE: [u8; 24] = *b"changed in one life only";
/// Cuts of one commit.
const CUTS: usize = 12;

struct Stand {
    layout: Layout,
    caps: Caps,
}

impl Stand {
    fn open(
        &self,
        image: Image,
        seed: u64,
    ) -> Result<(Arc<SpecDisk>, Arc<Queue>, CleanLog), JournalError> {
        let disk = SpecDisk::from_image(self.caps.clone(), image, seed);
        let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
        let log = match open(queue.clone(), self.layout.place.clone())? {
            Opened::Clean(log) => log,
            Opened::NeedsRecovery(log) => log.recover()?.0,
        };
        Ok((disk, queue, log))
    }

    /// One transaction: a store into the `n`-th home, the last home in full. Snapshots from inside
    /// its commit.
    fn life(&self, image: Image, n: u64, seed: u64) -> Result<Vec<Image>, JournalError> {
        let (disk, _, log) = self.open(image, seed)?;
        let options = Options {
            scheme: Preset::Emmc.scheme(),
            commit_interval: None,
            writeback_expire: None,
            ..Options::default()
        };
        let journal = log.start(options)?;
        let mut handle = journal.start(2)?;
        let at = self.home(n);
        handle.write(at, 100, &STORE)?;
        let full: Bytes = vec![0xF5; BLOCK_BYTES].into();
        handle.create(self.home(8), full)?;
        let tid = handle.finish()?;
        let committed = {
            let journal = journal.clone();
            rt::spawn("committer", move || journal.commit(tid))
        };
        let mut rng = Rng::named(seed, "cuts of a commit");
        let mut images = Vec::new();
        while images.len() < CUTS && !journal.committed().geq(tid) {
            rt::sleep(Nanos(rng.below(200_000)));
            images.push(disk.snapshot(rng.next_u64()));
        }
        committed.join().expect("a panic ends the simulation")?;
        journal.abort("test: the life is over");
        let _ = journal.stop();
        Ok(images)
    }

    fn home(&self, n: u64) -> base::BlockNo {
        base::BlockNo(self.layout.first + n)
    }

    fn recovered(&self, image: Image, seed: u64) -> Result<Image, JournalError> {
        Ok(self.open(image, seed)?.0.visible())
    }

    fn changed(&self, image: &Image, n: u64) -> bool {
        image.block(self.home(n).0)[100..][..STORE.len()] == STORE
    }

    /// True if life one was lost but its coalition block is in the log: what it begins with says
    /// so.
    fn left_behind(&self, cut: &Image, recovered: &Image) -> bool {
        let magic = ondisk::jbd2::MAGIC.to_be_bytes();
        cut.block(1)[..4] == magic && !self.changed(recovered, 0)
    }

    fn history(&self, seed: u64, tally: &mut Tally) -> Result<(), Violation> {
        let failed = |e: JournalError| Violation::new("harness-Q7", e.to_string());
        let mut rng = Rng::named(seed, "stale");
        let fresh = self.layout.image(&mut rng);
        for cut in self.life(fresh, 0, rng.next_u64()).map_err(failed)? {
            let recovered = self.recovered(cut.clone(), seed).map_err(failed)?;
            tally.states += 1;
            if !self.left_behind(&cut, &recovered) {
                continue;
            }
            for again in self.life(cut, 1, rng.next_u64()).map_err(failed)? {
                let recovered = self.recovered(again, seed).map_err(failed)?;
                tally.states += 1;
                if self.changed(&recovered, 0) {
                    let why = "a transaction of an earlier life came back";
                    return Err(Violation::new("harness-Q1", why));
                }
            }
        }
        Ok(())
    }
}

/// Plays pairs of lives until `states` states were judged or a violation was found.
pub fn explore(first: u64, states: u64, mutant: Option<Mutant>) -> Tally {
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.states < states && tally.violations.is_empty() {
        let layout = Layout::new(16, false);
        let cell = cells::CELLS.iter().find(|c| c.name == "granule-4k");
        let caps = Caps {
            sectors: layout.blocks * SECTORS_PER_BLOCK,
            ..(cell.expect("a cell").caps)()
        };
        let stand = Stand { layout, caps };
        let cfg = SimConfig {
            mutant,
            ..SimConfig::seeded(seed)
        };
        let outcome = Sim::new(cfg).run(|| stand.history(seed, &mut tally));
        let reached = outcome.reached.clone();
        let result = outcome.unwrap();
        tally.add(reached);
        if let Err(v) = result {
            tally.violated(seed, v);
        }
        seed += 1;
    }
    tally
}
