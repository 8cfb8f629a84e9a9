//! Options of `varve campaign`.

use super::Shard;
use clap::{ArgGroup, Subcommand};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum CampaignCommand {
    /// Writes the jobs of a campaign, one a line, with ids and estimates of what they cost.
    Plan(PlanArgs),
    /// Makes the results of jobs that are missing in a store; many may work on one store.
    Work(WorkArgs),
    /// Shows what is done, missing, failed and retried, what it cost and what is left.
    Status(StatusArgs),
    /// Makes reports and tables of all results, as one process would have.
    Merge(MergeArgs),
    /// Hands the work to a cluster.
    Submit(SubmitArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "A file of TOML says `command = \"compare\"`, under [options] what each option is, and under [sweep] options with a list of values each: every \
                  combination of those is one comparison. docs/use/campaign.md has examples."
)]
pub struct PlanArgs {
    /// Seconds that a job takes, about, where one can be cut: a share of a `crash --dir`, a part of
    /// a long case of `crash`.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = seconds)]
    pub job_seconds: f64,
    /// A file of TOML, or the command line of a `compare`, `crash` or `paper`.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SPEC.toml|COMMAND"
    )]
    pub spec: Vec<String>,
}

#[derive(clap::Args)]
#[command(group(ArgGroup::new("part").args(["jobs", "job", "share"])))]
pub struct WorkArgs {
    /// The plan.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Folder for the results, which other workers may use at the same time.
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Only the jobs from A to B, counted from 1 as in the plan.
    #[arg(long, value_name = "A-B", value_parser = range)]
    pub jobs: Option<RangeInclusive<u64>>,
    /// Only this job, counted from 1.
    #[arg(long, value_name = "N")]
    pub job: Option<NonZeroU32>,
    /// Only one share of the jobs: the I-th of N, from 1; every N-th job belongs to it.
    #[arg(long, value_name = "I/N")]
    pub share: Option<Shard>,
    /// Jobs at once, each in a process of its own [default: one a core].
    #[arg(long, value_name = "N", value_parser = super::workers)]
    pub workers: Option<NonZeroUsize>,
    /// Seconds without a sign of life after which a case of `crash` is given up.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub timeout: u64,
    /// Tries jobs again that were given up.
    #[arg(long)]
    pub retry: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct StatusArgs {
    /// The plan.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Folder of the results.
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct MergeArgs {
    /// The plan.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Folder of the results.
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Folder for reports and tables.
    #[arg(long, default_value = "varve-campaign", value_name = "DIR")]
    pub out: PathBuf,
    /// Merges what is there although results are missing, and marks the report as incomplete.
    #[arg(long)]
    pub partial: bool,
}

#[derive(clap::Args)]
#[command(group(ArgGroup::new("engine").args(["slurm", "dask"]).required(true)))]
pub struct SubmitArgs {
    /// Slurm: an array job, submitted with sbatch.
    #[arg(long)]
    pub slurm: bool,
    /// Dask: the scheduler at this address deals shares of the plan to its workers, through the
    /// Python package; this waits for the end.
    #[arg(long, value_name = "ADDRESS")]
    pub dask: Option<String>,
    /// Dask: the interpreter that has the packages varve and distributed.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "python3",
        requires = "dask"
    )]
    pub python: PathBuf,
    /// Dask: sends the plan to workers that do not see it, and takes their results back.
    #[arg(long, requires = "dask")]
    pub send: bool,
    /// The plan, where every node sees it.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Folder for the results, where every node sees it.
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Tasks of the array, or shares for Dask; each is an equal part of the jobs
    /// [default: about ten minutes of work each, at most 1000; for Dask a minute each].
    #[arg(long, value_name = "N")]
    pub tasks: Option<NonZeroU32>,
    /// Most tasks that run at once.
    #[arg(long, value_name = "N", requires = "slurm")]
    pub throttle: Option<NonZeroU32>,
    /// Cores of a task: so many jobs run at once.
    #[arg(long, default_value = "1", value_name = "N")]
    pub cpus: NonZeroU32,
    /// Partition.
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// Most time of a task, as sbatch reads it: `2:00:00`.
    #[arg(long, value_name = "TIME", requires = "slurm")]
    pub time: Option<String>,
    /// Memory of a task, as sbatch reads it: `4G`.
    #[arg(long, value_name = "SIZE", requires = "slurm")]
    pub mem: Option<String>,
    /// Another option for sbatch, as `--account=lab`; may be given several times.
    #[arg(
        long,
        value_name = "OPTION",
        allow_hyphen_values = true,
        requires = "slurm"
    )]
    pub sbatch: Vec<String>,
    /// Prints the script and submits nothing.
    #[arg(long, requires = "slurm")]
    pub dry_run: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.01..=1e6).contains(seconds));
    seconds.ok_or_else(|| "it is a number of seconds from 0.01 to 1000000".into())
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wrong = || format!("`{text}` is no range of jobs: A-B with A from 1 and B from A");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from >= 1 && to >= from => Ok(from..=to),
        _ => Err(wrong()),
    }
}
