//! fsx: random operations on one file; it compares each read with what was written.

use super::mounts::{By, Mount, build_varve};
use super::{sh, tools};
use crate::Result;

const VERSION: &str = "0.3.2";
const IMAGE_MIB: u64 = 128;
/// All operations that FUSE passes and that ext4 here has.
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
sendfile = 1.0
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
}

pub fn run(args: &Args) -> Result {
    build_varve()?;
    let program = tools::find("fsx", VERSION)?;
    let program =
        std::path::absolute(&program).map_err(|e| format!("{}: {e}", program.display()))?;
    // A bare name is looked up in the search path.
    let program = match program.is_file() {
        true => program.to_string_lossy().to_string(),
        false => "fsx".to_string(),
    };
    for scheme in &args.schemes {
        for seed in 1..=args.seeds {
            one(&program, scheme, seed, args.ops)?;
            println!("{scheme}, seed {seed}: {} operations", args.ops);
        }
    }
    Ok(())
}

fn one(program: &str, scheme: &str, seed: u64, ops: u64) -> Result {
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let config = folder.path().join("fsx.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let options = format!("scheme={scheme}");
    let mount = Mount::new(folder.path(), By::Varve(&options), IMAGE_MIB)?;
    let (ops, seed) = (ops.to_string(), seed.to_string());
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
