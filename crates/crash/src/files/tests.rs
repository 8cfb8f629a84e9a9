//! Each rule, with a state that only it forbids: made by hand on the model file system.

use super::*;
use crate::device::small_volume;
use crate::found::read_file;
use crate::ops::Stress;
use crate::run::run_on;
use crate::{CrashConfig, Script, Target, Volume};
use base::Nanos;
use rig::{Data, FsyncMode, Mounted};
use rt::{Mutex, Sim, SimConfig};
use testkit::model::ModelFs;
use vfs::{OpenFlags, RenameMode, WritebackPolicy};

const STRICT: Terms = Terms {
    journaled: true,
    data: Data::Ordered,
    garbles: false,
    roll_forward: None,
    by_inode: false,
    tree_log: false,
    page_bytes: 4096,
    pieces: false,
};
const GARBLES: Terms = Terms {
    garbles: true,
    ..STRICT
};
const WRITEBACK: Terms = Terms {
    data: Data::Writeback,
    ..STRICT
};

const F2FS: Terms = Terms {
    roll_forward: Some(FsyncMode::Posix),
    ..STRICT
};

/// Operations, one a word: `c f` create, `w f 0 100` write, `t f 5` truncate, `s f` fsync, `d f`
/// fdatasync, `D /` fsync of a directory, `S` sync, `r f g` rename, `l f g` link, `y f` symlink,
/// `u f` unlink, `m d` mkdir, `x d` rmdir, `p f 600` chmod, `z 5` pause of 5 us, `_` nothing.
fn ops(text: &str) -> Vec<Op> {
    text.split(';').map(|op| one(op.trim())).collect()
}

fn one(text: &str) -> Op {
    let words: Vec<&str> = text.split(' ').collect();
    let path = |n: usize| match words[n] {
        "/" => String::new(),
        name => format!("/{name}"),
    };
    let number = |n: usize| words[n].parse::<u64>().unwrap();
    match words[0] {
        "c" => Op::Create(path(1)),
        "w" => Op::Write {
            path: path(1),
            offset: number(2),
            len: number(3),
        },
        "t" => Op::Truncate {
            path: path(1),
            size: number(2),
        },
        "s" => Op::Fsync(path(1)),
        "d" => Op::Fdatasync(path(1)),
        "D" => Op::SyncDir(path(1)),
        "S" => Op::Sync,
        "r" => Op::Rename {
            from: path(1),
            to: path(2),
        },
        "l" => Op::Link {
            from: path(1),
            to: path(2),
        },
        "y" => Op::Symlink {
            target: "there".into(),
            to: path(1),
        },
        "u" => Op::Unlink(path(1)),
        "m" => Op::Mkdir(path(1)),
        "x" => Op::Rmdir(path(1)),
        "p" => Op::Chmod {
            path: path(1),
            perm: u16::from_str_radix(words[2], 8).unwrap(),
        },
        "z" => Op::Pause(number(1) * 1000),
        "_" => Op::Pause(0),
        other => panic!("{other}"),
    }
}

/// Runs tasks on a fresh model file system.
fn ran<R: Send + 'static>(script: &Script, then: impl FnOnce(&Arc<Vfs>, Vec<TaskLog>) -> R) -> R {
    let outcome = Sim::new(SimConfig::random(1)).run(|| {
        let vfs = Vfs::new(ModelFs::new());
        let logs = Arc::new(Mutex::named("logs", Vec::new()));
        run_on(&vfs, 1, script, &logs).unwrap();
        let logs = std::mem::take(&mut *logs.lock());
        then(&vfs, logs)
    });
    outcome.value.expect("the simulation ends well")
}

fn script(tasks: &[&str]) -> Script {
    Script::Fixed(tasks.iter().map(|t| ops(t)).collect())
}

