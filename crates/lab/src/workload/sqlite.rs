//! Mobibench's SQLite test.
