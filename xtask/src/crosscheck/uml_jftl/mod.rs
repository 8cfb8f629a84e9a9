//! `cargo xtask crosscheck uml-jftl`: an unmodified Linux on a device that remaps by itself.
//!
//! `varve serve` offers the flash of the JFTL paper with transparent remapping by vhost-user, once
//! for each data mode of ext4, and once more with copies in memory to compare with. Each load gets
//! new devices, because garbage collection and the map depend on what a device has seen. A guest's
//! kernel makes an ext4 with blocks of 4 KiB and a journal of 32 MiB, mounts it
//! without timers, runs the load and unmounts. The server's statistics before and after tell what
//! the device did. What is read behind another mount has to be what the guest wrote, and
//! `e2fsck -fn` has to find nothing.

mod server;
mod table;

use super::f2fs_traffic::GUEST;
use crate::test::build;
use crate::{Result, workspace};
use guest::{Guest, Session};
use server::{Server, Statistics};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Measured, Row};

const LOADS: [&str; 8] = [
    "sequential",
    "records-4k",
    "records-1m",
    "overwrites",
    "small-files",
    "churn",
    "processes",
    "mapped",
];
const MODES: [&str; 3] = ["journal", "ordered", "writeback"];
/// Name, and device as `varve serve` takes it.
const DEVICES: [(&str, &str); 2] = [
    ("reads", "nandsim-2007,transparent=on"),
    (
        "copies",
        "nandsim-2007,transparent=on,transparent_copies_mib=64",
    ),
];
/// Bytes of each device.
const MIB: u64 = 512;
/// Pages of 512 bytes in a block.
const PAGES: u64 = 8;

#[derive(clap::Args)]
pub struct Args {
    /// Loads
    #[arg(long, value_delimiter = ',', default_values_t = LOADS.map(String::from))]
    loads: Vec<String>,
    /// How the device compares: `reads` of the chips, or `copies` in memory
    #[arg(long, value_delimiter = ',', default_values_t = DEVICES.map(|(name, _)| name.to_string()))]
    devices: Vec<String>,
    /// Write the measured rows as the committed table
    #[arg(long)]
    write: bool,
    /// The program `varve`, if it is not to be built first
    #[arg(long)]
    varve: Option<PathBuf>,
}

/// A device and the disk that it is in the guest.
struct Disk {
    device: String,
    mode: &'static str,
    server: Server,
}

pub fn run(args: &Args) -> Result {
    let unknown = |known: &[&str], given: &[String], what: &str| {
        let other = given.iter().find(|name| !known.contains(&&name[..]));
        other.map_or(Ok(()), |name| {
            Err(format!(
                "no {what} `{name}`; there are: {}",
                known.join(", ")
            ))
        })
    };
    unknown(&LOADS, &args.loads, "load")?;
    unknown(&DEVICES.map(|(name, _)| name), &args.devices, "device")?;
    let varve = match &args.varve {
        Some(varve) => varve.clone(),
        None => build::binary("varve")?,
    };
    println!("{}", heading());
    let mut rows = Vec::new();
    let mut release = String::new();
    for load in &args.loads {
        let folder = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
        let mut disks = fresh(&varve, &args.devices, folder.path())?;
        let (mut session, kernel) = boot(&disks)?;
        release = kernel;
        for (nr, disk) in disks.iter_mut().enumerate() {
            let row = measure(&mut session, nr, disk, load)?;
            println!("{}", line(&row));
            rows.push(row);
        }
    }
    let path = workspace::root().join(table::PATH);
    match args.write {
        true => table::write(&path, &made(release, rows)),
        false => compare(&table::read(&path)?, &rows),
    }
}

/// Serves new devices, whose sockets are in `folder`.
fn fresh(varve: &Path, devices: &[String], folder: &Path) -> Result<Vec<Disk>> {
    let chosen = DEVICES
        .iter()
        .filter(|(name, _)| devices.iter().any(|d| d == name));
    let all = chosen.flat_map(|d| MODES.map(|mode| (d, mode)));
    all.map(|((name, device), mode)| {
        let socket = folder.join(format!("{name}-{mode}"));
        Ok(Disk {
            device: (*name).into(),
            mode,
            server: Server::start(varve, device, MIB, socket)?,
        })
    })
    .collect()
}

