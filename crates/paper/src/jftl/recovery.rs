//! The job of section 3.2: it writes a log that no checkpoint has emptied, cuts the power, and
//! measures the mount that recovers it. A scheme that copies has brought nothing home by then; one
//! that remaps has remapped already, and the recovery does it again.

use crate::PaperError;
use base::Nanos;
use base::SECTOR_BYTES;
use crash::cuts::switched_off;
use report::metrics::round;
use rig::{Config, Media};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfs::OpenFlags;
use work::RunConfig;
use work::RunError;
use work::life::live;
use work::run::sync_home;

/// How long a log to write, and with which scheme to recover it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecoveryJob {
    /// The stack that writes the log; its workload is not run.
    pub run: RunConfig,
    /// Blocks of file content in the log.
    pub blocks: u64,
    /// The scheme that recovers the log.
    pub by: String,
}

/// What the recovery took.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recovered {
    /// Duration of the whole mount, virtual milliseconds.
    pub mount_ms: f64,
    /// Duration of a mount of the same volume after a clean unmount, virtual milliseconds.
    pub clean_mount_ms: f64,
    /// Transactions that recovery found in the log.
    pub transactions: u64,
    /// Blocks that recovery brought home.
    pub blocks: u64,
    /// KiB read during the mount.
    pub kib_read: u64,
    /// KiB written during the mount.
    pub kib_written: u64,
    /// REMAP commands during the mount.
    pub remaps: u64,
    /// Pages programmed during the mount.
    pub programs: u64,
    /// Duration of each step, virtual milliseconds.
    pub steps_ms: BTreeMap<String, f64>,
}

impl Recovered {
    /// What the cut adds to a mount, virtual milliseconds.
    pub fn recovery_ms(&self) -> f64 {
        self.mount_ms - self.clean_mount_ms
    }
}

/// Blocks logged by one transaction.
const TRANSACTION: u64 = 128;
const FILE: &str = "/file";

fn content(block: u64) -> Vec<u8> {
    let stamp = (block + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .to_le_bytes();
    stamp.repeat(base::BLOCK_BYTES / stamp.len())
}

impl RecoveryJob {
    /// Writes the log, cuts the power, recovers, and reads the file back.
    ///
    /// # Errors
    /// A run fails, or the file is not as it was written.
    pub fn run(&self) -> Result<Recovered, PaperError> {
        let media = self.logged()?;
        let mut config = self.run.clone();
        config.stack.set_scheme(&self.by)?;
        let (mut found, rest) = self.recover(&config, media)?;
        let model = config.stack.attach(rest)?;
        let clean = live(&config, model, |stack, _| {
            match stack.fs.journal_recovery() {
                None => Ok(stack.mount_took),
                Some(_) => Err(RunError::Check(
                    "a volume that was unmounted needs recovery".into(),
                )),
            }
        })?;
        found.clean_mount_ms = ms(clean.value);
        Ok(found)
    }

    /// What a cut leaves once all blocks are committed.
    fn logged(&self) -> Result<Media, PaperError> {
        let model = self.run.stack.format()?;
        let life = live(&self.run, model, |stack, _| {
            let flags = OpenFlags::WRITE | OpenFlags::CREATE;
            let file = stack.vfs.open(FILE, flags, 0o644)?;
            // All that was there before is home, so the log has the content of the file alone.
            sync_home(stack)?;
            for block in 0..self.blocks {
                file.write_at(block * base::BLOCK_BYTES as u64, &content(block))?;
                if (block + 1).is_multiple_of(TRANSACTION) {
                    file.fsync()?;
                }
            }
            file.fsync()?;
            file.close()?;
            let media = stack.device.snapshot(self.run.seed);
            media.ok_or_else(|| RunError::Check("the power is off".into()))
        })?;
        Ok(life.value)
    }

    fn recover(&self, config: &RunConfig, media: Media) -> Result<(Recovered, Media), PaperError> {
        let model = config.stack.attach(media)?;
        let life = live(config, model, |stack, _| {
            let queue = stack.queue.stats();
            let device = stack.device.device_stats().unwrap_or_default();
            let flash = stack.device.flash_stats().unwrap_or_default();
            let kib = |sectors: u64| sectors * SECTOR_BYTES as u64 / 1024;
            let mut found = Recovered {
                mount_ms: ms(stack.mount_took),
                kib_read: kib(queue.sectors_read),
                kib_written: kib(queue.sectors_written.values().sum()),
                remaps: device.remaps,
                // An attached device counts from its first command on: what it does for itself
                // before that is counted until then, and taken back.
                programs: flash.programs,
                ..Recovered::default()
            };
            let Some(report) = stack.fs.journal_recovery() else {
                return Err(RunError::Check("there is nothing to recover".into()));
            };
            (found.transactions, found.blocks) = (report.transactions, report.blocks_replayed);
            let steps = report.spans.each().into_iter();
            found.steps_ms = steps
                .map(|(step, span)| (step.to_string(), ms(span)))
                .collect();
            let file = stack.vfs.open(FILE, OpenFlags::READ, 0)?;
            let mut read = vec![0; base::BLOCK_BYTES];
            for block in 0..self.blocks {
                file.read_at(block * base::BLOCK_BYTES as u64, &mut read)?;
                if read != content(block) {
                    return Err(RunError::Check(format!(
                        "block {block} of the file is not as it was written"
                    )));
                }
            }
            file.close()?;
            Ok((found, rt::now()))
        })?;
        let (found, at) = life.value;
        Ok((found, switched_off(life.model, at)))
    }
}

fn ms(span: Nanos) -> f64 {
    round(span.0 as f64 / 1e6)
}

/// `stack` with a log that holds everything, and without timers.
pub fn untimed(mut stack: Config, journal_mib: u32) -> Config {
    stack.timers = false;
    stack.journal_blocks = Some(journal_mib << 8);
    stack
}
