//! ext4 in user space, byte-compatible with Linux.
//!
//! ```text
//!  vfs -> fs (FileSystem) -> namei -> dir -> dirio --+
//!                         -> file (read, write, write-back, truncate, fsync)
//!                              |-> extent, map       |
//!                              |-> balloc, ialloc, inode, orphan
//!                                     |              |
//!                                     tx ------------+--> journal (metadata) , block (data)
//! ```
//!
//! Metadata changes only inside [`Ext4::transact`](fs::Ext4), through a `Tx`. Locks: see `inode`.
//!
//! How an operation on names is written on top of this (gates first, by ascending inode number;
//! then a handle; the last step outside of both):
//!
//! ```text
//! let dir = self.inode(dir)?;  let gate = dir.gate.write();
//! self.with_room(|| self.transact(credits, |tx| {                       // promise-B5: again, if room can be made
//!     let inode = self.new_inode(tx, &dir, NewInode { .. })?;
//!     if let Err(e) = dir::insert(&mut self.edit_dir(&dir, tx), name, ..) {
//!         self.discard_new_inode(tx, &inode)?;  return Err(e);          // tx-T1: POSIX errors leave it consistent
//!     }
//!     dir.core().touch(true);  self.put_inode(tx, &dir)?;               // ext4-inode-N1: fields, then put
//!     Ok(inode)
//! }))?;
//! // unlink: links to 0, orphan_add(tx, &inode) in the handle; after it and the gates: self.evict_if_unused(&inode)
//! ```

mod accounts;
mod attr;
mod balloc;
mod bitmap;
mod blockmap;
mod chattr;
pub mod check;
mod cluster;
pub mod dir;
mod dirio;
mod extent;
mod fast_commit;
mod fast_record;
mod fault;
mod file;
mod fs;
mod group;
mod ialloc;
mod inline;
mod inode;
mod log_place;
mod longest;
mod map;
pub mod mkfs;
mod mount;
mod namei;
mod options;
mod orphan;
mod prealloc;
mod reserve;
mod space;
mod superblock;
mod trim;
mod tx;
mod xattr;

pub use fs::Ext4;
pub(crate) use inode::Inode;
pub use options::{DataMode, MountOptions};
