//! The reports of a campaign, written case by case: none of them is ever whole in memory, so a
//! campaign may have any number of cases. Their bytes are those of [`CampaignReport::to_json`],
//! [`junit`](super::junit::junit) and [`page`](super::page::page).

use super::folder::{Content, Store};
use super::junit::{self, Tally};
use super::page::page_of;
use super::report::{CampaignReport, CaseReport};
use super::totals::{Ordered, Totals};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use tempfile::NamedTempFile;

/// How `results.json` goes on behind the list of cases.
const LIST: &str = "\"cases\": [";
/// A case stands so far inside of the list.
const INDENT: &str = "    ";

/// Reports that grow.
pub struct Stream {
    head: CampaignReport,
    totals: Totals,
    results: Growing,
    suites: Ordered<String, Suite>,
}

/// The test cases of one scheme.
#[derive(Default)]
struct Suite {
    tally: Tally,
    text: Option<Growing>,
}

/// A file that grows. Its first error is kept, and nothing is written behind it.
struct Growing {
    file: Result<BufWriter<NamedTempFile>, String>,
}

impl Growing {
    fn new(store: &dyn Store) -> Growing {
        let file = store.scratch().map_err(|e| e.to_string());
        Growing {
            file: file.map(BufWriter::new),
        }
    }

    fn add(&mut self, text: &str) {
        if let Ok(file) = &mut self.file
            && let Err(e) = file.write_all(text.as_bytes())
        {
            self.file = Err(e.to_string());
        }
    }

    fn fail(&mut self, why: String) {
        self.file = Err(why);
    }

    fn end(self) -> Result<NamedTempFile, String> {
        let file = self.file?.into_inner();
        file.map_err(|e| e.error().to_string())
    }
}

impl Stream {
    /// Begins with the head of a report; the files grow where the store has room for them.
    pub fn begin(head: CampaignReport, store: &dyn Store) -> Stream {
        let mut results = Growing::new(store);
        // All of the head but the end of its empty list of cases.
        let text = head.to_json();
        let begin = text.find(LIST).map(|at| &text[..at + LIST.len()]);
        match begin {
            Some(begin) => results.add(begin),
            None => results.fail("the head has no list of cases".into()),
        }
        Stream {
            head,
            totals: Totals::default(),
            results,
            suites: Ordered::default(),
        }
    }

    /// Adds the next case; cases come in the order of their numbers.
    pub fn add(&mut self, case: &CaseReport, store: &dyn Store) {
        let text = serde_json::to_string_pretty(case).expect("plain data serialises");
        let comma = if self.totals.all.cases > 0 { "," } else { "" };
        self.results.add(&format!("{comma}\n{}", indented(&text)));
        let suite = self.suites.at(case.scheme.clone());
        let file = suite.text.get_or_insert_with(|| Growing::new(store));
        match junit::one(case, &mut suite.tally) {
            Ok(text) => file.add(&text),
            Err(why) => file.fail(why),
        }
        self.totals.add(case);
    }

    /// Ends the reports and gives them their names: the sums, and what could not be written.
    pub fn end(mut self, store: &mut dyn Store) -> (Totals, Vec<String>) {
        let mut lost = Vec::new();
        if let Err(e) = store.folder("") {
            lost.push(format!("the folder of reports: {e}"));
        }
        let end = match self.totals.all.cases {
            0 => "]\n}\n",
            _ => "\n  ]\n}\n",
        };
        self.results.add(end);
        let results = self.results.end();
        let page = Content::Text(page_of(&self.head, &self.totals));
        let junit = junit_file(self.suites, &self.totals, store);
        let written = [
            ("results.json", take(store, "results.json", results)),
            ("junit.xml", take(store, "junit.xml", junit)),
            (
                "index.html",
                store.file("index.html", &page).map_err(|e| e.to_string()),
            ),
        ];
        for (name, written) in written {
            lost.extend(written.err().map(|why| format!("{name}: {why}")));
        }
        (self.totals, lost)
    }
}

fn take(
    store: &mut dyn Store,
    name: &str,
    part: Result<NamedTempFile, String>,
) -> Result<(), String> {
    match part {
        Ok(part) => store.take(name, part).map_err(|e| e.to_string()),
        Err(why) => {
            // One of an earlier report would stand beside the others of this one.
            store.remove(name);
            Err(why)
        }
    }
}

/// The suites one behind the other, below a head that counts their test cases.
fn junit_file(
    suites: Ordered<String, Suite>,
    totals: &Totals,
    store: &dyn Store,
) -> Result<NamedTempFile, String> {
    let mut all = Tally::default();
    suites.iter().for_each(|(_, suite)| all.merge(&suite.tally));
    let blind = junit::blind(totals.is_blind(), &mut all)?;
    let mut out = Growing::new(store);
    out.add(&junit::head(&all)?);
    for (scheme, suite) in suites.into_values() {
        out.add(&junit::suite_head(&scheme, &suite.tally)?);
        if let (Some(text), Ok(into)) = (suite.text, &mut out.file) {
            append(&mut text.end()?, into).map_err(|e| e.to_string())?;
        }
        out.add(junit::SUITE_END);
    }
    out.add(&(blind + junit::END));
    out.end()
}

fn append(part: &mut NamedTempFile, into: &mut impl Write) -> io::Result<()> {
    let file = part.as_file_mut();
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file.take(u64::MAX), into).map(drop)
}

/// Each line of a text of JSON, in which no string has the end of a line, further inside.
fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{INDENT}{line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::super::folder::Folder;
    use super::super::report::tests::{campaign, parts};
    use super::super::{junit, page};
    use super::*;

    #[test]
    fn what_is_written_case_by_case_has_the_bytes_of_the_whole() {
        let mut whole = campaign();
        parts().into_iter().for_each(|part| whole.enter(part));
        let mut control = whole.clone();
        control.cases.iter_mut().for_each(|case| {
            case.control = true;
            case.counts.violations = 0;
        });
        for report in [campaign(), whole, control] {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Folder(dir.path());
            let head = CampaignReport {
                cases: Vec::new(),
                ..report.clone()
            };
            let mut stream = Stream::begin(head, &store);
            for case in &report.cases {
                stream.add(case, &store);
            }
            let (totals, lost) = stream.end(&mut store);
            assert_eq!(lost, Vec::<String>::new());
            assert_eq!(totals.is_clean(), report.is_clean());
            let read = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!(read("results.json"), report.to_json());
            assert_eq!(read("junit.xml"), junit::junit(&report).unwrap());
            assert_eq!(read("index.html"), page::page(&report));
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        }
    }
}
