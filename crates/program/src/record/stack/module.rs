//! Program files and libraries: the tables that say how to find the frame above one.

use super::Frame;
use super::memory::Mapping;
use base::Map;
use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment, ReadCache};
use std::fs::File;

/// Most bytes of the tables of one file.
const TABLES_MAX: u64 = 256 << 20;

/// How the frame above one is found, at one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Where the frame ends.
    pub cfa: Cfa,
    /// Distance from there to where the base pointer of the frame above is kept, bytes.
    pub base: Option<i64>,
    /// Distance from there to the address of return, bytes; `None`: there is no frame above.
    pub ret: Option<i64>,
    /// The first instruction of the function, as the file calls it.
    pub function: u64,
}

/// Where a frame ends, by a register and a distance in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cfa {
    /// By the stack pointer.
    Stack(i64),
    /// By the base pointer.
    Base(i64),
}

/// A program file.
pub struct Module {
    /// Its path.
    pub path: String,
    segments: Vec<Segment>,
    tables: Option<Tables>,
    rules: Map<u64, Option<Rule>>,
}

struct Segment {
    offset: u64,
    len: u64,
    address: u64,
}

#[derive(Default)]
struct Tables {
    eh_frame: Vec<u8>,
    eh_frame_hdr: Vec<u8>,
    debug_frame: Vec<u8>,
    bases: BaseAddresses,
}

/// All program files of a recording.
pub struct Modules {
    /// Device number of the mount, whose files are not opened.
    mount: u64,
    files: Vec<Module>,
    by_path: Map<String, u32>,
}

impl Modules {
    /// None yet.
    pub fn new(mount: u64) -> Modules {
        Modules {
            mount,
            files: Vec::new(),
            by_path: Map::default(),
        }
    }

    /// The frame of an address of a process that lies in a mapping, and how to find the one above.
    pub fn frame(&mut self, map: &Mapping, address: u64) -> Option<(Frame, Option<Rule>)> {
        let (index, module) = self.of(map)?;
        let frame = Frame {
            module: index,
            address: module.address(map, address),
        };
        Some((frame, module.rule(frame.address)))
    }

    /// The file of a mapping, and its index.
    fn of(&mut self, map: &Mapping) -> Option<(u32, &mut Module)> {
        let index = match self.by_path.get(&map.path) {
            Some(&index) => index,
            None => {
                let index = u32::try_from(self.files.len()).ok()?;
                let readable = map.device != self.mount;
                self.files.push(Module::new(&map.path, readable));
                self.by_path.insert(map.path.clone(), index);
                index
            }
        };
        Some((index, &mut self.files[index as usize]))
    }

    /// The file of an index, and whether it may be opened.
    pub fn get(&self, index: u32) -> (&Module, bool) {
        let module = &self.files[index as usize];
        (module, !module.segments.is_empty())
    }
}

impl Module {
    /// A file; without tables if it is not `readable`, or is no program.
    fn new(path: &str, readable: bool) -> Module {
        let parts = Some(path).filter(|_| readable).and_then(read);
        let (segments, tables) = parts.unwrap_or_default();
        Module {
            path: path.into(),
            segments,
            tables,
            rules: Map::default(),
        }
    }

    /// What the file calls an address of a process; the mapping it lies in is of this file. A
    /// damaged file may name any address.
    fn address(&self, map: &Mapping, address: u64) -> u64 {
        let offset = (address - map.start).wrapping_add(map.offset);
        let inside = |s: &&Segment| s.offset <= offset && offset - s.offset < s.len;
        let segment = self.segments.iter().find(inside);
        segment.map_or(offset, |s| (offset - s.offset).wrapping_add(s.address))
    }

    /// How to find the frame above, at an instruction by the file's address.
    fn rule(&mut self, address: u64) -> Option<Rule> {
        if let Some(rule) = self.rules.get(&address) {
            return *rule;
        }
        let rule = self.tables.as_ref().and_then(|tables| tables.rule(address));
        self.rules.insert(address, rule);
        rule
    }
}

