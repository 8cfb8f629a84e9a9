//! A piece of a page's data in memory. What a file system writes of its own is most often a block
//! of zeros with a few bytes in it (an inode, a directory, a bitmap), and each old version of it
//! stays on the chips until its erase block is erased; so of such pieces only the rest is kept.

use base::bytes::is_zero;
use base::collections::mix;
use base::{Bytes, Fingerprint, fill};

/// What is kept or left out as a whole, bytes.
const PART: usize = 64;
/// Pieces below this are kept as they are, bytes.
const LEAST: usize = 1024;

/// Data of a page.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// As it was given.
    Plain(Bytes),
    /// With most of its zeros left out.
    Sparse(Box<Sparse>),
}

#[derive(Clone, Debug)]
pub(crate) struct Sparse {
    /// Bytes of the piece.
    len: usize,
    /// Numbers of the parts that are kept, ascending.
    parts: Box<[u32]>,
    /// Their bytes, one behind the other.
    kept: Box<[u8]>,
}

impl Piece {
    /// Keeps `data`; which way is a matter of its content alone.
    pub fn new(data: Bytes) -> Piece {
        let data = fill::compact(data);
        if data.len() < LEAST || fill::uniform(&data).is_some() {
            return Piece::Plain(data);
        }
        // Where little is saved, sharing the bytes with whoever else has them saves more.
        let most = data.len() / PART / 4;
        let parts = data.chunks(PART).enumerate();
        let filled = parts.filter(|(_, part)| !is_zero(part));
        let parts: Vec<_> = filled.take(most + 1).collect();
        if parts.len() > most {
            return Piece::Plain(data);
        }
        let kept: Vec<&[u8]> = parts.iter().map(|(_, part)| *part).collect();
        Piece::Sparse(Box::new(Sparse {
            len: data.len(),
            parts: parts.iter().map(|(n, _)| *n as u32).collect(),
            kept: kept.concat().into(),
        }))
    }

    /// Its length, bytes.
    pub fn len(&self) -> usize {
        match self {
            Piece::Plain(data) => data.len(),
            Piece::Sparse(sparse) => sparse.len,
        }
    }

    /// All of it.
    pub fn bytes(&self) -> Bytes {
        match self {
            Piece::Plain(data) => data.clone(),
            Piece::Sparse(sparse) => sparse.bytes(),
        }
    }
}

impl Sparse {
    fn bytes(&self) -> Bytes {
        let mut all = vec![0; self.len];
        let kept = self.kept.chunks(PART);
        for (&part, bytes) in self.parts.iter().zip(kept) {
            all[part as usize * PART..][..bytes.len()].copy_from_slice(bytes);
        }
        all.into()
    }
}

impl Fingerprint for Piece {
    /// Equal pieces are kept alike, so what is kept tells them apart.
    fn fingerprint(&self) -> u64 {
        match self {
            Piece::Plain(data) => data.fingerprint(),
            Piece::Sparse(sparse) => sparse
                .parts
                .iter()
                .fold(fill::fingerprint(&sparse.kept), |h, &part| {
                    mix(h ^ u64::from(part) << 20 ^ sparse.len as u64)
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(len: usize, at: &[usize]) -> Bytes {
        let mut data = vec![0; len];
        at.iter().for_each(|&at| data[at] = 7);
        data.into()
    }

    #[test]
    fn what_was_given_is_read() {
        for (len, at, sparse) in [
            (4096, &[0, 1, 4095][..], true),
            (4096, &[2000], true),
            (4097, &[4096], true),
            (4096, &[], false),
            (512, &[3], false),
        ] {
            let data = with(len, at);
            let piece = Piece::new(data.clone());
            assert_eq!(matches!(piece, Piece::Sparse(_)), sparse, "{len} {at:?}");
            assert_eq!((piece.len(), piece.bytes()), (len, data));
        }
        let dense: Bytes = (0..4096)
            .map(|n| (n % 251) as u8)
            .collect::<Vec<u8>>()
            .into();
        let piece = Piece::new(dense.clone());
        assert_eq!(piece.bytes().as_ptr(), dense.as_ptr(), "shared");
    }

    #[test]
    fn a_quarter_of_the_parts_is_kept_at_most() {
        for (filled, sparse) in [(16, true), (17, false)] {
            let at: Vec<usize> = (0..filled).map(|n| n * 3 * PART).collect();
            let data = with(4096, &at);
            let piece = Piece::new(data.clone());
            assert_eq!(matches!(piece, Piece::Sparse(_)), sparse, "{filled} parts");
            assert_eq!(piece.bytes(), data);
        }
    }

    #[test]
    fn contents_are_told_apart() {
        let of = |len, at| Piece::new(with(len, at)).fingerprint();
        assert_eq!(of(4096, &[5]), of(4096, &[5]));
        assert_ne!(of(4096, &[5]), of(4096, &[5 + PART]));
        assert_ne!(of(4096, &[5]), of(4096, &[6]));
        assert_ne!(of(4096, &[5]), of(8192, &[5]));
        assert_ne!(of(4096, &[5, 900]), of(4096, &[5, 1000]));
    }
}
