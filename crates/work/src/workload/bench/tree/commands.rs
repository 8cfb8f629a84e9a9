//! The operation lists of `cp -r`, `git clone` and `make`: what those programs ask of a file
//! system. They are taken from the programs' documentation and from watching them with strace;
//! docs/use/workloads.md has each list in words.

use super::list::{Stage, Step, Task, write};
use super::shape::{Kind, Leaf, Shape, shuffle, sizes, sources};
use base::{Nanos, Rng};

/// Root of the source tree.
pub const SOURCE: &str = "/src";
/// Root of a copy.
pub const TARGET: &str = "/dst";
/// Root of a clone.
pub const CLONE: &str = "/clone";
/// Bytes of a `read` and of a `write` of `cp` (coreutils: `IO_BUFSIZE`).
const COPY_CHUNK: u32 = 128 << 10;
/// Bytes of a `write` of `git index-pack` into the pack.
const PACK_CHUNK: u32 = 4 << 10;
/// Bytes of a `write` into the index of the pack and into `.git/index`.
const HASHFILE_CHUNK: u32 = 128 << 10;
/// Bytes of the largest file; git writes a file that it checks out with one `write`.
const WHOLE: u32 = 16 << 20;
/// Bytes of a `write` of the compiler and of the linker (stdio).
const STDIO_CHUNK: u32 = 4 << 10;
/// Bytes of a `read` with which a program reads its input.
const READ_CHUNK: u32 = 64 << 10;
/// Bytes of an object file for each byte of source, without debug information.
const OBJECT_PER_SOURCE: u64 = 2;
/// Bytes of a path in a list of dependencies.
const DEPENDENCY_BYTES: u64 = 44;
/// Bytes that an entry of `.git/index` takes: 62, the path, padding.
const INDEX_ENTRY_BYTES: u64 = 104;
/// One byte of the index, and of the reverse index, for this many bytes of the pack: an object
/// takes 28 and 4 bytes there, and about 380 in the pack.
const PACK_PER_INDEX: u64 = 13;
const PACK_PER_REVERSE: u64 = 95;
/// Numbers of content from here on are not those of files of the tree.
const OTHERS: u64 = 1 << 32;

/// What a command's list is made from.
pub struct Parts<'a> {
    /// The source tree.
    pub shape: &'a Shape,
    /// Bytes of the pack.
    pub pack: u64,
    /// For `cp`: times and modes are kept.
    pub preserve: bool,
    /// For `make`: percent of the sources that are compiled.
    pub build: u32,
    /// For `make`: number of headers that a source includes.
    pub headers: u32,
    /// CPU time of the program for each file that it copies, checks out or compiles.
    pub cpu: Nanos,
    /// Seed for the choice of sources and headers.
    pub seed: u64,
}

fn task(kind: &'static str, steps: Vec<Step>) -> Task {
    Task { kind, steps }
}

/// Makes the source tree, before the measured part.
pub fn tree(parts: &Parts<'_>) -> Vec<Stage> {
    let dirs = parts
        .shape
        .dirs
        .iter()
        .map(|dir| Step::Mkdir(format!("{SOURCE}{dir}")));
    let files = parts.shape.files.iter().enumerate();
    let files = files.map(|(n, file)| {
        write(
            format!("{SOURCE}{}", file.path),
            n as u64,
            file.bytes,
            WHOLE,
        )
    });
    let mut steps: Vec<Step> = dirs.chain(files).collect();
    if parts.pack > 0 {
        steps.push(Step::Mkdir(format!("{SOURCE}/.git")));
        steps.push(write(
            format!("{SOURCE}/.git/pack"),
            OTHERS,
            parts.pack,
            WHOLE,
        ));
    }
    vec![
        steps
            .into_iter()
            .map(|step| task("make tree", vec![step]))
            .collect(),
    ]
}

fn cpu(parts: &Parts<'_>) -> Option<Step> {
    (parts.cpu.0 > 0).then_some(Step::Cpu(parts.cpu))
}

