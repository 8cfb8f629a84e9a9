//! Writes the output folder of `varve crash`.

use crate::args::CrashArgs;
use crate::failure::Failure;
use crate::out::{OutFolder, say};
use crash::finding::folder::Folder;
use crash::finding::keep::{Gone, Keep, Kept, keep as keep_all};
use crash::finding::report::CampaignReport;
use crash::plan::Done;

/// Findings whose lines are printed; all stand in the files.
const LINES_MAX: usize = 10;

/// Writes reports and findings. `incomplete`: what ended the campaign early; if set, no time is
/// spent on making findings smaller.
pub fn keep(
    args: &CrashArgs,
    out: &OutFolder,
    done: &[Done],
    gone: &[Gone],
    incomplete: Option<String>,
) -> Kept {
    let mut store = Folder(out.path());
    let mut how = Keep::default();
    if incomplete.is_some() {
        how.shrink_states = 0;
    }
    let head = CampaignReport {
        incomplete,
        ..head(args)
    };
    keep_all(head, done, gone, &how, &mut store)
}

fn head(args: &CrashArgs) -> CampaignReport {
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
pub fn tell(kept: &Kept, out: &OutFolder) -> Result<(), Failure> {
    let all = kept.report.findings();
    let findings: Vec<_> = all.filter(|(case, _)| !case.control).collect();
    for (_, finding) in findings.iter().take(LINES_MAX) {
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
    let more = findings.len().saturating_sub(LINES_MAX);
    if more > 0 {
        say(&format!("{more} more findings stand in results.json\n"))?;
    }
    for lost in &kept.not_kept {
        say(&format!("not kept: {lost}\n"))?;
    }
    let folder = out.path().display();
    say(&format!(
        "results.json, junit.xml, index.html and findings: {folder}\n"
    ))
}
