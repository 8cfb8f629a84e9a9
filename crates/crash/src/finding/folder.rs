//! The folder of a finding: everything to look further without Varve's source at hand.
//!
//! ```text
//! FOLDER/000-O3-none/  README.txt  finding.json  steps.txt  image-before.img  image-after.img
//!                      shrunk/     finding.json  steps.txt  image-before.img  image-after.img
//! ```
//!
//! `shrunk/` is there only where a smaller case was looked for. Images leave out the stamps that
//! free blocks held before the run, unless these are part of what is wrong. Image files are sparse,
//! because they are as large as the device. What cannot be written is named in the answer
//! (finding-F2), and a file that did not fit is removed, because half an image misleads.

use super::dossier::{Dossier, Shrunk};
use super::report::FindingReport;
use crate::device::stale_block;
use blockdev::Image;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// What came of writing a folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Name of the folder inside of the folder of findings.
    pub name: String,
    /// Files that could not be written, each with the reason.
    pub not_kept: Vec<String>,
}

/// Where files go. Tests use a store that fails.
pub trait Store {
    /// Makes a folder and those above it.
    ///
    /// # Errors
    /// What the host says.
    fn folder(&mut self, path: &str) -> io::Result<()>;
    /// Writes a file, over an old one if there is one.
    ///
    /// # Errors
    /// What the host says.
    fn file(&mut self, path: &str, content: &Content<'_>) -> io::Result<()>;
    /// A file that grows until [`take`](Store::take) gives it its name.
    ///
    /// # Errors
    /// What the host says.
    fn scratch(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new()
    }
    /// Gives a file that has grown its name, over an old one if there is one.
    ///
    /// # Errors
    /// What the host says.
    fn take(&mut self, path: &str, part: NamedTempFile) -> io::Result<()> {
        let text = std::fs::read_to_string(part.path())?;
        self.file(path, &Content::Text(text))
    }
    /// Removes a file that an earlier report has left, if there is one.
    fn remove(&mut self, _path: &str) {}
}

/// What a file holds.
pub enum Content<'a> {
    /// Text.
    Text(String),
    /// The content of a device of so many bytes.
    Image(&'a Image, u64),
}

/// A folder of the host.
pub struct Folder<'a>(pub &'a Path);

impl Store for Folder<'_> {
    fn folder(&mut self, path: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.0.join(path))
    }

    fn file(&mut self, path: &str, content: &Content<'_>) -> io::Result<()> {
        let path = self.0.join(path);
        let outcome = match content {
            Content::Text(text) => std::fs::write(&path, text),
            Content::Image(image, bytes) => sparse(&path, image, *bytes),
        };
        if outcome.is_err() {
            // Half an image misleads, so it is removed. If that fails too, the first error counts.
            let _ = std::fs::remove_file(&path);
        }
        outcome
    }

    fn scratch(&self) -> io::Result<NamedTempFile> {
        std::fs::create_dir_all(self.0)?;
        NamedTempFile::new_in(self.0)
    }

    fn take(&mut self, path: &str, part: NamedTempFile) -> io::Result<()> {
        let path = self.0.join(path);
        // The rights that every other file here has.
        let rights = File::create(&path)?.metadata()?.permissions();
        let named = part.as_file().set_permissions(rights);
        let named = named.and_then(|()| part.persist(&path).map(drop).map_err(|e| e.error));
        if named.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        named
    }

    fn remove(&mut self, path: &str) {
        // What is not there need not go.
        let _ = std::fs::remove_file(self.0.join(path));
    }
}

fn sparse(path: &Path, image: &Image, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.set_len(bytes)?;
    for (n, block) in image.blocks() {
        file.seek(SeekFrom::Start(n * base::BLOCK_BYTES as u64))?;
        file.write_all(&block)?;
    }
    // A full disk may be reported only here.
    file.sync_data()
}

/// Writes the folder of finding number `number`.
pub fn write(
    store: &mut dyn Store,
    number: usize,
    dossier: &Dossier,
    shrunk: Option<&Shrunk>,
) -> Written {
    let name = name(number, dossier);
    let mut report = dossier.report();
    report.shrunk = shrunk.map(Shrunk::report);
    report.folder = Some(name.clone());
    let mut keeper = Keeper {
        store,
        not_kept: Vec::new(),
    };
    // Small files that say most come first, in case the disk is almost full.
    keeper.folder(&name);
    keeper.text(&name, "README.txt", readme(dossier, shrunk));
    keeper.all(&name, dossier, &report);
    if let Some(shrunk) = shrunk {
        let inner = format!("{name}/shrunk");
        keeper.folder(&inner);
        keeper.all(&inner, &shrunk.dossier, &shrunk.dossier.report());
    }
    let not_kept = keeper.not_kept;
    Written { name, not_kept }
}

