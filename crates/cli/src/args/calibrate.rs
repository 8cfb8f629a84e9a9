//! Options of `varve device calibrate`.

use crate::size;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct CalibrateArgs {
    /// A folder on the card: a file of its own is measured there and removed. Or an existing file,
    /// or a block device, whose content is lost (`--write`).
    #[arg(value_name = "PATH", required_unless_present_any = ["fio", "fio_job"], conflicts_with_all = ["fio", "fio_job"])]
    pub path: Option<PathBuf>,
    /// Measures nothing, but reads what fio measured: its output in JSON.
    #[arg(long, value_name = "OUT.json", conflicts_with = "fio_job")]
    pub fio: Option<PathBuf>,
    /// Prints the job file of fio for `--fio`.
    #[arg(long)]
    pub fio_job: bool,
    /// The profile that is written.
    #[arg(short, long, default_value = "card.toml", value_name = "FILE")]
    pub output: PathBuf,
    /// Replaces the profile if it is there already.
    #[arg(long)]
    pub force: bool,
    /// Writes over an existing file or a block device. Its content is lost.
    #[arg(long)]
    pub write: bool,
    /// How much is written and read, MiB, or with k, M, G or T.
    #[arg(long, default_value = "256", value_name = "SIZE", value_parser = size::mib_not_zero)]
    pub size: u64,
    /// Seconds after which one of the some fifty quantities is repeated no more.
    #[arg(long, default_value = "1.5", value_name = "SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// The profile to begin from, with changes; what cannot be seen from outside stays as it is
    /// there [default: by the kind of the device].
    #[arg(long, value_name = "PROFILE|FILE.toml")]
    pub like: Option<String>,
    /// The text of the card's EXT_CSD register, as /sys/kernel/debug/mmc*/mmc*/ext_csd shows it
    /// [default: that of the device, where it can be read].
    #[arg(long, value_name = "FILE")]
    pub ext_csd: Option<PathBuf>,
    /// Prints JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|s| (0.0..=600.0).contains(s));
    found.ok_or_else(|| format!("`{text}`: it may be 0 to 600"))
}
