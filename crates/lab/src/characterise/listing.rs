//! What lies in the log of an image, block by block: for `varve dump journal`.

use super::{Layout, ReadError};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use ondisk::jbd2::{BlockKind, DescriptorReader, Header, Revoke, Superblock};
use rig::HostFile;
use std::fmt::Write;

/// The superblock of the log, and each block of the ring with a header, from where the log begins.
///
/// # Errors
/// No ext4 or ext3 of 4 KiB blocks with a log, or damage where the log is found.
pub fn log_listing(image: &HostFile) -> Result<String, ReadError> {
    // What cannot be read is zeros: no header.
    let read = |n: BlockNo| {
        let mut bytes = vec![0; BLOCK_BYTES];
        let read = image.read_exact_at(&mut bytes, n.0 * BLOCK_BYTES as u64);
        match read {
            Ok(()) => Bytes::from(bytes),
            Err(_) => base::fill::zeros(BLOCK_BYTES),
        }
    };
    let layout = Layout::read(&read)?;
    let block = |at: u32| {
        layout
            .home_of(at)
            .map_or_else(|| base::fill::zeros(BLOCK_BYTES), read)
    };
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
