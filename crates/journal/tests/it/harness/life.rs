//! One life of a journal: from its start to a cut or its stop.

use super::model::{Cut, Model, State, pick};
use super::odd::{Odd, device};
use super::*;
use base::{Nanos, SECTORS_PER_BLOCK, Tid};
use block::{Class, Queue, Watch};
use blockdev::SpecDisk;
use journal::{DataNeed, DataPath, Handle, Journal, JournalError, Opened, Options, open};
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One life of a journal (see the head of this file).
pub struct Life {
    pub setup: Setup,
    pub layout: Layout,
    pub options: Options,
    pub image: Image,
    pub model: Model,
}

impl Life {
    pub fn first(setup: &Setup, layout: Layout, image: Image, rng: &mut Rng) -> Life {
        let meta = (layout.first..layout.first + HOMES / 2)
            .map(|n| (BlockNo(n), image.block(n)))
            .collect();
        let state = State {
            meta,
            ..State::default()
        };
        Life::with(setup.clone(), layout, image, (0, state), rng)
    }

    /// The next life, on what recovery left: `state` is that after transaction `tid`.
    pub fn next(self, (tid, state): (u32, State), image: Image, rng: &mut Rng) -> Life {
        Life::with(self.setup, self.layout, image, (tid, state), rng)
    }

    fn with(
        setup: Setup,
        layout: Layout,
        image: Image,
        (tid, mut state): (u32, State),
        rng: &mut Rng,
    ) -> Life {
        let caps = &mut setup.caps.clone();
        caps.sectors = layout.blocks * SECTORS_PER_BLOCK;
        let setup = Setup {
            caps: caps.clone(),
            ..setup
        };
        let scheme = match setup.workload.mixed {
            true => any_scheme(&setup.caps, rng),
            false => setup.scheme,
        };
        let timer = |rng: &mut Rng| {
            let on = setup.workload.checkpoints && rng.one_in(2);
            on.then(|| Nanos::from_micros(500 + rng.below(20_000)))
        };
        let options = Options {
            scheme: Some(scheme),
            commit_interval: timer(rng),
            writeback_expire: timer(rng),
            writeback_interval: None,
            features_64bit: rng.one_in(2),
            checksum_v3: setup.workload.checksums.unwrap_or(rng.one_in(2)),
            block_size: base::BlockSize::KIB4,
            cache_blocks: if rng.one_in(2) { 4 } else { 1000 },
            // In some lives of each history, without a draw of its own.
            commit_by_caller: tid.is_multiple_of(2),
        };
        // What an earlier life wrote is durable now, whatever it is.
        for (block, data) in &mut state.data {
            data.content = image.block(block.0);
            data.version = 0;
        }
        let mut model = Model {
            now: state.clone(),
            ..Model::default()
        };
        for block in layout.homes() {
            if state.data.contains_key(&block) {
                model.owned.push(model::Owned {
                    block,
                    from: 0,
                    until: u64::MAX,
                });
            } else if !state.meta.contains_key(&block) {
                model.free.insert(block, Tid(tid));
            }
        }
        model.note(Tid(tid));
        Life {
            setup,
            layout,
            options,
            image,
            model,
        }
    }

