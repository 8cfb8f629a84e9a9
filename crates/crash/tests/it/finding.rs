//! What becomes of a violation, end to end: found, made again from its line, made smaller, written
//! down, reported.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use blockdev::spec::{Bound, Mode};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use varve_crash::campaign::{BATCH, Explored, Finding, Look, Reach, explore};
use varve_crash::case::{Case, StateId, Volumes};
use varve_crash::finding::dossier::{Dossier, Shrunk};
use varve_crash::finding::folder::{self, Content, Folder, Store};
use varve_crash::finding::hunt::Budget;
use varve_crash::finding::id::Id;
use varve_crash::finding::keep::{Gone, Keep, keep};
use varve_crash::finding::report::{CampaignReport, CaseReport};
use varve_crash::finding::repro::Repro;
use varve_crash::finding::shrink::shrink;
use varve_crash::finding::{junit, page, rule, rule_of, steps::Fate};
use varve_crash::nand::{self, Cuts, NandBound, small_chips};
use varve_crash::plan::{Done, Job};

const REACH: Reach = Reach {
    moments: 0,
    fsck: true,
    deep_one_in: 64,
    mode: Look::Linear,
    draws: 0,
    subset_max: 1,
    torn_max: 0,
    states_max: 64,
    prune: true,
    nested: 0,
    nested_one_in: 64,
};

const BUDGET: Budget = Budget {
    states: 6000,
    candidate: 800,
    bound: Bound {
        mode: Mode::Bounded,
        subset_max: 1,
        torn_max: 0,
        states_max: 48,
        prune: true,
    },
};

/// Without a journal a cut damages: a violation that needs no planting.
fn case() -> Case {
    Case {
        scheme: "none".into(),
        device: "spec:emmc".into(),
        workload: "mix:tasks=2,ops=12".into(),
        seed: 6,
        scheduler: None,
        mutant: None,
    }
}

fn explored() -> Explored {
    let setup = case().setup(&mut Volumes::default()).unwrap();
    let explored = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
    assert!(!explored.findings.is_empty(), "nothing was found");
    explored
}

/// One about the content of files or names: a volume that cannot be mounted says little.
fn chosen(explored: &Explored) -> &Finding {
    let mut all = explored.findings.iter();
    let chosen = all.find(|f| rule_of(&f.violations).starts_with('O'));
    chosen.unwrap_or(&explored.findings[0])
}

fn dossier(explored: &Explored) -> Dossier {
    let id: StateId = chosen(explored).state.parse().unwrap();
    Dossier::new(&case(), &id, &mut Volumes::default()).unwrap()
}

fn shrunk(dossier: &Dossier) -> Shrunk {
    let mut volumes = Volumes::default();
    let case = &dossier.repro.case;
    let id: Id = dossier.id.parse().unwrap();
    shrink(case, &id, dossier.rule(), BUDGET, &mut volumes).unwrap()
}

