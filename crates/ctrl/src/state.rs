//! Saved devices: the file format for a medium with the profile that it belongs to.
//!
//! | offset | bytes | what (little-endian) |
//! |---|---|---|
//! | 0 | 8 | magic `VARVEDEV` |
//! | 8 | 4 | version |
//! | 12 | 4 | CRC32C of this header, these four bytes left out |
//! | 16 | 8 | bytes of the payload |
//! | 24 | 4 | CRC32C of the payload |
//! | 28 | 4 | length of the profile's text |
//!
//! The payload is the text of the profile with its changes, kind of medium (u8), length of the body
//! (u64) and the body, deflated (RFC 1951). The body of a plain medium is its number of 4 KiB
//! blocks, then number and content of each that is not zero; of flash its units, the chips (`nand`,
//! its module `state`), then number and content of each block that an adversary decided. Pages that
//! were never written take no room.
//!
//! Invariants:
//! - D1: a file that is incomplete, no saved device, of another version, damaged, or not of the
//!   profile that it names is refused, and the error says which.
//! - D2: before content is allocated, its length is compared with the bytes that are there, so that
//!   a wrong length cannot ask for more memory than the file justifies. The table of a device,
//!   whose blocks without content take no bytes, is bounded by the sizes that devices may have.

use crate::firmware::FlashMedia;
use crate::plain::PlainMedia;
use crate::{AnyModel, Media, Profile, ProfileError};
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;
use base::{BLOCK_BYTES, Bytes, CowVec, Time, fill};
use blockdev::{Adversary, DevError, Model, Request};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use ftl::nand;
use std::io::{Read, Write};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"VARVEDEV";
/// Version of the format: what this build writes, and the only one that it reads.
pub const STATE_VERSION: u32 = 1;
const HEAD: usize = 32;
/// The maximum length of a profile's text, bytes.
const PROFILE_MAX: usize = 1 << 16;
/// Deflate makes at most this many bytes out of one (RFC 1951: 258 bytes in two bits).
const INFLATE_MOST: u64 = 1032;
/// Largest plain device, 4 KiB blocks: 1 TiB.
const PLAIN_BLOCKS_MAX: u64 = 1 << 28;

/// Why bytes are not a saved device, or why a medium cannot be saved.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum StateError {
    /// The bytes are something else than a saved device.
    #[error(
        "no saved device: it does not begin with `VARVEDEV`; `varve device new` makes one, a raw image is loaded into one with `varve device load`"
    )]
    Foreign,
    /// Written by another build.
    #[error(
        "a saved device of format {found}; this build reads format {STATE_VERSION}: use the build that wrote it"
    )]
    Version {
        /// The format of the file.
        found: u32,
    },
    /// The file ends early.
    #[error(
        "a saved device that is cut short: {found} bytes of {whole}; copy the whole file, or save the device again"
    )]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes that the header announces, or the size of the header itself.
        whole: u64,
    },
    /// A checksum is wrong, or the content contradicts itself.
    #[error(
        "a saved device that is damaged: {0}; take another copy of it, or make it anew with `varve device new`"
    )]
    Damaged(String),
    /// No device can be built from the profile in the file, or the medium belongs to another one.
    #[error("the profile of the saved device: {0}; use the build that wrote it")]
    Profile(#[from] ProfileError),
    /// The device is too large for the format.
    #[error("this device cannot be saved: {0}")]
    TooLarge(String),
}

/// A medium with the profile that it belongs to: the content of a file of saved state.
#[derive(Clone)]
pub struct SavedDevice {
    profile: String,
    media: Media,
}

