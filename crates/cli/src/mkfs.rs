//! `varve mkfs`: makes a new file system in an image file.

use crate::args::MkfsArgs;
use crate::failure::{Failure, failed, usage};
use crate::fsck::open;
use crate::out::{self, say, say_json};
use crate::size;
use rig::mkfs::{
    F2fsJournal, F2fsMade, F2fsOptions, FastCommitArea, JournalSize, Kind, LogDevice, MakeError,
    MkfsOptions, make, make_f2fs,
};
use rig::{Fs, HostFile, HostOptions};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file with something here holds a file system, a partition table or other data.
const HEAD_BYTES: usize = 128 << 10;
/// Where sizes of devices are whole.
const PAGE_BYTES: u64 = 4096;
/// Blocks of a cluster where only `-O bigalloc` asks for clusters, as of mke2fs.
const CLUSTER_BLOCKS: u32 = 16;
/// Time of creation with `--seed`: the start of 2024.
const SEEDED_SECS: i64 = 1_704_067_200;

/// Runs `varve mkfs`.
pub fn mkfs(args: &MkfsArgs) -> Result<(), Failure> {
    let fs: Fs = args.fs.parse().map_err(usage)?;
    let name = args.image.display();
    // Before a file is made or touched.
    // The end of a device need not be a whole page.
    let as_it_is = || match args.image.is_file() {
        true => bytes_of(&args.image),
        false => bytes_of(&args.image).map(|bytes| bytes / PAGE_BYTES * PAGE_BYTES),
    };
    let size = args.size.or_else(as_it_is);
    let size = size.ok_or_else(|| usage(format!("{name}: no such file; say --size SIZE")))?;
    if size % PAGE_BYTES != 0 {
        let what = format!("{name}: {size} bytes are not a multiple of {PAGE_BYTES}; say --size");
        return Err(usage(what));
    }
    if fs == Fs::F2fs {
        return f2fs(args, size);
    }
    if args.journal_size.is_some() {
        return Err(usage(format!(
            "-J makes room for the journal of an F2FS (--fs f2fs); of {fs}: --journal SIZE"
        )));
    }
    let mut chosen = options(args, fs, size)?;
    let log = log_device(args, &chosen)?;
    if let Some((_, log)) = &log {
        chosen.journal = JournalSize::External(log.uuid);
    }
    rig::mkfs::Geometry::new(&chosen).map_err(usage)?;
    if let Some((path, log)) = &log {
        let of_log = |e: MakeError| failed(format!("{}: {e}", path.display()));
        log.plan().map_err(|e| of_log(e.into()))?;
    }
    let (file, zeros) = file(&args.image, args.force, size)?;
    if let Some((path, log)) = &log {
        let (beside, zeros) = self::file(path, args.force, log.size_bytes)?;
        let made = rig::mkfs::make_log(&beside, log, zeros);
        made.map_err(|e| failed(format!("{}: {e}", path.display())))?;
    }
    let made = make(&file, &chosen, zeros).map_err(|e| match e {
        MakeError::Options(why) => usage(why),
        other => failed(format!("{name}: {other}")),
    })?;
    if args.json {
        return say_json(&json!({
            "image": out::path(&args.image), "fs": fs.to_string(),
            "blocks": made.blocks, "block_bytes": made.block_bytes, "inodes": made.inodes(),
            "journal_blocks": log.as_ref().map_or(u64::from(made.journal_blocks), |(_, log)| log.blocks()),
            "fast_commit_blocks": made.fast_commit_blocks,
            "journal_device": log.as_ref().map(|(path, _)| out::path(path)),
        }));
    }
    let journal = match made.journal_blocks {
        0 if log.is_some() => {
            let (path, log) = log.as_ref().expect("invariant: asked above");
            format!("a journal of {} blocks on {}", log.blocks(), path.display())
        }
        0 => "no journal".into(),
        blocks => match made.fast_commit_blocks {
            0 => format!("a journal of {blocks} blocks"),
            area => format!("a journal of {blocks} blocks, {area} of them for fast commits"),
        },
    };
    let clusters = match made.cluster_blocks {
        1 => String::new(),
        blocks => format!(" in clusters of {}", blocks * made.block_bytes),
    };
    say(&format!(
        "{name}: {fs}, {} blocks of {} bytes{clusters}, {} inodes, {journal}\n",
        made.blocks,
        made.block_bytes,
        made.inodes()
    ))
}

