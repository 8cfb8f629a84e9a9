//! A judge for Git repositories: `git fsck --strict` is content with each, and every commit that
//! was acknowledged as `commit ID` is there and can be reached from a reference of one of them.
//!
//! A repository is a directory. The file `.git` of a linked working tree is none: it names the
//! repository, by a path that may lead out of the judged tree.

use super::folder::TreeFolder;
use super::process::{Heard, Patience, hear};
use super::{Answer, Check};
use crate::state::{JudgeError, Verdict};
use crate::tree::{Kind, Tree};
use base::plain::shown;
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
    ) -> Result<Answer, JudgeError> {
        let commits: Vec<&str> = (acknowledged.iter())
            .filter_map(|ack| ack.strip_prefix("commit "))
            .collect();
        let fault = self.fault(folder, &repositories(self.path.as_deref(), tree), commits)?;
        Ok(fault.map_or(Verdict::Good, Verdict::Bad).into())
    }
}

/// Whether references of a repository lead to commits.
enum Reached {
    All,
    /// There is no such commit, in the words of Git.
    Missing(String),
    /// Nothing leads to this one.
    Lost(String),
}

impl GitCheck {
    /// What is wrong with the repositories, or with the acknowledged commits.
    fn fault(
        &self,
        folder: &TreeFolder,
        repositories: &[Vec<u8>],
        mut commits: Vec<&str>,
    ) -> Result<Option<String>, JudgeError> {
        for path in repositories {
            let told = shown(path);
            let fsck = ["fsck", "--strict", "--no-dangling", "--no-progress"];
            let checked = self.git(folder, path, &fsck)?;
            if !checked.status.is_some_and(|status| status.success()) {
                return Ok(Some(format!("{told}: git fsck: {}", checked.words)));
            }
            let count = commits.len();
            match self.reached(folder, path, &commits)? {
                Reached::All => commits.clear(),
                // Which of several repositories has a commit is not known.
                _ if repositories.len() > 1 => self.take_reached(folder, path, &mut commits)?,
                Reached::Missing(why) => {
                    let why = format!("{told}: of {count} acknowledged commits: {why}");
                    return Ok(Some(why));
                }
                Reached::Lost(commit) => {
                    let why = format!("{told}: no reference leads to acknowledged commit {commit}");
                    return Ok(Some(why));
                }
            }
        }
        Ok(commits.first().map(|commit| match repositories.len() {
            0 => format!("commit {commit} was acknowledged, and there is no repository"),
            n => format!(
                "in none of {n} repositories a reference leads to acknowledged commit {commit}"
            ),
        }))
    }

    /// Takes out what the references of a repository lead to.
    fn take_reached(
        &self,
        folder: &TreeFolder,
        path: &[u8],
        commits: &mut Vec<&str>,
    ) -> Result<(), JudgeError> {
        let mut left = Vec::new();
        for &commit in commits.iter() {
            if !matches!(self.reached(folder, path, &[commit])?, Reached::All) {
                left.push(commit);
            }
        }
        *commits = left;
        Ok(())
    }

