//! Lists what is in the log of an image, block by block, for `varve dump journal`.

use super::{Layout, ReadError};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use ondisk::ext4::{JournalDevice, SUPERBLOCK_AT, Superblock as Ext4Superblock};
use ondisk::jbd2::{BlockKind, DescriptorReader, Header, Revoke, Superblock};
use rig::HostFile;
use std::fmt::Write;

/// Lists the superblock of the log, and each block of the ring that has a header, from the
/// beginning of the log on. `journal` is the device of an external journal.
///
/// # Errors
/// The image is no ext4 or ext3 with 4 KiB blocks and a log, the way to the log is damaged, or
/// `journal` does not belong to the volume.
pub fn log_listing(image: &HostFile, journal: Option<&HostFile>) -> Result<String, ReadError> {
    // A block that cannot be read counts as zeros, which are no header.
    let read_of = |file: &HostFile, n: BlockNo| {
        let mut bytes = vec![0; BLOCK_BYTES];
        let read = file.read_exact_at(&mut bytes, n.0 * BLOCK_BYTES as u64);
        match read {
            Ok(()) => Bytes::from(bytes),
            Err(_) => base::fill::zeros(BLOCK_BYTES),
        }
    };
    let read = |n: BlockNo| read_of(image, n);
    let log: Box<dyn Fn(u32) -> Bytes + '_> = match journal {
        Some(journal) => {
            let superblock = external(&read(BlockNo(0)), &read_of(journal, BlockNo(0)))?;
            let place = move |at: u32| {
                if at == 0 {
                    superblock
                } else {
                    BlockNo(at.into())
                }
            };
            Box::new(move |at| read_of(journal, place(at)))
        }
        None => {
            let layout = Layout::read(&read)?;
            Box::new(move |at| {
                let home = layout.home_of(at);
                home.map_or_else(|| base::fill::zeros(BLOCK_BYTES), read)
            })
        }
    };
    list(&*log)
}

/// The place of the superblock of an external journal, if its device belongs to the volume.
fn external(volume: &[u8], journal: &[u8]) -> Result<BlockNo, ReadError> {
    let at = SUPERBLOCK_AT as usize;
    let sb = Ext4Superblock::parse(&volume[at..])?;
    let device = JournalDevice::parse(&journal[at..])?;
    if device.uuid != sb.journal_uuid() || sb.journal_ino().0 != 0 {
        let what = "this is not the external journal that the volume names by its UUID";
        return Err(ReadError::Layout(what.into()));
    }
    if device.block_bytes as usize != BLOCK_BYTES {
        let bytes = device.block_bytes;
        let what = format!("a journal with blocks of {bytes} bytes, not {BLOCK_BYTES}");
        return Err(ReadError::Layout(what));
    }
    Ok(device.log_superblock())
}

fn list(block: &dyn Fn(u32) -> Bytes) -> Result<String, ReadError> {
    let head = block(0);
    let sb = Superblock::parse(&head)?;
    let mut text = String::new();
    let state = match sb.is_clean() {
        true => "empty".to_string(),
        false => format!(
            "begins at block {} with transaction {}",
            sb.start(),
            sb.sequence()
        ),
    };
    let _ = writeln!(
        text,
        "log of {} blocks, ring {}..{}, {state}",
        sb.blocks_count(),
        sb.first(),
        sb.log_end()
    );
    let _ = writeln!(text, "features {:?} {:?}", sb.compat(), sb.incompat());
    let ring = sb.first()..sb.log_end();
    let start = if sb.is_clean() {
        ring.start
    } else {
        sb.start()
    };
    if !ring.contains(&start) {
        return Ok(text);
    }
    for at in (start..ring.end).chain(ring.start..start) {
        let bytes = block(at);
        if let Ok(header) = Header::parse(&bytes) {
            let what = describe(&sb, &header, &bytes);
            let _ = writeln!(text, "{at:>8}  transaction {:>10}  {what}", header.tid);
        }
    }
    Ok(text)
}

fn describe(sb: &Superblock, header: &Header, bytes: &[u8]) -> String {
    let format = sb.format();
    match header.kind {
        BlockKind::Descriptor => {
            let tags = DescriptorReader::parse(format, bytes).map(|tags| tags.count());
            tags.map_or_else(
                |e| format!("descriptor: {e}"),
                |n| format!("descriptor of {n} blocks"),
            )
        }
        BlockKind::Revoke => match Revoke::parse(&format, bytes) {
            Ok(revoke) => format!("revoke of {} blocks", revoke.blocks.len()),
            Err(e) => format!("revoke: {e}"),
        },
        kind => format!("{kind:?}").to_lowercase(),
    }
}
