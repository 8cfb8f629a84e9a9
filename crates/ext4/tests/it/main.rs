//! The tests of ext4 on whole volumes: beside e2fsprogs and the running kernel, with cuts and on
//! full volumes. They are one program, so that it is linked once.

mod atomic_writes;
mod attributes;
mod casefold;
mod clusters;
mod common;
mod content_fuzz;
mod crowd;
mod data_path;
mod data_path_cuts;
mod ext3;
mod external_journal;
mod fallocate;
mod files;
mod fsck;
mod full_disk;
mod full_writers;
mod group_commits;
mod held_data;
mod hostile;
mod hostile_images;
mod inline;
mod kernel;
mod large_blocks;
mod names;
mod orphan_file;
mod orphans;
mod panics;
mod remap_cuts;
mod reserve;
mod sizes;
mod small_data;
mod tasks;
mod traffic;
mod xattr;