/// The external journal that `--journal-device` asks for, with a UUID that the volume's leads to or
/// that is as random.
fn log_device<'a>(
    args: &'a MkfsArgs,
    volume: &MkfsOptions,
) -> Result<Option<(&'a Path, LogDevice)>, Failure> {
    let Some(path) = &args.journal_device else {
        return Ok(None);
    };
    let name = path.display();
    let asked = args.journal;
    let there = bytes_of(path).filter(|&bytes| bytes > 0);
    let size = match (there, asked) {
        (Some(bytes), None) => bytes,
        (None, Some(bytes)) => bytes,
        (Some(_), Some(_)) => {
            let why = format!("{name} has a size: leave --journal out");
            return Err(usage(why));
        }
        (None, None) => {
            let why = format!("{name}: no such file; say --journal SIZE");
            return Err(usage(why));
        }
    };
    let (uuid, _, _) = identity(args.seed.map(|seed| !seed))?;
    let device = LogDevice {
        size_bytes: size / PAGE_BYTES * PAGE_BYTES,
        block_bytes: volume.block_bytes,
        uuid,
        user: volume.uuid,
        time: volume.time,
    };
    Ok(Some((path, device)))
}

fn f2fs(args: &MkfsArgs, size: u64) -> Result<(), Failure> {
    let name = args.image.display();
    if args.journal_device.is_some() {
        return Err(usage(
            "--journal-device is for ext4 and ext3: F2FS has its journal behind it",
        ));
    }
    if args.block_size != 4096 {
        return Err(usage(format!(
            "-b {}: blocks of an F2FS have 4096 bytes",
            args.block_size
        )));
    }
    if args.blocks_per_group.is_some() {
        return Err(usage("-g is for ext4 and ext3: an F2FS has segments"));
    }
    if args.inode_size.is_some() {
        return Err(usage(
            "-I is for ext4 and ext3: an inode of F2FS is a block",
        ));
    }
    if args.cluster_size.is_some() || has(args, "bigalloc") {
        return Err(usage("clusters (-C, -O bigalloc) are for ext4"));
    }
    if has(args, "fast_commit") {
        return Err(usage("-O fast_commit is for ext4 and ext3"));
    }
    let (uuid, _, secs) = identity(args.seed)?;
    let time = rig::WallTime { secs, nanos: 0 };
    let mut options = F2fsOptions::new(size, uuid, time);
    options.label.clone_from(&args.label);
    options.casefold = folds(args);
    options.journal = f2fs_journal(args)?;
    rig::mkfs::f2fs_plan(&options).map_err(usage)?;
    let (file, zeros) = file(&args.image, args.force, size)?;
    let made = make_f2fs(&file, &options, zeros).map_err(|e| match e {
        MakeError::F2fs(why) => usage(why),
        other => failed(format!("{name}: {other}")),
    })?;
    let F2fsMade { blocks, journal } = made;
    if args.json {
        return say_json(&json!({
            "image": out::path(&args.image), "fs": "f2fs",
            "blocks": blocks, "block_bytes": 4096, "journal_blocks": journal,
        }));
    }
    let journal = match journal {
        0 => String::new(),
        blocks => format!(", a journal of {blocks} blocks behind it"),
    };
    say(&format!(
        "{name}: f2fs, {blocks} blocks of 4096 bytes{journal}\n"
    ))
}

/// The room for a journal that `-J` or `--journal` asks for; there is none by default.
fn f2fs_journal(args: &MkfsArgs) -> Result<Option<F2fsJournal>, Failure> {
    let size = match (args.journal, &args.journal_size) {
        (Some(bytes), _) => Some(F2fsJournal::Bytes(bytes)),
        (None, Some(text)) => Some(journal_size(text)?),
        (None, None) => None,
    };
    Ok(size)
}

/// `default`, or `size=` and a size.
fn journal_size(text: &str) -> Result<F2fsJournal, Failure> {
    if text == "default" {
        return Ok(F2fsJournal::Default);
    }
    let number = text.strip_prefix("size=").unwrap_or(text);
    let bytes = size::bytes(number)
        .map_err(|why| usage(format!("-J {text}: say size=SIZE, or default: {why}")))?;
    Ok(F2fsJournal::Bytes(bytes))
}

