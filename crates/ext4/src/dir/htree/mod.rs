//! The hash tree over the leaves: up to two levels of index blocks, with feature `large_dir` three,
//! sorted by hash.

mod convert;
mod index;
mod path;
mod split;

pub(super) use convert::into_tree;
pub(super) use path::Path;
pub(super) use split::insert;