    /// Plays, and gathers cuts in the model. Inside a simulation.
    pub fn play(&mut self, seed: u64) -> Result<(), Violation> {
        let mut rng = Rng::named(seed, "life");
        let disk = SpecDisk::from_image(self.setup.caps.clone(), self.image.clone(), seed);
        // What is late there is a write of the life before: recovery meets it, not the next life.
        let odd = Some(self.setup.workload.odd).filter(|odd| *odd != Odd::LateLog);
        let queue = Queue::new(device(&disk, odd.unwrap_or_default(), seed));
        let failed = |e: JournalError| Violation::new("harness-Q7", e.to_string());
        let journal = match open(queue.clone(), self.layout.place.clone()).map_err(failed)? {
            Opened::Clean(log) => {
                // Recovery has skipped a number: until the first commit it is the newest one.
                self.model.note(log.next_tid().prev());
                log.start(self.options.clone()).map_err(failed)?
            }
            Opened::NeedsRecovery(_) => {
                return Err(Violation::new("harness-Q7", "a recovered log is not clean"));
            }
        };
        let shared = Arc::new(Shared {
            model: Mutex::named("model", std::mem::take(&mut self.model)),
            journal,
            queue,
            disk: disk.clone(),
            workload: self.setup.workload.clone(),
            layout: self.layout.clone(),
            held: Mutex::named("held data", BTreeMap::new()),
            ended: rt::atomic::AtomicBool::new(false),
        });
        let gap = [80_000, 250_000, 1_000_000][rng.below(3) as usize];
        let sampler = {
            let (shared, rng) = (shared.clone(), Rng::named(seed, "sampler"));
            rt::spawn("sampler", move || shared.sample(rng, gap))
        };
        let w = &self.setup.workload;
        let tasks: Vec<_> = (0..1 + rng.below(w.tasks))
            .map(|n| {
                let operations = w.operations.0 + rng.below(w.operations.1 - w.operations.0);
                let mut player = Player {
                    rng: Rng::named(seed ^ n, "player"),
                    shared: shared.clone(),
                };
                rt::spawn("player", move || player.play(operations))
            })
            .collect();
        let mut played = Ok(());
        for task in tasks {
            played = played.and(task.join().expect("a panic ends the simulation"));
        }
        let stop = played.is_ok() && rng.one_in(4);
        if stop {
            played = shared.journal.stop();
            shared.cut(rng.next_u64());
        }
        shared
            .ended
            .store(true, std::sync::atomic::Ordering::SeqCst);
        sampler.join().expect("a panic ends the simulation");
        if !stop {
            shared.journal.abort("test: the life is over");
            // Aborted: the error says so.
            let _ = shared.journal.stop();
        }
        let mut model = shared.model.lock();
        self.model = std::mem::take(&mut model);
        drop(model);
        match played {
            // The dropped handle has ended it, as it must.
            Err(e) if self.model.dropped.is_some() && !e.is_power_lost() => {}
            other => other.map_err(failed)?,
        }
        self.check_data(&disk)
    }

    /// harness-Q5.
    fn check_data(&self, disk: &SpecDisk) -> Result<(), Violation> {
        let visible = disk.visible();
        for (block, data) in &self.model.now.data {
            if visible.block(block.0) != data.content {
                let why = format!("file data of block {block} was overwritten");
                return Err(Violation::new("harness-Q5", why));
            }
        }
        Ok(())
    }
}

/// A scheme of any journaled preset.
pub fn any_scheme(caps: &Caps, rng: &mut Rng) -> Scheme {
    let all: Vec<Scheme> = Preset::ALL
        .iter()
        .filter_map(|p| p.scheme())
        .filter(|s| s.check(caps).is_ok())
        .collect();
    pick(rng, &all).expect("jbd2 is allowed everywhere")
}

struct Shared {
    model: Mutex<Model>,
    journal: Arc<Journal>,
    queue: Arc<Queue>,
    disk: Arc<SpecDisk>,
    workload: Workload,
    layout: Layout,
    /// Data that was sent or held back, by block.
    held: Mutex<BTreeMap<BlockNo, Watch>>,
    ended: rt::atomic::AtomicBool,
}

impl Shared {
    fn sample(&self, mut rng: Rng, gap: u64) {
        while !self.ended.load(std::sync::atomic::Ordering::SeqCst) {
            self.cut(rng.next_u64());
            rt::sleep(Nanos(rng.below(2 * gap)));
        }
    }

    /// Takes what a cut at this moment would leave; a full list forgets one at random.
    fn cut(&self, seed: u64) {
        let acked = self.journal.committed().0;
        let before = self.model.lock().tick;
        let image = self.disk.snapshot(seed);
        let mut model = self.model.lock();
        let ticks = (before, model.tick);
        let most = self.workload.cuts;
        if model.cuts.len() == most {
            model.cuts.swap_remove((seed % most as u64) as usize);
        }
        model.cuts.push(Cut {
            image,
            acked,
            ticks,
        });
    }
}

struct Player {
    rng: Rng,
    shared: Arc<Shared>,
}

impl Player {
    fn play(&mut self, operations: u64) -> Result<(), JournalError> {
        for _ in 0..operations {
            let tid = self.operation()?;
            let shared = self.shared.clone();
            match self.rng.below(12) {
                0..5 => {
                    shared.journal.commit(tid)?;
                    if self.rng.one_in(3) {
                        shared.cut(self.rng.next_u64());
                    }
                }
                5 if shared.workload.checkpoints => shared.journal.checkpoint_all()?,
                6 => rt::sleep(Nanos::from_micros(self.rng.below(3000))),
                _ => {}
            }
        }
        self.shared.journal.commit_all()
    }

