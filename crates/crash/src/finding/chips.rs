//! Crash states of modelled devices, made again for a finding, with what host and chips did around
//! each cut.

use super::steps::{Fate, Level, Line, Site};
use crate::CrashError;
use crate::case::Setup;
use crate::nand::{self, Film, Filmed, NandCut, NandPath};
use crate::{Judgement, Target};
use blockdev::Image;
use rig::{Media, Operation};

/// Most operations of the chips that are shown before the cut, the last ones begun.
const BEFORE_MAX: usize = 16;
/// Most operations that are shown after the cut.
const AFTER_MAX: usize = 4;

/// A state of a modelled device that was made again.
pub(super) struct Again {
    pub judgement: Judgement,
    pub story: Vec<String>,
    pub steps: Vec<Level>,
    pub media: Media,
    /// What a host reads after the device has come up; `None`: it does not come up.
    pub before: Option<Image>,
}

/// Films the run of a case on a modelled device.
pub(super) fn film(setup: &Setup) -> Result<Filmed, CrashError> {
    nand::film(&setup.config, &setup.volume, setup.subject.as_ref())
}

/// True if the device of the case is a modelled one.
pub(super) fn is_modelled(setup: &Setup) -> bool {
    matches!(setup.config.target, Target::Profile(_))
}

pub(super) fn again(
    setup: &Setup,
    mut filmed: Filmed,
    path: &NandPath,
) -> Result<Again, CrashError> {
    let (state, judgement) = nand::judge(&setup.config, &mut filmed, path)?;
    let mut before = None;
    let mut steps = Vec::new();
    for (level, cut) in state.cuts.iter().enumerate() {
        let up = setup.config.stack.attach(cut.media.clone());
        before = up.ok().map(|model| nand::logical(&model));
        let site = CutSite {
            cut,
            film: cut.film.as_ref().unwrap_or(&filmed.film),
            image: before.as_ref(),
            level,
        };
        steps.push(site.level(&filmed));
    }
    Ok(Again {
        judgement,
        story: filmed.oracle.story(),
        steps,
        media: state.media().clone(),
        before,
    })
}

struct CutSite<'a> {
    cut: &'a NandCut,
    film: &'a Film,
    image: Option<&'a Image>,
    /// 0 is the run, 1 its recovery, and so on.
    level: usize,
}

impl CutSite<'_> {
    fn level(&self, filmed: &Filmed) -> Level {
        let id = self.cut.id;
        let of = match (self.level, id.power_up) {
            (0, _) => "run".into(),
            (1, false) => "recovery".into(),
            (n, false) => format!("recovery number {n}"),
            (1, true) => "device's own recovery".into(),
            (n, true) => format!("device's own recovery number {n}"),
        };
        let mut level = match id.power_up {
            true => Level {
                of,
                cut_ns: self.cut.at.0,
                ..Level::default()
            },
            false => self.commands(of, filmed),
        };
        level.id = id.to_string();
        self.operations(&mut level);
        level
    }

    /// The commands of the host. What became of each is seen by what the next life reads.
    fn commands(&self, of: String, filmed: &Filmed) -> Level {
        let nothing = Image::new();
        let site = Site {
            of,
            point: 0,
            at: self.cut.at,
            trace: &self.film.trace(),
            image: self.image.unwrap_or(&nothing),
            told: match self.level {
                0 => filmed.oracle.timeline(),
                _ => Vec::new(),
            },
        };
        let mut level = site.level();
        if self.image.is_none() {
            // A device that does not come up has no content to compare with.
            let known = |line: &mut Line| line.fate = line.fate.filter(|f| *f == Fate::Never);
            level.lines.iter_mut().for_each(known);
        }
        level
    }

    /// Adds the operations of the chips.
    fn operations(&self, level: &mut Level) {
        let all = self.film.operations(self.cut.id.power_up);
        let begun = all.partition_point(|op| op.span.start < self.cut.at);
        let from = begun.saturating_sub(BEFORE_MAX);
        let to = all.len().min(begun + AFTER_MAX);
        let shown = all.iter().enumerate().take(to).skip(from);
        level
            .lines
            .extend(shown.map(|(n, op)| self.operation(n, op)));
        level.earlier += from;
        level.later += all.len() - to;
        // Of lines that begin together the operation of the workload comes first, then the
        // commands that follow from it, then the chips.
        level.lines.sort_by_key(|line| {
            let rank = u8::from(line.command.is_some()) + 2 * u8::from(line.chip.is_some());
            (line.from_ns, rank, line.command)
        });
    }

    fn operation(&self, number: usize, op: &Operation) -> Line {
        let letter = if self.cut.id.power_up { 'm' } else { 'n' };
        let what = match op.page {
            Some(page) => format!("program block {} page {page}", op.block.0),
            None => format!("erase block {}", op.block.0),
        };
        let at = self.cut.at;
        Line {
            from_ns: op.span.start.0,
            to_ns: (op.span.end <= at).then_some(op.span.end.0),
            command: None,
            chip: Some(format!("{letter}{number}")),
            what: format!("{what} ({})", op.cause.word()),
            tid: None,
            fate: match (op.span.start >= at, op.span.end <= at) {
                (true, _) => Some(Fate::Never),
                (_, true) => None,
                _ => Some(Fate::Interrupted),
            },
        }
    }
}