/// The oracle at the end of `history`, and what it says where `found` ran and was then edited.
fn judged(
    terms: Terms,
    history: &[&str],
    found: &[&str],
    edit: impl FnOnce(&Arc<Vfs>),
) -> (Judgement, Vec<String>) {
    let logs = ran(&script(history), |_, logs| logs);
    let mut oracle = FileOracle::new(logs, terms);
    oracle.advance(Time(1_000_000_000));
    ran(&script(found), |vfs, _| {
        edit(vfs);
        let mut judgement = Judgement::default();
        oracle.judge(vfs, &mut judgement);
        (judgement, oracle.story())
    })
}

fn allowed(history: &str, found: &str) -> Loss {
    let (judgement, _) = judged(STRICT, &[history], &[found], |_| {});
    assert_eq!(
        judgement.violations,
        Vec::<String>::new(),
        "{history} -> {found}"
    );
    judgement.loss
}

fn forbidden(rule: &str, history: &str, found: &str) -> Loss {
    let (judgement, _) = judged(STRICT, &[history], &[found], |_| {});
    let words = judgement.violations.join("\n");
    assert!(
        words.contains(&format!("{rule}: ")),
        "{history} -> {found}: {words:?}"
    );
    judgement.loss
}

fn edited(rule: &str, terms: Terms, history: &str, edit: impl FnOnce(&Arc<Vfs>)) -> Loss {
    let (judgement, _) = judged(terms, &[history], &[history], edit);
    let words = judgement.violations.join("\n");
    match rule {
        "" => assert_eq!(words, ""),
        rule => assert!(words.contains(&format!("{rule}: ")), "{history}: {words:?}"),
    }
    judgement.loss
}

/// What `/f` holds after these operations.
fn held(text: &str) -> Vec<u8> {
    ran(&script(&[text]), |vfs, _| read_file(vfs, "/t0/f").unwrap())
}

