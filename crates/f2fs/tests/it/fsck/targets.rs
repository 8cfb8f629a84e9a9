//! The fields of every structure of a volume, each with the way to make its checksum right after a
//! change.

use base::Bytes;
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCKS_PER_SEG, BlockAddr, Checkpoint, CpFlags, Features, Geometry, Inline,
    InodeFields, NAT_PER_BLOCK, NatEntry, Nid, NodeKind, SIT_PER_BLOCK, SegNo, SitEntry,
    Superblock, addr, bits, crc, footer, nat_journal, sit_journal, update_inode_checksum,
};
use std::collections::BTreeMap;

pub type Blocks = BTreeMap<u64, Bytes>;
/// Offset in the block, and bytes.
pub type Field = (usize, usize);

/// How the checksum of a structure is made good, and where else it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fix {
    None,
    Superblock,
    /// Of the pack that begins here.
    Checkpoint(u64),
    Inode,
}

/// A structure.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub block: u64,
    pub fields: Vec<Field>,
    pub fix: Fix,
}

pub struct Volume {
    pub blocks: Blocks,
    pub geo: Geometry,
    pub features: Features,
    pub seed: u32,
    pub cp: Checkpoint,
    pub targets: Vec<Target>,
}

pub fn block(blocks: &Blocks, n: u64) -> Bytes {
    let found = blocks.get(&n).cloned();
    found.unwrap_or_else(|| vec![0; 4096].into())
}

/// Fields of so many bytes one behind the other.
fn run(at: usize, bytes: usize, count: usize) -> impl Iterator<Item = Field> {
    (0..count).map(move |n| (at + n * bytes, bytes))
}

const NAT_BYTES: usize = 9;
const SIT_BYTES: usize = 74;
const JOURNAL: usize = 507;
const SUMMARY_JOURNAL_AT: usize = 512 * 7;

impl Volume {
    /// Finds all structures.
    pub fn of(blocks: Blocks) -> Volume {
        let sb = Superblock::in_block(&block(&blocks, 0)).expect("a volume");
        let geo = Geometry::new(&sb, sb.block_count()).expect("sound");
        let packs = [false, true].map(|second| u64::from(geo.cp_pack(second)));
        let version =
            |at: u64| Checkpoint::parse(&block(&blocks, at), 0).map_or(0, |cp| cp.version());
        let newest = packs[usize::from(version(packs[1]) > version(packs[0]))];
        let cp = Checkpoint::parse(&block(&blocks, newest), 0).expect("sound");
        let mut volume = Volume {
            geo,
            features: sb.features(),
            seed: crc(!0, &sb.uuid()),
            cp,
            blocks,
            targets: Vec::new(),
        };
        volume.superblocks();
        volume.pack(newest);
        let other = packs[usize::from(newest == packs[0])];
        volume.checkpoint("other checkpoint", other);
        volume.tables();
        volume.summaries();
        volume.nodes();
        volume
    }

    fn add(&mut self, name: impl Into<String>, block: u64, fields: Vec<Field>, fix: Fix) {
        let name = name.into();
        if !fields.is_empty() {
            self.targets.push(Target {
                name,
                block,
                fields,
                fix,
            });
        }
    }

    fn superblocks(&mut self) {
        let mut fields: Vec<Field> = [(0, 4), (4, 2), (6, 2), (36, 8), (108, 4), (124, 2)].to_vec();
        fields.extend(run(8, 4, 7).chain(run(44, 4, 16)));
        fields.extend([
            (1148, 4),
            (1152, 1),
            (1664, 4),
            (1668, 1),
            (2180, 4),
            (2184, 1),
        ]);
        fields.extend([
            (2201, 4),
            (2265, 4),
            (2757, 1),
            (2758, 2),
            (2760, 2),
            (2762, 1),
            (2794, 1),
        ]);
        fields.extend(run(2745, 4, 3).chain([(3004, 4), (3068, 4)]));
        let fields: Vec<Field> = fields.iter().map(|&(at, n)| (1024 + at, n)).collect();
        self.add("superblock", 0, fields.clone(), Fix::Superblock);
        self.add("second superblock", 1, fields, Fix::Superblock);
    }

