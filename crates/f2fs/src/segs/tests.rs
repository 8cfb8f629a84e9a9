//! Allocation, checkpoints and hostile tables, against a plain model.
