//! The tree of directories of a set, and the directory of each file.
//!
//! As in Filebench the mean depth is the logarithm of the number of entries to the base of the mean
//! width. Each directory draws from gamma distributions how many entries it has, and whether it
//! holds directories or files (and the set's empty directories). The root draws until everything is
//! placed, so it alone may hold both.

use super::amount::{Amount, Random};
use super::model::Fileset;
use base::Rng;

/// Deepest directory, far from the 4096 bytes of the longest path.
const DEPTH_MAX: u64 = 64;

/// Directories and files of a set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tree {
    /// Paths of the directories that are always there, parents first.
    pub dirs: Vec<String>,
    /// For each file its directory, and its size in bytes when it is made.
    pub files: Vec<(u32, u64)>,
    /// For each directory that holds nothing the directory it lies in.
    pub leaves: Vec<u32>,
}

impl Tree {
    /// Path of a file.
    pub fn file(&self, number: u32) -> String {
        let (dir, _) = self.files[number as usize];
        format!("{}/{number:08}", self.dirs[dir as usize])
    }

    /// Path of a directory that holds nothing.
    pub fn leaf(&self, number: u32) -> String {
        format!(
            "{}/l{number:08}",
            self.dirs[self.leaves[number as usize] as usize]
        )
    }

    /// Draws the tree of a set.
    pub fn of(set: &Fileset, seed: u64) -> Tree {
        let mut tree = Tree::default();
        let root = format!("/{}", set.name);
        let mut rng = Rng::named(seed, &format!("workload/filebench/tree/{}", set.name));
        tree.dirs.push(root);
        let mut left = Left {
            files: set.entries,
            leaves: set.leafdirs,
        };
        if set.single {
            tree.fill(0, u64::MAX, &mut left);
        }
        let layout = Layout::of(set);
        while left.any() {
            layout.below(&mut tree, 0, 1, &mut left, &mut rng);
        }
        let mut sizes = Rng::named(seed, &format!("workload/filebench/sizes/{}", set.name));
        for file in &mut tree.files {
            file.1 = set.size.draw(&mut sizes);
        }
        tree
    }

    /// Puts up to `width` entries into a directory.
    fn fill(&mut self, dir: u32, width: u64, left: &mut Left) {
        let files = width.min(left.files);
        left.files -= files;
        self.files.extend((0..files).map(|_| (dir, 0)));
        let leaves = (width - files).min(left.leaves);
        left.leaves -= leaves;
        self.leaves.extend((0..leaves).map(|_| dir));
    }
}

/// What has still to be placed.
struct Left {
    files: u64,
    leaves: u64,
}

impl Left {
    fn any(&self) -> bool {
        self.files + self.leaves > 0
    }
}

/// The distributions that directories are drawn by.
struct Layout {
    width: Amount,
    depth: Amount,
    /// Most directories: a narrow tree would have many for each entry.
    dirs_max: usize,
}

impl Layout {
    fn of(set: &Fileset) -> Layout {
        let entries = (set.entries + set.leafdirs).max(1);
        let depth = libm::log(entries as f64) / libm::log(set.width.max(2) as f64);
        let dirs_max = entries as usize + 100;
        if set.dir_gamma == 0 {
            return Layout {
                width: Amount::Fixed(set.width),
                depth: Amount::Fixed(depth.round() as u64),
                dirs_max,
            };
        }
        let shape = set.dir_gamma as f64 / 1e3;
        let mut deep = Random::gamma(0, shape);
        deep.shape = super::amount::Shape::Gamma { mean: depth, shape };
        deep.max = DEPTH_MAX;
        Layout {
            width: Amount::Random(Random::gamma(set.width, shape)),
            depth: Amount::Random(deep),
            dirs_max,
        }
    }

    /// Fills the directory `dir`, whose depth is `depth`; the root has depth 1.
    fn below(&self, tree: &mut Tree, dir: u32, depth: u64, left: &mut Left, rng: &mut Rng) {
        let width = self.width.draw(rng).max(1);
        let full = depth >= DEPTH_MAX || tree.dirs.len() >= self.dirs_max;
        if full || depth >= self.depth.draw(rng) {
            return tree.fill(dir, width, left);
        }
        for number in 0..width {
            if !left.any() {
                return;
            }
            let child = tree.dirs.len() as u32;
            let path = format!("{}/d{number:08}", tree.dirs[dir as usize]);
            // The root is filled repeatedly until all is placed, so the name may exist already.
            let path = match dir {
                0 => format!("{}/d{child:08}", tree.dirs[0]),
                _ => path,
            };
            tree.dirs.push(path);
            self.below(tree, child, depth + 1, left, rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set(entries: u64, leafdirs: u64, width: u64, dir_gamma: u64) -> Fileset {
        Fileset {
            name: "s".into(),
            line: 1,
            single: false,
            entries,
            leafdirs,
            width,
            dir_gamma,
            size: Amount::Fixed(7),
            prealloc: 0,
            readonly: false,
        }
    }

    #[test]
    fn every_entry_has_a_place_and_a_name_of_its_own() {
        for (entries, leafdirs, width, gamma) in [
            (1000, 0, 20, 1500),
            (1000, 0, 20, 0),
            (0, 500, 100, 1500),
            (30, 30, 1, 1500),
            (100, 0, 1_000_000, 1500),
            (1, 0, 2, 0),
            (0, 0, 5, 0),
        ] {
            let tree = Tree::of(&set(entries, leafdirs, width, gamma), 7);
            let files = (0..tree.files.len() as u32).map(|n| tree.file(n));
            let leaves = (0..tree.leaves.len() as u32).map(|n| tree.leaf(n));
            let names: BTreeSet<String> = files
                .chain(leaves)
                .chain(tree.dirs.iter().cloned())
                .collect();
            assert_eq!(
                (tree.files.len() as u64, tree.leaves.len() as u64),
                (entries, leafdirs)
            );
            let all = tree.dirs.len() + tree.files.len() + tree.leaves.len();
            assert_eq!(names.len(), all, "no name twice");
            for dir in &tree.dirs[1..] {
                let parent = &dir[..dir.rfind('/').unwrap()];
                let at = |path: &str| tree.dirs.iter().position(|d| d == path).unwrap();
                assert!(at(parent) < at(dir));
            }
        }
    }

    #[test]
    fn the_tree_has_about_the_width_and_the_depth_it_should() {
        let tree = Tree::of(&set(10_000, 0, 100, 1500), 3);
        let leaves: BTreeSet<u32> = tree.files.iter().map(|(dir, _)| *dir).collect();
        let width = 10_000.0 / leaves.len() as f64;
        assert!((50.0..200.0).contains(&width), "{width} files a directory");
        let flat = Tree::of(&set(10_000, 0, 100, 0), 3);
        assert_eq!(flat.dirs.len(), 101, "the root and a hundred of a hundred");
        assert_eq!(
            Tree::of(&set(500, 0, 100, 1500), 4),
            Tree::of(&set(500, 0, 100, 1500), 4)
        );
    }
}
