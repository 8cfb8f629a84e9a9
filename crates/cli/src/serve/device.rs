//! What is served: an image that is changed in place, or a model.

use super::names::{line, shown};
use crate::args::{Kill, ServeArgs};
use crate::failure::{Failure, failed, usage};
use base::BLOCK_BYTES;
use rig::{
    AnyModel, BlockDevice, Clock, HostFile, HostOptions, Media, Modelled, Profile, ProfileError,
    SavedDevice, StateError, check_writable, read_device, write_device,
};
use serve::{Homes, Served};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is behind the server.
pub enum Device {
    /// A file or block device of the host.
    Image,
    /// A model, and what it is saved as.
    Model(Box<Modelling>),
}

pub struct Modelling {
    model: Arc<Modelled<AnyModel>>,
    /// What became of home writes, if the device remaps by itself.
    homes: Option<Arc<Homes>>,
    /// What it is saved as; a profile's file has no such form.
    saved: Option<SavedDevice>,
    left: Left,
    /// It began with this server.
    blank: bool,
}

/// What a cut left, and the counts up to it.
type Left = Arc<Mutex<Option<(Media, String)>>>;

impl Device {
    /// Opens the device and what is served of it. Where it is to be saved, that is possible by
    /// then: what clients write is not to be lost at the end for a wrong name.
    pub fn open(args: &ServeArgs) -> Result<(Device, Served), Failure> {
        if let Some(path) = &args.save {
            check_writable(path, args.force || is_same(args, path))
                .map_err(|e| failed(format!("--save: {}", line(&e))))?;
        }
        if Profile::file_of(&args.device).is_some_and(|name| name.ends_with(".toml")) {
            return model(args, of_file(args)?, None, true);
        }
        match saved(args)? {
            Some((saved, blank)) => model(args, saved.build().map_err(failed)?, Some(saved), blank),
            None => image(args),
        }
    }

    /// What was done so far, as lines.
    pub fn told(&self, served: &Served) -> String {
        let mut text = format!("{}\n", served.traffic());
        if let Device::Model(modelling) = self {
            let now = modelling.model.model_time();
            text.push_str(&format!("time of the model: {:.6} s\n", now.0 as f64 / 1e9));
            let left = lock(&modelling.left);
            let counts = left.as_ref().map(|(_, counts)| counts.clone());
            text.push_str(&counts.unwrap_or_else(|| counts_of(&modelling.model)));
            if let Some(homes) = &modelling.homes {
                text.push_str(&told_of(homes));
            }
        }
        text
    }

    /// Whether the power of the device went by itself.
    pub fn is_cut(&self) -> bool {
        matches!(self, Device::Model(modelling) if modelling.model.is_cut())
    }

    /// Switches the device off, unless its power was cut, and saves it if that is wanted.
    pub fn close(&self, args: &ServeArgs) -> Result<(), Failure> {
        let Device::Model(modelling) = self else {
            return Ok(());
        };
        let cut = modelling.cut(args.seed);
        let (Some(path), Some(saved)) = (&args.save, modelling.saved.clone()) else {
            return Ok(());
        };
        let saved = match cut {
            Some(media) => SavedDevice::new(saved.profile(), media).map_err(failed)?,
            None => {
                let model = modelling.model.take_model();
                let model = model.ok_or_else(|| failed("the device has lost its power"))?;
                saved.shut_down(model).map_err(failed)?
            }
        };
        write_device(&saved, path, args.force || is_same(args, path)).map_err(|e| failed(line(&e)))
    }

    /// Whether it is a model that began with this server.
    pub fn is_blank(&self) -> bool {
        matches!(self, Device::Model(modelling) if modelling.blank)
    }
}

impl Modelling {
    /// What the power cut left, if there was one.
    fn cut(&self, seed: u64) -> Option<Media> {
        let taken = lock(&self.left).take();
        match taken {
            Some((media, _)) => Some(media),
            None if self.model.is_cut() => self.model.power_off(seed),
            None => None,
        }
    }
}

/// Whether the state that it began with is the one that goes on, by whatever name.
fn is_same(args: &ServeArgs, path: &Path) -> bool {
    let [began, goes_on] = [Path::new(&args.device), path].map(Path::canonicalize);
    matches!((began, goes_on), (Ok(began), Ok(goes_on)) if began == goes_on)
}

fn lock(left: &Left) -> MutexGuard<'_, Option<(Media, String)>> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of the home writes of an ext4.
fn told_of(homes: &Homes) -> String {
    match homes.follows() {
        true => format!("home writes of an ext4, blocks: {}\n", homes.counts()),
        false => "home writes: no journal of an ext4 with blocks of 4 KiB, or a device with a volatile cache\n".into(),
    }
}

fn counts_of(model: &Modelled<AnyModel>) -> String {
    let mut text = String::new();
    if let Some(d) = model.device_stats() {
        text.push_str(&format!(
            "device: {} reads, {} writes ({} with FUA), {} flushes, {} discards, busy {} us\n",
            d.reads, d.writes, d.fua_writes, d.flushes, d.discards, d.busy_us
        ));
    }
    if let Some(f) = model.flash_stats() {
        let host = f.host_pages as f64 * BLOCK_BYTES as f64;
        let programmed = f.programs as f64 * f64::from(f.page_bytes);
        let amplification = if host > 0.0 { programmed / host } else { 0.0 };
        text.push_str(&format!(
            "flash: {} programs, {} erases, {} units of 4 KiB from the host, {} copied by collection, write amplification {amplification:.2}\n",
            f.programs, f.erases, f.host_pages, f.gc_copies
        ));
        let t = f.transparent;
        text.push_str(&format!(
            "transparent remapping: {} units matched, {} unchanged, {} programmed ({} of them met another's hash)\n",
            t.matched, t.unchanged, t.programmed, t.different
        ));
    }
    text
}