    fn checkpoint(&mut self, name: &str, at: u64) {
        let mut fields: Vec<Field> = run(0, 8, 3).chain(run(24, 4, 3)).collect();
        fields.extend(run(36, 4, 3).chain(run(68, 2, 3)));
        fields.extend(run(84, 4, 3).chain(run(116, 2, 3)));
        fields.extend(run(132, 4, 9).chain([(168, 8)]).chain(run(176, 1, 6)));
        fields.extend(run(192, 1, 4).chain(run(256, 1, 4)).chain([(4092, 4)]));
        self.add(name, at, fields, Fix::Checkpoint(at));
    }

    fn pack(&mut self, start: u64) {
        self.checkpoint("checkpoint", start);
        let cp = &self.cp;
        let (first, total) = (u64::from(cp.pack_start_sum()), u64::from(cp.pack_blocks()));
        let compact = cp.flags().has(CpFlags::COMPACT_SUM);
        let nodes = if cp.has_node_summaries() { 3 } else { 0 };
        let nat_bits = cp.flags().has(CpFlags::NAT_BITS);
        for n in first..total - 1 - nodes {
            let at = start + n;
            let entries = match (compact, n == first) {
                (true, true) => {
                    self.journals(at, 0, JOURNAL);
                    2 * JOURNAL
                }
                (true, false) => 0,
                (false, is_first) => {
                    let (nat, sit) = (is_first, n == first + 2);
                    let at_journal = |yes: bool| if yes { SUMMARY_JOURNAL_AT } else { 4096 };
                    self.journals(at, at_journal(nat), at_journal(sit));
                    0
                }
            };
            self.owners("data summary of the pack", at, entries, 20);
        }
        for n in total - 1 - nodes..total - 1 {
            self.owners("node summary of the pack", start + n, 0, 20);
        }
        if nat_bits {
            self.add("NAT bits", start + 511, run(0, 4, 40).collect(), Fix::None);
        }
    }

    /// Owners that are named, and the kind of the summary.
    fn owners(&mut self, name: &str, at: u64, from: usize, most: usize) {
        let bytes = block(&self.blocks, at);
        let places = (from..from + 7 * 512).step_by(7).filter(|n| n + 7 <= 4096);
        let used = places.filter(|&n| bytes[n..n + 4] != [0; 4]).take(most);
        let mut fields: Vec<Field> = used
            .flat_map(|n| [(n, 4), (n + 4, 1), (n + 5, 2)])
            .collect();
        fields.push((4091, 1));
        self.add(name, at, fields, Fix::None);
    }

    /// Journals of NAT and SIT that begin at these bytes; there is none at the end of the block.
    fn journals(&mut self, at: u64, nat: usize, sit: usize) {
        let bytes = block(&self.blocks, at);
        if nat < 4096 {
            let count = nat_journal(&bytes[nat..nat + JOURNAL]).count();
            let mut fields = vec![(nat, 2)];
            for n in 0..count {
                let entry = nat + 2 + n * 13;
                fields.extend([(entry, 4), (entry + 4, 1), (entry + 5, 4), (entry + 9, 4)]);
            }
            self.add("NAT journal", at, fields, Fix::None);
        }
        if sit < 4096 {
            let count = sit_journal(&bytes[sit..sit + JOURNAL]).count();
            let mut fields = vec![(sit, 2)];
            for n in 0..count {
                let entry = sit + 2 + n * (4 + SIT_BYTES);
                fields.extend([(entry, 4), (entry + 4, 2), (entry + 70, 8)]);
                fields.extend(run(entry + 6, 1, 8));
            }
            self.add("SIT journal", at, fields, Fix::None);
        }
    }

