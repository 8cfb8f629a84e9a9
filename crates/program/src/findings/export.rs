//! The result for machines of continuous integration: JUnit XML with a suite for each model, and
//! annotations of GitHub.

use super::report::{OfFinding, Report};
use super::text::finding_text;
use base::plain;
use quick_junit::{NonSuccessKind, Report as Suites, TestCase, TestCaseStatus, TestSuite};

/// The report as JUnit XML. It holds no times, so equal reports give equal bytes.
///
/// # Errors
/// The text cannot be made as XML.
pub fn junit(report: &Report) -> Result<String, String> {
    let mut out = Suites::new("varve crash --dir");
    if let Some(why) = &report.error {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(plain::message(why));
        let mut suite = TestSuite::new("the test itself");
        suite.add_test_case(TestCase::new(&*report.run, status));
        out.add_test_suite(suite);
    }
    for model in &report.models {
        let mut suite = TestSuite::new(&*model.name);
        let has = |finding: &&OfFinding| finding.models.iter().any(|of| of.model == model.name);
        for finding in report.findings.iter().filter(has) {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(&*finding.sentence);
            status.set_description(plain::message(&finding_text(finding)));
            suite.add_test_case(TestCase::new(&*finding.key, status));
        }
        let error = model.gave_up.as_ref().or(report.incomplete.as_ref());
        let status = match error {
            Some(why) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                status.set_message(&**why);
                status
            }
            None if model.bad > 0 && model.findings == 0 => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(format!("{} trees are bad; none was explained", model.bad));
                status
            }
            None if model.states == 0 => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                status.set_message("no state was looked at");
                status
            }
            None => TestCaseStatus::success(),
        };
        let mut whole = TestCase::new(format!("states of: {}", report.run), status);
        whole.set_system_out(format!(
            "{} cuts, {} states, {} distinct trees, {} bad, {} beyond the bound",
            model.cuts, model.states, model.trees, model.bad, model.beyond
        ));
        suite.add_test_case(whole);
        out.add_test_suite(suite);
    }
    out.to_string().map_err(|e| format!("JUnit XML: {e}"))
}

/// A line for each finding, or for the test that is broken, that GitHub shows beside the source, or
/// beside the run if no stacks were recorded.
pub fn github(report: &Report) -> String {
    let line = |finding: &OfFinding| {
        let place = match &finding.source {
            Some((file, line)) => format!("file={},line={line},", property(file)),
            None => String::new(),
        };
        let title = match finding.story.without_cut {
            true => "a failed call breaks data",
            false => "a power cut loses data",
        };
        let models: Vec<&str> = finding.models.iter().map(|of| &*of.model).collect();
        let text = format!(
            "{} ({})\n{}",
            finding.sentence,
            models.join(", "),
            finding.why
        );
        format!("::error {place}title={title}::{}\n", message(&text))
    };
    let broken = report.error.iter().map(|why| {
        let text = message(why);
        format!("::error title=the crash test is broken::{text}\n")
    });
    broken.chain(report.findings.iter().map(line)).collect()
}

/// A text as the message of a command of GitHub's runner.
fn message(text: &str) -> String {
    plain::message(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A text as a property of one.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
