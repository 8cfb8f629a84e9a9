//! The compiled part of the Python package `varve`: tables that other libraries read without a
//! copy, by Arrow's PyCapsule interface (`__arrow_c_stream__`; arrow.apache.org, "The Arrow
//! PyCapsule Interface"). Everything else of the package runs the program `varve`.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyString};
use std::sync::Arc;

/// Names of the capsules, as the interface wants them.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";
const SCHEMA: &std::ffi::CStr = c"arrow_schema";

fn broken(e: ArrowError) -> PyErr {
    PyValueError::new_err(e.to_string())
}

/// Columns of equal length, each of one type; what is missing is null.
#[pyclass(frozen, module = "varve")]
struct Table {
    batch: RecordBatch,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing but nulls so far.
    Empty,
    Bool,
    Int,
    Float,
    Text,
}

impl Kind {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Kind> {
        // A bool is an int in Python, so it is looked for first.
        match value {
            v if v.is_none() => Ok(Kind::Empty),
            v if v.is_instance_of::<PyBool>() => Ok(Kind::Bool),
            v if v.is_instance_of::<PyInt>() => Ok(Kind::Int),
            v if v.is_instance_of::<PyFloat>() => Ok(Kind::Float),
            v if v.is_instance_of::<PyString>() => Ok(Kind::Text),
            v => Err(PyTypeError::new_err(format!(
                "a table holds numbers, bools and texts, not {}",
                v.get_type().name()?
            ))),
        }
    }

    /// A kind that holds values of both.
    fn with(self, other: Kind) -> Option<Kind> {
        match (self, other) {
            (a, b) if a == b => Some(a),
            (Kind::Empty, kind) | (kind, Kind::Empty) => Some(kind),
            (Kind::Int, Kind::Float) | (Kind::Float, Kind::Int) => Some(Kind::Float),
            _ => None,
        }
    }
}

/// The values of a column as an array of one type.
fn array(name: &str, values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    let mut kind = Kind::Empty;
    for value in values.iter() {
        kind = kind.with(Kind::of(&value)?).ok_or_else(|| {
            PyTypeError::new_err(format!("column `{name}` mixes texts, bools and numbers"))
        })?;
    }
    fn all<'py, T: FromPyObjectOwned<'py>>(
        values: &Bound<'py, PyList>,
    ) -> PyResult<Vec<Option<T>>> {
        let one = |value: Bound<'py, PyAny>| match value.is_none() {
            true => Ok(None),
            false => value.extract().map(Some).map_err(Into::into),
        };
        values.iter().map(one).collect()
    }
    Ok(match kind {
        Kind::Bool => Arc::new(BooleanArray::from(all::<bool>(values)?)),
        Kind::Int => Arc::new(Int64Array::from(all::<i64>(values)?)),
        Kind::Empty | Kind::Float => Arc::new(Float64Array::from(all::<f64>(values)?)),
        Kind::Text => Arc::new(StringArray::from(all::<String>(values)?)),
    })
}

#[pymethods]
impl Table {
    /// A table of these columns: a dict from names to lists of equal length.
    #[new]
    fn new(columns: &Bound<'_, PyDict>) -> PyResult<Table> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (name, values) in columns.iter() {
            let name: String = name.extract()?;
            let values = values.cast::<PyList>()?;
            let array = array(&name, values)?;
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = match arrays.is_empty() {
            true => RecordBatch::new_empty(schema),
            false => RecordBatch::try_new(schema, arrays).map_err(broken)?,
        };
        Ok(Table { batch })
    }

    /// Names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let fields = self.batch.schema_ref().fields().iter();
        fields.map(|f| f.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<varve.Table: {} rows of {names}>", self.batch.num_rows())
    }

    /// The values of a column as a list; `None` stands for a null.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let array = self.batch.column_by_name(name);
        let array = array.ok_or_else(|| {
            let there = self.column_names().join(", ");
            PyKeyError::new_err(format!("no column `{name}`; there are: {there}"))
        })?;
        let any = array.as_any();
        match array.data_type() {
            DataType::Boolean => {
                let array = any.downcast_ref::<BooleanArray>();
                PyList::new(py, array.into_iter().flatten().collect::<Vec<_>>())
            }
            DataType::Int64 => {
                let array = any.downcast_ref::<Int64Array>();
                PyList::new(py, array.into_iter().flatten().collect::<Vec<_>>())
            }
            DataType::Float64 => {
                let array = any.downcast_ref::<Float64Array>();
                PyList::new(py, array.into_iter().flatten().collect::<Vec<_>>())
            }
            _ => {
                let array = any.downcast_ref::<StringArray>();
                PyList::new(py, array.into_iter().flatten().collect::<Vec<_>>())
            }
        }
    }

    /// The types of the columns, as Arrow has them.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// All rows, as Arrow has them. The types are what they are, whatever is asked for.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Consumers cast by themselves where a producer does not.
        drop(requested_schema);
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, STREAM)
    }
}

/// The compiled part of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
