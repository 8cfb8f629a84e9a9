//! Translates the options of a mount into those of the file system in the image.

use fuse::Options;
use rig::{Fs, HostFile, HostOptions, MountOptions, VolumeError};
use std::path::PathBuf;

/// The option that names the device of an external journal.
const JOURNAL: &str = "journal=";

/// What makes an fsync on a mount cheaper; simulations leave it out, so that they run what the
/// papers describe.
const OF_EXT_MOUNTS: [&str; 2] = ["small=64", "commit-by=caller"];

/// The options, with the path of an external journal made absolute, because the background process
/// works in another directory.
pub fn absolute(text: &str) -> Result<String, String> {
    let item = |item: &str| match item.strip_prefix(JOURNAL) {
        None => Ok(item.to_string()),
        Some(path) => match std::path::Path::new(path).canonicalize() {
            Ok(path) => Ok(format!("{JOURNAL}{}", path.display())),
            Err(e) => Err(format!("{path}: {e}")),
        },
    };
    let items: Result<Vec<String>, String> = text.split(',').map(item).collect();
    Ok(items?.join(","))
}

/// Removes the device of an external journal from the words, and answers it.
pub fn take_journal(words: &mut Vec<String>) -> Option<PathBuf> {
    let at = words.iter().position(|word| word.starts_with(JOURNAL))?;
    let word = words.remove(at);
    word.strip_prefix(JOURNAL).map(PathBuf::from)
}

/// How the image is opened, and the words that remain for the file system.
pub fn of_host(options: &Options) -> Result<(HostOptions, Vec<String>), String> {
    let mut host = HostOptions {
        write: !options.read_only,
        ..HostOptions::default()
    };
    let mut rest = Vec::new();
    for item in &options.rest {
        if !host.set(item)? {
            rest.push(item.clone());
        }
    }
    Ok((host, rest))
}

/// The options that a remount cannot change: how the image is opened (except whether for writing),
/// and the device of an external journal.
pub fn of_host_and_journal(options: &Options) -> Result<(HostOptions, Option<PathBuf>), String> {
    let (host, mut rest) = of_host(options)?;
    let host = HostOptions {
        write: false,
        ..host
    };
    Ok((host, take_journal(&mut rest)))
}

/// Options for the file system that `file` holds.
pub fn of_volume(
    file: &HostFile,
    options: &Options,
    rest: Vec<String>,
) -> Result<MountOptions, VolumeError> {
    let kind = rig::kind_of(file)?.ok_or(VolumeError::Unknown)?;
    Ok(MountOptions::parse(kind, &text_for(kind, options, rest))?)
}

/// The words that a file system of this kind takes.
fn text_for(kind: Fs, options: &Options, mut words: Vec<String>) -> String {
    if options.read_only {
        words.push("ro".into());
    }
    let of_ext = matches!(kind, Fs::Ext4 | Fs::Ext3);
    words.extend(options.access_times.map(String::from));
    for word in OF_EXT_MOUNTS {
        let (key, _) = word.split_once('=').unwrap_or((word, ""));
        if of_ext && !words.iter().any(|w| w.split('=').next() == Some(key)) {
            words.push(word.into());
        }
    }
    if let Some(value) = &options.errors {
        words.push(format!("errors={value}"));
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: Fs, text: &str) -> Result<String, String> {
        let options = Options::parse(text).map_err(|e| e.to_string())?;
        let (_, rest) = of_host(&options)?;
        Ok(text_for(kind, &options, rest))
    }

    #[test]
    fn each_kind_gets_its_words() {
        let text = "ro,allow_other,relatime,errors=remount-ro,commit=7,offset=4096";
        assert_eq!(
            words(Fs::Ext4, text).unwrap(),
            "commit=7,ro,relatime,small=64,commit-by=caller,errors=remount-ro"
        );
        assert_eq!(
            words(Fs::Ext3, "commit-by=task,small=0").unwrap(),
            "commit-by=task,small=0"
        );
        assert_eq!(
            words(Fs::F2fs, text).unwrap(),
            "commit=7,ro,relatime,errors=remount-ro"
        );
        let e = words(Fs::Ext3, "offset=x").unwrap_err();
        assert!(
            e.contains("`offset=x`: it may be a whole number of bytes"),
            "{e}"
        );
        let e = words(Fs::Ext3, "direct=1").unwrap_err();
        assert!(e.contains("`direct=1`: it takes no value"), "{e}");
        let (host, _) = of_host(&Options::parse("direct,offset=4k").unwrap()).unwrap();
        assert!(host.direct && host.write && host.offset == 4096);
    }
}
