//! How far to read ahead for a reader that goes through a file from front to end.
//!
//! The rule is that of Linux (mm/readahead.c): a window begins as a small multiple of the first
//! request, grows to twice or four times its size each time its end is met, up to a maximum, and is
//! dropped when the reader jumps. Nothing is read in the background: the window only makes the
//! requests to the device long.

use base::BLOCK_BYTES;

/// Pages of the largest window: 1 MiB in pages of 4 KiB, what a request of FUSE has at most.
const WINDOW_MAX: u64 = 256;

/// Pages of the largest window, where pages may be larger than 4 KiB.
fn window_max(page_bytes: u64) -> u64 {
    let page = BLOCK_BYTES as u64;
    WINDOW_MAX * page / page_bytes.max(page)
}

/// A reader that asks for so many pages at once does its own read-ahead, and may have several
/// requests under way, in any order (Linux: 128 KiB, the window of a file of FUSE).
const LARGE: u64 = 32;

/// The state of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadAhead {
    /// Where the last read ended, bytes.
    end: u64,
    /// Pages of the window; 0: none.
    window: u64,
}

impl ReadAhead {
    /// How many pages to read for a request of `pages` pages at byte `offset` of which the first is
    /// not cached: at least those, and what the window has behind them.
    pub fn miss(&mut self, offset: u64, pages: u64, page_bytes: u64) -> u64 {
        let slack = match pages >= LARGE {
            true => self.window * page_bytes,
            false => 0,
        };
        if self.end.abs_diff(offset) > slack {
            self.window = 0;
            return pages;
        }
        let most = window_max(page_bytes);
        self.window = match self.window {
            0 => first_window(pages, most),
            window => next_window(window, most),
        };
        self.window.max(pages)
    }

    /// A read has ended at byte `end`.
    pub fn ended(&mut self, end: u64) {
        self.end = end;
    }
}

/// `get_init_ra_size`.
fn first_window(pages: u64, most: u64) -> u64 {
    let pages = pages.next_power_of_two();
    if pages <= most / 32 {
        pages * 4
    } else if pages <= most / 4 {
        pages * 2
    } else {
        most
    }
}

/// `get_next_ra_size`.
fn next_window(window: u64, most: u64) -> u64 {
    if window < most / 16 {
        window * 4
    } else {
        (window * 2).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    /// Reads pages one by one from `index` on, and answers what each miss reads.
    fn misses(ahead: &mut ReadAhead, from: u64, count: u64) -> Vec<u64> {
        let (mut cached, mut all) = (from, Vec::new());
        for index in from..from + count {
            if index >= cached {
                let len = ahead.miss(index * PAGE, 1, PAGE);
                all.push(len);
                cached = index + len;
            }
            ahead.ended((index + 1) * PAGE);
        }
        all
    }

    #[test]
    fn the_window_doubles_up_to_its_maximum_and_goes_with_a_jump() {
        let mut ahead = ReadAhead::default();
        let grown = misses(&mut ahead, 0, 700);
        assert_eq!(grown, [4, 16, 32, 64, 128, 256, 256]);
        assert_eq!(
            misses(&mut ahead, 5000, 1),
            [1],
            "a jump reads what it asks for"
        );
        assert_eq!(misses(&mut ahead, 5001, 9), [4, 16]);
        assert_eq!(misses(&mut ahead, 100, 1), [1]);
    }

    #[test]
    fn large_requests_may_come_out_of_order_and_small_ones_may_not() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.miss(0, 32, PAGE), 64);
        ahead.ended(32 * PAGE);
        assert_eq!(ahead.miss(64 * PAGE, 32, PAGE), 128, "32 pages early");
        ahead.ended(96 * PAGE);
        assert_eq!(ahead.miss(32 * PAGE, 32, PAGE), 256, "late");
        ahead.ended(64 * PAGE);
        assert_eq!(ahead.miss(65 * PAGE, 1, PAGE), 1);
        assert_eq!(ahead.miss(0, 1024, PAGE), 1024, "never less than asked for");
    }

    #[test]
    fn a_window_of_large_pages_has_as_many_bytes() {
        for page in [8192, 65_536] {
            let mut ahead = ReadAhead::default();
            let (mut at, mut longest) = (0, 0);
            for _ in 0..20 {
                let pages = ahead.miss(at * page, 1, page);
                longest = longest.max(pages * page);
                at += pages;
                ahead.ended(at * page);
            }
            assert_eq!(longest, 1 << 20, "pages of {page}");
        }
    }
}
