//! A synthetic source tree with the shape of a Linux kernel's, generated so that it may have any
//! number of files.
//!
//! | figure | Linux 5.15 | here | source |
//! |---|---|---|---|
//! | files, directories | about 74,000, 4,800 | one directory for 15.4 files | `git ls-files`, recalled, not read again |
//! | content | about 1.1 GB, so 15 KB a file | log-normal, median 4,500 bytes, sigma 1.55: mean 14,960 | the same; log-normal bodies of file sizes: Agrawal et al., A Five-Year Study of File-System Metadata, FAST 2007 |
//! | longest file | some MB (generated register headers) | what the quantile gives: 1.2 MiB of 4,000 files | |
//! | depth | most files 3 to 5 directories deep, `drivers/` and `arch/` deepest | [`LEVELS`] | ours, after the look of the tree |
//! | sources | about 30,000 `.c`, 24,000 `.h` of 74,000 | 42 %, 32 % | recalled, not read again |
//!
//! Sizes are the quantiles of the distribution in shuffled order, so their sum does not depend on
//! the seed, and a tree of few files has nearly the mean of a large one (300 files: 14,530 bytes).

use base::Rng;

/// Number of files for each directory.
const FILES_PER_DIR: f64 = 15.4;
/// Shares of the directories at depths 1, 2, ...
const LEVELS: [f64; 7] = [0.005, 0.125, 0.27, 0.34, 0.17, 0.07, 0.02];
/// Median of the sizes in bytes, and standard deviation of their logarithms.
const MEDIAN: f64 = 4500.0;
const SIGMA: f64 = 1.55;
const SOURCES: f64 = 0.42;
const HEADERS: f64 = 0.32;
/// Stems of names. With number and suffix a name has about ten characters, as in a kernel.
const STEMS: [&str; 8] = [
    "core", "main", "ops", "driver", "regs", "irq", "debugfs", "util",
];

/// Kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `.c`.
    Source,
    /// `.h`.
    Header,
    /// Everything else: device trees, documentation, Makefiles, Kconfig.
    Other,
}

impl Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Source => "c",
            Kind::Header => "h",
            Kind::Other => "txt",
        }
    }
}

/// A file of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Its directory, as an index into [`Shape::dirs`].
    pub dir: usize,
    /// Its path below the root of the tree, with a slash at the front.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its kind.
    pub kind: Kind,
}

/// A tree. Its paths begin below its root, with a slash at the front.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Directories, parents first; the root itself, with an empty path, is the first.
    pub dirs: Vec<String>,
    /// All files.
    pub files: Vec<Leaf>,
}

/// The quantile of the normal distribution: Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 26.2.23; error below 4.5e-4.
fn normal(p: f64) -> f64 {
    let tail = if p < 0.5 { p } else { 1.0 - p };
    let t = (-2.0 * tail.ln()).sqrt();
    let top = 2.515517 + t * (0.802853 + t * 0.010328);
    let bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    let x = t - top / bottom;
    if p < 0.5 { -x } else { x }
}

/// The sizes of `count` files, least first; their sum depends on `count` alone.
pub fn sizes(count: usize) -> Vec<u64> {
    let size = |n: usize| {
        let x = normal((n as f64 + 0.5) / count as f64);
        (MEDIAN * (SIGMA * x).exp()) as u64
    };
    (0..count).map(|n| size(n).max(1)).collect()
}

/// Brings the items in random order.
pub fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for n in (1..items.len()).rev() {
        items.swap(n, rng.below(n as u64 + 1) as usize);
    }
}

/// How many of `files` files are sources.
pub fn sources(files: u32) -> usize {
    (f64::from(files) * SOURCES).round() as usize
}

/// How many directories a tree of `files` files has, its root among them.
pub fn directories(files: u32) -> usize {
    1 + (f64::from(files) / FILES_PER_DIR).ceil() as usize
}

