//! Packs: files that hold many results, compressed. A worker that makes a result every few
//! milliseconds cannot sync a file for each, and results of one campaign are alike, so a text
//! takes a tenth of its bytes beside others.
//!
//! ```text
//! {"varve_pack":2,"index":PART,"blocks":[PART,..]}   a line of JSON; a part is [bytes, bytes when
//!                                                    inflated, checksum of the former]
//! index                                              [[id, bytes],..] of all results, deflated
//! block, block, ..                                   results one behind the other, deflated
//! ```
//!
//! A result is a line that says who made it, then its text. It lies in one block as a whole, so a
//! reader inflates no more than that block, and damage of one costs the others nothing. The name of
//! a pack is a hash of its bytes: a worker never writes over another one's, and two stores that are
//! brought together agree.

use super::deflate::{Part, deflated};
use super::{By, Kept, StoreError, at, names, sum};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Version of the first line of a pack.
const VERSION: u32 = 2;
/// Bytes of results after which a block ends. Deflating looks back by 32 KiB, so larger blocks
/// are hardly smaller, and a reader of one result inflates all of its block.
const BLOCK: usize = 64 << 10;
/// Files of packs that are open at once; a process may have a thousand.
const OPEN_MAX: usize = 64;
/// Bytes of the first line at most: that of a pack of a million blocks.
const HEAD_MAX: u64 = 64 << 20;
/// Bytes of inflated blocks that are kept for the next reader, beside the newest one.
const INFLATED_MAX: usize = 8 << 20;
/// The folder of packs in a store.
pub const FOLDER: &str = "packed";

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

/// A result with the id of its job.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// The id.
    pub id: String,
    /// The result.
    pub kept: Kept,
}

/// The first line of a pack.
#[derive(Serialize, Deserialize)]
struct Head {
    varve_pack: u32,
    index: Part,
    blocks: Vec<Part>,
}

/// Of the first line, what every version has.
#[derive(Deserialize)]
struct AnyHead {
    varve_pack: u32,
}

/// Where a result lies.
#[derive(Clone, Copy)]
struct Place {
    pack: u32,
    bytes: u32,
    /// Bytes of results before it.
    from: u64,
}

/// A block of a pack.
struct Block {
    part: Part,
    /// Where it begins in the file.
    at: u64,
    /// Bytes of results before it.
    from: u64,
}

/// What is known of a pack.
struct Pack {
    path: PathBuf,
    blocks: Vec<Block>,
}

/// Id and bytes of each result of a pack.
type Index = Vec<(String, u32)>;

/// What is known of the packs of a store.
#[derive(Default)]
pub struct Packs {
    packs: Vec<Pack>,
    known: BTreeSet<String>,
    places: BTreeMap<Id, Place>,
    /// Further places of results that are in several packs, as after two stores were brought
    /// together.
    more: BTreeMap<Id, Vec<Place>>,
    /// Those that were read last, by their numbers; the newest is at the end.
    open: VecDeque<(u32, File)>,
    /// Blocks that were read last, by pack and number; the newest is at the end.
    inflated: VecDeque<((u32, usize), Vec<u8>)>,
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
    /// The host refuses; a pack of another version is there.
    pub fn refresh(&mut self, store: &Path) -> Result<Vec<Damaged>, StoreError> {
        let folder = store.join(FOLDER);
        let mut damaged = Vec::new();
        for name in names(&folder)? {
            if self.known.contains(&name) {
                continue;
            }
            let path = folder.join(&name);
            match opened(&path) {
                Ok((pack, index)) => self.enter(pack, index),
                // Another worker put it aside meanwhile.
                Err(Unread::Host(e)) if e.kind() == ErrorKind::NotFound => {}
                Err(Unread::Host(e)) => return Err(at(&path)(e)),
                Err(Unread::Version(version)) if is_ours(&path, &name, version)? => {
                    let why = format!("version {version} of its first line is damage");
                    damaged.push(Damaged { path, why });
                    continue;
                }
                Err(Unread::Version(version)) => {
                    return Err(StoreError::Version { path, version });
                }
                Err(Unread::Damaged(why)) => {
                    damaged.push(Damaged { path, why });
                    continue;
                }
            }
            self.known.insert(name);
        }
        Ok(damaged)
    }

