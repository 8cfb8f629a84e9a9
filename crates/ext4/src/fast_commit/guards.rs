//! fast_commit-U4, and the checks before it: for each guard one row that it refuses, and similar
//! rows that are carried out.

use super::*;
use base::bytes::get_le32;
use blockdev::{Image, Ram};
use fscore::{Creds, FileSystem};
use ondisk::ext4::{FastCommitName, SUPERBLOCK_AT};
use rt::{Sim, SimConfig};

const BYTES: u64 = super::fuzz::BYTES;
const ROOT: Ino = disk::ROOT_INO;
/// Numbers of free inodes.
const FREE: [Ino; 2] = [Ino(40), Ino(41)];

/// A volume, with the numbers and the bytes of what lies in it.
struct Volume {
    image: Image,
    sb: Superblock,
    raw: BTreeMap<Ino, Vec<u8>>,
    file: Ino,
    dir: Ino,
    /// The only name in `dir`.
    link: Ino,
    /// An inode in use without a name.
    orphan: Ino,
    /// A free block.
    room: BlockNo,
}

fn volume() -> Volume {
    volume_of(super::fuzz::volume())
}

fn volume_of(image: Image) -> Volume {
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(image.to_ram(BYTES));
        let mount = |options: &str| {
            let options = MountOptions::parse(options).expect("options");
            Ext4::mount(Queue::new(ram.clone()), options).expect("mounts")
        };
        let fs = mount("commit=600");
        let root = fs.root();
        let who = Creds::default();
        // Two orphans, so that the newer one names the older one as the next of the list.
        let [_, orphan] = [b"older", b"newer"].map(|name| {
            let made = fs.create(root, name, FileKind::File, 0o600, 0, who);
            let ino = made.expect("room").ino;
            fs.open(ino).expect("opens");
            fs.unlink(root, name).expect("goes");
            ino
        });
        fs.sync().expect("syncs");
        let crashed = ram.blocks().into_iter().collect::<Image>();
        fs.unmount().expect("unmounts");
        let ram = Arc::new(crashed.to_ram(BYTES));
        let ro = MountOptions::parse("ro").expect("options");
        let fs = Ext4::mount(Queue::new(ram.clone()), ro).expect("mounts");
        let find = |dir, name: &str| fs.lookup(dir, name.as_bytes()).expect("there");
        let (file, dir) = (find(root, "file 5"), find(root, "dir"));
        let link = find(dir, "link");
        let raw = |ino| (ino, fs.read_inode(ino).expect("in use").bytes().to_vec());
        let raw = [file, dir, link, orphan].map(raw).into_iter().collect();
        let (first, count) = (fs.geo.blocks_count() - 9, 1);
        assert!(fs.check_range(BlockNo(first), count, "a range").is_ok());
        fs.unmount().expect("unmounts");
        let image: Image = ram.blocks().into_iter().collect();
        let sb = Superblock::parse(&image.block(0)[SUPERBLOCK_AT as usize..]);
        Volume {
            image,
            sb: sb.expect("a volume"),
            raw,
            file,
            dir,
            link,
            orphan,
            room: BlockNo(first),
        }
    });
    let failure = outcome.first_failure;
    assert!(failure.is_none(), "{failure:?}");
    outcome.value.expect("a volume")
}

impl Volume {
    /// A tag with the fields of `like`, changed, for `ino`.
    fn fields(&self, ino: Ino, like: Ino, change: impl FnOnce(&mut disk::Inode)) -> FastCommitTag {
        let raw = &self.raw[&like];
        let mut inode = disk::Inode::parse(raw, raw.len()).expect("an inode");
        change(&mut inode);
        FastCommitTag::Inode(ino, inode.bytes().to_vec())
    }

    /// Like `fields`, for a number that is free: an empty file of extents.
    fn new_file(&self, ino: Ino, change: impl FnOnce(&mut disk::Inode)) -> FastCommitTag {
        self.fields(ino, self.file, |inode| {
            inode.set_generation(77);
            inode.set_size(0);
            change(inode);
        })
    }

    fn new_dir(&self, ino: Ino) -> FastCommitTag {
        self.fields(ino, self.dir, |inode| inode.set_generation(77))
    }

    fn range(&self, ino: Ino) -> FastCommitTag {
        FastCommitTag::AddRange(
            ino,
            Extent {
                logical: 0,
                len: 1,
                physical: self.room,
                unwritten: false,
            },
        )
    }