    fn operation(&mut self) -> Result<Tid, JournalError> {
        let shared = self.shared.clone();
        let credits = shared.journal.credits_max().min(4);
        let mut handle = shared.journal.start(credits)?;
        let tid = handle.tid();
        for _ in 0..1 + self.rng.below(u64::from(credits)) {
            if handle.credits() == 0 {
                break;
            }
            let drop_one_in = shared.workload.drop_one_in;
            if drop_one_in > 0 && self.rng.one_in(drop_one_in) {
                self.drop_half(handle)?;
                return Ok(tid);
            }
            self.step(&mut handle)?;
            if self.rng.one_in(6) {
                rt::sleep(Nanos(self.rng.below(300_000)));
            }
        }
        handle.finish()
    }

    /// One change. The model stays locked, so that its order of changes is the journal's.
    fn step(&mut self, handle: &mut Handle<'_>) -> Result<(), JournalError> {
        let shared = self.shared.clone();
        let mut model = shared.model.lock();
        let m = &mut *model;
        let metas: Vec<BlockNo> = m.now.meta.keys().copied().collect();
        if shared.workload.discards && self.rng.one_in(3) {
            self.discard(m)?;
        }
        let kinds = if shared.workload.churn { 8 } else { 16 };
        match self.rng.below(kinds) {
            0 | 1 => self.create(handle, m)?,
            2 | 3 if metas.len() > 4 => {
                let block = pick(&mut self.rng, &metas).expect("some");
                handle.forget(block)?;
                m.now.meta.remove(&block);
                m.journaled.remove(&block);
                m.free.insert(block, handle.tid());
            }
            4 => self.free_data(handle, m)?,
            5..=7 => self.write_data(handle, m)?,
            _ => {
                let block = pick(&mut self.rng, &metas).expect("some");
                self.change(handle, m, block)?;
            }
        }
        m.note(handle.tid());
        Ok(())
    }

    /// Discards a free block before it gets another owner.
    fn discard(&mut self, m: &mut Model) -> Result<(), JournalError> {
        let shared = self.shared.clone();
        let committed = shared.journal.committed();
        let range = (shared.layout.first, shared.layout.end);
        if let Some(block) = m.reusable(&mut self.rng, committed, range) {
            self.land(block)?;
            shared.queue.discard(block.lba(), SECTORS_PER_BLOCK)?;
        }
        Ok(())
    }

    /// hazards-H21: half an operation. No later state may be found: the journal has to abort before
    /// it commits this one.
    fn drop_half(&mut self, mut handle: Handle<'_>) -> Result<(), JournalError> {
        let shared = self.shared.clone();
        let mut model = shared.model.lock();
        let block = pick(
            &mut self.rng,
            &model.now.meta.keys().copied().collect::<Vec<_>>(),
        );
        let content = self.content(&mut model);
        model.dropped = model.dropped.or(Some(handle.tid().0));
        handle.write(block.expect("some"), 0, &content[..64])
    }

    fn content(&mut self, m: &mut Model) -> Bytes {
        let zeros_one_in = self.shared.workload.zeros_one_in;
        if zeros_one_in > 0 && self.rng.one_in(zeros_one_in) {
            return vec![0; BLOCK_BYTES].into();
        }
        let near = self.shared.journal.committed();
        m.content(&mut self.rng, self.shared.workload.pose_one_in, near)
    }

    /// A new metadata block; one that was freed just now may come back as metadata at once.
    fn create(&mut self, handle: &mut Handle<'_>, m: &mut Model) -> Result<(), JournalError> {
        let layout = &self.shared.layout;
        let range = (layout.first, layout.middle);
        let committed = match self.rng.one_in(3) {
            true => handle.tid(),
            false => self.shared.journal.committed(),
        };
        let Some(block) = m.reusable(&mut self.rng, committed, range) else {
            return Ok(());
        };
        let mut content = self.content(m);
        if self.rng.one_in(2) {
            // As most new metadata: zeros behind a head.
            let mut sparse = vec![0; BLOCK_BYTES];
            sparse[..20].copy_from_slice(&content[..20]);
            content = sparse.into();
        }
        m.end_data(block);
        if self.rng.one_in(4) {
            handle.write_journaled_data(block, content.clone())?;
            m.journaled.insert(block, ());
        } else {
            handle.create(block, content.clone())?;
        }
        m.free.remove(&block);
        m.now.meta.insert(block, content);
        Ok(())
    }

