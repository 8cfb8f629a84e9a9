//! Directories in memory.
