//! Parses the command line.

mod calibrate;
mod campaign;
mod device;
mod image;
mod kernel;
mod paper;
mod program;
mod recordings;
mod serve;
#[cfg(test)]
mod tests;
mod workers;

pub use calibrate::CalibrateArgs;
pub use campaign::{CampaignCommand, MergeArgs, PlanArgs, StatusArgs, SubmitArgs, WorkArgs};
pub use device::DeviceCommand;
pub use image::{CatArgs, CopyArgs, DumpArgs, DumpWhat, ExtractArgs, InfoArgs, KeepArgs, LsArgs};
pub use kernel::{Engine, KernelArgs};
pub use paper::{PaperArgs, PaperName};
pub use program::{AckArgs, AckWay, ProgramArgs};
pub use recordings::{RecordArgs, ReplayArgs};
pub use serve::{Kill, Place, ServeArgs};
use workers::workers;

use crate::progress::Progress;
use crate::size;
use clap::builder::ArgPredicate;
use clap::{Parser, Subcommand, ValueEnum};
use crash::campaign::{Look, Reach};
use crash::plan::Job;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

/// Features that `varve mkfs -O` may name.
const FEATURES: [&str; 3] = ["bigalloc", "fast_commit", "casefold"];

/// Journaling on flash storage: compare schemes, trust them, use them.
#[derive(Parser)]
#[command(name = "varve", version, propagate_version = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
    /// How a long command shows how far it is.
    #[arg(
        long = "progress",
        global = true,
        value_enum,
        default_value_t,
        value_name = "HOW"
    )]
    pub shown_progress: Progress,
    /// Shows no progress: as --progress none.
    #[arg(short, long, global = true, conflicts_with = "shown_progress")]
    pub quiet: bool,
}

/// How `varve crash` ends.
const CRASH_EXIT_CODES: &str = "Exit codes: 0 everything holds, 1 findings, 2 the request makes no sense, 128 and its number a signal. \
With --dir, 3: no verdict, because the test is broken (the command failed, a call of --fail was never made, a judge gave none, the host refused \
something). Without --dir that is 1, too.";

#[derive(Subcommand)]
pub enum Command {
    /// Runs one workload on several schemes over a modelled device and shows what each costs.
    Compare(CompareArgs),
    /// Cuts the power everywhere, recovers, and checks that every promise was kept.
    #[command(after_help = CRASH_EXIT_CODES, after_long_help = CRASH_EXIT_CODES)]
    Crash(Box<CrashArgs>),
    /// Many comparisons, a large `crash` or a `paper` on many machines: plan, work, merge.
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// Shows the device profiles and what they promise.
    #[command(subcommand)]
    Device(DeviceCommand),
    /// Checks the file system in an image file (ext4, ext3, F2FS); recovers it first.
    Fsck(FsckArgs),
    /// Recovers the file system in an image file: replays the log of ext4, redoes the ring of
    /// F2FSJ, rolls F2FS forward.
    Recover(RecoverArgs),
    /// Makes a file system in an image file: ext4, ext3 or F2FS.
    Mkfs(MkfsArgs),
    /// Shows what the superblock of an image says, and of F2FS its checkpoint.
    Info(InfoArgs),
    /// Lists files of an image, without mounting it.
    Ls(LsArgs),
    /// Prints files of an image.
    Cat(CatArgs),
    /// Copies files out of an image, or into one.
    Cp(CopyArgs),
    /// Writes a whole tree of an image to a folder, with modes, times, links and attributes.
    Extract(ExtractArgs),
    /// Shows structures as they lie in an image, before any recovery.
    Dump(DumpArgs),
    /// Mounts the file system in an image on a directory (FUSE).
    Mount(MountArgs),
    /// Takes a mount away and waits until its volume is clean.
    Umount(UmountArgs),
    /// Serves a device to other programs: vhost-user, NBD, a file.
    Serve(ServeArgs),
    /// Runs the system calls of a recorded application on several schemes, or describes them.
    Replay(Box<ReplayArgs>),
    /// Runs a command and records its system calls on files for `varve replay` (by strace).
    Record(RecordArgs),
    /// Compares two results of `varve compare` or `replay`; exit code 1 if the second is worse.
    Report(ReportArgs),
    /// Acknowledges a line for `varve crash --dir`: the user of the program knows it from now on.
    Ack(AckArgs),
    /// Measures a publication again: each published value beside the one measured here.
    Paper(PaperArgs),
    /// Prints the JSON Schema of a result file.
    Schema(SchemaArgs),
    /// Prints what a shell needs to complete command lines.
    Completions(CompletionsArgs),
    /// Prints the manual page, or writes those of all commands into a folder.
    Man(ManArgs),
    /// Runs the SQLite workload on a real file, step by step as its input says: for cross-checks
    /// with the kernel.
    #[command(hide = true)]
    HostSqlite(HostSqliteArgs),
    /// What a script calls in a guest.
    #[command(hide = true)]
    InTheGuest,
    /// Runs one simulation for another `varve`: configuration on standard input, result lines on
    /// standard output.
    #[command(hide = true)]
    Worker,
    /// Runs one job of a paper for another `varve`: the job on standard input, its outcome on
    /// standard output.
    #[command(hide = true)]
    PaperWorker,
    /// Explores cases for another `varve`: tasks on standard input, result lines on standard
    /// output.
    #[command(hide = true)]
    CrashWorker,
    /// Judges a share of the states of a recording for another `varve`: the job on standard input,
    /// what was found on standard output.
    #[command(hide = true)]
    ProgramWorker,
}

