//! What the creation of one file dirties (III.C.1): the metadata blocks of a commit that holds
//! nothing else.

use crate::PaperError;
use crate::characterise::{Role, Session};
use rig::{Config, Stack};
use serde::{Deserialize, Serialize};
use vfs::OpenFlags;
use work::life::live_through;
use work::{RunConfig, RunError};

/// Files in the directory before, so that it is cached and the creation needs no new block.
const BEFORE: u32 = 8;

/// The metadata blocks of one commit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Creation {
    /// The role of each.
    pub roles: Vec<Role>,
}

/// Creates an empty file in a warm directory between two commits.
///
/// # Errors
/// The file system fails, or there is not exactly one commit.
pub fn run(stack: &Config, seed: u64) -> Result<Creation, PaperError> {
    let mut stack = stack.clone();
    stack.timers = false;
    let config = RunConfig {
        stack,
        workload: "fsync:op=create".into(),
        seed,
        recording: None,
    };
    let session = Session::new(&config.stack)?;
    let life = live_through(
        &config,
        config.stack.format()?,
        &session.between(),
        |stack, _| create(stack),
    )?;
    let writes = life.value;
    let mut commits = session.commits()?;
    commits.retain(|commit| writes.contains(&commit.write));
    match &commits[..] {
        [one] => Ok(Creation {
            roles: one.roles.clone(),
        }),
        other => {
            let what = format!("one creation made {} commits", other.len());
            Err(PaperError::Check(what))
        }
    }
}

/// Creates the file; returns the numbers of the write commands of its commit.
fn create(stack: &Stack) -> Result<std::ops::Range<u64>, RunError> {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    stack.vfs.mkdir("/d", 0o755)?;
    for n in 0..BEFORE {
        stack.vfs.open(format!("/d/{n}"), flags, 0o644)?.close()?;
    }
    stack.vfs.sync()?;
    let begin = stack.queue.stats().write_commands;
    stack.vfs.open("/d/new", flags, 0o644)?.close()?;
    stack.vfs.sync_dir("/d")?;
    Ok(begin..stack.queue.stats().write_commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_dirties_directory_inode_bitmap_and_inode_table() {
        for scheme in ["jbd2", "emmc"] {
            let mut stack = Config::new(rig::Preset::default(), "emmc-odroid-xu4", 1);
            stack.set_scheme(scheme).unwrap();
            stack.bytes = 256 << 20;
            let creation = run(&stack, 1).unwrap();
            for role in [Role::Directory, Role::InodeBitmap, Role::InodeTable] {
                assert!(creation.roles.contains(&role), "{scheme} {creation:?}");
            }
        }
    }
}
