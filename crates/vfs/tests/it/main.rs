//! The model that file systems are compared with, the spy below tests, tasks on one mount,
//! write-back, and what the host is charged. The tests are one program, so that it is linked once.

mod host;
mod model;
mod spy;
mod tasks;
mod writeback;
