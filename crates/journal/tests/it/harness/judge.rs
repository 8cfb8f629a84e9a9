//! Recovers every cut of a life and compares the result with what the journal promised.

use super::life::{Life, any_scheme};
use super::model::{Cut, State};
use super::odd::device;
use super::*;
use base::{Nanos, Rng, SECTORS_PER_BLOCK};
use block::{BlockDevice, Queue};
use blockdev::SpecDisk;
use journal::{Opened, open};
use rt::Mutex;
use std::sync::Arc;

/// Cuts inside recovery: so deep, so many at most on each level.
const DEPTH: u32 = 2;
const NESTED_MAX: usize = 2;

/// The newest transaction with the state after it, and the recovered device.
pub type Found = ((u32, State), Image);

/// Judges all cuts, at most until `limit` states were counted. One of them, by `chosen`, is where
/// the next life begins: the state after its newest transaction, and the recovered device.
pub fn all(
    life: &Life,
    chosen: u64,
    limit: u64,
    tally: &mut Tally,
) -> Result<Option<Found>, Violation> {
    let mut next = None;
    let keep = chosen % life.model.cuts.len().max(1) as u64;
    for (n, cut) in life.model.cuts.iter().enumerate() {
        let recovered = one(life, cut, chosen ^ n as u64, tally)?;
        if n as u64 == keep {
            next = Some(recovered);
        }
        if tally.states >= limit {
            break;
        }
    }
    Ok(next)
}

fn one(life: &Life, cut: &Cut, seed: u64, tally: &mut Tally) -> Result<Found, Violation> {
    tally.distinct.insert(cut.image.content_hash());
    let judge = Judge { life, cut };
    let mut rng = Rng::named(seed, "judge");
    let w = &life.setup.workload;
    if w.unreadable_one_in > 0 {
        judge.unreadable(&mut rng)?;
    }
    let nested = match rng.one_in(w.nested_one_in) {
        true => DEPTH,
        false => 0,
    };
    judge.recover(cut.image.clone(), None, nested, &mut rng, tally)
}

/// A log that was recovered.
struct Recovered {
    newest: u32,
    image: Image,
    /// Snapshots taken inside recovery.
    inside: Vec<Image>,
}

struct Judge<'a> {
    life: &'a Life,
    cut: &'a Cut,
}

