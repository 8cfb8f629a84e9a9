//! All legal states of a small history, by brute force from the table of `blockdev::spec`.

use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_blockdev::spec::{Kind, Ledger, Write};
use varve_blockdev::trace::{RemapDone, Step, What};
use varve_blockdev::{Caps, Image, PackOrder, RemapMode, Trace};

/// What the sectors hold before the history.
pub const OLD: u8 = 99;
/// Stands for a sector whose content is neither old nor new.
pub const GARBAGE: u8 = 255;
/// Sectors that a state shows: 5 to 10.
const FIRST: u64 = 5;
const SHOWN: usize = 6;

/// A command that the device was given.
#[derive(Clone, Debug)]
pub enum Event {
    Write {
        start: u64,
        end: u64,
        kind: Kind,
        lba: u64,
        sectors: u64,
    },
    Pack {
        start: u64,
        end: u64,
        entries: Vec<(Kind, u64, u64)>,
    },
    /// Pairs of home, source and sectors.
    Remap {
        start: u64,
        end: u64,
        fua: bool,
        moves: bool,
        pairs: Vec<(u64, u64, u64)>,
    },
    Flush {
        start: u64,
        end: u64,
    },
    Barrier {
        start: u64,
        end: u64,
    },
}

/// The n-th write fills its sectors with n, counted from 1; a discard with 0, a REMAP with what its
/// sources hold.
#[derive(Clone, Debug)]
struct Wr {
    start: u64,
    end: u64,
    kind: Kind,
    /// Its runs of sectors: one, of a REMAP its homes and then what it discards.
    runs: Vec<(u64, u64)>,
    /// All its sectors.
    lbas: Vec<u64>,
    /// What each of them holds after it.
    fills: Vec<u8>,
    /// Number of the pack, and place in it.
    pack: Option<(usize, usize)>,
}

/// A history in a ledger.
pub struct Told {
    caps: Caps,
    cut: Time,
    ledger: Ledger,
    visible: [Bytes; 2],
}

impl Told {
    /// The state that the adversary draws.
    pub fn draw(&self, seed: u64) -> State {
        let mut blocks = self.visible.clone();
        let visible = |n| self.visible[n as usize].clone();
        for (block, bytes) in self.ledger.draw(self.cut, seed, &self.caps, visible) {
            blocks[block as usize] = bytes;
        }
        shown(&blocks)
    }
}

/// The state that an image shows.
pub fn state_of(image: &Image) -> State {
    shown(&[image.block(0), image.block(1)])
}

fn shown(blocks: &[Bytes; 2]) -> State {
    let sectors = blocks.iter().flat_map(|b| b.chunks(SECTOR_BYTES));
    let sectors: Vec<u8> = sectors
        .map(|s| fill::uniform(s).unwrap_or(GARBAGE))
        .collect();
    let shown = FIRST as usize..FIRST as usize + SHOWN;
    for (n, sector) in sectors.iter().enumerate() {
        assert!(
            shown.contains(&n) || *sector == OLD,
            "spec-I1: sector {n} was not written"
        );
    }
    sectors[shown].to_vec()
}

#[derive(Clone, Debug)]
pub struct History {
    caps: Caps,
    events: Vec<Event>,
    pub cut: u64,
}

/// The first bytes of the shown sectors.
pub type State = Vec<u8>;

/// The fate of one sector of one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    Absent,
    There,
    Torn,
}

type Assignment = Vec<Vec<Is>>;

