//! The text form of a workload: `sqlite:insert=1000,journal=truncate`.
//!
//! A text names a workload and changes some of its parameters; printing a workload names all that
//! matter. So what a report prints can be run again, also when defaults change later. Left out are
//! parameters that are off (as `pause=0`, `procs=1`, `rounds=1`, no background, no aging), so these
//! defaults have to stay; and variables of a model of Filebench that nobody set.

use super::{
    AppSpec, Background, Batch, BenchSpec, FilesSpec, FsyncSpec, ReplaySpec, SpecError, SqliteSpec,
    bench, sets,
};
use std::fmt;
use std::str::FromStr;

/// A workload and its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Mobibench's SQLite test.
    Sqlite(SqliteSpec),
    /// One kind of file operation, each made durable.
    Fsync(FsyncSpec),
    /// PostMark's mix on many small files.
    Files(FilesSpec),
    /// A benchmark that writes.
    Bench(BenchSpec),
    /// The system calls of a recording in a file.
    Replay(ReplaySpec),
    /// The system calls of a generated application.
    App(AppSpec),
}

/// The workload of that name with its defaults, or that of a set, and the parameters that follow;
/// the test of a set is taken off them.
fn begin<'a>(name: &str, parameters: &'a str) -> Result<(Workload, &'a str), SpecError> {
    let (first, rest) = parameters.split_once(',').unwrap_or((parameters, ""));
    let (test, rest) = match first.contains('=') {
        true => ("", parameters),
        false => (first.trim(), rest),
    };
    if let Some(workload) = sets::base(name, test) {
        return Ok((workload?, rest));
    }
    let workload = match name {
        "sqlite" => Workload::Sqlite(SqliteSpec::default()),
        "fsync" => Workload::Fsync(FsyncSpec::default()),
        "files" => Workload::Files(FilesSpec::default()),
        "replay" => Workload::Replay(ReplaySpec::default()),
        "app" => Workload::App(AppSpec::default()),
        _ => {
            if let Some(spec) = BenchSpec::named(name) {
                return Ok((Workload::Bench(spec), parameters));
            }
            let (benches, sets) = (bench::NAMES.join(", "), sets::NAMES.join(", "));
            return Err(SpecError::Name {
                given: name.into(),
                valid: format!("sqlite, fsync, files, {benches}, app, replay, {sets}"),
            });
        }
    };
    Ok((workload, parameters))
}

impl FromStr for Workload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Workload, SpecError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let (mut workload, parameters) = begin(name, parameters)?;
        for part in parameters
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
        {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match &mut workload {
                Workload::Sqlite(spec) => spec.set(key, value)?,
                Workload::Fsync(spec) => spec.set(key, value)?,
                Workload::Files(spec) => spec.set(key, value)?,
                Workload::Bench(spec) => spec.set(key, value)?,
                Workload::Replay(spec) => spec.set(key, value)?,
                Workload::App(spec) => spec.set(key, value)?,
            }
        }
        workload.background().aged.check()?;
        match &workload {
            Workload::Sqlite(_) | Workload::Replay(_) | Workload::App(_) => {}
            Workload::Fsync(spec) => spec.check()?,
            Workload::Files(spec) => spec.check()?,
            Workload::Bench(spec) => spec.check()?,
        }
        Ok(workload)
    }
}

impl Workload {
    /// The SQLite workload with an empty table at first, for a caller that can judge nothing else.
    ///
    /// # Errors
    /// It is another workload, or one with rows before the measured part, with a program beside
    /// it or on an aged volume.
    pub fn into_sqlite(self) -> Result<SqliteSpec, SpecError> {
        match self {
            Workload::Sqlite(spec)
                if spec.prefill == 0
                    && spec.background.beside().is_none()
                    && spec.background.aged.percent == 0 =>
            {
                Ok(spec)
            }
            other => Err(SpecError::Together(format!(
                "workload `{other}`: here only sqlite without prefill, beside and aged can run"
            ))),
        }
    }

    /// What the workload meets.
    pub fn background(&self) -> Background {
        match self {
            Workload::Sqlite(spec) => spec.background,
            Workload::Fsync(spec) => spec.background,
            Workload::Files(spec) => spec.background,
            Workload::Bench(spec) => spec.background,
            Workload::Replay(spec) => spec.background,
            Workload::App(spec) => spec.background,
        }
    }

    /// True if SQLite may assume powersafe overwrite (see [`SqliteSpec::powersafe_overwrite`]).
    pub fn powersafe_overwrite(&self) -> bool {
        match self {
            Workload::Sqlite(spec) => spec.powersafe_overwrite,
            _ => true,
        }
    }
}

impl Workload {
    /// Whether SQLite's transactions are atomic writes.
    pub fn batch(&self) -> Batch {
        match self {
            Workload::Sqlite(spec) => spec.batch,
            _ => Batch::Off,
        }
    }
}

