//! Who judges the states of an exploration, and the files that hold them meanwhile.
//!
//! On this machine a command of the user (`--judge`) decides of each image as the cut left it.
//! Without one nothing is known of the program and of its promises, so a state is bad if the file
//! system in it cannot be recovered, or if `e2fsck` or `fsck.f2fs` finds damage afterwards. That
//! asks less than the oracles of the other subjects do.

use super::{Ack, BLOCK};
use crate::CrashError;
use base::{BlockNo, Bytes};
use blockdev::{BlockDevice, Caps, Image, OverlayDisk, Trace};
use rig::Fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use work::fsck;

/// What decides whether a recovered image is whole.
#[derive(Clone, Debug)]
pub enum Judge {
    /// Varve's recovery, if a log or a list of orphans waits for it, and then `e2fsck -fn` or
    /// `fsck.f2fs`.
    Checker,
    /// This shell command, called with the image as the cut left it in `$VARVE_STATE`, and a file
    /// of what was acknowledged in `$VARVE_ACKED`. It ends with 0 if all is well, and may change
    /// the image.
    Command(String),
}

fn kind_of(image: &Image) -> Option<Fs> {
    let head = [image.block(0), image.block(1)].concat();
    rig::kind_of_head(&head)
}

/// What a court looks at.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The content that a cut left.
    pub image: &'a Image,
    /// What was acknowledged before the cut.
    pub acked: &'a [Ack],
}

/// What a court says of a state.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The state was recovered first.
    pub recovered: bool,
    /// Why it is bad, if it is.
    pub bad: Option<String>,
}

/// Who judges states.
pub trait Court {
    /// How many states it takes at a time.
    fn bench(&self) -> usize;
    /// Judges so many states at most; a verdict for each, in their order.
    ///
    /// # Errors
    /// The host fails, or a judge cannot be run.
    fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError>;
}

/// Judges on this machine.
pub struct HostCourt {
    judge: Judge,
    caps: Caps,
    kind: Option<Fs>,
    file: StateFile,
    /// A file of what was acknowledged.
    acked: PathBuf,
}

impl Court for HostCourt {
    fn bench(&self) -> usize {
        1
    }

    fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
        states.iter().map(|state| self.one(state)).collect()
    }
}

impl HostCourt {
    /// Judges states of `trace`, a recording of a device of `bytes` bytes. `folder` takes the state
    /// that is judged.
    ///
    /// # Errors
    /// The host cannot make the file of the state.
    pub fn new(
        judge: Judge,
        trace: &Trace,
        bytes: u64,
        folder: &Path,
    ) -> Result<HostCourt, CrashError> {
        Ok(HostCourt {
            judge,
            caps: trace.caps.clone(),
            kind: kind_of(&trace.start),
            file: StateFile::new(folder.join("state.img"), bytes)?,
            acked: folder.join("acked"),
        })
    }

    fn one(&mut self, state: &State<'_>) -> Result<Verdict, CrashError> {
        let command = match &self.judge {
            Judge::Command(command) => command,
            Judge::Checker => return self.check(state.image),
        };
        self.file.set(state.image)?;
        write_acked(state.acked, &self.acked)?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .env("VARVE_STATE", &self.file.path)
            .env("VARVE_ACKED", &self.acked);
        let output = shell.output().map_err(|source| CrashError::Host {
            doing: format!("running {command}"),
            source,
        })?;
        // The command may have changed the file that it judged.
        self.file.forget();
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words).into_owned();
        let bad = !output.status.success();
        Ok(Verdict {
            recovered: false,
            bad: bad.then(|| format!("{}: {words}", output.status)),
        })
    }

    fn check(&mut self, image: &Image) -> Result<Verdict, CrashError> {
        let Some(kind) = self.kind else {
            let what = "the image holds no ext4, ext3 or F2FS: say --judge COMMAND";
            return Err(CrashError::Check(what.into()));
        };
        let blocks = self.file.bytes / BLOCK;
        let read = |n: BlockNo| Ok::<Bytes, String>(image.block(n.0));
        let report = rig::fsck::check(kind, &read, blocks, 1);
        let mut image = image.clone();
        if report.needs_recovery {
            let disk = OverlayDisk::new(self.caps.clone(), image);
            let device: Arc<dyn BlockDevice> = disk.clone();
            let now = rig::WallTime { secs: 0, nanos: 0 };
            match rig::fsck::recover_device(kind, &device, now) {
                Ok(None) => image = disk.image(),
                Ok(Some(why)) | Err(why) => {
                    return Ok(Verdict {
                        recovered: true,
                        bad: Some(format!("recovery refused: {why}")),
                    });
                }
            }
        }
        self.file.set(&image)?;
        Ok(Verdict {
            recovered: report.needs_recovery,
            bad: findings(kind, &self.file.path)?,
        })
    }
}

/// What the checker of this kind of file system finds in an image.
pub(super) fn findings(kind: Fs, image: &Path) -> Result<Option<String>, CrashError> {
    let verdict = work::fsck::check(kind, image).map_err(|source| CrashError::Host {
        doing: format!("running {}", work::fsck::checker(kind)),
        source,
    })?;
    match verdict {
        fsck::Verdict::Clean => Ok(None),
        fsck::Verdict::Repaired(words) | fsck::Verdict::Findings(words) => Ok(Some(words)),
        fsck::Verdict::NotInstalled => {
            let what = format!("{} is not installed", work::fsck::checker(kind));
            Err(CrashError::Check(what))
        }
    }
}

/// Writes what was acknowledged to a file, a line each.
pub(super) fn write_acked(acked: &[Ack], path: &Path) -> Result<(), CrashError> {
    let lines: String = acked.iter().map(|ack| format!("{}\n", ack.text)).collect();
    std::fs::write(path, lines).map_err(|source| CrashError::Host {
        doing: format!("writing {}", path.display()),
        source,
    })
}

/// A file that holds one state after the other; only what differs is written.
pub(super) struct StateFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// What the file holds; `None` if a judge may have changed it.
    holds: Option<Image>,
}

impl StateFile {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn new(path: PathBuf, bytes: u64) -> Result<StateFile, CrashError> {
        let made = File::create(&path).and_then(|file| file.set_len(bytes).map(|()| file));
        let file = made.map_err(|source| CrashError::Host {
            doing: format!("making {}", path.display()),
            source,
        })?;
        Ok(StateFile {
            path,
            file,
            bytes,
            holds: Some(Image::new()),
        })
    }

    /// Says that others may have changed the file.
    pub fn forget(&mut self) {
        self.holds = None;
    }

    /// Makes the image the content of the file.
    pub fn set(&mut self, image: &Image) -> Result<(), CrashError> {
        self.write(image).map_err(|source| CrashError::Host {
            doing: format!("writing {}", self.path.display()),
            source,
        })?;
        self.holds = Some(image.clone());
        Ok(())
    }

    fn write(&mut self, image: &Image) -> io::Result<()> {
        let Some(held) = self.holds.take() else {
            self.file.set_len(0)?;
            self.file.set_len(self.bytes)?;
            return self.write_from(&Image::new(), image);
        };
        self.write_from(&held, image)
    }

    fn write_from(&self, held: &Image, image: &Image) -> io::Result<()> {
        for (n, bytes) in image.blocks() {
            if held.print(n) != image.print(n) {
                self.file.write_all_at(&bytes, n * BLOCK)?;
            }
        }
        for (n, _) in held.blocks() {
            if image.is_zero(n) {
                self.file.write_all_at(&[0; BLOCK as usize], n * BLOCK)?;
            }
        }
        Ok(())
    }
}
