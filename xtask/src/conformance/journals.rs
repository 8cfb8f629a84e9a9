//! The journal tests of e2fsprogs (`j_*`): what `varve recover` makes of each image, compared with
//! what `e2fsck -fy` does.
//!
//! ```text
//!  source package --their scripts--> image --copy--> e2fsck -fy ----------------> tree, exit code
//!                                      +-----copy--> varve recover --> e2fsck -fy --> tree, exit code
//! ```
//!
//! A volume that Varve recovers must come out with the tree that e2fsck gives it, and with nothing
//! left in the log for e2fsck. A volume that Varve refuses must be unchanged, and e2fsck must have
//! complained of the journal, too. The files of the package are unpacked under `target`, and stay
//! there.

use super::e2fsprogs::{fetch, fresh, name_of, output, run_in, said};
use crate::Result;
use crate::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests in the package; fewer mean that they were not all found.
const TESTS: usize = 36;
/// Volumes on which the verdicts may differ, with the reasons.
const SKIPPED: [(&str, &str); 1] = [(
    "j_ext_dumpe2fs",
    "a journal device without a file system: it is about what dumpe2fs prints",
)];

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder with the unpacked source package [default: fetched with apt].
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Only tests with this in their name.
    filter: Option<String>,
}

/// Runs the suite.
pub fn run(args: &Args, varve: &Path) -> Result {
    let root = workspace::root();
    let work = root.join("target/e2fsprogs");
    let source = match &args.source {
        Some(dir) => dir.clone(),
        None => fetch(&work)?,
    };
    let tests = tests_in(&source.join("tests"))?;
    let dir = tempfile::tempdir_in(fresh(&work.join("run"))?).map_err(|e| e.to_string())?;
    let mut wrong = Vec::new();
    let mut done = 0;
    let wanted = |name: &str| {
        args.filter
            .as_ref()
            .is_none_or(|f| name.contains(f.as_str()))
    };
    for test in tests.iter().filter(|t| wanted(&name_of(t))) {
        let name = name_of(test);
        if let Some((_, why)) = SKIPPED.iter().find(|(skipped, _)| *skipped == name) {
            println!("{name}: skipped: {why}");
            continue;
        }
        let place = fresh(&dir.path().join(&name))?;
        match judge(varve, test, &place) {
            Ok(said) => println!("{name}: {said}"),
            Err(why) => {
                println!("{name}: WRONG: {why}");
                wrong.push(name);
            }
        }
        done += 1;
        fs::remove_dir_all(&place).map_err(|e| e.to_string())?;
    }
    match wrong.len() {
        0 => {
            println!("{done} volumes: same tree and verdict as e2fsck");
            Ok(())
        }
        n => Err(format!(
            "{n} of {done} volumes differ: {}",
            wrong.join(", ")
        )),
    }
}

fn tests_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut tests: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    tests.retain(|path| name_of(path).starts_with("j_"));
    tests.sort();
    match tests.len() {
        TESTS => Ok(tests),
        n => Err(format!(
            "{} holds {n} tests j_*, not {TESTS}",
            dir.display()
        )),
    }
}

/// A volume, and the device of its journal if it has one of its own.
struct Volume {
    image: PathBuf,
    journal: Option<PathBuf>,
}

impl Volume {
    fn copy(&self, to: &Path) -> Result<Volume> {
        let copy = |from: &Path, name: &str| {
            let to = to.join(name);
            let args = [
                "--sparse=always".into(),
                from.to_string_lossy(),
                to.to_string_lossy(),
            ];
            run_in(Path::new("."), "cp", &args.each_ref().map(|a| a as &str))?;
            Ok::<_, String>(to)
        };
        fresh(to)?;
        Ok(Volume {
            image: copy(&self.image, "image")?,
            journal: self
                .journal
                .as_ref()
                .map(|j| copy(j, "journal"))
                .transpose()?,
        })
    }

    fn same_as(&self, other: &Volume) -> Result<bool> {
        let same = |a: &Path, b: &Path| {
            let out = output(Command::new("cmp").arg("-s").arg(a).arg(b))?;
            Ok::<_, String>(out.status.success())
        };
        let journals = match (&self.journal, &other.journal) {
            (Some(a), Some(b)) => same(a, b)?,
            _ => true,
        };
        Ok(journals && same(&self.image, &other.image)?)
    }
}

/// The volume of a test: the image that comes with it, or what its script makes.
fn volume_of(test: &Path, place: &Path) -> Result<Volume> {
    let image = place.join("image");
    let unpack = |how: &str, file: &str| {
        let text = format!(
            "{how} < '{}' > '{}'",
            test.join(file).display(),
            image.display()
        );
        run_in(place, "sh", &["-c", &text])
    };
    if test.join("image.gz").exists() {
        unpack("gzip -dc", "image.gz")?;
    } else if test.join("image.bz2").exists() {
        unpack("bzip2 -dc", "image.bz2")?;
    } else if test.join("image.tar.bz2").exists() {
        run_in(
            place,
            "tar",
            &["xjf", &test.join("image.tar.bz2").to_string_lossy()],
        )?;
        fs::rename(place.join(name_of(test) + ".img"), &image).map_err(|e| e.to_string())?;
        fs::rename(
            place.join(name_of(test) + ".img.jnl"),
            place.join("image.jnl"),
        )
        .map_err(|e| e.to_string())?;
    } else {
        run_script(test, place)?;
    }
    let journal = place.join("image.jnl");
    Ok(Volume {
        image,
        journal: journal.exists().then_some(journal),
    })
}

