//! Mount options: typed, and as `key=value,...`.

use base::Nanos;
use base::size::Bare;
use fscore::shell::options::{
    Common, bad_value, id, items, number, one_of, size, split, switch, unknown, word,
};
use fscore::{AccessTimes, Errors, FsError, FsResult};
use journal::{Choices, Preset, Scheme};
use std::ops::RangeInclusive;

base::words! {
    /// How file data relates to the journal.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum DataMode: "data mode" {
        /// Data reaches its home before the transaction that maps it commits.
        #[default]
        Ordered => "ordered",
        /// No order between data and metadata.
        Writeback => "writeback",
        /// Data goes through the journal.
        Journal => "journal",
    }
}

/// What the superblock's `s_errors` stands for (1, 2, 3).
pub(crate) fn errors_of_superblock(code: u16) -> Errors {
    match code {
        2 => Errors::RemountRo,
        3 => Errors::Panic,
        _ => Errors::Continue,
    }
}

/// How to mount.
#[derive(Clone, PartialEq, Debug)]
pub struct MountOptions {
    /// Journaling scheme; `None`: no journal.
    pub scheme: Option<Scheme>,
    /// Data mode.
    pub data: DataMode,
    /// An fsync that needs a commit logs its dirty data with the commit if the data is at most this
    /// many bytes (`file/small.rs`); 0: never.
    pub small_bytes: u32,
    /// A task that waits for a commit runs the commit itself, in its own thread.
    pub commit_by_caller: bool,
    /// Commit timer; `None`: off.
    pub commit_interval: Option<Nanos>,
    /// Age at which committed metadata is written home by itself; `None`: only when the log fills.
    pub writeback_expire: Option<Nanos>,
    /// How often write-back looks for such metadata (Linux `dirty_writeback_centisecs`); `None`: at
    /// the moment at which some is old enough.
    pub writeback_interval: Option<Nanos>,
    /// Refuse every change; a journal that needs recovery is still recovered.
    pub read_only: bool,
    /// Leave a journal that needs recovery as it is, unread, and show the volume without what the
    /// journal holds (`noload`, `norecovery`). Implies read-only.
    pub no_recovery: bool,
    /// Discard freed extents, once their transaction is committed.
    pub discard: bool,
    /// What the mount does about damage; `None`: as the superblock says.
    pub errors: Option<Errors>,
    /// Access times.
    pub atime: AccessTimes,
    /// Bound of the page cache, and of the metadata blocks in memory that nobody changed; bytes.
    pub cache_bytes: usize,
    /// User who may use the blocks held back for the superuser (`resuid=`); `None`: as the
    /// superblock says (`s_def_resuid`).
    pub reserve_uid: Option<u32>,
    /// Group whose members may use the blocks held back, unless it is 0 (`resgid=`); `None`: as the
    /// superblock says (`s_def_resgid`).
    pub reserve_gid: Option<u32>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            scheme: Preset::Jbd2.scheme(),
            data: DataMode::Ordered,
            small_bytes: 0,
            commit_by_caller: false,
            commit_interval: Some(Nanos::from_secs(5)),
            writeback_expire: Some(Nanos::from_secs(30)),
            writeback_interval: None,
            read_only: false,
            no_recovery: false,
            discard: false,
            errors: None,
            atime: AccessTimes::Relative,
            cache_bytes: 64 << 20,
            reserve_uid: None,
            reserve_gid: None,
        }
    }
}

/// Data that an fsync may log with its commit, bytes.
const SMALL_BYTES: RangeInclusive<u64> = 0..=64 << 10;

const KEYS: &str = "data=ordered|writeback|journal, small=SIZE (0 to 64k; a bare number is KiB), commit-by=caller|task, commit=SECONDS, ro, rw, norecovery, discard, nodiscard, relatime, strictatime, noatime, \
                    errors=continue|remount-ro|panic, \
                    cache=SIZE (a bare number is MiB), resuid=UID, resgid=GID";

impl MountOptions {
    /// Reads `key=value,...`; an empty text gives the defaults. `commit=0` means the default of 5
    /// seconds, as in the kernel. The scheme is a preset, single choices, or both ([`Choices`]).
    ///
    /// # Errors
    /// `Options`, naming the key or value and the choices that exist.
    pub fn parse(text: &str) -> FsResult<MountOptions> {
        let mut options = MountOptions::default();
        let mut scheme = Choices::default();
        for item in items(text) {
            let (key, value) = split(item);
            if scheme.set(key, value).map_err(|e| bad_value(item, e))? {
                continue;
            }
            if !options.set(key, value).map_err(|e| bad_value(item, e))? {
                return Err(no_such(item));
            }
        }
        if options.no_recovery && !options.read_only {
            return Err(FsError::options(
                "mount option `norecovery` needs `ro`: nothing may be changed on what a log would replace",
            ));
        }
        let refused = |e| FsError::options(format!("mount options `{text}`: {e}"));
        options.scheme = scheme.scheme().map_err(refused)?;
        if let Some(scheme) = &options.scheme {
            // Also where nothing is mounted for writing: recovery would make the mistake as well.
            scheme.check_bug().map_err(FsError::options)?;
        }
        Ok(options)
    }

