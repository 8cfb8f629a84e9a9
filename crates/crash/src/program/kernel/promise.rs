//! What the kernel's file systems promise, in the terms of the table of [`rules`](crate::rules).
//!
//! Where Linux promises less than our own file systems keep, the terms say so: its ext4 and F2FS
//! write nothing when a directory is synced that has not changed since the last commit, whatever
//! was changed elsewhere ([`Terms::by_inode`]), and an allocation extends a file with each run of
//! blocks that it finds ([`Terms::pieces`]).
//!
//! XFS logs metadata in the order of the operations, and an fsync forces the log as far as the
//! inode needs. A block that is allocated is unwritten until its data are there, and a size grows
//! behind the data, so no former content shows: the terms of `data=ordered`.
//!
//! Btrfs commits all metadata at once and maps an extent behind its data, which are the same terms;
//! mounted with `notreelog` each sync is such a commit. By default a sync of a file or directory is
//! noted in a log, with all that it promises of this inode and in no order with other operations
//! ([`Terms::tree_log`]): a file has its content, attributes and all its names, a directory its
//! entries, and a rename is done or not done. The kernel's own words are few ("fsync" in
//! `Documentation/filesystems/btrfs`, btrfs(5), `treelog`); the tests of xfstests that the
//! sequences `known:` name after ask for this much.

use crate::rules::Terms;
use blockdev::Image;
use rig::{Data, FsyncMode};

/// Where the superblock of ext4 lies, and its fields in it.
const EXT4_SUPER: usize = 1024;
const EXT4_LOG_BLOCK: usize = EXT4_SUPER + 24;
const EXT4_COMPAT: usize = EXT4_SUPER + 92;
const EXT4_HAS_JOURNAL: u32 = 4;
/// `s_default_mount_opts`, and its bits for the mode of data (`mke2fs -o`, `tune2fs -o`).
const EXT4_DEFAULTS: usize = EXT4_SUPER + 0x100;
const EXT4_DATA_MODE: u32 = 0x60;
/// `s_mount_opts`, a text that ends with a zero (`-E mount_opts=`), and its bytes.
const EXT4_OPTIONS: usize = EXT4_SUPER + 0x200;
const EXT4_OPTIONS_BYTES: usize = 64;

/// Whether the rules know this file system of the kernel.
pub fn knows(fs: &str) -> bool {
    matches!(fs, "ext4" | "ext3" | "f2fs" | "xfs" | "btrfs")
}

/// The terms of a file system of the kernel that was mounted with these options; `None`: the rules
/// do not know it.
pub(super) fn terms(fs: &str, options: &str, image: &Image) -> Option<Terms> {
    let ours = Terms {
        journaled: true,
        data: Data::Ordered,
        garbles: false,
        roll_forward: None,
        by_inode: true,
        tree_log: false,
        page_bytes: base::BLOCK_BYTES as u64,
        pieces: true,
    };
    match fs {
        "ext4" | "ext3" => {
            let head = image.block(0);
            let field = |at: usize| {
                let bytes = head[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes)
            };
            let page = 1024_u64 << field(EXT4_LOG_BLOCK).min(2);
            Some(Terms {
                journaled: field(EXT4_COMPAT) & EXT4_HAS_JOURNAL != 0,
                data: data_mode(options, &head, field(EXT4_DEFAULTS)),
                page_bytes: page,
                ..ours
            })
        }
        "f2fs" => Some(Terms {
            roll_forward: Some(match last(options, "fsync_mode") {
                Some("strict") => FsyncMode::Strict,
                Some("nobarrier") => FsyncMode::NoBarrier,
                _ => FsyncMode::Posix,
            }),
            ..ours
        }),
        "xfs" => Some(ours),
        "btrfs" => Some(Terms {
            tree_log: has_tree_log(options),
            ..ours
        }),
        _ => None,
    }
}

/// The mode of data: by the options of the mount, else by those that the superblock has, as a text
/// or as bits.
fn data_mode(options: &str, head: &[u8], defaults: u32) -> Data {
    let text = &head[EXT4_OPTIONS..EXT4_OPTIONS + EXT4_OPTIONS_BYTES];
    let own = String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default());
    match (
        last(options, "data").or(last(&own, "data")),
        defaults & EXT4_DATA_MODE,
    ) {
        (Some("journal"), _) | (None, 0x20) => Data::Journal,
        (Some("writeback"), _) | (None, 0x60) => Data::Writeback,
        _ => Data::Ordered,
    }
}

/// Whether the links of a directory are 2 and those of the directories in it; Btrfs says 1.
pub(super) fn links_dirs(fs: &str) -> bool {
    fs != "btrfs"
}

/// Whether a sync of Btrfs goes to the log of trees; without it each is a commit of everything.
fn has_tree_log(options: &str) -> bool {
    let of_log = |option: &&str| matches!(*option, "treelog" | "notreelog");
    options.split(',').rfind(of_log) != Some("notreelog")
}

/// The value of the last option of this name.
fn last<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    let mut values = options
        .split(',')
        .rev()
        .filter_map(|option| option.split_once('='));
    values.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_option_and_the_superblock_decide() {
        let mut raw = vec![0; 4096];
        raw[EXT4_COMPAT] = 4;
        let of = |raw: &[u8], fs: &str, options: &str| terms(fs, options, &Image::from_bytes(raw));
        let ext4 = of(&raw, "ext4", "data=journal,noatime,data=writeback").unwrap();
        assert_eq!((ext4.data, ext4.page_bytes), (Data::Writeback, 1024));
        assert!(ext4.journaled && ext4.by_inode);
        raw[EXT4_COMPAT] = 0;
        raw[EXT4_LOG_BLOCK] = 2;
        let plain = of(&raw, "ext4", "").unwrap();
        assert_eq!((plain.journaled, plain.page_bytes), (false, 4096));
        assert_eq!(plain.data, Data::Ordered);
        raw[EXT4_DEFAULTS] = 0x60;
        let data = |raw: &[u8], options: &str| of(raw, "ext4", options).unwrap().data;
        assert_eq!(data(&raw, ""), Data::Writeback);
        assert_eq!(data(&raw, "data=ordered"), Data::Ordered);
        raw[EXT4_OPTIONS..EXT4_OPTIONS + 12].copy_from_slice(b"data=journal");
        assert_eq!(data(&raw, "noatime"), Data::Journal);
        let f2fs = of(&raw, "f2fs", "fsync_mode=strict").unwrap();
        assert_eq!(f2fs.roll_forward, Some(FsyncMode::Strict));
        let mode = of(&raw, "f2fs", "").unwrap().roll_forward;
        assert_eq!(mode, Some(FsyncMode::Posix));
        assert_eq!(of(&raw, "xfs", "").unwrap().data, Data::Ordered);
        let logs = |options: &str| of(&raw, "btrfs", options).unwrap().tree_log;
        assert!(logs("") && logs("notreelog,treelog"));
        assert!(!logs("treelog,notreelog") && !ext4.tree_log);
        assert!(of(&raw, "jfs", "").is_none());
    }
}
