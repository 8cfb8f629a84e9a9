//! The configuration of a stack: one value that says what to build.

use crate::{FreshVolume, MountOptions, RigError, Scheme, Writeback};
use base::{BLOCK_BYTES, Nanos, Rng};
use block::Scheduler;
use blockdev::Model;
use ctrl::{AnyModel, Media, Profile};
use ext4::DataMode;
use ext4::mkfs::{self, FastCommitArea, JournalSize, MkfsError, MkfsOptions};
use f2fs::mkfs::JournalSize as F2fsJournal;
use journal::Preset;
use serde::{Deserialize, Serialize};
use vfs::WritebackPolicy;

/// Time of creation of the volumes of a configuration: the start of 2024.
const MADE_AT: rt::WallTime = rt::WallTime {
    secs: 1_704_067_200,
    nanos: 0,
};

base::words! {
    /// A kind of file system.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fs: "file system" {
        /// ext4, with the features of `mke2fs -t ext4`.
        Ext4 => "ext4",
        /// ext3, with the features of `mke2fs -t ext3`: block maps, a log of descriptor tags
        /// without checksums.
        Ext3 => "ext3",
        /// F2FS, with the features of `mkfs.f2fs`.
        F2fs => "f2fs",
    }
}

/// What to build. Equal values build identical stacks, to the bit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Kind of file system.
    pub fs: Fs,
    /// Journaling scheme.
    pub scheme: Scheme,
    /// Device profile with changes, built in or a file, as [`Profile::open`] reads it.
    pub device: String,
    /// Timing set of the profile; `None`: its default.
    pub timing: Option<String>,
    /// Size of the device and the file system, bytes.
    pub bytes: u64,
    /// Bytes of a block of ext4 and ext3: a power of two from 1024 to 65536; `None`: 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Blocks of a group of ext4 and ext3; `None`: as many as there can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_per_group: Option<u32>,
    /// Bytes of an inode of ext4 and ext3; `None`: 256. Times of one of 128 bytes have whole
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode_bytes: Option<u32>,
    /// Directories may compare names without regard to case (feature `casefold`); none does until
    /// its flag is set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub casefold: bool,
    /// Bytes of a cluster of ext4 (feature `bigalloc`); `None`: blocks are allocated one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_bytes: Option<u32>,
    /// Size of the journal, blocks; `None`: as `mke2fs` would choose.
    pub journal_blocks: Option<u32>,
    /// How data relates to the journal.
    pub data: Data,
    /// MiB of memory that hold pages and nodes; `None`: 64, the default of both file systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_mib: Option<u32>,
    /// MiB of memory of the host. The flusher's limits are a tenth and a fifth of it, as in Linux,
    /// divided by [`shorter`](Self::shorter), as a run that stands for a longer one makes as much
    /// less dirty. `None`: 1024, whatever the length of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_mib: Option<u32>,
    /// I/O scheduler in front of the device; `None`: [`Scheduler::None`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// When the host writes back what has changed; `None`: [`Writeback::LINUX`], except that
    /// metadata goes home at the very moment at which it is old enough, and not when the flusher
    /// next looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writeback: Option<Writeback>,
    /// Commit timer and write-back timers run as in Linux; without them only syncs and lack of
    /// space write.
    pub timers: bool,
    /// The intervals of these timers are divided by this, for a run that stands for one that is so
    /// many times as long; `None`: 1. It scales what one waits for in seconds (checkpoints,
    /// commits, the age of dirty pages and how often the flusher looks). Counts stay, but for the
    /// NAT entries from which on operations of F2FS look at the triggers: these are a share of all
    /// objects, and with it of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shorter: Option<u32>,
    /// Seeds the UUID and hash seed of the file system and the choices of the device.
    pub seed: u64,
}

base::words! {
    /// [`DataMode`] in a configuration.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Data: "data mode" {
        /// File data is written before the commit that maps it.
        #[default]
        Ordered => "ordered",
        /// File data is written in no order to commits.
        Writeback => "writeback",
        /// File data is written through the journal.
        Journal => "journal",
    }
}

impl From<Data> for DataMode {
    fn from(data: Data) -> DataMode {
        match data {
            Data::Ordered => DataMode::Ordered,
            Data::Writeback => DataMode::Writeback,
            Data::Journal => DataMode::Journal,
        }
    }
}

