//! What journal work costs a CPU core. The only place with such figures; in the real world charging does nothing.
//!
//! Measured with `cargo bench -p varve-journal --bench cost` on a 2.5 GHz Xeon (medians: handle 130 ns, block copy 82 ns,
//! CRC32C of a block 230 ns) and taken times four, an assumption for a core of the boards whose devices are modelled. Together they
//! are below a thousandth of a commit on such a device.

use base::Nanos;

/// Starting and finishing a handle: admission and bookkeeping.
pub(crate) const HANDLE_START: Nanos = Nanos(520);
/// Copying one 4 KiB block.
pub(crate) const BLOCK_COPY: Nanos = Nanos(330);
/// Per block of a commit: CRC32C of 4 KiB, its tag included.
pub(crate) const COMMIT_PER_BLOCK: Nanos = Nanos(920);
/// Comparing the marked words of a block with its previous image, in journal coalition (median 143 ns). Its post-image checksum
/// comes on top, as `COMMIT_PER_BLOCK`.
pub(crate) const DELTA_DIFF: Nanos = Nanos(570);
/// A coalition part with a handful of records: encoded, and sealed with two checksums (median 1116 ns).
pub(crate) const COALITION_PART: Nanos = Nanos(4460);
