//! Files of volumes made by f2fs-tools 1.15, read and checked bit by bit.
//!
//! Volumes of 128 MiB by `mkfs.f2fs` and `sload.f2fs -f DIR`: *plain* without features, *extra*
//! with `-O extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,project_quota`, and
//! `compression,sb_checksum` in the same list; the labelled inode comes from `sload.f2fs -s`. UUID
//! 00112233-4455-6677-8899-aabbccddeeff.
//!
//! A string holds the bytes that are not zero: `offset:bytes`, all in hexadecimal, `*n` (decimal)
//! for a run.

use super::*;

/// Inode of `dir` on the plain volume.
const PLAIN_DIR: &str = "\
    0:ed410001 c:03 11:10 18:02 20:fde8026b 28:fde8026b 30:fde8026b 48:01 54:03 58:03 5c:646972 169:1a fe8:05 \
    fec:05 ff4:391bbd6e";

/// Inode of `longlnk`, a link whose target lies inside.
const PLAIN_LINK: &str = "\
    0:ffa1000b c:01 10:d007 18:01 20:fce8026b 28:fce8026b 30:fce8026b 54:03 58:07 5c:6c6f6e676c6e6b 16c:78*2000 \
    fe8:07 fec:07 ff0:01 ff4:391bbd6e";

/// Inode of `movie.mp4`.
const PLAIN_MOVIE: &str = "\
    0:a481010b c:01 10:03 18:01 20:fde8026b 28:fde8026b 30:fde8026b 54:33 58:09 5c:6d6f7669652e6d7034 \
    16c:68690a fe8:34 fec:34 ff0:01 ff4:391bbd6e";

/// Inode of `small.txt` on the volume with extra attributes.
const EXTRA_SMALL: &str = "\
    0:a481002b c:01 10:11 18:01 20:fce8026b 28:fce8026b 30:fce8026b 54:03 58:09 5c:736d616c6c2e747874 \
    168:240032 170:ff2e354b 190:736d616c6c20696e6c696e652066696c65 fe8:0b fec:0b ff0:01 ff4:391bbd6e";

/// Inode of `dir` there.
const EXTRA_DIR: &str = "\
    0:ed410021 c:03 11:10 18:02 20:fde8026b 28:fde8026b 30:fde8026b 48:01 54:03 58:03 5c:646972 168:240032 \
    170:fa0281f6 18d:1a fe8:06 fec:06 ff4:391bbd6e";

/// Inode with the attribute `security.selinux`.
const LABELLED: &str = "\
    0:a481000b c:01 10:03 18:01 20:1fe9026b 28:1fe9026b 30:1fe9026b 54:03 58:01 5c:61 16c:68690a f0c:1120f5f201 \
    f24:0607170073656c696e7578753a6f626a6563745f723a646174615f66696c653a7330 fe8:04 fec:04 ff0:01 ff4:5d6dc756";

/// Dentry block of the root.
const ROOT_BLOCK: &str = "\
    0:ff*5 5:01 22:03 26:010002 2d:03 31:020002d40aa86604 3c:0700012a8b406405 47:030002e8c4447206 \
    52:030007b16abdb607 5d:070007166e81cf08 68:0400027c6e150409 73:ff0001 1cb:3f2cd8b50a 1d3:090001 950:2e \
    958:2e2e 960:6269672e62696e00646972 970:6c6e6b 978:6c6f6e676c6e6b006d616e79 988:6e*255 \
    a88:736d616c6c2e747874";

const UUID: [u8; 16] = [
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF,
];
const EXTRA: Features = Features(
    Features::EXTRA_ATTR.0
        | Features::INODE_CHKSUM.0
        | Features::INODE_CRTIME.0
        | Features::FLEXIBLE_INLINE_XATTR.0
        | Features::PRJQUOTA.0
        | Features::COMPRESSION.0,
);