impl History {
    pub fn new(caps: Caps) -> History {
        History {
            caps,
            events: Vec::new(),
            cut: 0,
        }
    }

    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Enters the history into a ledger; with `forget` the ledger is advanced after each step.
    pub fn told(&self, forget: bool) -> Told {
        let mut ledger = Ledger::new(u64::MAX);
        let mut visible = [fill::filled(OLD, 4096), fill::filled(OLD, 4096)];
        let mut writes = self.writes().into_iter();
        let mut enter = |n: usize| -> Vec<Write> {
            let next = writes.by_ref().take(n);
            next.flat_map(|w| put(&mut visible, &w)).collect()
        };
        for event in &self.events {
            let (start, end) = span(event);
            if start > self.cut {
                break;
            }
            if forget {
                ledger.advance(Time(start));
            }
            match event {
                Event::Write { .. } => enter(1).into_iter().for_each(|w| ledger.write(w)),
                Event::Pack { entries, .. } => ledger.pack(enter(entries.len())),
                Event::Remap { .. } => ledger.remap(enter(1)),
                Event::Flush { .. } => ledger.flush(Time(start), Time(end)),
                Event::Barrier { .. } => ledger.barrier(Time(start), Time(end)),
            }
        }
        if forget {
            ledger.advance(Time(self.cut));
        }
        Told {
            caps: self.caps.clone(),
            cut: Time(self.cut),
            ledger,
            visible,
        }
    }

    /// The history as a recording.
    pub fn trace(&self) -> Trace {
        let mut visible = [fill::filled(OLD, 4096), fill::filled(OLD, 4096)];
        let start = (0..).zip(visible.clone()).collect();
        let mut writes = self.writes().into_iter();
        let mut enter = |n: usize| -> Vec<Arc<Write>> {
            let next = writes.by_ref().take(n);
            let parts = next.flat_map(|w| put(&mut visible, &w));
            parts.map(Arc::new).collect()
        };
        let mut step = |event: &Event| {
            let (start, end) = span(event);
            Step {
                start: Time(start),
                end: Time(end),
                what: match event {
                    Event::Write { .. } => What::Write(enter(1).remove(0)),
                    Event::Pack { entries, .. } => What::Pack(enter(entries.len())),
                    Event::Remap { moves, .. } => What::Remap(Arc::new(RemapDone {
                        pairs: Vec::new(),
                        mode: match moves {
                            true => RemapMode::Move,
                            false => RemapMode::Share,
                        },
                        writes: enter(1),
                    })),
                    Event::Flush { .. } => What::Flush,
                    Event::Barrier { .. } => What::Barrier,
                },
                classes: Vec::new(),
            }
        };
        Trace {
            start,
            caps: self.caps.clone(),
            steps: self.events.iter().map(&mut step).collect(),
        }
    }

    fn writes(&self) -> Vec<Wr> {
        let mut out: Vec<Wr> = Vec::new();
        let mut now = vec![OLD; 16];
        for (n, event) in self.events.iter().enumerate() {
            let (start, end) = span(event);
            let entries = match event {
                Event::Write {
                    kind, lba, sectors, ..
                } => vec![(*kind, *lba, *sectors)],
                Event::Pack { entries, .. } => entries.clone(),
                _ => Vec::new(),
            };
            let before = out.len();
            let is_pack = matches!(event, Event::Pack { .. });
            if let Event::Remap { .. } = event {
                out.push(remap(event, &now));
            }
            for (place, (kind, lba, sectors)) in entries.into_iter().enumerate() {
                let fill = match kind {
                    Kind::Discard => 0,
                    _ => out.len() as u8 + 1,
                };
                out.push(Wr {
                    start,
                    end,
                    kind,
                    runs: vec![(lba, sectors)],
                    lbas: (lba..lba + sectors).collect(),
                    fills: vec![fill; sectors as usize],
                    pack: is_pack.then_some((n, place)),
                });
            }
            for w in &out[before..] {
                for (lba, fill) in w.lbas.iter().zip(&w.fills) {
                    now[*lba as usize] = *fill;
                }
            }
        }
        out
    }

    /// Every state that the table allows.
    pub fn legal_states(&self) -> BTreeSet<State> {
        let cut = self.cut;
        let writes: Vec<Wr> = self
            .writes()
            .into_iter()
            .filter(|w| w.start < cut)
            .collect();
        let prefix = self.caps.packed.map(|p| p.order) == Some(PackOrder::Prefix);
        let mut packs: Vec<(usize, usize)> = Vec::new();
        for w in writes.iter().filter(|w| prefix && w.end > cut) {
            if let Some((pack, place)) = w.pack {
                match packs.last_mut() {
                    Some(last) if last.0 == pack => last.1 = place + 1,
                    _ => packs.push((pack, 1)),
                }
            }
        }
        let mut out = BTreeSet::new();
        // How many entries of each pack in flight were executed.
        let mut executed = vec![0; packs.len()];
        loop {
            self.with_packs(&writes, &packs, &executed, &mut out);
            let Some(i) = (0..packs.len()).find(|i| executed[*i] < packs[*i].1) else {
                return out;
            };
            executed[i] += 1;
            executed[..i].fill(0);
        }
    }

