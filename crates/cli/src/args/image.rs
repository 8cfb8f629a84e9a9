//! Options of the commands that look into an image or take files out of it.

use clap::ValueEnum;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct InfoArgs {
    /// Image file.
    pub image: PathBuf,
    /// Device or image of an external journal, to be shown, too.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct LsArgs {
    /// Files or directories of images; an image alone is its root.
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub places: Vec<OsString>,
    /// Inode, mode, links, owner, group, size, modification time (UTC), name.
    #[arg(short, long)]
    pub long: bool,
    /// Everything below as well, with whole paths.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Prints a JSON array with all that --long shows, an object for each file.
    #[arg(long, conflicts_with = "long")]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct CatArgs {
    /// Files of images.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
}

#[derive(clap::Args)]
pub struct CopyArgs {
    /// Sources and target, as of cp: `IMAGE:/PATH... HOSTPATH`, or `HOSTPATH... IMAGE:/PATH`.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub words: Vec<OsString>,
    /// Directories with all that is in them.
    #[arg(short, long)]
    pub recursive: bool,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// What is kept of what an image says of its files, on the host. Options with the names of tar's do
/// what they do there.
#[derive(clap::Args)]
#[command(next_help_heading = "Out of an image")]
pub struct KeepArgs {
    /// Files belong to the caller. None keeps set-user-ID, set-group-ID or capabilities then.
    #[arg(short = 'o', long)]
    pub no_same_owner: bool,
    /// Permissions of the image, without regard to the umask: what root gets anyway.
    #[arg(
        short = 'p',
        long,
        visible_alias = "preserve-permissions",
        conflicts_with = "no_same_permissions"
    )]
    pub same_permissions: bool,
    /// Permissions of the image less the umask: what others get anyway.
    #[arg(long)]
    pub no_same_permissions: bool,
    /// Makes no character or block devices.
    #[arg(long)]
    pub no_devices: bool,
}

#[derive(clap::Args)]
pub struct ExtractArgs {
    /// A directory or file of an image; an image alone is its root.
    #[arg(value_name = "IMAGE[:/PATH]")]
    pub place: OsString,
    /// Folder; made if there is none.
    pub target: PathBuf,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// A structure.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DumpWhat {
    /// Of ext4 and ext3 the log, of F2FS the ring of its journal (scheme f2fsj).
    Journal,
    /// Of F2FS: both checkpoint packs.
    Checkpoint,
    /// One inode.
    Inode,
}

#[derive(clap::Args)]
pub struct DumpArgs {
    /// What.
    pub what: DumpWhat,
    /// Image file.
    pub image: PathBuf,
    /// With `journal`: device or image of an external journal.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// With `inode`: its number, or its path in the image.
    #[arg(value_name = "NUMBER|/PATH")]
    pub of: Option<OsString>,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub json: bool,
}
