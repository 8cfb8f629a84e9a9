//! Describes the journal of an F2FS (F2FSJ): where it lies, its superblocks, its ring.

use super::{block, corrupt, f2fs, uuid};
use crate::VolumeError;
use base::BLOCK_BYTES;
use blockdev::HostFile;
use ondisk::f2fs::journal::{JournalArea, JournalSuper, RingArea, list_ring};
use vfs::FsError;

/// Prints all of it.
pub(super) fn list<E: From<VolumeError>>(
    file: &HostFile,
    say: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let (area, ring) = place(file)?;
    let (start, blocks) = (area.start, area.blocks);
    say(&format!(
        "journal {} in {blocks} blocks from block {start} on\n",
        uuid(area.uuid)
    ))?;
    say(&applied(file, &area)?)?;
    let mut best: Option<JournalSuper> = None;
    for copy in 0..2 {
        let bytes = block(file, area.super_block(copy))?;
        match JournalSuper::parse(&bytes) {
            Ok(sb) => {
                let other = match sb.uuid == area.uuid {
                    true => String::new(),
                    false => format!("; of another journal, {}", uuid(sb.uuid)),
                };
                say(&format!("superblock {copy}: {sb}{other}\n"))?;
                let mine = sb.uuid == area.uuid && sb.ring_blocks == ring.blocks;
                if mine && best.is_none_or(|b| b.generation < sb.generation) {
                    best = Some(sb);
                }
            }
            Err(e) => say(&format!("superblock {copy}: unusable: {e}\n"))?,
        }
    }
    let tail = best.map_or(0, |sb| sb.tail);
    let mut read = |index: u32| Ok(block(file, ring.block(index))?);
    list_ring(&ring, tail, &mut read, &mut |found| {
        say(&found.describe(best.as_ref()).to_string())
    })
}

/// Where it lies; the file has all of it.
fn place(file: &HostFile) -> Result<(JournalArea, RingArea), VolumeError> {
    let (sb, _, _) = f2fs::superblock(file)?;
    let Some(area) = sb.journal().map_err(corrupt)? else {
        return Err(FsError::incompatible(
            "an F2FS without journal; `dump checkpoint` shows the NAT journal of its packs",
        )
        .into());
    };
    let blocks = file.bytes() / BLOCK_BYTES as u64;
    let ring = area
        .ring()
        .filter(|_| area.start + u64::from(area.blocks) <= blocks);
    let ring = ring.ok_or_else(|| {
        FsError::corrupt(format!(
            "the journal is said to have {} blocks from block {} on; the image ends at block {blocks}",
            area.blocks, area.start
        ))
    })?;
    Ok((area, ring))
}

