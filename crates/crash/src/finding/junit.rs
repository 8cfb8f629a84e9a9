//! JUnit XML, as continuous-integration servers read it: one suite for each scheme, one test case
//! for each case, and a suite that fails if no positive control shows damage. It holds no times, so
//! equal reports give equal bytes.

use super::report::{CampaignReport, CaseReport, FindingReport};
use super::totals::Ordered;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// The report as JUnit XML.
///
/// # Errors
/// The text cannot be made as XML.
pub fn junit(report: &CampaignReport) -> Result<String, String> {
    let mut suites: Ordered<String, (Tally, String)> = Ordered::default();
    for case in &report.cases {
        let (tally, text) = suites.at(case.scheme.clone());
        *text += &one(case, tally)?;
    }
    let mut all = Tally::default();
    suites.iter().for_each(|(_, (tally, _))| all.merge(tally));
    let blind = blind(report.is_blind(), &mut all)?;
    let mut text = head(&all)?;
    for (scheme, (tally, cases)) in suites.iter() {
        text += &suite_head(scheme, tally)?;
        text += cases;
        text += SUITE_END;
    }
    Ok(text + &blind + END)
}

/// Ends a suite.
pub const SUITE_END: &str = "    </testsuite>\n";
/// Ends the text.
pub const END: &str = "</testsuites>\n";

/// Counts of test cases.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    tests: usize,
    failures: usize,
    errors: usize,
}

impl Tally {
    /// Adds those of a suite.
    pub fn merge(&mut self, other: &Tally) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
    }
}

/// The text of one test case, which is counted.
///
/// # Errors
/// It cannot be made as XML.
pub fn one(case: &CaseReport, tally: &mut Tally) -> Result<String, String> {
    let test = test_case(case);
    tally.tests += 1;
    if let TestCaseStatus::NonSuccess { kind, .. } = &test.status {
        match kind {
            NonSuccessKind::Failure => tally.failures += 1,
            NonSuccessKind::Error => tally.errors += 1,
        }
    }
    let mut suite = TestSuite::new("x");
    suite.add_test_case(test);
    let mut report = Report::new("x");
    report.add_test_suite(suite);
    let text = xml(&report)?;
    // The declaration and both heads are a line each.
    let cases = text.splitn(4, '\n').nth(3);
    let cases = cases.and_then(|text| text.strip_suffix(END)?.strip_suffix(SUITE_END));
    cases
        .map(String::from)
        .ok_or_else(|| "JUnit XML: a test case does not end as expected".into())
}

/// The head of a text with so many test cases.
///
/// # Errors
/// It cannot be made as XML.
pub fn head(all: &Tally) -> Result<String, String> {
    let mut report = Report::new("varve crash");
    (report.tests, report.failures, report.errors) = (all.tests, all.failures, all.errors);
    before(&xml(&report)?, "</testsuites>")
}

/// The head of a suite with so many test cases.
///
/// # Errors
/// It cannot be made as XML.
pub fn suite_head(name: &str, tally: &Tally) -> Result<String, String> {
    let mut suite = TestSuite::new(name);
    (suite.tests, suite.failures, suite.errors) = (tally.tests, tally.failures, tally.errors);
    // Without a test case its head would end it, too.
    let case = TestCase::new("x", TestCaseStatus::success());
    suite.test_cases.push(case);
    before(&suite_text(suite)?, "<testcase name=\"x\"")
}

/// The lines before this end, which may stand in the last of them.
fn before(text: &str, end: &str) -> Result<String, String> {
    let at = text.rfind(end);
    let at = at.ok_or_else(|| format!("JUnit XML: `{end}` is missing"))?;
    Ok(text[..at].trim_end().to_string() + "\n")
}

/// The suite that fails if no positive control shows damage, which is counted; nothing otherwise.
///
/// # Errors
/// It cannot be made as XML.
pub fn blind(is_blind: bool, tally: &mut Tally) -> Result<String, String> {
    if !is_blind {
        return Ok(String::new());
    }
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message("no positive control shows damage: the explorer is blind");
    let mut suite = TestSuite::new("positive control");
    suite.add_test_case(TestCase::new(
        "a scheme without a journal shows damage",
        status,
    ));
    tally.tests += 1;
    tally.failures += 1;
    suite_text(suite)
}