/// All files below a folder with their content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                found.insert(name.to_string(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_violation_is_found_made_again_made_smaller_written_down_and_reported() {
    let explored = explored();
    let finding = chosen(&explored);
    let dossier = dossier(&explored);
    assert_eq!(dossier.violations, finding.violations);

    // The line alone makes the same judgement.
    let line: Repro = dossier.repro.to_string().parse().unwrap();
    let again = Dossier::rerun(&line, &mut Volumes::default()).unwrap();
    assert_eq!(again.violations, finding.violations);
    assert_eq!(again.steps, dossier.steps);
    let lost = |d: &Dossier| {
        let lines = d.steps.iter().flat_map(|level| &level.lines);
        lines
            .filter(|line| line.fate.is_some_and(Fate::is_loss))
            .count()
    };
    assert!(lost(&dossier) > 0, "{}", dossier.steps_text());
    assert!(
        dossier.steps_text().contains("task 0: "),
        "{}",
        dossier.steps_text()
    );

    // finding-F3: smaller, the same rule, and its own line works.
    let small = shrunk(&dossier);
    let ops = small.ops.unwrap();
    eprintln!(
        "{} -> {ops} operations, {} states: {}",
        dossier.repro.case.workload, small.states, small.dossier.repro.case.workload
    );
    assert!(ops <= 3, "{}", small.dossier.repro);
    let rules = |d: &Dossier| {
        d.violations
            .iter()
            .filter_map(|v| rule(v))
            .map(String::from)
            .collect::<Vec<_>>()
    };
    assert!(rules(&small.dossier).contains(&dossier.rule().to_string()));
    assert!(lost(&small.dossier) <= lost(&dossier));
    let line: Repro = small.dossier.repro.to_string().parse().unwrap();
    let again = Dossier::rerun(&line, &mut Volumes::default()).unwrap();
    assert_eq!(again.violations, small.dossier.violations);

    // The folder is complete, and the same twice (finding-F1).
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let small_again = shrunk(&dossier);
    for (to, small) in [(&one, &small), (&two, &small_again)] {
        let written = folder::write(&mut Folder(to.path()), 7, &dossier, Some(small));
        assert_eq!(written.not_kept, Vec::<String>::new());
        assert_eq!(written.name, format!("007-{}-none", dossier.rule()));
    }
    let found = files(one.path());
    assert_eq!(found.len(), 9, "{:?}", found.keys());
    assert!(found == files(two.path()), "two writings differ");
    let name = format!("007-{}-none", dossier.rule());
    let text = |file: &str| String::from_utf8(found[&format!("{name}/{file}")].clone()).unwrap();
    for file in [
        "README.txt",
        "finding.json",
        "steps.txt",
        "shrunk/finding.json",
        "shrunk/steps.txt",
    ] {
        let here = text(file);
        assert!(here.contains("varve-crash-1 "), "{file}: {here}");
        assert!(!here.contains(one.path().to_str().unwrap()), "{file}");
    }
    for (file, image) in [("before", &dossier.before), ("after", &dossier.after)] {
        let kept = blockdev::Image::from_bytes(&found[&format!("{name}/image-{file}.img")]);
        same_but_stale(&kept, image);
    }
    assert_eq!(
        found[&format!("{name}/image-before.img")].len() as u64,
        dossier.bytes
    );

    reports(&explored, &dossier, &small);
}

/// Blocks are left out only if all that are hold the same: the marks of free blocks.
fn same_but_stale(kept: &blockdev::Image, image: &blockdev::Image) {
    let (mut blocks, mut left_out) = (0, None);
    for (n, bytes) in image.blocks() {
        if kept.is_zero(n) {
            let first = left_out.get_or_insert_with(|| bytes.clone());
            assert!(*first == bytes, "block {n}");
        } else {
            blocks += 1;
            assert!(kept.block(n) == bytes, "block {n}");
        }
    }
    assert_eq!(kept.blocks().count(), blocks);
}

#[test]
fn the_image_after_recovery_is_what_recovery_left() {
    let case = Case {
        scheme: "jbd2".into(),
        workload: "script:create /a; fsync /a; create /b; fsync /b".into(),
        ..case()
    };
    let mut volumes = Volumes::default();
    let setup = case.setup(&mut volumes).unwrap();
    let none = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
    assert_eq!((none.violations, none.failure), (0, None));
    // The last moment before the unmount ends has a log to replay.
    let id = StateId(vec![(
        none.points as usize / 2,
        blockdev::spec::Choice::Newest,
    )]);
    let dossier = Dossier::new(&case, &id, &mut volumes).unwrap();
    assert_eq!(
        (&dossier.violations, &dossier.unrecovered),
        (&Vec::new(), &None)
    );
    assert!(dossier.before != dossier.after, "recovery writes home");
}

fn reports(explored: &Explored, dossier: &Dossier, small: &Shrunk) {
    let job = Job {
        number: 4,
        group: "mix".into(),
        case: case(),
        reach: REACH,
        control: false,
        part: None,
    };
    let mut one = CaseReport::new(&job, explored);
    let mut finding = dossier.report();
    finding.shrunk = Some(small.report());
    one.findings.push(finding);
    let mut report = CampaignReport::new(
        3,
        "spec:emmc",
        "varve crash --schemes none",
        &REACH.to_string(),
    );
    report.enter(one);
    assert!(!report.is_clean());
    let back: CampaignReport = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(back, report);

    let xml = junit::junit(&report).unwrap();
    let mut reader = Reader::from_str(&xml);
    let (mut failures, mut text) = (0, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(e) if e.name().as_ref() == b"failure" => failures += 1,
            Event::Text(t) => text += &t.xml10_content().unwrap(),
            _ => {}
        }
    }
    assert_eq!(failures, 1);
    assert!(xml.contains(&small.dossier.id), "{xml}");
    assert!(
        text.contains("varve-crash-1 ") || xml.contains("varve-crash-1 "),
        "{xml}"
    );

    let html = page::page(&report);
    for line in [&dossier.repro, &small.dossier.repro] {
        let escaped = line
            .to_string()
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(html.contains(&escaped), "{line}");
    }
    assert!(html.contains("class=\"lost\"") || html.contains("class=\"torn\""));
    // Tables with a head; in those of steps a cell may span several columns.
    let tables = html
        .split("<table")
        .filter(|table| table.contains("<thead>"));
    for table in tables {
        let table = table.split("</table>").next().expect("its end");
        let rows: Vec<usize> = table
            .split("<tr")
            .skip(1)
            .map(|row| row.matches("</td>").count() + row.matches("</th>").count())
            .collect();
        let equal = rows.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(equal, "{rows:?}: {table}");
    }
}