impl Shape {
    /// Makes the tree of `files` files for this seed.
    pub fn new(files: u32, seed: u64) -> Shape {
        let mut rng = Rng::named(seed, "workload/tree");
        let dirs = dirs(directories(files), &mut rng);
        let count = files as usize;
        let mut all_sizes = sizes(count);
        shuffle(&mut all_sizes, &mut rng);
        let headers = (count as f64 * HEADERS).round() as usize;
        let mut kinds = vec![Kind::Source; sources(files).min(count)];
        kinds.resize((kinds.len() + headers).min(count), Kind::Header);
        kinds.resize(count, Kind::Other);
        shuffle(&mut kinds, &mut rng);
        let leaf = |(n, (bytes, kind)): (usize, (u64, Kind))| {
            // Of two draws the smaller counts, so that some directories have many files.
            let draw = |rng: &mut Rng| rng.below(dirs.len() as u64) as usize;
            let dir = if rng.one_in(4) {
                draw(&mut rng).min(draw(&mut rng))
            } else {
                draw(&mut rng)
            };
            let stem = STEMS[rng.below(STEMS.len() as u64) as usize];
            let path = format!("{}/{stem}{n}.{}", dirs[dir], kind.suffix());
            Leaf {
                dir,
                path,
                bytes,
                kind,
            }
        };
        let files = all_sizes.into_iter().zip(kinds).enumerate().map(leaf);
        let files = files.collect();
        Shape { dirs, files }
    }

    /// Files by directory, in the order in which they were made.
    pub fn by_dir(&self) -> Vec<Vec<&Leaf>> {
        let mut all = vec![Vec::new(); self.dirs.len()];
        for file in &self.files {
            all[file.dir].push(file);
        }
        all
    }
}

/// `count` directories, the root first, level by level.
fn dirs(count: usize, rng: &mut Rng) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut above = 0..1;
    for (level, part) in LEVELS.into_iter().enumerate() {
        let last = level + 1 == LEVELS.len();
        let wanted = (part * (count - 1) as f64).round().max(1.0) as usize;
        let wanted = if last { count } else { wanted };
        let first = all.len();
        for _ in 0..wanted.min(count - first) {
            let draw = |rng: &mut Rng| above.start + rng.below(above.len() as u64) as usize;
            // As in a kernel, some directories (`drivers`, `arch`) have most of what is below the
            // root.
            let parent = draw(rng).min(draw(rng));
            let stem = STEMS[rng.below(STEMS.len() as u64) as usize];
            all.push(format!("{}/{stem}{}", all[parent], all.len()));
        }
        if all.len() == first {
            break;
        }
        above = first..all.len();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_shape_of_a_kernel_whatever_its_size_and_seed() {
        for (files, seed) in [(2_000, 1), (2_000, 2), (74_000, 1)] {
            let shape = Shape::new(files, seed);
            assert_eq!(shape.files.len(), files as usize);
            assert_eq!(shape.dirs.len(), directories(files));
            let mut bytes: Vec<u64> = shape.files.iter().map(|f| f.bytes).collect();
            bytes.sort_unstable();
            assert_eq!(bytes, sizes(files as usize));
            let mean = bytes.iter().sum::<u64>() / u64::from(files);
            assert!((14_000..15_500).contains(&mean), "mean {mean}");
            let median = bytes[bytes.len() / 2];
            assert!((4_400..4_600).contains(&median), "median {median}");
            let depth = |f: &Leaf| f.path.matches('/').count() - 1;
            let middle = shape.files.iter().filter(|f| (3..=5).contains(&depth(f)));
            assert!(
                middle.count() * 10 > files as usize * 6,
                "most are 3 to 5 deep"
            );
            let sources = shape.files.iter().filter(|f| f.kind == Kind::Source);
            assert_eq!(sources.count(), super::sources(files));
        }
        assert_eq!(Shape::new(500, 7), Shape::new(500, 7));
        assert_ne!(Shape::new(500, 7), Shape::new(500, 8));
    }

    #[test]
    fn tiny_trees_are_possible_and_every_parent_comes_first() {
        for files in [1, 2, 15, 16, 40] {
            let shape = Shape::new(files, 3);
            assert_eq!(shape.dirs.len(), directories(files));
            for (n, dir) in shape.dirs.iter().enumerate().skip(1) {
                let parent = &dir[..dir.rfind('/').unwrap()];
                let at = shape.dirs.iter().position(|d| d == parent);
                assert!(at.is_some_and(|at| at < n), "{dir}");
            }
        }
    }
}
