//! The text of a calibrated profile: the template's, with values that were found, and beside each
//! what is known of it.

use crate::fit::Fit;
use toml_edit::{DocumentMut, Item, KeyMut, Table};

/// The name of the timing set of a calibrated profile.
pub const SET: &str = "measured";

/// Where a profile comes from, for the head of its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin<'a> {
    /// The name of the profile.
    pub name: &'a str,
    /// The template's name.
    pub template: &'a str,
    /// What measured, in a sentence without its point.
    pub measured: &'a str,
}

/// Writes the profile.
///
/// # Errors
/// The template is not TOML.
pub fn profile(template: &str, fit: &Fit, origin: Origin<'_>) -> Result<String, String> {
    let mut doc: DocumentMut = template
        .parse()
        .map_err(|e: toml_edit::TomlError| e.to_string())?;
    for fitted in &fit.fitted {
        let interval = format!("{} to {}", short(fitted.low), short(fitted.high));
        let comment = format!("Measured: {interval} with 95 % confidence.");
        set(
            &mut doc,
            &fitted.field,
            Some(&short(fitted.value)),
            &comment,
            false,
        );
    }
    for given in &fit.given {
        let comment = format!("Read: {}.", given.from);
        set(
            &mut doc,
            &given.field,
            Some(&given.value.to_string()),
            &comment,
            false,
        );
    }
    for assumed in &fit.assumed {
        let comment = format!("Not seen, as in {}: {}.", origin.template, assumed.why);
        set(&mut doc, &assumed.field, None, &comment, true);
    }
    rename(&mut doc, &fit.timing);
    set(
        &mut doc,
        "name",
        Some(&format!("{:?}", origin.name)),
        "",
        false,
    );
    set(
        &mut doc,
        "default_timing",
        Some(&format!("{SET:?}")),
        "",
        false,
    );
    Ok(format!(
        "{}{}",
        head(fit, origin),
        doc.to_string().trim_start()
    ))
}

/// A number with four significant digits, with a point if it has a fraction.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0.0".into();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    match text.contains('.') {
        true => text,
        false => format!("{text}.0"),
    }
}

/// Only the timing set that was fitted stays, under the name [`SET`]: the others are of another
/// device.
fn rename(doc: &mut DocumentMut, set: &str) {
    let Some(timing) = doc.get_mut("timing").and_then(Item::as_table_mut) else {
        return;
    };
    let others: Vec<String> = timing.iter().map(|(name, _)| name.to_string()).collect();
    for name in others {
        let item = timing.remove(&name);
        if name == set
            && let Some(mut item) = item
        {
            if let Some(table) = item.as_table_mut() {
                table
                    .decor_mut()
                    .set_prefix("\n# Fields without an interval are those of the template.\n");
            }
            timing.insert(SET, item);
        }
    }
}

/// Puts a value (of the type of the old one) and a comment at a path. With `keep` the template's
/// comment stays in front.
fn set(doc: &mut DocumentMut, path: &str, value: Option<&str>, comment: &str, keep: bool) {
    let mut names: Vec<&str> = path.split('.').collect();
    let Some(last) = names.pop() else { return };
    let mut here: &mut Table = doc.as_table_mut();
    for name in names {
        let Some(inner) = here.get_mut(name).and_then(Item::as_table_mut) else {
            return;
        };
        here = inner;
    }
    let Some((mut key, item)) = here.get_key_value_mut(last) else {
        return;
    };
    if let Some(text) = value {
        replace(item, text);
    }
    comment_on(&mut key, comment, keep);
}

fn replace(item: &mut Item, text: &str) {
    let whole = item.as_integer().is_some();
    // A field of whole numbers stays one.
    let text = match whole {
        true => text.trim_end_matches(".0"),
        false => text,
    };
    if let Ok(value) = text.parse::<toml_edit::Value>() {
        *item = Item::Value(value.decorated(" ", ""));
    }
}

fn comment_on(key: &mut KeyMut<'_>, comment: &str, keep: bool) {
    let before = key
        .leaf_decor()
        .prefix()
        .and_then(|p| p.as_str())
        .unwrap_or_default();
    let before = match keep {
        true => before.to_string(),
        // An empty line before the field stays.
        false => "\n".repeat(usize::from(before.starts_with('\n'))),
    };
    let lines = wrapped(comment);
    key.leaf_decor_mut().set_prefix(format!("{before}{lines}"));
}

/// A text as lines of a comment.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() + 3 > WIDTH {
            out.push_str(&format!("#{line}\n"));
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("#{line}\n"));
    }
    out
}

fn head(fit: &Fit, origin: Origin<'_>) -> String {
    let mut out = wrapped(&format!(
        "{}: {}. Made by `varve device calibrate` from the template {}; its model shows the measured times \
         with a mean difference of {:.1} %.",
        origin.name,
        origin.measured,
        origin.template,
        fit.miss() * 100.0
    ));
    out.push_str("#\n# What cannot be seen from outside, and is the template's:\n");
    for unseen in &fit.unseen {
        out.push_str(&wrapped(&format!("- {}: {}.", unseen.fields, unseen.why)));
    }
    out.push('\n');
    out
}
