//! Where data and holes begin.

use super::BLOCK;
use crate::common::{end, fresh, mount};
use base::{Ino, Rng};
use fscore::{Errno, FallocateMode, FileSystem, SeekMode};
use testkit::Brief;
use testkit::errno;
use varve_f2fs::F2fs;

/// What a page of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Hole,
    Reserved,
    Data,
}

/// `SEEK_DATA` and `SEEK_HOLE` as Linux F2FS answers them.
fn wanted(pages: &[Page], offset: u64, mode: SeekMode) -> Option<u64> {
    let size = pages.len() as u64 * BLOCK;
    let sought = match mode {
        SeekMode::Data => Page::Data,
        SeekMode::Hole => Page::Hole,
    };
    let from = (offset / BLOCK) as usize;
    let at = pages.iter().skip(from).position(|page| *page == sought);
    match (at, mode) {
        _ if offset >= size => None,
        (Some(at), _) => Some(((from + at) as u64 * BLOCK).max(offset)),
        (None, SeekMode::Hole) => Some(size),
        (None, SeekMode::Data) => None,
    }
}

fn compare(fs: &F2fs, ino: Ino, pages: &[Page]) {
    for index in 0..=pages.len() as u64 {
        for offset in [index * BLOCK, index * BLOCK + 1, index * BLOCK + 4095] {
            for mode in [SeekMode::Data, SeekMode::Hole] {
                let told = match fs.seek(ino, offset, mode) {
                    Ok(at) => Some(at),
                    Err(e) => {
                        assert_eq!(e.errno(), Errno::NxIo);
                        None
                    }
                };
                let wanted = wanted(pages, offset, mode);
                assert_eq!(told, wanted, "{mode:?} from {offset} of {pages:?}");
            }
        }
    }
}

#[test]
fn data_and_holes_are_where_they_are() {
    const PAGES: usize = 40;
    let ram = fresh(64);
    let mut fs = mount(&ram, "noinline_data");
    let ino = fs.file("f");
    fs.resize(ino, PAGES as u64 * BLOCK).expect("a hole");
    let mut pages = [Page::Hole; PAGES];
    let mut rng = Rng::named(1, "seek");
    for round in 0..60 {
        let start = rng.below(PAGES as u64) as usize;
        let len = 1 + rng.below((PAGES - start).min(6) as u64) as usize;
        let (offset, bytes) = (start as u64 * BLOCK, len as u64 * BLOCK);
        let part = &mut pages[start..start + len];
        match round % 5 {
            0 | 3 => {
                let data = vec![round as u8 + 1; bytes as usize];
                fs.write(ino, offset, &data).expect("write");
                part.fill(Page::Data);
            }
            1 => {
                let mode = FallocateMode::KeepSize;
                fs.fallocate(ino, mode, offset, bytes).expect("allocated");
                let holes = part.iter_mut().filter(|page| **page == Page::Hole);
                holes.for_each(|page| *page = Page::Reserved);
            }
            2 => {
                let mode = FallocateMode::PunchHole;
                fs.fallocate(ino, mode, offset, bytes).expect("punched");
                part.fill(Page::Hole);
            }
            _ => {
                let mode = FallocateMode::ZeroRange;
                fs.fallocate(ino, mode, offset, bytes).expect("zeroed");
                part.fill(Page::Reserved);
            }
        }
        compare(&fs, ino, &pages);
        if round % 7 == 0 {
            fs.fsync(ino, false).expect("fsync");
            compare(&fs, ino, &pages);
        }
        if round % 20 == 19 {
            fs.unmount().expect("unmount");
            fs = mount(&ram, "");
            compare(&fs, ino, &pages);
        }
    }
    // Behind all that has a node of addresses.
    let far = 5_000_000 * BLOCK;
    fs.write(ino, far, b"x").expect("write");
    let behind = PAGES as u64 * BLOCK;
    let sought = fs.seek(ino, behind, SeekMode::Data);
    assert_eq!(sought.expect("data"), far);
    let sought = fs.seek(ino, far, SeekMode::Hole);
    assert_eq!(sought.expect("the end"), far + 1);
    end(&fs, &ram);
}

#[test]
fn inline_content_is_one_piece_of_data() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let ino = fs.file("f");
    fs.write(ino, 0, b"inline").expect("write");
    let seek = |offset, mode| fs.seek(ino, offset, mode);
    assert_eq!(seek(2, SeekMode::Data).expect("data"), 2);
    assert_eq!(seek(2, SeekMode::Hole).expect("the end"), 6);
    assert_eq!(errno(seek(6, SeekMode::Hole)), Errno::NxIo);
    assert_eq!(errno(fs.seek(fs.root(), 0, SeekMode::Data)), Errno::IsDir);
    fs.unmount().expect("unmount");
}
