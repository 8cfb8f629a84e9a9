//! Listens to a mount, and reads its log afterwards, so that the reading takes no part in the run.

use super::{Change, Command, Images, Layout, LogReader, ReadError, Role, Span, Tap, Transaction};
use crate::PaperError;
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTOR_BYTES, SECTORS_PER_BLOCK};
use rig::{BlockDevice, Config};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A fresh file system as it was before the mount, and the tap that listens to the mount.
pub struct Session {
    blocks: BTreeMap<u64, Bytes>,
    zeros: Bytes,
    layout: Arc<Layout>,
    tap: RefCell<Option<Arc<Tap>>>,
}

/// A transaction and what it changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The transaction as it is in the log.
    pub transaction: Transaction,
    /// What it changed, in the order of the blocks' homes.
    pub changes: Vec<Change>,
    /// The role of each changed block.
    pub roles: Vec<Role>,
    /// Number of the write command that completed it.
    pub write: u64,
}

impl Session {
    /// Prepares for a mount of the volume that [`Config::format`] makes.
    ///
    /// # Errors
    /// The configuration makes no file system, or one without a log.
    pub fn new(stack: &Config) -> Result<Session, PaperError> {
        let fresh = stack.fresh_volume()?;
        let blocks = fresh.blocks.into_iter();
        let blocks: BTreeMap<u64, Bytes> = blocks.map(|(b, content)| (b.0, content)).collect();
        let zeros = Bytes::from(vec![0; BLOCK_BYTES]);
        let at_mount = |block: BlockNo| blocks.get(&block.0).unwrap_or(&zeros).clone();
        let layout = Layout::read(&at_mount).map_err(failed)?;
        Ok(Session {
            layout: Arc::new(layout),
            blocks,
            zeros,
            tap: RefCell::new(None),
        })
    }

    /// The tap as the layer between queue and device ([`work::life::Between`]).
    pub fn between(&self) -> impl Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        |device| {
            let tap = Arc::new(Tap::new(device, self.layout.clone()));
            *self.tap.borrow_mut() = Some(tap.clone());
            tap.device()
        }
    }

    /// The commands that passed since the last call; none before a mount.
    pub fn commands(&self) -> Vec<Command> {
        let tap = self.tap.borrow();
        tap.as_ref().map_or_else(Vec::new, |tap| tap.take())
    }

    /// All commits of the mount. This takes the commands.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn commits(&self) -> Result<Vec<Commit>, PaperError> {
        let mut commits = Vec::new();
        self.read(&self.commands(), &mut |commit| commits.push(commit.clone()))?;
        Ok(commits)
    }

    /// Calls `each` with the commits that are in all commands of a mount.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(
        &self,
        commands: &[Command],
        each: &mut dyn FnMut(&Commit),
    ) -> Result<(), PaperError> {
        self.read_all(commands, each).map_err(failed)
    }

    fn at_mount(&self, block: BlockNo) -> Bytes {
        self.blocks.get(&block.0).unwrap_or(&self.zeros).clone()
    }

    fn read_all(
        &self,
        commands: &[Command],
        each: &mut dyn FnMut(&Commit),
    ) -> Result<(), ReadError> {
        let first = self.layout.home_of(0).expect("a log has a first block");
        let mut reader = LogReader::new(self.layout.clone(), &self.at_mount(first))?;
        let at_mount = |block| self.at_mount(block);
        let mut images = Images::new(&at_mount);
        for (number, command) in commands.iter().enumerate() {
            for span in &command.spans {
                past_the_log(span, &mut images);
                reader.take(span, number)?;
            }
            while let Some(transaction) = reader.next_transaction()? {
                let format = reader.format().expect("a log with transactions has one");
                let changes = images.take(&format, &transaction)?;
                let role = |c: &Change| match c.data {
                    true => Role::Data,
                    false => self.layout.role(c.home, &images.get(c.home)),
                };
                each(&Commit {
                    roles: changes.iter().map(role).collect(),
                    write: commands[transaction.record()].write,
                    changes,
                    transaction,
                });
            }
        }
        match reader.unread() {
            0 => Ok(()),
            n => Err(ReadError::Layout(format!(
                "{n} log blocks belong to no transaction"
            ))),
        }
    }
}

/// Notes a write of the superblock in place: it is written at the mount, before it is ever logged.
fn past_the_log(span: &Span, images: &mut Images<'_>) {
    if let Some(bytes) = &span.bytes
        && span.lba.0 < SECTORS_PER_BLOCK
    {
        images.written(BlockNo(0), span.lba.0 as usize * SECTOR_BYTES, bytes);
    }
}

fn failed(e: ReadError) -> PaperError {
    PaperError::Check(format!("reading the log: {e}"))
}