/// Boots the kernel on the disks; tells its release, too.
fn boot(disks: &[Disk]) -> Result<(Session, String)> {
    let mut guest = Guest::new(&[GUEST]).map_err(|e| e.to_string())?;
    for disk in disks {
        guest = guest.served(&disk.server.socket);
    }
    let script = guest.scratch().join("loads.py");
    fs::write(&script, include_str!("loads.py"))
        .map_err(|e| format!("{}: {e}", script.display()))?;
    let guest = guest.limit(Duration::from_secs(300));
    let mut session = Session::start(guest).map_err(|e| e.to_string())?;
    let release = said(
        &mut session,
        "guest load ext4
         echo 0 >/proc/sys/vm/dirty_writeback_centisecs
         echo 360000 >/proc/sys/vm/dirty_expire_centisecs
         uname -r",
    )?;
    Ok((session, release.trim().into()))
}

/// What a script of the guest prints.
fn said(session: &mut Session, script: &str) -> Result<String> {
    match session.run(script).map_err(|e| e.to_string())? {
        (0, said) => Ok(said),
        (status, said) => Err(format!(
            "in the guest, a script ended with {status}: {said}"
        )),
    }
}

/// A load on a fresh file system: what the device did between mount and the end of the unmount.
fn measure(session: &mut Session, nr: usize, disk: &mut Disk, load: &str) -> Result<Row> {
    let mode = disk.mode;
    said(
        session,
        &format!(
            "mkfs.ext4 -q -F -b 4096 -J size=32 -E lazy_itable_init=0,lazy_journal_init=0 $DISK{nr}
             mount -t ext4 -o data={mode},commit=600 $DISK{nr} $MNT"
        ),
    )?;
    let before = disk.server.statistics()?;
    let wrote = said(
        session,
        &format!(
            "/usr/bin/python3 -E -S loads.py $MNT {load}
             /usr/bin/python3 -E -S loads.py $MNT digest
             umount $MNT"
        ),
    )?;
    let did = disk.server.statistics()?.since(&before);
    let found = said(
        session,
        &format!(
            "echo 3 >/proc/sys/vm/drop_caches
             mount -t ext4 -o ro $DISK{nr} $MNT
             /usr/bin/python3 -E -S loads.py $MNT digest
             umount $MNT
             e2fsck -fn $DISK{nr} >words 2>&1 || {{ cat words; exit 1; }}"
        ),
    )?;
    if wrote != found || !wrote.starts_with("digest ") {
        return Err(format!(
            "{load}, data={mode}: the guest wrote {wrote} and reads {found}"
        ));
    }
    Ok(row(disk, load, &did))
}

fn row(disk: &Disk, load: &str, did: &Statistics) -> Row {
    Row {
        load: load.into(),
        device: disk.device.clone(),
        mode: disk.mode.into(),
        remapped: did.remapped,
        missed: did.missed,
        escaped: did.escaped,
        unlogged: did.unlogged,
        programmed: did.programs.div_ceil(PAGES),
        seconds: (did.seconds * 1e6).round() / 1e6,
    }
}

fn heading() -> String {
    format!(
        "{:<12}{:<8}{:<10}{:>9}{:>8}{:>9}{:>9}{:>11}{:>11}{:>9}",
        "load",
        "device",
        "data",
        "remapped",
        "missed",
        "escaped",
        "unlogged",
        "programmed",
        "seconds",
        "share"
    )
}

fn line(row: &Row) -> String {
    format!(
        "{:<12}{:<8}{:<10}{:>9}{:>8}{:>9}{:>9}{:>11}{:>11.3}{:>9.4}",
        row.load,
        row.device,
        row.mode,
        row.remapped,
        row.missed,
        row.escaped,
        row.unlogged,
        row.programmed,
        row.seconds,
        row.share()
    )
}

/// The table of today.
fn made(kernel: String, row: Vec<Row>) -> Measured {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = now.map_or(0, |since| since.as_secs() / 86400);
    Measured {
        date: date(days),
        kernel,
        row,
    }
}

/// The date so many days after 1 January 1970.
fn date(mut days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

/// Compares what was measured with the committed table, and with what it has to show.
fn compare(committed: &Measured, rows: &[Row]) -> Result {
    let mut wrong: Vec<String> = rows.iter().filter_map(Row::wrong).collect();
    for row in rows {
        match committed.row.iter().find(|old| old.name() == row.name()) {
            Some(old) => wrong.extend(old.differs(row)),
            None => wrong.push(format!("{}: not in {}", row.name(), table::PATH)),
        }
    }
    match wrong.is_empty() {
        true => {
            println!(
                "within the tolerances of {} of {}, kernel {}",
                table::PATH,
                committed.date,
                committed.kernel
            );
            Ok(())
        }
        false => Err(wrong.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_785), "2026-11-28");
    }
}