#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub struct SchemaArgs {
    /// Whose result file.
    #[arg(value_enum, value_name = "COMMAND")]
    pub of: Of,
}

/// A result file, by the command that writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Of {
    /// results.json of `varve compare` and `varve replay`.
    Compare,
    /// results.json of `varve crash`.
    Crash,
    /// results.json of `varve crash --dir`.
    CrashDir,
    /// paper.json.
    Paper,
    /// results.json of a campaign of several comparisons.
    Campaign,
    /// What `varve campaign status --json` prints.
    CampaignStatus,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// Folder for a page for each command.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct ReportArgs {
    /// `results.json`, or the folder that holds it: what is compared with.
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// `results.json`, or the folder that holds it: what is judged.
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// Percent by which a figure may be worse.
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub tolerance: f64,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct CompareArgs {
    /// Workload, e.g.
    /// `sqlite:insert=1000,update=1000,delete=1000,journal=truncate,synchronous=full`.
    #[arg(long, default_value = "sqlite", value_name = "SPEC")]
    pub workload: String,
    /// Keeps each result in this folder as it is made, and takes those that are there: a command
    /// that was stopped goes on where it was.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace_out", "fio_json", "hdr_log"])]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub on: RunArgs,
}

/// On what a workload runs, and where the results go.
#[derive(Clone, clap::Args)]
pub struct RunArgs {
    /// File systems, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "ext4")]
    pub fs: Vec<String>,
    /// Device profile [default: emmc-odroid-xu4].
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// Journaling schemes, separated by commas. Each is a preset, or single choices, or both, with
    /// `+` between: `emmc`, `emmc+full-first=on`, `record=coalition+order=flush-end+home=copy`.
    /// `paper` stands for those of the eMMC paper: `jbd2,coalition-paper,flush-ahead,emmc-paper`.
    /// [default: `jbd2,coalition,flush-ahead,emmc,adaptive,fast-commit,fast-commit+adaptive,none`;
    /// on a device with REMAP jbd2 and jftl in each data mode]
    #[arg(long, value_delimiter = ',')]
    pub schemes: Vec<String>,
    /// Seed of every random stream.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Timing set of the device profile [default: the profile's own].
    #[arg(long, value_name = "NAME")]
    pub timing: Option<String>,
    /// Size of device and file system, MiB, or with k, M, G or T
    /// [default: that of the device profile].
    #[arg(long, value_name = "SIZE", value_parser = size::mib)]
    pub size: Option<u64>,
    /// Size of the journal, MiB, or with k, M, G or T
    /// [default: as mke2fs chooses by the size of the file system].
    #[arg(long, value_name = "SIZE", value_parser = size::mib32)]
    pub journal: Option<u32>,
    /// I/O scheduler in front of the device: `none`, `cfq-3.10`, `mq-deadline` or `bfq`
    /// [default: that of the device profile, `host.scheduler`, as Linux of its time has it].
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// When the host writes back what has changed: `linux`, `android`, or such a word and changes
    /// of it, as `android+interval=2+background=10`
    /// [default: linux, but metadata goes home without waiting for the flusher's next look].
    #[arg(long, value_name = "SETTINGS")]
    pub writeback: Option<String>,
    /// Commit and write-back timers, as in Linux; off: only syncs and lack of space write.
    #[arg(long, value_enum, default_value_t = Timers::On)]
    pub timers: Timers,
    /// Folder for results.json and index.html.
    #[arg(long, default_value = "varve-report", value_name = "DIR")]
    pub out: PathBuf,
    /// Writes the time line of the runs to this file, as a trace that ui.perfetto.dev opens: syncs,
    /// tasks, locks, requests to the device, flushes, and the dies of the chips.
    #[arg(long, value_name = "FILE")]
    pub trace_out: Option<PathBuf>,
    /// Writes each run as fio would (`--output-format=json+`) to run.json in a folder of its own
    /// below this one, for programs that plot results of fio.
    #[arg(long, value_name = "DIR")]
    pub fio_json: Option<PathBuf>,
    /// Writes the latencies of all runs to this file, second by second of virtual time, as a log
    /// that HdrHistogram's readers open.
    #[arg(long, value_name = "FILE")]
    pub hdr_log: Option<PathBuf>,
    /// Prints results.json instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Simulations at once, each in a process of its own [default: one a core].
    #[arg(long, value_name = "N", value_parser = workers)]
    pub jobs: Option<NonZeroUsize>,
}

