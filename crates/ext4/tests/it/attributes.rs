//! Power cuts in the middle of setxattr, removexattr and writes to preallocated blocks, and damaged
//! attributes.
//!
//! Each cut leaves the worst that the device may leave. The attribute found has to be one whole
//! value between the one that the last fsync covered and the newest. Preallocated blocks may show
//! zeros and what was written, never what lay there before.
#![allow(clippy::disallowed_methods)]

use crate::common::cut_disk::{Tear, caps, new_ram};
use base::{BLOCK_BYTES, BlockNo, Ino, Nanos, Rng, SECTOR_BYTES};
use block::Queue;
use blockdev::{BlockDevice, Class, Image, Ram, Request, SpecDisk, write_block};
use fscore::{Errno, FallocateMode, FileSystem, FsError, FsResult, SetAttr, XattrMode};
use ondisk::ext4 as disk;
use ondisk::ext4::{FsSeed, Superblock, XattrBlock};
use rt::{Mutex, Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 << 20;

fn try_mount(device: Arc<dyn BlockDevice>, options: &str) -> FsResult<Arc<Ext4>> {
    Ext4::mount(Queue::new(device), MountOptions::parse(options)?)
}

fn create(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    fs.make(fs.root(), name)
}

/// What the medium holds after a cut, and what was promised before it.
struct Cut<P> {
    content: Image,
    promise: P,
}

/// Runs `work` and cuts while it does.
fn cuts<P: Clone + Send + 'static>(
    seed: u64,
    options: &'static str,
    start: P,
    work: fn(&Arc<Ext4>, &Mutex<P>, &mut Rng) -> FsResult<()>,
) -> Vec<Cut<P>> {
    let content: Image = new_ram(BYTES).blocks().into_iter().collect();
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(BYTES, Tear::Blocks), content, seed);
        let fs = try_mount(disk.clone(), options).expect("mounts");
        let promise = Arc::new(Mutex::new(start));
        let busy = Arc::new(Mutex::new(true));
        let worker = {
            let (fs, promise, busy) = (fs.clone(), promise.clone(), busy.clone());
            rt::spawn("worker", move || {
                let done = work(&fs, &promise, &mut Rng::named(seed, "work"));
                *busy.lock() = false;
                done
            })
        };
        let mut rng = Rng::named(seed, "cuts");
        let mut all = Vec::new();
        while *busy.lock() {
            rt::sleep(Nanos(rng.below(1_500_000)));
            let promise = promise.lock().clone();
            all.push(Cut {
                content: disk.snapshot(rng.next_u64()),
                promise,
            });
            if rng.one_in(20) {
                fs.journal().checkpoint_all().expect("goes home");
            }
        }
        worker.join().expect("no panic").expect("no error");
        fs.unmount().expect("unmounts");
        all
    });
    outcome.unwrap()
}

/// Mounts what a cut left and calls `judge` with it.
fn judged<P>(cut: &Cut<P>, options: &str, judge: impl FnOnce(&Ext4, &P) -> Result<(), String>) {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let fs = try_mount(Arc::new(cut.content.to_ram(BYTES)), options).expect("mounts");
        judge(&fs, &cut.promise).unwrap_or_else(|why| panic!("{options}: {why}"));
        fs.unmount().expect("unmounts");
    });
    outcome.unwrap();
}

/// Numbers of values: the one of the last fsync, and the newest.
#[derive(Clone, Copy)]
struct Values {
    synced: u64,
    newest: u64,
}

/// Value `n`; `None`: the attribute is missing. Values lie in the inode or in the block, alone
/// there or not.
fn value(n: u64) -> Option<Vec<u8>> {
    let len = [40, 900, 0, 3000, 30, 2990, 899][n as usize % 7];
    let mut bytes = vec![0; len];
    Rng::named(n, "value").fill(&mut bytes);
    (n % 5 != 4).then_some(bytes)
}

