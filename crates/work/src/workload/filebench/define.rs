//! Parses what follows `define`: `fileset`, `file`, `process`, `flowop`, `randvar`.

use super::amount::{Amount, INT_MAX, Random};
use super::attributes::{Attributes, FILE, FILESET, FLOWOP, GROUP, PROCESS, THREAD};
use super::error::{Fault, fault};
use super::model::{Fileset, Flowop, Op, Process, Step, Thread};
use super::parse::Parser;
use super::random;

/// Most files and directories of all sets, as each is kept in memory.
pub const ENTRIES_MAX: u64 = 2_000_000;
/// Most threads of all processes, as each is a task.
pub const THREADS_MAX: u64 = 1024;
/// Number of slots for open files of a thread.
pub const FDS: u32 = 128;
/// Most bytes of one transfer.
pub const IO_MAX: u64 = 64 << 20;
/// Deepest nesting of composed flowops.
const DEPTH_MAX: usize = 8;
/// Most flowops of a model; those of a composed flowop count at each use.
const FLOWOPS_MAX: usize = 10_000;
const SETS_MAX: usize = 100;
const ITERS_MAX: u64 = 1 << 40;

/// Shape of the distributions of a tree in thousandths, if the set gives none.
const GAMMA: u64 = 1500;

/// Parses the rest of a definition.
pub fn define(parser: &mut Parser<'_>) -> Result<(), Fault> {
    let (what, line) = parser.word("what to define")?;
    match what.as_str() {
        "fileset" => fileset(parser, false),
        "file" => fileset(parser, true),
        "process" => process(parser),
        "randvar" => random::define(parser),
        "flowop" => {
            let attributes = parser.attributes()?;
            let given = Attributes::new(&GROUP, line, attributes, &mut parser.model)?;
            let name = given.name()?;
            let body = body(parser)?;
            if Op::ALL.iter().any(|op| op.word() == name) {
                return Err(fault(line, format!("`{name}` is a flowop of the language")));
            }
            if parser.groups.insert(name.clone(), body).is_some() {
                return Err(fault(line, format!("flowop `{name}` is defined twice")));
            }
            Ok(())
        }
        other => {
            let what =
                format!("`define {other}`; there is: fileset, file, process, flowop, randvar");
            Err(fault(line, what))
        }
    }
}

fn fileset(parser: &mut Parser<'_>, single: bool) -> Result<(), Fault> {
    let line = parser.line();
    let known = if single { &FILE } else { &FILESET };
    let attributes = parser.attributes()?;
    let given = Attributes::new(known, line, attributes, &mut parser.model)?;
    let name = given.name()?;
    if parser.model.filesets.iter().any(|set| set.name == name) {
        return Err(fault(line, format!("`{name}` is defined twice")));
    }
    let leafdirs = given.int("leafdirs", 0, ENTRIES_MAX)?;
    let otherwise = match (single, leafdirs) {
        (true, _) => 1,
        (false, 0) => 1024,
        (false, _) => 0,
    };
    let set = Fileset {
        line,
        single,
        entries: given.int("entries", otherwise, ENTRIES_MAX)?,
        leafdirs,
        width: given.positive("dirwidth", 20, ENTRIES_MAX)?,
        dir_gamma: given.int("dirgamma", GAMMA, 1_000_000)?,
        size: size(&given)?,
        prealloc: match given.has("prealloc") {
            true if given.flag("prealloc").unwrap_or(false) => 100,
            true => given.int("prealloc", 0, 100)?,
            false => 0,
        },
        readonly: given.flag("readonly")?,
        name,
    };
    let all = |set: &Fileset| set.entries + set.leafdirs;
    let sum = parser.model.filesets.iter().map(all).sum::<u64>() + all(&set);
    if sum > ENTRIES_MAX {
        let what = format!("{sum} files and directories in all sets; at most {ENTRIES_MAX}");
        return Err(fault(line, what));
    }
    parser.model.filesets.push(set);
    if parser.model.filesets.len() > SETS_MAX {
        return Err(fault(line, format!("more than {SETS_MAX} sets of files")));
    }
    Ok(())
}