    fn with_packs(
        &self,
        writes: &[Wr],
        packs: &[(usize, usize)],
        executed: &[usize],
        out: &mut BTreeSet<State>,
    ) {
        // Some(true): executed, Some(false): not; None: no pack says so.
        let ordered = |w: &Wr| {
            let (pack, place) = w.pack?;
            let i = packs.iter().position(|p| p.0 == pack)?;
            match place.cmp(&executed[i]) {
                std::cmp::Ordering::Less => Some(true),
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => Some(false),
            }
        };
        let came: Vec<Wr> = writes
            .iter()
            .filter(|w| ordered(w) != Some(false))
            .cloned()
            .collect();
        let sure = |w: &Wr| {
            let through = matches!(w.kind, Kind::Fua | Kind::Through);
            self.durable(w) || (through && ordered(w) == Some(true))
        };
        if self.caps.cache_fifo {
            let arrived = |w: &Wr| w.end <= self.cut || ordered(w) == Some(true);
            self.fifo(&came, &sure, &arrived, out);
        } else {
            let choices = |i: usize| match sure(&came[i]) {
                true => vec![vec![Is::There; came[i].lbas.len()]],
                false => self.choices(&came, i),
            };
            for_all(
                &(0..came.len()).map(choices).collect::<Vec<_>>(),
                &mut |a| {
                    self.judge(&came, a, out);
                },
            );
        }
    }

    fn durable(&self, w: &Wr) -> bool {
        let flushed = self.events.iter().any(|e| match e {
            Event::Flush { start, end } => *end <= self.cut && w.end <= *start,
            _ => false,
        });
        let at_once = matches!(
            w.kind,
            Kind::Fua | Kind::Through | Kind::Remap { durable: true }
        );
        w.end <= self.cut && (flushed || at_once)
    }

    /// The granule that is promised for what a cut leaves of a write, bytes.
    fn promise(&self, w: &Wr) -> Option<u32> {
        match w.kind {
            Kind::Fua => self.caps.reliable_granule,
            Kind::Normal | Kind::Through => self.caps.tear_granule,
            Kind::Discard | Kind::Remap { .. } => Some(512),
        }
    }

    fn is_atomic(&self, w: &Wr) -> bool {
        let bytes = w.lbas.len() as u64 * 512;
        bytes <= u64::from(self.caps.atomic_write_bytes)
            && bytes.is_power_of_two()
            && (w.lbas[0] * 512).is_multiple_of(bytes)
            && !is_remap(w)
    }

    /// For each sector of `w`, the number of its granule.
    fn granules(&self, w: &Wr) -> Vec<u64> {
        let bytes = u64::from(self.promise(w).unwrap_or(512));
        let by = |lba: &u64| match self.is_atomic(w) || is_remap(w) {
            true => 0,
            false => lba * 512 / bytes,
        };
        w.lbas.iter().map(by).collect()
    }

    /// All fates that the `i`-th write may have by itself.
    fn choices(&self, came: &[Wr], i: usize) -> Vec<Vec<Is>> {
        let w = &came[i];
        let granules = self.granules(w);
        let promised = self.promise(w).is_some() || self.is_atomic(w);
        let mut all: Vec<Vec<Is>> = vec![Vec::new()];
        for s in 0..w.lbas.len() {
            let mut longer = Vec::new();
            for so_far in &all {
                for is in [Is::Absent, Is::There, Is::Torn] {
                    let torn_granule =
                        s > 0 && granules[s] == granules[s - 1] && is != so_far[s - 1];
                    let may_be_torn = is == Is::Torn && promised;
                    let protected = is == Is::Torn && self.protected(came, i, w.lbas[s]);
                    let illegal = (torn_granule && promised) || may_be_torn || protected;
                    if !illegal {
                        longer.push([&so_far[..], &[is]].concat());
                    }
                }
            }
            all = longer;
        }
        all
    }

