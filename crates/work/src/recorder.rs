//! Notes when each command goes to the device, and when its submitter learns of its end: the time
//! line of a run.

use crate::run::Measured;
use base::{SECTOR_BYTES, Time};
use report::timeline::{Span, Timeline};
use rig::{BlockDevice, Class, Op, Request, Tap};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keeps the device of a run that is being recorded.
#[derive(Default)]
pub struct Recorder(RefCell<Option<Arc<Tap<String>>>>);

impl Recorder {
    /// The layer between queue and device ([`crate::life::Between`]).
    pub fn between(&self) -> impl Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        |inner| {
            let tap = Arc::new(Tap::new(inner, |request| Some(words(request))));
            *self.0.borrow_mut() = Some(tap.clone());
            tap
        }
    }

    /// What happened in the measured part.
    pub fn timeline(&self, measured: &Measured) -> Timeline {
        let (begin, end) = measured.span;
        let within = |from: Time, to: Time| from >= begin && to <= end;
        let span = |name: String, from: Time, to: Time| Span {
            name,
            start_ns: from.0 - begin.0,
            end_ns: to.0 - begin.0,
        };
        let syncs = measured.syncs.iter().map(|sync| {
            let name = if sync.data_only { "fdatasync" } else { "fsync" };
            (name.to_string(), sync.at, sync.at + sync.took)
        });
        let tap = self.0.borrow();
        let commands = tap.iter().flat_map(|tap| tap.take());
        let commands = commands.filter_map(|c| Some((c.note, c.submitted, c.ended?)));
        let spans = |all: &mut dyn Iterator<Item = (String, Time, Time)>| {
            all.filter(|(_, from, to)| within(*from, *to))
                .map(|(name, from, to)| span(name, from, to))
                .collect()
        };
        Timeline {
            syncs: spans(&mut syncs.into_iter()),
            commands: spans(&mut commands.into_iter()),
        }
    }
}

/// A command in words: what, how much, of which classes.
fn words(request: &Request) -> String {
    let kib = |sectors: u64| sectors * SECTOR_BYTES as u64 / 1024;
    match &request.op {
        Op::Read { sectors, .. } => format!("read {} KiB", kib(*sectors)),
        Op::Flush => "flush".into(),
        Op::Barrier => "barrier".into(),
        Op::Discard { sectors, .. } => format!("discard {} KiB", kib(*sectors)),
        Op::Remap(remap) => format!("remap {} pairs", remap.pairs.len()),
        Op::Write { .. } | Op::Pack { .. } => {
            let written = request.written();
            let pieces = || written.iter().flat_map(|(_, pieces, _)| pieces.iter());
            let bytes: usize = pieces().map(|piece| piece.bytes.len()).sum();
            let classes: BTreeSet<Class> = pieces().map(|piece| piece.class).collect();
            let classes: Vec<&str> = classes.into_iter().map(Class::word).collect();
            let pack = matches!(request.op, Op::Pack { .. });
            let fua = written.iter().any(|(_, _, fua)| *fua);
            format!(
                "{}{} {} KiB: {}",
                if fua { "FUA " } else { "" },
                if pack { "pack" } else { "write" },
                bytes / 1024,
                classes.join(", ")
            )
        }
    }
}
