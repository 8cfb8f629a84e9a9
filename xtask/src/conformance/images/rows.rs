//! Where our verdict may differ from that of e2fsck, and why; and tests that leave no volume.

use super::State;
use super::verdict::Verdict;

/// A verdict that may differ.
pub struct Row {
    pub test: &'static str,
    /// The state of its volume, from 1; 0 stands for every state.
    pub number: usize,
    pub theirs: Verdict,
    pub ours: Verdict,
    pub why: &'static str,
}

impl Row {
    /// True if the row is about this state.
    pub fn is_of(&self, state: &State) -> bool {
        let place = self.test == state.test && [0, state.number].contains(&self.number);
        place && (self.theirs, self.ours) == (state.theirs, state.ours)
    }
}

/// Tests without a volume to look at.
pub const SKIPPED: &[(&str, &str)] = &[
    (
        "f_large_dir",
        "debugfs makes 65,000 links, which takes minutes",
    ),
    (
        "f_large_dir_csum",
        "debugfs makes 46,000 links, which takes minutes",
    ),
    (
        "f_mke2fs_baddisk",
        "about what mke2fs says of a disk with bad sectors",
    ),
    (
        "m_assume_storage_prezeroed",
        "about how many blocks of a file mke2fs writes; the volume is never checked",
    ),
    (
        "m_error_behavior",
        "about what dumpe2fs shows of mke2fs' options; the volume is never checked",
    ),
    ("m_hugefile", "a volume of 4 TiB"),
    (
        "m_mcsum_extjournal",
        "about what dumpe2fs shows of a journal's device; nothing is checked",
    ),
    (
        "m_mkfs_overhead",
        "about mke2fs' sum of its overhead; the volume is never checked",
    ),
    ("r_64bit_big_expand", "a volume of 20 TiB"),
    (
        "r_corrupt_fs",
        "about resize2fs ending on a damaged volume, which is never checked",
    ),
    ("r_bigalloc_big_expand", "a volume of 20 TiB"),
    ("r_ext4_big_expand", "a volume of 2 TiB"),
    ("r_move_itable_nostride", "skips itself on Linux"),
    ("r_move_itable_realloc", "skips itself on Linux"),
];

const BACKUPS: &str = "backups of superblock or descriptors that are damaged, left so by e2fsck or resize2fs: it reads them \
     only when the primary is of no use";

/// A row for a volume that e2fsck calls clean and Varve damaged.
const fn stricter(test: &'static str, number: usize, why: &'static str) -> Row {
    Row {
        test,
        number,
        theirs: Verdict::Clean,
        ours: Verdict::Damaged,
        why,
    }
}

/// All verdicts that may differ.
pub const ROWS: &[Row] = &[
    stricter(
        "f_bad_fname",
        2,
        "flag ea_inode of a file without the feature: Linux opens no such file, e2fsck does not look",
    ),
    stricter(
        "f_badtable",
        2,
        "metadata on the list of bad blocks, which e2fsck takes as bad blocks and reads past",
    ),
    stricter(
        "f_bbinode",
        2,
        "inode tables on the list of bad blocks: e2fsck takes them as bad blocks and reads no inode of them",
    ),
    Row {
        test: "f_ext_journal",
        number: 0,
        theirs: Verdict::Damaged,
        ours: Verdict::Refused,
        why: "the device of the journal is not named: both stop, e2fsck with 12 and we with 8",
    },
    stricter("f_illitable_flexbg", 2, BACKUPS),
    stricter(
        "f_inlinedata_repair",
        2,
        "a block of attributes with two owners and a count of one: of a link with its target in the inode e2fsck does not count",
    ),
    stricter(
        "f_resize_inode",
        10,
        "lists of the resize inode: e2fsck looks at those words only that reserved_gdt_blocks covers",
    ),
    stricter("f_uninit_restart_fsck", 2, BACKUPS),
    stricter("f_zero_group", 2, BACKUPS),
    stricter("f_zero_super", 2, BACKUPS),
    stricter("r_meta_bg_shrink", 1, BACKUPS),
];