fn change_values(fs: &Arc<Ext4>, values: &Mutex<Values>, rng: &mut Rng) -> FsResult<()> {
    let ino = create(fs, b"f")?;
    fs.setxattr(ino, b"user.fixed", &[7; 20], XattrMode::Any)?;
    fs.sync()?;
    values.lock().synced = 1;
    for n in 2..40 {
        values.lock().newest = n;
        match value(n) {
            Some(bytes) => fs.setxattr(ino, b"user.v", &bytes, XattrMode::Any)?,
            None => match fs.removexattr(ino, b"user.v") {
                Err(FsError::Posix(Errno::NoData)) => {}
                other => other?,
            },
        }
        if rng.one_in(3) {
            fs.fsync(ino, false)?;
            values.lock().synced = n;
        }
        if rng.one_in(8) {
            // The freed block may hold data of another file now.
            let other = create(fs, format!("o{n}").as_bytes())?;
            fs.write(other, 0, &[0xAA; 20_000])?;
            fs.writeback(rt::now())?;
        }
    }
    Ok(())
}

fn judge_values(fs: &Ext4, values: &Values) -> Result<(), String> {
    if values.synced == 0 {
        return Ok(());
    }
    let ino = fs.lookup(fs.root(), b"f").map_err(|e| e.to_string())?;
    let found = match fs.getxattr(ino, b"user.v") {
        Ok(bytes) => Some(bytes),
        Err(FsError::Posix(Errno::NoData)) => None,
        Err(e) => return Err(e.to_string()),
    };
    let legal = |n: u64| match n {
        1 => found.is_none(),
        n => found == value(n),
    };
    if !(values.synced..=values.newest).any(legal) {
        return Err(format!(
            "a value of {:?} bytes is none of {}..={}",
            found.map(|f| f.len()),
            values.synced,
            values.newest
        ));
    }
    match fs.getxattr(ino, b"user.fixed") {
        Ok(fixed) if fixed == [7; 20] => Ok(()),
        other => Err(format!("the attribute that never changed: {other:?}")),
    }
}

#[test]
fn an_attribute_has_its_old_or_its_new_value_after_a_cut() {
    let start = Values {
        synced: 0,
        newest: 1,
    };
    let mut count = 0;
    for (seed, options) in [
        (1, "scheme=jbd2"),
        (2, "scheme=emmc"),
        (3, "scheme=coalition"),
        (4, "data=journal"),
        (5, "scheme=adaptive,discard"),
    ] {
        for cut in cuts(seed, options, start, change_values) {
            judged(&cut, options, judge_values);
            count += 1;
        }
    }
    assert!(count > 50, "only {count} cuts");
}

const PAGES: u64 = 48;

/// Fills the device with other bytes, so that blocks that are marked as written too early show
/// them.
fn soil(fs: &Ext4) -> FsResult<()> {
    let dirt = create(fs, b"dirt")?;
    let mut at = 0;
    loop {
        match fs.write(dirt, at, &[0xD1; 256 * 1024]) {
            Ok(n) => at += n as u64,
            Err(e) if e.errno() == Errno::NoSpc => break,
            Err(e) => return Err(e),
        }
    }
    fs.fsync(dirt, false)?;
    fs.unlink(fs.root(), b"dirt")?;
    fs.sync()
}

fn stamp(page: u64, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; BLOCK_BYTES];
    for sector in bytes.chunks_mut(SECTOR_BYTES) {
        sector[..8].copy_from_slice(&page.to_le_bytes());
    }
    bytes
}

/// For each page its version at the last fsync.
type Pages = Vec<u8>;

