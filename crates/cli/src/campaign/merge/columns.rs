//! Rows of JSON as a Parquet file: each column is optional and of one [`Kind`].
//!
//! Written without Arrow, whose arrays would be a copy of each column more, and a twentieth of the
//! program.

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value};
use std::io::Write;
use std::sync::Arc;

/// Rows of a group of the file, which wait in memory until it is complete.
const GROUP: usize = 16 * 1024;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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
    pub fn of(value: &Value) -> Option<Kind> {
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
    pub fn with(self, other: Kind) -> Kind {
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

    fn physical(self) -> (Physical, Option<LogicalType>) {
        match self {
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Natural | Kind::Int => (Physical::INT64, None),
            Kind::Large => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        }
    }
}

/// A Parquet file that grows by rows.
pub struct Columns<W: Write + Send> {
    columns: Vec<(String, Kind)>,
    group: Vec<Cells>,
    rows: usize,
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Columns<W> {
    /// # Errors
    /// The file cannot be written.
    pub fn begin(file: W, columns: &[(String, Kind)]) -> Result<Columns<W>> {
        let schema = schema(columns)?;
        let properties = Arc::new(WriterProperties::builder().build());
        Ok(Columns {
            group: columns.iter().map(|(_, kind)| Cells::of(*kind)).collect(),
            columns: columns.to_vec(),
            rows: 0,
            file: SerializedFileWriter::new(file, schema, properties)?,
        })
    }

    /// Adds a row; a column that it has no value for, or one of another kind, is empty in it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, row: &Map<String, Value>) -> Result<()> {
        for ((name, _), cells) in self.columns.iter().zip(&mut self.group) {
            cells.add(row.get(name));
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(mut self) -> Result<()> {
        self.flush()?;
        self.file.close().map(drop)
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for ((_, kind), cells) in self.columns.iter().zip(&mut self.group) {
            let column = group.next_column()?;
            let column = column.ok_or_else(|| ParquetError::General("a column less".into()))?;
            std::mem::replace(cells, Cells::of(*kind)).write(column)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

fn schema(columns: &[(String, Kind)]) -> Result<TypePtr> {
    let field = |(name, kind): &(String, Kind)| {
        let (physical, logical) = kind.physical();
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("schema").with_fields(fields);
    schema.build().map(Arc::new)
}

/// The cells of a column within a group.
enum Cells {
    Bool(Present<bool>),
    Int(Present<i64>),
    Float(Present<f64>),
    Text(Present<ByteArray>),
    /// As Parquet has them: the bits of a signed number.
    Large(Present<i64>),
}

impl Cells {
    fn of(kind: Kind) -> Cells {
        match kind {
            Kind::Bool => Cells::Bool(Present::default()),
            Kind::Natural | Kind::Int => Cells::Int(Present::default()),
            Kind::Large => Cells::Large(Present::default()),
            Kind::Float => Cells::Float(Present::default()),
            Kind::Text => Cells::Text(Present::default()),
        }
    }

    fn add(&mut self, value: Option<&Value>) {
        match self {
            Cells::Bool(cells) => cells.add(value.and_then(Value::as_bool)),
            Cells::Int(cells) => cells.add(value.and_then(Value::as_i64)),
            Cells::Large(cells) => {
                cells.add(value.and_then(Value::as_u64).map(u64::cast_signed));
            }
            Cells::Float(cells) => cells.add(value.and_then(Value::as_f64)),
            Cells::Text(cells) => cells.add(value.map(|v| ByteArray::from(text(v).into_bytes()))),
        }
    }

    fn write(self, column: SerializedColumnWriter<'_>) -> Result<()> {
        match self {
            Cells::Bool(cells) => cells.write::<BoolType>(column),
            Cells::Int(cells) | Cells::Large(cells) => cells.write::<Int64Type>(column),
            Cells::Float(cells) => cells.write::<DoubleType>(column),
            Cells::Text(cells) => cells.write::<ByteArrayType>(column),
        }
    }
}

/// Values, and for each row whether it has one (Parquet's definition level: 1, else 0).
struct Present<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for Present<T> {
    fn default() -> Present<T> {
        Present {
            values: Vec::new(),
            levels: Vec::new(),
        }
    }
}

impl<T> Present<T> {
    fn add(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn write<P: DataType<T = T>>(self, mut column: SerializedColumnWriter<'_>) -> Result<()> {
        let typed = column.typed::<P>();
        typed.write_batch(&self.values, Some(&self.levels), None)?;
        column.close()
    }
}

/// A value as a cell of text.
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), String::from)
}