fn suite_text(suite: TestSuite) -> Result<String, String> {
    let mut report = Report::new("x");
    report.test_suites.push(suite);
    let text = xml(&report)?;
    let text = text.splitn(3, '\n').nth(2);
    let text = text.and_then(|text| text.strip_suffix(END));
    text.map(String::from)
        .ok_or_else(|| "JUnit XML: a suite does not stand as expected".into())
}

fn xml(report: &Report) -> Result<String, String> {
    report.to_string().map_err(|e| format!("JUnit XML: {e}"))
}

fn test_case(case: &CaseReport) -> TestCase {
    let mut test = TestCase::new(
        match &case.scheduler {
            Some(scheduler) => format!("{:05} {scheduler}: {}", case.number, case.workload),
            None => format!("{:05} {}", case.number, case.workload),
        },
        status(case),
    );
    test.set_classname(format!("crash.{}.{}", case.device, case.class));
    let counts = &case.counts;
    let mut out = format!(
        "seed {}: {} judged, {} enumerated, {} deduplicated, {} pruned, {} beyond the bound, {} timed out",
        case.seed,
        counts.judged,
        counts.enumerated,
        counts.deduplicated,
        counts.pruned,
        counts.beyond,
        counts.timed_out
    );
    if case.control {
        out += &format!(
            "\npositive control: {} states show damage",
            counts.violations
        );
    }
    for lost in &case.not_kept {
        out += &format!("\nnot kept: {lost}");
    }
    test.set_system_out(out);
    test
}

fn status(case: &CaseReport) -> TestCaseStatus {
    let counts = &case.counts;
    let bad = |kind, message: String, text: String| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(message).set_description(text);
        status
    };
    if let Some(first) = case.findings.first().filter(|_| !case.control) {
        let all = case.findings.iter().map(finding).collect::<Vec<_>>();
        let n = counts.violations.max(case.findings.len() as u64);
        let message = format!(
            "{n} states violate a rule; the first: {}",
            first_words(first)
        );
        return bad(NonSuccessKind::Failure, message, all.join("\n\n"));
    }
    if counts.violations > 0 && !case.control {
        let message = format!("{} states violate a rule; none was kept", counts.violations);
        return bad(NonSuccessKind::Failure, message, case.not_kept.join("\n"));
    }
    if let Some(first) = case.failures.first() {
        let message = format!("the run failed: {first}");
        return bad(NonSuccessKind::Error, message, case.failures.join("\n"));
    }
    if counts.timed_out > 0 {
        let message = format!("{} judges hung or died", counts.timed_out);
        return bad(NonSuccessKind::Error, message, String::new());
    }
    TestCaseStatus::success()
}

fn first_words(finding: &FindingReport) -> &str {
    finding.violations.first().map_or("", String::as_str)
}

fn finding(finding: &FindingReport) -> String {
    let mut text = format!("state {}\n{}", finding.state, finding.violations.join("\n"));
    text += &format!("\nvarve crash --repro '{}'", finding.line);
    if let Some(shrunk) = &finding.shrunk {
        text += &format!("\nshrunk: varve crash --repro '{}'", shrunk.line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{campaign, parts};
    use super::*;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    #[test]
    fn it_is_well_formed_and_every_case_is_in_it() {
        let mut report = campaign();
        parts().into_iter().for_each(|part| report.enter(part));
        let text = junit(&report).unwrap();
        assert_eq!(text, junit(&report).unwrap());
        let mut reader = Reader::from_str(&text);
        let (mut cases, mut failures, mut errors) = (0, 0, 0);
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(e) | Event::Empty(e) => {
                    // Every attribute parses, and none tells a time.
                    for attribute in e.attributes() {
                        let attribute = attribute.unwrap();
                        assert!(!attribute.key.as_ref().starts_with(b"time"), "{text}");
                    }
                    match e.name().as_ref() {
                        b"testcase" => cases += 1,
                        b"failure" => failures += 1,
                        b"error" => errors += 1,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        assert_eq!((cases, failures, errors), (5, 3, 1), "{text}");
        for (_, finding) in report.findings() {
            assert!(text.contains(&finding.line), "{} in {text}", finding.line);
        }
        // Damage in a positive control is no failure; a control without damage is.
        report.cases.iter_mut().for_each(|c| c.control = true);
        assert!(!junit(&report).unwrap().contains("<failure"));
        report
            .cases
            .iter_mut()
            .for_each(|c| c.counts.violations = 0);
        assert!(junit(&report).unwrap().contains("the explorer is blind"));
        // A control character is no XML, not even escaped.
        assert!(!text.contains('\u{1}'));
    }
}