fn image(text: &str) -> Vec<u8> {
    let mut out = vec![0; BLOCK_BYTES];
    for token in text.split_whitespace() {
        let (at, bytes) = token.split_once(':').expect("offset:bytes");
        let at = usize::from_str_radix(at, 16).expect("hexadecimal offset");
        let (hex, times) = bytes.split_once('*').unwrap_or((bytes, "1"));
        let byte = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).expect("hexadecimal byte");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let bytes = bytes.repeat(times.parse().expect("decimal count"));
        out[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    out
}

/// Parses an inode; what is encoded again over zeros and over the block is the block.
fn inode(text: &str, features: Features) -> (Vec<u8>, InodeFields) {
    let block = image(text);
    let fields = InodeFields::parse(&block, features).expect("valid");
    let mut again = block.clone();
    fields.encode_into(&mut again, features);
    assert!(again == block, "encoding changes nothing");
    let mut fresh = vec![0; BLOCK_BYTES];
    fields.encode_into(&mut fresh, features);
    let rest = fields.addr_slot0() * 4;
    assert!(
        fresh[..rest] == block[..rest],
        "every byte before the addresses is known"
    );
    (block, fields)
}

#[test]
fn plain_inodes() {
    let (block, dir) = inode(PLAIN_DIR, Features::NONE);
    assert_eq!(
        (dir.mode, dir.links, dir.size, dir.blocks),
        (MODE_DIR | 0o755, 3, 4096, 2)
    );
    assert_eq!(
        (dir.name.as_bytes(), dir.pino, dir.current_depth),
        (&b"dir"[..], Nid(3), 1)
    );
    assert_eq!((dir.inline, dir.addrs_per_inode()), (Inline::XATTR, 873));
    assert_eq!(
        dir.mtime,
        Timestamp {
            secs: 0x6B02_E8FD,
            nanos: 0
        }
    );
    assert_eq!(addr(&block, dir.addr_slot0()), BlockAddr(0x1A00));
    assert_eq!(
        (addr_slot0(&block), dir.inline_xattr_range()),
        (90, 0xF0C..0xFD4)
    );
    let f = footer(&block);
    assert!(f.is_inode() && !f.is_cold() && f.kind() == NodeKind::Inode);
    assert_eq!(
        (f.nid, f.cp_ver, f.next),
        (Nid(5), 0x6EBD_1B39, BlockAddr::NULL)
    );

    let (block, link) = inode(PLAIN_LINK, Features::NONE);
    assert!(link.is_symlink() && link.inline.has(Inline::DATA | Inline::DATA_EXIST));
    assert_eq!(link.inline_data_range(), 0x16C..0xF0C);
    assert!(
        block[link.inline_data_range()][..link.size as usize]
            .iter()
            .all(|&b| b == b'x')
    );
    assert_eq!((link.size, link.inline_data_range().len()), (2000, 3488));
    assert!(footer(&block).is_cold());

    let (_, movie) = inode(PLAIN_MOVIE, Features::NONE);
    assert_eq!(movie.advise, Advise::COLD);
}

#[test]
fn inodes_with_extra_attributes() {
    let seed = crc(!0, &UUID);
    for (text, name) in [(EXTRA_SMALL, &b"small.txt"[..]), (EXTRA_DIR, &b"dir"[..])] {
        let (mut block, fields) = inode(text, EXTRA);
        assert_eq!((fields.name.as_bytes(), fields.extra_isize), (name, 36));
        assert_eq!(
            (fields.inline_xattr_size, fields.addrs_per_inode()),
            (50, 923 - 9 - 50)
        );
        assert_eq!((addr_slot0(&block), fields.addr_slot0()), (99, 99));
        verify_inode_checksum(&block, EXTRA, seed).expect("checksum of f2fs-tools");
        // Any byte counts, those of the footer too.
        for at in [0, 0x43, 0x400, 0xFF0, 0xFFF] {
            block[at] ^= 1;
            assert!(
                verify_inode_checksum(&block, EXTRA, seed)
                    .expect_err("damaged")
                    .is_checksum()
            );
            assert!(
                verify_inode_checksum(&block, Features::EXTRA_ATTR, seed).is_ok(),
                "no checksums"
            );
            block[at] ^= 1;
        }
        let before = block.clone();
        block[0x170..0x174].fill(0);
        update_inode_checksum(&mut block, EXTRA, seed);
        assert!(block == before);
        assert!(
            InodeFields::parse(&block, Features::NONE).is_err(),
            "the volume has no extra attributes"
        );
    }
    let (block, small) = inode(EXTRA_SMALL, EXTRA);
    assert_eq!(
        &block[small.inline_data_range()][..17],
        b"small inline file"
    );
    let (block, dir) = inode(EXTRA_DIR, EXTRA);
    assert_eq!(addr(&block, dir.addr_slot0()), BlockAddr(0x1A00));
}

#[test]
fn attribute_in_the_inode() {
    let (mut block, fields) = inode(LABELLED, Features::NONE);
    let range = fields.inline_xattr_range();
    let list = XattrBuf::parse(&block[range.clone()], None).expect("valid");
    let label = &b"u:object_r:data_file:s0"[..];
    let only = XattrRef {
        index: XattrIndex::SECURITY,
        name: b"selinux",
        value: label,
    };
    // The tools store the value with its final zero byte or without: the length says.
    assert_eq!(list.iter().collect::<Vec<_>>(), [only]);
    let before = block.clone();
    let mut again = XattrBuf::new();
    again.set(only.index, only.name, only.value);
    assert!(again.store(&mut block[range], None) && block == before);
}

#[test]
fn dentry_block_of_the_root() {
    let block = image(ROOT_BLOCK);
    let found: Vec<_> = iter(&block, &DentryLayout::BLOCK, 0)
        .map(|e| e.expect("valid"))
        .collect();
    let long = [b'n'; 255];
    let names: [&[u8]; 8] = [
        b".", b"..", b"big.bin", b"dir", b"lnk", b"longlnk", b"many", &long,
    ];
    let listed: Vec<_> = found.iter().map(|(_, d)| d.name).collect();
    assert_eq!(listed[..8], names);
    assert_eq!((found[8].0, found[8].1.name), (39, &b"small.txt"[..]));
    let mut again = vec![0; BLOCK_BYTES];
    for (slot, d) in &found {
        assert_eq!(
            d.hash,
            dentry_hash(d.name),
            "{:?}",
            String::from_utf8_lossy(d.name)
        );
        assert_eq!(
            room_for(&again, &DentryLayout::BLOCK, d.name.len()),
            Some(*slot)
        );
        put(&mut again, &DentryLayout::BLOCK, *slot, d);
        assert_eq!(
            find(&block, &DentryLayout::BLOCK, d.hash, |n| n == d.name),
            Some((*slot, *d))
        );
    }
    assert!(again == block);
    assert_eq!(found[3].1.kind, FileType::Directory);
    assert_eq!(
        found[4].1,
        Dentry {
            hash: 0x7244_C4E8,
            ino: Nid(6),
            kind: FileType::Symlink,
            name: b"lnk"
        }
    );
    assert_eq!(
        find(&block, &DentryLayout::BLOCK, found[4].1.hash, |n| n
            == b"lnl"),
        None
    );
}
