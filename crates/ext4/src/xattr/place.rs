//! Decides which attribute is stored where: a pure function from the lists before to the lists
//! after.

use fscore::XattrName as Name;
use fscore::{Errno, XattrMode};
use ondisk::ext4::{XattrEntry, xattr_bytes};

/// The attributes of an inode by place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Lists {
    pub inode: Vec<XattrEntry>,
    pub block: Vec<XattrEntry>,
}

/// A change of one attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// Name and new value.
    entry: XattrEntry,
    /// `None` removes it.
    set: Option<XattrMode>,
}

impl Change {
    pub fn set(name: Name<'_>, value: Vec<u8>, mode: XattrMode) -> Change {
        Change {
            set: Some(mode),
            ..Change::remove(name).with_value(value)
        }
    }

    pub fn remove(name: Name<'_>) -> Change {
        let entry = XattrEntry {
            name_index: name.index,
            name: name.rest.to_vec(),
            value: Vec::new(),
            value_ino: None,
        };
        Change { entry, set: None }
    }

    fn with_value(mut self, value: Vec<u8>) -> Change {
        self.entry.value = value;
        self
    }

    /// The lists after the change: in the inode if there is room, else in the block.
    ///
    /// # Errors
    /// EEXIST and ENODATA by the mode, ENOSPC if there is room in neither.
    pub fn apply(&self, old: &Lists, inode_room: usize, block_room: usize) -> Result<Lists, Errno> {
        let same = |e: &XattrEntry| e.is(self.entry.name_index, &self.entry.name);
        let exists = old.inode.iter().chain(&old.block).any(same);
        match (self.set, exists) {
            (Some(XattrMode::Create), true) => return Err(Errno::Exist),
            (Some(XattrMode::Replace) | None, false) => return Err(Errno::NoData),
            _ => {}
        }
        let without = |list: &[XattrEntry]| {
            let others = list.iter().filter(|e| !same(e));
            others.cloned().collect::<Vec<_>>()
        };
        let mut new = Lists {
            inode: without(&old.inode),
            block: without(&old.block),
        };
        if self.set.is_none() {
            return Ok(new);
        }
        let at = old.inode.iter().position(same);
        new.inode
            .insert(at.unwrap_or(new.inode.len()), self.entry.clone());
        if xattr_bytes(&new.inode) <= inode_room {
            return Ok(new);
        }
        new.inode = without(&old.inode);
        let at = old.block.iter().position(same);
        new.block
            .insert(at.unwrap_or(new.block.len()), self.entry.clone());
        if xattr_bytes(&new.block) <= block_room {
            return Ok(new);
        }
        Err(Errno::NoSpc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INODE: usize = 92;
    const BLOCK: usize = 4064;

    fn set(lists: &Lists, name: &[u8], len: usize, mode: XattrMode) -> Result<Lists, Errno> {
        let name = Name::parse(name).expect("a name");
        Change::set(name, vec![7; len], mode).apply(lists, INODE, BLOCK)
    }
    fn lens(lists: &Lists) -> (Vec<usize>, Vec<usize>) {
        let of = |list: &[XattrEntry]| list.iter().map(|e| e.value.len()).collect();
        (of(&lists.inode), of(&lists.block))
    }

    #[test]
    fn the_inode_first_then_the_block() {
        use XattrMode::Any;
        let none = Lists::default();
        // 20 bytes of entry with its name, 4 for the end of the list.
        let one = set(&none, b"user.a", 68, Any).expect("fits the inode exactly");
        assert_eq!(lens(&one), (vec![68], vec![]));
        assert_eq!(
            lens(&set(&none, b"user.a", 69, Any).expect("fits")),
            (vec![], vec![69])
        );
        let two = set(&one, b"user.b", 1, Any).expect("fits");
        assert_eq!(lens(&two), (vec![68], vec![1]));
        let moved = set(&two, b"user.a", 100, Any).expect("fits");
        assert_eq!(lens(&moved), (vec![], vec![1, 100]));
        let back = set(&moved, b"user.b", 2, Any).expect("fits");
        assert_eq!(lens(&back), (vec![2], vec![100]));
        let full = set(&none, b"user.a", 4040, Any).expect("fits the block exactly");
        assert_eq!(lens(&full), (vec![], vec![4040]));
        assert_eq!(set(&none, b"user.a", 4041, Any), Err(Errno::NoSpc));
        assert_eq!(set(&full, b"user.b", 69, Any), Err(Errno::NoSpc));
    }

    #[test]
    fn modes() {
        use XattrMode::{Any, Create, Replace};
        let none = Lists::default();
        assert_eq!(set(&none, b"user.a", 1, Replace), Err(Errno::NoData));
        let one = set(&none, b"user.a", 1, Create).expect("new");
        assert_eq!(set(&one, b"user.a", 1, Create), Err(Errno::Exist));
        assert_eq!(
            lens(&set(&one, b"user.a", 3, Replace).expect("there")).0,
            [3]
        );
        let remove = |lists: &Lists, name: &'static [u8]| {
            Change::remove(Name::parse(name).expect("a name")).apply(lists, INODE, BLOCK)
        };
        assert_eq!(remove(&one, b"trusted.a"), Err(Errno::NoData));
        assert_eq!(remove(&one, b"user.a"), Ok(none));
        let _ = Any;
    }
}
