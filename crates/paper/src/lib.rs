//! Publications measured again: each published value beside the one measured here, and whether they
//! agree.
//!
//! The values of a paper, and how far a measured one may be from each, stand in one committed table
//! ([`published`]). It was written before the first run, so that a tolerance cannot follow a
//! result. A paper is a list of parts, each with the jobs it needs and a section of the report made
//! of their outcomes ([`study`]).

mod beside;
pub mod characterise;
pub mod emmc;
mod error;
mod experiment;
pub mod f2fsj;
pub mod jftl;
mod page;
pub mod published;
mod row;
pub mod study;
mod summary;

pub use beside::{NO_VALUE, without_published};
pub use error::PaperError;
pub use experiment::{Basis, Experiment, Trial, Verdict};
pub use page::paper_page;
pub use published::{Class, Kind, Published, Table, TableError};
pub use row::{Drawn, Listed, Report, Row, SCHEMA, Section, number};
pub use summary::{NOT_EXPLAINED, Summary};
