//! Mount options, as values and as text (`key=value,...`, Documentation/filesystems/f2fs.rst), and
//! presets of the checkpoint policy.

use crate::file::InPlace;
use crate::journal::{Guard, Ideas, JournalOptions, Redone, Rounds};
use crate::mkfs::RING_MIN_BLOCKS;
use base::{Nanos, UnknownWord};
use fscore::shell::options::{
    Common, bad_value, id, items, number, one_of, split, switch, unknown, word,
};
use fscore::{AccessTimes, Errors, FsError, FsResult, ReserveOwner};
use std::fmt;
use std::str::FromStr;

base::words! {
    /// How much an fsync promises (`fsync_mode=`).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum FsyncMode: "fsync_mode" {
        /// As POSIX requires; after a cut, node blocks of an unacknowledged fsync may be durable in
        /// part (Linux's default).
        #[default]
        Posix => "posix",
        /// Node blocks of an fsync become durable as a whole; renames of directories force a
        /// checkpoint.
        Strict => "strict",
        /// As `posix` without device flushes: a cut may lose what was acknowledged, and leave new
        /// inodes over old data.
        NoBarrier => "nobarrier",
    }
}

base::words! {
    /// Whether a name of a directory without regard to case is searched for where its hash does not
    /// lead (`lookup_mode=`). Linux does not by default (`perf`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum LookupMode: "lookup_mode" {
        /// Unless the superblock forbids it.
        #[default]
        Auto => "auto",
        /// Never.
        Perf => "perf",
        /// Always.
        Compat => "compat",
    }
}

base::words! {
    /// Cleaning in the background (`background_gc=`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum GcPolicy: "background_gc" {
        /// When idle, with the cost-benefit policy; the next checkpoint of any cause frees the
        /// segments.
        #[default]
        On => "on",
        /// Never; in the foreground only.
        Off => "off",
        /// When idle, each time with a checkpoint.
        Sync => "sync",
    }
}

/// Thresholds that make an operation or the background write a checkpoint. Linux 5.15 values: see
/// [`Triggers::default`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Triggers {
    /// Dirty NAT entries, percent of all node numbers (10).
    pub dirty_nat_percent: u32,
    /// Upper bound of the threshold [`dirty_nat_percent`](Self::dirty_nat_percent), in entries
    /// (100,000). Linux keeps so many in memory, and only a checkpoint makes dirty ones clean.
    pub dirty_nat_max: u32,
    /// Dirty node blocks, in segments of 512 (8).
    pub dirty_node_segments: u32,
    /// Segments that a checkpoint would free: percent of the main area (5), at most
    /// [`prefree_segments_max`](Self::prefree_segments_max).
    pub prefree_percent: u32,
    /// Upper bound of the threshold [`prefree_percent`](Self::prefree_percent), in segments (4096).
    pub prefree_segments_max: u32,
    /// NAT entries in memory from which on operations look at these thresholds and the interval
    /// (100,000); with fewer of them that is left to the flusher, which looks when nodes have been
    /// dirty for [`flusher_expire`](Self::flusher_expire), and to memory that runs short.
    pub cached_nat_max: u32,
    /// How often the flusher looks (5 s, `vm.dirty_writeback_centisecs`).
    pub flusher_interval: Nanos,
    /// The age of dirty nodes at which it looks at the thresholds (30 s,
    /// `vm.dirty_expire_centisecs`).
    pub flusher_expire: Nanos,
    /// A checkpoint is due this long after the last one (60 s); `None`: never by time.
    pub interval: Option<Nanos>,
}

impl Default for Triggers {
    fn default() -> Self {
        Triggers {
            dirty_nat_percent: 10,
            dirty_nat_max: 100_000,
            dirty_node_segments: 8,
            prefree_percent: 5,
            prefree_segments_max: 4096,
            cached_nat_max: 100_000,
            flusher_interval: Nanos::from_secs(5),
            flusher_expire: Nanos::from_secs(30),
            interval: Some(Nanos::from_secs(60)),
        }
    }
}

