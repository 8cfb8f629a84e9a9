//! Makes `docs/use/guarantees.md`: its tables from [`rules`](super::rules), so page and oracle
//! cannot differ there, and the sentences around them from this file.

use super::rules::{
    COVERS, Call, Cover, RULES, Sight, Terms, UNSYNCED, What, cover, may_show, shows,
};
use rig::Data;
use std::fmt::Write;

const HEAD: &str = "# What survives a power cut

This page tells, for each call that a program makes, what a power cut after it must leave, by scheme, data mode and kind of device. The oracle of
`varve crash` judges each state after a cut by the same tables (`crates/crash/src/rules.rs`). The page is made from them: a test
(`crates/crash/tests/it/guarantees.rs`) fails where they differ, and `VARVE_BLESS=1` writes the page anew.

*Journaled schemes* are `jbd2`, `flush-ahead`, `coalition`, `coalition-paper`, `emmc`, `emmc-paper`, `adaptive`, `fast-commit`,
`fast-commit+adaptive`, `jftl` and `jftl-paper` of ext4 and ext3, and
`f2fsj` of F2FS: they differ in what a commit costs, not in what it promises. `none` has no journal and promises nothing after a cut, not even that the volume can be read. The oracle
judges `none` by the rules of `data=ordered`, and has to find damage there: an oracle that finds none is blind. F2FS with checkpoints has [rules of its own](#f2fs).
The device must keep its own promises, and must not damage what is not being written (eMMC: `WR_REL_SET`); on a device that does, no journal helps.
";

const NEVER: &str = "
## Never promised

- A cut may take everything since the last completed sync: names and attributes newest first, content in any order.
- One `write` is not atomic, not even within a page: what is found may mix sectors of 512 bytes from before and after. Applications that need
  more write a new file, sync it, and rename it.
- Two files written one after the other without a sync between them: the second may be there and the first not.
- An fsync of a file does not make its removal from another directory durable, nor a rename of a directory above it: sync the
  directories.
- A file that was renamed over another without an fsync before may be empty: there is no flush behind `rename`, nor behind the
  close of a file that was truncated and written anew (Linux has both: `auto_da_alloc`).
- SQLite in `journal_mode=DELETE` with `synchronous=FULL` may lose the last acknowledged transaction: it does not sync the directory
  after deleting its journal. `EXTRA` loses none, nor do `TRUNCATE`, `PERSIST` and `WAL` with `FULL`. With `synchronous=NORMAL` the last
  transactions may go; `synchronous=OFF` and the journal modes `OFF` and `MEMORY` may lose the database.
- The owner and the times of a file are not judged. In `data=journal`, too, unsynced content comes in no promised order.
- Access times, and modification times that only fdatasync covers.
- Files that are mapped into memory: there is no such call here.
";

const KERNEL: &str = "
## File systems of a Linux kernel

`varve crash --kernel` judges file systems of a real kernel by the same tables ([how](crash-kernel.md)). Linux promises less in one place: the sync of a directory covers what changed that directory and all
that came before, because nothing is sent for a directory that has not changed. ext4 is judged as the journaled schemes in its data mode, XFS as `data=ordered`, F2FS by its checkpoints. What was looked at in Linux 6.1,
with one write kept or lost alone and at most 16 states of a cut ([when, how, and each sequence](../results/crash-kernel.md)):

| file system, mount | sequences | states | break a promise |
|---|---|---|---|
| ext4, `data=ordered` | 44 of the literature, the 621 of ACE 1 | 28,756 | 0 |
| ext4, `data=journal` | 44 of the literature | 2,373 | 0 |
| ext4, `data=writeback` | 44 of the literature | 2,324 | 0 |
| XFS | 44 of the literature, 12 of ACE 1 | 1,499 | 0 |
| F2FS, `fsync_mode=posix` | 44 of the literature, the 621 of ACE 1 | 58,087 | 1,950, all by one fault: the first fsync behind a checkpoint |
| Btrfs | 4 of the literature, 15 of ACE 1 | 834 | 12, all by one fault: a moved file is in both directories |
| Btrfs, `notreelog` | 11 of ACE 1 | 376 | 0 |

That no state breaks a promise says so of these states alone. For JFS and NILFS2 there are no rules here: their runs ask for what was synced and acknowledged, and no more. JFS sends no flush, so on a disk with a
volatile cache it promises nothing.

Btrfs writes what is synced to a log of trees, each inode by itself, so other operations come back in no order (rule O1 is judged place by place, a place being a directory and a name in it; O7 is not asked for):

- `fsync` of a file: its content, size, permissions, attributes and all its names, and that names which it had before are gone. `fdatasync`: its content, and that the file has a name.
- `fsync` of a directory: the names in it, also those that were taken away, and its permissions. Content of the files is not promised.
- A rename is done or not done: nobody has more names than ever at once, and who always had one has one.
- `sync`, and with `notreelog` each sync, is a commit: all before it is there, and the rules are those of `data=ordered`.
";

fn call_text(call: Call) -> &'static str {
    match call {
        Call::Fsync => "`fsync` of a file",
        Call::Fdatasync => "`fdatasync` of a file",
        Call::SyncDir => "`fsync` of a directory",
        Call::Sync => "`sync`",
    }
}

