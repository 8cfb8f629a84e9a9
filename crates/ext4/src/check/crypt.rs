//! Encrypted files: each has an attribute with its policy, and an encrypted directory names only
//! files with its own policy.

use super::finding::Kind;
use super::state::{Policy, State};
use super::volume::Volume;
use super::xattrs;
use ondisk::ext4::{FileType, Inode, InodeFlags};

/// Prefix and name of the attribute.
const CONTEXT: (u8, &[u8]) = (9, b"c");
/// Bytes of the number that is drawn for each file; it follows the policy in the attribute.
const NONCE_BYTES: usize = 16;
/// Bytes of the attribute in version 1 and 2.
const CONTEXT_BYTES: [usize; 2] = [28, 40];
/// The shortest encrypted name: one block of the cipher.
const NAME_BYTES_MIN: usize = 16;

/// The policy of an inode in use. Flag and attribute must both be there or both be missing.
pub(super) fn policy_of(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
) -> Policy {
    if !inode.flags().has(InodeFlags::ENCRYPT) {
        return Policy::None;
    }
    let Some(context) = xattrs::find(volume, inode, CONTEXT.0, CONTEXT.1) else {
        state.at_inode(
            ino,
            Kind::InodeField,
            "encrypted, without the attribute that says how",
        );
        return Policy::None;
    };
    let version = context.first().copied().unwrap_or(0);
    let right = |n: usize| context.len() == CONTEXT_BYTES[n];
    match version {
        1 | 2 if right(usize::from(version) - 1) => {
            let policy = context[..context.len() - NONCE_BYTES].to_vec();
            let next = state.policies.len() as u32;
            Policy::Known(*state.policies.entry(policy).or_insert(next))
        }
        0..=2 => {
            let what = format!(
                "its attribute of encryption has version {version} and {} bytes",
                context.len()
            );
            state.at_inode(ino, Kind::Xattr, what);
            Policy::Corrupt
        }
        _ => Policy::Unknown,
    }
}

/// The fault of a name in a directory of policy `dir`, if it is encrypted, for a file of this kind
/// and policy.
pub(super) fn entry_fault(
    dir: Policy,
    name: &[u8],
    (kind, policy): (FileType, Policy),
) -> Option<(Kind, &'static str)> {
    if dir == Policy::None {
        return None;
    }
    if name.len() < NAME_BYTES_MIN {
        return Some((Kind::DirName, "is too short for an encrypted name"));
    }
    let holds = matches!(
        kind,
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    match policy {
        same if same == dir => None,
        Policy::None if !holds => None,
        Policy::None => Some((
            Kind::DirPolicy,
            "leads out of an encrypted directory to a file that is not encrypted",
        )),
        _ => Some((
            Kind::DirPolicy,
            "leads to a file that is encrypted in another way than its directory",
        )),
    }
}