/// The bytes that `cluster=` asks for.
fn cluster_bytes(item: &str) -> Result<u32, RigError> {
    let text = item.trim_start_matches("cluster=");
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    let number = number.parse::<u32>().ok();
    let bytes = number.and_then(|n| n.checked_mul(unit));
    bytes.ok_or_else(|| RigError::Cluster { text: text.into() })
}

/// UUID and hash seed of file systems made with this seed.
pub fn identity(seed: u64) -> ([u8; 16], [u8; 16]) {
    let mut rng = Rng::named(seed, "mkfs");
    let (mut uuid, mut hash_seed) = ([0; 16], [0; 16]);
    rng.fill(&mut uuid);
    rng.fill(&mut hash_seed);
    (uuid, hash_seed)
}

impl Config {
    /// ext4 of 1 GiB on `device` with the defaults of Linux.
    pub fn new(scheme: impl Into<Scheme>, device: &str, seed: u64) -> Config {
        Config {
            fs: Fs::Ext4,
            scheme: scheme.into(),
            device: device.into(),
            timing: None,
            bytes: 1 << 30,
            block_bytes: None,
            blocks_per_group: None,
            inode_bytes: None,
            casefold: false,
            cluster_bytes: None,
            journal_blocks: None,
            data: Data::Ordered,
            cache_mib: None,
            host_mib: None,
            scheduler: None,
            writeback: None,
            timers: true,
            shorter: None,
            seed,
        }
    }

    fn times_shorter(&self) -> u32 {
        self.shorter.unwrap_or(1).max(1)
    }

    /// An interval of the timers.
    fn interval(&self, span: Nanos) -> Nanos {
        Nanos((span.0 / u64::from(self.times_shorter())).max(1))
    }

    /// When dirty pages are written back.
    pub fn writeback(&self) -> WritebackPolicy {
        if !self.timers {
            return WritebackPolicy::off();
        }
        let pages = self.host_mib.map_or(1 << 18, |mib| {
            let bytes = (u64::from(mib) << 20) / u64::from(self.times_shorter());
            bytes / BLOCK_BYTES as u64
        });
        let set = self.writeback.unwrap_or(Writeback::LINUX);
        let share = |percent: u32| Some(pages * u64::from(percent) / 100);
        WritebackPolicy {
            interval: Some(self.interval(set.interval())),
            expire: self.interval(set.expire()),
            background_pages: share(set.background),
            limit_pages: share(set.limit),
        }
    }

    /// Takes the scheme from its text: `PRESET`, `KEY=VALUE`, or several of them with `+` between;
    /// `data=MODE` may be among them. A scheme of F2FS on a configuration of ext4 is refused by
    /// [`Config::check`].
    ///
    /// # Errors
    /// An unknown word or a contradiction, with what would be valid.
    pub fn set_scheme(&mut self, text: &str) -> Result<(), RigError> {
        let (clusters, rest): (Vec<&str>, Vec<&str>) = text
            .split('+')
            .partition(|item| item.trim().starts_with("cluster="));
        let cluster = clusters.last().map(|item| item.trim());
        self.cluster_bytes = cluster.map(cluster_bytes).transpose()?;
        let (data, rest): (Vec<&str>, Vec<&str>) = rest
            .into_iter()
            .partition(|item| item.trim().starts_with("data="));
        self.data = match data.last() {
            Some(item) => item.trim().trim_start_matches("data=").parse()?,
            None => Data::Ordered,
        };
        self.scheme = match rest.is_empty() {
            true => Scheme::default_of(self.fs),
            false => rest.join("+").parse()?,
        };
        Ok(())
    }

    /// The shortest text that [`Config::set_scheme`] makes the same of: the name of the scheme in
    /// results.
    pub fn scheme_text(&self) -> String {
        let mut text = self.scheme.to_string();
        if self.data != Data::Ordered {
            text += &format!("+data={}", self.data);
        }
        if let Some(bytes) = self.cluster_bytes {
            text += &format!("+cluster={bytes}");
        }
        text
    }

