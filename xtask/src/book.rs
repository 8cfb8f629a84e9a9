//! `cargo xtask book`: the pages below docs/ as a book.
//!
//! The links of the Markdown files are checked first, as by `cargo xtask tidy`, because that needs
//! no other program. Then mdbook makes pages of them below target/book. mdbook knows docs/ alone
//! and takes every link to a Markdown file for a link to one of its own pages. So links that leave
//! docs/, to source files and to pages at the root of the tree, are led back to the tree
//! afterwards. At the end each link of the pages that were made has to lead to a file.

use crate::sh::sh;
use crate::tools::Tool;
use crate::{Result, tidy, workspace};
use std::path::{Component, Path, PathBuf};

/// The program that makes the pages.
pub const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
};

#[derive(clap::Args)]
pub struct Args {
    /// Install mdbook below target/tools if it is not there
    #[arg(long)]
    install: bool,
}

/// Runs `cargo xtask book`.
pub fn run(args: &Args) -> Result {
    tidy::pages()?;
    let program = match (MDBOOK.program(), args.install) {
        (Some(program), _) => program,
        (None, true) => MDBOOK.install()?,
        (None, false) => return Err(format!("the links are sound, but {LACK}")),
    };
    let root = workspace::root();
    let made = root.join("target/book");
    let _ = std::fs::remove_dir_all(&made);
    let source = root.join("docs");
    sh(
        &program,
        &[
            "build",
            &source.to_string_lossy(),
            "--dest-dir",
            &made.to_string_lossy(),
        ],
    )?;
    let pages = html_below(&made)?;
    let mut dead = Vec::new();
    for page in &pages {
        dead.extend(mend_page(&root, &made, page)?);
    }
    for line in &dead {
        println!("{line}");
    }
    match dead.len() {
        0 => {
            println!("book: {} pages in {}", pages.len(), made.display());
            Ok(())
        }
        n => Err(format!("book: {n} links lead nowhere")),
    }
}

/// What is said if there is no mdbook.
pub const LACK: &str = "there is no program mdbook (cargo xtask book --install)";

/// All pages that were made, except the one for addresses that do not exist: its links begin at the
/// root of a server.
fn html_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    let entries = std::fs::read_dir(directory)
        .map_err(|e| format!("cannot list {}: {e}", directory.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            pages.extend(html_below(&path)?);
        } else if path.extension().is_some_and(|e| e == "html") && !path.ends_with("404.html") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// Leads the links of one page back to the tree where they leave the book, and writes the page.
/// Answers the links that lead nowhere.
fn mend_page(root: &Path, made: &Path, page: &Path) -> Result<Vec<String>> {
    let cannot = |e: std::io::Error| format!("{}: {e}", page.display());
    let text = std::fs::read_to_string(page).map_err(cannot)?;
    let there = page.strip_prefix(made).unwrap_or(page);
    let (text, dead) = mend(&text, there, &|path| match path {
        Target::Book(path) => made.join(path).exists(),
        Target::Tree(path) => root.join(path).exists(),
    });
    std::fs::write(page, text).map_err(cannot)?;
    let say = |link: String| format!("{}: the link to {link} leads nowhere", there.display());
    Ok(dead.into_iter().map(say).collect())
}

/// Where a link leads: to a page of the book or to a file of the tree, as a path from its root.
enum Target {
    Book(PathBuf),
    Tree(PathBuf),
}

/// Mends the text of a page that lies at `page` below the root of the book. Answers the text and
/// the links that lead to no file.
fn mend(text: &str, page: &Path, exists: &dyn Fn(&Target) -> bool) -> (String, Vec<String>) {
    let mut made = String::with_capacity(text.len());
    let mut dead = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" href=\"") {
        let (link, after) = after.split_once('"').unwrap_or((after, ""));
        let new = mend_link(link, page, exists).unwrap_or_else(|| {
            dead.push(link.to_string());
            link.to_string()
        });
        made.extend([before, " href=\"", &new, "\""]);
        rest = after;
    }
    made.push_str(rest);
    (made, dead)
}

/// The link as it has to be; `None` if it leads nowhere. Links to a place within the page and to
/// other machines stay.
fn mend_link(link: &str, page: &Path, exists: &dyn Fn(&Target) -> bool) -> Option<String> {
    let (file, anchor) = link
        .find('#')
        .map_or((link, ""), |at| (&link[..at], &link[at..]));
    if file.is_empty() || file.contains("://") {
        return Some(link.to_string());
    }
    let folder = page.parent().unwrap_or(Path::new(""));
    let inside = normal(&folder.join(file));
    if inside.is_some_and(|path| exists(&Target::Book(path))) {
        return Some(link.to_string());
    }
    // The root of the book lies two levels below that of the tree.
    let up = "../".repeat(folder.components().count() + 2);
    let tree = |file: &str| {
        let path = normal(&Path::new("docs").join(folder).join(file))?;
        let there = format!("{up}{}{anchor}", path.display());
        exists(&Target::Tree(path)).then_some(there)
    };
    let page_of_ours = file.strip_suffix(".html").map(|name| format!("{name}.md"));
    page_of_ours
        .and_then(|file| tree(&file))
        .or_else(|| tree(file))
}

/// The path without `..`; `None` if it leaves the directory that it begins in.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !parts.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(target: &Target) -> bool {
        match target {
            Target::Book(path) => path == Path::new("design/b.html"),
            Target::Tree(path) => {
                let there = ["README.md", "docs/SUMMARY.md", "crates/a/src/lib.rs"];
                there.iter().any(|file| path == Path::new(file))
            }
        }
    }

    fn link(text: &str) -> Option<String> {
        mend_link(text, Path::new("use/a.html"), &exists)
    }

    #[test]
    fn links_inside_of_the_book_stay() {
        for good in [
            "#there",
            "https://a.b/c",
            "../design/b.html",
            "../design/b.html#x",
        ] {
            assert_eq!(link(good).as_deref(), Some(good));
        }
        assert_eq!(link("../design/c.html"), None);
    }

    #[test]
    fn links_that_leave_the_book_lead_to_the_tree() {
        let readme = link("../../README.html#status");
        assert_eq!(readme.as_deref(), Some("../../../README.md#status"));
        let source = link("../../crates/a/src/lib.rs");
        assert_eq!(source.as_deref(), Some("../../../crates/a/src/lib.rs"));
        // The table of contents is a page of the tree and not of the book.
        let contents = link("../SUMMARY.html");
        assert_eq!(contents.as_deref(), Some("../../../docs/SUMMARY.md"));
        assert_eq!(link("../../NOTHING.html"), None);
        assert_eq!(link("../../../README.html"), None);
    }

    #[test]
    fn a_page_is_mended_link_by_link() {
        let text = "<a href=\"../../README.html\">r</a> <a href=\"x.html\">x</a> end";
        let (made, dead) = mend(text, Path::new("use/a.html"), &exists);
        let wanted = "<a href=\"../../../README.md\">r</a> <a href=\"x.html\">x</a> end";
        assert_eq!(made, wanted);
        assert_eq!(dead, ["x.html"]);
    }
}
