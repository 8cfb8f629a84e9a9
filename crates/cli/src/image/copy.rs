//! `varve cp`: copies files out of an image, or into one.

use super::dress::Rules;
use super::extract::{Report, write_tree};
use super::{Place, at, change, look, no_image, put, tree};
use crate::args::CopyArgs;
use crate::failure::{Failure, failed, tell, usage};
use rig::{Errno, FileKind, OpenFile, OpenFlags, Volume};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that are read at once.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Runs `varve cp`.
pub fn copy(args: &CopyArgs) -> Result<(), Failure> {
    let (last, sources) = args.words.split_last().expect("clap demands two words");
    match Place::parse(last) {
        Some(target) => copy_in(sources, &target, args.recursive),
        None => copy_out(args, sources, Path::new(last)),
    }
}

/// Receives a piece of a file and its offset; answers false to stop.
pub type Sink<'a> = dyn FnMut(u64, &[u8]) -> Result<bool, Failure> + 'a;

/// Passes the content of a file to `sink`, piece by piece with its offset, until that answers
/// false.
pub fn pour(volume: &Volume, place: &Place, sink: &mut Sink<'_>) -> Result<(), Failure> {
    let file = volume
        .vfs
        .open(&place.path, OpenFlags::READ, 0)
        .map_err(at(place))?;
    let outcome = pour_open(&file, place, sink);
    file.close().map_err(at(place))?;
    outcome
}

fn pour_open(file: &OpenFile, place: &Place, sink: &mut Sink<'_>) -> Result<(), Failure> {
    if file.stat().map_err(at(place))?.kind == FileKind::Dir {
        return Err(failed(format!("{}: is a directory", place.text())));
    }
    let mut buf = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let n = file.read_at(offset, &mut buf).map_err(at(place))?;
        if n == 0 || !sink(offset, &buf[..n])? {
            return Ok(());
        }
        offset += n as u64;
    }
}

fn copy_out(args: &CopyArgs, sources: &[OsString], target: &Path) -> Result<(), Failure> {
    if sources.len() > 1 && !target.is_dir() {
        return Err(usage(format!(
            "{}: is no directory; several sources need one",
            target.display()
        )));
    }
    let rules = Rules::of(&args.keep);
    let mut report = Report::default();
    let mut outcome = Ok(());
    for word in sources {
        // As with cp, one that fails does not keep the others.
        if let Err(failure) = copy_one(word, target, args.recursive, rules, &mut report)
            && let Err(before) = std::mem::replace(&mut outcome, Err(failure))
        {
            tell(before);
        }
    }
    let ended = report.end();
    outcome.and(ended)
}

fn copy_one(
    word: &OsStr,
    target: &Path,
    recursive: bool,
    rules: Rules,
    report: &mut Report,
) -> Result<(), Failure> {
    let place = Place::parse(word).ok_or_else(|| no_image(word))?;
    let volume = look(&place.image)?;
    let attr = volume.vfs.lstat(&place.path).map_err(at(&place))?;
    if attr.kind == FileKind::Dir && !recursive {
        return Err(usage(format!("{}: is a directory; say -r", place.text())));
    }
    let name = tree::name_of(&place.path);
    if name == b"." || name == b".." {
        return Err(usage(format!(
            "{}: ends in no name that a copy could have; write the path without dots",
            place.text()
        )));
    }
    let to = match target.is_dir() {
        true => target.join(OsStr::from_bytes(name)),
        false => target.to_path_buf(),
    };
    write_tree(&volume, &place, &to, rules, report)
}

fn copy_in(sources: &[OsString], target: &Place, recursive: bool) -> Result<(), Failure> {
    for word in sources {
        if Place::parse(word).is_some() {
            return Err(usage("from one image to another: copy to the host first"));
        }
    }
    // Before the image is touched.
    for word in sources {
        put::examine(Path::new(word), recursive)?;
    }
    let volume = change(&target.image)?;
    let into_dir = match volume.vfs.stat(&target.path) {
        Ok(attr) => attr.kind == FileKind::Dir,
        Err(e) if e.errno() == Errno::NoEnt => false,
        Err(e) => return Err(at(target)(e)),
    };
    if sources.len() > 1 && !into_dir {
        return Err(usage(format!(
            "{}: is no directory; several sources need one",
            target.text()
        )));
    }
    let mut putter = put::Putter::new(&volume.vfs, target.image.display().to_string());
    let copied = sources.iter().try_for_each(|word| {
        let source = Path::new(word);
        let path = match (into_dir, source.file_name()) {
            (true, Some(name)) => tree::join(&target.path, name.as_bytes()),
            _ => target.path.clone(),
        };
        putter.put(source, &path)
    });
    putter.tell();
    // What was copied before a failure stays: close in both cases.
    let closed = volume
        .close()
        .map_err(|e| failed(format!("{}: {e}", target.image.display())));
    copied.and(closed)
}