    /// The device profile with the timing set that was asked for.
    ///
    /// # Errors
    /// Unknown profile or timing; the message lists the valid ones.
    pub fn profile(&self) -> Result<Profile, RigError> {
        let profile = Profile::open(&self.device)?;
        Ok(match &self.timing {
            Some(timing) => profile.with_timing(timing)?,
            None => profile,
        })
    }

    /// Refuses a scheme that would not be safe on the device, and sizes that are not possible,
    /// before anything runs.
    ///
    /// # Errors
    /// [`RigError::Unsafe`] with the reason; unknown profile, a size of the device, file system or
    /// journal that is not possible.
    pub fn check(&self) -> Result<(), RigError> {
        self.check_kind()?;
        match self.fs {
            Fs::Ext4 | Fs::Ext3 => {
                mkfs::Geometry::new(&self.mkfs_options()).map_err(|e| self.journal_in_mib(e))?;
            }
            Fs::F2fs => drop(self.f2fs_plan()?),
        }
        self.scheme.check(&self.device, self.blank()?.caps())
    }

    /// Refuses a scheme or an option of another kind of file system.
    fn check_kind(&self) -> Result<(), RigError> {
        let fs = self.fs.word();
        if !self.scheme.fits(self.fs) {
            let valid = match self.fs {
                Fs::Ext4 | Fs::Ext3 => Preset::ALL.iter().map(|p| p.word()).collect::<Vec<_>>(),
                Fs::F2fs => f2fs::Preset::ALL.iter().map(|p| p.word()).collect(),
            };
            return Err(RigError::Foreign {
                scheme: self.scheme.to_string(),
                fs,
                valid: valid.join(", "),
            });
        }
        let foreign = match self.fs {
            Fs::F2fs if self.data != Data::Ordered => format!("data={}", self.data),
            Fs::F2fs if self.cluster_bytes.is_some() => "cluster=".into(),
            Fs::F2fs if self.journal_blocks.is_some() && self.f2fs_journal().is_none() => {
                "the size of a journal".into()
            }
            Fs::Ext4 | Fs::Ext3 | Fs::F2fs => return Ok(()),
        };
        Err(RigError::NotOf { what: foreign, fs })
    }

    /// Builds a device with a new file system on it. This costs no virtual time and counts in no
    /// figure of the device.
    ///
    /// # Errors
    /// Unknown profile, a size that is not possible.
    pub fn format(&self) -> Result<AnyModel, RigError> {
        let mut model = self.profile()?.build(Some(self.bytes), None)?;
        for (block, content) in &self.fresh()?.blocks {
            model.load_logical(block.lba(), content.clone())?;
        }
        Ok(model)
    }

    /// A blank device of this profile.
    ///
    /// # Errors
    /// Unknown profile, a size that is not possible.
    pub fn blank(&self) -> Result<AnyModel, RigError> {
        Ok(self.profile()?.build(Some(self.bytes), None)?)
    }

    /// Builds the device again from the media that remained when its power was lost.
    ///
    /// # Errors
    /// The media is of another profile or size.
    pub fn attach(&self, media: Media) -> Result<AnyModel, RigError> {
        Ok(self.profile()?.build(Some(self.bytes), Some(media))?)
    }

    /// Users choose the size of a journal in MiB.
    fn journal_in_mib(&self, error: MkfsError) -> RigError {
        let block = u64::from(self.block_bytes.unwrap_or(BLOCK_BYTES as u32).max(1));
        let mib = |blocks: u32| (u64::from(blocks) * block) as f64 / (1 << 20) as f64;
        match error {
            MkfsError::Journal {
                blocks,
                least,
                most,
            } => RigError::Journal {
                asked: match mib(blocks) {
                    whole if whole.fract() == 0.0 => format!("{whole} MiB"),
                    _ => format!("{blocks} blocks"),
                },
                volume_mib: self.bytes >> 20,
                least_mib: mib(least).ceil() as u32,
                most_mib: mib(most) as u32,
            },
            other => other.into(),
        }
    }

    /// A fresh file system. A blank device reads as zeros, so only what is not zero counts.
    pub(crate) fn fresh(&self) -> Result<FreshVolume, RigError> {
        Ok(match self.fs {
            Fs::Ext4 | Fs::Ext3 => {
                let plan = mkfs::plan(&self.mkfs_options())?;
                FreshVolume {
                    blocks: plan.blocks().to_vec(),
                    zeroed: plan.zeroed().to_vec(),
                }
            }
            Fs::F2fs => {
                let plan = self.f2fs_plan()?;
                FreshVolume {
                    blocks: plan.blocks().to_vec(),
                    zeroed: plan.zeroed().to_vec(),
                }
            }
        })
    }