impl SavedDevice {
    /// Joins a medium with the device's `profile`, in the form that [`Profile::parse`] takes.
    ///
    /// # Errors
    /// [`StateError::Profile`]: there is no such profile, or the medium is not of it.
    pub fn new(profile: &str, media: Media) -> Result<SavedDevice, StateError> {
        let parsed = Profile::parse(profile)?;
        if profile.len() > PROFILE_MAX {
            return Err(StateError::TooLarge(format!(
                "the text of its profile has {} bytes; at most {PROFILE_MAX}",
                profile.len()
            )));
        }
        parsed.check_fit(&media)?;
        Ok(SavedDevice {
            profile: profile.into(),
            media,
        })
    }
    /// A device without content, of `capacity_bytes` or, with `None`, of the size that the profile
    /// says.
    ///
    /// # Errors
    /// [`StateError::Profile`].
    pub fn blank(profile: &str, capacity_bytes: Option<u64>) -> Result<SavedDevice, StateError> {
        let mut model = Profile::parse(profile)?.build(capacity_bytes, None)?;
        model.set_adversary(Adversary::Own);
        SavedDevice::new(profile, model.power_off(Time(0), 0))
    }
    /// Switches a device off properly, with its cache flushed, and takes its medium.
    ///
    /// # Errors
    /// The device fails.
    pub fn shut_down(mut self, mut model: AnyModel) -> Result<SavedDevice, DevError> {
        model.set_adversary(Adversary::Own);
        let mut at = Time(0);
        if model.caps().volatile_cache {
            let done = model.execute(at, Request::flush());
            done.result?;
            at = done.at;
        }
        self.media = model.power_off(at, 0);
        Ok(self)
    }
    /// The profile with its changes.
    pub fn profile(&self) -> &str {
        &self.profile
    }
    /// The medium.
    pub fn media(&self) -> &Media {
        &self.media
    }
    /// The device, powered up.
    ///
    /// # Errors
    /// [`StateError::Profile`]: the medium cannot be used, e.g. its map is damaged.
    pub fn build(&self) -> Result<AnyModel, StateError> {
        let profile = Profile::parse(&self.profile)?;
        Ok(profile.build(None, Some(self.media.clone()))?)
    }
    /// The bytes of the file.
    ///
    /// # Errors
    /// [`StateError::TooLarge`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, StateError> {
        let mut body = Vec::new();
        let kind = match &self.media {
            Media::Plain(plain) => {
                save_plain(plain, &mut body);
                0
            }
            Media::Emmc(flash) => {
                save_flash(flash, &mut body)?;
                1
            }
            Media::Raw(flash) => {
                save_flash(flash, &mut body)?;
                2
            }
            Media::Nvme(flash) => {
                save_flash(flash, &mut body)?;
                3
            }
        };
        let mut file = vec![0; HEAD];
        file.extend_from_slice(self.profile.as_bytes());
        file.push(kind);
        put64(&mut file, body.len() as u64);
        let mut encoder = DeflateEncoder::new(file, Compression::fast());
        let packed = encoder.write_all(&body).and_then(|()| encoder.finish());
        let mut file = packed.expect("memory takes every byte");
        let payload = (file.len() - HEAD) as u64;
        let crc = crc32c(!0, &file[HEAD..]);
        file[..8].copy_from_slice(MAGIC);
        put_le32(&mut file, 8, STATE_VERSION);
        put_le64(&mut file, 16, payload);
        put_le32(&mut file, 24, crc);
        put_le32(&mut file, 28, self.profile.len() as u32);
        let crc = header_crc(&file);
        put_le32(&mut file, 12, crc);
        Ok(file)
    }
    /// Parses the bytes of a file, which may be any bytes (D1, D2).
    ///
    /// # Errors
    /// [`StateError`]: why the bytes are not a saved device.
    pub fn from_bytes(bytes: &[u8]) -> Result<SavedDevice, StateError> {
        let (mut rest, profile_len) = checked(bytes)?;
        let short = |_| damaged("its payload is too short");
        let profile = take(&mut rest, profile_len).map_err(short)?;
        let kind = take(&mut rest, 1).map_err(short)?[0];
        let size = get_le64(take(&mut rest, 8).map_err(short)?, 0);
        let profile = std::str::from_utf8(profile).map_err(|_| damaged("its profile's name"))?;
        // This comes before the body is unpacked, so that an unknown profile is reported as such.
        Profile::parse(profile)?;
        let body = unpacked(rest, size)?;
        let media = match kind {
            0 => Media::Plain(load_plain(&body)?),
            1 => Media::Emmc(load_flash(&body)?),
            2 => Media::Raw(load_flash(&body)?),
            3 => Media::Nvme(load_flash(&body)?),
            other => return Err(damaged(format!("kind of medium {other}"))),
        };
        SavedDevice::new(profile, media)
    }
}

/// Payload, and length of the profile's text in it, of a file whose header and checksums are valid.
fn checked(bytes: &[u8]) -> Result<(&[u8], usize), StateError> {
    let known = bytes.len().min(MAGIC.len());
    if known == 0 || bytes[..known] != MAGIC[..known] {
        return Err(StateError::Foreign);
    }
    let found = bytes.len() as u64;
    if bytes.len() < HEAD {
        let whole = HEAD as u64;
        return Err(StateError::Truncated { found, whole });
    }
    // Another version may have another header.
    let version = get_le32(bytes, 8);
    if version != STATE_VERSION {
        return Err(StateError::Version { found: version });
    }
    if header_crc(bytes) != get_le32(bytes, 12) {
        return Err(damaged("the checksum of its header does not fit"));
    }
    let (head, payload) = bytes.split_at(HEAD);
    let len = get_le64(head, 16);
    let whole = len.saturating_add(HEAD as u64);
    if found < whole {
        return Err(StateError::Truncated { found, whole });
    }
    if found > whole {
        return Err(damaged(format!("{} bytes behind its end", found - whole)));
    }
    if crc32c(!0, payload) != get_le32(head, 24) {
        return Err(damaged("the checksum of its content does not fit"));
    }
    let profile_len = get_le32(head, 28) as usize;
    if profile_len > PROFILE_MAX {
        return Err(damaged(format!("a profile's text of {profile_len} bytes")));
    }
    Ok((payload, profile_len))
}

