//! What a `.f` file describes: sets of files, processes of threads, and what each thread does in a
//! loop.

use super::amount::{Amount, Value};
use std::collections::BTreeMap;

/// A workload model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Model {
    /// Sets of files, and single files.
    pub filesets: Vec<Fileset>,
    /// Processes.
    pub processes: Vec<Process>,
    /// Seconds of `run`; `None`: the file has none.
    pub seconds: Option<u64>,
    /// What ends the run beside time.
    pub quit: Quit,
    /// Events a second for the flowops that limit a rate; 0: they limit nothing.
    pub rate: u64,
    /// Variables of the file with their last values.
    pub variables: BTreeMap<String, Value>,
    /// What was read and has no meaning here: how often, and the first line.
    pub ignored: BTreeMap<String, Ignored>,
}

/// Something without meaning here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ignored {
    /// How often.
    pub count: u64,
    /// First line.
    pub line: u32,
}

/// `set mode quit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quit {
    /// A thread that is done ends; the run ends with its time or its last thread.
    #[default]
    Timeout,
    /// As [`Quit::Timeout`].
    AllDone,
    /// The first thread that is done ends the run.
    FirstDone,
}

/// A set of files in a tree of directories, or one file.
#[derive(Clone, PartialEq, Debug)]
pub struct Fileset {
    /// Its name, and that of its directory.
    pub name: String,
    /// Line of its definition.
    pub line: u32,
    /// Made by `define file`: one file.
    pub single: bool,
    /// Files, there or not.
    pub entries: u64,
    /// Directories that hold nothing, there or not.
    pub leafdirs: u64,
    /// Mean entries of a directory.
    pub width: u64,
    /// Shape of the gamma distribution of widths and depths, thousandths; 0: all are the mean.
    pub dir_gamma: u64,
    /// Bytes of a file when it is made before the run, or written whole.
    pub size: Amount,
    /// Percent of the entries that are there before the run.
    pub prealloc: u64,
    /// Files are opened for reading only.
    pub readonly: bool,
}

/// Processes of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// Name.
    pub name: String,
    /// How many.
    pub instances: u64,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// Threads of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Thread {
    /// Name.
    pub name: String,
    /// How many in each process.
    pub instances: u64,
    /// What each does, again and again.
    pub body: Vec<Step>,
}

/// A step of a thread.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// One flowop.
    Op(Box<Flowop>),
    /// Flowops defined by `define flowop`.
    Group {
        /// How often.
        iters: u64,
        /// The steps.
        body: Vec<Step>,
    },
}

/// One flowop.
#[derive(Clone, PartialEq, Debug)]
pub struct Flowop {
    /// What it does.
    pub op: Op,
    /// Its name.
    pub name: String,
    /// Line.
    pub line: u32,
    /// Index of the set whose files it picks.
    pub fileset: Option<usize>,
    /// Slot of the open file.
    pub fd: u32,
    /// Bytes of one transfer; `None`: the default of the kind.
    pub iosize: Option<Amount>,
    /// How often in a row.
    pub iters: Amount,
    /// At random places.
    pub random: bool,
    /// Each write is durable when it ends.
    pub dsync: bool,
    /// Picks each file once (openfile), or uses the next slot each time (read, write).
    pub opennext: bool,
    /// Bytes of a file that are used; 0: all.
    pub workingset: u64,
    /// `value`: how much, how long, how often.
    pub value: Amount,
    /// Name of another flowop.
    pub target: Option<String>,
    /// Most posts of a semaphore that a blocking poster leaves; 0: any number.
    pub highwater: u64,
    /// Waits while the target has `highwater` posts.
    pub blocking: bool,
}

macro_rules! ops {
    ($($variant:ident = $word:literal, $counted:literal;)*) => {
        /// Kinds of flowops.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Op { $(#[doc = concat!("`", $word, "`")] $variant,)* }
        impl Op {
            /// All of them.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];
            /// Its word in the language, and in results.
            pub const fn word(self) -> &'static str {
                match self { $(Op::$variant => $word,)* }
            }
            /// True if it counts in Filebench's summary: input and output, also asynchronous.
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
    /// True if it opens a file by itself, of the set it names, when its slot is empty.
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

    /// True if it has to name a set.
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
    /// Calls `with` on each flowop of it.
    pub fn each<'a>(&'a self, with: &mut dyn FnMut(&'a Flowop)) {
        match self {
            Step::Op(op) => with(op),
            Step::Group { body, .. } => body.iter().for_each(|step| step.each(with)),
        }
    }
}

impl Model {
    /// Calls `with` on each flowop, and how many threads do it.
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

    /// Threads of all processes.
    pub fn threads(&self) -> u64 {
        let of = |p: &Process| p.instances * p.threads.iter().map(|t| t.instances).sum::<u64>();
        self.processes.iter().map(of).sum()
    }

    /// What was ignored, in words.
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