fn what_text(what: What) -> &'static str {
    match what {
        What::Names => "names, links, symlink targets",
        What::Attributes => "permissions, extended attributes",
        What::Content => "content and size",
    }
}

fn cover_text(cover: Cover) -> &'static str {
    match cover {
        Cover::Nothing => "not promised",
        Cover::Making => "that it was made",
        Cover::Inode => "all of this file",
        Cover::Everything => "everything, of all programs",
    }
}

fn sight_text(sight: Sight) -> &'static str {
    match sight {
        Sight::StaleBlock => {
            "Content of deleted files, in blocks that the file was given since its last sync (O5). After fsync or fdatasync never"
        }
        Sight::TornPage => {
            "Garbage in a page that was being overwritten in place since the last sync, also where it had been synced (O6)"
        }
        Sight::CutOff => {
            "What a truncation had cut off, in the page where it ended, when the file grew again and was not synced (O3)"
        }
    }
}

fn terms_text(terms: &Terms) -> String {
    let mode = match (terms.journaled, terms.data) {
        (false, _) => return "`none`".into(),
        (_, Data::Ordered) => "`data=ordered`",
        (_, Data::Writeback) => "`data=writeback`",
        (_, Data::Journal) => "`data=journal`",
    };
    match terms.roll_forward {
        Some(fsync) => format!("F2FS, `fsync_mode={fsync}`"),
        None => format!("journaled, {mode}"),
    }
}

/// The text of the page.
///
/// # Panics
/// Never: writing into a text does not fail.
pub fn page() -> String {
    let mut text = String::from(HEAD);
    calls(&mut text);
    text.push_str(F2FS);
    unsynced(&mut text);
    sights(&mut text);
    text.push_str(NEVER);
    text.push_str(KERNEL);
    text.push_str("\n## Rules\n\nEach finding of `varve crash` begins with the rule that is broken.\n\n| rule | demands |\n|---|---|\n");
    for rule in RULES {
        line(&mut text, &[rule.name, rule.demands]);
    }
    text
}

fn line(text: &mut String, cells: &[&str]) {
    writeln!(text, "| {} |", cells.join(" | ")).expect("a text takes all");
}

fn calls(text: &mut String) {
    text.push_str(
        "\n## After a call has returned (O2)\n\nJournaled schemes, all data modes, and F2FS with its own rules below. A sync that was under way promises nothing yet.\n\n",
    );
    let whats = [What::Names, What::Attributes, What::Content];
    let head = whats.map(what_text).join(" | ");
    text.push_str(&format!("| call | {head} |\n|---|---|---|---|\n"));
    for call in [Call::Fsync, Call::Fdatasync, Call::SyncDir, Call::Sync] {
        let cells = whats.map(|what| cover_text(cover(call, what)));
        line(text, &[call_text(call), cells[0], cells[1], cells[2]]);
    }
    text.push('\n');
    for row in COVERS {
        let (call, what) = (call_text(row.call), what_text(row.what));
        writeln!(text, "- {call}, {what}: {}.", row.note).expect("a text takes all");
    }
}

const F2FS: &str = "
## F2FS

With its journal (`f2fsj`) F2FS is one of the journaled schemes. A cut leaves the state after some whole epoch: all that operations
did until then, and nothing of later ones. An `fsync` of a directory commits the epochs that changed *this directory*, with all that
came before them: that what was changed elsewhere since then comes along is not promised. The rest of this section is about F2FS with checkpoints.

A mount finds the names of the last checkpoint, which are those after some prefix of all operations (O1, O7). On top of it each file that was
synced later comes back by itself, as it was at that sync: content, size, permissions, extended attributes, and its name if the checkpoint
did not know it. Nothing older comes along: of two new files of which the second was synced, the first may be missing.

- `fsync` and `fdatasync` of a file promise what the table says of *this file*. A link, a rename, a new directory above it make the sync
  write a checkpoint, and then everything before it is there.
- `fsync` of a directory and `sync` are checkpoints: everything is durable, of all programs.
- A file that was synced and then removed without a sync of its directory may come back.
- `fsync_mode=nobarrier`: syncs of single files promise nothing; checkpoints keep their promise.
";

fn unsynced(text: &mut String) {
    text.push_str(
        "\n## Without a sync\n\nJournaled schemes, all data modes.\n\n| operation | what a cut leaves | rules |\n|---|---|---|\n",
    );
    for row in UNSYNCED {
        line(text, &[row.operation, row.leaves, &row.rules.join(", ")]);
    }
}

fn sights(text: &mut String) {
    text.push_str(
        "\n## What may show in a file that is not synced\n\nDevices by what a cut leaves of a sector that was being written through the cache: *garbage* (an eMMC write without the \
         reliable-write bit), or *old or new* (`tear_granule` of its `Caps`).\n",
    );
    for sight in Sight::ALL {
        let what = sight_text(sight);
        writeln!(
            text,
            "\n{what}:\n\n| scheme and mode | device | may show | why |\n|---|---|---|---|"
        )
        .expect("a text takes all");
        for terms in Terms::all().iter().filter(|t| t.journaled) {
            let device = if terms.garbles {
                "garbage"
            } else {
                "old or new"
            };
            let may = if may_show(sight, terms) { "yes" } else { "no" };
            let why = shows(sight, terms).why;
            line(text, &[&terms_text(terms), device, may, why]);
        }
    }
}
