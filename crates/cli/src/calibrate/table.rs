//! What was found, for people.

use super::host::Disk;
use crate::table::framed;
use calibrate::{ExtCsd, Fit};

/// All of it: fields, what was not seen, and each measured time beside the model's.
pub fn report(fit: &Fit, template: &str, register: Option<&ExtCsd>, disk: Option<&Disk>) -> String {
    let mut out = fields(fit, template);
    if let Some(register) = register {
        out.push_str(&format!("\n{}\n", registers(register)));
    }
    if let Some(wear) = disk.and_then(Disk::wear) {
        out.push_str(&format!("\nThe card says of its wear: {wear}.\n"));
    }
    out.push_str(&format!(
        "\nWhat cannot be seen from outside, and is taken from {template}:\n"
    ));
    for unseen in &fit.unseen {
        out.push_str(&format!("  {}: {}\n", unseen.fields, unseen.why));
    }
    out.push_str(&format!("\n{}\n", checks(fit)));
    let left_out = fit.checks.iter().filter(|c| c.left_out).count();
    out.push_str(&format!(
        "The model shows the measured times with a mean difference of {:.1} %",
        fit.miss() * 100.0
    ));
    match left_out {
        0 => out.push_str(".\n"),
        n => out.push_str(&format!(
            "; {n} (*) left out, because what they say alone contradicts all others.\n"
        )),
    }
    out
}

fn fields(fit: &Fit, template: &str) -> String {
    let mut table = framed(["field", template, "found", "95 % interval, or why not"]);
    for f in &fit.fitted {
        table.add_row([
            f.field.clone(),
            number(f.template),
            number(f.value),
            format!("{} to {}", number(f.low), number(f.high)),
        ]);
    }
    for g in &fit.given {
        table.add_row([
            g.field.clone(),
            String::new(),
            g.value.to_string(),
            g.from.clone(),
        ]);
    }
    for a in &fit.assumed {
        table.add_row([
            a.field.clone(),
            a.value.clone(),
            "not seen".into(),
            a.why.clone(),
        ]);
    }
    format!("{table}\n")
}

fn registers(register: &ExtCsd) -> String {
    let mut table = framed(["EXT_CSD", "byte", "value", "meaning"]);
    for r in register
        .registers()
        .iter()
        .filter(|r| !r.meaning.is_empty())
    {
        table.add_row([
            r.name.into(),
            r.byte.to_string(),
            r.value.to_string(),
            r.meaning.clone(),
        ]);
    }
    table.to_string()
}

fn checks(fit: &Fit) -> String {
    let mut table = framed(["measured", "us (95 %)", "times", "model us", "difference"]);
    for c in &fit.checks {
        let m = &c.measured;
        let mark = if c.left_out { "*" } else { "" };
        table.add_row([
            format!("{}{mark}", c.probe),
            format!("{:.1} ({:.1} to {:.1})", m.us, m.low, m.high),
            m.samples.to_string(),
            format!("{:.1}", c.model_us),
            format!("{:+.1} %", (c.model_us / m.us - 1.0) * 100.0),
        ]);
    }
    table.to_string()
}

fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}
