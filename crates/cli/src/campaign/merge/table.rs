//! Rows of JSON as one table, in Parquet and in CSV. Fields inside of fields become columns with a
//! dot in their names; lists are left out, they stand in the report.
//!
//! The columns are known only when the last row was seen, so rows wait in a temporary file, and
//! memory is bounded whatever their number.

use crate::failure::{Failure, failed};
use crate::out;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rig::signals;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::Arc;

/// Rows that are turned into columns at once.
const BATCH: usize = 8192;
/// Rows of a group of the Parquet file.
const GROUP: usize = 8 * BATCH;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Bool,
    /// A number from 0 on that a signed column holds, too.
    Natural,
    Int,
    /// A number from 0 on that no signed column holds.
    Large,
    Float,
    Text,
}

impl Kind {
    /// `None` for what no column holds.
    fn of(value: &Value) -> Option<Kind> {
        match value {
            Value::Bool(_) => Some(Kind::Bool),
            Value::Number(n) if n.is_i64() && n.is_u64() => Some(Kind::Natural),
            Value::Number(n) if n.is_i64() => Some(Kind::Int),
            Value::Number(n) if n.is_u64() => Some(Kind::Large),
            Value::Number(_) => Some(Kind::Float),
            Value::String(_) => Some(Kind::Text),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The kind that holds both.
    fn with(self, other: Kind) -> Kind {
        match (self, other) {
            (a, b) if a == b => a,
            (Kind::Natural, other @ (Kind::Int | Kind::Large | Kind::Float)) => other,
            (other @ (Kind::Int | Kind::Large | Kind::Float), Kind::Natural) => other,
            (Kind::Int | Kind::Large, Kind::Float) | (Kind::Float, Kind::Int | Kind::Large) => {
                Kind::Float
            }
            _ => Kind::Text,
        }
    }

    fn arrow(self) -> DataType {
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::Natural | Kind::Int => DataType::Int64,
            Kind::Large => DataType::UInt64,
            Kind::Float => DataType::Float64,
            Kind::Text => DataType::Utf8,
        }
    }
}

/// A table that grows.
pub struct Table {
    /// Deflated: with many rows there would be as much of them as of all that is written.
    rows: GzEncoder<BufWriter<File>>,
    columns: Vec<(String, Kind)>,
    places: std::collections::BTreeMap<String, usize>,
    first: &'static [&'static str],
    count: u64,
}

impl Table {
    /// Without rows; they wait in a file of this folder that has no name. The columns `first` come
    /// first, in this order; those of them that no row has are left out.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(folder: &Path, first: &'static [&'static str]) -> Result<Table, Failure> {
        let file = tempfile::tempfile_in(folder);
        let file = file.map_err(|e| out::unwritten(folder, &e))?;
        Ok(Table {
            rows: GzEncoder::new(BufWriter::new(file), Compression::fast()),
            columns: Vec::new(),
            places: Default::default(),
            first,
            count: 0,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, row: &Value) -> Result<(), Failure> {
        let mut flat = Map::new();
        flatten(String::new(), row, &mut flat);
        for (name, value) in &flat {
            let Some(kind) = Kind::of(value) else {
                continue;
            };
            match self.places.get(name) {
                Some(place) => self.columns[*place].1 = self.columns[*place].1.with(kind),
                None => {
                    self.places.insert(name.clone(), self.columns.len());
                    self.columns.push((name.clone(), kind));
                }
            }
        }
        let written = serde_json::to_writer(&mut self.rows, &flat).map_err(std::io::Error::from);
        written
            .and_then(|()| self.rows.write_all(b"\n"))
            .map_err(unwritten)?;
        self.count += 1;
        Ok(())
    }

    /// Writes `name.parquet` and `name.csv`; the number of rows.
    ///
    /// # Errors
    /// They cannot be written; then neither is there.
    pub fn end(mut self, folder: &Path, name: &str) -> Result<u64, Failure> {
        let first = self.first;
        let place = |name: &str| first.iter().position(|f| *f == name).unwrap_or(first.len());
        self.columns.sort_by_key(|(name, _)| place(name));
        let rows = self.rows.finish().map_err(unwritten)?;
        let mut rows = rows.into_inner().map_err(|e| unwritten(e.into_error()))?;
        rows.rewind().map_err(unwritten)?;
        let rows = BufReader::new(GzDecoder::new(BufReader::new(rows)));
        let mut files = Files::begin(folder, &self.columns)?;
        let mut batch = Vec::with_capacity(BATCH);
        for line in rows.lines() {
            let row: Map<String, Value> =
                serde_json::from_str(&line.map_err(unwritten)?).map_err(failed)?;
            batch.push(row);
            if batch.len() == BATCH {
                if signals::noted().is_some() {
                    return Err(super::stopped());
                }
                files.write(&batch)?;
                batch.clear();
            }
        }
        files.write(&batch)?;
        files.end(folder, name)?;
        Ok(self.count)
    }
}

/// A writer keeps the rows of a group in memory until the group is full.
fn properties() -> WriterProperties {
    let properties = WriterProperties::builder();
    properties.set_max_row_group_row_count(Some(GROUP)).build()
}

fn unwritten(e: impl std::fmt::Display) -> Failure {
    failed(format!(
        "writing the tables: {e}; make room in the output folder, then merge again"
    ))
}

/// The fields of a value, those inside of others by their whole names. The order is that of the
/// value.
fn flatten(name: String, value: &Value, into: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = match name.is_empty() {
                    true => key.clone(),
                    false => format!("{name}.{key}"),
                };
                flatten(name, value, into);
            }
        }
        Value::Array(_) | Value::Null => {}
        value => drop(into.insert(name, value.clone())),
    }
}