/// The size of the files of a set: a number, a random variable, or with `filesizegamma` a gamma
/// distribution around a number.
fn size(given: &Attributes) -> Result<Amount, Fault> {
    if given.has("size") && given.has("filesize") {
        return Err(fault(
            given.line,
            "`size` and `filesize` are the same attribute",
        ));
    }
    let size = given.amount("size", INT_MAX)?;
    let size = size.or(given.amount("filesize", INT_MAX)?);
    match (size, given.int("filesizegamma", 0, 1_000_000)?) {
        (None, _) => Ok(Amount::Fixed(1 << 10)),
        (Some(Amount::Fixed(mean)), gamma @ 1..) if mean > 0 => {
            let random = Random::gamma(mean, gamma as f64 / 1e3);
            let max = random.max.min(INT_MAX);
            let random = Random { max, ..random };
            Ok(Amount::Random(random.checked(given.line)?))
        }
        (Some(size), _) => Ok(size),
    }
}

fn process(parser: &mut Parser<'_>) -> Result<(), Fault> {
    let line = parser.line();
    let attributes = parser.attributes()?;
    let given = Attributes::new(&PROCESS, line, attributes, &mut parser.model)?;
    let mut process = Process {
        name: given.name()?,
        instances: given.positive("instances", 1, THREADS_MAX)?,
        threads: Vec::new(),
    };
    if parser
        .model
        .processes
        .iter()
        .any(|other| other.name == process.name)
    {
        let what = format!("process `{}` is defined twice", process.name);
        return Err(fault(line, what));
    }
    parser.mark('{')?;
    while !parser.accept('}') {
        let (word, line) = parser.word("thread or `}`")?;
        if word != "thread" {
            let what = format!("`{word}` in a process; there is: thread");
            return Err(fault(line, what));
        }
        let thread = thread(parser, line)?;
        if process
            .threads
            .iter()
            .any(|other| other.name == thread.name)
        {
            let what = format!("thread `{}` is defined twice", thread.name);
            return Err(fault(line, what));
        }
        process.threads.push(thread);
        let all = parser.model.threads()
            + process.instances * process.threads.iter().map(|t| t.instances).sum::<u64>();
        if all > THREADS_MAX {
            return Err(fault(line, format!("{all} threads; at most {THREADS_MAX}")));
        }
    }
    parser.model.processes.push(process);
    Ok(())
}

fn thread(parser: &mut Parser<'_>, line: u32) -> Result<Thread, Fault> {
    let attributes = parser.attributes()?;
    let given = Attributes::new(&THREAD, line, attributes, &mut parser.model)?;
    let thread = Thread {
        name: given.name()?,
        instances: given.positive("instances", 1, THREADS_MAX)?,
        body: body(parser)?,
    };
    match thread.body.is_empty() {
        true => Err(fault(
            line,
            format!("thread `{}` does nothing", thread.name),
        )),
        false => Ok(thread),
    }
}

/// Parses `{ flowop ... }`.
fn body(parser: &mut Parser<'_>) -> Result<Vec<Step>, Fault> {
    let line = parser.line();
    parser.mark('{')?;
    let mut steps = Vec::new();
    while !parser.accept('}') {
        let (word, line) = parser.word("flowop or `}`")?;
        if word != "flowop" {
            return Err(fault(
                line,
                format!("`{word}` in a thread; there is: flowop"),
            ));
        }
        steps.push(flowop(parser)?);
    }
    match steps.iter().map(depth).max() > Some(DEPTH_MAX) {
        true => Err(fault(
            line,
            format!("flowops of the file more than {DEPTH_MAX} deep"),
        )),
        false => Ok(steps),
    }
}