/// The name of the folder, like `000-O3-none`: the number of the finding, the rule, and the scheme,
/// in which characters that file names cannot have are replaced.
fn name(number: usize, dossier: &Dossier) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '-',
    };
    let scheme: String = dossier
        .repro
        .case
        .scheme
        .chars()
        .take(60)
        .map(plain)
        .collect();
    format!("{number:03}-{}-{scheme}", dossier.rule())
}

struct Keeper<'a> {
    store: &'a mut dyn Store,
    not_kept: Vec<String>,
}

impl Keeper<'_> {
    fn folder(&mut self, path: &str) {
        let outcome = self.store.folder(path);
        self.heed(path, outcome);
    }

    fn text(&mut self, folder: &str, name: &str, text: String) {
        self.file(folder, name, &Content::Text(text));
    }

    fn file(&mut self, folder: &str, name: &str, content: &Content<'_>) {
        let path = format!("{folder}/{name}");
        let outcome = self.store.file(&path, content);
        self.heed(&path, outcome);
    }

    fn all(&mut self, folder: &str, dossier: &Dossier, report: &FindingReport) {
        let json = serde_json::to_string_pretty(report).expect("plain data serialises");
        self.text(folder, "finding.json", json + "\n");
        self.text(folder, "steps.txt", steps(dossier));
        let images = [("before", &dossier.before), ("after", &dossier.after)];
        for (when, image) in images {
            let kept = match dossier.shows_stale() {
                true => image.clone(),
                false => without_stale(image),
            };
            let content = Content::Image(&kept, dossier.bytes);
            self.file(folder, &format!("image-{when}.img"), &content);
        }
    }

    fn heed(&mut self, path: &str, outcome: io::Result<()>) {
        if let Err(e) = outcome {
            self.not_kept.push(format!("{path}: {e}"));
        }
    }
}

/// The image without the stamps of nobody that free blocks of a fresh volume hold: they are a sixth
/// of a gigabyte that says nothing.
fn without_stale(image: &Image) -> Image {
    let stale = stale_block();
    image
        .blocks()
        .filter(|(_, bytes)| *bytes != stale)
        .collect()
}

fn steps(dossier: &Dossier) -> String {
    let mut text = format!("{}\n\n", dossier.repro.command());
    for violation in &dossier.violations {
        text += &format!("{violation}\n");
    }
    text += "\nWhat had begun until the cut:\n";
    for line in &dossier.story {
        text += &format!("  {line}\n");
    }
    text + "\n" + &dossier.steps_text()
}

fn readme(dossier: &Dossier, shrunk: Option<&Shrunk>) -> String {
    let case = &dossier.repro.case;
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{words}").expect("a string takes all");
    line(&format!(
        "Varve {}: a power cut that violates {}",
        dossier.repro.varve,
        dossier.rule()
    ));
    line("");
    line(&format!("scheme    {}", case.scheme));
    line(&format!("device    {}", case.device));
    if let Some(scheduler) = case.scheduler {
        line(&format!("scheduler {scheduler}"));
    }
    line(&format!("workload  {}", case.workload));
    line(&format!("seed      {}", case.seed));
    line(&format!("state     {}", dossier.id));
    if let Some(mutant) = &case.mutant {
        line(&format!("mutant    {mutant}"));
    }
    line("");
    line("What is wrong:");
    for violation in &dossier.violations {
        line(&format!("  {violation}"));
    }
    line("");
    line("Make it again:");
    line(&format!("  {}", dossier.repro.command()));
    if let Some(shrunk) = shrunk {
        line("");
        line("The same with less (folder shrunk/):");
        line(&format!("  {}", shrunk.dossier.repro.command()));
    }
    line("");
    line("Files:");
    line(
        "  steps.txt         the commands around the cut with the lost ones marked, and what the workload did",
    );
    line("  finding.json      the same as data");
    line(match dossier.modelled {
        false => "  image-before.img  what the cut left of the device, before any recovery",
        true => {
            "  image-before.img  what a host reads of the device after the cut: the device has recovered its map, the file system \
             has not been mounted; what the chips hold is in no file, the line above makes it again"
        }
    });
    match &dossier.unrecovered {
        None => line("  image-after.img   the same after Varve's recovery and unmount"),
        Some(why) => line(&format!(
            "  image-after.img   what stood there when recovery failed: {why}"
        )),
    }
    if !dossier.shows_stale() {
        line(
            "  Both images leave out the marks that the test put into free blocks before the run.",
        );
    }
    line("");
    line("Look further (on copies: e2fsck and debugfs -w write):");
    line("  varve fsck -n image-after.img");
    line("  e2fsck -fn image-after.img");
    line(
        "  cp --sparse=always image-before.img copy.img && e2fsck -fy copy.img   (records of stock JBD2 only)",
    );
    line("  debugfs -R 'logdump -a' image-before.img");
    line("  debugfs -R 'ls -l /t0' image-after.img");
    line("  cmp -l image-before.img image-after.img | head");
    text
}
