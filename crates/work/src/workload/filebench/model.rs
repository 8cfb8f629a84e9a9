//! What a `.f` file describes, as values: sets of files, processes of threads, and what each thread
//! does in a loop.

use super::amount::{Amount, Value};
use std::collections::BTreeMap;

/// Most operations of a run, because each is kept with its time.
pub const OPS_MAX: u64 = 50_000_000;

/// A workload model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Model {
    /// Sets of files; a single file is a set, too.
    pub filesets: Vec<Fileset>,
    /// Kinds of processes.
    pub processes: Vec<Process>,
    /// Seconds of `run`; `None`: the file has none.
    pub seconds: Option<u64>,
    /// What ends the run, beside its time.
    pub quit: Quit,
    /// Events per second for the flowops that limit a rate; 0: they limit nothing.
    pub rate: u64,
    /// Variables of the file, with their last values.
    pub variables: BTreeMap<String, Value>,
    /// What the reader accepted although it has no meaning here, by its words.
    pub ignored: BTreeMap<String, Ignored>,
}

/// Something without meaning here: how often it occurs, and where first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ignored {
    /// Number of occurrences.
    pub count: u64,
    /// Line of the first one.
    pub line: u32,
}

/// `set mode quit`: what ends the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quit {
    /// A thread that is done ends by itself; the run ends at its time, or with its last thread.
    #[default]
    Timeout,
    /// Here this is [`Quit::Timeout`].
    AllDone,
    /// The first thread that is done ends the run.
    FirstDone,
}

/// A set of files in a tree of directories, or one file.
#[derive(Clone, PartialEq, Debug)]
pub struct Fileset {
    /// Its name, and the name of its directory.
    pub name: String,
    /// Line of its definition.
    pub line: u32,
    /// True for a single file, made by `define file`.
    pub single: bool,
    /// Number of files, whether there before the run or not.
    pub entries: u64,
    /// Number of directories that hold nothing, whether there before the run or not.
    pub leafdirs: u64,
    /// Mean number of entries in a directory.
    pub width: u64,
    /// Shape of the gamma distribution of widths and depths in thousandths; 0: all are the mean.
    pub dir_gamma: u64,
    /// Bytes of a file that is made before the run or written whole.
    pub size: Amount,
    /// Percent of the entries that are there before the run.
    pub prealloc: u64,
    /// Files are opened for reading only.
    pub readonly: bool,
}

/// A number of equal processes.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// Their name.
    pub name: String,
    /// Number of such processes.
    pub instances: u64,
    /// The kinds of threads of each.
    pub threads: Vec<Thread>,
}

/// A number of equal threads of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Thread {
    /// Their name.
    pub name: String,
    /// Number of such threads in each process.
    pub instances: u64,
    /// The loop that each of them runs.
    pub body: Vec<Step>,
}

/// A step of the loop of a thread.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// One flowop.
    Op(Box<Flowop>),
    /// A flowop that is composed by `define flowop`.
    Group {
        /// How often in a row.
        iters: u64,
        /// Its steps.
        body: Vec<Step>,
    },
}

/// One flowop.
#[derive(Clone, PartialEq, Debug)]
pub struct Flowop {
    /// The kind of flowop.
    pub op: Op,
    /// Its name.
    pub name: String,
    /// Line of its definition.
    pub line: u32,
    /// Index of the set that it picks files of.
    pub fileset: Option<usize>,
    /// Slot of the open file that it uses.
    pub fd: u32,
    /// Bytes of one transfer; `None`: the default of its kind.
    pub iosize: Option<Amount>,
    /// How often in a row.
    pub iters: Amount,
    /// Transfers go to random places.
    pub random: bool,
    /// Each write is durable when it ends.
    pub dsync: bool,
    /// `openfile` picks each file once; a read or write uses the next slot each time.
    pub opennext: bool,
    /// Bytes of a file that are used; 0: all.
    pub workingset: u64,
    /// `value`: an amount, a time or a number, by the kind of flowop.
    pub value: Amount,
    /// Name of the flowop that it refers to.
    pub target: Option<String>,
    /// Most posts that a poster which blocks leaves on a semaphore; 0: any number.
    pub highwater: u64,
    /// It waits while the target has `highwater` posts.
    pub blocking: bool,
}

