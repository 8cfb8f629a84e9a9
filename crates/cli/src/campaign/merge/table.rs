//! Rows of JSON as one table, in Parquet and in CSV. Fields inside of fields become columns with a
//! dot in their names; lists are left out, they stand in the report.
//!
//! The columns are known only when the last row was seen, so rows wait in a temporary file, and
//! memory is bounded whatever their number.

use super::columns::{Columns, Kind, text};
use crate::failure::{Failure, failed};
use crate::out;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use rig::signals;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;

/// Rows between two looks whether the user wants an end.
const LOOK: u64 = 8192;

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
        for (number, line) in (1_u64..).zip(rows.lines()) {
            let row: Map<String, Value> =
                serde_json::from_str(&line.map_err(unwritten)?).map_err(failed)?;
            files.write(&row)?;
            if number % LOOK == 0 && signals::noted().is_some() {
                return Err(super::stopped());
            }
        }
        files.end(folder, name)?;
        Ok(self.count)
    }
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
    parquet: Columns<File>,
    parquet_part: tempfile::NamedTempFile,
    csv: csv::Writer<File>,
    csv_part: tempfile::NamedTempFile,
}

impl Files {
    fn begin(folder: &Path, columns: &[(String, Kind)]) -> Result<Files, Failure> {
        let part = || tempfile::NamedTempFile::new_in(folder).map_err(unwritten);
        let (parquet_part, csv_part) = (part()?, part()?);
        let file = |part: &tempfile::NamedTempFile| part.as_file().try_clone().map_err(unwritten);
        let parquet = Columns::begin(file(&parquet_part)?, columns).map_err(unwritten)?;
        let mut csv = csv::Writer::from_writer(file(&csv_part)?);
        csv.write_record(columns.iter().map(|(name, _)| name))
            .map_err(unwritten)?;
        Ok(Files {
            columns: columns.to_vec(),
            parquet,
            parquet_part,
            csv,
            csv_part,
        })
    }

    fn write(&mut self, row: &Map<String, Value>) -> Result<(), Failure> {
        self.parquet.add(row).map_err(unwritten)?;
        let cells = self
            .columns
            .iter()
            .map(|(name, _)| row.get(name).map_or(String::new(), text));
        self.csv.write_record(cells).map_err(unwritten)
    }

    fn end(mut self, folder: &Path, name: &str) -> Result<(), Failure> {
        self.parquet.end().map_err(unwritten)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    /// The rows of the Parquet file as its own reader shows them, and the text of the other.
    fn table(rows: &[Value]) -> (Vec<Value>, String) {
        let dir = tempfile::tempdir().unwrap();
        let mut table = Table::begin(dir.path(), &["more", "absent"]).unwrap();
        rows.iter().for_each(|row| table.add(row).unwrap());
        assert_eq!(table.end(dir.path(), "t").unwrap(), rows.len() as u64);
        let file = File::open(dir.path().join("t.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let rows = rows.map(|row| cells(&row.unwrap())).collect();
        let csv = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
        (rows, csv)
    }

    fn cells(row: &parquet::record::Row) -> Value {
        use parquet::record::Field;
        let cell = |field: &Field| match field {
            Field::Null => Value::Null,
            Field::Bool(value) => json!(value),
            Field::Long(value) => json!(value),
            Field::ULong(value) => json!(value),
            Field::Double(value) => json!(value),
            Field::Str(value) => json!(value),
            other => panic!("no column of ours: {other:?}"),
        };
        let columns = row.get_column_iter();
        columns
            .map(|(name, field)| (name.clone(), cell(field)))
            .collect()
    }

    #[test]
    fn rows_with_different_fields_make_one_table() {
        let (rows, csv) = table(&[
            json!({"a": 1, "b": {"c": 2, "d": "x,y"}, "list": [1, 2], "e": null}),
            json!({"a": -2, "b": {"c": 2.5}, "more": true}),
        ]);
        assert_eq!(csv, "more,a,b.c,b.d\n,1,2,\"x,y\"\ntrue,-2,2.5,\n");
        assert_eq!(
            rows,
            [
                json!({"more": null, "a": 1, "b.c": 2.0, "b.d": "x,y"}),
                json!({"more": true, "a": -2, "b.c": 2.5, "b.d": null}),
            ]
        );
    }

    #[test]
    fn a_number_that_no_signed_column_holds_is_exact() {
        let (rows, csv) = table(&[json!({"a": 1}), json!({"a": u64::MAX})]);
        assert_eq!(csv, format!("a\n1\n{}\n", u64::MAX));
        assert_eq!(rows, [json!({"a": 1_u64}), json!({"a": u64::MAX})]);
        let (rows, _) = table(&[json!({"a": -1}), json!({"a": u64::MAX})]);
        let large = "18446744073709551615";
        assert_eq!(rows, [json!({"a": "-1"}), json!({"a": large})]);
    }

    #[test]
    fn a_column_of_several_kinds_is_text() {
        let (rows, csv) = table(&[json!({"a": 1}), json!({"a": "x"})]);
        assert_eq!(csv, "a\n1\nx\n");
        assert_eq!(rows, [json!({"a": "1"}), json!({"a": "x"})]);
    }

    #[test]
    fn rows_beyond_one_group_stand_in_order() {
        let count = 40_000_u64;
        let wanted = (0..count).map(|n| match n % 3 {
            0 => json!({"a": n, "b": null}),
            _ => json!({"a": n, "b": format!("n{n}")}),
        });
        let wanted = wanted.collect::<Vec<_>>();
        let (rows, csv) = table(&wanted);
        assert!(rows == wanted);
        assert_eq!(csv.lines().count() as u64, count + 1);
    }
}