/// The list of `cp -r /src /dst`.
pub fn copy(parts: &Parts<'_>) -> Vec<Stage> {
    let by_dir = parts.shape.by_dir();
    let mut all = Vec::new();
    let file = |path: &str| Step::Copy {
        from: format!("{SOURCE}{path}"),
        to: format!("{TARGET}{path}"),
        chunk: COPY_CHUNK,
        preserve: parts.preserve,
    };
    for (dir, files) in parts.shape.dirs.iter().zip(by_dir) {
        let (from, to) = (format!("{SOURCE}{dir}"), format!("{TARGET}{dir}"));
        let list = [
            Step::Lstat(from.clone()),
            Step::ReadDir(from),
            Step::Mkdir(to),
        ];
        all.push(task("directory", list.into()));
        for leaf in files {
            let steps = [Some(file(&leaf.path)), cpu(parts)];
            all.push(task("file", steps.into_iter().flatten().collect()));
        }
    }
    if parts.pack > 0 {
        let (from, to) = (format!("{SOURCE}/.git"), format!("{TARGET}/.git"));
        all.push(task(
            "directory",
            vec![Step::ReadDir(from), Step::Mkdir(to)],
        ));
        all.push(task("file", vec![file("/.git/pack")]));
    }
    if parts.preserve {
        // cp finishes a directory after all in it.
        for dir in parts.shape.dirs.iter().rev() {
            let to = format!("{TARGET}{dir}");
            all.push(task(
                "attributes",
                vec![Step::Utimes(to.clone()), Step::Chmod(to, 0o755)],
            ));
        }
    }
    vec![all]
}

/// Writes a file under the name of its lock and renames it, as git does with all its own files.
fn locked(path: &str, id: u64, bytes: u64) -> Vec<Step> {
    let lock = format!("{CLONE}/.git/{path}.lock");
    let to = format!("{CLONE}/.git/{path}");
    vec![
        write(lock.clone(), id, bytes, HASHFILE_CHUNK),
        Step::Rename { from: lock, to },
    ]
}

/// The list of `git clone` for a repository whose working tree is the tree.
pub fn clone(parts: &Parts<'_>) -> Vec<Stage> {
    vec![init(), pack(parts), checkout(parts)]
}

fn init() -> Stage {
    let mut steps = vec![
        Step::Mkdir(CLONE.into()),
        Step::Mkdir(format!("{CLONE}/.git")),
    ];
    const DIRS: [&str; 12] = [
        "branches",
        "hooks",
        "info",
        "objects",
        "objects/info",
        "objects/pack",
        "refs",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
        "refs/remotes/origin",
        "logs",
    ];
    steps.extend(DIRS.map(|dir| Step::Mkdir(format!("{CLONE}/.git/{dir}"))));
    steps.push(write(
        format!("{CLONE}/.git/description"),
        OTHERS + 1,
        73,
        WHOLE,
    ));
    steps.push(write(
        format!("{CLONE}/.git/info/exclude"),
        OTHERS + 2,
        240,
        WHOLE,
    ));
    // git copies templates of 13 hooks.
    let hook = |n| {
        write(
            format!("{CLONE}/.git/hooks/hook{n}.sample"),
            OTHERS + 10 + n,
            1800,
            WHOLE,
        )
    };
    steps.extend((0..13).map(hook));
    steps.extend(locked("HEAD", OTHERS + 3, 23));
    // Each setting rewrites the whole file.
    (0..4).for_each(|n| steps.extend(locked("config", OTHERS + 30 + n, 92 + 40 * n)));
    vec![task("init", steps)]
}

fn pack(parts: &Parts<'_>) -> Stage {
    let path = |name: &str| format!("{CLONE}/.git/objects/pack/{name}");
    let synced = |name: &str, id, bytes, chunk| Step::Write {
        path: path(name),
        id,
        bytes,
        chunk,
        sync: true,
    };
    let mut steps = Vec::new();
    let files = [
        ("tmp_pack", "pack-1.pack", parts.pack.max(1), PACK_CHUNK),
        (
            "tmp_rev",
            "pack-1.rev",
            parts.pack / PACK_PER_REVERSE + 52,
            HASHFILE_CHUNK,
        ),
        (
            "tmp_idx",
            "pack-1.idx",
            parts.pack / PACK_PER_INDEX + 1072,
            HASHFILE_CHUNK,
        ),
    ];
    for (n, (from, _, bytes, chunk)) in files.into_iter().enumerate() {
        steps.push(synced(from, OTHERS + 50 + n as u64, bytes, chunk));
    }
    for (from, to, ..) in files {
        steps.push(Step::Chmod(path(from), 0o444));
        let (from, to) = (path(from), path(to));
        steps.push(Step::Rename { from, to });
    }
    steps.extend(locked("packed-refs", OTHERS + 60, 46_000));
    steps.extend(locked("refs/remotes/origin/HEAD", OTHERS + 61, 32));
    steps.extend(locked("refs/heads/master", OTHERS + 62, 41));
    vec![task("pack", steps)]
}