fn read(path: &str) -> Option<(Vec<Segment>, Option<Tables>)> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let segments = file.segments().map(|segment| {
        let (offset, len) = segment.file_range();
        Segment {
            offset,
            len,
            address: segment.address(),
        }
    });
    let segments = segments.collect();
    let mut tables = Tables::default();
    let mut room = TABLES_MAX;
    let mut bytes = |name: &str| {
        let section = file.section_by_name(name)?;
        // The size of a section counts as it is stored, which may be compressed.
        let stored = section.compressed_data().ok()?;
        room = room.checked_sub(stored.uncompressed_size)?;
        let data = stored.decompress().ok()?;
        Some((section.address(), data.into_owned()))
    };
    if let Some((at, data)) = bytes(".eh_frame") {
        tables.eh_frame = data;
        tables.bases = tables.bases.set_eh_frame(at);
    }
    if let Some((at, data)) = bytes(".eh_frame_hdr") {
        tables.eh_frame_hdr = data;
        tables.bases = tables.bases.set_eh_frame_hdr(at);
    }
    if let Some((_, data)) = bytes(".debug_frame") {
        tables.debug_frame = data;
    }
    if let Some(text) = file.section_by_name(".text") {
        tables.bases = tables.bases.set_text(text.address());
    }
    Some((segments, Some(tables)))
}

impl Tables {
    fn rule(&self, address: u64) -> Option<Rule> {
        self.by_exceptions(address).or_else(|| {
            let frames = DebugFrame::new(&self.debug_frame, LittleEndian);
            let get = DebugFrame::cie_from_offset;
            let fde = frames.fde_for_address(&self.bases, address, get).ok()?;
            let mut context = UnwindContext::new();
            let row = fde
                .unwind_info_for_address(&frames, &self.bases, &mut context, address)
                .ok()?;
            rule(row, fde.initial_address())
        })
    }

    fn by_exceptions(&self, address: u64) -> Option<Rule> {
        let frames = EhFrame::new(&self.eh_frame, LittleEndian);
        let get = EhFrame::cie_from_offset;
        let index = EhFrameHdr::new(&self.eh_frame_hdr, LittleEndian).parse(&self.bases, 8);
        let table = index.as_ref().ok().and_then(|index| index.table());
        let fde = match table {
            Some(table) => table.fde_for_address(&frames, &self.bases, address, get),
            None => frames.fde_for_address(&self.bases, address, get),
        };
        let fde = fde.ok()?;
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&frames, &self.bases, &mut context, address)
            .ok()?;
        rule(row, fde.initial_address())
    }
}

/// A row of a table as a rule; `None` for what is found by a computation, as the frames of signals
/// are.
fn rule(row: &UnwindTableRow<usize>, function: u64) -> Option<Rule> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP => {
            Cfa::Stack(*offset)
        }
        CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RBP => {
            Cfa::Base(*offset)
        }
        _ => return None,
    };
    let kept = |register| match row.register(register) {
        Some(RegisterRule::Offset(offset)) => Some(offset),
        _ => None,
    };
    Some(Rule {
        cfa,
        base: kept(X86_64::RBP),
        ret: kept(X86_64::RA),
        function,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_may_name_any_address() {
        let module = Module {
            path: "damaged".into(),
            segments: vec![Segment {
                offset: 8,
                len: u64::MAX,
                address: u64::MAX,
            }],
            tables: None,
            rules: Map::default(),
        };
        let address = |offset| {
            let map = Mapping {
                start: 0x1000,
                end: 0x2000,
                offset,
                device: 0,
                path: "damaged".into(),
            };
            module.address(&map, 0x1010)
        };
        assert_eq!(address(0), 7, "it goes round");
        assert_eq!(address(u64::MAX), 6, "so does the offset");
    }
}
