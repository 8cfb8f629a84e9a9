//! A job of a campaign: one job of `compare`, `crash` or `paper`, as its worker gets it.
//!
//! Its id is a hash of the program's identity and of all that its result depends on, so equal ids
//! have equal results. Files that a job names count by their content.

use super::share;
use super::store::sum;
use crate::failure::{Failure, failed};
use crate::paper::worker::AnyJob;
use crate::worker;
use crash::part::Part;
use crash::plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fs;
use std::path::{Path, PathBuf};

/// The text of a job, kept as it is, because its bytes give its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// A [`worker::Job`].
    Compare(Box<RawValue>),
    /// A [`plan::Job`].
    Crash(Box<RawValue>),
    /// An [`AnyJob`].
    Paper(Box<RawValue>),
    /// A [`share::Job`]: a share of a `crash --dir`.
    Program(Box<RawValue>),
}

/// A file that a job reads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// Checksum of its content.
    pub sum: String,
    /// It is the profile of a device: its text is enough, and no other program reads the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
}

/// Of a [`worker::Done`], what the checker says.
#[derive(Deserialize)]
struct Checkup {
    checker: String,
    checked: worker::Checked,
}

fn raw(job: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(job).expect("plain data serialises")
}

impl Task {
    /// A run of `compare`.
    pub fn compare(job: &worker::Job) -> Task {
        Task::Compare(raw(job))
    }

    /// A case of `crash`.
    pub fn crash(job: &plan::Job) -> Task {
        Task::Crash(raw(job))
    }

    /// A job of a paper.
    pub fn paper(job: &AnyJob) -> Task {
        Task::Paper(raw(job))
    }

    /// A share of the states of a recording.
    pub fn program(job: &share::Job) -> Task {
        Task::Program(raw(job))
    }

    /// Which part of its case it is, where a case was cut.
    pub fn part(&self) -> Option<Part> {
        match self {
            // Most jobs are none, and to read one takes longer than to look for the word.
            Task::Crash(text) if text.get().contains("\"part\":") => {
                let job: Option<plan::Job> = serde_json::from_str(text.get()).ok();
                job.and_then(|job| job.part)
            }
            _ => None,
        }
    }

    /// The text for its worker.
    pub fn text(&self) -> &RawValue {
        match self {
            Task::Compare(text) | Task::Crash(text) | Task::Paper(text) | Task::Program(text) => {
                text
            }
        }
    }

    /// The files that the job names, as they are.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn inputs(&self) -> Result<Vec<Input>, Failure> {
        let value: Value = serde_json::from_str(self.text().get()).map_err(failed)?;
        let mut paths = Vec::new();
        named(&value, &mut paths);
        paths.sort();
        paths.dedup();
        paths.into_iter().map(Input::read).collect()
    }

    /// The id: 32 hexadecimal digits.
    ///
    /// # Errors
    /// The text is no job.
    pub fn id(&self, build: &str, inputs: &[Input]) -> Result<String, Failure> {
        let (kind, text) = match self {
            Task::Compare(text) => ("compare", text.get().to_string()),
            Task::Paper(text) => ("paper", text.get().to_string()),
            Task::Program(text) => ("program", text.get().to_string()),
            // Neither its number nor its group changes what is found.
            Task::Crash(text) => {
                let job: plan::Job = serde_json::from_str(text.get()).map_err(failed)?;
                let text = match job.part {
                    None => serde_json::to_string(&(&job.case, &job.reach)),
                    Some(part) => serde_json::to_string(&(&job.case, &job.reach, part)),
                };
                ("crash", text.expect("plain data serialises"))
            }
        };
        let sums: Vec<&str> = inputs.iter().map(|input| input.sum.as_str()).collect();
        let all = [kind, build, &sums.join(","), &text].join("\n");
        Ok(sum(all.as_bytes())[..32].into())
    }

    /// What it is called in messages.
    pub fn name(&self) -> String {
        let text = self.text().get();
        match self {
            Task::Compare(_) => {
                serde_json::from_str(text).map_or(text.into(), |job: worker::Job| {
                    let (stack, config) = (&job.config.stack, &job.config);
                    format!(
                        "{}/{} on {}, seed {}, {}",
                        stack.fs,
                        stack.scheme_text(),
                        stack.device,
                        config.seed,
                        config.workload
                    )
                })
            }
            Task::Crash(_) => {
                serde_json::from_str(text).map_or(text.into(), |job: plan::Job| match job.part {
                    None => job.case.to_string(),
                    Some(part) => format!("{part} of {}", job.case),
                })
            }
            Task::Paper(_) => text.into(),
            Task::Program(_) => {
                serde_json::from_str(text).map_or(text.into(), |job: share::Job| {
                    let (share, shares) = (job.share + 1, job.shares);
                    format!("share {share} of {shares} of {}", job.recording.display())
                })
            }
        }
    }

    /// Whether this text is a result that any host would get.
    ///
    /// # Errors
    /// A checker is not installed here, so a part of the result is missing.
    pub fn whole(&self, result: &str) -> Result<(), String> {
        let missing = |checker: &str| {
            format!(
                "`{checker}` is not installed here, so the result lacks its check and is not kept; install e2fsprogs and f2fs-tools"
            )
        };
        match self {
            Task::Compare(_) => {
                let done: Result<Checkup, _> = serde_json::from_str(result);
                let done = done.map_err(|e| format!("the worker's result: {e}"))?;
                match done.checked == worker::Checked::NotInstalled {
                    true => Err(missing(&done.checker)),
                    false => Ok(()),
                }
            }
            Task::Paper(_) if result.contains("\"varve-fsck\"") => Err(missing("e2fsck")),
            Task::Paper(_) | Task::Crash(_) | Task::Program(_) => Ok(()),
        }
    }
}