impl RunArgs {
    /// The device profile.
    pub fn profile(&self) -> &str {
        self.device.as_deref().unwrap_or("emmc-odroid-xu4")
    }
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("place").args(["image", "dir", "kernel"])))]
#[command(group(clap::ArgGroup::new("work").args(["run", "log"])))]
#[command(group(clap::ArgGroup::new("volume").args(["dir", "kernel"])))]
#[command(group(clap::ArgGroup::new("task").args(["run", "workload"])))]
pub struct CrashArgs {
    /// A fixed sample over all schemes: minutes.
    #[arg(long, conflicts_with_all = ["workload", "device", "seed", "mode", "nested"])]
    pub quick: bool,
    /// Schemes, separated by commas, as in `compare`
    /// [default: all presets, and `none` as positive control].
    #[arg(long, value_delimiter = ',')]
    pub schemes: Vec<String>,
    /// Workload; may be given several times.
    #[arg(long, default_value = "ace:1", value_name = "SPEC")]
    pub workload: Vec<String>,
    /// Device: promises by name (`spec:emmc`, `spec:emmc,pack=any-subset`), or one that is cut at
    /// each operation of its chips: `nand` (small and well used), or a profile as in `compare`; may
    /// be given several times.
    #[arg(long, default_value = "spec:emmc", value_name = "DEVICE")]
    pub device: Vec<String>,
    /// I/O schedulers in front of the device, separated by commas, with the words of `compare`; the
    /// run and its recoveries have them [default: no scheduler].
    #[arg(long, value_delimiter = ',', value_name = "NAME",
          conflicts_with_all = ["repro", "image", "dir", "kernel", "mutants"])]
    pub scheduler: Vec<String>,
    /// Seeds, separated by commas. Multiples of 3 run without timers.
    #[arg(long, value_delimiter = ',', default_value = "3")]
    pub seed: Vec<u64>,
    /// Which states of a cut.
    #[arg(long, value_enum, default_value_t = Mode::Bounded)]
    pub mode: Mode,
    /// Mode random: draws of each cut; of a modelled device, cuts of the run.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub draws: u32,
    /// Cut a modelled device at so many moments of virtual time
    /// [default: at each operation of its chips].
    #[arg(long, default_value_t = 0, value_name = "N", hide_default_value = true)]
    pub moments: u32,
    /// Most writes that a subset singles out.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub subset: u32,
    /// Places inside a write at which it may break off. With --kernel the default is 0: the ext4 of
    /// Linux writes its superblock of two sectors in place, and does not mount a torn one.
    #[arg(
        long,
        default_value_t = 2,
        value_name = "N",
        default_value_if("kernel", ArgPredicate::IsPresent, "0")
    )]
    pub torn: u32,
    /// Most states of one cut.
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub states: u32,
    /// Judge also states that no recovery should be able to tell apart.
    #[arg(long)]
    pub no_prune: bool,
    /// Do not run `varve fsck` on every recovered state.
    #[arg(long)]
    pub no_fsck: bool,
    /// One state in so many is also mounted for writing, used, and unmounted; 0: none.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub deep_one_in: u32,
    /// Cut recoveries in turn, to this depth.
    #[arg(long, default_value_t = 0, value_name = "DEPTH")]
    pub nested: u32,
    /// One state in so many is followed into its recovery.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub nested_one_in: u32,
    /// Explores one share of the cases: the I-th of N, from 1.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Makes one state again and judges it: the line that a finding prints.
    #[arg(long, value_name = "LINE", conflicts_with_all = ["quick", "shard", "workload", "device", "seed"])]
    pub repro: Option<String>,
    /// Runs this shell command instead, and cuts what it wrote: with --dir in a directory, with
    /// --image on a copy of an image that it finds as `$VARVE_DEVICE`. There, in mode linear a cut
    /// leaves a prefix of the writes, else what a disk may that promises order to nothing but its
    /// syncs.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "place",
        conflicts_with = "seed"
    )]
    pub run: Option<String>,
    /// The image that the command of --run starts with; it is only read.
    #[arg(long, value_name = "IMAGE", requires = "work",
          conflicts_with_all = ["quick", "shard", "workload", "device", "seed", "schemes", "repro", "mutants", "nested",
              "nested_one_in", "moments", "no_prune", "no_fsck", "deep_one_in", "jobs", "timeout"])]
    pub image: Option<PathBuf>,
    /// Runs nothing, and takes this log of Linux's dm-log-writes for what the device got that held
    /// --image. Its marks are acknowledgements.
    #[arg(long, value_name = "FILE", requires = "image", conflicts_with = "run")]
    pub log: Option<PathBuf>,
    /// Writes the recording as such a log, for tools like replay-log of xfstests.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "dir"], requires = "run")]
    pub write_log: Option<PathBuf>,
    /// Replaces a file that exists by that log.
    #[arg(long, requires = "write_log")]
    pub force: bool,
    /// With --image, a command that says with exit code 0 that the image `$VARVE_STATE` is whole,
    /// and keeps what `$VARVE_ACKED` holds, a line for each acknowledgement
    /// [default: recovery by Varve, then e2fsck -fn or fsck.f2fs]. With --dir, a judge that is
    /// built in; may be given several times.
    #[arg(long, value_name = "COMMAND|JUDGE", requires = "place")]
    pub judge: Vec<String>,
    /// Most memory for the content of the image or directory and all that the command writes, MiB,
    /// or with k, M, G or T; a command that writes more fails.
    #[arg(long, default_value_t = 1024, value_name = "SIZE", requires = "place", value_parser = size::mib_not_zero)]
    pub memory: u64,
    /// Leaves out one guard at a time and expects that it is missed.
    #[arg(long)]
    pub mutants: bool,
    /// Folder for results.json, junit.xml, index.html and the findings.
    #[arg(long, default_value = "varve-crash", value_name = "DIR")]
    pub out: PathBuf,
    /// Prints results.json instead of the table; with --runs an array of them.
    #[arg(long, conflicts_with_all = ["lint", "show", "state"])]
    pub json: bool,
    /// Worker processes [default: one a core]; has no influence on the results.
    #[arg(long, value_name = "N", value_parser = workers)]
    pub jobs: Option<NonZeroUsize>,
    /// Keeps each result in this folder as it is made, and takes those that are there: a command
    /// that was stopped goes on where it was.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "image", "repro", "mutants"])]
    pub store: Option<PathBuf>,
    /// Seconds without a sign of life after which a worker is given up; with --dir seconds that the
    /// command with all that it leaves behind, and a judge, may take.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub timeout: u64,
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub kernel: KernelArgs,
}