/// When checkpoints are written, and by which task.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CheckpointPolicy {
    /// The thresholds at which checkpoints are written.
    pub triggers: Triggers,
    /// A task of its own writes a checkpoint at this interval (as the released F2FSJ prototype
    /// does). Counts then make one due only where memory or room would run out before the task
    /// comes: at the bounds at which operations wait for an apply where there is a journal.
    pub background: Option<Nanos>,
}

base::words! {
    /// A checkpoint policy, or the journal, by name.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum Preset: "scheme" {
        /// Linux's defaults: an interval of 60 s.
        #[default]
        Checkpoint60 => "checkpoint-60",
        /// An interval of 1 s.
        Checkpoint1 => "checkpoint-1",
        /// A background task writes a checkpoint every 5 s; no interval and no count does, short of
        /// what protects memory and room.
        Checkpoint5Bg => "checkpoint-5-bg",
        /// A journal makes changes durable; checkpoints only publish what it applied (F2FSJ).
        F2fsj => "f2fsj",
        /// A journal of whole pages with one list and one ticket, as JBD2 is: a baseline to measure
        /// F2FSJ by ([`Ideas::NONE`]).
        PageJournal => "page-journal",
    }
}

impl Preset {
    /// The journal that it asks for.
    pub fn journal(self) -> Option<JournalOptions> {
        match self {
            Preset::Checkpoint60 | Preset::Checkpoint1 | Preset::Checkpoint5Bg => None,
            Preset::F2fsj | Preset::PageJournal => Some(JournalOptions {
                ideas: self.ideas(),
                ..JournalOptions::default()
            }),
        }
    }
    /// Which ideas of F2FSJ the journal of this preset has; irrelevant without a journal.
    pub const fn ideas(self) -> Ideas {
        match self {
            Preset::PageJournal => Ideas::NONE,
            _ => Ideas::ALL,
        }
    }
    /// When checkpoints are written. With a journal they are never due by themselves.
    pub fn policy(self) -> CheckpointPolicy {
        let by_time = |interval| CheckpointPolicy {
            triggers: Triggers {
                interval,
                ..Triggers::default()
            },
            ..CheckpointPolicy::default()
        };
        let every = |secs| by_time(Some(Nanos::from_secs(secs)));
        let never = by_time(None);
        match self {
            Preset::Checkpoint60 => every(60),
            Preset::Checkpoint1 => every(1),
            Preset::Checkpoint5Bg => CheckpointPolicy {
                background: Some(Nanos::from_secs(5)),
                ..never
            },
            Preset::F2fsj | Preset::PageJournal => never,
        }
    }
}

fn preset(word: &str) -> FsResult<Preset> {
    word.parse().map_err(|e: UnknownWord| {
        let (given, valid) = (e.given, e.valid.join(", "));
        FsError::options(format!("scheme `{given}` of F2FS; there are: {valid}"))
    })
}

/// One candidate of a comparison: a checkpoint policy and an fsync mode, or a journal. Its text is
/// the preset, followed by what differs from the defaults: `checkpoint-60+fsync_mode=strict`,
/// `f2fsj+ring=64`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Scheme {
    /// Checkpoint policy, or the journal.
    pub preset: Preset,
    /// Mode of fsync.
    pub fsync: FsyncMode,
    /// Blocks of the journal's ring; `None`: what mkfs takes by default.
    pub ring: Option<u32>,
    /// Guard of the journal.
    pub guard: Guard,
    /// How data and transaction of an fsync become durable.
    pub rounds: Rounds,
    /// Where a mount behind a cut leaves what it has redone.
    pub redone: Redone,
    /// Which ideas of F2FSJ the journal has.
    pub ideas: Ideas,
    /// Interval between commits of the journal; `None`: the default.
    pub commit: Option<Nanos>,
}

impl Scheme {
    /// The scheme of a preset, without changes.
    pub fn of(preset: Preset) -> Scheme {
        Scheme {
            preset,
            ideas: preset.ideas(),
            ..Scheme::default()
        }
    }

    /// The journal that it asks for.
    pub fn journal(self) -> Option<JournalOptions> {
        let mut journal = self.preset.journal()?;
        (journal.guard, journal.ideas) = (self.guard, self.ideas);
        (journal.rounds, journal.redone) = (self.rounds, self.redone);
        if let Some(span) = self.commit {
            journal.commit = span;
        }
        Some(journal)
    }

