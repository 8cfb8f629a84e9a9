//! Makes `docs/use/posix-model.md` from [`rules`](super::rules), so that the page and the model
//! cannot differ.

use super::rules::{RULES, Row};

const HEAD: &str = "# The model `posix`

What may any file system leave after a power cut that keeps POSIX and the documented `fsync`, and no more? `--model posix` of
`varve crash --dir` explores that. A program that is safe here is safe on every file system; one that is safe on ext4 only relies on something that
nobody has promised. The tables are those by which the model decides (`crates/program/src/posix/rules.rs`); this page is made from them, and a
test fails where they differ; `VARVE_BLESS=1` writes it anew.

## Parts

Each call is split into parts, and a cut keeps a part or loses it.

| call | parts |
|---|---|
| `write`, `pwrite`, write-back of a mapping | the data of each page of 4096 bytes (`+sectors`: of each sector of 512); the size, page by page |
| `truncate`, `O_TRUNC` | the size with all pages that are freed; the zeros behind it in the page in which it ends |
| `fallocate` | the size, step by step; the zeros of each page |
| `creat`, `mkdir`, `symlink`, `mknod` | the name together with its inode (kind, permissions, owner, target): a name never leads to an inode that was not initialised |
| `link`, `unlink`, `rmdir` | the name |
| `rename` | both names |
| `chmod`, `chown`, `setxattr` | each attribute |

What was never written reads as zeros: that another file's former content shows, as with `data=writeback`, is not explored. Times are not
recorded.

A store into a shared mapping is no call. It stands in a recording as the write with which the kernel brings the page to the volume, at the latest at `msync`.
The kernel may do that sooner, as soon as the page was changed; that the page is durable before calls that the program made between store and write-back is not explored.
";

const TAIL: &str = "
## What a cut may leave

A set of parts can be kept if it holds every part that a completed sync covers, and with each part all those that the rules put before it. Everything
else may be lost, in any combination. The explorer looks, at each call, at: nothing lost, everything lost, each call lost or kept alone, each part lost or
kept alone, all content of a file lost, each prefix, and combinations of as many parts as its bound says; equal trees are judged once.
";

fn table(text: &mut String, rows: &mut dyn Iterator<Item = &Row>) {
    for row in rows {
        let name = match row.belief {
            Some(belief) => format!("+{belief}"),
            None => row.name.into(),
        };
        text.push_str(&format!(
            "| `{name}` | {} | {} |\n",
            row.demands, row.source
        ));
    }
}

/// The text of the page.
pub fn page() -> String {
    let mut text = String::from(HEAD);
    text.push_str("\n## Rules\n\n| rule | demands | source |\n|---|---|---|\n");
    table(&mut text, &mut RULES.iter().filter(|r| r.belief.is_none()));
    text.push_str(
        "\n## Beliefs\n\nA belief is written behind the name of the model: `--model posix+ordered-data`.\n\n\
         | belief | demands | where it holds |\n|---|---|---|\n",
    );
    table(&mut text, &mut RULES.iter().filter(|r| r.belief.is_some()));
    text.push_str(TAIL);
    text
}