fn write_preallocated(fs: &Arc<Ext4>, pages: &Mutex<Pages>, rng: &mut Rng) -> FsResult<()> {
    soil(fs)?;
    let (f, other) = (create(fs, b"f")?, create(fs, b"other")?);
    fs.fallocate(f, FallocateMode::Allocate, 0, PAGES * BLOCK_BYTES as u64)?;
    fs.fsync(f, false)?;
    let mut now = vec![0; PAGES as usize];
    for n in 0..40 {
        let page = rng.below(PAGES);
        now[page as usize] += 1;
        let bytes = stamp(page, now[page as usize]);
        fs.write(f, page * BLOCK_BYTES as u64, &bytes)?;
        match rng.below(4) {
            0 => {
                fs.fsync(f, rng.one_in(2))?;
                *pages.lock() = now.clone();
            }
            // The data is on its way, and the fsync of another file commits what marks its blocks
            // as written.
            1 | 2 => {
                fs.writeback(rt::now())?;
                let set = SetAttr {
                    perm: Some(0o600 + n % 64),
                    ..SetAttr::default()
                };
                fs.setattr(other, &set)?;
                fs.fsync(other, false)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn judge_pages(fs: &Ext4, synced: &Pages) -> Result<(), String> {
    let Ok(ino) = fs.lookup(fs.root(), b"f") else {
        return match synced.iter().all(|&v| v == 0) {
            true => Ok(()),
            false => Err("the file is lost".into()),
        };
    };
    let mut buf = vec![0; PAGES as usize * BLOCK_BYTES];
    let n = fs.read(ino, 0, &mut buf).map_err(|e| e.to_string())?;
    for (page, found) in buf[..n].chunks(BLOCK_BYTES).enumerate() {
        let version = found[8];
        let whole = match version {
            0 => found.iter().all(|&b| b == 0),
            v => found == stamp(page as u64, v),
        };
        if !whole {
            return Err(format!("page {page} holds {:02x?}...", &found[..16]));
        }
        if version < synced[page] {
            return Err(format!(
                "page {page}: version {version}, synced {}",
                synced[page]
            ));
        }
    }
    Ok(())
}

#[test]
fn preallocated_blocks_never_show_what_they_held() {
    let mut count = 0;
    for (seed, options) in [
        (1, "scheme=jbd2"),
        (2, "data=writeback"),
        (3, "data=writeback,scheme=emmc"),
        (4, "scheme=emmc"),
        (5, "data=journal"),
        (6, "scheme=adaptive"),
        (7, "data=writeback"),
    ] {
        for cut in cuts(seed, options, vec![0; PAGES as usize], write_preallocated) {
            judged(&cut, options, judge_pages);
            count += 1;
        }
    }
    assert!(count > 100, "only {count} cuts");
}

fn read_block(ram: &Ram, block: BlockNo) -> Vec<u8> {
    let ticket = ram.submit(Request::read(block.lba(), 8));
    ram.wait(ticket).expect("read").into_bytes().to_vec()
}

/// A volume with attributes in an inode and in a block, and where they lie.
struct Marked {
    ram: Arc<Ram>,
    seed: FsSeed,
    ino: Ino,
    /// Block and byte of the inode.
    inode: (BlockNo, usize),
    block: BlockNo,
}

const INODE_BYTES: usize = 256;
const MARK: &[u8] = b"a value in the inode";

fn marked() -> Marked {
    let ram = new_ram(BYTES);
    let fs = try_mount(ram.clone(), "").expect("mounts");
    let ino = create(&fs, b"f").expect("create");
    fs.setxattr(ino, b"user.in", MARK, XattrMode::Any)
        .expect("set");
    for n in 0..5usize {
        let name = format!("trusted.block{n}");
        let value = vec![n as u8 + 1; 100 * n];
        fs.setxattr(ino, name.as_bytes(), &value, XattrMode::Any)
            .expect("set");
    }
    fs.unmount().expect("unmounts");
    let sb = Superblock::parse(&read_block(&ram, BlockNo(0))[1024..]).expect("valid");
    let seed = sb.seed();
    let place = sb.inode_place(ino).expect("there");
    assert_eq!(place.group, 0, "the first descriptor is that of its group");
    let group = disk::GroupDesc::parse(&read_block(&ram, BlockNo(1)), sb.desc_bytes());
    let table = group.expect("valid").inode_table();
    let inode = (table.plus(place.table_block), place.offset);
    let bytes = read_block(&ram, inode.0);
    let block = disk::Inode::parse(&bytes[inode.1..], INODE_BYTES)
        .expect("valid")
        .xattr_block();
    XattrBlock::parse(&read_block(&ram, block)).expect("the inode points to it");
    Marked {
        ram,
        seed,
        ino,
        inode,
        block,
    }
}

fn copy(ram: &Ram) -> Arc<Ram> {
    let copy = Ram::new(BYTES);
    for (n, block) in ram.blocks() {
        write_block(&copy, BlockNo(n).lba(), Class::Data, block).expect("in range");
    }
    Arc::new(copy)
}

/// Changes a few bytes at places that matter: headers, entries, the ends.
fn damage(bytes: &mut [u8], rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let reach = match rng.below(3) {
            0 => 64.min(bytes.len()),
            _ => bytes.len(),
        };
        let at = rng.below(reach as u64) as usize;
        bytes[at] = match rng.below(4) {
            0 => 0,
            1 => 0xFF,
            2 => bytes[at] ^ (1 << rng.below(8)),
            _ => rng.next_u64() as u8,
        };
    }
}

/// Calls every operation on attributes; each answers or fails with damage.
fn exercise(fs: &Ext4, ino: Ino) -> bool {
    let mut corrupt = false;
    let mut saw = |e: &FsError| match e {
        FsError::Corrupt { .. } => corrupt = true,
        FsError::Posix(_) | FsError::Aborted { .. } => {}
        other => panic!("neither damage nor a plain answer: {other}"),
    };
    let names = fs.listxattr(ino).inspect_err(&mut saw).unwrap_or_default();
    for name in &names {
        let _ = fs.getxattr(ino, name).inspect_err(&mut saw);
    }
    for len in [10, 500, 3000] {
        let set = fs.setxattr(ino, b"user.in", &vec![1; len], XattrMode::Any);
        let _ = set.inspect_err(&mut saw);
    }
    for name in &names {
        let _ = fs.removexattr(ino, name).inspect_err(&mut saw);
    }
    let _ = fs.fsync(ino, false).inspect_err(&mut saw);
    let _ = fs.unlink(fs.root(), b"f").inspect_err(&mut saw);
    let _ = fs.unmount();
    corrupt
}

#[test]
fn damaged_attributes_are_reported_and_never_a_panic() {
    let marked = marked();
    let mut rng = Rng::named(1, "damage");
    let mut reported = 0;
    for n in 0..300 {
        let ram = copy(&marked.ram);
        if n % 2 == 0 {
            let mut block = read_block(&ram, marked.block);
            damage(&mut block, &mut rng);
            if n % 20 != 0 {
                XattrBlock::update_checksum(marked.seed, marked.block, &mut block);
            }
            write_block(&ram, marked.block.lba(), Class::Home, block.into()).expect("in range");
        } else {
            let (at, byte) = marked.inode;
            let mut table = read_block(&ram, at);
            let range = byte..byte + INODE_BYTES;
            let old = disk::Inode::parse(&table[range.clone()], INODE_BYTES).expect("valid");
            let extra = 128 + usize::from(old.extra_bytes());
            damage(&mut table[byte + extra..byte + INODE_BYTES], &mut rng);
            let mut inode = disk::Inode::parse(&table[range.clone()], INODE_BYTES).expect("valid");
            inode.update_checksum(marked.seed, marked.ino);
            inode.encode(&mut table[range]);
            write_block(&ram, at.lba(), Class::Home, table.into()).expect("in range");
        }
        let fs = try_mount(ram, "").expect("attributes do not stop a mount");
        reported += u32::from(exercise(&fs, marked.ino));
    }
    assert!(reported > 60, "only {reported} of 300 were noticed");
}

/// The block that an inode points to may be of any kind.
#[test]
fn a_block_of_attributes_elsewhere_is_refused() {
    let marked = marked();
    for target in [1, 5, u64::from(u32::MAX), BYTES / 4096, BYTES / 4096 - 1] {
        let ram = copy(&marked.ram);
        let (at, byte) = marked.inode;
        let mut table = read_block(&ram, at);
        let range = byte..byte + INODE_BYTES;
        let mut inode = disk::Inode::parse(&table[range.clone()], INODE_BYTES).expect("valid");
        inode.set_xattr_block(BlockNo(target));
        inode.update_checksum(marked.seed, marked.ino);
        inode.encode(&mut table[range]);
        write_block(&ram, at.lba(), Class::Home, table.into()).expect("in range");
        // By default the superblock says that damage does not end the mount.
        for (options, latched) in [("", false), ("errors=remount-ro", true)] {
            let fs = try_mount(copy(&ram), options).expect("mounts");
            let error = fs.listxattr(marked.ino).expect_err("refused").to_string();
            assert!(error.contains("corrupt"), "{target}: {error}");
            assert_eq!(fs.unmount().is_err(), latched, "{target} {options}");
        }
    }
}
