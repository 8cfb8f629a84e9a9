//! Frames in words: `save_config (src/config.c:42)`.

use super::Frame;
use super::module::Modules;
use addr2line::Loader;
use base::Map;
use std::path::Path;

/// Most frames that are told of a stack.
const TOLD_MAX: usize = 12;
/// Longest name of a function that is told whole, bytes.
const NAME_MAX: usize = 80;
/// Files of the C library and the dynamic linker, by how their names begin.
const SYSTEM: [&str; 7] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "ld-musl",
    "libpthread",
    "libstdc++",
    "libc++",
];

/// Interpreters, by how the names of their files begin: what a script does is told by none of their
/// frames, but a library that a script calls has frames of its own.
const INTERPRETERS: [&str; 9] = [
    "python",
    "libpython",
    "node",
    "perl",
    "libperl",
    "ruby",
    "libruby",
    "bash",
    "dash",
];

/// Names of frames, each looked up once.
pub struct Names<'a> {
    modules: &'a Modules,
    folder: &'a Path,
    files: Map<u32, Option<Loader>>,
    known: Map<Frame, Vec<Told>>,
}

/// A function in a frame: several where calls were inlined.
#[derive(Clone)]
struct Told {
    text: String,
    whose: Whose,
}

/// Whose a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// The program's own.
    Program,
    /// That of the library of its language, or of the host.
    Library,
    /// That of what runs a script.
    Interpreter,
}

impl<'a> Names<'a> {
    /// Names from the files of `modules`; paths below `folder` are told from there.
    pub fn new(modules: &'a Modules, folder: &'a Path) -> Names<'a> {
        Names {
            modules,
            folder,
            files: Map::default(),
            known: Map::default(),
        }
    }

    /// A stack from the innermost frame of the program to the outermost one; empty for a script.
    pub fn of(&mut self, frames: &[Frame]) -> Vec<String> {
        let all: Vec<Told> = frames.iter().flat_map(|&frame| self.told(frame)).collect();
        let told = own_part(&all).iter().take(TOLD_MAX);
        told.map(|told| told.text.clone()).collect()
    }

    fn told(&mut self, frame: Frame) -> Vec<Told> {
        if let Some(told) = self.known.get(&frame) {
            return told.clone();
        }
        let told = self.look_up(frame);
        self.known.insert(frame, told.clone());
        told
    }

    fn look_up(&mut self, frame: Frame) -> Vec<Told> {
        let (module, readable) = self.modules.get(frame.module);
        let name = module.path.rsplit('/').next().unwrap_or_default();
        let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
        let of_file = match (begins(&SYSTEM), begins(&INTERPRETERS)) {
            (true, _) => Whose::Library,
            (_, true) => Whose::Interpreter,
            _ => Whose::Program,
        };
        let file = self.files.entry(frame.module).or_insert_with(|| {
            let path = Some(&module.path).filter(|_| readable);
            path.and_then(|path| Loader::new(path).ok())
        });
        let mut all = Vec::new();
        if let Some(file) = file {
            all = lines(file, frame.address, self.folder);
            if all.is_empty() {
                let symbol = file.find_symbol(frame.address).map(demangled);
                all.extend(symbol.map(|symbol| Told {
                    text: format!("{symbol} ({name}+{:#x})", frame.address),
                    whose: of_file,
                }));
            }
        }
        if all.is_empty() {
            let text = format!("{name}+{:#x}", frame.address);
            all.push(Told {
                text,
                whose: of_file,
            });
        }
        let foreign = all.iter_mut().filter(|_| of_file != Whose::Program);
        foreign.for_each(|told| told.whose = of_file);
        all
    }
}

/// Without what the libraries do below and above the program; all of it if nothing is the
/// program's own and no script is run.
fn own_part(all: &[Told]) -> &[Told] {
    let is_own = |told: &Told| told.whose == Whose::Program;
    match (all.iter().position(is_own), all.iter().rposition(is_own)) {
        (Some(first), Some(last)) => &all[first..=last],
        _ if all.iter().any(|told| told.whose == Whose::Interpreter) => &[],
        _ => all,
    }
}

/// The functions at an address that have a line in a source file.
fn lines(file: &Loader, address: u64, folder: &Path) -> Vec<Told> {
    let mut all = Vec::new();
    let Ok(mut frames) = file.find_frames(address) else {
        return all;
    };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref();
        let name = name.and_then(|name| Some(name.demangle().ok()?.into_owned()));
        let place = frame.location.as_ref();
        let place = place.and_then(|place| Some((place.file?, place.line?)));
        let Some((path, line)) = place else {
            continue;
        };
        let below = Path::new(path).strip_prefix(folder).ok();
        let shown = below.and_then(Path::to_str).unwrap_or(path);
        let name = name.map_or_else(|| "a function".into(), shortened);
        all.push(Told {
            text: format!("{name} ({shown}:{line})"),
            whose: match of_language(path) {
                true => Whose::Library,
                false => Whose::Program,
            },
        });
    }
    all
}

/// A name without what it is generic over, where that is long.
fn shortened(name: String) -> String {
    match name.find('<') {
        Some(at) if at > 0 && name.len() > NAME_MAX => format!("{}<..>", &name[..at]),
        _ => name,
    }
}

/// Whether a source file belongs to the library of Rust or of Go.
fn of_language(path: &str) -> bool {
    let rust = path.starts_with("/rustc/") || path.contains("/rustlib/src/rust/");
    let go = path.split_once("/go/src/").or(path.split_once("/lib/go/"));
    // Packages of others begin with the name of a host.
    let package = go.and_then(|(_, package)| package.split('/').next());
    rust || package.is_some_and(|package| !package.contains('.'))
}

fn demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_languages_are_told_from_programs() {
        for library in [
            "/rustc/5980/library/std/src/io/mod.rs",
            "/root/.rustup/toolchains/x/lib/rustlib/src/rust/library/std/src/fs.rs",
            "/usr/local/go/src/os/file.go",
            "/usr/lib/go/internal/poll/fd_unix.go",
        ] {
            assert!(of_language(library), "{library}");
        }
        for own in [
            "src/main.rs",
            "/home/me/go/src/github.com/me/app/main.go",
            "/home/me/app/os/file.go",
        ] {
            assert!(!of_language(own), "{own}");
        }
    }

    #[test]
    fn the_program_is_told_without_what_is_around_it() {
        use Whose::{Interpreter, Library, Program};
        let part = |all: &[Whose]| {
            let told = |&whose| Told {
                text: String::new(),
                whose,
            };
            let all: Vec<Told> = all.iter().map(told).collect();
            own_part(&all).len()
        };
        let around = [Library, Program, Library, Program, Library];
        assert_eq!(part(&around), 3);
        assert_eq!(part(&[Library, Library]), 2, "better than nothing");
        assert_eq!(part(&[Library, Interpreter, Interpreter]), 0, "a script");
        assert_eq!(part(&[Library, Program, Interpreter]), 1, "its library");
    }

    #[test]
    fn long_names_lose_what_they_are_generic_over() {
        let long = format!("save<{}>", "x".repeat(NAME_MAX));
        assert_eq!(shortened(long), "save<..>");
        assert_eq!(shortened("save<u8>".into()), "save<u8>");
    }
}