fn put(vfs: &Arc<Vfs>, path: &str, at: u64, bytes: &[u8]) {
    let file = vfs.open(path, OpenFlags::WRITE, 0).unwrap();
    file.write_at(at, bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn what_is_not_synced_may_be_lost_and_is_counted() {
    assert!(allowed("c f; w f 0 100; m d", "c f; w f 0 100; m d").is_none());
    let loss = allowed("c f; w f 0 5000; m d; r f d/g", "c f");
    assert_eq!((loss.ops, loss.acked_ops, loss.bytes), (2, 0, 5000));
    let loss = allowed("z 10; c f; z 20", "z 10");
    assert_eq!((loss.ops, loss.bytes), (1, 0));
    assert!(loss.age >= Nanos(20_000), "{loss:?}");
    assert!(!loss.old_data && !loss.foreign_data);
}

#[test]
fn o1_names_are_a_prefix() {
    forbidden("O1", "c f; c g", "_; c g");
    forbidden("O1", "c f; r f g", "c f; l f g");
    // A cut in a rename leaves one of the two names.
    let none = |vfs: &Arc<Vfs>| vfs.unlink("/t0/g").unwrap();
    edited("O1", STRICT, "c a; c f; D /; r f g", none);
    edited("O1", STRICT, "c f; c k", |vfs| {
        vfs.chmod("/t0/f", 0o600).unwrap()
    });
    edited("O1", STRICT, "c f; y l", |vfs| {
        vfs.unlink("/t0/l").unwrap();
        vfs.symlink("elsewhere", "/t0/l").unwrap();
    });
    // The number of links is compared.
    edited("O1", STRICT, "c f; l f g", |vfs| {
        vfs.link("/t0/f", "/other").map(drop).unwrap()
    });
    // The name leads to another inode than the one that was made.
    edited("O1", STRICT, "c f; c g", |vfs| {
        vfs.rename("/t0/f", "/t0/g", RenameMode::Exchange).unwrap();
    });
    allowed("c f; l f g; u f", "c f; l f g");
}

#[test]
fn o2_fsync_covers_names_attributes_and_content() {
    assert_eq!(forbidden("O1", "c f; s f", "_").acked_ops, 1);
    forbidden("O1", "c f; s f; r f g; s g", "c f");
    forbidden("O1", "c f; p f 600; s f", "c f");
    let loss = forbidden("O4", "c f; w f 0 700; s f", "c f");
    assert_eq!(loss.acked_bytes, 700);
    // Neither names in another directory nor later operations are covered.
    allowed("c f; s f; m d; p f 600", "c f");
}

#[test]
fn o2_fdatasync_covers_the_making_and_the_content() {
    forbidden("O1", "c f; d f", "_");
    forbidden("O4", "c f; w f 0 700; d f", "c f");
    allowed("c f; w f 0 700; p f 600; r f g; d g", "c f; w f 0 700");
}

#[test]
fn o2_sync_of_a_directory_covers_names_and_no_content() {
    forbidden("O1", "m d; c d/f; D d", "m d");
    forbidden("O1", "m d; c f; p f 600; D d", "m d; c f");
    allowed("c f; w f 0 700; D /", "c f");
    // Names of other tasks are covered, too.
    let history = ["c f", "z 5; D /"];
    let (judgement, _) = judged(STRICT, &history, &["_", "z 5"], |_| {});
    assert!(judgement.violations[0].contains("O1: "), "{judgement:?}");
}

#[test]
fn o2_sync_covers_everything_of_everybody() {
    forbidden("O1", "c f; p f 600; S", "c f");
    forbidden("O4", "c f; w f 0 700; S", "c f");
    let history = ["c f; w f 0 700", "z 5; S"];
    for (found, rule) in [("_", "O1: "), ("c f", "O4: ")] {
        let (judgement, _) = judged(STRICT, &history, &[found, "z 5"], |_| {});
        assert!(judgement.violations[0].contains(rule), "{judgement:?}");
    }
    // An operation that began after the sync is not covered.
    let history = ["z 9; c f", "z 5; S"];
    let (judgement, _) = judged(STRICT, &history, &["z 9", "z 5"], |_| {});
    assert_eq!(judgement.violations, Vec::<String>::new());
}

#[test]
fn o3_sectors_are_not_older_than_the_last_sync() {
    let history = "c f; w f 0 1500; s f; w f 100 700";
    allowed(history, "c f; w f 0 1500");
    let old = held("c f; w f 0 1500");
    let loss = edited("", STRICT, history, |vfs| {
        // The first sector as synced, the second one as written last.
        put(vfs, "/t0/f", 0, &old[..512]);
    });
    assert!(
        loss.old_data && loss.acked_bytes == 0 && loss.bytes == 512,
        "{loss:?}"
    );
    let zero = |vfs: &Arc<Vfs>| put(vfs, "/t0/f", 512, &[0; 512]);
    assert_eq!(edited("O3", STRICT, history, zero).acked_bytes, 512);
    // Half a sector of one operation and half of another.
    let old = held("c f; w f 0 512");
    edited("O3", STRICT, "c f; w f 0 512; s f; w f 0 512", |vfs| {
        put(vfs, "/t0/f", 256, &old[256..]);
    });
    forbidden("O3", "c f; w f 0 512; _; w f 0 512; s f", "c f; w f 0 512");
}

#[test]
fn o3_what_was_cut_off_does_not_come_back() {
    let history = "c f; w f 0 900; s f; t f 100; t f 1000";
    let old = held("c f; w f 0 900");
    let back = |vfs: &Arc<Vfs>| {
        put(vfs, "/t0/f", 0, &old);
    };
    assert!(edited("O3", STRICT, history, back).old_data);
    edited("", WRITEBACK, history, back);
    allowed(history, "c f; w f 0 900");
    allowed(history, "c f; w f 0 900; _; t f 100");
}

#[test]
fn o4_sizes_are_those_that_the_file_had() {
    let history = "c f; w f 0 900; s f; t f 100; t f 9000; w f 9000 4000";
    for size in [900, 100, 9000, 13000, 12288] {
        edited("", STRICT, history, |vfs| {
            vfs.truncate("/t0/f", size).unwrap_or(())
        });
    }
    for size in [0, 500, 8192, 10000, 14000] {
        edited("O4", STRICT, history, |vfs| {
            vfs.truncate("/t0/f", size).unwrap()
        });
    }
    // A later name is there, and so is the truncation before it.
    forbidden(
        "O4",
        "c f; w f 0 900; s f; t f 100; c g",
        "c f; w f 0 900; _; _; c g",
    );
}

#[test]
fn o5_no_foreign_bytes() {
    let history = "c f; c g; w g 0 8192; s g; w f 0 8192";
    let foreign = |vfs: &Arc<Vfs>| {
        let other = read_file(vfs, "/t0/g").unwrap();
        put(vfs, "/t0/f", 512, &other[512..1024]);
    };
    assert!(edited("O5", STRICT, history, foreign).foreign_data);
    assert!(edited("", WRITEBACK, history, foreign).foreign_data);
    // Synced bytes are safe in writeback mode as well, also where they are written again.
    let synced = "c f; c g; w g 0 8192; w f 0 8192; s f; w f 0 600";
    edited("O5", WRITEBACK, synced, foreign);
    // Content that lay on the device before the run.
    edited("O5", STRICT, history, |vfs| {
        let stamp = crate::stamp::Stamp {
            file: crate::stamp::NOBODY,
            sector: 1,
            version: 1,
        };
        put(vfs, "/t0/f", 512, &crate::stamp::sector(stamp));
    });
}

#[test]
fn o6_garbage_only_where_the_device_may_leave_it() {
    let again = "c f; w f 0 4096; s f; w f 0 100";
    let garbage = |vfs: &Arc<Vfs>| put(vfs, "/t0/f", 1024, &[0x5A; 512]);
    edited("O6", STRICT, again, garbage);
    assert_eq!(edited("", GARBLES, again, garbage).acked_bytes, 512);
    let journal = Terms {
        data: Data::Journal,
        ..GARBLES
    };
    edited("O6", journal, again, garbage);
    // The page was not rewritten since the sync.
    edited("O6", GARBLES, "c f; w f 0 4096; w f 0 100; s f", garbage);
    edited("O6", GARBLES, "c f; w f 0 4096", garbage);
}

#[test]
fn o7_what_is_there_has_what_others_did_before() {
    let history = ["c a", "z 5; c b"];
    let (judgement, _) = judged(STRICT, &history, &history, |vfs| {
        vfs.unlink("/t0/a").unwrap();
    });
    assert!(judgement.violations[0].starts_with("O7: "), "{judgement:?}");
    let (judgement, _) = judged(STRICT, &history, &["c a", "z 5"], |_| {});
    assert_eq!(judgement.violations, Vec::<String>::new());
}

/// A change that leaves all as it was, and that a sync covers, need not be in the log.
#[test]
fn o7_what_changes_nothing_has_no_time() {
    let without_a = |history: [&str; 2]| {
        let (judgement, _) = judged(STRICT, &history, &history, |vfs| {
            vfs.unlink("/t0/a").unwrap();
        });
        judgement.violations
    };
    let same = without_a(["z 20; c a", "c b; p b 600; z 90; p b 600; s b"]);
    assert_eq!(same, Vec::<String>::new());
    let other = without_a(["z 20; c a", "c b; p b 600; z 90; p b 640; s b"]);
    assert!(other[0].starts_with("O7: "), "{other:?}");
}

#[test]
fn a_story_says_what_was_promised() {
    let (_, story) = judged(
        STRICT,
        &["c f; w f 0 10; s f; w f 5 10; c g"],
        &["c f"],
        |_| {},
    );
    let wanted = [
        "task 0: mkdir  (done, promised)",
        "task 0: create /f (done, promised)",
        "task 0: write /f 0+10 (done, promised)",
        "task 0: fsync /f (done)",
        "task 0: write /f 5+10 (done, not promised)",
        "task 0: create /g (done, not promised)",
    ];
    assert_eq!(story, wanted);
}

#[test]
fn what_is_under_way_may_be_there_and_promises_nothing() {
    let logs = ran(&script(&["c f; w f 0 10; s f"]), |_, logs| logs);
    let at = |begun, ended| {
        let mut oracle = FileOracle::new(logs.clone(), STRICT);
        oracle.advance_to(&[Progress { begun, ended }]);
        oracle
    };
    let says = |oracle: &FileOracle, found: &str| {
        ran(&script(&[found]), |vfs, _| {
            let mut judgement = Judgement::default();
            oracle.judge(vfs, &mut judgement);
            judgement.violations.len()
        })
    };
    assert_eq!(says(&at(4, 3), "c f"), 0, "the sync is under way");
    assert_eq!(says(&at(4, 4), "c f"), 1, "the sync has ended");
    assert_eq!(says(&at(1, 1), "c f"), 1, "not begun");
    assert_eq!(says(&at(2, 1), "c f"), 0, "begun");
    assert_ne!(at(2, 1).epoch(), at(2, 2).epoch());
}

/// Whatever the tasks do, a run that was not cut is as it should be, and nothing is lost.
#[test]
fn without_a_cut_all_is_well_on_ext4() {
    let stack = small_volume("jbd2".parse().unwrap(), "emmc-odroid-xu4", 1);
    let caps = crate::cells::Cell::all()[0].caps(stack.bytes);
    let target = Target::Spec(caps);
    let volume = Volume::new(&stack, &target).unwrap();
    for seed in 0..20 {
        let stress = Stress::ALL[seed as usize % Stress::ALL.len()];
        let mix = Script::Mixed {
            tasks: 2,
            ops: 40,
            stress,
            free: None,
        };
        let config = CrashConfig::new(stack.clone(), target.clone(), seed, mix, 0);
        let disk = volume.fresh(seed).unwrap();
        let outcome = Sim::new(config.sim(seed)).run(|| {
            let options = config.mount_options();
            let mounted = Mounted::on(disk.device(), options, WritebackPolicy::off()).unwrap();
            let logs = Arc::new(Mutex::named("logs", Vec::new()));
            run_on(&mounted.vfs, seed, &config.script, &logs).unwrap();
            let mut oracle = FileOracle::new(std::mem::take(&mut *logs.lock()), STRICT);
            oracle.advance(rt::now());
            let mut judgement = Judgement::default();
            oracle.judge(&mounted.vfs, &mut judgement);
            // An attribute that no task has set is found.
            let attribute = oracle.tasks[0].with_xattrs;
            let mut edited = Judgement::default();
            if attribute {
                let mode = vfs::XattrMode::Any;
                mounted
                    .vfs
                    .setxattr("/t0", "user.none", b"x", mode)
                    .unwrap();
                oracle.judge(&mounted.vfs, &mut edited);
            }
            mounted.unmount().unwrap();
            (judgement, attribute, edited)
        });
        let (judgement, attribute, edited) = outcome.value.expect("a clean run");
        assert_eq!(judgement.violations, Vec::<String>::new(), "seed {seed}");
        assert!(
            judgement.loss.is_none(),
            "seed {seed}: {:?}",
            judgement.loss
        );
        let seen = edited.violations.iter().any(|w| w.contains("O1: "));
        assert_eq!(attribute, seen, "seed {seed}: {edited:?}");
    }
}

/// What F2FS may leave, and what not.
fn by_roll_forward(terms: Terms, history: &str, found: &str) -> String {
    let (judgement, _) = judged(terms, &[history], &[found], |_| {});
    judgement.violations.join("\n")
}

#[test]
fn a_synced_file_comes_back_alone() {
    for (history, found) in [
        // Of two new files the second was synced.
        ("D /; c f; c g; s g", "D /; c f; c g; s g; u f"),
        ("D /; c f; c g; s g", "D /; c f; c g; s g"),
        // Nothing was synced, so a prefix alone is legal.
        ("D /; c f; c g; r f h", "D /; c f"),
        // Attributes are as at the sync; a later change is gone.
        ("D /; c f; p f 600; s f; p f 640", "D /; c f; p f 600; s f"),
        // After an fdatasync attributes may be old.
        (
            "c f; D /; p f 600; w f 0 512; d f",
            "c f; D /; _; w f 0 512; d f",
        ),
        // The file comes back under a directory that moved since the checkpoint.
        ("m d; D /; c d/f; s d/f; r d e", "m d; D /; c d/f; s d/f"),
        // The file comes back in place of the file that had its name.
        (
            "c f; D /; c k; u f; c f; s f",
            "c f; D /; c k; u f; c f; s f; u k",
        ),
        // The removal was not synced by the directory, so the file may come back.
        ("D /; c f; s f; u f", "D /; c f; s f"),
        ("D /; c f; s f; u f", "D /"),
    ] {
        assert_eq!(
            by_roll_forward(F2FS, history, found),
            "",
            "{history} -> {found}"
        );
    }
}

#[test]
fn what_was_synced_has_to_come_back() {
    for (rule, history, found) in [
        ("O1", "D /; c f; c g; s g", "D /; c f"),
        ("O1", "D /; c f; c g; s g", "D /"),
        ("O1", "c f; D /; p f 600; s f", "c f; D /"),
        // Nothing but the synced file comes back out of order.
        (
            "O1",
            "D /; c f; c g; c h; s h",
            "D /; c f; c g; c h; s h; u f",
        ),
        // A sync of a directory is a checkpoint, so it covers everything.
        ("O1", "c f; c g; D /", "_; c g; D /"),
        // The content of a synced file has to come back, too.
        ("O", "D /; c f; w f 0 512; s f", "D /; c f; _; s f"),
    ] {
        let words = by_roll_forward(F2FS, history, found);
        assert!(words.contains(rule), "{history} -> {found}: {words:?}");
    }
}

/// Where the names alone are those of a checkpoint, the violation says which file lacks.
#[test]
fn a_synced_file_that_lacks_is_named() {
    let words = by_roll_forward(F2FS, "D /; c f; c g; s g", "D /; c f");
    assert!(words.contains("/g` has not come back"), "{words}");
}

/// `what`, with each number of the range in place of `#`.
fn each(numbers: std::ops::Range<usize>, what: &str) -> String {
    numbers
        .map(|n| what.replace('#', &n.to_string()) + "; ")
        .collect()
}

/// Many synced files have more choices than can be tried one by one.
#[test]
fn of_many_synced_files_each_may_come_back_its_own_way() {
    // After an fdatasync each file may have its old attributes or the new ones.
    let made = each(0..40, "c f#") + "D /; ";
    let history = made.clone() + &each(0..40, "p f# 600") + &each(0..40, "d f#") + "_";
    let some = made.clone() + &each(20..30, "p f# 600") + "_";
    assert_eq!(by_roll_forward(F2FS, &history, &some), "");
    let words = by_roll_forward(F2FS, &history, &(some + "; p f3 640"));
    assert!(words.contains("O1: "), "{words}");
    // Of many files that had the same name, all removed, an old one may come back.
    let start = "D /; c k; ".to_string();
    let history = start.clone() + &each(0..40, "c f; s f; u f") + "_";
    let found = start + &each(0..30, "c f; u f") + "c f; u k";
    assert_eq!(by_roll_forward(F2FS, &history, &found), "");
}

#[test]
fn without_barriers_a_sync_of_a_file_promises_nothing() {
    let terms = Terms {
        roll_forward: Some(FsyncMode::NoBarrier),
        ..STRICT
    };
    for found in ["D /", "D /; c f; _; s f", "D /; c f; w f 0 512; s f"] {
        let words = by_roll_forward(terms, "D /; c f; w f 0 512; s f", found);
        assert_eq!(words, "", "{found}");
    }
    assert!(by_roll_forward(terms, "c f; D /", "_; D /").contains("O1"));
}

const BTRFS: Terms = Terms {
    by_inode: true,
    tree_log: true,
    ..STRICT
};

/// Each rule of the log of trees, with what only it forbids.
#[test]
fn a_log_of_trees_keeps_what_was_synced() {
    for (history, found, words) in [
        // tree_log-L2: a synced file is there, with its content; what is older need not be.
        ("S; c f; c g; s g", "S; c f; c g; u f", ""),
        ("S; c f; c g; s g", "S; c f", "`g` is missing"),
        ("S; c f; w f 0 700; s f", "S; c f", "O4: "),
        ("S; c f; p f 600; s f; p f 640", "S; c f; p f 600", ""),
        (
            "S; c f; p f 600; s f; p f 640",
            "S; c f",
            "attributes of no time",
        ),
        // All names, and none that it had before.
        ("c f; S; l f g; s f", "c f; S", "`g` is missing"),
        ("c f; S; r f g; s g", "c f; S", "`/f` should not be there"),
        ("c f; S; r f g", "c f; S", ""),
        // tree_log-L2: the places in a synced directory, and not those elsewhere.
        ("m d; S; c d/f; c g; D d", "m d; S; c d/f", ""),
        ("m d; S; c d/f; c g; D d", "m d; S; c g", "`f` is missing"),
        (
            "m d; c d/f; S; u d/f; D d",
            "m d; c d/f; S",
            "`/d/f` should not",
        ),
        (
            "m d; c d/f; S; r d/f g; D d",
            "m d; c d/f; S",
            "`/d/f` should not",
        ),
        // The directory has moved, and what is in it has come along.
        ("m d; S; c d/f; D d; r d e", "m d; S; c d/f; r d e", ""),
        (
            "m d; S; c d/f; D d; r d e",
            "m d; S; r d e",
            "`f` is missing",
        ),
        // An fdatasync promises the file, under one of its names.
        ("S; c f; d f; r f g", "S; c f; r f g", ""),
        ("S; c f; d f; r f g", "S", "has no name"),
        // Who was removed behind the sync may be there or not.
        ("S; c f; s f; u f", "S; c f", ""),
        ("S; c f; s f; u f", "S", ""),
        // tree_log-L1: what sync has covered.
        ("c f; p f 600; S; c g", "c f; p f 600; S", ""),
        ("c f; c h; S; c g", "c f; S; c g", "`h` is missing"),
        // tree_log-L3: a rename leaves one name. A second link that was never made is none.
        ("c f; S; r f g", "c f; S; l f g", "has 2 names"),
        (
            "c f; c g; S; r f g",
            "c f; c g; S; u f; u g",
            "`g` is missing",
        ),
        ("c f; S; r f g; c f; s f", "S; c k; u k; c f", "no name"),
        // Operations on names come in no order.
        ("S; c f; c g", "S; c f; c g; u f", ""),
    ] {
        let (judgement, _) = judged(BTRFS, &[history], &[found], |_| {});
        let said = judgement.violations.join("\n");
        match words {
            "" => assert_eq!(said, "", "{history} -> {found}"),
            words => assert!(said.contains(words), "{history} -> {found}: {said:?}"),
        }
    }
}

/// tree_log-L2 and tree_log-L4: a sync that is under way promises nothing, links are counted, and
/// what nobody has made is no name.
#[test]
fn a_log_of_trees_owes_what_has_ended_and_holds_nothing_strange() {
    let says = |ended, found: &str| {
        let mut oracle = FileOracle::new(ran(&script(&["S; c f; s f"]), |_, logs| logs), BTRFS);
        oracle.advance_to(&[Progress { begun: 4, ended }]);
        ran(&script(&[found]), |vfs, _| {
            let mut judgement = Judgement::default();
            oracle.judge(vfs, &mut judgement);
            judgement.violations.len()
        })
    };
    assert_eq!(says(3, "S"), 0, "the sync is under way");
    assert_eq!(says(4, "S"), 1);
    edited("O1", BTRFS, "c f; S", |vfs| {
        vfs.link("/t0/f", "/other").map(drop).unwrap()
    });
    edited("O1", BTRFS, "c f; S", |vfs| {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        vfs.open("/t0/new", flags, 0o644).unwrap().close().unwrap();
    });
}
