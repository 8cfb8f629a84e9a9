//! The head of the report of `varve crash`, and what is printed of its findings.

use crate::args::CrashArgs;
use crate::failure::Failure;
use crate::out::{OutFolder, say};
use crash::finding::report::{CampaignReport, CaseReport, FindingReport};

/// Findings whose lines are printed; all stand in the files.
const LINES_MAX: usize = 10;

/// The first findings that are printed.
#[derive(Default)]
pub struct Lines {
    first: Vec<FindingReport>,
    all: usize,
}

impl Lines {
    /// Adds the findings of a case; those of a positive control are expected.
    pub fn add(&mut self, case: &CaseReport) {
        if case.control {
            return;
        }
        let room = LINES_MAX - self.first.len();
        self.first.extend(case.findings.iter().take(room).cloned());
        self.all += case.findings.len();
    }
}

/// The report without its cases.
pub fn head(args: &CrashArgs) -> CampaignReport {
    let seed = args.seed.first().copied().unwrap_or_default();
    let (profile, bound) = match args.quick {
        true => ("those of the sample".into(), "those of the sample".into()),
        false => (args.device.join(" "), args.reach().to_string()),
    };
    CampaignReport::new(seed, &profile, &reproduce(args), &bound)
}

/// The command line without what has no influence on the results.
fn reproduce(args: &CrashArgs) -> String {
    let quoted = |word: &str| match word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.,:=+/".contains(c))
    {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let mut words = vec!["varve crash".to_string()];
    if !args.schemes.is_empty() {
        words.push(format!("--schemes {}", quoted(&args.schemes.join(","))));
    }
    if args.quick {
        words.push("--quick".into());
        return words.join(" ");
    }
    let many = |name: &str, list: &[String]| -> Vec<String> {
        list.iter()
            .map(|w| format!("--{name} {}", quoted(w)))
            .collect()
    };
    words.extend(many("workload", &args.workload));
    words.extend(many("device", &args.device));
    let seeds: Vec<String> = args.seed.iter().map(u64::to_string).collect();
    words.push(format!("--seed {}", seeds.join(",")));
    let reach = args.reach();
    let mode = serde_json::to_value(reach.mode).unwrap_or_default();
    words.push(format!("--mode {}", mode.as_str().unwrap_or_default()));
    for (name, value) in [
        ("draws", reach.draws),
        ("subset", reach.subset_max),
        ("torn", reach.torn_max),
        ("states", reach.states_max),
        ("nested", reach.nested),
        ("nested-one-in", reach.nested_one_in),
    ] {
        words.push(format!("--{name} {value}"));
    }
    if args.no_prune {
        words.push("--no-prune".into());
    }
    words.join(" ")
}

/// Prints the lines of the first findings, and reports what could not be kept.
pub fn tell(findings: &Lines, not_kept: &[String], out: &OutFolder) -> Result<(), Failure> {
    for finding in &findings.first {
        let what = finding.violations.first().map_or("", String::as_str);
        say(&format!(
            "{what}\n  varve crash --repro '{}'\n",
            finding.line
        ))?;
        if let Some(shrunk) = &finding.shrunk {
            say(&format!(
                "  with less: varve crash --repro '{}'\n",
                shrunk.line
            ))?;
        }
    }
    let more = findings.all - findings.first.len();
    if more > 0 {
        say(&format!("{more} more findings stand in results.json\n"))?;
    }
    for lost in not_kept {
        say(&format!("not kept: {lost}\n"))?;
    }
    let folder = out.path().display();
    say(&format!(
        "results.json, junit.xml, index.html and findings: {folder}\n"
    ))
}