/// The model of a profile's file. Such a file is no image, as which it would be written over.
fn of_file(args: &ServeArgs) -> Result<AnyModel, Failure> {
    if args.save.is_some() {
        let name = shown(Path::new(&args.device));
        return Err(usage(format!(
            "--save: {name} is the file of a profile, and a saved device is of a built-in one, with changes"
        )));
    }
    let bytes = args.size.map(|mib| mib.saturating_mul(1 << 20));
    let profile = Profile::open(&args.device).map_err(|e| usage(line(&e)))?;
    profile.build(bytes, None).map_err(|e| usage(line(&e)))
}

/// The model that `DEVICE` names, if it names one, and whether it is a blank one.
fn saved(args: &ServeArgs) -> Result<Option<(SavedDevice, bool)>, Failure> {
    let name = args.device.split(',').next().unwrap_or_default().trim();
    let is_profile = Profile::names().any(|known| known == name);
    let path = Path::new(&args.device);
    if !is_profile && path.exists() {
        if !is_saved(path).map_err(|e| failed(format!("{}: {e}", shown(path))))? {
            return Ok(None);
        }
        if args.size.is_some() {
            return Err(usage("--size: a saved device has its size"));
        }
        let saved = read_device(path).map_err(|e| failed(line(&e)))?;
        return Ok(Some((saved, false)));
    }
    let bytes = args.size.map(|mib| mib.saturating_mul(1 << 20));
    let blank = SavedDevice::blank(&args.device, bytes).map_err(|e| match e {
        // The profile is of the command line here, not of a file.
        StateError::Profile(e @ ProfileError::Device { .. }) => failed(line(&e)),
        StateError::Profile(_) if !is_profile => usage(format!(
            "{}: no such file, and no profile (`varve device list`)",
            shown(path)
        )),
        StateError::Profile(ProfileError::Invalid { what, .. }) if args.size.is_some() => {
            // Which is the only field that a size may contradict.
            let of_size = what.strip_prefix("capacity_mib: ");
            usage(of_size.map_or(line(&what), |why| format!("--size: {}", line(&why))))
        }
        StateError::Profile(e) => usage(line(&e)),
        other => usage(line(&other)),
    })?;
    Ok(Some((blank, true)))
}

/// Whether a file says that it is a saved device; whether it is a whole one is seen later.
fn is_saved(path: &Path) -> std::io::Result<bool> {
    let mut head = Vec::new();
    if path.is_file() {
        File::open(path)?.take(8).read_to_end(&mut head)?;
    }
    Ok(head == b"VARVEDEV")
}

fn image(args: &ServeArgs) -> Result<(Device, Served), Failure> {
    let of_models = [
        ("--size", args.size.is_some()),
        ("--pace", args.pace.is_some()),
        ("--kill-at", args.kill_at.is_some()),
        ("--save", args.save.is_some()),
    ];
    if let Some((option, _)) = of_models.iter().find(|(_, given)| *given) {
        let name = shown(Path::new(&args.device));
        return Err(usage(format!(
            "{option}: {name} is an image, which is no model"
        )));
    }
    let options = HostOptions {
        write: !args.read_only,
        ..HostOptions::default()
    };
    let file = HostFile::open(&args.device, &options).map_err(|e| failed(line(&e)))?;
    let served = Served::new(Arc::new(file)).map_err(failed)?;
    Ok((Device::Image, served))
}

/// Follows the home writes on a model.
fn homes(model: &Arc<Modelled<AnyModel>>) -> Homes {
    let (counted, looked) = (model.clone(), model.clone());
    let _ = model.with_model_mut(|model| model.keep_shared(true));
    let shared = move || {
        let shared = counted.with_model_mut(AnyModel::take_shared);
        shared.unwrap_or_default()
    };
    let peek = move |block| {
        let content = looked.with_model(|model| model.visible(block));
        content.unwrap_or_default()
    };
    Homes::new(model.clone(), shared, peek)
}

fn model(
    args: &ServeArgs,
    model: AnyModel,
    saved: Option<SavedDevice>,
    blank: bool,
) -> Result<(Device, Served), Failure> {
    let clock = match args.pace {
        Some(permille) => Clock::Paced { permille },
        None => Clock::Unpaced,
    };
    let model = Arc::new(Modelled::new(model, clock));
    let left: Left = Arc::default();
    let shares = model.with_model(AnyModel::shares_content).unwrap_or(false);
    let homes = shares.then(|| Arc::new(homes(&model)));
    let device: Arc<dyn BlockDevice> = match &homes {
        Some(homes) => homes.clone(),
        None => model.clone(),
    };
    let mut served = Served::new(device).map_err(failed)?;
    let looked = model.clone();
    served = served.zeroes_by(move |block| {
        let zero = |model: &AnyModel| model.visible(block).iter().all(|byte| *byte == 0);
        looked.with_model(zero).unwrap_or(false)
    });
    match args.kill_at {
        None => {}
        Some(Kill::At(at)) => model.cut_at(at),
        Some(Kill::After(commands)) => {
            let (model, left, seed) = (model.clone(), left.clone(), args.seed);
            served = served.cut_after(commands, move || {
                let counts = counts_of(&model);
                *lock(&left) = model.power_off(seed).map(|media| (media, counts));
            });
        }
    }
    let modelling = Modelling {
        model,
        homes,
        saved,
        left,
        blank,
    };
    Ok((Device::Model(Box::new(modelling)), served))
}