    fn replay(&self, tags: Vec<FastCommitTag>) -> Result<usize, String> {
        let (image, sb) = (self.image.clone(), self.sb.clone());
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let ram: Arc<Ram> = Arc::new(image.to_ram(BYTES));
            let options = MountOptions::default();
            replay(&Queue::new(ram), &sb, &options, (tags, Ending::Freed))
                .map_err(|e| e.to_string())
        });
        match outcome.first_failure {
            Some(failure) => Err(format!("panic: {failure:?}")),
            None => outcome.value.expect("an answer").map(|blocks| blocks.len()),
        }
    }

    fn refuses(&self, words: &str, tags: Vec<FastCommitTag>) {
        let shown = format!("{:?}", &tags[..tags.len().min(4)]);
        match self.replay(tags) {
            Ok(blocks) => panic!("{words}: {blocks} blocks of {shown}"),
            Err(why) => assert!(
                why.contains(WHAT) && why.contains(words),
                "{words}: {why}\n{shown}"
            ),
        }
    }
}

fn name(parent: Ino, ino: Ino, name: &str) -> FastCommitName {
    FastCommitName {
        parent,
        ino,
        name: name.as_bytes().to_vec(),
    }
}

fn create(parent: Ino, ino: Ino, text: &str) -> FastCommitTag {
    FastCommitTag::Create(name(parent, ino, text))
}

fn link(parent: Ino, ino: Ino, text: &str) -> FastCommitTag {
    FastCommitTag::Link(name(parent, ino, text))
}

fn unlink(parent: Ino, ino: Ino, text: &str) -> FastCommitTag {
    FastCommitTag::Unlink(name(parent, ino, text))
}

fn without(inode: &mut disk::Inode, flag: InodeFlags) {
    inode.set_flags(InodeFlags(inode.flags().0 & !flag.0));
}

/// Valid rows, which differ little from the refused ones below.
#[test]
fn rows_that_make_sense_are_carried_out() {
    let v = volume();
    let [a, b] = FREE;
    let rows = [
        vec![create(ROOT, a, "a"), v.new_file(a, |_| ())],
        vec![
            create(ROOT, a, "a"),
            v.new_file(a, |i| i.set_size(4096)),
            v.range(a),
        ],
        vec![
            create(ROOT, a, "a"),
            v.new_dir(a),
            create(a, b, "b"),
            v.new_file(b, |_| ()),
        ],
        vec![unlink(v.dir, v.link, "link"), unlink(ROOT, v.dir, "dir")],
        vec![
            link(ROOT, v.file, "again"),
            v.fields(v.file, v.file, |i| i.set_links(2)),
        ],
        // An inode that a crash left without a name gets one.
        vec![
            link(ROOT, v.orphan, "o"),
            v.fields(v.orphan, v.orphan, |i| i.set_links(1)),
        ],
        // The number of a removed inode is used again.
        vec![
            unlink(ROOT, v.file, "file 5"),
            create(ROOT, v.file, "new"),
            v.new_file(v.file, |_| ()),
        ],
    ];
    for (n, row) in rows.into_iter().enumerate() {
        let done = v.replay(row);
        assert!(matches!(done, Ok(1..)), "row {n}: {done:?}");
    }
}

/// A directory has one name, in the directory in which it was made; a name must lie in a directory
/// that exists.
#[test]
fn u4_names_lie_in_directories_and_directories_have_one_name() {
    let v = volume();
    let [a, b] = FREE;
    let another = "gets another name";
    v.refuses(another, vec![link(ROOT, v.dir, "again")]);
    let row = vec![create(ROOT, a, "a"), v.new_dir(a), link(v.dir, a, "b")];
    v.refuses(another, row);
    let none = "which is no directory";
    let row = vec![create(v.file, a, "a"), v.new_file(a, |_| ())];
    v.refuses(none, row);
    let row = vec![
        unlink(v.dir, v.link, "link"),
        unlink(ROOT, v.dir, "dir"),
        create(v.dir, a, "a"),
        v.new_file(a, |_| ()),
    ];
    v.refuses(none, row);
    let one = "does not have one place";
    let row = vec![create(ROOT, a, "a"), v.new_dir(a), link(ROOT, a, "b")];
    v.refuses(one, row);
    let row = vec![
        create(b, a, "a"),
        v.new_dir(a),
        create(a, b, "b"),
        v.new_dir(b),
    ];
    v.refuses(one, row);
    let row = vec![unlink(ROOT, v.dir, "dir")];
    v.refuses("goes, and holds \"link\"", row);
}

#[test]
fn u4_links_are_names() {
    let v = volume();
    let [a, _] = FREE;
    let links = "its links are not its names";
    v.refuses(links, vec![v.fields(v.file, v.file, |i| i.set_links(0))]);
    let many = (0..LINKS_MAX).map(|n| link(ROOT, v.file, &format!("{n}")));
    v.refuses(links, many.collect());
    v.refuses("a name of what is not there", vec![create(ROOT, a, "a")]);
    let again = "given out again";
    v.refuses(again, vec![v.new_file(v.file, |_| ())]);
    let row = vec![create(ROOT, v.orphan, "o"), v.new_file(v.orphan, |_| ())];
    v.refuses(again, row);
}

