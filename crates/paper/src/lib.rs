//! Publications measured again: each published value beside the one measured here, and whether they
//! agree.
//!
//! A paper's values and how far a measured one may be away stand in one committed table
//! ([`published`]), written before the first run.

pub mod characterise;
pub mod emmc;
pub mod energy;
mod error;
pub mod f2fsj;
pub mod jftl;
mod page;
pub mod published;
mod row;
pub mod study;
mod summary;

pub use error::PaperError;
pub use page::paper_page;
pub use published::{Class, Published, Table, TableError};
pub use row::{Listed, Report, Row, SCHEMA, Section, number};
pub use summary::{NOT_EXPLAINED, Summary};
