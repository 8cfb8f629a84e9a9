//! Makes images as the kernel's F2FS leaves them, clean and unclean, each with the tree that the
//! kernel itself sees in it.
//!
//! For an unclean image that is the tree after the kernel's own recovery, which runs on a copy. An
//! image becomes unclean in one of two ways: the guest is killed (every write that it completed is
//! there, whether flushed or not), or the image is put together from a part of a log of writes
//! (where the part ends decides which unflushed writes are missing).

use crate::{Guest, LogWrites, Tree};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Images that one boot looks at.
const PER_BOOT: usize = 12;
const LOG_BYTES: u64 = 1 << 30;

/// An image that the kernel wrote.
pub struct Foreign {
    /// Name of the recipe, and for a log the place of the cut.
    pub name: String,
    /// The image file.
    pub image: PathBuf,
    /// What the kernel sees in it.
    pub tree: Tree,
}

/// How a set of images is made.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// Arguments of `mkfs.f2fs`.
    pub mkfs: &'static [&'static str],
    /// Size of the image.
    pub mib: u64,
    /// Options of the mount.
    pub options: &'static str,
    /// The script that runs in the guest (with the additional words `plan NAME SEED` and
    /// `collect`).
    pub script: &'static str,
    /// How it ends.
    pub end: End,
}

/// How the making of an image ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The volume is unmounted.
    Clean,
    /// The guest is killed while the last plan's files are still open.
    Crash,
    /// The log of writes is cut in this number of places, evenly spaced.
    Cuts(usize),
}

const fn recipe(name: &'static str, mib: u64, script: &'static str, end: End) -> Recipe {
    Recipe {
        name,
        mkfs: &[],
        mib,
        options: "noatime",
        script,
        end,
    }
}

const FEATURES: &str =
    "extra_attr,inode_checksum,flexible_inline_xattr,inode_crtime,lost_found,sb_checksum";

/// All recipes; those of the short run come first.
pub const RECIPES: [Recipe; 16] = [
    recipe(
        "default",
        128,
        "plan rich 1; plan large 1; plan acl 1; plan change 1; plan random 1",
        End::Clean,
    ),
    Recipe {
        mkfs: &["-O", FEATURES],
        ..recipe(
            "features",
            128,
            "plan rich 2; plan acl 2; plan change 2; sync; plan fsync 2",
            End::Crash,
        )
    },
    recipe(
        "cuts",
        128,
        "plan fsync 3; plan random 3; plan orphans 3",
        End::Cuts(6),
    ),
    recipe("full", 100, "plan full 4", End::Crash),
    Recipe {
        options: "noatime,noinline_data,noinline_dentry,noinline_xattr",
        ..recipe(
            "nothing-inline",
            128,
            "plan rich 5; plan change 5",
            End::Clean,
        )
    },
    recipe(
        "collected",
        100,
        "plan full 6; rm $MNT/full/[1-9]*; plan rich 6; collect; plan change 6",
        End::Clean,
    ),
    Recipe {
        mkfs: &["-s", "4"],
        ..recipe("sections", 300, "plan rich 7; plan change 7", End::Clean)
    },
    Recipe {
        mkfs: &["-i"],
        ..recipe("large-nat", 128, "plan rich 8; plan random 8", End::Clean)
    },
    recipe(
        "crash-fsync",
        128,
        "plan rich 9; sync; plan fsync 9",
        End::Crash,
    ),
    Recipe {
        options: "noatime,fsync_mode=strict",
        ..recipe(
            "crash-strict",
            128,
            "plan rich 10; sync; plan fsync 10",
            End::Crash,
        )
    },
    recipe("crash-orphans", 64, "plan orphans 11", End::Crash),
    recipe(
        "crash-anywhere",
        128,
        "plan rich 12; plan random 12; plan change 12",
        End::Crash,
    ),
    recipe(
        "crash-collected",
        100,
        "plan full 13; sync; rm $MNT/full/[1-5]*; collect; plan random 13",
        End::Crash,
    ),
    recipe("full-clean", 100, "plan full 14", End::Clean),
    Recipe {
        options: "noatime,fsync_mode=strict",
        ..recipe(
            "cuts-strict",
            128,
            "plan fsync 15; plan random 15",
            End::Cuts(10),
        )
    },
    recipe("cuts-full", 64, "plan full 16", End::Cuts(10)),
];

/// How many of [`RECIPES`] a short run has.
pub const SHORT: usize = 4;

impl Recipe {
    /// Makes the images in `dir`. `guest` makes a kernel whose scripts can call the guest program.
    ///
    /// # Errors
    /// A program is missing or fails, or the kernel finds fault with its own image.
    pub fn make(
        &self,
        guest: impl Fn() -> io::Result<Guest>,
        dir: &Path,
    ) -> io::Result<Vec<Foreign>> {
        trees(&guest, dir, self.fill(&guest, dir)?)
    }

