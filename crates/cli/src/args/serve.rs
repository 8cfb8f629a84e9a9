//! Arguments of `varve serve`.

use crate::size;
use rig::Time;
use serve::nbd::Address;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct ServeArgs {
    /// An image file or block device, which is changed in place; the name of a profile, with
    /// changes: `nandsim-2007,transparent=on`; the file of a profile: `./card.toml`; or a saved
    /// device.
    pub device: String,
    #[command(flatten)]
    pub at: Place,
    /// Answers when the modelled device would, at FACTOR of its time: 1 as it, 0.1 ten times
    /// faster. Without it every answer comes at once.
    #[arg(long, value_name = "FACTOR", value_parser = permille)]
    pub pace: Option<u32>,
    /// Cuts the power of the device after so many commands, or at a time of the model (`250ms`),
    /// and ends.
    #[arg(long, value_name = "N|TIME", value_parser = kill)]
    pub kill_at: Option<Kill>,
    /// Seed of what the cut leaves.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Saves the device in FILE at the end, as the power cut left it or properly switched off.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Replaces a file that exists by the saved one.
    #[arg(long, requires = "save")]
    pub force: bool,
    /// Size of a new device, MiB, or with k, M, G or T [default: that of the profile].
    #[arg(long, value_name = "SIZE", value_parser = size::mib_not_zero)]
    pub size: Option<u64>,
    /// Refuses writes.
    #[arg(long)]
    pub read_only: bool,
    /// Queues of vhost-user, 1 to 16.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub queues: u16,
    /// Name of the export of NBD; the empty name asks for it as well.
    #[arg(long, default_value = "")]
    pub export: String,
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
pub struct Place {
    /// A virtio disk for QEMU or User Mode Linux, at this Unix socket.
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Option<PathBuf>,
    /// A network block device at `HOST[:PORT]` or `unix:PATH`; who can connect can change it.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Option<Address>,
    /// A file `device` in this folder (FUSE), for `losetup --direct-io=on` and for programs.
    #[arg(long, value_name = "FOLDER")]
    pub file: Option<PathBuf>,
}

/// When the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kill {
    /// After this command, counted from 1.
    After(u64),
    /// At this time of the model.
    At(Time),
}

fn permille(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no factor from 0.001 to 1000");
    let factor: f64 = text.parse().map_err(|_| wrong())?;
    match (0.001..=1000.0).contains(&factor) {
        true => Ok((factor * 1000.0).round() as u32),
        false => Err(wrong()),
    }
}

fn kill(text: &str) -> Result<Kill, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wrong = || format!("`{text}`: a number of commands, or a time in ns, us, ms or s");
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit: u64 = match &text[digits.len()..] {
        "" if number > 0 => return Ok(Kill::After(number)),
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let at = number.checked_mul(unit).ok_or_else(wrong)?;
    Ok(Kill::At(Time(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_and_factors_are_read() {
        assert_eq!(kill("7"), Ok(Kill::After(7)));
        assert_eq!(kill("250ms"), Ok(Kill::At(Time(250_000_000))));
        for wrong in ["", "0", "x", "1h", "-1", "99999999999999999999s"] {
            assert!(kill(wrong).is_err(), "{wrong}");
        }
        assert_eq!(permille("0.5"), Ok(500));
        for wrong in ["0", "x", "-1", "nan", "1e9"] {
            assert!(permille(wrong).is_err(), "{wrong}");
        }
    }
}
