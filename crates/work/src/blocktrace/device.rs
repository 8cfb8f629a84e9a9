//! Runs a recording of block requests on a device profile, in the virtual time of the device.
//!
//! - P1: in the open loop (`recorded`) a request is due at its recorded time, whatever else is
//!   under way, and its latency is from then to its completion. In the closed loop a fixed number
//!   of requests is under way: one goes when another completes.
//! - P2: before the run all sectors that the recording may touch ([`Folder::used`]; with
//!   `fold=modulo` these are all of the device) are written once, in order, and flushed (unless
//!   [`Fill`] says otherwise), so that reads read flash. Then the requests before the recording's
//!   own mark ([`BlockTrace::preparing`]) run, one after another. Nothing of this is in any figure.
//! - P3: a read or write longer than a command of the device is sent as several at once and ends
//!   with the last of them; a discard is one command whatever its length. A request that passes the
//!   end of the device is two (fold-F2). Where a read or write is no whole sectors of the device,
//!   it is rounded outwards; a discard is rounded inwards, so that nothing goes but what the
//!   recording gave up.
//! - P4: a FUA write on a device without FUA is a write and a flush. The flush goes when the write
//!   has completed, and the model cannot go back in time, so requests that are due in between wait
//!   until then, in spite of P1. A discard on a device without discards is left out, and so is one
//!   of which no whole sector has a place. Both are counted.

use super::counting::Fill;
use super::fold::{Fold, Folder, Footprint};
use super::{BlockTrace, Op, Request};
use crate::RunError;
use base::{Bytes, Lba, Nanos, Rng, SECTOR_BYTES, Time};
use report::metrics::{Latencies, LatencySummary, round};
use rig::{
    AnyModel, Class, DeviceStats, FlashStats, Model, Op as DevOp, Piece, Profile, Request as Sent,
    RigError,
};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::str::FromStr;

/// When requests go to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At their recorded times.
    Recorded,
    /// As many requests as this are under way at any time.
    Closed(u32),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Recorded => f.write_str("recorded"),
            Pace::Closed(1) => f.write_str("none"),
            Pace::Closed(n) => write!(f, "none:{n}"),
        }
    }
}

impl FromStr for Pace {
    type Err = String;
    fn from_str(text: &str) -> Result<Pace, String> {
        let known = "there is: recorded, none, none:N with N requests under way (1 to 1024)";
        let depth = match text {
            "recorded" => return Ok(Pace::Recorded),
            "none" => Some(1),
            _ => text.strip_prefix("none:").and_then(|n| n.parse().ok()),
        };
        match depth {
            Some(n @ 1..=1024) => Ok(Pace::Closed(n)),
            _ => Err(format!("pace `{text}`; {known}")),
        }
    }
}

/// What one run of [`run`] is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceSpec {
    /// Name of the device profile, with changes behind it.
    pub profile: String,
    /// Timing set; `None`: the profile's own.
    pub timing: Option<String>,
    /// Size of the device, bytes.
    pub bytes: u64,
    /// When requests go to the device.
    pub pace: Pace,
    /// How addresses are folded.
    pub fold: Fold,
    /// What is written before (P2).
    pub fill: Fill,
    /// How often the recording runs.
    pub passes: u32,
}

/// The figures of one run: of all passes, without what came before (P2).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceRun {
    /// Name of the device profile, with changes behind it.
    pub profile: String,
    /// Timing set that the run used.
    pub timing: String,
    /// Size of the device, bytes.
    pub bytes: u64,
    /// See [`Pace`].
    pub pace: String,
    /// Requests of the recording.
    pub requests: u64,
    /// From the first request to the last completion, virtual seconds.
    pub seconds: f64,
    /// Requests a virtual second.
    pub requests_per_s: f64,
    /// Sectors read and written, MiB a virtual second.
    pub mib_per_s: f64,
    /// Most requests under way at once.
    pub depth_max: u64,
    /// Latencies in virtual microseconds, by kind of request.
    pub latency_us: BTreeMap<&'static str, LatencySummary>,
    /// Commands of the device.
    pub commands: DeviceStats,
    /// What happened on the flash; absent for a device without flash.
    pub flash: Option<FlashStats>,
    /// Bytes programmed over bytes that the host wrote to the flash.
    pub write_amplification: Option<f64>,
    /// FUA writes that became a write and a flush.
    pub fua_by_flush: u64,
    /// Discards that were left out, as the device has none or no whole sector of them has a place.
    pub discards_left_out: u64,
}

