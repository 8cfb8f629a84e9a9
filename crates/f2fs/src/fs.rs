//! The face towards `vfs`.
