//! The content of a file by its pages: a hole takes no memory, and comparing passes over it. A file
//! may be sparse and larger than all memory.

use crate::tree::{Node, PAGE};
use base::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Content {
    size: u64,
    /// Those that are not all zeros.
    pages: BTreeMap<u64, Bytes>,
}

impl Content {
    /// That of a file.
    pub fn of(file: &Node) -> Content {
        Content {
            size: file.size,
            pages: file.pages.clone(),
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of its bytes that are zero.
    pub fn zeros(&self) -> u64 {
        let in_page = |page: &Bytes| page.iter().filter(|&&byte| byte != 0).count() as u64;
        self.size - self.pages.values().map(in_page).sum::<u64>()
    }

    /// Whether it is `head` with or without something behind it.
    pub fn starts_with(&self, head: &Content) -> bool {
        head.size <= self.size && self.same_until(head) == head.size
    }

    /// Number of bytes from the begin on that both have, and have the same.
    pub fn same_until(&self, other: &Content) -> u64 {
        let end = self.size.min(other.size);
        let pages: BTreeSet<u64> = self
            .pages
            .keys()
            .chain(other.pages.keys())
            .copied()
            .collect();
        let hole = [0; PAGE as usize];
        let differs = |page: u64| {
            let (one, two) = (self.pages.get(&page), other.pages.get(&page));
            let one = one.map_or(&hole[..], |page| page);
            let two = two.map_or(&hole[..], |page| page);
            let at = one.iter().zip(two).position(|(a, b)| a != b)?;
            Some(page * PAGE + at as u64)
        };
        let first = pages.into_iter().find_map(differs);
        first.map_or(end, |first| first.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::tree_of;

    fn content(bytes: &[u8]) -> Content {
        let tree = tree_of(&[("f", bytes)]);
        let file = tree.find(b"f").and_then(|id| tree.node(id));
        Content::of(file.expect("it was made"))
    }

    /// As for slices, over contents that differ in size, in a page, and in holes.
    #[test]
    fn it_compares_as_the_bytes_do() {
        let mut long = vec![0; 3 * PAGE as usize];
        long[2 * PAGE as usize] = 7;
        let mut other = long.clone();
        other[2 * PAGE as usize] = 8;
        let all: Vec<Vec<u8>> = vec![
            Vec::new(),
            b"a".to_vec(),
            b"ab".to_vec(),
            b"b".to_vec(),
            vec![0; PAGE as usize + 1],
            long[..2 * PAGE as usize].to_vec(),
            long[..2 * PAGE as usize + 1].to_vec(),
            long,
            other,
        ];
        for one in &all {
            for two in &all {
                let (of_one, of_two) = (content(one), content(two));
                assert_eq!(of_one == of_two, one == two);
                assert_eq!(of_one.starts_with(&of_two), one.starts_with(two));
                let same = one.iter().zip(two).take_while(|(a, b)| a == b).count();
                assert_eq!(of_one.same_until(&of_two), same as u64);
            }
            let zeros = one.iter().filter(|&&byte| byte == 0).count();
            assert_eq!(content(one).zeros(), zeros as u64);
        }
    }
}