    /// As [`make`](Recipe::make), but answers the images by their names, without their trees: one
    /// boot may look at those of several recipes ([`trees`]).
    ///
    /// # Errors
    /// A program is missing or fails.
    pub fn fill(
        &self,
        guest: impl Fn() -> io::Result<Guest>,
        dir: &Path,
    ) -> io::Result<Vec<(String, PathBuf)>> {
        let image = dir.join(format!("{}.img", self.name));
        make_image(&image, self.mib, self.mkfs)?;
        match self.end {
            End::Clean => {
                let script = format!("{}\n umount $MNT", self.filling("$DISK0"));
                guest()?.disk(&image).check(&script)?;
            }
            End::Crash => {
                let script = format!("{}\n guest crash", self.filling("$DISK0"));
                guest()?.disk(&image).crash(&keep_open(&script))?;
            }
            End::Cuts(cuts) => return self.cut(guest, dir, &image, cuts),
        }
        Ok(vec![(self.name.to_string(), image)])
    }

    fn filling(&self, device: &str) -> String {
        format!(
            "guest load f2fs
             plan() {{ guest plan $1 $2 $MNT; }}
             collect() {{
                 cd /sys/fs/f2fs/*-0 2>/dev/null || cd /sys/fs/f2fs/$BLOCK0
                 echo 20 >gc_urgent_sleep_time; echo 1 >gc_urgent; sleep 2; echo 0 >gc_urgent
                 cd $DIR
             }}
             mount -t f2fs -o {} {device} $MNT
             {}",
            self.options, self.script
        )
    }

    fn cut(
        &self,
        guest: impl Fn() -> io::Result<Guest>,
        dir: &Path,
        image: &Path,
        cuts: usize,
    ) -> io::Result<Vec<(String, PathBuf)>> {
        let before = dir.join("before");
        copy(image, &before)?;
        let log = dir.join("log");
        File::create(&log)?.set_len(LOG_BYTES)?;
        let script = format!(
            "guest load dm-log-writes
             size=$(cat /sys/block/$BLOCK0/size)
             dmsetup create --noudevsync log --table \"0 $size log-writes $DISK0 $DISK1\"
             {}
             dmsetup message log 0 mark end
             umount $MNT
             dmsetup remove log",
            self.filling("/dev/dm-0")
        );
        guest()?.disk(image).disk(&log).check(&script)?;
        let log = LogWrites::open(&log)?;
        let end = log.mark("end").unwrap_or(log.entries.len());
        let image = File::options().write(true).open(&before)?;
        let mut done = 0;
        let mut made = Vec::new();
        for n in 1..=cuts {
            let to = end * n / cuts;
            log.replay(done..to, &image)?;
            done = to;
            let cut = dir.join(format!("{}-{n}.img", self.name));
            copy(&before, &cut)?;
            made.push((format!("{}-{n}", self.name), cut));
        }
        fs::remove_file(dir.join("log"))?;
        fs::remove_file(&before)?;
        Ok(made)
    }
}

/// The last plan of a script that ends in a crash keeps its files open until then.
fn keep_open(script: &str) -> String {
    match script.rfind("plan ") {
        Some(at) => format!(
            "{}guest plan-crash {} $MNT",
            &script[..at],
            two_words(&script[at + 5..])
        ),
        None => script.to_string(),
    }
}

fn two_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

fn make_image(path: &Path, mib: u64, arguments: &[&str]) -> io::Result<()> {
    File::create(path)?.set_len(mib << 20)?;
    let done = Command::new("mkfs.f2fs")
        .arg("-q")
        .args(arguments)
        .arg(path)
        .output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("mkfs.f2fs: {done:?}"))),
    }
}

/// A copy that has holes where the original has none but zeros.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let done = Command::new("cp")
        .arg("--sparse=always")
        .arg(from)
        .arg(to)
        .status()?;
    match done.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("cp {}: {done}", from.display()))),
    }
}

/// Lets the kernel mount copies of images, recovering them where needed, and answers their trees.
///
/// # Errors
/// The kernel or `fsck.f2fs` finds fault with one.
pub fn trees(
    guest: impl Fn() -> io::Result<Guest>,
    dir: &Path,
    images: Vec<(String, PathBuf)>,
) -> io::Result<Vec<Foreign>> {
    let mut found = Vec::new();
    for group in images.chunks(PER_BOOT) {
        let mut guest = guest()?;
        let mut script = String::from("guest load f2fs\n");
        let mut copies = Vec::new();
        for (n, (name, image)) in group.iter().enumerate() {
            let theirs = dir.join(format!("{name}.theirs"));
            copy(image, &theirs)?;
            guest = guest.disk(&theirs);
            script += &format!(
                "echo {name}; mount -t f2fs -o noatime $DISK{n} $MNT; guest tree $MNT tree{n}; umount $MNT\n"
            );
            copies.push(theirs);
        }
        guest.check(&script)?;
        for (n, (name, image)) in group.iter().enumerate() {
            fsck(&copies[n])?;
            fs::remove_file(&copies[n])?;
            let text = fs::read_to_string(guest.scratch().join(format!("tree{n}")))?;
            let tree = text.parse().map_err(io::Error::other)?;
            found.push(Foreign {
                name: name.clone(),
                image: image.clone(),
                tree,
            });
        }
    }
    Ok(found)
}

/// Checks that `fsck.f2fs` finds nothing wrong.
///
/// # Errors
/// It finds something, or is missing; the text has its output.
pub fn fsck(image: &Path) -> io::Result<()> {
    let done = Command::new("fsck.f2fs")
        .arg("--dry-run")
        .arg(image)
        .output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "fsck.f2fs {}: {}\n{}",
            image.display(),
            done.status,
            String::from_utf8_lossy(&done.stdout)
        ))),
    }
}