#[test]
fn a_line_that_names_what_there_is_not_is_refused_by_name() {
    let explored = explored();
    let good = dossier(&explored).repro;
    let refusal = |change: &dyn Fn(&mut Repro)| {
        let mut line = good.clone();
        change(&mut line);
        let refused = Dossier::rerun(&line, &mut Volumes::default());
        refused.map(|_| ()).unwrap_err().to_string()
    };
    let case = |f: &dyn Fn(&mut Case)| refusal(&|line| f(&mut line.case));
    let point = good.state.split('.').next().unwrap();
    for (why, word) in [
        (case(&|c| c.scheme = "jbd3".into()), "jbd3"),
        (case(&|c| c.device = "spec:floppy".into()), "floppy"),
        (case(&|c| c.device = "no-such-card".into()), "no-such-card"),
        (case(&|c| c.workload = "script:dance /a".into()), "dance"),
        (refusal(&|line| line.state = "99999.oldest".into()), "99999"),
        (refusal(&|line| line.state = "7".into()), "`7`"),
        (
            refusal(&|line| line.state = "7.oldest/99999.newest".into()),
            "recovery has",
        ),
        (
            refusal(&|line| line.state = format!("{point}.l9999")),
            "no state of a cut",
        ),
        (refusal(&|line| line.states += 1), "differently"),
        // Another seed is another run, even if it has such a state (repro-L2).
        (case(&|c| c.seed = 4), "fingerprint"),
    ] {
        assert!(why.contains(word), "{word}: {why}");
    }
}

/// A store whose disk is full after so many files.
struct Full {
    files: usize,
    kept: Vec<String>,
}

impl Store for Full {
    fn folder(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn file(&mut self, path: &str, _: &Content<'_>) -> io::Result<()> {
        if self.kept.len() == self.files {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.kept.push(path.into());
        Ok(())
    }
}

#[test]
fn what_a_full_disk_does_not_take_is_named() {
    let dossier = dossier(&explored());
    let mut store = Full {
        files: 3,
        kept: Vec::new(),
    };
    let written = folder::write(&mut store, 0, &dossier, None);
    // The texts come before the images.
    assert_eq!(store.kept.len(), 3);
    assert!(store.kept[0].ends_with("README.txt"), "{:?}", store.kept);
    assert_eq!(written.not_kept.len(), 2);
    for (lost, image) in written.not_kept.iter().zip(["before", "after"]) {
        let name = format!("{}/image-{image}.img: ", written.name);
        assert!(lost.starts_with(&name) && lost.contains("space"), "{lost}");
    }
}

#[test]
fn a_real_full_disk_leaves_no_half_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=96k", "varve-finding"])
        .arg(path)
        .output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped a_real_full_disk_leaves_no_half_images: needs root and mount");
        return;
    }
    let dossier = dossier(&explored());
    let written = folder::write(&mut Folder(path), 0, &dossier, None);
    let kept = files(path);
    let unmounted = Command::new("umount").arg(path).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(written.not_kept.len(), 2, "{written:?}");
    assert!(written.not_kept[0].contains("No space left"), "{written:?}");
    assert!(
        kept.keys().all(|name| !name.ends_with(".img")),
        "{:?}",
        kept.keys()
    );
    assert!(kept.keys().any(|name| name.ends_with("finding.json")));
}

