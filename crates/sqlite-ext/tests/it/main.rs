//! Tests of the extension in other people's programs: the shell of SQLite, Python, C.

mod common;
mod errors;
mod processes;
mod programs;
mod python;
mod shell;