impl Input {
    fn read((path, profile): (PathBuf, bool)) -> Result<Input, Failure> {
        let sum = content(&path)?;
        Ok(Input { path, sum, profile })
    }

    /// Checks that the file is the one that was planned with.
    ///
    /// # Errors
    /// It is another, or cannot be read.
    pub fn check(&self) -> Result<(), Failure> {
        let name = self.path.display();
        match content(&self.path)? == self.sum {
            true => Ok(()),
            false => Err(failed(format!(
                "{name} is not the file that the plan was made with; bring that one back, or plan anew"
            ))),
        }
    }
}

fn content(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
    Ok(sum(&bytes))
}

/// The files in a job: recordings, devices of a file, what judges name. `true` stands beside
/// profiles of devices.
fn named(value: &Value, paths: &mut Vec<(PathBuf, bool)>) {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(String::from).collect()
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value.as_str()) {
                    ("recording", Some(path)) => paths.push((path.into(), false)),
                    ("files", None) => {
                        paths.extend(texts(value).into_iter().map(|path| (path.into(), false)));
                    }
                    ("device", Some(device)) => paths.extend(profile(device)),
                    ("words", None) => {
                        let words = texts(value);
                        let devices = args_of("--device", &words);
                        paths.extend(devices.filter_map(profile));
                    }
                    _ => named(value, paths),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, paths)),
        _ => {}
    }
}

/// The values of an option in a command line.
fn args_of<'a>(option: &'a str, words: &'a [String]) -> impl Iterator<Item = &'a str> {
    words.iter().enumerate().filter_map(move |(n, word)| {
        match word.strip_prefix(option)?.strip_prefix('=') {
            Some(value) => Some(value),
            None if word == option => words.get(n + 1).map(String::as_str),
            None => None,
        }
    })
}

/// The file of a device string, where it names one.
fn profile(device: &str) -> Option<(PathBuf, bool)> {
    rig::Profile::file_of(device).map(|file| (file.into(), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(number: usize, group: &str, seed: u64) -> Task {
        let text = format!(
            r#"{{"number":{number},"group":"{group}","case":{{"scheme":"jbd2","device":"spec:emmc","workload":"mix","seed":{seed},"mutant":null}},"reach":{},"control":false}}"#,
            serde_json::to_string(&crash::campaign::Reach::default()).unwrap()
        );
        Task::Crash(RawValue::from_string(text).unwrap())
    }

    #[test]
    fn an_id_is_of_the_program_and_the_case_and_not_of_its_place() {
        let id = |task: &Task, build| task.id(build, &[]).unwrap();
        let one = id(&case(0, "ace:1", 3), "b");
        assert_eq!(one, id(&case(7, "ace:2", 3), "b"));
        assert_ne!(one, id(&case(0, "ace:1", 4), "b"));
        assert_ne!(one, id(&case(0, "ace:1", 3), "c"));
        let input = Input {
            path: "x".into(),
            sum: "1".into(),
            profile: false,
        };
        assert_ne!(one, case(0, "ace:1", 3).id("b", &[input]).unwrap());
    }

    #[test]
    fn files_count_by_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("card.toml");
        fs::write(&file, "a").unwrap();
        let text = serde_json::json!({"config": {"stack": {"device": format!("{},x=1", file.display())}, "recording": null}});
        let task = Task::Compare(raw(&text));
        let before = task.inputs().unwrap();
        assert_eq!(before[0].path, file);
        fs::write(&file, "b").unwrap();
        assert_ne!(task.inputs().unwrap(), before);
        let why = before[0].check().unwrap_err().to_string();
        assert!(why.contains("card.toml is not the file"), "{why}");
    }

    #[test]
    fn a_device_is_a_file_wherever_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = dir.path().join(name);
            fs::write(&file, name).unwrap();
            file.display().to_string()
        };
        let (card, bare, check) = (file("card.toml"), file("bare"), file("check.toml"));
        let profiles = |job: serde_json::Value| {
            let inputs = Task::Crash(raw(&job)).inputs().unwrap().into_iter();
            let name = |input: Input| (input.path.display().to_string(), input.profile);
            inputs.map(name).collect::<Vec<_>>()
        };
        // A path needs no ending, and a list of options has devices, too.
        let job = serde_json::json!({"case": {"device": bare}});
        assert_eq!(profiles(job), [(bare, true)]);
        for words in [
            vec!["--device".into(), card.clone()],
            vec![format!("--device={card}")],
        ] {
            let job = serde_json::json!({"words": words, "files": [check]});
            assert_eq!(
                profiles(job),
                [(card.clone(), true), (check.clone(), false)]
            );
        }
        let job = serde_json::json!({"device": "spec:emmc", "words": ["--device", "nand"]});
        assert_eq!(profiles(job), []);
    }

    #[test]
    fn a_result_without_its_check_is_no_result() {
        let run = Task::Compare(raw(&0));
        let said =
            |word: &str| run.whole(&format!(r#"{{"checker":"e2fsck -fn","checked":{word}}}"#));
        assert!(said(r#""clean""#).is_ok() && said(r#"{"findings":"x"}"#).is_ok());
        let why = said(r#""not-installed""#).unwrap_err();
        assert!(why.contains("`e2fsck -fn` is not installed"), "{why}");
        let paper = Task::Paper(raw(&0));
        assert!(paper.whole(r#"{"checker":"e2fsck"}"#).is_ok());
        let why = paper.whole(r#"{"checker":"varve-fsck"}"#).unwrap_err();
        assert!(why.contains("install e2fsprogs"), "{why}");
    }
}
