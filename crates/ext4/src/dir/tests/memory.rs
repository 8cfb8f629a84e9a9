//! A directory in a vector of blocks, for tests.

use crate::dir::{DirFacts, DirIo, DirRead, first_block};
use base::{BLOCK_BYTES, Bytes, Ino};
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4::{HashVersion, InodeSeed};

/// The properties of a directory under test.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub checksums: bool,
    pub dir_index: bool,
    pub file_types: bool,
    pub hash: HashVersion,
    /// Mask of the hash bits that count, to make names collide; `None`: the real hash.
    pub hash_mask: Option<u32>,
}

pub const USUAL: Setup = Setup {
    checksums: true,
    dir_index: true,
    file_types: true,
    hash: HashVersion::HalfMd4,
    hash_mask: None,
};

/// The setups that a test goes through.
pub fn setups() -> Vec<Setup> {
    vec![
        USUAL,
        Setup {
            checksums: false,
            hash: HashVersion::Tea,
            ..USUAL
        },
        Setup {
            hash: HashVersion::LegacyUnsigned,
            file_types: false,
            ..USUAL
        },
        Setup {
            dir_index: false,
            ..USUAL
        },
        Setup {
            hash_mask: Some(0xFF00_0000),
            ..USUAL
        },
        Setup {
            hash_mask: Some(0xC000_0000),
            checksums: false,
            ..USUAL
        },
        Setup {
            hash_mask: Some(0),
            ..USUAL
        },
    ]
}

pub struct Memory {
    pub facts: DirFacts,
    pub blocks: Vec<Bytes>,
    pub indexed: bool,
    /// Blocks that the disk has for the directory.
    pub space: usize,
    /// Bytes written since this was last reset.
    pub written: usize,
}

pub const DIR: Ino = Ino(12);
pub const PARENT: Ino = Ino(2);

impl Memory {
    pub fn new(setup: Setup) -> Memory {
        let facts = DirFacts {
            folding: None,
            levels_max: 1,
            seams: &[],
            block_bytes: BLOCK_BYTES,
            ino: DIR,
            csum_seed: setup.checksums.then_some(InodeSeed(0x1234_5678)),
            has_file_type: setup.file_types,
            dir_index: setup.dir_index,
            hash: setup.hash,
            hash_seed: setup
                .hash_mask
                .map_or([1, 2, 3, 4], |mask| [COARSE, COARSE, COARSE, mask]),
        };
        let blocks = vec![first_block(&facts, PARENT)];
        Memory {
            facts,
            blocks,
            indexed: false,
            space: usize::MAX,
            written: 0,
        }
    }
}

/// A hash seed with this value in three words is a mask for tests: its fourth word masks the hash.
pub const COARSE: u32 = 0xC0A5_5E00;

impl DirRead for Memory {
    fn facts(&self) -> &DirFacts {
        &self.facts
    }
    fn block_count(&self) -> u32 {
        self.blocks.len() as u32
    }
    fn is_indexed(&self) -> bool {
        self.indexed
    }
    fn read(&self, lblk: u32) -> FsResult<Bytes> {
        Ok(self.blocks[lblk as usize].clone())
    }
}

impl DirIo for Memory {
    fn write(&mut self, lblk: u32, pieces: &[(usize, &[u8])]) -> FsResult<()> {
        let mut block = self.blocks[lblk as usize].to_vec();
        for (offset, bytes) in pieces {
            block[*offset..offset + bytes.len()].copy_from_slice(bytes);
            self.written += bytes.len();
        }
        self.blocks[lblk as usize] = block.into();
        Ok(())
    }
    fn append(&mut self, content: Bytes) -> FsResult<u32> {
        if self.blocks.len() >= self.space {
            return Err(FsError::from(Errno::NoSpc));
        }
        assert_eq!(content.len(), BLOCK_BYTES);
        self.blocks.push(content);
        Ok(self.blocks.len() as u32 - 1)
    }
    fn set_indexed(&mut self) -> FsResult<()> {
        self.indexed = true;
        Ok(())
    }
}
