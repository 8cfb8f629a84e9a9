//! Runs of sectors, cut at the 4 KiB blocks in which models keep their content.

use base::{BLOCK_BYTES, Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, fill};
use blockdev::Piece;

/// The part of a run of sectors inside one 4 KiB block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Block number.
    pub block: u64,
    /// First byte inside the block.
    pub from: usize,
    /// Byte after the last one.
    pub to: usize,
}

impl Part {
    /// True if the part is the whole block.
    pub fn is_whole(&self) -> bool {
        self.to - self.from == BLOCK_BYTES
    }
    /// The sectors of the part as a bit mask, bit 0 first.
    pub fn mask(&self) -> u8 {
        let (from, to) = (self.from / SECTOR_BYTES, self.to / SECTOR_BYTES);
        ((1u16 << to) - (1u16 << from)) as u8
    }
}

/// The blocks of a run of sectors, ascending.
pub(crate) fn parts(lba: Lba, sectors: u64) -> impl Iterator<Item = Part> {
    let end = lba.0 + sectors;
    (lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK)).map(move |block| {
        let first = block * SECTORS_PER_BLOCK;
        Part {
            block,
            from: lba.0.saturating_sub(first) as usize * SECTOR_BYTES,
            to: (end - first).min(SECTORS_PER_BLOCK) as usize * SECTOR_BYTES,
        }
    })
}

/// The bytes of a write, handed out front to back without copying where a piece allows it.
pub(crate) struct Source<'a> {
    pieces: &'a [Bytes],
    used: usize,
}

impl<'a> Source<'a> {
    pub fn new(pieces: &'a [Bytes]) -> Source<'a> {
        Source { pieces, used: 0 }
    }
    /// The bytes from offset `skip` on.
    pub fn at(pieces: &'a [Bytes], mut skip: usize) -> Source<'a> {
        let mut source = Source::new(pieces);
        while let Some((first, rest)) = source.pieces.split_first()
            && skip >= first.len()
        {
            skip -= first.len();
            source.pieces = rest;
        }
        source.used = skip;
        source
    }
    /// The next `len` bytes as they lie in the pieces; never copies.
    pub fn take_pieces(&mut self, mut len: usize) -> Vec<Bytes> {
        let mut out = Vec::new();
        while len > 0 {
            let n = len.min(self.pieces[0].len() - self.used);
            out.push(self.take(n));
            len -= n;
        }
        out
    }
    /// The next `len` bytes, which must be there.
    pub fn take(&mut self, len: usize) -> Bytes {
        let (piece, rest) = self
            .pieces
            .split_first()
            .expect("the length of a write is checked before it is cut up");
        if piece.len() - self.used >= len {
            let out = piece.slice(self.used..self.used + len);
            self.used += len;
            if self.used == piece.len() {
                (self.pieces, self.used) = (rest, 0);
            }
            return out;
        }
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            let n = (len - out.len()).min(self.pieces[0].len() - self.used);
            out.extend_from_slice(&self.take(n));
        }
        out.into()
    }
}

/// Above this length a piece is copied block by block, so that one surviving block does not keep a
/// large buffer alive.
const SHARE_LIMIT: usize = 16 * BLOCK_BYTES;

/// The bytes of the pieces in a form that may be kept for long: small pieces are shared, fill
/// patterns come from the static table.
pub(crate) fn keepable(pieces: Vec<Piece>) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if piece.bytes.len() <= SHARE_LIMIT {
            out.push(piece.bytes);
        } else {
            out.extend(
                piece
                    .bytes
                    .chunks(BLOCK_BYTES)
                    .map(|c| match fill::uniform(c) {
                        Some(byte) => fill::filled(byte, c.len()),
                        None => Bytes::copy_from_slice(c),
                    }),
            );
        }
    }
    out
}

/// `old` with the bytes of `part` replaced.
pub(crate) fn merged(old: &[u8], part: Part, new: &[u8]) -> Bytes {
    let mut out = old.to_vec();
    out[part.from..part.to].copy_from_slice(new);
    fill::compact(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::Class;

    #[test]
    fn runs_are_cut_at_blocks() {
        let cut: Vec<Part> = parts(Lba(6), 12).collect();
        let part = |block, from, to| Part { block, from, to };
        assert_eq!(
            cut,
            [part(0, 3072, 4096), part(1, 0, 4096), part(2, 0, 1024)]
        );
        assert_eq!(
            cut.iter().map(Part::mask).collect::<Vec<_>>(),
            [0b1100_0000, 0xFF, 0b11]
        );
        assert!(cut[1].is_whole() && !cut[0].is_whole());
    }

    #[test]
    fn a_source_crosses_pieces() {
        let pieces = [Bytes::from(vec![1; 512]), Bytes::from(vec![2; 1024])];
        let mut source = Source::new(&pieces);
        assert_eq!(source.take(1024), [vec![1; 512], vec![2; 512]].concat());
        assert_eq!(source.take(512), vec![2; 512]);
    }

    #[test]
    fn large_pieces_are_not_kept_alive() {
        let mut big = vec![0; 32 * BLOCK_BYTES];
        big[1] = 1;
        let kept = keepable(vec![Piece {
            class: Class::Data,
            bytes: big.into(),
        }]);
        assert_eq!(kept.len(), 32);
        assert_eq!(kept[5].as_ptr(), fill::zeros(1).as_ptr());
    }
}
