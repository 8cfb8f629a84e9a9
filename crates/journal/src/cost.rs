//! What journal work costs a CPU core. The only place with such figures; in the real world charging does nothing.
//!
//! Sources: orders of magnitude of a 2 GHz core; `cargo xtask calibrate-cpu` replaces them by measured values.

use base::Nanos;

/// Starting a handle: admission and bookkeeping.
pub(crate) const HANDLE_START: Nanos = Nanos(300);
/// Copying one 4 KiB block (4096 B at about 10 GB/s).
pub(crate) const BLOCK_COPY: Nanos = Nanos(400);
/// Per block of a commit: tag, CRC32C of 4 KiB (about 4 GB/s with the CPU's instruction), request set-up.
pub(crate) const COMMIT_PER_BLOCK: Nanos = Nanos(1_300);
