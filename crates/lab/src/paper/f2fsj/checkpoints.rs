//! The job of section 2.3: operations on names, the time of each, and the checkpoints among them.

use crate::life::{directly, live_in};
use crate::metrics::round;
use crate::workload::Workload;
use crate::{RunConfig, RunError};
use base::Nanos;
use rt::SimConfig;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckpointJob {
    /// F2FS, and a `meta:` workload.
    pub run: RunConfig,
    /// CPU costs in percent of the table.
    pub cpu_percent: u32,
}

/// What came of it. Times are virtual.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checkpointed {
    /// Operations.
    pub ops: u64,
    /// From the first operation to the end of the last.
    pub seconds: f64,
    /// Checkpoints in that time.
    pub checkpoints: u64,
    /// Part of the time in which a checkpoint kept operations out or was being written.
    pub share: f64,
    /// Longest operation, ms.
    pub worst_ms: f64,
    /// Median operation, microseconds.
    pub median_us: f64,
    /// Nine in ten of the operations that met a checkpoint were faster, ms; as many as there were checkpoints count as having met one,
    /// the slowest.
    pub p90_ms: f64,
}

impl CheckpointJob {
    /// Runs it.
    ///
    /// # Errors
    /// A run fails; the workload is no benchmark.
    pub fn run(&self) -> Result<Checkpointed, RunError> {
        let workload: Workload = self.run.workload.parse()?;
        let Workload::Bench(spec) = workload else {
            return Err(RunError::Check(format!(
                "{} is no benchmark",
                self.run.workload
            )));
        };
        let model = self.run.stack.format()?;
        let sim = SimConfig {
            cpu_percent: self.cpu_percent,
            ..SimConfig::seeded(self.run.seed)
        };
        let life = live_in(sim, &self.run, (model, &directly), |stack, _| {
            let fs = stack
                .fs
                .f2fs()
                .ok_or_else(|| RunError::Check("this is about F2FS".into()))?;
            let mut bench = spec.on(&stack.vfs, self.run.seed);
            bench.prepare(&|| Ok(stack.vfs.sync()?))?;
            let before = fs.checkpoints();
            let start = rt::now();
            let mut spans: Vec<Nanos> = Vec::new();
            bench.run(&|| Ok(()), &mut |_, took| spans.push(took))?;
            let all = rt::now() - start;
            let after = fs.checkpoints();
            bench.check()?;
            let inside = |s: &rig::CheckpointStats| s.time.values().map(|t| t.0).sum::<u64>();
            Ok(summed(
                &mut spans,
                all,
                after.packs() - before.packs(),
                Nanos(inside(&after) - inside(&before)),
            ))
        })?;
        Ok(life.value)
    }
}

fn summed(spans: &mut [Nanos], all: Nanos, checkpoints: u64, inside: Nanos) -> Checkpointed {
    spans.sort_unstable();
    let met = &spans[spans.len() - (checkpoints as usize).min(spans.len())..];
    let ms = |t: Option<&Nanos>| t.map_or(0.0, |t| round(t.0 as f64 / 1e6));
    Checkpointed {
        ops: spans.len() as u64,
        seconds: round(all.0 as f64 / 1e9),
        checkpoints,
        share: round(inside.0 as f64 / all.0.max(1) as f64),
        worst_ms: ms(spans.last()),
        median_us: spans
            .get(spans.len() / 2)
            .map_or(0.0, |t| round(t.0 as f64 / 1e3)),
        p90_ms: ms(met.get(met.len() * 9 / 10).or(met.last())),
    }
}
