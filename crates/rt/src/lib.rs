//! The runtime of both worlds: time, tasks, locks, randomness, trace.
