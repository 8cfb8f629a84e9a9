//! `varve schema`: the JSON Schema of each result file, made of the types that write it.
//!
//! A field that no schema names is refused (`additionalProperties: false`), so a reader that checks
//! by the schema learns of a new one, and so do the tests.

use crate::args::{Of, SchemaArgs};
use crate::campaign::status::Status;
use crate::failure::Failure;
use crate::out::say;
use crash::finding::report::CampaignReport;
use paper::Report as PaperReport;
use program::findings::Report as ProgramReport;
use report::results::{Comparisons, Results};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Prints a schema.
pub fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    let schema = match args.of {
        Of::Compare => made::<Results>("results.json of `varve compare` and `varve replay`"),
        Of::Crash => made::<CampaignReport>("results.json of `varve crash`"),
        Of::CrashDir => made::<ProgramReport>("results.json of `varve crash --dir`"),
        Of::Paper => made::<PaperReport>("paper.json of `varve paper`"),
        Of::Campaign => {
            made::<Comparisons>("results.json of a campaign of several comparisons of Varve")
        }
        Of::CampaignStatus => made::<Status>("`varve campaign status --json`"),
    };
    let text = serde_json::to_string_pretty(&schema).expect("a schema serialises");
    say(&format!("{text}\n"))
}

fn made<T: JsonSchema>(title: &str) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(closed));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), title.into());
    schema
}

/// Refuses fields that are not named, and writes links to names in code as names.
fn closed(schema: &mut Schema) {
    let has = |key: &str| schema.get(key).is_some();
    if has("properties") && !has("additionalProperties") {
        schema.insert("additionalProperties".into(), false.into());
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
}
