//! Mount options of the front door, and those of `mount(8)`; all others are left to the file
//! system.

use base::size::Bare;
use std::fmt;
use std::time::Duration;
use vfs::AccessTimes;
use vfs::options::{number, one_of, size};

/// Largest request that the kernel sends, bytes (`fs.fuse.max_pages_limit` of 256 pages).
const MAX_WRITE_BYTES: u32 = 1 << 20;
/// Two of the largest requests: one is answered while the other is under way.
const READ_AHEAD_BYTES: u32 = 2 << 20;
/// The most that can be asked for, bytes.
const READ_AHEAD_MAX: u64 = 16 << 20;
/// A worker that waits for an fsync is lost for others, so there are many.
const THREADS: usize = 16;

/// Entries of each queue of a ring: as many requests of one processor are under way at a time.
const QUEUE_DEPTH: usize = 8;
/// Most entries of a queue that can be asked for.
const QUEUE_DEPTH_MAX: usize = 64;

/// How requests of the kernel come here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// Over io_uring where the kernel offers it, else through `/dev/fuse`.
    Auto,
    /// Over io_uring, or there is no mount.
    Uring,
    /// Through `/dev/fuse`.
    #[default]
    Device,
}

/// The users that may use the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// The user who mounted it.
    #[default]
    Owner,
    /// The user who mounted it and the superuser (`allow_root`).
    Root,
    /// Every user, as far as permissions go (`allow_other`).
    All,
}

/// How to mount. Permissions are always checked by the kernel (`default_permissions`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The users that may use the mount.
    pub access: Access,
    /// Nothing is changed.
    pub read_only: bool,
    /// Device files work (`dev`); `None`: as far as the mounting user may allow it.
    pub devices: Option<bool>,
    /// Set-user-ID works (`suid`); `None`: as far as the mounting user may allow it.
    pub set_ids: Option<bool>,
    /// Programs can be run (`exec`).
    pub executables: bool,
    /// Every write waits for its sync (`sync`).
    pub sync: bool,
    /// Every change of a directory waits for its sync (`dirsync`).
    pub dir_sync: bool,
    /// The word for access times: `relatime`, `strictatime` or `noatime`.
    pub access_times: Option<&'static str>,
    /// The kernel gathers writes in its own cache (`writeback`).
    pub writeback: bool,
    /// The kernel keeps pages of files that it has read. Not where something else than this mount
    /// changes them; then shared mappings are refused (by Linux before 6.6, and by all of them for
    /// writing).
    pub cached: bool,
    /// Bytes of the largest write request (`max_write=`).
    pub max_write: u32,
    /// How far the kernel reads ahead, bytes (`readahead=`; a bare number is KiB). Only mounts of
    /// the superuser get more than 128 KiB.
    pub read_ahead: u32,
    /// Requests that are worked on at the same time (`threads=`).
    pub threads: usize,
    /// How requests come here (`transport=`).
    pub transport: Transport,
    /// Requests of one processor that are worked on at the same time over io_uring
    /// (`queue_depth=`).
    pub queue_depth: usize,
    /// How long the kernel may answer `stat` by itself (`attr_timeout=`).
    pub attr_timeout: Duration,
    /// Programs see extended attributes and ACLs. Without them (`noxattr`) the kernel does not ask
    /// for `security.capability` before writes.
    pub xattrs: bool,
    /// `errors=`, which each file system understands in its own way.
    pub errors: Option<String>,
    /// All other options, for the device and the file system.
    pub rest: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            access: Access::default(),
            read_only: false,
            devices: None,
            set_ids: None,
            executables: true,
            sync: false,
            dir_sync: false,
            access_times: None,
            writeback: false,
            cached: true,
            max_write: MAX_WRITE_BYTES,
            read_ahead: READ_AHEAD_BYTES,
            threads: THREADS,
            transport: Transport::default(),
            queue_depth: QUEUE_DEPTH,
            attr_timeout: Duration::from_secs(1),
            xattrs: true,
            errors: None,
            rest: Vec::new(),
        }
    }
}

