//! Words of `--model`: `ext4`, `f2fs`, each with mount options behind a colon.
//!
//! ```text
//! ext4,ext4:data=journal,ext4:scheme=emmc,device=emmc,f2fs:fsync_mode=strict
//! ```
//!
//! Options of a model are divided by commas as models are, so an item with `=` belongs to the model
//! before it; an option without comes first, directly behind the colon. Beside the mount options
//! there is `device=`, whose text is that of a `spec:` device with `+` for its commas
//! (`device=nvme+sector=512`).

use super::BlockModel;
use crate::state::Model;
use crash::promises::Promises;
use rig::{Config, Fs, MountOptions, Scheme};

/// The device of a model without one: cached writes of which a cut leaves each sector old or new.
/// A sector has 512 bytes; with F2FS 4096, because a torn node is damage to F2FS, not a state.
const DEVICE: &str = "nvme+sector=512";
const DEVICE_OF_F2FS: &str = "nvme";
/// Seeds the identity of the volume.
const VOLUME_SEED: u64 = 1;
/// Blocks of the log of ext4: the fewest that it takes.
const LOG_BLOCKS: u32 = 1024;

const KINDS: &str =
    "ext4, ext3, f2fs (with :OPTION,... any mount options, and device=NAME+KEY=VALUE)";

/// Makes a model of a word that names no file system of ours; `None`: it does not know the word.
pub type Others<'a> = dyn Fn(&str) -> Option<Made> + 'a;
/// A model, or what is wrong with its word.
pub type Made = Result<Box<dyn Model>, String>;

/// The models that a text names. `others` makes models of the words that `known` lists.
///
/// # Errors
/// A word that names no model, or an option that its file system does not have, with those that
/// exist.
pub fn models(
    words: &str,
    known: &str,
    others: &Others<'_>,
) -> Result<Vec<Box<dyn Model>>, String> {
    let mut models: Vec<Box<dyn Model>> = Vec::new();
    for word in split(words) {
        let block = BlockModel::parse(&word)?.map(|model| Ok(Box::new(model) as Box<dyn Model>));
        let model = block.or_else(|| others(&word)).ok_or_else(|| {
            let more = if known.is_empty() { "" } else { ", " };
            format!("model `{word}`; there are: {KINDS}{more}{known}")
        })?;
        models.push(model?);
    }
    match models.is_empty() {
        true => Err(format!("no model is named; there are: {KINDS}, {known}")),
        false => Ok(models),
    }
}

/// Divides a text into the words of models.
fn split(words: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for item in words.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        let head = item.split(':').next().unwrap_or_default();
        match all.last_mut() {
            Some(model) if model.contains(':') && head.contains('=') => {
                model.push(',');
                model.push_str(item);
            }
            _ => all.push(item.into()),
        }
    }
    all
}

fn kind(word: &str) -> Option<Fs> {
    word.parse().ok()
}

impl BlockModel {
    /// The model that a word names; `None`: it names no file system.
    ///
    /// # Errors
    /// An option that the file system does not have, or a scheme that is not safe on the device.
    pub fn parse(word: &str) -> Result<Option<BlockModel>, String> {
        let (head, options) = word.split_once(':').unwrap_or((word, ""));
        let Some(fs) = kind(head) else {
            return Ok(None);
        };
        let refused = |e: &dyn std::fmt::Display| format!("model `{word}`: {e}");
        let (device, options): (Vec<&str>, Vec<&str>) = options
            .split(',')
            .partition(|item| item.starts_with("device="));
        let default = match fs {
            Fs::F2fs => DEVICE_OF_F2FS,
            Fs::Ext4 | Fs::Ext3 => DEVICE,
        };
        let device = device.last();
        let device = device.map_or(default, |item| &item["device=".len()..]);
        let promises: Promises = device.replace('+', ",").parse().map_err(|e| refused(&e))?;
        let mut options = options.join(",");
        if fs == Fs::F2fs && !options.contains("background_gc") {
            // Cleaning moves what is there, which no cut can show.
            options = format!("background_gc=off,{options}");
        }
        let options = MountOptions::parse(fs, &options).map_err(|e| refused(&e))?;
        let scheme = match &options {
            MountOptions::Ext4(options) => Scheme::Journal(options.scheme),
            MountOptions::F2fs(options) if options.journal.is_some() => {
                "f2fsj".parse().map_err(|e| refused(&e))?
            }
            MountOptions::F2fs(_) => Scheme::default_of(fs),
        };
        let mut stack = Config::new(scheme, "emmc-odroid-xu4", VOLUME_SEED);
        stack.fs = fs;
        if let MountOptions::Ext4(options) = &options {
            stack.data = match options.data {
                rig::DataMode::Ordered => rig::Data::Ordered,
                rig::DataMode::Writeback => rig::Data::Writeback,
                rig::DataMode::Journal => rig::Data::Journal,
            };
            stack.journal_blocks = options.scheme.map(|_| LOG_BLOCKS);
        }
        let caps = promises.caps(stack.bytes);
        let device = format!("spec:{}", device.replace('+', ","));
        scheme.check(&device, &caps).map_err(|e| refused(&e))?;
        Ok(Some(BlockModel {
            name: word.into(),
            stack,
            options,
            caps,
            go_on: None,
        }))
    }
}