impl fmt::Display for Workload {
    /// The full text with every parameter: two workloads are equal if their texts are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Sqlite(spec) => spec.fmt(f),
            Workload::Fsync(spec) => spec.fmt(f),
            Workload::Files(spec) => spec.fmt(f),
            Workload::Bench(spec) => spec.fmt(f),
            Workload::Replay(spec) => spec.fmt(f),
            Workload::App(spec) => spec.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in [
            "sqlite",
            "sqlite:",
            "sqlite:insert=5,journal=wal,synchronous=normal,value=9,psow=off,prefill=7,writer=4096",
            "fsync",
            "sqlite:beside=fdtree+levels=2+files=7",
            "sqlite:aged=90,overwrites=150",
            "app:gmail,aged=30,writer=5",
            "fsync:beside=writer+file=64m+order=random,writer=5",
            "files:beside=writer",
            "fsync:op=random,size=128k,count=9,file=32m,sync=fdatasync,writer=100",
            "files:count=10,transactions=20,min=1,max=5000,sync=on",
            "files:pause=500",
            "bonnie",
            "bonnie:phase=char,mib=3,beside=writer",
            "iozone:op=both,file=1m,record=64k,sync=fdatasync",
            "jobs:procs=4,file=8m,size=8k,count=9,warm=3,every=4,order=shuffled,fill=fallocate",
            "small:count=9,size=1,every=2,unlink=9,writer=7",
            "churn:rounds=2,dirs=3,files=4,size=5k",
            "fio:case=RanWR_W,file=8m,count=7",
            "tree:op=make,files=70,build=3,headers=2,procs=8,cpu=5",
            "tree:op=cp,files=9,pack=0,preserve=on",
            "meta:op=mkdir,count=7,aged=80%,overwrites=50,writer=3",
            "fio:rw=write,bs=8k,depth=3,file=1m,fill=none,end=off,writer=9",
            "replay",
            "replay:file=a.gz,pace=recorded,think=0.5,idle=7ms,writer=9",
            "app:gmail,seconds=60,pace=none",
        ] {
            let parsed: Workload = text.parse().unwrap();
            assert_eq!(parsed.to_string().parse::<Workload>().unwrap(), parsed);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let fail = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        for (text, wrong, right) in [
            ("fios", "`fios`", "sqlite, fsync, files"),
            ("fio:case=Seq", "Seq", "Seq_write, Seq_read"),
            ("fio:bs=3k", "file=64m", "bs=3k"),
            ("fio:file=64k", "16 places", "depth=32"),
            ("fio:file=1024m,bs=1", "more than 16777216", "bs=1"),
            ("fio:rw=read,fill=none", "rw=read", "fill=write"),
            ("fio:mix=100", "`100`", "1 to 99"),
            ("tree:op=mv", "mv", "cp, clone, make"),
            ("tree:op=clone,procs=2", "procs=2", "make"),
            ("tree:files=0", "`0`", "1 to"),
            ("meta:aged=96", "`96`", "0 to 95"),
            ("meta:overwrites=50", "overwrites=", "aged="),
            ("files:overwrites=50", "overwrites=", "aged="),
            (
                "sqlite:rows=3",
                "`sqlite` has no parameter `rows`",
                "insert",
            ),
            ("sqlite:journal=none", "none", "truncate"),
            ("sqlite:insert=-1", "-1", "whole number"),
            ("sqlite:insert", "``", "whole number"),
            ("sqlite:writer=x", "`x`", "whole number"),
            ("fsync:op=mkdir", "mkdir", "append, overwrite"),
            ("fsync:size=4q", "4q", "4k"),
            ("fsync:size=0", "`0`", "1 to"),
            ("fsync:op=random,size=8m,file=4m", "size=8m", "file=4m"),
            ("files:min=9,max=3", "min=9", "max=3"),
            ("bonnie:phase=seek", "seek", "char, block, rewrite"),
            (
                "bonnie:size=3",
                "`bonnie` has no parameter `size`",
                "phase, mib, writer",
            ),
            ("iozone:file=10k,record=4k", "file=10k", "record=4k"),
            ("jobs:procs=0", "`0`", "1 to 64"),
            ("jobs:file=10k", "file=10k", "size=4k"),
            ("jobs:fill=zero", "zero", "write, fallocate, none"),
            ("small:count=3,unlink=4", "unlink=4", "count=3"),
            ("churn:depth=2", "depth", "rounds, dirs, files"),
            ("files:depth=3", "depth", "transactions"),
            ("sqlite:beside=fsx", "fsx", "fdtree, writer"),
            ("sqlite:beside=none+x", "none+x", "fdtree"),
            (
                "sqlite:beside=fdtree+depth=3",
                "`beside=fdtree` has no parameter `depth`",
                "levels",
            ),
            ("files:beside=fdtree+process=0", "`0`", "1 to"),
            ("fsync:beside=writer+file=3", "3", "4k to"),
            ("fsync:beside=writer+order=down", "down", "sequential"),
            ("replay:pace=fast", "fast", "recorded, busy, none"),
            ("replay:think=-1", "-1", "0 to 1000"),
            ("replay:think=inf", "inf", "0 to 1000"),
            ("replay:idle=2s", "2s", "whole number"),
            ("replay:seconds=2", "seconds", "file, pace"),
            ("app:winamp", "winamp", "facebook, twitter"),
            ("app:gmail,seconds=0", "`0`", "1 to"),
        ] {
            let e = fail(text);
            assert!(e.contains(wrong) && e.contains(right), "{text}: {e}");
        }
    }
}
