//! Numbers of virtio-blk (virtio 1.2, 5.2): kinds of requests, and features as bits.

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;
pub const WITH_FLUSH: u64 = 1 << 9;
pub const WITH_WCE: u64 = 1 << 11;
pub const EVENT_IDX: u64 = 1 << 29;
