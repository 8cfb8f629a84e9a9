//! The model that file systems are compared with, tasks on one mount, and write-back. The tests are
//! one program, so that it is linked once.

mod model;
mod tasks;
mod writeback;
