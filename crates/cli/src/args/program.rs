//! Options of `varve crash --dir`.

use super::CrashArgs;
use crate::size;
use clap::ValueEnum;
use program::record::Fault;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// A program on a volume of ours: what it may lose.
#[derive(clap::Args)]
#[command(next_help_heading = "Programs on a directory (--dir)")]
pub struct ProgramArgs {
    /// Runs the command of --run in a directory that Varve mounts there [default: a temporary one],
    /// with its path in `$VARVE_DIR`, records its system calls, and judges what a cut of the power
    /// may leave of the directory at any moment.
    #[arg(long, value_name = "DIR", num_args = 0..=1,
          conflicts_with_all = ["image", "quick", "shard", "workload", "seed", "schemes", "repro", "mutants", "mode", "draws",
              "torn", "nested", "nested_one_in", "moments", "no_prune", "no_fsck", "deep_one_in"])]
    pub dir: Option<Option<PathBuf>>,
    /// A command that ends with exit code 0 if the directory `$VARVE_DIR` is one that the user of
    /// the program may find; `$VARVE_ACKED` is a file of what the program had acknowledged, a line
    /// each.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "volume",
        conflicts_with = "judge"
    )]
    pub check: Option<String>,
    /// As --check, but one process for many directories: it gets a line for each on standard input,
    /// and answers `ok` or `bad WHY`.
    #[arg(long, value_name = "COMMAND", requires = "dir", conflicts_with_all = ["check", "judge"])]
    pub check_server: Option<String>,
    /// Runs before the recording begins: what it leaves is durable.
    #[arg(long, value_name = "COMMAND", requires = "volume")]
    pub setup: Option<String>,
    /// The directory begins as a copy of this folder.
    #[arg(long, value_name = "FOLDER", requires = "dir")]
    pub from: Option<PathBuf>,
    /// What may be left: `posix`, `posix+BELIEF`, `ext4`, `ext4:OPTION,...`, `f2fs`, and `device`:
    /// without any cut, where calls failed; separated by commas or given several times
    /// [default: posix,ext4,f2fs, and device where calls failed].
    #[arg(long, value_name = "MODEL", requires = "dir")]
    pub model: Vec<String>,
    /// Most states of a model, dealt to all cuts in equal parts of at least 16; --states bounds
    /// each cut as well.
    #[arg(
        long,
        value_name = "N",
        requires = "dir",
        default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub states_total: u64,
    /// What is an acknowledgement, beside lines that are written to `$VARVE_ACKS` or to the socket
    /// `$VARVE_ACK_SOCKET`: `stdout`, each line that the command prints.
    #[arg(long, value_enum, value_name = "WAY", requires = "dir")]
    pub acks: Option<AckWay>,
    /// Makes a call fail: CALL=ERROR[@N[+]][:PATH], for example `fsync=EIO@3`: the third; with `+`
    /// all behind it, too.
    #[arg(long, value_name = "FAULT", requires = "dir")]
    pub fail: Vec<Fault>,
    /// Looks for the smallest set of added syncs with which no state is bad, and tells what they
    /// cost on the profile of --device [default: emmc-odroid-xu4].
    #[arg(long, requires = "dir")]
    pub suggest: bool,
    /// Tells what was not synced at each acknowledgement, and explores nothing.
    #[arg(long, requires = "dir")]
    pub lint: bool,
    /// Records so many runs: one recording is one schedule of a concurrent program.
    #[arg(long, default_value = "1", value_name = "N", requires = "dir")]
    pub runs: NonZeroU32,
    /// Size of the volume, MiB, or with k, M, G or T.
    #[arg(long, default_value = "256", value_name = "SIZE", requires = "volume", value_parser = size::mib_not_zero)]
    pub size: u64,
    /// A command that ends with another exit code than 0, or not within --timeout, is judged as far
    /// as it came. Implied by --fail.
    #[arg(long, requires = "dir")]
    pub allow_failure: bool,
    /// Takes a run that has changed nothing in the directory, too: else that is an error, because
    /// such a program writes elsewhere.
    #[arg(long, requires = "dir")]
    pub allow_unchanged: bool,
    /// Notes the program's own stack at each call, and tells it where a call matters. For C, C++,
    /// Rust and Go, best with debug information (`cc -g`).
    #[arg(long, requires = "dir")]
    pub backtrace: bool,
    /// Writes the recording to this file, over an earlier recording and nothing else.
    #[arg(long, value_name = "FILE", requires = "dir")]
    pub keep: Option<PathBuf>,
    /// Runs nothing, and takes this recording.
    #[arg(long, value_name = "FILE", requires = "dir",
          conflicts_with_all = ["run", "setup", "from", "acks", "fail", "runs", "size", "keep", "backtrace", "allow_unchanged"])]
    pub recording: Option<PathBuf>,
    /// Makes one state of the recording again, and judges it: MODEL LINE, as a finding prints it.
    #[arg(long, value_name = "STATE", requires = "recording")]
    pub state: Option<String>,
    /// Prints findings as annotations of GitHub, too.
    #[arg(long, requires = "dir", conflicts_with = "json")]
    pub github: bool,
    /// Prints the recorded calls, and judges nothing.
    #[arg(long, requires = "dir")]
    pub show: bool,
}

/// What is taken for acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AckWay {
    /// Lines on standard output.
    Stdout,
}

#[derive(clap::Args)]
pub struct AckArgs {
    /// What is promised: one line.
    pub text: String,
}

impl CrashArgs {
    /// Whether a command that fails is judged nevertheless.
    pub fn may_fail(&self) -> bool {
        self.program.allow_failure || !self.program.fail.is_empty()
    }
}