fn options(args: &MkfsArgs, fs: Fs, bytes: u64) -> Result<MkfsOptions, Failure> {
    let (uuid, hash_seed, secs) = identity(args.seed)?;
    let time = rig::WallTime { secs, nanos: 0 };
    let mut options = MkfsOptions::new(bytes, uuid, hash_seed, time);
    options.kind = match fs {
        Fs::Ext4 => Kind::Ext4,
        Fs::Ext3 => Kind::Ext3,
        Fs::F2fs => unreachable!("made by options of its own"),
    };
    options.block_bytes = args.block_size;
    options.blocks_per_group = args.blocks_per_group;
    options.inode_bytes = args.inode_size.unwrap_or(options.inode_bytes);
    if folds(args) && fs != Fs::Ext4 {
        return Err(usage("--casefold is for ext4 and F2FS"));
    }
    options.casefold = folds(args);
    options.cluster_bytes = match args.cluster_size {
        None if has(args, "bigalloc") => Some(options.block_bytes.saturating_mul(CLUSTER_BLOCKS)),
        given => given,
    };
    if has(args, "fast_commit") {
        options.fast_commits = fast_commits(args)?;
    }
    options.label.clone_from(&args.label);
    options.journal = match args.journal {
        _ if args.no_journal => JournalSize::None,
        None => JournalSize::Default,
        Some(bytes) => {
            let blocks = bytes / u64::from(args.block_size.max(1));
            JournalSize::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX))
        }
    };
    Ok(options)
}

/// True if `-O` names the feature.
fn has(args: &MkfsArgs, feature: &str) -> bool {
    args.features.iter().any(|named| named == feature)
}

/// True if names may fold.
fn folds(args: &MkfsArgs) -> bool {
    args.casefold || has(args, "casefold")
}

/// What `-O fast_commit` asks for. The area is a part of a journal inside of the volume, because no
/// scheme writes fast commits to another one.
fn fast_commits(args: &MkfsArgs) -> Result<FastCommitArea, Failure> {
    if args.no_journal {
        return Err(usage(
            "-O fast_commit wants a journal: leave --no-journal out",
        ));
    }
    if args.journal_device.is_some() {
        return Err(usage(
            "-O fast_commit wants the journal inside of the volume: fast commits are not written to a journal on a device of its own",
        ));
    }
    Ok(FastCommitArea::Feature)
}

/// UUID, hash seed and time of creation.
fn identity(seed: Option<u64>) -> Result<([u8; 16], [u8; 16], i64), Failure> {
    if let Some(seed) = seed {
        let (uuid, hash_seed) = rig::identity(seed);
        return Ok((uuid, hash_seed, SEEDED_SECS));
    }
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| failed(format!("/dev/urandom: {e}")))?;
    let (mut uuid, mut hash_seed) = ([0; 16], [0; 16]);
    uuid.copy_from_slice(&bytes[..16]);
    hash_seed.copy_from_slice(&bytes[16..]);
    for id in [&mut uuid, &mut hash_seed] {
        // RFC 9562, version 4.
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok((uuid, hash_seed, now.unwrap_or_default().as_secs() as i64))
}

/// The file, `size` bytes long, and whether it reads as zeros.
fn file(image: &Path, force: bool, size: u64) -> Result<(HostFile, bool), Failure> {
    let name = image.display();
    let host = |e: std::io::Error| failed(format!("{name}: {e}"));
    let meta = image.metadata();
    if meta.is_err() || meta.is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
        let made = HostFile::create(image, size, &HostOptions::write());
        return Ok((made.map_err(failed)?, true));
    }
    let file = open::open(image, true).map_err(failed)?;
    let mut head = vec![0; HEAD_BYTES.min(file.bytes() as usize)];
    file.read_exact_at(&mut head, 0).map_err(host)?;
    if !force && head.iter().any(|&byte| byte != 0) {
        return Err(failed(format!("{name} holds data; --force writes over it")));
    }
    Ok((file.resized(size).map_err(failed)?, false))
}

/// Bytes of an image or a block device that is there.
fn bytes_of(path: &Path) -> Option<u64> {
    let meta = path.metadata().ok()?;
    match meta.is_file() {
        true => Some(meta.len()),
        false => Some(open::open(path, false).ok()?.bytes()),
    }
}