fn checkout(parts: &Parts<'_>) -> Stage {
    let mut all = Vec::new();
    for (dir, files) in parts.shape.dirs.iter().zip(parts.shape.by_dir()) {
        // The root of the clone is there already.
        if !dir.is_empty() {
            let path = format!("{CLONE}{dir}");
            all.push(task(
                "directory",
                vec![Step::Missing(path.clone()), Step::Mkdir(path)],
            ));
        }
        for (n, leaf) in files.into_iter().enumerate() {
            let path = format!("{CLONE}{}", leaf.path);
            let id = OTHERS + 1000 + ((leaf.dir as u64) << 20) + n as u64;
            let steps = [
                Some(Step::Missing(path.clone())),
                cpu(parts),
                Some(write(path, id, leaf.bytes, WHOLE)),
            ];
            all.push(task("file", steps.into_iter().flatten().collect()));
        }
    }
    let bytes = 32 + INDEX_ENTRY_BYTES * parts.shape.files.len() as u64;
    all.push(task("index", locked("index", OTHERS + 70, bytes)));
    all
}

/// The sources that are compiled, each with the size of its object. The sizes are as many quantiles
/// of all sizes, so their sum does not depend on the seed.
fn units<'a>(parts: &Parts<'a>) -> Vec<(&'a Leaf, u64)> {
    let mut rng = Rng::named(parts.seed, "workload/tree-make");
    let mut all: Vec<&Leaf> = parts
        .shape
        .files
        .iter()
        .filter(|f| f.kind == Kind::Source)
        .collect();
    shuffle(&mut all, &mut rng);
    all.truncate(compiled(parts.shape.files.len() as u32, parts.build));
    let mut objects = object_sizes(all.len());
    shuffle(&mut objects, &mut rng);
    let mut units: Vec<_> = all.into_iter().zip(objects).collect();
    units.sort_by_key(|(leaf, _)| leaf.dir);
    units
}

/// How many sources of a tree of `files` files are compiled.
pub fn compiled(files: u32, build: u32) -> usize {
    (sources(files) * build as usize / 100)
        .max(1)
        .min(sources(files))
}

/// The sizes of `count` object files.
pub fn object_sizes(count: usize) -> Vec<u64> {
    sizes(count)
        .into_iter()
        .map(|bytes| 1200 + bytes * OBJECT_PER_SOURCE)
        .collect()
}

/// `path` with `.` before its name and a suffix, where kbuild keeps what it knows of a target.
fn beside(path: &str, suffix: &str) -> String {
    let (dir, name) = path.rsplit_once('/').expect("paths begin with a slash");
    format!("{dir}/.{name}{suffix}")
}

/// Path of the object file of a source.
fn object(leaf: &Leaf) -> String {
    format!("{SOURCE}{}.o", leaf.path.trim_end_matches(".c"))
}

/// The list of `make` for a part of the tree.
pub fn make(parts: &Parts<'_>) -> Vec<Stage> {
    let units = units(parts);
    let headers: Vec<&Leaf> = parts
        .shape
        .files
        .iter()
        .filter(|f| f.kind == Kind::Header)
        .collect();
    let mut rng = Rng::named(parts.seed, "workload/tree-headers");
    let compile = |(n, (leaf, bytes)): (usize, &(&Leaf, u64))| {
        let included = include(&headers, parts.headers, &mut rng);
        let source = format!("{SOURCE}{}", leaf.path);
        task(
            "compile",
            compiling(
                &source,
                &object(leaf),
                (n as u64, *bytes),
                included,
                cpu(parts),
            ),
        )
    };
    let compiled: Stage = units.iter().enumerate().map(compile).collect();
    let of_dir = |dir: usize| -> Vec<String> {
        let all = units.iter().filter(|(leaf, _)| leaf.dir == dir);
        all.map(|(leaf, _)| object(leaf)).collect()
    };
    let archives = parts.shape.dirs.iter().enumerate().map(|(dir, path)| {
        let path = format!("{SOURCE}{path}/built-in.a");
        archive(&path, dir as u64, of_dir(dir))
    });
    let archives: Stage = archives.collect();
    let all: u64 = units.iter().map(|(_, bytes)| bytes).sum();
    let objects: Vec<String> = units.iter().map(|(leaf, _)| object(leaf)).collect();
    vec![
        read_makefiles(parts.shape),
        compiled,
        archives,
        vec![link(objects, all)],
    ]
}

