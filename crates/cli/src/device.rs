//! `varve device`: lists the device profiles and the promises of their devices. Saved devices are
//! in [`saved`].

use crate::args::DeviceCommand;
use crate::calibrate;
use crate::failure::{Failure, failed, usage};
use crate::out::say;
use crate::saved;
use crate::table::framed;
use base::plain;
use comfy_table::Table;
use rig::{Description, Profile};
use serde_json::Value;
use std::path::Path;

/// Lists the profiles, shows one, or works on a saved device.
pub fn device(command: &DeviceCommand) -> Result<(), Failure> {
    match command {
        DeviceCommand::List { json } => {
            let all: Result<Vec<Description>, Failure> = Profile::names()
                .map(|name| {
                    Profile::builtin(name)
                        .and_then(|p| p.describe())
                        .map_err(failed)
                })
                .collect();
            let all = all?;
            if *json {
                return say_json(&all);
            }
            say(&format!("{}\n", list(&all)))
        }
        DeviceCommand::New {
            profile,
            file,
            size,
            force,
            json,
        } => match file {
            Some(file) => saved::new(profile, file, *size, *force)?.say(*json),
            None => say(&Profile::text_of(profile).map_err(usage)?),
        },
        DeviceCommand::Calibrate(args) => calibrate::calibrate(args),
        DeviceCommand::Save {
            file,
            image,
            force,
            json,
        } => saved::save(file, image, *force)?.say(*json),
        DeviceCommand::Load {
            image,
            file,
            force,
            json,
        } => saved::load(image, file, *force)?.say(*json),
        DeviceCommand::Show { profile, json } if is_file(profile) => {
            saved::show(Path::new(profile), *json)
        }
        DeviceCommand::Show { profile, json } => {
            let parsed = Profile::open(profile).map_err(usage)?;
            let described = parsed.describe().map_err(failed)?;
            if *json {
                return say_json(&described);
            }
            say(&show(profile, &described))
        }
    }
}

/// What is there and is no profile's name or file is a saved device; so is what can only be a path.
fn is_file(text: &str) -> bool {
    let name = text.split(',').next().unwrap_or_default().trim();
    let profile = name.ends_with(".toml") || Profile::names().any(|known| known == name);
    !profile && (text.contains('/') || Path::new(text).exists())
}

fn say_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(failed)?;
    say(&format!("{text}\n"))
}

fn table(header: &[&str]) -> Table {
    framed(header.iter().copied())
}

fn list(all: &[Description]) -> Table {
    let mut table = table(&["profile", "kind", "MiB", "timing sets (default first)"]);
    for d in all {
        let others = d.timing.keys().filter(|name| **name != d.timing_default);
        let sets: Vec<&str> = std::iter::once(&d.timing_default)
            .chain(others)
            .map(String::as_str)
            .collect();
        table.add_row([
            d.name.clone(),
            d.kind.into(),
            (d.capacity_bytes >> 20).to_string(),
            sets.join(", "),
        ]);
    }
    table
}

fn show(profile: &str, d: &Description) -> String {
    let mib = d.capacity_bytes >> 20;
    let profile = plain::line(profile);
    let mut out = format!("{profile}: {}, {mib} MiB", d.kind);
    let host = d.host_cpu_percent;
    out.push_str(&format!("; CPU costs of its host: {host} % of a PC's"));
    out.push_str(&format!("; its I/O scheduler: {}\n\n", d.host_scheduler));
    out.push_str(&format!("{}\n\n", rows(&["promise", "value"], &d.caps)));
    for (name, set) in &d.timing {
        let default = if *name == d.timing_default {
            " (default)"
        } else {
            ""
        };
        let header = format!("timing {name}{default}");
        out.push_str(&format!("{}\n\n", rows(&[&header, "value"], set)));
    }
    if let Some(slc) = &d.slc {
        out.push_str(&format!("{}\n\n", rows(&["SLC area", "value"], slc)));
    }
    for (register, fields) in [("EXT_CSD", &d.ext_csd), ("identify", &d.identify)] {
        if fields.is_empty() {
            continue;
        }
        let mut table = table(&[register, "byte", "value", "meaning"]);
        for f in fields {
            table.add_row([
                f.name.into(),
                f.byte.to_string(),
                f.value.to_string(),
                f.meaning.clone(),
            ]);
        }
        out.push_str(&format!("{table}\n"));
    }
    out
}

/// The fields of a value, one a row; tables inside with a dot between.
fn rows(header: &[&str], value: &impl serde::Serialize) -> Table {
    let mut table = table(header);
    if let Ok(Value::Object(fields)) = serde_json::to_value(value) {
        for (name, value) in fields {
            match value {
                Value::Object(inner) => {
                    for (key, value) in inner {
                        table.add_row([format!("{name}.{key}"), text(&value)]);
                    }
                }
                value => {
                    table.add_row([name, text(&value)]);
                }
            }
        }
    }
    table
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
