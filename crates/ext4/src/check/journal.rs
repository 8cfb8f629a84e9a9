//! Checks the journal: its inode, its superblock, and that its log is empty.

use super::Options;
use super::finding::Kind;
use super::mapping::find;
use super::state::{Run, State};
use super::volume::Volume;
use ondisk::ext4::{Compat, JournalDevice};
use ondisk::jbd2;

const SUPERBLOCK_AT: usize = ondisk::ext4::SUPERBLOCK_AT as usize;
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
        return match &options.external_journal {
            Some(head) => check_external(volume, state, head, options),
            None => {
                let what = "the journal is on another device, which is not looked at (--journal)";
                state.at_inode(ino, Kind::Unsupported, what)
            }
        };
    }
    let Some((size, runs)) = state.journal.take() else {
        return state.at_inode(
            ino,
            Kind::JournalInode,
            "the journal is no regular file in use",
        );
    };
    let blocks = size / volume.block_bytes() as u64;
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
    check_superblock(volume, state, ino, at, &log);
    // Of a size beyond 4 GiB e2fsck takes the lower half for the blocks that must be mapped; one
    // that is not whole counts.
    let must = (size & u64::from(u32::MAX)).div_ceil(volume.block_bytes() as u64);
    check_length(state, ino, &log, (blocks, must), &runs);
    check_empty(state, (ino, at), &log, options);
}

fn check_empty(
    state: &mut State<'_>,
    (ino, at): (u32, u64),
    log: &jbd2::Superblock,
    options: &Options,
) {
    if !log.is_clean() && !options.in_use {
        let what = format!(
            "begins with transaction {} at its block {}",
            log.sequence(),
            log.start()
        );
        state.at_block(ino, at, Kind::LogNotEmpty, what);
    }
}

/// Checks a journal on a device of its own, by the first bytes of that device.
fn check_external(volume: &Volume<'_>, state: &mut State<'_>, head: &[u8], options: &Options) {
    let mut bad = |what: String| state.at_inode(0, Kind::JournalSuperblock, what);
    let own = volume.block_bytes();
    let device = match JournalDevice::parse(head.get(SUPERBLOCK_AT..).unwrap_or_default()) {
        Ok(device) => device,
        Err(e) => return bad(e.to_string()),
    };
    if device.uuid != volume.sb.journal_uuid() {
        return bad("its device has another UUID than the volume names".into());
    }
    if device.block_bytes as usize != own {
        let bytes = device.block_bytes;
        return bad(format!("its device has blocks of {bytes} bytes, not {own}"));
    }
    let at = device.log_superblock().0;
    let block = head.get(at as usize * own..).unwrap_or_default();
    let log = match jbd2::Superblock::parse(block) {
        Ok(log) => log,
        Err(e) => return bad(format!("on its device: {e}")),
    };
    if log.users() != [volume.sb.uuid()] {
        bad("on its device: the volume is not its only user".into());
    }
    if u64::from(log.blocks_count()) > device.blocks_count || u64::from(log.first()) <= at {
        bad(format!(
            "on its device: blocks {} to {} of {}",
            log.first(),
            log.blocks_count(),
            device.blocks_count
        ));
    }
    check_superblock(volume, state, 0, at, &log);
    check_empty(state, (0, at), &log, options);
}

fn check_superblock(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    at: u64,
    log: &jbd2::Superblock,
) {
    let mut bad = |what: String| state.at_block(ino, at, Kind::JournalSuperblock, what);
    if log.block_bytes() != volume.sb.block_bytes() {
        bad(format!("s_blocksize = {}", log.block_bytes()));
    }
    // The first version of the log's superblock has no features and no list of users.
    if log.is_v2() {
        if log.users_count() > 1 {
            bad(format!("s_nr_users = {}", log.users_count()));
        }
        let unknown = log.incompat().without(jbd2::JournalIncompat::KNOWN);
        if !unknown.is_empty() {
            bad(format!("feature {unknown}"));
        }
        let unknown = log.ro_compat();
        if !unknown.is_empty() {
            bad(format!("feature {unknown}"));
        }
    }
    if log.errno() != 0 {
        let what = format!("s_errno = {}", log.errno());
        state.at_block(ino, at, Kind::JournalError, what);
    }
}

/// Checks that all blocks that the journal says it has are mapped.
fn check_length(
    state: &mut State<'_>,
    ino: u32,
    log: &jbd2::Superblock,
    (blocks, must): (u64, u64),
    runs: &[Run],
) {
    let says = u64::from(log.blocks_count());
    let mut mapped = 0;
    for run in runs {
        if run.logical != mapped {
            break;
        }
        mapped += run.len;
    }
    if says < BLOCKS_MIN || says > blocks || says > mapped || must > mapped {
        let what = format!(
            "s_maxlen = {says} in a file of {blocks} blocks, {mapped} of them mapped; at least {BLOCKS_MIN} are needed"
        );
        state.at_inode(ino, Kind::JournalInode, what);
    }
}