impl CrashArgs {
    /// How far to look.
    pub fn reach(&self) -> Reach {
        Reach {
            mode: match self.mode {
                Mode::Linear => Look::Linear,
                Mode::Random => Look::Random,
                Mode::Exhaustive => Look::Exhaustive,
                Mode::Bounded => Look::Bounded,
            },
            draws: self.draws,
            moments: self.moments,
            subset_max: self.subset,
            torn_max: self.torn,
            states_max: self.states,
            prune: !self.no_prune,
            fsck: !self.no_fsck,
            deep_one_in: self.deep_one_in,
            nested: self.nested,
            nested_one_in: self.nested_one_in,
        }
    }
}

impl Shard {
    /// Whether a job is of this share.
    pub fn has(self, job: &Job) -> bool {
        job.number % self.count == self.index - 1
    }
}

/// Which states of a cut are looked at.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// In order: every prefix of the open writes.
    Linear,
    /// Seeded draws of any legal state.
    Random,
    /// All subsets of the open writes, as far as --subset and --states allow.
    Exhaustive,
    /// Small subsets of writes kept alone or lost alone.
    Bounded,
}

/// A share of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// Number of shares.
    pub count: usize,
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(index, of)| {
            let shard = Shard {
                index: index.parse().ok()?,
                count: of.parse().ok()?,
            };
            (1..=shard.count).contains(&shard.index).then_some(shard)
        });
        parts.ok_or_else(|| format!("`{text}` is no share: I/N with I from 1 to N"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Timers {
    On,
    Off,
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes, as of e2fsck: 0 clean (recovered or not), 1 a torn superblock was mended, 4 findings left, 8 the image cannot be used, 16 wrong usage."
)]
pub struct FsckArgs {
    /// Image file or block device.
    pub image: PathBuf,
    /// Device or image of an external journal.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Writes nothing: a log is replayed in memory. This is the default, but for `fsck.varve`.
    #[arg(short = 'n', conflicts_with_all = ["preen", "yes", "auto"])]
    pub no: bool,
    /// Replays the log and processes orphans on the file.
    #[arg(short = 'p', conflicts_with = "yes")]
    pub preen: bool,
    /// As -p, and an ext4 that says it is clean is not looked at: what fsck(8) passes when the
    /// system starts.
    #[arg(short = 'a', conflicts_with = "yes")]
    pub auto: bool,
    /// With -a: looks at what says it is clean, too. Without -a that is always so.
    #[arg(short = 'f')]
    pub force: bool,
    /// Writes begin and end to this file descriptor as e2fsck writes its progress; 0 writes
    /// nothing.
    #[arg(short = 'C', value_name = "FD")]
    pub progress: Option<u32>,
    /// Accepted for fsck(8); the text says all there is anyway.
    #[arg(short = 'v')]
    pub verbose: bool,
    /// The same; asks nothing.
    #[arg(short = 'y')]
    pub yes: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Most findings to print.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub limit: usize,
}

#[derive(clap::Args)]
#[command(
    after_help = "Without -f it returns when the mount is up and serves it in the background. `varve umount DIR`, umount(8), `fusermount3 -u DIR` and \
                  SIGTERM end it with a clean volume. Options of mount(8) are understood; what belongs to the file system goes to it, or is refused by name."
)]
pub struct MountArgs {
    /// Image file; with `-o remount` the directory that is mounted on does, too.
    pub image: PathBuf,
    /// Directory to mount on.
    pub dir: Option<PathBuf>,
    /// Options: `remount` changes those of a mount that goes on; `scheme=PRESET` and other choices
    /// of the file system, `ro`, `allow_other`, `commit=SECONDS`, `errors=`, `writeback`,
    /// `threads=`, `max_write=`, `transport=auto|uring|dev`, `queue_depth=`, and those of mount(8).
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stays in the foreground.
    #[arg(short = 'f', long)]
    pub foreground: bool,
    /// Serves in the background for another `varve`, which waits for its word.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub daemon: bool,
}