    /// The room that mkfs makes for a journal of F2FS: what the scheme says, or the configuration.
    fn f2fs_journal(&self) -> Option<F2fsJournal> {
        let Scheme::F2fs(scheme) = self.scheme else {
            return None;
        };
        scheme.journal()?;
        let ring = scheme.ring.map(F2fsJournal::Ring);
        let bytes = |blocks| F2fsJournal::Bytes(u64::from(blocks) * BLOCK_BYTES as u64);
        let own = ring.or(self.journal_blocks.map(bytes));
        Some(own.unwrap_or(F2fsJournal::Default))
    }

    pub(crate) fn f2fs_mkfs_options(&self) -> f2fs::mkfs::Options {
        let (uuid, _) = identity(self.seed);
        f2fs::mkfs::Options {
            journal: self.f2fs_journal(),
            casefold: self.casefold,
            ..f2fs::mkfs::Options::new(self.bytes, uuid, MADE_AT)
        }
    }

    fn f2fs_plan(&self) -> Result<f2fs::mkfs::Plan, RigError> {
        Ok(f2fs::mkfs::plan(&self.f2fs_mkfs_options())?)
    }

    pub(crate) fn mkfs_options(&self) -> MkfsOptions {
        let (uuid, hash_seed) = identity(self.seed);
        let mut options = MkfsOptions::new(self.bytes, uuid, hash_seed, MADE_AT);
        options.kind = match self.fs {
            Fs::Ext4 => mkfs::Kind::Ext4,
            Fs::Ext3 => mkfs::Kind::Ext3,
            Fs::F2fs => unreachable!("F2FS has a mkfs of its own"),
        };
        options.block_bytes = self.block_bytes.unwrap_or(options.block_bytes);
        options.cluster_bytes = self.cluster_bytes;
        options.casefold = self.casefold;
        options.blocks_per_group = self.blocks_per_group;
        options.inode_bytes = self.inode_bytes.unwrap_or(options.inode_bytes);
        options.fast_commits = match self.scheme.journal() {
            Some(scheme) if scheme.is_fast() => FastCommitArea::Room,
            _ => FastCommitArea::None,
        };
        options.journal = match (self.scheme.journal(), self.journal_blocks) {
            (None, _) => JournalSize::None,
            (_, Some(blocks)) => JournalSize::Blocks(blocks),
            (_, None) => JournalSize::Default,
        };
        options
    }