impl Judge<'_> {
    /// Recovers `image`; `expected` is the transaction that an earlier recovery of it has found.
    fn recover(
        &self,
        image: Image,
        expected: Option<u32>,
        nested: u32,
        rng: &mut Rng,
        tally: &mut Tally,
    ) -> Result<Found, Violation> {
        tally.states += 1;
        let before = image.clone();
        let property = |normal| {
            if expected.is_some() {
                "harness-Q4"
            } else {
                normal
            }
        };
        let wanted = if nested > 0 { NESTED_MAX } else { 0 };
        let caps = self.caps();
        let mut recovered = self.run(caps, image.clone(), wanted, rng.next_u64());
        if let Err(text) = &recovered
            && self.life.setup.workload.moved.is_some()
            && text.contains("recover on a device with reliable writes")
        {
            // The device it was moved to cannot do it safely; the one it comes from can.
            recovered = self.run(self.life.setup.caps.clone(), image, 0, rng.next_u64());
        }
        let recovered = recovered.map_err(|text| Violation::new(property("harness-Q0"), text))?;
        // A cut at the end of recovery leaves a clean log, whose next number is larger.
        let newest = expected.unwrap_or(recovered.newest);
        let state = self
            .check(newest, &before, &recovered.image)
            .map_err(|v| Violation::new(property(v.property), v.text))?;
        for inside in recovered.inside {
            self.recover(inside, Some(newest), nested - 1, rng, tally)?;
        }
        Ok(((newest, state), recovered.image))
    }

    /// The promises of the device on which recovery happens.
    fn caps(&self) -> Caps {
        let own = &self.life.setup.caps;
        let caps = self.life.setup.workload.moved.map(|caps| caps());
        Caps {
            sectors: own.sectors,
            ..caps.unwrap_or(own.clone())
        }
    }

    fn run(&self, caps: Caps, image: Image, inside: usize, seed: u64) -> Result<Recovered, String> {
        let disk = SpecDisk::from_image(caps, image, seed);
        let queue = Queue::new(device(&disk, self.life.setup.workload.odd, seed));
        let taken = Arc::new(Mutex::named("inside", (false, Vec::new())));
        let sampler = (inside > 0).then(|| {
            let (disk, taken) = (disk.clone(), taken.clone());
            let mut rng = Rng::named(seed, "inside");
            rt::spawn("inside", move || {
                loop {
                    rt::sleep(Nanos(rng.below(1_500_000)));
                    let image = disk.snapshot(rng.next_u64());
                    let mut taken = taken.lock();
                    if taken.0 || taken.1.len() == inside {
                        return;
                    }
                    taken.1.push(image);
                }
            })
        });
        // Homes are restored by the scheme's own way, or by copying: the program that recovers a
        // log need not be the one that runs it, and its successor may have another scheme.
        let successor = match self.life.setup.workload.mixed {
            true => Some(any_scheme(queue.caps(), &mut Rng::named(seed, "successor"))),
            false => self.life.options.scheme,
        };
        let scheme = successor.filter(|_| !seed.is_multiple_of(4));
        let result = open(queue, self.life.layout.place.clone()).and_then(|opened| {
            Ok(match opened {
                Opened::Clean(log) => log.next_tid().prev().0,
                Opened::NeedsRecovery(log) => log.recover_for(scheme.as_ref())?.1.end.prev().0,
            })
        });
        taken.lock().0 = true;
        if let Some(sampler) = sampler {
            sampler.join().expect("a panic ends the simulation");
        }
        let inside = std::mem::take(&mut taken.lock().1);
        Ok(Recovered {
            newest: result.map_err(|e| e.to_string())?,
            image: disk.visible(),
            inside,
        })
    }

    /// harness-Q1, harness-Q2, harness-Q3, harness-Q6.
    fn check(&self, newest: u32, before: &Image, after: &Image) -> Result<State, Violation> {
        let (model, cut) = (&self.life.model, self.cut);
        if newest < cut.acked {
            let why = format!("transaction {newest} recovered, {} acknowledged", cut.acked);
            return Err(Violation::new("harness-Q2", why));
        }
        let last = *model.states.keys().last().expect("the first state");
        if newest > last || model.dropped.is_some_and(|t| t <= newest) {
            let why = format!("transaction {newest} recovered, which never was");
            return Err(Violation::new("harness-Q1", why));
        }
        let (_, state) = model.states.range(..=newest).next_back().expect("first");
        for (block, content) in &state.meta {
            let found = after.block(block.0);
            if found != *content {
                let why = difference(*block, newest, &found, content);
                return Err(Violation::new("harness-Q1", why));
            }
        }
        for (block, data) in state.data.iter().filter(|(_, d)| d.ordered) {
            let again = model.overwritten.iter().any(|(tick, b, version)| {
                b == block && *tick <= cut.ticks.1 && *version > data.version
            });
            if !again && after.block(block.0) != data.content {
                let why = format!("ordered data of block {block} is lost, transaction {newest}");
                return Err(Violation::new("harness-Q6", why));
            }
        }
        for owned in &model.owned {
            let whole = owned.from <= cut.ticks.0 && cut.ticks.1 < owned.until;
            if whole && before.block(owned.block.0) != after.block(owned.block.0) {
                let why = format!("recovery changed file data in block {}", owned.block);
                return Err(Violation::new("harness-Q3", why));
            }
        }
        Ok(state.clone())
    }

    /// hazards-H12: where homes cannot be read, recovery says so or does not need them; it never
    /// invents their content.
    fn unreadable(&self, rng: &mut Rng) -> Result<(), Violation> {
        let life = self.life;
        let disk = SpecDisk::from_image(
            life.setup.caps.clone(),
            self.cut.image.clone(),
            rng.next_u64(),
        );
        for n in life.layout.first..life.layout.end {
            if rng.one_in(life.setup.workload.unreadable_one_in) {
                disk.fail_reads(n * SECTORS_PER_BLOCK..(n + 1) * SECTORS_PER_BLOCK);
            }
        }
        let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
        let opened = open(queue, life.layout.place.clone());
        let opened = opened.map_err(|e| Violation::new("harness-Q0", e.to_string()))?;
        let Opened::NeedsRecovery(log) = opened else {
            return Ok(());
        };
        match log.recover() {
            // Refused: nothing was written.
            Err(_) => {
                let same = disk.visible() == self.cut.image;
                let why = "a refused recovery has changed the device";
                same.then_some(())
                    .ok_or_else(|| Violation::new("harness-Q0", why))
            }
            Ok((_, report)) => {
                let newest = report.end.prev().0;
                self.check(newest, &self.cut.image, &disk.visible())?;
                Ok(())
            }
        }
    }
}

fn difference(block: BlockNo, newest: u32, found: &[u8], content: &[u8]) -> String {
    let differ = |n: &usize| found[*n] != content[*n];
    let count = (0..BLOCK_BYTES).filter(differ).count();
    let first = (0..BLOCK_BYTES).find(differ).unwrap_or(0);
    format!(
        "block {block} is not as after transaction {newest}: {count} bytes differ, the first at {first}"
    )
}
