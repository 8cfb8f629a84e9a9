//! Extended attributes: a list of entries that begins in the inode and goes on in the attribute
//! node.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | le32 | `h_magic` | 0xF2F52011 |
//! | 0x04 | le32 | `h_refcount` | 1 |
//! | 0x08 | 4 * le32 | `h_reserved` | 0 |
//! | 0x18 | | entries | until one whose first four bytes are 0, or the end |
//!
//! An entry, padded to 4 bytes:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | u8 | `e_name_index` | prefix of the name, see [`XattrIndex`] |
//! | 1 | u8 | `e_name_len` | |
//! | 2 | le16 | `e_value_size` | |
//! | 4 | | `e_name`, value | |
//!
//! The inline area and the first 4072 bytes of the node are one buffer: an entry may cross from one
//! to the other. Without an inline area the header stands in the node.

use super::node::FOOTER_AT;
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};

/// Bytes of the attribute node that hold entries (`VALID_XATTR_BLOCK_SIZE`).
pub const XATTR_BLOCK_BYTES: usize = FOOTER_AT;
/// Bytes of the header.
pub const XATTR_HEADER_BYTES: usize = 24;

const WHAT: &str = "extended attributes";
const MAGIC: u32 = 0xF2F5_2011;
const ENTRY_BYTES: usize = 4;
/// The mark behind the last entry.
const END_BYTES: usize = 4;

/// Prefixes of names (`e_name_index`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrIndex(pub u8);

impl XattrIndex {
    /// `user.`
    pub const USER: XattrIndex = XattrIndex(1);
    /// `system.posix_acl_access`, with an empty name.
    pub const POSIX_ACL_ACCESS: XattrIndex = XattrIndex(2);
    /// `system.posix_acl_default`, with an empty name.
    pub const POSIX_ACL_DEFAULT: XattrIndex = XattrIndex(3);
    /// `trusted.`
    pub const TRUSTED: XattrIndex = XattrIndex(4);
    /// Lustre.
    pub const LUSTRE: XattrIndex = XattrIndex(5);
    /// `security.`
    pub const SECURITY: XattrIndex = XattrIndex(6);
    /// `system.advise`: never stored, it shows `i_advise`.
    pub const ADVISE: XattrIndex = XattrIndex(7);
    /// Context of an encrypted inode.
    pub const ENCRYPTION: XattrIndex = XattrIndex(9);
    /// Descriptor of a verity file.
    pub const VERITY: XattrIndex = XattrIndex(11);
}

/// Bytes of an entry.
pub const fn xattr_entry_bytes(name_len: usize, value_len: usize) -> usize {
    (ENTRY_BYTES + name_len + value_len).next_multiple_of(4)
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrRef<'a> {
    /// Prefix.
    pub index: XattrIndex,
    /// Name without its prefix.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// All attributes of an inode, checked: inline area and node as one buffer, header first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrBuf {
    /// Header and entries, without the end mark.
    bytes: Vec<u8>,
}

impl Default for XattrBuf {
    fn default() -> XattrBuf {
        XattrBuf::new()
    }
}

impl XattrBuf {
    /// No attributes.
    pub fn new() -> XattrBuf {
        let mut bytes = vec![0; XATTR_HEADER_BYTES];
        put_le32(&mut bytes, 0, MAGIC);
        put_le32(&mut bytes, 4, 1);
        XattrBuf { bytes }
    }

    /// Reads the attributes from the inline area (empty if there is none) and the node, if there is
    /// one (whole block or its first 4072 bytes). Without the magic number there are none.
    ///
    /// # Errors
    /// An entry that passes the end.
    pub fn parse(inline: &[u8], node: Option<&[u8]>) -> Result<XattrBuf, Corrupt> {
        let node = node.unwrap_or_default();
        let node = &node[..node.len().min(XATTR_BLOCK_BYTES)];
        let mut bytes = Vec::with_capacity(inline.len() + node.len());
        bytes.extend_from_slice(inline);
        bytes.extend_from_slice(node);
        if bytes.len() < XATTR_HEADER_BYTES || get_le32(&bytes, 0) != MAGIC {
            return Ok(XattrBuf::new());
        }
        let mut at = XATTR_HEADER_BYTES;
        // Each turn moves on by at least 4 bytes.
        while at + END_BYTES <= bytes.len() && get_le32(&bytes, at) != 0 {
            let (_, end) = entry_at(&bytes, at)?;
            at = end;
        }
        bytes.truncate(at);
        bytes.resize(at.next_multiple_of(4), 0);
        Ok(XattrBuf { bytes })
    }

