//! `varve info`: summarises the file system in an image.

use crate::args::InfoArgs;
use crate::failure::{Failure, failed};
use crate::fsck::open;
use crate::out::{say, say_json};
use base::plain;
use rig::inspect::{self, Row, Section};
use serde_json::{Map, Value};

/// Runs `varve info`.
pub fn info(args: &InfoArgs) -> Result<(), Failure> {
    let name = args.image.display();
    let file = open::open(&args.image, false).map_err(failed)?;
    let journal = args.journal.as_ref().map(|path| open::open(path, false));
    let journal = journal.transpose().map_err(failed)?;
    let sections =
        inspect::info(&file, journal.as_ref()).map_err(|e| failed(format!("{name}: {e}")))?;
    show(&sections, args.json)
}

/// Prints sections as text, or as one JSON object.
pub fn show(sections: &[Section], json: bool) -> Result<(), Failure> {
    if json {
        let object: Map<String, Value> = (sections.iter())
            .map(|s| (s.key.clone(), fields(&s.rows)))
            .collect();
        return say_json(&Value::Object(object));
    }
    for section in sections {
        say(&format!("{}\n", plain::line(&section.title)))?;
        let width = section
            .rows
            .iter()
            .map(|row| row.name.len())
            .max()
            .unwrap_or(0);
        for Row { name, words, .. } in &section.rows {
            say(&format!("  {name:width$}  {}\n", plain::line(words)))?;
        }
    }
    Ok(())
}

/// A structure as an object of JSON.
fn fields(rows: &[Row]) -> Value {
    let fields = rows.iter().map(|row| {
        let value = serde_json::to_value(&row.value).expect("plain data serialises");
        (row.key(), value)
    });
    Value::Object(fields.collect())
}