    /// Something is chosen that only a journal has.
    fn has_choice_of_journal(self) -> bool {
        let ideas = self.ideas != self.preset.ideas();
        let ways = (self.guard, self.rounds, self.redone) != Default::default();
        ideas || ways || self.ring.is_some() || self.commit.is_some()
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.preset.fmt(f)?;
        if self.fsync != FsyncMode::Posix {
            write!(f, "+fsync_mode={}", self.fsync)?;
        }
        if let Some(ring) = self.ring {
            write!(f, "+ring={ring}")?;
        }
        if self.guard != Guard::default() {
            write!(f, "+guard={}", self.guard)?;
        }
        if self.rounds != Rounds::default() {
            write!(f, "+rounds={}", self.rounds)?;
        }
        if self.redone != Redone::default() {
            write!(f, "+redone={}", self.redone)?;
        }
        if let Some(span) = self.commit {
            write!(f, "+commit={}", interval_text(span))?;
        }
        self.ideas.fmt_beside(self.preset.ideas(), f)
    }
}

impl FromStr for Scheme {
    type Err = FsError;
    fn from_str(text: &str) -> FsResult<Scheme> {
        let items = || text.split('+').map(str::trim);
        let preset_of = |item: &str| match item.split_once('=') {
            None => Some(preset(item)),
            Some(("scheme", word)) => Some(preset(word)),
            Some(_) => None,
        };
        // What is chosen beside a preset counts wherever it stands.
        let preset = items().filter_map(preset_of).next_back().transpose()?;
        let mut scheme = Scheme::of(preset.unwrap_or_default());
        for item in items() {
            match item.split_once('=') {
                Some(("scheme", _)) | None => {}
                Some((key, value)) if scheme.set(key, value).map_err(|e| refused(item, e))? => {}
                Some(_) => {
                    let ideas = Ideas::KEYS;
                    return Err(FsError::options(format!(
                        "`{item}` in a scheme of F2FS; there are: a preset, fsync_mode=posix|strict|nobarrier, with f2fsj and page-journal \
                         also ring=BLOCKS, guard=ro-bit|magic|none, rounds=1|2, redone=ring|home, commit=SECONDS|MILLISECONDSms, {ideas}"
                    )));
                }
            }
        }
        scheme.check()?;
        Ok(scheme)
    }
}

fn refused(item: &str, allowed: String) -> FsError {
    FsError::options(format!("`{item}` in a scheme of F2FS: {allowed}"))
}

impl Scheme {
    /// Sets what is chosen beside the preset; false if there is no such choice.
    ///
    /// # Errors
    /// What is allowed as its value, if that is not.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "fsync_mode" => self.fsync = word(value)?,
            "ring" => self.ring = Some(ring(value)?),
            "guard" => self.guard = word(value)?,
            "rounds" => self.rounds = word(value)?,
            "redone" => self.redone = word(value)?,
            "commit" => self.commit = Some(interval(value)?),
            _ => return self.ideas.set(key, value),
        }
        Ok(true)
    }

    fn check(self) -> FsResult<()> {
        let journal = self.preset.journal().is_some();
        if journal && self.fsync != FsyncMode::Posix {
            return Err(FsError::options(format!(
                "`{self}`: with a journal an fsync is always durable as a whole; there are no modes of it to compare"
            )));
        }
        if !journal && self.has_choice_of_journal() {
            return Err(FsError::options(format!(
                "`{self}`: ring=, guard=, rounds=, redone=, commit= and what the journal has ({}) are choices of f2fsj and page-journal",
                Ideas::KEYS
            )));
        }
        Ok(())
    }
}

/// The interval between commits: seconds, or milliseconds with `ms` behind them.
///
/// # Errors
/// What is allowed, if `text` is not.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    let (number, unit, most) = match text.strip_suffix("ms") {
        Some(number) => (number, Nanos::from_millis(1), 300_000),
        None => (text, Nanos::from_secs(1), 300),
    };
    let number = number.parse().ok().filter(|n| (1..=most).contains(n));
    let span = number.map(|n: u64| Nanos(n * unit.0));
    span.ok_or_else(|| {
        "it may be a whole number of seconds from 1 to 300, or of milliseconds, as 250ms".into()
    })
}