    fn reached(
        &self,
        folder: &TreeFolder,
        path: &[u8],
        commits: &[&str],
    ) -> Result<Reached, JudgeError> {
        if commits.is_empty() {
            return Ok(Reached::All);
        }
        let mut args = vec!["rev-list"];
        args.extend(commits);
        args.extend(["--not", "--all"]);
        let listed = self.git(folder, path, &args)?;
        let first = String::from(listed.words.lines().next().unwrap_or_default());
        Ok(match listed.status.is_some_and(|status| status.success()) {
            false => Reached::Missing(first),
            true if first.is_empty() => Reached::All,
            true => Reached::Lost(first),
        })
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

/// The repositories of a tree: the one at a path, or all.
pub(super) fn repositories(path: Option<&str>, tree: &Tree) -> Vec<Vec<u8>> {
    let is_dir = |path: &[u8]| {
        let node = tree.find(path).and_then(|id| tree.node(id));
        node.is_some_and(|node| node.kind == Kind::Dir)
    };
    if let Some(path) = path {
        let inner = format!("{path}/.git").into_bytes();
        let path = match is_dir(&inner) {
            true => inner,
            false => path.into(),
        };
        return Some(path).filter(|path| is_dir(path)).into_iter().collect();
    }
    let mut found = Vec::new();
    tree.walk(&mut |path, _, node| {
        let has = |name: &[u8]| node.names.contains_key(name);
        let is_one = path.ends_with(b".git") || (has(b"objects") && has(b"refs"));
        if is_one && node.kind == Kind::Dir {
            found.push(path.to_vec());
        }
    });
    found
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

    /// Makes a repository with one commit; how that is acknowledged.
    fn committed(folder: &Path, name: &str) -> String {
        run(folder, &["init", "-q", name]);
        let at = folder.join(name);
        fs::write(at.join("f"), name).unwrap();
        run(&at, &["add", "f"]);
        run(&at, &["commit", "-qm", name]);
        format!("commit {}", run(&at, &["rev-parse", "HEAD"]))
    }

    fn judged(all: &[(String, Vec<u8>)], acked: &[&str]) -> Verdict {
        let all: Vec<_> = all.iter().map(|(n, c)| (n.as_str(), &c[..])).collect();
        let env = Env::new();
        env.judge("git").judge(&tree_of(&all), acked).unwrap()
    }

    /// As after a branch that fell back: the commit is there, and nothing leads to it.
    fn fall_back(all: &mut Vec<(String, Vec<u8>)>, name: &str) {
        let heads = format!("{name}/.git/refs/heads/");
        all.retain(|(path, _)| !path.starts_with(&heads));
        all.push((heads, Vec::new()));
    }

    #[test]
    fn each_of_several_repositories_may_have_an_acknowledged_commit() {
        let folder = tempfile::tempdir().unwrap();
        let one = committed(folder.path(), "one");
        let two = committed(folder.path(), "two");
        let mut all = Vec::new();
        files(folder.path(), "", &mut all);
        assert_eq!(judged(&all, &[&one, &two]), Verdict::Good);
        for name in ["one", "two"] {
            let mut back = all.clone();
            fall_back(&mut back, name);
            let verdict = judged(&back, &[&one, &two]);
            let lost = if name == "one" { &one } else { &two };
            let lost = format!("leads to acknowledged {lost}");
            let told = matches!(&verdict, Verdict::Bad(why) if why.ends_with(&lost));
            assert!(told, "{verdict:?}");
        }
        let other = format!("commit {}", "1".repeat(40));
        assert_ne!(judged(&all, &[&one, &other]), Verdict::Good);
    }

    #[test]
    fn a_linked_working_tree_is_no_repository() {
        let folder = tempfile::tempdir().unwrap();
        let one = committed(folder.path(), "one");
        run(
            &folder.path().join("one"),
            &["worktree", "add", "-q", "../linked"],
        );
        let mut all = Vec::new();
        files(folder.path(), "", &mut all);
        // Its path leads nowhere in the judged tree.
        let link = all.iter_mut().find(|(path, _)| path == "linked/.git");
        link.unwrap().1 = b"gitdir: /nowhere/one/.git/worktrees/linked\n".to_vec();
        assert_eq!(judged(&all, &[&one]), Verdict::Good);
        all.retain(|(path, _)| !path.starts_with("one/"));
        let verdict = judged(&all, &[&one]);
        let told = matches!(&verdict, Verdict::Bad(why) if why.contains("no repository"));
        assert!(told, "{verdict:?}");
    }

    #[test]
    fn a_repository_is_whole_and_has_what_was_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let acked = committed(folder.path(), "r");
        let mut all = Vec::new();
        files(folder.path(), "", &mut all);
        assert_eq!(judged(&all, &[&acked]), Verdict::Good);
        let other = format!("commit {}", "1".repeat(40));
        assert_ne!(judged(&all, &[&acked, &other]), Verdict::Good);
        let mut back = all.clone();
        fall_back(&mut back, "r");
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