/// CRC32C of the header without the field that holds it.
fn header_crc(file: &[u8]) -> u32 {
    crc32c(crc32c(!0, &file[..12]), &file[16..HEAD])
}

/// Inflates `packed` to exactly `size` bytes.
fn unpacked(packed: &[u8], size: u64) -> Result<Vec<u8>, StateError> {
    if size / INFLATE_MOST > packed.len() as u64 {
        return Err(damaged(format!("{size} bytes out of {}", packed.len())));
    }
    let mut body = Vec::new();
    let mut decoder = DeflateDecoder::new(packed).take(size + 1);
    let read = decoder.read_to_end(&mut body);
    if read.is_err() || body.len() as u64 != size {
        return Err(damaged("its body does not unpack"));
    }
    Ok(body)
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Takes the next `len` bytes off `from`; `Err(())`: there are fewer.
fn take<'a>(from: &mut &'a [u8], len: usize) -> Result<&'a [u8], ()> {
    let (head, rest) = from.split_at_checked(len).ok_or(())?;
    *from = rest;
    Ok(head)
}

fn damaged(why: impl Into<String>) -> StateError {
    StateError::Damaged(why.into())
}

/// Writes number and content of 4 KiB blocks, with `u64::MAX` behind the last.
fn save_blocks<'a>(blocks: impl Iterator<Item = (u64, &'a Bytes)>, out: &mut Vec<u8>) {
    for (number, bytes) in blocks {
        put64(out, number);
        out.extend_from_slice(bytes);
    }
    put64(out, u64::MAX);
}

fn load_blocks(mut from: &[u8], below: u64) -> Result<Vec<(u64, Bytes)>, StateError> {
    let mut blocks = Vec::new();
    let cut = |()| damaged("it ends inside a block");
    loop {
        let number = get_le64(take(&mut from, 8).map_err(cut)?, 0);
        match number {
            u64::MAX if from.is_empty() => return Ok(blocks),
            _ if number >= below => return Err(damaged(format!("block {number} of {below}"))),
            _ => {
                let bytes = take(&mut from, BLOCK_BYTES).map_err(cut)?;
                let bytes = match fill::uniform(bytes) {
                    Some(byte) => fill::filled(byte, BLOCK_BYTES),
                    None => Bytes::copy_from_slice(bytes),
                };
                blocks.push((number, bytes));
            }
        }
    }
}

fn save_plain(plain: &PlainMedia, out: &mut Vec<u8>) {
    put64(out, plain.blocks.len() as u64);
    let blocks = plain.blocks.iter_present();
    let blocks = blocks.filter(|(_, bytes)| fill::uniform(bytes) != Some(0));
    save_blocks(blocks.map(|(n, bytes)| (n as u64, bytes)), out);
}

fn load_plain(body: &[u8]) -> Result<PlainMedia, StateError> {
    let mut from = body;
    let len = take(&mut from, 8).map_err(|()| damaged("it has no size"))?;
    let len = get_le64(len, 0);
    if len == 0 || len > PLAIN_BLOCKS_MAX {
        return Err(damaged(format!("{len} blocks")));
    }
    let mut blocks = CowVec::new(len as usize, fill::zeros(BLOCK_BYTES));
    for (number, bytes) in load_blocks(from, len)? {
        blocks.set(number as usize, bytes);
    }
    Ok(PlainMedia { blocks })
}

fn save_flash(flash: &FlashMedia, out: &mut Vec<u8>) -> Result<(), StateError> {
    put64(out, flash.units);
    flash.nand.save(out).map_err(StateError::TooLarge)?;
    save_blocks(flash.patch.iter().map(|(n, bytes)| (*n, bytes)), out);
    Ok(())
}

fn load_flash(body: &[u8]) -> Result<FlashMedia, StateError> {
    let mut from = body;
    let units = take(&mut from, 8).map_err(|()| damaged("it has no size"))?;
    let units = get_le64(units, 0);
    let (nand, rest) = nand::Media::load(from).map_err(damaged)?;
    let g = nand.geometry();
    let raw = u64::from(g.blocks()) * u64::from(g.pages_per_block) * u64::from(g.page_bytes);
    if units == 0 || units > raw / BLOCK_BYTES as u64 {
        return Err(damaged(format!("{units} units on chips of {raw} bytes")));
    }
    let patch = load_blocks(rest, units)?;
    Ok(FlashMedia { nand, units, patch })
}