    /// The mount options for this configuration.
    pub fn mount_options(&self) -> MountOptions {
        let timer = |span: Nanos| self.timers.then_some(self.interval(span));
        let cache = self.cache_mib.map(|mib| (mib as usize) << 20);
        let set = self.writeback.unwrap_or(Writeback::LINUX);
        match self.scheme {
            Scheme::Journal(scheme) => {
                let default = ext4::MountOptions::default();
                MountOptions::Ext4(ext4::MountOptions {
                    scheme,
                    data: self.data.into(),
                    commit_interval: timer(Nanos::from_secs(5)),
                    writeback_expire: timer(set.expire()),
                    writeback_interval: (self.writeback).and_then(|set| timer(set.interval())),
                    cache_bytes: cache.unwrap_or(default.cache_bytes),
                    ..default
                })
            }
            Scheme::F2fs(scheme) => {
                let default = f2fs::MountOptions::default();
                let shorter = |span| self.interval(span);
                let (mut checkpoint, mut journal) = (scheme.preset.policy(), scheme.journal());
                checkpoint.triggers.interval = checkpoint.triggers.interval.map(shorter);
                checkpoint.background = checkpoint.background.map(shorter);
                let triggers = &mut checkpoint.triggers;
                triggers.flusher_interval = shorter(set.interval());
                triggers.flusher_expire = shorter(set.expire());
                triggers.cached_nat_max /= self.times_shorter();
                if let Some(journal) = &mut journal {
                    journal.commit = shorter(journal.commit);
                    journal.idle = shorter(journal.idle);
                }
                MountOptions::F2fs(f2fs::MountOptions {
                    checkpoint,
                    journal,
                    fsync: scheme.fsync,
                    timers: self.timers,
                    cache_bytes: cache.unwrap_or(default.cache_bytes),
                    ..default
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use f2fs::{CheckpointPolicy, Triggers};

    fn shortened(scheme: Scheme, fs: Fs) -> Config {
        let mut config = Config::new(scheme, "nvme-980pro", 1);
        (config.fs, config.shorter) = (fs, Some(20));
        config
    }

    #[test]
    fn a_shorter_run_has_all_intervals_shorter_and_no_count() {
        let ms = |n| Some(Nanos::from_millis(n));
        for (preset, interval, background, commit) in [
            (f2fs::Preset::Checkpoint60, ms(3000), None, None),
            (f2fs::Preset::Checkpoint1, ms(50), None, None),
            (f2fs::Preset::Checkpoint5Bg, None, ms(250), None),
            (f2fs::Preset::F2fsj, None, None, ms(250)),
        ] {
            let config = shortened(preset.into(), Fs::F2fs);
            let MountOptions::F2fs(options) = config.mount_options() else {
                panic!("of F2FS");
            };
            let triggers = Triggers {
                interval,
                cached_nat_max: 5000,
                flusher_interval: Nanos::from_millis(250),
                flusher_expire: Nanos::from_millis(1500),
                ..Triggers::default()
            };
            let policy = CheckpointPolicy {
                triggers,
                background,
            };
            assert_eq!(options.checkpoint, policy, "{preset}");
            assert_eq!(options.journal.map(|j| j.commit), commit, "{preset}");
            let idle = commit.and(ms(500));
            assert_eq!(options.journal.map(|j| j.idle), idle, "{preset}");
        }
        let config = shortened(Preset::Jbd2.into(), Fs::Ext4);
        let MountOptions::Ext4(options) = config.mount_options() else {
            panic!("of ext4");
        };
        let both = (options.commit_interval, options.writeback_expire);
        assert_eq!(both, (ms(250), ms(1500)));
        let (policy, linux) = (config.writeback(), WritebackPolicy::default());
        assert_eq!((policy.interval, Some(policy.expire)), both);
        assert_eq!(policy.limit_pages, linux.limit_pages);
        let of_a_host = Config {
            host_mib: Some(20 << 10),
            ..config
        };
        assert_eq!(of_a_host.writeback().limit_pages, linux.limit_pages);
        assert_eq!(of_a_host.writeback().background_pages, Some((1 << 18) / 10));
        let whole = Config {
            shorter: None,
            ..of_a_host
        };
        assert_eq!(whole.writeback().limit_pages, Some((20 << 18) / 5));
    }

    #[test]
    fn the_settings_of_write_back_reach_pages_and_metadata() {
        let secs = |n| Some(Nanos::from_secs(n));
        let mut config = Config::new(Preset::Jbd2, "emmc-odroid-xu4", 1);
        assert_eq!(config.writeback(), WritebackPolicy::default());
        let homes = |config: &Config| match config.mount_options() {
            MountOptions::Ext4(o) => (o.writeback_interval, o.writeback_expire),
            MountOptions::F2fs(_) => panic!("of ext4"),
        };
        assert_eq!(homes(&config), (None, secs(30)));
        config.writeback = Some(Writeback::ANDROID);
        let policy = WritebackPolicy {
            interval: secs(5),
            expire: Nanos::from_secs(2),
            background_pages: Some((1 << 18) / 20),
            limit_pages: Some((1 << 18) / 5),
        };
        assert_eq!(config.writeback(), policy);
        assert_eq!(homes(&config), (secs(5), secs(2)));
        config.timers = false;
        assert_eq!(homes(&config), (None, None));
        (config.fs, config.timers) = (Fs::F2fs, true);
        config.scheme = f2fs::Preset::Checkpoint60.into();
        let MountOptions::F2fs(options) = config.mount_options() else {
            panic!("of F2FS");
        };
        let triggers = options.checkpoint.triggers;
        let both = (triggers.flusher_interval, triggers.flusher_expire);
        assert_eq!(both, (Nanos::from_secs(5), Nanos::from_secs(2)));
    }
}
