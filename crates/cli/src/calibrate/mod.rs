//! `varve device calibrate`: measures a real card, drive or file, or reads what fio measured, and
//! writes a profile for `--device`.

mod host;
mod place;
mod table;

use crate::args::CalibrateArgs;
use crate::failure::{Failure, failed, tell, usage};
use crate::out::say;
use crate::progress::shown;
use crate::stop::Stop;
use base::Nanos;
use calibrate::text::{Origin, profile};
use calibrate::{Effort, ExtCsd, Given, MeasureError, Plan, Real, Seen, Wanted, fio, fit, measure};
use host::Disk;
use indicatif::{ProgressBar, ProgressStyle};
use place::Place;
use rig::{BlockDevice, Profile};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Times of each quantity at most.
const REPEATS: usize = 200;
/// A capacity for which a profile is asked whether it has chips, bytes.
const CHIPS_PROBE: u64 = 1 << 30;
/// Mean difference of measured times and the model's beyond which a profile is not recommended.
const MISS_MAX: f64 = 0.5;
/// The template where nothing is known of the device.
const LIKE: &str = "loop-like";

/// Measures or reads, fits, prints, and writes the profile.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    if args.fio_job {
        return say(fio::JOB);
    }
    refuse_to_replace(&args.output, args.force)?;
    match (&args.fio, &args.path) {
        (Some(file), _) => from_fio(args, file),
        (None, Some(path)) => from_place(args, path),
        (None, None) => Err(usage(
            "name a folder, a file, a block device, or --fio OUT.json",
        )),
    }
}

fn refuse_to_replace(output: &Path, force: bool) -> Result<(), Failure> {
    let shown = output.display();
    if output.exists() && !force {
        return Err(usage(format!(
            "{shown} is there already; --force replaces it, -o names another file"
        )));
    }
    // A folder that cannot be written is found before a minute of measuring.
    let part = part_of(output);
    fs::write(&part, "")
        .and_then(|()| fs::remove_file(&part))
        .map_err(|e| failed(format!("{shown} cannot be written: {e}")))
}

/// The name under which a profile is written.
fn part_of(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!(".{name}.part"))
}

fn from_fio(args: &CalibrateArgs, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|e| usage(format!("{shown}: {e}")))?;
    let run = fio::read(&text).map_err(|e| usage(format!("{shown}: {e}")))?;
    for why in &run.left_out {
        tell(format!("{shown}: left out: {why}"));
    }
    let measured = format!("measured by {} ({shown})", run.version);
    finish(args, &run.seen, &measured, None)
}

fn from_place(args: &CalibrateArgs, path: &Path) -> Result<(), Failure> {
    // What would make the work useless is found before it.
    template(args, None)?;
    let place = place::open(path, args.size << 20, args.write)?;
    let seen = measured(&place, args.seconds)?;
    let through = match place.is_device {
        true => String::new(),
        false => " through a file".into(),
    };
    let what = place
        .disk
        .as_ref()
        .map_or_else(|| path.display().to_string(), Disk::title);
    finish(
        args,
        &seen,
        &format!("{what}, measured{through} over {} MiB", place.area >> 20),
        place.disk.as_ref(),
    )
}

fn measured(place: &Place, seconds: f64) -> Result<Seen, Failure> {
    let stop = Stop::watch()?;
    let plan = Plan::of(
        &place.file.caps(),
        Wanted {
            area: place.area,
            depth: place.file.is_uring(),
            durable: place.durable_is_one_command(),
            discard: place.is_device,
        },
    );
    let effort = Effort {
        area: place.area,
        repeats: REPEATS,
        budget: Nanos((seconds * 1e9) as u64),
        seed: 1,
    };
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
    let bar = shown("calibrate", ProgressBar::new_spinner().with_style(style));
    bar.enable_steady_tick(Duration::from_millis(200));
    let seen = measure(&mut Real(&place.file), &plan, &effort, &mut |what| {
        bar.set_message(what.to_string());
        stop.signal().is_none()
    });
    bar.finish_and_clear();
    match (seen, stop.signal()) {
        (Err(MeasureError::Stopped), Some(signal)) => {
            Err(Failure::Stopped(signal, "nothing is written".into()))
        }
        (seen, _) => seen.map_err(|e| failed(format!("{}: {e}", place.file.path().display()))),
    }
}

