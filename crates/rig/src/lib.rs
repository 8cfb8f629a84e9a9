//! Builds a whole stack from one configuration value.
