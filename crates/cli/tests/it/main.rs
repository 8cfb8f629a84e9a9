//! The program `varve` as a user runs it. The tests are one program, so that it is linked once.

mod calibrate;
mod campaign;
mod campaign_large;
mod campaign_slurm;
mod compare;
mod crash;
mod crash_dir;
mod crash_examples;
mod crash_kernel;
mod device;
mod fsck;
mod fsck_f2fs;
mod image;
mod manners;
mod manual;
mod mkfs;
mod mount;
mod pages;
mod paper;
mod program;
mod readme;
mod record;
mod replay;
mod report;
mod schema;
mod serve;
/// The store of campaigns, as the program has it: tests write and read through it, so that they
/// know nothing of its layout.
#[path = "../../src/campaign/store/mod.rs"]
#[allow(dead_code, clippy::disallowed_types, clippy::disallowed_methods)]
mod store;
mod tools;
mod uring;
mod without_ring;
