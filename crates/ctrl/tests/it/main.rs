//! All tests of the crate except its catalogue of mutants, in one program that is linked once.

mod bounded;
mod calibration;
mod card_port;
mod cuts;
mod emmc;
mod host;
mod nandsim;
mod nvme;
mod nvme_calibration;
mod nvme_cuts;
mod order;
mod packed;
mod packed_errors;
mod paper_fit;
mod plain;
mod profile_files;
mod profiles;
mod protocol;
mod raw;
mod slc;
mod state;
mod transparent;
