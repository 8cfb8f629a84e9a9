//! The devices that are cut, and what a cut leaves of them.
//!
//! Two kinds stand behind one interface: a disk in memory of which a cut leaves the worst that its
//! promises allow, and a modelled device whose chips decide what is left.

use super::stamp::{self, NOBODY, Stamp};
use crate::CrashError;
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTORS_PER_BLOCK};
use blockdev::{Adversary, BlockDevice, Caps, Clock, Image, Modelled, SpecDisk};
use rig::{AnyModel, Config, FreshVolume, Media, Scheme};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

/// The kind of a device.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// A disk in memory with these promises; of them a cut leaves the worst that they allow.
    Spec(Caps),
    /// The device profile of the configuration; the adversary decides what a cut leaves.
    Profile(Adversary),
}

/// A fresh volume on a device, made once and used by many runs.
#[derive(Clone)]
pub struct Volume {
    config: Config,
    target: Target,
    start: Remains,
}

/// What a cut leaves of a device.
#[derive(Clone)]
pub enum Remains {
    /// Content of a disk in memory.
    Image(Image),
    /// Media of a modelled device.
    Media(Box<Media>),
    /// A modelled device that was not cut.
    Model(Box<AnyModel>),
}

impl Remains {
    /// A hash of the content: equal contents have equal hashes.
    pub fn content_hash(&self) -> u64 {
        match self {
            Remains::Image(image) => image.content_hash(),
            Remains::Media(media) => media.content_hash(),
            Remains::Model(_) => 0,
        }
    }
}

impl Volume {
    /// Formats a device. The free blocks of a disk in memory are not blank: they hold stamps of
    /// [`NOBODY`], so that a block shows which a file was given and which was never written.
    ///
    /// # Errors
    /// The size is not possible, or the profile is unknown.
    pub fn new(config: &Config, target: &Target) -> Result<Volume, CrashError> {
        let start = match target {
            Target::Spec(_) => Remains::Image(fresh_image(config)?),
            Target::Profile(adversary) => {
                let mut model = config.format()?;
                model.set_adversary(*adversary);
                Remains::Model(Box::new(model))
            }
        };
        Ok(Volume {
            config: config.clone(),
            target: target.clone(),
            start,
        })
    }

    /// A volume on a modelled device that exists already.
    pub(super) fn of_model(config: &Config, adversary: Adversary, model: AnyModel) -> Volume {
        Volume {
            config: config.clone(),
            target: Target::Profile(adversary),
            start: Remains::Model(Box::new(model)),
        }
    }

    /// A volume with this content on a disk in memory with other promises.
    pub fn on(&self, caps: Caps) -> Volume {
        Volume {
            target: Target::Spec(caps),
            ..self.clone()
        }
    }

    /// A device with the fresh volume.
    ///
    /// # Errors
    /// See [`Volume::attach`].
    pub fn fresh(&self, seed: u64) -> Result<Disk, CrashError> {
        self.attach(&self.start, seed)
    }

    /// A device that begins its next life with what a cut has left.
    ///
    /// # Errors
    /// The media belongs to another profile.
    pub fn attach(&self, remains: &Remains, seed: u64) -> Result<Disk, CrashError> {
        let model = match (remains, &self.target) {
            (Remains::Image(image), Target::Spec(caps)) => {
                let disk = SpecDisk::from_image(caps.clone(), image.clone(), seed);
                return Ok(Disk::Spec(disk));
            }
            (Remains::Media(media), Target::Profile(adversary)) => {
                let mut model = self.config.attach((**media).clone())?;
                model.set_adversary(*adversary);
                model
            }
            (Remains::Model(model), _) => (**model).clone(),
            _ => unreachable!("remains of another volume"),
        };
        Ok(Disk::Modelled(Arc::new(Modelled::new(
            model,
            Clock::Runtime,
        ))))
    }

    /// A device with the content of an image file.
    ///
    /// # Errors
    /// The host cannot read the file, or it does not fit the profile.
    pub fn load(&self, path: &Path) -> Result<Disk, CrashError> {
        match &self.target {
            Target::Spec(caps) => {
                let bytes = std::fs::read(path).map_err(|source| CrashError::Host {
                    doing: format!("reading {}", path.display()),
                    source,
                })?;
                let disk = SpecDisk::from_image(caps.clone(), Image::from_bytes(&bytes), 0);
                Ok(Disk::Spec(disk))
            }
            Target::Profile(_) => {
                let model = rig::load_image(path, &self.config)?;
                Ok(Disk::Modelled(Arc::new(Modelled::new(
                    model,
                    Clock::Runtime,
                ))))
            }
        }
    }

    /// A volume that begins with the content of `disk`, as another program may have made it.
    pub fn continued(&self, disk: &Disk) -> Volume {
        Volume {
            start: disk.snapshot(0),
            ..self.clone()
        }
    }

    /// What the volume begins with.
    pub(super) fn start(&self) -> &Remains {
        &self.start
    }