fn interval_text(span: Nanos) -> String {
    let second = Nanos::from_secs(1).0;
    match span.0 % second {
        0 => (span.0 / second).to_string(),
        _ => format!("{}ms", span.0 / Nanos::from_millis(1).0),
    }
}

fn ring(blocks: &str) -> Result<u32, String> {
    let number = blocks.parse().ok().filter(|&n| n >= RING_MIN_BLOCKS);
    number.ok_or_else(|| format!("it may be a number of blocks, {RING_MIN_BLOCKS} or more"))
}

/// How to mount.
#[derive(Clone, PartialEq, Debug)]
pub struct MountOptions {
    /// When checkpoints are written.
    pub checkpoint: CheckpointPolicy,
    /// Changes become durable by the journal (F2FSJ), which mkfs must have made room for; `None`:
    /// by checkpoints.
    pub journal: Option<JournalOptions>,
    /// `checkpoint=disable`: no checkpoint at all; after a cut the volume is as it was when they
    /// were disabled.
    pub checkpoint_disabled: bool,
    /// What fsync promises.
    pub fsync: FsyncMode,
    /// What damage does.
    pub errors: Errors,
    /// Background cleaning.
    pub gc: GcPolicy,
    /// Background tasks run (checkpoint timer, GC, discard); without them the volume is written
    /// only by calls and for lack of space.
    pub timers: bool,
    /// Refuse every change; no roll-forward is written.
    pub read_only: bool,
    /// False with `norecovery` / `disable_roll_forward`: data that was fsynced after the last
    /// checkpoint is left where it is (with `read_only`), or given up.
    pub roll_forward: bool,
    /// Discard segments that a checkpoint freed.
    pub discard: bool,
    /// Small files are stored in their inode.
    pub inline_data: bool,
    /// Small directories are stored in their inode.
    pub inline_dentry: bool,
    /// Extended attributes are stored in the inode as far as they fit.
    pub inline_xattr: bool,
    /// `mode=lfs`: no writing in place, no reuse of holes in segments.
    pub lfs: bool,
    /// When data is overwritten in place (`ipu_policy` in sysfs); `None`: as the kernel chooses by
    /// the size of the volume.
    pub in_place: Option<InPlace>,
    /// When reading changes access times.
    pub atime: AccessTimes,
    /// Page cache bound, bytes.
    pub cache_bytes: usize,
    /// How a name without regard to case is looked for.
    pub lookup: LookupMode,
    /// Blocks of 4 KiB held back for the superuser (`reserve_root=`), at most an eighth of what the
    /// volume offers its users.
    pub reserve_blocks: u64,
    /// Nodes held back for the same (`reserve_node=`), at most an eighth of all.
    pub reserve_nodes: u32,
    /// User (`resuid=`) and group (`resgid=`) that may use them, too.
    pub reserve_owner: ReserveOwner,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            checkpoint: CheckpointPolicy::default(),
            journal: None,
            checkpoint_disabled: false,
            fsync: FsyncMode::Posix,
            errors: Errors::Continue,
            gc: GcPolicy::On,
            timers: true,
            read_only: false,
            roll_forward: true,
            discard: true,
            inline_data: true,
            inline_dentry: true,
            inline_xattr: true,
            lfs: false,
            in_place: None,
            atime: AccessTimes::Relative,
            cache_bytes: 64 << 20,
            lookup: LookupMode::Auto,
            reserve_blocks: 0,
            reserve_nodes: 0,
            reserve_owner: ReserveOwner::default(),
        }
    }
}