    /// True if whatever lies below a FUA write with a promise must be whole there.
    fn protected(&self, came: &[Wr], i: usize, lba: u64) -> bool {
        self.caps.reliable_granule.is_some()
            && came[i + 1..]
                .iter()
                .any(|w| w.kind == Kind::Fua && covers(w, lba))
    }

    /// Adds the state, if no barrier forbids it.
    fn judge(&self, came: &[Wr], a: &Assignment, out: &mut BTreeSet<State>) {
        for event in &self.events {
            let Event::Barrier { start, end } = event else {
                continue;
            };
            if *start >= self.cut {
                continue;
            }
            let cached = |w: &Wr| is_cached(w) && !self.durable(w);
            let touched = came
                .iter()
                .zip(a)
                .any(|(w, is)| cached(w) && w.start >= *end && is.iter().any(|i| *i != Is::Absent));
            for lba in FIRST..FIRST + SHOWN as u64 {
                let before = |w: &Wr| cached(w) && w.end <= *start && covers(w, lba);
                let due = came.iter().zip(a).rfind(|(w, _)| before(w));
                if let Some((w, is)) = due
                    && touched
                    && is[at(w, lba)] != Is::There
                {
                    return;
                }
            }
        }
        out.insert(self.content(came, a));
    }

    fn content(&self, came: &[Wr], a: &Assignment) -> State {
        let mut state = vec![OLD; SHOWN];
        for (w, is) in came.iter().zip(a) {
            for (s, is) in is.iter().enumerate() {
                let at = (w.lbas[s] - FIRST) as usize;
                match is {
                    Is::Absent => {}
                    Is::There => state[at] = w.fills[s],
                    Is::Torn => state[at] = GARBAGE,
                }
            }
        }
        state
    }

    /// Simulates a cache that writes back in order of arrival: at any moment it may bring some more
    /// of its oldest write to the medium; a granule that is replaced as a whole leaves the cache. A
    /// write in flight at the cut may not have arrived yet.
    fn fifo(
        &self,
        came: &[Wr],
        sure: &dyn Fn(&Wr) -> bool,
        arrived: &dyn Fn(&Wr) -> bool,
        out: &mut BTreeSet<State>,
    ) {
        let cached = |w: &Wr| is_cached(w) && !sure(w);
        let others: Vec<Vec<Vec<Is>>> = (0..came.len())
            .map(|i| match (cached(&came[i]), sure(&came[i])) {
                (true, _) => vec![vec![Is::Absent; came[i].lbas.len()]],
                (_, true) => vec![vec![Is::There; came[i].lbas.len()]],
                _ => self.choices(came, i),
            })
            .collect();
        let mut caches: BTreeSet<Vec<(usize, u64, u8)>> = BTreeSet::new();
        let in_order = self.caps.packed.map(|p| p.order) == Some(PackOrder::Prefix);
        for order in orders(came, in_order) {
            let mut play = Play {
                history: self,
                came,
                order: &order,
                cached: &cached,
                arrived,
                out: &mut caches,
            };
            play.step(0, &mut Vec::new(), &mut Vec::new());
        }
        for cache in caches {
            for_all(&others, &mut |a| {
                let mut a = a.clone();
                for (i, lba, torn) in &cache {
                    let is = if *torn == 1 { Is::Torn } else { Is::There };
                    a[*i][at(&came[*i], *lba)] = is;
                }
                self.judge(came, &a, out);
            });
        }
    }
}

/// A granule in the cache: its write, its sectors.
type Line = (usize, Vec<u64>);

