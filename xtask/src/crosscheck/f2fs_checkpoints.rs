//! `cargo xtask crosscheck f2fs-checkpoints`: does stock F2FS checkpoint here as often as in Linux,
//! and with as many blocks?
//!
//! Both sides make or remove so many objects on a fresh F2FS of 4 GiB, without timers, so
//! that counts of dirty nodes and NAT entries alone make a checkpoint due, and end with a sync. The
//! kernel has memory for all of it. What is
//! made before a removal is synced before the figures are read.

use super::ext4_traffic;
use super::f2fs_traffic::{self, Figures};
use crate::Result;
use crate::test::build;
use guest::Guest;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Numbers of objects
    #[arg(long, value_delimiter = ',', default_value = "20000")]
    counts: Vec<u32>,
    /// Operations
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "mkdir,rmdir,create,unlink"
    )]
    ops: Vec<String>,
    /// The program `varve`, if it is not to be built first
    #[arg(long)]
    varve: Option<PathBuf>,
}

const MIB: u64 = 4096;
/// How far we may be off from the kernel in blocks, as a fraction of them and of the objects: the
/// kernel writes nodes of directories once more in some removals.
const TOLERANCE: f64 = 0.10;
const OF_OBJECTS: f64 = 0.01;
/// How many times more checkpoints than ours the kernel may write. A checkpoint is due at 4,096
/// dirty nodes, as in Linux 5.15; since 5.18 also at 6,144 of dirty nodes and dirty inodes
/// together, of which a new directory makes one each.
const CHECKPOINTS: f64 = 4096.0 / 3072.0;
/// How many times more we may write: half of the node cache may be dirty here, and memory of the
/// kernel holds all.
const MEMORY: f64 = 1.1;

/// What was written.
struct Written {
    checkpoints: f64,
    node: f64,
    data: f64,
    meta: f64,
}

impl Written {
    fn columns(&self) -> String {
        let Written {
            checkpoints,
            node,
            data,
            meta,
        } = self;
        format!("{checkpoints:>8}{node:>10}{data:>10}{meta:>8}")
    }

    /// True if that is what the kernel has, `other`, as far as the tolerances go.
    fn is_near(&self, other: &Written, count: u32) -> bool {
        let blocks = |w: &Written| w.node + w.data + w.meta;
        let slack = TOLERANCE * blocks(other) + OF_OBJECTS * f64::from(count);
        let near = (blocks(self) - blocks(other)).abs() <= slack;
        let (ours, theirs) = (self.checkpoints, other.checkpoints);
        near && ours <= MEMORY * theirs + 3.0 && theirs <= CHECKPOINTS * ours + 3.0
    }
}

pub fn run(args: &Args) -> Result {
    let varve = match &args.varve {
        Some(varve) => varve.clone(),
        None => build::binary("varve")?,
    };
    println!(
        "blocks of 4 KiB: checkpoints, node, data (with directories), meta; kernel, then varve"
    );
    let mut off = Vec::new();
    for count in &args.counts {
        let kernel = kernel(&args.ops, *count)?;
        for (op, kernel) in args.ops.iter().zip(kernel) {
            let ours = ours(&varve, op, *count)?;
            let within = ours.is_near(&kernel, *count);
            let (left, right) = (kernel.columns(), ours.columns());
            println!("{op:<8}{count:>9}{left}  |{right}  within: {within}");
            if !within {
                off.push(format!("{op} of {count}"));
            }
        }
    }
    match off.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "other checkpoints than the kernel's: {}",
            off.join(", ")
        )),
    }
}

/// The kernel's figures, in one boot.
fn kernel(ops: &[String], count: u32) -> Result<Vec<Written>> {
    let folder = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let image = folder.path().join("image");
    fs::File::create(&image)
        .and_then(|file| file.set_len(MIB << 20))
        .map_err(|e| format!("{}: {e}", image.display()))?;
    let guest = Guest::new(&[f2fs_traffic::GUEST]).map_err(|e| e.to_string())?;
    let limit = Duration::from_secs(120 + u64::from(count) / 500);
    // All objects with their nodes and pages fit, as in the runs beside them.
    let guest = guest.disk(&image).limit(limit).memory(1024 + count / 50);
    let mut script = String::from(
        "guest load f2fs\n\
         mount -t debugfs debug /sys/kernel/debug\n\
         echo 0 >/proc/sys/vm/dirty_writeback_centisecs\n\
         echo 95 >/proc/sys/vm/dirty_ratio\n\
         echo 90 >/proc/sys/vm/dirty_background_ratio\n",
    );
    for op in ops {
        script += &format!(
            "mkfs.f2fs -q -f $DISK0\n\
             mount -t f2fs -o fsync_mode=posix,background_gc=off,noatime $DISK0 $MNT\n\
             echo 86400 >/sys/fs/f2fs/$BLOCK0/cp_interval\n\
             echo 86400 >/sys/fs/f2fs/$BLOCK0/idle_interval\n\
             echo 1 >/sys/fs/f2fs/$BLOCK0/iostat_enable\n\
             guest figures $BLOCK0 $DIR/{op} names {op} {count} $MNT\n\
             umount $MNT\n"
        );
    }
    guest.check(&script).map_err(|e| e.to_string())?;
    ops.iter()
        .map(|op| {
            let path = guest.scratch().join(op);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(of_kernel(&f2fs_traffic::parse(&text)?))
        })
        .collect()
}

fn of_kernel(figures: &Figures) -> Written {
    let sum = |names: &[&str]| names.iter().filter_map(|name| figures.get(*name)).sum();
    Written {
        checkpoints: sum(&["checkpoints"]),
        node: sum(&["node", "gc_node", "cp_node"]),
        data: sum(&["data", "gc_data", "cp_data"]),
        meta: sum(&["meta", "cp_meta"]),
    }
}

/// Varve's figures, from its `results.json`.
fn ours(varve: &Path, op: &str, count: u32) -> Result<Written> {
    let width = guest::names::WIDTH;
    let kind = [
        "--device",
        "nvme-980pro",
        "--fs",
        "f2fs",
        "--schemes",
        "checkpoint-60",
    ];
    let spec = format!("meta:op={op},count={count},size=4k,width={width}");
    let results = ext4_traffic::results(varve, &kind, MIB, &spec)?;
    let run = &results["runs"][0];
    let blocks = |kind: &str| run["blocks"][kind].as_f64().unwrap_or(0.0);
    Ok(Written {
        // The last block of a pack is the only FUA write.
        checkpoints: run["device"]["fua_writes"].as_f64().unwrap_or(f64::NAN),
        node: blocks("node"),
        data: blocks("data") + blocks("dentry"),
        meta: ["checkpoint_pack", "nat", "sit", "ssa"]
            .map(blocks)
            .iter()
            .sum(),
    })
}