/// Runs the script of a test with the installed tools; it leaves the volume where it is told to.
fn run_script(test: &Path, place: &Path) -> Result {
    let out = fresh(&place.join("dump"))?;
    let scratch = place.join("scratch");
    fs::write(&scratch, []).map_err(|e| e.to_string())?;
    let debugfs = output(Command::new("sh").args(["-c", "command -v debugfs"]))?;
    let debugfs = String::from_utf8_lossy(&debugfs.stdout).trim().to_string();
    // The outcome of the script is not asked: it compares words, and other versions print others.
    output(
        Command::new("bash")
            .current_dir(place)
            .args(["-c", ". \"$test_dir/script\""])
            .env("test_dir", test)
            .env("cmd_dir", test.parent().unwrap_or(test))
            .env("test_name", "image")
            .env("TMPFILE", &scratch)
            .env("MKE2FS", "mke2fs")
            .env("DEBUGFS", "debugfs")
            .env("DEBUGFS_EXE", debugfs)
            .env("FSCK", "e2fsck")
            .env("DUMPE2FS", "dumpe2fs")
            .env("TUNE2FS", "tune2fs")
            .env("JOURNAL_DUMP_DIR", &out),
    )?;
    for (from, to) in [("image.img", "image"), ("image.img.jnl", "image.jnl")] {
        if out.join(from).exists() {
            fs::rename(out.join(from), place.join(to)).map_err(|e| e.to_string())?;
        }
    }
    match place.join("image").exists() {
        true => Ok(()),
        false => Err("its script left no image".into()),
    }
}

fn e2fsck(volume: &Volume) -> Result<(i32, String)> {
    let mut command = Command::new("e2fsck");
    command.arg("-fy");
    if let Some(journal) = &volume.journal {
        command.arg("-j").arg(journal);
    }
    let out = output(command.arg(&volume.image))?;
    Ok((out.status.code().unwrap_or(-1), said(&out)))
}

/// All files as debugfs gets them out, one line each with mode, owner, size and a checksum of the
/// content.
fn tree(volume: &Volume, place: &Path) -> Result<String> {
    let dir = fresh(&place.join("tree"))?;
    let request = format!("rdump / {}", dir.display());
    output(
        Command::new("debugfs")
            .args(["-R", &request])
            .arg(&volume.image),
    )?;
    let list = "find . -printf '%y %m %U:%G %s %l %p\\n' | sort; find . -type f -print0 | sort -z | xargs -0 -r cksum";
    let out = output(Command::new("sh").current_dir(&dir).args(["-c", list]))?;
    fs::remove_dir_all(&dir).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// True if e2fsck has complained of the journal.
fn complains(text: &str) -> bool {
    const WORDS: [&str; 8] = [
        "Journal checksum error",
        "Journal superblock is corrupt",
        "has an invalid journal",
        "while recovering journal",
        "while checking journal",
        "was corrupt, replay was aborted",
        "External journal does not support this filesystem",
        "External journal superblock",
    ];
    WORDS.iter().any(|word| text.contains(word))
}

fn judge(varve: &Path, test: &Path, place: &Path) -> Result<String> {
    let volume = volume_of(test, place)?;
    let theirs = volume.copy(&place.join("theirs"))?;
    let ours = volume.copy(&place.join("ours"))?;
    let (code, text) = e2fsck(&theirs)?;
    let mut command = Command::new(varve);
    command.arg("recover").arg(&ours.image);
    if let Some(journal) = &ours.journal {
        command.arg("--journal").arg(journal);
    }
    let out = output(&mut command)?;
    let message = said(&out);
    match out.status.code() {
        Some(0) => {
            let (again, rest) = e2fsck(&ours)?;
            if rest.contains("recovering journal") {
                return Err(format!("e2fsck has found the log not empty: {rest}"));
            }
            if tree(&theirs, place)? != tree(&ours, place)? {
                return Err(format!(
                    "the trees differ; e2fsck said {text}, of ours {rest}; varve: {message}"
                ));
            }
            Ok(format!(
                "recovered, same tree (e2fsck {code}, behind us {again})"
            ))
        }
        // The log was brought home, and what it held is no file system any more: these tests log
        // zeros over everything.
        Some(4) if !ours.same_as(&volume)? => {
            let (again, rest) = e2fsck(&ours)?;
            let same = tree(&theirs, place)? == tree(&ours, place)?;
            match same && again & 1 != 0 {
                true => Ok(format!(
                    "recovered, same damage as with e2fsck ({code}, behind us {again})"
                )),
                false => Err(format!(
                    "refused, and changed: {message}; e2fsck ({code}) {text}; behind us ({again}) {rest}"
                )),
            }
        }
        Some(4) if complains(&text) => Ok(format!("refused, as by e2fsck: {message}")),
        Some(4) => Err(format!(
            "refused, e2fsck did not: {message}; e2fsck ({code}): {text}"
        )),
        code => Err(format!("varve recover ended with {code:?}: {message}")),
    }
}
