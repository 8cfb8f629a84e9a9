//! The model that file systems are compared with, the spy below tests, tasks on one mount, and
//! write-back. The tests are one program, so that it is linked once.

mod model;
mod spy;
mod tasks;
mod writeback;