    fn enter(&mut self, of: Pack, index: Index) {
        let pack = u32::try_from(self.packs.len()).expect("fewer than 2^32 files are in a folder");
        let mut from = 0;
        for (id, bytes) in index {
            let place = Place { pack, bytes, from };
            match self.places.entry(Id::of(&id)) {
                Entry::Vacant(first) => drop(first.insert(place)),
                Entry::Occupied(first) => self.more.entry(*first.key()).or_default().push(place),
            }
            from += u64::from(bytes);
        }
        self.packs.push(of);
    }

    /// The pack that has a result.
    pub fn path(&self, id: &str) -> Option<&Path> {
        let place = self.places.get(&Id::of(id))?;
        Some(&self.packs[place.pack as usize].path)
    }

    /// A result; `None` where no pack has it.
    ///
    /// # Errors
    /// The host refuses; a pack that was put aside since it was seen is not found. The block of the
    /// result is damaged, in each pack that has one.
    pub fn get(&mut self, id: &str) -> Result<Option<Kept>, StoreError> {
        let id = Id::of(id);
        let Some(place) = self.places.get(&id).copied() else {
            return Ok(None);
        };
        let first = self.at(place);
        if matches!(first, Err(StoreError::Damaged { .. })) {
            for copy in self.more.get(&id).cloned().unwrap_or_default() {
                if let Ok(kept) = self.at(copy) {
                    return Ok(Some(kept));
                }
            }
        }
        first.map(Some)
    }

