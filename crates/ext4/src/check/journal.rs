//! The journal: its inode, its superblock, and that its log is empty.

use super::Options;
use super::finding::Kind;
use super::mapping::find;
use super::state::State;
use super::volume::Volume;
use base::BLOCK_BYTES;
use ondisk::ext4::Compat;
use ondisk::jbd2;

/// Smallest journal, blocks.
const BLOCKS_MIN: u64 = 1024;

/// Checks the journal after the inodes were read.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>, options: &Options) {
    let sb = &volume.sb;
    if !sb.compat().has(Compat::HAS_JOURNAL) {
        return;
    }
    let ino = sb.journal_ino().0;
    if ino == 0 {
        let what = "the journal is on another device, which is not looked at";
        return state.at_inode(ino, Kind::Unsupported, what);
    }
    let Some((size, runs)) = state.journal.take() else {
        return state.at_inode(
            ino,
            Kind::JournalInode,
            "the journal is no regular file in use",
        );
    };
    let blocks = size / BLOCK_BYTES as u64;
    let mapped: u64 = runs.iter().map(|run| run.len).sum();
    if blocks < BLOCKS_MIN || mapped < blocks {
        let what = format!(
            "{blocks} blocks long, {mapped} mapped; at least {BLOCKS_MIN} and all of them are needed"
        );
        return state.at_inode(ino, Kind::JournalInode, what);
    }
    let Some(at) = find(&runs, 0) else {
        return state.at_inode(ino, Kind::JournalInode, "its first block is not mapped");
    };
    let Some(block) = volume.reader.block(at, state.found) else {
        return;
    };
    let log = match jbd2::Superblock::parse(&block) {
        Ok(log) => log,
        Err(e) => return state.at_block(ino, at, Kind::JournalSuperblock, e.to_string()),
    };
    check_superblock(state, ino, at, &log, blocks);
    if !log.is_clean() && !options.in_use {
        let what = format!(
            "begins with transaction {} at its block {}",
            log.sequence(),
            log.start()
        );
        state.at_block(ino, at, Kind::LogNotEmpty, what);
    }
}

fn check_superblock(state: &mut State<'_>, ino: u32, at: u64, log: &jbd2::Superblock, blocks: u64) {
    let mut bad = |what: String| state.at_block(ino, at, Kind::JournalSuperblock, what);
    if log.block_bytes() as usize != BLOCK_BYTES {
        bad(format!("s_blocksize = {}", log.block_bytes()));
    }
    if u64::from(log.blocks_count()) > blocks {
        bad(format!(
            "s_maxlen = {} in a file of {blocks} blocks",
            log.blocks_count()
        ));
    }
    let unknown = log.incompat().without(jbd2::JournalIncompat::KNOWN);
    if !unknown.is_empty() {
        bad(format!("feature {unknown}"));
    }
    let unknown = log.ro_compat();
    if !unknown.is_empty() {
        bad(format!("feature {unknown}"));
    }
    if log.errno() != 0 {
        let what = format!("s_errno = {}", log.errno());
        state.at_block(ino, at, Kind::JournalError, what);
    }
}
