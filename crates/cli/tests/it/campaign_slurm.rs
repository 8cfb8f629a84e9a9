//! An array job on a real Slurm of two nodes on this host, each in namespaces of its own. One node
//! is killed in the middle; Slurm queues its tasks again, and the merge has the bytes of one
//! process. Needs root and Debian's slurm-wlm. Authentication is off, in this test only.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::campaign::Camp;
use crate::program::{tool, words};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CASES: [&str; 5] = [
    "crash",
    "--schemes",
    "jbd2,emmc,none",
    "--workload",
    "ace:2,every=12",
];
const PATIENCE: Duration = Duration::from_secs(400);

/// A Slurm of its own; dropped, it is gone.
struct Cluster {
    conf: String,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    fn start(camp: &Camp) -> Cluster {
        let dir = camp.path("slurm");
        fs::create_dir(&dir).unwrap();
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let port = 20_000 + std::process::id() % 20_000;
        let d = dir.display();
        let mut conf = format!(
            "ClusterName=varve\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\nAuthType=auth/none\nCredType=cred/none\n\
             SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={d}/state\nSlurmdSpoolDir={d}/%n\nSlurmctldPidFile={d}/ctld.pid\n\
             SlurmdPidFile={d}/%n.pid\nSlurmctldLogFile={d}/ctld.log\nSlurmdLogFile={d}/%n.log\nProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SlurmdTimeout=8\nKillWait=2\nReturnToService=2\nSchedulerParameters=sched_interval=1,bf_interval=1\n"
        );
        for n in 1..=2 {
            let its = port + n;
            conf += &format!(
                "NodeName=node{n} NodeHostname=node{n} NodeAddr=127.0.0.1 Port={its} CPUs=1\n"
            );
        }
        conf += "PartitionName=main Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP\n";
        let path = dir.join("slurm.conf");
        fs::write(&path, conf).unwrap();
        let conf = path.to_str().unwrap().to_string();
        let mut cluster = Cluster {
            conf,
            daemons: Vec::new(),
        };
        cluster.daemon("slurmctld", &["-D", "-c"]);
        for n in 1..=2 {
            // All of a node ends with the first process of its namespace.
            let line = format!("hostname node{n} && exec slurmd -D -N node{n}");
            let node = [
                "--uts",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                &line,
            ];
            cluster.daemon("unshare", &node);
        }
        cluster
    }

    fn daemon(&mut self, name: &str, args: &[&str]) {
        let mut line = self.tool(name);
        let child = line
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(child.unwrap());
    }

    fn tool(&self, name: &str) -> Command {
        let mut tool = tool(name);
        tool.env("SLURM_CONF", &self.conf);
        tool
    }

    fn says(&self, line: &[&str]) -> String {
        let out = self.tool(line[0]).args(&line[1..]).output().unwrap();
        words(&out)
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            let sinfo = self.says(&["sinfo"]);
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: {sinfo}\n{}",
                self.says(&["squeue"])
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// What the tasks of the array printed.
fn said_by_tasks(dir: &std::path::Path) -> String {
    let files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "out"))
        .collect();
    files.sort();
    let said = files.iter().map(|path| {
        let said = fs::read_to_string(path).unwrap_or_default();
        format!("{}: {said}\n", path.display())
    });
    said.collect()
}

#[test]
fn a_node_is_killed_and_the_merge_is_that_of_one_process() {
    let root = rustix::process::geteuid().is_root();
    if !root
        || !tool("slurmctld")
            .arg("-V")
            .output()
            .is_ok_and(|o| o.status.success())
    {
        eprintln!("skipped: root and slurm-wlm are needed");
        return;
    }
    let mut camp = Camp::new();
    camp.keep_program();
    camp.plan(&CASES);
    let mut cluster = Cluster::start(&camp);
    cluster.wait("nodes", || {
        cluster
            .says(&["sinfo", "-h", "-t", "idle", "-o", "%D"])
            .trim()
            == "2"
    });
    let line = Camp::line("submit", "store", &["--slurm", "--tasks", "4"]);
    let out = camp
        .varve(&line)
        .env("SLURM_CONF", &cluster.conf)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", words(&out));
    // Tasks that are queued again begin minutes later. A build meanwhile puts another program in
    // the place of this one, which would refuse the plan.
    fs::write(camp.path("built"), "#!/bin/sh\nexit 2\n").unwrap();
    fs::rename(camp.path("built"), camp.path("varve")).unwrap();
    camp.as_built();
    let by = |node: &str| {
        let host = format!("{node}/");
        let makers = camp.makers("store").into_iter();
        makers.filter(|maker| maker.starts_with(&host)).count()
    };
    cluster.wait("results of both nodes", || {
        by("node1") >= 3 && by("node2") >= 3
    });
    let mut node = cluster.daemons.pop().unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    let before = by("node2");
    let jobs = camp.status("store")["jobs"].as_u64().unwrap();
    assert!(
        (before as u64) < jobs / 2,
        "node2 had made its half before it was killed: {before} of {jobs}"
    );
    cluster.wait("the end", || {
        cluster.says(&["squeue", "-h"]).trim().is_empty()
    });
    let shown = cluster.says(&["scontrol", "show", "job"]);
    assert!(
        shown.contains("Restarts=1"),
        "no task was queued again: {shown}"
    );
    let status = camp.status("store");
    for line in shown.lines().filter(|line| line.contains("JobState=")) {
        assert!(
            line.contains("JobState=COMPLETED"),
            "a task ended otherwise: {shown}\n{}",
            said_by_tasks(camp.path("").as_path())
        );
    }
    assert_eq!(
        status["done"],
        jobs,
        "{status}\n{shown}\n{}",
        said_by_tasks(camp.path("").as_path())
    );
    assert!(by("node1") as u64 > jobs / 2);
    camp.work("store", &[]);
    camp.merge("store", "merged");
    camp.good(&[&CASES[..], &["--out", "own"]].concat());
    for file in ["results.json", "junit.xml", "index.html"] {
        assert_eq!(
            camp.read(&format!("own/{file}")),
            camp.read(&format!("merged/{file}")),
            "{file}"
        );
    }
}
