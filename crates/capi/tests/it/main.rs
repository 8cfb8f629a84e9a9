//! Tests of the C interface: the header, and programs in C.

mod header;
mod programs;
mod threads;
