//! The rows of a paper as JUnit XML, for servers of continuous integration: one suite for each
//! figure. A row outside of its tolerance whose difference nothing explains is a failure; what the
//! publication contradicts itself, what an experiment explains, and what is not compared is
//! skipped, with the reason. It holds no times, so equal reports give equal bytes.

use crate::failure::{Failure, failed};
use paper::{Report, Row, Verdict, number};
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

/// The report as JUnit XML.
///
/// # Errors
/// The text cannot be made as XML.
pub fn junit(report: &Report) -> Result<String, Failure> {
    let mut suites: Vec<TestSuite> = Vec::new();
    for row in &report.rows {
        let same = |suite: &TestSuite| suite.name.as_str() == row.figure;
        let at = suites.iter().position(same).unwrap_or_else(|| {
            suites.push(TestSuite::new(row.figure.as_str()));
            suites.len() - 1
        });
        suites[at].add_test_case(test_case(report, row));
    }
    let mut out = Junit::new(format!("varve paper {}", report.paper));
    out.add_test_suites(suites);
    out.to_string().map_err(failed)
}

fn test_case(report: &Report, row: &Row) -> TestCase {
    let parts = [Some(&row.item), row.of.as_ref(), row.timing.as_ref()];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    let mut case = TestCase::new(parts.join(", "), status(row));
    case.set_classname(format!("paper.{}.{}", report.paper, row.figure));
    let tolerance = row.tolerance.map_or("none".into(), number);
    case.set_system_out(format!(
        "published {}, measured {}, tolerance {tolerance}; unit {}: {}",
        or_nothing(row.published_text()),
        or_nothing(row.measured_text()),
        row.unit,
        row.verdict()
    ));
    case
}

fn or_nothing(text: String) -> String {
    if text.is_empty() {
        "nothing".into()
    } else {
        text
    }
}

fn status(row: &Row) -> TestCaseStatus {
    let is_explained = row.contradicted.is_some() || row.explanation() != Verdict::NotExplained;
    let mut status = match row.within {
        Some(true) => return TestCaseStatus::success(),
        Some(false) if !is_explained => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Some(false) | None => TestCaseStatus::skipped(),
    };
    let (verdict, words) = (row.verdict(), row.words());
    match words.is_empty() {
        true => status.set_message(verdict),
        false => status.set_message(format!("{verdict}: {words}")),
    };
    status
}
