//! `cargo xtask bench requests`: what the kernel asks a mount for, by mount options side by side.
//!
//! Requests are counted with the kernel's tracepoints `fuse_request_send` and `fuse_request_end`,
//! in a trace buffer of the bench's own. Forgets pass neither. The second one does not tell of
//! which kind a request is; one that passed it alone is counted as `background`, so that none is
//! missed over a transport whose requests go another way. Every round runs each set of options once
//! on a volume formatted anew, over each transport; rates are compared with those of the first set
//! in the same round.

use super::aims;
use super::loads::{self, Amount, drop_caches};
use super::mount::check_machine;
use super::sides::{Ground, Side};
use crate::sh::sh;
use crate::uring::{self, Switched};
use crate::{Result, workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const IMAGE_BYTES: u64 = 1 << 30;
const TRACING: &str = "/sys/kernel/tracing";
/// More than the requests of one load take, KiB for each processor.
const BUFFER_KIB: &str = "65536";
/// Longer than the kernel keeps attributes by default.
const LATER: Duration = Duration::from_millis(1100);
/// The points of the kernel that a request passes.
const POINTS: [&str; 2] = ["fuse_request_send", "fuse_request_end"];
/// The kind of requests that passed the second point alone.
const BACKGROUND: &str = "background";
const LOADS: [&str; 6] = ["names", "delete", "wal", "list", "again", "direct"];

#[derive(clap::Args)]
pub struct Args {
    /// Mount options beside `scheme=emmc`; each `--variant` is one set
    #[arg(long = "variant", value_name = "OPTIONS")]
    variants: Vec<String>,
    /// How requests come: dev, uring [default: both, where the host allows it]
    #[arg(long, value_delimiter = ',', value_parser = ["dev", "uring"])]
    transport: Vec<String>,
    /// Rounds; medians count
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Files and transactions: those of `bench mount --quick`
    #[arg(long)]
    quick: bool,
    /// Where the image lies, on the disk to measure on
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The program, instead of one built for release
    #[arg(long)]
    varve: Option<PathBuf>,
}

/// What one load did: units per second, and requests of each kind for a unit.
struct Seen {
    rate: f64,
    requests: BTreeMap<String, f64>,
}

/// Runs `cargo xtask bench requests`.
pub fn run(args: &Args) -> Result {
    check_machine()?;
    let varve = match &args.varve {
        Some(path) => path.clone(),
        None => workspace::build_varve(&["--release"])?,
    };
    let host = |e: std::io::Error| format!("{}: {e}", args.dir.display());
    fs::create_dir_all(&args.dir).map_err(host)?;
    let dir = args.dir.canonicalize().map_err(host)?;
    let folder = tempfile::tempdir_in(dir).map_err(|e| format!("a folder: {e}"))?;
    let mut ground = Ground::new(varve, None, folder.path(), IMAGE_BYTES)?;
    let sets = sets(args, uring::lacks());
    // Before the first mount, and until the last one has ended.
    let over_ring = |set: &String| set.contains("transport=uring");
    let _on = sets.iter().any(over_ring).then(Switched::on).transpose()?;
    let amount = if args.quick {
        Amount::QUICK
    } else {
        Amount::FULL
    };
    let trace = Trace::new()?;
    let mut seen: Vec<BTreeMap<&str, Vec<Seen>>> = Vec::new();
    seen.resize_with(sets.len(), BTreeMap::new);
    for round in 1..=args.repeats.max(1) {
        for (set, seen) in sets.iter().zip(&mut seen) {
            eprintln!("round {round}: `{set}`");
            ground.options = Some(set.clone());
            one(&ground, &amount, &trace, seen)?;
        }
    }
    print(&sets, &seen);
    Ok(())
}

/// Sets of mount options: each variant over each transport. `lacks` is why the host has no ring.
fn sets(args: &Args, lacks: Option<String>) -> Vec<String> {
    let transports = match (args.transport.is_empty(), lacks) {
        (false, _) => args.transport.clone(),
        (true, None) => vec!["dev".into(), "uring".into()],
        (true, Some(why)) => {
            eprintln!("without requests over io_uring: {why}");
            vec!["dev".into()]
        }
    };
    let variants = match args.variants.is_empty() {
        true => vec![
            String::new(),
            "writeback".into(),
            "attr_timeout=3600".into(),
        ],
        false => args.variants.clone(),
    };
    let over = |transport: &String, variant: &String| match variant.is_empty() {
        true => format!("transport={transport}"),
        false => format!("transport={transport},{variant}"),
    };
    let all = transports
        .iter()
        .flat_map(|t| variants.iter().map(move |v| over(t, v)));
    all.collect()
}

fn one(
    ground: &Ground,
    amount: &Amount,
    trace: &Trace,
    seen: &mut BTreeMap<&str, Vec<Seen>>,
) -> Result {
    ground.format(Side::Emmc)?;
    let mount = ground.mount(Side::Emmc)?;
    let dir = mount.dir();
    for load in LOADS {
        drop_caches()?;
        prepare(load, dir, amount)?;
        trace.start(dir)?;
        let (units, seconds) = work(load, ground, dir, amount)?;
        let counted = trace.stop()?;
        let requests = counted.into_iter().map(|(k, n)| (k, n as f64 / units));
        seen.entry(load).or_default().push(Seen {
            rate: units / seconds,
            requests: requests.collect(),
        });
    }
    mount.end()?;
    ground.check(Side::Emmc)
}

/// What a load finds there.
fn prepare(load: &str, dir: &Path, amount: &Amount) -> Result {
    let many = dir.join("many");
    let host = |e: std::io::Error| format!("{}: {e}", many.display());
    match load {
        "list" => {
            fs::create_dir(&many).map_err(host)?;
            for n in 0..amount.files {
                File::create_new(many.join(n.to_string())).map_err(host)?;
            }
            drop_caches()
        }
        "again" => {
            each(&many, amount)?;
            std::thread::sleep(LATER);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn each(many: &Path, amount: &Amount) -> Result {
    for n in 0..amount.files {
        let path = many.join(n.to_string());
        fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Units of work done, and the seconds that they took.
fn work(load: &str, ground: &Ground, dir: &Path, amount: &Amount) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let files = f64::from(amount.files);
    let since = || begun.elapsed().as_secs_f64();
    match load {
        "names" => {
            let seconds = loads::names(dir, amount)?;
            Ok((files, seconds.iter().sum()))
        }
        "delete" | "wal" => {
            let rate = loads::sqlite(&ground.varve, dir, load, amount)?;
            let units = f64::from(amount.transactions);
            Ok((units, units / rate))
        }
        "list" => {
            sh("ls", &["-lU", &dir.join("many").to_string_lossy()])?;
            Ok((files, since()))
        }
        "again" => {
            each(&dir.join("many"), amount)?;
            Ok((files, since()))
        }
        _ => {
            let units = loads::direct(&dir.join("direct"), amount)?;
            Ok(units)
        }
    }
}

/// For each load, the rate (and its ratio to the first set of options), requests of a unit, and of
/// which kinds they are.
fn print(sets: &[String], seen: &[BTreeMap<&str, Vec<Seen>>]) {
    println!("| load | options | rate, /s | ratio | requests | of these |");
    println!("|---|---|---|---|---|---|");
    for load in LOADS {
        for (set, mine) in sets.iter().zip(seen) {
            let mine = &mine[load];
            let ratios = mine
                .iter()
                .zip(&seen[0][load])
                .map(|(a, b)| a.rate / b.rate);
            let median = |of: Vec<f64>| aims::median(of).unwrap_or(f64::NAN);
            let ratio = median(ratios.collect());
            let rate = median(mine.iter().map(|s| s.rate).collect());
            // The sum of nothing is -0.
            let sum = |s: &Seen| s.requests.values().fold(0.0, |all, n| all + n);
            let all = median(mine.iter().map(sum).collect());
            let mut kinds: Vec<_> = mine[0].requests.iter().collect();
            kinds.sort_by(|a, b| b.1.total_cmp(a.1));
            let kinds = kinds.iter().filter(|(_, n)| **n >= 0.05);
            let kinds: Vec<_> = kinds.map(|(kind, n)| format!("{kind} {n:.1}")).collect();
            println!(
                "| {load} | {set} | {rate:.0} | {ratio:.2} | {all:.2} | {} |",
                kinds.join(", ")
            );
        }
    }
}

/// A trace buffer of the kernel in which requests are recorded.
struct Trace(PathBuf);

impl Trace {
    fn new() -> Result<Trace> {
        if !Path::new(TRACING).join("events").exists() {
            sh("mount", &["-t", "tracefs", "nodev", TRACING])?;
        }
        let name = format!("varve-{}", std::process::id());
        let trace = Trace(Path::new(TRACING).join("instances").join(name));
        fs::create_dir(&trace.0).map_err(|e| format!("{}: {e}", trace.0.display()))?;
        trace.set("buffer_size_kb", BUFFER_KIB)?;
        trace.set("tracing_on", "0")?;
        trace.set_points("enable", "1")?;
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Result {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The same for each point.
    fn set_points(&self, file: &str, value: &str) -> Result {
        let set = |point: &&str| self.set(&format!("events/fuse/{point}/{file}"), value);
        POINTS.iter().try_for_each(set)
    }

    /// From now on, requests of the mount at `dir` alone: the point counts those of all mounts.
    fn start(&self, dir: &Path) -> Result {
        let meta = fs::metadata(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        // A mount of FUSE has a device without a major number.
        let only = format!("connection == {}", meta.dev());
        self.set_points("filter", &only)?;
        self.set("trace", "")?;
        self.set("tracing_on", "1")
    }

    /// Requests by kind since the start.
    fn stop(&self) -> Result<BTreeMap<String, u64>> {
        self.set("tracing_on", "0")?;
        let path = self.0.join("trace");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        counted(&text)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.set_points("enable", "0");
        // The kernel removes such a folder with all of its files.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Counts the kinds of requests in a trace, which begins with the numbers of entries there are and
/// were.
fn counted(trace: &str) -> Result<BTreeMap<String, u64>> {
    let numbers = trace
        .lines()
        .find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written:"));
    let numbers = numbers.and_then(|rest| rest.split_whitespace().next()?.split_once('/'));
    match numbers {
        Some((held, written)) if held != written => {
            return Err(format!("the trace has {held} requests of {written}"));
        }
        _ => {}
    }
    let mut kinds = BTreeMap::new();
    let (mut sent, mut unsent) = (BTreeSet::new(), BTreeSet::new());
    for line in trace.lines() {
        let Some(number) = number(line) else {
            continue;
        };
        match line.split_once("(FUSE_") {
            Some((_, rest)) => {
                let kind = rest.split(')').next().unwrap_or(rest).to_lowercase();
                *kinds.entry(kind).or_insert(0) += 1;
                sent.insert(number);
            }
            None => drop(unsent.insert(number)),
        }
    }
    let count = unsent.difference(&sent).count() as u64;
    if count > 0 {
        kinds.insert(BACKGROUND.into(), count);
    }
    Ok(kinds)
}

/// The number of the request that a line of the trace is about.
fn number(line: &str) -> Option<u64> {
    let point = line.split_once(": fuse_request_")?.1;
    let number = point.split_once(" req ")?.1.split(' ').next()?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
# entries-in-buffer/entries-written: 6/6   #P:2
  ls-1 [0] ..... 1.0: fuse_request_send: connection 40 req 2 opcode 1 (FUSE_LOOKUP) len 45
  d-9  [1] ..... 1.0: fuse_request_end: connection 40 req 2 len 144 error 0
  ls-1 [0] ..... 1.1: fuse_request_send: connection 40 req 4 opcode 3 (FUSE_GETATTR) len 56
  ls-1 [0] ..... 1.2: fuse_request_send: connection 40 req 6 opcode 1 (FUSE_LOOKUP) len 45
  d-9  [1] ..... 1.3: fuse_request_end: connection 40 req 8 len 16 error 0
  d-9  [1] ..... 1.4: fuse_request_end: connection 40 req 6 len 16 error -2
";

    #[test]
    fn requests_are_counted_by_kind_and_a_trace_with_gaps_is_refused() {
        let kinds = counted(TRACE).expect("whole");
        assert_eq!(
            kinds.into_iter().collect::<Vec<_>>(),
            [
                (BACKGROUND.into(), 1),
                ("getattr".into(), 1),
                ("lookup".into(), 2)
            ]
        );
        let short = TRACE.replace("6/6", "6/9");
        assert!(counted(&short).is_err_and(|e| e.contains("6 requests of 9")));
    }

    #[test]
    fn each_set_runs_over_each_transport_that_the_host_has() {
        let args = |transport: &[&str]| Args {
            variants: vec![String::new(), "writeback".into()],
            transport: transport.iter().map(|t| t.to_string()).collect(),
            repeats: 1,
            quick: true,
            dir: PathBuf::new(),
            varve: None,
        };
        let dev = ["transport=dev", "transport=dev,writeback"];
        let ring = ["transport=uring", "transport=uring,writeback"];
        assert_eq!(sets(&args(&[]), None), [dev, ring].concat());
        assert_eq!(sets(&args(&[]), Some("no switch".into())), dev);
        assert_eq!(sets(&args(&["uring"]), Some("no switch".into())), ring);
    }
}
