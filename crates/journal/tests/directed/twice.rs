//! The journal's superblock is written twice in one ordered plug, around a log block (hazards-H8).

use crate::harness::{Tally, Violation, cells};
use base::{BLOCK_BYTES, BlockNo, Bytes, Mutant, Nanos, Rng, SECTORS_PER_BLOCK};
use block::{BlockDevice, Class, DevError, Queue};
use blockdev::{Caps, SpecDisk};
use rt::{Sim, SimConfig};
use std::sync::Arc;

const SUPER: BlockNo = BlockNo(0);
const LOG: BlockNo = BlockNo(8);
const BLOCKS: u64 = 16;
const CUTS: usize = 8;

fn filled(byte: u8) -> Bytes {
    vec![byte; BLOCK_BYTES].into()
}

fn write_in_order(queue: &Arc<Queue>) -> Result<(), DevError> {
    let mut plug = queue.order_plug();
    plug.write_fua(SUPER.lba(), Class::JournalSuperblock, filled(1));
    plug.barrier();
    plug.write_fua(LOG.lba(), Class::JournalMetadata, filled(2));
    plug.barrier();
    plug.write_fua(SUPER.lba(), Class::JournalSuperblock, filled(3));
    plug.finish()
}

fn history(caps: Caps, seed: u64, tally: &mut Tally) -> Result<(), Violation> {
    let disk = SpecDisk::new(caps, seed);
    let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
    let writer = rt::spawn("writer", move || write_in_order(&queue));
    let mut rng = Rng::named(seed, "cuts of a plug");
    for _ in 0..CUTS {
        rt::sleep(Nanos(rng.below(300_000)));
        let cut = disk.snapshot(rng.next_u64());
        tally.states += 1;
        let (superblock, log) = (cut.block(SUPER.0)[0], cut.block(LOG.0)[0]);
        let legal = match superblock {
            0 => log == 0,
            1 => true,
            _ => log == 2,
        };
        if !legal {
            let why = format!("superblock {superblock} beside log block {log}");
            return Err(Violation::new("harness-Q1", why));
        }
    }
    let written = writer.join().expect("a panic ends the simulation");
    written.map_err(|e| Violation::new("harness-Q7", e.to_string()))?;
    match disk.visible().block(SUPER.0)[0] {
        3 => Ok(()),
        other => Err(Violation::new(
            "harness-Q1",
            format!("superblock {other} is left"),
        )),
    }
}

/// Plays until `states` states were judged or a violation was found.
pub fn explore(first: u64, states: u64, mutant: Option<Mutant>) -> Tally {
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.states < states && tally.violations.is_empty() {
        let cell = cells::CELLS.iter().find(|c| c.name == "packs-prefix");
        let caps = Caps {
            sectors: BLOCKS * SECTORS_PER_BLOCK,
            reliable_granule: Some(BLOCK_BYTES as u32),
            ..(cell.expect("a cell").caps)()
        };
        let cfg = SimConfig {
            mutant,
            ..SimConfig::seeded(seed)
        };
        let outcome = Sim::new(cfg).run(|| history(caps, seed, &mut tally));
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