fn count(steps: &[Step]) -> usize {
    let of = |step: &Step| match step {
        Step::Op(_) => 1,
        Step::Group { body, .. } => count(body),
    };
    steps.iter().map(of).sum()
}

fn depth(step: &Step) -> usize {
    match step {
        Step::Op(_) => 0,
        Step::Group { body, .. } => 1 + body.iter().map(depth).max().unwrap_or(0),
    }
}

fn flowop(parser: &mut Parser<'_>) -> Result<Step, Fault> {
    let (word, line) = parser.word("the kind of the flowop")?;
    let attributes = parser.attributes()?;
    if let Some(body) = parser.groups.get(&word) {
        parser.flowops += count(body);
    }
    parser.flowops += 1;
    if parser.flowops > FLOWOPS_MAX {
        return Err(fault(line, format!("more than {FLOWOPS_MAX} flowops")));
    }
    if let Some(body) = parser.groups.get(&word).cloned() {
        let given = Attributes::new(&GROUP, line, attributes, &mut parser.model)?;
        let iters = given.positive("iters", 1, ITERS_MAX)?;
        return Ok(Step::Group { iters, body });
    }
    let Some(&op) = Op::ALL.iter().find(|op| op.word() == word) else {
        return Err(fault(line, unknown_flowop(parser, &word)));
    };
    let given = Attributes::new(&FLOWOP, line, attributes, &mut parser.model)?;
    let fileset = fileset_of(parser, &given, line)?;
    // `srcfd` is the slot that is read where `fd` is written; each flowop here uses one.
    let fd = if given.has("fd") { "fd" } else { "srcfd" };
    let opennext = given.flag("opennext")? || given.flag("rotatefd")?;
    let workingset = if given.has("workingset") {
        "workingset"
    } else {
        "wss"
    };
    Ok(Step::Op(Box::new(Flowop {
        op,
        name: given.text("name")?.unwrap_or(word),
        line,
        fileset,
        fd: given.int(fd, 0, u64::from(FDS) - 1)? as u32,
        iosize: given.amount("iosize", IO_MAX)?,
        iters: given
            .amount("iters", ITERS_MAX)?
            .unwrap_or(Amount::Fixed(1)),
        random: given.flag("random")?,
        dsync: given.flag("dsync")?,
        opennext,
        workingset: given.int(workingset, 0, INT_MAX)?,
        value: given.amount("value", INT_MAX)?.unwrap_or(Amount::Fixed(1)),
        target: given.text("target")?,
        highwater: given.int("highwater", 0, INT_MAX)?,
        blocking: given.flag("blocking")?,
    })))
}

fn unknown_flowop(parser: &Parser<'_>, word: &str) -> String {
    let all: Vec<&str> = Op::ALL.iter().map(|op| op.word()).collect();
    let own: Vec<&str> = parser.groups.keys().map(String::as_str).collect();
    let of_file = match own.is_empty() {
        true => "",
        false => "; of this file: ",
    };
    let (all, own) = (all.join(", "), own.join(", "));
    format!("`{word}` is no flowop here; there is: {all}{of_file}{own}")
}

/// Index of the set of files that a flowop names, if it names one.
fn fileset_of(parser: &Parser<'_>, given: &Attributes, line: u32) -> Result<Option<usize>, Fault> {
    let name = match (given.text("filesetname")?, given.text("filename")?) {
        (Some(_), Some(_)) => {
            let what = "`filename` and `filesetname` are the same attribute";
            return Err(fault(line, what));
        }
        (set, file) => set.or(file),
    };
    let Some(name) = name else {
        return Ok(None);
    };
    let sets = &parser.model.filesets;
    match sets.iter().position(|set| set.name == name) {
        Some(found) => Ok(Some(found)),
        None => {
            let all: Vec<&str> = sets.iter().map(|s| s.name.as_str()).collect();
            let all = all.join(", ");
            let what = format!("there is no fileset or file `{name}` before; there is: {all}");
            Err(fault(line, what))
        }
    }
}
