//! `varve device new`, `show`, `save`, `load`: devices saved in files.

use crate::failure::{Failure, failed, usage};
use crate::out::{self, say, say_json};
use crate::table::framed;
use rig::{
    ProfileError, RigError, SavedDevice, StateError, load_image_onto, read_device, write_device,
    write_image_whole,
};
use serde_json::{Value, json};
use std::path::Path;

/// What was done: for people and for programs.
pub struct Done {
    text: String,
    value: Value,
}

impl Done {
    /// Prints it.
    pub fn say(&self, as_json: bool) -> Result<(), Failure> {
        match as_json {
            true => say_json(&self.value),
            false => say(&format!("{}\n", self.text)),
        }
    }
}

/// Runs `varve device new`.
pub fn new(profile: &str, file: &Path, mib: Option<u64>, force: bool) -> Result<Done, Failure> {
    let bytes = mib.map(|mib| mib.saturating_mul(1 << 20));
    let device = SavedDevice::blank(profile, bytes).map_err(|e| match e {
        StateError::Profile(ProfileError::Unknown { name, .. }) if name.ends_with(".toml") => {
            usage(format!(
                "`{name}` is a file: a saved device is of a built-in profile, with changes"
            ))
        }
        // The profile is of the command line here, not of a file.
        StateError::Profile(e @ ProfileError::Device { .. }) => failed(e),
        StateError::Profile(e) => usage(e),
        other => failed(other),
    })?;
    write_device(&device, file, force).map_err(failed)?;
    let bytes = device.media().capacity_bytes();
    let kind = device.media().kind();
    let (name, mib) = (file.display(), bytes >> 20);
    Ok(Done {
        text: format!("{name}: {profile}, {kind}, {mib} MiB"),
        value: json!({
            "file": out::path(file), "profile": profile, "kind": kind, "capacity_bytes": bytes,
        }),
    })
}

/// Runs `varve device show` on a file.
pub fn show(file: &Path, as_json: bool) -> Result<(), Failure> {
    let device = read_device(file).map_err(failed)?;
    let model = device.build().map_err(failed)?;
    let mut used = 0u64;
    model.dump_logical(|_, _| used += 1);
    let media = device.media();
    let chips = media.chips().map(|chips| {
        let (least, mean, most) = chips.wear_range();
        let (factory, grown) = chips.bad_blocks();
        json!({
            "blocks": chips.geometry().blocks(),
            "erases": {"min": least, "mean": mean, "max": most},
            "bad": {"factory": factory, "grown": grown},
        })
    });
    let all = json!({
        "profile": device.profile(),
        "kind": media.kind(),
        "capacity_bytes": media.capacity_bytes(),
        "nonzero_blocks": used,
        "chips": chips,
    });
    if as_json {
        return say(&format!("{all:#}\n"));
    }
    say(&format!("{}: {}\n", file.display(), words(&all)))
}

fn words(all: &Value) -> String {
    let mut table = framed(["saved device", "value"]);
    let text = |value: &Value| value.as_str().map_or(value.to_string(), String::from);
    let mib = all["capacity_bytes"].as_u64().unwrap_or(0) >> 20;
    table.add_row(["profile".into(), text(&all["profile"])]);
    table.add_row(["kind".into(), text(&all["kind"])]);
    table.add_row(["capacity, MiB".into(), mib.to_string()]);
    let used = text(&all["nonzero_blocks"]);
    table.add_row(["4 KiB blocks that are not zero".into(), used]);
    let chips = &all["chips"];
    if !chips.is_null() {
        let (erases, bad) = (&chips["erases"], &chips["bad"]);
        let mean = erases["mean"].as_f64().unwrap_or(0.0);
        let wear = format!("{} / {mean:.2} / {}", erases["min"], erases["max"]);
        table.add_row(["erase blocks".into(), text(&chips["blocks"])]);
        table.add_row(["erases: least, mean, most".into(), wear]);
        let bad = format!("{} + {}", bad["factory"], bad["grown"]);
        table.add_row(["bad blocks: factory's + grown".into(), bad]);
    }
    format!("{}\n{table}", text(&all["profile"]))
}

/// Runs `varve device save`.
pub fn save(file: &Path, image: &Path, force: bool) -> Result<Done, Failure> {
    if let (Ok(from), Ok(to)) = (file.canonicalize(), image.canonicalize())
        && from == to
    {
        let why = format!("{} is the saved device itself", image.display());
        return Err(usage(why));
    }
    let model = read_device(file).map_err(failed)?.build().map_err(failed)?;
    write_image_whole(&model, image, force).map_err(failed)?;
    let mut used = 0u64;
    model.dump_logical(|_, _| used += 1);
    let name = image.display();
    Ok(Done {
        text: format!("{name}: {used} blocks of 4 KiB that are not zero"),
        value: json!({"image": out::path(image), "nonzero_blocks": used}),
    })
}

/// Runs `varve device load`.
pub fn load(image: &Path, file: &Path, force: bool) -> Result<Done, Failure> {
    let device = read_device(file).map_err(failed)?;
    let mut model = device.build().map_err(failed)?;
    let name = file.display();
    let mut holds = false;
    model.dump_logical(|_, _| holds = true);
    if holds && !force {
        let why = format!("{name} holds data; --force writes over it");
        return Err(failed(why));
    }
    let written = load_image_onto(image, &mut model).map_err(|e| match e {
        RigError::ImageSize { .. } => usage(e),
        other => failed(other),
    })?;
    let device = device.shut_down(model).map_err(failed)?;
    write_device(&device, file, true).map_err(failed)?;
    Ok(Done {
        text: format!("{name}: {written} blocks of 4 KiB written"),
        value: json!({"file": out::path(file), "written_blocks": written}),
    })
}
