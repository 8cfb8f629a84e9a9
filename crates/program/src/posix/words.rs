//! What is lost, in words of a programmer.

use super::parts::{Class, Piece};
use super::track::Track;
use crate::call::{Attribute, What};
use base::plain::shown;

/// What a piece of a call is.
pub(super) fn piece(track: &Track<'_>, piece: &Piece, what: &What) -> String {
    let path = track.path(piece.subject);
    match (piece.class, what) {
        (Class::Content, What::Write { .. }) => {
            let (from, len) = piece.range;
            format!("{len} bytes of {path} from {from} on")
        }
        (Class::Content, _) => {
            let (from, len) = piece.range;
            format!("zeros in {len} bytes of {path} from {from} on")
        }
        (Class::Size, what) => {
            let sizes = piece.effects.iter().filter_map(|(_, effect)| match effect {
                super::parts::Effect::Size(size) => Some(*size),
                _ => None,
            });
            let size = sizes.last().unwrap_or(0);
            match what {
                What::Write { .. } if piece.effects.len() > 1 => {
                    format!("the append to {path} up to {size} bytes")
                }
                _ => format!("the size {size} of {path}"),
            }
        }
        (Class::Name, What::Unlink { dir, name, .. }) => {
            format!("the removal of {}", below(track, *dir, name))
        }
        (Class::Name, What::Rename { from, to, .. }) => {
            let (from, to) = (below(track, from.0, &from.1), below(track, to.0, &to.1));
            format!("the rename of {from} to {to}")
        }
        (Class::Name, What::Create { dir, name, .. } | What::Link { dir, name, .. }) => {
            format!("the name {}", below(track, *dir, name))
        }
        (Class::Attribute, What::SetAttribute { attribute, .. }) => match attribute {
            Attribute::Mode(mode) => format!("the mode {mode:o} of {path}"),
            Attribute::Owner(user, group) => format!("the owner {user}:{group} of {path}"),
            Attribute::Xattr(name, _) => {
                let name = shown(name);
                format!("the extended attribute {name} of {path}")
            }
        },
        _ => format!("a part of {path}"),
    }
}

/// The path of a name in a directory.
pub(super) fn below(track: &Track<'_>, dir: crate::tree::NodeId, name: &[u8]) -> String {
    let name = shown(name);
    if dir == crate::tree::ROOT {
        name
    } else {
        format!("{}/{name}", track.path(dir))
    }
}