/// What the checkpoint says of the journal.
fn applied(file: &HostFile, area: &JournalArea) -> Result<String, VolumeError> {
    let (_, geo, _) = f2fs::superblock(file)?;
    Ok(match f2fs::newest(file, &geo) {
        Ok((cp, _)) => match cp.applied(&area.uuid) {
            Some(epoch) => format!(
                "checkpoint {}: has all epochs up to {epoch}\n",
                cp.version()
            ),
            None => format!(
                "checkpoint {}: says nothing of this journal: somebody who does not know it wrote it\n",
                cp.version()
            ),
        },
        Err(e) => format!("checkpoint: unusable: {e}\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WallTime;
    use crate::inspect::journal;
    use crate::mkfs::{F2fsJournal, F2fsOptions, make_f2fs};
    use ondisk::f2fs::Nid;
    use ondisk::f2fs::journal::{Descriptor, Group, Record, Transaction, put_group};
    use std::os::unix::fs::FileExt;

    fn small() -> F2fsOptions {
        F2fsOptions::new(64 << 20, [3; 16], WallTime { secs: 1, nanos: 0 })
    }

    fn listed(file: &HostFile) -> Result<String, VolumeError> {
        let mut text = String::new();
        journal(file, &mut |line| {
            text.push_str(line);
            Ok::<(), VolumeError>(())
        })?;
        Ok(text)
    }

    fn transaction(epoch: u64, incarnation: u64, records: u32) -> Vec<u8> {
        let (mut bytes, mut payload) = (Vec::new(), Vec::new());
        for n in 0..records {
            let child = Nid(10 + n);
            Record::NodePtr {
                parent: Nid(4),
                slot: 1013,
                child,
            }
            .encode(&mut bytes);
        }
        let (ino, generation) = (Nid(4), 7);
        let groups = put_group(
            &mut payload,
            &Group {
                ino,
                generation,
                records,
                bytes: &bytes,
            },
        );
        let descriptor = Descriptor {
            groups,
            records,
            ..Descriptor::default()
        };
        Transaction {
            incarnation,
            epoch,
            descriptor,
            payload,
            ..Transaction::default()
        }
        .encode()
    }

    /// A new journal, then two transactions in it, then damage.
    #[test]
    fn a_ring_from_new_to_damaged() {
        let plain = tempfile::tempfile().expect("a file");
        plain.set_len(64 << 20).expect("room");
        let file = HostFile::new(plain.try_clone().expect("another")).expect("a device");
        let options = F2fsOptions {
            journal: Some(F2fsJournal::Ring(16)),
            ..small()
        };
        make_f2fs(&file, &options, true).expect("made");
        let fresh = listed(&file).expect("a journal");
        assert!(fresh.contains("\ncheckpoint "), "{fresh}");
        assert_eq!(
            fresh.matches("left empty; version 3, ring of ").count(),
            2,
            "{fresh}"
        );
        assert!(fresh.ends_with("from 0 on: never written\n"), "{fresh}");

        let (area, ring) = place(&file).expect("a place");
        let life = JournalSuper::parse(&block(&file, area.super_block(0)).expect("read"));
        let life = life.expect("sound").incarnation;
        let put = |index: u32, bytes: &[u8]| {
            for (n, bytes) in bytes.chunks(BLOCK_BYTES).enumerate() {
                let at = ring.block(ring.step(index, n as u64)) * BLOCK_BYTES as u64;
                plain.write_all_at(bytes, at).expect("written");
            }
        };
        put(0, &transaction(1, life, 1));
        put(1, &transaction(2, life, 300));
        let text = listed(&file).expect("a journal");
        assert!(
            text.contains("block 0: epoch 1, 1 groups, 1 records, "),
            "{text}"
        );
        assert!(
            text.contains("4 blocks from 1 on: epoch 2, 1 groups, 300 records, "),
            "{text}"
        );
        assert!(
            text.contains("    NODE_PTR node 4 word 1013 -> node 309\n"),
            "{text}"
        );

        plain
            .write_all_at(&[1; 8], ring.block(2) * BLOCK_BYTES as u64 + 100)
            .expect("written");
        plain
            .write_all_at(&[1; 8], area.super_block(1) * BLOCK_BYTES as u64 + 40)
            .expect("written");
        let text = listed(&file).expect("a journal");
        for part in [
            "superblock 1: unusable: journal superblock of f2fs: checksum ",
            "block 0: epoch 1, ",
            "block 1: epoch 2, not whole: block of records (block 1 of the transaction) has checksum ",
            "block 2: the checksum does not fit",
            "2 blocks from 3 on: rest of epoch 2\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn no_journal_no_list() {
        let plain = tempfile::tempfile().expect("a file");
        plain.set_len(64 << 20).expect("room");
        let file = HostFile::new(plain).expect("a device");
        assert!(matches!(listed(&file), Err(VolumeError::Unknown)));
        let options = small();
        make_f2fs(&file, &options, true).expect("made");
        let refused = listed(&file).expect_err("none").to_string();
        assert!(refused.contains("an F2FS without journal"), "{refused}");
    }
}