    /// The attributes, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = XattrRef<'_>> {
        self.places().map(|(_, e)| e)
    }

    /// Each entry with where it begins.
    fn places(&self) -> impl Iterator<Item = (usize, XattrRef<'_>)> {
        let mut at = XATTR_HEADER_BYTES;
        std::iter::from_fn(move || {
            // `parse` has checked every entry, `set` made well-formed ones.
            let (entry, end) = entry_at(&self.bytes, at).ok()?;
            Some((std::mem::replace(&mut at, end), entry))
        })
    }

    fn find(&self, index: XattrIndex, name: &[u8]) -> Option<(usize, XattrRef<'_>)> {
        self.places()
            .find(|(_, e)| e.index == index && e.name == name)
    }

    /// The value of an attribute.
    pub fn get(&self, index: XattrIndex, name: &[u8]) -> Option<&[u8]> {
        self.find(index, name).map(|(_, e)| e.value)
    }

    /// True if there is no attribute.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= XATTR_HEADER_BYTES
    }

    /// Bytes with header and end mark: what inline area and node must hold together. 0 without
    /// attributes.
    pub fn bytes(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.bytes.len() + END_BYTES
        }
    }

    /// Sets an attribute: the new entry becomes the last one.
    ///
    /// # Panics
    /// If the name has more than 255 bytes or the value more than 65535.
    pub fn set(&mut self, index: XattrIndex, name: &[u8], value: &[u8]) {
        self.remove(index, name);
        let at = self.bytes.len();
        self.bytes
            .resize(at + xattr_entry_bytes(name.len(), value.len()), 0);
        let entry = &mut self.bytes[at..];
        entry[0] = index.0;
        entry[1] = u8::try_from(name.len()).expect("a name has at most 255 bytes");
        let len = u16::try_from(value.len()).expect("a value has at most 65535 bytes");
        put_le16(entry, 2, len);
        let body = &mut entry[ENTRY_BYTES..];
        body[..name.len()].copy_from_slice(name);
        body[name.len()..name.len() + value.len()].copy_from_slice(value);
    }

    /// Removes an attribute; false if there was none.
    pub fn remove(&mut self, index: XattrIndex, name: &[u8]) -> bool {
        let Some((at, e)) = self.find(index, name) else {
            return false;
        };
        let end = at + xattr_entry_bytes(e.name.len(), e.value.len());
        // The padding of a last entry may lie beyond the buffer.
        self.bytes.drain(at..end.min(self.bytes.len()));
        true
    }

    /// Writes the attributes into the inline area and, as far as they reach, into the node; the
    /// rest of both is zeroed. False, with nothing written, if they do not fit; no node is needed
    /// while [`bytes`](Self::bytes) fit the inline area.
    #[must_use]
    pub fn store(&self, inline: &mut [u8], node: Option<&mut [u8]>) -> bool {
        let node = node.unwrap_or_default();
        let room = node.len().min(XATTR_BLOCK_BYTES);
        let node = &mut node[..room];
        let used = if self.is_empty() {
            &[][..]
        } else {
            &self.bytes[..]
        };
        if self.bytes() > inline.len() + node.len() {
            return false;
        }
        let (head, tail) = used.split_at(used.len().min(inline.len()));
        for (area, part) in [(inline, head), (node, tail)] {
            let (filled, rest) = area.split_at_mut(part.len());
            filled.copy_from_slice(part);
            rest.fill(0);
        }
        true
    }
}

