//! Options of `varve crash --kernel`.

use clap::ValueEnum;
use guest::Machine;

/// A file system of a Linux kernel in a guest.
#[derive(clap::Args)]
#[command(next_help_heading = "File systems of a Linux kernel (--kernel)")]
pub struct KernelArgs {
    /// Boots a Linux kernel in a guest, runs the command of --run there in a file system of that
    /// kernel, with its path in `$VARVE_DIR`, records what the file system sends to its disk, and
    /// lets the kernel mount what each cut of the power may leave. `ack TEXT` acknowledges. With
    /// --workload instead of --run, workloads on files are judged by the rules of our own file
    /// systems.
    #[arg(long, value_enum, value_name = "MACHINE", requires_all = ["fs", "task"],
          conflicts_with_all = ["quick", "shard", "device", "schemes", "repro", "mutants", "nested",
              "nested_one_in", "moments", "no_prune", "no_fsck", "deep_one_in", "judge"])]
    pub kernel: Option<Engine>,
    /// The kernel's name of the file system: `ext4`, `f2fs`, `xfs`, `btrfs`, ...
    #[arg(long, value_name = "TYPE", requires = "kernel")]
    pub fs: Option<String>,
    /// Makes the file system in the file `$VARVE_DEVICE`, on this machine
    /// [default: `mkfs.TYPE $VARVE_DEVICE`].
    #[arg(long, value_name = "COMMAND", requires = "kernel")]
    pub mkfs: Option<String>,
    /// Options of the mount, in the run and of each state.
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "kernel",
        default_value = "",
        hide_default_value = true
    )]
    pub mount: String,
}

/// What runs the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Engine {
    /// The first of the others that boots here.
    Any,
    /// User Mode Linux.
    Uml,
    /// QEMU without KVM, and the kernel of this machine.
    Qemu,
}

impl From<Engine> for Machine {
    fn from(engine: Engine) -> Machine {
        match engine {
            Engine::Any => Machine::Any,
            Engine::Uml => Machine::UserMode,
            Engine::Qemu => Machine::Qemu,
        }
    }
}
