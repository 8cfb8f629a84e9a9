//! What judges: what options name, or what fits the files that the command has left.

use crate::args::CrashArgs;
use crate::failure::{Failure, usage};
use ::program::apply::complete;
use ::program::call::Recording;
use ::program::judge::{JudgeSpec, Settings, build};
use ::program::state::{Verdict, acknowledged};
use ::program::tree::{Kind, Node};

/// How a database of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The judges that options name.
pub fn given(args: &CrashArgs) -> Result<Vec<JudgeSpec>, Failure> {
    let mut specs: Vec<JudgeSpec> = Vec::new();
    specs.extend(args.program.check.clone().map(JudgeSpec::Command));
    specs.extend(args.program.check_server.clone().map(JudgeSpec::Server));
    for text in &args.judge {
        specs.push(JudgeSpec::parse(text).map_err(usage)?);
    }
    Ok(specs)
}

/// Judges for the files that are there at the end: those that are content with the trees before and
/// after the run.
pub fn fitting(recording: &Recording, settings: &Settings) -> Vec<JudgeSpec> {
    let after = complete(recording);
    let mut texts: Vec<&str> = Vec::new();
    after.walk(&mut |path, _, node| {
        let text = kind_of(path, node);
        texts.extend(text.filter(|text| !texts.contains(text)));
    });
    let specs = texts.iter().filter_map(|text| JudgeSpec::parse(text).ok());
    let told = acknowledged(recording, recording.calls.len());
    let content = |spec: &JudgeSpec| {
        let judge = build(std::slice::from_ref(spec), recording, settings);
        judge.is_ok_and(|mut judge| {
            let mut good =
                |tree, told: &[&str]| matches!(judge.judge(tree, told), Ok(Verdict::Good));
            good(&recording.start, &[]) && good(&after, &told)
        })
    };
    specs.filter(content).collect()
}

/// The judge of a file, if there is one.
fn kind_of(path: &[u8], node: &Node) -> Option<&'static str> {
    let ends = |end: &str| path.ends_with(end.as_bytes());
    match node.kind {
        Kind::Dir if path == b".git" => Some("git"),
        Kind::File if node.read(0, SQLITE.len() as u64) == SQLITE => Some("sqlite"),
        Kind::File if ends(".json") => Some("parse=json"),
        Kind::File if ends(".toml") => Some("parse=toml"),
        _ => None,
    }
}
