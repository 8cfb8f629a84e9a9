//! Mount options of a volume with a journal.

use super::Ideas;
use base::Nanos;
use fscore::FsResult;
use fscore::shell::options::{bad_value, number, split, word};

base::words! {
    /// The guard: what keeps other software from writing to a volume whose journal may hold changes
    /// that only this implementation can replay.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum Guard: "guard" {
        /// The read-only feature is set in the superblocks: Linux from 5.14 on mounts such a volume
        /// only read-only; older kernels do not know the feature and ignore it.
        #[default]
        RoBit => "ro-bit",
        /// The magic number of F2FS is hidden: other software does not take the volume for an F2FS.
        Magic => "magic",
        /// No guard: a stock mount after a cut goes back to the last checkpoint and writes. The
        /// next mount here notices that, and the journal is discarded.
        None => "none",
    }
}

base::words! {
    /// How often a commit with data goes to the device and back.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum Rounds: "rounds" {
        /// Once, if it can: data and transaction together, non-volatile or with one flush behind
        /// them. The transaction has checksums of the data.
        #[default]
        One => "1",
        /// Twice: the data is flushed before the transaction is sent.
        Two => "2",
    }
}

base::words! {
    /// Where a mount behind a cut leaves what it has redone.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub enum Redone: "redone" {
        /// In the ring, if it can: an apply brings it home later (resume-G1).
        #[default]
        Ring => "ring",
        /// At home, as in the paper (section 3.6): the mount ends with a checkpoint.
        Home => "home",
    }
}

/// How the journal works (F2FSJ).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Interval after the last commit at which the running epoch is committed, if there is anything
    /// in it (5 s, as in the paper).
    pub commit: Nanos,
    /// Time without a commit after which everything that is committed is applied (10 s).
    pub idle: Nanos,
    /// Apply begins when less than this percentage of the ring is free (50).
    pub low_percent: u32,
    /// Which ideas of F2FSJ the journal has.
    pub ideas: Ideas,
    /// What keeps other software out while the ring may hold committed epochs.
    pub guard: Guard,
    /// How data and transaction of an fsync become durable.
    pub rounds: Rounds,
    /// Where a mount behind a cut leaves what it has redone.
    pub redone: Redone,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            commit: Nanos::from_secs(5),
            idle: Nanos::from_secs(10),
            low_percent: 50,
            ideas: Ideas::ALL,
            guard: Guard::RoBit,
            rounds: Rounds::One,
            redone: Redone::Ring,
        }
    }
}

impl JournalOptions {
    /// Options of the journal in `key=value,...`.
    pub(crate) const KEYS: &str = "commit=SECONDS|MILLISECONDSms, jlow=PERCENT, guard=ro-bit|magic|none, rounds=1|2, redone=ring|home, records=changes|pages, lists=inode|global, \
         switch=open|wait, fast-forward=on|off";

    /// Sets one, as `key=value`; false if the key is none of the journal's.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub(crate) fn set_item(&mut self, item: &str) -> FsResult<bool> {
        let (key, value) = split(item);
        self.set(key, value).map_err(|e| bad_value(item, e))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "commit" => self.commit = crate::options::interval(value)?,
            "jlow" => self.low_percent = number(value, 5..=95)?,
            "guard" => self.guard = word(value)?,
            "rounds" => self.rounds = word(value)?,
            "redone" => self.redone = word(value)?,
            _ => return self.ideas.set(key, value),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Guard, Ideas, JournalOptions, MountOptions, Preset, Redone, Rounds};
    use base::Nanos;

    #[test]
    fn a_journal_is_asked_for_by_its_scheme() {
        assert_eq!(MountOptions::default().journal, None);
        let o = MountOptions::parse("scheme=f2fsj").expect("valid");
        assert_eq!(o.journal, Some(JournalOptions::default()));
        assert_eq!(o.checkpoint, Preset::F2fsj.policy());
        let text =
            "commit=1,scheme=f2fsj,jlow=30,guard=magic,rounds=2,redone=home,fast-forward=off";
        let o = MountOptions::parse(text).expect("in any order");
        let journal = o.journal.expect("a journal");
        assert_eq!(journal.commit, Nanos::from_secs(1));
        assert_eq!((journal.low_percent, journal.rounds), (30, Rounds::Two));
        assert_eq!(journal.redone, Redone::Home);
        assert_eq!(
            (journal.guard, journal.ideas.fast_forward),
            (Guard::Magic, false)
        );
        let o = MountOptions::parse("scheme=f2fsj,scheme=checkpoint-60").expect("the last counts");
        assert_eq!(o.journal, None);
        let o = MountOptions::parse("scheme=page-journal,switch=open").expect("valid");
        let ideas = Ideas {
            planes: true,
            ..Ideas::NONE
        };
        assert_eq!(o.journal.expect("a journal").ideas, ideas);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (bad, words) in [
            (
                "scheme=f2fsj,guard=lock",
                "`guard=lock`: it may be ro-bit, magic or none",
            ),
            (
                "scheme=f2fsj,commit=0",
                "`commit=0`: it may be a whole number of seconds from 1 to 300",
            ),
            ("scheme=f2fsj,rounds=3", "`rounds=3`: it may be 1 or 2"),
            (
                "scheme=f2fsj,redone=never",
                "`redone=never`: it may be ring or home",
            ),
            (
                "scheme=f2fsj,jlow=96",
                "`jlow=96`: it may be a whole number from 5 to 95",
            ),
            (
                "scheme=f2fsj,switch=on",
                "`switch=on`: it may be open or wait",
            ),
            ("scheme=f2fsj,commit=ms", "as 250ms"),
            ("commit=5", "scheme=f2fsj"),
            ("scheme=checkpoint-1,guard=none", "scheme=f2fsj"),
            ("scheme=f2fsj,checkpoint=disable", "checkpoint=disable"),
            ("scheme=f2fsj,norecovery", "needs `ro`"),
        ] {
            let e = MountOptions::parse(bad).expect_err(bad).to_string();
            assert!(e.contains(words), "{bad}: {e}");
        }
    }
}
