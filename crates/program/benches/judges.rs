//! How many states a judge takes in a second, one worker: a server and a command whose checks cost
//! nothing, and a judge that needs no folder.
//!
//! The states are those of a small program: ten files, of which a state changes two.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use base::Nanos;
use divan::Bencher;
use divan::counter::ItemsCount;
use std::path::Path;
use std::sync::Arc;
use varve_program::call::Recording;
use varve_program::judge::process::Patience;
use varve_program::judge::{JudgeSpec, Settings, build, place};
use varve_program::tree::{Kind, Node, NodeId, ROOT, Tree};

const STATES: u64 = 100;

fn main() {
    divan::main();
}

fn tree(number: u64) -> Tree {
    let mut tree = Tree::default();
    for file in 1..=10 {
        let id = NodeId(file);
        tree.insert(id, Node::new(Kind::File, 0o644, (0, 0)));
        tree.set_name(ROOT, format!("file-{file}").as_bytes(), Some(id));
        tree.set_size(id, 8192);
        let is_changed = file == number % 10 + 1 || file == number % 7 + 1;
        let byte = if is_changed { number as u8 } else { 1 };
        tree.write(id, 0, &[byte; 8192]);
    }
    tree
}

#[divan::bench(args = [
    "server=sed -u 's/.*/ok/'",
    "command=exit 0",
    "prefix=file-1",
])]
fn judge(bencher: Bencher<'_, '_>, spec: &str) {
    let recording = Recording {
        start: tree(0),
        calls: Vec::new(),
    };
    let memory = Path::new("/dev/shm");
    let settings = Settings {
        place: place(memory, &std::env::temp_dir(), 1 << 20).0,
        patience: Patience {
            timeout: Nanos(10_000_000_000),
            stop: Arc::new(|| false),
        },
        notes: Default::default(),
    };
    let spec = JudgeSpec::parse(spec).expect("a judge");
    let mut judge = build(&[spec], &recording, &settings).expect("a folder");
    let trees: Vec<Tree> = (0..STATES).map(tree).collect();
    let bencher = bencher.counter(ItemsCount::new(STATES));
    bencher.bench_local(|| {
        for tree in &trees {
            divan::black_box(judge.judge(tree, &["one", "two"]).expect("a verdict"));
        }
    });
}
