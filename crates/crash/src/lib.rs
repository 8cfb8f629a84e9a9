//! Power cuts at file-system level: tasks work on files, the device is cut, and what is left is
//! recovered and judged by a model of what was promised.
//!
//! ```text
//! CrashConfig --record--> Recording { logs, cuts } --Judge--> Judgement
//!                              |--record_recovery--> cuts inside of recovery --Judge--> ...
//! ```
//!
//! Rules, cited by name in every violation: [`rules`].

pub mod campaign;
pub mod case;
pub mod cells;
pub mod check;
mod config;
pub mod content;
pub mod cuts;
mod device;
mod error;
mod explore;
mod files;
pub mod finding;
pub mod found;
mod full;
pub mod guarantees;
mod judge;
mod loss;
pub mod model;
pub mod nand;
pub mod ops;
pub mod oracle;
pub mod plan;
pub mod program;
pub mod promises;
pub mod rules;
mod run;
pub mod stamp;
pub mod subject;
pub mod traced;

pub use config::{CrashConfig, Opinion, Script};
pub use device::{Disk, Remains, Target, Volume, small_volume, tiny_volume};
pub use error::CrashError;
pub use explore::{Depth, Tally, explore};
pub use files::FileOracle;
pub use judge::{Judge, Judgement};
pub use loss::Loss;
pub use run::{Cut, Moment, Progress, Recording, TaskLog, Times, record, record_recovery};