const KEYS: &str = "scheme=checkpoint-60|checkpoint-1|checkpoint-5-bg|f2fsj|page-journal, fsync_mode=posix|strict|nobarrier, checkpoint=enable|disable, \
                    errors=continue|remount-ro|panic, background_gc=on|off|sync, mode=adaptive|lfs, ro, rw, norecovery, \
                    disable_roll_forward, discard, nodiscard, [no]inline_data, [no]inline_dentry, [no]inline_xattr, ipu_policy=BITS, cache=SIZE (a bare number is MiB), \
                    relatime, strictatime, noatime, \
                    lookup_mode=auto|perf|compat, reserve_root=BLOCKS, reserve_node=NODES, resuid=UID, resgid=GID";

impl MountOptions {
    /// Parses `key=value,...`; an empty text gives the defaults.
    ///
    /// # Errors
    /// `Options`, naming the unknown key or value and those that exist.
    pub fn parse(text: &str) -> FsResult<MountOptions> {
        let mut options = MountOptions::default();
        let mut of_journal = Vec::new();
        for item in items(text) {
            match JournalOptions::default().set_item(item)? {
                true => of_journal.push(item),
                false => options.set(item)?,
            }
        }
        options.adopt(&of_journal)?;
        let none = options.reserve_blocks == 0 && options.reserve_nodes == 0;
        if none && options.reserve_owner != ReserveOwner::default() {
            return Err(FsError::options(
                "mount options `resuid` and `resgid` need `reserve_root=BLOCKS` or `reserve_node=NODES`: nothing is held back without",
            ));
        }
        if !options.roll_forward && !options.read_only && text.contains("norecovery") {
            return Err(FsError::options(
                "mount option `norecovery` needs `ro`; `disable_roll_forward` gives fsynced data up",
            ));
        }
        Ok(options)
    }

    /// Takes the choices for the journal, if there is one.
    fn adopt(&mut self, items: &[&str]) -> FsResult<()> {
        let Some(own) = &mut self.journal else {
            return match items.last() {
                Some(item) => Err(FsError::options(format!(
                    "mount option `{item}` is one of the journal: say scheme=f2fsj too"
                ))),
                None => Ok(()),
            };
        };
        for item in items {
            own.set_item(item)?;
        }
        if self.checkpoint_disabled {
            return Err(FsError::options(
                "mount option `checkpoint=disable`: with a journal (scheme=f2fsj) nothing is left undone at a mount",
            ));
        }
        Ok(())
    }

    fn set(&mut self, item: &str) -> FsResult<()> {
        let (key, value) = split(item);
        let set = self.set_key(key, value);
        match set.map_err(|allowed| bad_value(item, allowed))? {
            true => Ok(()),
            false => Err(no_such(item)),
        }
    }

    /// Sets one; false if there is no such option.
    ///
    /// # Errors
    /// What is allowed as its value, if that is not.
    fn set_key(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "scheme" => {
                let preset: Preset = word(value)?;
                self.checkpoint = preset.policy();
                self.journal = preset.journal();
            }
            "fsync_mode" => self.fsync = word(value)?,
            "checkpoint" => {
                self.checkpoint_disabled = match value {
                    "enable" => false,
                    "disable" => true,
                    _ => return Err(one_of(&["enable", "disable"])),
                }
            }
            "errors" => self.errors = word(value)?,
            "background_gc" => self.gc = word(value)?,
            "mode" => {
                self.lfs = match value {
                    "adaptive" => false,
                    "lfs" => true,
                    _ => return Err(one_of(&["adaptive", "lfs"])),
                }
            }
            "ipu_policy" => self.in_place = Some(InPlace(number(value, 0..=u8::MAX)?)),
            "lookup_mode" => self.lookup = word(value)?,
            "reserve_node" => self.reserve_nodes = number(value, 0..=u32::MAX)?,
            "reserve_root" => self.reserve_blocks = number(value, 0..=u64::MAX)?,
            "resuid" => self.reserve_owner.uid = id(value)?,
            "resgid" => self.reserve_owner.gid = id(value)?,
            _ => return self.set_switch(key, value),
        }
        Ok(true)
    }

    fn set_switch(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "norecovery" | "disable_roll_forward" => self.roll_forward = false,
            "inline_data" => self.inline_data = true,
            "noinline_data" => self.inline_data = false,
            "inline_dentry" => self.inline_dentry = true,
            "noinline_dentry" => self.inline_dentry = false,
            "inline_xattr" => self.inline_xattr = true,
            "noinline_xattr" => self.inline_xattr = false,
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
        switch(value).map(|()| true)
    }
}