/// The template's name and its text.
fn template(args: &CalibrateArgs, disk: Option<&Disk>) -> Result<(String, String), Failure> {
    let name = args
        .like
        .as_deref()
        .unwrap_or_else(|| disk.map_or(LIKE, Disk::like));
    let text = Profile::text_of(name).map_err(|e| usage(format!("--like: {e}")))?;
    Ok((name.to_string(), text))
}

/// The card's register: of the option, or of the device where the kernel shows it.
fn register(args: &CalibrateArgs, disk: Option<&Disk>) -> Result<Option<ExtCsd>, Failure> {
    if let Some(file) = &args.ext_csd {
        return host::ext_csd(file)
            .map(Some)
            .map_err(|e| usage(format!("--ext-csd: {e}")));
    }
    let Some(file) = disk.and_then(Disk::ext_csd_file) else {
        return Ok(None);
    };
    match host::ext_csd(&file) {
        Ok(register) => Ok(Some(register)),
        Err(why) => {
            tell(format!(
                "the card's EXT_CSD cannot be read ({why}); root can, with debugfs mounted"
            ));
            Ok(None)
        }
    }
}

fn finish(
    args: &CalibrateArgs,
    seen: &Seen,
    measured: &str,
    disk: Option<&Disk>,
) -> Result<(), Failure> {
    let (like, text) = template(args, disk)?;
    let register = register(args, disk)?;
    let kind = Profile::from_toml(&text)
        .and_then(|p| p.describe())
        .map_err(failed)?
        .kind;
    let mut given: Vec<Given> = disk.map_or_else(Vec::new, |d| d.given(kind));
    match &register {
        Some(register) if kind == "emmc" => given.extend(register.given()),
        Some(_) => tell(format!(
            "{like} is no eMMC: EXT_CSD decides nothing in it; --like emmc-odroid-xu4 is one"
        )),
        None => {}
    }
    let fit = fit(&text, &given, seen).map_err(failed)?;
    let stem = args
        .output
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let origin = Origin {
        name: &stem,
        template: &like,
        measured,
    };
    let written = profile(&text, &fit, origin).map_err(failed)?;
    // A profile that could not be used would be found only by the next command.
    let usable = Profile::from_toml(&written);
    let usable = usable.map_err(|e| failed(format!("the fitted profile: {e}")))?;
    match args.json {
        true => say(&format!(
            "{:#}\n",
            json!({ "template": like, "fit": fit, "ext_csd": register.map(|r| r.registers()) })
        ))?,
        false => say(&table::report(&fit, &like, register.as_ref(), disk))?,
    }
    save(&args.output, &written)?;
    let shown = args.output.display();
    if fit.miss() > MISS_MAX {
        return Err(failed(format!(
            "{shown} is written, and does not describe this device: its times differ by {:.0} % in the mean; measure on an idle machine, longer (--seconds), or begin from another model (--like)",
            fit.miss() * 100.0
        )));
    }
    tell(format!(
        "{shown} is written. Compare the schemes on it: varve compare --device {}",
        argument(&args.output)
    ));
    if !matches!(usable.chips(CHIPS_PROBE), Ok(Some(_))) {
        tell(format!(
            "it tells no life: {like} has no flash in it; --like emmc-odroid-xu4 does, with the endurance of your card in `[nand]`"
        ));
    }
    Ok(())
}

/// A path as `--device` takes it for a file.
fn argument(path: &Path) -> String {
    let text = path.display().to_string();
    match text.contains('/') || text.ends_with(".toml") {
        true => text,
        false => format!("./{text}"),
    }
}

/// Writes the whole file or nothing.
fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let part = part_of(path);
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .map_err(|e| {
            // The first error is the one to tell; a leftover part file is harmless.
            let _ = fs::remove_file(&part);
            failed(format!("{} cannot be written: {e}", path.display()))
        })
}