#[test]
fn a_campaign_is_kept_with_its_folders_and_goes_on_with_a_full_disk() {
    let job = |number, control| Job {
        number,
        group: "mix".into(),
        case: case(),
        reach: REACH,
        control,
        part: None,
    };
    let explored = explored();
    let done = [(0, true), (1, false)].map(|(number, control)| Done {
        job: job(number, control),
        explored: explored.clone(),
    });
    let gone = Gone {
        job: job(2, false),
        state: Some("17.oldest".into()),
        why: "no sign of life".into(),
    };
    let head = CampaignReport::new(3, "spec:emmc", "varve crash", &REACH.to_string());
    let how = Keep {
        folders_max: 1,
        shrink: None,
        shrink_states: 0,
    };
    let to = tempfile::tempdir().unwrap();
    let mut store = Folder(to.path());
    let kept = keep(head.clone(), &done, &[gone], &how, &mut store);
    assert_eq!(kept.not_kept, Vec::<String>::new());
    let found = files(to.path());
    for name in ["results.json", "junit.xml", "index.html"] {
        assert!(found.contains_key(name), "{name}");
    }
    assert_eq!(kept.folders.len(), 1);
    let readme = format!("findings/{}/README.txt", kept.folders[0]);
    assert!(found.contains_key(&readme), "{:?}", found.keys());
    let report: CampaignReport = serde_json::from_slice(&found["results.json"]).unwrap();
    assert_eq!(report, kept.report);
    let numbers: Vec<u64> = report.cases.iter().map(|c| c.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(report.cases[2].counts.timed_out, 1);
    // Every finding has a line of its own that names its state.
    assert_eq!(report.findings().count(), 2 * explored.findings.len());
    for (_, finding) in report.findings() {
        let line: Repro = finding.line.parse().unwrap();
        assert_eq!((&line.case, &line.state), (&case(), &finding.state));
    }

    let mut store = Full {
        files: 0,
        kept: Vec::new(),
    };
    let kept = keep(head, &done, &[], &how, &mut store);
    assert_eq!(kept.not_kept.len(), 5 + 3, "{:?}", kept.not_kept);
    assert_eq!(kept.report.cases[1].not_kept.len(), 5);
    assert_eq!(kept.report.findings().count(), 2 * explored.findings.len());
}

#[test]
fn the_rule_of_a_finding_is_that_of_its_words() {
    let explored = explored();
    let all = explored.findings.iter();
    assert!(all.clone().count() > 0);
    for finding in all {
        assert_ne!(rule_of(&finding.violations), "", "{finding:?}");
        assert!(
            finding.violations.iter().any(|v| rule(v).is_some()),
            "{finding:?}"
        );
    }
}

/// A modelled device: the chips are cut, and the line makes the same state and judgement.
fn on_chips() -> Case {
    Case {
        device: small_chips().into(),
        workload: "mix:tasks=2,ops=8".into(),
        seed: 4,
        ..case()
    }
}

fn explored_chips(bound: &NandBound) -> Explored {
    let setup = on_chips().setup(&mut Volumes::default()).unwrap();
    let subject = setup.subject.as_ref();
    let found = nand::explore(&setup.config, &setup.volume, subject, bound, &mut |_| {});
    found.unwrap().explored
}

#[test]
fn a_finding_of_the_chips_is_made_again_from_its_line() {
    let bound = NandBound {
        random: Some(240),
        nested: 1,
        nested_states: 2,
        nested_cuts_max: 12,
        ..NandBound::default()
    };
    let moments = NandBound {
        cuts: Cuts::Moments(120),
        nested: 0,
        ..bound.clone()
    };
    let mut volumes = Volumes::default();
    for bound in [bound, moments] {
        let explored = explored_chips(&bound);
        assert_eq!(explored.failure, None);
        assert!(explored.findings.len() >= 2, "{}", explored.violations);
        for finding in explored.findings.iter().take(3) {
            let id: Id = finding.state.parse().unwrap();
            let dossier = Dossier::new(&on_chips(), &id, &mut volumes).unwrap();
            assert_eq!(dossier.violations, finding.violations, "{}", finding.state);
            assert_eq!(
                (dossier.loss, &dossier.story),
                (finding.loss, &finding.story)
            );
            let line: Repro = dossier.repro.to_string().parse().unwrap();
            let again = Dossier::rerun(&line, &mut volumes).unwrap();
            assert_eq!(again.violations, finding.violations);
            assert_eq!(again.steps, dossier.steps);
            assert!(again.before == dossier.before && again.after == dossier.after);
        }
    }
}

#[test]
fn a_finding_of_the_chips_is_told_made_smaller_and_written_down() {
    let explored = explored_chips(&NandBound::default());
    // One inside of an operation tells most.
    let inside = |f: &&Finding| f.state.contains('i') && rule_of(&f.violations) != "R1";
    let finding = explored.findings.iter().find(inside);
    let finding = finding.unwrap_or(&explored.findings[0]);
    let id: Id = finding.state.parse().unwrap();
    let mut volumes = Volumes::default();
    let dossier = Dossier::new(&on_chips(), &id, &mut volumes).unwrap();
    let steps = dossier.steps_text();
    for word in [
        "(host data)",
        "program block",
        "task 0: ",
        &format!("cut {}", finding.state),
        "power cut at",
    ] {
        assert!(steps.contains(word), "{word}:\n{steps}");
    }
    if finding.state.contains('i') {
        let cut = dossier.steps[0].lines.iter();
        let cut: Vec<_> = cut.filter(|l| l.fate == Some(Fate::Interrupted)).collect();
        assert!(!cut.is_empty(), "{steps}");
    }
    assert!(dossier.before != dossier.after, "recovery writes");

    let small = shrink(&on_chips(), &id, dossier.rule(), BUDGET, &mut volumes).unwrap();
    eprintln!("{} states: {}", small.states, small.dossier.repro);
    assert!(
        small.states <= BUDGET.states + BUDGET.candidate,
        "{}",
        small.states
    );
    assert!(small.ops.is_some_and(|ops| ops < 16), "{:?}", small.ops);
    let mut rules = small.dossier.violations.iter().filter_map(|v| rule(v));
    assert!(rules.any(|r| r == dossier.rule()), "finding-F3");

    let to = tempfile::tempdir().unwrap();
    let written = folder::write(&mut Folder(to.path()), 0, &dossier, Some(&small));
    assert_eq!(written.not_kept, Vec::<String>::new());
    let found = files(to.path());
    assert_eq!(found.len(), 9, "{:?}", found.keys());
    let readme = &found[&format!("{}/README.txt", written.name)];
    let readme = String::from_utf8_lossy(readme);
    assert!(readme.contains("a host reads of the device"), "{readme}");
}

#[test]
fn an_id_that_the_chips_do_not_have_is_refused() {
    let mut volumes = Volumes::default();
    let id: Id = "n4a".parse().unwrap();
    let good = Dossier::new(&on_chips(), &id, &mut volumes).unwrap().repro;
    let mut refusal = |change: &dyn Fn(&mut Repro)| {
        let mut line = good.clone();
        change(&mut line);
        let refused = Dossier::rerun(&line, &mut volumes);
        refused.map(|_| ()).unwrap_err().to_string()
    };
    for (state, word) in [
        ("n99999b", "has no such operation"),
        ("m0b", "the recovery of the device has no such operation"),
        ("t99999999999999", "the run ends at"),
        ("n4", "names no cut"),
        ("7.oldest", "the device is a modelled one"),
    ] {
        let why = refusal(&|line| line.state = state.into());
        assert!(why.contains(word) && why.contains(state), "{state}: {why}");
    }
    let why = refusal(&|line| line.case.device = "spec:emmc".into());
    assert!(why.contains("a disk in memory"), "{why}");
    // The fingerprint covers the film.
    let why = refusal(&|line| line.case.seed += 1);
    assert!(why.contains("fingerprint"), "{why}");
}

/// Folders go to distinct rules under distinct schemes first, and shrinking has one budget for all.
#[test]
fn a_campaign_with_many_findings_keeps_distinct_ones() {
    let explored = explored();
    let one = chosen(&explored).clone();
    let done: Vec<Done> = ["none", "none", "none", "none+data=writeback"]
        .into_iter()
        .enumerate()
        .map(|(number, scheme)| {
            let case = Case {
                scheme: scheme.into(),
                ..case()
            };
            let job = Job {
                number,
                group: "mix".into(),
                case,
                reach: REACH,
                control: false,
                part: None,
            };
            let explored = Explored {
                findings: vec![one.clone(), one.clone()],
                ..Explored::default()
            };
            Done { job, explored }
        })
        .collect();
    let head = CampaignReport::new(3, "spec:emmc", "varve crash", "");
    let how = Keep {
        folders_max: 2,
        shrink: Some(BUDGET),
        shrink_states: 200,
    };
    let mut store = Full {
        files: usize::MAX,
        kept: Vec::new(),
    };
    let kept = keep(head, &done, &[], &how, &mut store);
    let with_folder: Vec<u64> = kept
        .report
        .findings()
        .filter(|(_, f)| f.folder.is_some())
        .map(|(case, _)| case.number)
        .collect();
    assert_eq!(with_folder, [0, 3], "{:?}", kept.not_kept);
    let spent = kept
        .report
        .findings()
        .filter_map(|(_, f)| f.shrunk.as_ref());
    let spent: u64 = spent.map(|s| s.states).sum();
    assert!((1..=200).contains(&spent), "{spent}");
}
