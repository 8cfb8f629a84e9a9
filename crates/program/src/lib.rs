//! Crash tests of other people's programs: a program runs on a volume of ours, its system calls are
//! recorded, and a judge looks at every tree that a power cut may leave.
//!
//! ```text
//! program --system calls--> Recording --a model of persistence--> State { tree, acknowledged, lost }
//!                                                                   |--Judge--> good, or bad and why
//! ```
//!
//! [`call`] says what a recording is, [`record`] makes one, [`tree`] what a cut leaves, [`state`]
//! what is judged.

pub mod apply;
pub mod call;
pub mod device;
pub mod explain;
pub mod explore;
pub mod findings;
pub mod judge;
pub mod lint;
pub mod mend;
pub mod posix;
pub mod record;
pub mod replay;
pub mod sites;
pub mod state;
pub mod tree;