    /// Sets one; false if there is no such option.
    ///
    /// # Errors
    /// What is allowed as its value, if that is not.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "data" => self.data = word(value)?,
            "small" => self.small_bytes = size(value, Bare::Kib, SMALL_BYTES)? as u32,
            "commit-by" => {
                self.commit_by_caller = match value {
                    "caller" => true,
                    "task" => false,
                    _ => return Err(one_of(&["caller", "task"])),
                }
            }
            "commit" => self.commit_interval = Some(commit(value)?),
            "noload" | "norecovery" => {
                switch(value)?;
                self.no_recovery = true;
            }
            // Options that name what this file system always does.
            "barrier" if ["", "1"].contains(&value) => {}
            "barrier" => return Err(one_of(&["1"])),
            "block_validity" | "delalloc" | "init_itable" => switch(value)?,
            "errors" => self.errors = Some(word(value)?),
            "resuid" => self.reserve_uid = Some(id(value)?),
            "resgid" => self.reserve_gid = Some(id(value)?),
            _ => {
                let common = Common {
                    read_only: &mut self.read_only,
                    discard: &mut self.discard,
                    atime: &mut self.atime,
                    cache_bytes: &mut self.cache_bytes,
                };
                return common.set(key, value);
            }
        }
        Ok(true)
    }
}

/// 0 stands for the default.
fn commit(value: &str) -> Result<Nanos, String> {
    Ok(match number(value, 0..=1_u64 << 30)? {
        0 => Nanos::from_secs(5),
        seconds => Nanos::from_secs(seconds),
    })
}

fn no_such(item: &str) -> FsError {
    unknown(item, format_args!("{}, {KEYS}", Choices::SYNTAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused_by_name() {
        let o = MountOptions::parse("data=journal, commit=600,ro,cache=16").expect("valid");
        assert_eq!(
            (o.data, o.commit_interval, o.read_only, o.cache_bytes),
            (
                DataMode::Journal,
                Some(Nanos::from_secs(600)),
                true,
                16 << 20
            )
        );
        assert_eq!(
            MountOptions::parse("").expect("valid"),
            MountOptions::default()
        );
        let o = MountOptions::parse("small=64,commit-by=caller").expect("valid");
        assert_eq!((o.small_bytes, o.commit_by_caller), (65536, true));
        let o = MountOptions::parse("resuid=1000,resgid=4294967294").expect("valid");
        let reserve = (o.reserve_uid, o.reserve_gid);
        assert_eq!(reserve, (Some(1000), Some(4_294_967_294)));
        for (bad, allowed) in [
            ("resuid=nobody", "a whole number from 0 to 4294967294"),
            ("resgid=", "a whole number from 0 to 4294967294"),
            ("resuid=4294967295", "a whole number from 0 to 4294967294"),
            ("data=jounral", "ordered, writeback or journal"),
            ("small=65", "from 0 to 64k"),
            ("small=65k", "from 0 to 64k"),
            ("commit-by=me", "caller or task"),
            ("commit=x", "a whole number from 0 to 1073741824"),
            ("ro=1", "takes no value"),
            ("barrier=0", "it may be 1"),
            ("cache=0", "from 1M to 64G"),
            ("errors=ignore", "continue, remount-ro or panic"),
            ("comit=5", "is unknown; there are: scheme=jbd2|"),
        ] {
            let e = MountOptions::parse(bad).expect_err(bad).to_string();
            assert!(
                e.contains(&format!("`{bad}`")) && e.contains(allowed),
                "{e}"
            );
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        for (text, same) in [("cache=16M", "cache=16"), ("small=64k", "small=64")] {
            let (a, b) = (MountOptions::parse(text), MountOptions::parse(same));
            assert_eq!(a.expect("valid"), b.expect("valid"), "{text}");
        }
    }

    /// Tables and `--schemes` call it by one word with `+`.
    #[test]
    fn a_scheme_has_one_name_everywhere() {
        let scheme = |text: &str| MountOptions::parse(text).map(|options| options.scheme);
        let whole = scheme("scheme=fast-commit+adaptive,small=64").expect("valid");
        assert_eq!(
            whole,
            scheme("scheme=fast-commit,order=adaptive").expect("valid")
        );
        let later = scheme("scheme=emmc+home=copy,home=copy-reliable").expect("valid");
        assert_eq!(
            later,
            scheme("scheme=emmc,home=copy-reliable").expect("valid")
        );
        let why = scheme("scheme=emmc+adaptiv,small=64").expect_err("a wrong word");
        let why = why.to_string();
        assert!(why.contains("adaptiv") && !why.contains("small"), "{why}");
    }

    #[test]
    fn the_scheme_is_a_preset_or_single_choices() {
        for (text, preset) in [
            ("scheme=emmc", Preset::Emmc),
            ("scheme=none,ro", Preset::None),
            (
                "record=coalition,ro,order=flush-ahead,home=copy-reliable",
                Preset::Emmc,
            ),
            ("order=flush-end,scheme=emmc", Preset::Coalition),
            ("home=remap", Preset::Jftl),
            ("scheme=jftl,home=remap-move", Preset::JftlPaper),
        ] {
            let scheme = MountOptions::parse(text).expect(text).scheme;
            assert_eq!(scheme, preset.scheme(), "{text}");
        }
        for (bad, words) in [
            ("scheme=jtfl", "coalition-paper"),
            ("order=last", "flush-end, flush-ahead"),
            ("record=coalition,home=remap", "whole block"),
            ("home=remapped", "copy-reliable, remap"),
        ] {
            let e = MountOptions::parse(bad).expect_err(bad).to_string();
            assert!(e.contains(bad) && e.contains(words), "{e}");
        }
    }

    /// Also read-only, because recovery makes the mistake as well.
    #[test]
    fn a_mistake_on_purpose_is_for_simulations() {
        for text in [
            "scheme=fast-commit+bug=xattr",
            "record=fast,bug=no-clear,ro",
        ] {
            let e = MountOptions::parse(text).expect_err(text).to_string();
            assert!(e.contains("simulated devices only"), "{e}");
            let simulated = rt::Sim::new(rt::SimConfig::seeded(1))
                .run(move || MountOptions::parse(text).map(drop));
            assert!(simulated.unwrap().is_ok(), "{text}");
        }
    }
}