    /// Every whole copy of a result, with the file that it is in.
    ///
    /// # Errors
    /// The host refuses.
    pub fn copies(&mut self, id: &str) -> Result<Vec<(Kept, PathBuf)>, StoreError> {
        let id = Id::of(id);
        let more = self.more.get(&id).into_iter().flatten();
        let places = self.places.get(&id).into_iter().chain(more);
        let places: Vec<Place> = places.copied().collect();
        let mut copies = Vec::new();
        for place in places {
            match self.at(place) {
                Ok(kept) => copies.push((kept, self.packs[place.pack as usize].path.clone())),
                Err(StoreError::Damaged { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(copies)
    }

    /// Whether a pack has the result, and whether several have.
    pub fn count(&self, id: &str) -> (bool, bool) {
        let id = Id::of(id);
        (self.places.contains_key(&id), self.more.contains_key(&id))
    }

    fn at(&mut self, place: Place) -> Result<Kept, StoreError> {
        let pack = &self.packs[place.pack as usize];
        let number = pack.blocks.partition_point(|b| b.from <= place.from);
        let number = number.saturating_sub(1);
        let path = pack.path.clone();
        let damaged = |why| StoreError::Damaged {
            path: path.clone(),
            why,
        };
        let Some(from) = pack.blocks.get(number).map(|block| block.from) else {
            return Err(damaged("it has no block for its results".into()));
        };
        let block = self.inflate(place.pack, number)?;
        let begin = (place.from - from) as usize;
        let result = block.get(begin..begin + place.bytes as usize);
        let result = result.ok_or_else(|| damaged("its index names more than there is".into()))?;
        kept(result).map_err(damaged)
    }

    /// A block, which is the newest behind this.
    fn inflate(&mut self, pack: u32, number: usize) -> Result<&[u8], StoreError> {
        let is_it = |((of, n), _): &((u32, usize), Vec<u8>)| (*of, *n) == (pack, number);
        let there = match self.inflated.iter().position(is_it) {
            Some(place) => self.inflated.remove(place),
            None => None,
        };
        let block = match there {
            Some(block) => block,
            None => ((pack, number), self.read_block(pack, number)?),
        };
        self.inflated.push_back(block);
        let bytes = |all: &VecDeque<((u32, usize), Vec<u8>)>| {
            all.iter().map(|(_, block)| block.len()).sum::<usize>()
        };
        while self.inflated.len() > 1 && bytes(&self.inflated) > INFLATED_MAX {
            self.inflated.pop_front();
        }
        Ok(&self.inflated.back().expect("one was pushed").1)
    }

    fn read_block(&mut self, pack: u32, number: usize) -> Result<Vec<u8>, StoreError> {
        let Pack { path, blocks } = &self.packs[pack as usize];
        let (path, block) = (path.clone(), &blocks[number]);
        let (part, from) = (block.part.clone(), block.at);
        let file = self.file(pack, &path).map_err(at(&path))?;
        let bytes = read_part(file, &part, from).map_err(at(&path))?;
        let why = |why| StoreError::Damaged { path, why };
        part.inflated(&bytes).map_err(why)
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
    /// It has this version.
    Version(u32),
}

/// Whether a pack is of this version, and only the digits in which it says so are damaged: with the
/// right ones its name is the hash of its bytes.
fn is_ours(path: &Path, name: &str, version: u32) -> Result<bool, StoreError> {
    let bytes = fs::read(path).map_err(at(path))?;
    let said = |version: u32| format!("{{\"varve_pack\":{version},");
    let rest = bytes.strip_prefix(said(version).as_bytes());
    Ok(rest.is_some_and(|rest| name_of(&[said(VERSION).as_bytes(), rest].concat()) == name))
}

/// The name of a pack of these bytes.
pub fn name_of(bytes: &[u8]) -> String {
    sum(bytes)[..32].into()
}

/// Bytes of a part; fewer where the file ends before it.
fn read_part(file: &File, part: &Part, from: u64) -> io::Result<Vec<u8>> {
    // The first line was compared with the length of the file, so it names no more than that.
    let mut bytes = vec![0; part.bytes as usize];
    match file.read_exact_at(&mut bytes, from) {
        // Shorter than it was: its checksum says so.
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(Vec::new()),
        read => read.map(|()| bytes),
    }
}

/// A pack, and what is in it.
fn opened(path: &Path) -> Result<(Pack, Index), Unread> {
    // To open a pipe would wait for a writer.
    if !fs::metadata(path).map_err(Unread::Host)?.is_file() {
        return Err(Unread::Damaged("it is no file".into()));
    }
    let file = File::open(path).map_err(Unread::Host)?;
    let there = file.metadata().map_err(Unread::Host)?.len();
    let (head, begin) = head(&file)?;
    let parts = [&head.index].into_iter().chain(&head.blocks);
    let all = parts.fold(begin, |sum, part| sum.saturating_add(part.bytes));
    if all != there {
        let why = format!("{there} of {all} bytes are there");
        return Err(Unread::Damaged(why));
    }
    // So no sum of these leaves its type, and none asks for memory that its bytes can't fill.
    let parts = [&head.index].into_iter().chain(&head.blocks);
    if let Some(part) = parts.into_iter().find(|part| !part.is_possible()) {
        let why = format!("{} bytes cannot become {}", part.bytes, part.plain);
        return Err(Unread::Damaged(why));
    }
    let index = read_part(&file, &head.index, begin).map_err(Unread::Host)?;
    let index = head.index.inflated(&index);
    let index = index.and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
    let index: Index = index.map_err(|why| Unread::Damaged(format!("its index: {why}")))?;
    let (mut at, mut from) = (begin + head.index.bytes, 0);
    let mut block = |part: Part| {
        let block = Block { at, from, part };
        at += block.part.bytes;
        from += block.part.plain;
        block
    };
    let pack = Pack {
        path: path.into(),
        blocks: head.blocks.into_iter().map(&mut block).collect(),
    };
    let results: u64 = index.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    match results == from {
        true => Ok((pack, index)),
        false => Err(Unread::Damaged(
            "its blocks have other bytes than its index".into(),
        )),
    }
}

/// The first line, and where it ends.
fn head(file: &File) -> Result<(Head, u64), Unread> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(file.take(HEAD_MAX));
    reader.read_until(b'\n', &mut line).map_err(Unread::Host)?;
    let why = |e| Unread::Damaged(format!("its first line: {e}"));
    let any: AnyHead = serde_json::from_slice(&line).map_err(why)?;
    if any.varve_pack != VERSION {
        return Err(Unread::Version(any.varve_pack));
    }
    let head = serde_json::from_slice(&line).map_err(why)?;
    Ok((head, line.len() as u64))
}

/// A result as it lies in a block.
fn laid(kept: &Kept) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(&kept.by).expect("plain data serialises");
    bytes.push(b'\n');
    bytes.extend(kept.text.as_bytes());
    bytes
}

fn kept(bytes: &[u8]) -> Result<Kept, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a result is no text".to_string())?;
    let (by, text) = text.split_once('\n').ok_or("a result has no first line")?;
    let by: By =
        serde_json::from_str(by).map_err(|e| format!("the first line of a result: {e}"))?;
    let text = text.to_string();
    Ok(Kept { by, text })
}

/// The bytes of a pack of these results.
pub fn packed(results: &[Named]) -> Vec<u8> {
    let (mut index, mut blocks, mut plain) = (Index::new(), Vec::new(), Vec::new());
    for (n, result) in results.iter().enumerate() {
        let bytes = laid(&result.kept);
        let length = u32::try_from(bytes.len()).expect("a result is below 4 GiB");
        index.push((result.id.clone(), length));
        plain.extend(bytes);
        if plain.len() >= BLOCK || n + 1 == results.len() {
            blocks.push(deflated(&std::mem::take(&mut plain)));
        }
    }
    let index = serde_json::to_vec(&index).expect("plain data serialises");
    let (index, index_bytes) = deflated(&index);
    let head = Head {
        varve_pack: VERSION,
        index,
        blocks: blocks.iter().map(|(part, _)| part.clone()).collect(),
    };
    let mut pack = serde_json::to_vec(&head).expect("plain data serialises");
    pack.push(b'\n');
    pack.extend(index_bytes);
    blocks.iter().for_each(|(_, bytes)| pack.extend(bytes));
    pack
}

/// The results of a damaged pack that are whole: those of the blocks that are.
///
/// # Errors
/// The host refuses.
pub fn whole(path: &Path) -> io::Result<Vec<Named>> {
    let file = File::open(path)?;
    let (head, begin) = match head(&file) {
        Ok(read) => read,
        Err(Unread::Host(e)) => return Err(e),
        Err(Unread::Damaged(_) | Unread::Version(_)) => return Ok(Vec::new()),
    };
    let there = file.metadata()?.len();
    let read = |part: &Part, from: u64| match from.saturating_add(part.bytes) <= there {
        true => read_part(&file, part, from).map(|bytes| part.inflated(&bytes).ok()),
        false => Ok(None),
    };
    let index = read(&head.index, begin)?;
    let index = index.and_then(|text| serde_json::from_slice::<Index>(&text).ok());
    let mut index = index.unwrap_or_default().into_iter();
    let (mut found, mut from) = (Vec::new(), begin.saturating_add(head.index.bytes));
    for part in &head.blocks {
        let block = read(part, from)?;
        from = from.saturating_add(part.bytes);
        let mut begin = 0;
        while begin < part.plain {
            let Some((id, bytes)) = index.next() else {
                return Ok(found);
            };
            let result = (begin as usize)..(begin as usize + bytes as usize);
            begin += u64::from(bytes);
            let result = block.as_ref().and_then(|block| block.get(result));
            if let Some(Ok(kept)) = result.map(kept) {
                found.push(Named { id, kept });
            }
        }
    }
    Ok(found)
}
