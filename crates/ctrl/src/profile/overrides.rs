//! Changes to a profile, as the command line gives them: `card.cache_on=false`.

use toml::{Table, Value};

/// The name in a device string, and the changes behind it.
pub(super) fn split(device: &str) -> (&str, Vec<&str>) {
    let mut parts = device.split(',').map(str::trim);
    (parts.next().unwrap_or_default(), parts.collect())
}

/// Applies one change to the profile's table: the path of the field that it changed, and its value.
///
/// # Errors
/// There is no such field, or it cannot have this value; in words.
pub(super) fn apply(table: &mut Table, change: &str) -> Result<(String, Value), String> {
    let Some((path, value)) = change.split_once('=') else {
        return Err(format!("`{change}` is no FIELD=VALUE"));
    };
    let (path, value) = (path.trim(), value.trim());
    // `vwc=off` is short for `controller.vwc=off`.
    let short = format!("controller.{path}");
    let inside = |table: &Table| {
        let controller = table.get("controller").and_then(Value::as_table);
        !table.contains_key(path) && controller.is_some_and(|c| c.contains_key(path))
    };
    let path = if inside(table) { &short } else { path };
    let mut names: Vec<&str> = path.split('.').collect();
    let last = names.pop().unwrap_or_default();
    if matches!(path, "name" | "kind") {
        return Err(format!(
            "`{path}` is what the profile is; it cannot be changed"
        ));
    }
    let mut here = table;
    let mut walked = String::new();
    for name in names {
        let valid = fields(here);
        walked = format!("{walked}{name}.");
        here = match here.get_mut(name) {
            Some(Value::Table(inner)) => inner,
            _ => return Err(unknown(path, &walked, &valid)),
        };
    }
    let valid = fields(here);
    match here.get_mut(last) {
        None => Err(unknown(path, &format!("{walked}{last}"), &valid)),
        Some(Value::Table(inner)) => {
            let inside = fields(inner);
            Err(format!(
                "`{path}` is a group of fields; in it are: {inside}"
            ))
        }
        Some(old) => {
            *old = parsed(path, old, value)?;
            Ok((path.into(), old.clone()))
        }
    }
}

fn unknown(path: &str, at: &str, valid: &str) -> String {
    let at = at.trim_end_matches('.');
    format!("unknown field `{path}`: `{at}` is none of {valid}")
}

fn fields(table: &Table) -> String {
    table
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The value, of the type that the field has.
fn parsed(path: &str, old: &Value, text: &str) -> Result<Value, String> {
    let wrong = |want: &str| Err(format!("{path} = {text}; it must be {want}"));
    match old {
        Value::Boolean(_) => match text {
            "true" | "on" => Ok(Value::Boolean(true)),
            "false" | "off" => Ok(Value::Boolean(false)),
            _ => wrong("true or false"),
        },
        Value::Integer(_) => match text.parse::<i64>() {
            Ok(n) if n >= 0 => Ok(Value::Integer(n)),
            _ => wrong("a whole number from 0 on"),
        },
        Value::Float(_) => match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Value::Float(x)),
            _ => wrong("a number"),
        },
        Value::String(_) => Ok(Value::String(text.into())),
        _ => wrong("left as it is"),
    }
}
