//! Parses random variables: `set $x=cvar(...)`, `set $x=random(...)`, `define randvar`.

use super::amount::{INT_MAX, Random, Shape, TAIL, Value};
use super::attributes::{Attributes, RANDVAR};
use super::error::{Fault, fault};
use super::lex::Kind;
use super::parse::Parser;
use std::collections::BTreeMap;

const TYPES: &str = "gamma, uniform, normal, exponential";

/// Parses what follows the word: `(type=cvar-gamma,parameters=mean:16384;gamma:1.5,min=1)`.
pub fn variable(parser: &mut Parser<'_>) -> Result<Random, Fault> {
    let line = parser.line();
    parser.mark('(')?;
    let mut all = Vec::new();
    loop {
        let (name, line) = parser.word("an attribute")?;
        parser.mark('=')?;
        let value = match name.as_str() {
            "parameters" => Value::Text(parameters(parser)?),
            _ => parser.value()?,
        };
        all.push((name, value, line));
        if !parser.accept(',') {
            break;
        }
    }
    parser.mark(')')?;
    let given = Attributes::new(&RANDVAR, line, all, &mut parser.model)?;
    of(&given)
}

/// Parses `define randvar name=$x,type=gamma,mean=16k,gamma=1500`.
pub fn define(parser: &mut Parser<'_>) -> Result<(), Fault> {
    let line = parser.line();
    let all = parser.attributes()?;
    let given = Attributes::new(&RANDVAR, line, all, &mut parser.model)?;
    let (name, random) = (given.name()?, of(&given)?);
    parser.define_variable(name, Value::Random(random), line)
}

/// Takes `mean:16384;gamma:1.5`, which is not a single token.
fn parameters(parser: &mut Parser<'_>) -> Result<String, Fault> {
    let mut text = String::new();
    loop {
        match parser.peek().map(|token| &token.kind) {
            Some(Kind::Mark(';')) => {
                parser.next("`;`")?;
                text.push(';');
            }
            Some(Kind::Mark(',' | ')')) | None => return Ok(text),
            _ => text += &parser.value()?.text(),
        }
    }
}

fn of(given: &Attributes) -> Result<Random, Fault> {
    let line = given.line;
    let text = given.text("parameters")?.unwrap_or_default();
    let mut parameters = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let parsed = part.split_once(':').and_then(|(name, value)| {
            let value = match Value::of_word(value.trim()) {
                Value::Int(n) => n as f64,
                other => other.text().parse().ok()?,
            };
            Some((name.trim().to_string(), value))
        });
        let what = || format!("`{part}` is no parameter; they look like mean:16384;gamma:1.5");
        let (name, value) = parsed.ok_or_else(|| fault(line, what()))?;
        parameters.insert(name, value);
    }
    let kind = given.text("type")?.unwrap_or_else(|| "gamma".into());
    let kind = kind.strip_prefix("cvar-").unwrap_or(&kind);
    let shape = shape(kind, given, &mut parameters)?;
    if let Some(name) = parameters.keys().next() {
        let what = format!("a random variable of type {kind} has no parameter `{name}`");
        return Err(fault(line, what));
    }
    let checked = Random {
        shape,
        min: 0,
        max: INT_MAX,
        round: 0,
    }
    .checked(line)?;
    // A cast of a float saturates.
    let tail = (checked.mean() as u64)
        .saturating_mul(TAIL)
        .clamp(1, INT_MAX);
    Random {
        min: given.int("min", 0, INT_MAX)?,
        max: given.int("max", tail, INT_MAX)?,
        round: given.int("round", 0, INT_MAX)?,
        ..checked
    }
    .checked(line)
}

fn shape(
    kind: &str,
    given: &Attributes,
    parameters: &mut BTreeMap<String, f64>,
) -> Result<Shape, Fault> {
    let line = given.line;
    let attribute = |name| given.int(name, 0, INT_MAX).map(|n| n as f64);
    let mean_given = given.has("mean").then(|| attribute("mean")).transpose()?;
    let mut take = |name: &str, otherwise: Option<f64>| {
        let value = parameters.remove(name).or(otherwise);
        value.ok_or_else(|| {
            fault(
                line,
                format!("a random variable of type {kind} needs `{name}`"),
            )
        })
    };
    match kind {
        "gamma" => Ok(Shape::Gamma {
            mean: take("mean", mean_given)?,
            // An attribute is in thousandths, a parameter is not.
            shape: take(
                "gamma",
                Some(given.int("gamma", 1500, 1_000_000)? as f64 / 1e3),
            )?,
        }),
        "uniform" => Ok(Shape::Uniform {
            lower: take("lower", Some(attribute("min")?))?,
            upper: match given.has("max") {
                true => take("upper", Some(attribute("max")?))?,
                false => take("upper", mean_given.map(|mean| 2.0 * mean))?,
            },
        }),
        "normal" => Ok(Shape::Normal {
            mean: take("mean", mean_given)?,
            sigma: take("sigma", None)?,
        }),
        "exponential" => Ok(Shape::Exponential {
            mean: take("mean", mean_given)?,
        }),
        other => Err(fault(line, format!("`type={other}`; there is: {TYPES}"))),
    }
}
