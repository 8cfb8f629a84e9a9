//! JUnit XML, as continuous-integration servers read it: one suite for each scheme, one test case
//! for each case, and a suite that fails if no positive control shows damage. It holds no times, so
//! equal reports give equal bytes.

use super::report::{CampaignReport, CaseReport, FindingReport};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// The report as JUnit XML.
///
/// # Errors
/// The text cannot be made as XML.
pub fn junit(report: &CampaignReport) -> Result<String, String> {
    let mut out = Report::new("varve crash");
    for (scheme, cases) in report.groups(|case| case.scheme.clone()) {
        let mut suite = TestSuite::new(scheme);
        for case in cases {
            suite.add_test_case(test_case(case));
        }
        out.add_test_suite(suite);
    }
    if report.is_blind() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message("no positive control shows damage: the explorer is blind");
        let mut suite = TestSuite::new("positive control");
        suite.add_test_case(TestCase::new(
            "a scheme without a journal shows damage",
            status,
        ));
        out.add_test_suite(suite);
    }
    out.to_string().map_err(|e| format!("JUnit XML: {e}"))
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
