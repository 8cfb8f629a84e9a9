//! The calling program's side inside the guest. A script calls it as `guest WORD ARGUMENT...`:
//!
//! | words | what |
//! |---|---|
//! | `load MODULE` | loads a module of the kernel and what it needs |
//! | `poweroff` | ends the guest at once: nothing is synced or unmounted |
//! | `crash` | asks the host to kill the guest, and waits |
//! | `plan NAME SEED DIR` | puts a directory through a [`Plan`]; prints the error numbers of a plan that may fail |
//! | `plan-crash NAME SEED DIR` | the same, then `crash` with the plan's open files still open |
//! | `judge FS OPTIONS DEVICE...` | judges states on the devices until it is told to stop ([`judge`](crate::judge)); options as those of `mount -o`, or `-` |
//! | `tree DIR FILE` | writes the [`Tree`](crate::Tree) of a directory to a file |
//! | `figures DEVICE FILE names OPERATION COUNT DIR` | does an operation on so many names ([`names`](crate::names)); writes the same as below |
//! | `figures DEVICE FILE PROGRAM ARGUMENT...` | runs a program that says `ready`, waits for a line, works, says `done`; writes what the device did meanwhile: lines of name and number |

use crate::names::Names;
use crate::vm::{CALL, SCRATCH};
use crate::{Plan, judge, modules, posix};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Does what the script asked for and ends the process; returns at once if no script asks for
/// anything, that is on the host.
pub fn hook() {
    hook_with(|_| None);
}

/// Like [`hook`], with words of the calling program, which `own` answers; `None`: it does not know
/// them either.
pub fn hook_with(own: impl FnOnce(&[&str]) -> Option<io::Result<()>>) {
    let Ok(call) = std::env::var(CALL) else {
        return;
    };
    let words: Vec<&str> = call.split_whitespace().collect();
    let answered = own(&words).unwrap_or_else(|| answer(&words));
    let code = match answered {
        Ok(()) => 0,
        Err(e) => {
            let _ = writeln!(io::stderr(), "guest {call}: {e}");
            1
        }
    };
    std::process::exit(code);
}

fn answer(words: &[&str]) -> io::Result<()> {
    match words {
        ["load", module] => modules::load(module),
        ["poweroff"] => Ok(rustix::system::reboot(
            rustix::system::RebootCommand::PowerOff,
        )?),
        ["crash"] => crash(),
        ["plan", name, seed, dir] => plan(name, seed, dir).map(drop),
        ["plan-crash", name, seed, dir] => {
            let _held = plan(name, seed, dir)?;
            crash()
        }
        ["judge", fs, options, disks @ ..] => {
            let options = if *options == "-" { "" } else { options };
            let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
            judge::judge(&scratch()?, (fs, options), &disks)
        }
        ["tree", dir, file] => fs::write(file, posix::tree(Path::new(dir))?.to_text()),
        ["figures", device, file, "names", op, count, dir] => {
            let count = count.parse().map_err(io::Error::other)?;
            let names = Names::prepare(op.parse()?, count, Path::new(dir))?;
            figures(device, Path::new(file), || names.work())
        }
        ["figures", device, file, program, arguments @ ..] => figures_of_program(
            device,
            Path::new(file),
            Command::new(program).args(arguments),
        ),
        _ => Err(io::Error::other("not known")),
    }
}

fn plan(name: &str, seed: &str, dir: &str) -> io::Result<Vec<fs::File>> {
    let seed = seed.parse().map_err(io::Error::other)?;
    let plan = Plan::named(name, seed).map_err(io::Error::other)?;
    let (codes, held) = posix::run(Path::new(dir), &plan)?;
    if plan.may_fail {
        let path = scratch()?.join(format!("{name}.codes"));
        let text: String = codes.iter().map(|code| format!("{code}\n")).collect();
        fs::write(path, text)?;
    }
    Ok(held)
}

pub(crate) fn scratch() -> io::Result<std::path::PathBuf> {
    std::env::var_os(SCRATCH)
        .map(Into::into)
        .ok_or_else(|| io::Error::other("not in a guest"))
}

/// The host kills us as soon as it sees the file.
fn crash() -> io::Result<()> {
    fs::write(scratch()?.join("crash"), "")?;
    std::thread::sleep(Duration::from_secs(60));
    Err(io::Error::other("the host did not kill the guest"))
}

/// Counters of a device (`/sys/block/DEVICE/stat`, Documentation/block/stat.rst) and, if there is
/// an F2FS on it that counts (`iostat_enable`), of what F2FS wrote, by kind in blocks of 4 KiB
/// (`/proc/fs/f2fs/DEVICE/iostat_info`).
fn counters(device: &str) -> io::Result<Vec<(String, u64)>> {
    let text = fs::read_to_string(format!("/sys/block/{device}/stat"))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .filter_map(|f| f.parse().ok())
        .collect();
    let Some(f) = fields.get(..16) else {
        return Err(io::Error::other(format!("figures of {device}: {text}")));
    };
    let mut found: Vec<(String, u64)> =
        [("commands", f[4]), ("blocks", f[6] / 8), ("flushes", f[15])]
            .map(|(name, n)| (name.into(), n))
            .into();
    let text =
        fs::read_to_string(format!("/proc/fs/f2fs/{device}/iostat_info")).unwrap_or_default();
    let written = text
        .lines()
        .skip_while(|line| *line != "[WRITE]")
        .take_while(|line| *line != "[READ]");
    for (name, bytes) in written.filter_map(|line| line.split_once(':')) {
        // "fs data", "fs node", "fs meta", "fs cp data", ...: what F2FS sent to the device, not
        // what it was given.
        let (Some(name), Ok(bytes)) = (name.strip_prefix("fs "), bytes.trim().parse::<u64>())
        else {
            continue;
        };
        found.push((name.replace(' ', "_"), bytes / 4096));
    }
    found.extend(checkpoints());
    Ok(found)
}

/// Checkpoints of the F2FS that is mounted, and the blocks that they wrote, by kind: lines `CP
/// calls: N` and `- KIND blocks : N` of `/sys/kernel/debug/f2fs/status`, if it is there.
fn checkpoints() -> Vec<(String, u64)> {
    let text = fs::read_to_string("/sys/kernel/debug/f2fs/status").unwrap_or_default();
    let number = |text: &str| {
        let word = text.split_whitespace().next()?;
        word.parse::<u64>().ok()
    };
    let line = |line: &str| {
        let (name, value) = line.trim().split_once(':')?;
        match name.trim() {
            "CP calls" => Some(("checkpoints".to_string(), number(value)?)),
            name => {
                let kind = name.strip_prefix("- ")?.trim().strip_suffix(" blocks")?;
                Some((format!("checkpoint_{kind}"), number(value)?))
            }
        }
    };
    text.lines().filter_map(line).collect()
}

/// Writes what the device did while `work` was done.
fn figures(device: &str, file: &Path, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = counters(device)?;
    work()?;
    let after = counters(device)?;
    let lines = after
        .iter()
        .zip(&before)
        .map(|((name, b), (_, a))| format!("{name} {}\n", b - a));
    fs::write(file, lines.collect::<String>())
}

fn figures_of_program(device: &str, file: &Path, command: &mut Command) -> io::Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("it was asked for");
    let mut output = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
    let mut expect = |word: &str| match output.next() {
        Some(Ok(line)) if line == word => Ok(()),
        other => Err(io::Error::other(format!("{word} expected, not {other:?}"))),
    };
    expect("ready")?;
    figures(device, file, || {
        writeln!(input, "go")?;
        expect("done")
    })?;
    drop(input);
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("the program ended badly")),
    }
}
