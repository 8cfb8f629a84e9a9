//! Packs: many results in one file, so that a job of milliseconds costs no file and no sync of its
//! own.
//!
//! A pack is a line of JSON that lists its results, and behind it each result as it would be in a
//! file of its own, and the end of a line, by which a reader of a damaged pack finds the next one.
//! It is written beside its place, made durable and renamed, as a result is, and is never changed.
//! Its name is a hash of its bytes, so two stores that are brought together agree.

use super::{StoreError, at, names, read};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Version of the first line of a pack.
const VERSION: u32 = 1;
/// Files of packs that are open at once; a process may have a thousand.
const OPEN_MAX: usize = 64;
/// The folder of packs in a store.
pub const FOLDER: &str = "packs";

/// An id as bytes: a store may hold millions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id([u8; 16]);

impl Id {
    /// The id of a text of hexadecimal digits; of any other text a hash of it.
    pub fn of(text: &str) -> Id {
        let digits = u128::from_str_radix(text, 16).ok();
        let digits = digits.filter(|_| text.len() == 32);
        Id(digits.map_or_else(
            || {
                let hash = blake3::hash(text.as_bytes());
                std::array::from_fn(|n| hash.as_bytes()[n])
            },
            u128::to_be_bytes,
        ))
    }
}

/// The first line of a pack.
#[derive(Serialize, Deserialize)]
struct Head {
    varve_pack: u32,
    /// Id and bytes of each result.
    entries: Vec<(String, u32)>,
}

/// Where a result lies.
#[derive(Clone, Copy)]
struct Place {
    pack: u32,
    bytes: u32,
    from: u64,
}

/// What is known of the packs of a store.
#[derive(Default)]
pub struct Packs {
    paths: Vec<PathBuf>,
    known: BTreeSet<String>,
    places: BTreeMap<Id, Place>,
    /// Further places of results that are in several packs, as after two stores were brought
    /// together.
    more: BTreeMap<Id, Vec<Place>>,
    /// Those that were read last, by their numbers; the newest is at the end.
    open: VecDeque<(u32, File)>,
}

/// A pack that cannot be read, and why.
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub why: String,
}

impl Packs {
    /// Learns of the packs that came since, and answers those that are damaged.
    ///
    /// # Errors
    /// The host refuses.
    pub fn refresh(&mut self, store: &Path) -> Result<Vec<Damaged>, StoreError> {
        let folder = store.join(FOLDER);
        let mut damaged = Vec::new();
        for name in names(&folder)? {
            if self.known.contains(&name) {
                continue;
            }
            let path = folder.join(&name);
            match heads(&path) {
                Ok(entries) => self.enter(path, entries),
                // Another worker put it aside meanwhile.
                Err(Unread::Host(e)) if e.kind() == ErrorKind::NotFound => {}
                Err(Unread::Host(e)) => return Err(at(&path)(e)),
                Err(Unread::Damaged(why)) => {
                    damaged.push(Damaged { path, why });
                    continue;
                }
            }
            self.known.insert(name);
        }
        Ok(damaged)
    }

    fn enter(&mut self, path: PathBuf, (mut from, entries): (u64, Vec<(String, u32)>)) {
        let pack = u32::try_from(self.paths.len()).expect("fewer than 2^32 files are in a folder");
        for (id, bytes) in entries {
            let place = Place { pack, bytes, from };
            match self.places.entry(Id::of(&id)) {
                Entry::Vacant(first) => drop(first.insert(place)),
                Entry::Occupied(first) => self.more.entry(*first.key()).or_default().push(place),
            }
            from += u64::from(bytes) + 1;
        }
        self.paths.push(path);
    }

    /// The bytes of a result, and the file that they are in; `None` where no pack has it.
    ///
    /// # Errors
    /// The host refuses; a pack that was put aside since it was seen is not found.
    pub fn get(&mut self, id: &str) -> Result<Option<(Vec<u8>, PathBuf)>, StoreError> {
        match self.places.get(&Id::of(id)).copied() {
            Some(place) => self.at(place).map(Some),
            None => Ok(None),
        }
    }