    /// File data leaves its block; another owner gets it once this is committed.
    fn free_data(&mut self, handle: &mut Handle<'_>, m: &mut Model) -> Result<(), JournalError> {
        let list: Vec<BlockNo> = m.now.data.keys().copied().collect();
        if let Some(block) = pick(&mut self.rng, &list) {
            self.land(block)?;
            m.now.data.remove(&block);
            m.free.insert(block, handle.tid());
        }
        Ok(())
    }

    /// File data to a new block or over old one, mostly ordered.
    fn write_data(&mut self, handle: &mut Handle<'_>, m: &mut Model) -> Result<(), JournalError> {
        let shared = self.shared.clone();
        let layout = &shared.layout;
        let first = match shared.workload.apart {
            true => layout.middle,
            false => layout.first,
        };
        let old: Vec<BlockNo> = m.now.data.keys().copied().collect();
        let over = match self.rng.one_in(3) {
            true => pick(&mut self.rng, &old),
            false => None,
        };
        let committed = shared.journal.committed();
        let new = m.reusable(&mut self.rng, committed, (first, layout.end));
        let Some(block) = over.or(new) else {
            return Ok(());
        };
        let content = self.content(m);
        let ordered = !self.rng.one_in(4);
        m.write_data(block, content.clone(), ordered);
        let path = self.data_path();
        let mut plug = shared.queue.plug();
        match path {
            DataPath::Cached => plug.write(block.lba(), Class::Data, content),
            DataPath::Direct | DataPath::WithLog => {
                plug.write_fua(block.lba(), Class::Data, content);
            }
        }
        // As the file system: what is on its way to the block arrives first.
        self.land(block)?;
        let mut batch = match path {
            DataPath::WithLog if ordered => plug.hold(),
            _ => plug.submit(),
        };
        shared.held.lock().insert(block, batch.watch());
        match ordered {
            true => handle.add_ordered(batch),
            false => Ok(batch.wait()?),
        }
    }

    /// Waits for data of a block that is on its way, or held back.
    fn land(&self, block: BlockNo) -> Result<(), JournalError> {
        let watch = self.shared.held.lock().remove(&block);
        Ok(watch.map_or(Ok(()), |w| w.wait())?)
    }

    /// As the journal advises, or not: either is safe.
    fn data_path(&mut self) -> DataPath {
        match self.rng.below(6) {
            0 => DataPath::Direct,
            1 => DataPath::Cached,
            2 => DataPath::WithLog,
            _ => {
                let need = DataNeed {
                    blocks: 1,
                    runs: 1,
                    commits: true,
                    flush_anyway: false,
                };
                self.shared.journal.data_path(need).path
            }
        }
    }

    /// Stores into a metadata block: short ones, whole ones, some that change nothing in the end.
    fn change(
        &mut self,
        handle: &mut Handle<'_>,
        m: &mut Model,
        block: BlockNo,
    ) -> Result<(), JournalError> {
        let new = self.content(m);
        let old = m.now.meta[&block].clone();
        if m.journaled.contains_key(&block) {
            handle.write_journaled_data(block, new.clone())?;
            m.now.meta.insert(block, new);
            return Ok(());
        }
        let mut whole = old.to_vec();
        let mut stores: Vec<(usize, usize)> = Vec::new();
        match self
            .rng
            .below(if self.shared.workload.small { 5 } else { 8 })
        {
            // A structure and its checksum.
            0..3 => {
                let at = self.rng.below(500) as usize * 8;
                stores.push((at, at + [2, 4, 8, 40][self.rng.below(4) as usize]));
                let end = [2, 4][self.rng.below(2) as usize];
                stores.push((BLOCK_BYTES - 4, BLOCK_BYTES - 4 + end));
            }
            3 => stores.push((0, 20)),
            4 => stores.extend([(16, 20), (600, 604), (2044, 2048)]),
            5 => stores.push((0, BLOCK_BYTES)),
            _ => stores.push((8, BLOCK_BYTES)),
        }
        for (from, to) in stores {
            handle.write(block, from, &new[from..to])?;
            if self.rng.one_in(8) {
                handle.write(block, from, &old[from..to])?;
                whole[from..to].copy_from_slice(&old[from..to]);
            } else {
                whole[from..to].copy_from_slice(&new[from..to]);
            }
        }
        m.now.meta.insert(block, whole.into());
        Ok(())
    }
}