    fn tables(&mut self) {
        for n in 0..self.geo.nat_blocks {
            let second = bits::test_bit(self.cp.nat_bitmap(), n as usize);
            let at = u64::from(self.geo.nat_addr(n, second));
            let bytes = block(&self.blocks, at);
            let used: Vec<usize> = (0..NAT_PER_BLOCK)
                .filter(|&n| NatEntry::get(&bytes, n) != NatEntry::default())
                .collect();
            let free = used.last().map(|n| n + 3).filter(|&n| n < NAT_PER_BLOCK);
            let entries = used.iter().copied().chain(free).map(|n| n * NAT_BYTES);
            let fields = entries
                .flat_map(|n| [(n, 1), (n + 1, 4), (n + 5, 4)])
                .collect();
            self.add("NAT", at, fields, Fix::None);
        }
        for n in 0..self.geo.sit_blocks_used() {
            let second = bits::test_bit(self.cp.sit_bitmap(), n as usize);
            let at = u64::from(self.geo.sit_addr(n, second));
            let bytes = block(&self.blocks, at);
            let first = n * SIT_PER_BLOCK as u32;
            let count = (self.geo.segments_main - first).min(SIT_PER_BLOCK as u32) as usize;
            let used = |&n: &usize| SitEntry::parse(&bytes, n).valid > 0 || n + 1 == count;
            let entries = (0..count).filter(used).map(|n| n * SIT_BYTES);
            let fields = entries.flat_map(|n| {
                [(n, 2), (n + 66, 8)]
                    .into_iter()
                    .chain(run(n + 2, 1, 6))
                    .chain(run(n + 60, 1, 6))
            });
            self.add("SIT", at, fields.collect(), Fix::None);
        }
    }

    fn summaries(&mut self) {
        if self.geo.is_sealed() {
            return;
        }
        for seg in 0..self.geo.segments_main {
            let at = u64::from(self.geo.ssa_block(SegNo(seg)));
            if self.blocks.contains_key(&at) {
                self.owners("summary", at, 0, 30);
            }
        }
    }

    /// What the NAT and its journal say, by number.
    fn nat(&self) -> BTreeMap<Nid, BlockAddr> {
        let mut all = BTreeMap::new();
        for n in 0..self.geo.nat_blocks {
            let second = bits::test_bit(self.cp.nat_bitmap(), n as usize);
            let bytes = block(&self.blocks, self.geo.nat_addr(n, second).into());
            for index in 0..NAT_PER_BLOCK {
                let entry = NatEntry::get(&bytes, index);
                all.insert(Nid(n * NAT_PER_BLOCK as u32 + index as u32), entry.addr);
            }
        }
        let journals: Vec<Target> = self.targets.clone();
        for target in journals.iter().filter(|t| t.name == "NAT journal") {
            let bytes = block(&self.blocks, target.block);
            let at = target.fields[0].0;
            for (nid, entry) in nat_journal(&bytes[at..at + JOURNAL]) {
                all.insert(nid, entry.addr);
            }
        }
        all
    }

    fn nodes(&mut self) {
        for (_, at) in self.nat() {
            if self.geo.is_main(at) {
                self.node(at.into());
            }
        }
    }

    fn node(&mut self, at: u64) {
        let bytes = block(&self.blocks, at);
        let footer = footer(&bytes);
        match footer.kind() {
            NodeKind::Inode => self.inode(at, &bytes),
            NodeKind::Direct => {
                let fields = slots(&bytes, 0, ADDRS_PER_BLOCK as usize);
                self.add("direct node", at, fields, Fix::None);
            }
            NodeKind::Xattr => {
                let used = bytes[..4072].iter().rposition(|&b| b != 0).unwrap_or(0);
                let fields = run(0, 4, 6).chain(run(24, 1, used.saturating_sub(24).min(60)));
                self.add("attribute node", at, fields.collect(), Fix::None);
            }
            _ => {
                let fields = slots(&bytes, 0, ADDRS_PER_BLOCK as usize);
                self.add("indirect node", at, fields, Fix::None);
            }
        }
        let inode = footer.kind() == NodeKind::Inode;
        let fix = if inode { Fix::Inode } else { Fix::None };
        let fields = [(4072, 4), (4076, 4), (4080, 4), (4084, 8), (4092, 4)];
        self.add("footer", at, fields.to_vec(), fix);
    }