#[derive(clap::Args)]
pub struct UmountArgs {
    /// Directory that is mounted on.
    pub dir: PathBuf,
    /// Takes the mount away at once, even with files open; waits for nothing.
    #[arg(short = 'l', long)]
    pub lazy: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 recovered, or nothing to recover, 4 recovery refuses the volume, 8 the image cannot be used, 2 wrong usage."
)]
pub struct RecoverArgs {
    /// Image file.
    pub image: PathBuf,
    /// Device or image of an external journal.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Writes nothing: says what would be done.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct MkfsArgs {
    /// Image file; made if there is none.
    pub image: PathBuf,
    /// Kind of file system: ext4, ext3 or f2fs.
    #[arg(long, default_value = "ext4")]
    pub fs: String,
    /// Bytes of a block: 1024 to 65536, or 1k to 64k, a power of two. Linux mounts blocks above the
    /// pages of its machine, which mostly have 4k, since 6.19.
    #[arg(short = 'b', long, default_value_t = 4096, value_name = "BYTES", value_parser = size::block)]
    pub block_size: u32,
    /// Blocks of a group of ext4 and ext3 [default: as many as a bitmap has bits, at most 65528].
    /// Of a volume that is no larger than a group there is no backup of the superblock.
    #[arg(short = 'g', long, value_name = "BLOCKS")]
    pub blocks_per_group: Option<u32>,
    /// Bytes of an inode of ext4 and ext3: a power of two from 128 to a block [default: 256].
    #[arg(short = 'I', long, value_name = "BYTES", value_parser = size::block)]
    pub inode_size: Option<u32>,
    /// Of ext4: bytes of a cluster, the unit of allocation (feature bigalloc): a power of two above
    /// a block, up to 1M, as 64k.
    #[arg(short = 'C', long, value_name = "BYTES", value_parser = size::block)]
    pub cluster_size: Option<u32>,
    /// Features beside the usual ones, separated by commas, as of mke2fs. Of ext4: `bigalloc`
    /// (clusters, of 16 blocks unless -C says otherwise), `fast_commit` (an area for fast commits
    /// in the journal) and `casefold`; of ext3: `fast_commit`; of F2FS: `casefold`.
    #[arg(short = 'O', value_name = "FEATURES", value_delimiter = ',', value_parser = FEATURES)]
    pub features: Vec<String>,
    /// Of ext4 and F2FS: `chattr +F` can make an empty directory compare names without regard to
    /// case (feature casefold); the same as `-O casefold`.
    #[arg(long)]
    pub casefold: bool,
    /// Size of the file, MiB, or with k, M, G or T: 512M [default: as it is].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub size: Option<u64>,
    /// Size of the journal, MiB, or with k, M, G or T
    /// [default: as mke2fs chooses; of F2FS: no journal].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub journal: Option<u64>,
    /// No journal.
    #[arg(long, conflicts_with = "journal")]
    pub no_journal: bool,
    /// Room for a journal behind an F2FS (scheme f2fsj): `size=SIZE`, MiB, or with k, M, G or T, or
    /// `default`: a thousandth of the image, from 64 MiB to 1 GiB.
    #[arg(short = 'J', value_name = "size=SIZE|default", conflicts_with_all = ["journal", "no_journal"])]
    pub journal_size: Option<String>,
    /// Of ext4 and ext3: a device or image of its own for the journal, which is made, too. All of
    /// it is used; an image that is not there gets the size of --journal.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["no_journal", "journal_size"])]
    pub journal_device: Option<PathBuf>,
    /// Label: of ext4 and ext3 at most 16 bytes, of F2FS at most 512 UTF-16 units.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub label: String,
    /// Takes UUIDs and time of creation from this number: equal options give equal bytes
    /// [default: random, now].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Writes over a file that holds data.
    #[arg(long)]
    pub force: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct HostSqliteArgs {
    /// Workload, as for `compare`.
    #[arg(long, default_value = "sqlite")]
    pub workload: String,
    /// The database file to make.
    #[arg(long)]
    pub database: PathBuf,
    /// Keep SQLite from the atomic writes of F2FS, which would replace the rollback journal.
    #[arg(long)]
    pub no_atomic_writes: bool,
    /// Seed of the workload.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