/// kbuild reads Makefiles, Kconfig and the like, here a third of what is neither source nor header;
/// and it generates headers.
fn read_makefiles(shape: &Shape) -> Stage {
    let others = shape
        .files
        .iter()
        .filter(|f| f.kind == Kind::Other)
        .step_by(3);
    let read = others.map(|leaf| {
        let path = format!("{SOURCE}{}", leaf.path);
        let chunk = READ_CHUNK;
        task(
            "read",
            vec![Step::Lstat(path.clone()), Step::Read { path, chunk }],
        )
    });
    let mut all: Stage = vec![task(
        "generate",
        vec![Step::Mkdir(format!("{SOURCE}/generated"))],
    )];
    all.extend(read);
    all.extend((0..50).map(|n| {
        let to = format!("{SOURCE}/generated/config{n}.h");
        let from = format!("{to}.tmp");
        task(
            "generate",
            vec![
                write(from.clone(), OTHERS + 100 + n, 900, STDIO_CHUNK),
                Step::Rename { from, to },
            ],
        )
    }));
    all
}

/// Draws the headers of a unit. Of four draws the first in the list counts, as some headers are in
/// every unit.
fn include(headers: &[&Leaf], count: u32, rng: &mut Rng) -> Vec<String> {
    let Some(most) = (!headers.is_empty()).then_some(headers.len() as u64) else {
        return Vec::new();
    };
    let draw = |rng: &mut Rng| (0..4).map(|_| rng.below(most)).min().unwrap_or(0) as usize;
    (0..count)
        .map(|_| format!("{SOURCE}{}", headers[draw(rng)].path))
        .collect()
}

fn compiling(
    source: &str,
    object: &str,
    (n, bytes): (u64, u64),
    headers: Vec<String>,
    cpu: Option<Step>,
) -> Vec<Step> {
    let temporary = beside(object, ".tmp");
    let (dependencies, command) = (beside(object, ".d"), beside(object, ".cmd"));
    let listed = DEPENDENCY_BYTES * (1 + headers.len() as u64);
    let read = |path: String| Step::Read {
        path,
        chunk: READ_CHUNK,
    };
    let mut steps = vec![
        Step::Lstat(source.into()),
        Step::Missing(object.into()),
        Step::Missing(command.clone()),
        read(source.into()),
    ];
    steps.extend(headers.into_iter().map(read));
    steps.extend(cpu);
    steps.extend([
        write(dependencies.clone(), OTHERS * 2 + n, listed, STDIO_CHUNK),
        write(temporary.clone(), OTHERS * 3 + n, bytes, STDIO_CHUNK),
        Step::Rename {
            from: temporary,
            to: object.into(),
        },
        // fixdep makes the command file from the list of dependencies.
        read(dependencies.clone()),
        write(command, OTHERS * 4 + n, listed + 3000, STDIO_CHUNK),
        Step::Unlink(dependencies),
    ]);
    steps
}

/// Makes a thin archive: names and symbols of the objects.
fn archive(path: &str, n: u64, objects: Vec<String>) -> Task {
    let bytes = 68 + 400 * objects.len() as u64;
    let mut steps = vec![Step::Missing(path.into())];
    let chunk = READ_CHUNK;
    steps.extend(objects.into_iter().map(|path| Step::Read { path, chunk }));
    steps.push(write(path, OTHERS * 5 + n, bytes, STDIO_CHUNK));
    steps.push(write(
        beside(path, ".cmd"),
        OTHERS * 6 + n,
        200,
        STDIO_CHUNK,
    ));
    task("archive", steps)
}

/// Links `vmlinux.o` of all objects, `vmlinux` of that, and the list of symbols.
fn link(objects: Vec<String>, bytes: u64) -> Task {
    let chunk = READ_CHUNK;
    let whole = format!("{SOURCE}/vmlinux.o");
    let mut steps: Vec<Step> = objects
        .into_iter()
        .map(|path| Step::Read { path, chunk })
        .collect();
    steps.push(write(whole.clone(), OTHERS * 7, bytes, STDIO_CHUNK));
    steps.push(Step::Read { path: whole, chunk });
    steps.push(write(
        format!("{SOURCE}/vmlinux"),
        OTHERS * 7 + 1,
        bytes,
        STDIO_CHUNK,
    ));
    steps.push(write(
        format!("{SOURCE}/System.map"),
        OTHERS * 7 + 2,
        bytes / 8 + 1,
        STDIO_CHUNK,
    ));
    task("link", steps)
}
