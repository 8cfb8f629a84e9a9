//! Splits the answer to a read into blocks, without a copy where device and caller allow it.

use base::{BlockSize, Bytes};
use blockdev::Reply;
use std::ops::Range;

/// Takes a block out of a piece that holds several.
pub(crate) type Part = fn(&Bytes, Range<usize>) -> Bytes;

/// The blocks of an answer. A piece that is one block is passed on as it is; larger pieces are
/// divided by `part`. Pieces are joined first only if they end inside a block.
pub(crate) fn split(reply: Reply, size: BlockSize, part: Part) -> Vec<Bytes> {
    let size = size.bytes();
    let whole = (reply.data.iter()).all(|piece| piece.len().is_multiple_of(size));
    let pieces = match whole {
        true => reply.data,
        false => vec![reply.into_bytes()],
    };
    let mut blocks = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if piece.len() == size {
            blocks.push(piece);
            continue;
        }
        let starts = (0..piece.len() / size).map(|n| n * size);
        blocks.extend(starts.map(|at| part(&piece, at..at + size)));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Part = |piece, part| piece.slice(part);
    const COPY: Part = |piece, part| Bytes::copy_from_slice(&piece[part]);

    fn kib1() -> BlockSize {
        BlockSize::new(1024).expect("a size")
    }

    /// Eight KiB, each filled with its number, in pieces of these lengths, in halves of a KiB.
    fn reply(halves: &[usize]) -> Reply {
        let mut all: Bytes = (0..16)
            .flat_map(|n| [n / 2; 512])
            .collect::<Vec<u8>>()
            .into();
        let data = halves
            .iter()
            .map(|n| Bytes::copy_from_slice(&all.split_to(n * 512)));
        Reply {
            data: data.collect(),
            ..Reply::default()
        }
    }

    #[test]
    fn pieces_of_any_length_become_blocks_in_order() {
        for size in [kib1(), BlockSize::KIB4] {
            for halves in [
                &[16][..],
                &[8, 8],
                &[2; 8],
                &[2, 8, 4, 2],
                &[1, 9, 6],
                &[3, 3, 3, 3, 4],
            ] {
                for part in [SLICE, COPY] {
                    let blocks = split(reply(halves), size, part);
                    assert!(blocks.iter().all(|b| b.len() == size.bytes()));
                    let expected = reply(&[16]).into_bytes();
                    assert_eq!(blocks.concat(), expected, "{size:?} {halves:?}");
                }
            }
        }
    }

    #[test]
    fn a_copy_keeps_no_other_block() {
        for halves in [&[16][..], &[2; 8], &[2, 8, 4, 2], &[1, 9, 6]] {
            let blocks = split(reply(halves), kib1(), COPY);
            assert!(blocks.iter().all(Bytes::is_unique), "{halves:?}");
        }
        let shared = split(reply(&[8, 8]), kib1(), SLICE);
        assert!(shared.iter().all(|block| !block.is_unique()));
    }
}