/// Length of the noise that every write takes its bytes from: content decides nothing here.
const NOISE_BYTES: usize = 1 << 20;

struct Runner<'a> {
    model: AnyModel,
    folder: Folder<'a>,
    noise: Bytes,
    now: Time,
    /// Sectors of the smallest write, and of the longest command of the device.
    unit: u64,
    longest: u64,
    /// Completions of requests that are under way.
    open: BinaryHeap<Reverse<u64>>,
    depth_max: u64,
    fua_by_flush: u64,
    discards_left_out: u64,
    last: Time,
}

/// Runs `trace` on a device.
///
/// # Errors
/// An unknown profile or timing set, a size that the profile does not take, or a command that the
/// device fails.
pub fn run(
    trace: &BlockTrace,
    footprint: &Footprint,
    spec: &DeviceSpec,
) -> Result<DeviceRun, RunError> {
    let mut profile = Profile::open(&spec.profile).map_err(RigError::from)?;
    if let Some(timing) = &spec.timing {
        profile = profile.with_timing(timing).map_err(RigError::from)?;
    }
    let model = profile.build(Some(spec.bytes), None);
    let model = model.map_err(RigError::from)?;
    let mut runner = Runner::new(model, footprint, spec.fold);
    runner.fill(spec.fill)?;
    let (before, after) = trace.requests.split_at(trace.preparing);
    let mut latencies = BTreeMap::new();
    runner.requests(before, Pace::Closed(1), &mut latencies)?;
    runner.settle();
    let (began, commands) = (runner.now, runner.model.device_stats());
    let flash = runner.model.flash_stats();
    latencies.clear();
    (
        runner.depth_max,
        runner.fua_by_flush,
        runner.discards_left_out,
    ) = (0, 0, 0);
    for _ in 0..spec.passes {
        runner.requests(after, spec.pace, &mut latencies)?;
        runner.settle();
    }
    let requests = after.len() as u64 * u64::from(spec.passes);
    let seconds = (runner.last.0.saturating_sub(began.0)).max(1) as f64 / 1e9;
    let moved: u64 = after
        .iter()
        .filter(|r| matches!(r.op, Op::Read | Op::Write))
        .map(|r| u64::from(r.sectors))
        .sum::<u64>()
        * u64::from(spec.passes);
    let flash = runner
        .model
        .flash_stats()
        .zip(flash)
        .map(|(now, then)| now.since(&then));
    let amplification = flash.as_ref().filter(|f| f.host_pages > 0).map(|f| {
        let programmed = f.programs as f64 * f64::from(f.page_bytes);
        round(programmed / (f.host_pages as f64 * 4096.0))
    });
    Ok(DeviceRun {
        profile: spec.profile.clone(),
        timing: profile.timing().into(),
        bytes: spec.bytes,
        pace: spec.pace.to_string(),
        requests,
        seconds: round(seconds),
        requests_per_s: round(requests as f64 / seconds),
        mib_per_s: round(moved as f64 / 2048.0 / seconds),
        depth_max: runner.depth_max,
        latency_us: latencies
            .iter()
            .map(|(kind, all): (&&'static str, &Latencies)| (*kind, all.summary()))
            .collect(),
        commands: runner.model.device_stats().since(&commands),
        flash,
        write_amplification: amplification,
        fua_by_flush: runner.fua_by_flush,
        discards_left_out: runner.discards_left_out,
    })
}

impl<'a> Runner<'a> {
    fn new(model: AnyModel, footprint: &'a Footprint, fold: Fold) -> Runner<'a> {
        let caps = model.caps();
        let unit = (u64::from(caps.sector_bytes) / SECTOR_BYTES as u64).max(1);
        let most = caps
            .max_transfer_sectors
            .min((NOISE_BYTES / SECTOR_BYTES) as u64);
        let sectors = caps.sectors / unit * unit;
        let mut noise = vec![0; NOISE_BYTES];
        Rng::named(1, "block trace").fill(&mut noise);
        Runner {
            folder: Folder::new(footprint, fold, sectors),
            model,
            noise: noise.into(),
            now: Time(0),
            unit,
            longest: (most / unit * unit).max(unit),
            open: BinaryHeap::new(),
            depth_max: 0,
            fua_by_flush: 0,
            discards_left_out: 0,
            last: Time(0),
        }
    }

    /// Writes what P2 asks for, and flushes.
    fn fill(&mut self, fill: Fill) -> Result<(), RunError> {
        let used = match fill {
            Fill::None => return Ok(()),
            Fill::Footprint => self.folder.used().next_multiple_of(self.unit),
            Fill::All => self.model.caps().sectors / self.unit * self.unit,
        };
        let mut at = 0;
        while at < used {
            let n = self.longest.min(used - at);
            self.now = self.send(Op::Write, at, n, false)?;
            at += n;
        }
        self.now = self.command(Sent::flush())?;
        Ok(())
    }

    /// Waits until nothing is under way.
    fn settle(&mut self) {
        let end = self.open.drain().map(|Reverse(end)| end).max();
        self.now = Time(self.now.0.max(end.unwrap_or(0)));
        self.last = self.last.max(self.now);
    }

    fn requests(
        &mut self,
        requests: &[Request],
        pace: Pace,
        latencies: &mut BTreeMap<&'static str, Latencies>,
    ) -> Result<(), RunError> {
        let begin = self.now.0;
        let first = requests.first().map_or(0, |r| r.at);
        for r in requests {
            let due = match pace {
                Pace::Recorded => begin + (r.at - first.min(r.at)),
                Pace::Closed(depth) => match self.open.len() < depth as usize {
                    true => self.now.0,
                    false => self.open.peek().map_or(self.now.0, |next| next.0),
                },
            };
            self.now = Time(self.now.0.max(due));
            let begun = match pace {
                Pace::Recorded => Time(due),
                Pace::Closed(_) => self.now,
            };
            while self.open.peek().is_some_and(|next| next.0 <= self.now.0) {
                self.open.pop();
            }
            let Some(end) = self.request(r)? else {
                continue;
            };
            self.open.push(Reverse(end.0));
            self.depth_max = self.depth_max.max(self.open.len() as u64);
            self.last = self.last.max(end);
            let span = Nanos(end.0.saturating_sub(begun.0));
            latencies.entry(r.op.word()).or_default().add(span);
        }
        Ok(())
    }

    /// Sends a request (P3, P4) and answers when its last command completes; `None`: it was left
    /// out, as the device cannot do it.
    fn request(&mut self, r: &Request) -> Result<Option<Time>, RunError> {
        let (fua, discard) = (self.model.caps().fua, self.model.caps().discard);
        if r.op == Op::Flush {
            return self.command(Sent::flush()).map(Some);
        }
        if r.op == Op::Discard && !discard {
            self.discards_left_out += 1;
            return Ok(None);
        }
        let mut parts: Vec<(u64, u64)> = Vec::with_capacity(2);
        self.folder.place(r, |at, n| parts.push((at, n)));
        let mut end = None;
        for (at, n) in parts {
            let (mut at, to) = self.whole_sectors(r.op, at, n);
            while at < to {
                let n = match r.op {
                    Op::Discard => to - at,
                    _ => self.longest.min(to - at),
                };
                end = end.max(Some(self.send(r.op, at, n, r.fua && fua)?));
                at += n;
            }
        }
        if r.fua && !fua && end.is_some() {
            self.fua_by_flush += 1;
            // The flush is sent when the write has completed.
            let (now, written) = (self.now, end.unwrap_or(self.now));
            self.now = written;
            let flushed = self.command(Sent::flush())?;
            // The clock of the model only goes forward.
            self.now = now.max(written);
            return Ok(Some(flushed));
        }
        self.discards_left_out += u64::from(r.op == Op::Discard && end.is_none());
        Ok(end)
    }

    /// Begin and end of a part in whole sectors of the device (P3).
    fn whole_sectors(&self, op: Op, at: u64, n: u64) -> (u64, u64) {
        let (unit, end) = (self.unit, at + n);
        match op {
            Op::Discard => (at.next_multiple_of(unit), end / unit * unit),
            _ => (at / unit * unit, end.next_multiple_of(unit)),
        }
    }

    fn send(&mut self, op: Op, sector: u64, sectors: u64, fua: bool) -> Result<Time, RunError> {
        let lba = Lba(sector);
        let request = match op {
            Op::Read => Sent::read(lba, sectors),
            Op::Discard => Sent::discard(lba, sectors),
            Op::Flush => Sent::flush(),
            Op::Write => Sent {
                op: DevOp::Write {
                    lba,
                    pieces: vec![Piece {
                        class: Class::Data,
                        bytes: self.noise.slice(..sectors as usize * SECTOR_BYTES),
                    }],
                    fua,
                },
            },
        };
        self.command(request)
    }

    fn command(&mut self, request: Sent) -> Result<Time, RunError> {
        let done = self.model.execute(self.now, request);
        match done.result {
            Ok(_) => Ok(done.at),
            Err(e) => Err(RunError::Check(format!("the device fails a command: {e}"))),
        }
    }
}
