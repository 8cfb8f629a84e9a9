//! ext4: all structures little-endian.