/// The entry at `at` and where the next one begins.
fn entry_at(bytes: &[u8], at: usize) -> Result<(XattrRef<'_>, usize), Corrupt> {
    let rest = bytes.get(at..).unwrap_or_default();
    let head = Corrupt::need(WHAT, rest, ENTRY_BYTES)?;
    let (name_len, value_len) = (usize::from(head[1]), usize::from(get_le16(head, 2)));
    let body = rest[ENTRY_BYTES..]
        .get(..name_len + value_len)
        .ok_or_else(|| {
            let reason = "name and value pass the end of the attributes";
            Corrupt::field(WHAT, "e_value_size", value_len as u64, reason)
        })?;
    let entry = XattrRef {
        index: XattrIndex(head[0]),
        name: &body[..name_len],
        value: &body[name_len..],
    };
    let end = at + xattr_entry_bytes(name_len, value_len);
    Ok((entry, end.min(bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_buffer_over_inode_and_node() {
        let (mut inline, mut node) = (vec![9; 200], vec![9; 4096]);
        let mut list = XattrBuf::new();
        list.set(XattrIndex::USER, b"first", &[1; 100]);
        list.set(XattrIndex::TRUSTED, b"second", &[2; 300]);
        assert_eq!(list.bytes(), 24 + 112 + 312 + 4);
        assert!(!list.store(&mut inline, None), "needs the node");
        assert!(inline.iter().all(|&b| b == 9));
        assert!(list.store(&mut inline, Some(&mut node)));
        assert!(
            node[XATTR_BLOCK_BYTES..].iter().all(|&b| b == 9),
            "the footer stays"
        );
        let read = XattrBuf::parse(&inline, Some(&node)).expect("valid");
        assert_eq!(read, list);
        assert_eq!(
            read.get(XattrIndex::TRUSTED, b"second"),
            Some(&[2; 300][..])
        );
        assert_eq!(read.get(XattrIndex::USER, b"second"), None);
        // Without the node the second entry passes the end.
        assert!(XattrBuf::parse(&inline, None).is_err());
        list.remove(XattrIndex::TRUSTED, b"second");
        assert!(list.store(&mut inline, None));
        assert_eq!(XattrBuf::parse(&inline, None).expect("valid"), list);
        assert!(
            list.remove(XattrIndex::USER, b"first") && !list.remove(XattrIndex::USER, b"first")
        );
        assert!(list.is_empty() && list.bytes() == 0);
        assert!(list.store(&mut inline, None) && inline.iter().all(|&b| b == 0));
    }

    #[test]
    fn a_full_list_may_end_without_a_mark() {
        let mut list = XattrBuf::new();
        list.set(XattrIndex::USER, b"k", &[3; 200 - 24 - 5]);
        let mut inline = vec![0; 200];
        assert!(!list.store(&mut inline, None), "the mark must fit");
        inline.copy_from_slice(&list.bytes);
        assert_eq!(
            XattrBuf::parse(&inline, None).expect("Linux writes that"),
            list
        );
    }

    proptest! {
        #[test]
        fn as_a_map(steps in proptest::collection::vec((1..9u8, 0..6u8, 0..90usize, 0..5u8), 0..60), inline in 0..60usize) {
            let mut list = XattrBuf::new();
            let mut model = BTreeMap::new();
            for (index, tag, len, what) in steps {
                let name = vec![b'a' + tag; usize::from(tag)];
                if what == 0 {
                    let was = model.remove(&(index, name.clone()));
                    prop_assert_eq!(list.remove(XattrIndex(index), &name), was.is_some());
                } else {
                    list.set(XattrIndex(index), &name, &vec![what; len]);
                    model.insert((index, name), vec![what; len]);
                }
            }
            let (mut a, mut b) = (vec![1; 4 * inline], vec![1; 4096]);
            let fits = list.bytes() <= a.len() + XATTR_BLOCK_BYTES;
            prop_assert_eq!(list.store(&mut a, Some(&mut b)), fits);
            if fits {
                list = XattrBuf::parse(&a, Some(&b)).expect("valid");
            }
            let found: BTreeMap<_, _> = list.iter().map(|e| ((e.index.0, e.name.to_vec()), e.value.to_vec())).collect();
            prop_assert_eq!(list.iter().count(), model.len());
            prop_assert_eq!(found, model);
        }

        #[test]
        fn hostile_lists(mut inline in proptest::collection::vec(any::<u8>(), 0..300), node in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..500))) {
            if inline.len() > 4 {
                put_le32(&mut inline, 0, MAGIC);
            }
            if let Ok(mut list) = XattrBuf::parse(&inline, node.as_deref()) {
                let n = list.iter().count();
                prop_assert!(n <= 200);
                list.set(XattrIndex::USER, b"new", b"value");
                prop_assert_eq!(list.get(XattrIndex::USER, b"new"), Some(&b"value"[..]));
                prop_assert!(list.iter().count() >= n);
            }
        }
    }
}
