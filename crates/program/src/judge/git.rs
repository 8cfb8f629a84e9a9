//! A judge for Git repositories: `git fsck --strict` is content, and every commit that was
//! acknowledged as `commit ID` is there and can be reached from a reference.

use super::Check;
use super::folder::TreeFolder;
use super::process::{Heard, Patience, hear};
use crate::state::{JudgeError, Verdict};
use crate::tree::{Kind, Tree};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// The judge.
pub struct GitCheck {
    /// The one repository; without it all that the tree has.
    pub path: Option<String>,
    /// How long one call of Git may take.
    pub patience: Patience,
}

impl Check for GitCheck {
    fn check(
        &mut self,
        folder: &TreeFolder,
        tree: &Tree,
        acknowledged: &[&str],
    ) -> Result<Verdict, JudgeError> {
        let commits: Vec<&str> = (acknowledged.iter())
            .filter_map(|ack| ack.strip_prefix("commit "))
            .collect();
        let repositories = self.repositories(tree);
        if let (Some(commit), true) = (commits.first(), repositories.is_empty()) {
            let why = format!("commit {commit} was acknowledged, and there is no repository");
            return Ok(Verdict::Bad(why));
        }
        for path in &repositories {
            let told = String::from_utf8_lossy(path).into_owned();
            let fsck = ["fsck", "--strict", "--no-dangling", "--no-progress"];
            let checked = self.git(folder, path, &fsck)?;
            if !checked.status.is_some_and(|status| status.success()) {
                return Ok(Verdict::Bad(format!("{told}: git fsck: {}", checked.words)));
            }
            // With several repositories it is not known which of them has the commit.
            if commits.is_empty() || repositories.len() > 1 {
                continue;
            }
            let mut args = vec!["rev-list"];
            args.extend(&commits);
            args.extend(["--not", "--all"]);
            let listed = self.git(folder, path, &args)?;
            let first = listed.words.lines().next().unwrap_or_default();
            if !listed.status.is_some_and(|status| status.success()) {
                let why = format!("{told}: of {} acknowledged commits: {first}", commits.len());
                return Ok(Verdict::Bad(why));
            }
            if !first.is_empty() {
                let why = format!("{told}: no reference leads to acknowledged commit {first}");
                return Ok(Verdict::Bad(why));
            }
        }
        Ok(Verdict::Good)
    }
}

impl GitCheck {
    fn repositories(&self, tree: &Tree) -> Vec<Vec<u8>> {
        let is_dir = |path: &[u8]| {
            let node = tree.find(path).and_then(|id| tree.node(id));
            node.is_some_and(|node| node.kind == Kind::Dir)
        };
        if let Some(path) = &self.path {
            let inner = format!("{path}/.git").into_bytes();
            let path = match is_dir(&inner) {
                true => inner,
                false => path.clone().into_bytes(),
            };
            return Some(path).filter(|path| is_dir(path)).into_iter().collect();
        }
        let mut found = Vec::new();
        tree.walk(&mut |path, _, node| {
            let has = |name: &[u8]| node.names.contains_key(name);
            if path.ends_with(b".git") || (has(b"objects") && has(b"refs")) {
                found.push(path.to_vec());
            }
        });
        found
    }

    fn git(&self, folder: &TreeFolder, path: &[u8], args: &[&str]) -> Result<Heard, JudgeError> {
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*", "--git-dir"]);
        git.arg(folder.path().join(OsStr::from_bytes(path)));
        git.args(args);
        // The judgement must not depend on who runs it.
        git.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("LC_ALL", "C"),
        ]);
        let heard = hear(&mut git, &self.patience)?;
        match heard.status {
            Some(_) => Ok(heard),
            None => Err(super::command::too_long("git", self.patience.timeout)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Env, tree_of};
    use super::*;
    use std::fs;
    use std::path::Path;

    fn run(dir: &Path, args: &[&str]) -> String {
        let user = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ];
        let mut git = Command::new("git");
        let output = git.current_dir(dir).args(user).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    }

    fn files(dir: &Path, path: &str, into: &mut Vec<(String, Vec<u8>)>) {
        #[allow(clippy::disallowed_methods)] // The tree sorts them.
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{path}{}", entry.file_name().to_str().unwrap());
            match entry.metadata().unwrap().is_dir() {
                true => files(&entry.path(), &format!("{path}/"), into),
                false => into.push((path, fs::read(entry.path()).unwrap())),
            }
        }
    }

    #[test]
    fn a_repository_is_whole_and_has_what_was_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["init", "-q", "r"]);
        let at = folder.path().join("r");
        fs::write(at.join("f"), "one").unwrap();
        run(&at, &["add", "f"]);
        run(&at, &["commit", "-qm", "one"]);
        let acked = format!("commit {}", run(&at, &["rev-parse", "HEAD"]));
        let mut all = Vec::new();
        files(folder.path(), "", &mut all);
        let judged = |all: &[(String, Vec<u8>)], acked: &[&str]| {
            let all: Vec<_> = all.iter().map(|(n, c)| (n.as_str(), &c[..])).collect();
            Env::new()
                .judge("git")
                .judge(&tree_of(&all), acked)
                .unwrap()
        };
        assert_eq!(judged(&all, &[&acked]), Verdict::Good);
        let other = format!("commit {}", "1".repeat(40));
        assert_ne!(judged(&all, &[&acked, &other]), Verdict::Good);
        // A branch that fell back: the commit is there, and nothing leads to it.
        let mut back = all.clone();
        back.retain(|(path, _)| !path.starts_with("r/.git/refs/heads/"));
        back.push(("r/.git/refs/heads/".into(), Vec::new()));
        let verdict = judged(&back, &[&acked]);
        assert!(
            matches!(&verdict, Verdict::Bad(why) if why.contains("no reference")),
            "{verdict:?}"
        );
        // An object whose content was lost.
        let object = all.iter_mut().find(|(path, _)| path.contains("/objects/"));
        object.unwrap().1.clear();
        let verdict = judged(&all, &[]);
        assert!(
            matches!(&verdict, Verdict::Bad(why) if why.contains("git fsck")),
            "{verdict:?}"
        );
        assert_ne!(judged(&[], &[&acked]), Verdict::Good);
    }
}