macro_rules! ops {
    ($($variant:ident = $word:literal, $counted:literal;)*) => {
        /// Kinds of flowops.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Op { $(#[doc = concat!("`", $word, "`")] $variant,)* }
        impl Op {
            /// Every kind.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];
            /// Its word in the language, and in results.
            pub const fn word(self) -> &'static str {
                match self { $(Op::$variant => $word,)* }
            }
            /// True if Filebench's summary counts it: input and output, also asynchronous.
            pub const fn counted(self) -> bool {
                match self { $(Op::$variant => $counted,)* }
            }
        }
    };
}

ops! {
    CreateFile = "createfile", true;
    OpenFile = "openfile", true;
    CloseFile = "closefile", true;
    DeleteFile = "deletefile", true;
    StatFile = "statfile", true;
    ReadWholeFile = "readwholefile", true;
    WriteWholeFile = "writewholefile", true;
    AppendFile = "appendfile", true;
    AppendFileRand = "appendfilerand", true;
    Read = "read", true;
    Write = "write", true;
    AioWrite = "aiowrite", true;
    AioWait = "aiowait", true;
    Fsync = "fsync", true;
    FsyncSet = "fsyncset", true;
    MakeDir = "makedir", true;
    RemoveDir = "removedir", true;
    ListDir = "listdir", true;
    OpsLimit = "opslimit", false;
    IopsLimit = "iopslimit", false;
    EventLimit = "eventlimit", false;
    BwLimit = "bwlimit", false;
    Hog = "hog", false;
    Delay = "delay", false;
    SemBlock = "semblock", false;
    SemPost = "sempost", false;
    FinishOnCount = "finishoncount", false;
    FinishOnBytes = "finishonbytes", false;
}

impl Op {
    /// True if it opens a file of its set by itself when its slot is empty.
    pub const fn transfers(self) -> bool {
        matches!(
            self,
            Op::Read
                | Op::Write
                | Op::AioWrite
                | Op::ReadWholeFile
                | Op::WriteWholeFile
                | Op::AppendFile
                | Op::AppendFileRand
        )
    }

    /// True if it has to name a set of files.
    pub const fn needs_set(self) -> bool {
        matches!(
            self,
            Op::CreateFile
                | Op::OpenFile
                | Op::DeleteFile
                | Op::StatFile
                | Op::FsyncSet
                | Op::MakeDir
                | Op::RemoveDir
                | Op::ListDir
        )
    }
}

impl Step {
    /// Calls `with` on each flowop of the step.
    pub fn each<'a>(&'a self, with: &mut dyn FnMut(&'a Flowop)) {
        match self {
            Step::Op(op) => with(op),
            Step::Group { body, .. } => body.iter().for_each(|step| step.each(with)),
        }
    }
}

impl Model {
    /// Calls `with` on each flowop with the number of threads that run it.
    pub fn each<'a>(&'a self, with: &mut dyn FnMut(&'a Flowop, u64)) {
        for process in &self.processes {
            for thread in &process.threads {
                let threads = process.instances * thread.instances;
                thread
                    .body
                    .iter()
                    .for_each(|step| step.each(&mut |op| with(op, threads)));
            }
        }
    }

    /// Number of threads of all processes.
    pub fn threads(&self) -> u64 {
        let of = |p: &Process| p.instances * p.threads.iter().map(|t| t.instances).sum::<u64>();
        self.processes.iter().map(of).sum()
    }

    /// What has no meaning here, in words for the report.
    pub fn ignored_words(&self) -> Vec<String> {
        let words = |(what, i): (&String, &Ignored)| {
            format!(
                "ignored: {what}, {} times, first in line {}",
                i.count, i.line
            )
        };
        self.ignored.iter().map(words).collect()
    }
}