    /// Every copy of a result, as [`get`](Self::get) answers one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn copies(&mut self, id: &str) -> Result<Vec<(Vec<u8>, PathBuf)>, StoreError> {
        let id = Id::of(id);
        let more = self.more.get(&id).into_iter().flatten();
        let places: Vec<Place> = self
            .places
            .get(&id)
            .into_iter()
            .chain(more)
            .copied()
            .collect();
        places.into_iter().map(|place| self.at(place)).collect()
    }

    /// Whether a pack has the result, and whether several have.
    pub fn count(&self, id: &str) -> (bool, bool) {
        let id = Id::of(id);
        (self.places.contains_key(&id), self.more.contains_key(&id))
    }

    fn at(&mut self, place: Place) -> Result<(Vec<u8>, PathBuf), StoreError> {
        let path = self.paths[place.pack as usize].clone();
        let file = self.file(place.pack, &path).map_err(at(&path))?;
        let mut bytes = vec![0; place.bytes as usize];
        match file.read_exact_at(&mut bytes, place.from) {
            Ok(()) => Ok((bytes, path)),
            // Shorter than it was: what lacks is told by who reads the result.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok((Vec::new(), path)),
            Err(e) => Err(at(&path)(e)),
        }
    }

    fn file(&mut self, pack: u32, path: &Path) -> io::Result<&File> {
        let open = match self.open.iter().position(|(of, _)| *of == pack) {
            Some(place) => self.open.remove(place).expect("it is there"),
            None => (pack, File::open(path)?),
        };
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(open);
        Ok(&self.open.back().expect("one was pushed").1)
    }

    /// All ids that are in packs.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.places.keys().copied()
    }
}

/// Why a pack was not read.
enum Unread {
    Host(io::Error),
    Damaged(String),
}

/// The ids in a pack with their bytes, and where the first begins.
fn heads(path: &Path) -> Result<(u64, Vec<(String, u32)>), Unread> {
    // To open a pipe would wait for a writer.
    if !fs::metadata(path).map_err(Unread::Host)?.is_file() {
        return Err(Unread::Damaged("it is no file".into()));
    }
    let file = File::open(path).map_err(Unread::Host)?;
    let there = file.metadata().map_err(Unread::Host)?.len();
    let mut line = Vec::new();
    let mut reader = BufReader::new(file);
    reader.read_until(b'\n', &mut line).map_err(Unread::Host)?;
    let head: Head = serde_json::from_slice(&line)
        .map_err(|e| Unread::Damaged(format!("its first line: {e}")))?;
    if head.varve_pack != VERSION {
        let version = head.varve_pack;
        let why = format!("it has version {version}, this program {VERSION}");
        return Err(Unread::Damaged(why));
    }
    let from = line.len() as u64;
    let all: u64 = head.entries.iter().map(|(_, n)| u64::from(*n) + 1).sum();
    match from + all == there {
        true => Ok((from, head.entries)),
        false => {
            let why = format!("{there} of {} bytes are there", from + all);
            Err(Unread::Damaged(why))
        }
    }
}

/// The bytes of a pack of these results.
pub fn packed(results: &[(String, Vec<u8>)]) -> Vec<u8> {
    let bytes = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a result is below 4 GiB");
    let entries = results.iter().map(|(id, of)| (id.clone(), bytes(of)));
    let head = Head {
        varve_pack: VERSION,
        entries: entries.collect(),
    };
    let mut pack = serde_json::to_vec(&head).expect("plain data serialises");
    pack.push(b'\n');
    for (_, bytes) in results {
        pack.extend(bytes);
        pack.push(b'\n');
    }
    pack
}

/// The results of a damaged pack that are whole, looked for one behind the other.
///
/// # Errors
/// The host refuses.
pub fn whole(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let bytes = fs::read(path)?;
    let mut found = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let line: Result<super::Head, _> = serde_json::from_slice(&rest[..end]);
        let Ok(head) = line else {
            // The first line, or something that is no result: the next line may begin one.
            rest = &rest[end + 1..];
            continue;
        };
        let all = (end + 1).checked_add(head.bytes);
        match all.and_then(|all| rest.get(..all)) {
            Some(result) if read(result, &head.id).is_ok() => {
                found.push((head.id, result.to_vec()));
                rest = &rest[result.len()..];
            }
            _ => rest = &rest[end + 1..],
        }
    }
    Ok(found)
}