struct Play<'a> {
    history: &'a History,
    came: &'a [Wr],
    order: &'a [usize],
    cached: &'a dyn Fn(&Wr) -> bool,
    /// Whether a write must have arrived before the cut.
    arrived: &'a dyn Fn(&Wr) -> bool,
    /// What cached writes may have on the medium: (write, sector, torn or not).
    out: &'a mut BTreeSet<Vec<(usize, u64, u8)>>,
}

impl Play<'_> {
    /// `arrived` have come; `cache` holds lines in order; `medium` is what was written back.
    fn step(&mut self, arrived: usize, cache: &mut Vec<Line>, medium: &mut Vec<(usize, u64, u8)>) {
        // Some more of the oldest write is written back.
        let oldest = cache.first().map(|line| line.0);
        for n in 0..cache.len() {
            if Some(cache[n].0) != oldest {
                break;
            }
            let line = cache.remove(n);
            let before = medium.len();
            medium.extend(line.1.iter().map(|lba| (line.0, *lba, 0)));
            self.step(arrived, cache, medium);
            medium.truncate(before);
            cache.insert(n, line);
        }
        let mut rest = self.order[arrived..].iter();
        if !rest.any(|i| (self.arrived)(&self.came[*i])) {
            self.end(cache, medium);
        }
        if arrived == self.order.len() {
            return;
        }
        // Or the next write comes.
        let i = self.order[arrived];
        let here = &self.order[..=arrived];
        let replaced = |line: &Line| {
            let by = |lba: &u64| {
                here.iter()
                    .any(|j| *j > line.0 && covers(&self.came[*j], *lba))
            };
            line.1.iter().all(by)
        };
        let mut next: Vec<Line> = cache
            .iter()
            .filter(|line| !replaced(line))
            .cloned()
            .collect();
        let w = &self.came[i];
        if (self.cached)(w) {
            let granules = self.history.granules(w);
            let mut lines: Vec<(u64, Line)> = Vec::new();
            for (s, granule) in granules.into_iter().enumerate() {
                let lba = w.lbas[s];
                match lines.last_mut() {
                    Some((last, line)) if *last == granule => line.1.push(lba),
                    _ => lines.push((granule, (i, vec![lba]))),
                }
            }
            next.extend(lines.into_iter().map(|(_, line)| line));
        }
        self.step(arrived + 1, &mut next, medium);
    }

    /// The cut: sectors of the oldest write may be torn.
    fn end(&mut self, cache: &[Line], medium: &[(usize, u64, u8)]) {
        let Some(oldest) = cache.first().map(|line| line.0) else {
            self.add(medium.to_vec());
            return;
        };
        let w = &self.came[oldest];
        let promised = self.history.promise(w).is_some() || self.history.is_atomic(w);
        let open: Vec<u64> = cache
            .iter()
            .filter(|line| line.0 == oldest && !promised)
            .flat_map(|line| line.1.clone())
            .filter(|lba| !self.history.protected(self.came, oldest, *lba))
            .collect();
        for torn in 0..1_u32 << open.len() {
            let bits = open.iter().enumerate().filter(|(n, _)| torn >> n & 1 == 1);
            let torn = bits.map(|(_, lba)| (oldest, *lba, 1));
            self.add(medium.iter().copied().chain(torn).collect());
        }
    }

    fn add(&mut self, mut state: Vec<(usize, u64, u8)>) {
        state.sort_unstable();
        self.out.insert(state);
    }
}

/// All orders in which writes may arrive at the card: a write that was complete before another
/// began arrives before it, and the entries of a pack arrive in their order, if packs have one.
fn orders(came: &[Wr], in_order: bool) -> Vec<Vec<usize>> {
    let before = |a: usize, b: usize| {
        let same_pack = matches!((came[a].pack, came[b].pack), (Some(x), Some(y)) if x.0 == y.0);
        came[a].end <= came[b].start || (in_order && same_pack && a < b)
    };
    let mut out = vec![Vec::new()];
    for _ in 0..came.len() {
        let mut longer = Vec::new();
        for order in &out {
            for next in (0..came.len()).filter(|n| !order.contains(n)) {
                let due = |n: usize| !order.contains(&n) && n != next && before(n, next);
                if !(0..came.len()).any(due) {
                    longer.push([&order[..], &[next]].concat());
                }
            }
        }
        out = longer;
    }
    out
}

