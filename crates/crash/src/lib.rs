//! Power cuts: something works on a mounted volume, its device is cut, and what is left (the
//! remainder, or crash state) is recovered and judged by an oracle that knows what was promised.
//!
//! ```text
//! sampled     CrashConfig --record--> Recording { logs, cuts } --Judge--> Judgement
//!                                     |--record_recovery--> cuts inside of recovery --Judge--> ...
//! exhaustive  Case --setup--> Subject --trace--> Trace, Oracle --campaign--> states --Checker--> Explored, Findings
//! chips       Subject --nand--> Film --media of each cut--> ...
//! ```
//!
//! A sample costs one snapshot for each cut and works with every device and outside checker; an
//! exhaustive exploration makes all legal states of a cut, within a bound, from one recorded run.
//! All three end in oracles whose rules stand as data in [`rules`]; a violation cites its rule by
//! name. Beside them [`cuts`] samples runs of `varve compare`, and [`program`] cuts what a program
//! of a user writes, of whose promises nothing is known.

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
pub mod joined;
mod judge;
mod loss;
pub mod model;
mod names;
pub mod nand;
pub mod ops;
pub mod oracle;
pub mod part;
pub mod plan;
pub mod program;
pub mod promises;
pub mod rules;
mod run;
pub mod stamp;
pub mod subject;
pub mod traced;
mod used;

pub use config::{CrashConfig, Opinion, Script};
pub use device::{Disk, Remains, Target, Volume, small_volume, tiny_volume};
pub use error::CrashError;
pub use explore::{Depth, Tally, explore};
pub use files::FileOracle;
pub use judge::{Judge, Judgement};
pub use loss::Loss;
pub use run::{Cut, Moment, Progress, Recording, TaskLog, Times, record, record_recovery};
