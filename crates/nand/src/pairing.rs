//! Which pages share cells: on parts with several bits per cell one word line carries two or three
//! pages.
//!
//! An interrupted program of a later page of a word line can destroy the earlier ones (Tseng et
//! al., DAC 2011), which may have been programmed long ago. The tables are those of real parts.
//! Each table also gives the program order of its part (nand-N6); in all of these, ascending order
//! keeps it.

use serde::Deserialize;

/// Distance of the two pages of a word line in [`Pairing::Shadow6`].
const SHADOW: u32 = 6;

/// A pairing table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// One bit per cell: no page shares its cells.
    #[default]
    None,
    /// Two bits per cell: pages (0, 2), then (2p - 1, 2p + 2); the upper page of the last pair is
    /// the last page (the scheme `dist3` of Linux, for Hynix and Toshiba parts).
    Dist3,
    /// Two bits per cell: the upper page comes six pages behind the lower; a remainder of fewer
    /// than twelve pages is split in halves.
    Shadow6,
    /// Three bits per cell, programmed in one operation: pages (3w, 3w + 1, 3w + 2) are torn
    /// together or not at all.
    OneShotTlc,
}

impl Pairing {
    /// Bits that a cell holds.
    pub const fn bits(self) -> u32 {
        match self {
            Pairing::None => 1,
            Pairing::Dist3 | Pairing::Shadow6 => 2,
            Pairing::OneShotTlc => 3,
        }
    }
    /// True if a program that is interrupted can take an earlier page with it.
    pub const fn retroactive(self) -> bool {
        matches!(self, Pairing::Dist3 | Pairing::Shadow6)
    }
    /// The pages that one operation programs.
    pub const fn pages_at_once(self) -> u32 {
        match self {
            Pairing::OneShotTlc => 3,
            _ => 1,
        }
    }
    /// The earlier page that an interrupted program of `page` endangers, in a block of `pages`.
    pub fn lower_of(self, page: u32, pages: u32) -> Option<u32> {
        (0..page)
            .rev()
            .take(2 * SHADOW as usize)
            .find(|lower| self.upper_of(*lower, pages) == Some(page))
    }
    /// The later page whose program endangers `page`, in a block of `pages`.
    pub fn upper_of(self, page: u32, pages: u32) -> Option<u32> {
        let last = pages.checked_sub(1)?;
        let upper = match self {
            Pairing::None | Pairing::OneShotTlc => return None,
            Pairing::Dist3 => match page {
                0 => 2,
                _ if page.is_multiple_of(2) || page == last => return None,
                _ if page + 3 == pages && last % 2 == 1 => last,
                _ => page + 3,
            },
            Pairing::Shadow6 => {
                let first = page - page % (2 * SHADOW);
                let half = SHADOW.min((pages.checked_sub(first)?) / 2);
                if page - first >= half {
                    return None;
                }
                page + half
            }
        };
        (upper <= last).then_some(upper)
    }
    /// Pages of a block of `pages` that must be programmed before no later program endangers one of
    /// the first `filled`.
    pub fn safe_from(self, filled: u32, pages: u32) -> u32 {
        let tail = filled.saturating_sub(2 * SHADOW)..filled;
        let uppers = tail.filter_map(|page| self.upper_of(page, pages));
        uppers.map(|upper| upper + 1).max().unwrap_or(0).max(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(table: Pairing, pages: u32) -> Vec<(u32, u32)> {
        let upper = |p| table.upper_of(p, pages).map(|u| (p, u));
        (0..pages).filter_map(upper).collect()
    }

    #[test]
    fn the_tables_are_those_of_the_field() {
        let dist3 = [(0, 2), (1, 4), (3, 6), (5, 7)];
        assert_eq!(pairs(Pairing::Dist3, 8), dist3);
        assert_eq!(pairs(Pairing::Dist3, 4), [(0, 2), (1, 3)]);
        assert_eq!(
            pairs(Pairing::Shadow6, 12),
            (0..6).map(|i| (i, i + 6)).collect::<Vec<_>>()
        );
        assert_eq!(pairs(Pairing::Shadow6, 16)[6..], [(12, 14), (13, 15)]);
        assert!(pairs(Pairing::None, 8).is_empty() && pairs(Pairing::OneShotTlc, 9).is_empty());
    }

    #[test]
    fn every_page_is_in_one_pair_and_padding_closes_them() {
        for table in [Pairing::Dist3, Pairing::Shadow6] {
            for pages in 4..70 {
                let all = pairs(table, pages);
                let mut seen: Vec<u32> = all.iter().flat_map(|(l, u)| [*l, *u]).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), all.len() * 2, "{table:?}, {pages} pages");
                assert!(
                    pages % 2 == 1 || seen.len() as u32 == pages,
                    "{table:?}, {pages} pages"
                );
                for (lower, upper) in &all {
                    assert_eq!(table.lower_of(*upper, pages), Some(*lower));
                }
                for filled in 0..=pages {
                    let safe = table.safe_from(filled, pages);
                    assert!(safe >= filled && safe <= pages);
                    let open = all.iter().filter(|(l, u)| *l < filled && *u >= safe);
                    assert_eq!(open.count(), 0, "{table:?}, {filled} of {pages}");
                }
            }
        }
    }
}