/// An option whose value is not allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongValue {
    item: String,
    /// What is.
    allowed: String,
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongValue { item, allowed } = self;
        write!(f, "mount option `{item}`: {allowed}")
    }
}

/// Bits of the answer to an open (`include/uapi/linux/fuse.h`): reads and writes pass the kernel's
/// pages, or it keeps those that it has.
const OPEN_DIRECT_IO: u32 = 1 << 0;
const OPEN_KEEP_CACHE: u32 = 1 << 1;

impl Options {
    /// What the kernel is told about its pages when it opens a file. It keeps them where reading
    /// that does not come here is no harm: no access time is due (`settled`).
    pub(crate) fn open_flags(&self, settled: bool) -> u32 {
        match (self.cached, settled) {
            (false, _) => OPEN_DIRECT_IO,
            (true, true) => OPEN_KEEP_CACHE,
            (true, false) => 0,
        }
    }

    /// Reads `key=value,...`, as `-o` takes it. Words that only `mount(8)` and the table of mounts
    /// have a use for mean nothing here.
    ///
    /// # Errors
    /// An option with an invalid value, by name.
    pub fn parse(text: &str) -> Result<Options, WrongValue> {
        let mut options = Options::default();
        for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            if !options.set_flag(item) && !options.set_value(item)? {
                options.rest.push(item.to_string());
            }
        }
        Ok(options)
    }

    /// These options, followed by others, which win.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn with(&self, text: &str) -> Result<Options, WrongValue> {
        let mut options = self.clone();
        let there = |rest: &[String], item: &str| rest.iter().position(|old| key(old) == key(item));
        for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            if options.set_flag(item) || options.set_value(item)? {
                continue;
            }
            match there(&options.rest, item) {
                Some(at) => options.rest[at] = item.to_string(),
                None => options.rest.push(item.to_string()),
            }
        }
        Ok(options)
    }

    /// The names of options that differ here and that the kernel can be told only once, at the
    /// mount.
    pub fn fixed_difference(&self, other: &Options) -> Option<&'static str> {
        let pairs = [
            ("who may use the mount", self.access == other.access),
            ("`writeback`", self.writeback == other.writeback),
            ("`max_write=`", self.max_write == other.max_write),
            ("`readahead=`", self.read_ahead == other.read_ahead),
            ("`threads=`", self.threads == other.threads),
            ("`transport=`", self.transport == other.transport),
            ("`queue_depth=`", self.queue_depth == other.queue_depth),
            ("`attr_timeout=`", self.attr_timeout == other.attr_timeout),
            ("`noxattr`", self.xattrs == other.xattrs),
            ("`errors=`", self.errors == other.errors),
        ];
        pairs
            .into_iter()
            .find(|(_, same)| !same)
            .map(|(what, _)| what)
    }

    fn set_flag(&mut self, item: &str) -> bool {
        match item {
            "allow_other" => self.access = Access::All,
            "allow_root" => self.access = Access::Root,
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "dev" => self.devices = Some(true),
            "nodev" => self.devices = Some(false),
            "suid" => self.set_ids = Some(true),
            "nosuid" => self.set_ids = Some(false),
            "exec" => self.executables = true,
            "noexec" => self.executables = false,
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "dirsync" => self.dir_sync = true,
            "writeback" => self.writeback = true,
            "nowriteback" => self.writeback = false,
            "xattr" => self.xattrs = true,
            "noxattr" => self.xattrs = false,
            "relatime" | "atime" | "nostrictatime" => self.set_atime("relatime"),
            "strictatime" | "norelatime" => self.set_atime("strictatime"),
            "noatime" => self.set_atime("noatime"),
            // An image is opened as it is; the kernel's permission checks are always on;
            // directories have the access times of files. ACLs and the name space `user.` of
            // attributes are always there.
            "acl" | "user_xattr" => {}
            "default_permissions" | "loop" | "diratime" | "nodiratime" => {}
            "defaults" | "auto" | "noauto" | "user" | "users" | "nouser" | "owner" | "group"
            | "nofail" | "_netdev" | "silent" | "loud" | "mand" | "nomand" | "lazytime"
            | "nolazytime" => {}
            _ => return false,
        }
        true
    }

    fn set_atime(&mut self, word: &'static str) {
        self.access_times = Some(word);
    }

    /// When reading changes an access time.
    pub fn access_times_kept(&self) -> AccessTimes {
        match self.access_times {
            Some("noatime") => AccessTimes::Never,
            Some("strictatime") => AccessTimes::Strict,
            _ => AccessTimes::Relative,
        }
    }

    fn set_value(&mut self, item: &str) -> Result<bool, WrongValue> {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let bad = |allowed| WrongValue {
            item: item.to_string(),
            allowed,
        };
        match key {
            "max_write" => {
                let range = 4096..=u64::from(MAX_WRITE_BYTES);
                let bytes = size(value, Bare::Bytes, range).map_err(bad)?;
                self.max_write = bytes as u32;
            }
            "transport" => {
                self.transport = match value {
                    "auto" => Transport::Auto,
                    "uring" => Transport::Uring,
                    "dev" => Transport::Device,
                    _ => return Err(bad(one_of(&["auto", "uring", "dev"]))),
                };
            }
            "queue_depth" => {
                self.queue_depth = number(value, 2..=QUEUE_DEPTH_MAX).map_err(bad)?;
            }
            "readahead" => {
                let bytes = size(value, Bare::Kib, 0..=READ_AHEAD_MAX).map_err(bad)?;
                self.read_ahead = bytes as u32;
            }
            "threads" => self.threads = number(value, 1..=256).map_err(bad)?,
            "attr_timeout" => {
                let secs = number(value, 0..=86_400).map_err(bad)?;
                self.attr_timeout = Duration::from_secs(secs);
            }
            "errors" => self.errors = Some(value.to_string()),
            "fsname" | "subtype" | "comment" | "uhelper" | "helper" | "user" => {}
            // The table of mounts names them, from where mount(8) takes the options of a remount.
            "user_id" | "group_id" | "rootmode" | "fd" | "max_read" | "blksize" => {}
            _ if key.starts_with("x-") || key.starts_with("X-") => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn key(item: &str) -> &str {
    item.split_once('=').map_or(item, |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_here_or_left_to_the_file_system() {
        let text = "rw,allow_other,noatime,scheme=emmc,commit=30,max_write=131072,x-systemd.automount,threads=4,readahead=64";
        let options = Options::parse(text).expect("valid");
        assert_eq!(options.rest, ["scheme=emmc", "commit=30"]);
        assert_eq!(
            (options.access, options.max_write, options.threads),
            (Access::All, 131_072, 4)
        );
        assert_eq!(options.read_ahead, 65_536);
        assert_eq!(options.access_times, Some("noatime"));
        assert_eq!(options.access_times_kept(), AccessTimes::Never);
        assert!(!options.read_only);
        let of_ring = Options::parse("transport=uring,queue_depth=4").expect("valid");
        assert_eq!(
            (of_ring.transport, of_ring.queue_depth),
            (Transport::Uring, 4)
        );
        let differs = |text| of_ring.fixed_difference(&Options::parse(text).expect("valid"));
        assert_eq!(differs("queue_depth=4"), Some("`transport=`"));
        assert_eq!(differs("transport=uring"), Some("`queue_depth=`"));
        assert_eq!(
            of_ring.fixed_difference(&Options {
                xattrs: false,
                ..of_ring.clone()
            }),
            Some("`noxattr`")
        );
        assert_eq!(Options::parse("").expect("valid"), Options::default());
        let sized = Options::parse("max_write=128k,readahead=64k").expect("valid");
        assert_eq!((sized.max_write, sized.read_ahead), (131_072, 65_536));
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_name() {
        for bad in [
            "threads=0",
            "max_write=2M",
            "max_write=1k",
            "attr_timeout=-1",
            "threads",
            "readahead=x",
            "readahead=17M",
            "transport=tcp",
            "queue_depth=1",
            "queue_depth=65",
        ] {
            let text = Options::parse(bad).expect_err(bad).to_string();
            let named = text.contains(&format!("`{bad}`: it may be "));
            assert!(named, "{text}");
        }
    }
}
