//! The journal through its public interface. The tests are one program, so that it is linked once.

mod crash;
mod empty_transaction;
mod harness;
mod wakeups;
