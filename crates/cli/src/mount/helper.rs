//! This program as a helper of `mount(8)` and `umount(8)`: called as `mount.fuse.varve`,
//! `mount.varve` or `umount.fuse.varve` it accepts the arguments that these pass.

use std::ffi::OsString;
use std::path::Path;

/// Translates the command line of a helper into one of `varve`; `None` if the program has another
/// name.
///
/// `mount.X IMAGE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`,
/// `umount.X DIR [-nlfrv] [-t TYPE]`, says mount(8).
pub fn as_helper(args: &[OsString]) -> Option<Vec<OsString>> {
    let (name, rest) = args.split_first()?;
    let name = Path::new(name).file_name()?.to_str()?;
    let word = match name.split('.').next()? {
        word @ ("mount" | "umount") if name.ends_with(".varve") => word,
        _ => return None,
    };
    let mut out: Vec<OsString> = vec!["varve".into(), word.into()];
    let mut rest = rest.iter();
    while let Some(arg) = rest.next() {
        match (arg.to_str(), word) {
            (Some("-o"), "mount") => {
                out.push(arg.clone());
                out.extend(rest.next().cloned());
            }
            (Some("-o" | "-t" | "-N"), _) => {
                rest.next();
            }
            (Some(flags), "umount") if flags.starts_with('-') && flags.contains('l') => {
                out.push("-l".into());
            }
            // Of `-f` here is "fake", which mount(8) does without a helper.
            (Some(flags), _) if flags.starts_with('-') && flags.len() > 1 => {}
            _ => out.push(arg.clone()),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(args: &[&str]) -> Option<Vec<OsString>> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        as_helper(&args)
    }

    #[test]
    fn helpers_take_the_arguments_of_mount() {
        let words = |text: &str| Some(text.split(' ').map(OsString::from).collect::<Vec<_>>());
        let line = [
            "/sbin/mount.fuse.varve",
            "a.img",
            "/mnt",
            "-s",
            "-o",
            "rw,commit=7",
            "-t",
            "fuse.varve",
        ];
        assert_eq!(means(&line), words("varve mount a.img /mnt -o rw,commit=7"));
        let line = ["/sbin/umount.fuse.varve", "/mnt", "-nl", "-t", "fuse.varve"];
        assert_eq!(means(&line), words("varve umount /mnt -l"));
        assert_eq!(means(&["/usr/bin/varve", "mount"]), None);
        assert_eq!(means(&["mount.fuse", "x"]), None);
    }
}