    /// A volume that begins with this content of a disk in memory.
    pub(super) fn beginning_with(&self, image: Image) -> Volume {
        Volume {
            start: Remains::Image(image),
            ..self.clone()
        }
    }

    /// What a disk in memory promises; `None`: the device is a modelled one.
    pub fn caps(&self) -> Option<&Caps> {
        match &self.target {
            Target::Spec(caps) => Some(caps),
            Target::Profile(_) => None,
        }
    }

    /// The configuration that the volume was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// The content of a block that no file has written: stamps of [`NOBODY`].
pub(super) fn stale_block() -> Bytes {
    let stamp = |sector| Stamp {
        file: NOBODY,
        sector,
        version: 1,
    };
    let stale: Vec<u8> = (0..SECTORS_PER_BLOCK)
        .flat_map(|s| stamp::sector(stamp(s)))
        .collect();
    Bytes::from(stale)
}

/// The blocks of a fresh volume that are free, so that their content means nothing.
pub(super) fn free_blocks(config: &Config) -> Result<Vec<BlockNo>, CrashError> {
    Ok(free_of(config, &config.fresh_volume()?))
}

/// The blocks that are free in `fresh`, which is a fresh volume of `config`.
fn free_of(config: &Config, fresh: &FreshVolume) -> Vec<BlockNo> {
    let blocks = config.bytes / BLOCK_BYTES as u64;
    let zeroed = |n: u64| {
        fresh
            .zeroed
            .iter()
            .any(|(at, len)| at.0 <= n && n < at.0 + len)
    };
    let used: std::collections::BTreeSet<BlockNo> = fresh.blocks.iter().map(|(n, _)| *n).collect();
    let free = (0..blocks).filter(|n| !zeroed(*n)).map(BlockNo);
    free.filter(|n| !used.contains(n)).collect()
}

fn fresh_image(config: &Config) -> Result<Image, CrashError> {
    let fresh = config.fresh_volume()?;
    let mut image = Image::new();
    let free = free_of(config, &fresh);
    image.set_blocks(free.iter().map(|n| n.0), &stale_block());
    for (block, bytes) in fresh.blocks {
        image.set_block(block.0, bytes);
    }
    Ok(image)
}

/// A device in use.
#[derive(Clone)]
pub enum Disk {
    /// A disk in memory.
    Spec(Arc<SpecDisk>),
    /// A device model.
    Modelled(Arc<Modelled<AnyModel>>),
}

impl Disk {
    /// What a cut now would leave; the device runs on. `seed` draws what is left to chance.
    pub fn snapshot(&self, seed: u64) -> Remains {
        match self {
            Disk::Spec(disk) => Remains::Image(disk.snapshot(seed)),
            Disk::Modelled(device) => {
                let media = device.snapshot(seed);
                Remains::Media(Box::new(media.expect("the power is on during the run")))
            }
        }
    }

    /// The device as the block layer sees it.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        match self {
            Disk::Spec(disk) => disk.clone(),
            Disk::Modelled(device) => device.clone(),
        }
    }

    /// Cuts the power: every request answers power loss from now on.
    pub fn power_off(&self) {
        match self {
            Disk::Spec(disk) => drop(disk.power_off(0)),
            Disk::Modelled(device) => drop(device.power_off(0)),
        }
    }

    /// Writes the content that reads see as an image file of `bytes` bytes.
    ///
    /// # Errors
    /// The host cannot write the file.
    pub fn write_image(&self, bytes: u64, path: &Path) -> Result<(), CrashError> {
        match self {
            Disk::Spec(disk) => {
                image_file(&disk.visible(), bytes, path).map_err(|source| CrashError::Host {
                    doing: format!("writing {}", path.display()),
                    source,
                })
            }
            Disk::Modelled(device) => device
                .with_model(|model| rig::write_image(model, path))
                .expect("the power is on")
                .map_err(CrashError::from),
        }
    }
}

fn image_file(image: &Image, bytes: u64, path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.set_len(bytes)?;
    for (n, block) in image.blocks() {
        file.seek(SeekFrom::Start(n * BLOCK_BYTES as u64))?;
        file.write_all(&block)?;
    }
    Ok(())
}

/// The configuration of a volume for crash tests: 144 MiB in two groups, so that the superblock has
/// a backup and a group is used for the first time during the run.
pub fn small_volume(scheme: Scheme, device: &str, seed: u64) -> Config {
    let mut config = Config::new(scheme, device, seed);
    config.bytes = 144 << 20;
    config
}

/// The configuration of the smallest volume that has all that [`small_volume`] has: 136 MiB with a
/// log of 1024 blocks. Below 133 MiB mkfs makes no second group, and without one the superblock has
/// no backup. Less would save nothing: blocks that nobody touches cost no time in recovery.
pub fn tiny_volume(scheme: Scheme, seed: u64) -> Config {
    let mut config = small_volume(scheme, "emmc-odroid-xu4", seed);
    config.bytes = 136 << 20;
    config.journal_blocks = Some(1024);
    config
}
