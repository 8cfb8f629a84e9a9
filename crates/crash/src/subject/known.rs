//! Workloads of the literature by name: those of CrashMonkey (hand-written, and for the bugs that
//! it and ACE found or reproduced) and crash tests of xfstests, each as a short script.
//!
//! Each was made for a bug, and the script keeps the steps that matter for it. Sizes and counts are
//! smaller where the bug does not depend on them.

use super::error::TextError;
use super::head;
use super::script::FileScript;

/// A workload of the literature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its name in its source.
    pub name: &'static str,
    /// The publication or test that it comes from.
    pub source: &'static str,
    /// What it once broke.
    pub about: &'static str,
    /// The text of its script.
    pub script: &'static str,
}

const fn known(
    name: &'static str,
    source: &'static str,
    about: &'static str,
    script: &'static str,
) -> Known {
    Known {
        name,
        source,
        about,
        script,
    }
}

const CRASHMONKEY: &str = "CrashMonkey, hand-written workload";
const NEW: &str = "CrashMonkey and ACE (OSDI'18), table of new bugs";
const XFSTESTS: &str = "xfstests";

/// All workloads of the literature.
pub const ALL: &[Known] = &[
    known(
        "rename_root_to_sub",
        CRASHMONKEY,
        "a file moves from the root into a directory: it must be under exactly one of its names",
        "mkdir test_dir; syncdir test_dir; create test_file; chmod test_file 777; write test_file 0+2k; \
         fsync test_file; rename test_file test_dir/test_file",
    ),
    known(
        "create_delete",
        CRASHMONKEY,
        "files are created, written and synced one by one, then removed one by one with a sync after each",
        "mkdir test_dir; syncdir test_dir; sync; \
         create test_dir/f0; fsync test_dir/f0; write test_dir/f0 0+1k; fsync test_dir/f0; \
         create test_dir/f1; fsync test_dir/f1; write test_dir/f1 0+1k; fsync test_dir/f1; \
         create test_dir/f2; fsync test_dir/f2; write test_dir/f2 0+1k; fsync test_dir/f2; \
         create test_dir/f3; fsync test_dir/f3; write test_dir/f3 0+1k; fsync test_dir/f3; \
         unlink test_dir/f0; sync; unlink test_dir/f1; sync; unlink test_dir/f2; sync; unlink test_dir/f3; sync",
    ),
    known(
        "rename_lost",
        NEW,
        "bug 1: a rename over a synced file was half done",
        "mkdir A; create A/bar; fsync A/bar; mkdir B; create B/bar; rename B/bar A/bar; create A/foo; \
         fsync A/foo; syncdir A",
    ),
    known(
        "rename_both",
        NEW,
        "bug 2: a renamed file was in both directories",
        "mkdir A; mkdir A/C; rename A/C B; create B/bar; fsync B/bar; rename B/bar A/bar; \
         unlink A/bar; rmdir B; rename A B; create B/bar; fsync B/bar",
    ),
    known(
        "entries_not_persisted",
        NEW,
        "bug 3: a synced directory was missing with all that it held",
        "mkdir A; mkdir B; mkdir A/C; create B/foo; fsync B/foo; link B/foo A/C/foo; syncdir A",
    ),
    known(
        "rename_not_persisted",
        NEW,
        "bugs 4 and 10: a renamed directory kept its old name although a file in it was synced",
        "mkdir A; sync; rename A B; create B/foo; fsync B/foo; syncdir B",
    ),
    known(
        "links_not_persisted",
        NEW,
        "bug 5: a second name was missing although the file was synced under it",
        "mkdir A; mkdir B; create A/foo; link A/foo B/foo; fsync A/foo; fsync B/foo",
    ),
    known(
        "dir_fsync_lost_file",
        NEW,
        "bug 6: sync of a directory did not keep a file in it",
        "mkdir test; mkdir test/A; create test/foo; create test/A/foo; fsync test/A/foo; syncdir test",
    ),
    known(
        "fsync_all_names",
        NEW,
        "bug 7: sync of a file did not keep its second name",
        "create foo; mkdir A; link foo A/bar; fsync foo",
    ),
    known(
        "falloc_blocks_lost",
        NEW,
        "bugs 8 and 9: blocks beyond the end, or the size, were wrong although the file was synced",
        "create foo; write foo 0+16k; fsync foo; falloc foo 16k+4k keep; fsync foo",
    ),
    known(
        "btrfs_link_unlink",
        "CrashMonkey, known bugs",
        "a name is removed and made again as another file between two syncs",
        "create foo; link foo bar; sync; unlink bar; create bar; fsync bar",
    ),
    known(
        "generic_034",
        XFSTESTS,
        "sync of a directory with an entry that is committed and one that is new",
        "mkdir A; create A/foo; sync; create A/bar; syncdir A; fsync A/bar",
    ),
    known(
        "generic_039",
        XFSTESTS,
        "a name of a file is removed and the file synced: the directory must stay removable",
        "create foo; link foo bar; write foo 0+8k; sync; unlink bar; fsync foo",
    ),
    known(
        "generic_041",
        XFSTESTS,
        "names of one file are removed and made again, then the file is synced",
        "create foo; link foo l0; link foo l1; link foo l2; link foo l3; sync; \
         unlink l0; link foo l4; link foo l0; fsync foo",
    ),
    known(
        "generic_056",
        XFSTESTS,
        "a synced file gets a second name, and another file is synced",
        "create foo; write foo 0+8k; fsync foo; link foo bar; create other; write other 0+4k; fsync other",
    ),
    known(
        "generic_065",
        XFSTESTS,
        "a directory is synced after one file in it was renamed and another made under the old name",
        "mkdir A; create A/foo; write A/foo 0+4k; create A/bar; sync; rename A/foo A/moved; create A/foo; \
         write A/foo 0+4k; fsync A/foo; syncdir A",
    ),
    known(
        "generic_066",
        XFSTESTS,
        "an extended attribute is removed and the file synced: it must not come back",
        "create foo; setxattr foo a 1; setxattr foo b 22; setxattr foo c 333; sync; removexattr foo b; fsync foo",
    ),
    known(
        "generic_073",
        XFSTESTS,
        "a file is moved to another directory, and another file there is synced",
        "mkdir A; mkdir B; create A/foo; create A/bar; sync; rename A/foo B/foo; rename A/bar B/bar; \
         fsync B/bar; syncdir A",
    ),
    known(
        "generic_090",
        XFSTESTS,
        "a file grows after it got a second name in an earlier commit",
        "create foo; write foo 0+4k; sync; link foo bar; sync; write foo 4k+4k; fsync foo",
    ),
    known(
        "generic_101",
        XFSTESTS,
        "a file is cut and grows again: the end must read as zeros",
        "create foo; write foo 0+8k; fsync foo; truncate foo 4k; truncate foo 8k; create bar; write bar 0+4k; \
         fsync bar; fsync foo",
    ),
    known(
        "generic_104",
        XFSTESTS,
        "two files get second names, and one of them is synced",
        "create foo; create bar; sync; link foo foo_link; link bar bar_link; fsync bar",
    ),
    known(
        "generic_106",
        XFSTESTS,
        "one of two names of a file is removed and the file synced: the directory must stay removable",
        "mkdir A; create A/foo; link A/foo A/bar; sync; unlink A/bar; fsync A/foo",
    ),
    known(
        "generic_107",
        XFSTESTS,
        "names of one file in two directories; one is removed and the file synced",
        "mkdir A; create foo; link foo A/foo; link foo A/bar; sync; unlink A/bar; fsync foo",
    ),
    known(
        "generic_321_1",
        XFSTESTS,
        "a file moves into a directory that is synced, then the file is synced",
        "mkdir A; create foo; fsync foo; rename foo A/foo; syncdir A; fsync A/foo",
    ),
    known(
        "generic_321_2",
        XFSTESTS,
        "a directory with a synced file moves into another one, and the file is synced there",
        "mkdir A; create A/foo; fsync A/foo; mkdir B; rename A B/A; write B/A/foo 0+4k; fsync B/A/foo; syncdir B",
    ),
    known(
        "generic_322",
        XFSTESTS,
        "a written and synced file is renamed and synced under its new name",
        "create foo; write foo 0+4k; fsync foo; rename foo bar; fsync bar",
    ),
    known(
        "generic_322_2",
        XFSTESTS,
        "a file is written, renamed and synced under its new name, then made again under the old",
        "create foo; write foo 0+4k; rename foo bar; fsync bar; create foo; write foo 0+8k; fsync foo",
    ),
    known(
        "generic_335",
        XFSTESTS,
        "a file moves out of a directory, another is made beside it, and the upper directory is synced",
        "mkdir A; mkdir A/B; create A/B/foo; mkdir A/C; sync; rename A/B/foo A/C/foo; create A/bar; syncdir A",
    ),
    known(
        "generic_336",
        XFSTESTS,
        "a second name goes, a new file takes the directory's place elsewhere, and the first is synced",
        "mkdir A; mkdir B; mkdir C; create A/foo; link A/foo B/foo; create B/bar; sync; \
         unlink B/foo; rename B/bar C/bar; fsync A/foo",
    ),
    known(
        "generic_341",
        XFSTESTS,
        "a directory is renamed, one of its old name is made and synced",
        "mkdir A; mkdir A/X; create A/X/foo; write A/X/foo 0+8k; create A/X/bar; write A/X/bar 0+8k; sync; \
         rename A/X A/Y; mkdir A/X; syncdir A/X",
    ),
    known(
        "generic_342",
        XFSTESTS,
        "a file is renamed, another one of its old name is made, written and synced",
        "mkdir A; create A/foo; write A/foo 0+8k; sync; rename A/foo A/bar; create A/foo; write A/foo 0+4k; \
         fsync A/foo",
    ),
    known(
        "generic_343",
        XFSTESTS,
        "a file gets a second name, another file moves beside it, and the first is synced",
        "mkdir A; mkdir B; create A/foo; create B/foo_2; sync; link A/foo A/bar; rename B/foo_2 A/foo_2; fsync A/foo",
    ),
    known(
        "generic_348",
        XFSTESTS,
        "a symbolic link is made and its directory synced: it must not come back empty",
        "mkdir A; sync; symlink foo A/bar; syncdir A",
    ),
    known(
        "generic_376",
        XFSTESTS,
        "a file is renamed, one of its old name is made, and the renamed one synced",
        "mkdir A; create A/foo; fsync A/foo; rename A/foo A/bar; create A/foo; fsync A/bar",
    ),
    known(
        "generic_468",
        XFSTESTS,
        "blocks beyond the end are allocated with the size kept, and the file fdatasynced: the size must stay",
        "create foo; write foo 0+8k; sync; falloc foo 8k+8k keep; fdatasync foo",
    ),
    known(
        "generic_479",
        XFSTESTS,
        "a file is moved to a subdirectory, a new one of its name is made and synced",
        "mkdir A; create A/foo; sync; mkdir A/B; rename A/foo A/B/foo; create A/foo; fsync A/foo",
    ),
    known(
        "generic_480",
        XFSTESTS,
        "one of two names of a file goes, another file takes it and is synced",
        "mkdir A; create A/foo; link A/foo A/bar; sync; unlink A/bar; create A/bar; fsync A/bar",
    ),
    known(
        "generic_498",
        XFSTESTS,
        "a directory gets a file with a second name, then the directory above is synced",
        "mkdir A; mkdir B; mkdir A/C; create B/foo; fsync B/foo; link B/foo A/C/foo; syncdir A",
    ),
    known(
        "generic_502",
        XFSTESTS,
        "the two names of a file are exchanged with those of another, and one is synced",
        "mkdir A; create A/foo; create A/bar; link A/foo A/f2; sync; unlink A/f2; rename A/bar A/f2; create A/bar; \
         fsync A/bar",
    ),
    known(
        "generic_509",
        XFSTESTS,
        "an open file without a name is synced by everything around it",
        "create foo; write foo 0+4k; hold foo; unlink foo; create bar; fsync bar; sync",
    ),
    known(
        "generic_510",
        XFSTESTS,
        "a file moves over a synced one in another directory, and a file beside it is synced",
        "mkdir A; mkdir B; create A/foo; write A/foo 0+4k; create B/bar; fsync B/bar; rename A/foo B/bar; create B/baz; \
         fsync B/baz; syncdir B",
    ),
    known(
        "generic_526",
        XFSTESTS,
        "two files exchange names, one was synced before",
        "mkdir A; create A/foo; create A/bar; sync; unlink A/bar; rename A/foo A/bar; create A/foo; fsync A/bar",
    ),
    known(
        "generic_527",
        XFSTESTS,
        "a file takes the name of another's second name, and both are synced",
        "mkdir A; create A/foo; create A/bar; link A/bar A/zz; sync; unlink A/zz; rename A/foo A/zz; rename A/bar A/foo; \
         fsync A/foo; syncdir A",
    ),
    known(
        "generic_535",
        XFSTESTS,
        "permission bits are changed and the directory is synced",
        "mkdir A; create A/foo; chmod A/foo 644; sync; chmod A/foo 600; fsync A/foo; chmod A 700; syncdir A",
    ),
];

/// The script of the workload with this name.
///
/// # Errors
/// There is no such workload; the message lists all.
pub fn find(name: &str) -> Result<FileScript, TextError> {
    let Some(known) = ALL.iter().find(|k| k.name == name) else {
        let all: Vec<&str> = ALL.iter().map(|k| k.name).collect();
        let what = format!(
            "unknown name `{}`; there is: {}",
            head(name),
            all.join(", ")
        );
        return Err(TextError::at(1, 1, what));
    };
    FileScript::parse(known.script).map_err(|e| TextError {
        file: known.name.into(),
        ..e
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_workload_is_possible_and_has_a_name_of_its_own() {
        for (n, known) in ALL.iter().enumerate() {
            let script = find(known.name).unwrap_or_else(|e| panic!("{e}"));
            assert!(script.ops() >= 3, "{}", known.name);
            assert!(ALL[..n].iter().all(|k| k.name != known.name));
        }
        for must in ["rename_root_to_sub", "create_delete", "generic_480"] {
            assert!(find(must).is_ok());
        }
        let e = find("generic_000").unwrap_err().to_string();
        assert!(
            e.contains("generic_000") && e.contains("generic_034"),
            "{e}"
        );
    }
}
