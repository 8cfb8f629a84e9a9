//! The language is read as documented, and models run on small volumes.

use super::model::{Op, Quit, Step};
use super::*;
use crate::{RunConfig, run};
use base::Rng;
use report::results::Run;
use rig::{Config, Fs, Preset};

fn model(text: &str) -> Result<Model, String> {
    parse(text, &Settings::new()).map_err(|e| e.to_string())
}

/// A thread with these flowops over a set `a` of 10 files.
fn thread(flowops: &str) -> String {
    format!(
        "define fileset name=a,entries=10,prealloc=50\ndefine process name=p {{ thread name=t {{\n{flowops}\n}} }}\nrun 1\n"
    )
}

#[test]
fn the_language_is_read() {
    let text = r#"
        # a comment
        set $dir=/tmp
        set $n=100
        set $half = $n / 2 + 1
        set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5,min=1k)
        define randvar name=$io,type=uniform,min=1k,max=4k,round=512
        set mode quit firstdone
        define fileset name="big",path=$dir,entries=$half,size=$size,
            dirwidth=20,dirgamma=0,prealloc=80,paralloc,reuse
        define file name=log,path=${dir}/x,size=1m,prealloc
        define flowop name=twice {
            flowop openfile name=o,filesetname=big,fd=3
            flowop closefile fd=3
        }
        define process name=p,instances=2 {
            thread name=t,memsize=10m,instances=3 {
                flowop twice name=x,iters=4
                flowop write name=w,filename=log,iosize=$io,random,dsync,directio,iters=2
                flowop finishoncount name=f,value=1k,target=w
            }
        }
        create files
        system "rm -rf /"
        echo "not $set"
        eventgen rate=500
        psrun -10 90
    "#;
    let model = model(text).unwrap();
    assert_eq!(model.filesets[0].entries, 51);
    assert_eq!(
        (model.filesets[1].entries, model.filesets[1].prealloc),
        (1, 100)
    );
    assert_eq!(
        (model.threads(), model.seconds, model.rate),
        (6, Some(90), 500)
    );
    assert_eq!(model.quit, Quit::FirstDone);
    let body = &model.processes[0].threads[0].body;
    let Step::Group {
        iters: 4,
        body: group,
    } = &body[0]
    else {
        panic!("{body:?}")
    };
    assert_eq!(group.len(), 2);
    let Step::Op(write) = &body[1] else {
        panic!("{body:?}")
    };
    assert_eq!(
        (write.op, write.fileset, write.random, write.dsync),
        (Op::Write, Some(1), true, true)
    );
    assert_eq!(write.iosize.as_ref().unwrap().most(), 4096);
    let counts: Vec<(&str, u64)> = model
        .ignored
        .iter()
        .map(|(k, i)| (k.as_str(), i.count))
        .collect();
    for wanted in [
        ("attribute path of a fileset", 1),
        ("attribute path of a file", 1),
        ("attribute paralloc of a fileset", 1),
        ("attribute memsize of a thread", 1),
        ("attribute directio of a flowop", 1),
        ("command system", 1),
        ("command echo", 1),
    ] {
        assert!(counts.contains(&wanted), "{wanted:?} in {counts:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_there_is() {
    let long = format!("set $x={}", "y".repeat(5000));
    let many = format!("define fileset name=a,entries={}", 3_000_000);
    let threads =
        "define process name=p,instances=100 {\nthread name=t,instances=100 {\nflowop hog\n}\n}";
    let deep: String = (1..12)
        .map(|n| format!("define flowop name=g{n} {{ flowop g{} }}\n", n - 1))
        .collect();
    let deep = format!("define flowop name=g0 {{ flowop hog }}\n{deep}");
    let wide: String = (1..9)
        .map(|n| {
            format!(
                "define flowop name=g{n} {{ {} }}\n",
                format!("flowop g{}\n", n - 1).repeat(10)
            )
        })
        .collect();
    let wide = format!("define flowop name=g0 {{ flowop hog }}\n{wide}");
    for (text, wanted) in [
        (
            "define fileset name=a,entries=1,colour=red",
            "line 1: a fileset has no attribute `colour` here; there is: name",
        ),
        (
            "\n\nfrobnicate",
            "line 3: `frobnicate` is no command; there is: set",
        ),
        ("set $a=$b", "line 1: `$b` is not set"),
        ("set $a=\"x", "line 1: a string without a closing"),
        ("set $a=1 - 2", "is no whole number from 0"),
        ("set $a=1 / 0", "is no whole number from 0"),
        ("set mode warp", "`set mode warp`; there is: quit"),
        ("set $", "`$` without the name"),
        ("define widget name=x", "`define widget`; there is: fileset"),
        ("define fileset entries=3", "a fileset without `name`"),
        ("define fileset name=../etc", "`name=../etc` of a fileset"),
        (
            "define fileset name=a\ndefine file name=a",
            "line 2: `a` is defined twice",
        ),
        (
            "define fileset name=a,entries=many",
            "`entries=many` of a fileset: a whole number",
        ),
        ("define fileset name=a,prealloc=101", "`prealloc=101`"),
        ("define fileset name=a,dirwidth=0", "from 1 to"),
        (
            "define fileset name=a,size=99999999999999999999",
            "size=99999999999999999999",
        ),
        (
            "define fileset name=a,size=1,size=2",
            "`size` is given twice",
        ),
        (&many, "at most 2000000"),
        (threads, "10000 threads; at most 1024"),
        (&long, "a word of 5000 bytes"),
        (&deep, "more than 8 deep"),
        (&wide, "more than 10000 flowops"),
        (
            "define process name=p {",
            "line 1: the file ends; there should be thread",
        ),
        (
            "define process name=p { thread name=t { } }",
            "thread `t` does nothing",
        ),
        ("run 1", "there is nothing to run"),
        ("run 1\nrun 2", "line 2: a second `run`"),
        (
            &thread("flowop fly name=x"),
            "line 3: `fly` is no flowop here; there is: createfile",
        ),
        (&thread("flowop openfile"), "`openfile` needs `filesetname`"),
        (
            &thread("flowop openfile filesetname=b"),
            "no fileset or file `b` before; there is: a",
        ),
        (&thread("flowop openfile filesetname=a,fd=128"), "`fd=128`"),
        (
            &thread("flowop write fd=1,iosize=1g"),
            "`iosize=1g` of a flowop".replace("1g", "1073741824").leak(),
        ),
        (
            &thread("flowop sempost target=x"),
            "`target=x` of `sempost` is no semblock",
        ),
        (
            &thread("flowop opslimit target=x"),
            "`target=x` of `opslimit` is no flowop of this file; there is: opslimit",
        ),
        (&thread("flowop iopslimit target=x"), "is no flowop of this"),
        (
            &thread("flowop bwlimit target=x"),
            "is no flowop of this file",
        ),
        (
            &thread("flowop finishoncount target=x"),
            "is no flowop of this file; there is: finishoncount",
        ),
        (&thread("flowop write fd=1,iosize=cvar"), "`iosize=cvar`"),
        (
            "set $x=cvar(type=cvar-warp)",
            "`type=warp`; there is: gamma",
        ),
        ("set $x=cvar(type=cvar-gamma,parameters=mean:1)", ""),
        (
            "set $x=cvar(type=cvar-gamma,parameters=mien:1)",
            "needs `mean`",
        ),
        (
            "set $x=cvar(type=cvar-gamma,parameters=mean:1;hat:2)",
            "no parameter `hat`",
        ),
        (
            "set $x=cvar(type=cvar-normal,parameters=mean:1;sigma:-2)",
            "no distribution",
        ),
    ] {
        match model(text) {
            Err(e) => assert!(e.contains(wanted) && e.starts_with("line "), "{text}: {e}"),
            Ok(_) => panic!("{text} was read"),
        }
    }
    let e = parse(&thread("flowop hog"), &[("x".into(), "1".into())].into()).unwrap_err();
    assert!(e.to_string().contains("no variable `x` to set"), "{e}");
}

/// Texts made of what the language has, in any order, and of bytes: nothing panics, hangs or grows.
#[test]
fn no_text_makes_the_reader_panic() {
    let mut rng = Rng::named(1, "filebench fuzz");
    let words: Vec<&str> = PERSONALITIES
        .iter()
        .flat_map(|(_, text)| text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    let mut read = 0;
    for _ in 0..3000 {
        let text = match rng.below(3) {
            0 => {
                let pick = |rng: &mut Rng| words[rng.below(words.len() as u64) as usize];
                (0..rng.below(60)).map(|_| pick(&mut rng)).collect()
            }
            1 => {
                let mut bytes = vec![0; rng.below(80) as usize];
                rng.fill(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            // Each text is a good file with a part taken out or changed.
            _ => {
                let text = PERSONALITIES[rng.below(PERSONALITIES.len() as u64) as usize].1;
                let at = rng.below(text.len() as u64) as usize;
                let end = (at + rng.below(20) as usize).min(text.len());
                let insert = ["", "999999999999", "{", "}", "$", "\"", ",", "=", "\0"];
                let insert = insert[rng.below(insert.len() as u64) as usize];
                format!("{}{insert}{}", &text[..at], &text[end..])
            }
        };
        match model(&text) {
            Ok(model) => {
                read += 1;
                assert!(model.threads() <= 1024);
            }
            Err(e) => assert!(e.starts_with("line "), "{e}"),
        }
    }
    assert!(read > 50, "some are good: {read}");
}

fn config(fs: Fs, scheme: &str, workload: &str) -> RunConfig {
    let mut stack = Config::new(Preset::default(), "loop-like", 3);
    stack.set_scheme(scheme).unwrap();
    (stack.fs, stack.bytes, stack.timers) = (fs, 128 << 20, false);
    RunConfig {
        stack,
        workload: workload.into(),
        seed: 3,
        recording: None,
    }
}

fn ran(fs: Fs, scheme: &str, workload: &str) -> Run {
    let config = config(fs, scheme, workload);
    run::run(&config, &mut |_, _| {})
        .unwrap_or_else(|e| panic!("{workload}: {e}"))
        .run
}

#[test]
fn every_personality_runs_and_what_is_left_is_what_was_written() {
    for (name, _) in PERSONALITIES {
        let more = match *name {
            "oltp" => {
                "nfiles=4,filesize=64k,logsize=512k,nreaders=6,nwriters=2,posts=20,logposts=30,writes=5,ops=600"
            }
            "fileserver" => "nfiles=300,filesize=8k,appendsize=1k,nthreads=8,ops=600",
            "webserver" => "nfiles=50,filesize=5000,appendsize=300,ops=620",
            "varmail" => "nfiles=60,nthreads=3,ops=400",
            "webproxy" => "nfiles=60,ops=400",
            "listdir" => "nfiles=60,ops=50",
            _ => "nfiles=40,dirwidth=7",
        };
        for (fs, scheme) in [(Fs::Ext4, "jbd2"), (Fs::F2fs, "f2fsj")] {
            let run = ran(fs, scheme, &format!("filebench:{name},{more}"));
            let count = |kind: &str| run.ops_by_kind.get(kind).map_or(0, |k| k.ops);
            assert_eq!(
                run.ops,
                run.ops_by_kind.values().map(|k| k.ops).sum::<u64>()
            );
            match *name {
                "makedir" => assert_eq!((run.ops, count("makedir")), (40, 40)),
                "removedir" => assert_eq!((run.ops, count("removedir")), (40, 40)),
                "deletefile" => assert_eq!((run.ops, count("deletefile")), (40, 40)),
                "createfile" => assert_eq!((run.ops, count("writewholefile")), (120, 40)),
                "copyfiles" => assert_eq!((run.ops, count("closefile")), (240, 80)),
                "listdir" => assert_eq!((run.ops, count("listdir")), (50, 50)),
                "oltp" => {
                    assert!((600..610).contains(&run.ops), "{}", run.ops);
                    assert!(count("read") > 200 && count("aiowrite") > 100 && count("write") > 1);
                }
                "varmail" => {
                    // Each of three threads is somewhere in its loop at the end. A file that
                    // another thread has open is not deleted.
                    let loops = count("createfile");
                    assert!(
                        loops.abs_diff(run.ops / 13) <= 3
                            && count("fsync").abs_diff(2 * loops) <= 6
                            && (loops / 2..=loops + 3).contains(&count("deletefile")),
                        "{fs}, {} operations: {:?}",
                        run.ops,
                        run.ops_by_kind
                    );
                    assert!(run.latency_us.fsync.mean > 0.0 && run.mb_per_s.unwrap() > 0.0);
                }
                "webserver" => assert_eq!((run.ops, count("appendfile")), (620, 20)),
                "webproxy" => {
                    assert!(count("readwholefile").abs_diff(5 * count("createfile")) <= 5)
                }
                _ => assert!(count("statfile") > 10),
            }
            assert!(
                run.notes.iter().any(|n| n.contains("attribute path")),
                "{:?}",
                run.notes
            );
        }
    }
}

#[test]
fn a_run_is_the_same_again_and_another_with_another_seed() {
    let text = "filebench:fileserver,nfiles=200,filesize=8k,appendsize=1k,nthreads=5,ops=300";
    let first = ran(Fs::F2fs, "f2fsj", text);
    assert_eq!(first, ran(Fs::F2fs, "f2fsj", text));
    let mut other = config(Fs::F2fs, "f2fsj", text);
    other.seed = 4;
    let other = run::run(&other, &mut |_, _| {}).unwrap().run;
    assert_ne!(first.trace_hash, other.trace_hash);
}

fn of_text(text: &str) -> Result<Run, String> {
    of_text_with(text, "")
}

fn of_text_with(text: &str, more: &str) -> Result<Run, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.f");
    std::fs::write(&path, text).unwrap();
    let workload = format!("filebench:file=model.f{more}");
    let mut config = config(Fs::Ext4, "jbd2", &workload);
    config.recording = Some(path);
    let run = run::run(&config, &mut |_, _| {}).map_err(|e| e.to_string())?;
    Ok(run.run)
}

#[test]
fn a_file_runs_and_its_faults_are_named() {
    let run = of_text(&thread(
        "flowop statfile name=s,filesetname=a\nflowop delay value=1",
    ))
    .unwrap();
    assert_eq!(
        (run.ops, run.workload.as_str()),
        (1, "filebench:file=model.f,scale=1/1")
    );
    for (flowops, wanted) in [
        (
            "flowop closefile fd=2",
            "flowop closefile (closefile, line 3)",
        ),
        ("flowop read fd=2", "no file is open as fd=2"),
        ("flowop openfile filesetname=a", "fd=0 is open already"),
        (
            "flowop eventlimit",
            "took no time: the loop would never end",
        ),
        (
            "flowop write name=w,filesetname=a,iosize=1m,iters=1000",
            "flowop w (write, line 3)",
        ),
    ] {
        let e = of_text(&thread(flowops)).unwrap_err();
        assert!(e.contains(wanted), "{flowops}: {e}");
    }
    let e = of_text("run 1").unwrap_err();
    assert!(e.contains("model.f, line 1: no process"), "{e}");
}

#[test]
fn waits_end_with_the_run_and_rates_are_kept() {
    // There is no post, so the wait ends after the second that the run has.
    let run = of_text(&thread(
        "flowop statfile name=s,filesetname=a\nflowop semblock name=b,value=3",
    ))
    .unwrap();
    assert!(
        run.virtual_seconds >= 1.0 && run.ops == 1,
        "{}",
        run.virtual_seconds
    );
    let because = "threads ended because the time was over";
    assert!(run.notes.contains(&because.into()), "{:?}", run.notes);
    let limited = thread("flowop statfile name=s,filesetname=a\nflowop opslimit name=l");
    let run = of_text(&format!("eventgen rate=100\n{limited}")).unwrap();
    assert!((99..=102).contains(&run.ops), "{}", run.ops);
}

/// Threads that wait for a file that others use are told why the run ended, as all others are.
#[test]
fn a_thread_that_waits_for_a_file_ends_for_the_reason_of_the_run() {
    let text = "define fileset name=a,entries=1,prealloc\n\
                define process name=p { thread name=t,instances=4 {\n\
                flowop statfile name=s,filesetname=a\n} }\nrun 1\n";
    let because = |run: &Run, why: &str| run.notes.iter().any(|note| note.contains(why));
    let run = of_text_with(text, ",ops=20").unwrap();
    assert!(because(&run, "as many operations as were asked for"));
    assert!(!because(&run, "the time was over"), "{:?}", run.notes);
}

#[test]
fn what_does_not_fit_is_refused_before_the_start_with_the_size_needed() {
    let config = config(Fs::F2fs, "f2fsj", "filebench:varmail,scale=1/2");
    let e = run::run(&config, &mut |_, _| {})
        .err()
        .expect("it does not fit")
        .to_string();
    assert!(
        e.contains("125000 files") && e.contains("MiB free") && e.contains("scale="),
        "{e}"
    );
    assert!(e.contains("need 2"), "two GiB and more: {e}");
}

#[test]
fn the_text_of_a_workload_and_back() {
    use crate::workload::Workload;
    for text in [
        "filebench:varmail",
        "filebench:oltp,files=5,scale=1/20,ops=9,seconds=3",
        "filebench:file=x.f,a=3",
    ] {
        let parsed: Workload = text.parse().unwrap();
        assert_eq!(parsed.to_string().parse::<Workload>().unwrap(), parsed);
    }
    let fail = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
    for (text, wanted) in [
        ("filebench:mailvar", "`mailvar` is none, there is: varmail"),
        (
            "filebench:varmail,nfile=3",
            "no variable `nfile` to set; there is: appendsize",
        ),
        (
            "filebench:oltp,threads=3",
            "no variable `nthreads` to set; there is",
        ),
        ("filebench:varmail,scale=0", "1 to"),
        ("filebench:varmail,scale=9", "at most 2000000"),
        ("filebench:varmail,ops=0", "1 to"),
        ("filebench:varmail,nfiles=x", "`entries=x`"),
    ] {
        let e = fail(text);
        assert!(e.contains(wanted), "{text}: {e}");
    }
}
