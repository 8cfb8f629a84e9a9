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
    /// It belongs to the program, and neither to the library of its language nor to the host's.
    own: bool,
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

    /// A stack: from the innermost frame of the program to the outermost one, without what the
    /// libraries of the language do below and above; all of it if nothing is the program's own.
    pub fn of(&mut self, frames: &[Frame]) -> Vec<String> {
        let all: Vec<Told> = frames.iter().flat_map(|&frame| self.told(frame)).collect();
        let first = all.iter().position(|told| told.own);
        let last = all.iter().rposition(|told| told.own);
        let own = match (first, last) {
            (Some(first), Some(last)) => &all[first..=last],
            _ => &all[..],
        };
        let told = own.iter().take(TOLD_MAX);
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
        let system = SYSTEM.iter().any(|begin| name.starts_with(begin));
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
                    own: true,
                }));
            }
        }
        if all.is_empty() {
            let text = format!("{name}+{:#x}", frame.address);
            all.push(Told { text, own: true });
        }
        all.iter_mut().for_each(|told| told.own &= !system);
        all
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
            own: !of_language(path),
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
    fn long_names_lose_what_they_are_generic_over() {
        let long = format!("save<{}>", "x".repeat(NAME_MAX));
        assert_eq!(shortened(long), "save<..>");
        assert_eq!(shortened("save<u8>".into()), "save<u8>");
    }
}