#[test]
fn u4_fields_are_those_of_what_is_there() {
    let v = volume();
    let [a, _] = FREE;
    let row = vec![
        create(ROOT, a, "a"),
        v.new_file(a, |i| {
            without(i, InodeFlags::EXTENTS);
            i.block_area_mut().fill(0);
        }),
        v.range(a),
    ];
    v.refuses("blocks, and no extents", row);
    let change = |change: fn(&mut disk::Inode)| vec![v.fields(v.file, v.file, change)];
    let size = "a size that no file can have";
    v.refuses(size, change(|i| i.set_size(1 << 50)));
    let inline = change(|i| i.set_flags(i.flags() | InodeFlags::INLINE_DATA));
    v.refuses("blocks, and content in the inode", inline);
    let attributes = change(|i| i.set_xattr_block(BlockNo(500)));
    v.refuses("another block of attributes", attributes);
    let map = "another map of blocks";
    v.refuses(map, change(|i| without(i, InodeFlags::EXTENTS)));
    let row = vec![
        create(ROOT, a, "a"),
        v.new_file(a, |i| {
            without(i, InodeFlags::EXTENTS);
            i.block_area_mut().fill(1);
        }),
    ];
    v.refuses(map, row);
    // Only the check of the resulting inode finds this: blocks behind the end.
    v.refuses("inode", change(|i| i.set_size(1)));
}

/// Rows that are refused before anything is counted.
#[test]
fn tags_that_contradict_the_volume_are_refused() {
    let v = volume();
    v.refuses("none of a file", vec![link(ROOT, Ino(8), "log")]);
    v.refuses("has no extents", vec![v.range(v.dir)]);
    let like_dir = v.fields(v.file, v.dir, |i| {
        let raw = &v.raw[&v.file];
        i.set_generation(get_le32(raw, 0x64));
    });
    v.refuses("another type", vec![like_dir]);
    let range = |logical, physical| {
        let extent = Extent {
            logical,
            len: 4,
            physical: BlockNo(physical),
            unwritten: false,
        };
        vec![FastCommitTag::AddRange(v.file, extent)]
    };
    v.refuses("beyond what a file can have", range(u32::MAX - 1, 500));
    v.refuses("a range", range(0, BYTES / 4096));
    v.refuses("a range", range(0, 0));
}

/// In a directory without regard to case a row may spell a name otherwise than its entry does: it
/// is the same name, and the last spelling stays.
#[test]
fn a_name_is_the_same_in_any_spelling_where_case_does_not_count() {
    let v = volume_of(super::fuzz::volume_of(true));
    let [a, _] = FREE;
    let after = |row: Vec<FastCommitTag>| {
        let (image, sb) = (v.image.clone(), v.sb.clone());
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let ram: Arc<Ram> = Arc::new(image.to_ram(BYTES));
            let queue = Queue::new(ram.clone());
            let options = MountOptions::default();
            let blocks = replay(&queue, &sb, &options, (row, Ending::Freed)).expect("replays");
            for (at, bytes) in blocks {
                let class = block::Class::Home;
                let lba = at.lba();
                queue.write(lba, class, bytes).expect("written");
            }
            let ro = MountOptions::parse("ro").expect("options");
            let fs = Ext4::mount(Queue::new(ram), ro).expect("mounts");
            let dir = fs.lookup(fs.root(), b"dir").expect("there");
            let entries = fs.readdir(dir, 0, 100).expect("reads");
            let names = entries.into_iter().filter(|e| e.name[0] != b'.');
            let names: Vec<_> = names.map(|e| (e.name, e.ino)).collect();
            fs.unmount().expect("unmounts");
            names
        });
        outcome.value.expect("an answer")
    };
    let gone = after(vec![unlink(v.dir, v.link, "LINK")]);
    assert_eq!(gone, []);
    let row = vec![
        create(v.dir, a, "Name"),
        v.new_file(a, |_| ()),
        unlink(v.dir, a, "NAME"),
        link(v.dir, a, "nAME"),
    ];
    let mut spelt = after(row);
    spelt.sort();
    assert_eq!(spelt, [(b"link".to_vec(), v.link), (b"nAME".to_vec(), a)]);
    let respelt = vec![
        link(v.dir, v.link, "for now"),
        unlink(v.dir, v.link, "link"),
        link(v.dir, v.link, "LinK"),
        unlink(v.dir, v.link, "for now"),
    ];
    assert_eq!(after(respelt), [(b"LinK".to_vec(), v.link)]);
    v.refuses("stands for inode", vec![link(v.dir, v.file, "LINK")]);
    // In the root case counts.
    let rows = vec![
        link(ROOT, v.file, "FILE 5"),
        v.fields(v.file, v.file, |i| i.set_links(2)),
    ];
    assert!(v.replay(rows).is_ok());
}
