//! A run on a modelled device, recorded so that it can be cut afterwards at any moment.
//!
//! The film keeps a copy of the device after each command of the host, and every operation of the
//! chips with its span. Copies share content, so a copy costs only what changes later. Between two
//! commands nothing from outside reaches a model, and a model can be cut at any moment from its
//! last command on. So the copy after the last command before a moment, cut at that moment, is what
//! a cut of the run at that moment leaves.

use super::host::Command;
use super::id::NandId;
use base::collections::mix;
use base::{Bytes, SECTORS_PER_BLOCK, Set, Time};
use blockdev::{
    BlockDevice, Caps, DevError, DevErrorKind, Model, Modelled, Op, Reply, Request, Ticket,
};
use rig::{AnyModel, Media, Operation, Profile, Recovering};
use rt::Mutex;
use std::sync::Arc;

/// A filmed run.
pub struct Film {
    /// The device after each command, by ascending time; the first frame is the device before all.
    pub(super) frames: Vec<(Time, AnyModel)>,
    /// The commands of the host; there is one frame more.
    pub(super) commands: Vec<Command>,
    /// The operations of the chips in the run, in the order in which they begin.
    operations: Vec<Operation>,
    /// The recovery of the device before the run, if there was one.
    recovering: Option<(Recovering, Vec<Operation>)>,
    /// Blocks that the host has written or discarded.
    touched: Set<u64>,
    /// When the run ended.
    pub end: Time,
}

impl Film {
    /// The programs and erases of the run, in the order in which they begin; with `power_up` those
    /// of the device's own recovery before it.
    pub fn operations(&self, power_up: bool) -> &[Operation] {
        match (power_up, &self.recovering) {
            (false, _) => &self.operations,
            (true, Some((_, operations))) => operations,
            (true, None) => &[],
        }
    }

    /// What the cut with this id leaves, and its moment in the time of the run; `None` if the run
    /// has no such operation.
    pub fn media(&self, id: &NandId) -> Option<(Time, Media)> {
        let at = id.time(self)?;
        if id.power_up {
            let (recovering, _) = self.recovering.as_ref()?;
            return Some((Time(0), recovering.power_off(at, id.seed)));
        }
        Some((at, self.cut(at, id.seed)))
    }

    /// What a cut of the run at `at` leaves; `seed` draws what tears.
    pub fn cut(&self, at: Time, seed: u64) -> Media {
        let next = self.frames.partition_point(|(time, _)| *time <= at);
        let (_, model) = &self.frames[next.saturating_sub(1)];
        model.clone().power_off(at, seed)
    }

    /// The blocks that the host does not touch in the run, with their content: no cut may change
    /// them.
    pub fn untouched(&self) -> Vec<(u64, Bytes)> {
        let (_, first) = &self.frames[0];
        let blocks = 0..first.caps().sectors / SECTORS_PER_BLOCK;
        let others = blocks.filter(|block| !self.touched.contains(block));
        others.map(|block| (block, first.visible(block))).collect()
    }

    /// True if the host touches the block in the run.
    pub fn touches(&self, block: u64) -> bool {
        self.touched.contains(&block)
    }

    /// A digest of all commands of the host and all operations of the chips with their times. Equal
    /// runs have equal digests.
    pub fn fingerprint(&self) -> u64 {
        let add = |sum: u64, word: u64| mix(sum.rotate_left(7) ^ word);
        let commands = self.frames[1..].iter().zip(&self.commands);
        let sum = commands.fold(2, |sum, ((at, _), command)| {
            command.words().into_iter().fold(add(sum, at.0), add)
        });
        let recovery = self.operations(true).iter();
        recovery.chain(self.operations(false)).fold(sum, |sum, op| {
            let page = op.page.map_or(0, |page| u64::from(page) + 1);
            let words = [op.span.start.0, op.span.end.0, u64::from(op.block.0)];
            let words = words.into_iter().chain([page, op.cause as u64]);
            words.fold(sum, add)
        })
    }

    /// Number of commands of the host.
    pub fn commands(&self) -> usize {
        self.frames.len() - 1
    }
}

/// Puts operations in the order in which they begin.
fn in_order(mut operations: Vec<Operation>) -> Vec<Operation> {
    operations.sort_by_key(|op| (op.span.start, op.span.end));
    operations
}

/// A modelled device that is filmed while it works.
pub struct Camera {
    device: Arc<Modelled<AnyModel>>,
    shot: Mutex<Shot>,
    recovering: Option<Recovering>,
}

#[derive(Default)]
struct Shot {
    frames: Vec<(Time, AnyModel)>,
    commands: Vec<Command>,
    operations: Vec<Operation>,
    touched: Set<u64>,
}

impl Camera {
    /// Films `device` from now on. Its clock must not have started; to be called inside the
    /// simulation.
    pub fn new(device: Arc<Modelled<AnyModel>>) -> Camera {
        let first = device.with_model_mut(|model| {
            model.keep_operations(true);
            model.clone()
        });
        let shot = Shot {
            frames: first.into_iter().map(|m| (Time(0), m)).collect(),
            commands: Vec::new(),
            operations: Vec::new(),
            touched: Set::default(),
        };
        Camera {
            device,
            shot: Mutex::named("film", shot),
            recovering: None,
        }
    }

    /// Adds the recovery by which the device came out of `media`.
    pub fn with_power_up(self, profile: &Profile, media: &Media) -> Camera {
        // A recovery that fails leaves no device to film; the judge of the state reports it.
        let recovering = profile.recover(media.clone()).ok().flatten();
        Camera { recovering, ..self }
    }

    /// Ends the film at `end`.
    pub fn develop(&self, end: Time) -> Film {
        let shot = std::mem::take(&mut *self.shot.lock());
        Film {
            frames: shot.frames,
            commands: shot.commands,
            operations: in_order(shot.operations),
            touched: shot.touched,
            recovering: self
                .recovering
                .clone()
                .map(|r| (r.clone(), in_order(r.operations().to_vec()))),
            end,
        }
    }
}

impl BlockDevice for Camera {
    fn caps(&self) -> Caps {
        self.device.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        // No other task may run between the command and the copy, because the copy has to be exact.
        rt::no_yield(|| {
            let spans = match &request.op {
                Op::Read { .. } => Vec::new(),
                Op::Remap(remap) => remap.changed(),
                _ => request.spans(),
            };
            let ticket = self.device.submit(request.clone());
            let frame = self
                .device
                .with_model_mut(|model| (model.take_operations(), model.clone()));
            if let Some((operations, model)) = frame {
                let mut shot = self.shot.lock();
                shot.operations.extend(operations);
                let blocks = spans.iter().flat_map(|(lba, sectors)| {
                    let end = (lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
                    lba.0 / SECTORS_PER_BLOCK..end
                });
                shot.touched.extend(blocks);
                shot.commands.push(Command::new(request, ticket));
                shot.frames.push((rt::now(), model));
            }
            ticket
        })
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let reply = self.device.wait(ticket);
        let refused = matches!(&reply, Err(e) if e.kind == DevErrorKind::Misuse);
        if reply.is_ok() || refused {
            let mut shot = self.shot.lock();
            let commands = shot.commands.iter_mut().rev();
            if let Some(command) = commands.into_iter().find(|c| c.is_open(ticket)) {
                command.refused = refused;
                command.end = (!refused).then(rt::now);
            }
        }
        reply
    }
}
