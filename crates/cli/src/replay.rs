//! `varve replay`: like `compare`, with the system calls of a recording as the workload; or prints
//! a summary of a recording. Recordings of block requests are handled in [`blocks`].

use crate::args::ReplayArgs;
use crate::blocks;
use crate::compare::{self, What};
use crate::failure::{Failure, failed, usage};
use crate::out::say;
use crate::shell;
use crate::table;
use base::plain;
use serde_json::json;
use std::fmt::Write;
use work::recording::stats::{self, Spread, Stats};
use work::recording::{self, Format, Reading};
use work::workload::{FilebenchSpec, FioJobsSpec, ReplaySpec, Workload, filebench};

/// Reads the recording, then describes it or runs it on each scheme.
pub fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let format = match args.format.as_deref() {
        None => recording::detect_file(&args.file).map_err(failed)?,
        Some("mobibench") => Format::Mobibench,
        Some("strace") => Format::Strace,
        Some("filebench") => Format::Filebench,
        Some("fiojobs") => Format::FioJobs,
        Some(text) => Format::Blocks(text.parse().map_err(usage)?),
    };
    if let Format::Blocks(format) = format {
        if args.by.is_some() {
            return Err(usage(
                "--by is for recordings of system calls; block requests tell no file, call or process",
            ));
        }
        return blocks::replay(args, format);
    }
    if let Some(option) = blocks::given(args) {
        return Err(usage(format!(
            "{option} is for recordings of block requests; {}",
            format.words()
        )));
    }
    if let Format::Filebench | Format::FioJobs = format {
        return model(args, format);
    }
    // The texts are parsed by the code that defines them, and before a long file is read.
    let pace = args.pace.as_deref().unwrap_or("busy");
    let (think, idle) = (&args.think, &args.idle);
    let text = format!(
        "replay:pace={pace},think={think},idle={idle}{}",
        aged(args, ",aged=")
    );
    let workload = text.parse().map_err(usage)?;
    let Workload::Replay(spec) = workload else {
        return Err(usage(format!("`{text}` is no replay")));
    };
    let (recording, reading) = recording::read_with(&args.file, args.strict).map_err(failed)?;
    if args.stats {
        return describe(args, &reading, &stats::of(&recording));
    }
    let words = summary(&reading, recording.calls.len());
    match args.on.json {
        true => eprint!("{words}"),
        false => say(&words)?,
    }
    let spec = ReplaySpec {
        background: spec.background,
        ..ReplaySpec::of_file(&recording.name, spec.pacing)
    };
    let what = What {
        command: "replay",
        words: format!(
            "varve replay {} --pace {pace} --think {think} --idle {idle}{}",
            // The name as it is: in a result it is one word.
            shell::file(&args.file.file_name().unwrap_or_default().to_string_lossy()),
            aged(args, " --aged ")
        ),
        workload: Workload::Replay(spec),
        recording: Some(args.file.clone()),
        by: args.by,
    };
    compare::run(&args.on, &what, None)
}

/// The age of the volume behind this word, if one was asked for.
fn aged(args: &ReplayArgs, word: &str) -> String {
    let percent = args.aged.as_ref();
    percent.map_or(String::new(), |percent| format!("{word}{percent}"))
}

/// A workload model of Filebench or a job file of fio: what it has, then its run on each scheme.
fn model(args: &ReplayArgs, format: Format) -> Result<(), Failure> {
    let whose = match format {
        Format::Filebench => "a model of Filebench",
        _ => "a job file of fio",
    };
    if args.by.is_some() {
        return Err(usage(format!(
            "--by is for recordings of system calls; {whose} has no calls of files to tell apart"
        )));
    }
    if args.pace.is_some() || args.strict {
        let option = if args.strict { "--strict" } else { "--pace" };
        let what = format!(
            "{option} is for recordings; {whose} has its own pace, and is always read strictly"
        );
        return Err(usage(what));
    }
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let (spec, words) = match format {
        Format::Filebench => filebench_model(args, &name)?,
        _ => fio_jobs(args, &name)?,
    };
    match args.on.json {
        true => eprint!("{words}"),
        false => say(&words)?,
    }
    if args.stats {
        return Ok(());
    }
    let text = format!("{spec}{}", aged(args, ",aged="));
    let workload: Workload = text.parse().map_err(usage)?;
    let what = What {
        command: "replay",
        words: format!(
            "varve replay {}{}",
            shell::file(&name),
            aged(args, " --aged ")
        ),
        workload,
        recording: Some(args.file.clone()),
        by: None,
    };
    compare::run(&args.on, &what, None)
}