fn for_all(choices: &[Vec<Vec<Is>>], f: &mut dyn FnMut(&Assignment)) {
    let mut at = vec![0; choices.len()];
    loop {
        let a = at.iter().zip(choices).map(|(n, c)| c[*n].clone()).collect();
        f(&a);
        let Some(i) = (0..at.len()).find(|i| at[*i] + 1 < choices[*i].len()) else {
            return;
        };
        at[i] += 1;
        at[..i].fill(0);
    }
}

fn covers(w: &Wr, lba: u64) -> bool {
    w.lbas.contains(&lba)
}

/// The place of a sector among those of its write.
fn at(w: &Wr, lba: u64) -> usize {
    w.lbas.iter().position(|l| *l == lba).expect("it covers it")
}

fn is_remap(w: &Wr) -> bool {
    matches!(w.kind, Kind::Remap { .. })
}

fn is_cached(w: &Wr) -> bool {
    matches!(w.kind, Kind::Normal | Kind::Remap { durable: false })
}

/// A REMAP of what the sectors hold `now`.
fn remap(event: &Event, now: &[u8]) -> Wr {
    let Event::Remap {
        start,
        end,
        fua,
        moves,
        pairs,
    } = event
    else {
        unreachable!("asked for a REMAP");
    };
    let mut wr = Wr {
        start: *start,
        end: *end,
        kind: Kind::Remap { durable: *fua },
        runs: Vec::new(),
        lbas: Vec::new(),
        fills: Vec::new(),
        pack: None,
    };
    for (home, src, n) in pairs {
        wr.runs.push((*home, *n));
        wr.lbas.extend(*home..home + n);
        wr.fills.extend(&now[*src as usize..(src + n) as usize]);
    }
    for (_, src, n) in pairs.iter().filter(|_| *moves) {
        for lba in (*src..src + n)
            .filter(|lba| !wr.lbas.contains(lba))
            .collect::<Vec<_>>()
        {
            wr.runs.push((lba, 1));
            wr.lbas.push(lba);
            wr.fills.push(0);
        }
    }
    wr
}

fn span(event: &Event) -> (u64, u64) {
    match event {
        Event::Write { start, end, .. }
        | Event::Pack { start, end, .. }
        | Event::Remap { start, end, .. }
        | Event::Flush { start, end }
        | Event::Barrier { start, end } => (*start, *end),
    }
}

/// Makes a write visible: the parts of a REMAP, or the one write.
fn put(visible: &mut [Bytes; 2], w: &Wr) -> Vec<Write> {
    let mut fills = &w.fills[..];
    let mut part = |(lba, sectors): &(u64, u64)| {
        let (mine, rest) = fills.split_at(*sectors as usize);
        fills = rest;
        put_run(visible, w, *lba, mine)
    };
    w.runs.iter().map(&mut part).collect()
}

fn put_run(visible: &mut [Bytes; 2], w: &Wr, first: u64, fills: &[u8]) -> Write {
    let sectors = fills.len() as u64;
    let blocks = first / SECTORS_PER_BLOCK..(first + sectors).div_ceil(SECTORS_PER_BLOCK);
    let prev = blocks.map(|b| (b, visible[b as usize].clone())).collect();
    for (lba, fill) in (first..).zip(fills) {
        let block = &mut visible[(lba / SECTORS_PER_BLOCK) as usize];
        let mut bytes = block.to_vec();
        let from = (lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
        bytes[from..from + SECTOR_BYTES].fill(*fill);
        *block = bytes.into();
    }
    let discards = w.kind == Kind::Discard || (is_remap(w) && fills.iter().all(|f| *f == 0));
    let new = fills.iter().map(|fill| vec![*fill; SECTOR_BYTES].into());
    Write {
        start: Time(w.start),
        end: Time(w.end),
        kind: w.kind,
        lba: Lba(first),
        sectors,
        new: new.filter(|_| !discards).collect(),
        prev,
    }
}