fn no_such(item: &str) -> FsError {
    let journal = JournalOptions::KEYS;
    unknown(
        item,
        format_args!("{KEYS}; with scheme=f2fsj also {journal}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused_by_name() {
        let o =
            MountOptions::parse("scheme=checkpoint-1, fsync_mode=strict,ro,cache=16,norecovery")
                .expect("valid");
        assert_eq!(o.checkpoint, Preset::Checkpoint1.policy());
        assert_eq!(
            (o.fsync, o.read_only, o.roll_forward),
            (FsyncMode::Strict, true, false)
        );
        assert_eq!(o.cache_bytes, 16 << 20);
        assert_eq!(
            MountOptions::parse("").expect("valid"),
            MountOptions::default()
        );
        for (bad, allowed) in [
            ("fsync_mode=fast", "posix, strict or nobarrier"),
            ("scheme=emmc", "checkpoint-60, checkpoint-1"),
            ("ro=1", "takes no value"),
            ("cache=0", "from 1M to 64G"),
            ("errors=ignore", "continue, remount-ro or panic"),
            ("mode=log", "adaptive or lfs"),
            ("checkpoint=no", "enable or disable"),
            ("inline_data=1", "takes no value"),
            ("background_gc=1", "on, off or sync"),
            ("ipu_policy=x", "a whole number from 0 to 255"),
            (
                "data=ordered",
                "is unknown; there are: scheme=checkpoint-60|",
            ),
            ("reserve_root=1M", "a whole number from 0"),
            ("resuid=nobody", "a whole number from 0 to 4294967294"),
        ] {
            let e = MountOptions::parse(bad).expect_err(bad).to_string();
            assert!(
                e.contains(&format!("`{bad}`")) && e.contains(allowed),
                "{e}"
            );
        }
        let (sized, bare) = (
            MountOptions::parse("cache=16M"),
            MountOptions::parse("cache=16"),
        );
        assert_eq!(sized.expect("valid"), bare.expect("valid"));
        let o = MountOptions::parse("reserve_node=9,resgid=8,lookup_mode=perf").expect("valid");
        assert_eq!((o.reserve_nodes, o.lookup), (9, LookupMode::Perf));
        let o = MountOptions::parse("resgid=8,reserve_root=512,resuid=7").expect("valid");
        assert_eq!(o.reserve_blocks, 512);
        assert_eq!(o.reserve_owner, ReserveOwner { uid: 7, gid: 8 });
        let e = MountOptions::parse("resuid=7").expect_err("of nothing");
        assert!(e.to_string().contains("reserve_root=BLOCKS"), "{e}");
        let e = MountOptions::parse("norecovery")
            .expect_err("needs ro")
            .to_string();
        assert!(e.contains("`ro`"), "{e}");
    }

    #[test]
    fn a_scheme_is_its_text() {
        for text in [
            "checkpoint-60",
            "checkpoint-5-bg+fsync_mode=nobarrier",
            "f2fsj",
            "f2fsj+ring=16+guard=magic",
            "f2fsj+guard=none+rounds=2+redone=home",
            "page-journal",
            "page-journal+records=changes+switch=open",
            "f2fsj+commit=1+records=pages+lists=global+switch=wait+fast-forward=off",
        ] {
            assert_eq!(text.parse::<Scheme>().expect(text).to_string(), text);
        }
        for (bad, words) in [
            ("emmc", "checkpoint-1"),
            ("checkpoint-60+record=full", "fsync_mode=posix|"),
            ("f2fsj+guard=x", "ro-bit, magic or none"),
            ("checkpoint-60+ring=64", "f2fsj"),
            ("f2fsj+ring=15", "16 or more"),
            ("f2fsj+records=blocks", "changes or pages"),
            ("checkpoint-1+lists=global", "page-journal"),
            ("f2fsj+fsync_mode=strict", "always durable"),
        ] {
            let e = bad.parse::<Scheme>().expect_err(bad).to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