/// The text form of a model, and what is in it in words.
fn filebench_model(args: &ReplayArgs, name: &str) -> Result<(String, String), Failure> {
    let text = filebench::read(&args.file).map_err(failed)?;
    let spec = FilebenchSpec::of_file(name, text);
    let model = spec.model().map_err(failed)?;
    let files: u64 = model.filesets.iter().map(|set| set.entries).sum();
    let mut words = format!("{name}: {files} files, {} threads\n", model.threads());
    for ignored in model.ignored_words() {
        let _ = writeln!(words, "{ignored}");
    }
    Ok((spec.to_string(), plain::message(&words)))
}

/// The text form of a job file, and what is in it in words.
fn fio_jobs(args: &ReplayArgs, name: &str) -> Result<(String, String), Failure> {
    let spec = FioJobsSpec::of_file(&args.file).map_err(failed)?;
    let file = spec.jobs().map_err(failed)?;
    let copies: u64 = file.jobs.iter().map(|job| job.copies).sum();
    let mut words = format!(
        "{name}: {} jobs, {copies} with their copies\n",
        file.jobs.len()
    );
    for assumed in &file.assumed {
        let _ = writeln!(words, "assumed: {assumed}");
    }
    Ok((spec.to_string(), plain::message(&words)))
}

/// What was read and what was left out, in a few lines.
pub fn summary(reading: &Reading, calls: usize) -> String {
    let Reading {
        name,
        lines,
        threads,
        seconds,
        ..
    } = reading;
    let mut text =
        format!("{name}: {lines} lines, {threads} threads, {seconds:.1} s; {calls} calls run\n");
    let left_out: Vec<String> = reading
        .left_out
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    if !left_out.is_empty() {
        let _ = writeln!(text, "left out: {}", left_out.join(", "));
    }
    for (kind, lines) in &reading.faults {
        let _ = writeln!(
            text,
            "skipped: {} x {kind}, first in line {}: {}",
            lines.count, lines.line, lines.example
        );
    }
    text
}

/// `--stats`.
fn describe(args: &ReplayArgs, reading: &Reading, stats: &Stats) -> Result<(), Failure> {
    if args.on.json {
        let all = json!({"schema": 1, "reading": reading, "stats": stats});
        return say(&format!("{all:#}\n"));
    }
    let calls = stats.calls.values().sum::<u64>();
    say(&summary(reading, calls as usize))?;
    let mut table = table::framed(["figure", "value"]);
    for (figure, value) in figures(reading, stats) {
        table.add_row([figure, value]);
    }
    say(&format!("{table}\n"))?;
    if !reading.rules.is_empty() {
        let mut table = table::framed(["rule of the reader (docs/use/recordings.md)", "calls"]);
        for (rule, count) in &reading.rules {
            table.add_row([rule.to_string(), count.to_string()]);
        }
        say(&format!("{table}\n"))?;
    }
    Ok(())
}

fn figures(reading: &Reading, stats: &Stats) -> Vec<(String, String)> {
    let spread = |s: Spread| format!("{:.2} / {:.2} / {:.2}", s.mean, s.median, s.p90);
    let share = stats.directory_syncs as f64 / stats.syncs.max(1) as f64 * 100.0;
    let mut rows = vec![
        ("duration, s", format!("{:.3}", reading.seconds)),
        (
            "threads: all / with calls on files",
            format!("{} / {}", reading.threads, stats.threads),
        ),
        ("fsyncs", stats.syncs.to_string()),
        (
            "of them of directories",
            format!("{} ({share:.0} %)", stats.directory_syncs),
        ),
        ("fsyncs per 5 s", format!("{:.1}", stats.syncs_per_5s)),
        (
            "windows of 5 s: with fsyncs / all / most fsyncs",
            format!(
                "{} / {} / {}",
                stats.windows_active, stats.windows, stats.windows_max
            ),
        ),
        (
            "4 KiB pages per fsync, mean / median / p90",
            spread(stats.pages_per_sync),
        ),
        (
            "bytes per fsync, mean / median / p90",
            spread(stats.bytes_per_sync),
        ),
        (
            "between fsyncs, ms, mean / median / p90",
            spread(stats.sync_gap_ms),
        ),
        (
            "application's own time per fsync, us",
            format!("{:.0}", stats.own_us_per_sync),
        ),
        (
            "own time of a thread between its fsyncs, us, mean / median / p90",
            spread(stats.thread_own_us),
        ),
        ("bytes written", stats.written_bytes.to_string()),
    ];
    let sizes: Vec<(String, String)> = stats
        .write_sizes
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(most, count)| (format!("writes up to {most} bytes"), count.to_string()))
        .collect();
    let kinds = stats.calls.iter();
    let kinds = kinds.map(|(kind, count)| (format!("calls: {kind}"), count.to_string()));
    let mut all: Vec<(String, String)> = rows.drain(..).map(|(f, v)| (f.into(), v)).collect();
    all.extend(sizes);
    all.extend(kinds);
    all
}
