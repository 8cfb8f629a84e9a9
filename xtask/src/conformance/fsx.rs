//! fsx: random operations on one file, each read compared with what was written before.

use super::mounts::{By, Fs, Mount};
use super::tools;
use crate::Result;
use crate::sh::sh;
use std::path::Path;

const VERSION: &str = "0.3.2";
const IMAGE_MIB: u64 = 128;
/// A configuration with all operations that fsx has.
const CONFIG: &str = "
flen = 262144
[weights]
close_open = 1.0
invalidate = 1.0
mapread = 1.0
mapwrite = 1.0
read = 1.0
write = 1.0
truncate = 1.0
fsync = 1.0
fdatasync = 1.0
posix_fallocate = 1.0
punch_hole = 1.0
sendfile = 1.0
posix_fadvise = 1.0
copy_file_range = 1.0
";

#[derive(clap::Args)]
pub struct Args {
    /// Operations of each run.
    #[arg(long, default_value_t = 20_000)]
    ops: u64,
    /// Seeds, from 1 on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Schemes.
    #[arg(long, value_delimiter = ',', default_value = "jbd2,emmc")]
    schemes: Vec<String>,
    /// Further mount options.
    #[arg(long, default_value = "")]
    options: String,
    /// All but so many KiB of the volume are taken before; the file has 256 at most.
    #[arg(long)]
    room: Option<u64>,
    /// File system.
    #[arg(long, value_enum, default_value_t = Fs::Ext4)]
    fs: Fs,
}

pub fn run(args: &Args, varve: &Path) -> Result {
    let program = tools::find("fsx", VERSION)?;
    for scheme in &args.schemes {
        for seed in 1..=args.seeds {
            let start = std::time::Instant::now();
            one(varve, &program, args, scheme, seed)?;
            let took = start.elapsed().as_secs_f64();
            println!(
                "{scheme}, seed {seed}: {} operations in {took:.1} s",
                args.ops
            );
        }
    }
    Ok(())
}

fn one(varve: &Path, program: &str, args: &Args, scheme: &str, seed: u64) -> Result {
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let config = folder.path().join("fsx.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let options = format!("scheme={scheme},{}", args.options);
    let mount = Mount::new(
        folder.path(),
        args.fs,
        By::Varve(varve, &options),
        IMAGE_MIB,
    )?;
    if let Some(room) = args.room {
        fill(&mount.dir, room << 10)?;
    }
    let (ops, seed) = (args.ops.to_string(), seed.to_string());
    let config = config.to_string_lossy();
    let file = mount.dir.join("file");
    let artifacts = folder.path().to_string_lossy();
    let file = file.to_string_lossy();
    sh(
        program,
        &[
            "-q", "-N", &ops, "-S", &seed, "-f", &config, "-P", &artifacts, &file,
        ],
    )?;
    mount.end()
}

/// Takes all free space of the volume except `room` bytes.
fn fill(dir: &Path, room: u64) -> Result {
    let at = dir.to_string_lossy();
    let filler = dir.join("filler");
    let filler = filler.to_string_lossy();
    for _ in 0..4 {
        let said = sh("stat", &["-f", "-c", "%f %S", &at])?;
        let numbers: Vec<u64> = (said.split_whitespace())
            .filter_map(|word| word.parse().ok())
            .collect();
        let [blocks, size] = numbers[..] else {
            return Err(format!("stat -f {at} says `{said}`"));
        };
        // The mapping of the filler needs space, too, so the last part is a second step.
        let take = (blocks * size).saturating_sub(room) / size * size;
        if take < 64 << 10 {
            return Ok(());
        }
        let (take, end) = (take * 15 / 16, file_len(&filler));
        let (take, end) = (take.to_string(), end.to_string());
        sh("fallocate", &["-o", &end, "-l", &take, &filler])?;
    }
    Ok(())
}

fn file_len(path: &str) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}
