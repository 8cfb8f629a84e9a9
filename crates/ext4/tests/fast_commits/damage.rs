//! Areas that no kernel wrote: single bytes changed, with and without corrected checksums, and
//! whole tags changed.

use crate::area::{Area, PAD, TAG_BYTES, Tag};
use crate::replay::{Volume, by_us};
use base::bytes::put_le16;
use std::fmt;

/// For each kind of change, one in this many cases is tried.
pub struct Steps {
    /// A byte is changed and nothing corrected: the checksum shows it.
    pub raw: usize,
    /// A byte is changed and the checksums corrected: the code that reads the tags has to cope.
    pub mended: usize,
    /// A tag gets another kind or length, is left out, doubled, or exchanged with its neighbour,
    /// with corrected checksums.
    pub tags: usize,
}

/// The results of the cases.
#[derive(Default)]
pub struct Tally {
    raw: u64,
    mended: u64,
    tags: u64,
    pub replayed: u64,
    pub refused: u64,
    /// Violations of fast_commits-V2.
    pub faults: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes flipped, {} with good checksums, {} tags changed: {} replayed, {} refused",
            self.raw, self.mended, self.tags, self.replayed, self.refused
        )
    }
}

struct Run<'a> {
    volume: &'a Volume,
    area: Area,
    tally: Tally,
}

impl Run<'_> {
    fn judge(&mut self, bytes: &[u8], context: &str) {
        let mut image = self.volume.image.clone();
        self.area.write(&mut image, bytes);
        let fault = match by_us(&image, self.volume.bytes) {
            Ok(replayed) => {
                self.tally.replayed += 1;
                replayed.check().err()
            }
            Err(why) => {
                self.tally.refused += 1;
                let clear = why.contains("fast commit") && why.contains("e2fsck");
                (!clear).then_some(why)
            }
        };
        let told = fault.map(|why| format!("{context}: {why}"));
        if let Some(told) = &told {
            println!("{told}");
        }
        self.tally.faults.extend(told);
    }
}

/// Runs the cases.
pub fn run(volume: &Volume, steps: &Steps) -> Tally {
    let area = Area::of(&volume.image).expect("an area of fast commits");
    let whole = area.read(&volume.image);
    let tags = area.tags(&whole);
    let mut run = Run {
        volume,
        area,
        tally: Tally::default(),
    };
    let places: Vec<(Tag, usize)> = tags
        .iter()
        .flat_map(|tag| (0..tag.meaning()).map(move |at| (*tag, at)))
        .collect();
    for mend in [false, true] {
        let step = if mend { steps.mended } else { steps.raw };
        for (n, &(tag, at)) in places.iter().enumerate().step_by(step) {
            let mut bytes = whole.clone();
            bytes[tag.at + at] ^= [0xFF, 0x01, 0x80, 0x10][n % 4];
            if mend {
                run.area.mend(&mut bytes);
            }
            let count = if mend {
                &mut run.tally.mended
            } else {
                &mut run.tally.raw
            };
            *count += 1;
            let context = format!("byte {at} of {tag:?}, flip {n}, mended {mend}");
            run.judge(&bytes, &context);
        }
    }
    for (n, (context, mut bytes)) in changed_tags(&whole, &tags).enumerate() {
        if n % steps.tags == 0 {
            run.area.mend(&mut bytes);
            run.tally.tags += 1;
            run.judge(&bytes, &context);
        }
    }
    run.tally
}

/// The area with one tag changed, in every way.
fn changed_tags<'a>(
    whole: &'a [u8],
    tags: &'a [Tag],
) -> impl Iterator<Item = (String, Vec<u8>)> + 'a {
    let kinds = (0..=10u16).map(|kind| (0, kind));
    let lens = [0u16, 1, 3, 7, 8, 12, 100, 4000, 0x7FFF, 0xFFFF].map(|len| (2, len));
    let fields: Vec<(usize, u16)> = kinds.chain(lens).collect();
    let by_field = tags.iter().flat_map(move |tag| {
        let fields = fields.clone();
        fields.into_iter().map(move |(at, value)| {
            let mut bytes = whole.to_vec();
            put_le16(&mut bytes, tag.at + at, value);
            (format!("{tag:?}: field {at} is {value}"), bytes)
        })
    });
    let pairs = tags.windows(2).flat_map(move |pair| {
        let (a, b) = (pair[0], pair[1]);
        let take = |tag: Tag| whole[tag.at..tag.at + tag.len].to_vec();
        let mut gone = whole.to_vec();
        put_le16(&mut gone, a.at, PAD);
        let mut cases = vec![(format!("{a:?} is left out"), gone)];
        if a.at + a.len == b.at {
            let mut swapped = whole.to_vec();
            let both = [take(b), take(a)].concat();
            swapped[a.at..a.at + both.len()].copy_from_slice(&both);
            cases.push((format!("{a:?} and {b:?} swapped"), swapped));
        }
        if a.len + TAG_BYTES <= b.len || a.len == b.len {
            let mut doubled = whole.to_vec();
            doubled[b.at..b.at + a.len].copy_from_slice(&take(a));
            if let Some(rest) = (b.len - a.len).checked_sub(TAG_BYTES) {
                put_le16(&mut doubled, b.at + a.len, PAD);
                put_le16(&mut doubled, b.at + a.len + 2, rest as u16);
            }
            cases.push((format!("{a:?} in the place of {b:?} as well"), doubled));
        }
        cases
    });
    by_field.chain(pairs)
}