/// Both files, while they are written.
struct Files {
    columns: Vec<(String, Kind)>,
    schema: Arc<Schema>,
    parquet: ArrowWriter<File>,
    parquet_part: tempfile::NamedTempFile,
    csv: csv::Writer<File>,
    csv_part: tempfile::NamedTempFile,
}

impl Files {
    fn begin(folder: &Path, columns: &[(String, Kind)]) -> Result<Files, Failure> {
        let part = || tempfile::NamedTempFile::new_in(folder).map_err(unwritten);
        let (parquet_part, csv_part) = (part()?, part()?);
        let fields = columns
            .iter()
            .map(|(name, kind)| Field::new(name, kind.arrow(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let file = |part: &tempfile::NamedTempFile| part.as_file().try_clone().map_err(unwritten);
        let parquet =
            ArrowWriter::try_new(file(&parquet_part)?, schema.clone(), Some(properties()));
        let mut csv = csv::Writer::from_writer(file(&csv_part)?);
        csv.write_record(columns.iter().map(|(name, _)| name))
            .map_err(unwritten)?;
        Ok(Files {
            columns: columns.to_vec(),
            schema,
            parquet: parquet.map_err(unwritten)?,
            parquet_part,
            csv,
            csv_part,
        })
    }

    fn write(&mut self, rows: &[Map<String, Value>]) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let columns = self
            .columns
            .iter()
            .map(|(name, kind)| column(rows, name, *kind));
        let batch = RecordBatch::try_new(self.schema.clone(), columns.collect());
        self.parquet
            .write(&batch.map_err(failed)?)
            .map_err(unwritten)?;
        for row in rows {
            let cells = self
                .columns
                .iter()
                .map(|(name, _)| row.get(name).map_or(String::new(), text));
            self.csv.write_record(cells).map_err(unwritten)?;
        }
        Ok(())
    }

    fn end(mut self, folder: &Path, name: &str) -> Result<(), Failure> {
        self.parquet.close().map_err(unwritten)?;
        self.csv.flush().map_err(unwritten)?;
        drop(self.csv);
        for (part, kind) in [(self.parquet_part, "parquet"), (self.csv_part, "csv")] {
            keep(part, &folder.join(format!("{name}.{kind}")))?;
        }
        Ok(())
    }
}

/// Gives a file that is complete its name, and everyone's permission to read it.
///
/// # Errors
/// The host refuses.
pub fn keep(part: tempfile::NamedTempFile, path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let why = |e: std::io::Error| out::unwritten(path, &e);
    let open = std::fs::Permissions::from_mode(0o644);
    part.as_file().set_permissions(open).map_err(why)?;
    part.persist(path).map(drop).map_err(|e| why(e.error))
}

fn column(rows: &[Map<String, Value>], name: &str, kind: Kind) -> ArrayRef {
    let values = rows.iter().map(|row| row.get(name));
    match kind {
        Kind::Bool => Arc::new(values.map(|v| v?.as_bool()).collect::<BooleanArray>()),
        Kind::Natural | Kind::Int => Arc::new(values.map(|v| v?.as_i64()).collect::<Int64Array>()),
        Kind::Large => Arc::new(values.map(|v| v?.as_u64()).collect::<UInt64Array>()),
        Kind::Float => Arc::new(values.map(|v| v?.as_f64()).collect::<Float64Array>()),
        Kind::Text => Arc::new(values.map(|v| v.map(text)).collect::<StringArray>()),
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;

    fn table(rows: &[Value]) -> (RecordBatch, String) {
        let dir = tempfile::tempdir().unwrap();
        let mut table = Table::begin(dir.path(), &["more", "absent"]).unwrap();
        rows.iter().for_each(|row| table.add(row).unwrap());
        assert_eq!(table.end(dir.path(), "t").unwrap(), rows.len() as u64);
        let file = File::open(dir.path().join("t.parquet")).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap();
        let csv = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
        (reader.next().unwrap().unwrap(), csv)
    }

    #[test]
    fn rows_with_different_fields_make_one_table() {
        let (batch, csv) = table(&[
            json!({"a": 1, "b": {"c": 2, "d": "x,y"}, "list": [1, 2], "e": null}),
            json!({"a": 2, "b": {"c": 2.5}, "more": true}),
        ]);
        assert_eq!(csv, "more,a,b.c,b.d\n,1,2,\"x,y\"\ntrue,2,2.5,\n");
        let at = |name: &str| batch.column_by_name(name).unwrap();
        assert_eq!(at("a").as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(
            at("b.c").as_primitive::<Float64Type>().values(),
            &[2.0, 2.5]
        );
        assert!(at("b.d").is_null(1) && at("more").is_null(0));
        assert_eq!(batch.num_columns(), 4);
    }

    #[test]
    fn a_number_that_no_signed_column_holds_is_exact() {
        let (batch, csv) = table(&[json!({"a": 1}), json!({"a": u64::MAX})]);
        assert_eq!(csv, format!("a\n1\n{}\n", u64::MAX));
        let column = batch.column_by_name("a").unwrap();
        assert_eq!(column.as_primitive::<UInt64Type>().values(), &[1, u64::MAX]);
        let (batch, _) = table(&[json!({"a": -1}), json!({"a": u64::MAX})]);
        let column = batch.column_by_name("a").unwrap().as_string::<i32>();
        assert_eq!(
            (column.value(0), column.value(1)),
            ("-1", "18446744073709551615")
        );
    }

    #[test]
    fn a_column_of_several_kinds_is_text() {
        let (batch, csv) = table(&[json!({"a": 1}), json!({"a": "x"})]);
        assert_eq!(csv, "a\n1\nx\n");
        let column = batch.column_by_name("a").unwrap().as_string::<i32>();
        assert_eq!((column.value(0), column.value(1)), ("1", "x"));
    }
}
