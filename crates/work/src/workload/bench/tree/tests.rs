//! The lists on the model file system.

use super::list::{Step, run};
use super::*;
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;

fn spec(text: &str) -> TreeSpec {
    let mut spec = TreeSpec::default();
    for item in text.split(',') {
        let (key, value) = item.split_once('=').unwrap();
        assert!(spec.set(key, value).unwrap(), "{item}");
    }
    spec.check().unwrap();
    spec
}

/// Runs a workload, with `between` before the check; returns how many operations of each kind ran.
fn ran(
    text: &str,
    between: impl FnOnce(&Arc<Vfs>) + Send + 'static,
) -> Result<BTreeMap<&'static str, u64>, RunError> {
    let spec = spec(text);
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let vfs = Vfs::new(testkit::model::ModelFs::new());
        let mut tree = Tree::new(&spec, vfs.clone(), 5);
        let mut kinds = BTreeMap::new();
        tree.prepare(&|| Ok(()))?;
        tree.run(&|| Ok(()), &mut |told| {
            *kinds.entry(told.kind).or_default() += 1
        })?;
        assert_eq!(kinds.values().sum::<u64>(), spec.operations());
        between(&vfs);
        tree.check()?;
        assert_eq!(vfs.open_files() + vfs.leaked_files(), 0);
        Ok(kinds)
    });
    outcome.value.expect("no panic")
}

#[test]
fn each_command_leaves_what_it_should_and_tells_each_of_its_operations() {
    let kinds = ran("op=cp,files=100,preserve=on", |_| {}).unwrap();
    assert_eq!((kinds["file"], kinds["directory"]), (101, 9));
    assert_eq!(kinds["attributes"], 8);
    let kinds = ran("op=clone,files=100", |vfs| {
        let pack = vfs.stat("/clone/.git/objects/pack/pack-1.pack").unwrap();
        assert_eq!(pack.size, spec("op=clone,files=100").pack_bytes());
        assert!(vfs.stat("/clone/.git/index.lock").is_err());
    });
    assert_eq!(kinds.unwrap()["file"], 100);
    for procs in [1, 4] {
        let text = format!("op=make,files=100,build=50,headers=9,procs={procs}");
        let kinds = ran(&text, |vfs| {
            assert!(vfs.stat("/src/vmlinux").unwrap().size > 21 * 1200);
        });
        assert_eq!(kinds.unwrap()["compile"], 21);
    }
}

#[test]
fn what_a_command_left_undone_is_found() {
    let wrong = |op: &str, step: Step, words: &str| {
        let broken = ran(&format!("op={op},files=60"), move |vfs| {
            run(vfs, &step).unwrap()
        });
        let error = broken.unwrap_err().to_string();
        assert!(error.contains(words), "{op}: {error}");
    };
    let write = |path: &str| list::write(path, 1, 10, 10);
    wrong("cp", write("/dst/more"), "/dst/more should not be there");
    wrong(
        "clone",
        Step::Unlink("/clone/.git/index".into()),
        "/clone/.git/index is not there",
    );
    let rewritten = ran("op=make,files=60", |vfs| {
        let file = vfs.open("/src/vmlinux", vfs::OpenFlags::WRITE, 0).unwrap();
        file.write_at(999, b"!").unwrap();
        file.close().unwrap();
    });
    let error = rewritten.unwrap_err().to_string();
    assert!(error.contains("/src/vmlinux has other content"), "{error}");
}

#[test]
fn a_list_depends_on_the_seed_and_its_totals_do_not() {
    for op in ["cp", "clone", "make"] {
        let spec = spec(&format!("op={op},files=300,build=40"));
        assert_eq!(spec.lists(1), spec.lists(1));
        assert_ne!(spec.lists(1), spec.lists(2));
        let (_, run) = spec.lists(2);
        let tasks: usize = run.iter().map(Vec::len).sum();
        assert_eq!(tasks as u64, spec.operations());
    }
}

#[test]
fn cpu_time_of_a_program_passes() {
    let time = |cpu: u32| {
        let spec = spec(&format!("op=make,files=60,cpu={cpu}"));
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let mut tree = Tree::new(&spec, vfs, 5);
            tree.prepare(&|| Ok(())).unwrap();
            tree.run(&|| Ok(()), &mut |_| {}).unwrap();
            rt::now()
        });
        outcome.value.expect("no panic").0
    };
    let units = commands::compiled(60, 10) as u64;
    assert_eq!(time(1000) - time(0), units * 1_000_000);
}
