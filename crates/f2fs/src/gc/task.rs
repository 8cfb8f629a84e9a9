//! Cleaning in the background.
