//! Transactions, schemes, checkpoint and recovery of a JBD2-compatible journal.