    fn inode(&mut self, at: u64, bytes: &Bytes) {
        let inode = InodeFields::parse(bytes, self.features).expect("sound");
        let mut fields: Vec<Field> = [(0, 2), (2, 1), (3, 1)].to_vec();
        fields.extend(run(4, 4, 3).chain(run(16, 8, 5)).chain(run(56, 4, 9)));
        fields.extend([(0x5C, 1), (0x15B, 1)].into_iter().chain(run(0x15C, 4, 3)));
        fields.extend(run(0xFD4, 4, 5));
        if inode.inline.has(Inline::EXTRA_ATTR) {
            fields.extend([
                (0x168, 2),
                (0x16A, 2),
                (0x16C, 4),
                (0x170, 4),
                (0x174, 8),
                (0x17C, 4),
            ]);
        }
        let kind = match (inode.is_dir(), inode.is_symlink(), inode.is_regular()) {
            (true, ..) => "directory",
            (_, true, _) => "link",
            (_, _, true) => "file",
            _ => "special file",
        };
        self.add(format!("{kind} inode"), at, fields, Fix::Inode);
        let xattrs = inode.inline_xattr_range();
        let used = bytes[xattrs.clone()].iter().rposition(|&b| b != 0);
        if let Some(used) = used {
            let fields = run(xattrs.start, 1, used + 1).collect();
            self.add("attributes in the inode", at, fields, Fix::Inode);
        }
        if inode.inline.has(Inline::DATA) {
            let range = inode.inline_data_range();
            let fields = run(range.start - 4, 4, 2).collect();
            self.add("data in the inode", at, fields, Fix::Inode);
        } else if inode.inline.has(Inline::DENTRY) {
            let range = inode.inline_data_range();
            let used = range.clone().filter(|&n| bytes[n] != 0);
            let mut fields: Vec<Field> = used.take(200).map(|n| (n, 1)).collect();
            fields.push((range.start - 4, 4));
            self.add("entries in the inode", at, fields, Fix::Inode);
        } else {
            self.addresses(at, bytes, &inode);
        }
    }

    fn addresses(&mut self, at: u64, bytes: &Bytes, inode: &InodeFields) {
        let (first, count) = (inode.addr_slot0(), inode.addrs_per_inode() as usize);
        let fields = slots(bytes, first, count);
        self.add("addresses in the inode", at, fields, Fix::Inode);
        if inode.is_dir() {
            for n in first..first + count {
                let entries = addr(bytes, n);
                if self.geo.is_main(entries) {
                    self.entries(entries.into());
                }
            }
        }
    }

    fn entries(&mut self, at: u64) {
        let bytes = block(&self.blocks, at);
        let mut fields: Vec<Field> = run(0, 1, 30).collect();
        for slot in 0..214 {
            let (entry, name) = (30 + slot * 11, 30 + 214 * 11 + slot * 8);
            if bits::test_bit_le(&bytes, slot) && bytes[entry..entry + 11] != [0; 11] {
                fields.extend([(entry, 4), (entry + 4, 4), (entry + 8, 2), (entry + 10, 1)]);
                fields.extend([(name, 1), (name + 7, 1)]);
            }
        }
        self.add("directory block", at, fields, Fix::None);
    }

    /// Makes checksums good, and copies what stands twice.
    pub fn mend(&self, target: &Target, changed: &mut Blocks) {
        let mut bytes = block(changed, target.block).to_vec();
        match target.fix {
            Fix::None => return,
            Fix::Superblock => {
                let features = base::bytes::get_le32(&bytes, 1024 + 2180);
                if Features(features).has(Features::SB_CHKSUM) {
                    let sum = ondisk::f2fs::crc_f2fs(&bytes[1024..1024 + 3068]);
                    bytes[4092..].copy_from_slice(&sum.to_le_bytes());
                }
            }
            Fix::Checkpoint(start) => {
                let sum = ondisk::f2fs::crc_f2fs(&bytes[..4092]);
                bytes[4092..].copy_from_slice(&sum.to_le_bytes());
                // Where the pack ended before, and where it ends now.
                let old = block(&self.blocks, start);
                for of in [&old[..], &bytes[..]] {
                    let total = base::bytes::get_le32(of, 136);
                    if (2..=BLOCKS_PER_SEG).contains(&total) {
                        let last = start + u64::from(total) - 1;
                        changed.insert(last, Bytes::from(bytes.clone()));
                    }
                }
            }
            Fix::Inode => update_inode_checksum(&mut bytes, self.features, self.seed),
        }
        changed.insert(target.block, bytes.into());
    }
}

/// Slots of a node that are in use, and two that are not.
fn slots(bytes: &Bytes, first: usize, count: usize) -> Vec<Field> {
    let used = |at: &usize| bytes[*at..at + 4] != [0; 4];
    let (full, empty): (Vec<usize>, Vec<usize>) =
        (first..first + count).map(|n| 4 * n).partition(used);
    let few = full.iter().take(60).chain(empty.iter().take(1));
    few.chain(empty.last()).map(|&at| (at, 4)).collect()
}
