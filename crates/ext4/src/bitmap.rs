//! Searching and changing bitmaps of blocks and inodes (bit n of the group = bit n%8 of byte n/8).

/// True if the bit is set.
pub(crate) fn get(map: &[u8], bit: u32) -> bool {
    map[bit as usize / 8] & (1 << (bit % 8)) != 0
}

/// Sets or clears `len` bits from `start` on.
pub(crate) fn fill(map: &mut [u8], start: u32, len: u32, value: bool) {
    let end = start + len;
    let mut bit = start;
    while bit < end {
        if bit.is_multiple_of(8) && end - bit >= 8 {
            map[bit as usize / 8] = if value { 0xFF } else { 0 };
            bit += 8;
            continue;
        }
        let mask = 1 << (bit % 8);
        if value {
            map[bit as usize / 8] |= mask;
        } else {
            map[bit as usize / 8] &= !mask;
        }
        bit += 1;
    }
}

/// The first bit of `value` in `from..end`, or `end`.
pub(crate) fn next(map: &[u8], from: u32, end: u32, value: bool) -> u32 {
    let others = if value { 0 } else { u64::MAX };
    let mut bit = from;
    while bit < end {
        // The bits from the byte of `bit` on, up to 64; those below `bit` are shifted out.
        let bytes = &map[bit as usize / 8..];
        let (word, bits) = match bytes.first_chunk() {
            Some(eight) => (u64::from_le_bytes(*eight), 64),
            None => (
                bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)),
                8 * bytes.len() as u32,
            ),
        };
        let (ahead, bits) = ((word ^ others) >> (bit % 8), bits - bit % 8);
        if ahead.trailing_zeros() < bits {
            return end.min(bit + ahead.trailing_zeros());
        }
        bit += bits;
    }
    end
}

/// Zero bits in `0..end`.
pub(crate) fn count_zeros(map: &[u8], end: u32) -> u32 {
    let whole = end as usize / 8;
    let ones: u32 = map[..whole].iter().map(|b| b.count_ones()).sum();
    let rest = (whole as u32 * 8..end).filter(|&b| get(map, b)).count() as u32;
    end - ones - rest
}

/// A run of zero bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub start: u32,
    pub len: u32,
}

/// The run of zero bits that begins at `start`, at most `want` long; `None` if bit `start` is set.
pub(crate) fn run_at(map: &[u8], start: u32, end: u32, want: u32) -> Option<Run> {
    if start >= end || get(map, start) {
        return None;
    }
    let stop = end.min(start.saturating_add(want));
    let len = next(map, start, stop, true) - start;
    Some(Run { start, len })
}

/// The first run of at least `want` zero bits at or after `goal`, then from the start of the map;
/// if there is none, the longest run. The answer is at most `want` bits long.
pub(crate) fn find_run(map: &[u8], goal: u32, end: u32, want: u32) -> Option<Run> {
    let mut best: Option<Run> = None;
    for (from, to) in [(goal.min(end), end), (0, goal.min(end))] {
        let mut at = next(map, from, to, false);
        while at < to {
            // A run may reach beyond `to` in the second pass: its tail was seen in the first.
            let run = run_at(map, at, end, want).expect("bit is clear");
            if run.len >= want {
                return Some(run);
            }
            if best.is_none_or(|b| run.len > b.len) {
                best = Some(run);
            }
            at = next(map, run.start + run.len, to, false);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(taken: &[u32]) -> Vec<u8> {
        let mut map = vec![0; 8];
        for &bit in taken {
            fill(&mut map, bit, 1, true);
        }
        map
    }

    #[test]
    fn fill_and_next_agree_with_single_bits() {
        for start in 0..20 {
            for len in 0..40 {
                let mut m = vec![0; 8];
                fill(&mut m, start, len, true);
                assert!((0..64).all(|b| get(&m, b) == (start..start + len).contains(&b)));
                assert_eq!(next(&m, 0, 64, true), if len == 0 { 64 } else { start });
                assert_eq!(count_zeros(&m, 61), 61 - len.min(61 - start));
                fill(&mut m, start, len, false);
                assert_eq!(m, vec![0; 8]);
            }
        }
    }

    #[test]
    fn the_search_prefers_goal_then_fit_then_longest() {
        let m = map(&[3, 10, 20, 21, 40]);
        let run = |start, len| Some(Run { start, len });
        assert_eq!(run_at(&m, 4, 64, 100), run(4, 6));
        assert_eq!(run_at(&m, 3, 64, 1), None);
        assert_eq!(find_run(&m, 11, 64, 5), run(11, 5));
        assert_eq!(find_run(&m, 22, 64, 20), run(41, 20));
        assert_eq!(find_run(&m, 50, 64, 14), run(50, 14));
        assert_eq!(find_run(&m, 50, 64, 18), run(22, 18));
        assert_eq!(find_run(&m, 0, 64, 60), run(41, 23));
        assert_eq!(find_run(&[0xFF; 8], 5, 64, 1), None);
    }
}
